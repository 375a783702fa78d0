# SPDX-License-Identifier: Apache-2.0
"""A real control plane without nodes that run anything (etcd, kube-apiserver, and what a test asks for of kube-scheduler and
kube-controller-manager), with dray's scheduler and controllers as processes beside it; nodes and devices exist in the API alone."""
import glob, http.client, json, os, shutil, signal, ssl, subprocess, tempfile, threading, time

from common import peers, skip
from real_cluster import SCRIPTS, until

DRA_CONTROLLERS = ('resourceclaim-controller', 'device-taint-eviction-controller', 'podgroup-protection-controller',
                   'resourcepoolstatusrequest-controller')
NEWER_CONTROLLERS = ('podgroup-protection-controller', 'resourcepoolstatusrequest-controller')
WITHOUT_DRA = '*,-node-lifecycle-controller,' + ','.join('-' + n for n in DRA_CONTROLLERS)
ALL = '*,-node-lifecycle-controller'


def programs():
    top = os.path.join(peers(), 'bin')
    folders = [p for p in glob.glob(os.path.join(top, 'v1.*')) if os.path.exists(os.path.join(p, 'kube-apiserver'))]
    folders.sort(key=lambda p: [int(n) for n in os.path.basename(p)[1:].split('.')])
    if not folders or not os.path.exists(os.path.join(top, 'etcd')):
        skip('a real control plane (no etcd or kube-apiserver in ' + top + ')')
    return os.path.join(top, os.environ['KUBERNETES']) if 'KUBERNETES' in os.environ else folders[-1]


class Plane:
    """extra: more flags of kube-apiserver; features: 'all' or 'default' gates."""

    def __init__(self, extra='', features='all', apf=False):
        self.top = tempfile.mkdtemp(prefix='dp-')
        self.run = os.path.join(self.top, 'c')
        self.port = int(os.environ.get('PORTBASE', '17840'))
        self.token = f'admin-token-{self.port}'
        programs_of = programs()
        self.minor = int(os.path.basename(programs_of).split('.')[1])
        # Gates, flags and controllers that the scripts know are those of 1.36 and later.
        self.old = self.minor < 36
        self.env = dict(os.environ, PEERS=peers(), K8S_BIN=programs_of, RUN=self.run, PORTBASE=str(self.port),
                        FEATURES='default' if self.old else features, TUNED='0' if self.old else '1',
                        APISERVER_EXTRA=extra, APF='true' if apf else 'false')
        self.kubeconfig = os.path.join(self.run, 'admin.kubeconfig')
        self.children = []
        self.local = threading.local()
        try:
            self.start('etcd apiserver')
            self.tls = ssl.create_default_context(cafile=os.path.join(self.run, 'ca.crt'))
        except BaseException:
            self.done()
            raise

    def start(self, names, controllers=ALL):
        if self.old:
            controllers = ','.join(n for n in controllers.split(',') if n.lstrip('-') not in NEWER_CONTROLLERS)
        with open(os.path.join(self.top, 'up.log'), 'ab') as log:
            run = subprocess.run([os.path.join(SCRIPTS, 'up')], env=dict(self.env, ONLY=names, CONTROLLERS=controllers), stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL, timeout=300)
        assert run.returncode == 0, open(log.name).read()

    def pid(self, name):
        return int(open(os.path.join(self.run, name + '.pid')).read())

    def stop(self, name, how=signal.SIGTERM):
        pid = self.pid(name)
        os.kill(pid, how)
        until('the end of ' + name, lambda: not os.path.exists(f'/proc/{pid}') or open(f'/proc/{pid}/stat').read().split()[2] == 'Z', 60)
        os.unlink(os.path.join(self.run, name + '.pid'))

    # --- Requests ---

    def call(self, method, path, body=None, missing=False, content='application/json', token=None):
        for attempt in range(3):
            c = getattr(self.local, 'c', None)
            if not c:
                c = self.local.c = http.client.HTTPSConnection('127.0.0.1', self.port + 3, timeout=60, context=self.tls)
            try:
                c.request(method, path, json.dumps(body) if body is not None else None,
                          {'Content-Type': content, 'Authorization': f'Bearer {token or self.token}'})
                answer = c.getresponse()
                data = json.loads(answer.read())
                break
            except (OSError, http.client.HTTPException):
                self.local.c = None
                if attempt == 2:
                    raise
        if missing and answer.status == 404:
            return None
        assert answer.status < 300, (method, path, data)
        return data

    def pods(self, namespace='default'):
        return {p['metadata']['name']: p for p in self.call('GET', f'/api/v1/namespaces/{namespace}/pods')['items']}

    def claims(self):
        return self.call('GET', '/apis/resource.k8s.io/v1/resourceclaims')['items']

    # --- What there is ---

    def ready(self):
        """Namespaces have their service account: pods can be made."""
        until('the default service account', lambda: self.call('GET', '/api/v1/namespaces/default/serviceaccounts/default', missing=True))

    def nodes(self, count, devices=8, driver='gpu.example.com', parameters=None):
        for i in range(count):
            name = f'n{i}'
            self.call('POST', '/api/v1/nodes', {'metadata': {'name': name, 'labels': {'kubernetes.io/hostname': name}}})
            self.call('PATCH', f'/api/v1/nodes/{name}/status', {'status': {
                'allocatable': {'cpu': '64', 'memory': '256Gi', 'pods': '500'}, 'capacity': {'cpu': '64', 'memory': '256Gi', 'pods': '500'},
                'conditions': [{'type': 'Ready', 'status': 'True'}]}}, content='application/merge-patch+json')
            self.call('PATCH', f'/api/v1/nodes/{name}', {'spec': {'taints': None}}, content='application/merge-patch+json')
            self.call('POST', '/apis/resource.k8s.io/v1/resourceslices', {
                'metadata': {'name': f's-{name}'}, 'spec': {
                    'driver': driver, 'nodeName': name, 'pool': {'name': name, 'generation': 1, 'resourceSliceCount': 1},
                    'devices': [{'name': f'd{d}', 'attributes': {'kind': {'string': 'gpu'}}} for d in range(devices)]}})
        spec = {'selectors': [{'cel': {'expression': f'device.driver == "{driver}"'}}]}
        if parameters:
            spec['config'] = [{'opaque': {'driver': driver, 'parameters': parameters}}]
        self.call('POST', '/apis/resource.k8s.io/v1/deviceclasses', {'metadata': {'name': 'gpu'}, 'spec': spec})
        self.call('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates', {
            'metadata': {'name': 'one'}, 'spec': {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}}})

    def pod(self, name, scheduler='dray', claim=None, template='one'):
        entry = {'name': 'g', 'resourceClaimName': claim} if claim else {'name': 'g', 'resourceClaimTemplateName': template}
        return self.call('POST', '/api/v1/namespaces/default/pods', {
            'metadata': {'name': name},
            'spec': {'schedulerName': scheduler, 'terminationGracePeriodSeconds': 0, 'resourceClaims': [entry],
                     'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'g'}]}}]}})

    def bound(self, names, seconds=90):
        names = set(names)
        def all_there():
            have = self.pods()
            return all(n in have and have[n]['spec'].get('nodeName') for n in names) and have
        return until('all pods bound', all_there, seconds)

    def check(self):
        """No device is given twice; every bound pod has its claims allocated and reserved, on its node. Returns devices in use."""
        claims = {c['metadata']['name']: c for c in self.claims()}
        used = {}
        for name, claim in claims.items():
            for r in claim.get('status', {}).get('allocation', {}).get('devices', {}).get('results', []):
                key = (r['driver'], r['pool'], r['device'])
                assert key not in used, f'{key} is given to {used[key]} and {name}'
                used[key] = name
        for pod in self.pods().values():
            node = pod['spec'].get('nodeName')
            if not node:
                continue
            for entry in pod['spec']['resourceClaims']:
                name = entry.get('resourceClaimName') or next(s['resourceClaimName'] for s in pod['status']['resourceClaimStatuses']
                                                              if s['name'] == entry['name'])
                status = claims[name].get('status', {})
                assert any(u['uid'] == pod['metadata']['uid'] for u in status.get('reservedFor', [])), (pod['metadata']['name'], 'not reserved', status)
                assert all(r['pool'] == node for r in status['allocation']['devices']['results']), (pod['metadata']['name'], node, status)
        return used

    def clear(self):
        self.call('DELETE', '/api/v1/namespaces/default/pods?gracePeriodSeconds=0')
        until('no pods', lambda: not self.pods())

    # --- dray's part ---

    def dray(self, program, verb, *flags, kubeconfig=None):
        """Starts a part; returns it with .port of its metrics."""
        log = os.path.join(self.top, f'{verb}-{len(self.children)}.log')
        with open(log, 'ab') as f:
            child = subprocess.Popen([program, verb, '--kubeconfig', kubeconfig or self.kubeconfig, '--bind-address', '127.0.0.1:0', *flags],
                                     stderr=f, stdout=f, stdin=subprocess.DEVNULL)
        child.log = log
        self.children.append(child)
        line = until(f'{verb} listens', lambda: next((l for l in open(log) if 'health and metrics' in l), None) or child.poll() is not None)
        assert child.poll() is None, open(log).read()
        child.http = json.loads(line)['port']
        return child

    def metric(self, child, name):
        """The sum of a metric's rows whose text starts with name."""
        c = http.client.HTTPConnection('127.0.0.1', child.http, timeout=30)
        c.request('GET', '/metrics')
        rows = c.getresponse().read().decode().splitlines()
        return sum(float(r.rsplit(' ', 1)[1]) for r in rows if r.startswith(name))

    def end(self, child, how=signal.SIGTERM):
        child.send_signal(how)
        code = child.wait(timeout=60)
        assert how == signal.SIGKILL or code == 0, (code, open(child.log).read())

    def done(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        subprocess.run([os.path.join(SCRIPTS, 'down')], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if not os.environ.get('KEEP'):
            shutil.rmtree(self.top, ignore_errors=True)

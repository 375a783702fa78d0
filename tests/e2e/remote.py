#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scheduler and the controllers as processes of their own, on dray's server: pods are scheduled, one of two leads, the other takes over,
both stop cleanly, and wrong settings are told with their place."""
import http.client, json, os, re, select, shutil, signal, socket, subprocess, sys, tempfile, threading, time

DEADLINE = 60


def until(what, check):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError('never came: ' + what)


class World:
    def __init__(self, dray):
        self.dray, self.top = os.path.abspath(dray), tempfile.mkdtemp(prefix='dr-')
        self.data = os.path.join(self.top, 'd')
        self.log = open(os.path.join(self.top, 'log'), 'w')
        self.server = subprocess.Popen([self.dray, 'server', '--data-dir', self.data, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert 'ready at' in self.server.stdout.readline()
        self.parts = []

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection('localhost', timeout=30)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(os.path.join(self.data, 'dray.sock'))
        c.request(method, path, json.dumps(body) if body else None, {'Content-Type': 'application/json'})
        answer = c.getresponse()
        data = json.loads(answer.read())
        assert answer.status < 300, (path, data)
        return data

    def part(self, verb, *flags, kubeconfig=None):
        path = os.path.join(self.top, f'{verb}{len(self.parts)}.log')
        with open(path, 'w') as f:
            p = subprocess.Popen([self.dray, verb, '--kubeconfig', kubeconfig or os.path.join(self.data, 'admin.kubeconfig'), '--bind-address', '127.0.0.1:0', *flags], stderr=f)
        p.path = path
        self.parts.append(p)
        line = until(verb + ' listens', lambda: next((l for l in open(path) if 'health and metrics' in l), None))
        p.port = json.loads(line)['port']
        return p

    def get(self, part, path):
        c = http.client.HTTPConnection('127.0.0.1', part.port, timeout=30)
        c.request('GET', path)
        answer = c.getresponse()
        return answer.status, answer.read().decode()

    def leads(self, part):
        return 'leader_election_master_status{name="dray-%s"} 1' % ('scheduler' if 'scheduler' in part.path else 'controllers') in self.get(part, '/metrics')[1]

    def setup(self):
        self.call('POST', '/api/v1/nodes', {'metadata': {'name': 'n'}, 'status': {'allocatable': {'cpu': '8', 'memory': '8Gi', 'pods': '50'}}})
        self.call('POST', '/apis/resource.k8s.io/v1/resourceslices', {'metadata': {'name': 's'}, 'spec': {
            'driver': 'd', 'nodeName': 'n', 'pool': {'name': 'n', 'generation': 1, 'resourceSliceCount': 1}, 'devices': [{'name': f'd{i}'} for i in range(4)]}})
        self.call('POST', '/apis/resource.k8s.io/v1/deviceclasses', {'metadata': {'name': 'c'}, 'spec': {}})
        self.call('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates', {'metadata': {'name': 't'}, 'spec': {'spec': {'devices': {
            'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'c'}}]}}}})

    def pod(self, name, scheduler='dray'):
        self.call('POST', '/api/v1/namespaces/default/pods', {'metadata': {'name': name}, 'spec': {
            'schedulerName': scheduler, 'containers': [{'name': 'c', 'image': 'i'}], 'resourceClaims': [{'name': 'g', 'resourceClaimTemplateName': 't'}]}})

    def bound(self, name):
        until(name + ' is bound', lambda: self.call('GET', '/api/v1/namespaces/default/pods/' + name)['spec'].get('nodeName'))

    def end(self, part):
        part.send_signal(signal.SIGTERM)
        assert part.wait(timeout=DEADLINE) == 0, open(part.path).read()

    def done(self):
        for p in [*self.parts, self.server]:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.server.stdout.close()
        self.log.close()
        shutil.rmtree(self.top, ignore_errors=True)


def settings(w):
    path = os.path.join(w.top, 'config.yaml')
    for text, want in (('scheduler-name: [a, 1]\n', 'scheduler-name[1]: must be a text'), ('leader-elect: maybe\n', 'leader-elect: must be true or false'),
                       ('nonsense: 1\n', 'nonsense: there is no such setting'), ('feature-gates: {A: 1}\n', 'feature-gates.A: must be true or false'),
                       ('leader-elect-lease-duration: 1s\n', 'greater than the renew deadline'), ('leader-elect-retry-period: soon\n', 'not a duration')):
        with open(path, 'w') as f:
            f.write(text)
        out = subprocess.run([w.dray, 'scheduler', '--config', path], capture_output=True, text=True, check=False)
        assert out.returncode == 2 and want in out.stderr, (text, out.stderr)
    out = subprocess.run([w.dray, 'controllers', '--controllers', '*,-nobody'], capture_output=True, text=True, check=False)
    assert out.returncode == 2 and "no controller '-nobody'" in out.stderr, out.stderr


class Connect:
    """An HTTP proxy that knows CONNECT and nothing else."""

    def __init__(self):
        self.listener, self.asked = socket.create_server(('127.0.0.1', 0)), []
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        head = b''
        while b'\r\n\r\n' not in head:
            head += near.recv(4096)
        method, where, _ = head.decode().split(' ', 2)
        assert method == 'CONNECT', head
        self.asked.append(where)
        host, port = where.rsplit(':', 1)
        far = socket.create_connection((host, int(port)))
        near.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
        try:
            while True:
                for one in select.select([near, far], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    (far if one is near else near).sendall(data)
        except OSError:
            pass
        finally:
            near.close()
            far.close()


def proxied(w):
    """Through a proxy, with a token in a file that is replaced when the old one is worth nothing any more."""
    def token(pod):
        bound = w.call('POST', '/api/v1/namespaces/default/pods', {'metadata': {'name': pod}, 'spec': {
            'schedulerName': 'nobody', 'serviceAccountName': 'p', 'containers': [{'name': 'c', 'image': 'i'}]}})
        return w.call('POST', '/api/v1/namespaces/default/serviceaccounts/p/token', {'spec': {'boundObjectRef': {
            'apiVersion': 'v1', 'kind': 'Pod', 'name': pod, 'uid': bound['metadata']['uid']}}})['status']['token']
    w.call('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'p'}})
    w.call('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        'metadata': {'name': 'p'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'},
        'subjects': [{'kind': 'ServiceAccount', 'namespace': 'default', 'name': 'p'}]})
    proxy, path, file = Connect(), os.path.join(w.top, 'proxy.kubeconfig'), os.path.join(w.top, 'token')
    admin = open(os.path.join(w.data, 'admin.kubeconfig')).read()
    server, = re.findall(r'server: "?(https://[^"\s]+)', admin)
    ca, = re.findall(r'certificate-authority-data: "?([A-Za-z0-9+/=]+)', admin)
    with open(path, 'w') as f:
        json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'x', 'contexts': [{'name': 'x', 'context': {'cluster': 'c', 'user': 'u'}}],
                   'clusters': [{'name': 'c', 'cluster': {'server': server, 'certificate-authority-data': ca, 'proxy-url': f'http://127.0.0.1:{proxy.port}'}}],
                   'users': [{'name': 'u', 'user': {'tokenFile': file}}]}, f)

    def give(text):
        with open(file + '.new', 'w') as f:
            f.write(text)
        os.rename(file + '.new', file)
    give(token('old'))
    part = w.part('scheduler', '--scheduler-name', 'behind', '--leader-elect=false', kubeconfig=path)
    w.pod('d', 'behind')
    w.bound('d')
    assert proxy.asked and all(a == server[len('https://'):] for a in proxy.asked), proxy.asked
    give(token('new'))
    w.call('DELETE', '/api/v1/namespaces/default/pods/old?gracePeriodSeconds=0')
    w.call('DELETE', '/api/v1/namespaces/default/pods/d?gracePeriodSeconds=0')
    w.pod('e', 'behind')
    w.bound('e')
    refused = [l for l in w.get(part, '/metrics')[1].splitlines() if l.startswith('rest_client_requests_total{code="401"')]
    assert refused, 'the old token was never refused'
    w.end(part)
    proxy.listener.close()


def define(w, group):
    w.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {'metadata': {'name': f'things.{group}'}, 'spec': {
        'group': group, 'scope': 'Namespaced', 'names': {'plural': 'things', 'kind': 'Thing'},
        'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {'type': 'object'}}}]}})


def collected(w):
    """The garbage of kinds that users added, by a collector that may not list all of them."""
    things = '/apis/may.io/v1/namespaces/default/things'

    def thing(name, owners=()):
        o = w.call('POST', things, {'apiVersion': 'may.io/v1', 'kind': 'Thing', 'metadata': {'name': name, 'ownerReferences': list(owners)}})
        return {'apiVersion': 'may.io/v1', 'kind': 'Thing', 'name': name, 'uid': o['metadata']['uid'], 'blockOwnerDeletion': True}

    def config_map(name, owner):
        w.call('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'name': name, 'ownerReferences': [owner]}})

    def names(path):
        return {o['metadata']['name']: o['metadata'] for o in w.call('GET', path)['items']}
    define(w, 'may.io')
    define(w, 'may-not.io')
    w.call('POST', '/apis/rbac.authorization.k8s.io/v1/clusterroles', {'metadata': {'name': 'collector'}, 'rules': [
        {'apiGroups': ['', 'may.io', 'later.io', 'apiextensions.k8s.io', 'coordination.k8s.io', 'resource.k8s.io', 'apps'], 'resources': ['*'], 'verbs': ['*']}]})
    w.call('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        'metadata': {'name': 'collector'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'collector'},
        'subjects': [{'kind': 'ServiceAccount', 'namespace': 'default', 'name': 'collector'}]})
    w.call('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'collector'}})
    token = w.call('POST', '/api/v1/namespaces/default/serviceaccounts/collector/token', {'spec': {}})['status']['token']
    admin = open(os.path.join(w.data, 'admin.kubeconfig')).read()
    path = os.path.join(w.top, 'collector.kubeconfig')
    with open(path, 'w') as f:
        json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'x', 'contexts': [{'name': 'x', 'context': {'cluster': 'c', 'user': 'u'}}],
                   'clusters': [{'name': 'c', 'cluster': {'server': re.findall(r'server: "?(https://[^"\s]+)', admin)[0],
                                                          'certificate-authority-data': re.findall(r'certificate-authority-data: "?([A-Za-z0-9+/=]+)', admin)[0]}}],
                   'users': [{'name': 'u', 'user': {'token': token}}]}, f)
    part = w.part('controllers', '--controllers', 'garbage-collector-controller', '--leader-elect=false', kubeconfig=path)
    top, kept = thing('top'), thing('kept')
    thing('middle', [top])
    config_map('leaf', top)
    config_map('stays', kept)
    w.call('DELETE', things + '/top', {'propagationPolicy': 'Foreground'})
    until('the owner and what it owned are gone', lambda: set(names(things)) == {'kept'})
    assert 'leaf' not in names('/api/v1/namespaces/default/configmaps')
    w.call('DELETE', things + '/kept', {'propagationPolicy': 'Orphan'})
    until('the owner is gone', lambda: not names(things))
    assert 'ownerReferences' not in names('/api/v1/namespaces/default/configmaps')['stays']
    config_map('of-a-definition', thing('last'))
    w.call('DELETE', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.may.io')
    until('what an object of a definition that is gone owned is gone', lambda: 'of-a-definition' not in names('/api/v1/namespaces/default/configmaps'))
    w.end(part)


def main():
    w = World(sys.argv[1])
    try:
        settings(w)
        w.setup()
        config = os.path.join(w.top, 'good.yaml')
        with open(config, 'w') as f:
            f.write('scheduler-name: [dray, other]\nleader-elect-retry-period: 400ms\nlog-format: json\nfeature-gates: {DRAListTypeAttributes: true}\n')
        ctl = w.part('controllers')
        first = w.part('scheduler', '--config', config)
        until('the first leads', lambda: w.leads(first))
        second = w.part('scheduler', '--config', config)
        until('the second is ready', lambda: w.get(second, '/readyz')[0] == 200)
        assert w.get(second, '/healthz') == (200, 'ok') and w.get(second, '/livez')[0] == 200 and w.get(second, '/nothing')[0] == 404
        assert not w.leads(second)
        w.pod('a')
        w.bound('a')
        first.kill()
        first.wait()
        w.pod('b')
        w.bound('b')
        assert w.leads(second)
        third = w.part('scheduler', '--config', config)
        until('the third is ready', lambda: w.get(third, '/readyz')[0] == 200)
        w.end(second)  # lets go of the lease
        w.pod('c')
        w.bound('c')
        lease = w.call('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/dray-scheduler')['spec']
        assert lease['leaseTransitions'] >= 2 and lease['holderIdentity'], lease
        used = [r['device'] for c in w.call('GET', '/apis/resource.k8s.io/v1/resourceclaims')['items'] for r in c['status']['allocation']['devices']['results']]
        assert len(used) == len(set(used)) == 3, used
        out = subprocess.run([w.dray, 'why', 'pod/c', '--kubeconfig', os.path.join(w.data, 'admin.kubeconfig')], capture_output=True, text=True, check=False)
        assert out.returncode == 1 and 'is bound to n and does not run' in out.stdout, (out.stdout, out.stderr)  # no kubelet is there
        for file in (os.path.join(w.data, 'admin.kubeconfig'), shutil.copy(os.path.join(w.data, 'admin.kubeconfig'), w.top)):
            out = subprocess.run([w.dray, 'why', 'pod/c'], env=dict(os.environ, KUBECONFIG=file), capture_output=True, text=True, check=False)
            assert out.returncode == 1 and 'is bound to n and does not run' in out.stdout, (file, out.stdout, out.stderr)
        out = subprocess.run([w.dray, 'plan', '--all', '--kubeconfig', os.path.join(w.data, 'admin.kubeconfig')], capture_output=True, text=True, check=False)
        assert out.returncode == 0 and 'default/c' in out.stdout, (out.stdout, out.stderr)
        w.end(third)
        proxied(w)
        collected(w)
        w.end(ctl)
    finally:
        w.done()
    print('ok: scheduler and controllers as processes')


if __name__ == '__main__':
    main()

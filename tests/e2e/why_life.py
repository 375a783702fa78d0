#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray why` on pods that have their node and do not run. A kubelet of this script plays two nodes: what it reports follows from the pod's own
fields, so that a remedy, carried out by `dray why --fix`, makes the pod run. Usage: why_life.py DRAY [CASE...] [-v]"""
import json, os, re, shutil, subprocess, sys, tempfile, threading, time

from up import Cluster, DRAY, HERE

VERBOSE = '-v' in sys.argv
MERGE = 'application/merge-patch+json'
PODS = '/api/v1/namespaces/default/pods'
IMAGES = {'registry.example/app:1', 'registry.example/app:2'}
PRESENT = {'registry.example/app:1'}


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


class Kubelet(threading.Thread):
    """Reports what a kubelet would of pods on its nodes."""

    def __init__(self, c, nodes):
        super().__init__(daemon=True)
        self.c, self.nodes, self.over, self.seen, self.evicted = c, nodes, False, {}, set()
        self.silent = set()
        for n in nodes:
            c.good('POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {
                'name': n, 'labels': {'kubernetes.io/hostname': n, 'life': 'yes'}}})
            self.beat(n)

    def beat(self, n):
        ready = n not in self.silent
        conditions = [{'type': 'Ready', 'status': 'True' if ready else 'Unknown', 'lastHeartbeatTime': now(), 'lastTransitionTime': now(),
                       'reason': 'KubeletReady' if ready else 'NodeStatusUnknown',
                       'message': 'kubelet is posting ready status' if ready else 'Kubelet stopped posting node status.'}]
        amounts = {'cpu': '8', 'memory': '16Gi', 'pods': '50', 'ephemeral-storage': '10Gi'}
        self.c.call('PATCH', f'/api/v1/nodes/{n}/status', {'status': {'conditions': conditions, 'allocatable': amounts, 'capacity': amounts}},
                    'application/strategic-merge-patch+json')
        lease = {'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': {'name': n, 'namespace': 'kube-node-lease'},
                 'spec': {'holderIdentity': n, 'leaseDurationSeconds': 40, 'renewTime': time.strftime('%Y-%m-%dT%H:%M:%S.000000Z', time.gmtime())}}
        where = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases'
        if ready and self.c.call('PATCH', f'{where}/{n}', {'spec': lease['spec']}, MERGE)[0] == 404:
            self.c.call('POST', where, lease)

    def event(self, p, reason, message):
        m = p['metadata']
        self.c.call('POST', '/api/v1/namespaces/default/events', {
            'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'generateName': m['name'] + '.', 'namespace': 'default'}, 'type': 'Warning',
            'reason': reason, 'message': message, 'firstTimestamp': now(), 'lastTimestamp': now(), 'count': 1,
            'involvedObject': {'apiVersion': 'v1', 'kind': 'Pod', 'name': m['name'], 'namespace': 'default', 'uid': m['uid']}})

    def has(self, kind, name, key=None):
        code, o = self.c.call('GET', f'/api/v1/namespaces/default/{kind}/{name}')
        return code == 200 and (key is None or key in o.get('data', {}))

    def container(self, p, k):
        """(state, last state, event) of a container, or None when it runs."""
        wait = lambda reason, message: ({'waiting': {'reason': reason, 'message': message}}, None)
        image = k['image']
        if image != image.lower():
            return wait('InvalidImageName', f'couldn\'t parse image name "{image}": invalid reference format'), None
        if image not in PRESENT and k.get('imagePullPolicy') == 'Never':
            return wait('ErrImageNeverPull', f'Container image "{image}" is not present with pull policy of Never'), None
        if image not in IMAGES:
            return wait('ImagePullBackOff', f'Back-off pulling image "{image}"'), ('Failed', f'Failed to pull image "{image}": not found')
        for e in k.get('env', []):
            for member, kind in (('configMapKeyRef', 'configmaps'), ('secretKeyRef', 'secrets')):
                ref = e.get('valueFrom', {}).get(member)
                if ref and not self.has(kind, ref['name']):
                    return wait('CreateContainerConfigError', f'{kind[:-1]} "{ref["name"]}" not found'), None
                if ref and not self.has(kind, ref['name'], ref['key']):
                    return wait('CreateContainerConfigError', f"couldn't find key {ref['key']} in default/{ref['name']}"), None
        security = k.get('securityContext', {})
        if security.get('runAsNonRoot') and 'runAsUser' not in security:
            return wait('CreateContainerConfigError', 'container has runAsNonRoot and image will run as root'), None
        command = k.get('command', ['app'])[0]
        if command == 'nosuch':
            return wait('RunContainerError', 'exec: "nosuch": executable file not found in $PATH'), None
        code, reason = {'false': (1, 'Error'), 'true': (0, 'Completed')}.get(command, (None, None))
        limit = k.get('resources', {}).get('limits', {}).get('memory', '1Gi')
        if limit in ('8Mi', '16Mi', '32Mi'):
            code, reason = 137, 'OOMKilled'
        event = None
        for probe in ('livenessProbe', 'startupProbe'):
            port = k.get(probe, {}).get('httpGet', {}).get('port')
            if port and port not in [x['containerPort'] for x in k.get('ports', [])]:
                code, reason = 137, 'Error'
                event = ('Unhealthy', f'{"Liveness" if probe[0] == "l" else "Startup"} probe failed: dial tcp 10.0.0.1:{port}: connection refused')
        if code is None:
            return None, None
        ended = {'terminated': {'exitCode': code, 'reason': reason, 'startedAt': now(), 'finishedAt': now()}}
        policy = p['spec'].get('restartPolicy', 'Always')
        if policy == 'Never' or (policy == 'OnFailure' and code == 0):
            return (ended, None), event
        return ({'waiting': {'reason': 'CrashLoopBackOff', 'message': 'back-off 10s restarting failed container'}}, ended), event

    def status(self, p):
        spec, status = p['spec'], {'phase': 'Pending'}
        if p['metadata']['labels'].get('evict') and p['metadata']['name'] not in self.evicted:
            self.evicted.add(p['metadata']['name'])
            return {'phase': 'Failed', 'reason': 'Evicted', 'message': 'The node was low on resource: memory.'}, []
        if 0 < spec.get('activeDeadlineSeconds', 0) < 5:
            return {'phase': 'Failed', 'reason': 'DeadlineExceeded', 'message': 'Pod was active on the node longer than the deadline'}, []
        creating = {'waiting': {'reason': 'ContainerCreating'}}
        for e in spec.get('resourceClaims', []):
            claim = self.c.good('GET', f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{e['resourceClaimName']}")
            if claim['spec']['devices'].get('config'):
                status['containerStatuses'] = [self.line(k, creating) for k in spec['containers']]
                return status, [('FailedPrepareDynamicResources', 'Failed to prepare dynamic resources: driver net.example.com: unknown parameter speed')]
        for v in spec.get('volumes', []):
            for member, kind, field in (('configMap', 'configmaps', 'name'), ('secret', 'secrets', 'secretName')):
                if member in v and not self.has(kind, v[member][field]):
                    status['containerStatuses'] = [self.line(k, creating) for k in spec['containers']]
                    return status, [('FailedMount', f'MountVolume.SetUp failed for volume "{v["name"]}": {kind[:-1]} "{v[member][field]}" not found')]
        events = []
        for list_name, to in (('initContainers', 'initContainerStatuses'), ('containers', 'containerStatuses')):
            for k in spec.get(list_name, []):
                state, event = self.container(p, k)
                events += [event] if event else []
                init_done = {'terminated': {'exitCode': 0, 'reason': 'Completed'}}
                status.setdefault(to, []).append(self.line(k, *(state or ((init_done if to[0] == 'i' else {'running': {'startedAt': now()}}), None))))
            if list_name == 'initContainers' and any('waiting' in s['state'] for s in status.get(to, [])):
                status['containerStatuses'] = [self.line(k, {'waiting': {'reason': 'PodInitializing'}}) for k in spec['containers']]
                return status, events
        states = [s['state'] for s in status['containerStatuses']]
        ready = all('running' in s for s in states)
        for k, s in zip(spec['containers'], status['containerStatuses']):
            port = k.get('readinessProbe', {}).get('httpGet', {}).get('port')
            if port and port not in [x['containerPort'] for x in k.get('ports', [])]:
                ready = s['ready'] = False
                events.append(('Unhealthy', f'Readiness probe failed: Get "http://10.0.0.1:{port}/": connection refused'))
        gates = [g['conditionType'] for g in spec.get('readinessGates', [])]
        set_ = {x['type'] for x in p.get('status', {}).get('conditions', []) if x['status'] == 'True'}
        whole = ready and all(g in set_ for g in gates)
        status['conditions'] = [{'type': 'Ready', 'status': 'True' if whole else 'False', 'lastTransitionTime': now()}]
        ended = [s['terminated'] for s in states if 'terminated' in s]
        status['phase'] = 'Running' if len(ended) < len(states) else 'Succeeded' if all(t['exitCode'] == 0 for t in ended) else 'Failed'
        return status, events

    def line(self, k, state, last=None):
        return {'name': k['name'], 'image': k['image'], 'imageID': '', 'ready': 'running' in state, 'started': 'running' in state,
                'restartCount': 3 if last else 0, 'state': state, 'lastState': last or {}}

    def look(self):
        for p in self.c.good('GET', PODS)['items']:
            if p['spec'].get('nodeName') not in self.nodes or p['spec']['nodeName'] in self.silent:
                continue
            m = p['metadata']
            if m.get('deletionTimestamp'):
                if not m.get('finalizers'):
                    self.c.call('DELETE', f"{PODS}/{m['name']}", {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'gracePeriodSeconds': 0})
                continue
            if p['status'].get('phase') in ('Failed', 'Succeeded'):
                continue
            status, events = self.status(p)
            digest = re.sub(r'\d{4}-\d\d-\d\dT[\d:]+Z', '', json.dumps([m['uid'], status, events]))
            if self.seen.get(m['name']) == digest:
                continue
            self.seen[m['name']] = digest
            self.c.call('PATCH', f"{PODS}/{m['name']}/status", {'status': status}, 'application/strategic-merge-patch+json')
            for e in events:
                self.event(p, *e)

    def run(self):
        last = 0
        while not self.over:
            if time.monotonic() - last > 5:
                for n in self.nodes:
                    self.beat(n)
                last = time.monotonic()
            self.look()
            time.sleep(0.1)


# --- Cases ----------------------------------------------------------------------------------------

def pod(labels=None, finalizers=None, containers=None, claims=None, **spec):
    main = dict({'name': 'main', 'image': 'registry.example/app:1'}, **(containers or {}))
    meta = {'name': 'app', 'labels': dict({'app': 'app'}, **(labels or {}))}
    if finalizers:
        meta['finalizers'] = finalizers
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': meta,
            'spec': dict({'containers': [main], 'nodeSelector': {'life': 'yes'}, 'terminationGracePeriodSeconds': 1}, **spec)}


def env(kind, name, key):
    return {'env': [{'name': 'X', 'valueFrom': {kind: {'name': name, 'key': key}}}]}


PROBE = {'httpGet': {'path': '/', 'port': 9090}}
PORT = [{'containerPort': 8080}]
MAP = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'settings'}, 'data': {'mode': 'fast'}}
NEIGHBOUR = dict(pod(), metadata={'name': 'neighbour', 'labels': {'app': 'neighbour'}})
CLAIM = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': 'link'}, 'spec': {'devices': {
    'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'net.example.com'}}],
    'config': [{'opaque': {'driver': 'net.example.com', 'parameters': {'apiVersion': 'a/v1', 'kind': 'C', 'speed': 'x'}}}]}}}

# name, objects besides the pod, the pod, words of the first line, whether the best remedy makes it run, what is done meanwhile
CASES = [
    ('image', [NEIGHBOUR], pod(containers={'image': 'registry.example/ap:1'}), 'image registry.example/ap:1 .*cannot be pulled', True),
    ('image-unknown', [], pod(containers={'image': 'elsewhere.example/x:1'}), 'elsewhere.example/x:1 .*cannot be pulled', 'image'),
    ('image-never', [], pod(containers={'image': 'registry.example/app:2', 'imagePullPolicy': 'Never'}), 'ErrImageNeverPull', True),
    ('image-name', [], pod(containers={'image': 'registry.example/App:1'}), 'invalid name', 'image'),
    ('config-volume', [], pod(volumes=[{'name': 'v', 'configMap': {'name': 'missing'}}]), 'ConfigMap missing does not exist', True),
    ('config-typo', [MAP], pod(volumes=[{'name': 'v', 'configMap': {'name': 'setings'}}]), 'ConfigMap setings does not exist', True),
    ('config-env', [], pod(containers=env('configMapKeyRef', 'missing', 'mode')), 'ConfigMap missing does not exist', True),
    ('config-key', [MAP], pod(containers=env('configMapKeyRef', 'settings', 'mod')), 'ConfigMap settings has no key mod', True),
    ('secret-env', [], pod(containers=env('secretKeyRef', 'token', 'value')), 'Secret token does not exist', True),
    ('secret-volume', [], pod(volumes=[{'name': 'v', 'secret': {'secretName': 'token'}}]), 'Secret token does not exist', True),
    ('crash', [], pod(containers={'command': ['false']}), 'exit code 1', 'command'),
    ('completes', [], pod(containers={'command': ['true']}), 'exit code 0', True),
    ('no-program', [], pod(containers={'command': ['nosuch']}), 'executable file not found', 'command'),
    ('memory', [], pod(containers={'resources': {'limits': {'memory': '32Mi'}}}), 'OOMKilled', True),
    ('readiness', [], pod(containers={'ports': PORT, 'readinessProbe': PROBE}), 'not ready: Readiness probe failed', True),
    ('liveness', [], pod(containers={'ports': PORT, 'livenessProbe': PROBE}), 'probe: Liveness probe failed', True),
    ('root', [], pod(containers={'securityContext': {'runAsNonRoot': True}}), 'runAsNonRoot', True),
    ('init', [], pod(initContainers=[{'name': 'first', 'image': 'registry.example/app:1', 'resources': {'limits': {'memory': '32Mi'}}}]),
     'init container first was killed', True),
    ('evicted', [], pod(labels={'evict': 'yes'}), 'was evicted', True),
    ('deadline', [], pod(activeDeadlineSeconds=2), 'activeDeadlineSeconds', True),
    ('failed', [], pod(restartPolicy='Never', containers={'command': ['false']}), 'exit code 1', 'command'),
    ('prepare', [CLAIM], pod(resourceClaims=[{'name': 'c', 'resourceClaimName': 'link'}],
                             containers={'resources': {'claims': [{'name': 'c'}]}}), 'not prepared.*unknown parameter', True),
    ('gate', [], pod(readinessGates=[{'conditionType': 'example.com/ready'}]), 'readiness gate example.com/ready', 'gate'),
    ('finalizer', [], pod(finalizers=['example.com/hold']), 'finalizer example.com/hold', 'gone'),
    ('node', [], pod(), 'node life-. is not ready', 'node'),
]


def why(c, *args):
    return subprocess.run([DRAY, 'why', 'app', '--data-dir', c.folder, *args], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


def runs(c):
    code, p = c.call('GET', f'{PODS}/app')
    if code != 200 or p['metadata'].get('deletionTimestamp'):
        return False
    ready = [x for x in p['status'].get('conditions', []) if x['type'] == 'Ready']
    return p['status'].get('phase') == 'Succeeded' or (p['status'].get('phase') == 'Running' and ready and ready[0]['status'] == 'True')


def create(c, o):
    group = '/api/v1' if o['apiVersion'] == 'v1' else '/apis/' + o['apiVersion']
    code, answer = c.call('POST', f"{group}/namespaces/default/{o['kind'].lower()}s", o)
    assert code < 300, answer


def clean(c, kubelet):
    for kind in (PODS, '/api/v1/namespaces/default/configmaps', '/api/v1/namespaces/default/secrets',
                 '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims', '/api/v1/namespaces/default/events'):
        for o in c.good('GET', kind)['items']:
            name = o['metadata']['name']
            if name == 'kube-root-ca.crt':
                continue
            if o['metadata'].get('finalizers') and kind == PODS:
                c.call('PATCH', f'{kind}/{name}', {'metadata': {'finalizers': None}}, MERGE)
            c.call('DELETE', f'{kind}/{name}?gracePeriodSeconds=0')
    c.until('no pod is left', lambda: not c.good('GET', PODS)['items'])
    for n in kubelet.silent:
        kubelet.silent = set()
        kubelet.beat(n)
        c.call('PATCH', f'/api/v1/nodes/{n}', {'spec': {'taints': None}}, MERGE)


def stuck(c, kubelet, name):
    p = c.good('GET', f'{PODS}/app')
    if not p['spec'].get('nodeName'):
        return False
    if name == 'finalizer':
        if not p['metadata'].get('deletionTimestamp'):
            c.call('DELETE', f'{PODS}/app')
        return bool(p['metadata'].get('deletionTimestamp'))
    if name == 'node':
        if not kubelet.silent:
            kubelet.silent = {p['spec']['nodeName']}
            kubelet.beat(p['spec']['nodeName'])
            c.call('PATCH', f'{PODS}/app/status', {'status': {'conditions': [{'type': 'Ready', 'status': 'False'}]}},
                   'application/strategic-merge-patch+json')
        return True
    return p['status'].get('phase') in ('Running', 'Failed') or p['status'].get('containerStatuses')


def remedy(c, goal):
    if goal == 'gate':
        return None  # its controller's matter; the answer says so
    if goal in ('image', 'command'):  # only the owner knows: what the answer tells to correct is corrected
        p = c.good('GET', f'{PODS}/app')
        p['spec']['containers'][0]['image'] = 'registry.example/app:1'
        p['spec']['containers'][0].pop('command', None)
        c.call('DELETE', f'{PODS}/app?gracePeriodSeconds=0')
        c.until('the pod is gone', lambda: c.call('GET', f'{PODS}/app')[0] == 404)
        create(c, {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'app', 'labels': {'app': 'app'}},
                   'spec': {k: v for k, v in p['spec'].items() if k != 'nodeName'}})
    else:
        r = why(c, '--fix', '1', '--yes')
        if r.returncode:
            return f'--fix 1: {r.stdout}{r.stderr}'
    try:
        if goal == 'gone':
            c.until('the pod is gone', lambda: c.call('GET', f'{PODS}/app')[0] == 404, 15)
        else:
            c.until('the pod runs', lambda: runs(c), 15)
    except AssertionError as e:
        return str(e)
    return None


def run(c, kubelet, case):
    name, objects, app, words, goal = case
    clean(c, kubelet)
    for o in objects:
        create(c, o)
    create(c, app)
    c.until(f'{name}: it is stuck', lambda: stuck(c, kubelet, name), 20)
    c.until(f'{name}: it does not run', lambda: why(c).returncode == 1 and not runs(c), 20)
    time.sleep(0.5)  # events
    text = why(c)
    data = json.loads(why(c, '-o', 'json').stdout)
    first = text.stdout.splitlines()[0] if text.stdout else ''
    cause = bool(re.search(words, first)) and data['cause'] in first and text.returncode == 1
    failure = remedy(c, goal) if data['remedies'] else 'there is no remedy'
    good = cause and not failure
    if VERBOSE or not good:
        print(f"--- {name}: cause {'ok' if cause else 'WRONG, want ' + words}, remedy {failure or 'ok'}\n{text.stdout}{text.stderr}")
    return cause, failure is None


def main():
    names = [a for a in sys.argv[2:] if not a.startswith('-')]
    top = tempfile.mkdtemp(prefix='dray-life-')
    c = Cluster(os.path.join(top, 'data'), '--nodes', '1', '--sim', os.path.join(HERE, 'tests', 'why', 'worlds', 'cpu-only.yaml'))
    try:
        c.call('POST', '/apis/resource.k8s.io/v1/deviceclasses', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {
            'name': 'net.example.com'}, 'spec': {}})
        c.good('POST', '/apis/resource.k8s.io/v1/resourceslices', {
            'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 'life-net'}, 'spec': {
                'driver': 'net.example.com', 'nodeName': 'life-0', 'pool': {'name': 'net', 'generation': 1, 'resourceSliceCount': 1},
                'devices': [{'name': 'net-0'}, {'name': 'net-1'}]}})
        kubelet = Kubelet(c, ['life-0', 'life-1'])
        kubelet.start()
        results = [run(c, kubelet, x) for x in CASES if not names or x[0] in names]
        kubelet.over = True
        kubelet.join()
    finally:
        c.stop()
        shutil.rmtree(top, ignore_errors=True)
    good = [sum(r[i] for r in results) for i in (0, 1)]
    print(f'{len(results)} pods with a node: cause right in {good[0]}, best remedy works in {good[1]}')
    assert good[0] == len(results) and good[1] * 10 >= len(results) * 9, good


if __name__ == '__main__':
    main()

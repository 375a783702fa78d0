#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests: objects and patches as large as the API accepts, of many kinds and every patch type, hold the loop of the API server for a bounded time.
dray_loop_longest_turn_seconds must stay below a bound after each, and so must a burst of TLS handshakes and a check of all caches. Usage: loop_turns.py DRAY"""
import json, socket, ssl, sys, threading, time
from kit import DRA, DRAY, TLS, Cluster, until

SANITIZED = b'__asan_init' in open(DRAY, 'rb').read()
# A turn takes at most 50 ms on a quiet machine. Here it is judged by the processor time of the loop's thread, which other work on the same core still slows down.
BOUND_S = 3.0 if SANITIZED else 0.1
NS = '/namespaces/default'
PODS, MAPS = '/api/v1' + NS + '/pods', '/api/v1' + NS + '/configmaps'
CLAIMS, DEPLOYMENTS = DRA + NS + '/resourceclaims', '/apis/apps/v1' + NS + '/deployments'
STRATEGIC, MERGE, JSON, APPLY = (f'application/{k}' for k in ('strategic-merge-patch+json', 'merge-patch+json', 'json-patch+json', 'apply-patch+yaml'))


def pod(name='p', **spec):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}], **spec}}


def claim(expressions, requests=32):
    """Selectors are spread over requests of 32 at the most."""
    per = [expressions[i::requests] for i in range(requests)]
    return {'metadata': {'name': 'c'}, 'spec': {'devices': {'requests': [
        {'name': f'r{i}', 'exactly': {'deviceClassName': 'c', 'selectors': [{'cel': {'expression': e}} for e in some]}} for i, some in enumerate(per) if some]}}}


def env(n, start=0):
    return [{'name': f'E{i}', 'value': 'v'} for i in range(start, start + n)]


def with_env(n, start=0):
    return pod(containers=[{'name': 'c', 'image': 'i', 'env': env(n, start)}])


def crd(rules):
    schema = {'type': 'object', 'properties': {'spec': {'type': 'object', 'x-kubernetes-validations': [{'rule': r} for r in rules],
                                                        'properties': {'a': {'type': 'string', 'maxLength': 10}}}}}
    return {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': 'things.example.com'},
            'spec': {'group': 'example.com', 'scope': 'Namespaced', 'names': {'plural': 'things', 'singular': 'thing', 'kind': 'Thing'},
                     'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': schema}}]}}


# --- What is sent --------------------------------------------------------------------------------

def expressions():
    literal = lambda i, n: f'"{i}".matches("{"ab" * n}[a-z]{i}")'
    yield 'claim, 1024 patterns of 1 KB', CLAIMS, claim([literal(i, 500) for i in range(1024)])
    yield 'claim, 300 patterns of 4 KB', CLAIMS, claim([literal(i, 2000) for i in range(300)])
    yield 'claim, 1024 large classes', CLAIMS, claim([f'"a".matches("({i}[^a-z]{{100}}){{9}}")' for i in range(1024)])
    yield 'claim, 1024 folded classes', CLAIMS, claim([f'"a".matches("(?i)(\\\\p{{L}}{{30}}{i})")' for i in range(1024)])
    yield 'claim, 1024 repeats', CLAIMS, claim([f'"a".matches("((a{{30}}){{30}}{i})")' for i in range(1024)])
    yield 'claim, one pattern 1024 times', CLAIMS, claim(['"a".matches("([^a-z]{100}){9}")'] * 1024)
    many = ' || '.join(f'"a".matches("[^a-z]{{{i}}}")' for i in range(100, 350))
    yield 'claim, 250 patterns in each of 32 expressions', CLAIMS, claim([many + f' || {i} == 1' for i in range(32)])
    yield 'claim, 300 sums of 10 KB', CLAIMS, claim(['+'.join(['1'] * 4500) + f' == {i}' for i in range(300)])
    yield 'claim, 300 lists of 10 KB', CLAIMS, claim([f'{i} in [' + ','.join(['1'] * 4500) + ']' for i in range(300)])
    yield 'claim, 1024 short', CLAIMS, claim([f'device.attributes["d.io"].a == {i}' for i in range(1024)])
    yield 'crd, 500 rules with patterns', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd([f'self.a.matches("([^a-z]{{{i % 100}}}){{9}}{i}")' for i in range(500)])
    yield 'crd, 2000 rules', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd([f'self.a != "{i}"' for i in range(2000)])
    yield 'class, 32 patterns', DRA + '/deviceclasses', {'metadata': {'name': 'k'}, 'spec': {'selectors': [{'cel': {'expression': f'"a".matches("(([^a-z]{{30}}){{30}}{i})")'}} for i in range(32)]}}


def large_objects():
    yield 'pod, 30000 env', PODS, with_env(30000)
    yield 'pod, 10000 containers', PODS, pod(containers=[{'name': f'c{i}', 'image': 'i'} for i in range(10000)])
    yield 'pod, 10000 volumes', PODS, pod(volumes=[{'name': f'v{i}', 'emptyDir': {}} for i in range(10000)])
    mounts = [{'name': f'v{i}', 'mountPath': f'/m{i}'} for i in range(8000)]
    yield 'pod, 8000 mounts of 8000 volumes', PODS, pod(volumes=[{'name': f'v{i}', 'emptyDir': {}} for i in range(8000)],
                                                        containers=[{'name': 'c', 'image': 'i', 'volumeMounts': mounts}])
    yield 'pod, 10000 tolerations', PODS, pod(tolerations=[{'key': f'k{i}', 'operator': 'Exists'} for i in range(10000)])
    spread = [{'maxSkew': 1, 'topologyKey': f'k{i}', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {}} for i in range(5000)]
    yield 'pod, 5000 spread constraints', PODS, pod(topologySpreadConstraints=spread)
    yield 'pod, 10000 ports', PODS, pod(containers=[{'name': 'c', 'image': 'i', 'ports': [{'containerPort': i + 1, 'hostPort': i + 1} for i in range(10000)]}])
    yield 'pod, 10000 host aliases', PODS, pod(hostAliases=[{'ip': f'10.0.{i // 250}.{i % 250}', 'hostnames': ['a']} for i in range(10000)])
    yield 'pod, 10000 resource claims', PODS, pod(resourceClaims=[{'name': f'c{i}', 'resourceClaimName': f'c{i}'} for i in range(10000)])
    yield 'pod, 10000 gates', PODS, pod(schedulingGates=[{'name': f'a.io/g{i}'} for i in range(10000)])
    yield 'pod, 10000 readiness gates', PODS, pod(readinessGates=[{'conditionType': f'a.io/g{i}'} for i in range(10000)])
    terms = [{'labelSelector': {'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': [f'v{i}']}]}, 'topologyKey': 'z'} for i in range(5000)]
    yield 'pod, 5000 anti-affinity terms', PODS, pod(affinity={'podAntiAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': terms}})
    yield 'pod, 10000 owners', PODS, {**pod(), 'metadata': {'name': 'p', 'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Pod', 'name': f'o{i}', 'uid': f'u{i}'} for i in range(10000)]}}
    yield 'pod, 10000 labels', PODS, {**pod(), 'metadata': {'name': 'p', 'labels': {f'l{i}': 'v' for i in range(10000)}}}
    yield 'pod, 10000 finalizers', PODS, {**pod(), 'metadata': {'name': 'p', 'finalizers': [f'a.io/f{i}' for i in range(10000)]}}
    template = {'metadata': {'labels': {'a': 'v0'}}, 'spec': pod()['spec']}
    values = [f'v{i}' for i in range(50000)]
    yield 'deployment, 50000 selector values', DEPLOYMENTS, {'metadata': {'name': 'd'}, 'spec': {'template': template, 'selector': {'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': values}]}}}
    yield 'configmap, 30000 keys', MAPS, {'metadata': {'name': 'n'}, 'data': {f'k{i}': 'v' for i in range(30000)}}
    yield 'secret, 30000 keys', '/api/v1' + NS + '/secrets', {'metadata': {'name': 's'}, 'stringData': {f'k{i}': 'v' for i in range(20000)}}
    yield 'service, 10000 ports', '/api/v1' + NS + '/services', {'metadata': {'name': 's'}, 'spec': {'ports': [{'name': f'p{i}', 'port': i + 1} for i in range(10000)]}}
    yield 'role, 10000 rules', '/apis/rbac.authorization.k8s.io/v1' + NS + '/roles', {'metadata': {'name': 'r'}, 'rules': [{'apiGroups': [''], 'resources': [f'r{i}'], 'verbs': ['get']} for i in range(10000)]}
    yield 'binding, 10000 subjects', '/apis/rbac.authorization.k8s.io/v1' + NS + '/rolebindings', {
        'metadata': {'name': 'r'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'view'},
        'subjects': [{'kind': 'User', 'apiGroup': 'rbac.authorization.k8s.io', 'name': f'u{i}'} for i in range(10000)]}
    yield 'quota, 10000 resources', '/api/v1' + NS + '/resourcequotas', {'metadata': {'name': 'q'}, 'spec': {'hard': {f'requests.a.io/r{i}': '1' for i in range(10000)}}}
    yield 'endpointslice, 10000 addresses', '/apis/discovery.k8s.io/v1' + NS + '/endpointslices', {
        'metadata': {'name': 'e'}, 'addressType': 'IPv4', 'ports': [], 'endpoints': [{'addresses': [f'10.1.{i // 250}.{i % 250}']} for i in range(1000)]}
    yield 'job, 5000 policy rules', '/apis/batch/v1' + NS + '/jobs', {'metadata': {'name': 'j'}, 'spec': {
        'template': {'spec': {**pod()['spec'], 'restartPolicy': 'Never'}}, 'podFailurePolicy': {'rules': [{'action': 'Ignore', 'onExitCodes': {'operator': 'In', 'values': [i + 1]}} for i in range(5000)]}}}
    yield 'hpa, 10000 metrics', '/apis/autoscaling/v2' + NS + '/horizontalpodautoscalers', {'metadata': {'name': 'h'}, 'spec': {
        'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'd'},
        'metrics': [{'type': 'Resource', 'resource': {'name': 'cpu', 'target': {'type': 'Utilization', 'averageUtilization': 50}}}] * 10000}}
    yield 'claim, 10000 constraints', CLAIMS, {'metadata': {'name': 'c'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'c'}}],
                                                                                               'constraints': [{'requests': ['r'], 'matchAttribute': 'a.io/a'}] * 10000}}}


def patches():
    many = {'spec': {'containers': [{'name': 'c', 'env': env(30000)}]}}
    yield 'strategic, 30000 env', PODS + '/small', many, STRATEGIC
    yield 'strategic, 30000 env on 20000', PODS + '/large', {'spec': {'containers': [{'name': 'c', 'env': env(30000, 10000)}]}}, STRATEGIC
    yield 'strategic, delete 20000 env', PODS + '/large', {'spec': {'containers': [{'name': 'c', 'env': [{'name': f'E{i}', '$patch': 'delete'} for i in range(20000)]}]}}, STRATEGIC
    yield 'strategic, order of 20000 env', PODS + '/large', {'spec': {'containers': [{'name': 'c', '$setElementOrder/env': [{'name': f'E{i}'} for i in range(20000, 0, -1)]}]}}, STRATEGIC
    yield 'strategic, 20000 finalizers', PODS + '/large', {'metadata': {'finalizers': [f'a.io/f{i}' for i in range(20000)]}}, STRATEGIC
    yield 'strategic, delete 20000 finalizers', PODS + '/large', {'metadata': {'$deleteFromPrimitiveList/finalizers': [f'a.io/f{i}' for i in range(20000)]}}, STRATEGIC
    yield 'merge, 30000 env', PODS + '/small', many, MERGE
    yield 'merge, 30000 keys', MAPS + '/m', {'data': {f'x{i}': 'v' for i in range(30000)}}, MERGE
    yield 'json, 10000 tests of a large object', PODS + '/large', [{'op': 'test', 'path': '/spec/containers/0/env/19999/name', 'value': 'E19999'}] * 10000, JSON
    yield 'json, 10000 insertions at the front', PODS + '/large', [{'op': 'add', 'path': '/spec/containers/0/env/0', 'value': {'name': 'A'}}] * 10000, JSON
    yield 'json, 10000 copies', PODS + '/large', [{'op': 'copy', 'from': '/spec/containers/0/env', 'path': '/metadata/annotations'}] * 10000, JSON
    yield 'json, 10000 keys', MAPS + '/m', [{'op': 'add', 'path': f'/data/y{i}', 'value': 'v'} for i in range(10000)], JSON
    yield 'apply, 20000 env', PODS + '/p', with_env(20000), APPLY
    yield 'apply again, other 20000 env', PODS + '/p', with_env(20000, 10000), APPLY
    yield 'apply, 20000 keys', MAPS + '/applied', {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'applied'}, 'data': {f'k{i}': 'v' for i in range(20000)}}, APPLY


# --- What it costs -------------------------------------------------------------------------------

def longest(c):
    code, text = c.call('GET', '/metrics')
    return max(float(line.split()[-1]) for line in text.splitlines() if line.startswith('dray_loop_longest_turn_seconds{'))


def loop_time(c):
    """Processor time of the loop's thread, in seconds."""
    with open(f'/proc/{c.process.pid}/task/{c.process.pid}/schedstat') as f:
        return int(f.read().split()[0]) / 1e9


def one(c, what, method, path, body, kind, slow):
    c.call('GET', '/healthz')
    before, ran, began = longest(c), loop_time(c), time.monotonic()
    code, text = c.call(method, path, body, kind=kind)
    took, ran, after = time.monotonic() - began, loop_time(c) - ran, longest(c)
    if code >= 500:
        raise AssertionError((what, code, text[:300]))
    stall = after if after > before else 0
    if '--all' in sys.argv or stall > 0.05:
        print(f'{what}: {code} in {took * 1000:.0f} ms, turn {stall * 1000:.0f} ms, loop {ran * 1000:.0f} ms {text[:160] if "--all" in sys.argv and code > 201 else ""}', flush=True)
    if min(took, ran, after if after > before else took) > BOUND_S:
        slow.append((what, round(min(took, ran), 3)))


def turns(cases):
    """Each case has a server of its own only if the one before stalled: the longest turn is all that is known."""
    slow, c = [], None
    for what, method, path, body, kind in cases:
        if c is None:
            c = Cluster().__enter__()
            for name, n in (('small', 1), ('large', 20000)):
                c.good('POST', PODS, {**with_env(n), 'metadata': {'name': name, 'annotations': {'a': 'b'}}})
            c.good('POST', MAPS, {'metadata': {'name': 'm'}, 'data': {'a': 'b'}})
        one(c, what, method, path + ('?fieldManager=a&force=true' if kind == APPLY else '?fieldManager=a'), body, kind, slow)
        if method == 'POST':
            c.call('DELETE', path + '/' + body['metadata']['name'] + '?gracePeriodSeconds=0')
    if c:
        c.__exit__(None)
    return slow


def handshakes(n=200):
    """Clients that say hello at the same moment are served over several turns; one that is connected already is served between."""
    with Cluster() as c:
        c.call('GET', '/healthz')
        clients = []
        for _ in range(n):
            s, inward, outward = socket.create_connection(('127.0.0.1', c.port)), ssl.MemoryBIO(), ssl.MemoryBIO()
            clients.append((s, TLS.wrap_bio(inward, outward), inward, outward))
            try:
                clients[-1][1].do_handshake()
            except ssl.SSLWantReadError:
                pass
        hellos = [outward.read() for _, _, _, outward in clients]
        before = longest(c)
        for (s, *_), hello in zip(clients, hellos):
            s.sendall(hello)
        for s, tls, inward, outward in clients:
            s.settimeout(60)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    got = s.recv(65536)
                    assert got, 'a handshake was cut off'
                    inward.write(got)
            s.close()
        after = longest(c)
        assert after <= max(before, BOUND_S), f'{n} handshakes at once: a turn of {after} s'


def checks(nodes=6000):
    """A check of all caches looks at more objects than a slice has, in turns as short as any, and gives way to a stop."""
    for stop in (False, True):
        with Cluster(verb='up', flags=['--nodes', str(nodes), '--sim', 'example-gpu']) as c:
            until('all nodes', lambda: len(c.good('GET', '/api/v1/nodes')['items']) == nodes)
            until('a check of all', lambda: json.loads(c.call('GET', '/dray/check')[1]).get('equal'))
            def asks():
                try:
                    c.call('GET', '/dray/check')
                except OSError:
                    pass  # the stop was first
            before = longest(c)
            for _ in range(20):
                if stop:
                    threading.Thread(target=asks, daemon=True).start()
                else:
                    assert c.call('GET', '/dray/check')[0] == 200
            assert stop or longest(c) <= max(before, BOUND_S), f'a check of {nodes} nodes: a turn of {longest(c)} s'


cases = [(w, 'POST', p, b, None) for make in (expressions, large_objects) for w, p, b in make()]
cases += [(w, 'PATCH', p, b, k) for w, p, b, k in patches()]
only = [a for a in sys.argv[2:] if not a.startswith('--')]
slow = turns([x for x in cases if not only or any(o in x[0] for o in only)])
if not only:
    handshakes()
    checks()
assert not slow, f'turns of more than {BOUND_S} s: {slow}'
print(f'{len(cases)} large requests, no turn of more than {BOUND_S} s')

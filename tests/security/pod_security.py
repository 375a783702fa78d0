#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the Pod Security labels of a namespace hold for every way to write a pod: creation, updates, ephemeral containers, patches, workloads' controllers; audit and warn
say what they would refuse; exemptions are the operator's alone; labels that cannot be read are refused; checking existing pods holds up nobody.
Usage: pod_security.py DRAY"""
import http.client, json, subprocess, threading, time, urllib.error, urllib.request
from kit import DRAY, ROOT, TLS, Cluster, rule, until

PS = 'pod-security.kubernetes.io/'
USERS = {'tenant-token': ('tina', ''), 'operator-token': ('olga', 'system:masters')}
GOOD = {'allowPrivilegeEscalation': False, 'runAsNonRoot': True, 'capabilities': {'drop': ['ALL']}, 'seccompProfile': {'type': 'RuntimeDefault'}}
REFUSAL = ('pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
           'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
           'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")')


def container(name='c', **context):
    return {'name': name, 'image': 'x', **({'securityContext': context} if context else {})}


def pod(name, *containers, **spec):
    return {'metadata': {'name': name}, 'spec': {'containers': list(containers) or [container()], **spec}}


def deployment(name, *containers):
    return {'metadata': {'name': name}, 'spec': {'selector': {'matchLabels': {'a': 'b'}}, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': list(containers) or [container()]}}}}


def ask(c, method, path, body=None, token=ROOT, kind=None):
    """Status, text and warnings."""
    q = urllib.request.Request(c.url + path, method=method, data=json.dumps(body).encode() if body is not None else None)
    q.add_header('Authorization', 'Bearer ' + token)
    q.add_header('Content-Type', kind or ('application/merge-patch+json' if method == 'PATCH' else 'application/json'))
    try:
        with urllib.request.urlopen(q, context=TLS, timeout=60) as a:
            return a.status, a.read().decode(), a.headers.get_all('Warning') or []
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), e.headers.get_all('Warning') or []


def warned(c, method, path, body=None, **more):
    code, text, warnings = ask(c, method, path, body, **more)
    assert code in (200, 201), (path, code, text)
    return warnings


def tenant(c, namespace):
    c.role(namespace, 'tenant', rule('*', 'pods pods/ephemeralcontainers'), rule('*', 'deployments', 'apps'))
    c.bind(namespace, 'tenant', 'tina', kind='Role')


def enforces(c):
    c.namespace('strict', **{PS + 'enforce': 'restricted'})
    tenant(c, 'strict')
    pods = '/api/v1/namespaces/strict/pods'
    refusal = json.loads(c.refused('POST', pods, pod('p'), token='tenant-token'))
    assert refusal['message'] == REFUSAL and refusal['reason'] == 'Forbidden', refusal
    assert json.loads(c.refused('POST', pods, pod('p')))['message'] == REFUSAL, 'administrators are not exempt'
    assert not ask(c, 'POST', pods, pod('p'))[2], 'a refusal carries no warnings'
    assert not warned(c, 'POST', pods, pod('good', container(**GOOD)), token='tenant-token')
    # Generated names are in the message, and nothing is stored.
    text = c.refused('POST', pods, {'metadata': {'generateName': 'gen-'}, 'spec': pod('x')['spec']}, token='tenant-token')
    assert 'pods \\"gen-' in text, text
    # What cannot be valid is refused as such first.
    c.refused('POST', pods, pod('p', container('Bad Name')), code=422)
    # An image may change only in a pod that would be allowed; other updates go on.
    warned(c, 'PATCH', pods + '/good', {'metadata': {'labels': {'a': 'b'}}}, token='tenant-token')
    warned(c, 'PATCH', pods + '/good', {'spec': {'containers': [{'name': 'c', 'image': 'y'}]}}, token='tenant-token', kind='application/strategic-merge-patch+json')
    # Ephemeral containers: by PUT, patch and apply.
    whole = c.good('GET', pods + '/good')
    for bad in (container('dbg'), container('dbg', **{**GOOD, 'privileged': False, 'runAsUser': 0}), container('dbg', **{**GOOD, 'capabilities': {'drop': ['ALL'], 'add': ['SYS_PTRACE']}})):
        more = {**whole, 'spec': {**whole['spec'], 'ephemeralContainers': [bad]}}
        assert 'violates PodSecurity' in c.refused('PUT', pods + '/good/ephemeralcontainers', more)
        assert 'violates PodSecurity' in c.refused('PATCH', pods + '/good/ephemeralcontainers', {'spec': {'ephemeralContainers': [bad]}}, kind='application/strategic-merge-patch+json')
    warned(c, 'PATCH', pods + '/good/ephemeralcontainers', {'spec': {'ephemeralContainers': [container('dbg', **GOOD)]}}, kind='application/strategic-merge-patch+json')
    # Server-side apply creates nothing either; dry runs say the same.
    bad = {'apiVersion': 'v1', 'kind': 'Pod', **pod('p')}
    assert 'violates PodSecurity' in c.refused('PATCH', pods + '/p?fieldManager=t', bad, kind='application/apply-patch+yaml', token='tenant-token')
    c.refused('POST', pods + '?dryRun=All', pod('p'), token='tenant-token')
    assert [p['metadata']['name'] for p in c.good('GET', pods)['items']] == ['good']
    # A tenant cannot change the labels.
    c.refused('PATCH', '/api/v1/namespaces/strict', {'metadata': {'labels': {PS + 'enforce': None}}}, token='tenant-token')
    # Workloads are accepted with a warning: an enforced level warns too.
    got = warned(c, 'POST', '/apis/apps/v1/namespaces/strict/deployments', deployment('d'), token='tenant-token')
    assert got == ['299 - "would violate PodSecurity \\"restricted:latest\\": ' + REFUSAL.split('latest": ')[1].replace('"', '\\"') + '"'], got


def user_namespaces(c):
    """hostUsers: false relaxes versions from 1.35 on, and only those."""
    c.namespace('relaxed', **{PS + 'enforce': 'restricted'})
    c.namespace('older', **{PS + 'enforce': 'restricted', PS + 'enforce-version': 'v1.34'})
    root = {k: v for k, v in GOOD.items() if k != 'runAsNonRoot'}
    body = pod('p', container(**root, runAsUser=0), hostUsers=False)
    c.good('POST', '/api/v1/namespaces/relaxed/pods', body)
    text = json.loads(c.refused('POST', '/api/v1/namespaces/older/pods', body))['message']
    assert 'PodSecurity "restricted:v1.34": runAsNonRoot != true' in text and 'runAsUser=0 (container "c" must not set runAsUser=0)' in text, text


def warns(c):
    c.namespace('loose', **{PS + 'enforce': 'privileged', PS + 'warn': 'baseline', PS + 'warn-version': 'v1.20', PS + 'audit': 'restricted'})
    got = warned(c, 'POST', '/api/v1/namespaces/loose/pods', pod('p', hostPID=True))
    assert got == ['299 - "would violate PodSecurity \\"baseline:v1.20\\": host namespaces (hostPID=true)"'], got
    assert not warned(c, 'POST', '/api/v1/namespaces/loose/pods', pod('q'))
    bad = container(privileged=True)
    kinds = {'apps/v1/namespaces/loose/replicasets': deployment('x', bad), 'apps/v1/namespaces/loose/deployments': deployment('x', bad),
             'apps/v1/namespaces/loose/daemonsets': deployment('x', bad), 'apps/v1/namespaces/loose/statefulsets': deployment('x', bad)}
    template = {'spec': {'containers': [bad], 'restartPolicy': 'Never'}}
    kinds['batch/v1/namespaces/loose/jobs'] = {'metadata': {'name': 'x'}, 'spec': {'template': template}}
    kinds['batch/v1/namespaces/loose/cronjobs'] = {'metadata': {'name': 'x'}, 'spec': {'schedule': '* * * * *', 'jobTemplate': {'spec': {'template': template}}}}
    paths = {'/apis/' + k: v for k, v in kinds.items()}
    paths['/api/v1/namespaces/loose/podtemplates'] = {'metadata': {'name': 'x'}, 'template': {'spec': {'containers': [bad]}}}
    paths['/api/v1/namespaces/loose/replicationcontrollers'] = {'metadata': {'name': 'x'}, 'spec': {'selector': {'a': 'b'}, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': [bad]}}}}
    for path, body in paths.items():
        got = [w for w in warned(c, 'POST', path, body) if 'PodSecurity' in w]
        assert got == ['299 - "would violate PodSecurity \\"baseline:v1.20\\": privileged (container \\"c\\" must not set securityContext.privileged=true)"'], (path, got)
    # The scale of a workload says nothing of its pods.
    assert not warned(c, 'PATCH', '/apis/apps/v1/namespaces/loose/deployments/x/scale', {'spec': {'replicas': 0}})


def labels(c):
    for key, value, why in (('enforce', 'Restricted', 'must be one of privileged, baseline, restricted'), ('warn-version', 'v1.01', 'must be \\"latest\\" or \\"v1.x\\"')):
        text = c.refused('POST', '/api/v1/namespaces', {'metadata': {'name': 'bad', 'labels': {PS + key: value}}}, code=422)
        assert f'metadata.labels[{PS}{key}]: Invalid value: \\"{value}\\": {why}' in text, text
    c.namespace('plain')
    pods = '/api/v1/namespaces/plain/pods'
    for name in 'abc':
        c.good('POST', pods, pod(name, hostIPC=True))
    c.good('POST', pods, pod('z', container(privileged=True)))
    c.refused('PATCH', '/api/v1/namespaces/plain', {'metadata': {'labels': {PS + 'audit': ''}}}, code=422)
    got = warned(c, 'PATCH', '/api/v1/namespaces/plain', {'metadata': {'labels': {PS + 'enforce': 'baseline'}}})
    assert got == ['299 - "existing pods in namespace \\"plain\\" violate the new PodSecurity enforce level \\"baseline:latest\\""', '299 - "a (and 2 other pods): host namespaces"', '299 - "z: privileged"'], got
    assert not warned(c, 'PATCH', '/api/v1/namespaces/plain', {'metadata': {'labels': {'other': 'x'}}}), 'the level is the same'
    assert not warned(c, 'PATCH', '/api/v1/namespaces/plain', {'metadata': {'labels': {PS + 'enforce': 'privileged'}}})
    # Pods that were there before a level stay, and may be changed where that changes nothing that matters.
    warned(c, 'PATCH', '/api/v1/namespaces/plain', {'metadata': {'labels': {PS + 'enforce': 'restricted'}}})
    c.good('PATCH', pods + '/z', {'metadata': {'labels': {'a': 'b'}}})
    c.refused('PATCH', pods + '/z', {'spec': {'containers': [{'name': 'c', 'image': 'other'}]}}, kind='application/strategic-merge-patch+json')
    c.good('PUT', pods + '/z/status', {**c.good('GET', pods + '/z'), 'status': {'message': 'x'}})
    c.good('DELETE', pods + '/z')


def many(c):
    """Bounded in pods, and others are served meanwhile."""
    c.namespace('many')
    owner = lambda i: [{'apiVersion': 'apps/v1', 'kind': 'ReplicaSet', 'name': f'r{i}', 'uid': f'u{i}', 'controller': True}]

    def fill(part):
        for i in range(part, 3100, 4):
            body = pod(f'p{i:05}', hostPID=True)
            if i >= 100:
                body['metadata']['ownerReferences'] = owner(i % 3)
            c.good('POST', '/api/v1/namespaces/many/pods', body)
    threads = [threading.Thread(target=fill, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    slowest, stop = [0.0], threading.Event()

    def neighbour():
        while not stop.is_set():
            began = time.monotonic()
            c.good('GET', '/api/v1/namespaces/strict')
            slowest[0] = max(slowest[0], time.monotonic() - began)
    t = threading.Thread(target=neighbour)
    t.start()
    got = warned(c, 'PATCH', '/api/v1/namespaces/many', {'metadata': {'labels': {PS + 'enforce': 'baseline'}}})
    stop.set()
    t.join()
    assert got[0].startswith('299 - "new PodSecurity enforce level only checked against the first ') and got[0].endswith(' of 3100 existing pods"'), got
    checked = int(got[0].split('first ')[1].split()[0])
    assert 64 <= checked <= 3000, got
    assert got[2] == f'299 - "p00000 (and {checked - 1} other pods): host namespaces"', got
    print(f'{checked} of 3,100 pods checked; a neighbour waited {slowest[0] * 1000:.0f} ms at most')
    assert slowest[0] < 0.5
    # A hundred namespaces at once take turns: a neighbour waits for one of them.
    crowd = [http.client.HTTPSConnection('127.0.0.1', c.port, context=TLS) for _ in range(101)]
    about = {'Authorization': 'Bearer ' + ROOT, 'Content-Type': 'application/merge-patch+json'}
    for one in crowd:
        one.request('GET', '/livez')
        one.getresponse().read()
    other, slowest = crowd.pop(), 0.0
    for one in crowd:
        one.request('PATCH', '/api/v1/namespaces/many?dryRun=All', json.dumps({'metadata': {'labels': {PS + 'enforce': 'restricted'}}}), about)
    for one in crowd:
        began = time.monotonic()
        other.request('GET', '/livez')
        other.getresponse().read()
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.01)
    for one in crowd:
        assert one.getresponse().status == 200
        one.close()
    print(f'a neighbour of a hundred waited {slowest * 1000:.0f} ms at most')
    assert slowest < 0.15


def other_warnings(c):
    """Kinds that nothing acts on, versions that go; bounded as upstream bounds them; shown by the command line."""
    policy = {'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': {'name': 'n', 'namespace': 'plain'}, 'spec': {'podSelector': {}}}
    said = 'NetworkPolicy is stored but not enforced by this cluster'
    assert warned(c, 'POST', '/apis/networking.k8s.io/v1/namespaces/plain/networkpolicies', policy) == [f'299 - "{said}"']
    assert not warned(c, 'GET', '/apis/networking.k8s.io/v1/namespaces/plain/networkpolicies')
    assert warned(c, 'GET', '/apis/resource.k8s.io/v1beta1/resourceclaims') == ['299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"']
    assert warned(c, 'GET', '/api/v1/endpoints') == ['299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"']
    p = subprocess.run([DRAY, 'apply', '--kubeconfig', c.data + '/admin.kubeconfig', '-f', '-'], input='---\n'.join(json.dumps({**policy, 'metadata': {**policy['metadata'], 'name': n}}) + '\n' for n in 'xyz'),
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and p.stderr == f'Warning: {said}\n' and p.stdout.count('created') == 3, (p.stdout, p.stderr)
    config = lambda *fields: {'metadata': {'generateName': 'c-'}, **{f: 1 for f in fields}}
    maps = '/api/v1/namespaces/plain/configmaps'
    assert len(warned(c, 'POST', maps, config(*(f'f{i:03}' for i in range(90))))) == 64
    got = [w.split('"', 1)[1][:-1].replace('\\"', '"') for w in warned(c, 'POST', maps, config(*(f'{i}-' + 'é' * 300 for i in range(40))))]
    assert len(got) == 16 and all(len(w.encode('latin-1').decode()) == 256 for w in got), [len(got), [len(w) for w in got]]


def exemptions():
    flags = ['--pod-security-exempt-usernames', 'olga', '--pod-security-exempt-namespaces', 'infra,other', '--pod-security-exempt-runtime-classes', 'sandbox', '--pod-security-defaults', 'enforce=baseline,warn=restricted:v1.30']
    with Cluster(USERS, flags=flags) as c:
        c.good('POST', '/apis/node.k8s.io/v1/runtimeclasses', {'metadata': {'name': 'sandbox'}, 'handler': 'runc'})
        c.namespace('plain')
        tenant(c, 'plain')
        pods = '/api/v1/namespaces/plain/pods'
        c.refused('POST', pods, pod('p', hostPID=True))
        c.good('POST', pods, pod('p', hostPID=True), token='operator-token')
        c.good('POST', pods, pod('q', hostPID=True, runtimeClassName='sandbox'), token='tenant-token')
        assert 'restricted:v1.30' in warned(c, 'POST', pods, pod('r'))[0]
        got = warned(c, 'POST', '/api/v1/namespaces', {'metadata': {'name': 'infra', 'labels': {PS + 'enforce': 'restricted'}}})
        assert got == ['299 - "namespace \\"infra\\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored"'], got
        assert not warned(c, 'POST', '/api/v1/namespaces/infra/pods', pod('p', hostPID=True))
        # Nobody becomes another by asking to.
        c.refused('POST', pods, pod('s', hostPID=True), token='tenant-token', headers=[('Impersonate-User', 'olga')])
        text = c.call('GET', '/metrics')[1]
        for line in ('pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1',
                     'pod_security_evaluations_total{decision="deny",mode="warn",policy_level="restricted",policy_version="v1.30",request_operation="create",resource="pod",subresource=""} 1',
                     'pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 3'):
            assert line in text, (line, [m for m in text.split('\n') if 'pod_security' in m])
    with Cluster(USERS, flags=['--disable-admission-plugins', 'PodSecurity']) as c:
        c.namespace('strict', **{PS + 'enforce': 'restricted'})
        c.good('POST', '/api/v1/namespaces/strict/pods', pod('p', hostPID=True))


def controllers():
    """A workload's controller cannot make what its owner may not."""
    with Cluster(USERS, verb='up') as c:
        c.namespace('strict', **{PS + 'enforce': 'baseline'})
        tenant(c, 'strict')
        c.good('POST', '/apis/apps/v1/namespaces/strict/deployments', deployment('d', container(privileged=True)), token='tenant-token')
        said = lambda: [e for e in c.good('GET', '/api/v1/namespaces/strict/events')['items'] if 'violates PodSecurity "baseline:latest": privileged' in e.get('message', '')]
        until('an event of the refusal', said)
        assert not c.good('GET', '/api/v1/namespaces/strict/pods')['items']


with Cluster(USERS) as cluster:
    enforces(cluster)
    user_namespaces(cluster)
    warns(cluster)
    labels(cluster)
    other_warnings(cluster)
    many(cluster)
exemptions()
controllers()
print('pod security: ok')

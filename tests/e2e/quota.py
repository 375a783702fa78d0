#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResourceQuotas and LimitRanges: what is refused and in which words, what is used, as kube-apiserver and kube-controller-manager 1.37 answered
(quota.table); and that many at once never get more than there is. Usage: quota.py DRAY, or quota.py --record URL TOKEN"""
import json, os, shutil, ssl, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, 'quota.table')
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
NS = '/api/v1/namespaces/team-q'
DRA = '/apis/resource.k8s.io/v1/namespaces/team-q'


class Api:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def call(self, method, path, body=None, kind='application/json'):
        q = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None)
        q.add_header('Authorization', 'Bearer ' + self.token)
        q.add_header('Content-Type', kind)
        try:
            with urllib.request.urlopen(q, context=TLS, timeout=60) as a:
                return a.status, json.loads(a.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())


def quota(name, hard, **spec):
    return {'metadata': {'name': name}, 'spec': {'hard': hard, **spec}}


def pod(name, requests=None, limits=None, **spec):
    return {'metadata': {'name': name}, 'spec': {'serviceAccountName': 'runner', 'automountServiceAccountToken': False, **spec,
                                                 'containers': [{'name': 'c', 'image': 'x', 'resources': {k: v for k, v in (('requests', requests), ('limits', limits)) if v}}]}}


def claim(name, *requests):
    return {'metadata': {'name': name}, 'spec': {'devices': {'requests': [{'name': f'r{i}', **r} for i, r in enumerate(requests)]}}}


def exactly(device_class, count=None, mode=None):
    return {'exactly': {'deviceClassName': device_class, **({'count': count} if count else {}), **({'allocationMode': mode} if mode else {})}}


def volume(name, size):
    return {'metadata': {'name': name}, 'spec': {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'gold', 'resources': {'requests': {'storage': size}}}}


CLAIMS, PODS, QUOTAS, LIMITS = DRA + '/resourceclaims', NS + '/pods', NS + '/resourcequotas', NS + '/limitranges'
STEPS = [  # method, path, body; 'wait' NAME: until the status of a quota is there and stays
    ('POST', QUOTAS, quota('devices', {'gpu.deviceclass.resource.k8s.io/devices': '4', 'count/resourceclaims.resource.k8s.io': '5', 'requests.example.com/gpu': '6',
                                       'requests.deviceclass.resource.kubernetes.io/gpu': '7'})),
    ('wait', 'devices'),
    ('POST', CLAIMS, claim('a', exactly('gpu', 2))),
    ('POST', CLAIMS, claim('b', exactly('gpu', 3))),
    ('POST', CLAIMS, claim('c', exactly('gpu', mode='All'))),
    ('POST', CLAIMS, claim('d', {'firstAvailable': [{'name': 'x', 'deviceClassName': 'gpu', 'count': 1}, {'name': 'y', 'deviceClassName': 'gpu', 'count': 2},
                                                    {'name': 'z', 'deviceClassName': 'nic', 'count': 8}]})),
    ('POST', CLAIMS, claim('e', exactly('gpu'))),
    ('POST', CLAIMS, claim('f', exactly('nic', 9))),
    ('POST', CLAIMS, claim('g', exactly('nic'))), ('POST', CLAIMS, claim('h', exactly('nic'))), ('POST', CLAIMS, claim('i', exactly('nic'))),
    ('wait', 'devices'),
    ('DELETE', CLAIMS + '/a', None),
    ('wait', 'devices'),
    ('POST', CLAIMS, claim('e', exactly('gpu', 2))),
    ('POST', CLAIMS + '?dryRun=All', claim('j', exactly('gpu', 1))),
    ('DELETE', QUOTAS + '/devices', None),
    ('POST', QUOTAS, quota('compute', {'pods': '4', 'requests.cpu': '1', 'limits.memory': '1Gi', 'count/pods': '9'})),
    ('wait', 'compute'),
    ('POST', PODS, pod('p1')),
    ('POST', PODS, pod('p1', {'cpu': '400m'}, {'memory': '256Mi'})),
    ('POST', PODS, pod('p2', {'cpu': '700m'}, {'memory': '1Gi'})),
    ('POST', PODS, pod('p2', {'cpu': '100m'}, {'memory': '128Mi'}, initContainers=[{'name': 'i', 'image': 'x', 'resources': {'requests': {'cpu': '500m'}, 'limits': {'memory': '64Mi'}}}])),
    ('POST', PODS, pod('p3', {'cpu': '100m'}, {'memory': '1'})),
    ('POST', PODS, pod('p4', {'cpu': '1m'}, {'memory': '1'})),
    ('wait', 'compute'),
    ('PATCH', PODS + '/p1/status', {'status': {'phase': 'Succeeded'}}),
    ('wait', 'compute'),
    ('DELETE', PODS + '/p2?gracePeriodSeconds=0', None),
    ('wait', 'compute'),
    ('DELETE', QUOTAS + '/compute', None),
    ('POST', QUOTAS, quota('best', {'pods': '1'}, scopes=['BestEffort'])),
    ('POST', QUOTAS, quota('urgent', {'pods': '1'}, scopeSelector={'matchExpressions': [{'scopeName': 'PriorityClass', 'operator': 'In', 'values': ['system-cluster-critical']}]})),
    ('wait', 'best'), ('wait', 'urgent'),
    ('POST', PODS, pod('b1')), ('POST', PODS, pod('b2')), ('POST', PODS, pod('b3', {'cpu': '1m'})),
    ('POST', PODS, pod('u1', {'cpu': '1m'}, priorityClassName='system-cluster-critical')), ('POST', PODS, pod('u2', {'cpu': '1m'}, priorityClassName='system-cluster-critical')),
    ('wait', 'best'), ('wait', 'urgent'),
    ('DELETE', QUOTAS + '/best', None), ('DELETE', QUOTAS + '/urgent', None),
    ('POST', QUOTAS, quota('things', {'count/secrets': '1', 'persistentvolumeclaims': '2', 'requests.storage': '10Gi', 'gold.storageclass.storage.k8s.io/requests.storage': '5Gi',
                                      'services': '2', 'services.nodeports': '1', 'count/deployments.apps': '0'})),
    ('wait', 'things'),
    ('POST', NS + '/secrets', {'metadata': {'name': 's1'}}), ('POST', NS + '/secrets', {'metadata': {'name': 's2'}}),
    ('POST', NS + '/persistentvolumeclaims', volume('v1', '4Gi')), ('POST', NS + '/persistentvolumeclaims', volume('v2', '2Gi')),
    ('POST', NS + '/services', {'metadata': {'name': 's1'}, 'spec': {'ports': [{'port': 80}]}}),
    ('POST', NS + '/services', {'metadata': {'name': 's2'}, 'spec': {'type': 'NodePort', 'ports': [{'name': 'a', 'port': 80}, {'name': 'b', 'port': 81}]}}),
    ('POST', '/apis/apps/v1/namespaces/team-q/deployments', {'metadata': {'name': 'd'}, 'spec': {'selector': {'matchLabels': {'a': 'b'}}, 'template': {
        'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', 'image': 'x'}]}}}}),
    ('wait', 'things'),
    ('DELETE', NS + '/secrets/s1', None),
    ('wait', 'things'),
    ('DELETE', QUOTAS + '/things', None),
    ('POST', LIMITS, {'metadata': {'name': 'l'}, 'spec': {'limits': [
        {'type': 'Container', 'max': {'cpu': '2'}, 'min': {'cpu': '100m'}, 'default': {'cpu': '500m', 'memory': '64Mi'}, 'defaultRequest': {'cpu': '200m'}, 'maxLimitRequestRatio': {'cpu': '4'}},
        {'type': 'Pod', 'max': {'cpu': '3'}}, {'type': 'PersistentVolumeClaim', 'min': {'storage': '1Gi'}, 'max': {'storage': '2Gi'}}]}}),
    ('settle', ''),
    ('POST', PODS, pod('l1')), ('GET', PODS + '/l1', None),
    ('POST', PODS, pod('l2', {'cpu': '50m'})),
    ('POST', PODS, pod('l3', {'cpu': '2'}, {'cpu': '3'})),
    ('POST', PODS, pod('l4', {'cpu': '100m'}, {'cpu': '1'})),
    ('POST', PODS, pod('l5', {'cpu': '1'}, {'cpu': '2'}, initContainers=[{'name': 'i', 'image': 'x', 'restartPolicy': 'Always', 'resources': {'requests': {'cpu': '1'}, 'limits': {'cpu': '2'}}}])),
    ('POST', NS + '/persistentvolumeclaims', volume('w1', '512Mi')), ('POST', NS + '/persistentvolumeclaims', volume('w2', '3Gi')), ('POST', NS + '/persistentvolumeclaims', volume('w3', '2Gi')),
    ('DELETE', LIMITS + '/l', None),
]


def wait(api, name):
    """Until the status has not changed for a while: counting is somebody else's work."""
    last, since = None, time.time()
    for _ in range(600):
        s = api.call('GET', f'{QUOTAS}/{name}')[1].get('status', {})
        if s != last:
            last, since = s, time.time()
        if s.get('used') and time.time() - since > 1.2:
            return ' '.join(f'{k}={v}' for k, v in sorted(s['used'].items()))
        time.sleep(0.05)
    raise AssertionError(f'the status of quota {name} never settled: {last}')


def set_up(api):
    api.call('POST', '/api/v1/namespaces', {'metadata': {'name': 'team-q'}})
    api.call('POST', NS + '/serviceaccounts', {'metadata': {'name': 'runner'}})
    code, a = api.call('POST', '/apis/resource.k8s.io/v1/deviceclasses', {'metadata': {'name': 'gpu'}, 'spec': {'extendedResourceName': 'example.com/gpu'}})
    assert code in (201, 409), a


def lines(api):
    set_up(api)
    for method, path, *body in STEPS:
        if method == 'settle':
            time.sleep(1)  # kube-apiserver sees LimitRanges by watching
        elif method == 'wait':
            yield f'used {path}\t{wait(api, path)}'
        else:
            code, a = api.call(method, path, body[0], kind='application/strategic-merge-patch+json' if method == 'PATCH' else 'application/json')
            told = a.get('message', '') if code >= 400 else ''
            if method == 'GET':
                told = json.dumps([a['metadata'].get('annotations'), a['spec']['containers'][0]['resources']], sort_keys=True)
            yield f'{method} {path.split("team-q/")[1]} {(body[0] or {}).get("metadata", {}).get("name", "-")}\t{code} {told}'


def at_once(api):
    """As many as there may be, however many come together; and what goes makes room."""
    api.call('POST', QUOTAS, quota('few', {'gpu.deviceclass.resource.k8s.io/devices': '20', 'count/resourceclaims.resource.k8s.io': '1000'}))
    base = int(dict(x.split('=') for x in wait(api, 'few').split())['gpu.deviceclass.resource.k8s.io/devices'])
    codes, lock = [], threading.Lock()

    def worker(n):
        for i in range(8):
            code = api.call('POST', CLAIMS, claim(f'many-{n}-{i}', exactly('gpu', 1)))[0]
            with lock:
                codes.append(code)
    threads = [threading.Thread(target=worker, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert codes.count(201) == 20 - base and codes.count(403) == 64 - (20 - base), (base, codes)
    assert 'gpu.deviceclass.resource.k8s.io/devices=20' in wait(api, 'few')
    there = [c['metadata']['name'] for c in api.call('GET', CLAIMS)[1]['items'] if c['metadata']['name'].startswith('many-')]
    for name in there[:3]:
        assert api.call('DELETE', f'{CLAIMS}/{name}')[0] == 200
    for _ in range(200):
        if api.call('POST', CLAIMS, claim('room', exactly('gpu', 3)))[0] == 201:
            break
        time.sleep(0.05)
    else:
        raise AssertionError('what is gone is still counted')
    assert api.call('POST', CLAIMS, claim('no-room', exactly('gpu', 1)))[0] == 403


def main():
    if sys.argv[1] == '--record':
        found = list(lines(Api(sys.argv[2], sys.argv[3])))
        with open(TABLE, 'w') as f:
            f.write('# SPDX-License-Identifier: Apache-2.0\n# What kube-apiserver and kube-controller-manager 1.37 answered to quota.py.\n' + '\n'.join(found) + '\n')
        return
    folder = tempfile.mkdtemp(prefix='dray-quota-')
    with open(os.path.join(folder, 'tokens.csv'), 'w') as f:
        f.write('root,root,,system:masters\n')
    os.chmod(os.path.join(folder, 'tokens.csv'), 0o600)
    p = subprocess.Popen([os.path.abspath(sys.argv[1]), 'up', '--nodes', '0', '--data-dir', folder + '/data', '--listen', '127.0.0.1:0', '--token-file', folder + '/tokens.csv'],
                         stdout=subprocess.PIPE, text=True)
    try:
        line = p.stdout.readline()
        while 'dray is up at' not in line:
            assert line, 'dray up does not start'
            line = p.stdout.readline()
        api = Api(line.split(' at ')[1].strip(), 'root')
        with open(TABLE) as f:
            wanted = [x.rstrip('\n') for x in f if not x.startswith('#')]
        got, wrong = list(lines(api)), 0
        for a, b in zip(wanted, got):
            if a != b:
                wrong += 1
                print(f'kubernetes: {a}\ndray:       {b}')
        assert len(wanted) == len(got) and not wrong, f'{wrong} of {len(wanted)} answers differ'
        at_once(api)
        print(f'{len(got)} steps with quotas and limits as in Kubernetes; 64 claims at once never got more than their quota')
    finally:
        p.terminate()
        code = p.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
    assert code == 0, f'dray up ended with {code}'


main()

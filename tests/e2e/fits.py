#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `dray free`, `dray plan` and `dray request` predict is what then happens: FITS is the number of claims that are served, pods of one
file land where the plan says, requests for each built-in profile run. Usage: fits.py DRAY [PROFILE...]"""
import json, os, random, shutil, subprocess, sys, tempfile

from up import Cluster, DRAY, HERE

PROFILES = sorted(f[:-len('.yaml')] for f in os.listdir(os.path.join(HERE, 'profiles')) if f.endswith('.yaml'))
MERGE = 'application/merge-patch+json'
NAMES = iter(range(10 ** 6))


def dray(c, *words, text=None):
    return subprocess.run([DRAY, *words, '--kubeconfig', os.path.join(c.folder, 'admin.kubeconfig')], input=text, capture_output=True, text=True,
                          timeout=120)


def free(c):
    return {x['class']: x for x in json.loads(dray(c, 'free', '-o', 'json').stdout)['classes']}


def template(name, class_name, count=1):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': name, 'namespace': 'default'},
            'spec': {'spec': {'devices': {'requests': [{'name': 'd', 'exactly': {'deviceClassName': class_name, 'count': count}}]}}}}


def pod(name, claim_template=None, cpu=None, **spec):
    p = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'namespace': 'default'},
         'spec': {'containers': [{'name': 'c', 'image': 'x'}], **spec}}
    if cpu:
        p['spec']['containers'][0]['resources'] = {'requests': {'cpu': str(cpu), 'memory': '1Gi'}}
    if claim_template:
        p['spec']['resourceClaims'] = [{'name': 'd', 'resourceClaimTemplateName': claim_template}]
    return p


def apply(c, objects):
    r = dray(c, 'apply', '-f', '-', text='\n---\n'.join(json.dumps(o) for o in objects))
    assert r.returncode == 0, r


def pods(c, prefix):
    return {p['metadata']['name']: p for p in c.good('GET', '/api/v1/namespaces/default/pods')['items'] if p['metadata']['name'].startswith(prefix)}


def settled(c, prefix, n):
    """The pods of a prefix when each has a node or the scheduler has refused it."""

    def decided():
        all_of = pods(c, prefix)
        done = [p for p in all_of.values() if p['spec'].get('nodeName') or
                any(x['type'] == 'PodScheduled' and x['status'] == 'False' and x['reason'] == 'Unschedulable'
                    for x in p['status'].get('conditions', []))]
        return all_of if len(done) == n else None

    return c.until(f'{n} pods of {prefix} are decided on', decided, 120)


def served(c, prefix, n):
    return {name: p['spec'].get('nodeName') for name, p in settled(c, prefix, n).items()}


def clear(c):
    for name in pods(c, ''):
        c.call('DELETE', f'/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0')
    claims = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
    c.until('no claims are left', lambda: not c.good('GET', claims)['items'])


def patch_node(c, name, spec):
    code, answer = c.call('PATCH', f'/api/v1/nodes/{name}', {'spec': spec}, MERGE)
    assert code == 200, answer


def fits(top, profile, seed):
    """FITS with devices in use, one node cordoned and one tainted: so many pods are served, whatever their number."""
    c = Cluster(os.path.join(top, f'fits-{profile}'), '--sim', profile, '--nodes', '3')
    rng = random.Random(seed)
    try:
        nodes = sorted(n['metadata']['name'] for n in c.good('GET', '/api/v1/nodes')['items'])
        taints = c.good('GET', f'/api/v1/nodes/{nodes[1]}')['spec']['taints']
        classes = [name for name, f in free(c).items() if f['fits']]
        for i, name in enumerate(classes):
            before = rng.randrange(1, 4)
            apply(c, [template(f'before{i}', rng.choice(classes))] + [pod(f'before{i}-{k}', f'before{i}') for k in range(before)])
            served(c, f'before{i}-', before)
            patch_node(c, nodes[0], {'unschedulable': True})
            tainted = rng.randrange(2)
            if tainted:
                patch_node(c, nodes[1], {'taints': taints + [{'key': 'team', 'value': 'a', 'effect': 'NoSchedule'}]})
            f = free(c)[name]
            assert not f['fitsMore'] and f['fits'] <= 400, f
            n = f['fits'] + 3
            apply(c, [template(f'more{i}', name)] + [pod(f'more{i}-{k}', f'more{i}') for k in range(n)])
            got = [x for x in served(c, f'more{i}-', n).values() if x]
            assert len(got) == f['fits'], f'{profile}, {name}: FITS was {f["fits"]}, {len(got)} were served'
            left = free(c)[name]
            assert left['fits'] == 0, left
            # Pods that tolerate the taint as well.
            n = f['fitsTolerant'] - f['fits'] + 2
            tolerates = {'tolerations': [{'key': 'team', 'operator': 'Exists'}]}
            apply(c, [pod(f'tolerant{i}-{k}', f'more{i}', **tolerates) for k in range(n)])
            got = [x for x in served(c, f'tolerant{i}-', n).values() if x]
            assert len(got) == f['fitsTolerant'] - f['fits'], (profile, name, f, got)
            patch_node(c, nodes[0], {'unschedulable': None})
            patch_node(c, nodes[1], {'taints': taints})
            clear(c)
    finally:
        c.stop()


def plans(top, profile, seed, rounds=3):
    """Several pods of a file land where the plan says, on a cluster with a past as well."""
    c = Cluster(os.path.join(top, f'plan-{profile}-{seed}'), '--sim', profile, '--nodes', '3')
    rng = random.Random(f'{profile} {seed}')
    try:
        classes = [name for name, f in free(c).items() if f['fits']]
        for turn in range(rounds):
            templates = [template(f't{k}-{n}', name, n) for k, name in enumerate(classes) for n in (1, 2)]
            some = [pod(f'r{turn}-{i}', rng.choice(templates)['metadata']['name'] if rng.random() < 0.7 else None, rng.choice((1, 2, 8, 20)))
                    for i in range(rng.randrange(2, 9))]
            text = '\n---\n'.join(json.dumps(o) for o in templates + some)
            said = {s['pod'].split('/')[1]: s.get('node') for s in json.loads(dray(c, 'plan', '-f', '-', '-o', 'json', text=text).stdout)['steps']
                    if 'pod' in s}
            apply(c, templates)
            live = {}
            for p in some:  # in the order of the file: pods whose claims are still being made may be overtaken
                apply(c, [p])
                live |= served(c, p['metadata']['name'], 1)
            assert live == {name: node for name, node in said.items() if name in live}, (profile, seed, turn, said, live)
    finally:
        c.stop()


def runs(c, name, why):
    c.until(f'{why}: pod {name} runs', lambda: c.call('GET', f'/api/v1/namespaces/default/pods/{name}')[1].get('status', {}).get('phase') == 'Running')


def request(c, *words):
    name = f'asked-{next(NAMES)}'
    r = dray(c, 'request', *words, '--pod', '--name', name, '--apply')
    assert r.returncode == 0, (words, r)
    runs(c, name, words)
    c.call('DELETE', f'/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0')
    c.until('its claim is gone', lambda: not any(x['metadata']['name'].startswith(name) for x in c.good(
        'GET', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims')['items']))


def shares(c, class_name):
    """Amounts of the capacities that devices of a class share, as published."""
    of_class = set(json.loads(dray(c, 'free', '--class', class_name, '-o', 'json').stdout)['classes'][0]['freeDevices'])
    found = {}
    for s in c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items']:
        for d in s['spec'].get('devices', []):
            if f"{s['spec']['driver']}/{s['spec']['pool']['name']}/{d['name']}" not in of_class or not d.get('allowMultipleAllocations'):
                continue
            for key, v in d.get('capacity', {}).items():
                policy = v.get('requestPolicy') or {}
                found.setdefault(key, (policy.get('validRange') or {}).get('max') or (policy.get('validValues') or [v['value']])[0])
    return found


def profile(top, name):
    """Every class of a profile, whole and, where devices are shared, an amount of each capacity."""
    c = Cluster(os.path.join(top, f'request-{name}'), '--sim', name, '--nodes', '2')
    try:
        classes = [k for k, f in free(c).items() if f['fits']]
        assert classes, name
        for k in classes:
            request(c, k)
            for key, amount in shares(c, k).items():
                request(c, k, '--' + key.split('/')[-1], amount)
    finally:
        c.stop()


def words(top):
    """--node, --cel, units, versions, the exit status, and quotas."""
    c = Cluster(os.path.join(top, 'words'), '--sim', 'example-gpu', '--nodes', '3')
    try:
        request(c, 'gpu', '--node', 'example-gpu-2')
        r = dray(c, 'request', 'gpu', '--node', 'example-gpu-2', '--pod')
        assert 'metadata.name, operator: In, values: ["example-gpu-2"]' in r.stdout and 'it would land on example-gpu-2' in r.stderr, r
        r = dray(c, 'request', 'gpu', '--node', 'nowhere', '--pod')
        assert r.returncode == 1 and 'there is no node nowhere; the nodes are example-gpu-0, ' in r.stderr, r
        assert dray(c, 'request', 'gpu', '--node', 'example-gpu-2').returncode == 2
        request(c, 'gpu', '--cel', "device.attributes['gpu.example.com'].index > 3")
        r = dray(c, 'request', 'gpu', '--cel', 'device.attributes[')
        assert r.returncode == 1 and '--cel' in r.stderr and not r.stdout, r
        r = dray(c, 'request', 'gpu', '--memory', '40')
        assert r.returncode == 1 and 'has no unit' in r.stderr and not r.stdout, r
        request(c, 'gpu', '--memory', '40Gi')
        r = dray(c, 'request', 'gpu', '--driverVersion', '1')
        assert r.returncode == 0 and "semver('1.0.0')" in r.stdout and 'taken as 1.0.0' in r.stderr, r
        r = dray(c, 'request', 'gpu', '--driverVersion', 'one')
        assert r.returncode == 1 and 'is a version, one is none' in r.stderr, r
        for kind in ('--pod', '--claim', '--template'):
            r = dray(c, 'request', 'gpu', '--count', '9', kind)
            assert r.returncode == 1 and 'count: 9' in r.stdout and 'does not fit' in r.stderr, (kind, r)
            r = dray(c, 'request', 'gpu', '--count', '8', kind)
            assert r.returncode == 0 and 'fits' in r.stderr, (kind, r)
        quota = {'apiVersion': 'v1', 'kind': 'ResourceQuota', 'metadata': {'name': 'gpus'},
                 'spec': {'hard': {'gpu.example.com.deviceclass.resource.k8s.io/devices': '2'}}}
        c.good('POST', '/api/v1/namespaces/default/resourcequotas', quota)
        c.until('the quota counts', lambda: c.good('GET', '/api/v1/namespaces/default/resourcequotas/gpus').get('status', {}).get('hard'))
        for kind in ('--pod', '--claim', '--template'):
            r = dray(c, 'request', 'gpu', '--count', '3', kind)
            assert r.returncode == 1 and 'exceeded quota: gpus' in r.stderr, (kind, r)
            assert dray(c, 'request', 'gpu', '--count', '2', kind).returncode == 0
    finally:
        c.stop()


def main():
    top = tempfile.mkdtemp(prefix='dray-fits.')
    only = sys.argv[2:]
    try:
        words(top)
        every = 1 if os.environ.get('TEST_ALL') else 5  # a sample; TEST_ALL=1 tries all, which takes minutes
        for p in only or ('nvidia-a100-mig', 'example-net', 'ip-cameras', 'numa-gpu-nic-cpu', 'example-gpu-partitions', 'fpga')[:6 // every + 1]:
            fits(top, p, p)
        for p in only or ('numa-gpu-nic-cpu', 'nvidia-a100-mig', 'example-net')[:3 // every + 1]:
            plans(top, p, 1)
        for p in only or PROFILES[::every]:
            profile(top, p)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print('fits: all good')


if __name__ == '__main__':
    main()

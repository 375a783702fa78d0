#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray plan and dray why as people and programs use them.

usage: plan.py DRAY"""
import json, os, subprocess, sys, tempfile

DRAY = os.path.abspath(sys.argv[1])
failures = []


def dray(*args, text='', cwd=None, env=None):
    """Runs a verb; plans are of the files alone unless the environment is said."""
    if args[0] == 'plan' and env is None and '--offline' not in args:
        args = ('plan', '--offline', *args[1:])
    return subprocess.run([DRAY, *args], input=text, capture_output=True, text=True, cwd=cwd, env=env)


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {want!r}, got {got!r}')


def expect_in(what, got, *parts):
    for part in parts:
        if part not in got:
            failures.append(f'{what}: {part!r} is not in\n{got}')


def node(name, **spec):
    return {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': {'zone': 'a'}}, 'spec': spec}


def gpu_slice(name, devices=4, memory='80Gi', **device):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': name + '-gpu'},
            'spec': {'driver': 'gpu.example.com', 'nodeName': name,
                     'pool': {'name': name, 'generation': 1, 'resourceSliceCount': 1},
                     'devices': [dict({'name': f'gpu-{i}', 'attributes': {'numa': {'int': i // 2}},
                                       'capacity': {'memory': {'value': memory}}}, **device) for i in range(devices)]}}


def held(namespace, name, node_name, device):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name, 'namespace': namespace},
            'spec': {'devices': {'requests': [{'name': 'g', 'exactly': {'deviceClassName': 'gpu'}}]}},
            'status': {'allocation': {
                'devices': {'results': [{'request': 'g', 'driver': 'gpu.example.com', 'pool': node_name, 'device': device}]},
                'nodeSelector': {'nodeSelectorTerms': [{'matchFields': [
                    {'key': 'metadata.name', 'operator': 'In', 'values': [node_name]}]}]}}}}


CLASS = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': 'gpu'},
         'spec': {'selectors': [{'cel': {'expression': "device.driver == 'gpu.example.com'"}}]}}

PODS = '''apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-large}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu
          count: 2
          selectors:
          - cel: {expression: 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'}
      constraints: [{matchAttribute: gpu.example.com/numa}]
---
apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-large}]
  containers: [{name: c, image: i, resources: {claims: [{name: gpus}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: second}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-large}]
  containers: [{name: c, image: i, resources: {claims: [{name: gpus}]}}]
'''


def write(folder):
    """Three nodes: one with two large GPUs free on the same NUMA node, one with small GPUs, one tainted."""
    cluster = [CLASS, node('large'), node('small'), node('sick'), gpu_slice('large'), gpu_slice('small', memory='24Gi'),
               gpu_slice('sick', taints=[{'key': 'maintenance', 'value': 'true', 'effect': 'NoSchedule'}]),
               held('team-b', 'train-0', 'large', 'gpu-0')]
    with open(os.path.join(folder, 'cluster.json'), 'w') as f:
        json.dump({'apiVersion': 'v1', 'kind': 'List', 'items': cluster}, f)
    with open(os.path.join(folder, 'pods.yaml'), 'w') as f:
        f.write(PODS)
    with open(os.path.join(folder, 'notes.txt'), 'w') as f:
        f.write('not a manifest')


def tables(folder):
    r = dray('plan', '-f', 'cluster.json', 'pods.yaml', cwd=folder)
    lines = r.stdout.splitlines()
    expect('some do not fit', r.returncode, 1)
    expect('table', lines[:4], ['WHAT                NODE   DEVICES', 'pod default/first   large  gpu: gpu-2, gpu-3',
                                'pod default/second  -      does not fit', '1 more stay where they are (--all shows them)'])
    expect_in('why not', r.stdout, 'pod default/second does not fit:',
              '1 node (large):\n  request gpu: wants 2, 1 of 4 usable\n      3 in use, held by default/first-gpus-',
              '1 node (small):\n  request gpu: wants 2, 0 of 4 usable\n      4 refused by the selector (device.capacity',
              '4 tainted (maintenance=true:NoSchedule)', 'Nearest: 1 node (large): request gpu lacks 1 of 2.')
    expect_in('remedies', r.stdout, 'It would fit with request gpu asking for 1 instead of 2 (on large)',
              'or with request gpu tolerating the taint maintenance=true:NoSchedule (on sick)', 'or with claim team-b/train-0 gone (on large)',
              'or in 1 more way (-o json lists them)')
    whole = dray('plan', '-f', '.', cwd=folder)
    expect('a directory is the same', whole.stdout, r.stdout)
    text = PODS + '---\n' + json.dumps({'apiVersion': 'v1', 'kind': 'List', 'items': json.load(
        open(os.path.join(folder, 'cluster.json')))['items']})
    expect('standard input is the same', dray('plan', '-f', '-', text=text).stdout, r.stdout)
    expect('all', 'claim team-b/train-0  large  g: gpu-0  (already)' in
           dray('plan', '--all', '-f', '.', cwd=folder).stdout, True)
    r = dray('plan', '-f', '.', '--node', 'small', cwd=folder)
    expect_in('one node', r.stdout, 'pod default/first, pod default/second do not fit:')


def what_if(folder):
    def nodes(*args):
        r = dray('plan', '-f', '.', '-o', 'json', *args, cwd=folder)
        answer = json.loads(r.stdout)
        expect(f'{args} exit', r.returncode, 0 if answer['complete'] else 1)
        return {s.get('pod') or s['claim']: s.get('node') for s in answer['steps']}
    expect('as it is', nodes(), {'default/first': 'large', 'default/second': None, 'team-b/train-0': 'large'})
    expect('without', nodes('--without', 'team-b/train-0'), {'default/first': 'large', 'default/second': 'large'})
    expect('a node more', nodes('--add-node', 'like=large')['default/second'], 'large-new-1')
    expect('named', nodes('--add-node', 'like=large,count=2,name=big')['default/second'], 'big-1')
    expect('drained', nodes('--drain', 'large'), {'default/first': None, 'default/second': None, 'team-b/train-0': 'small'})
    expect('drained, and a new one', nodes('--drain', 'large', '--add-node', 'like=large')['default/first'], 'large-new-1')
    tainted = nodes('--taint', 'gpu.example.com/large/gpu-3=broken=yes:NoSchedule')
    expect('tainted', tainted['default/first'], None)
    r = dray('why', 'claim/team-b/train-0', '-f', 'cluster.json', '--taint',
             'driver=gpu.example.com,pool=large,device=gpu-0,key=broken,effect=NoExecute', cwd=folder)
    # Pods are evicted, not claims: one that no pod uses stays where it is.
    expect('not evicted', r.stdout, 'claim team-b/train-0 is placed already: on large with g: gpu-0.\n')
    for wrong, why in ((['--drain', 'nope'], 'there is no node nope; there are large, small, sick'),
                       (['--without', 'nope'], 'there is no claim default/nope'),
                       (['--taint', 'x'], 'want DRIVER'), (['--add-node', 'like=nope'], 'there is no node nope'),
                       (['--add-node', 'count=0'], 'want like=NODE or profile=NAME'),
                       (['--add-node', 'profile=nope'], 'nope'), (['--node', 'nope'], 'there is no node nope')):
        r = dray('plan', '-f', '.', *wrong, cwd=folder)
        expect(f'{wrong} exit', r.returncode, 2)
        expect_in(f'{wrong}', r.stderr, why)


def budgets():
    text = '''
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: a, uid: u, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: m, image: i}]}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
'''
    r = dray('plan', '--offline', '-f', '-', '--drain', 'n1', text=text)
    expect('a budget forbids it', r.returncode, 1)
    expect_in('which budget', r.stdout, 'pod default/a cannot be evicted from n1:',
              'The disruption budget web needs 1 healthy pods and has 1 currently')


def whys(folder):
    r = dray('why', 'first', '-f', '.', cwd=folder)
    expect('fits', (r.returncode, r.stdout), (0, 'pod default/first fits: it would land on large with gpu: gpu-2, gpu-3.\n'))
    r = dray('why', 'pod/default/second', '-f', '.', cwd=folder)
    expect('does not', (r.returncode, r.stdout.startswith('Pod default/second waits: 0/3 nodes: ')), (1, True))
    expect_in('as of a cluster', r.stdout, '\nIt would fit with\n', '\nNodes\n  1 node (large)\n')
    expect('alone', dray('why', 'second', '--alone', '-f', '.', cwd=folder).returncode, 0)
    r = dray('why', 'claim/team-b/train-0', '-f', '.', cwd=folder)
    expect('placed', (r.returncode, r.stdout), (0, 'claim team-b/train-0 is placed already: on large with g: gpu-0.\n'))
    step = json.loads(dray('why', 'second', '-o', 'json', '-f', '.', cwd=folder).stdout)['steps'][0]
    expect('json', (step['pod'], step['status'], step['explanation']['nodes']), ('default/second', 'unplaced', 3))
    expect_in('summary', step['summary'], '0/3 nodes: ', '; would fit with request gpu asking for 1 instead of 2')
    expect('remedies', [c['kind'] for m in step['remedies']['remedies'] for c in m['changes']],
           ['count', 'claimGone', 'tolerate', 'selectorTerm', 'claimGone', 'nodeAdded'])
    r = dray('why', 'nope', '-f', '.', cwd=folder)
    expect('no such pod', r.returncode, 2)
    expect_in('no such pod', r.stderr, 'no pod or claim nope in the files; there are pod default/first')


def mistakes(folder):
    for args in (['plan', '-f'], ['plan', 'x'], ['why', '-f', '.'], ['plan', '-f', '.', '--policy', 'best'],
                 ['plan', '-f', '.', '-o', 'xml'], ['plan', '-f', '.', '--features', 'Nope'], ['plan', '-f', '.', '--nope', 'x']):
        expect(f'{args}', dray(*args, cwd=folder).returncode, 2)
    expect('no file', dray('plan', '-f', 'none.yaml', cwd=folder).returncode, 1)
    bad = os.path.join(folder, 'bad')
    with open(bad, 'w') as f:
        f.write('apiVersion: v1\nkind: Node\nmetadata:\n  name: [3]\n')
    r = dray('plan', '-f', 'bad', cwd=folder)
    expect('bad field exit', r.returncode, 1)
    expect_in('bad field', r.stderr, 'dray plan: bad:4:', 'metadata.name')
    r = dray('plan', '-f', '-', text='a: [1\n')
    expect_in('not YAML', r.stderr, 'dray plan: <stdin>:')
    r = dray('plan', '-f', '-', text='')
    expect('nothing', (r.returncode, r.stdout.startswith('There is nothing to place')), (0, True))
    lone = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'spec': {
        'containers': [{'name': 'c', 'image': 'i'}], 'resourceClaims': [{'name': 'x', 'resourceClaimName': 'gone'}]}}
    r = dray('plan', '-f', '-', text=json.dumps(lone))
    expect_in('missing claim', r.stdout, 'pod default/p cannot be judged: ', 'could not find ResourceClaim "default/gone"')


ROOM = '''apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 5000, memory: 100Ti}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: nv}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
'''


def room():
    """Processors, memory and extended resources count."""
    r = dray('plan', '-f', '-', text=ROOM)
    expect('too large', r.returncode, 1)
    expect_in('too large', r.stdout, 'pod default/big does not fit:\n1 node (n1): have insufficient cpu, insufficient memory\n',
              'pod default/nv does not fit:\n1 node (n1): have insufficient nvidia.com/gpu\n')
    r = dray('why', 'big', '-f', '-', text=ROOM)
    expect('why', (r.returncode, r.stdout.splitlines()[0]),
           (1, 'Pod default/big waits: 0/1 nodes: 1 has insufficient cpu, insufficient memory'))


def needed(folder):
    r = dray('plan', '-f', '.', '--needed', '--add-node', 'like=large', cwd=folder)
    expect('needed', (r.returncode, r.stdout.splitlines()[0]),
           (0, 'Needed: 1 more node: 1 of like=large; with 0 something does not fit'))
    answer = json.loads(dray('plan', '-f', '.', '-o', 'json', '--needed', '--add-node', 'like=large', '--add-node',
                             'profile=example-gpu', cwd=folder).stdout)
    expect('needed, for programs', answer['needed'],
           {'total': 1, 'nodes': [{'kind': 'like=large', 'count': 1}, {'kind': 'profile=example-gpu', 'count': 0}]})
    for wrong, why, code in ((['--needed'], '--needed needs --add-node', 2),
                             (['--needed', '--add-node', 'like=large,count=2'], '--needed finds the count', 2),
                             (['--needed', '--add-node', 'like=small'], 'more nodes either', 1)):
        r = dray('plan', '-f', '.', *wrong, cwd=folder)
        expect(f'{wrong} exit', r.returncode, code)
        expect_in(f'{wrong}', r.stderr, why)


def clusters(folder):
    """Without --offline the cluster of KUBECONFIG is read; that it cannot be is told with what helps."""
    env = {'PATH': os.environ['PATH'], 'HOME': folder, 'KUBECONFIG': os.path.join(folder, 'none')}
    r = dray('plan', '-f', 'pods.yaml', cwd=folder, env=env)
    expect('no cluster', (r.returncode, r.stdout), (1, ''))
    expect_in('no cluster', r.stderr, 'dray plan: the cluster cannot be read: ', '; --offline plans on the files alone')
    for wrong in (['--offline'], ['--offline', '-f', 'pods.yaml', '--context', 'x']):
        expect(f'{wrong}', dray('plan', *wrong, cwd=folder, env=env).returncode, 2)


with tempfile.TemporaryDirectory() as top:
    write(top)
    tables(top)
    what_if(top)
    whys(top)
    needed(top)
    budgets()
    room()
    clusters(top)
    mistakes(top)
for failure in failures:
    print(failure)
print(f'{len(failures)} of the checks failed' if failures else 'all checks passed')
sys.exit(1 if failures else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray why` on unequal nodes (tests/why/worlds): for each mistake of why_cases.py the first line names the cause, the best remedy, carried
out by `dray why --fix`, lets the pod get its node, and what the answer says is true of the cluster. Usage: why_worlds.py DRAY [CASE...] [-v]"""
import json, os, re, shutil, subprocess, sys, tempfile, time

from up import Cluster, DRAY, HERE
from why_cases import PENDING

WORLDS = os.path.join(HERE, 'tests', 'why', 'worlds')
VERBOSE = '-v' in sys.argv
MERGE = 'application/merge-patch+json'
GROUPS = {'v1': '/api/v1', 'resource.k8s.io/v1': '/apis/resource.k8s.io/v1', 'resource.k8s.io/v1beta2': '/apis/resource.k8s.io/v1beta2'}
CLUSTER_WIDE = {'DeviceTaintRule', 'DeviceClass', 'Node', 'ResourceSlice'}


def path(o):
    kind = o['kind']
    plural = kind.lower() + ('es' if kind.endswith('s') else 's')
    where = '' if kind in CLUSTER_WIDE else '/namespaces/default'
    return f"{GROUPS[o['apiVersion']]}{where}/{plural}"


def create(c, o):
    code, answer = c.call('POST', path(o), o)
    assert code < 300, f"{o['metadata']['name']}: {code} {json.dumps(answer)[:500]}"


def bound(c, name):
    code, p = c.call('GET', f'/api/v1/namespaces/default/pods/{name}')
    return code == 200 and p['spec'].get('nodeName')


def waits(c, name):
    """The scheduler, or the controller of claims, has looked at the pod."""
    p = c.good('GET', f'/api/v1/namespaces/default/pods/{name}')
    return p['spec'].get('schedulerName') == 'other' or any(
        x['type'] == 'PodScheduled' and x['status'] == 'False' for x in p.get('status', {}).get('conditions', []))


def node_change(c, what, undo=False):
    node = f'/api/v1/nodes/{what[1]}'
    if what[0] == 'cordon':
        code, _ = c.call('PATCH', node, {'spec': {'unschedulable': None if undo else True}}, MERGE)
    else:
        taints = [t for t in c.good('GET', node)['spec'].get('taints', []) if t['key'] != what[2]]
        if not undo:
            taints.append({'key': what[2], 'value': what[3], 'effect': 'NoSchedule'})
        code, _ = c.call('PATCH', node, {'spec': {'taints': taints}}, MERGE)
    assert code == 200, what


ALWAYS = (('cordon', 'gpu-large-1'), ('taint', 'gpu-small-1', 'dedicated', 'batch'))


def clean(c):
    kinds = ['/api/v1/namespaces/default/pods', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims',
             '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates', '/apis/resource.k8s.io/v1beta2/devicetaintrules']
    for k in kinds:
        for o in c.good('GET', k)['items']:
            c.call('DELETE', f"{k}/{o['metadata']['name']}?gracePeriodSeconds=0")
    c.until('the cluster is empty', lambda: not any(c.good('GET', k)['items'] for k in kinds))
    c.call('DELETE', '/apis/resource.k8s.io/v1/deviceclasses/tpu.example.net')
    for n in c.good('GET', '/api/v1/nodes')['items']:
        spec = {'unschedulable': None, 'taints': None}
        labels = {k: None for k in n['metadata']['labels'] if k in ('rack', 'zon')}
        c.call('PATCH', f"/api/v1/nodes/{n['metadata']['name']}", {'spec': spec, 'metadata': {'labels': labels}}, MERGE)
    for what in ALWAYS:
        node_change(c, what)


def why(c, *args):
    return subprocess.run([DRAY, 'why', 'trainer', '--data-dir', c.folder, *args], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


# --- Is it true? ----------------------------------------------------------------------------------

class Truth:
    """What an answer says, held against the cluster's objects."""

    def __init__(self, c):
        get = lambda p: c.good('GET', p)['items']
        self.nodes = {n['metadata']['name']: n for n in get('/api/v1/nodes')}
        self.pods = {p['metadata']['name']: p for p in get('/api/v1/namespaces/default/pods')}
        self.claims = {f"default/{x['metadata']['name']}": x for x in get('/apis/resource.k8s.io/v1/namespaces/default/resourceclaims')}
        self.slices = get('/apis/resource.k8s.io/v1/resourceslices')
        self.rules = {r['metadata']['name'] for r in get('/apis/resource.k8s.io/v1beta2/devicetaintrules')}
        self.false = []

    def hold(self, true, what):
        if not true:
            self.false.append(what)

    def room(self, node, resource):
        unit = lambda t: float(re.match(r'[\d.]+', t)[0]) * {'m': 1e-3, 'Ki': 2**10, 'Mi': 2**20, 'Gi': 2**30, 'Ti': 2**40, 'k': 1e3}.get(
            re.sub(r'^[\d.]+', '', t), 1)
        used = sum(unit(k['resources'].get('requests', {}).get(resource, '0')) for p in self.pods.values()
                   if p['spec'].get('nodeName') == node for k in p['spec']['containers'])
        return unit(self.nodes[node]['status']['allocatable'].get(resource, '0')) - used, unit

    def line(self, line):
        for names in re.findall(r'^  \d+ nodes? \(([^)]*)\)', line):
            self.hold(all(n in self.nodes for n in names.replace(', …', '').split(', ')), line)
        for node in re.findall(r'\(on ([^)]*)\)', line):
            self.hold(node in self.nodes, line)
        for node in re.findall(r'kubectl uncordon (\S+)', line):
            self.hold(self.nodes[node]['spec'].get('unschedulable'), line)
        for key, value, effect, node in re.findall(r'toleration for the taint (\S+?)(?:=(\S+?))?:(\w+)   \(on (\S+)\)', line):
            self.hold({'key': key, 'value': value, 'effect': effect}.items() <= {k: v for t in self.nodes[node]['spec'].get('taints', [])
                      if t['key'] == key for k, v in dict({'value': ''}, **t).items()}.items(), line)
        for claim in re.findall(r'claim (default/\S+) gone', line):
            self.hold(claim.rstrip(':') in self.claims, line)
        for amount, resource, node in re.findall(r'ask for at most (\S+) (cpu|memory) .* left on (\S+)', line):
            room, unit = self.room(node, resource)
            self.hold(unit(amount) <= room + 1e-9, line)
        for name in re.findall(r'DeviceTaintRule (\S+),', line):
            self.hold(name in self.rules, line)
        for name, node in re.findall(r'end pod default/(\S+), which is on node (\S+),', line):
            self.hold(self.pods.get(name, {}).get('spec', {}).get('nodeName') == node, line)
        if 'no published device is of the class' in line:
            self.hold(not any(s['spec']['driver'] == 'gpu.example.com' for s in self.slices) or 'tpu' in line or 'request tpu' in line, line)

    def first(self, line):
        m = re.search(r'0/(\d+) nodes: (.*)', line)
        if not m:
            return
        self.hold(int(m[1]) == len(self.nodes), line)
        counts = [int(n) for n in re.findall(r'(?:^|; )(\d+) (?:ha|is|are|do|carr|would|for|exceed|can)', m[2])]
        self.hold(sum(counts) == len(self.nodes), f'{counts} of {len(self.nodes)} nodes: {line}')
        for name in re.findall(r'held by (default/[^,;( ]*)', line):
            self.hold(any(k.startswith(name.rstrip('*')) for k in self.claims), line)

    def answer(self, text):
        lines = text.splitlines()
        self.first(lines[0])
        for line in lines:
            self.line(line)
        remedies = [l for l in lines if l.startswith('  - ')]
        self.hold(len(remedies) == len(set(remedies)), f'repeated: {remedies}')
        return self.false


# --- By hand --------------------------------------------------------------------------------------

HAND = {
    'no-driver': (r'is its driver installed and running\?', lambda c: create(c, {
        'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 'tpu'}, 'spec': {
            'driver': 'tpu.example.net', 'nodeName': 'cpu-only-0', 'pool': {'name': 'tpu', 'generation': 1, 'resourceSliceCount': 1},
            'devices': [{'name': 'tpu-0'}]}})),
    'constraint': (r'.', None),
}


# --- Cases ----------------------------------------------------------------------------------------

def remedy(c, case, text, answer):
    """Carries out the best remedy. None: it works; else why not."""
    first = (answer.get('remedies') or [None])[0]
    if first and first['executable'] and case['kinds']:
        kinds = [x['kind'] for x in first['changes']]
        if not set(kinds) & set(case['kinds']):
            return f'the best remedy is {kinds}, not one of {case["kinds"]}'
        r = why(c, '--fix', '1', '--yes')
        if r.returncode != 0:
            return f'--fix 1: {r.stdout}{r.stderr}'
    elif case['hand'] and HAND[case['hand']][1]:
        words, act = HAND[case['hand']]
        if not re.search(words, text):
            return f'no line says {words}'
        act(c)
    elif first and first['executable']:
        r = why(c, '--fix', '1', '--yes')
        if r.returncode != 0:
            return f'--fix 1: {r.stdout}{r.stderr}'
    else:
        return 'there is no remedy that can be carried out'
    try:
        c.until('the pod gets its node', lambda: bound(c, 'trainer'), 20)
    except AssertionError as e:
        return str(e)
    return None


def run(c, case):
    """Returns (cause is right, remedy works, all is true, report)."""
    clean(c)
    for what in case['before']:
        node_change(c, what)
    for o in case['objects']:
        create(c, o)
        if o['kind'] == 'Pod' and o['metadata']['name'].startswith('user'):
            c.until(f"{case['name']}: {o['metadata']['name']} has its node", lambda: bound(c, o['metadata']['name']), 30)
    c.until(f"{case['name']}: the pod waits", lambda: waits(c, 'trainer'), 30)
    text, data = why(c), why(c, '-o', 'json')
    assert text.returncode == 1 and data.returncode == 1, f'{text} {data}'
    answer, first = json.loads(data.stdout), text.stdout.splitlines()[0]
    cause = all(re.search(w, first) for w in case['cause'])
    false = Truth(c).answer(text.stdout) + [w for w in case['absent'] if w in text.stdout]
    failure = remedy(c, case, text.stdout, answer)
    report = '' if cause and not failure and not false and not VERBOSE else \
        f"--- {case['name']}: cause {'ok' if cause else 'WRONG, want ' + str(case['cause'])}, remedy {failure or 'ok'}, false {false}\n{text.stdout}"
    return cause, failure is None, not false, report


def main():
    names = [a for a in sys.argv[2:] if not a.startswith('-')]
    cases = [x for x in PENDING if not names or x['name'] in names]
    top = tempfile.mkdtemp(prefix='dray-why-')
    profiles = ','.join(os.path.join(WORLDS, f'{p}.yaml') for p in ('gpu-large', 'gpu-small', 'cpu-only', 'net-shared'))
    c = Cluster(os.path.join(top, 'data'), '--nodes', '2', '--sim', profiles)
    try:
        c.until('all nodes', lambda: len(c.good('GET', '/api/v1/nodes')['items']) == 8)
        results = [run(c, x) for x in cases]
    finally:
        c.stop()
        shutil.rmtree(top, ignore_errors=True)
    for r in results:
        if r[3]:
            print(r[3])
    good = [sum(r[i] for r in results) for i in range(3)]
    print(f'{len(results)} cases: cause right in {good[0]}, best remedy works in {good[1]}, all true in {good[2]}')
    assert good[0] == good[2] == len(results) and good[1] * 10 >= len(results) * 9, good


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray why` on the mistakes under tests/why: the first line names the cause, a line below a remedy, and the remedy, applied, lets the pod
get its node. tests/why/README.md tells how a case is written. Usage: why.py DRAY [CASE...] [-v]"""
import glob, json, os, re, shutil, subprocess, sys, tempfile, time

from devices import scrape
from up import Cluster, DRAY, HERE

CASES = os.path.join(HERE, 'tests', 'why')
GROUPS = {'v1': '/api/v1', 'resource.k8s.io/v1': '/apis/resource.k8s.io/v1', 'storage.k8s.io/v1': '/apis/storage.k8s.io/v1',
          'scheduling.k8s.io/v1beta1': '/apis/scheduling.k8s.io/v1beta1'}
CLUSTER_WIDE = {'Namespace', 'DeviceClass', 'DeviceTaintRule', 'ResourceSlice', 'PersistentVolume', 'StorageClass'}
MERGE = 'application/merge-patch+json'
VERBOSE = '-v' in sys.argv


def collection(o):
    kind = o['kind']
    plural = kind.lower() + ('es' if kind.endswith('s') else 's')
    where = '' if kind in CLUSTER_WIDE else '/namespaces/' + o['metadata'].get('namespace', 'default')
    return f"{GROUPS[o['apiVersion']]}{where}/{plural}"


def path(o):
    return f"{collection(o)}/{o['metadata']['name']}"


class Case:
    """A file of tests/why: what it expects, and the steps of its two parts."""

    def __init__(self, file):
        self.name = os.path.basename(file)[:-len('.yaml')]
        with open(file, encoding='utf-8') as f:
            text = f.read()
        mistake, _, remedy = text.partition('# --- remedy\n')
        self.expect = {}
        for key, value in re.findall(r'^# (cause|remedy|machine|again|hidden|absent|refused): ?(.*)$', mistake, re.M):
            self.expect.setdefault(key, []).append(value)
        self.texts = [mistake, remedy]
        self.parts = [[], []]

    def steps(self, part):
        """The documents as steps: objects, or what a comment says is to be done."""
        return [re.findall(r'^# (patch|delete|condition|reserve): (\S+) ?(.*)$', d, re.M) or d
                for d in re.split(r'^---\n', self.texts[part], flags=re.M)
                if re.search(r'^(kind:|# (patch|delete|condition|reserve):)', d, re.M)]


def load(names):
    """All cases, their YAML made JSON by one run of dray."""
    cases = [Case(f) for f in sorted(glob.glob(os.path.join(CASES, '*.yaml'))) if not f.endswith('house.yaml')]
    cases = [c for c in cases if not names or c.name in names]
    steps = [(c, part, s) for c in cases for part in (0, 1) for s in c.steps(part)]
    r = subprocess.run([DRAY, 'convert', '-f', '-', '-o', 'json'], input='---\n'.join(s for _, _, s in steps if isinstance(s, str)),
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    decoder, text, objects = json.JSONDecoder(), r.stdout.strip(), []
    while text:
        o, end = decoder.raw_decode(text)
        objects.append(o)
        text = text[end:].lstrip()
    for c, part, s in steps:
        c.parts[part].append(objects.pop(0) if isinstance(s, str) else s)
    return cases


def gone(cluster, where):
    cluster.call('DELETE', where + '?gracePeriodSeconds=0')
    cluster.until(f'{where} is gone', lambda: cluster.call('GET', where)[0] == 404)


def put(cluster, o):
    """Creates an object; one that is there already makes room."""
    code, answer = cluster.call('POST', collection(o), o)
    if code == 409 and o['kind'] == 'ResourceQuota':
        code, answer = cluster.call('PATCH', path(o), {'spec': o['spec']}, MERGE)
    elif code == 409:
        gone(cluster, path(o))
        code, answer = cluster.call('POST', collection(o), o)
    if code < 300 and o['kind'] == 'ResourceQuota':  # counts once its status says so
        cluster.until('the quota counts', lambda: cluster.good('GET', path(o)).get('status', {}).get('hard') == o['spec']['hard'])
    assert code < 300, f"{path(o)}: {code} {json.dumps(answer)[:600]}"


def condition(cluster, name, kind):
    """Says of the devices of a claim what their driver would, as soon as it has some."""
    where = f'/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}'
    cluster.until(f'{name} is {kind}', lambda: set_condition(cluster, where, kind))


def set_condition(cluster, where, kind):
    claim = cluster.good('GET', where)
    if 'allocation' not in claim.get('status', {}):
        return False
    claim['status']['devices'] = [dict({k: r[k] for k in ('driver', 'pool', 'device')}, conditions=[
        {'type': kind, 'status': 'True', 'reason': 'Said', 'message': 'by the driver', 'lastTransitionTime': '2026-01-01T00:00:00Z'}])
        for r in claim['status']['allocation']['devices']['results']]
    return cluster.call('PUT', where + '/status', claim)[0] == 200


def reserve(cluster, name, n):
    """Lets an allocated claim have so many users: others than pods, which no controller looks for."""
    where = f'/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}'

    def done():
        claim = cluster.good('GET', where)
        users = claim['status']['reservedFor'] = [u for u in claim['status'].get('reservedFor', []) if u['resource'] == 'pods']
        users += [{'apiGroup': 'example.com', 'resource': 'users', 'name': f'user-{i}', 'uid': f'uid-{i}'} for i in range(len(users), n)]
        return cluster.call('PUT', where + '/status', claim)[0] == 200
    cluster.until(f'{name} is reserved', done)


def run(cluster, steps):
    for step in steps:
        if isinstance(step, dict):
            put(cluster, step)
            if step['kind'] == 'Pod' and re.match(r'(user|secret|web)-?\d*$', step['metadata']['name']):
                node_of(cluster, step)
            continue
        for what, where, rest in step:
            if what == 'patch':
                code, answer = cluster.call('PATCH', where, json.loads(rest), MERGE)
                assert code == 200, answer
            elif what == 'delete':
                gone(cluster, where)
            elif what == 'reserve':
                reserve(cluster, where, int(rest))
            else:
                condition(cluster, where, rest)


def node_of(cluster, pod):
    def there():
        code, p = cluster.call('GET', path(pod))
        return code == 200 and p['spec'].get('nodeName')
    return cluster.until(f"pod {pod['metadata']['name']} has a node", there, 30)


# --- Remedies as the program gives them -----------------------------------------------------------

def request_of(claim_spec, name):
    request, _, sub = name.partition('/')
    r = [x for x in claim_spec['devices']['requests'] if x['name'] == request][0]
    return [x for x in r['firstAvailable'] if x['name'] == sub][0] if sub else r['exactly']


def change(cluster, spec, c):
    kind = c['kind']
    if kind == 'claimGone':
        namespace, name = c['what'].split('/')
        claim = cluster.good('GET', f'/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}')
        for r in claim['status'].get('reservedFor', []):
            gone(cluster, f"/api/v1/namespaces/{namespace}/pods/{r['name']}")
        return
    if kind == 'constraint':
        spec['devices']['constraints'] = [x for x in spec['devices']['constraints'] if c['what'] not in x.values()]
        return
    request = request_of(spec, c['request'])
    if kind == 'count':
        request['count'] = int(c['to'])
    elif kind == 'capacity':
        request['capacity']['requests'][c['what']] = c['to']
    elif kind == 'tolerate':
        key, _, effect = c['what'].partition(':')
        key, _, value = key.partition('=')
        request.setdefault('tolerations', []).append(
            {'key': key, 'effect': effect, **({'operator': 'Equal', 'value': value} if value else {'operator': 'Exists'})})
    elif kind == 'selectorTerm':
        for s in request['selectors']:
            terms = [t.strip() for t in s['cel']['expression'].split('&&')]
            s['cel']['expression'] = ' && '.join(t for t in terms if t != c['what']) or 'true'
    else:
        raise AssertionError(f'no way to apply {c}')


def apply_machine(cluster, case, answer, wanted):
    """Does what the best remedy says, to the pod's template, and lets the pod come again."""
    remedies = answer['now']['remedies']['remedies']
    best = [r for r in remedies if not wanted or r['changes'][0]['kind'] == wanted]
    assert best, f'{case.name}: no remedy of the kind {wanted}: {remedies}'
    pod = last_pod(case)
    template = [o for o in case.parts[0] if isinstance(o, dict) and o['kind'] == 'ResourceClaimTemplate'][-1]
    for c in best[0]['changes']:
        change(cluster, template['spec']['spec'], c)
    if any(c['kind'] != 'claimGone' for c in best[0]['changes']):
        gone(cluster, path(pod))
        put(cluster, template)
        put(cluster, pod)


# --- One case -------------------------------------------------------------------------------------

def why(cluster, pod, *flags):
    name = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
    return subprocess.run([DRAY, 'why', name, '--data-dir', cluster.folder, *flags], capture_output=True, text=True, timeout=60)


def told(cluster, case, pod):
    """What why says, once its first line names the cause."""
    last = []

    def there():
        r = why(cluster, pod)
        last[:] = [r]
        first, _, rest = r.stdout.partition('\n')
        return all(w in first for w in case.expect['cause']) and all(w in rest for w in case.expect['remedy'])
    try:
        cluster.until('told', there, 20)
    except AssertionError:
        raise AssertionError(f'{case.name}: want {case.expect}, told:\n{last[0].stdout}{last[0].stderr}') from None
    assert last[0].returncode == 1, f'{case.name}: exit {last[0].returncode}'
    for word in case.expect.get('absent', []):
        assert word not in last[0].stdout, f'{case.name}: {word} in\n{last[0].stdout}'
    return last[0].stdout


def claim_told(cluster, case, pod):
    """The claim of the pod is explained as the pod is."""
    claim = cluster.good('GET', path(pod))['status']['resourceClaimStatuses'][0]['resourceClaimName']
    r = subprocess.run([DRAY, 'why', f'claim/{claim}', '--data-dir', cluster.folder], capture_output=True, text=True, timeout=60)
    first = r.stdout.partition('\n')[0]
    assert r.returncode == 1 and claim in first and all(w in first for w in case.expect['cause']), f'{case.name}: {r}'


def hides(cluster, case, pod):
    """What the pod's owner reads tells nothing of others."""
    def there():
        conditions = cluster.good('GET', path(pod)).get('status', {}).get('conditions', [])
        return [c['message'] for c in conditions if c['type'] == 'PodScheduled' and c.get('message')]
    for word in case.expect.get('hidden', []):
        text = cluster.until('a condition', there)[0]
        assert word not in text, f'{case.name}: {word} in {text}'


def clean(cluster, case):
    objects = [o for part in case.parts for o in part if isinstance(o, dict)]
    for kinds in ({'Pod'}, {'ResourceClaim'}):
        for o in objects:
            if o['kind'] in kinds:
                cluster.call('DELETE', path(o) + '?gracePeriodSeconds=0')
    for o in objects:
        if o['kind'] not in ('Pod', 'Namespace'):
            gone(cluster, path(o))
    for step in case.parts[0]:
        for what, where, _ in step if isinstance(step, list) else ():
            if what == 'patch' and '/nodes/' in where:
                cluster.call('PATCH', where, {'spec': {'taints': None, 'unschedulable': None}}, MERGE)
    cluster.until('no pod and no claim is left', lambda: not cluster.good('GET', '/api/v1/pods')['items'] and
                  not cluster.good('GET', '/apis/resource.k8s.io/v1/resourceclaims')['items'])


def refused(cluster, case):
    """The mistake is told when it is made: nothing gets into the cluster."""
    r = subprocess.run([DRAY, 'apply', '-f', '-', '--kubeconfig', os.path.join(cluster.folder, 'admin.kubeconfig')], input=case.texts[0],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and all(w in r.stderr for w in case.expect['refused']), f'{case.name}: {r}'


def last_pod(case):
    return [o for o in case.parts[0] if isinstance(o, dict)][-1]


def examine(cluster, case):
    if 'refused' in case.expect:
        refused(cluster, case)
        return
    run(cluster, case.parts[0])
    pod = last_pod(case)
    text = told(cluster, case, pod)
    if VERBOSE:
        print(f'--- {case.name}\n{text}', end='')
    hides(cluster, case, pod)
    if case.expect.get('machine') == ['count']:
        claim_told(cluster, case, pod)
    if 'machine' in case.expect:
        answer = json.loads(why(cluster, pod, '-o', 'json').stdout)
        apply_machine(cluster, case, answer, case.expect['machine'][0])
    else:
        run(cluster, case.parts[1])
        if 'again' in case.expect:
            gone(cluster, path(pod))
            put(cluster, pod)
    node_of(cluster, pod)
    clean(cluster, case)


def waits_counted(cluster):
    """The cases with binding conditions have ended in every way that is counted."""
    text = scrape(cluster)
    for name in ('allocations_total', 'wait_duration_seconds_count'):
        for status in ('success', 'failure', 'timeout'):
            line = f'scheduler_dra_bindingconditions_{name}{{driver="fpga.example.com",profile="default-scheduler",status="{status}"}} '
            assert re.search(re.escape(line) + '[1-9]', text), line


def main():
    names = [a for a in sys.argv[2:] if a != '-v']
    cases = load(names)
    assert names or len(cases) >= 20, f'{len(cases)} cases'
    top = tempfile.mkdtemp(prefix='dray-')
    failures = []
    try:
        cluster = Cluster(os.path.join(top, 'data'), '--sim', os.path.join(CASES, 'house.yaml'), '--nodes', '2',
                          '--binding-timeout', '5s', '--controllers', '*,-persistentvolume-binder-controller', '--feature-gates', 'GenericWorkload=true', '--runtime-config', 'scheduling.k8s.io/v1beta1=true')
        for case in cases:
            start = time.monotonic()
            try:
                examine(cluster, case)
            except AssertionError as e:
                failures.append(f'{case.name}: {e}')
                try:
                    clean(cluster, case)
                except AssertionError as again:
                    failures.append(f'{case.name}: {again}')
            if VERBOSE:
                print(f'{case.name}: {time.monotonic() - start:.1f} s')
        if not names:
            waits_counted(cluster)
        cluster.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print('\n'.join(failures) if failures else f'why: {len(cases)} cases ok')
    sys.exit(bool(failures))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published manifests on simulated nodes: what becomes of each pod is what manifests_up.table says, and every pod that waits says
why in its condition, its event and `dray why`. Usage: manifests_up.py DRAY [--record] [FILE…]

Files are applied one after the other, as kubectl does (strict, in order, lists taken apart), each in namespaces of its own, to
clusters whose nodes have the profiles of the table; everything is deleted again before the next file. Namespaces that a file
names but does not make are made if it makes none at all. The controllers of workloads are off, and the test does what they
would, so that it knows which pods to expect: replicas of Deployments, StatefulSets and Jobs (as many as run at once), a pod of a DaemonSet for each node,
launcher and workers of an MPIJob (with the labels the MPI operator gives them). A claim or template that no pod of the file uses
gets a pod of the test's, try-NAME. Kinds that the server does not serve are named in the table.

--record prints what happened in the form of the table, to be reviewed."""
import concurrent.futures, copy, fnmatch, http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time

ARGS = [a for a in sys.argv[1:] if not a.startswith('--')]
DRAY = os.path.abspath(ARGS[0] if ARGS else 'build/dray')
ONLY = ARGS[1:]
RECORD = '--record' in sys.argv
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'data'))
import unpack  # noqa: E402

OPEN = os.path.join(unpack.directory('manifests'), 'open')
TABLE = os.path.join(HERE, 'manifests_up.table')
NODES = 2           # of each profile
WORKLOADS = '*,-replicaset-controller,-deployment-controller,-daemonset-controller,-statefulset-controller,-job-controller'
AT_ONCE = 6         # clusters; much of the time is waiting
PATIENCE = 60       # seconds until a pod must have its outcome

KINDS = {'Pod': 'pods', 'Namespace': 'namespaces', 'ResourceClaim': 'resourceclaims', 'ResourceClaimTemplate': 'resourceclaimtemplates',
         'DeviceClass': 'deviceclasses', 'ResourceSlice': 'resourceslices', 'DeviceTaintRule': 'devicetaintrules',
         'Deployment': 'deployments', 'StatefulSet': 'statefulsets', 'DaemonSet': 'daemonsets', 'Job': 'jobs', 'Service': 'services',
         'ServiceAccount': 'serviceaccounts', 'ClusterRole': 'clusterroles', 'ClusterRoleBinding': 'clusterrolebindings',
         'Role': 'roles', 'RoleBinding': 'rolebindings', 'ResourcePoolStatusRequest': 'resourcepoolstatusrequests',
         'ValidatingAdmissionPolicy': 'validatingadmissionpolicies'}
NOT_SERVED = ('404 page not found', 'the server could not find the requested resource')
CLUSTER_WIDE = {'Namespace', 'DeviceClass', 'ResourceSlice', 'DeviceTaintRule', 'ClusterRole', 'ClusterRoleBinding',
                'ResourcePoolStatusRequest', 'ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding', 'CustomResourceDefinition'}


# --- The table -------------------------------------------------------------------------------------------------------------------

class Entry:
    """A file of the table: on which profiles, with which other files, and its lines."""
    def __init__(self, path, profiles, others):
        self.path, self.profiles, self.others, self.lines = path, profiles, others, []


def read_table():
    """FILE on PROFILES [with FILES], then indented lines: 'pod PATTERN [×N]: OUTCOME' or 'KIND NAME: OUTCOME'."""
    entries = []
    for number, line in enumerate(open(TABLE, encoding='utf-8'), 1):
        text = re.sub(r'(^|\s+)# .*|^#$', '', line).rstrip()
        if not text:
            continue
        if text[0] != ' ':
            path, _, rest = text.partition(' on ')
            profiles, _, others = rest.partition(' with ')
            entries.append(Entry(path.strip(), tuple(profiles.strip().split(',')), others.split()))
            continue
        m = re.fullmatch(r' +(\S+) (\S+?)(?: ×(\d+))?: (bound|pending|refused|not served|accepted)(?: (.*))?', text)
        assert m, f'{TABLE}:{number}: not understood: {text}'
        kind, pattern, count, outcome, rest = m.groups()
        entries[-1].lines.append((kind, pattern, int(count or 1), outcome, rest or ''))
    return entries


# --- A cluster -------------------------------------------------------------------------------------------------------------------

class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


class Cluster:
    def __init__(self, profiles):
        self.folder = tempfile.mkdtemp(prefix='dray-')
        self.errors = open(os.path.join(self.folder, 'errors'), 'w+', encoding='utf-8')
        self.process = subprocess.Popen([DRAY, 'up', '--controllers', WORKLOADS, '--data-dir', self.folder + '/data', '--listen', '127.0.0.1:0', '--nodes',
                                         str(NODES), '--sim', ','.join(profiles)], stdout=subprocess.PIPE, stderr=self.errors, text=True)
        first = self.process.stdout.readline()
        assert 'dray is up at' in first, f'{profiles}: not up: {first}{self.said()}'
        self.nodes = [n['metadata']['name'] for n in self.good('GET', '/api/v1/nodes')['items']]
        self.classes = {c['metadata']['name']: c for c in self.good('GET', '/apis/resource.k8s.io/v1/deviceclasses')['items']}

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-3000:]

    def call(self, method, path, body=None):
        c = Unix(self.folder + '/data/dray.sock')
        c.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': 'application/json'})
        answer = c.getresponse()
        data = answer.read()
        c.close()
        if 'json' not in answer.getheader('Content-Type', ''):
            return answer.status, {'message': data.decode().strip()}
        return answer.status, json.loads(data) if data else None

    def good(self, method, path, body=None):
        code, answer = self.call(method, path, body)
        assert 200 <= code < 300, f'{method} {path}: {code} {json.dumps(answer)[:600]}'
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        said = self.said()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self.process.returncode == 0, f'exit {self.process.returncode}: {said}'


def path_of(o, name=True):
    version = o['apiVersion']
    path = f'/api/{version}' if '/' not in version else f'/apis/{version}'
    if o['kind'] not in CLUSTER_WIDE:
        path += f"/namespaces/{o['metadata']['namespace']}"
    path += '/' + KINDS.get(o['kind'], o['kind'].lower() + 's')
    return path + '/' + o['metadata']['name'] if name else path


# --- Files ------------------------------------------------------------------------------------------------------------------------

def objects_of(path):
    """The documents of a file as they stand. `dray convert` reads YAML and leaves kinds that it does not know alone."""
    text = open(os.path.join(OPEN, path), encoding='utf-8').read()
    text = re.sub(r'(?m)^kind: *', 'kind: Raw', text)
    run = subprocess.run([DRAY, 'convert', '-f', '-', '-o', 'json'], input=text, capture_output=True, text=True)
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(run.stdout.rstrip()):
        value, at = decoder.raw_decode(run.stdout, at)
        at += len(run.stdout[at:]) - len(run.stdout[at:].lstrip())
        value['kind'] = value['kind'][len('Raw'):]
        found += value['items'] if value['kind'] == 'List' else [value]
    problems = [l for l in run.stderr.split('\n') if l and 'warning:' not in l]
    return found, problems


def template_pods(o, nodes):
    """The pods that the controller of a workload would make."""
    def pod(name, template, labels=None, node=None):
        p = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': copy.deepcopy(template.get('metadata') or {}), 'spec': copy.deepcopy(template['spec'])}
        p['metadata'].update({'name': name, 'namespace': o['metadata']['namespace']})
        p['metadata'].setdefault('labels', {}).update(labels or {})
        if node:
            terms = {'nodeSelectorTerms': [{'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': [node]}]}]}
            required = p['spec'].setdefault('affinity', {}).setdefault('nodeAffinity', {})
            old = required.get('requiredDuringSchedulingIgnoredDuringExecution', {'nodeSelectorTerms': [{}]})
            required['requiredDuringSchedulingIgnoredDuringExecution'] = {
                'nodeSelectorTerms': [dict(t, **terms['nodeSelectorTerms'][0]) for t in old['nodeSelectorTerms']]}
        return p

    name, spec, kind = o['metadata']['name'], o['spec'], o['kind']
    if kind == 'DaemonSet':
        return [pod(f'{name}-{n}', spec['template'], node=n) for n in nodes]
    if kind == 'MPIJob':
        found = []
        for role, replica in spec['mpiReplicaSpecs'].items():
            labels = {'training.kubeflow.org/job-name': name, 'training.kubeflow.org/job-role': role.lower()}
            count = replica['replicas'] if isinstance(replica['replicas'], int) else 1
            names = [f'{name}-launcher'] if role == 'Launcher' else [f'{name}-worker-{i}' for i in range(count)]
            found += [pod(n, replica['template'], labels) for n in names]
        return found
    return [pod(f'{name}-{i}', spec['template']) for i in range(spec.get('parallelism' if kind == 'Job' else 'replicas', 1))]


def tries(objects, pods):
    """Pods for claims and templates that no pod of the file uses. Captured claims that were made for a pod are left out."""
    used = {(p['metadata']['namespace'], c.get(k)) for p in pods for c in p['spec'].get('resourceClaims') or []
            for k in ('resourceClaimName', 'resourceClaimTemplateName')}
    found = []
    for o in objects:
        key = {'ResourceClaim': 'resourceClaimName', 'ResourceClaimTemplate': 'resourceClaimTemplateName'}.get(o['kind'])
        m = o.get('metadata', {})
        if key and (m['namespace'], m['name']) not in used and not m.get('ownerReferences'):
            found.append({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'try-' + m['name'], 'namespace': m['namespace']},
                          'spec': {'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'c'}]}}],
                                   'resourceClaims': [{'name': 'c', key: m['name']}]}})
    return found


class Trial:
    """A file on a cluster: what was made and what became of it."""
    def __init__(self, cluster, entry, number):
        self.cluster, self.entry, self.prefix = cluster, entry, f'm{number:03}'
        self.whys = {}
        self.made, self.facts, self.pods, self.replaced, self.tries = [], [], [], [], []

    def namespace(self, name):
        return self.prefix if name in (None, '', 'default') else f'{self.prefix}-{name}'

    def rename(self, o):
        m = o.setdefault('metadata', {})
        for key in ('resourceVersion', 'uid', 'creationTimestamp'):  # of captures
            m.pop(key, None)
        if o['kind'] == 'Namespace':
            m['name'] = self.namespace(m['name'])
        elif o['kind'] not in CLUSTER_WIDE:
            m['namespace'] = self.namespace(m.get('namespace'))
        return o

    def create(self, o):
        """As kubectl apply: creates, or replaces what is there. What did not work is a fact."""
        kind, name = o['kind'], o['metadata'].get('name') or o['metadata'].get('generateName')
        code, answer = self.cluster.call('POST', path_of(o, False) + '?fieldValidation=Strict', o)
        if code == 409 and kind in ('Namespace', 'DeviceClass'):
            if kind == 'DeviceClass':
                old = self.cluster.good('GET', path_of(o))
                o['metadata']['resourceVersion'] = old['metadata']['resourceVersion']
                code, answer = self.cluster.call('PUT', path_of(o) + '?fieldValidation=Strict', o)
                self.replaced.append(old)
            else:
                code = 200
        elif 200 <= code < 300:
            o['metadata'] = answer['metadata']
            self.made.append(o)
        if code == 404 and answer.get('message', '') in NOT_SERVED:
            self.facts.append((kind, name, 'not served', ''))
            return kind not in ('ResourceClaim', 'ResourceClaimTemplate')
        if not 200 <= code < 300:
            self.facts.append(('pod' if kind == 'Pod' else kind, name, 'refused', answer.get('message', str(answer))))
            return False
        if kind == 'Pod':
            self.pods.append(o)
        return True

    def apply(self):
        objects, problems = [], []
        for path in self.entry.others + [self.entry.path]:
            more, bad = objects_of(path)
            objects.append([self.rename(o) for o in more])
            problems = bad
        everything = [o for part in objects for o in part]
        made_here = {o['metadata']['name'] for o in everything if o['kind'] == 'Namespace'}
        named = {o['metadata']['namespace'] for o in everything if 'namespace' in o['metadata']}
        for name in sorted({self.prefix} | (set() if made_here else named)):
            self.create({'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': name}})
        # Of the other files only what this one builds on; their pods have lines of their own.
        for o in everything[:len(everything) - len(objects[-1])]:
            if o['kind'] in ('Namespace', 'ResourceClaim', 'ResourceClaimTemplate', 'DeviceClass'):
                self.create(o)
        own, refused = [], set()
        for o in objects[-1]:
            if not self.create(o):
                refused.add(id(o))
            elif o['kind'] == 'Pod':
                own.append(o)
            elif o['kind'] in ('Deployment', 'StatefulSet', 'DaemonSet', 'Job', 'MPIJob'):
                for p in template_pods(o, self.cluster.nodes):
                    own.append(p)
                    self.create(p)
        self.tries = tries([o for o in objects[-1] if id(o) not in refused], own)
        for line in problems:
            self.facts.append(('document', '-', 'refused', line))

    # What became of it

    def state(self, pod):
        """(outcome, text) of a pod, or None while it has none."""
        code, p = self.cluster.call('GET', path_of(pod))
        if code != 200:
            return None
        if p['spec'].get('nodeName'):
            return 'bound', f"on {p['spec']['nodeName'].rsplit('-', 1)[0]}" + self.devices(p)
        for c in p.get('status', {}).get('conditions', []):
            if c['type'] == 'PodScheduled' and c['status'] == 'False':
                return 'pending', c['message']
        return None

    def devices(self, p):
        names = {s['name']: s.get('resourceClaimName') for s in p['status'].get('resourceClaimStatuses', [])}
        claims = [names.get(c['name'], c.get('resourceClaimName')) for c in p['spec'].get('resourceClaims') or []]
        if p['status'].get('extendedResourceClaimStatus'):
            claims.append(p['status']['extendedResourceClaimStatus']['resourceClaimName'])
        got = []
        for name in claims:
            code, c = self.cluster.call('GET', f"/apis/resource.k8s.io/v1/namespaces/{p['metadata']['namespace']}/resourceclaims/{name}")
            results = c.get('status', {}).get('allocation', {}).get('devices', {}).get('results', []) if code == 200 else []
            got += [f"{r['driver']}/{r['device']}" for r in results]
        return ' with ' + ' '.join(got) if got else ''

    def expected(self, pod):
        for line in self.entry.lines:
            if line[0] == 'pod' and fnmatch.fnmatchcase(pod['metadata']['name'], line[1]):
                return line
        return None

    def settle(self, late):
        """Waits until every pod has an outcome. Without late, pods that wait for their claims are left for later: they are told
        only after ten seconds. Says whether all have one."""
        left = list(self.pods)
        end = time.monotonic() + (PATIENCE if late else 1.5 if RECORD else PATIENCE)
        while left:
            for pod in list(left):
                line = self.expected(pod)
                if not late and line and line[3] == 'pending' and 'claims:' in line[4]:
                    left.remove(pod)
                elif self.state(pod):
                    left.remove(pod)
            if left and time.monotonic() > end:
                return False
            if left:
                time.sleep(0.02)
        return late or not any((self.expected(p) or (0, 0, 0, '', ''))[4].startswith('claims:') for p in self.pods)

    def why(self, pod):
        m = pod['metadata']
        run = subprocess.run([DRAY, 'why', f"pod/{m['namespace']}/{m['name']}", '--data-dir', self.cluster.folder + '/data'],
                             capture_output=True, text=True, timeout=60)
        return remedies_in_a_line(run.stdout + run.stderr)

    def try_alone(self):
        """Claims and templates that the file leaves to its reader, one after the other."""
        self.pods, problems = [], []
        for p in self.tries:
            if not self.create(p):
                continue
            assert self.settle(True), f"{self.entry.path}: pod {p['metadata']['name']} has no outcome"
            problems += self.note()
            self.cluster.call('DELETE', path_of(p))
            end = time.monotonic() + PATIENCE
            while self.cluster.call('GET', path_of(p))[0] != 404 or self.in_use(p):
                assert time.monotonic() < end, f"{self.entry.path}: pod {p['metadata']['name']} does not go away"
                time.sleep(0.02)
            self.pods = []
        return problems

    def in_use(self, pod):
        claims = self.cluster.good('GET', f"/apis/resource.k8s.io/v1/namespaces/{pod['metadata']['namespace']}/resourceclaims")['items']
        return any(c.get('status', {}).get('reservedFor') for c in claims)

    def note(self):
        """What became of the pods that are there; what is wrong with what they were told."""
        problems = []
        for pod in self.pods:
            state = self.state(pod) or ('none', '')
            self.facts.append(('pod', pod['metadata']['name'], *state))
            if state[0] == 'pending':
                problems += self.told(pod, state[1])
        return problems

    def judge(self):
        """What is not as the table has it."""
        problems, where, seen = [], self.entry.path, {}
        if RECORD:
            return []
        for kind, name, outcome, text in self.facts:
            line = next((l for l in self.entry.lines if l[0] == kind and fnmatch.fnmatchcase(name, l[1])
                         and l[3] == outcome and not seen.get(l, 0) >= l[2]), None)
            if not line:
                problems.append(f'{where}: {kind} {name}: {outcome} {text}: not so in the table')
                continue
            seen[line] = seen.get(line, 0) + 1
            problems += [f'{where}: {kind} {name}: {p}' for p in compare(outcome, text, line[4])]
        for line in self.entry.lines:
            if seen.get(line, 0) != line[2]:
                problems.append(f'{where}: {line[0]} {line[1]}: {line[3]}: {line[2]} expected, {seen.get(line, 0)} seen')
        return problems

    def told(self, pod, text):
        """A pod that waits must have an event that says why, and `dray why` must know."""
        name, problems, line = pod['metadata']['name'], [], self.expected(pod)
        # Of equal pods one is asked about.
        why = self.whys.get(line) if line else None
        why = why or self.why(pod)
        self.whys[line] = why
        where = f'{self.entry.path}: pod {name}'
        self.whys[name] = why
        problems += [f'{where}: dray why does not say "{w}": {why}' for w in wanted(line[4] if line else '') if w not in why]
        events = self.cluster.good('GET', f"/api/v1/namespaces/{pod['metadata']['namespace']}/events")['items']
        if not any(e['involvedObject'].get('name') == name and e['reason'] == 'FailedScheduling' and e['message'] == text for e in events):
            problems.append(f'{where}: no event says so: {text}')
        return problems

    def record(self):
        print(f"{self.entry.path} on {','.join(self.entry.profiles)}" + (' with ' + ' '.join(self.entry.others) if self.entry.others else ''))
        for kind, name, outcome, text in self.facts:
            print(f'    {kind} {name}: {outcome} {text}')
            if outcome == 'pending' and '--why' in sys.argv:
                print('        ' + self.whys[name].rstrip().replace('\n', '\n        '))
        sys.stdout.flush()

    def clean(self):
        c = self.cluster
        for o in reversed(self.made):
            if o['kind'] != 'Namespace':
                c.call('DELETE', path_of(o), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'gracePeriodSeconds': 0} if o['kind'] == 'Pod' else None)
        for old in self.replaced:
            now = c.good('GET', path_of(old))
            old['metadata']['resourceVersion'] = now['metadata']['resourceVersion']
            c.good('PUT', path_of(old), old)
        spaces = [o for o in self.made if o['kind'] == 'Namespace']
        for o in spaces:
            c.call('DELETE', path_of(o))
        end = time.monotonic() + PATIENCE
        while any(c.call('GET', path_of(o))[0] != 404 for o in spaces):
            assert time.monotonic() < end, f'{self.entry.path}: its namespaces do not go away'
            time.sleep(0.02)


def remedies_in_a_line(text):
    """The list of remedies as a condition puts them: 'would fit with X'."""
    lines, listing = [], False
    for line in text.splitlines():
        listing = line == 'It would fit with' or (listing and line.startswith('  - '))
        lines.append('would fit with ' + line[4:] if listing and line.startswith('  - ') else line)
    return '\n'.join(lines)


def wanted(words):
    """What an explanation must contain: parts between '…'."""
    return [w.strip() for w in words.removeprefix('claims:').split('…') if w.strip()]


def compare(outcome, text, line):
    if outcome == 'bound':
        return [] if same_devices(text.split(), line.split()) else [f'bound {text}, expected {line}']
    return [f'{outcome} without "{w}": {text}' for w in wanted(line) if w not in text]


def same_devices(got, line):
    """Words must match in order; N×PATTERN stands for N words."""
    patterns = []
    for word in line:
        m = re.fullmatch(r'(\d+)×(.*)', word)
        patterns += [m.group(2)] * int(m.group(1)) if m else [word]
    return len(got) == len(patterns) and all(fnmatch.fnmatchcase(g, p) for g, p in zip(got, patterns))


def run_group(profiles, entries):
    """All files for one set of profiles. Pods that wait for claims are looked at in the end, all together."""
    cluster, problems, late, tally = Cluster(profiles), [], [], {}
    trials = []
    try:
        for number, entry in entries:
            trial = Trial(cluster, entry, number)
            trial.apply()
            trials.append(trial)
            if trial.settle(False):
                problems += trial.note() + trial.try_alone() + trial.judge()
                if RECORD:
                    trial.record()
                trial.clean()
            else:
                late.append(trial)
        for trial in late:
            assert trial.settle(True) or RECORD, f'{trial.entry.path}: not all pods have an outcome'
            problems += trial.note() + trial.try_alone() + trial.judge()
            if RECORD:
                trial.record()
        for trial in late:
            trial.clean()
    finally:
        cluster.stop()
    for trial in trials:
        for kind, _, outcome, _ in trial.facts:
            if kind == 'pod':
                tally[outcome] = tally.get(outcome, 0) + 1
    return problems, tally


def main():
    entries = read_table()
    listed = [e.path for e in entries]
    files = sorted(os.path.relpath(os.path.join(d, f), OPEN) for d, _, fs in os.walk(OPEN) for f in fs if f.endswith('.yaml'))
    problems = [f'{f}: not in the table' for f in files if f not in listed] + [f'{f}: no such file' for f in listed if f not in files]
    problems += [f'{f}: twice in the table' for f in set(listed) if listed.count(f) > 1]
    groups = {}
    for number, entry in enumerate(entries):
        if not ONLY or any(o in entry.path for o in ONLY):
            groups.setdefault(entry.profiles, []).append((number, entry))
    tally = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE if not RECORD else 1) as pool:
        for bad, counts in pool.map(lambda g: run_group(*g), groups.items()):
            problems += bad
            for k, v in counts.items():
                tally[k] = tally.get(k, 0) + v
    for p in problems:
        print(p)
    print(f"manifests_up: {len(entries)} files, pods: " + ', '.join(f'{v} {k}' for k, v in sorted(tally.items())) +
          (f', {len(problems)} problems' if problems else ''))
    return 1 if problems and not RECORD else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published manifests on a real node: the pods that manifests_up.table says are bound run here in containers, print their devices, and
leave nothing behind when they are deleted. Usage: agent_manifests.py DRAY [--record] [FILE…]

The node is this machine, with simulated devices of the table's profiles by a driver process for each profile. Of a pod these are
replaced: images and commands (by one that prints its environment and waits), probes and hooks that speak to the program, amounts of CPU
and memory (this machine is no GPU server), volumes from elsewhere (by an empty folder). Everything else is as it was published. Pods that
the scheduler has no place for on one node (the table is for two of each profile, with their labels), and those whose parameters the driver
refuses with its own words, are passed over; files that ask for what cannot be here are in EXCEPT with the reason. Needs root, crun or runc, a static
busybox, and the manifests beside the source folder; else it is skipped."""
import concurrent.futures, fnmatch, json, os, sys, time

ARGS = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agent_kit as kit          # noqa: E402
import manifests_up as up        # noqa: E402

RECORD = '--record' in ARGS
PATIENCE = 60
AT_ONCE = 3   # nodes; each has a folder, a bridge and a subnet of its own
# What cannot be so on one machine with test images.
EXCEPT = {
    'dra-driver-sriov/_helm_rendered/default.yaml': "mounts the NRI socket of containerd",
}
PLAIN_VOLUMES = {'emptyDir', 'configMap', 'secret', 'projected', 'downwardAPI', 'hostPath'}
SCRIPT = "env | sort; ls /dev; echo 'that is all'; " + kit.FOREVER


def plain(c):
    """A container with the test's image and command, and nothing that only its own program could answer."""
    c['image'], c['command'] = kit.IMAGE, ['sh', '-c', SCRIPT]
    for key in ('args', 'livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle', 'workingDir', 'imagePullPolicy', 'volumeDevices'):
        c.pop(key, None)
    for part in ('requests', 'limits'):
        amounts = (c.get('resources') or {}).get(part) or {}
        for name in list(amounts):
            if name in ('cpu', 'memory', 'ephemeral-storage') or name.startswith('hugepages-'):
                del amounts[name]
    for e in c.get('env') or []:
        if 'valueFrom' in e and ('secretKeyRef' in e['valueFrom'] or 'configMapKeyRef' in e['valueFrom']):
            e['value'] = e.pop('valueFrom') and 'from elsewhere'
    c.pop('envFrom', None)


def plain_pod(p):
    s = p['spec']
    for c in s['containers']:
        plain(c)
    for c in s.get('initContainers') or []:
        plain(c)
        if c.get('restartPolicy') != 'Always':
            c['command'] = ['true']
    for v in s.get('volumes') or []:
        kinds = set(v) - {'name'}
        if not kinds <= PLAIN_VOLUMES or kinds & {'configMap', 'secret', 'projected'}:
            for k in kinds:
                del v[k]
            v['emptyDir'] = {}
        elif (v.get('emptyDir') or {}).get('medium', '').startswith('HugePages'):
            v['emptyDir'] = {}
    for c in s['containers']:  # the test's image runs as root unless it is told otherwise
        own, all_of_them = c.get('securityContext') or {}, s.get('securityContext') or {}
        if own.get('runAsNonRoot', all_of_them.get('runAsNonRoot')) and not own.get('runAsUser', all_of_them.get('runAsUser')):
            c['securityContext'] = dict(own, runAsUser=65534)
    for key in ('runtimeClassName', 'imagePullSecrets', 'resources', 'overhead', 'priorityClassName', 'hostPID', 'hostIPC', 'activeDeadlineSeconds'):
        s.pop(key, None)
    s['terminationGracePeriodSeconds'] = 1
    s['automountServiceAccountToken'] = False
    return p


class Cluster(kit.Cluster):
    """A control plane and this machine with the devices of some profiles, as manifests_up.Trial wants it."""
    def __init__(self, dray, profiles):
        super().__init__(dray, ('--controllers', up.WORKLOADS))
        kit.make_image(os.path.join(self.images, 'busybox'))
        self.node = kit.Node(self, profiles[0] + '-0')
        self.nodes = [self.node.name]
        self.node.start()
        for p in profiles:
            self.node.driver(p)
        self.until('slices', lambda: self.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'])
        drivers = len(profiles)
        self.until('classes', lambda: self.good('GET', '/apis/resource.k8s.io/v1/deviceclasses')['items'] and drivers)

    def call(self, method, path, body=None, kind='application/json'):
        if method == 'POST' and body and body.get('kind') == 'Pod':
            plain_pod(body)
        code, answer = super().call(method, path, body, kind)
        return code, answer if isinstance(answer, dict) or answer is None else {'message': answer.strip()}

    def end(self):
        self.node.end()
        self.stop()
        self.wreck()


def containers_with_claims(p):
    return [c['name'] for c in p['spec']['containers'] if (c.get('resources') or {}).get('claims')]


def look(c, trial, entry):
    """Every pod that the table says is bound runs; those with claims print devices that others do not see."""
    problems, ran = [], 0
    bound = [p for p in trial.pods if (trial.expected(p) or (0, 0, 0, ''))[3] == 'bound']
    end = time.monotonic() + PATIENCE
    left, no_place, since = list(bound), [], {}
    while left and time.monotonic() < end:
        for p in list(left):
            code, now = c.call('GET', up.path_of(p))
            if code == 200 and now['status'].get('phase') in ('Running', 'Succeeded'):
                left.remove(p)
            elif code == 200 and any(x['type'] == 'PodScheduled' and x['status'] == 'False' for x in now['status'].get('conditions', [])):
                # The table is for two nodes of each profile.
                if time.monotonic() - since.setdefault(p['metadata']['name'], time.monotonic()) > 3:
                    left.remove(p)
                    no_place.append(p)
            elif code == 200 and refused(c, p):
                left.remove(p)
                no_place.append(p)
        time.sleep(0.05)
    for p in left:
        code, now = c.call('GET', up.path_of(p))
        status = now.get('status', {})
        why = [x.get('message') for x in status.get('conditions', []) if x['status'] == 'False'] + \
            [s['state'].get('waiting') for s in status.get('containerStatuses', []) if s['state'].get('waiting')]
        events = [e['message'] for e in c.good('GET', f"/api/v1/namespaces/{p['metadata']['namespace']}/events")['items']
                  if e['involvedObject'].get('name') == p['metadata']['name'] and e['type'] == 'Warning']
        problems.append(f"{entry.path}: pod {p['metadata']['name']}: {status.get('phase')}, not Running: {json.dumps(why)[:400]} {json.dumps(events)[:600]}")
    for p in bound:
        if p in left or p in no_place:
            continue
        ran += 1
        problems += print_devices(c, trial, p, entry)
    return problems, ran


def refused(c, p):
    """The driver itself says no to the claim's parameters: so it would on any node."""
    events = c.good('GET', f"/api/v1/namespaces/{p['metadata']['namespace']}/events")['items']
    return any(e['involvedObject'].get('name') == p['metadata']['name'] and e['reason'] == 'FailedPrepareDynamicResources' and
               'NodePrepareResources failed for ResourceClaim' in e['message'] for e in events)


def print_devices(c, trial, p, entry):
    _, now = c.call('GET', up.path_of(p))
    devices = [d.split('/')[-1] for d in trial.devices(now).split()[1:]]
    users = containers_with_claims(now)
    if not devices or not users:
        return []
    end, said = time.monotonic() + PATIENCE, ''
    for name in users:
        while 'that is all' not in said and time.monotonic() < end:
            answer = kit.Cluster.call(c, 'GET', up.path_of(p) + f'/log?container={name}')
            said = answer[1] if isinstance(answer[1], str) else ''
            time.sleep(0.02)
    if 'that is all' not in said:
        return [f"{entry.path}: pod {p['metadata']['name']} prints nothing: {said[:300]}"]
    return [] if seen(said, devices) else [f"{entry.path}: pod {p['metadata']['name']} does not see {devices}:\n{said[:1500]}"]


def seen(said, devices):
    """Each profile shows devices in its own way: by name, or as files in /dev."""
    return any(d in said for d in devices) or any(w in said for w in ('CLAIM', 'DEVICE', 'DRA', 'nvidia', 'dri', 'kfd', 'accel', 'vfio', 'hl', 'CPU', 'SRIOV', 'PCI', 'MEM'))


def run_group(dray, profiles, entries, results):
    c, problems, ran = Cluster(dray, profiles), [], 0
    try:
        for number, entry in entries:
            trial = up.Trial(c, entry, number)
            trial.apply()
            bad, n = look(c, trial, entry)
            trial.tries = []
            trial.clean()
            if bad and RECORD:
                print('\n'.join(bad), flush=True)
            problems += bad
            ran += n
            end = time.monotonic() + PATIENCE
            while c.node.clean() and time.monotonic() < end:
                time.sleep(0.05)
            left = c.node.clean()
            if left:
                problems.append(f'{entry.path}: left on the machine: {left[:5]}')
        claims = json.loads(json.loads(open(c.node.data + '/dra_manager_state').read())['Data']).get('ClaimInfoStateList')
        if claims:
            problems.append(f'{profiles}: claims are still prepared: {json.dumps(claims)[:500]}')
        c.end()
    except BaseException:
        print(c.tell())
        c.wreck()
        raise
    results.append((problems, ran))


def main():
    kit.skip_if_impossible()
    words = [a for a in ARGS if not a.startswith('--')]
    dray, only = os.path.abspath(words[0] if words else 'build/dray'), words[1:]
    groups = {}
    for number, entry in enumerate(up.read_table()):
        wanted = all(line[3] != 'pending' for line in entry.lines if line[0] == 'pod') and any(line[0] == 'pod' for line in entry.lines)
        excepted = any(fnmatch.fnmatchcase(entry.path, pattern) for pattern in EXCEPT)
        if wanted and not excepted and (not only or any(o in entry.path for o in only)):
            groups.setdefault(entry.profiles, []).append((number, entry))
    problems, ran, files, results = [], 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(run_group, dray, profiles, entries, results) for profiles, entries in groups.items()]:
            done.result()
    files = sum(len(entries) for entries in groups.values())
    for bad, n in results:
        problems += bad
        ran += n
    for p in problems if not RECORD else []:
        print(p)
    print(f'agent_manifests: {files} files, {ran} pods ran' + (f', {len(problems)} problems' if problems else ''))
    return 1 if problems and not RECORD else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray driver sim` and examples/driver-led under a real kubelet, containerd and runc, on a real control plane: they register, publish, their
devices are seen in containers, and prepared claims survive restarts of driver and kubelet and a rolling update. What has to be there says
real_cluster.py. With --on-dray the control plane is `dray up`, and only kubelet is the real one. Usage: real_kubelet.py DRAY [--on-dray]"""
import json, os, signal, subprocess, sys

from real_cluster import NODE, Cluster, until

SLICES = '/apis/resource.k8s.io/v1/resourceslices'
RESOURCES = '/apis/resource.k8s.io/v1/namespaces/default'
PODS = '/api/v1/namespaces/default/pods'
GPU, LED = 'gpu.nvidia.com', 'led.example.com'
DRAY = os.path.abspath(sys.argv[1])
# Shows what it got, then waits to be ended.
SHOW = 'env | sort; for f in /var/run/dray/devices/*/*; do test -f "$f" && echo device && cat "$f" && echo; done; cat /run/led/brightness; echo shown; ' \
       'trap "exit 0" TERM; while :; do sleep 1; done'


class Driver:
    def __init__(self, cluster, command):
        self.cluster, self.command, self.output = cluster, command, os.path.join(cluster.top, f'driver-{len(cluster.drivers)}.log')
        cluster.drivers.append(self)
        self.start()

    def start(self):
        self.began = os.path.getsize(self.output) if os.path.exists(self.output) else 0
        with open(self.output, 'ab') as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def said(self):
        with open(self.output, errors='replace') as f:
            f.seek(self.began)
            return f.read()

    def registered(self):
        until('registration: ' + self.output, lambda: 'registered' in self.said())

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        assert how == signal.SIGKILL or code == 0, (code, self.said()[-2000:])


def folders(cluster):
    return [w for flag in ('plugins', 'registry', 'cdi') for w in ('--' + flag, cluster.folders[flag])]


def sim(cluster, profile, *flags):
    return Driver(cluster, [DRAY, 'driver', 'sim', '--profile', profile, '--node', NODE, '--kubeconfig', cluster.kubeconfig, *folders(cluster),
                            '--reset-ms', '200', '--attach-ms', '300', *flags])


def slices(cluster, driver):
    return [s for s in cluster.call('GET', SLICES)['items'] if s['spec']['driver'] == driver]


def published(cluster, driver, profile):
    """The slices of a profile are on the API server, all of them and no others."""
    shown = json.loads(subprocess.run([DRAY, 'driver', 'show', profile, '--node', NODE], check=True, capture_output=True, text=True).stdout)
    wanted = sorted(d['name'] for s in shown if s['spec']['driver'] == driver for d in s['spec'].get('devices', []))

    def check():
        have = slices(cluster, driver)
        names = sorted(d['name'] for s in have for d in s['spec'].get('devices', []))
        return have if names == wanted and len(have) == have[0]['spec']['pool']['resourceSliceCount'] else None
    return until(f'slices of {profile}', check)


def versions(cluster, driver):
    return {s['metadata']['name']: s['metadata']['resourceVersion'] for s in slices(cluster, driver)}


def claim(cluster, name, devices, template=False):
    """A claim, or a template of one."""
    kind = 'ResourceClaimTemplate' if template else 'ResourceClaim'
    spec = {'devices': devices}
    return cluster.call('POST', f'{RESOURCES}/{kind.lower()}s', {'apiVersion': 'resource.k8s.io/v1', 'kind': kind, 'metadata': {'name': name},
                                                                'spec': {'spec': spec} if template else spec})


def pod(cluster, name, **source):
    """A pod with one claim: claim=NAME or template=NAME."""
    key = 'resourceClaimName' if 'claim' in source else 'resourceClaimTemplateName'
    return cluster.call('POST', PODS, {
        'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name},
        'spec': {'automountServiceAccountToken': False, 'terminationGracePeriodSeconds': 2,
                 'resourceClaims': [{'name': 'c', key: list(source.values())[0]}],
                 'containers': [{'name': 'main', 'image': 'localhost/busybox:1', 'imagePullPolicy': 'Never', 'command': ['sh', '-c', SHOW],
                                 'resources': {'claims': [{'name': 'c'}]}}]}})


class Seen:
    """What a container wrote: its environment, the identities of its devices."""

    def __init__(self, cluster, name):
        made = cluster.call('GET', f'{PODS}/{name}')
        path = os.path.join(cluster.node, 'podlogs', f'default_{name}_{made["metadata"]["uid"]}', 'main', '0.log')

        def read():
            if not os.path.exists(path):
                return None
            lines = [l.split(' ', 3)[3] for l in open(path, errors='replace').read().splitlines() if ' stdout ' in l]
            return lines if 'shown' in lines else None
        try:
            lines = until(f'pod {name} to run', read)
        except AssertionError:
            print(json.dumps(cluster.call('GET', f'{PODS}/{name}')['status'], indent=1))
            print(json.dumps([e['message'] for e in cluster.call('GET', '/api/v1/namespaces/default/events')['items']][-20:], indent=1))
            raise
        self.lines = lines
        self.env = dict(l.split('=', 1) for l in lines if '=' in l)
        self.identities = [json.JSONDecoder().raw_decode(part)[0] for part in '\n'.join(lines).split('\ndevice\n')[1:]]
        self.claim = until('the claim\'s name', lambda: claim_of(cluster, name))


def claim_of(cluster, name):
    made = cluster.call('GET', f'{PODS}/{name}')
    status = made.get('status', {}).get('resourceClaimStatuses') or [{}]
    found = status[0].get('resourceClaimName') or made['spec']['resourceClaims'][0].get('resourceClaimName')
    return cluster.call('GET', f'{RESOURCES}/resourceclaims/{found}') if found else None


def delete(cluster, *names):
    for name in names:
        cluster.call('DELETE', f'{PODS}/{name}')
    until(f'the end of {names}', lambda: not any(cluster.call('GET', f'{PODS}/{n}', missing=True) for n in names))


def prepared(cluster, driver):
    """UIDs of the claims that a driver has prepared, by its journals and by CDI specs: they must agree."""
    folder = os.path.join(cluster.folders['plugins'], driver, 'claims')
    journals = sorted(n[:-len('.journal')] for n in os.listdir(folder)) if os.path.isdir(folder) else []
    specs = sorted(n.rsplit('_', 1)[1][:-len('.json')] for n in os.listdir(cluster.folders['cdi']) if n.startswith(driver) and n.endswith('.json'))
    assert journals == specs, (journals, specs)
    return journals


def device_status(cluster, seen):
    where = f'{RESOURCES}/resourceclaims/{seen.claim["metadata"]["name"]}'
    return until('device status', lambda: cluster.call('GET', where)['status'].get('devices'))


def one(request='gpu', **more):
    return {'requests': [{'name': request, 'exactly': {'deviceClassName': GPU, **more}}]}


# --- Whole GPUs ----------------------------------------------------------------------------------

def check_whole(cluster):
    driver = sim(cluster, 'nvidia-h100')
    driver.registered()
    published(cluster, GPU, 'nvidia-h100')
    first = versions(cluster, GPU)
    devices = one()
    devices['config'] = [{'opaque': {'driver': GPU, 'parameters': {'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'GpuConfig', 'sharing': {
        'strategy': 'TimeSlicing', 'timeSlicingConfig': {'interval': 'Long'}}}}}]
    claim(cluster, 'whole', devices, template=True)
    pod(cluster, 'a', template='whole')
    a = Seen(cluster, 'a')
    got = a.identities[0]['device']['name']
    number = got.split('-')[1]
    assert len(a.identities) == 1 and a.env[f'GPU_DEVICE_{number}'] == got and a.env[f'GPU_DEVICE_{number}_SHARING_STRATEGY'] == 'TimeSlicing', a.lines
    status = device_status(cluster, a)
    assert status[0]['device'] == got and status[0]['conditions'][0]['type'] == 'Ready', status
    assert prepared(cluster, GPU) == [a.claim['metadata']['uid']]

    # The driver dies and comes back, then kubelet: the pod does not notice, new ones find both.
    driver.stop(signal.SIGKILL)
    driver.start()
    driver.registered()
    pod(cluster, 'b', template='whole')
    b = Seen(cluster, 'b')
    assert b.identities[0]['device']['name'] != got
    assert versions(cluster, GPU) == first, 'slices were written again though nothing had changed'
    cluster.kubelet_restart()
    driver.began = os.path.getsize(driver.output)
    driver.registered()
    # kubelet removes all slices of its node when it starts, since it cannot know who is still there.
    until('new slices', lambda: versions(cluster, GPU) and not set(versions(cluster, GPU)) & set(first))
    published(cluster, GPU, 'nvidia-h100')
    first = versions(cluster, GPU)
    delete(cluster, 'a')
    until('a to be unprepared', lambda: prepared(cluster, GPU) == [b.claim['metadata']['uid']])
    return driver, first, b


def check_away(cluster, driver):
    """A pod that ends while its driver is away waits for it."""
    pod(cluster, 'd', template='whole')
    d = Seen(cluster, 'd')
    driver.stop()
    cluster.call('DELETE', f'{PODS}/d')
    until('kubelet to miss the driver', lambda: f'DRA driver {GPU} is not registered" pod="default/d"' in cluster.log('kubelet'))
    assert d.claim['metadata']['uid'] in prepared(cluster, GPU)
    driver.start()
    until('the end of d', lambda: not cluster.call('GET', f'{PODS}/d', missing=True))
    assert d.claim['metadata']['uid'] not in prepared(cluster, GPU)


def check_rolling(cluster, old, b):
    """A second instance beside the first, then alone: it undoes what the first did."""
    new = sim(cluster, 'nvidia-h100', '--instance', '0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab')
    new.registered()
    pod(cluster, 'c', template='whole')
    Seen(cluster, 'c')
    old.stop()
    pod(cluster, 'e', template='whole')
    Seen(cluster, 'e')
    assert b.claim['metadata']['uid'] in prepared(cluster, GPU) and len(prepared(cluster, GPU)) == 3
    delete(cluster, 'b', 'c', 'e')
    until('everything to be unprepared', lambda: not prepared(cluster, GPU))
    return new


def check_health(cluster):
    """A device that fails under a pod: kubelet says so in the pod's status; the taint keeps others away from it."""
    pod(cluster, 'f', template='whole')
    got = Seen(cluster, 'f').identities[0]['device']['name']
    fault = [DRAY, 'driver', 'fault', '--state', os.path.join(cluster.folders['plugins'], 'dray-sim'), '--node', NODE]
    subprocess.run([*fault, 'add', 'xid', '--device', got, '--code', '79'], check=True)

    def health():
        containers = cluster.call('GET', f'{PODS}/f')['status'].get('containerStatuses', [])
        return [r['health'] for c in containers for s in c.get('allocatedResourcesStatus', []) for r in s['resources']]
    until('an unhealthy device', lambda: health() == ['Unhealthy'])
    tainted = [d for s in slices(cluster, GPU) for d in s['spec']['devices'] if d.get('taints')]
    assert [d['name'] for d in tainted] == [got], tainted
    delete(cluster, 'f')
    until('the taint gone', lambda: not [d for s in slices(cluster, GPU) for d in s['spec']['devices'] if d.get('taints')])


# --- MIG, shares, cameras --------------------------------------------------------------------------

def keeps_counters(cluster):
    spec = {'driver': 'dry.example.com', 'nodeName': NODE, 'pool': {'name': 'dry', 'generation': 1, 'resourceSliceCount': 2},
            'sharedCounters': [{'name': 'set', 'counters': {'c': {'value': '1'}}}]}
    made = cluster.call('POST', SLICES + '?dryRun=All', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 'dry'},
                                                        'spec': spec}, refused=True)
    return made.get('kind') == 'ResourceSlice' and 'sharedCounters' in made['spec']


def check_mig(cluster):
    driver = sim(cluster, 'nvidia-h100-mig')
    driver.registered()
    published(cluster, GPU, 'nvidia-h100-mig')
    profile = 'device.attributes["gpu.nvidia.com"].profile == "{}"'
    devices = {'requests': [{'name': n, 'exactly': {'deviceClassName': 'mig.nvidia.com', 'selectors': [{'cel': {'expression': profile.format(p)}}]}}
                            for n, p in (('small', '1g.10gb'), ('large', '3g.40gb'))],
               'constraints': [{'requests': ['small', 'large'], 'matchAttribute': 'gpu.nvidia.com/parentUUID'}]}
    claim(cluster, 'migs', devices, template=True)
    for name in ('m0', 'm1', 'm2'):
        pod(cluster, name, template='migs')
    seen = [Seen(cluster, n) for n in ('m0', 'm1', 'm2')]
    given = []
    for s in seen:
        names = sorted(i['device']['name'] for i in s.identities)
        assert len(names) == 2 and '1g10gb' in names[0] and '3g40gb' in names[1], s.lines
        given += names
    assert len(set(given)) == 6 and len(prepared(cluster, GPU)) == 3, given
    delete(cluster, 'm0', 'm1', 'm2')
    until('everything to be unprepared', lambda: not prepared(cluster, GPU))
    driver.stop()


def check_shares(cluster):
    """Two pods on one GPU by shares, a third for which there is no room on it."""
    driver = sim(cluster, 'nvidia-shares')
    driver.registered()
    published(cluster, GPU, 'nvidia-shares')
    bus = [d['attributes']['resource.kubernetes.io/pciBusID']['string'] for s in slices(cluster, GPU) for d in s['spec']['devices'] if d['name'] == 'gpu-3'][0]
    only = {'cel': {'expression': f'device.attributes["resource.kubernetes.io"].pciBusID == "{bus}"'}}
    claim(cluster, 'shares', one(selectors=[only], capacity={'requests': {'shares': '4', 'memory': '8Gi'}}), template=True)
    pod(cluster, 's0', template='shares')
    pod(cluster, 's1', template='shares')
    seen = [Seen(cluster, n) for n in ('s0', 's1')]
    for s in seen:
        assert s.env['GPU_DEVICE_3'] == 'gpu-3' and s.env['GPU_DEVICE_3_SHARES'] == '4', s.lines
    shares = {s.claim['status']['allocation']['devices']['results'][0]['shareID'] for s in seen}
    assert len(shares) == 2 and len(prepared(cluster, GPU)) == 2, shares
    pod(cluster, 's2', template='shares')
    until('s2 to be told that there is no room', lambda: [c for c in cluster.call('GET', f'{PODS}/s2')['status'].get('conditions', [])
                                                          if c['type'] == 'PodScheduled' and c['status'] == 'False'])
    delete(cluster, 's0')
    third = Seen(cluster, 's2')
    assert third.env['GPU_DEVICE_3_SHARES'] == '4'
    delete(cluster, 's1', 's2')
    until('everything to be unprepared', lambda: not prepared(cluster, GPU))
    driver.stop()


def check_cameras(cluster):
    """Devices of the network: kube-scheduler waits for their binding conditions; one that cannot be attached is given up."""
    camera = 'camera.dray.dev'
    driver = sim(cluster, 'ip-cameras')
    driver.registered()
    until('the cameras', lambda: slices(cluster, camera))
    claim(cluster, 'camera', {'requests': [{'name': 'cam', 'exactly': {'deviceClassName': camera}}]}, template=True)
    pod(cluster, 'k', template='camera')
    k = Seen(cluster, 'k')
    conditions = {c['type'] for d in device_status(cluster, k) for c in d['conditions']}
    assert {'camera.dray.dev/attached', 'Ready'} <= conditions or until(
        'both conditions', lambda: {'camera.dray.dev/attached', 'Ready'} <= {c['type'] for d in device_status(cluster, k) for c in d['conditions']})
    delete(cluster, 'k')
    until('everything to be unprepared', lambda: not prepared(cluster, camera))
    driver.stop()


# --- The example driver ----------------------------------------------------------------------------

def account(cluster):
    """A kubeconfig for the account that rbac.yaml makes, with a token that names the node, as pods of a DaemonSet have it."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'driver-led')
    for name in ('rbac.yaml', 'leds.yaml'):
        text = open(os.path.join(here, name)).read().replace('image: busybox', 'image: localhost/busybox:1\n    imagePullPolicy: Never')
        subprocess.run([os.path.join(cluster.env['K8S_BIN'], 'kubectl'), '--kubeconfig', cluster.kubeconfig, 'apply', '-f', '-'], input=text, text=True, check=True,
                       stdout=subprocess.DEVNULL)
    node = cluster.call('GET', f'/api/v1/nodes/{NODE}')
    token = cluster.call('POST', '/api/v1/namespaces/kube-system/serviceaccounts/driver-led/token', {
        'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest',
        'spec': {'boundObjectRef': {'apiVersion': 'v1', 'kind': 'Node', 'name': NODE, 'uid': node['metadata']['uid']}}})['status']['token']
    path = os.path.join(cluster.top, 'led.kubeconfig')
    with open(path, 'w') as f:
        f.write(open(cluster.kubeconfig).read().replace(f'admin-token-{cluster.port}', token))
    return path


def check_led(cluster):
    leds = os.path.join(cluster.node, 'leds')
    for i in range(2):
        os.makedirs(os.path.join(leds, f'led{i}'))
        for name, value in (('brightness', 0), ('max_brightness', 255)):
            with open(os.path.join(leds, f'led{i}', name), 'w') as f:
                f.write(f'{value}\n')

    def lit():
        return sorted(int(open(os.path.join(leds, n, 'brightness')).read() or 0) for n in os.listdir(leds))
    driver = Driver(cluster, [os.path.join(os.path.dirname(DRAY), 'driver-led'), '--node', NODE, '--kubeconfig', account(cluster), '--leds', leds, *folders(cluster)])
    until('slices', lambda: [d for s in slices(cluster, LED) for d in s['spec']['devices']])
    # The pod of leds.yaml switches its LED on and off through the file it got.
    until('a blinking LED', lambda: lit() == [0, 255])
    pod(cluster, 'l', template='dim-led')
    seen = Seen(cluster, 'l')
    assert seen.env['LED_NAME'] in ('led0', 'led1') and '102' in seen.lines, seen.lines
    status = device_status(cluster, seen)
    assert status[0]['conditions'][0]['reason'] == 'Lit', status
    driver.stop(signal.SIGKILL)
    driver.start()
    delete(cluster, 'l', 'blinker')
    assert lit() == [0, 0] and not prepared(cluster, LED), lit()
    driver.stop()
    assert not driver.said().strip(), driver.said()


def main():
    cluster = Cluster(dray=DRAY if '--on-dray' in sys.argv else None)
    cluster.drivers = []
    print(f'control plane {cluster.version}, kubelet {cluster.kubelet}', flush=True)
    try:
        driver, first, b = check_whole(cluster)
        check_away(cluster, driver)
        driver = check_rolling(cluster, driver, b)
        assert versions(cluster, GPU) == first, 'slices were written again though nothing had changed'
        if not cluster.kubelet.startswith(('v1.34', 'v1.35')):  # health is alpha there
            check_health(cluster)
        driver.stop()
        print('ok: whole GPUs, restarts of driver and kubelet, a driver that is away, rolling update, health', flush=True)
        if keeps_counters(cluster):
            check_mig(cluster)
            check_shares(cluster)
            check_cameras(cluster)
            print('ok: dynamic MIG, shares, devices of the network', flush=True)
        else:
            print('skipped: dynamic MIG, shares, devices of the network (this API server has the gates off)', flush=True)
        check_led(cluster)
        print('ok: driver-led, as the account of its rbac.yaml', flush=True)
    except BaseException:
        for d in cluster.drivers:
            print(f'--- {d.command[:6]}\n{open(d.output, errors="replace").read()[-2000:]}')
        print('--- kubelet\n' + '\n'.join(l for l in cluster.log('kubelet').splitlines() if l.startswith('E'))[-3000:])
        raise
    finally:
        for d in cluster.drivers:
            if d.process.poll() is None:
                d.process.kill()
                d.process.wait()
        cluster.done()


main()

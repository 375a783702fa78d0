#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray driver sim` against `dray server`, called as kubelet calls it: publishes, prepares and unprepares, survives kill -9 at steps of both,
heals devices, attaches network devices. Usage: driver.py DRAY"""
import atexit, http.client, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
PEER = os.path.join(os.path.dirname(DRAY), 'tests', 'plugin_call')
SLICES = '/apis/resource.k8s.io/v1/resourceslices'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
TOP = tempfile.mkdtemp(prefix='dd-')  # short: sockets have 108 bytes
ROOT = os.path.join(TOP, 'r')


class Api:
    def __init__(self):
        self.folder = os.path.join(TOP, 'data')
        self.log = open(os.path.join(TOP, 'server.log'), 'ab')
        self.process = subprocess.Popen([DRAY, 'server', '--data-dir', self.folder, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        assert 'ready at' in self.process.stdout.readline()
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')

    def call(self, method, path, body=None, want=None):
        c = http.client.HTTPConnection('localhost', timeout=30)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(os.path.join(self.folder, 'dray.sock'))
        c.request(method, path, json.dumps(body) if body else None, {'Content-Type': 'application/json'})
        answer = c.getresponse()
        data = json.loads(answer.read())
        c.close()
        assert answer.status < 300 if want is None else answer.status == want, (method, path, data)
        return data

    def slices(self, driver):
        return [s for s in self.call('GET', SLICES)['items'] if s['spec']['driver'] == driver]


class Driver:
    def __init__(self, api, profile, *flags):
        self.args = [DRAY, 'driver', 'sim', '--profile', profile, '--root', ROOT, '--kubeconfig', api.kubeconfig, '--make-nodes',
                     '--attach-ms', '100', '--reset-ms', '200', *flags]
        self.start()

    def start(self):
        self.log = open(os.path.join(TOP, 'driver.log'), 'ab')
        atexit.register(self.end)
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        line = self.process.stdout.readline()
        assert line == 'drivers run\n', line + open(self.log.name).read()[-2000:]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        out = self.process.stdout.read()
        self.process.stdout.close()
        self.log.close()
        assert how == signal.SIGKILL or code == 0, f'exit {code}: {open(self.log.name).read()[-3000:]}'
        return out

    def died(self):
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.close()
        assert self.process.returncode == -signal.SIGKILL, self.process.returncode


def until(what, check, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f'never came: {what}\n{open(os.path.join(TOP, "driver.log")).read()[-2000:]}')


def peer(node, driver, *words, beta=False, fails=False):
    path = os.path.join(ROOT, node, 'plugins_registry', f'{driver}-reg.sock')
    run = subprocess.run([PEER, *(['--beta'] if beta else []), path, *words], capture_output=True, text=True, timeout=90)
    assert fails is None or (run.returncode != 0) == fails, (words, run.stdout, run.stderr)
    return json.loads(run.stdout) if run.stdout.strip() else run.stderr


def claim(api, name, driver, pool, devices, config=None, binding=None):
    """A claim that is allocated, as the scheduler leaves it."""
    made = api.call('POST', CLAIMS, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name},
                                     'spec': {'devices': {'requests': [{'name': f'r{i}', 'exactly': {'deviceClassName': 'c'}} for i in range(len(devices))]}}})
    results = [{'request': f'r{i}', 'driver': driver, 'pool': pool, 'device': d} for i, d in enumerate(devices)]
    for r in results:
        r.update(binding or {})
    configs = [{'source': 'FromClaim', 'opaque': {'driver': driver, 'parameters': config}}] if config else []
    made['status'] = {'allocation': {'devices': {'results': results, 'config': configs}}}
    made = api.call('PUT', f'{CLAIMS}/{name}/status', made)
    return f'default/{name}/{made["metadata"]["uid"]}', made['metadata']['uid']


def published(api, driver, slices):
    def check():
        have = api.slices(driver)
        complete = [s for s in have if s['spec']['pool']['resourceSliceCount'] == slices]
        return have if len(have) == slices == len(complete) else None
    return until(f'{slices} slices of {driver}', check)


def cdi(node, uid=''):
    folder = os.path.join(ROOT, node, 'cdi')
    names = [n for n in os.listdir(folder) if n.endswith('.json') and uid in n] if os.path.isdir(folder) else []
    return {n: json.load(open(os.path.join(folder, n))) for n in names}


def setups(node, driver):
    top = os.path.join(ROOT, node, 'plugins', driver, 'hw')
    return [f for _, _, files in os.walk(top) for f in files if f.startswith('claim.')]


def env_of(spec, device):
    return dict(e.split('=', 1) for d in spec['devices'] if d['name'].endswith(device) for e in d['containerEdits'].get('env', []))


NODE, GPU = 'nvidia-a100-mig-0', 'gpu.nvidia.com'


def check_basic(api):
    """Publishing, preparing, parameters, unpreparing."""
    driver = Driver(api, 'nvidia-a100-mig', '--nodes', '1')
    first = {s['metadata']['name']: s['metadata']['resourceVersion'] for s in published(api, GPU, 9)}
    info = peer(NODE, GPU, 'info')
    assert info['type'] == 'DRAPlugin' and info['name'] == GPU, info
    assert info['versions'] == ['v1.DRAPlugin', 'v1beta1.DRAPlugin', 'v1.DRAResourceHealth', 'v1alpha1.DRAResourceHealth'], info
    key, uid = claim(api, 'whole', GPU, NODE, ['gpu-0', 'gpu-1'], {'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'GpuConfig',
                     'sharing': {'strategy': 'MPS', 'mpsConfig': {'defaultActiveThreadPercentage': 50}}})
    for beta in (False, True, False):
        answer = peer(NODE, GPU, 'prepare', key, beta=beta)[uid]
        assert [d['device'] for d in answer['devices']] == ['gpu-0', 'gpu-1'] and answer['error'] == '', answer
        assert answer['devices'][0]['cdi'][0] == f'gpu.nvidia.com/device={uid}-gpu-0', answer
    spec = list(cdi(NODE, uid).values())[0]
    seen = env_of(spec, 'gpu-0')
    assert seen['GPU_DEVICE_0'] == 'gpu-0' and seen['GPU_DEVICE_0_SHARING_STRATEGY'] == 'MPS', seen
    assert seen['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'] == '50' and seen['NVIDIA_VISIBLE_DEVICES'] == 'void', seen
    checked = subprocess.run([DRAY, 'cdi', 'inspect', '--dir', os.path.join(ROOT, NODE, 'cdi'), answer['devices'][1]['cdi'][0]], capture_output=True, text=True)
    assert checked.returncode == 0 and 'identity' in checked.stdout, checked.stderr
    mounts = {m['containerPath']: m['hostPath'] for d in spec['devices'] for m in d['containerEdits'].get('mounts', [])}
    identity = json.load(open(mounts['/var/run/dray/devices/gpu.nvidia.com/gpu-0']))
    assert identity['device']['name'] == 'gpu-0' and identity['node'] == NODE, identity
    described = open(mounts['/var/run/kubernetes.io/dra-device-attributes/resourceclaims/whole/r0/gpu.nvidia.com-metadata.json']).read()
    assert json.JSONDecoder().raw_decode(described)[0]['requests'][0]['devices'][0]['attributes']['type'] == {'string': 'gpu'}, described
    status = until('device status', lambda: api.call('GET', f'{CLAIMS}/whole')['status'].get('devices'))
    assert sorted(d['device'] for d in status) == ['gpu-0', 'gpu-1'] and status[0]['conditions'][0]['type'] == 'Ready', status

    # The same device for another claim, an overlapping part of it, parameters with mistakes: refused.
    other, _ = claim(api, 'other', GPU, NODE, ['gpu-1'])
    assert 'belongs to claim default/whole' in str(peer(NODE, GPU, 'prepare', other, fails=True))
    part, _ = claim(api, 'part', GPU, NODE, ['gpu-1-mig-1g5gb-19-0'])
    assert 'overlap' in str(peer(NODE, GPU, 'prepare', part, fails=True))
    for i, (wrong, words) in enumerate([({'sharng': {}}, 'unknown field'), ({'sharing': {'strategy': 'TimeSlicing', 'mpsConfig': {}}}, 'does not go with'),
                                        ({'sharing': {'strategy': 'MPS', 'mpsConfig': {'defaultActiveThreadPercentage': 101}}}, 'defaultActiveThreadPercentage')]):
        bad, _ = claim(api, f'bad{i}', GPU, NODE, ['gpu-5'], {'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'GpuConfig', **wrong})
        assert words in str(peer(NODE, GPU, 'prepare', bad, fails=True)), words
        peer(NODE, GPU, 'unprepare', bad)

    # A restart: no slice is written again, the spec comes back.
    driver.stop(signal.SIGKILL)
    shutil.rmtree(os.path.join(ROOT, NODE, 'cdi'))
    driver.start()
    until('the spec again', lambda: cdi(NODE, uid))
    time.sleep(1)
    assert {s['metadata']['name']: s['metadata']['resourceVersion'] for s in api.slices(GPU)} == first, 'a restart wrote slices'
    peer(NODE, GPU, 'unprepare', key)
    assert not cdi(NODE) and not setups(NODE, GPU)
    peer(NODE, GPU, 'prepare', part)
    for k in (part, other, key):
        peer(NODE, GPU, 'unprepare', k)
    assert not cdi(NODE) and not setups(NODE, GPU)
    return driver


def check_hostile(api):
    """Keys of claims that would be paths, and parameters that C would read otherwise than JSON: refused, and nothing outside is touched."""
    victim = os.path.join(TOP, 'victim')
    os.mkdir(victim)
    for name in ('keep', 'x.journal'):
        open(os.path.join(victim, name), 'w').write('theirs')
    before = {os.path.join(top, f) for top, _, files in os.walk(TOP) for f in files if f.endswith('.journal')}
    up = '../' * 12 + TOP.strip('/') + '/victim/x'
    for key in (f'default/c/{up}', 'default/c/..', 'default/c/', 'default/../u', '../c/u', './c/u', '/c/u', 'default//u', f'default/c/{"../" * 5}victim/x', 'default/c/a/b'):
        for verb in ('prepare', 'unprepare'):
            assert 'no slash' in str(peer(NODE, GPU, verb, key, fails=True)), (verb, key)
    assert sorted(os.listdir(victim)) == ['keep', 'x.journal'] and open(os.path.join(victim, 'x.journal')).read() == 'theirs'
    assert {os.path.join(top, f) for top, _, files in os.walk(TOP) for f in files if f.endswith('.journal')} == before
    head = {'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'GpuConfig'}
    deep = {}
    for _ in range(100):
        deep = {'sharing': deep}
    for i, wrong in enumerate(({**head, 'sharing': {'strategy': 'MPS', 'mpsConfig': {'defaultPerDevicePinnedMemoryLimit': {'0\0': '1Gi'}}}}, {**head, 'sharing': {'strategy': 'MPS\0'}}, {**head, **deep}, {**head, 'sharing': {'strategy': 'MPS', 'mpsConfig': {'defaultActiveThreadPercentage': 2 ** 63}}},
                               {**head, 'sharing': {'strategy': '$(touch x); `id`'}}, {**head, 'apiVersion': '../../v1'}, {'kind': 'GpuConfig'}, {**head, 'sharing': [1]}, {**head, 'sharing': {'strategy': 'x' * 9000}})):
        bad, uid = claim(api, f'hostile{i}', GPU, NODE, ['gpu-6'], wrong)
        said = str(peer(NODE, GPU, 'prepare', bad, fails=True))
        assert len(said) < 2000, said[:300]
        assert not cdi(NODE, uid), wrong
        peer(NODE, GPU, 'unprepare', bad)
    assert not setups(NODE, GPU)
    good, uid = claim(api, 'after', GPU, NODE, ['gpu-6'])
    assert peer(NODE, GPU, 'prepare', good)[uid]['error'] == ''
    peer(NODE, GPU, 'unprepare', good)


def check_crashes(api, driver):
    """The driver kills itself at every few steps of a prepare, and of an unprepare."""
    key, uid = claim(api, 'crash', GPU, NODE, ['gpu-2', 'gpu-3'])
    points = 0
    for verb in ('prepare', 'unprepare'):
        for step in range(1, 60, 4):
            if verb == 'unprepare':
                peer(NODE, GPU, 'prepare', key)
            fault('add', 'crash', '--step', str(step))
            peer(NODE, GPU, verb, key, fails=None)
            if driver.process.poll() is None and faults():
                fault('clear')
                break  # it has no more steps
            driver.died()
            points += 1
            driver.start()
            answer = peer(NODE, GPU, 'prepare', key)[uid]
            assert len(answer['devices']) == 2 and len(setups(NODE, GPU)) == 2 and len(cdi(NODE)) == 1, (verb, step, answer)
            peer(NODE, GPU, 'unprepare', key)
            assert not cdi(NODE) and not setups(NODE, GPU), (verb, step)
    assert points >= 8, points
    return points


def fault(*words):
    subprocess.run([DRAY, 'driver', 'fault', '--state', ROOT, '--node', NODE, *words], check=True)


def faults():
    out = subprocess.run([DRAY, 'driver', 'fault', '--state', ROOT, '--node', NODE, 'list'], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def taints(api, name):
    return [t for s in api.slices(GPU) for d in s['spec'].get('devices', []) if d['name'] == name for t in d.get('taints', [])]


def check_healing(api):
    """XID → taint → drained → reset → verified → untainted, told as events; a lost device waits for hands."""
    key, _ = claim(api, 'heal', GPU, NODE, ['gpu-4'])
    peer(NODE, GPU, 'prepare', key)
    fault('add', 'xid', '--device', 'gpu-4', '--code', '79')
    tainted = until('a taint', lambda: taints(api, 'gpu-4'))
    assert tainted[0]['key'] == 'gpu.nvidia.com/xid' and tainted[0]['value'] == '79' and tainted[0]['effect'] == 'NoSchedule', tainted
    until('a taint of its part', lambda: taints(api, 'gpu-4-mig-1g5gb-19-0'))
    time.sleep(1)
    assert taints(api, 'gpu-4'), 'it was reset while somebody had it'
    peer(NODE, GPU, 'unprepare', key)
    until('the taint gone', lambda: not taints(api, 'gpu-4'))
    assert not faults()
    reasons = until('events', lambda: (lambda r: r if 'DeviceRecovered' in r else None)(
        [e['reason'] for e in api.call('GET', '/api/v1/events')['items']]))
    assert {'DeviceFailed', 'DeviceResetting', 'DeviceRecovered'} <= set(reasons), reasons
    fault('add', 'lost', '--device', 'gpu-6')
    lost = until('a taint', lambda: taints(api, 'gpu-6'))
    assert lost[0]['key'] == 'gpu.nvidia.com/gpu-lost', lost
    gone, _ = claim(api, 'lost', GPU, NODE, ['gpu-6'])
    assert 'does not answer' in str(peer(NODE, GPU, 'prepare', gone, fails=True))
    peer(NODE, GPU, 'unprepare', gone)
    fault('clear')
    until('the taint gone', lambda: not taints(api, 'gpu-6'))


def check_health():
    path = os.path.join(ROOT, NODE, 'plugins_registry', f'{GPU}-reg.sock')
    watch = subprocess.Popen([PEER, path, 'health'], stdout=subprocess.PIPE, text=True)
    try:
        now = json.loads(watch.stdout.readline())
        assert len(now) == 208 and set(now.values()) == {1}, now
        fault('add', 'lost', '--device', 'gpu-7')
        while json.loads(watch.stdout.readline())['gpu-7'] != 2:
            pass
        fault('clear')
        while json.loads(watch.stdout.readline())['gpu-7'] != 1:
            pass
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()


def check_attach(api):
    """Cameras of the network: binding conditions come true after a while, or fail."""
    driver = Driver(api, 'ip-cameras', '--nodes', '1')
    have = published(api, 'camera.dray.dev', 1)[0]
    pool, device = have['spec']['pool']['name'], have['spec']['devices'][0]
    assert have['spec'].get('allNodes') and 'ownerReferences' not in have['metadata'], have
    binding = {k: device[k] for k in ('bindingConditions', 'bindingFailureConditions')}
    names = [d['name'] for d in have['spec']['devices']]

    def conditions(name):
        return {c['type']: (c['status'], c.get('message', '')) for d in api.call('GET', f'{CLAIMS}/{name}')['status'].get('devices', [])
                for c in d.get('conditions', [])}
    key, _ = claim(api, 'cam', 'camera.dray.dev', pool, names[:1], binding=binding)
    until('attached', lambda: conditions('cam').get(binding['bindingConditions'][0], ('',))[0] == 'True')
    peer('ip-cameras-0', 'camera.dray.dev', 'prepare', key)
    until('ready beside attached', lambda: {'Ready', binding['bindingConditions'][0]} <= set(conditions('cam')))
    subprocess.run([DRAY, 'driver', 'fault', '--state', ROOT, '--node', 'shared', 'add', 'attach-failure', '--device', names[1]], check=True)
    claim(api, 'cam2', 'camera.dray.dev', pool, names[1:2], binding=binding)
    failed = until('failure', lambda: conditions('cam2').get(binding['bindingFailureConditions'][0]))
    assert failed[0] == 'True' and 'cannot be attached' in failed[1], failed
    peer('ip-cameras-0', 'camera.dray.dev', 'unprepare', key)
    driver.stop()


def check_rolling(api, driver):
    """A second instance beside the first: both serve, either undoes what the other did."""
    new = Driver(api, 'nvidia-a100-mig', '--nodes', '1', '--instance', 'abcd-ef')
    key, uid = claim(api, 'roll', GPU, NODE, ['gpu-0'])
    peer(NODE, GPU, 'prepare', key)
    path = os.path.join(ROOT, NODE, 'plugins_registry', f'{GPU}-abcd-ef-reg.sock')
    second = subprocess.run([PEER, path, 'prepare', key], capture_output=True, text=True, check=True)
    assert json.loads(second.stdout)[uid]['devices'][0]['device'] == 'gpu-0'
    driver.stop()
    subprocess.run([PEER, path, 'unprepare', key], capture_output=True, check=True)
    assert not cdi(NODE) and not setups(NODE, GPU)
    assert not os.path.exists(os.path.join(ROOT, NODE, 'plugins_registry', f'{GPU}-reg.sock'))
    new.stop()
    assert not os.path.exists(path)


def check_families(api):
    """What the drivers of other hardware do with parameters, shares and overlaps."""
    driver = Driver(api, 'numa-gpu-nic-cpu,tpu-v6e,nvidia-gb200,fpga', '--nodes', '1')
    try:
        cpus = []
        for i in range(2):
            share = {'shareID': f'0000000{i}-0000-4000-8000-000000000000', 'consumedCapacity': {'dra.cpu/cpu': '4'}}
            key, uid = claim(api, f'cpu{i}', 'dra.cpu', 'numa-gpu-nic-cpu-0', ['cpudevnuma001'], binding=share)
            answer = peer('numa-gpu-nic-cpu-0', 'dra.cpu', 'prepare', key)[uid]
            assert answer['devices'][0]['share'] == share['shareID'], answer
            spec = list(cdi('numa-gpu-nic-cpu-0', uid).values())[0]
            cpus.append(env_of(spec, 'cpudevnuma001')['DRA_CPUSET_' + uid.replace('-', '_')].split(','))
        assert cpus == [['64', '65', '66', '67'], ['68', '69', '70', '71']], cpus

        tpu = ('tpu-v6e-0', 'tpu.google.com')
        key, _ = claim(api, 'chip', tpu[1], tpu[0], ['0'])
        assert 'all 8 chips' in str(peer(*tpu, 'prepare', key, fails=True))
        peer(*tpu, 'unprepare', key)
        key, uid = claim(api, 'chips', tpu[1], tpu[0], [str(i) for i in range(8)])
        peer(*tpu, 'prepare', key)
        assert env_of(list(cdi(tpu[0], uid).values())[0], '-0')['TPU_TOPOLOGY'] == '2x4'

        nic, mac = until('NICs', lambda: [(d['name'], d['attributes']['dra.net/mac']['string']) for s in api.slices('dra.net')
                                          if s['spec']['pool']['name'] == 'nvidia-gb200-0' for d in s['spec']['devices']])[0]
        key, _ = claim(api, 'nic', 'dra.net', 'nvidia-gb200-0', [nic], {'interface': {'name': 'net7', 'addresses': ['10.9.0.1/24']}})
        peer('nvidia-gb200-0', 'dra.net', 'prepare', key)
        data = until('network data', lambda: [d.get('networkData') for d in api.call('GET', f'{CLAIMS}/nic')['status'].get('devices', [])])[0]
        assert data['interfaceName'] == 'net7' and data['ips'] == ['10.9.0.1/24'] and data['hardwareAddress'] == mac, data

        fpga = ('fpga-0', 'fpga.dray.dev')
        config = {'apiVersion': 'fpga.dray.dev/v1alpha1', 'kind': 'FpgaConfig'}
        key, _ = claim(api, 'fpga', fpga[1], fpga[0], ['fpga-0-region-1'], config)
        assert 'bitstream: is required' in str(peer(*fpga, 'prepare', key, fails=True))
        peer(*fpga, 'unprepare', key)
        key, uid = claim(api, 'fpga2', fpga[1], fpga[0], ['fpga-0-region-1'], dict(config, bitstream='aes.bit'))
        peer(*fpga, 'prepare', key)
        assert env_of(list(cdi(fpga[0], uid).values())[0], 'region-1')['FPGA_DEVICE_1_BITSTREAM'] == 'aes.bit'
        card, _ = claim(api, 'card', fpga[1], fpga[0], ['fpga-0'])
        assert 'overlap' in str(peer(*fpga, 'prepare', card, fails=True))
    finally:
        driver.stop()


def check_all(api):
    """Every profile that comes with dray, on two nodes each, in one process: what is published is what the profile says."""
    names = [l.split()[0] for l in subprocess.run([DRAY, 'driver', 'profiles'], check=True, capture_output=True, text=True).stdout.splitlines()]
    for some in (names[i:i + 10] for i in range(0, len(names), 10)):
        driver = Driver(api, ','.join(some), '--nodes', '2')
        for profile in some:
            for number in (0, 1):
                shown = json.loads(subprocess.run([DRAY, 'driver', 'show', profile, '--node', f'{profile}-{number}'], check=True, capture_output=True,
                                                  text=True).stdout)
                wanted = {}
                for s in shown:
                    wanted.setdefault((s['spec']['driver'], s['spec']['pool']['name']), []).append([d['name'] for d in s['spec'].get('devices', [])])

                def check():
                    have = {}
                    for s in sorted(api.call('GET', SLICES)['items'], key=lambda s: s['metadata']['name']):
                        have.setdefault((s['spec']['driver'], s['spec']['pool']['name']), []).append([d['name'] for d in s['spec'].get('devices', [])])
                    return all(have.get(pool) == devices for pool, devices in wanted.items())
                until(f'slices of {profile}-{number}', check, 120)
        out = driver.stop()
        assert 'did not keep' not in out and 'nvalid' not in out, out
    return len(names)


def main():
    api = Api()
    try:
        driver = check_basic(api)
        check_hostile(api)
        points = check_crashes(api, driver)
        check_healing(api)
        check_health()
        check_rolling(api, driver)
        check_attach(api)
        check_families(api)
        profiles = check_all(api)
    finally:
        api.process.terminate()
        api.process.wait()
        api.process.stdout.close()
    shutil.rmtree(TOP, ignore_errors=True)
    print(f'driver sim: published, prepared, killed at {points} points, healed, attached, replaced; {profiles} profiles')


if __name__ == '__main__':
    main()

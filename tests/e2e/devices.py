#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs on devices against `dray up` with simulated nodes: request, free, who, topo, top, history, taint, untaint, plan, doctor, snapshot;
the same answers from a snapshot; top's screen in terminals of 80 and 200 columns. Usage: devices.py DRAY"""
import fcntl, json, os, pty, re, select, shutil, signal, socket, struct, subprocess, sys, tempfile, termios, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Cluster:
    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix='dray-devices-')
        self.process = subprocess.Popen([DRAY, 'up', '--data-dir', self.folder, '--listen', '127.0.0.1:0', *flags], cwd=HERE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        assert 'dray is up at' in line, line
        self.env = dict(os.environ, KUBECONFIG=os.path.join(self.folder, 'admin.kubeconfig'), NO_COLOR='1')

    def run(self, *words, code=0):
        r = subprocess.run([DRAY, *words], env=self.env, capture_output=True, text=True, timeout=120)
        assert code is None or r.returncode == code, f'{words}: exit {r.returncode}\n{r.stdout}\n{r.stderr}'
        return r

    def json(self, *words, code=0):
        return json.loads(self.run(*words, '-o', 'json', code=code).stdout)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


def until(what, fn, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.1)
    raise AssertionError(f'{what}: not within {seconds} s')


def screen(c, columns, rows=24):
    """Runs top in a terminal until it has painted, presses d and q, and gives back what it wrote."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
    p = subprocess.Popen([DRAY, 'top'], env=dict(c.env, TERM='xterm'), stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    out, stage, end = b'', 0, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        if stage == 0 and b'q quit' in out:
            os.write(master, b'd')
            stage = 1
        elif stage == 1 and b'STATE' in out:
            os.write(master, b'q')
            stage = 2
    p.wait(timeout=30)
    os.close(master)
    assert p.returncode == 0 and stage == 2, (p.returncode, stage, out[-500:])
    return out.decode()


def lines_of(text):
    """The lines that were painted, without what steers the terminal."""
    parts = re.split(r'\x1b\[\d+;1H', text)[1:]
    return [re.sub(r'\x1b\[[?0-9;]*[a-zA-Z]', '', p).replace('\r', '') for p in parts]


def ask_and_hold(c):
    r = c.run('request', 'gpu', '--memory', '40Gi', '--claim', '--name', 'mine')
    assert 'deviceClassName: gpu.example.com' in r.stdout and 'fits' in r.stderr, r.stdout + r.stderr
    bad = c.run('request', 'nothing', code=1)
    assert 'nothing is called nothing; the classes are' in bad.stderr, bad.stderr
    c.run('request', 'gpu', '--memory', '40Gi', '--pod', '--name', 'holder', '--apply')
    return until('a device is held', lambda: c.json('who', '--all')['devices'] and
                 [d for d in c.json('who', '--all')['devices'] if d['holders']])


def check_answers(c, held):
    name = f'{held["driver"]}/{held["pool"]}/{held["device"]}'
    free = c.json('free', '--class', 'gpu.example.com')['classes'][0]
    assert free['held'] == 1 and free['fits'] == free['free'] == free['devices'] - 1, free
    assert c.json('free', '--cel', "device.driver == 'no'", code=1)['classes'][0]['devices'] == 0
    c.run('free', '--class', 'nope', code=1)
    c.run('free', '--cel', 'device.', code=1)
    assert held['state'] == 'held' and held['holders'][0]['pods'] == 'holder', held
    table = c.run('who', name).stdout
    assert name in table and 'holder' in table, table
    topo = c.run('topo', held['node']).stdout
    assert 'Legend:' in topo and 'PCIE ROOT' in topo, topo
    c.run('topo', 'nowhere', code=1)
    past = c.json('history', name)
    assert past['subject'] == f'device {name}' and any('created' in e['what'] for e in past['entries']), past
    top = c.run('top', '--once').stdout
    assert '1 claim holds devices' in top and held['node'] in top, top
    return name


def taint(c, name):
    told = c.run('taint', name, 'broken:NoExecute', '--dry-run').stdout
    assert 'evicts holder' in told, told
    c.run('taint', name, 'broken:NoExecute', code=1)  # pods would go
    c.run('taint', name, 'look:NoSchedule', '--name', 'a-rule')
    until('the rule is there', lambda: 'a-rule' in c.run('get', 'devicetaintrules').stdout)
    c.run('untaint', name, 'look')
    c.run('untaint', 'a-rule', code=1)
    # untaint takes the words that taint took.
    c.run('taint', name, 'odd=yes:NoSchedule')
    c.run('untaint', name, 'odd=no:NoSchedule', code=1)
    c.run('untaint', name, 'odd=yes:NoSchedule')
    c.run('taint', '--class', 'gpu.example.com', 'old:NoSchedule')
    c.run('untaint', '--class', 'gpu.example.com', 'old:NoSchedule')
    assert 'old' not in c.run('get', 'devicetaintrules').stdout


def tolerant(c):
    """What --dry-run says of claims that tolerate a taint is what the controller then does."""
    rows = (('any-effect', {'key': 'broken', 'operator': 'Exists'}, True), ('named', {'key': 'broken', 'operator': 'Exists', 'effect': 'NoExecute'}, False),
            ('for-now', {'key': 'broken', 'operator': 'Exists', 'effect': 'NoExecute', 'tolerationSeconds': 3}, True))
    for name, toleration, _ in rows:
        request = {'name': 'gpu', 'exactly': {'deviceClassName': 'gpu.example.com', 'tolerations': [toleration]}}
        objects = [{'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name}, 'spec': {'devices': {'requests': [request]}}},
                   {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': {
                       'containers': [{'name': 'c', 'image': 'x', 'resources': {'claims': [{'name': 'gpu'}]}}], 'resourceClaims': [{'name': 'gpu', 'resourceClaimName': name}]}}]
        path = os.path.join(c.folder, name + '.json')
        with open(path, 'w', encoding='utf-8') as f:
            json.dump({'apiVersion': 'v1', 'kind': 'List', 'items': objects}, f)
        c.run('apply', '-f', path)
    for name, _, goes in rows:
        held = until(f'{name} holds a device', lambda: [d for d in c.json('who', '--all')['devices'] if any(h['pods'] == name for h in d['holders'])])[0]
        until(f'{name} runs', lambda: c.json('get', 'pod', name)['status'].get('phase') == 'Running')
        device = f'{held["driver"]}/{held["pool"]}/{held["device"]}'
        told = c.run('taint', device, 'broken:NoExecute', '--dry-run').stdout
        assert (f'evicts {name}' in told) == goes and (f'tolerates it: {name}' in told) != goes, told
        assert f'pods of {1 if goes else 0} claim' in told and ('after 3 s' in told) == (name == 'for-now'), told
        if goes:
            c.run('taint', device, 'broken:NoExecute', code=1)
        c.run('taint', device, 'broken:NoExecute', '--yes')
        if goes:
            until(f'{name} is evicted', lambda: subprocess.run([DRAY, 'get', 'pod', name], env=c.env, capture_output=True).returncode != 0)
        else:
            time.sleep(5)
            assert c.json('get', 'pod', name)['status']['phase'] == 'Running'
        c.run('untaint', device, 'broken')
    subprocess.run([DRAY, 'delete', 'pod', 'named'], env=c.env, capture_output=True, check=True)
    for name, _, _ in rows:
        c.run('delete', 'resourceclaim', name)


POD = '''apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: dray
  resourceClaims: [{name: gpu, resourceClaimTemplateName: holder}]
  containers: [{name: c, image: busybox, resources: {requests: {cpu: %s}}}]
'''


def plans(c):
    """A plan for files is one for the cluster that KUBECONFIG names, and comes true there."""
    path = os.path.join(c.folder, 'pods.yaml')
    with open(path, 'w') as f:
        f.write(POD % ('huge', '5000') + '---\n' + POD % ('next', '100m'))
    steps = {s['pod']: s for s in c.json('plan', '-f', path, code=1)['steps'] if 'pod' in s}
    huge, following = steps['default/huge'], steps['default/next']
    assert steps['default/holder']['status'] == 'running' and following['status'] == 'placed', steps
    assert huge['status'] == 'unplaced' and 'insufficient cpu' in huge['summary'], huge
    c.run('apply', '-f', path)
    until('the pod has its node', lambda: c.json('get', 'pod', 'next')['spec'].get('nodeName'))
    assert c.json('get', 'pod', 'next')['spec']['nodeName'] == following['node'], following
    live = c.json('why', 'huge', code=None)['now']['summary']
    assert live == huge['summary'], (live, huge['summary'])
    c.run('delete', 'pod', 'huge', 'next')
    until('its device is free', lambda: len([d for d in c.json('who', '--all')['devices'] if d['holders']]) == 1)


def doctor(c):
    d = c.json('doctor')
    by = {}
    for f in d['findings']:
        by.setdefault(f['check'], []).append(f)
    for check in ('server', 'clock', 'permissions', 'pools', 'slices', 'claims'):
        assert all(f['level'] == 'good' for f in by[check]), by[check]


def documented():
    """The names in docs/reference/metrics.md that a whole cluster serves."""
    with open(os.path.join(HERE, 'docs', 'reference', 'metrics.md'), encoding='utf-8') as f:
        rows = re.findall(r'^\| (`.*?) \| ([^|]*) \|', f.read(), re.M)
    return {name for names, of in rows if of in ('scheduler', 'controllers', 'server') for name in re.findall(r'`([a-z_]+)`', names)}


def scrape(c):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(os.path.join(c.folder, 'dray.sock'))
    s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    text = b''
    while True:
        data = s.recv(65536)
        if not data:
            break
        text += data
    s.close()
    return text.decode().replace('\r', '')


ASKS = """apiVersion: v1
kind: Pod
metadata: {name: no-claim}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: d}]}}]
  resourceClaims: [{name: d, resourceClaimName: nowhere}]
---
apiVersion: resource.k8s.io/v1alpha3
kind: ResourcePoolStatusRequest
metadata: {name: ask}
spec: {driver: %s}
"""


def metrics(c, held):
    path = os.path.join(c.folder, 'asks.yaml')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(ASKS % held['driver'])
    c.run('apply', '-f', path)
    pool = 'resourcepoolstatusrequest_controller_request'
    text = until('the pools are told', lambda: [t for t in [scrape(c)] if f'{pool}s_processed_total{{driver_name="{held["driver"]}"}} 1' in t])[0]
    assert f'{pool}_processing_duration_seconds_count{{driver_name="{held["driver"]}"}} 1' in text
    label = f'driver="{held["driver"]}",pool="{held["pool"]}"'
    for want in (f'dray_device_allocations{{{label},device="{held["device"]}"}} 1', f'dray_pool_devices_allocated{{{label}}} 1',
                 'dray_namespace_devices{namespace="default"} 1', 'dray_scheduler_solve_duration_seconds_count'):
        assert want in text, want
    moved = {name for name, value in re.findall(r'^(\w+)\{.*\} (\S+)$', text, re.M) if float(value) > 0}
    for want in ('workqueue_adds_total', 'workqueue_queue_duration_seconds_count', 'workqueue_work_duration_seconds_count',
                 'scheduler_plugin_execution_duration_seconds_count', 'scheduler_unschedulable_pods'):
        assert want in moved, (want, sorted(moved))
    assert 'scheduler_unschedulable_pods{plugin="DynamicResources",profile="default-scheduler"} 1' in text
    for queue in ('resource_claim', 'device-taint-eviction-controller', 'replicaset', 'deployment', 'garbage_collector_attempt_to_delete'):
        assert f'workqueue_depth{{name="{queue}"}} ' in text, queue
    typed = set(re.findall(r'^# TYPE (\S+) ', text, re.M))
    named = documented()
    assert len(named) > 15 and not named - typed, named - typed
    seconds = re.search(r'dray_device_seconds_total\{namespace="default"\} ([0-9.]+)', text)
    assert seconds and float(seconds[1]) > 0, seconds
    c.run('delete', '-f', path)


def snapshot(c, name):
    path = os.path.join(c.folder, 'snap.json')
    c.run('snapshot', 'save', path)
    text = open(path).read()
    assert '"env"' not in text and '"kind":"Secret"' not in text
    live, file = c.json('free', '--class', 'gpu.example.com'), c.json('free', '--class', 'gpu.example.com', '--snapshot', path)
    assert live == file, (live, file)
    assert c.json('who', name, '--snapshot', path) == c.json('who', name)
    c.run('snapshot', 'load', path, code=1)  # it is not empty
    other = Cluster('--nodes', '0')
    try:
        other.run('snapshot', 'load', path)
        got = other.json('who', name)
        assert got['devices'][0]['holders'][0]['pods'] == 'holder', got
    finally:
        other.stop()


def shares():
    """Shares of a device that words ask for are allocated by the scheduler, several of one device."""
    c = Cluster('--sim', 'example-gpu-shared', '--nodes', '1')
    try:
        for name in ('one', 'two'):
            r = c.run('request', 'gpu', '--memory', '30Gi', '--compute', '20', '--pod', '--name', name, '--apply')
            assert 'a share of 30Gi' in r.stderr and 'fits' in r.stderr, r.stdout + r.stderr
        held = until('both shares are held', lambda: [d for d in c.json('who', '--all')['devices'] if len(d['holders']) == 2])
        assert sorted(h['pods'] for h in held[0]['holders']) == ['one', 'two'], held
        results = [r for o in c.json('get', 'resourceclaims')['items'] for r in o['status']['allocation']['devices']['results']]
        assert [r['consumedCapacity'] for r in results] == [{'compute': '20', 'memory': '30Gi'}] * 2, results
    finally:
        c.stop()


def main():
    shares()
    c = Cluster('--sim', 'example-gpu', '--nodes', '2', '--feature-gates', 'DRAResourcePoolStatus=true',
                '--runtime-config', 'resource.k8s.io/v1alpha3=true')
    try:
        held = ask_and_hold(c)[0]
        name = check_answers(c, held)
        metrics(c, held)
        taint(c, name)
        tolerant(c)


        plans(c)
        doctor(c)
        for columns in (80, 200):
            for line in lines_of(screen(c, columns)):
                assert len(line) <= columns, (columns, line)
        snapshot(c, name)
    finally:
        c.stop()
    print('devices: 11 verbs, 2 screens, 1 snapshot loaded elsewhere')


if __name__ == '__main__':
    main()

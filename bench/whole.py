#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/whole.py DRAY AREA…: whole processes as users have them. Areas: server, scheduler, agent, memory, start. Prints the JSON lines of
tools/bench: name, value, unit, and peer (the same of etcd and kube-apiserver, kube-scheduler and kube-controller-manager) where these are there.
Processor times and memory say more than rates on a machine that others use; data lie in memory (/dev/shm) where it says so."""
import contextlib, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK = os.sysconf('SC_CLK_TCK')
SKIPPED = 77
OPERATIONS = ('create', 'get', 'update', 'status', 'list', 'watch', 'delete')


def line(name, value, unit, peer=None, note=''):
    row = {'name': name, 'value': round(value, 4), 'unit': unit}
    if peer is not None:
        row['peer'] = round(peer, 4)
    if note:
        row['note'] = note
    print(json.dumps(row), flush=True)


def rss_mib(pid):
    return next(int(l.split()[1]) for l in open(f'/proc/{pid}/status') if l.startswith('VmRSS')) / 1024


class Process:
    """A `dray server` or `dray up` with a folder of its own."""

    def __init__(self, dray, *command, folder=None, top='/dev/shm'):
        self.folder = folder or tempfile.mkdtemp(prefix='dray-bench-', dir=top)
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')
        self.began = time.monotonic()
        self.process = subprocess.Popen([dray, *command, '--data-dir', self.folder, '--listen', '127.0.0.1:0', '--log-level', 'error'],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.pid = self.process.pid

    def ready(self):
        """Seconds from start until the local socket answers that all is well."""
        while time.monotonic() < self.began + 60:
            with contextlib.suppress(OSError):
                s = socket.socket(socket.AF_UNIX)
                s.connect(os.path.join(self.folder, 'dray.sock'))
                s.sendall(b'GET /readyz HTTP/1.1\r\nHost: l\r\nConnection: close\r\n\r\n')
                if b' 200 ' in s.recv(64):
                    return time.monotonic() - self.began
            time.sleep(0.001)
        raise RuntimeError('not ready within a minute')

    def stop(self, keep=False):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def running(dray, *command):
    p = Process(dray, *command)
    try:
        p.ready()
        yield p
    finally:
        p.stop()


@contextlib.contextmanager
def kubernetes(*parts):
    """A real control plane, or None where its programs are not there."""
    sys.path.insert(0, os.path.join(HERE, 'tests', 'interop'))
    try:
        from remote_kit import Plane
        plane = Plane()
    except (SystemExit, ImportError):
        yield None
        return
    try:
        for part in parts:
            plane.start(part)
        if 'kcm' in parts:
            plane.ready()
        yield plane
    finally:
        plane.done()


def load(dray, kubeconfig, pids, *flags):
    run = subprocess.run([dray, 'bench', *flags, '--kubeconfig', kubeconfig, '--json', '--pids', ','.join(f'{n}={p}' for n, p in pids.items())],
                         stdout=subprocess.PIPE, text=True, timeout=600)
    return [json.loads(l) for l in run.stdout.splitlines() if l.startswith('{')]


# --- Areas ---

def server(dray):
    flags = ('api', '--count', '500', '--ops', ','.join(OPERATIONS))
    with running(dray, 'server') as p:
        ours = {r['op']: r for r in load(dray, p.kubeconfig, {'s': p.pid}, *flags)}
        fan_out = load(dray, p.kubeconfig, {'s': p.pid}, 'api', '--ops', 'watch', '--count', '100', '--concurrency', '1000', '--rate', '50')[0]
    with kubernetes() as plane:
        theirs = {}
        if plane:
            pids = {n: plane.pid(n) for n in ('etcd', 'apiserver')}
            theirs = {r['op']: r for r in load(dray, plane.kubeconfig, pids, *flags)}
    for op in OPERATIONS:
        mine, peer = ours[op], theirs.get(op)
        items = 500 if op == 'list' else 1

        def cpu(r):
            return sum(r['server_cpu_s'].values()) * 1e6 / r['count'] / items
        what = 'a listed object' if op == 'list' else 'a delivered event' if op == 'watch' else op
        line(f'processor time, {what}', cpu(mine), 'us', cpu(peer) if peer else None)
        line(f'rate, {op}', mine['ops_per_s'], '1/s', peer['ops_per_s'] if peer else None, 'with 16 in flight')
        line(f'p99, {op}', mine['p99_ms'], 'ms', peer['p99_ms'] if peer else None)
    line('1000 watchers, 50 events/s: p99', fan_out['p99_ms'], 'ms')
    line('1000 watchers, 50 events/s: processor time, an event to one', sum(fan_out['server_cpu_s'].values()) * 1e6 / fan_out['count'], 'us')


def scheduler(dray):
    def measure(kubeconfig, pids, nodes, pods, variant, *more):
        return load(dray, kubeconfig, pids, 'sched', '--nodes', str(nodes), '--pods', str(pods), '--variant', variant, '--settle', '0', *more)[0]
    shapes = ((100, 400, 'one'), (100, 300, 'pair'), (500, 1000, 'one'))
    with running(dray, 'up', '--nodes', '0') as p:
        ours = [measure(p.kubeconfig, {'up': p.pid}, *shape) for shape in shapes]
        slow = measure(p.kubeconfig, {'up': p.pid}, 100, 300, 'one', '--rate', '100')
    with kubernetes('kcm', 'scheduler') as plane:
        pids = {n: plane.pid(n) for n in ('etcd', 'apiserver', 'scheduler', 'kcm')} if plane else {}
        theirs = [measure(plane.kubeconfig, pids, *shapes[0])] if plane else []
    for i, (nodes, pods, variant) in enumerate(shapes):
        mine, peer = ours[i], theirs[i] if i < len(theirs) else None

        def cpu(r):
            return sum(r['server_cpu_s'].values()) * 1e3 / r['pods']
        line(f'processor time, a bound pod, {nodes} nodes, {variant}', cpu(mine), 'ms', cpu(peer) if peer else None)
        line(f'rate, {nodes} nodes, {variant}', mine['pods_per_s'], 'pods/s', peer['pods_per_s'] if peer else None)
    line('created -> bound p99 at 100 pods/s', slow['p99_ms'], 'ms')


def agent(dray):
    for script in ('prepare.py', 'agent.py'):
        command = [os.path.join(HERE, 'bench', script), dray, *(['500'] if script == 'prepare.py' else ['30', '15'])]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if run.returncode == SKIPPED:
            print(json.dumps({'name': script, 'value': None, 'unit': '', 'note': run.stdout.strip().splitlines()[-1]}))
            continue
        if run.returncode != 0:
            sys.exit(f'bench/{script} failed with status {run.returncode}:\n{run.stdout}')
        print('\n'.join(l for l in run.stdout.splitlines() if l.startswith('{')))


def memory(dray):
    with running(dray, 'server') as p:
        time.sleep(1)
        empty = rss_mib(p.pid)
        line('idle dray server', empty, 'MiB')
        many = 20000
        load(dray, p.kubeconfig, {'s': p.pid}, 'api', '--ops', 'create', '--count', str(many), '--concurrency', '64')
        time.sleep(1)
        line('a ResourceClaim in the server', (rss_mib(p.pid) - empty) * 1024 * 1024 / many, 'B', note=f'of {many}')
    with running(dray, 'up', '--nodes', '3') as p:
        time.sleep(2)
        line('idle dray up, 3 simulated nodes', rss_mib(p.pid), 'MiB')


def start(dray):
    wall, cpu = zip(*(help_seconds(dray) for _ in range(30)))
    line('dray --help', min(wall) * 1000, 'ms')
    line('dray --help, processor time', min(cpu) * 1000, 'ms')
    p = Process(dray, 'server')
    line('dray server, first start', p.ready() * 1000, 'ms', note='makes its CA and certificates')
    p.stop(keep=True)
    times = []
    for _ in range(5):
        q = Process(dray, 'server', folder=p.folder)
        times.append(q.ready())
        q.stop(keep=True)
    shutil.rmtree(p.folder)
    line('dray server, start again', min(times) * 1000, 'ms')
    p = Process(dray, 'up', '--apply', os.path.join(HERE, 'examples', 'claim.yaml'))
    try:
        line('dray up, ready', p.ready() * 1000, 'ms')
        line('dray up, first pod of --apply runs', first_pod(p) * 1000, 'ms', note='on a simulated node')
    finally:
        p.stop()


def help_seconds(dray):
    began = time.monotonic()
    p = subprocess.Popen([dray, '--help'], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def first_pod(p):
    sys.path.insert(0, os.path.join(HERE, 'tests', 'e2e'))
    from up import Unix
    while time.monotonic() < p.began + 60:
        c = Unix(os.path.join(p.folder, 'dray.sock'))
        c.request('GET', '/api/v1/pods')
        items = json.loads(c.getresponse().read())['items']
        if any(pod['status'].get('phase') == 'Running' for pod in items):
            return time.monotonic() - p.began
        time.sleep(0.005)
    raise RuntimeError('no pod runs within a minute')


def main():
    areas = {'server': server, 'scheduler': scheduler, 'agent': agent, 'memory': memory, 'start': start}
    if len(sys.argv) < 3 or not set(sys.argv[2:]) <= set(areas):
        sys.exit(__doc__)
    for name in sys.argv[2:]:
        areas[name](os.path.abspath(sys.argv[1]))


if __name__ == '__main__':
    main()

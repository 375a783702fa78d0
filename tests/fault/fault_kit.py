# SPDX-License-Identifier: Apache-2.0
"""What tests of faults share: a cluster of separate processes, each with a link of the fault proxy between itself and the API server; agents
that are nodes of this machine, each with a driver behind a link of its own; ways to break each of them and to make it whole again."""
import json, os, shutil, signal, subprocess, sys, tempfile, time, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'e2e'))
from agent_kit import IMAGE, Unix, container, make_image, pod, skip_if_impossible, why_not  # noqa: E402,F401
from means import Authority, Memory, Proxy, Wire, fill, free_port, skip, until  # noqa: E402,F401

PODS = '/api/v1/namespaces/default/pods'
RESOURCE = '/apis/resource.k8s.io/v1'
CLAIMS = f'{RESOURCE}/namespaces/default/resourceclaims'
TEMPLATES = f'{RESOURCE}/namespaces/default/resourceclaimtemplates'
GROUPS = '/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups'
DRIVER = 'gpu.example.com'
GATES = 'GenericWorkload=true,DRAWorkloadResourceClaims=true'
CONTROLLERS = '*,garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,pod-garbage-collector-controller'
# A link that nothing passes, as of a network that is cut: whoever speaks waits.
CUT_OFF = {'stall-up': 1, 'stall-down': 1, 'hang': 1}


class Part:
    """A process that is started again as often as one likes. Its clock can be moved if the shim is there, its memory can be taken where cgroups are."""

    def __init__(self, world, name, argv, ready=None):
        self.world, self.name, self.argv, self.ready = world, name, argv, ready
        self.log = os.path.join(world.folder, f'{name}.log')
        self.clock = os.path.join(world.folder, f'{name}.clock')
        self.process, self.starts, self.paused = None, 0, False
        self.env, self.before = {}, None
        self.enter, self.memory_of = [], None  # words before the command; its cgroup
        self.shift(0)

    def shift(self, seconds):
        with open(self.clock, 'r+b' if os.path.exists(self.clock) else 'wb') as f:  # in place: it is mapped
            f.write(int(seconds * 1e9).to_bytes(8, 'little', signed=True))

    def start(self, wait=True):
        if self.before:
            self.before()
        env = dict(os.environ, **self.env)
        if self.world.shim:
            env.update(LD_PRELOAD=self.world.shim, CLOCK_SHIFT_FILE=self.clock)
        said = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, 'ab') as log:
            group = self.memory_of.enter() if self.memory_of else []
            self.process = subprocess.Popen([*group, *self.enter, *self.argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
        self.starts += 1
        if wait and self.ready:
            until(f'{self.name} is ready', lambda: self.said(said), 90)
        return self

    def said(self, since):
        assert self.process.poll() is None, f'{self.name} ended with {self.process.returncode}: {self.tail()}'
        with open(self.log, errors='replace') as f:
            f.seek(since)
            return self.ready in f.read()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.paused = False

    def starve(self):
        """The kernel kills it for want of memory. Returns whether it did."""
        self.go_on()
        killed = self.memory_of.exhaust(self.process.pid)
        if killed:
            self.process.wait(30)
        return killed

    def stop(self, seconds=60):
        self.go_on()
        self.process.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.name} has not ended after {seconds} s:\n{self.threads()}\n{self.tail()}') from None
        assert code == 0, f'{self.name} ended with {code}: {self.tail()}'

    def threads(self):
        """Where the process hangs: its stacks if there is a debugger, else the system calls of its threads; and its children."""
        pid = str(self.process.pid)
        told = subprocess.run(['ps', '-o', 'pid,ppid,stat,wchan:20,args', '--forest', '-g', pid, '--ppid', pid], capture_output=True, text=True).stdout
        if shutil.which('gdb'):
            return told + subprocess.run(['gdb', '-p', pid, '-batch', '-ex', 'thread apply all bt'], capture_output=True, text=True, timeout=60).stdout
        for task in sorted(os.listdir(f'/proc/{pid}/task')):
            with open(f'/proc/{pid}/task/{task}/syscall') as f:
                told += f'{task}: {f.read()}'
        return told

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def go_on(self):
        if self.paused and self.alive():
            self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def memory(self):
        """Resident KiB and open files."""
        with open(f'/proc/{self.process.pid}/status') as f:
            kib = next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))
        return kib, len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def tail(self, n=3000):
        with open(self.log, errors='replace') as f:
            return f.read()[-n:]


class World:
    """An API server on a disk of its own, and what else is asked for."""

    def __init__(self, dray, seed=1, disk=None, history=None, flags=(), kit=None, host='127.0.0.1'):
        """kit: the build whose proxy, wire and clock are used, if not that of dray. host: where the server listens."""
        self.dray, self.kit = os.path.abspath(dray), os.path.abspath(kit or dray)
        self.folder = tempfile.mkdtemp(prefix='df-', dir='/tmp')
        self.tag = os.path.basename(self.folder)[-6:].lower().replace('_', 'x')
        self.mounts, self.parts, self.agents = [], {}, {}
        self.wire = None
        self.shim = os.path.join(os.path.dirname(self.kit), 'tests', 'clock_shift.so')
        if not os.path.exists(self.shim) or sanitized(self.dray):
            self.shim = None
        try:
            self.data = os.path.join(self.folder, 'data')
            os.mkdir(self.data, 0o700)
            if disk:
                self.mount(self.data, disk)
            self.proxy = Proxy(self.kit, self.folder, seed)
            self.port = free_port()
            self.tokens = {'admin': ('admin', 'system:masters')}
            more = ['--history-events', str(history)] if history else []
            self.server = self.part('server', ['server', '--data-dir', self.data, '--listen', f'{host}:{self.port}', '--token-file', self.write_tokens(),
                                               '--feature-gates', GATES, '--runtime-config', 'scheduling.k8s.io/v1beta1=true', '--bookmark-interval', '300',
                                               *more, *flags], 'ready at')
        except BaseException:
            self.done()
            raise

    def mount(self, path, size):
        """A disk of its own, so that it can be full; skipped where that cannot be."""
        if os.geteuid() != 0 or subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=700', 'tmpfs', path], capture_output=True).returncode != 0:
            skip('cannot mount a small disk here')
        self.mounts.append(path)

    def make_wire(self, seed=1):
        """Parts that are told `far` live behind it. Returns None where there is no such thing, and says why."""
        n = zlib.crc32(self.tag.encode())
        self.wire = Wire(self.kit, f'df{self.tag}', f'10.{150 + n % 40}.{n // 40 % 250}.{n // 10000 % 63 * 4}', seed)
        if self.wire.why_not:
            print(f'no wire: {self.wire.why_not}', flush=True)
            self.wire.done()
            self.wire = None
        return self.wire

    # --- Who is who ---

    def write_tokens(self):
        path = os.path.join(self.folder, 'tokens.csv')
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
            for i in range(8):
                self.tokens[f'node-{i}'] = (f'system:node:node-{i}', 'system:nodes')
            self.tokens.update({'scheduler': ('scheduler', 'system:masters'), 'controllers': ('controllers', 'system:masters')})
            for token, (user, groups) in self.tokens.items():
                f.write(f'token-{token},{user},{user},"{groups}"\n')
        return path

    def kubeconfig(self, name, who, far=False, **user):
        """A kubeconfig whose server is a link of its own, NAME; far: at the near end of the wire. With user: instead of a token."""
        host = self.wire.near if far else '127.0.0.1'
        port = free_port()
        self.proxy.link(name, f'tcp:{self.port}', f'tcp:{host}:{port}')
        path = os.path.join(self.folder, f'{name}.kubeconfig')
        cluster = {'server': f'https://{host}:{port}', 'tls-server-name': 'localhost', 'certificate-authority': os.path.join(self.data, 'pki', 'ca.crt')}
        with open(path, 'w') as f:
            json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'x', 'contexts': [{'name': 'x', 'context': {'cluster': 'c', 'user': 'u'}}],
                       'clusters': [{'name': 'c', 'cluster': cluster}], 'users': [{'name': 'u', 'user': user or {'token': f'token-{who}'}}]}, f)
        return path

    # --- Parts ---

    def part(self, name, argv, ready=None, far=False):
        p = self.parts[name] = Part(self, name, [self.dray, *argv], ready)
        p.enter = self.wire.enter() if far else []
        return p

    def scheduler(self, number=0, *flags, far=False, **user):
        name = f'scheduler-{number}'
        config = self.kubeconfig(name, 'scheduler', far, **user)
        return self.part(name, ['scheduler', '--kubeconfig', config, '--scheduler-name', 'default-scheduler', '--bind-address', 'none', '--feature-gates', GATES, *flags],
                         'connected', far)

    def controllers(self, number=0, *flags, far=False, **user):
        name = f'controllers-{number}'
        config = self.kubeconfig(name, 'controllers', far, **user)
        return self.part(name, ['controllers', '--kubeconfig', config, '--bind-address', 'none', '--controllers', CONTROLLERS, '--root-ca-file',
                                os.path.join(self.data, 'pki', 'ca.crt'), '--feature-gates', GATES, *flags], 'connected', far)

    def agent(self, number, profile, *flags, far=False):
        """A node of this machine, and its driver."""
        a = self.agents[number] = Agent(self, number, profile, flags, far)
        return a

    # --- Requests, past all links ---

    def call(self, method, path, body=None, kind='application/json', timeout=30):
        c = Unix(os.path.join(self.data, 'dray.sock'), timeout)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': kind})
            answer = c.getresponse()
            data = answer.read()
        finally:
            c.close()
        return answer.status, json.loads(data) if data else None

    def good(self, method, path, body=None, kind='application/json'):
        code, answer = self.call(method, path, body, kind)
        assert 200 <= code < 300, f'{method} {path}: {code} {json.dumps(answer)[:600]}'
        return answer

    def get(self, path):
        code, answer = self.call('GET', path)
        return answer if code == 200 else None

    def phase(self, name, want='Running'):
        p = self.get(f'{PODS}/{name}')
        return p if p and p.get('status', {}).get('phase') == want else None

    def template(self, name='one', **exactly):
        self.good('POST', TEMPLATES, {'metadata': {'name': name}, 'spec': {'spec': {'devices': {'requests': [
            {'name': 'r', 'exactly': {'deviceClassName': DRIVER, **exactly}}]}}}})

    def run_pod(self, name, template='one', **spec):
        return self.good('POST', PODS, claim_pod(name, template, **spec))

    def delete_pod(self, name):
        self.good('DELETE', f'{PODS}/{name}')

    # --- The end ---

    def done(self):
        for a in self.agents.values():
            a.wreck()
        for p in self.parts.values():
            p.go_on()
            if p.alive():
                p.kill()
        if hasattr(self, 'proxy'):
            self.proxy.done()
        self.sweep()
        if self.wire:
            self.wire.done()
        for p in self.parts.values():
            if p.memory_of:
                p.memory_of.done()
        for path in self.mounts:
            subprocess.run(['umount', '-l', path], capture_output=True)
        if os.environ.get('KEEP'):
            print(f'kept: {self.folder}')
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self):
        """What is left of containers whose agent was killed for good: ours alone, known by their cgroup or this folder."""
        for _ in range(2):
            for p in [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:
                try:
                    ours = f'dray-{self.tag}' in open(f'/proc/{p}/cgroup').read() or self.folder.encode() in open(f'/proc/{p}/cmdline', 'rb').read()
                except OSError:
                    continue
                if ours:
                    try:
                        os.kill(int(p), signal.SIGKILL)
                    except OSError:
                        pass
            time.sleep(0.1)
        for line in reversed(open('/proc/self/mountinfo').read().splitlines()):
            if self.folder in line.split()[4] and line.split()[4] not in self.mounts:
                subprocess.run(['umount', '-l', line.split()[4]], capture_output=True)
        for link in os.listdir('/sys/class/net'):
            if link.startswith('dr' + self.tag):
                subprocess.run(['ip', 'link', 'del', link], capture_output=True)


class Agent:
    """`dray agent` and `dray driver sim`, with a link between each of them and the server, and one between the two: the driver's socket is
    moved aside once it listens, and the link takes its place."""

    def __init__(self, world, number, profile, flags=(), far=False):
        self.world, self.number, self.profile, self.node = world, number, profile, f'node-{number}'
        self.data = os.path.join(world.folder, self.node)
        self.cdi = os.path.join(world.folder, f'cdi-{number}')
        self.images = os.path.join(world.folder, 'images')
        for d in (self.data, self.cdi):
            os.mkdir(d)
        if not os.path.isdir(self.images):
            os.makedirs(os.path.join(self.images, 'busybox'))
            make_image(os.path.join(self.images, 'busybox'))
        n = zlib.crc32((world.tag + self.node).encode())
        self.bridge = f'dr{world.tag}{number}'
        self.agent = world.part(f'agent-{number}', [
            'agent', '--kubeconfig', world.kubeconfig(f'agent-{number}', self.node, far), '--node-name', self.node, '--data-dir', self.data, '--image-dir', self.images,
            '--cdi-dir', self.cdi, '--bridge', self.bridge, '--cgroup', f'dray-{world.tag}', '--pod-subnet', f'10.{200 + n % 50}.{n // 50 % 250}.0/24',
            '--listen', 'none', '--node-ip', '127.0.0.1', '--refresh', '1', '--keep-slices', *flags], 'registered node', far)
        self.driver = world.part(f'driver-{number}', [
            'driver', 'sim', '--profile', profile, '--node', self.node, '--kubeconfig', world.kubeconfig(f'driver-{number}', 'admin', far),
            '--plugins', os.path.join(self.data, 'plugins'), '--registry', os.path.join(self.data, 'plugins_registry'), '--cdi', self.cdi,
            '--reset-ms', '200', '--attach-ms', '200'], 'drivers run', far)
        self.link = f'call-{number}'
        self.linked = None
        self.driver.before = self.unlink

    def start(self):
        self.agent.start()
        self.start_driver()
        return self

    def start_driver(self, wait=True):
        self.driver.start(wait)
        if wait:
            self.relink()

    def relink(self):
        """Puts the link where the driver listens. Does nothing where it is already."""
        path = self.socket()
        if path and os.stat(path).st_ino != self.linked:
            self.unlink(gone=False)
            os.rename(path, path + '.real')
            self.world.proxy.link(self.link, f'unix:{path}.real', f'unix:{path}')
            self.linked = os.stat(path).st_ino

    def unlink(self, gone=True):
        """Takes the link away. gone: its socket, too, so that the driver finds its place free."""
        if self.linked:
            self.world.proxy.command('unlink', self.link)
            if gone and self.socket() and os.stat(self.socket()).st_ino == self.linked:
                os.unlink(self.socket())
        self.linked = None

    def socket(self):
        path = os.path.join(self.data, 'plugins', DRIVER, 'dra.sock')
        return path if os.path.exists(path) else None

    def fault(self, *words):
        """Tells the driver's hardware to misbehave. Returns False on a full disk: there is nowhere to write it down."""
        run = subprocess.run([self.world.dray, 'driver', 'fault', '--state', os.path.join(self.data, 'plugins', 'dray-sim'), '--node', self.node, *words],
                             capture_output=True, text=True)
        assert run.returncode == 0 or 'No space left' in run.stderr, run.stderr
        return run.returncode == 0

    def prepared(self):
        """UIDs of the claims that are prepared on the node, by its checkpoint, each with whether its devices are known."""
        try:
            with open(os.path.join(self.data, 'dra_manager_state')) as f:
                state = json.loads(json.loads(f.read())['Data'])
        except OSError:
            return {}
        return {c['ClaimUID']: c for c in state.get('ClaimInfoStateList') or []}

    def left(self):
        """What is left of pods: nothing may be when they are all gone."""
        out = []
        for d in ('pods', 'runtime/containers', 'runtime/pods'):
            path = os.path.join(self.data, d)
            out += [os.path.join(d, e) for e in (os.listdir(path) if os.path.isdir(path) else [])]
        out += [f for f in os.listdir(self.cdi) if 'claim' in f]
        out += list(self.prepared())
        ports = subprocess.run([*self.agent.enter, 'ip', '-o', 'link', 'show', 'master', self.bridge], capture_output=True, text=True).stdout
        return out + [line.split()[1] for line in ports.splitlines()]

    def wreck(self):
        for p in (self.driver, self.agent):
            p.go_on()
            if p.alive():
                p.kill()


def claim_pod(name, template='one', claim=None, script=None, **spec):
    entry = {'name': 'g', 'resourceClaimName': claim} if claim else {'name': 'g', 'resourceClaimTemplateName': template}
    c = container('c', script or "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done", resources={'claims': [{'name': 'g'}]})
    return pod(name, [c], terminationGracePeriodSeconds=1, resourceClaims=[entry], **spec)


def sanitized(program):
    return 'libasan' in subprocess.run(['ldd', program], capture_output=True, text=True).stdout


def program():
    return os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')

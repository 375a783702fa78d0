# SPDX-License-Identifier: Apache-2.0
"""With what things are broken: links and a wire that misbehave, memory that runs out, a disk that is full, certificates that end."""
import os, random, socket, subprocess, sys, threading, time


def skip(why):
    print(f'skipped: {why}')
    raise SystemExit(77)


def until(what, check, seconds=60, pause=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = check()
        if got:
            return got
        time.sleep(pause)
    raise AssertionError(f'{what}: not within {seconds} s')


def free_port():
    """Below the range of ports that the kernel gives to clients, so that nobody takes it while its owner is restarted."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(('127.0.0.1', port))
                return port
            except OSError:
                continue


class Proxy:
    """The fault proxy (tests/fault/proxy.c) and its commands."""

    def __init__(self, dray, folder, seed=1):
        program = os.path.join(os.path.dirname(dray), 'tests', 'fault', 'fault_proxy')
        if not os.path.exists(program):
            skip(f'no {program}; build with -Dtests=true')
        path = os.path.join(folder, 'proxy.sock')
        self.process = subprocess.Popen([program, path, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == 'ready\n', 'the proxy does not start'
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile()

    def command(self, *words):
        with self.lock:
            self.socket.sendall((' '.join(words) + '\n').encode())
            answer = self.answers.readline()
        assert answer.startswith('ok'), f'{words}: {answer}'
        return answer[2:].strip()

    def link(self, name, target, listen=None):
        """Returns the port if it listens on one of its choice."""
        port = None if listen else free_port()
        self.command('link', name, listen or f'tcp:{port}', target)
        return port

    def set(self, name, **faults):
        self.command('set', name, *[f'{k.replace("_", "-")}={v}' for k, v in faults.items()])

    def break_(self, name, faults):
        self.command('set', name, *[f'{k}={v}' for k, v in faults.items()])

    def clear(self, name='*'):
        self.command('clear', name)

    def cut(self, name):
        self.command('cut', name)

    def stat(self, name):
        return {k: int(v) for k, v in (w.split('=') for w in self.command('stat', name).split()[1:])}

    def done(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Wire:
    """A network of its own behind a wire that misbehaves packet by packet (tests/fault/wire.c). None where that cannot be."""

    def __init__(self, dray, name, net, seed=1):
        program = os.path.join(os.path.dirname(dray), 'tests', 'fault', 'fault_wire')
        self.process = subprocess.Popen([program, name, net, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lock = threading.Lock()
        self.near, self.far = (net.rsplit('.', 1)[0] + f".{int(net.rsplit('.', 1)[1]) + i}" for i in (1, 2))
        self.why_not = None if self.process.stdout.readline() == 'ready\n' else self.process.stderr.read().strip()

    def enter(self):
        """Before the words of a command that is to live on the far side."""
        return ['nsenter', f'--net=/proc/{self.process.pid}/ns/net']

    def command(self, words):
        with self.lock:
            self.process.stdin.write(words + '\n')
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        assert answer.startswith('ok'), f'{words}: {answer}'
        return answer[2:].strip()

    def break_(self, faults):
        self.command('set ' + ' '.join(f'{k}={v}' for k, v in faults.items()))

    def clear(self):
        self.command('clear')

    def stat(self):
        return {k: int(v) for k, v in (w.split('=') for w in self.command('stat').split())}

    def done(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()


class Memory:
    """A cgroup for one process, in which the kernel can be made to kill it for want of memory."""

    def __init__(self, folder):
        self.folder = folder
        self.v2 = os.path.exists('/sys/fs/cgroup/cgroup.controllers')
        self.limit = os.path.join(folder, 'memory.max' if self.v2 else 'memory.limit_in_bytes')

    @staticmethod
    def make(tag, name):
        """None where this machine has no cgroups for memory."""
        top = '/sys/fs/cgroup' if os.path.exists('/sys/fs/cgroup/cgroup.controllers') else '/sys/fs/cgroup/memory'
        try:
            for folder in (top, os.path.join(top, f'dray-{tag}-fault')):
                os.makedirs(folder, exist_ok=True)
                if top == '/sys/fs/cgroup':
                    with open(os.path.join(folder, 'cgroup.subtree_control'), 'w') as f:
                        f.write('+memory')
            m = Memory(os.path.join(top, f'dray-{tag}-fault', name))
            os.makedirs(m.folder, exist_ok=True)
            return m if os.path.exists(m.limit) else None
        except OSError:
            return None

    def enter(self):
        return ['sh', '-c', f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', 'sh']

    def kills(self):
        """How often the kernel has killed somebody in here."""
        with open(os.path.join(self.folder, 'memory.events' if self.v2 else 'memory.oom_control')) as f:
            return next(int(line.split()[1]) for line in f if line.startswith('oom_kill '))

    def used(self):
        with open(os.path.join(self.folder, 'memory.current' if self.v2 else 'memory.usage_in_bytes')) as f:
            return int(f.read())

    def set_limit(self, value):
        with open(self.limit, 'w') as f:
            f.write(str(value))

    def exhaust(self, pid):
        """Somebody takes what is left until the process is gone, which the kernel prefers to kill. Returns whether it did."""
        before = self.kills()
        with open(f'/proc/{pid}/oom_score_adj', 'w') as f:
            f.write('1000')
        self.set_limit(self.used() + (16 << 20))
        hog = ('import sys\ndef lives():\n try: return open(f"/proc/{sys.argv[1]}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"\n except OSError: return False\n'
               'took = []\nwhile lives() and len(took) < 256: took.append(b"\\1" * (1 << 20))')
        try:
            subprocess.run([*self.enter(), sys.executable, '-c', hog, str(pid)], capture_output=True, timeout=60)
        finally:
            self.set_limit('max' if self.v2 else -1)
        return self.kills() > before

    def done(self):
        for folder in (self.folder, os.path.dirname(self.folder)):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # others are in there still, or it is gone


class Authority:
    """Signs with the CA of the server's data folder, or with one of its own."""

    def __init__(self, folder, ca=None, key=None):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.ca, self.key = ca or os.path.join(folder, 'own-ca.crt'), key or os.path.join(folder, 'own-ca.key')
        if not ca:
            self.run('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', self.key, '-out', self.ca, '-days', '10',
                     '-subj', '/CN=another-ca')

    def run(self, *words):
        run = subprocess.run(['openssl', *words], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr

    def make(self, name, subject, seconds=None, server=False):
        """Returns the paths of a certificate and its key, which replace what was there as a whole, the key first."""
        at = os.path.join(self.folder, name)
        extensions = at + '.ext'
        with open(extensions, 'w') as f:
            f.write('subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' if server else 'extendedKeyUsage=clientAuth\n')
        self.run('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', at + '.key.new', '-out', at + '.csr', '-subj', subject)
        # x509 counts in days; faketime is not needed, since `ca` takes times to the second, and needs a folder of its own.
        database = at + '.db'
        os.makedirs(database, exist_ok=True)
        open(os.path.join(database, 'index'), 'w').close()
        with open(os.path.join(database, 'conf'), 'w') as f:
            f.write(f'[ca]\ndefault_ca=d\n[d]\ndatabase={database}/index\nnew_certs_dir={database}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\n'
                    'copy_extensions=none\n[p]\norganizationName=optional\ncommonName=supplied\n')
        end = time.gmtime(time.time() + (seconds or 86400))
        self.run('ca', '-batch', '-config', os.path.join(database, 'conf'), '-cert', self.ca, '-keyfile', self.key, '-in', at + '.csr', '-out', at + '.crt.new',
                 '-startdate', time.strftime('%Y%m%d%H%M%SZ', time.gmtime(time.time() - 3600)), '-enddate', time.strftime('%Y%m%d%H%M%SZ', end),
                 '-extfile', extensions, '-notext')
        for kind in ('key', 'crt'):
            os.rename(f'{at}.{kind}.new', f'{at}.{kind}')
        return at + '.crt', at + '.key'


def fill(path):
    """Takes all the room there is on a disk."""
    with open(path, 'ab', buffering=0) as f:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    f.write(b'\0' * size)
            except OSError:
                pass

# SPDX-License-Identifier: Apache-2.0
"""What the interoperability checks share: a server with a folder of its own."""
import http.client, json, os, shutil, signal, socket, subprocess, sys, tempfile

SKIP = 77


def skip(why):
    print('skipped: ' + why)
    sys.exit(SKIP)


def peers():
    return os.environ.get('PEERS', os.path.expanduser('~/.cache/dray-peers'))


def call(server, method, path, body=None):
    """A request to a server over its socket; the answer's JSON."""
    c = http.client.HTTPConnection('localhost', timeout=30)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(os.path.join(server.folder, 'dray.sock'))
    c.request(method, path, json.dumps(body) if body else None, {'Content-Type': 'application/json'})
    answer = c.getresponse()
    data = json.loads(answer.read())
    c.close()
    assert answer.status < 300, data
    return data


def build_go(name, out):
    """The Go program in the folder of that name, built into out; skips when it cannot be."""
    if not shutil.which('go'):
        skip(name + ' (needs Go)')
    program = os.path.join(out, name)
    built = subprocess.run(['go', 'build', '-o', program, '.'], cwd=os.path.join(os.path.dirname(os.path.abspath(__file__)), name),
                           capture_output=True, text=True)
    if built.returncode:
        skip(f'{name} (cannot build: ' + built.stderr.strip().split('\n')[-1] + ')')
    return program


def run_go(name, dray):
    """Runs such a program against a server of its own; its exit code."""
    with tempfile.TemporaryDirectory(prefix='dray-') as out:
        program = build_go(name, out)
        server = Server(dray)
        try:
            return subprocess.run([program, '--kubeconfig', server.kubeconfig]).returncode
        finally:
            server.done()


class Server:
    """`dray server` on a temporary folder; restart keeps port and data."""

    def __init__(self, dray, *flags):
        self.dray, self.flags = os.path.abspath(dray), flags
        self.top = tempfile.mkdtemp(prefix='dray-')
        self.folder = os.path.join(self.top, 'data')
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')
        self.port = 0
        self.start()

    def start(self):
        self.log = open(os.path.join(self.top, 'log'), 'ab')
        self.process = subprocess.Popen([self.dray, 'server', '--data-dir', self.folder, '--listen', f'127.0.0.1:{self.port}', *self.flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if 'ready at' not in line:
            raise RuntimeError(open(self.log.name).read())
        self.url = line.split('ready at ')[1].split(',')[0]
        self.port = int(self.url.rsplit(':', 1)[1])

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.close()
        return code

    def done(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.top, ignore_errors=True)


class Up(Server):
    """`dray up`: a whole cluster with simulated nodes."""

    def start(self):
        self.log = open(os.path.join(self.top, 'log'), 'ab')
        self.process = subprocess.Popen([self.dray, 'up', '--data-dir', self.folder, '--listen', f'127.0.0.1:{self.port}', *self.flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if 'dray is up at' not in line:
            raise RuntimeError(line + open(self.log.name).read())

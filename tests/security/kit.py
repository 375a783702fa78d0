# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: a control plane with users of their own, and ways to speak to it, politely and otherwise."""
import http.client, json, os, shutil, signal, socket, ssl, struct, subprocess, sys, tempfile, time, urllib.error, urllib.request

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
RBAC = '/apis/rbac.authorization.k8s.io/v1'
DRA = '/apis/resource.k8s.io/v1'
ROOT = 'root-token-5b1e'
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


def until(what, fn):
    for _ in range(1200):
        got = fn()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError('never: ' + what)


class Cluster:
    """`dray server`, or `dray up` if it is to have controllers; users: token -> (name, groups)."""

    def __init__(self, users=(), verb='server', flags=(), env=None, data=None):
        self.folder = tempfile.mkdtemp(prefix='dray-security-')
        self.data = data or self.folder + '/data'  # a given one stays
        tokens = {ROOT: ('root', 'system:masters'), **dict(users)}
        with open(self.folder + '/tokens.csv', 'w') as f:
            f.writelines(f'{t},{name},,"{groups}"\n' for t, (name, groups) in tokens.items())
        os.chmod(self.folder + '/tokens.csv', 0o600)
        self.log = open(self.folder + '/log', 'w+')
        command = [DRAY, verb, '--data-dir', self.data, '--listen', '127.0.0.1:0', '--token-file', self.folder + '/tokens.csv', *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **(env or {})})
        self.said = ''
        while ' at http' not in self.said:
            line = self.process.stdout.readline()
            assert line, f'dray {verb} does not start: ' + open(self.log.name).read()[-2000:]
            self.said += line
        self.url = 'http' + self.said.split(' at http')[1].split()[0].rstrip(',')
        self.port = int(self.url.rsplit(':', 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.said += self.process.communicate(timeout=90)[0]
        finally:
            self.process.kill()
            self.log.seek(0)
            self.said += self.log.read()
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)
        if kind or self.process.returncode:
            print(self.said[-4000:])
        assert kind or self.process.returncode == 0, f'it ended with {self.process.returncode}'

    def call(self, method, path, body=None, token=ROOT, headers=(), kind=None):
        """Status and text of one request; token=None: nobody asks."""
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        q = urllib.request.Request(self.url + path, method=method, data=data)
        if token:
            q.add_header('Authorization', 'Bearer ' + token)
        q.add_header('Content-Type', kind or ('application/merge-patch+json' if method == 'PATCH' else 'application/json'))
        for k, v in headers:
            q.add_header(k, v)
        try:
            with urllib.request.urlopen(q, context=TLS, timeout=300) as a:
                return a.status, a.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(errors='replace')

    def good(self, method, path, body=None, **more):
        code, text = self.call(method, path, body, **more)
        assert code in (200, 201), (method, path, code, text)
        return json.loads(text)

    def refused(self, method, path, body=None, code=403, **more):
        got, text = self.call(method, path, body, **more)
        assert got == code, (method, path, got, text[:500])
        return text

    def namespace(self, name, **labels):
        self.good('POST', '/api/v1/namespaces', {'metadata': {'name': name, 'labels': labels}})

    def bind(self, namespace, role, *users, kind='ClusterRole'):
        """Gives users (or Group/NAME) a role in a namespace, or everywhere if that is empty."""
        subjects = [{'kind': 'Group' if u.startswith('Group/') else 'User', 'apiGroup': 'rbac.authorization.k8s.io', 'name': u.split('/')[-1]} for u in users]
        path = f'{RBAC}/namespaces/{namespace}/rolebindings' if namespace else f'{RBAC}/clusterrolebindings'
        self.good('POST', path, {'metadata': {'generateName': 'b-'}, 'subjects': subjects, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': kind, 'name': role}})

    def role(self, namespace, name, *rules, **more):
        path = f'{RBAC}/namespaces/{namespace}/roles' if namespace else f'{RBAC}/clusterroles'
        return self.good('POST', path, {'metadata': {'name': name, **more}, 'rules': list(rules)})

    def raw(self, context=None, *protocols, timeout=30):
        """A TLS connection; with protocols those are offered (ALPN)."""
        if not context:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context.wrap_socket(socket.create_connection(('127.0.0.1', self.port), timeout), server_hostname='127.0.0.1')

    def memory_kib(self):
        with open(f'/proc/{self.process.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))

    def forget_peak(self):
        with open(f'/proc/{self.process.pid}/clear_refs', 'w') as f:
            f.write('5')

    def peak_kib(self):
        """The most memory that it has had since forget_peak."""
        with open(f'/proc/{self.process.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmHWM'))

    def cpu_s(self):
        """The processor time that it has used: what a request costs it, however busy the machine is."""
        with open(f'/proc/{self.process.pid}/stat') as f:
            user, system = f.read().rsplit(') ', 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')

    def alive(self):
        assert self.process.poll() is None, f'the server is gone: {self.process.returncode}'
        assert self.call('GET', '/livez', token=None)[0] == 200


def rule(verbs, resources, group='', names=()):
    return {'verbs': verbs.split(), 'apiGroups': [group], 'resources': resources.split(), **({'resourceNames': list(names)} if names else {})}


def read_all(c):
    got = b''
    try:
        while part := c.recv(65536):
            got += part
    except (ConnectionError, ssl.SSLError):
        pass
    return got


# --- HTTP/2 by hand -----------------------------------------------------------------------------------------------------

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


def literal(name, value, index=False):
    """One header, written out (HPACK, no Huffman)."""
    def text(s):
        n = len(s)
        if n < 127:
            return bytes([n]) + s
        out, n = b'\x7f', n - 127
        while n >= 128:
            out, n = out + bytes([n % 128 + 128]), n // 128
        return out + bytes([n]) + s
    return (b'\x40' if index else b'\x00') + text(name) + text(value)


def request_headers(path=b'/version', method=b'GET', *more):
    return literal(b':method', method) + literal(b':scheme', b'https') + literal(b':path', path) + literal(b':authority', b'127.0.0.1') + b''.join(literal(k, v) for k, v in more)


def frames(data):
    while len(data) >= 9:
        n = int.from_bytes(data[:3], 'big')
        yield data[3], data[4], int.from_bytes(data[5:9], 'big') & 0x7fffffff, data[9:9 + n]
        data = data[9 + n:]

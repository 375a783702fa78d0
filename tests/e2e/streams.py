#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logs, exec and attach through the API server to a node's endpoint and back, with a WebSocket client written here.
The endpoint runs commands on this machine, so no containers are needed.

usage: streams.py DRAY (the test endpoint lies beside it, in tests/)"""
import base64, hashlib, http.client, json, os, shutil, signal, socket, ssl, struct, subprocess, sys, tempfile, threading, time, urllib.parse

failures = []


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {repr(want)[:2000]}, got {repr(got)[:2000]}')


def wait_for(what, check, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.02)
    failures.append('in vain: ' + what)
    return False


class World:
    """A server, a node's endpoint, the Node and some pods on it."""

    def __init__(self, dray):
        self.top = tempfile.mkdtemp(prefix='dray-streams-')
        self.folder = os.path.join(self.top, 'data')
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')
        self.log = open(os.path.join(self.top, 'log'), 'ab')
        self.server = subprocess.Popen([dray, 'server', '--data-dir', self.folder, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE,
                                       stderr=self.log, text=True)
        line = self.server.stdout.readline()
        if 'ready at' not in line:
            raise RuntimeError(open(self.log.name).read())
        self.port = int(line.split('ready at ')[1].split(',')[0].rsplit(':', 1)[1])
        self.pki = os.path.join(self.folder, 'pki')
        self.table = os.path.join(self.top, 'containers')
        self.rows = {}
        self.write_rows()
        programs = os.path.join(os.path.dirname(os.path.abspath(dray)), 'tests')
        self.shift = os.path.join(self.top, 'shift')
        self.jump(0)
        options = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0:quarantine_size_mb=4'
        self.endpoint = subprocess.Popen([programs + '/node_endpoint', self.pki + '/server.crt', self.pki + '/server.key', self.pki + '/ca.crt', self.table],
                                         stdout=subprocess.PIPE, stderr=self.log, text=True,
                                         env=dict(os.environ, LD_PRELOAD=programs + '/clock_shift.so', CLOCK_SHIFT_FILE=self.shift, ASAN_OPTIONS=options))
        self.node_port = int(self.endpoint.stdout.readline())
        self.make_node('node-1', self.node_port)

    def jump(self, by_s):
        """The node's clock, so many seconds off."""
        with open(self.shift, 'r+b' if os.path.exists(self.shift) else 'wb') as f:
            f.write(struct.pack('=q', by_s * 1000000000))

    def write_rows(self):
        with open(self.table + '.new', 'w') as f:
            for row in self.rows.values():
                f.write(' '.join(row) + '\n')
        os.rename(self.table + '.new', self.table)

    def make_node(self, name, port, address='127.0.0.1'):
        self.call('POST', '/api/v1/nodes', {'metadata': {'name': name}})
        self.call('PATCH', f'/api/v1/nodes/{name}/status', {'status': {
            'addresses': [{'type': 'Hostname', 'address': 'nowhere.invalid'}, {'type': 'InternalIP', 'address': address}],
            'daemonEndpoints': {'kubeletEndpoint': {'Port': port}}}}, kind='application/merge-patch+json')

    def make_pod(self, name, containers=('main',), node='node-1'):
        spec = {'containers': [{'name': c, 'image': 'none'} for c in containers]}
        if node:
            spec['nodeName'] = node
        self.call('POST', '/api/v1/namespaces/default/pods', {'metadata': {'name': name}, 'spec': spec})

    def run(self, pod, container='main', state='running', log='-', previous='-', waiting='-'):
        """What the node knows of a container."""
        self.rows[pod, container] = ('default', pod, container, f'id-{pod}-{container}', state, log, previous, waiting)
        self.write_rows()

    def tls(self, certificate='admin'):
        c = ssl.create_default_context(cafile=self.pki + '/ca.crt')
        if certificate:
            c.load_cert_chain(f'{self.pki}/{certificate}.crt', f'{self.pki}/{certificate}.key')
        return c

    def call(self, method, path, body=None, kind='application/json'):
        status, text = self.ask(method, path, body, kind)
        if status >= 300:
            raise RuntimeError(f'{method} {path}: {status} {text[:500]}')
        return json.loads(text)

    def ask(self, method, path, body=None, kind='application/json', port=None, certificate='admin', token=None):
        c = http.client.HTTPSConnection('127.0.0.1', port or self.port, context=self.tls(certificate), timeout=60)
        headers = {'Content-Type': kind, **({'Authorization': 'Bearer ' + token} if token else {})}
        c.request(method, path, json.dumps(body) if body else None, headers)
        answer = c.getresponse()
        text = answer.read()
        c.close()
        return answer.status, text

    def pod_path(self, pod, sub, query=()):
        return f'/api/v1/namespaces/default/pods/{pod}/{sub}?' + urllib.parse.urlencode(query)

    def logs(self, pod, **query):
        return self.ask('GET', self.pod_path(pod, 'log', query))

    def done(self):
        for p in self.endpoint, self.server:
            p.send_signal(signal.SIGTERM)
        expect('the endpoint ends well', self.endpoint.wait(timeout=60), 0)
        expect('the server ends well', self.server.wait(timeout=60), 0)
        self.log.close()
        with open(self.log.name) as f:
            if 'Sanitizer' in f.read():
                failures.append('a sanitizer has spoken: ' + self.log.name)
                return
        shutil.rmtree(self.top)


class WebSocket:
    """A client of RFC 6455, no more than these tests need."""

    def __init__(self, world, path, protocols=('v5.channel.k8s.io',), port=None, certificate='admin'):
        raw = socket.create_connection(('127.0.0.1', port or world.port), timeout=60)
        context = world.tls(certificate)
        context.set_alpn_protocols(['http/1.1'])
        self.s = context.wrap_socket(raw, server_hostname='127.0.0.1')
        key = base64.b64encode(os.urandom(16)).decode()
        head = f'GET {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n'
        if protocols:
            head += 'Sec-WebSocket-Protocol: ' + ', '.join(protocols) + '\r\n'
        self.s.sendall((head + '\r\n').encode())
        self.buffer = b''
        while b'\r\n\r\n' not in self.buffer:
            got = self.s.recv(65536)
            if not got:
                break
            self.buffer += got
        head, _, self.buffer = self.buffer.partition(b'\r\n\r\n')
        lines = head.decode().split('\r\n')
        self.status = int(lines[0].split()[1])
        self.headers = {k.lower(): v.strip() for k, v in (line.split(':', 1) for line in lines[1:])}
        if self.status != 101:
            length = int(self.headers.get('content-length', 0))
            while len(self.buffer) < length:
                self.buffer += self.s.recv(65536)
            self.body = self.buffer
            self.s.close()
            return
        want = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode()
        expect('the answer to the key', self.headers.get('sec-websocket-accept'), want)
        self.protocol = self.headers.get('sec-websocket-protocol')
        self.closed = None

    def frame(self, op, payload, fin=True, masked=True):
        n = len(payload)
        head = bytes([(0x80 if fin else 0) | op])
        bit = 0x80 if masked else 0
        head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack('>H', n) if n < 65536 else bytes([bit | 127]) + struct.pack('>Q', n)
        if masked:
            mask = os.urandom(4)
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
            head += mask
        self.s.sendall(head + payload)

    def send(self, channel, payload):
        self.frame(2, bytes([channel]) + payload)

    def take(self, n):
        while len(self.buffer) < n:
            got = self.s.recv(262144)
            if not got:
                raise EOFError
            self.buffer += got
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    def receive(self):
        """The next frame: opcode and payload."""
        a, b = self.take(2)
        n = b & 127
        if n > 125:
            n = struct.unpack('>H', self.take(2))[0] if n == 126 else struct.unpack('>Q', self.take(8))[0]
        return a & 15, self.take(n)

    def collect(self, until=None):
        """Everything by channel, up to the close, or until a predicate holds."""
        by = {}
        try:
            while True:
                op, payload = self.receive()
                if op == 8:
                    self.closed = struct.unpack('>H', payload[:2])[0] if payload else None
                    self.frame(8, payload[:2])
                    break
                if op == 2 and payload:
                    by[payload[0]] = by.get(payload[0], b'') + payload[1:]
                if until and until(by):
                    break
        except EOFError:
            pass
        return by

    def close(self):
        self.s.close()


def exec_path(world, pod, command, **flags):
    query = [('command', c) for c in command] + [(k, 'true') for k, v in flags.items() if v is True] + \
            [(k, v) for k, v in flags.items() if v is not True]
    return world.pod_path(pod, 'exec', query)


def status_of(by):
    return json.loads(by.get(3, b'{}') or b'{}')


def message_of(text):
    return json.loads(text).get('message')


# --- Logs ---------------------------------------------------------------------------------------------------------------

T = '2026-11-16T09:00:0%d.%09dZ'


def line(second, stream, text, tag='F', nanos=0):
    return f'{T % (second, nanos)} {stream} {tag} {text}\n'


def logs(w):
    path = os.path.join(w.top, 'a.log')
    with open(path, 'w') as f:
        f.write(line(1, 'stdout', 'one') + line(2, 'stderr', 'two') + line(3, 'stdout', 'thr', 'P') + line(3, 'stdout', 'ee') +
                'rubbish\n' + line(4, 'stdout', '') + line(5, 'stdout', 'five', nanos=120))
    previous = os.path.join(w.top, 'p.log')
    with open(previous, 'w') as f:
        f.write(line(0, 'stdout', 'before'))
    w.make_pod('logs', ('main', 'side'))
    w.make_pod('one')
    w.run('logs', 'main', 'running', path, previous)
    w.run('logs', 'side', '-', '-', '-', 'PodInitializing')
    w.run('one', 'main', 'exited', path)
    whole = b'one\ntwo\nthree\n\nfive\n'
    expect('a log', w.logs('one'), (200, whole))
    expect('a log by name', w.logs('logs', container='main'), (200, whole))
    expect('the last lines', w.logs('one', tailLines=2), (200, b'\nfive\n'))
    expect('no lines', w.logs('one', tailLines=0), (200, b''))
    expect('more lines than there are', w.logs('one', tailLines=100), (200, whole))
    expect('times', w.logs('one', timestamps='true', tailLines=4)[1].split(b'\n')[0], (T % (3, 0)).encode() + b' ee')
    expect('times of a line in pieces', b'\n'.join(w.logs('one', timestamps='true')[1].split(b'\n')[2:3]), (T % (3, 0)).encode() + b' three')
    expect('since', w.logs('one', sinceTime='2026-11-16T09:00:04Z'), (200, b'\nfive\n'))
    expect('since long ago', w.logs('one', sinceSeconds=10 ** 9), (200, whole))
    expect('bytes', w.logs('one', limitBytes=5), (200, b'one\nt'))
    expect('one stream', w.logs('one', stream='Stderr'), (200, b'two\n'))
    expect('previous', w.logs('logs', container='main', previous='true'), (200, b'before\n'))
    status, text = w.logs('one', previous='true')
    expect('no previous', (status, message_of(text)), (400, 'previous terminated container "main" in pod "one" not found'))
    status, text = w.logs('logs')
    expect('which container', (status, message_of(text)),
           (400, 'a container name must be specified for pod logs, choose one of: [main side]'))
    status, text = w.logs('logs', container='nobody')
    expect('no such container', (status, message_of(text)), (400, 'container nobody is not valid for pod logs'))
    status, text = w.logs('logs', container='side')
    expect('waiting', (status, message_of(text)), (400, 'container "side" in pod "logs" is waiting to start: PodInitializing'))
    expect('no such pod', w.logs('nobody')[0], 404)
    w.make_pod('homeless', node=None)
    expect('no node yet', w.logs('homeless'), (204, b''))
    status, text = w.logs('one', tailLines=-1)
    expect('bad option', (status, json.loads(text)['reason']), (422, 'Invalid'))
    expect('options that contradict', w.logs('one', sinceSeconds=5, sinceTime='2026-11-16T09:00:04Z')[0], 422)
    expect('not a number', w.logs('one', tailLines='x')[0], 400)


def unreachable(w):
    w.make_node('gone', 1)
    w.make_pod('far', node='gone')
    status, text = w.logs('far')
    expect('a node that does not answer', status, 500)
    expect('and why', '127.0.0.1' in message_of(text), True)
    expect('exec there', WebSocket(w, exec_path(w, 'far', ['true'], stdout=True)).status, 500)
    w.make_pod('lost', node='never-made')
    expect('a node that is not there', w.logs('lost')[0], 404)


def follow(w):
    path = os.path.join(w.top, 'f.log')
    out = open(path, 'w')
    out.write(line(1, 'stdout', 'first'))
    out.flush()
    w.make_pod('follow')
    w.run('follow', 'main', 'running', path)
    got = []

    def reader():
        c = http.client.HTTPSConnection('127.0.0.1', w.port, context=w.tls(), timeout=120)
        c.request('GET', w.pod_path('follow', 'log', {'follow': 'true'}))
        answer = c.getresponse()
        while True:
            part = answer.read1(65536)
            if not part:
                break
            got.append(part)
        got.append(None)

    t = threading.Thread(target=reader)
    t.start()
    so_far = lambda: b''.join(p for p in got if p)
    wait_for('the first line', lambda: so_far() == b'first\n')
    out.write(line(2, 'stdout', 'second')[:-4])
    out.flush()
    time.sleep(0.3)
    expect('half a line is not shown', so_far(), b'first\n')
    out.write(line(2, 'stdout', 'second')[-4:])
    out.flush()
    wait_for('the second line', lambda: so_far() == b'first\nsecond\n')
    # Rotation: the last words of the old file, then the new one.
    os.rename(path, path + '.1')
    out.write(line(3, 'stdout', 'third'))
    out.close()
    with open(path, 'w') as f:
        f.write(line(4, 'stdout', 'fourth'))
    wait_for('lines across rotation', lambda: so_far() == b'first\nsecond\nthird\nfourth\n')
    expect('it goes on', None in got, False)
    with open(path, 'a') as f:
        f.write(line(5, 'stdout', 'last'))
    w.run('follow', 'main', 'exited', path)
    wait_for('the end', lambda: None in got)
    t.join()
    expect('all of it', so_far(), b'first\nsecond\nthird\nfourth\nlast\n')


def large_log(w):
    path = os.path.join(w.top, 'l.log')
    with open(path, 'w') as f:
        for i in range(60000):
            f.write(line(i % 10, 'stdout', f'line {i:06} ' + 'x' * 100))
    w.make_pod('large')
    w.run('large', 'main', 'exited', path)
    status, text = w.logs('large')
    expect('a large log', (status, text.count(b'\n')), (200, 60000))
    expect('its lines in order', [int(t[5:11]) for t in text.split(b'\n')[:-1]] == list(range(60000)), True)
    expect('its tail', w.logs('large', tailLines=3)[1].count(b'\n'), 3)


# --- Commands -----------------------------------------------------------------------------------------------------------

def commands(w):
    w.make_pod('exec')
    w.run('exec')
    s = WebSocket(w, exec_path(w, 'exec', ['sh', '-c', 'echo out; echo err >&2'], stdout=True, stderr=True))
    expect('the protocol', s.protocol, 'v5.channel.k8s.io')
    by = s.collect()
    expect('output', (by.get(1), by.get(2)), (b'out\n', b'err\n'))
    expect('success', status_of(by), {'metadata': {}, 'status': 'Success'})
    expect('a clean end', s.closed, 1000)
    by = WebSocket(w, exec_path(w, 'exec', ['sh', '-c', 'exit 7'], stdout=True)).collect()
    st = status_of(by)
    expect('an exit code', (st['status'], st['reason'], st['details']['causes']),
           ('Failure', 'NonZeroExitCode', [{'reason': 'ExitCode', 'message': '7'}]))
    by = WebSocket(w, exec_path(w, 'exec', ['/no/such/program'], stdout=True)).collect()
    expect('no program', (status_of(by)['reason'], 'executable file not found' in status_of(by)['message']), ('InternalError', True))
    # Input, and its end.
    s = WebSocket(w, exec_path(w, 'exec', ['cat'], stdin=True, stdout=True))
    s.send(0, b'hello ')
    s.frame(2, b'\x00wor', fin=False)
    s.frame(9, b'ping')
    s.frame(0, b'ld\n')
    s.send(255, b'\x00')
    by = s.collect()
    expect('what went in', by.get(1), b'hello world\n')
    expect('its end', status_of(by)['status'], 'Success')
    # v4 has no end of input: the close of the connection is.
    s = WebSocket(w, exec_path(w, 'exec', ['head', '-c', '5'], stdin=True, stdout=True), ('v4.channel.k8s.io',))
    expect('the older protocol', s.protocol, 'v4.channel.k8s.io')
    s.send(0, b'12345678')
    expect('v4', s.collect().get(1), b'12345')
    # A terminal.
    s = WebSocket(w, exec_path(w, 'exec', ['sh', '-c', 'read x; stty size; echo $x'], stdin=True, stdout=True, stderr=True, tty=True))
    s.send(4, b'{"Width":91,"Height":37}')
    s.send(0, b'word\n')
    by = s.collect()
    expect('a terminal', (b'37 91\r\nword\r\n' in by.get(1, b''), 2 in by), (True, False))


def large_streams(w):
    w.make_pod('big')
    w.run('big')
    size = 8_000_000
    s = WebSocket(w, exec_path(w, 'big', ['head', '-c', str(size), '/dev/zero'], stdout=True))
    time.sleep(0.5)  # the sender is held up meanwhile
    by = s.collect()
    expect('much output', len(by.get(1, b'')), size)
    expect('and its status', status_of(by)['status'], 'Success')
    s = WebSocket(w, exec_path(w, 'big', ['sh', '-c', 'sleep 0.5; sha256sum'], stdin=True, stdout=True))
    data = os.urandom(3_000_000)
    for i in range(0, len(data), 100_000):
        s.send(0, data[i:i + 100_000])
    s.send(255, b'\x00')
    expect('much input', s.collect().get(1, b'').split()[:1], [hashlib.sha256(data).hexdigest().encode()])


def ends(w):
    """A command ends with its client; a container without a run has none."""
    w.make_pod('ends')
    w.run('ends')
    mark = os.path.join(w.top, 'mark')
    s = WebSocket(w, exec_path(w, 'ends', ['sh', '-c', f'echo $$ > {mark}; echo go; sleep 1000'], stdout=True))
    s.collect(until=lambda by: b'go' in by.get(1, b''))
    pid = int(open(mark).read())
    s.close()
    wait_for('the command to end with its client', lambda: not os.path.exists(f'/proc/{pid}'))
    w.make_pod('stopped')
    w.run('stopped', 'main', 'exited')
    s = WebSocket(w, exec_path(w, 'stopped', ['true'], stdout=True))
    expect('no run', (s.status, s.body), (500, b'container not found ("main")'))
    s = WebSocket(w, exec_path(w, 'ends', ['true']))
    expect('no stream', (s.status, s.body), (400, b'you must specify at least 1 of stdin, stdout, stderr'))
    s = WebSocket(w, exec_path(w, 'ends', ['true'], stdout=True), ('v9.nothing',))
    expect('no protocol', s.status, 400)
    s = WebSocket(w, exec_path(w, 'homeless', ['true'], stdout=True))
    expect('no node', (s.status, message_of(s.body)), (400, 'pod homeless does not have a host assigned'))
    status, text = w.ask('GET', exec_path(w, 'ends', ['true'], stdout=True))
    expect('no upgrade', (status, message_of(text)), (400, 'Upgrade request required'))
    status, text = w.ask('GET', exec_path(w, 'ends', ['true'], stdout=True, container='x'))
    expect('no container', (status, message_of(text)), (400, 'container x is not valid for pod ends'))
    # A peer that breaks the rules hears why.
    s = WebSocket(w, exec_path(w, 'ends', ['sleep', '1000'], stdin=True, stdout=True))
    s.frame(2, b'\x00x', masked=False)
    op = None
    while op != 8:
        op, payload = s.receive()
    expect('a frame without a mask', struct.unpack('>H', payload[:2])[0], 1002)


def attach(w):
    w.make_pod('attach')
    w.run('attach', 'main', 'running')
    s = WebSocket(w, w.pod_path('attach', 'attach', {'stdout': 'true', 'stderr': 'true'}))
    by = s.collect()
    expect('output', (by.get(1), by.get(2)), (b'new\n', b'oops\n'))
    expect('its end', status_of(by)['status'], 'Success')
    s = WebSocket(w, w.pod_path('attach', 'attach', {'stdin': 'true', 'stdout': 'true'}))
    s.send(0, b'to its input\n')
    by = s.collect(until=lambda by: b'input' in by.get(1, b''))
    expect('what it reads', (by.get(1), by.get(2)), (b'new\nto its input\n', None))
    s.send(255, b'\0')
    expect('the end of its input', status_of(s.collect())['status'], 'Success')
    w.run('attach', 'main', 'exited')
    expect('one that has ended', WebSocket(w, w.pod_path('attach', 'attach', {'stdout': 'true'})).status, 500)


def doors(w):
    """Who gets in at the node."""
    path = '/containerLogs/default/one/main'
    port = w.node_port
    expect('nobody', w.ask('GET', path, port=port, certificate=None)[0], 401)
    expect('a token that is not known', w.ask('GET', path, port=port, certificate=None, token='x')[0], 401)
    expect('somebody else', w.ask('GET', path, port=port, certificate=None, token='other-token'), (403, b'Forbidden (user=other)'))
    expect('somebody else, of metrics', w.ask('GET', '/metrics/resource', port=port, certificate=None, token='other-token')[0], 200)
    expect('an administrator', w.ask('GET', path, port=port, certificate=None, token='master-token')[0], 200)
    expect('by certificate', w.ask('GET', path, port=port, certificate='kubelet-client')[0], 200)
    expect('which is for streams alone', w.ask('GET', '/metrics', port=port, certificate='kubelet-client'), (403, b'Forbidden (user=kube-apiserver-kubelet-client)'))
    expect('health', w.ask('GET', '/healthz', port=port), (200, b'ok'))
    expect('health for nobody', w.ask('GET', '/healthz', port=port, certificate=None)[0], 401)
    expect('pods', json.loads(w.ask('GET', '/pods', port=port)[1])['kind'], 'PodList')
    expect('nothing there', w.ask('GET', '/run/x', port=port)[0], 404)
    code, text = w.ask('POST', '/portForward/default/one', port=port)
    expect('ports', (code, b'does not forward ports' in text), (501, True))
    expect('no such pod', w.ask('GET', '/containerLogs/default/zero/main', port=port), (404, b'pod "zero" does not exist'))
    expect('odd paths', w.ask('GET', '/containerLogs/default/one/../main', port=port)[0], 404)
    # Discovery names what there is.
    subs = {r['name']: r for r in w.call('GET', '/api/v1')['resources']}
    expect('in discovery', [(n, subs[n]['kind'], subs[n]['verbs']) for n in ('pods/exec', 'pods/log')],
           [('pods/exec', 'PodExecOptions', ['create', 'get']), ('pods/log', 'Pod', ['get'])])


def strangers(w):
    """A certificate that ends while its connection lasts speaks for nobody from then on; a log that is a link is not read."""
    k = http.client.HTTPSConnection('127.0.0.1', w.node_port, context=w.tls(), timeout=30)

    def status():
        k.request('GET', '/healthz')
        a = k.getresponse()
        a.read()
        return a.status
    expect('a connection of an administrator', status(), 200)
    w.jump(3 * 365 * 86400)
    expect('whose certificate has ended', status(), 401)
    w.jump(0)
    expect('and is good again', status(), 200)
    k.close()
    w.make_pod('linked')
    real, link = os.path.join(w.top, 'other.log'), os.path.join(w.top, 'linked.log')
    open(real, 'w').write(line(0, 'stdout', 'of another pod'))
    os.symlink(real, link)
    w.run('linked', log=real)
    expect('a log', w.logs('linked'), (200, b'of another pod\n'))
    w.run('linked', log=link)
    code, text = w.logs('linked')
    expect('a link to a log', (code, b'another pod' in text), (500, False))


def pings(w):
    """Who sends pings without end and reads no answer is sent away, and the command with it: answers do not pile up at the node."""
    def memory_mib():
        with open(f'/proc/{w.endpoint.pid}/status') as f:
            return next(int(x.split()[1]) for x in f if x.startswith('VmRSS')) >> 10

    def streams():
        return next(int(x.split()[1]) for x in w.ask('GET', '/metrics', port=w.node_port)[1].decode().splitlines() if x.startswith('dray_node_streams '))
    before, at_first, sent = memory_mib(), streams(), 0
    s = WebSocket(w, '/exec/default/exec/main?command=sleep&command=1000&input=1&output=1', port=w.node_port)
    expect('a command', s.status, 101)
    s.s.settimeout(10)
    many = (b'\x89\xfd' + bytes(4) + b'p' * 125) * 4096
    try:
        while sent < 200 << 20:
            s.s.sendall(many)
            sent += len(many)
    except OSError:
        pass
    expect('it is sent away', sent < 200 << 20, True)
    expect('memory that pings took', memory_mib() - before < 96, True)  # 16 MiB, and what sanitizers keep
    end = time.monotonic() + 60
    while streams() > at_first and time.monotonic() < end:
        time.sleep(0.1)
    expect('its command has ended', streams(), at_first)
    s.s.close()


def main():
    w = World(sys.argv[1])
    try:
        for test in logs, unreachable, follow, large_log, commands, large_streams, ends, attach, doors, strangers, pings:
            test(w)
        # Streams that go on do not keep the server from ending.
        s = WebSocket(w, exec_path(w, 'exec', ['sleep', '1000'], stdout=True))
        expect('a stream at the end', s.status, 101)
    finally:
        w.done()
    for f in failures:
        print('FAIL', f)
    print('streams:', 'failed' if failures else 'ok')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray server` among bad company, over TLS: thousands of idle connections, bodies of 64 MiB, requests that never end,
HTTP/2 rapid reset, watchers that do not read, a clock that jumps back. All the while somebody else works with it: each of
his requests is answered in good time, and the server's memory stays within bounds.

usage: hostile.py DRAY [long]"""
import http.client, json, os, re, resource, shutil, signal, socket, ssl, struct, subprocess, sys, tempfile, threading, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
LONG = 'long' in sys.argv[2:]
SANITIZED = any(name in open(DRAY, 'rb').read() for name in (b'__asan_init', b'__tsan_init'))
MIB = 1024  # in KiB, as /proc tells
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
MAPS = '/api/v1/namespaces/default/configmaps'
notes, started = [], []


class Server:
    def __init__(self, folder, env=None):
        self.folder = folder
        options = os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=4:verify_asan_link_order=0'
        self.log = open(folder + '.log', 'ab')
        # The soft limit is for the server to raise.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.process = subprocess.Popen([DRAY, 'server', '--data-dir', folder, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=dict(os.environ, ASAN_OPTIONS=options, **(env or {})),
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
        started.append(self.process)
        line = self.process.stdout.readline()
        assert 'ready at' in line, open(self.log.name).read()[-2000:]
        self.port = int(line.split(',')[0].rsplit(':', 1)[1])
        self.context = self.tls()

    def tls(self, *protocols):
        c = ssl.create_default_context(cafile=self.folder + '/pki/ca.crt')
        c.load_cert_chain(self.folder + '/pki/admin.crt', self.folder + '/pki/admin.key')
        if protocols:
            c.set_alpn_protocols(protocols)
        return c

    def connect(self, timeout=60):
        return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=timeout, context=self.context)

    def open(self, context=None, receive_bytes=0):
        raw = socket.socket()
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(60)
        raw.connect(('127.0.0.1', self.port))
        return (context or self.context).wrap_socket(raw, server_hostname='127.0.0.1')

    def rss_kib(self):
        with open(f'/proc/{self.process.pid}/status') as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=90)
        self.process.stdout.close()
        self.log.close()
        assert code == 0, open(self.log.name).read()[-3000:]


def call(c, method, path, body=None):
    c.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': 'application/json'})
    a = c.getresponse()
    return a.status, json.loads(a.read())


def claim(name):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name},
            'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}}


class Neighbour(threading.Thread):
    """Creates, reads and deletes for as long as the block lasts; notes how long the slowest answer took and how much
    memory the server had."""

    def __init__(self, server, what, most_mib, slowest_s=10):
        super().__init__()
        self.server, self.what, self.most_kib, self.limit = server, what, most_mib * MIB, slowest_s
        self.ending, self.error, self.done, self.slowest, self.peak = threading.Event(), None, 0, 0, 0

    def __enter__(self):
        self.before = self.server.rss_kib()
        self.start()
        return self

    def run(self):
        try:
            c = self.server.connect()
            while not self.ending.is_set():
                for method, path, body, want in (('POST', CLAIMS, claim('neighbour'), 201), ('GET', CLAIMS + '/neighbour', None, 200),
                                                 ('DELETE', CLAIMS + '/neighbour', None, 200)):
                    began = time.monotonic()
                    code, answer = call(c, method, path, body)
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    assert code == want, answer
                self.done += 3
                self.peak = max(self.peak, self.server.rss_kib())
                time.sleep(0.01)
            c.close()
        except Exception as e:  # told by the thread that waits
            self.error = e

    def __exit__(self, kind, *_):
        self.ending.set()
        self.join()
        if kind:
            return
        grown = self.peak - self.before
        if self.error:
            raise AssertionError(f'{self.what}: the neighbour got {self.error!r}')
        assert self.done, f'{self.what}: the neighbour got nothing done'
        assert self.slowest < self.limit, f'{self.what}: the neighbour waited {self.slowest:.1f} s'
        assert grown < self.most_kib * (4 if SANITIZED else 1), f'{self.what}: {grown // MIB} MiB more, at most {self.most_kib // MIB} were expected'
        notes.append(f'{self.what}: {self.done} answers to the neighbour, the slowest in {1000 * self.slowest:.0f} ms, {grown / MIB:.0f} MiB more')


# --- Connections ------------------------------------------------------------------------------------------------------


def idle_connections(s):
    count = 5000 if LONG or not SANITIZED else 500
    wanted, hard = count + 500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < wanted:
        notes.append(f'skipped: {count} idle connections (the limit of open files is {hard})')
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    context, idle, touched = s.tls('http/1.1'), [], time.monotonic()

    def ask(c):
        c.sendall(b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')
        assert c.recv(12) == b'HTTP/1.1 200', 'an idle connection was not served'
        c.recv(4096)

    with Neighbour(s, f'{count} idle TLS connections', most_mib=40 + count * 64 // 1024):
        for _ in range(count):
            idle.append(s.open(context))
            ask(idle[-1])
            # After 90 s of silence the server hangs up, and a busy machine may take longer than that to connect them all.
            if time.monotonic() - touched > 30:
                [ask(c) for c in idle]
                touched = time.monotonic()
        # They are all still there.
        for c in idle[::97]:
            ask(c)
    for c in idle:
        c.close()


class Loris:
    """Clients that begin a request and never finish it; they are sent away when their time is over."""

    def __init__(self, s):
        self.heads, self.bodies = [], []
        for i in range(300 if LONG else 60):
            c = s.open()
            if i % 3:
                c.sendall(b'GET /livez HTTP/1.1\r\nHost: a\r\nX: ')
                self.heads.append(c)
            else:
                c.sendall(b'POST ' + CLAIMS.encode() + b' HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{')
                self.bodies.append(c)

    def drip(self):
        for c in self.heads:
            try:
                c.sendall(b'y')
            except OSError:
                pass

    def check(self, bodies):
        for c in self.heads + (self.bodies if bodies else []):
            c.settimeout(60)
            got = read_all(c)
            assert got.startswith(b'HTTP/1.1 408'), got[:200]
            check_status(got.split(b'\r\n\r\n', 1)[1], 408, 'Timeout')
        for c in self.heads + self.bodies:
            c.close()


def read_all(c):
    got = b''
    try:
        while part := c.recv(65536):
            got += part
    except (ConnectionError, ssl.SSLError):
        pass
    return got


def check_status(text, code, reason):
    status = json.loads(text)
    assert (status['kind'], status['apiVersion'], status['status']) == ('Status', 'v1', 'Failure'), status
    assert (status['code'], status['reason']) == (code, reason) and status['message'], status


def refusals_are_statuses(s):
    for request, code, reason in ((b'GARBAGE\r\n\r\n', 400, 'BadRequest'), (b'GET / HTTP/1.1\r\nHost: a\r\nX: ' + b'y' * 100000 + b'\r\n\r\n', 431, 'BadRequest'),
                                  (b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n', 413, 'RequestEntityTooLarge')):
        c = s.open()
        c.sendall(request)
        c.settimeout(30)
        got = read_all(c)
        assert got.startswith(b'HTTP/1.1 %d ' % code), got[:100]
        assert b'Content-Type: application/json' in got
        check_status(got.split(b'\r\n\r\n', 1)[1], code, reason)
        c.close()


# --- Bodies -----------------------------------------------------------------------------------------------------------


def large_body(s, chunked, results):
    c, sent, part = s.open(), 0, b'x' * 65536
    c.settimeout(60)
    try:
        c.sendall(b'POST ' + CLAIMS.encode() + b' HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n' +
                  (b'Transfer-Encoding: chunked' if chunked else b'Content-Length: %d' % (64 << 20)) + b'\r\n\r\n')
        while sent < 64 << 20:
            c.sendall(b'%x\r\n%s\r\n' % (len(part), part) if chunked else part)
            sent += len(part)
    except OSError:
        pass  # it need not listen to the end
    got = read_all(c)
    c.close()
    results.append(got)


def large_bodies(s):
    for chunked in False, True:
        results = []
        at_once = 8 if LONG else 3
        threads = [threading.Thread(target=large_body, args=(s, chunked, results)) for _ in range(at_once)]
        with Neighbour(s, f'{at_once} bodies of 64 MiB, {"chunked" if chunked else "with their length"}', most_mib=60):
            [t.start() for t in threads]
            [t.join() for t in threads]
        answered = [r for r in results if r]
        assert answered, 'nobody got an answer'
        for r in answered:
            assert r.startswith(b'HTTP/1.1 413'), r[:100]
            check_status(r.split(b'\r\n\r\n', 1)[1], 413, 'RequestEntityTooLarge')
            assert b'limit is 3145728' in r


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------


def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


def told_to_calm_down(got):
    """Whether there is a GOAWAY with an error among frames: ours (ENHANCE_YOUR_CALM), or the one of the library's own limit
    (INTERNAL_ERROR). A connection that was reset may have swallowed it."""
    while len(got) >= 9:
        length, kind = int.from_bytes(got[:3], 'big'), got[3]
        if kind == 7:
            return int.from_bytes(got[13:17], 'big') in (2, 11)
        got = got[9 + length:]
    return False


def rapid_reset(s):
    """Requests that are taken back at once, as fast as they can be sent: the server ends such connections."""
    rounds, sent, ended = 40 if LONG else 8, 0, 0
    context = s.tls('h2')
    path = b'/api/v1/namespaces/default/pods'
    head = b'\x82\x87\x04' + bytes([len(path)]) + path + b'\x41\x01a'
    with Neighbour(s, f'{rounds} connections of HTTP/2 rapid reset', most_mib=40):
        for _ in range(rounds):
            c = s.open(context)
            assert c.selected_alpn_protocol() == 'h2'
            c.settimeout(20)
            stream = 1
            try:
                c.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0))
                for _ in range(100):
                    burst = b''
                    for _ in range(200):
                        burst += frame(1, 5, stream, head) + frame(3, 0, stream, struct.pack('>I', 8))
                        stream += 2
                    c.sendall(burst)
                    sent += 200
            except OSError:
                pass  # it has hung up
            ended += told_to_calm_down(read_all(c))
            c.close()
    assert ended, 'nobody was told to calm down'
    notes.append(f'rapid reset: {sent} requests taken back, {ended} of {rounds} connections told to calm down')


# --- Watches ----------------------------------------------------------------------------------------------------------


def config_map(name, n, size):
    return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name}, 'data': {'n': str(n), 'filler': 'x' * size}}


def slow_watchers(s):
    watchers, events, size = (100, 3000, 20000) if LONG else (20, 600, 20000)
    c = s.connect()
    call(c, 'POST', MAPS, config_map('busy', 0, size))
    revision = call(c, 'GET', MAPS)[1]['metadata']['resourceVersion']
    slow = [s.open(receive_bytes=4096) for _ in range(watchers)]
    for w in slow:
        w.sendall(f'GET {MAPS}?watch=1&resourceVersion={revision} HTTP/1.1\r\nHost: a\r\n\r\n'.encode())
    good = s.connect()
    good.request('GET', f'{MAPS}?watch=1&resourceVersion={revision}')
    answer, seen = good.getresponse(), []

    def read():
        while len(seen) < events:
            seen.append(int(json.loads(answer.readline())['object']['data']['n']))

    reader = threading.Thread(target=read)
    # The history of events, and what may wait for each of those who do not read.
    with Neighbour(s, f'{watchers} watchers that do not read {events * size >> 20} MiB', most_mib=80 + watchers * 3 // 2 + 2 * (events * size >> 20)):
        reader.start()
        for n in range(1, events + 1):
            code, answer_ = call(c, 'PUT', MAPS + '/busy', config_map('busy', n, size))
            assert code == 200, answer_
        reader.join(60)
    assert seen == list(range(1, events + 1)), 'a watcher that reads did not get everything in order'
    # One of the slow ones wakes up: it gets all that it missed, or is told to list anew. Nothing is left out in between.
    slow[0].settimeout(20)
    check_late(slow[0], events)
    for w in slow:
        w.close()
    good.close()
    c.close()


def check_late(w, events):
    answer = http.client.HTTPResponse(w)
    answer.begin()
    last = 0
    while last < events:
        line = answer.readline()
        if not line:
            return
        event = json.loads(line)
        if event['type'] == 'ERROR':
            assert event['object']['code'] == 410, event
            return
        n = int(event['object']['data']['n'])
        assert n == last + 1, f'event {n} after {last}'
        last = n


# --- Time -------------------------------------------------------------------------------------------------------------


def seconds(text):
    return time.mktime(time.strptime(text, '%Y-%m-%dT%H:%M:%SZ')) - time.timezone


def clock_jumps_back(folder):
    shim = os.path.join(os.path.dirname(DRAY), 'tests', 'clock_shift.so')
    if not os.path.exists(shim):
        notes.append(f'skipped: a clock that jumps back ({shim} is not built)')
        return
    shift = os.path.join(folder, 'shift')

    def jump(by_s):
        with open(shift, 'r+b' if os.path.exists(shift) else 'wb') as f:
            f.write(struct.pack('=q', by_s * 1000000000))

    jump(0)
    s = Server(os.path.join(folder, 'clock'), {'LD_PRELOAD': shim, 'CLOCK_SHIFT_FILE': shift})
    c = s.connect()
    for i in range(6):
        code, made = call(c, 'POST', CLAIMS, claim(f'c{i}'))
        assert code == 201, made
    page = call(c, 'GET', CLAIMS + '?limit=2')[1]
    watch = s.connect()
    watch.request('GET', f'{CLAIMS}?watch=1&timeoutSeconds=3&resourceVersion={page["metadata"]["resourceVersion"]}')
    events, began = watch.getresponse(), time.monotonic()
    jump(-2400)
    # Time stamps say what the clock says, nothing else depends on it.
    code, made = call(c, 'POST', CLAIMS, claim('late'))
    assert code == 201 and abs(seconds(made['metadata']['creationTimestamp']) - (time.time() - 2400)) < 60, made
    assert int(made['metadata']['resourceVersion']) > int(page['metadata']['resourceVersion'])
    event = json.loads(events.readline())
    assert (event['type'], event['object']['metadata']['name']) == ('ADDED', 'late'), event
    names = [i['metadata']['name'] for i in page['items']]
    while page['metadata'].get('continue'):
        code, page = call(c, 'GET', f'{CLAIMS}?limit=2&continue={page["metadata"]["continue"]}')
        assert code == 200, page
        names += [i['metadata']['name'] for i in page['items']]
    assert names == [f'c{i}' for i in range(6)], names
    assert events.readline() == b'' and 2.5 < time.monotonic() - began < 30, 'the watch did not end in time'
    # An object from the future is changed, deleted with a grace period and without.
    code, old = call(c, 'GET', CLAIMS + '/c0')
    old['metadata']['labels'] = {'a': 'b'}
    code, changed = call(c, 'PUT', CLAIMS + '/c0', old)
    assert code == 200 and changed['metadata']['creationTimestamp'] == old['metadata']['creationTimestamp'], changed
    assert call(c, 'DELETE', CLAIMS + '/c0')[0] == 200
    leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
    lease = {'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': {'name': 'l'},
             'spec': {'holderIdentity': 'me', 'leaseDurationSeconds': 15, 'renewTime': '2030-01-01T00:00:00.000000Z'}}
    code, lease = call(c, 'POST', leases, lease)
    assert code == 201, lease
    lease['spec']['renewTime'] = '2020-01-01T00:00:00.000000Z'
    assert call(c, 'PUT', leases + '/l', lease)[0] == 200
    # A new connection, with a certificate that is younger than now, and a restart at the earlier hour.
    c.close()
    fresh = s.connect()
    assert call(fresh, 'GET', CLAIMS + '/late')[0] == 200
    fresh.close()
    watch.close()
    s.stop()
    s = Server(s.folder, {'LD_PRELOAD': shim, 'CLOCK_SHIFT_FILE': shift})
    c = s.connect()
    code, again = call(c, 'GET', CLAIMS)
    assert code == 200 and int(again['metadata']['resourceVersion']) >= int(made['metadata']['resourceVersion']), again['metadata']
    c.close()
    s.stop()
    notes.append('a clock that jumps back 40 minutes: revisions, watches, pages, leases and restarts do not mind')


def main():
    folder = tempfile.mkdtemp(prefix='dray-')
    try:
        s = Server(os.path.join(folder, 'data'))
        began = time.monotonic()
        loris = Loris(s)
        refusals_are_statuses(s)
        idle_connections(s)
        loris.drip()
        large_bodies(s)
        rapid_reset(s)
        loris.drip()
        slow_watchers(s)
        with Neighbour(s, f'{len(loris.heads) + len(loris.bodies)} requests that never end', most_mib=40):
            time.sleep(max(0, (35 if LONG else 11) - (time.monotonic() - began)))
            loris.check(LONG)
        s.stop()
        clock_jumps_back(folder)
    except BaseException:
        print('\n'.join(notes))
        raise
    finally:
        [p.kill() for p in started if p.poll() is None]
        shutil.rmtree(folder, ignore_errors=True)
    print('\n'.join(notes))
    print('served through it all')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of src/net with foreign clients: curl, Python's http.client, raw sockets. Many idle
connections; stopping.

usage: net.py DRAY (the test server lies beside it, in tests/)"""
import hashlib, http.client, os, re, resource, shutil, signal, socket, subprocess, sys, tempfile, time

SERVER = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), 'tests', 'http_server')
failures = []


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {want!r}, got {got!r}')


class Server:
    def __init__(self, *args, **kw):
        self.process = subprocess.Popen([SERVER, *args], stdout=subprocess.PIPE, text=True, **kw)
        self.port = int(self.process.stdout.readline().split()[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.stdout.read()
        expect('the server ends well', self.process.wait(), 0)
        return {k: int(v) for k, v in re.findall(r'(\w+) (\d+)', out)}

    def cpu_ticks(self):
        with open(f'/proc/{self.process.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def rss_kib(self):
        with open(f'/proc/{self.process.pid}/status') as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))


def curl(*args, text=None):
    return subprocess.run(['curl', '-sS', '--max-time', '30', *args], capture_output=True, input=text)


def with_curl(folder):
    sock = os.path.join(folder, 'sock')
    s = Server('--tls', folder, '--unix', sock)
    url = f'https://localhost:{s.port}'
    tls = ['--cacert', folder + '/ca.crt']
    client = ['--cert', folder + '/client.crt', '--key', folder + '/client.key']
    body = os.urandom(2_000_000)
    for version, name in ('--http1.1', '1.1'), ('--http2', '2'):
        r = curl(version, *tls, '-w', '%{http_version} %{http_code}', url + '/hello')
        expect(name + ' hello', r.stdout, f'hello\n{name} 200'.encode())
        r = curl(version, *tls, *client, url + '/who')
        expect(name + ' who', r.stdout, b'admin system:masters others')
        r = curl(version, *tls, url + '/who')
        expect(name + ' nobody', r.stdout, b'nobody')
        r = curl(version, *tls, '--data-binary', '@-', url + '/echo', text=body)
        expect(name + ' echo', hashlib.sha256(r.stdout).digest(), hashlib.sha256(body).digest())
        r = curl(version, *tls, '-H', 'Transfer-Encoding: chunked', '--data-binary', '@-', url + '/echo', text=body)
        expect(name + ' echo without length', len(r.stdout), len(body))
        r = curl(version, *tls, url + '/stream?20000')
        expect(name + ' stream', r.stdout, b''.join(b'line %d\n' % i for i in range(20000)))
        r = curl(version, *tls, '-w', '%{http_code}', '--data-binary', '@-', url + '/echo', text=bytes(4_000_000))
        expect(name + ' too large', r.stdout[-3:], b'413')
        r = curl(version, *tls, '-I', url + '/hello')
        expect(name + ' head', b'content-length: 6' in r.stdout.lower(), True)
        r = curl(version, *tls, url + '/abort')
        expect(name + ' broken stream', r.returncode in (18, 92), True)
        r = curl(version, *tls, *[url + '/hello'] * 20, '-w', '%{num_connects} ')
        expect(name + ' keep-alive', r.stdout.replace(b'hello\n', b'').split(), [b'1'] + [b'0'] * 19)
        r = curl(version, *tls, '-Z', '--parallel-max', '20', *[url + '/big?100000'] * 40)
        expect(name + ' at once', len(r.stdout), 40 * 100000)
    expect('certificate is checked', curl(url + '/hello').returncode, 60)
    expect('TLS 1.1 is refused', curl(*tls, '--tls-max', '1.1', url + '/hello').returncode != 0, True)
    for version, n in ('--http1.1', 1), ('--http2-prior-knowledge', 2):
        r = curl(version, '--unix-socket', sock, 'http://x/headers')
        expect('unix socket', r.stdout.split(b'\n')[0], b'GET /headers path=/headers query= version=%d tls=0' % n)
    stats = s.stop()
    expect('two bodies were refused', stats['refused'] >= 2, True)
    expect('nothing is left', (stats['connections'], stats['streams']), (0, 0))


def with_python():
    s = Server()
    c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=30)
    for _ in range(50):
        c.request('POST', '/echo', body=b'x' * 1000)
        r = c.getresponse()
        expect('python echo', (r.status, len(r.read())), (200, 1000))
    c.request('PUT', '/echo', body=iter([b'a', b'bc', b'']), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
    expect('python chunks', c.getresponse().read(), b'abc')
    c.request('GET', '/stream?1000')
    expect('python stream', len(c.getresponse().read().split()), 2000)
    c.request('GET', '/a%20b?c=%20')
    expect('python not found', c.getresponse().read(), b'not found\n')
    c.close()
    expect('stop', s.stop()['requests'], 53)


def smuggling():
    """One request that hides another one: exactly one answer, and it is a refusal."""
    s = Server()
    hidden = b'GET /hello HTTP/1.1\r\nHost: a\r\n\r\n'
    for head in (b'Content-Length: 5\r\nTransfer-Encoding: chunked', b'Transfer-Encoding: chunked\r\nContent-Length: 5',
                 b'Content-Length: 5\r\nContent-Length: 0', b'Transfer-Encoding: xchunked', b'Transfer-Encoding : chunked',
                 b'Transfer-Encoding: chunked\r\n X: y', b'Transfer-Encoding:\x0bchunked', b'Content-Length: 0\rX: y',
                 b'X: y\nTransfer-Encoding: chunked', b'Content-Length: 0 0', b'Content-Length: 0,0', b'Content-Length: 0_0'):
        with socket.create_connection(('127.0.0.1', s.port), timeout=30) as c:
            c.sendall(b'POST /echo HTTP/1.1\r\nHost: a\r\n' + head + b'\r\n\r\n0\r\n\r\n' + hidden)
            got = b''
            while part := c.recv(65536):
                got += part
        expect(f'smuggling {head}', (got.count(b'HTTP/1.1 '), got[9:12] in (b'400', b'501')), (1, True))
    expect('none reached the handler', s.stop()['requests'], 0)


def slow_loris():
    """Hundreds of clients that never finish a request do not keep others out, and are sent away."""
    s = Server('--short')
    slow = [socket.create_connection(('127.0.0.1', s.port)) for _ in range(300)]
    for c in slow:
        c.sendall(b'GET /hello HTTP/1.1\r\nHost: a\r\nX: ')
    c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=30)
    c.request('GET', '/hello')
    expect('served among slow ones', c.getresponse().read(), b'hello\n')
    c.close()
    for c in slow:
        c.settimeout(30)
        expect('sent away', c.recv(12), b'HTTP/1.1 408')
        c.close()
    s.stop()


def out_of_files():
    """With no file descriptor left new connections are turned away, without a spinning loop, until some are free."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    s = Server(preexec_fn=limit)
    many = [socket.create_connection(('127.0.0.1', s.port), timeout=30) for _ in range(80)]
    before = s.cpu_ticks()
    time.sleep(0.5)
    expect('the loop sleeps', s.cpu_ticks() - before < 25, True)
    for c in many:
        c.close()
    deadline = time.time() + 20
    while time.time() < deadline:
        try:
            c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=5)
            c.request('GET', '/hello')
            expect('served again', c.getresponse().read(), b'hello\n')
            c.close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        failures.append('no connection after file descriptors were free again')
    s.stop()


def many_idle(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * count + 200), hard))
    if min(hard, 2 * count + 200) < count + 100:
        return 'too few file descriptors for idle connections'
    s = Server()
    one = http.client.HTTPConnection('127.0.0.1', s.port, timeout=30)
    one.request('GET', '/hello')
    one.getresponse().read()
    before = s.rss_kib()
    idle = []
    for _ in range(count):
        c = socket.create_connection(('127.0.0.1', s.port), timeout=30)
        c.sendall(b'GET /hello HTTP/1.1\r\nHost: a\r\n\r\n')
        idle.append(c)
    for c in idle:
        expect('idle one was served', c.recv(12), b'HTTP/1.1 200')
    one.request('GET', '/hello')
    expect('others are served', one.getresponse().read(), b'hello\n')
    each = (s.rss_kib() - before) / count
    # The plain build takes less than 2 KiB, a sanitized one several times that.
    most = 30 if 'asan' in SERVER else 10
    expect(f'an idle connection takes less than {most} KiB', each < most, True)
    for c in idle:
        c.close()
    one.close()
    s.stop()
    return f'{count} idle connections, {each:.1f} KiB each'


def main():
    if not shutil.which('curl'):
        print('curl is missing')
        return 77
    if not os.path.exists(SERVER):
        print(f'{SERVER} is not built')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        with_curl(folder)
    with_python()
    smuggling()
    slow_loris()
    out_of_files()
    note = many_idle(2000)
    for f in failures:
        print(f)
    print(f'{len(failures)} differences' if failures else f'curl, Python and raw clients agree; {note}')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

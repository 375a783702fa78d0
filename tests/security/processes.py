#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: `dray up` listens on loopback alone unless told otherwise; server, scheduler and controllers run without root and give up what privileges they were
started with; keys, tokens, sockets and the database are for their owner alone; files are not written through links that others laid; pages of other sites get
nothing. Usage: processes.py DRAY"""
import glob, http.client, json, os, re, shutil, socket, ssl, stat, struct, subprocess, tempfile
from kit import DRAY, Cluster, until

SANITIZED = b'__asan_init' in open(DRAY, 'rb').read()


# --- Sockets ------------------------------------------------------------------------------------------------------------


def sockets_of(pid):
    """Addresses at which the process and its children listen, TCP and UDP, both families."""
    inodes = set()
    for p in [pid] + children(pid):
        for fd in glob.glob(f'/proc/{p}/fd/*'):
            try:
                m = re.match(r'socket:\[(\d+)\]', os.readlink(fd))
            except OSError:
                continue
            if m:
                inodes.add(m.group(1))
    found = []
    for table in ('tcp', 'tcp6', 'udp', 'udp6'):
        with open('/proc/net/' + table) as f:
            for line in f.readlines()[1:]:
                part = line.split()
                if part[9] in inodes and (part[3] == '0A' or table.startswith('udp')):
                    host, port = part[1].split(':')
                    raw = b''.join(struct.pack('<I', int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
                    found.append((socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)))
    return found


def children(pid):
    out = []
    for task in glob.glob(f'/proc/{pid}/task/*/children'):
        for child in open(task).read().split():
            out += [int(child)] + children(int(child))
    return out


def only_loopback(what, found):
    assert found, f'{what} listens nowhere: this tests nothing'
    for host, port in found:
        assert host.startswith('127.') or host == '::1', f'{what} listens at {host}:{port}'


def loopback():
    with Cluster(verb='up', flags=('--nodes', '2')) as c:
        only_loopback('dray up', sockets_of(c.process.pid))
        env = dict(os.environ, KUBECONFIG=c.data + '/admin.kubeconfig')
        for verb in ('scheduler', 'controllers'):
            p = subprocess.Popen([DRAY, verb, '--leader-elect=false'], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                until(f'{verb} listens', lambda: sockets_of(p.pid) or p.poll() is not None)
                only_loopback('dray ' + verb, sockets_of(p.pid))
                confined(p.pid, verb)
            finally:
                p.terminate()
                p.wait(60)
        confined(c.process.pid, 'up')
        files(c)
        metrics(c)
    if os.geteuid() == 0 and shutil.which('crun') and not SANITIZED:
        with Cluster(verb='up', flags=('--nodes', '0', '--agent')) as c:
            only_loopback('dray up --agent', sockets_of(c.process.pid))
    # What only loopback makes harmless says so when it is asked for more.
    for flags in (['--insecure-http', '--listen', '0.0.0.0:0'], ['--insecure-http', '--listen', '127.example.com:0'], ['--insecure-http', '--listen', '[::]:0'], ['--authorization-mode', 'AlwaysAllow', '--listen', '0.0.0.0:0']):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([DRAY, 'server', '--data-dir', folder + '/d', *flags], capture_output=True, text=True, timeout=60)
            assert run.returncode == 1 and 'loopback only' in run.stderr, (flags, run.stderr)


# --- Privileges ---------------------------------------------------------------------------------------------------------


def confined(pid, what):
    with open(f'/proc/{pid}/status') as f:
        status = dict(line.split(':', 1) for line in f if ':' in line)
    assert status['NoNewPrivs'].strip() == '1', what
    for of in ('CapPrm', 'CapEff', 'CapBnd', 'CapInh', 'CapAmb'):
        more = int(status[of], 16) & ~(1 << 1 | 1 << 10)  # CAP_DAC_OVERRIDE, CAP_NET_BIND_SERVICE
        assert more == 0, f'{what} has {of} {status[of].strip()}'
    assert status['Umask'].strip() == '0077', what
    with open(f'/proc/{pid}/limits') as f:
        assert re.search(r'Max core file size\s+0\s+0', f.read()), f'{what} would dump core'
    if not SANITIZED and os.geteuid() != 0:
        try:
            open(f'/proc/{pid}/environ').read()
            raise AssertionError(f'{what} can be looked into by its user')
        except PermissionError:
            pass


def as_nobody():
    """The control plane without root, from a read-only program, in a folder of its own."""
    if os.geteuid() != 0 or not shutil.which('setpriv'):
        return
    folder = tempfile.mkdtemp(prefix='dray-nobody-', dir='/tmp')
    try:
        os.chmod(folder, 0o755)
        program = folder + '/dray'
        shutil.copy(DRAY, program)
        os.mkdir(folder + '/home')
        os.chown(folder + '/home', 65534, 65534)
        # The leak checker cannot look at a process whose capabilities are gone.
        env = {'PATH': os.environ['PATH'], 'HOME': folder + '/home', 'ASAN_OPTIONS': 'detect_leaks=0'}
        p = subprocess.Popen(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all', '--no-new-privs', program, 'up', '--nodes', '1', '--listen', '127.0.0.1:0'],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd='/')
        said = ''
        while 'dray is up at' not in said:
            line = p.stdout.readline()
            assert line, said
            said += line
        with open(f'/proc/{p.pid}/status') as f:
            status = f.read()
        assert re.search(r'^Uid:\s+65534\s+65534', status, re.M) and re.search(r'^CapEff:\s+0+$', status, re.M), status
        if not SANITIZED:  # root's, so that others of its user cannot look into it
            assert os.stat(f'/proc/{p.pid}/environ').st_uid == 0
        who = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', program, 'get', 'nodes'], capture_output=True, text=True, timeout=60, env=env, cwd='/')
        assert who.returncode == 0 and 'Ready' in who.stdout, who
        # Somebody else on the machine is not let in by the socket.
        other = subprocess.run(['setpriv', '--reuid=65533', '--regid=65533', '--clear-groups', 'curl', '-sS', '--unix-socket', folder + '/home/.dray/dray.sock', 'http://x/api/v1/nodes'], capture_output=True, text=True)
        assert other.returncode != 0, other
        p.terminate()
        p.communicate(timeout=90)
        assert p.returncode == 0, p.returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- Files --------------------------------------------------------------------------------------------------------------


def files(c):
    for top, folders, names in os.walk(c.data):
        for path in [top] + [os.path.join(top, n) for n in folders + names]:
            mode = os.lstat(path).st_mode
            assert stat.S_ISLNK(mode) or not mode & 0o077, f'{path} has mode {mode & 0o777:o}'
    assert os.path.exists(c.data + '/admin.kubeconfig') and stat.S_ISSOCK(os.stat(c.data + '/dray.sock').st_mode)


def links():
    """Whoever can write beside our files cannot have us write into theirs, or into root's."""
    folder = tempfile.mkdtemp(prefix='dray-links-')
    try:
        victim, data = folder + '/victim', folder + '/data'
        with open(victim, 'w') as f:
            f.write('precious')
        os.mkdir(data, 0o700)
        os.mkdir(data + '/pki', 0o700)
        for name in ('admin.kubeconfig', 'dray.db.restoring', 'pki/ca.crt.tmp'):
            os.symlink(victim, f'{data}/{name}')
        p = subprocess.Popen([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = p.stdout.readline()
        p.terminate()
        rest = p.communicate(timeout=60)
        assert 'ready at' in line, rest
        assert open(victim).read() == 'precious', 'a link was written through'
        assert not os.path.islink(data + '/admin.kubeconfig')
        # A socket's place that is something else is left alone.
        os.unlink(data + '/dray.sock') if os.path.lexists(data + '/dray.sock') else None
        os.symlink(victim, data + '/dray.sock')
        run = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and 'not a socket' in run.stderr and open(victim).read() == 'precious' and os.path.islink(data + '/dray.sock'), run
        os.unlink(data + '/dray.sock')
        # Keys are not kept where others write, nor tokens read that others may read or write.
        os.chmod(data, 0o777)
        run = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and 'chmod 700' in run.stderr, run
        os.chmod(data, 0o700)
        with open(folder + '/tokens', 'w') as f:
            f.write('t,u,,\n')
        os.chmod(folder + '/tokens', 0o644)
        run = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0', '--token-file', folder + '/tokens'], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and 'chmod 600' in run.stderr, run
        if os.geteuid() == 0:  # a folder of somebody else: they could put other keys there
            os.chown(data, 65534, 65534)
            run = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
            assert run.returncode == 1 and 'belongs to' in run.stderr, run
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- Browsers -----------------------------------------------------------------------------------------------------------


def ask(port, method='GET', path='/api/v1/namespaces', body=None, **headers):
    k = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    k.putrequest(method, path, skip_host=True)
    data = json.dumps(body).encode() if body else b''
    for name, value in {'Host': f'127.0.0.1:{port}', 'Content-Length': str(len(data)), **{n.replace('_', '-'): v for n, v in headers.items()}}.items():
        k.putheader(name, value)
    k.endheaders(data)
    a = k.getresponse()
    a.read()
    k.close()
    return a


def pages():
    with Cluster(flags=('--insecure-http',)) as c:
        p = c.port
        for host in (f'127.0.0.1:{p}', f'localhost:{p}', f'[::1]:{p}', '127.0.0.1'):
            assert ask(p, Host=host).status == 200, host
        # Another name that leads here, by whoever answers for that name.
        for host in ('evil.example', f'evil.example:{p}', f'127.0.0.1.evil.example:{p}', f'127.evil.example:{p}', f'localhost.evil.example:{p}', f'[::2]:{p}', 'x:127.0.0.1'):
            assert ask(p, Host=host).status in (400, 403), host
        # A page of another site.
        for origin in ('https://evil.example', 'null', f'https://127.0.0.1:{p}.evil.example', 'http://127.0.0.1:1', 'garbage', 'file://'):
            assert ask(p, Origin=origin).status == 403, origin
            assert ask(p, 'POST', body={'metadata': {'name': 'from-a-page'}}, Origin=origin, Content_Type='text/plain').status == 403, origin
        a = ask(p, Origin=f'http://127.0.0.1:{p}')
        assert a.status == 200 and not [h for h in a.headers if h.lower().startswith('access-control')]
        names = [n['metadata']['name'] for n in c.good('GET', '/api/v1/namespaces')['items']]
        assert 'from-a-page' not in names
    # With TLS: a certificate that a browser shows by itself does not help a page of another site; a token is the page's own.
    with Cluster() as c:
        context = ssl.create_default_context(cafile=c.data + '/pki/ca.crt')
        context.load_cert_chain(c.data + '/pki/admin.crt', c.data + '/pki/admin.key')
        k = http.client.HTTPSConnection('127.0.0.1', c.port, context=context, timeout=60)
        for headers, want in (({}, 200), ({'Origin': 'https://evil.example'}, 403), ({'Origin': f'https://127.0.0.1:{c.port}'}, 200)):
            k.request('GET', '/api/v1/namespaces', headers=headers)
            a = k.getresponse()
            a.read()
            assert a.status == want, (headers, a.status)
        assert c.call('GET', '/api/v1/namespaces', headers=[('Origin', 'https://console.example')])[0] == 200


def metrics(c):
    """Nobody in particular sees how the server is, and nothing else."""
    for path in ('/metrics', '/api', '/apis', '/openapi/v3', '/openid/v1/jwks', '/dray/check', '/dray/explain', '/api/v1/namespaces'):
        assert c.call('GET', path, token=None)[0] == 401, path
    assert c.call('POST', '/dray/backup?path=/tmp/x', token=None)[0] == 401


def main():
    loopback()
    as_nobody()
    links()
    pages()
    print('processes: loopback, few privileges, files for their owner, no pages of other sites')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: a node to which the server passes commands and logs on learns nothing that it could use elsewhere: no token, no cookie, no name that the user acts under;
and it is asked only if its certificate is the cluster's for its address. What a node says its address is leads to no other path of any server than those of a
kubelet. The key that speaks to nodes opens nothing else, also where an older program had made one that did. Usage: passing.py DRAY"""
import base64, glob, json, os, shutil, socket, ssl, subprocess, tempfile, threading
from kit import DRAY, ROOT, Cluster, read_all, rule

USERS = {'exec-token-77aa': ('erna', '')}
PODS = '/api/v1/namespaces/default/pods'


class Spy(threading.Thread):
    """A node's endpoint that writes down what it is asked and answers 403."""

    def __init__(self, certificate, key, address='127.0.0.1', act=None):
        super().__init__(daemon=True)
        self.act = act
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.socket = socket.create_server((address, 0))
        self.port = self.socket.getsockname()[1]
        self.heads, self.failed = [], 0
        self.start()

    def run(self):
        while True:
            raw, _ = self.socket.accept()
            raw.settimeout(20)
            try:
                with self.context.wrap_socket(raw, server_side=True) as c:
                    head = b''
                    while b'\r\n\r\n' not in head:
                        part = c.recv(65536)
                        if not part:
                            break
                        head += part
                    if not head:
                        continue  # it hung up when it saw who is here
                    self.heads.append(head)
                    if self.act:
                        self.act(c)
                        continue
                    c.sendall(b'HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nno')
            except (OSError, ssl.SSLError):
                self.failed += 1


def node(c, name, port, address='127.0.0.1'):
    c.good('POST', '/api/v1/nodes', {'metadata': {'name': name}})
    c.good('PATCH', f'/api/v1/nodes/{name}/status', {'status': {'addresses': [{'type': 'InternalIP', 'address': address}], 'daemonEndpoints': {'kubeletEndpoint': {'Port': port}}}})
    c.good('POST', PODS, {'metadata': {'name': 'on-' + name}, 'spec': {'nodeName': name, 'containers': [{'name': 'c', 'image': 'x'}]}})


def upgrade(c, path, *headers):
    """The status of a request to leave HTTP."""
    with c.raw(None, 'http/1.1') as s:
        lines = [f'GET {path} HTTP/1.1', 'Host: a', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: ' + base64.b64encode(os.urandom(16)).decode(), 'Sec-WebSocket-Protocol: v5.channel.k8s.io', *headers]
        s.sendall('\r\n'.join(lines + ['', '']).encode())
        return int(s.recv(12).split()[1])


def credentials(c):
    spy = Spy(c.data + '/pki/server.crt', c.data + '/pki/server.key')
    node(c, 'spy', spy.port)
    c.role('', 'execs', rule('get create', 'pods pods/exec pods/attach pods/portforward pods/log'), rule('impersonate', 'users', names=['erna']))
    c.bind('', 'execs', 'erna')
    parts = [f'{PODS}/on-spy/exec?command=id&stdout=1', f'{PODS}/on-spy/attach?stdout=1', f'{PODS}/on-spy/portforward?ports=1']
    secret = ('Authorization: Bearer exec-token-77aa', 'Cookie: session=cookie-88bb', 'Proxy-Authorization: Basic cHJveHktOTljYw==', 'Impersonate-User: erna', 'X-Remote-User: root', 'X-Remote-Group: system:masters', 'Origin: https://page.example',
              'Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.dG9rZW4tMTFkZA, v4.channel.k8s.io', 'sec-websocket-protocol: base64url.bearer.authorization.k8s.io.dG9rZW4tMTFkZA')
    for path in parts:
        assert upgrade(c, path, *secret) == 403, path
    c.refused('GET', f'{PODS}/on-spy/log', token='exec-token-77aa', headers=[('Cookie', 'session=cookie-88bb')], code=403)
    assert len(spy.heads) == 4, spy.heads
    for head in spy.heads:
        assert b'upgrade: websocket' not in head.lower() or b'v5.channel.k8s.io' in head and b'v4.channel.k8s.io' in head, head
        for word in (b'exec-token-77aa', b'dg9rzw4tmtfkza', b'bearer', b'cookie-88bb', b'chjvehktotljyw', b'impersonate', b'x-remote', b'authorization', b'page.example'):
            assert word not in head.lower(), (word, head)
        first = head.split(b'\r\n')[0]
        assert first.split()[1].split(b'/')[1] in (b'exec', b'attach', b'portForward', b'containerLogs'), first
    # Without the right to it nothing is passed on at all, whatever the verb: an upgrade is a create.
    c.role('', 'reads', rule('get list watch', 'pods pods/exec pods/attach pods/portforward pods/log'))
    c.good('DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterroles/execs')
    for path in parts:
        assert upgrade(c, path, 'Authorization: Bearer exec-token-77aa') == 403
    c.bind('', 'reads', 'erna')
    for path in parts:
        assert upgrade(c, path, 'Authorization: Bearer exec-token-77aa') == 403
        assert upgrade(c, path) == 401
    assert len(spy.heads) == 4, 'it was passed on without the right to it'


def strangers(c):
    """An endpoint whose certificate somebody else made, or that is for another name: it is not spoken to."""
    made = subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', c.folder + '/own.key', '-out', c.folder + '/own.crt', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    spies = [Spy(c.folder + '/own.crt', c.folder + '/own.key'), Spy(c.data + '/pki/server.crt', c.data + '/pki/server.key', '127.0.0.77')]
    node(c, 'own', spies[0].port)
    node(c, 'elsewhere', spies[1].port, '127.0.0.77')  # not a name of the certificate
    for name in ('own', 'elsewhere'):
        assert upgrade(c, f'{PODS}/on-{name}/exec?command=id&stdout=1', 'Authorization: Bearer ' + ROOT) >= 500, name
        assert c.call('GET', f'{PODS}/on-{name}/log')[0] >= 500, name
    assert not any(s.heads for s in spies), [s.heads for s in spies]


def unverified(c):
    """Who reads a log may ask for a node whose certificate nobody vouches for; commands go to none, and neither carries a credential."""
    spy = Spy(c.folder + '/own.crt', c.folder + '/own.key')
    node(c, 'skip', spy.port)
    assert upgrade(c, f'{PODS}/on-skip/exec?command=id&stdout=1&insecureSkipTLSVerifyBackend=true', 'Authorization: Bearer ' + ROOT) >= 500
    assert not spy.heads
    c.refused('GET', f'{PODS}/on-skip/log?insecureSkipTLSVerifyBackend=true', code=403, headers=[('Cookie', 'session=cookie-88bb')])
    assert len(spy.heads) == 1 and ROOT.encode() not in spy.heads[0] and b'cookie' not in spy.heads[0].lower(), spy.heads


def forever(beginning, part):
    def act(s):
        s.sendall(beginning)
        while True:
            s.sendall(part)
    return act


def talkers(c):
    """Nodes that answer without end: what is kept of it is bounded, and whoever asked is told."""
    interim = b'HTTP/1.1 100 Continue\r\nX: ' + b'y' * 8000 + b'\r\n\r\n'
    manners = {'interim': forever(b'', interim), 'head': forever(b'HTTP/1.1 101 Switching Protocols\r\n', b'X: ' + b'y' * 8000 + b'\r\n'), 'line': forever(b'HTTP/1.1 101 ', b'y' * 8000),
               'refusal': forever(b'HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n\r\n', b'y' * 8000), 'chunks': forever(b'HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n', b'1;' + b'x' * 200 + b'\r\ny\r\n'),
               'nonsense': forever(b'', b'\0' * 8000)}
    for name, act in manners.items():
        spy = Spy(c.data + '/pki/server.crt', c.data + '/pki/server.key', act=act)
        node(c, 'talks-' + name, spy.port)
        before = c.memory_kib()
        assert upgrade(c, f'{PODS}/on-talks-{name}/exec?command=id&stdout=1', 'Authorization: Bearer ' + ROOT) >= 500, name
        code, text = c.call('GET', f'{PODS}/on-talks-{name}/log')
        assert code >= 500 and len(text) < 1 << 20, (name, code, len(text))
        grown = (c.memory_kib() - before) >> 10
        assert grown < 100, f'{name}: {grown} MiB more'


ADDRESSES = ['127.0.0.1/api/v1/secrets?x=', '127.0.0.1?x', '127.0.0.1#', 'root@127.0.0.1', '127.0.0.1 ', '127.0.0.1\r\nX: y', '[::1]', '%31%32%37.0.0.1', '127.0.0.1\\x', 'a' * 300, '127.0.0.1\t']


def addresses(c):
    """A node's address is a host, and becomes no path, user or header."""
    for number, address in enumerate(ADDRESSES):
        name = f'odd-{number}'
        node(c, name, c.port, address)
        code, text = c.call('GET', f'{PODS}/on-{name}/log')
        assert code == 500 and 'neither an IP address' in text, (address, code, text)
        assert upgrade(c, f'{PODS}/on-{name}/exec?command=id&stdout=1', 'Authorization: Bearer ' + ROOT) == 500, address


def at_itself(c):
    """A node that says it lives where the server does: the server asks itself, for paths it does not have."""
    node(c, 'mirror', c.port)
    code = upgrade(c, f'{PODS}/on-mirror/exec?command=id&stdout=1', 'Authorization: Bearer ' + ROOT)
    assert code in (403, 404), code
    assert c.call('GET', f'{PODS}/on-mirror/log')[0] in (403, 404)
    # Names that would be other paths are none.
    for name in ('..', '%2e%2e', 'x%2fy', 'on-mirror%2f..%2f..'):
        assert c.call('GET', f'{PODS}/{name}/log')[0] in (400, 404), name
    for container in ('../../../api/v1/secrets', '..%2f..%2fapi', 'c/../../..'):
        assert c.call('GET', f'{PODS}/on-mirror/log?container={container}')[0] == 400, container
    for bad in ('a/b', '..', 'c%00'):
        c.refused('POST', PODS, {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': bad, 'image': 'x'}]}}, code=422)


def subject(certificate):
    return subprocess.run(['openssl', 'x509', '-noout', '-subject', '-nameopt', 'RFC2253', '-in', certificate], capture_output=True, text=True, check=True).stdout.strip()


ONLY_NODES = 'subject=CN=kube-apiserver-kubelet-client'


def identity(c):
    """Whoever got hold of the certificate that is shown to nodes: it is of no group, and reads and writes nothing here."""
    assert subject(c.data + '/pki/kubelet-client.crt') == ONLY_NODES
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(c.data + '/pki/kubelet-client.crt', c.data + '/pki/kubelet-client.key')

    def ask(method, path, body=b'{}', *headers):
        with c.raw(context) as s:
            s.sendall('\r\n'.join([f'{method} {path} HTTP/1.1', 'Host: a', 'Connection: close', 'Content-Type: application/json', f'Content-Length: {len(body)}', *headers, '', '']).encode() + body)
            head, _, rest = read_all(s).partition(b'\r\n\r\n')
        return int(head.split()[1]), rest
    code, text = ask('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews')
    assert code == 201 and json.loads(text)['status']['userInfo'] == {'username': 'kube-apiserver-kubelet-client', 'groups': ['system:authenticated']}, text
    pods = PODS + '/on-spy'
    for method, path in (('GET', '/api/v1/nodes'), ('GET', '/api/v1/nodes/spy'), ('GET', '/api/v1/secrets'), ('GET', pods), ('GET', pods + '/log'), ('GET', pods + '/exec?command=id'), ('POST', pods + '/exec?command=id'), ('DELETE', pods),
                         ('POST', '/api/v1/namespaces'), ('PATCH', '/api/v1/nodes/spy/status'), ('GET', '/metrics'), ('GET', '/dray/check'), ('POST', '/dray/backup?path=/tmp/x'), ('GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles'),
                         ('POST', '/apis/authentication.k8s.io/v1/tokenreviews'), ('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews')):
        code, text = ask(method, path)
        assert code == 403, (method, path, code, text[:200])
    assert ask('GET', '/api/v1/nodes', b'', 'Impersonate-User: root', 'Impersonate-Group: system:masters')[0] == 403
    # To nodes it may speak: they ask this server.
    for verb, part, want in (('get', 'proxy', True), ('create', 'proxy', True), ('delete', 'proxy', False), ('get', 'metrics', False), ('get', 'log', False), ('update', 'status', False)):
        got = c.good('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'user': 'kube-apiserver-kubelet-client', 'resourceAttributes': {'verb': verb, 'resource': 'nodes', 'subresource': part, 'name': 'spy'}}})
        assert got['status']['allowed'] == want, (verb, part, got['status'])


def older_folders(c):
    """A folder in which an older program had made one of system:masters: a start makes another, and keeps a good one."""
    folder = tempfile.mkdtemp(prefix='dray-older-')
    try:
        pki = folder + '/data/pki'
        os.mkdir(folder + '/data', 0o700)
        shutil.copytree(c.data + '/pki', pki)
        with open(folder + '/ext', 'w') as f:
            f.write('extendedKeyUsage=clientAuth\n')
        for command in (['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', pki + '/kubelet-client.key', '-subj', '/O=system:masters/CN=kube-apiserver-kubelet-client', '-out', folder + '/csr'],
                        ['x509', '-req', '-in', folder + '/csr', '-CA', pki + '/ca.crt', '-CAkey', pki + '/ca.key', '-set_serial', '7', '-days', '300', '-extfile', folder + '/ext', '-out', pki + '/kubelet-client.crt']):
            subprocess.run(['openssl', *command], capture_output=True, check=True)
        others = {p: open(p).read() for p in glob.glob(pki + '/*') if 'kubelet-client' not in p}
        assert 'system:masters' in subject(pki + '/kubelet-client.crt')
        made = []
        for _ in range(2):
            p = subprocess.Popen([DRAY, 'server', '--data-dir', folder + '/data', '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            line = p.stdout.readline()
            p.terminate()
            rest = p.communicate(timeout=90)
            assert 'ready at' in line, rest
            made.append(open(pki + '/kubelet-client.crt').read())
        assert subject(pki + '/kubelet-client.crt') == ONLY_NODES
        assert made[0] == made[1], 'it is made anew with every start'
        assert {p: open(p).read() for p in others} == others, 'others were made anew'
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    with Cluster(USERS, env={'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=4'}) as c:
        credentials(c)
        strangers(c)
        unverified(c)
        talkers(c)
        addresses(c)
        at_itself(c)
        identity(c)
        older_folders(c)
        c.alive()
    print('passing: nodes get requests and no credentials')


if __name__ == '__main__':
    main()

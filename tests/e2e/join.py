#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray join` between network namespaces: a control plane in one, a joined node in another, a veth pair between them. Bad hashes, tokens and
names are refused in one line; the joined node runs a pod with a simulated device; logs and commands go through the server to it; its
certificates are renewed; a restart continues without the token; it follows a CA that is replaced; requests that ask for too much are denied. Needs root, network
namespaces, crun or runc, and a static busybox; else it is skipped. Usage: join.py DRAY"""
import base64, os, re, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_kit import *  # noqa: E402

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests'
SERVER, NODE, UNNAMED = '10.213.7.1', '10.213.7.2', '10.213.7.9'  # UNNAMED: the server's as well, but not in its certificate


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def skip(why):
    print(f'skipped: {why}')
    raise SystemExit(77)


class Wires:
    """Two network namespaces and what connects them."""

    def __init__(self, tag):
        self.names = [f'dj{tag}a', f'dj{tag}b']
        links = [n[:14] + 'v' for n in self.names]
        for n in self.names:
            if run('ip', 'netns', 'add', n).returncode != 0:
                self.end()
                skip('network namespaces cannot be made here')
        if run('ip', 'link', 'add', links[0], 'type', 'veth', 'peer', 'name', links[1]).returncode != 0:
            self.end()
            skip('veth pairs cannot be made here')
        for n, link, address in zip(self.names, links, (SERVER, NODE)):
            run('ip', 'link', 'set', link, 'netns', n, check=True)
            run('ip', '-n', n, 'link', 'set', 'lo', 'up', check=True)
            run('ip', '-n', n, 'addr', 'add', address + '/24', 'dev', link, check=True)
            run('ip', '-n', n, 'link', 'set', link, 'up', check=True)

    def at(self, which):
        """Not `ip netns exec`, which hides the control groups."""
        return ['nsenter', f'--net=/run/netns/{self.names[which]}']

    def end(self):
        for n in self.names:
            run('ip', 'netns', 'del', n)


class Joined(Cluster):
    """A cluster whose control plane is in a namespace of its own, listening beyond loopback."""

    def __init__(self, dray):
        self.wires = Wires(str(os.getpid() % 10000))
        super().__init__(dray)

    def start(self):
        data = os.path.join(self.folder, 'up')
        self.up = subprocess.Popen([*self.wires.at(0), self.dray, 'up', '--nodes', '1', '--sim', 'example-gpu', '--data-dir', data, '--listen', '0.0.0.0:0'],
                                   stdout=subprocess.PIPE, stderr=open(os.path.join(self.folder, 'up.err'), 'a'), text=True)
        card = ''
        for line in self.up.stdout:
            card += line
            if 'Ctrl-C' in line:
                break
        assert 'dray is up at' in card, card + open(os.path.join(self.folder, 'up.err')).read()[-2000:]
        assert 'dray token create --print-join-command' in card, card
        self.kubeconfig = os.path.join(data, 'admin.kubeconfig')

    def admin(self, *words):
        return run(*self.wires.at(0), self.dray, *words, env=dict(os.environ, KUBECONFIG=self.kubeconfig))

    def join(self, *words, timeout='5s'):
        """A join that gets its certificate, or does not, and ends."""
        return run(*self.wires.at(1), self.dray, 'join', *words, '--only', '--timeout', timeout)


def refused(got, words):
    assert got.returncode == 1, got
    lines = got.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith('dray join: '), got.stderr
    assert re.search(words, lines[0]), f'{words!r} is not in {lines[0]!r}'


# --- Before ---------------------------------------------------------------------------------------

def command_of(c):
    got = c.admin('token', 'create', '--print-join-command', '--description', 'the rack')
    m = re.fullmatch(r'dray join (\S+) --ca-hash (sha256:[0-9a-f]{64}) --token ([a-z0-9]{6}\.[a-z0-9]{16})\n', got.stdout)
    assert got.returncode == 0 and m, got
    assert m[1].startswith(SERVER + ':'), m[1]
    # The hash is the one that openssl makes of the CA's public key.
    pki = os.path.join(c.folder, 'up', 'pki', 'ca.crt')
    der = subprocess.run(f'openssl x509 -in {pki} -pubkey -noout | openssl pkey -pubin -outform der | sha256sum', shell=True, capture_output=True, text=True)
    assert der.stdout.split()[0] == m[2][7:], der
    listed = c.admin('token', 'list').stdout
    assert m[3][:6] in listed and m[3] not in listed and 'the rack' in listed, listed
    assert m[3] in c.admin('token', 'list', '--show-secrets').stdout
    return m.groups()


def bad_input(c, address, pin, token):
    data = ['--data-dir', os.path.join(c.folder, 'bad'), '--node-name', 'second']
    refused(c.join(address, '--token', token, '--ca-hash', 'sha256:' + '0' * 64, *data), 'another CA')
    refused(c.join(address, '--token', token[:7] + 'x' * 16, '--ca-hash', pin, *data), 'secret of the token .* is wrong')
    refused(c.join(address, '--token', 'zzzzzz.' + 'x' * 16, '--ca-hash', pin, *data, timeout='1s'), 'does not know the token')
    refused(c.join(address, '--token', 'nonsense', '--ca-hash', pin, *data), '--token is ID.SECRET')
    refused(c.join(address, '--token', token, '--ca-hash', 'md5:1', *data), '--ca-hash is')
    refused(c.join(f'{SERVER}:1', '--token', token, '--ca-hash', pin, *data, timeout='1s'), 'no answer from')
    run('ip', '-n', c.wires.names[0], 'addr', 'add', UNNAMED + '/32', 'dev', 'lo', check=True)
    refused(c.join(address.replace(SERVER, UNNAMED), '--token', token, '--ca-hash', pin, *data), "certificate is not for " + UNNAMED)
    refused(c.join(address, '--token', token, '--ca-hash', pin, *data[:2], '--node-name', 'example-gpu-0'), 'living node example-gpu-0')
    refused(c.join(*data[:2]), 'no earlier join is recorded in')
    # Expired: made as good for a second, and gone from the list soon after.
    old = c.admin('token', 'create', 'oldold.0123456789abcdef', '--ttl', '1s')
    assert old.returncode == 0, old
    c.until('the expired token is gone', lambda: c.call('GET', '/api/v1/namespaces/kube-system/secrets/bootstrap-token-oldold')[0] == 404, 30)
    refused(c.join(address, '--token', 'oldold.0123456789abcdef', '--ca-hash', pin, *data, timeout='1s'), 'expired or was deleted')
    assert not os.path.exists(os.path.join(c.folder, 'bad', 'node.kubeconfig'))
    # Nothing that was said holds a secret.
    assert token[7:] not in open(os.path.join(c.folder, 'up.err')).read()


def anonymous(c):
    """Without credentials cluster-info can be read, and nothing beside it."""
    port = re.search(r':(\d+)$', open(c.kubeconfig).read().split('server: ')[1].split('\n')[0])[1]
    def ask(path, *more):
        got = run(*c.wires.at(1), 'curl', '-sk', '-o', '/dev/null', '-w', '%{http_code}', *more, f'https://{SERVER}:{port}{path}')
        return got.stdout
    info = '/api/v1/namespaces/kube-public/configmaps/cluster-info'
    assert ask(info) == '200'
    assert ask('/api/v1/namespaces/kube-public/configmaps') == '401' and ask(info + '?watch=true') == '401' and ask(info, '-X', 'DELETE') == '401'
    assert ask('/api/v1/nodes') == '401' and ask('/api/v1/nodes', '-H', 'Authorization: Bearer abcdef.0123456789abcdef') == '401'


# --- The node -------------------------------------------------------------------------------------

class Second:
    def __init__(self, c):
        self.c, self.data = c, os.path.join(c.folder, 'second')
        self.process = None

    def start(self, *words):
        c = self.c
        self.process = subprocess.Popen(
            [*c.wires.at(1), DRAY, 'join', *words, '--data-dir', self.data, '--node-name', 'second', '--sim', 'example-gpu', '--image-dir', c.images,
             '--bridge', 'dr' + c.tag + 'b', '--cgroup', 'dray-' + c.tag, '--pod-subnet', '10.214.7.0/24', '--listen', '0.0.0.0:0', '--renew-after', '2s'],
            stdout=open(os.path.join(c.folder, 'second.out'), 'w'), stderr=open(os.path.join(c.folder, 'second.err'), 'a'))
        self.until_ready()

    def said(self):
        return open(os.path.join(self.c.folder, 'second.out')).read()

    def until_ready(self):
        def ready():
            assert self.process.poll() is None, 'the joined node ended: ' + self.c.tell()
            code, n = self.c.call('GET', '/api/v1/nodes/second')
            return 'registered node' in self.said() and code == 200 and any(x['type'] == 'Ready' and x['status'] == 'True' for x in n['status'].get('conditions', []))
        self.c.until('the joined node is ready', ready)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            assert self.process.returncode == 0, self.c.tell()

    def client_certificate(self):
        return open(os.path.join(self.data, 'pki', 'node-client.pem')).read()


def a_pod(c):
    template = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': 'gpu'},
                'spec': {'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': 'gpu.example.com'}}]}}}}
    c.good('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates', template)
    p = pod('worker', [container('main', 'env; echo ready; ' + FOREVER, resources={'claims': [{'name': 'gpu'}]})],
            nodeSelector={'kubernetes.io/hostname': 'second'}, resourceClaims=[{'name': 'gpu', 'resourceClaimTemplateName': 'gpu'}])
    c.good('POST', PODS, p)
    c.until('the pod runs', lambda: c.phase('worker', 'Running'))
    assert c.pod('worker')['spec']['nodeName'] == 'second'
    claim = c.good('GET', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims')['items'][0]
    result = claim['status']['allocation']['devices']['results'][0]
    assert result['pool'] == 'second', result
    return result['device']


def through_the_server(c, s, device):
    """The server reaches the node's endpoint with a certificate that its own CA signed."""
    c.until('the endpoint has its certificate', lambda: "the endpoint's certificate is new" in s.said())
    def log():
        code, text = c.call('GET', f'{PODS}/worker/log')
        return code == 200 and isinstance(text, str) and 'ready' in text and text
    text = c.until('logs come', log)
    assert device.replace('-', '_').upper() in text.upper() or device in text, text
    got = c.admin('exec', 'worker', '--', 'echo', 'from afar')
    assert got.returncode == 0 and got.stdout == 'from afar\n', got


def renewal(c, s):
    before = s.client_certificate()
    c.until('the client certificate is renewed', lambda: s.client_certificate() != before)
    c.until('twice', lambda: s.said().count("the node's certificate is new") >= 2)
    users = {r['spec']['username'] for r in c.good('GET', CSRS)['items']}
    assert 'system:node:second' in users, users


def restart(c, s, token):
    s.stop()
    c.good('DELETE', f'/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token[:6]}')
    s.start()  # neither address nor token
    assert 'continuing as the node second' in s.said(), s.said()
    c.until('the pod goes on', lambda: c.phase('worker', 'Running'))
    refused(c.join('--data-dir', s.data, '--node-name', 'third'), 'has joined as second')


def other_ca(c, s):
    """Through the three steps of 'dray rotate ca' the node stays ready, gets certificates of the new CA, and is reached."""
    data, mine = os.path.join(c.folder, 'up'), os.path.join(s.data, 'pki')
    ours = lambda: open(os.path.join(data, 'pki', 'ca.crt')).read()
    of = lambda pem: run('openssl', 'verify', '-CAfile', pem, os.path.join(mine, 'node-client.pem')).returncode == 0 and \
        run('openssl', 'verify', '-CAfile', pem, os.path.join(mine, 'node-serving.pem')).returncode == 0
    reached = lambda: c.admin('exec', 'worker', '--', 'echo', 'still here').stdout == 'still here\n'
    new = os.path.join(c.folder, 'new-ca.crt')
    for words in ([], ['--issue'], ['--finish']):
        got = run(DRAY, 'rotate', 'ca', '--data-dir', data, *words)
        assert got.returncode == 0, got
        c.until('the node trusts what the server does ' + str(words), lambda: open(os.path.join(mine, 'ca.crt')).read() == ours(), 60)
        if words:
            with open(new, 'w') as f:
                f.write(ours().split('-----END CERTIFICATE-----')[0] + '-----END CERTIFICATE-----\n')
            c.until('certificates of the new CA ' + str(words), lambda: of(new), 60)
        c.until('the server reaches the node ' + str(words), reached, 60)
        s.until_ready()
    before = c.good('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/second')['spec']['renewTime']
    c.until('the node renews its lease', lambda: c.good('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/second')['spec']['renewTime'] != before, 60)


# --- Requests that ask for too much ---------------------------------------------------------------

def request(c, subject, names=()):
    conf = os.path.join(c.folder, 'csr.conf')
    with open(conf, 'w') as f:
        f.write('[req]\ndistinguished_name=dn\n[dn]\n')
    more = ['-addext', 'subjectAltName=' + ','.join(names)] if names else []
    made = run('openssl', 'req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', os.devnull, '-subj', subject, '-config', conf, *more)
    assert made.returncode == 0, made.stderr
    return base64.b64encode(made.stdout.encode()).decode()


def hostile(c, s, server_port):
    """As the joined node, with its certificate: what it may not have is denied, and the message says why."""
    node, kubelet = '/O=system:nodes/CN=system:node:second', 'kubernetes.io/kube-apiserver-client-kubelet'
    serving = 'kubernetes.io/kubelet-serving'
    client, server = ['digital signature', 'client auth'], ['digital signature', 'server auth']
    cases = [
        ('other', '/O=system:nodes/CN=system:node:example-gpu-0', (), kubelet, client, 'its own certificate only'),
        ('masters', '/O=system:masters/CN=system:node:second', (), kubelet, client, 'system:nodes and no other'),
        ('both', '/O=system:nodes/O=system:masters/CN=system:node:second', (), kubelet, client, 'system:nodes and no other'),
        ('admin', '/O=system:nodes/CN=admin', (), kubelet, client, 'system:node:NAME'),
        ('names', node, ('DNS:second',), kubelet, client, 'no subject alternative names'),
        ('usages', node, (), kubelet, server, 'not for it'),
        ('server', node, ('DNS:kubernetes.default.svc',), serving, server, "is the API server's"),
        ('address', node, ('IP:' + SERVER,), serving, server, "is the API server's"),
        ('loopback', node, ('IP:127.0.0.1',), serving, server, "every machine's own"),
        ('stranger', node, ('DNS:example.com',), serving, server, 'not among the addresses'),
        ('neighbour', node, ('DNS:example-gpu-0',), serving, server, "another node's"),
        ('mail', node, ('email:a@example.com',), serving, server, 'DNS names or addresses'),
    ]
    for name, subject, names, signer, usages, _ in cases:
        body = {'apiVersion': 'certificates.k8s.io/v1', 'kind': 'CertificateSigningRequest', 'metadata': {'name': name},
                'spec': {'request': request(c, subject, names), 'signerName': signer, 'usages': usages}}
        path = os.path.join(c.folder, 'csr.json')
        with open(path, 'w') as f:
            json.dump(body, f)
        pki = os.path.join(s.data, 'pki')
        got = run(*c.wires.at(1), 'curl', '-s', '--cacert', pki + '/ca.crt', '--cert', pki + '/node-client.pem', '--key', pki + '/node-client.pem',
                  '-H', 'Content-Type: application/json', '--data-binary', '@' + path, f'https://{SERVER}:{server_port}{CSRS}')
        assert '"uid"' in got.stdout, (name, got.stdout[:500])
    for name, *_, words in cases:
        def denied():
            conditions = c.good('GET', f'{CSRS}/{name}')['status'].get('conditions', [])
            return [x for x in conditions if x['type'] == 'Denied']
        condition = c.until(f'{name} is denied', denied, 30)[0]
        assert words in condition['message'], (name, condition)
        assert 'certificate' not in c.good('GET', f'{CSRS}/{name}')['status']


def malformed(c):
    good = request(c, '/O=system:nodes/CN=system:node:x')
    def post(**spec):
        body = {'apiVersion': 'certificates.k8s.io/v1', 'kind': 'CertificateSigningRequest', 'metadata': {'generateName': 'm-'},
                'spec': dict({'request': good, 'signerName': 'example.com/any', 'usages': ['client auth']}, **spec)}
        code, answer = c.call('POST', CSRS, body)
        return code, answer.get('message', '')
    assert post()[0] == 201
    pem = base64.b64decode(good).decode()
    broken = pem[:100] + ('A' if pem[100] != 'A' else 'B') + pem[101:]
    for spec, words in [({'request': base64.b64encode(b'nothing').decode()}, 'must be CERTIFICATE REQUEST'),
                        ({'request': base64.b64encode(broken.encode()).decode()}, 'spec.request'),
                        ({'usages': []}, 'spec.usages: Required'), ({'usages': ['x']}, 'spec.usages[0]: Unsupported'),
                        ({'signerName': 'nodots/x'}, 'at least two segments'), ({'signerName': 'a'}, 'fully qualified domain'),
                        ({'signerName': 'kubernetes.io/legacy-unknown'}, 'legacy signerName'), ({'expirationSeconds': 5}, '600')]:
        code, message = post(**spec)
        assert code == 422 and words in message, (spec, code, message)


def main():
    skip_if_impossible()
    for tool in ('ip', 'nsenter', 'openssl', 'curl'):
        if not shutil.which(tool):
            skip(f'{tool} is not there')
    c = Joined(DRAY)
    s = Second(c)
    done = False
    try:
        make_image(os.path.join(c.images, 'busybox'))
        address, pin, token = command_of(c)
        anonymous(c)
        bad_input(c, address, pin, token)
        s.start(address, '--token', token, '--ca-hash', pin)
        device = a_pod(c)
        through_the_server(c, s, device)
        renewal(c, s)
        restart(c, s, token)
        other_ca(c, s)
        hostile(c, s, address.split(':')[1])
        malformed(c)
        c.good('DELETE', f'{PODS}/worker')
        c.until('the pod is gone', lambda: c.pod('worker') is None)
        s.stop()
        c.stop()
        done = True
    finally:
        if not done:
            print(c.tell(), file=sys.stderr)
        c.wreck()
        c.wires.end()
    print('join: all checks passed')


main()

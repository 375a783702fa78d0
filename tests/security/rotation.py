#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the key for tokens of service accounts is replaced while the server runs: new tokens have the new key, old ones are valid until the old key is dropped, the key set lists
all; a key file of no use changes nothing. The CA is replaced in three steps: clients that stay connected, old and new certificates and new requests work through
all of them, the old CA is believed until the last one, and an interrupted step leaves a directory that starts. Usage: rotation.py DRAY"""
import base64, http.client, json, os, re, shutil, socket, ssl, subprocess, tempfile, threading, time
from kit import DRAY, Cluster, until

PATH = '/api/v1/namespaces/default/serviceaccounts/robot/token'
CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests'


def rotate(c, *more, good=True):
    p = subprocess.run([DRAY, 'rotate', 'service-account-keys', '--data-dir', c.data, *more], capture_output=True, text=True, timeout=60)
    assert (p.returncode == 0) == good, (p.stdout, p.stderr)
    return p.stderr


def key_ids(c):
    return [k['kid'] for k in c.good('GET', '/openid/v1/jwks')['keys']]


def key_of(token):
    head = token.split('.')[0]
    return json.loads(base64.urlsafe_b64decode(head + '=' * (-len(head) % 4)))['kid']


def shown(c):
    """The serving certificate, as a new connection sees it."""
    return ssl.get_server_certificate(('127.0.0.1', c.port))


def serving():
    """A new serving certificate: of the same CA, for the same names, while the server runs."""
    with Cluster() as c:
        trust = ssl.create_default_context(cafile=c.data + '/pki/ca.crt')
        def trusted():
            with socket.create_connection(('127.0.0.1', c.port)) as s, trust.wrap_socket(s, server_hostname='localhost') as t:
                return t.getpeercert()
        before, names = shown(c), trusted()['subjectAltName']
        run = subprocess.run([DRAY, 'rotate', 'serving', '--data-dir', c.data], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        until('the new certificate', lambda: shown(c) != before)
        assert trusted()['subjectAltName'] == names
        assert os.stat(c.data + '/pki/server.key').st_mode & 0o777 == 0o600
    missing = subprocess.run([DRAY, 'rotate', 'serving', '--data-dir', '/nonexistent'], capture_output=True, text=True, timeout=60)
    assert missing.returncode != 0 and 'server.names' in missing.stderr, missing.stderr


def refused(data, name, text):
    """A server with this content in a key file does not start, and says which file it is."""
    path = f'{data}/pki/{name}'
    with open(path) as f:
        good = f.read()
    with open(path, 'w') as f:
        f.write(text)
    run = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
    with open(path, 'w') as f:
        f.write(good)
    assert run.returncode != 0 and name in run.stderr, (name, run.returncode, run.stderr[-500:])


def damaged():
    data = tempfile.mkdtemp(prefix='dray-rotation-')
    try:
        with Cluster(data=data):
            pass
        with open(data + '/pki/admin.key') as f:
            other = f.read()
        for name in ('sa.key', 'ca.key'):
            refused(data, name, 'nonsense')
        refused(data, 'ca.key', other)
        # A start that ended between the two files of a certificate is repaired by the next one.
        with open(data + '/pki/server.key', 'w') as f:
            f.write(other)
        with Cluster(data=data) as c:
            assert c.call('GET', '/healthz')[0] == 200
    finally:
        shutil.rmtree(data, ignore_errors=True)


# --- The CA -------------------------------------------------------------------------------------

def step(data, *more, good=True):
    p = subprocess.run([DRAY, 'rotate', 'ca', '--data-dir', data, *more], capture_output=True, text=True, timeout=60)
    assert (p.returncode == 0) == good, (more, p.stdout, p.stderr)
    return p.stderr


def read(data, name):
    with open(f'{data}/pki/{name}') as f:
        return f.read()


def write(data, name, text):
    with open(f'{data}/pki/{name}', 'w') as f:
        f.write(text)


def authorities(pem):
    return re.findall(r'-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n', pem, re.S)


def believes(ca, pem):
    """Whether a certificate is good for who trusts these CAs."""
    with tempfile.TemporaryDirectory(prefix='dray-rotation-') as folder:
        for name, text in (('ca', ca), ('leaf', pem)):
            with open(f'{folder}/{name}', 'w') as f:
                f.write(text)
        return subprocess.run(['openssl', 'verify', '-CAfile', folder + '/ca', folder + '/leaf'], capture_output=True, timeout=60).returncode == 0


def as_admin(c, folder, ca):
    """Status of a new connection with the administrator's certificate in a folder, to a server that must show one of these CAs; None: there is no connection."""
    trust = ssl.create_default_context(cadata=ca)
    trust.load_cert_chain(folder + '/admin.crt', folder + '/admin.key')
    h = http.client.HTTPSConnection('localhost', c.port, context=trust, timeout=30)
    try:
        h.request('GET', '/api/v1/namespaces')
        return h.getresponse().status
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        h.close()


class Listener:
    """A client of the old CA that watches through all steps on one connection."""

    def __init__(self, c, folder, ca):
        trust = ssl.create_default_context(cadata=ca)
        trust.load_cert_chain(folder + '/admin.crt', folder + '/admin.key')
        self.heard = []
        self.h = http.client.HTTPSConnection('localhost', c.port, context=trust, timeout=600)
        self.h.request('GET', '/api/v1/namespaces/default/configmaps?watch=true')
        self.answer = self.h.getresponse()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.answer:
            self.heard.append(json.loads(line)['object']['metadata']['name'])


def mark(c, listener, name):
    c.good('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'name': name}})
    until('the event of ' + name, lambda: name in listener.heard)


def published(c):
    """The CAs that others read, each as a text."""
    get = lambda namespace, name: c.good('GET', f'/api/v1/namespaces/{namespace}/configmaps/{name}')['data']
    info = get('kube-public', 'cluster-info')
    with open(c.data + '/admin.kubeconfig') as f:
        written = f.read()
    decode = lambda text: base64.b64decode(re.search(r'certificate-authority-data: *"?([A-Za-z0-9+/=]+)', text)[1]).decode()
    return [get('default', 'kube-root-ca.crt')['ca.crt'], get('kube-system', 'extension-apiserver-authentication')['client-ca-file'], decode(info['kubeconfig']), decode(written)]


def issue(c, name):
    """A certificate of the cluster for a new request."""
    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', c.folder + '/csr.key']
    wish = subprocess.run(['openssl', 'req', '-new', *key, '-subj', '/CN=' + name], capture_output=True, text=True, timeout=60)
    assert wish.returncode == 0, wish.stderr
    spec = {'request': base64.b64encode(wish.stdout.encode()).decode(), 'signerName': 'kubernetes.io/kube-apiserver-client', 'usages': ['digital signature', 'client auth']}
    made = c.good('POST', CSRS, {'metadata': {'name': name}, 'spec': spec})
    made['status']['conditions'] = [{'type': 'Approved', 'status': 'True', 'reason': 'Test'}]
    c.good('PUT', f'{CSRS}/{name}/approval', made)
    got = until('a certificate for ' + name, lambda: c.good('GET', f'{CSRS}/{name}')['status'].get('certificate'))
    return base64.b64decode(got).decode()


def restores(c, bundle):
    """A backup of now has both CAs, and what is made of it starts."""
    kept, again = tempfile.mkdtemp(dir=c.folder) + '/kept', tempfile.mkdtemp(dir=c.folder) + '/again'
    for words in (['backup', '--data-dir', c.data, kept], ['restore', '--data-dir', again, kept]):
        p = subprocess.run([DRAY, *words], capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, (words, p.stdout, p.stderr)
    assert read(again, 'ca.crt') == bundle
    with Cluster(data=again) as other:
        assert as_admin(other, again + '/pki', bundle) == 200


def authority():
    with Cluster(verb='up', flags=['--nodes', '1']) as c:
        old, before = read(c.data, 'ca.crt'), c.folder + '/before'
        shutil.copytree(c.data + '/pki', before)
        listener = Listener(c, before, old)
        mark(c, listener, 'before')
        assert 'no rotation is under way' in step(c.data, '--issue', good=False) and 'no rotation is under way' in step(c.data, '--finish', good=False)
        # Both are trusted, the old one signs.
        step(c.data)
        both = read(c.data, 'ca.crt')
        assert len(authorities(both)) == 2 and both.startswith(old)
        new = both[len(old):]
        until('both CAs everywhere', lambda: all(p == both for p in published(c)))
        assert believes(old, issue(c, 'first')) and as_admin(c, before, old) == 200
        assert '--issue' in step(c.data, good=False) and '--issue' in step(c.data, '--finish', good=False)
        mark(c, listener, 'trusted')
        restores(c, both)
        # The new one signs. Who trusts both goes on, with certificates of either.
        step(c.data, '--issue')
        turned = read(c.data, 'ca.crt')
        assert turned == new + old
        until('a server of the new CA', lambda: believes(new, shown(c)))
        until('both CAs, the new one first', lambda: all(p == turned for p in published(c)))
        assert as_admin(c, before, both) == 200 and as_admin(c, before, old) is None
        until("the administrator's new certificate", lambda: as_admin(c, c.data + '/pki', new) == 200)
        until('a signer with the new CA', lambda: believes(new, issue(c, f'second-{time.time_ns()}')))
        assert '--finish' in step(c.data, good=False) and '--finish' in step(c.data, '--issue', good=False)
        mark(c, listener, 'issuing')
        restores(c, turned)
        # The old one is gone.
        step(c.data, '--finish')
        assert read(c.data, 'ca.crt') == new and read(c.data, 'ca.key').count('BEGIN') == 1
        until('no old certificate is believed', lambda: as_admin(c, before, new) != 200)
        until('the new CA alone', lambda: all(p == new for p in published(c)))
        assert as_admin(c, c.data + '/pki', new) == 200 and believes(new, issue(c, 'third'))
        mark(c, listener, 'after')


def interrupted():
    """Steps that ended between their files, and steps without a server."""
    data = tempfile.mkdtemp(prefix='dray-rotation-')
    try:
        def starts(admin):
            with Cluster(data=data) as c:
                assert as_admin(c, data + '/pki', admin) == 200
        with Cluster(data=data):
            pass
        old, old_key = read(data, 'ca.crt'), read(data, 'ca.key')
        step(data)
        both, keys = read(data, 'ca.crt'), read(data, 'ca.key')
        write(data, 'ca.crt', old)  # begun: the key is written, the certificate is not
        starts(old)
        step(data)
        both, keys = read(data, 'ca.crt'), read(data, 'ca.key')
        new = both[len(old):]
        assert keys.startswith(old_key) and keys.count('BEGIN') == 2 and os.stat(data + '/pki/ca.key').st_mode & 0o777 == 0o600
        starts(old)
        step(data, '--issue')  # no server renews its certificate
        assert 'old CA' in step(data, '--finish', good=False)
        starts(new)
        step(data, '--finish')
        write(data, 'ca.key', keys)  # finished: the old key is still there
        starts(new)
        step(data)
        assert read(data, 'ca.key').count('BEGIN') == 2 and old_key not in read(data, 'ca.key')
        step(data, '--issue')
        step(data, '--finish', '--force')
        starts(read(data, 'ca.crt'))
        # A key that is lost is not made up for.
        step(data)
        write(data, 'ca.key', read(data, 'ca.key').split('-----END')[0] + '-----END PRIVATE KEY-----\n')
        assert 'backup' in step(data, '--issue', good=False)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def main():
    authority()
    interrupted()
    serving()
    damaged()
    with Cluster() as c:
        c.good('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'robot'}})
        c.bind('', 'cluster-admin', 'Group/system:serviceaccounts')
        make = lambda: c.good('POST', PATH, {'spec': {}})['status']['token']
        works = lambda t: c.call('GET', '/api/v1/namespaces', token=t)[0] == 200
        old = make()
        first = key_ids(c)
        assert works(old) and [key_of(old)] == first
        rotate(c)
        ids = until('the new key', lambda: key_ids(c) if len(key_ids(c)) == 2 else None)
        new = make()
        assert ids[1:] == first and key_of(new) == ids[0] and works(old) and works(new)
        path = c.data + '/pki/sa.key'
        assert os.stat(path).st_mode & 0o777 == 0o600
        # Of no use: nothing changes, and the verb refuses to go on from it.
        with open(path) as f:
            good = f.read()
        with open(path, 'w') as f:
            f.write('nonsense')
        time.sleep(2.5)
        assert key_ids(c) == ids and works(old) and works(new)
        assert 'sa.key' in rotate(c, good=False)
        with open(path, 'w') as f:
            f.write(good)
        # At most 8 keys.
        for _ in range(6):
            rotate(c)
        assert 'older' in rotate(c, good=False)
        until('eight keys', lambda: len(key_ids(c)) == 8)
        assert works(old) and works(new)
        last = make()
        rotate(c, '--finish')
        until('one key', lambda: len(key_ids(c)) == 1)
        assert key_ids(c) == [key_of(last)] and works(last) and not works(old) and not works(new)
    print('rotation of the CA, service account keys and serving certificates: holds')


if __name__ == '__main__':
    main()

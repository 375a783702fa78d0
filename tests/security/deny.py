#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: a credential on the deny list is refused at once, by `dray deny` or by an edit of DIR/denied, on open connections too; its watches and streams end within a second, those
of others go on; the list survives a restart, and a list that cannot be read changes nothing. Usage: deny.py DRAY"""
import hashlib, http.client, json, os, ssl, subprocess, tempfile, threading, time
from kit import DRAY, ROOT, Cluster, until
from passing import PODS, Spy, node

USERS = {'ann-token-1': ('ann', 'system:masters'), 'ann-token-2': ('ann', 'system:masters'), 'bob-token-1': ('bob', 'system:masters')}
REVIEW = '/apis/authentication.k8s.io/v1/tokenreviews'


def deny(c, kind, value, good=True, **more):
    p = subprocess.run([DRAY, 'deny', kind, value, '--data-dir', c.data], capture_output=True, text=True, timeout=60, **more)
    assert (p.returncode == 0) == good, (kind, value, p.stdout, p.stderr)
    return p.stderr


class Open(threading.Thread):
    """A response that goes on until the server ends it."""

    def __init__(self, c, path, token=None, certificate=None):
        super().__init__(daemon=True)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(*certificate)
        self.connection = http.client.HTTPSConnection('127.0.0.1', c.port, context=context, timeout=60)
        self.connection.request('GET', path, headers={'Authorization': 'Bearer ' + token} if token else {})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.ended = None
        self.start()

    def run(self):
        try:
            while self.answer.read1(65536):
                pass
        except (http.client.HTTPException, OSError):
            pass
        self.ended = time.time()

    def ends(self, since):
        until('the stream ends', lambda: self.ended)
        assert self.ended - since < 3, self.ended - since


WATCH = '/api/v1/namespaces?watch=true'


def allowed(c, token):
    return c.call('GET', '/api/v1/namespaces', token=token)[0] == 200


def tokens(c):
    spy = Spy(c.data + '/pki/server.crt', c.data + '/pki/server.key', act=lambda s: (s.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n'), time.sleep(30)))
    node(c, 'spy', spy.port)
    mine, other, log = Open(c, WATCH, 'ann-token-1'), Open(c, WATCH, 'ann-token-2'), Open(c, f'{PODS}/on-spy/log?follow=true', 'ann-token-1')
    bob = Open(c, WATCH, 'bob-token-1')
    # By the hash of a token: the other token of this user goes on.
    began = time.time()
    deny(c, 'token', '-', input='ann-token-1\n')
    mine.ends(began)
    log.ends(began)
    assert not allowed(c, 'ann-token-1') and allowed(c, 'ann-token-2') and not other.ended
    with open(c.data + '/denied') as f:
        assert 'token-sha256 ' + hashlib.sha256(b'ann-token-1').hexdigest() in f.read().split('\n')
    assert os.stat(c.data + '/denied').st_mode & 0o777 == 0o600
    assert not c.good('POST', REVIEW, {'spec': {'token': 'ann-token-1'}})['status'].get('authenticated')
    # By name, by an edit of the file.
    began = time.time()
    with open(c.data + '/denied', 'a') as f:
        f.write('# left the company\nuser ann\n')
    other.ends(began)
    assert not allowed(c, 'ann-token-2') and allowed(c, 'bob-token-1') and not bob.ended
    # Who acts as another is still who authenticated.
    c.refused('GET', '/api/v1/namespaces', token='ann-token-2', headers=[('Impersonate-User', 'bob')], code=401)
    return bob


def accounts(c):
    c.good('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'robot'}})
    c.bind('', 'cluster-admin', 'Group/system:serviceaccounts')
    path = '/api/v1/namespaces/default/serviceaccounts/robot/token'
    one, two = (c.good('POST', path, {'spec': {}})['status']['token'] for _ in range(2))
    watch = Open(c, WATCH, one)
    status = c.good('POST', REVIEW, {'spec': {'token': one}})['status']
    jti = status['user']['extra']['authentication.kubernetes.io/credential-id'][0].removeprefix('JTI=')
    began = time.time()
    deny(c, 'token-id', jti)
    watch.ends(began)
    assert not allowed(c, one) and allowed(c, two)
    deny(c, 'user', 'system:serviceaccount:default:robot')
    assert not allowed(c, two)
    # A bootstrap token, by its user.
    secret = {'metadata': {'name': 'bootstrap-token-abcdef'}, 'type': 'bootstrap.kubernetes.io/token',
              'stringData': {'token-id': 'abcdef', 'token-secret': '0123456789abcdef', 'usage-bootstrap-authentication': 'true'}}
    c.good('POST', '/api/v1/namespaces/kube-system/secrets', secret)
    until('the bootstrap token is known', lambda: c.call('GET', '/api/v1/nodes', token='abcdef.0123456789abcdef')[0] == 403)
    deny(c, 'user', 'system:bootstrap:abcdef')
    c.refused('GET', '/api/v1/nodes', token='abcdef.0123456789abcdef', code=401)


def certificates(c, folder):
    def make(name):
        with open(f'{folder}/{name}.ext', 'w') as f:
            f.write('extendedKeyUsage=clientAuth\n')
        crt, key = f'{folder}/{name}.crt', f'{folder}/{name}.key'
        run = lambda *a: subprocess.run(['openssl', *a], check=True, capture_output=True)
        run('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', f'{folder}/{name}.csr', '-subj', '/O=system:masters/CN=carl')
        run('x509', '-req', '-in', f'{folder}/{name}.csr', '-CA', c.data + '/pki/ca.crt', '-CAkey', c.data + '/pki/ca.key', '-CAcreateserial', '-out', crt, '-days', '1', '-extfile', f'{folder}/{name}.ext')
        return crt, key

    one, two = make('one'), make('two')
    watches = [Open(c, WATCH, certificate=x) for x in (one, two)]
    # A connection from before: its next request is refused.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*one)
    kept = http.client.HTTPSConnection('127.0.0.1', c.port, context=context, timeout=60)

    def ask():
        kept.request('GET', '/api/v1/namespaces')
        a = kept.getresponse()
        a.read()
        return a.status

    assert ask() == 200
    began = time.time()
    deny(c, 'certificate', one[0])
    watches[0].ends(began)
    assert ask() == 401 and not watches[1].ended
    serial = subprocess.run(['openssl', 'x509', '-in', two[0], '-noout', '-serial'], check=True, capture_output=True, text=True).stdout.strip().split('=')[1]
    began = time.time()
    deny(c, 'certificate-serial', serial)
    watches[1].ends(began)


def mistakes(c, folder):
    assert 'not an entry' in deny(c, 'colour', 'red', good=False)
    assert 'not an entry' in deny(c, 'token-sha256', 'abc', good=False)
    assert 'not an entry' in deny(c, 'user', 'a\nuser bob', good=False)
    assert 'no certificate' in deny(c, 'certificate', '/dev/null', good=False)
    with open(c.data + '/denied') as f:
        good = f.read()
    with open(c.data + '/denied', 'w') as f:
        f.write('user bob\nnonsense\n')
    time.sleep(2.5)
    assert allowed(c, 'bob-token-1') and not allowed(c, 'ann-token-2')
    # Not for everyone.
    c.role('', 'all', {'verbs': ['*'], 'nonResourceURLs': ['*']})
    c.bind('', 'all', 'dora')
    c.refused('POST', '/dray/deny?kind=user&value=root', headers=[('Impersonate-User', 'dora')])
    with open(c.data + '/denied', 'w') as f:
        f.write(good)


def main(folder):
    data = folder + '/data'
    with Cluster(USERS, data=data) as c:
        bob = tokens(c)
        accounts(c)
        certificates(c, folder)
        mistakes(c, folder)
        assert not bob.ended and allowed(c, 'bob-token-1')
    with Cluster(USERS, data=data) as c:
        assert not allowed(c, 'ann-token-1') and not allowed(c, 'ann-token-2') and allowed(c, 'bob-token-1')
        os.remove(data + '/denied')
        until('without the list they are back', lambda: allowed(c, 'ann-token-1'))
    with open(data + '/denied', 'w') as f:
        f.write('user\n')
    p = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
    assert p.returncode and 'line 1' in p.stderr, p.stderr
    print('the deny list: holds')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='dray-deny-') as folder:
        main(folder)

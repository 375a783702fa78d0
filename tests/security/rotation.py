#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the key for tokens of service accounts is replaced while the server runs: new tokens have the new key, old ones are valid until the old key is dropped, the key set lists
all; a key file of no use changes nothing. Usage: rotation.py DRAY"""
import base64, json, os, shutil, socket, ssl, subprocess, tempfile, time
from kit import DRAY, Cluster, until

PATH = '/api/v1/namespaces/default/serviceaccounts/robot/token'


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


def main():
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
    print('rotation of service account keys and serving certificates: holds')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the key for tokens of service accounts is replaced while the server runs: new tokens have the new key, old ones are valid until the old key is dropped, the key set lists
all; a key file of no use changes nothing. Usage: rotation.py DRAY"""
import base64, json, os, subprocess, time
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


def main():
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
    print('rotation of service account keys: holds')


if __name__ == '__main__':
    main()

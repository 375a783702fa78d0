#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: with --encryption-provider-config no byte of a Secret stands in the database, its log or a backup; the file of keys must be its owner's alone; keys rotate by restarts,
and a missing key is an error that names how much it concerns, never a loss. Usage: encryption.py DRAY"""
import base64, glob, os, shutil, subprocess, sys
from kit import DRAY, Cluster

SECRET = 'correct-horse-battery-staple'
FORMS = [SECRET.encode(), base64.b64encode(SECRET.encode())]
KEY = {name: base64.b64encode(os.urandom(32)).decode() for name in 'ab'}


def config(folder, *providers):
    path = folder + '/encryption.yaml'
    with open(path, 'w') as f:
        f.write('apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n')
        for p in providers:
            f.write('  - identity: {}\n' if p == 'identity' else f'  - aesgcm: {{keys: [{{name: {p}, secret: "{KEY[p]}"}}]}}\n')
    os.chmod(path, 0o600)
    return ['--encryption-provider-config', path]


def stands(*paths):
    for path in paths:
        with open(path, 'rb') as f:
            data = f.read()
        if any(form in data for form in FORMS):
            return path
    return None


def fails(data, flags, *words):
    p = subprocess.run([DRAY, 'server', '--data-dir', data, '--listen', '127.0.0.1:0', *flags], capture_output=True, text=True, timeout=60)
    assert p.returncode and all(w in p.stderr for w in words), (p.returncode, p.stderr)


class Kept(Cluster):
    """A server on a data directory that stays."""

    def __init__(self, data, flags):
        super().__init__(flags=flags, data=data)

    def secret(self):
        return base64.b64decode(self.good('GET', '/api/v1/namespaces/default/secrets/s')['data']['password']).decode()

    def files(self):
        return glob.glob(self.data + '/dray.db*')


def main(folder):
    data = folder + '/data'
    # The Secret is there before encryption is.
    with Kept(data, []) as c:
        c.good('POST', '/api/v1/namespaces/default/secrets', {'metadata': {'name': 's'}, 'stringData': {'password': SECRET}})
        c.good('PATCH', '/api/v1/namespaces/default/secrets/s', {'metadata': {'labels': {'a': 'b'}}})
        assert stands(*c.files()), 'the test looks for the wrong bytes'
    fails(data, config(folder, 'a'), 'no provider identity', 'rows cannot be decrypted', 'v1/Secret default/s')
    flags = config(folder, 'a', 'identity')
    os.chmod(flags[1], 0o644)
    fails(data, flags, 'chmod 600')
    os.chmod(flags[1], 0o600)
    with Kept(data, flags) as c:
        assert not stands(*c.files()), stands(*c.files())
        assert c.secret() == SECRET
        c.good('PATCH', '/api/v1/namespaces/default/secrets/s', {'metadata': {'labels': {'a': 'c'}}})
        assert not stands(*c.files()), stands(*c.files())
        subprocess.run([DRAY, 'backup', folder + '/backup.db', '--data-dir', data], check=True, capture_output=True)
        assert not stands(folder + '/backup.db')
        # A watch from before goes on: the history is there.
        c.good('GET', '/api/v1/namespaces/default/secrets?resourceVersion=1&resourceVersionMatch=NotOlderThan')
    assert not stands(*glob.glob(data + '/dray.db*'))
    fails(data, [], 'rows cannot be decrypted', '--encryption-provider-config', 'v1/Secret default/s')
    fails(data, config(folder, 'b', 'identity'), 'key "a" is not configured')
    # Rotation: one start with both, the new one first.
    with Kept(data, config(folder, 'b', 'a')) as c:
        assert c.secret() == SECRET
    with Kept(data, config(folder, 'b')) as c:
        assert c.secret() == SECRET
    # A backup has the key of its time.
    fails(folder + '/restored', ['--restore', folder + '/backup.db', *config(folder, 'b')], 'key "a" is not configured')
    shutil.rmtree(folder + '/restored')
    with Kept(folder + '/restored', ['--restore', folder + '/backup.db', *config(folder, 'a')]) as c:
        assert c.secret() == SECRET
    # Out of it again.
    with Kept(data, config(folder, 'identity', 'b')) as c:
        assert c.secret() == SECRET
    with Kept(data, []) as c:
        assert c.secret() == SECRET
    print('encryption at rest: holds')


if __name__ == '__main__':
    import tempfile
    with tempfile.TemporaryDirectory(prefix='dray-encryption-') as folder:
        main(folder)
    sys.exit(0)

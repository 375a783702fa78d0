#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: a token is believed if this server's key signed it, for this server, while it and what it is bound to last. Forged, changed, cut, replayed and
oversized ones are nobody's: 401, never 500. Usage: tokens.py DRAY"""
import base64, json, subprocess, time
from kit import Cluster, read_all, rule, until

ACCOUNTS = '/api/v1/namespaces/team/serviceaccounts'


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


def es256(key, text):
    """A signature as JWS has it: openssl gives DER, which is two numbers with their lengths."""
    der = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', key], input=text.encode(), capture_output=True, check=True).stdout
    numbers, at = [], 2
    for _ in range(2):
        n = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2:at + 2 + n], 'big').to_bytes(32, 'big'))
        at += 2 + n
    return b''.join(numbers)


def make(header, claims, key=None, signature=None):
    text = f'{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}'
    return f'{text}.{b64(es256(key, text) if key else signature or b"")}'


def forgeries(c, token):
    """Names and tokens that must not be believed."""
    key, other = c.data + '/pki/sa.key', c.folder + '/other.key'
    subprocess.run(['openssl', 'ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', other], check=True, capture_output=True)
    public = subprocess.run(['openssl', 'ec', '-in', key, '-pubout'], check=True, capture_output=True).stdout
    header, claims, signature = token.split('.')
    h, k, s = json.loads(unb64(header)), json.loads(unb64(claims)), unb64(signature)
    admin = {**k, 'sub': 'system:serviceaccount:kube-system:admin', 'kubernetes.io': {**k['kubernetes.io'], 'namespace': 'kube-system'}}
    yield 'another key', make(h, k, other)
    yield 'another key, its own name', make({**h, 'kid': 'x'}, k, other)
    for alg in ('none', 'None', 'NONE', '', 'HS256', 'ES384', 'RS256', 'PS256', 'EdDSA', 'es256', None, 1, ['ES256']):
        yield f'alg {alg}', make({**h, 'alg': alg}, k, signature=s)
        yield f'alg {alg}, signed all the same', make({**h, 'alg': alg}, k, key)
        yield f'alg {alg}, no signature', make({**h, 'alg': alg}, admin)
    text = f'{b64(json.dumps({**h, "alg": "HS256"}).encode())}.{claims}'
    hmac = subprocess.run(['openssl', 'dgst', '-sha256', '-hmac', public.decode()], input=text.encode(), capture_output=True).stdout.split()[-1]
    yield 'the public key as a shared secret', f'{text}.{b64(bytes.fromhex(hmac.decode()))}'
    jwk = c.good('GET', '/openid/v1/jwks')['keys'][0]
    yield 'a key of its own in the header', make({**h, 'jwk': jwk}, k, other)
    yield 'a key elsewhere', make({**h, 'jku': c.url + '/openid/v1/jwks', 'x5u': 'https://127.0.0.1:1/'}, k, other)
    yield 'critical extensions', make({**h, 'crit': ['b64'], 'b64': False}, k, key)
    yield 'another account, old signature', f'{header}.{b64(json.dumps(admin).encode())}.{signature}'
    yield 'zeros for a signature', f'{header}.{claims}.{b64(bytes(64))}'
    yield 'the order of the curve as a signature', f'{header}.{claims}.{b64(bytes.fromhex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551") * 2)}'
    yield 'a signature in DER', f'{header}.{claims}.{b64(subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=f"{header}.{claims}".encode(), capture_output=True).stdout)}'
    yield 'longer signature', f'{header}.{claims}.{b64(s + b"x")}'
    # Rightly signed, and still not for here and now.
    for what, change in {'expired': {'exp': int(time.time()) - 10}, 'not yet': {'nbf': int(time.time()) + 3600}, 'other issuer': {'iss': 'https://other'}, 'other audience': {'aud': ['vault']}, 'no audience': {'aud': []},
                         'no end': {'exp': None}, 'end as text': {'exp': '9999999999'}, 'end beyond numbers': {'exp': 1e300}, 'no subject': {'sub': ''}, 'a user': {'sub': 'system:admin'},
                         'subject of another': {'sub': 'system:serviceaccount:kube-system:default'}, 'no account': {'kubernetes.io': None}, 'another uid': {'kubernetes.io': {**k['kubernetes.io'], 'serviceaccount': {'name': 'robot', 'uid': 'x'}}},
                         'another namespace': {'kubernetes.io': {**k['kubernetes.io'], 'namespace': 'other'}, 'sub': 'system:serviceaccount:other:robot'},
                         'a path for a name': {'kubernetes.io': {**k['kubernetes.io'], 'namespace': '../team'}, 'sub': 'system:serviceaccount:../team:robot'}}.items():
        yield what, make(h, {**k, **change}, key)
    yield 'claims that are a list', make(h, [k], key)
    yield 'deep claims', make(h, {**k, 'x': json.loads('[' * 900 + ']' * 900)}, key)
    twice = json.dumps(k)[:-1] + ',"sub":"system:serviceaccount:kube-system:default"}'
    text = f'{header}.{b64(twice.encode())}'
    yield 'a claim twice', f'{text}.{b64(es256(key, text))}'
    for n in (1, 10, len(header), len(header) + 1, len(token) - 1, len(token) - 43):
        yield f'cut to {n}', token[:n]
    for what in ('..', '...', 'a.b.c', token + '.', '.' + token, token + '.x', token.replace('.', '..'), token.upper(), token + '=', header + '.' + claims + '.', 'Bearer ' + token, token + ' ' + token, token.replace('.', ' .')):
        yield what[:20], what
    yield 'large', make({**h, 'x': 'y' * 20000}, k, key)


def status(c, value):
    k = c.raw()
    k.sendall(b'GET /api/v1/namespaces/team/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: ' + value + b'\r\n\r\n')
    got = read_all(k)
    k.close()
    return int(got.split(b' ')[1])


def watches(c, token):
    """A watch ends with the token that it was let in with, not half an hour later."""
    c.role('team', 'watches', rule('get list watch', 'configmaps'))
    c.bind('team', 'watches', 'system:serviceaccount:team:robot', kind='Role')
    header, claims, _ = token.split('.')
    h, k = json.loads(unb64(header)), json.loads(unb64(claims))
    path = '/api/v1/namespaces/team/configmaps?watch=1&timeoutSeconds='
    until('the role counts', lambda: c.call('GET', path + '1', token=token)[0] == 200)
    for seconds, most in ((4, 20), (600, 20)):
        # What ends first counts: the token, or the watch as its client wanted it.
        short = make(h, {**k, 'exp': int(time.time()) + seconds}, c.data + '/pki/sa.key')
        began = time.monotonic()
        code, _ = c.call('GET', path + str(604 - seconds), token=short)
        took = time.monotonic() - began
        assert code == 200 and 2 < took < most, (seconds, code, took)
    assert c.call('GET', path + '1', token=make(h, {**k, 'exp': int(time.time()) - 1}, c.data + '/pki/sa.key'))[0] == 401


def main():
    with Cluster() as c:
        c.namespace('team')
        c.good('POST', ACCOUNTS, {'metadata': {'name': 'robot'}})
        token = c.good('POST', ACCOUNTS + '/robot/token', {'spec': {}})['status']['token']
        assert c.call('GET', '/api/v1/namespaces/team/pods', token=token)[0] == 403, 'the token itself is not good: this tests nothing'
        n = 0
        for what, bad in forgeries(c, token):
            code, text = c.call('GET', '/api/v1/namespaces/team/pods', token=bad)
            assert code == 401, (what, code, text[:300])
            n += 1
        for value in (b'Bearer', b'Bearer  ', b'bearer\x00x', b'Basic ' + base64.b64encode(b'root:root'), b'Bearer ' + b'x' * 60000, b'Negotiate ' + token.encode(), b'Bearer\t' + token.encode(), token.encode()):
            code = status(c, value)
            assert code in (400, 401, 431), (value[:30], code)
        # In the address it is no credential, and a header that comes twice is none that was checked once.
        assert c.call('GET', '/api/v1/namespaces?access_token=' + token, token=None)[0] == 401
        watches(c, token)
        for seconds in (9223372036854775807, (1 << 32) + 1, 599, -9223372036854775808):
            c.refused('POST', ACCOUNTS + '/robot/token', {'spec': {'expirationSeconds': seconds}}, code=422)
        with open(c.log.name) as log:
            assert 'runtime error' not in log.read(), 'the end of a token overflows'
        # Replayed: with the account, and after it was made anew.
        assert c.good('DELETE', ACCOUNTS + '/robot')
        assert c.call('GET', '/api/v1/namespaces/team/pods', token=token)[0] == 401
        c.good('POST', ACCOUNTS, {'metadata': {'name': 'robot'}})
        assert c.call('GET', '/api/v1/namespaces/team/pods', token=token)[0] == 401, 'the new account has the old one\'s tokens'
        c.alive()
    # Of another cluster.
    with Cluster() as c:
        assert c.call('GET', '/api/v1/namespaces', token=token)[0] == 401
    print(f'tokens: {n} forgeries, none was believed')


main()

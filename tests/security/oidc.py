#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: with --oidc-issuer-url the API accepts ID tokens of that issuer and no others: signed by one of its keys with an accepted algorithm, for this client, in time, with the
required claims; names and groups get their prefixes; new keys are found without a restart, an issuer that is away or answers nonsense disturbs nobody, and no flood of tokens
becomes a flood of fetches. The issuer is a server of this test on loopback, with a CA of its own. Needs the command openssl. Usage: oidc.py DRAY"""
import base64, http.server, json, os, shutil, ssl, subprocess, sys, tempfile, threading, time
from kit import DRAY, Cluster, until

ALGS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512']
CURVES = {'ES256': ('P-256', 32), 'ES384': ('P-384', 48), 'ES512': ('P-521', 66)}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def openssl(*args, data=None):
    return subprocess.run(['openssl', *args], input=data, check=True, capture_output=True).stdout


class Key:
    def __init__(self, folder, name, alg):
        self.file, self.id, self.alg = f'{folder}/{name}.pem', name, alg
        kind = ['EC', '-pkeyopt', 'ec_paramgen_curve:' + CURVES[alg][0]] if alg in CURVES else ['RSA', '-pkeyopt', 'rsa_keygen_bits:2048']
        openssl('genpkey', '-algorithm', *kind, '-out', self.file)

    def jwk(self, **more):
        if self.alg in CURVES:
            name, half = CURVES[self.alg]
            point = openssl('pkey', '-in', self.file, '-pubout', '-outform', 'DER')[-2 * half:]
            return {'kty': 'EC', 'crv': name, 'x': b64(point[:half]), 'y': b64(point[half:]), 'kid': self.id, **more}
        modulus = openssl('rsa', '-in', self.file, '-noout', '-modulus').decode().strip().split('=')[1]
        return {'kty': 'RSA', 'n': b64(bytes.fromhex(modulus)), 'e': 'AQAB', 'kid': self.id, 'use': 'sig', **more}

    def token(self, claims, alg=None, **header):
        alg = alg or self.alg
        text = b64(json.dumps({'alg': alg, 'kid': self.id, **header}).encode()) + '.' + b64(json.dumps(claims).encode())
        pss = ['-sigopt', 'rsa_padding_mode:pss', '-sigopt', 'rsa_pss_saltlen:digest'] if alg.startswith('PS') else []
        signature = openssl('dgst', '-sha' + alg[2:], '-sign', self.file, *pss, data=text.encode())
        if alg in CURVES:
            signature = raw(signature, CURVES[alg][1])
        return text + '.' + b64(signature)


def raw(der, half):
    """The two numbers of a DER sequence, each of half bytes."""
    at = 2 if der[1] < 128 else 3
    numbers = b''
    for _ in range(2):
        n = der[at + 1]
        numbers += int.from_bytes(der[at + 2:at + 2 + n], 'big').to_bytes(half, 'big')
        at += 2 + n
    return numbers


class Issuer:
    """Serves the discovery document and the key set; counts what is asked."""

    def __init__(self, folder):
        ca, key = folder + '/ca.pem', folder + '/ca.key'
        openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', ca, '-days', '2', '-subj', '/CN=issuer', '-addext', 'subjectAltName=IP:127.0.0.1')
        self.ca, self.keys, self.asked, self.broken = ca, [], 0, None
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                issuer.asked += 1
                body = {'/realm/.well-known/openid-configuration': {'issuer': issuer.url, 'jwks_uri': f'https://127.0.0.1:{issuer.port}/keys?v=1'},
                        '/keys?v=1': {'keys': issuer.keys}}.get(self.path)
                text = issuer.broken if issuer.broken is not None else json.dumps(body).encode()
                self.send_response(200 if body else 404)
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ca, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f'https://127.0.0.1:{self.port}/realm'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def claims(self, **more):
        now = int(time.time())
        return {'iss': self.url, 'aud': 'dray', 'sub': 'ann', 'exp': now + 600, 'iat': now, **more}


def who(c, token, code=200):
    got, text = c.call('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}, token=token)
    assert got == (201 if code == 200 else code), (got, text)
    return json.loads(text)['status']['userInfo'] if got == 201 else None


def tokens(folder, issuer, keys):
    flags = ['--oidc-issuer-url', issuer.url, '--oidc-client-id', 'dray', '--oidc-ca-file', issuer.ca, '--oidc-groups-claim', 'groups', '--oidc-groups-prefix', 'oidc:',
             '--oidc-signing-algs', ','.join(a for a in ALGS if a != 'PS512'), '--oidc-required-claim', 'hd=example.com', '--oidc-required-claim', 'tier=a=b']
    issuer.keys = [{'kty': 'oct', 'k': 'AAAA', 'kid': 'x'}, {'kty': 'RSA', 'n': 'AQAB', 'e': 'AQAB', 'kid': 'short'}] + [k.jwk() for k in keys.values()]
    good = {'hd': 'example.com', 'tier': 'a=b'}
    with Cluster(flags=flags) as c:
        rs = keys['RS256']
        user = who(c, rs.token(issuer.claims(groups=['devs', 'ops'], jti='id-1', **good)))  # waits for the first fetch
        assert user['username'] == issuer.url + '#ann' and user['groups'] == ['oidc:devs', 'oidc:ops', 'system:authenticated'], user
        assert user['extra'] == {'authentication.kubernetes.io/credential-id': ['JTI=id-1']}, user
        for alg in ALGS:
            who(c, keys[alg].token(issuer.claims(**good)), 401 if alg == 'PS512' else 200)
        fine = issuer.claims(**good)
        who(c, rs.token({**fine, 'aud': ['other', 'dray']}))
        who(c, rs.token({**fine, 'groups': 'devs', 'exp': fine['exp'] + 0.5, 'nbf': time.time() + 200}))
        bad = {'other issuer': {'iss': issuer.url + '/'}, 'other audience': {'aud': 'else'}, 'audience of numbers': {'aud': ['dray', 1]}, 'expired': {'exp': int(time.time()) - 1},
               'no end': {'exp': None}, 'later': {'nbf': int(time.time()) + 400}, 'no name': {'sub': ''}, 'name of a number': {'sub': 7}, 'required': {'hd': 'evil.com'},
               'required of a list': {'tier': ['a=b']}, 'groups': {'groups': [1]}, 'groups of a map': {'groups': {}}}
        for what, change in bad.items():
            assert who(c, rs.token({**fine, **change}), 401) is None, what
        # Forged: altered, of another key, no signature, the public key as a secret, another algorithm for a key, critical headers.
        token = rs.token(fine)
        head, body, signature = token.split('.')
        other = Key(folder, 'other', 'RS256')
        other.id = rs.id
        forged = [f'{head}.{b64(json.dumps({**fine, "sub": "root"}).encode())}.{signature}', f'{head}.{body}.', f'{head}.{body}', token[:-4], other.token(fine),
                  b64(json.dumps({'alg': 'none'}).encode()) + f'.{body}.', b64(json.dumps({'alg': 'HS256', 'kid': rs.id}).encode()) + f'.{body}.{signature}',
                  rs.token(fine, alg='RS384', kid=keys['ES256'].id), rs.token(fine, crit=['x'])]
        for t in forged:
            who(c, t, 401)
        # A TokenReview of it; tokens of service accounts go on.
        review = c.good('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': token}})['status']
        assert review['authenticated'] and review['user']['username'] == issuer.url + '#ann', review
        c.good('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'default'}})
        own = c.good('POST', '/api/v1/namespaces/default/serviceaccounts/default/token', {'spec': {}})['status']['token']
        assert who(c, own)['username'] == 'system:serviceaccount:default:default'
        # A watch ends with the token.
        c.bind('', 'cluster-admin', issuer.url + '#ann')
        began = time.time()
        c.call('GET', '/api/v1/namespaces?watch=true', token=rs.token({**fine, 'exp': int(began) + 3}))
        assert time.time() - began < 20
        rollover(c, folder, issuer, fine, rs)


def rollover(c, folder, issuer, fine, old):
    """Unknown keys cause at most one fetch in 10 s; then the new key is found while the request waits."""
    new = Key(folder, 'new', 'RS256')
    until('fetch allowed', lambda: time.sleep(0.5) or time.time() > started + 11)
    asked = issuer.asked
    strangers = [new.token(fine) for _ in range(5)]
    for t in strangers:
        who(c, t, 401)
    assert issuer.asked == asked + 2, (issuer.asked, asked)
    issuer.keys.append(new.jwk())
    who(c, strangers[0], 401)  # too early for another fetch
    time.sleep(10)
    assert who(c, strangers[0])['username'] == issuer.url + '#ann'
    # Nonsense instead of keys: those that are known stay.
    time.sleep(10.1)
    for broken in (b'{', b'{"keys":[]}', b'x' * (2 << 20), json.dumps({'issuer': 'https://evil', 'jwks_uri': 'https://127.0.0.1/'}).encode()):
        issuer.broken = broken
        who(c, Key(folder, 'third', 'RS256').token(fine), 401)
        who(c, old.token(fine))
    issuer.broken = None
    c.alive()


def names(issuer, keys):
    base = ['--oidc-issuer-url', issuer.url, '--oidc-client-id', 'dray', '--oidc-ca-file', issuer.ca]
    rs = keys['RS256']
    with Cluster(flags=[*base, '--oidc-username-claim', 'email']) as c:
        assert who(c, rs.token(issuer.claims(email='a@x')))['username'] == 'a@x'
        who(c, rs.token(issuer.claims(email='a@x', email_verified=True)))
        who(c, rs.token(issuer.claims(email='a@x', email_verified=False)), 401)
        who(c, rs.token(issuer.claims(email='a@x', email_verified='true')), 401)
        assert who(c, rs.token(issuer.claims(email='a@x', groups=['g'])))['groups'] == ['system:authenticated']
        who(c, keys['ES256'].token(issuer.claims(email='a@x')), 401)  # RS256 alone by default
    with Cluster(flags=[*base, '--oidc-username-prefix', '-']) as c:
        assert who(c, rs.token(issuer.claims()))['username'] == 'ann'
    with Cluster(flags=[*base, '--oidc-username-prefix', 'o:']) as c:
        assert who(c, rs.token(issuer.claims()))['username'] == 'o:ann'
    # Without the issuer's CA nothing is believed, and the server serves others.
    with Cluster(flags=base[:4]) as c:
        who(c, rs.token(issuer.claims()), 401)
        assert c.good('GET', '/api/v1/namespaces')


def refused(issuer):
    for words, flags in {'needs --oidc-client-id': ['--oidc-issuer-url', issuer.url], 'need --oidc-issuer-url': ['--oidc-client-id', 'a'],
                         'https://HOST': ['--oidc-issuer-url', 'http://x', '--oidc-client-id', 'a'], 'is not RS256': ['--oidc-issuer-url', issuer.url, '--oidc-client-id', 'a', '--oidc-signing-algs', 'HS256'],
                         'CLAIM=VALUE': ['--oidc-issuer-url', issuer.url, '--oidc-client-id', 'a', '--oidc-required-claim', 'x']}.items():
        with tempfile.TemporaryDirectory() as data:
            p = subprocess.run([DRAY, 'server', '--data-dir', data + '/d', '--listen', '127.0.0.1:0', *flags], capture_output=True, text=True, timeout=60)
            assert p.returncode and words in p.stderr, (words, p.stderr)


if __name__ == '__main__':
    if not shutil.which('openssl'):
        print('skipped: no command openssl')
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix='dray-oidc-') as folder:
        issuer = Issuer(folder)
        keys = {alg: Key(folder, alg.lower(), alg) for alg in ALGS}
        started = time.time()
        tokens(folder, issuer, keys)
        names(issuer, keys)
        refused(issuer)
    print('tokens of an issuer: hold')

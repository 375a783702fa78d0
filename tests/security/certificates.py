#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: a bootstrap token lets its bearer ask for the certificate of a node that does not live yet, and nothing else, for as long as its Secret says so; nobody
gets a certificate signed, or approved, without the right to that signer; who asks is written by the server. Usage: certificates.py DRAY"""
import base64, datetime, json, os, shutil, ssl, subprocess, time
from kit import RBAC, Cluster, rule, until

CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests'
SECRETS = '/api/v1/namespaces/kube-system/secrets'
KUBELET, SERVING, CLIENT = 'kubernetes.io/kube-apiserver-client-kubelet', 'kubernetes.io/kubelet-serving', 'kubernetes.io/kube-apiserver-client'
FOR_CLIENT, FOR_SERVER = ['digital signature', 'client auth'], ['digital signature', 'server auth']
CERTIFICATES = 'certificates.k8s.io'
USERS = {'asker-token': ('anna', ''), 'approver-token': ('abel', ''), 'wide-token': ('wanda', ''), 'signer-token': ('sven', ''), 'node-token': ('system:node:n1', 'system:nodes'),
         'boot-token': ('system:bootstrap:abcdef', 'system:bootstrappers')}


def request(folder, subject, names=()):
    """A PKCS#10 request as the API takes it; its key stays in the folder."""
    with open(folder + '/csr.conf', 'w') as f:
        f.write('[req]\ndistinguished_name=dn\n[dn]\n')
    more = ['-addext', 'subjectAltName=' + ','.join(names)] if names else []
    made = subprocess.run(['openssl', 'req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', folder + '/csr.key', '-subj', subject, '-config', folder + '/csr.conf', *more], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return base64.b64encode(made.stdout.encode()).decode()


def ask(c, name, subject, signer=KUBELET, usages=FOR_CLIENT, names=(), **more):
    return {'apiVersion': 'certificates.k8s.io/v1', 'kind': 'CertificateSigningRequest', 'metadata': {'name': name}, 'spec': {'request': request(c.folder, subject, names), 'signerName': signer, 'usages': usages, **more}}


def condition(c, name, *types):
    found = [x for x in c.good('GET', f'{CSRS}/{name}')['status'].get('conditions', []) if x['type'] in types]
    return found[0] if found else None


def secret(c, token, name=None, namespace='kube-system', kind='bootstrap.kubernetes.io/token', **changes):
    part = token.split('.')
    data = {'token-id': part[0], 'token-secret': part[1], 'usage-bootstrap-authentication': 'true', 'usage-bootstrap-signing': 'true', 'auth-extra-groups': 'system:bootstrappers:kubeadm:default-node-token'}
    data.update(changes)
    return c.call('POST', f'/api/v1/namespaces/{namespace}/secrets', {'metadata': {'name': name or 'bootstrap-token-' + part[0]}, 'type': kind, 'stringData': {k: v for k, v in data.items() if v is not None}})


def who(c, token):
    code, text = c.call('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {}, token=token)
    return code, json.loads(text)['status']['userInfo'] if code == 201 else None


# --- Tokens -------------------------------------------------------------------------------------------------------------


def at(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%SZ')


def tokens(c):
    good = 'aaaaaa.0123456789abcdef'
    assert secret(c, good)[0] == 201
    code, user = who(c, good)
    assert code == 201 and user['username'] == 'system:bootstrap:aaaaaa' and 'system:masters' not in user['groups'], user
    # Almost that token.
    for forged in ('aaaaaa.0123456789abcdee', 'aaaaaa.0123456789abcde', 'aaaaaa.0123456789abcdeff', 'aaaaaa.', '.0123456789abcdef', 'aaaaaa', 'AAAAAA.0123456789abcdef', 'aaaaaa.0123456789ABCDEF', 'aaaaab.0123456789abcdef',
                   '../../.0123456789abcdef', 'aaaaaa.0123456789abcdef.x', 'aaaaaa%2e0123456789abcdef', 'a' * 5000 + '.0123456789abcdef'):
        assert who(c, forged)[0] == 401, forged
    # Secrets that say it is none: in another namespace, of another type or name, not for this, over, or wrongly written.
    c.namespace('team')
    for number, changes in enumerate(({'namespace': 'team'}, {'kind': 'Opaque'}, {'name': 'bootstrap-token-other1'}, {'usage-bootstrap-authentication': 'false'}, {'usage-bootstrap-authentication': None}, {'usage-bootstrap-authentication': 'TRUE'},
                                      {'expiration': at(-60)}, {'expiration': 'tomorrow'}, {'token-secret': None}, {'token-id': 'zzzzzz'})):
        token = f'bad{number:03d}.0123456789abcdef'
        code, text = secret(c, token, **changes)
        assert code in (201, 422), text
        assert who(c, token)[0] == 401, changes
    # Groups that would make more of it than a bootstrapper.
    for number, groups in enumerate(('system:masters', 'system:bootstrappers:x,system:masters', 'system:nodes', 'system:bootstrappersX', 'system:bootstrappers:A/B')):
        token = f'grp{number:03d}.0123456789abcdef'
        assert secret(c, token, **{'auth-extra-groups': groups})[0] in (201, 422)
        code, user = who(c, token)
        assert code == 401 or not {'system:masters', 'system:nodes', 'system:bootstrappersX'} & set(user['groups']), (groups, user)
    # What a bearer may not.
    for path in ('/api/v1/nodes', '/api/v1/pods', SECRETS, SECRETS + '/bootstrap-token-aaaaaa', '/api/v1/namespaces/default/pods', RBAC + '/clusterroles'):
        c.refused('GET', path, token=good)
    c.refused('POST', '/api/v1/nodes', {'metadata': {'name': 'n9'}}, token=good)
    c.refused('POST', SECRETS, {'metadata': {'name': 'x'}}, token=good)
    # Gone is gone, at once; and when its time is over without anybody doing anything.
    c.good('DELETE', SECRETS + '/bootstrap-token-aaaaaa')
    assert who(c, good)[0] == 401
    short = 'shorty.0123456789abcdef'
    assert secret(c, short, expiration=at(3))[0] == 201
    until('a token ends', lambda: who(c, short)[0] == 401)


# --- Requests -----------------------------------------------------------------------------------------------------------


def bootstrapping(c):
    """What the bearer of a token gets by itself: a new node's certificate."""
    token = 'joinme.0123456789abcdef'
    assert secret(c, token)[0] == 201
    node = c.good('GET', '/api/v1/nodes')['items'][0]['metadata']['name']
    cases = [
        ('alive', f'/O=system:nodes/CN=system:node:{node}', {}, 'is alive'),
        ('masters', '/O=system:masters/CN=system:node:new', {}, 'system:nodes and no other'),
        ('both', '/O=system:nodes/O=system:masters/CN=system:node:new', {}, 'system:nodes and no other'),
        ('twonames', '/O=system:nodes/CN=system:node:new/CN=system:admin', {}, 'nothing else'),
        ('unit', '/O=system:nodes/OU=system:masters/CN=system:node:new', {}, 'nothing else'),
        ('admin', '/O=system:nodes/CN=system:admin', {}, 'system:node:NAME'),
        ('names', '/O=system:nodes/CN=system:node:new', {'names': ('DNS:kubernetes',)}, 'no subject alternative names'),
        ('usages', '/O=system:nodes/CN=system:node:new', {'usages': FOR_CLIENT + ['cert sign']}, 'not for it'),
        ('serving', '/O=system:nodes/CN=system:node:new', {'signer': SERVING, 'usages': FOR_SERVER, 'names': ('DNS:new',)}, 'only the node itself'),
    ]
    for name, subject, more, _ in cases:
        c.good('POST', CSRS, ask(c, name, subject, **more), token=token)
    for name, _, _, words in cases:
        denied = until(f'{name} is denied', lambda: condition(c, name, 'Denied'))
        assert words in denied['message'], (name, denied)
        assert not c.good('GET', f'{CSRS}/{name}')['status'].get('certificate'), name
    # Administrators' certificates are not decided by anything that runs by itself, and those of masters not even asked for.
    c.good('POST', CSRS, ask(c, 'person', '/CN=eve', CLIENT), token=token)
    text = c.refused('POST', CSRS, ask(c, 'king', '/O=system:masters/CN=eve', CLIENT), token=token)
    assert 'system:masters' in text, text
    # Who asks is not what the body says.
    c.good('POST', CSRS, ask(c, 'liar', '/O=system:nodes/CN=system:node:new', SERVING, FOR_SERVER, ('DNS:new',), username='system:node:new', groups=['system:nodes', 'system:masters'], uid='1', extra={'a': ['b']}), token=token)
    spec = c.good('GET', f'{CSRS}/liar')['spec']
    assert spec['username'] == 'system:bootstrap:joinme' and 'system:masters' not in spec['groups'] and not spec.get('extra'), spec
    # A decision in the body of a new request is not a decision.
    body = ask(c, 'decided', '/CN=eve', CLIENT)
    body['status'] = {'conditions': [{'type': 'Approved', 'status': 'True', 'reason': 'me'}], 'certificate': base64.b64encode(b'x').decode()}
    c.good('POST', CSRS, body, token=token)
    assert not c.good('GET', f'{CSRS}/decided')['status'], 'a new request came with a decision'
    # And the good one.
    c.good('POST', CSRS, ask(c, 'good', '/O=system:nodes/CN=system:node:new'), token=token)
    until('it has its certificate', lambda: c.good('GET', f'{CSRS}/good')['status'].get('certificate'))
    shutil.copy(c.folder + '/csr.key', c.folder + '/new.key')
    with open(c.folder + '/new.crt', 'wb') as f:
        f.write(base64.b64decode(c.good('GET', f'{CSRS}/good')['status']['certificate']))
    for name in ('person', 'decided', 'liar'):
        assert not condition(c, name, 'Approved') and not c.good('GET', f'{CSRS}/{name}')['status'].get('certificate'), name
    as_new_node(c)


def as_new_node(c):
    """The certificate is that node's: it is who its subject says, and not another node, and approves nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(c.folder + '/new.crt', c.folder + '/new.key')
    def code(method, path, body=None):
        with c.raw(context) as s:
            data = json.dumps(body).encode() if body else b''
            s.sendall(f'{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data)
            return int(s.recv(12).split()[1])
    other = c.good('GET', '/api/v1/nodes')['items'][0]['metadata']['name']
    assert code('POST', '/api/v1/nodes', {'metadata': {'name': 'new'}}) == 201
    for method, path, body in (('POST', '/api/v1/nodes', {'metadata': {'name': 'another'}}), ('GET', '/api/v1/nodes/' + other, None), ('DELETE', '/api/v1/nodes/' + other, None), ('GET', SECRETS, None), ('GET', '/api/v1/pods', None),
                               ('PUT', f'{CSRS}/person/approval', c.good('GET', f'{CSRS}/person'))):
        assert code(method, path, body) == 403, (method, path)
    # Another node's certificate, asked for with this one's.
    assert code('POST', CSRS, ask(c, 'steal', '/O=system:nodes/CN=system:node:another')) == 201
    assert 'its own certificate only' in until('it is denied', lambda: condition(c, 'steal', 'Denied'))['message']


# --- Decisions ----------------------------------------------------------------------------------------------------------


def decisions(c):
    c.role('', 'asks', rule('create get list', 'certificatesigningrequests', CERTIFICATES))
    c.role('', 'approves', rule('get list update patch', 'certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status', CERTIFICATES))
    c.role('', 'approves-for-example', rule('approve sign', 'signers', CERTIFICATES, names=['example.com/*']))
    c.role('', 'signs-for-us', rule('sign', 'signers', CERTIFICATES, names=[CLIENT]))
    c.bind('', 'asks', 'anna')
    c.bind('', 'approves', 'abel', 'wanda', 'sven')
    c.bind('', 'approves-for-example', 'wanda')
    c.bind('', 'signs-for-us', 'sven')
    c.good('POST', CSRS, ask(c, 'ours', '/CN=anna', CLIENT), token='asker-token')
    c.good('POST', CSRS, ask(c, 'theirs', '/CN=anna', 'example.com/any'), token='asker-token')
    approved = [{'type': 'Approved', 'status': 'True', 'reason': 'test'}]

    def decide(name, part, token, code, **status):
        whole = c.good('GET', f'{CSRS}/{name}')
        whole['status'] = {**whole['status'], **status}
        c.refused('PUT', f'{CSRS}/{name}/{part}', whole, code=code, token=token)
        c.refused('PATCH', f'{CSRS}/{name}/{part}', {'status': status}, code=code, token=token)

    ours = ask(c, 'x', '/CN=anna')['spec']['request']
    decide('ours', 'approval', 'asker-token', 403, conditions=approved)       # may ask, not decide
    decide('ours', 'approval', 'approver-token', 403, conditions=approved)    # may write decisions, for no signer
    decide('ours', 'approval', 'wide-token', 403, conditions=approved)        # ... for another's signers
    decide('ours', 'approval', 'signer-token', 403, conditions=approved)      # ... may sign, not approve
    certificate = base64.b64encode(open(c.data + '/pki/ca.crt', 'rb').read()).decode()
    decide('ours', 'status', 'approver-token', 403, certificate=certificate)
    decide('ours', 'status', 'wide-token', 403, certificate=certificate)
    decide('ours', 'status', 'signer-token', 422, certificate=base64.b64encode(b'nothing').decode())
    # Whoever may sign does not approve by the way: neither with a condition nor by the object itself.
    c.call('PATCH', f'{CSRS}/ours/status', {'status': {'conditions': approved}}, token='signer-token')
    assert not condition(c, 'ours', 'Approved'), 'approved by who may only sign'
    c.call('PATCH', f'{CSRS}/ours', {'status': {'conditions': approved}}, token='approver-token')
    assert not condition(c, 'ours', 'Approved'), 'approved by the object itself'
    # What was decided is about what was asked: that does not change afterwards.
    before = c.good('GET', f'{CSRS}/ours')['spec']
    for part in ('', '/approval', '/status'):
        c.call('PATCH', f'{CSRS}/ours{part}', {'spec': {'request': ours, 'signerName': 'example.com/any', 'username': 'root', 'groups': ['system:masters']}}, token='wide-token')
        assert c.good('GET', f'{CSRS}/ours')['spec'] == before, part
    # With the right to their own signer they do decide.
    c.good('PATCH', f'{CSRS}/theirs/approval', {'status': {'conditions': approved}}, token='wide-token')
    assert condition(c, 'theirs', 'Approved')
    # Approved by an administrator: signed for what was asked, as a client and no more, a year at most.
    c.good('PATCH', f'{CSRS}/ours/approval', {'status': {'conditions': approved}})
    got = until('it is signed', lambda: c.good('GET', f'{CSRS}/ours')['status'].get('certificate'))
    shown = subprocess.run(['openssl', 'x509', '-noout', '-text'], input=base64.b64decode(got), capture_output=True).stdout.decode()
    assert 'CN = anna' in shown and 'CA:TRUE' not in shown and 'TLS Web Client Authentication' in shown and 'TLS Web Server Authentication' not in shown, shown
    lasts = subprocess.run(['openssl', 'x509', '-noout', '-checkend', str(366 * 86400)], input=base64.b64decode(got), capture_output=True)
    assert lasts.returncode == 1, 'it lasts for more than a year'


def main():
    with Cluster(USERS, 'up', ('--nodes', '1')) as c:
        until('a node is ready', lambda: any(x['type'] == 'Ready' and x['status'] == 'True' for n in c.good('GET', '/api/v1/nodes')['items'] for x in n['status'].get('conditions', [])))
        tokens(c)
        bootstrapping(c)
        decisions(c)
        c.alive()
    assert '0123456789abcdef' not in c.said, 'the secret of a token is in what the server printed'
    print('certificates: tokens, requests and decisions give what they should')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two teams on one cluster, each editor of its own namespace: neither sees or touches what the other has, by any verb, list, watch, event, review or
explanation; and no secret that went through the server is in what it logs. Usage: tenants.py DRAY"""
import json, os, shutil, ssl, subprocess, sys, tempfile, time, urllib.error, urllib.request

TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
RBAC = '/apis/rbac.authorization.k8s.io/v1'
TOKENS = {'root-token-5b1e': ('root', 'system:masters'), 'a-token-77c2': ('ann', 'team-a'), 'b-token-91fd': ('ben', 'team-b')}
ROOT, A, B = TOKENS
SECRET = 'hunter2-kept-in-a-secret'


class Api:
    def __init__(self, url):
        self.url = url

    def call(self, method, path, body=None, token=ROOT, kind='application/json'):
        q = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None)
        q.add_header('Authorization', 'Bearer ' + token)
        q.add_header('Content-Type', kind)
        try:
            with urllib.request.urlopen(q, context=TLS, timeout=30) as a:
                return a.status, a.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def good(self, method, path, body=None, token=ROOT, **more):
        code, text = self.call(method, path, body, token, **more)
        assert code in (200, 201), (method, path, code, text)
        return json.loads(text)


def claims(ns):
    return f'/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims'


def pod(name, claim):
    return {'metadata': {'name': name}, 'spec': {'containers': [{'name': 'c', 'image': 'x', 'resources': {'claims': [{'name': 'g'}]}}],
                                                 'resourceClaims': [{'name': 'g', 'resourceClaimName': claim}]}}


def claim(name, device_class, count):
    return {'metadata': {'name': name}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': device_class, 'count': count}}]}}}


def until(what, fn):
    for _ in range(600):
        got = fn()
        if got:
            return got
        time.sleep(0.05)
    raise AssertionError('never: ' + what)


def set_up(api):
    """Team b has every device; team a waits for one."""
    for team in ('a', 'b'):
        api.good('POST', '/api/v1/namespaces', {'metadata': {'name': 'team-' + team}})
        api.good('POST', f'{RBAC}/namespaces/team-{team}/rolebindings', {
            'metadata': {'name': 'edit'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'edit'},
            'subjects': [{'kind': 'Group', 'apiGroup': 'rbac.authorization.k8s.io', 'name': 'team-' + team}]})
    until('the rules of edit', lambda: any('resourceclaims' in r['resources'] for r in api.good('GET', RBAC + '/clusterroles/edit').get('rules') or ()))
    slices = until('slices', lambda: api.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'])
    device_class = api.good('GET', '/apis/resource.k8s.io/v1/deviceclasses')['items'][0]['metadata']['name']
    for i in range(len(slices)):
        count = len(slices[i]['spec']['devices'])
        until('the right to claim', lambda: api.call('GET', claims('team-b'), token=B)[0] == 200)
        api.good('POST', claims('team-b'), claim(f'train-{i}', device_class, count), B)
        api.good('POST', '/api/v1/namespaces/team-b/pods', pod(f'train-{i}', f'train-{i}'), B)
    for i in range(len(slices)):
        until('team b has its devices', lambda: 'nodeName' in api.good('GET', f'/api/v1/namespaces/team-b/pods/train-{i}', token=B)['spec'])
    api.good('POST', '/api/v1/namespaces/team-b/secrets', {'metadata': {'name': 'key'}, 'stringData': {'k': SECRET}}, B)
    api.good('POST', claims('team-a'), claim('wish', device_class, 1), A)
    api.good('POST', '/api/v1/namespaces/team-a/pods', pod('waits', 'wish'), A)
    return until('why the pod waits', lambda: [c['message'] for c in api.good('GET', '/api/v1/namespaces/team-a/pods/waits', token=A).get('status', {}).get('conditions', ())
                                               if c['type'] == 'PodScheduled' and 'held by' in c.get('message', '')])[0]


def strangers(api):
    """Everything of team b, asked for by team a."""
    b = '/api/v1/namespaces/team-b'
    paths = [claims('team-b'), claims('team-b') + '/train-0', claims('team-b') + '?watch=1&timeoutSeconds=1', b + '/pods', b + '/pods/train-0', b + '/pods/train-0/log', b + '/events', b + '/secrets/key',
             b + '/configmaps', b + '/resourcequotas', f'{RBAC}/namespaces/team-b/rolebindings', '/apis/events.k8s.io/v1/namespaces/team-b/events', '/apis/resource.k8s.io/v1/resourceclaims', '/api/v1/pods',
             '/api/v1/events', '/api/v1/secrets', '/apis/resource.k8s.io/v1/namespaces/team-b/resourceclaimtemplates', '/dray/explain?kind=Pod&namespace=team-b&name=train-0',
             '/dray/explain?kind=Pod&namespace=team-a&name=waits', '/dray/check', '/metrics']
    for path in paths:
        code, text = api.call('GET', path, token=A)
        assert code == 403 and 'train' not in text.replace('train-0', '', 3), (path, code, text)
    writes = [('POST', claims('team-b'), claim('mine', 'x', 1)), ('DELETE', claims('team-b') + '/train-0', None), ('DELETE', claims('team-b'), None), ('DELETE', b + '/pods/train-0', None),
              ('PUT', claims('team-b') + '/train-0/status', claim('train-0', 'x', 1)), ('POST', b + '/pods/train-0/eviction', {'metadata': {'name': 'train-0'}}), ('POST', b + '/pods/train-0/exec?command=x', None),
              ('POST', b + '/serviceaccounts/default/token', {'spec': {}}), ('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'user': 'ben'}}),
              ('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': B}}),
              ('PUT', '/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/wish/status', claim('wish', 'x', 1))]
    for method, path, body in writes:
        code, text = api.call(method, path, body, A)
        assert code == 403, (method, path, code, text)
    # A name of another namespace in one's own object gives nothing.
    code, text = api.call('GET', claims('team-a') + '?fieldSelector=metadata.namespace%3Dteam-b', token=A)
    assert code == 200 and not json.loads(text)['items'], text
    # What everybody may know says nothing about who holds what.
    for path in ('/api', '/apis', '/openapi/v3', '/version'):
        code, text = api.call('GET', path, token=A)
        assert code == 200 and 'team-b' not in text, path


def explanations(api, told):
    assert 'team-b' not in told and 'train' not in told and 'claims of other namespaces' in told, told
    events = api.good('GET', '/api/v1/namespaces/team-a/events', token=A)
    text = json.dumps(events)
    assert 'team-b' not in text and 'train-' not in text, text
    slices = json.dumps(api.good('GET', '/apis/resource.k8s.io/v1/resourceslices'))
    assert 'team-b' not in slices and 'train-' not in slices, 'a slice names its holders'
    whole = json.dumps(api.good('GET', '/dray/explain?kind=Pod&namespace=team-a&name=waits'))
    assert 'team-b/train-' in whole, 'an administrator is not told who holds the devices'


def main():
    folder = tempfile.mkdtemp(prefix='dray-tenants-')
    with open(folder + '/tokens.csv', 'w') as f:
        f.writelines(f'{t},{user},,{group}\n' for t, (user, group) in TOKENS.items())
    os.chmod(folder + '/tokens.csv', 0o600)
    log = open(folder + '/log', 'w+')
    p = subprocess.Popen([os.path.abspath(sys.argv[1]), 'up', '--nodes', '2', '--data-dir', folder + '/data', '--listen', '127.0.0.1:0', '--token-file', folder + '/tokens.csv', '--log-level', 'debug'],
                         stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = p.stdout.readline()
        while 'dray is up at' not in line:
            assert line, 'dray up does not start'
            line = p.stdout.readline()
        api = Api(line.split(' at ')[1].strip())
        told = set_up(api)
        strangers(api)
        explanations(api, told)
        api.good('POST', '/api/v1/namespaces/team-a/serviceaccounts', {'metadata': {'name': 'robot'}})
        jwt = api.good('POST', '/api/v1/namespaces/team-a/serviceaccounts/robot/token', {'spec': {}})['status']['token']
        for bad in ('not-a-token-c0ffee', jwt[:-6] + 'AAAAAA'):
            assert api.call('GET', '/api/v1/pods', token=bad)[0] == 401
        api.call('POST', '/api/v1/namespaces/team-b/secrets', {'metadata': {'name': 'BAD name'}, 'stringData': {'k': SECRET}}, B)
        assert api.call('GET', '/api/v1/namespaces/team-a/pods?access_token=' + A, token=jwt)[0] == 403
    finally:
        p.terminate()
        rest = p.communicate(timeout=60)[0]
        log.seek(0)
        logged = log.read() + rest
        shutil.rmtree(folder, ignore_errors=True)
    assert p.returncode == 0, f'dray up ended with {p.returncode}'
    for word in (*TOKENS, SECRET, 'not-a-token-c0ffee', jwt, jwt.split('.')[2], 'PRIVATE KEY'):
        assert word not in logged, f'the log has a secret in it: {word[:12]}…'
    print('tenants: neither sees nor touches what the other has; nothing secret is logged')


main()

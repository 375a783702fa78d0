#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: secrets and credentials are in the answers to those who may have them, and in files for their owner alone; not in what any process prints or logs, at any
level, not in metrics, events, explanations, snapshots, doctor's findings or what other verbs show. Usage: secrets.py DRAY"""
import glob, json, os, subprocess
from kit import DRA, DRAY, ROOT, Cluster, until

VALUE, USER_TOKEN, PARAMETER = 'hunter2-kept-in-a-secret', 'ann-token-77c2f1', 'licence-key-of-a-claim'
USERS = {USER_TOKEN: ('ann', 'devs')}


def dray(c, *args, given=None):
    run = subprocess.run([DRAY, *args], env=dict(os.environ, KUBECONFIG=c.data + '/admin.kubeconfig', HOME=c.folder), capture_output=True, text=True, timeout=120, input=given)
    return run.stdout + run.stderr


def work(c, seen):
    """Requests that go well and that fail, with secrets wherever a client can put one."""
    c.namespace('team')
    secrets = '/api/v1/namespaces/team/secrets'
    c.good('POST', secrets, {'metadata': {'name': 's', 'annotations': {'kubectl.kubernetes.io/last-applied-configuration': json.dumps({'stringData': {'k': VALUE}})}}, 'stringData': {'k': VALUE}})
    c.call('POST', secrets, {'metadata': {'name': 'BAD'}, 'stringData': {'k': VALUE}})
    c.call('POST', secrets, {'metadata': {'name': 'bad'}, 'data': {'k': VALUE}})
    c.call('POST', secrets, {'metadata': {'name': 'bad'}, 'type': 'kubernetes.io/dockerconfigjson', 'stringData': {'.dockerconfigjson': VALUE}})
    c.call('PATCH', secrets + '/s', [{'op': 'test', 'path': '/data/k', 'value': VALUE}], kind='application/json-patch+json')
    c.call('POST', secrets, ('{"metadata":{"name":"x"},"stringData":{"k":"' + VALUE).encode())
    c.call('PUT', secrets + '/s', {'metadata': {'name': 's', 'resourceVersion': '1'}, 'stringData': {'k': VALUE}})
    c.good('POST', '/api/v1/namespaces/team/serviceaccounts', {'metadata': {'name': 'robot'}})
    jwt = c.good('POST', '/api/v1/namespaces/team/serviceaccounts/robot/token', {'spec': {}})['status']['token']
    c.call('GET', '/api/v1/namespaces/team/pods', token=jwt)
    c.call('GET', '/api/v1/namespaces/team/pods', token=jwt[:-4] + 'AAAA')
    c.call('GET', '/api/v1/namespaces/team/pods', token=USER_TOKEN)
    c.call('GET', '/api/v1/nodes?token=' + jwt, token=USER_TOKEN)
    c.call('GET', '/api/v1/nodes', token=USER_TOKEN, headers=[('Impersonate-User', 'root'), ('Cookie', 'session=' + VALUE)])
    c.good('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': USER_TOKEN}})
    c.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': jwt, 'audiences': ['x']}})
    device_class = c.good('GET', DRA + '/deviceclasses')['items'][0]['metadata']['name']
    claim = {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': device_class, 'count': 64}}]}}}
    c.good('POST', DRA + '/namespaces/team/resourceclaims', {'metadata': {'name': 'c'}, **claim})
    c.good('POST', '/api/v1/namespaces/team/pods', {'metadata': {'name': 'p'}, 'spec': {
        'serviceAccountName': 'robot', 'resourceClaims': [{'name': 'g', 'resourceClaimName': 'c'}],
        'containers': [{'name': 'c', 'image': 'x', 'resources': {'claims': [{'name': 'g'}]}, 'env': [{'name': 'K', 'valueFrom': {'secretKeyRef': {'name': 's', 'key': 'k'}}}]}]}})
    until('why the pod waits', lambda: 'conditions' in c.good('GET', '/api/v1/namespaces/team/pods/p').get('status', {}))
    seen['jwt'] = jwt
    return [VALUE, jwt, jwt.split('.')[2], USER_TOKEN, ROOT, 'aHVudGVyMi1rZXB0LWluLWEtc2VjcmV0', 'PRIVATE KEY', *keys(c)]


def keys(c):
    """The middle of every key in the folder, which would be in any form it were shown in."""
    for path in glob.glob(c.data + '/pki/*.key'):
        lines = [x for x in open(path).read().splitlines() if '-----' not in x]
        yield lines[len(lines) // 2][:40]


def outputs(c):
    yield 'metrics', c.call('GET', '/metrics')[1]
    yield 'events', c.call('GET', '/api/v1/events')[1]
    yield 'explain', c.call('GET', '/dray/explain?kind=Pod&namespace=team&name=p')[1]
    yield 'check', c.call('GET', '/dray/check')[1]
    yield 'openapi', c.call('GET', '/openapi/v2')[1]
    for verb in (['doctor'], ['why', 'pod', 'p', '-n', 'team'], ['describe', 'pod', 'p', '-n', 'team'], ['describe', 'secret', 's', '-n', 'team'], ['get', 'secrets', '-n', 'team'], ['get', 'secrets', '-A', '-o', 'wide'], ['get', 'serviceaccounts', '-A'],
                 ['history', 'claim', 'c', '-n', 'team'], ['free'], ['top', '--once'], ['who', '-A'], ['get', 'pods', '-A', '-o', 'yaml']):
        yield 'dray ' + ' '.join(verb), dray(c, *verb)
    said = dray(c, 'snapshot', 'save', c.folder + '/state.json')
    assert os.path.exists(c.folder + '/state.json'), said
    yield 'snapshot', open(c.folder + '/state.json').read()
    assert os.stat(c.folder + '/state.json').st_mode & 0o077 == 0, 'others can read a snapshot'


def main():
    seen = {}
    with Cluster(USERS, 'up', ('--nodes', '1', '--log-level', 'debug')) as c:
        words = work(c, seen)
        env = dict(os.environ, KUBECONFIG=c.data + '/admin.kubeconfig')
        others = [subprocess.Popen([DRAY, verb, '--leader-elect=false', '--bind-address', 'none', '--log-level', 'debug'], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for verb in ('scheduler', 'controllers')]
        for what, text in outputs(c):
            assert text, what
            for word in words:
                assert word not in text, f'{what} shows a secret: {word[:16]}…'
        c.call('DELETE', '/api/v1/namespaces/team/pods/p?gracePeriodSeconds=0')
        for p in others:
            p.terminate()
            text = p.communicate(timeout=60)[0]
            for word in words:
                assert word not in text, f'a component logs a secret: {word[:16]}…'
        # Command lines and environments are seen by others on the machine.
        for path in glob.glob(f'/proc/{c.process.pid}/cmdline'):
            assert not any(w in open(path).read() for w in words)
        database = open(c.data + '/dray.db', 'rb').read() + open(c.data + '/dray.db-wal', 'rb').read()
        assert seen['jwt'].encode() not in database, 'a token is kept in the database'
    for word in words:
        assert word not in c.said, f'dray up logs a secret: {word[:16]}…'
    print('secrets: nothing shows or logs one')


main()

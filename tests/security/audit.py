#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: with an audit policy every request leaves its events: who asked for what, from where, what was decided and why, as much of bodies as the policy says and no more;
refused and unauthenticated requests too; tenants cannot forge lines, and a log that cannot be written holds up nobody. Usage: audit.py DRAY"""
import json, os, re, subprocess, tempfile, time, urllib.error, urllib.request
from kit import DRAY, ROOT, TLS, Cluster, rule, until

POLICY = '''
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/livez*", /metrics]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  omitManagedFields: true
  namespaces: [team]
  verbs: [create, update, patch, delete, list]
- level: Request
  resources: [{group: "", resources: [namespaces], resourceNames: []}]
- level: Metadata
  userGroups: [system:unauthenticated, system:authenticated]
  omitStages: []
'''
USERS = {'tenant-token': ('tina', 'team-a'), 'other-token': ('otto', '')}
TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$')


def events(path):
    with open(path) as f:
        return [json.loads(line) for line in f.read().split('\n')[:-1]]  # the last one may be half written


def last(path, **want):
    def found():
        got = [e for e in events(path) if all(e.get(k) == v for k, v in want.items())]
        return got[-1] if got else None
    return until(f'event {want}', found)


def records(folder):
    log = folder + '/audit.log'
    with Cluster(USERS, flags=['--audit-policy-file', folder + '/policy.yaml', '--audit-log-path', log]) as c:
        assert os.stat(log).st_mode & 0o777 == 0o600
        c.namespace('team', **{'pod-security.kubernetes.io/enforce': 'baseline', 'pod-security.kubernetes.io/audit': 'restricted'})
        c.role('team', 'tenant', rule('*', 'pods configmaps secrets'))
        c.bind('team', 'tenant', 'tina', kind='Role')
        maps = '/api/v1/namespaces/team/configmaps'
        # Metadata, request and response, in upstream's order of fields.
        q = urllib.request.Request(c.url + maps + '?x=%0A', method='POST', data=json.dumps({'metadata': {'name': 'm'}, 'data': {'k': 'a\nb'}}).encode(), headers={
            'Authorization': 'Bearer tenant-token', 'Content-Type': 'application/json', 'User-Agent': 'u' * 2000, 'X-Forwarded-For': '10.9.8.7, nonsense', 'Audit-ID': 'my-own-id'})
        with urllib.request.urlopen(q, context=TLS) as a:
            assert a.headers['Audit-ID'] == 'my-own-id'
        e = last(log, auditID='my-own-id')
        assert list(e) == ['kind', 'apiVersion', 'level', 'auditID', 'stage', 'requestURI', 'verb', 'user', 'sourceIPs', 'userAgent', 'objectRef', 'responseStatus', 'requestObject',
                           'responseObject', 'requestReceivedTimestamp', 'stageTimestamp', 'annotations'], list(e)
        assert e['kind'] == 'Event' and e['apiVersion'] == 'audit.k8s.io/v1' and e['level'] == 'RequestResponse' and e['stage'] == 'ResponseComplete'
        assert e['requestURI'] == maps + '?x=%0A' and e['verb'] == 'create' and e['user'] == {'username': 'tina', 'groups': ['team-a', 'system:authenticated']}, e
        assert e['sourceIPs'] == ['10.9.8.7', '127.0.0.1'] and e['userAgent'] == 'u' * 1024 + '...TRUNCATED', e['sourceIPs']
        assert e['objectRef'] == {'resource': 'configmaps', 'namespace': 'team', 'name': 'm', 'apiVersion': 'v1'}, e['objectRef']
        assert e['responseStatus'] == {'metadata': {}, 'code': 201} and TIME.match(e['stageTimestamp']) and TIME.match(e['requestReceivedTimestamp'])
        assert e['requestObject']['data'] == {'k': 'a\nb'} and e['responseObject']['metadata']['uid'] and 'managedFields' not in e['responseObject']['metadata']
        assert e['annotations']['authorization.k8s.io/decision'] == 'allow' and 'RoleBinding' in e['annotations']['authorization.k8s.io/reason'], e['annotations']
        # Each response has an id of its own.
        with urllib.request.urlopen(urllib.request.Request(c.url + '/livez'), context=TLS) as a:
            assert re.match(r'^[0-9a-f-]{36}$', a.headers['Audit-ID'])
        # Lists are recorded, curl's indentation or not; patches as JSON.
        c.call('GET', maps, token='tenant-token', headers=[('User-Agent', 'curl/8')])
        e = last(log, verb='list', user={'username': 'tina', 'groups': ['team-a', 'system:authenticated']})
        assert [i['metadata']['name'] for i in e['responseObject']['items']] == ['m'] and 'managedFields' not in e['responseObject']['items'][0]['metadata']
        c.good('PATCH', maps + '/m', {'data': {'k': 'c'}}, token='tenant-token')
        e = last(log, verb='patch')
        assert e['requestObject'] == {'data': {'k': 'c'}} and e['responseObject']['data'] == {'k': 'c'} and e['objectRef']['name'] == 'm'
        c.good('PATCH', maps + '/m?fieldManager=f', b'apiVersion: v1\nkind: ConfigMap\ndata:\n  z: word\n', kind='application/apply-patch+yaml')
        assert last(log, requestURI=maps + '/m?fieldManager=f')['requestObject'] == {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'z': 'word'}}
        # Secrets stay out of it: metadata alone, on every way.
        c.good('POST', '/api/v1/namespaces/team/secrets', {'metadata': {'name': 's'}, 'stringData': {'password': 'hunter2-hunter2'}}, token='tenant-token')
        c.good('GET', '/api/v1/namespaces/team/secrets/s', token='tenant-token')
        last(log, verb='get', requestURI='/api/v1/namespaces/team/secrets/s')
        with open(log) as f:
            assert 'hunter2' not in f.read()
        # Refusals: by admission, with what Pod Security says; by roles; by authentication.
        pod = {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': 'c', 'image': 'x'}]}}
        c.good('POST', '/api/v1/namespaces/team/pods', pod, token='tenant-token')
        notes = last(log, verb='create', requestURI='/api/v1/namespaces/team/pods', responseStatus={'metadata': {}, 'code': 201})['annotations']
        assert notes['pod-security.kubernetes.io/enforce-policy'] == 'baseline:latest'
        assert notes['pod-security.kubernetes.io/audit-violations'].startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false'), notes
        c.refused('POST', '/api/v1/namespaces/team/pods', {**pod, 'spec': {**pod['spec'], 'hostPID': True}}, token='tenant-token')
        e = until('a refusal', lambda: [e for e in events(log) if e.get('responseStatus', {}).get('code') == 403])[-1]
        assert e['responseStatus']['reason'] == 'Forbidden' and 'violates PodSecurity' in e['responseStatus']['message'] and e['responseObject']['kind'] == 'Status', e
        c.refused('GET', '/api/v1/nodes', token='other-token')
        last(log, requestURI='/api/v1/nodes')
        e = [e for e in events(log) if e['requestURI'] == '/api/v1/nodes']
        assert [x['stage'] for x in e] == ['ResponseComplete'] and e[0]['annotations']['authorization.k8s.io/decision'] == 'forbid' and e[0]['responseStatus']['code'] == 403, e
        c.refused('GET', '/api/v1/nodes?wrong', token='no-such-token', code=401)
        last(log, requestURI='/api/v1/nodes?wrong')
        e = [e for e in events(log) if e['requestURI'] == '/api/v1/nodes?wrong']
        assert [x['stage'] for x in e] == ['ResponseStarted'] and e[0]['user']['username'] == 'system:anonymous', e
        assert e[0]['responseStatus'] == {'metadata': {}, 'status': 'Failure', 'message': 'Unauthorized', 'reason': 'Unauthorized', 'code': 401}, e
        # Long requests that are refused have both stages.
        c.refused('GET', '/api/v1/secrets?watch=1', token='other-token')
        until('both stages', lambda: [e['stage'] for e in events(log) if e['requestURI'] == '/api/v1/secrets?watch=1'] == ['ResponseStarted', 'ResponseComplete'])
        # Impersonation names both.
        c.good('GET', maps + '/m', headers=[('Impersonate-User', 'tina'), ('Impersonate-Group', 'team-a')])
        e = until('both users', lambda: [e for e in events(log) if 'impersonatedUser' in e])[-1]
        assert e['user']['username'] == 'root' and e['impersonatedUser']['username'] == 'tina', e
        # Admission policies whose binding has the action Audit.
        group = '/apis/admissionregistration.k8s.io/v1'
        c.good('POST', group + '/validatingadmissionpolicies', {'metadata': {'name': 'vap'}, 'spec': {'matchConstraints': {'resourceRules': [{
            'apiGroups': [''], 'apiVersions': ['v1'], 'operations': ['CREATE'], 'resources': ['configmaps']}]}, 'validations': [{'expression': 'true'}, {'expression': 'false', 'message': 'no "maps"'}]}})
        c.good('POST', group + '/validatingadmissionpolicybindings', {'metadata': {'name': 'vab'}, 'spec': {'policyName': 'vap', 'validationActions': ['Audit', 'Warn']}})
        key = 'validation.policy.admission.k8s.io/validation_failure'

        def noted():
            c.good('POST', maps, {'metadata': {'generateName': 'n-'}})
            return [e for e in events(log) if key in e.get('annotations', {})]
        assert json.loads(until('the policy is asked', noted)[-1]['annotations'][key]) == [
            {'message': 'no "maps"', 'policy': 'vap', 'binding': 'vab', 'expressionIndex': 1, 'validationActions': ['Audit', 'Warn']}]
        # Long requests begin and end; versions that go are noted.
        with urllib.request.urlopen(urllib.request.Request(c.url + '/api/v1/nodes?watch=1&timeoutSeconds=1', headers={'Authorization': 'Bearer root-token-5b1e'}), context=TLS) as a:
            a.read()
        until('both stages', lambda: [e['stage'] for e in events(log) if e['requestURI'].startswith('/api/v1/nodes?watch=1')] == ['ResponseStarted', 'ResponseComplete'])
        c.good('GET', '/apis/resource.k8s.io/v1beta1/deviceclasses')
        notes = last(log, requestURI='/apis/resource.k8s.io/v1beta1/deviceclasses')['annotations']
        assert notes['k8s.io/deprecated'] == 'true' and notes['k8s.io/removed-release'] == '1.38'
        assert not [e for e in events(log) if e['requestURI'] == '/livez']
        # A tenant cannot forge a line.
        c.call('GET', '/api/v1/namespaces/team/configmaps/%0A%7B%22kind%22%3A%22Event%22%7D', token='tenant-token', headers=[('User-Agent', 'x"}\t{"kind')])
        assert all(e['kind'] == 'Event' and e['auditID'] for e in events(log))
        text = c.call('GET', '/metrics')[1]
        assert 'apiserver_audit_event_total ' in text and 'dray_audit_dropped_total 0' in text and 'apiserver_audit_level_total{level="None"}' in text


def stays_short(folder):
    """What a tenant makes long is cut: one request crowds nobody's events out. What it hides in a patch is found all the same."""
    log = folder + '/short.log'
    with open(folder + '/all.yaml', 'w') as f:
        f.write('apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n  namespaces: [team]\n- level: RequestResponse\n')
    with Cluster(USERS, flags=['--audit-policy-file', folder + '/all.yaml', '--audit-log-path', log]) as c:
        c.namespace('team', **{'pod-security.kubernetes.io/audit': 'restricted'})
        maps = '/api/v1/namespaces/default/configmaps'
        pods = {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': f'c{i}', 'image': 'x'} for i in range(500)]}}
        for what, body in (('configmaps', {'metadata': {'name': 'n' * 2_000_000}}), ('configmaps', {'metadata': {'name': 'm', 'labels': {f'!{i}': '' for i in range(50_000)}}}), ('pods', pods)):
            before = os.path.getsize(log)
            c.call('POST', '/api/v1/namespaces/team/' + what, body, headers=[('Audit-ID', f'long-{before}')])
            e = last(log, auditID=f'long-{before}')
            assert e['annotations']['audit.k8s.io/truncated'] == 'true' and len(json.dumps(e)) < 32_000, (what, len(json.dumps(e)))
        # Bodies: those of requests and answers up to 4 MiB, but no schemas.
        for i, body in enumerate((b'{"data": {"a": "1", "a": "2"}}', b'{"data":\t{"b": "3"}}')):
            c.good('POST', maps, {'metadata': {'name': f'm{i}'}})
            c.good('PATCH', f'{maps}/m{i}', body, headers=[('Audit-ID', f'patch-{i}')])
            assert last(log, auditID=f'patch-{i}')['requestObject']['data'] in ({'a': '2'}, {'b': '3'})
        c.good('PATCH', f'{maps}/m0?fieldManager=f', b'{"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "4", "c": "5"}}', kind='application/apply-patch+yaml')
        assert last(log, requestURI=f'{maps}/m0?fieldManager=f')['requestObject']['data'] == {'c': '5'}
        assert c.call('PATCH', maps + '/m0', b'no patch: [', headers=[('Audit-ID', 'broken')])[0] == 400
        assert last(log, auditID='broken')['requestObject'] == 'no patch: ['
        c.good('GET', '/openapi/v2', headers=[('Audit-ID', 'schema')])
        assert 'responseObject' not in last(log, auditID='schema')
        # Lists that are streamed, in JSON.
        for i in range(4):
            c.good('POST', maps, {'metadata': {'name': f'big{i}'}, 'data': {'k': 'x' * 100_000}})
        c.good('GET', maps, headers=[('Audit-ID', 'list')])
        e = last(log, auditID='list')
        assert len(e['responseObject']['items']) >= 6 and 'audit.k8s.io/truncated' not in e['annotations'], e['annotations']
        q = urllib.request.Request(c.url + maps, headers={'Authorization': 'Bearer ' + ROOT, 'Audit-ID': 'proto', 'Accept': 'application/vnd.kubernetes.protobuf'})
        urllib.request.urlopen(q, context=TLS).read()
        e = last(log, auditID='proto')
        assert 'responseObject' not in e and e['annotations']['audit.k8s.io/truncated'] == 'true', list(e)
        for i in range(50):
            c.good('POST', maps, {'metadata': {'name': f'more{i}'}, 'data': {'k': 'x' * 100_000}})
        c.good('GET', maps, headers=[('Audit-ID', 'long list')])
        e = last(log, auditID='long list')
        assert 'responseObject' not in e and e['annotations']['audit.k8s.io/truncated'] == 'true', list(e)


def rotates(folder):
    log = folder + '/small.log'
    flags = ['--audit-policy-file', folder + '/policy.yaml', '--audit-log-path', log, '--audit-log-maxsize', '1', '--audit-log-maxbackup', '2']
    with Cluster(USERS, flags=flags) as c:
        c.namespace('team')
        for i in range(12):
            c.good('POST', '/api/v1/namespaces/team/configmaps', {'metadata': {'name': f'm{i}'}, 'data': {'k': 'x' * 200_000}})
    files = sorted(f for f in os.listdir(folder) if f.startswith('small'))
    assert len(files) == 3 and all(re.match(r'small-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.log$', f) for f in files[:2]), files
    assert all(os.path.getsize(f'{folder}/{f}') <= 2 ** 20 for f in files)
    assert 'm11' in open(log).read(), 'everything that waited is written at the end'


def full_disk(folder):
    """/dev/full takes nothing: requests go on, and losses are counted."""
    with Cluster(USERS, flags=['--audit-policy-file', folder + '/policy.yaml', '--audit-log-path', '/dev/full']) as c:
        c.namespace('team')
        for _ in range(50):
            c.good('GET', '/api/v1/namespaces/team')
        until('losses', lambda: re.search(r'apiserver_audit_error_total\{plugin="log"\} [1-9]', c.call('GET', '/metrics')[1]))


def bad_policies(folder):
    head = 'apiVersion: audit.k8s.io/v1\nkind: Policy\n'
    for text, why in (('rules: [', ':'), (head, 'rules: there are no rules'), (head + 'rules: [{level: metadata}]', 'rules[0].level: "metadata" is not a level'),
                      (head + 'rules: [{level: None}, {users: [a]}]', 'rules[1].level: is required'), (head + 'rules: [{level: None, user: [a]}]', 'rules[0].user: unknown field'),
                      (head + 'rules: [{level: None, nonResourceURLs: ["/a*b"]}]', 'rules[0].nonResourceURLs[0]: '), (head + 'omitStages: [Started]\nrules: [{level: None}]', 'omitStages[0]: "Started" is not a stage'),
                      (head + 'rules: [{level: None, resources: [{group: apps/v1}]}]', 'rules[0].resources[0].group: '), (head + 'rules:\n- level: None\n  verbs: {a: b}\n', 'rules[0].verbs: is of type object'),
                      (head + 'rules:\n- level: None\n   users: []\n', 'line 5'), ('kind: Policy\nrules: []', 'not an audit policy'), ('', 'not an audit policy')):
        with open(folder + '/bad.yaml', 'w') as f:
            f.write(text)
        p = subprocess.run([DRAY, 'server', '--data-dir', folder + '/d', '--listen', '127.0.0.1:0', '--audit-policy-file', folder + '/bad.yaml', '--audit-log-path', '-'], capture_output=True, text=True, timeout=60)
        assert p.returncode and f'cannot read the audit policy {folder}/bad.yaml: ' in p.stderr and why in p.stderr, (text, p.stderr)
    for flags in (['--audit-policy-file', folder + '/none.yaml', '--audit-log-path', '-'], ['--audit-policy-file', folder + '/policy.yaml'], ['--audit-log-path', '-'],
                  ['--audit-policy-file', folder + '/policy.yaml', '--audit-log-path', folder + '/no/such/log']):
        p = subprocess.run([DRAY, 'server', '--data-dir', folder + '/d', '--listen', '127.0.0.1:0', *flags], capture_output=True, text=True, timeout=60)
        assert p.returncode and 'audit' in p.stderr, (flags, p.stderr)


with tempfile.TemporaryDirectory(prefix='dray-audit-') as directory:
    with open(directory + '/policy.yaml', 'w') as f:
        f.write(POLICY)
    records(directory)
    stays_short(directory)
    rotates(directory)
    full_disk(directory)
    bad_policies(directory)
print('audit: ok')

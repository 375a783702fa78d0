#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may do what: users × actions, answered by dray as kube-apiserver 1.37 answered them (access.table). Also what roles keep users from in
earnest: requests, escalation, impersonation. Usage: access.py DRAY, or to make the table anew: access.py --record KUBECONFIG-SERVER TOKEN"""
import json, os, shutil, ssl, subprocess, sys, tempfile, time, urllib.error, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, 'access.table')
RBAC = '/apis/rbac.authorization.k8s.io/v1'
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


class Api:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def call(self, method, path, body=None, token=None, headers=()):
        q = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None)
        q.add_header('Authorization', 'Bearer ' + (token or self.token))
        q.add_header('Content-Type', 'application/json' if method != 'PATCH' else 'application/merge-patch+json')
        for k, v in headers:
            q.add_header(k, v)
        try:
            with urllib.request.urlopen(q, context=TLS, timeout=30) as a:
                text = a.read()
                return a.status, json.loads(text) if text[:1] == b'{' else text
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())


def rule(verbs, groups='', resources='', names='', urls=''):
    r = {'verbs': verbs.split()}
    if urls:
        r['nonResourceURLs'] = urls.split()
    else:
        r['apiGroups'] = ['' if g == 'core' else g for g in (groups or 'core').split()]
        r['resources'] = resources.split()
    if names:
        r['resourceNames'] = names.split()
    return r


ROLES = {  # namespace/name, or name of the cluster
    'team-a/pod-reader': [rule('get list watch', 'core', 'pods')],
    'team-a/log-reader': [rule('get', 'core', 'pods/log')],
    'team-a/two-maps': [rule('get update', 'core', 'configmaps', 'c1 c2')],
    'team-a/statuses': [rule('update patch', 'core resource.k8s.io', '*/status')],
    'team-b/everything': [rule('*', '*', '*')],
    'claims': [rule('*', 'resource.k8s.io', 'resourceclaims resourceclaimtemplates'), rule('get list watch', 'resource.k8s.io', 'deviceclasses resourceslices')],
    'granular': [rule('associated-node:update associated-node:patch', 'resource.k8s.io', 'resourceclaims/driver', 'gpu.example.com')],
    'urls': [rule('get', urls='/metrics /apis/* /logs*')],
    'any-verb': [rule('*', 'core', 'nodes')],
    'part-of-view': [rule('get list', 'example.com', 'widgets')],
    'gathered': [],
}
LABELS = {'part-of-view': {'rbac.authorization.k8s.io/aggregate-to-view': 'true', 'team': 'a'}}
GATHERS = {'gathered': {'team': 'a'}}
BINDINGS = [  # namespace, role, subjects
    ('team-a', 'Role/pod-reader', ['User/alice', 'Group/devs']),
    ('team-a', 'Role/log-reader', ['ServiceAccount/team-a/builder', 'ServiceAccount/team-b/builder']),
    ('team-a', 'Role/two-maps', ['User/alice']),
    ('team-a', 'Role/statuses', ['Group/system:serviceaccounts:team-b']),
    ('team-a', 'ClusterRole/claims', ['User/bob']),
    ('team-b', 'Role/everything', ['User/dan']),
    ('team-a', 'Role/not-there', ['User/frank']),
    ('', 'ClusterRole/not-there', ['User/frank']),
    ('', 'ClusterRole/urls', ['Group/devs']),
    ('', 'ClusterRole/any-verb', ['User/grace']),
    ('', 'ClusterRole/granular', ['ServiceAccount/team-a/driver']),
    ('', 'ClusterRole/gathered', ['User/heidi']),
    ('team-a', 'ClusterRole/admin', ['User/carol']),
    ('team-a', 'ClusterRole/edit', ['User/erin']),
    ('team-a', 'ClusterRole/view', ['User/eve']),
    ('', 'ClusterRole/view', ['Group/auditors']),
]
USERS = {
    'alice': ['system:authenticated'], 'bob': ['devs', 'system:authenticated'], 'carol': ['system:authenticated'], 'dan': ['system:authenticated'],
    'erin': ['system:authenticated'], 'eve': ['system:authenticated'], 'frank': ['system:authenticated'], 'grace': ['system:authenticated'],
    'heidi': ['system:authenticated'], 'ivan': ['auditors', 'system:authenticated'], 'root': ['system:masters', 'system:authenticated'],
    'system:serviceaccount:team-a:builder': ['system:serviceaccounts', 'system:serviceaccounts:team-a', 'system:authenticated'],
    'system:serviceaccount:team-b:builder': ['system:serviceaccounts', 'system:serviceaccounts:team-b', 'system:authenticated'],
    'system:serviceaccount:team-a:driver': ['system:serviceaccounts', 'system:serviceaccounts:team-a', 'system:authenticated'],
    'system:serviceaccount:kube-system:resource-claim-controller': ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
    'system:kube-scheduler': ['system:authenticated'], 'system:kube-controller-manager': ['system:authenticated'], 'system:anonymous': ['system:unauthenticated'],
}
ACTIONS = [  # verb, namespace, group, resource, subresource, name; or verb, path
    ('list', 'team-a', '', 'pods', '', ''), ('get', 'team-a', '', 'pods', '', 'p'), ('get', 'team-a', '', 'pods', 'log', 'p'), ('create', 'team-a', '', 'pods', 'exec', 'p'),
    ('list', 'team-b', '', 'pods', '', ''), ('list', '', '', 'pods', '', ''), ('delete', 'team-a', '', 'pods', '', 'p'), ('create', 'team-a', '', 'pods', 'binding', 'p'),
    ('get', 'team-a', '', 'configmaps', '', 'c1'), ('get', 'team-a', '', 'configmaps', '', 'c3'), ('list', 'team-a', '', 'configmaps', '', ''),
    ('update', 'team-a', '', 'pods', 'status', 'p'), ('update', 'team-a', 'resource.k8s.io', 'resourceclaims', 'status', 'c'), ('get', 'team-a', '', 'secrets', '', 's'),
    ('create', 'team-a', 'resource.k8s.io', 'resourceclaims', '', ''), ('create', 'team-b', 'resource.k8s.io', 'resourceclaims', '', ''),
    ('list', '', 'resource.k8s.io', 'deviceclasses', '', ''), ('list', '', 'resource.k8s.io', 'resourceslices', '', ''), ('delete', 'team-a', 'resource.k8s.io', 'resourceclaimtemplates', '', 't'),
    ('associated-node:update', 'team-a', 'resource.k8s.io', 'resourceclaims', 'driver', 'gpu.example.com'),
    ('associated-node:update', 'team-a', 'resource.k8s.io', 'resourceclaims', 'driver', 'nic.example.com'), ('patch', '', 'resource.k8s.io', 'resourceclaims', 'binding', ''),
    ('get', '', '', 'nodes', '', 'n'), ('proxy', '', '', 'nodes', '', 'n'), ('update', '', '', 'nodes', 'status', 'n'), ('list', 'team-a', 'example.com', 'widgets', '', ''),
    ('create', 'team-a', 'rbac.authorization.k8s.io', 'rolebindings', '', ''), ('get', 'team-a', 'apps', 'deployments', '', 'd'), ('update', 'team-a', 'apps', 'deployments', 'scale', 'd'),
    ('impersonate', 'team-a', '', 'serviceaccounts', '', 'x'), ('create', '', 'authorization.k8s.io', 'selfsubjectaccessreviews', '', ''),
    ('create', 'kube-system', 'coordination.k8s.io', 'leases', '', ''), ('*', '*', '*', '*', '*', ''), ('get', '/metrics'), ('get', '/apis/apps/v1'), ('get', '/api'), ('get', '/healthz'),
    ('post', '/apis/apps/v1'), ('get', '/logs'), ('get', '/logs/x'), ('get', '/'), ('get', '/openapi/v3'),
]


def set_up(api):
    for n in ('team-a', 'team-b'):
        api.call('POST', '/api/v1/namespaces', {'metadata': {'name': n}})
    for key, rules in ROLES.items():
        ns, _, name = key.rpartition('/')
        o = {'metadata': {'name': name, 'labels': LABELS.get(name, {})}, 'rules': rules}
        if name in GATHERS:
            o['aggregationRule'] = {'clusterRoleSelectors': [{'matchLabels': GATHERS[name]}]}
        code, a = api.call('POST', f'{RBAC}/namespaces/{ns}/roles' if ns else f'{RBAC}/clusterroles', o)
        assert code in (201, 409), a
    for i, (ns, role, subjects) in enumerate(BINDINGS):
        kind, name = role.split('/')
        who = []
        for s in subjects:
            k, n = s.split('/', 1)
            who.append({'kind': k, 'apiGroup': 'rbac.authorization.k8s.io', 'name': n} if k != 'ServiceAccount' else
                       {'kind': k, 'namespace': n.split('/')[0], 'name': n.split('/')[1]})
        o = {'metadata': {'name': f'b{i:02d}'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': kind, 'name': name}, 'subjects': who}
        code, a = api.call('POST', f'{RBAC}/namespaces/{ns}/rolebindings' if ns else f'{RBAC}/clusterrolebindings', o)
        assert code in (201, 409), a
    for name in ('gathered', 'view', 'admin'):  # until the rules have been gathered
        for _ in range(200):
            if any('widgets' in r.get('resources', ()) for r in api.call('GET', f'{RBAC}/clusterroles/{name}')[1].get('rules') or ()):
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f'{name} never got its rules')


def ask(api, user, action):
    spec = {'user': user, 'groups': USERS[user]}
    if len(action) == 2:
        spec['nonResourceAttributes'] = {'verb': action[0], 'path': action[1]}
    else:
        spec['resourceAttributes'] = dict(zip(('verb', 'namespace', 'group', 'resource', 'subresource', 'name'), action))
    code, a = api.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': spec})
    assert code == 201, a
    return ('yes' if a['status']['allowed'] else 'no'), a['status'].get('reason', '')


def lines(api):
    set_up(api)
    time.sleep(1)  # the authorizer sees changes by watching, too
    for user in USERS:
        for action in ACTIONS:
            yield '\t'.join((user, ' '.join(w or '-' for w in action), *ask(api, user, action)))


def questions(api):
    with open(TABLE) as f:
        wanted = [x.rstrip('\n') for x in f if not x.startswith('#')]
    got, wrong = list(lines(api)), 0
    for a, b in zip(wanted, got):
        # Of several bindings that allow something any may be named.
        if a != b and not (a.split('RBAC: allowed by')[0] == b.split('RBAC: allowed by')[0] and 'RBAC: allowed by' in a and 'RBAC: allowed by' in b):
            wrong += 1
            print(f'kube-apiserver: {a}\ndray:           {b}')
    assert len(wanted) == len(got) and not wrong, f'{wrong} of {len(wanted)} answers differ'
    print(f'{len(got)} questions answered as kube-apiserver answers them')


def in_earnest(api):
    pods = '/api/v1/namespaces/team-a/pods'
    assert api.call('GET', pods, token='alice')[0] == 200
    code, a = api.call('DELETE', pods + '/p', token='alice')
    assert code == 403 and a['reason'] == 'Forbidden' and a['message'] == ('pods "p" is forbidden: User "alice" cannot delete resource "pods" in API group "" '
                                                                           'in the namespace "team-a"'), a
    assert api.call('GET', pods + '?watch=1&timeoutSeconds=1', token='carol')[0] == 200
    assert api.call('GET', '/api/v1/pods', token='alice')[0] == 403
    assert api.call('GET', '/metrics', token='alice')[1]['message'] == 'forbidden: User "alice" cannot get path "/metrics"'
    assert api.call('GET', '/version', token='alice')[0] == 200
    code, a = api.call('GET', pods, token='nobody-knows-this')
    assert code == 401, a
    # Nobody grants more than they have.
    role = {'metadata': {'name': 'mine'}, 'rules': [rule('get', 'core', 'pods'), rule('get', 'core', 'nodes')]}
    code, a = api.call('POST', f'{RBAC}/namespaces/team-a/roles', role, token='carol')
    assert code == 403 and 'is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}' in a['message'], a
    role['rules'].pop()
    assert api.call('POST', f'{RBAC}/namespaces/team-a/roles', role, token='carol')[0] == 201
    code, a = api.call('PATCH', f'{RBAC}/namespaces/team-a/roles/mine', {'rules': [rule('*', '*', '*')]}, token='carol')
    assert code == 403, a
    binding = {'metadata': {'name': 'mine'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'}, 'subjects': []}
    assert api.call('POST', f'{RBAC}/namespaces/team-a/rolebindings', binding, token='carol')[0] == 403
    binding['roleRef']['name'] = 'view'
    assert api.call('POST', f'{RBAC}/namespaces/team-a/rolebindings', binding, token='carol')[0] == 201
    # A right that is taken away is gone.
    assert api.call('DELETE', f'{RBAC}/namespaces/team-a/rolebindings/b00')[0] == 200
    for _ in range(100):
        if api.call('GET', pods, token='alice')[0] == 403:
            break
        time.sleep(0.05)
    else:
        raise AssertionError('a binding is gone, but not the right')
    # Acting for others.
    who = [('Impersonate-User', 'carol')]
    assert api.call('GET', pods, headers=who)[0] == 200 and api.call('GET', '/api/v1/nodes', headers=who)[0] == 403
    code, a = api.call('GET', pods, token='alice', headers=who)
    assert code == 403 and a['message'] == 'users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope', a
    assert api.call('GET', '/api/v1/nodes', headers=who + [('Impersonate-Group', 'system:masters')])[0] == 200
    assert api.call('GET', pods, headers=[('Impersonate-Group', 'devs')])[0] >= 400
    review = api.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'list', 'resource': 'pods', 'namespace': 'team-a'}}}, token='eve')
    assert review[1]['status']['allowed'] is True, review
    rules = api.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {'spec': {'namespace': 'team-a'}}, token='eve')[1]['status']
    assert any('resourceclaims' in r.get('resources', ()) for r in rules['resourceRules']) and rules['nonResourceRules'], rules
    print('requests, escalation and impersonation: as they should be')


def account_tokens(api):
    """Tokens of service accounts: good for their account, as long as it and the pod they are bound to are there."""
    accounts = '/api/v1/namespaces/team-a/serviceaccounts'
    assert api.call('POST', accounts, {'metadata': {'name': 'builder'}})[0] == 201
    ask = lambda spec, who=None: api.call('POST', accounts + '/builder/token', {'spec': spec}, token=who)
    code, a = ask({'expirationSeconds': 3600})
    assert code == 201 and a['kind'] == 'TokenRequest' and a['status']['expirationTimestamp'], a
    token = a['status']['token']
    me = api.call('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {}, token=token)[1]['status']['userInfo']
    assert me['username'] == 'system:serviceaccount:team-a:builder' and set(me['groups']) == {'system:serviceaccounts', 'system:serviceaccounts:team-a', 'system:authenticated'}, me
    assert api.call('GET', '/api/v1/namespaces/team-a/pods/none/log', token=token)[0] == 404  # b01 lets it read logs
    assert api.call('GET', '/api/v1/namespaces/team-a/pods', token=token)[0] == 403
    assert api.call('GET', '/api/v1/namespaces/team-a/pods', token=token[:-10] + 'AAAAAAAAAA')[0] == 401
    assert ask({'expirationSeconds': 60})[0] == 422 and ask({}, 'alice')[0] == 403
    assert ask({'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'none'}})[0] == 404
    assert ask({'boundObjectRef': {'kind': 'Job', 'apiVersion': 'batch/v1', 'name': 'x'}})[0] == 400
    # Bound to a pod.
    pod = {'metadata': {'name': 'p'}, 'spec': {'serviceAccountName': 'builder', 'containers': [{'name': 'c', 'image': 'x'}]}}
    code, made = api.call('POST', '/api/v1/namespaces/team-a/pods', pod)
    assert code == 201, made
    code, a = ask({'audiences': ['vault'], 'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'p', 'uid': made['metadata']['uid']}})
    assert code == 201, a
    bound = a['status']['token']
    assert api.call('GET', '/version', token=bound)[0] == 401, 'a token for somebody else is none for the API'
    review = lambda spec: api.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': spec})[1]['status']
    seen = review({'token': bound, 'audiences': ['vault']})
    assert seen['authenticated'] and seen['user']['extra']['authentication.kubernetes.io/pod-name'] == ['p'], seen
    assert not review({'token': bound}).get('authenticated') and not review({'token': 'x.y.z'}).get('authenticated')
    assert ask({'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'p', 'uid': 'another'}})[0] == 409
    assert api.call('DELETE', '/api/v1/namespaces/team-a/pods/p?gracePeriodSeconds=0')[0] == 200
    assert not review({'token': bound, 'audiences': ['vault']}).get('authenticated'), 'the pod is gone, its token is not'
    keys = api.call('GET', '/openid/v1/jwks')[1]
    assert keys['keys'][0]['kty'] == 'EC' and api.call('GET', '/.well-known/openid-configuration')[1]['issuer'].startswith('https://')
    assert api.call('DELETE', accounts + '/builder')[0] == 200
    assert api.call('GET', '/version', token=token)[0] == 401, 'the account is gone, its token is not'
    print('tokens of service accounts: given out, believed, and ended')


def main():
    if sys.argv[1] == '--record':
        with open(TABLE, 'w') as f:
            f.write('# SPDX-License-Identifier: Apache-2.0\n# Answers of kube-apiserver 1.37 to the questions of access.py: user, action, answer, reason.\n')
            for line in lines(Api(sys.argv[2], sys.argv[3])):
                f.write(line + '\n')
        return
    folder = tempfile.mkdtemp(prefix='dray-access-')
    tokens = os.path.join(folder, 'tokens.csv')
    with open(tokens, 'w') as f:
        for user, groups in USERS.items():
            f.write(f'{user},{user},,"{",".join(g for g in groups if g != "system:authenticated")}"\n')
    os.chmod(tokens, 0o600)
    p = subprocess.Popen([os.path.abspath(sys.argv[1]), 'up', '--nodes', '0', '--data-dir', folder + '/data', '--listen', '127.0.0.1:0', '--token-file', tokens,
                          '--authorization-mode', 'RBAC'], stdout=subprocess.PIPE, text=True)
    try:
        line = p.stdout.readline()
        while 'dray is up at' not in line:
            assert line, 'dray up does not start'
            line = p.stdout.readline()
        api = Api(line.split(' at ')[1].strip(), 'root')
        questions(api)
        in_earnest(api)
        account_tokens(api)
    finally:
        p.terminate()
        code = p.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
    assert code == 0, f'dray up ended with {code}'


main()

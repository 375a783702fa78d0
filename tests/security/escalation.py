#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: nobody gets more rights than they were given. Roles, bindings, labels that have rules gathered, impersonation, tokens of accounts, reviews, kinds
of one's own, and what a node's identity can be bent to. Usage: escalation.py DRAY"""
import json
from kit import DRA, RBAC, ROOT, Cluster, rule, until

USERS = {'editor-token': ('edith', 'devs'), 'admin-token': ('adam', 'devs'), 'roles-token': ('rolf', 'devs'), 'star-token': ('stella', 'devs'), 'node-token': ('system:node:n1', 'system:nodes'),
         'imp-token': ('ingo', 'devs'), 'update-token': ('uma', 'devs')}
EVERYTHING = {'verbs': ['*'], 'apiGroups': ['*'], 'resources': ['*']}
MERGE = 'application/merge-patch+json'


def set_up(c):
    for ns in ('team', 'other'):
        c.namespace(ns)
        c.good('POST', f'/api/v1/namespaces/{ns}/secrets', {'metadata': {'name': 's'}, 'stringData': {'k': 'v'}})
        c.good('POST', f'/api/v1/namespaces/{ns}/serviceaccounts', {'metadata': {'name': 'robot'}})
    c.bind('team', 'edit', 'edith')
    c.bind('team', 'admin', 'adam')
    # Somebody who may write every role, and neither escalate nor bind.
    c.role('', 'role-writer', rule('get list create update patch delete', 'clusterroles roles clusterrolebindings rolebindings', 'rbac.authorization.k8s.io'))
    c.bind('', 'role-writer', 'rolf')
    c.role('', 'powerful', EVERYTHING)
    c.good('POST', RBAC + '/clusterroles', {'metadata': {'name': 'gathering'}, 'aggregationRule': {'clusterRoleSelectors': [{'matchLabels': {'for': 'gathering'}}]}})
    c.bind('', 'gathering', 'rolf')
    # Stars in parts of a rule mean no more than they say.
    c.role('team', 'stars', rule('get', '*/status'), rule('*', 'pods/*'), rule('get', '*', 'apps'))
    c.bind('team', 'stars', 'stella', kind='Role')
    c.role('', 'be-bob', rule('impersonate', 'users', names=['bob']), rule('impersonate', 'serviceaccounts'))
    c.bind('', 'be-bob', 'ingo')
    c.role('', 'empty')
    c.role('', 'updates', rule('get update patch', 'endpoints limitranges services configmaps'), rule('get update patch', 'leases', 'coordination.k8s.io'), rule('get update patch', 'roles clusterroles rolebindings clusterrolebindings', 'rbac.authorization.k8s.io'))
    c.bind('', 'updates', 'uma')
    c.good('POST', '/api/v1/nodes', {'metadata': {'name': 'n1'}})
    until('the rules of admin', lambda: any('resourceclaims' in r['resources'] for r in c.good('GET', RBAC + '/clusterroles/admin').get('rules') or ()))


def roles(c):
    writer = {'token': 'roles-token'}
    # Not by its rules, not by gathering others', not by having it gathered: a label is enough for that.
    c.refused('POST', RBAC + '/clusterroles', {'metadata': {'name': 'x'}, 'rules': [EVERYTHING]}, **writer)
    c.refused('POST', RBAC + '/clusterroles', {'metadata': {'name': 'x'}, 'aggregationRule': {'clusterRoleSelectors': [{'matchLabels': {'a': 'b'}}]}}, **writer)
    c.refused('PATCH', RBAC + '/clusterroles/powerful', {'metadata': {'labels': {'for': 'gathering'}}}, **writer)
    c.refused('PATCH', RBAC + '/clusterroles/cluster-admin', {'metadata': {'labels': {'rbac.authorization.k8s.io/aggregate-to-view': 'true'}}}, **writer)
    c.refused('PATCH', RBAC + '/clusterroles/gathering', {'aggregationRule': {'clusterRoleSelectors': [{}]}}, **writer)
    c.refused('PATCH', RBAC + '/clusterroles/gathering', {'aggregationRule': None}, **writer)
    c.refused('PATCH', RBAC + '/clusterroles/gathering', [{'op': 'replace', 'path': '/aggregationRule/clusterRoleSelectors/0/matchLabels', 'value': {'a': 'b'}}], kind='application/json-patch+json', **writer)
    c.refused('PATCH', RBAC + '/clusterroles/powerful?fieldManager=x&force=true', {'apiVersion': 'rbac.authorization.k8s.io/v1', 'kind': 'ClusterRole', 'metadata': {'name': 'powerful', 'labels': {'for': 'gathering'}}},
              kind='application/apply-patch+yaml', **writer)
    whole = c.good('GET', RBAC + '/clusterroles/powerful')
    whole['metadata']['labels'] = {'for': 'gathering'}
    c.refused('PUT', RBAC + '/clusterroles/powerful', whole, **writer)
    # What only lets it be deleted in the end is free.
    c.good('PATCH', RBAC + '/clusterroles/powerful', {'metadata': {'finalizers': ['example.com/x']}}, **writer)
    c.good('PATCH', RBAC + '/clusterroles/powerful', {'metadata': {'finalizers': None}}, **writer)
    assert not c.good('GET', RBAC + '/clusterroles/gathering').get('rules')
    # Bindings: to roles one does not have, to one that is not there yet, by changing the subjects of one that is.
    for ref in ('cluster-admin', 'powerful', 'not-there'):
        for path in ('/clusterrolebindings', '/namespaces/team/rolebindings'):
            c.refused('POST', RBAC + path, {'metadata': {'name': 'x'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': ref},
                                            'subjects': [{'kind': 'User', 'name': 'rolf', 'apiGroup': 'rbac.authorization.k8s.io'}]}, **writer)
    c.refused('PATCH', RBAC + '/clusterrolebindings/cluster-admin', {'subjects': [{'kind': 'User', 'name': 'rolf', 'apiGroup': 'rbac.authorization.k8s.io'}]}, **writer)
    # The administrator of one namespace grants there what he has there, and nothing elsewhere.
    c.refused('POST', f'{RBAC}/namespaces/team/roles', {'metadata': {'name': 'x'}, 'rules': [EVERYTHING]}, token='admin-token')
    c.refused('POST', f'{RBAC}/namespaces/other/rolebindings', {'metadata': {'name': 'x'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'view'}}, token='admin-token')
    c.refused('POST', RBAC + '/clusterrolebindings', {'metadata': {'name': 'x'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'view'}}, token='admin-token')


def updates(c):
    """To create is another right than to update: what a PUT or an apply would create is not there for who may only update."""
    who = {'token': 'update-token'}
    kinds = {'/apis/coordination.k8s.io/v1/namespaces/team/leases': {'spec': {}}, '/api/v1/namespaces/team/endpoints': {}, '/api/v1/namespaces/team/limitranges': {'spec': {'limits': []}}, '/api/v1/namespaces/team/services': {'spec': {'ports': [{'port': 80}]}},
             '/api/v1/namespaces/team/configmaps': {}, RBAC + '/namespaces/team/roles': {'rules': []}, RBAC + '/clusterroles': {'rules': []}, RBAC + '/namespaces/team/rolebindings': {'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'empty'}},
             RBAC + '/clusterrolebindings': {'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'empty'}}}
    for path, rest in kinds.items():
        for query in ('', '?dryRun=All'):
            code, text = c.call('PUT', f'{path}/new{query}', {'metadata': {'name': 'new'}, **rest}, **who)
            assert code == (404 if path.endswith('configmaps') else 403), (path, code, text)
            c.refused('PATCH', f'{path}/new{query}{"&" if query else "?"}fieldManager=x', {**applied(path), 'metadata': {'name': 'new'}, **rest}, kind='application/apply-patch+yaml', **who)
        assert c.call('GET', path + '/new')[0] == 404, path
        # What is there they do update.
        made = c.good('POST', path, {'metadata': {'name': 'old'}, **rest})
        c.good('PUT', path + '/old', {**made, 'metadata': {**made['metadata'], 'annotations': {'a': 'b'}}}, **who)


def applied(path):
    kind = {'leases': 'Lease', 'endpoints': 'Endpoints', 'limitranges': 'LimitRange', 'services': 'Service', 'configmaps': 'ConfigMap', 'roles': 'Role', 'clusterroles': 'ClusterRole', 'rolebindings': 'RoleBinding', 'clusterrolebindings': 'ClusterRoleBinding'}[path.rsplit('/', 1)[1]]
    return {'kind': kind, 'apiVersion': path.split('/')[2] if path.startswith('/api/') else '/'.join(path.split('/')[2:4])}


def stars(c):
    for path in ('/api/v1/namespaces/team/secrets/s', '/api/v1/namespaces/team/pods', '/api/v1/namespaces/team/pods/p', '/api/v1/namespaces/team/serviceaccounts/robot', '/api/v1/namespaces/other/pods/p/status',
                 '/api/v1/nodes/n1/status', '/apis/apps/v1/deployments'):
        c.refused('GET', path, token='star-token')
    c.refused('DELETE', '/apis/apps/v1/namespaces/team/deployments/d', token='star-token')
    c.refused('POST', '/api/v1/namespaces/team/serviceaccounts/robot/token', {'spec': {}}, token='star-token')
    assert c.call('GET', '/api/v1/namespaces/team/pods/p/status', token='star-token')[0] == 404


def impersonation(c):
    # Whom they are everybody may ask, so that a refusal is one of the impersonation and not of what is asked.
    def be(*headers, token='imp-token', code=403):
        return c.refused('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {}, headers=headers, token=token, code=code)
    for who in ('root', 'system:admin', 'system:node:n1', 'system:kube-controller-manager', 'bob2', 'Bob', 'system:masters'):
        be(('Impersonate-User', who))
    for group in ('system:masters', 'system:nodes', 'devs'):
        be(('Impersonate-User', 'bob'), ('Impersonate-Group', group))
    be(('Impersonate-User', 'bob'), ('Impersonate-Uid', '1'))
    be(('Impersonate-User', 'bob'), ('Impersonate-Extra-scopes', 'all'))
    be(('Impersonate-User', 'bob'), ('Impersonate-Extra-%73copes', 'all'))
    be(('Impersonate-User', 'bob'), ('Impersonate-Uid', '1'), ('Impersonate-Extra-scopes', 'all'), ('Impersonate-Group', 'devs'))
    be(('Impersonate-Group', 'system:masters'), code=400)
    be(('Impersonate-Everything', 'yes'), code=400)
    be(('Impersonate-User', ''), code=400)
    # As bob they are bob and have bob's rights: none. As an account of any namespace they have that account's, which are none, too.
    account = 'system:serviceaccount:kube-system:resource-claim-controller'
    for who, groups in (('bob', ['system:authenticated']), (account, ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'])):
        assert json.loads(be(('Impersonate-User', who), code=201))['status']['userInfo'] == {'username': who, 'groups': groups}
        for path in ('/api/v1/namespaces/team/pods', '/api/v1/namespaces/team/secrets/s'):
            c.refused('GET', path, headers=[('Impersonate-User', who)], token='imp-token', code=200 if who == account and path.endswith('pods') else 403)
    be(('Impersonate-User', 'root'), token='editor-token')


def accounts(c):
    # An account's token is as good as the account: others' are not to be had, and bound objects must be there.
    c.refused('POST', '/api/v1/namespaces/other/serviceaccounts/robot/token', {'spec': {}}, token='editor-token')
    c.refused('POST', '/api/v1/namespaces/kube-system/serviceaccounts/default/token', {'spec': {}}, token='editor-token')
    c.refused('POST', '/api/v1/namespaces/team/serviceaccounts/robot/token', {'spec': {}}, token='node-token')
    # The name in the body is not the one that counts.
    code, text = c.call('POST', '/api/v1/namespaces/team/serviceaccounts/robot/token', {'metadata': {'name': 'robot', 'namespace': 'other'}, 'spec': {}}, token='admin-token')
    if code == 201:
        me = c.good('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {}, token=json.loads(text)['status']['token'])
        assert me['status']['userInfo']['username'] == 'system:serviceaccount:team:robot', me
    code, text = c.call('POST', '/api/v1/namespaces/team/pods', {'metadata': {'name': 'p', 'namespace': 'other'}, 'spec': {'containers': [{'name': 'c', 'image': 'x'}]}}, token='editor-token')
    assert code == 400, text


def reviews(c):
    def local(namespace, token='admin-token', **spec):
        return c.call('POST', '/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews', {'metadata': {'namespace': 'team'}, 'spec': {
            'user': 'rolf', **({'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': namespace}} if namespace is not None else {}), **spec}}, token=token)
    assert local('team')[0] == 201
    for code, text in (local('other'), local(''), local(None), local(None, nonResourceAttributes={'verb': 'get', 'path': '/metrics'})):
        assert code == 422, (code, text)
    c.refused('POST', '/apis/authorization.k8s.io/v1/namespaces/other/localsubjectaccessreviews', {'spec': {'user': 'x'}}, token='admin-token')
    # A token for one is no token for others; the answer names those it is for and no more.
    def review(token, *audiences):
        return c.good('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': token, 'audiences': list(audiences)}})['status']
    vault = c.good('POST', '/api/v1/namespaces/team/serviceaccounts/robot/token', {'spec': {'audiences': ['vault', 'bank']}})['status']['token']
    assert review(vault, 'vault', 'elsewhere')['audiences'] == ['vault'] and not review(vault, 'elsewhere').get('authenticated') and not review(vault).get('authenticated')
    assert review('editor-token').get('authenticated') and not review('editor-token', 'vault').get('authenticated')


def devices(c):
    """Access to devices that others have (adminAccess) is the namespace's privilege, which tenants do not give themselves."""
    def claim(name, **more):
        return {'metadata': {'name': name}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu', 'adminAccess': True, **more}}]}}}
    for who in ('editor-token', 'admin-token', ROOT):
        text = c.refused('POST', f'{DRA}/namespaces/team/resourceclaims', claim('c'), code=422, token=who)
        assert 'admin-access' in text, text
        c.refused('POST', f'{DRA}/namespaces/team/resourceclaimtemplates', {'metadata': {'name': 't'}, 'spec': claim('x') | {'metadata': {}}}, code=422, token=who)
    for who in ('editor-token', 'admin-token'):
        c.refused('PATCH', '/api/v1/namespaces/team', {'metadata': {'labels': {'resource.kubernetes.io/admin-access': 'true'}}}, token=who)
        c.refused('POST', '/api/v1/namespaces', {'metadata': {'name': 'mine', 'labels': {'resource.kubernetes.io/admin-access': 'true'}}}, token=who)
        # The parts of a claim that say what it got, and everything of the cluster about devices.
        good = {'metadata': {'name': 'g-' + who}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}}
        c.good('POST', f'{DRA}/namespaces/team/resourceclaims', good, token=who)
        c.refused('PATCH', f'{DRA}/namespaces/team/resourceclaims/g-{who}/status', {'status': {'allocation': {'devices': {'results': [{'request': 'r', 'driver': 'd', 'pool': 'p', 'device': 'x'}]}}}}, token=who)
        text = c.good('PATCH', f'{DRA}/namespaces/team/resourceclaims/g-{who}', {'status': {'allocation': {'devices': {'results': [{'request': 'r', 'driver': 'd', 'pool': 'p', 'device': 'x'}]}}}}, token=who)
        assert not text.get('status'), text
        c.refused('POST', DRA + '/resourceslices', {'metadata': {'name': 's'}, 'spec': {'driver': 'd', 'nodeName': 'n1', 'pool': {'name': 'p', 'resourceSliceCount': 1}}}, token=who)
        c.refused('POST', DRA + '/deviceclasses', {'metadata': {'name': 'x'}, 'spec': {}}, token=who)
        c.refused('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {'metadata': {'name': 'x'}}, token=who)
        c.refused('POST', '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies', {'metadata': {'name': 'x'}}, token=who)
    # Label gone, the update of a claim that has it is still possible, a new one is not.
    c.namespace('ops', **{'resource.kubernetes.io/admin-access': 'true'})
    c.good('POST', f'{DRA}/namespaces/ops/resourceclaims', claim('c'))
    c.good('PATCH', '/api/v1/namespaces/ops', {'metadata': {'labels': None}})
    c.refused('POST', f'{DRA}/namespaces/ops/resourceclaims', claim('d'), code=422)


def nodes(c):
    n = {'token': 'node-token'}
    pod = {'metadata': {'name': 'x'}, 'spec': {'nodeName': 'n1', 'containers': [{'name': 'c', 'image': 'x'}]}}
    mirror = {'metadata': {'name': 'm-n1', 'annotations': {'kubernetes.io/config.mirror': 'h'}}, 'spec': {'nodeName': 'n1', 'containers': [{'name': 'c', 'image': 'x'}]}}
    c.refused('POST', '/api/v1/namespaces/team/pods', pod, **n)
    for change in ({'volumes': [{'name': 's', 'secret': {'secretName': 's'}}]}, {'serviceAccountName': 'robot'}, {'resourceClaims': [{'name': 'r', 'resourceClaimName': 'c'}]}, {'nodeName': 'n2'}):
        c.refused('POST', '/api/v1/namespaces/team/pods', {**mirror, 'spec': {**mirror['spec'], **change}}, **n)
    for path in ('/api/v1/secrets', '/api/v1/namespaces/team/secrets', '/api/v1/namespaces/team/secrets/s', '/api/v1/namespaces/team/secrets/s?watch=1', '/api/v1/nodes/n2', f'{DRA}/namespaces/team/resourceclaims',
                 '/api/v1/namespaces/team/secrets?fieldSelector=metadata.name=s', RBAC + '/clusterroles/cluster-admin', '/api/v1/pods?fieldSelector=spec.nodeName=n2', '/api/v1/pods'):
        code, text = c.call('GET', path + ('&' if '?' in path else '?') + 'timeoutSeconds=1', **n)
        assert code == 403, (path, code, text[:200])
    for method, path, body in (('POST', '/api/v1/nodes', {'metadata': {'name': 'n2'}}), ('PATCH', '/api/v1/nodes/n1', {'metadata': {'labels': {'node-role.kubernetes.io/control-plane': ''}}}),
                               ('PATCH', '/api/v1/nodes/n1', {'spec': {'taints': [{'key': 'a', 'effect': 'NoExecute'}]}}), ('PATCH', '/api/v1/nodes/n1', {'metadata': {'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Node', 'name': 'n2', 'uid': 'u'}]}}),
                               ('POST', '/api/v1/namespaces/team/secrets', {'metadata': {'name': 'x'}}), ('POST', '/api/v1/namespaces/kube-system/pods', pod),
                               ('POST', DRA + '/resourceslices', {'metadata': {'name': 's'}, 'spec': {'driver': 'd', 'nodeName': 'n2', 'pool': {'name': 'p', 'resourceSliceCount': 1}}}),
                               ('POST', DRA + '/resourceslices', {'metadata': {'name': 's'}, 'spec': {'driver': 'd', 'allNodes': True, 'pool': {'name': 'p', 'resourceSliceCount': 1}}})):
        c.refused(method, path, body, **n)


def main():
    with Cluster(USERS, 'up', ('--nodes', '0')) as c:
        set_up(c)
        for part in (roles, updates, stars, impersonation, accounts, reviews, devices, nodes):
            part(c)
        assert not c.good('GET', RBAC + '/clusterroles/gathering').get('rules'), 'rules were gathered after all'
        c.alive()
    print('escalation: nobody has more than they were given')


main()

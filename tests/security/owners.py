#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: who forges owner references loses objects of their own at most. Nothing of another namespace or of the cluster is deleted, kept, adopted or held up by
them. Usage: owners.py DRAY"""
from kit import DRA, Cluster, until

USERS = {'a-token': ('ann', 'team-a'), 'b-token': ('ben', 'team-b')}
A, B = '/api/v1/namespaces/team-a', '/api/v1/namespaces/team-b'


def ref(kind, o, **more):
    return {'apiVersion': 'v1', 'kind': kind, 'name': o['metadata']['name'], 'uid': o['metadata']['uid'], **more}


def config(name, *owners, **meta):
    return {'metadata': {'name': name, 'ownerReferences': list(owners), **meta}, 'data': {'k': 'v'}}


def is_gone(c, path):
    return lambda: c.call('GET', path)[0] == 404


def main():
    with Cluster(USERS, 'up', ('--nodes', '1')) as c:
        for team in ('a', 'b'):
            c.namespace('team-' + team)
            c.bind('team-' + team, 'edit', 'Group/team-' + team)
        until('the right to write', lambda: c.call('GET', A + '/configmaps', token='a-token')[0] == 200 and c.call('GET', B + '/configmaps', token='b-token')[0] == 200)
        secret = c.good('POST', B + '/secrets', {'metadata': {'name': 'precious'}}, token='b-token')
        theirs = c.good('POST', B + '/configmaps', config('theirs', ref('Secret', secret)), token='b-token')
        node = until('the node', lambda: c.good('GET', '/api/v1/nodes')['items'])[0]
        space = c.good('GET', '/api/v1/namespaces/team-b')
        absent = {'metadata': {'name': 'never', 'uid': '11111111-2222-3333-4444-555555555555'}}
        forged = {'other-namespace': ref('Secret', secret), 'other-blocks': ref('Secret', secret, blockOwnerDeletion=True, controller=True), 'gone': ref('Secret', absent), 'cluster-gone': ref('Node', absent),
                  'other-kind': ref('ConfigMap', secret), 'other-name': {**ref('Secret', secret), 'name': 'another'}}
        for name, owner in forged.items():
            c.good('POST', A + '/configmaps', config(name, owner), token='a-token')
        # Objects that hold on to theirs with all they have: a finalizer, and the wish to block.
        for kind, owner in (('Secret', secret), ('ConfigMap', theirs)):
            c.good('POST', A + '/configmaps', config('clings-' + kind.lower(), ref(kind, owner, blockOwnerDeletion=True), finalizers=['example.com/never']), token='a-token')
        # Owners that there are, of the cluster, are nobody's to delete with one's own object, in whichever way.
        for kind, o in (('Node', node), ('Namespace', space)):
            c.good('POST', A + '/configmaps', config('of-' + kind.lower(), ref(kind, o)), token='a-token')
            c.good('DELETE', f'{A}/configmaps/of-{kind.lower()}?propagationPolicy=Foreground', token='a-token')
            until('it goes', is_gone(c, f'{A}/configmaps/of-{kind.lower()}'))
        # Tenants do not write references into what is not theirs.
        me = c.good('GET', A + '/configmaps/clings-secret', token='a-token')
        for path in ('/api/v1/nodes/' + node['metadata']['name'], '/api/v1/namespaces/team-b', B + '/secrets/precious', '/api/v1/namespaces/team-a'):
            c.refused('PATCH', path, {'metadata': {'ownerReferences': [ref('ConfigMap', me)]}}, token='a-token')
        # All that goes are the forger's own.
        for name in ('other-namespace', 'other-blocks', 'gone', 'cluster-gone', 'other-name'):
            until(f'{name} goes', is_gone(c, f'{A}/configmaps/{name}'))
        assert c.good('GET', B + '/secrets/precious', token='b-token')['metadata']['uid'] == secret['metadata']['uid']
        assert c.good('GET', B + '/configmaps/theirs', token='b-token') and c.good('GET', '/api/v1/namespaces/team-b')['status']['phase'] == 'Active'
        assert c.good('GET', '/api/v1/nodes/' + node['metadata']['name'])['metadata']['uid'] == node['metadata']['uid']
        # And nobody is held up: the foreground deletion of what team a clings to ends, with its true dependents gone.
        c.good('DELETE', B + '/secrets/precious?propagationPolicy=Foreground', token='b-token')
        until('the secret goes although another namespace clings to it', is_gone(c, B + '/secrets/precious'))
        until('its true dependent went', is_gone(c, B + '/configmaps/theirs'))
        # A namespace goes with its own, and nothing of the other.
        c.good('POST', B + '/configmaps', config('stays'), token='b-token')
        for name in ('clings-secret', 'clings-configmap'):
            code, text = c.call('GET', f'{A}/configmaps/{name}')
            if code == 200:
                c.good('PATCH', f'{A}/configmaps/{name}', {'metadata': {'finalizers': None}}, token='a-token')
        c.good('DELETE', '/api/v1/namespaces/team-a')
        until('the namespace goes', is_gone(c, '/api/v1/namespaces/team-a'))
        assert c.good('GET', B + '/configmaps/stays', token='b-token')
        # A pod does not get another namespace's claim by naming it, nor by saying that it owns it.
        c.good('POST', f'{DRA}/namespaces/team-b/resourceclaims', {'metadata': {'name': 'gpu'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu.example.com'}}]}}})
        code, text = c.call('POST', B + '/pods', {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': 'c', 'image': 'x'}], 'resourceClaims': [{'name': 'g', 'resourceClaimName': 'team-a/gpu'}]}}, token='b-token')
        assert code == 422, text
        c.alive()
    print('owners: forged references cost their writer alone')


main()

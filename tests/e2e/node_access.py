#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nodes may: questions to the node authorizer, and writes that NodeRestriction lets pass or not; who may write which part of a claim's status; answered by dray as kube-apiserver 1.37
answered them (node_access.table). Writes are dry runs: every one of them finds the same cluster.
Usage: node_access.py DRAY, or to make the table anew: node_access.py --record URL TOKEN (of a server with --authorization-mode=Node,RBAC and the
admission plugin NodeRestriction)"""
import json, os, re, shutil, ssl, subprocess, sys, tempfile, time, urllib.error, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, 'node_access.table')
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
NS = '/api/v1/namespaces/team-n'
DRA = '/apis/resource.k8s.io/v1'


class Api:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def call(self, method, path, body=None, headers=(), kind='application/json'):
        q = urllib.request.Request(self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None)
        q.add_header('Authorization', 'Bearer ' + self.token)
        q.add_header('Content-Type', kind)
        for k, v in headers:
            q.add_header(k, v)
        try:
            with urllib.request.urlopen(q, context=TLS, timeout=30) as a:
                return a.status, json.loads(a.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())


USERS = {
    'system:node:n1': ['system:nodes', 'system:authenticated'],
    'system:node:n9': ['system:nodes', 'system:authenticated'],  # a node nobody has heard of
    'system:node:': ['system:nodes', 'system:authenticated'],
    'system:node:n1 alone': ['system:authenticated'],  # the name without the group
    'worker': ['system:nodes', 'system:authenticated'],  # the group without the name
}


def container(**more):
    return {'name': 'c', 'image': 'registry.example/x:1', **more}


def pod(name, node, spec=None):
    return {'metadata': {'name': name}, 'spec': {'nodeName': node, 'serviceAccountName': 'builder', 'automountServiceAccountToken': False,
                                                 'containers': [container()], **(spec or {})}}


P1 = pod('p1', 'n1', {
    'serviceAccountName': 'runner',
    'imagePullSecrets': [{'name': 'pull'}],
    'initContainers': [{'name': 'i', 'image': 'x', 'envFrom': [{'secretRef': {'name': 'init-env'}}, {'configMapRef': {'name': 'init-map'}}]}],
    'containers': [container(env=[{'name': 'A', 'valueFrom': {'secretKeyRef': {'name': 'env', 'key': 'k'}}},
                                  {'name': 'B', 'valueFrom': {'configMapKeyRef': {'name': 'map', 'key': 'k'}}}])],
    'volumes': [{'name': 'a', 'secret': {'secretName': 'mounted'}}, {'name': 'b', 'configMap': {'name': 'mounted'}},
                {'name': 'c', 'projected': {'sources': [{'secret': {'name': 'projected'}}, {'configMap': {'name': 'projected'}},
                                                        {'serviceAccountToken': {'audience': 'vault', 'path': 't'}}]}},
                {'name': 'd', 'persistentVolumeClaim': {'claimName': 'disk'}},
                {'name': 'e', 'csi': {'driver': 'csi.example.com', 'nodePublishSecretRef': {'name': 'csi'}}},
                {'name': 'f', 'ephemeral': {'volumeClaimTemplate': {'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}}}],
    'resourceClaims': [{'name': 'one', 'resourceClaimName': 'gpu'}, {'name': 'two', 'resourceClaimTemplateName': 'tpl'}],
})
OBJECTS = [
    ('/api/v1/namespaces', {'metadata': {'name': 'team-n'}}),
    (NS + '/serviceaccounts', {'metadata': {'name': 'runner'}}), (NS + '/serviceaccounts', {'metadata': {'name': 'builder'}}), (NS + '/serviceaccounts', {'metadata': {'name': 'stranger'}}),
    ('/api/v1/nodes', {'metadata': {'name': 'n1', 'labels': {'kubernetes.io/hostname': 'n1', 'pool': 'a', 'node-role.kubernetes.io/x': ''}}}),
    ('/api/v1/nodes', {'metadata': {'name': 'n2'}}),
    ('/api/v1/persistentvolumes', {'metadata': {'name': 'pv1'}, 'spec': {
        'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'claimRef': {'kind': 'PersistentVolumeClaim', 'namespace': 'team-n', 'name': 'disk'},
        'csi': {'driver': 'csi.example.com', 'volumeHandle': 'h', 'nodePublishSecretRef': {'namespace': 'vault', 'name': 'publish'},
                'nodeStageSecretRef': {'namespace': 'vault', 'name': 'stage'}, 'controllerPublishSecretRef': {'namespace': 'vault', 'name': 'controller'}}}}),
    ('/api/v1/persistentvolumes', {'metadata': {'name': 'pv2'}, 'spec': {
        'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'claimRef': {'kind': 'PersistentVolumeClaim', 'namespace': 'team-n', 'name': 'other'},
        'csi': {'driver': 'csi.example.com', 'volumeHandle': 'h2', 'nodeStageSecretRef': {'namespace': 'vault', 'name': 'other'}}}}),
    (NS + '/persistentvolumeclaims', {'metadata': {'name': 'disk'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'volumeName': 'pv1', 'storageClassName': '',
                                                                             'resources': {'requests': {'storage': '1Gi'}}}}),
    (NS + '/pods', P1),
    ('/apis/storage.k8s.io/v1/csidrivers', {'metadata': {'name': 'csi.example.com'}, 'spec': {'tokenRequests': [{'audience': 'storage'}]}}),
    (NS + '/pods', pod('p4', 'n1', {'volumes': [{'name': 'e', 'csi': {'driver': 'csi.example.com'}}]})),
    (NS + '/pods', pod('p5', 'n1', {'volumes': [{'name': 'e', 'csi': {'driver': 'none.example.com'}}, {'name': 'd', 'persistentVolumeClaim': {'claimName': 'none'}}]})),
    (NS + '/pods', pod('p2', 'n2', {'imagePullSecrets': [{'name': 'far'}]})),
    (NS + '/pods', pod('p3', '', {'imagePullSecrets': [{'name': 'waiting'}]})),
    ('/apis/storage.k8s.io/v1/volumeattachments', {'metadata': {'name': 'va1'}, 'spec': {'attacher': 'csi.example.com', 'nodeName': 'n1', 'source': {'persistentVolumeName': 'pv1'}}}),
    ('/apis/storage.k8s.io/v1/volumeattachments', {'metadata': {'name': 'va2'}, 'spec': {'attacher': 'csi.example.com', 'nodeName': 'n2', 'source': {'persistentVolumeName': 'pv1'}}}),
    ('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases', {'metadata': {'name': 'n1'}, 'spec': {'holderIdentity': 'n1'}}),
] + [(DRA + '/resourceslices', {'metadata': {'name': f'slice-{n}'}, 'spec': {
    'driver': 'gpu.example.com', 'pool': {'name': n, 'generation': 1, 'resourceSliceCount': 1}, **({'allNodes': True} if n == 'all' else {'nodeName': n})}}) for n in ('n1', 'n2', 'all')]


def q(verb, resource, name='', ns='', node=''):
    """A question: group/resource[/sub] as group.resource/sub."""
    resource, _, sub = resource.partition('/')
    resource, _, group = resource.partition('.')
    return verb, ns, group, resource, sub, name, node


N = 'team-n'
QUESTIONS = [q('get', 'secrets', n, N) for n in ('pull', 'init-env', 'env', 'mounted', 'projected', 'csi', 'far', 'waiting', 'none', '')] + [
    q('get', 'secrets', n, 'vault') for n in ('publish', 'stage', 'controller', 'other')] + [
    q('get', 'secrets', 'pull', 'default'), q('list', 'secrets', 'pull', N), q('watch', 'secrets', 'pull', N), q('list', 'secrets', '', N), q('update', 'secrets', 'pull', N),
    q('get', 'secrets/x', 'pull', N), q('get', 'secrets', 'pull')] + [
    q('get', 'configmaps', n, N) for n in ('init-map', 'map', 'mounted', 'projected', 'none')] + [
    q('get', 'persistentvolumeclaims', n, N) for n in ('disk', 'p1-f', 'other')] + [
    q('list', 'persistentvolumeclaims', '', N), q('update', 'persistentvolumeclaims/status', 'disk', N), q('get', 'persistentvolumeclaims/status', 'disk', N),
    q('patch', 'persistentvolumeclaims/status', 'other', N), q('get', 'persistentvolumes', 'pv1'), q('get', 'persistentvolumes', 'pv2'), q('list', 'persistentvolumes'),
    q('get', 'volumeattachments.storage.k8s.io', 'va1'), q('get', 'volumeattachments.storage.k8s.io', 'va2'),
    q('get', 'resourceclaims.resource.k8s.io', 'gpu', N), q('get', 'resourceclaims.resource.k8s.io', 'made-of-tpl', N), q('get', 'resourceclaims.resource.k8s.io', 'other', N),
    q('list', 'resourceclaims.resource.k8s.io', '', N), q('update', 'resourceclaims.resource.k8s.io/status', 'gpu', N), q('patch', 'resourceclaims.resource.k8s.io/driver', 'gpu.example.com', N),
    q('get', 'serviceaccounts', 'runner', N), q('get', 'serviceaccounts', 'stranger', N), q('create', 'serviceaccounts/token', 'runner', N), q('create', 'serviceaccounts/token', 'stranger', N),
    q('create', 'serviceaccounts', '', N), q('create', 'serviceaccounts/x', 'runner', N), q('list', 'serviceaccounts', '', N)] + [
    q(v, 'leases.coordination.k8s.io', n, ns) for v, n, ns in (('get', 'n1', 'kube-node-lease'), ('update', 'n2', 'kube-node-lease'), ('create', '', 'kube-node-lease'),
                                                               ('create', '', N), ('list', '', 'kube-node-lease'))] + [
    q(v, 'csinodes.storage.k8s.io' + s, n) for v, n, s in (('get', 'n1', ''), ('get', 'n2', ''), ('create', '', ''), ('list', '', ''), ('get', 'n1', '/status'), ('get', 'n1', '/x'))] + [
    q(v, 'resourceslices.resource.k8s.io', n, '', sel) for v, n, sel in (
        ('get', 'slice-n1', ''), ('update', 'slice-n1', ''), ('delete', 'slice-n2', ''), ('get', 'slice-all', ''), ('get', 'none', ''), ('create', '', ''), ('list', '', ''), ('list', '', 'n1'),
        ('watch', '', 'n1'), ('watch', '', 'n2'), ('deletecollection', '', 'n1'), ('deletecollection', '', ''), ('approve', '', ''))] + [
    q('get', 'resourceslices.resource.k8s.io/x', 'slice-n1'),
    q('get', 'nodes', 'n1'), q('get', 'nodes', 'n2'), q('list', 'nodes'), q('watch', 'nodes', 'n1'), q('create', 'nodes'), q('patch', 'nodes', 'n2'), q('delete', 'nodes', 'n1'),
    q('patch', 'nodes/status', 'n1'), q('get', 'nodes/status', 'n1'), q('get', 'nodes/proxy', 'n1'),
    q('get', 'pods', 'p1', N), q('get', 'pods', 'p2', N), q('get', 'pods', 'p3', N), q('list', 'pods', '', N), q('list', 'pods', '', '', 'n1'), q('watch', 'pods', '', '', 'n2'), q('list', 'pods', 'p1', N),
    q('create', 'pods', '', N), q('delete', 'pods', 'p2', N), q('update', 'pods', 'p1', N), q('patch', 'pods/status', 'p2', N), q('get', 'pods/status', 'p1', N),
    q('create', 'pods/eviction', 'p1', N), q('create', 'pods/binding', 'p1', N), q('get', 'pods/log', 'p1', N),
    q('list', 'services'), q('create', 'services', '', N), q('create', 'events', '', N), q('get', 'events', 'e', N), q('patch', 'events.events.k8s.io', 'e', N), q('create', 'tokenreviews.authentication.k8s.io'),
    q('create', 'certificatesigningrequests.certificates.k8s.io'), q('approve', 'certificatesigningrequests.certificates.k8s.io', 'x'), q('list', 'runtimeclasses.node.k8s.io'),
    q('list', 'csidrivers.storage.k8s.io'), q('list', 'deviceclasses.resource.k8s.io'), q('create', 'podcertificaterequests.certificates.k8s.io', '', N),
    q('list', 'podcertificaterequests.certificates.k8s.io', '', N), q('list', 'podcertificaterequests.certificates.k8s.io', '', N, 'n1'), q('delete', 'podcertificaterequests.certificates.k8s.io', 'x', N),
    q('list', 'clusterroles.rbac.authorization.k8s.io'), q('list', 'namespaces'),
]


def mirror(name='m', node='n1', owner=True, more=None, **fields):
    ref = {'apiVersion': 'v1', 'kind': 'Node', 'name': node, 'uid': '@n1', 'controller': True, **fields}
    spec = {'nodeName': node, 'containers': [container()], 'automountServiceAccountToken': False, **(more or {})}
    return {'metadata': {'name': name, 'annotations': {'kubernetes.io/config.mirror': 'x'}, 'ownerReferences': [ref] if owner else []}, 'spec': spec}


def token(**ref):
    return {'spec': {'audiences': [], **({'boundObjectRef': {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p1', 'uid': '@p1', **ref}} if ref is not None else {})}}


SLICE = {'metadata': {'name': 'new'}, 'spec': {'driver': 'd.example.com', 'pool': {'name': 'x', 'generation': 1, 'resourceSliceCount': 1}}}
MERGE = 'application/merge-patch+json'
STRATEGIC = 'application/strategic-merge-patch+json'
WRITES = [  # what it is about, method, path, body, content type
    ('own node', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'annotations': {'a': 'b'}}}, MERGE),
    ('other node', 'PATCH', '/api/v1/nodes/n2', {'metadata': {'annotations': {'a': 'b'}}}, MERGE),
    ('other node status', 'PATCH', '/api/v1/nodes/n2/status', {'status': {'conditions': []}}, MERGE),
    ('own node status', 'PATCH', '/api/v1/nodes/n1/status', {'status': {'capacity': {'cpu': '4'}}}, MERGE),
    ('own taints', 'PATCH', '/api/v1/nodes/n1', {'spec': {'taints': [{'key': 'k', 'effect': 'NoSchedule'}]}}, MERGE),
    ('own owner', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Node', 'name': 'n2', 'uid': 'u'}]}}, MERGE),
    ('free label', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'labels': {'pool': 'b', 'example.com/x': 'y'}}}, MERGE),
    ('zone label', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'labels': {'topology.kubernetes.io/zone': 'b', 'x.node.kubernetes.io/y': 'z', 'kubelet.kubernetes.io/q': 'z'}}}, MERGE),
    ('restricted labels', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'labels': {'node-restriction.kubernetes.io/x': 'y', 'a.node-restriction.kubernetes.io/x': 'y', 'kubernetes.io/z': ''}}}, MERGE),
    ('role label gone', 'PATCH', '/api/v1/nodes/n1', {'metadata': {'labels': {'node-role.kubernetes.io/x': None}}}, MERGE),
    ('label by status', 'PATCH', '/api/v1/nodes/n1/status', {'metadata': {'labels': {'x.k8s.io/a': 'b'}}}, MERGE),
    ('new node of another name', 'POST', '/api/v1/nodes', {'metadata': {'name': 'n7'}}, None),
    ('mirror pod', 'POST', NS + '/pods', mirror(), None),
    ('plain pod', 'POST', NS + '/pods', pod('x', 'n1'), None),
    ('mirror pod elsewhere', 'POST', NS + '/pods', mirror(node='n2'), None),
    ('mirror pod without owner', 'POST', NS + '/pods', mirror(owner=False), None),
    ('mirror pod of a deployment', 'POST', NS + '/pods', mirror(kind='Deployment', apiVersion='apps/v1'), None),
    ('mirror pod not controlled', 'POST', NS + '/pods', mirror(controller=False), None),
    ('mirror pod that blocks', 'POST', NS + '/pods', mirror(blockOwnerDeletion=True), None),
    ('mirror pod of another uid', 'POST', NS + '/pods', mirror(uid='aaaa'), None),
    ('mirror pod with a secret', 'POST', NS + '/pods', mirror(more={'imagePullSecrets': [{'name': 's'}]}), None),
    ('mirror pod with a map', 'POST', NS + '/pods', mirror(more={'volumes': [{'name': 'v', 'configMap': {'name': 'x'}}]}), None),
    ('mirror pod with an account', 'POST', NS + '/pods', mirror(more={'serviceAccountName': 'runner'}), None),
    ('mirror pod with a claim', 'POST', NS + '/pods', mirror(more={'volumes': [{'name': 'v', 'persistentVolumeClaim': {'claimName': 'x'}}]}), None),
    ('mirror pod with an empty folder', 'POST', NS + '/pods', mirror(more={'volumes': [{'name': 'v', 'emptyDir': {}}, {'name': 'w', 'hostPath': {'path': '/x'}}]}), None),
    ('own pod deleted', 'DELETE', NS + '/pods/p1', None, None),
    ('other pod deleted', 'DELETE', NS + '/pods/p2', None, None),
    ('missing pod deleted', 'DELETE', NS + '/pods/none', None, None),
    ('own pod status', 'PATCH', NS + '/pods/p1/status', {'status': {'phase': 'Running'}}, STRATEGIC),
    ('other pod status', 'PATCH', NS + '/pods/p2/status', {'status': {'phase': 'Running'}}, STRATEGIC),
    ('labels by pod status', 'PATCH', NS + '/pods/p1/status', {'metadata': {'labels': {'a': 'b'}}}, STRATEGIC),
    ('claims by pod status', 'PATCH', NS + '/pods/p1/status', {'status': {'resourceClaimStatuses': [{'name': 'two', 'resourceClaimName': 'stolen'}]}}, STRATEGIC),
    ('extended claim by pod status', 'PATCH', NS + '/pods/p1/status', {'status': {'extendedResourceClaimStatus': {'resourceClaimName': 'x', 'requestMappings': [
        {'containerName': 'c', 'requestName': 'r', 'resourceName': 'example.com/gpu'}]}}}, STRATEGIC),
    ('own pod evicted', 'POST', NS + '/pods/p1/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'p1', 'namespace': N}}, None),
    ('other pod evicted', 'POST', NS + '/pods/p2/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'p2', 'namespace': N}}, None),
    ('own lease', 'PATCH', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1', {'spec': {'holderIdentity': 'x'}}, MERGE),
    ('lease of another name', 'POST', '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases', {'metadata': {'name': 'n2'}}, None),
    ('csi node of another name', 'POST', '/apis/storage.k8s.io/v1/csinodes', {'metadata': {'name': 'n2'}, 'spec': {'drivers': []}}, None),
    ('own csi node', 'POST', '/apis/storage.k8s.io/v1/csinodes', {'metadata': {'name': 'n1'}, 'spec': {'drivers': []}}, None),
    ('own slice', 'POST', DRA + '/resourceslices', {**SLICE, 'spec': {**SLICE['spec'], 'nodeName': 'n1'}}, None),
    ('slice of another node', 'POST', DRA + '/resourceslices', {**SLICE, 'spec': {**SLICE['spec'], 'nodeName': 'n2'}}, None),
    ('slice of all nodes', 'POST', DRA + '/resourceslices', {**SLICE, 'spec': {**SLICE['spec'], 'allNodes': True}}, None),
    ('own slice deleted', 'DELETE', DRA + '/resourceslices/slice-n1', None, None),
    ('own slices deleted', 'DELETE', DRA + '/resourceslices?fieldSelector=spec.nodeName%3Dn1&', None, None),
    ('slices of another node deleted', 'DELETE', DRA + '/resourceslices?fieldSelector=spec.nodeName%3Dn2&', None, None),
    ('claim size', 'PATCH', NS + '/persistentvolumeclaims/disk/status', {'status': {'capacity': {'storage': '2Gi'}}}, MERGE),
    ('token', 'POST', NS + '/serviceaccounts/runner/token', {'spec': {'audiences': ['vault'], 'boundObjectRef': {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p1', 'uid': '@p1'}}}, None),
    ('token of an audience that the pod does not name', 'POST', NS + '/serviceaccounts/builder/token', token(name='p4', uid='@p4'), None),
    ('token of an audience that its driver names', 'POST', NS + '/serviceaccounts/builder/token',
     {'spec': {'audiences': ['storage'], 'boundObjectRef': {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p4', 'uid': '@p4'}}}, None),
    ('token of a pod whose volumes are not there', 'POST', NS + '/serviceaccounts/builder/token', token(name='p5', uid='@p5'), None),
    ('mirror pod with a token', 'POST', NS + '/pods', mirror(more={'volumes': [{'name': 'v', 'projected': {'sources': [{'serviceAccountToken': {'path': 't'}}]}}]}), None),
    ('mirror pod with csi', 'POST', NS + '/pods', mirror(more={'volumes': [{'name': 'v', 'csi': {'driver': 'csi.example.com'}}]}), None),
    ('token for two audiences', 'POST', NS + '/serviceaccounts/runner/token', {'spec': {'audiences': ['a', 'b'], 'boundObjectRef': {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p1', 'uid': '@p1'}}}, None),
    ('token bound to nothing', 'POST', NS + '/serviceaccounts/runner/token', {'spec': {'audiences': []}}, None),
    ('token without the uid', 'POST', NS + '/serviceaccounts/runner/token', token(uid=''), None),
    ('token of another uid', 'POST', NS + '/serviceaccounts/runner/token', token(uid='aaaa'), None),
    ('token for a missing pod', 'POST', NS + '/serviceaccounts/runner/token', token(name='none'), None),
    ('token for the pod of another node', 'POST', NS + '/serviceaccounts/runner/token', token(name='p2', uid='@p2'), None),
    ('token of another account', 'POST', NS + '/serviceaccounts/stranger/token', token(), None),
    ('list of all pods', 'GET', '/api/v1/pods', None, None),
    ('list of own pods', 'GET', '/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&', None, None),
    ('list of own pods that run', 'GET', '/api/v1/pods?fieldSelector=spec.nodeName%3Dn1,status.phase%3DRunning&', None, None),
    ('list of others\' pods', 'GET', '/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1&', None, None),
    ('list of one secret', 'GET', NS + '/secrets?fieldSelector=metadata.name%3Dpull&', None, None),
    ('list of another secret', 'GET', NS + '/secrets?fieldSelector=metadata.name%3Dfar&', None, None),
    ('list of secrets', 'GET', NS + '/secrets', None, None),
    ('list of own slices', 'GET', DRA + '/resourceslices?fieldSelector=spec.nodeName%3Dn1,spec.driver%3Dgpu.example.com&', None, None),
    ('list of all slices', 'GET', DRA + '/resourceslices', None, None),
]


# --- The status of a claim, by whom --------------------------------------------------------------

CLAIM = '/apis/resource.k8s.io/v1/namespaces/team-n/resourceclaims'
RBAC = '/apis/rbac.authorization.k8s.io/v1'
DEVICE = {'driver': 'gpu.example.com', 'pool': 'n1', 'device': 'd0'}
ALLOCATION = {'devices': {'results': [{'request': 'r', **DEVICE}]}, 'nodeSelector': {'nodeSelectorTerms': [{'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n1']}]}]}}
STATUS_ROLES = {  # user: what they have beyond resourceclaims/status
    'nothing': [], 'binder': [('resourceclaims/binding', ['update', 'patch'], [])],
    'near': [('resourceclaims/driver', ['associated-node:update', 'associated-node:patch'], ['gpu.example.com'])],
    'far': [('resourceclaims/driver', ['arbitrary-node:update', 'arbitrary-node:patch'], ['gpu.example.com'])],
    'other': [('resourceclaims/driver', ['arbitrary-node:update', 'arbitrary-node:patch'], ['nic.example.com'])],
}
STATUS_WRITES = [  # user, the node their token names, claim, status
    ('nothing', '', 'free', {'allocation': ALLOCATION}), ('binder', '', 'free', {'allocation': ALLOCATION}), ('near', 'n1', 'free', {'allocation': ALLOCATION}),
    ('nothing', '', 'taken', {'reservedFor': [{'resource': 'pods', 'name': 'p1', 'uid': 'u'}]}), ('binder', '', 'taken', {'reservedFor': [{'resource': 'pods', 'name': 'p1', 'uid': 'u'}]}),
] + [(user, node, 'taken', {'devices': [{**DEVICE, 'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'R', 'message': '', 'lastTransitionTime': '2026-01-01T00:00:00Z'}]}]})
     for user in STATUS_ROLES for node in ('', 'n1', 'n2')] + [('nothing', '', 'taken', {'devices': []})]


def set_up_status(api):
    for user, more in STATUS_ROLES.items():
        rules = [{'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims/status'], 'verbs': ['update', 'patch']}]
        rules += [{'apiGroups': ['resource.k8s.io'], 'resources': [r], 'verbs': v, **({'resourceNames': n} if n else {})} for r, v, n in more]
        api.call('POST', RBAC + '/clusterroles', {'metadata': {'name': 'driver-' + user}, 'rules': rules})
        api.call('POST', RBAC + '/clusterrolebindings', {'metadata': {'name': 'driver-' + user}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'driver-' + user},
                                                         'subjects': [{'kind': 'ServiceAccount', 'namespace': 'team-n', 'name': user}]})
    for name in ('free', 'taken'):
        api.call('POST', CLAIM, {'metadata': {'name': name}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'x'}}]}}})
    code, a = api.call('PATCH', CLAIM + '/taken/status', {'status': {'allocation': ALLOCATION}}, kind=MERGE)
    assert code == 200, a


def status_lines(api):
    set_up_status(api)
    time.sleep(1)
    for user, node, claim, status in STATUS_WRITES:
        headers = [('Impersonate-User', 'system:serviceaccount:team-n:' + user)] + ([('Impersonate-Extra-authentication.kubernetes.io%2Fnode-name', node)] if node else [])
        code, a = api.call('PATCH', f'{CLAIM}/{claim}/status?dryRun=All', {'status': status}, headers=headers, kind=MERGE)
        yield '\t'.join(('status', f'{user} {node or "-"} {claim} {"+".join(status)}', str(code), a.get('message', '').replace('\n', ' ') if code >= 400 else ''))


def set_up(api):
    uids = {}
    for path, o in OBJECTS:
        code, a = api.call('POST', path, o)
        assert code in (201, 409), (path, a)
    code, a = api.call('PATCH', NS + '/pods/p1/status', {'status': {'resourceClaimStatuses': [{'name': 'two', 'resourceClaimName': 'made-of-tpl'}]}}, kind=STRATEGIC)
    assert code == 200, a
    for name in ('p1', 'p2', 'p4', 'p5'):
        uids['@' + name] = api.call('GET', f'{NS}/pods/{name}')[1]['metadata']['uid']
    for name in ('n1', 'n2'):
        uids['@' + name] = api.call('GET', f'/api/v1/nodes/{name}')[1]['metadata']['uid']
    return uids


def ask(api, user, question):
    spec = {'user': user.split(' ')[0], 'groups': USERS[user], 'resourceAttributes': dict(zip(('verb', 'namespace', 'group', 'resource', 'subresource', 'name'), question))}
    if question[6]:
        spec['resourceAttributes']['fieldSelector'] = {'requirements': [{'key': 'spec.nodeName', 'operator': 'In', 'values': [question[6]]}]}
    code, a = api.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': spec})
    assert code == 201, a
    return ('yes' if a['status']['allowed'] else 'no'), a['status'].get('reason', '').replace('\n', ' | ')


def write(api, uids, method, path, body, kind):
    text = json.dumps(body) if body is not None else None
    for k, v in uids.items():
        text = text and text.replace(f'"{k}"', f'"{v}"')
    if method != 'GET' and '/token' not in path:
        path += 'dryRun=All' if path.endswith('&') else '?dryRun=All'
    code, a = api.call(method, path, json.loads(text) if text else None, kind=kind or 'application/json',
                       headers=[('Impersonate-User', 'system:node:n1'), ('Impersonate-Group', 'system:nodes'), ('Impersonate-Group', 'system:authenticated')][:2])
    message = a.get('message', '') if code >= 400 else ''
    for k, v in uids.items():
        message = message.replace(v, k)
    return str(code), re.sub(r'^(.*other than status.quantity and status.conditions).*', r'\1', message.replace('\n', ' '))


def lines(api):
    uids = set_up(api)
    time.sleep(1)  # the authorizer of kube-apiserver sees changes by watching
    for user in USERS:
        for question in QUESTIONS if user == 'system:node:n1' else QUESTIONS[::9]:
            yield '\t'.join((user, ' '.join(w or '-' for w in question), *ask(api, user, question)))
    for what, *w in WRITES:
        yield '\t'.join(('n1 writes', what, *write(api, uids, *w)))
    yield from status_lines(api)


def compare(api):
    with open(TABLE) as f:
        wanted = [x.rstrip('\n') for x in f if not x.startswith('#')]
    got, wrong = list(lines(api)), 0
    for a, b in zip(wanted, got):
        if a != b:
            wrong += 1
            print(f'kube-apiserver: {a}\ndray:           {b}')
    assert len(wanted) == len(got) and not wrong, f'{wrong} of {len(wanted)} answers differ'
    print(f'{len(got)} questions and writes of nodes answered as kube-apiserver answers them')


def follows(api):
    """What a node may read goes with its pods."""
    secret = q('get', 'secrets', 'pull', N)
    assert ask(api, 'system:node:n1', secret)[0] == 'yes'
    assert api.call('DELETE', NS + '/pods/p1', {'gracePeriodSeconds': 0})[0] == 200
    assert ask(api, 'system:node:n1', secret)[0] == 'no', 'the pod is gone, but not what the node could read for it'
    code, a = api.call('POST', NS + '/pods/p3/binding', {'metadata': {'name': 'p3'}, 'target': {'kind': 'Node', 'name': 'n1'}})
    assert code == 201, a
    assert ask(api, 'system:node:n1', q('get', 'secrets', 'waiting', N))[0] == 'yes', 'a pod was bound, but its node may not read for it'


def main():
    if sys.argv[1] == '--record':
        found = list(lines(Api(sys.argv[2], sys.argv[3])))
        with open(TABLE, 'w') as f:
            f.write('# SPDX-License-Identifier: Apache-2.0\n# Answers of kube-apiserver 1.37 to node_access.py: who, what, answer, reason.\n' + '\n'.join(found) + '\n')
        return
    folder = tempfile.mkdtemp(prefix='dray-nodes-')
    with open(os.path.join(folder, 'tokens.csv'), 'w') as f:
        f.write('root,root,,system:masters\n')
    os.chmod(os.path.join(folder, 'tokens.csv'), 0o600)
    p = subprocess.Popen([os.path.abspath(sys.argv[1]), 'server', '--data-dir', folder + '/data', '--listen', '127.0.0.1:0', '--token-file', folder + '/tokens.csv'], stdout=subprocess.PIPE, text=True)
    try:
        line = p.stdout.readline()
        assert 'ready at' in line, 'dray server does not start'
        api = Api(line.split(' at ')[1].split(',')[0].strip(), 'root')
        compare(api)
        follows(api)
    finally:
        p.terminate()
        code = p.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
    assert code == 0, f'dray server ended with {code}'


main()

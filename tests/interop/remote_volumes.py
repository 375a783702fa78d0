#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Volumes on a real API server: kube-controller-manager binds what dray's scheduler has chosen, and where a pod must wait dray says what
kube-scheduler says of the same pod. The scheduler has nothing but the rights of deploy/kubernetes."""
import os, sys

from remote_deploy import NAMESPACE, apply, config_of, refusals
from remote_kit import Plane, programs, until

MERGE = 'application/merge-patch+json'
CORE, CLAIMS = '/api/v1/persistentvolumes', '/api/v1/namespaces/default/persistentvolumeclaims'
ZONE = 'topology.kubernetes.io/zone'
BOTH = ('dray', 'default-scheduler')


def storage_class(p, name, provisioner, mode):
    p.call('POST', '/apis/storage.k8s.io/v1/storageclasses', {'metadata': {'name': name}, 'provisioner': provisioner, 'volumeBindingMode': mode})


def volume(p, name, node, size='1Gi', cls='local', mode='ReadWriteOnce', source=None, **spec):
    return p.call('POST', CORE, {'metadata': {'name': name}, 'spec': {
        'capacity': {'storage': size}, 'accessModes': [mode], 'storageClassName': cls,
        'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [
            {'key': 'kubernetes.io/hostname', 'operator': 'In', 'values': [node]}]}]}}, **(source or {'local': {'path': '/x'}}), **spec}})


def claim(p, name, cls='local', size='1Gi', mode='ReadWriteOnce', **spec):
    return p.call('POST', CLAIMS, {'metadata': {'name': name}, 'spec': {
        'accessModes': [mode], 'storageClassName': cls, 'resources': {'requests': {'storage': size}}, **spec}})


def pod(p, name, claims, scheduler='dray', **spec):
    volumes = [c if isinstance(c, dict) else {'name': f'v{i}', 'persistentVolumeClaim': {'claimName': c}} for i, c in enumerate(claims)]
    return p.call('POST', '/api/v1/namespaces/default/pods', {'metadata': {'name': name}, 'spec': {
        'schedulerName': scheduler, 'terminationGracePeriodSeconds': 0, 'volumes': volumes, 'containers': [{'name': 'c', 'image': 'i'}], **spec}})


def node_of(p, name):
    return p.bound([name])[name]['spec']['nodeName']


def told(p, name):
    def message():
        conditions = p.pods()[name]['status'].get('conditions', [])
        return next((c['message'] for c in conditions if c['type'] == 'PodScheduled' and c.get('message')), None)
    return until(f'{name} is told why', message)


def bound_to(p, name):
    c = p.call('GET', f'{CLAIMS}/{name}')
    return c['spec'].get('volumeName') if c.get('status', {}).get('phase') == 'Bound' else None


def first_consumer(p):
    """Volumes that exist: the smallest that fits goes to the claim, of the node where the pod goes."""
    pod(p, 'early', ['data'])
    assert 'persistentvolumeclaim "data" not found' in told(p, 'early')
    for name, node, size in (('large', 'n1', '9Gi'), ('right', 'n1', '2Gi'), ('small', 'n2', '512Mi')):
        volume(p, name, node, size)
    until('volumes are available', lambda: all(v['status'].get('phase') == 'Available' for v in p.call('GET', CORE)['items']))
    claim(p, 'data')
    assert node_of(p, 'early') == 'n1'
    assert bound_to(p, 'data') == 'right', p.call('GET', f'{CLAIMS}/data')
    pod(p, 'second', ['data'])
    assert node_of(p, 'second') == 'n1'


def immediate(p):
    """A claim that kube-controller-manager binds by itself: the pod follows its volume."""
    claim(p, 'now', cls='now')
    pod(p, 'now', ['now'])
    assert 'pod has unbound immediate PersistentVolumeClaims' in told(p, 'now')
    volume(p, 'now', 'n2', cls='now')
    assert node_of(p, 'now') == 'n2'


def provisioned(p):
    """A provisioner is told the node; here the test is the provisioner, and fails once."""
    claim(p, 'made', cls='disk')
    pod(p, 'made', ['made'])
    selected = lambda: p.call('GET', f'{CLAIMS}/made')['metadata'].get('annotations', {}).get('volume.kubernetes.io/selected-node')
    first = until('a node is selected', selected)
    p.call('PATCH', f'{CLAIMS}/made', {'metadata': {'annotations': {'volume.kubernetes.io/selected-node': None}}}, content=MERGE)
    node = until('a node is selected again', selected)
    volume(p, 'made', node, cls='disk', source={'csi': {'driver': 'disk.example.com', 'volumeHandle': 'made'}}, claimRef={
        'apiVersion': 'v1', 'kind': 'PersistentVolumeClaim', 'namespace': 'default', 'name': 'made', 'uid': p.call('GET', f'{CLAIMS}/made')['metadata']['uid']})
    assert node_of(p, 'made') == node and first
    assert bound_to(p, 'made') == 'made'


def ephemeral(p):
    """The claim of a generic ephemeral volume is made by kube-controller-manager, for this pod."""
    volume(p, 'tmp', 'n0')
    pod(p, 'tmp', [{'name': 'tmp', 'ephemeral': {'volumeClaimTemplate': {'spec': {
        'accessModes': ['ReadWriteOnce'], 'storageClassName': 'local', 'resources': {'requests': {'storage': '1Gi'}}}}}}],
        nodeSelector={'kubernetes.io/hostname': 'n0'})
    assert node_of(p, 'tmp') == 'n0'
    assert bound_to(p, 'tmp-tmp') == 'tmp'


def limits(p):
    """No more volumes of a driver than a node's CSINode allows."""
    p.call('POST', '/apis/storage.k8s.io/v1/csinodes', {'metadata': {'name': 'n0'}, 'spec': {'drivers': [
        {'name': 'block.example.com', 'nodeID': 'n0', 'topologyKeys': None, 'allocatable': {'count': 1}}]}})
    for name in ('l0', 'l1'):
        volume(p, name, 'n0', cls='now', source={'csi': {'driver': 'block.example.com', 'volumeHandle': name}})
        claim(p, name, cls='now', volumeName=name)
    until('claims are bound', lambda: bound_to(p, 'l0') and bound_to(p, 'l1'))
    pod(p, 'l0', ['l0'])
    assert node_of(p, 'l0') == 'n0'


def alike(p, name, claims, phrase, **spec):
    """Both schedulers say of the same pod what they should."""
    for who in BOTH[:1] if p.old else BOTH:  # older ones say some of it otherwise
        full = f'{name}-{who.split("-")[0]}'
        pod(p, full, claims, who, **spec)
        text = told(p, full)
        assert phrase in text, (who, phrase, text)


def same_words(p):
    alike(p, 'gone', ['nothing'], 'persistentvolumeclaim "nothing" not found')
    claim(p, 'wait', cls='now', selector={'matchLabels': {'no': 'such'}})
    alike(p, 'wait', ['wait'], 'pod has unbound immediate PersistentVolumeClaims')
    claim(p, 'big', size='100Gi')
    alike(p, 'big', ['big'], "didn't find available persistent volumes to bind")
    alike(p, 'far', ['data'], "didn't match PersistentVolume's node affinity", nodeSelector={'kubernetes.io/hostname': 'n0'})
    alike(p, 'full', ['l1'], 'max volume count')
    volume(p, 'sole', 'n0', mode='ReadWriteOncePod')
    claim(p, 'sole', mode='ReadWriteOncePod')
    pod(p, 'sole', ['sole'])
    assert node_of(p, 'sole') == 'n0'
    alike(p, 'sole', ['sole'], 'PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod')
    p.call('POST', CLAIMS, {'metadata': {'name': 'lost', 'annotations': {'pv.kubernetes.io/bind-completed': 'yes'}}, 'spec': {
        'accessModes': ['ReadWriteOnce'], 'storageClassName': 'now', 'resources': {'requests': {'storage': '1Gi'}}, 'volumeName': 'never'}})
    until('the claim is lost', lambda: p.call('GET', f'{CLAIMS}/lost').get('status', {}).get('phase') == 'Lost')
    alike(p, 'lost', ['lost'], 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "never"')
    p.call('PATCH', '/api/v1/nodes/n2', {'metadata': {'labels': {ZONE: 'a'}}}, content=MERGE)
    volume(p, 'zoned', 'n2', cls='now')
    p.call('PATCH', f'{CORE}/zoned', {'metadata': {'labels': {ZONE: 'b'}}}, content=MERGE)
    claim(p, 'zoned', cls='now', volumeName='zoned')
    until('the claim is bound', lambda: bound_to(p, 'zoned'))
    alike(p, 'zoned', ['zoned'], 'had no available volume zone', nodeSelector={'kubernetes.io/hostname': 'n2'})
    p.call('PATCH', f'{CLAIMS}/wait', {'metadata': {'finalizers': ['example.com/stay']}}, content=MERGE)
    p.call('DELETE', f'{CLAIMS}/wait')
    alike(p, 'going', ['wait'], 'persistentvolumeclaim "wait" is being deleted')
    p.call('PATCH', f'{CLAIMS}/wait', {'metadata': {'finalizers': None}}, content=MERGE)


def main():
    dray = sys.argv[1]
    p = Plane()
    try:
        p.start('kcm scheduler')
        p.ready()
        apply(p, os.path.join(programs(), 'kubectl'))
        p.nodes(3)
        sched = p.dray(dray, 'scheduler', '--leader-elect-resource-namespace', NAMESPACE, kubeconfig=config_of(p, 'dray-scheduler'))
        storage_class(p, 'local', 'kubernetes.io/no-provisioner', 'WaitForFirstConsumer')
        storage_class(p, 'now', 'kubernetes.io/no-provisioner', 'Immediate')
        storage_class(p, 'disk', 'disk.example.com', 'WaitForFirstConsumer')
        for part in (first_consumer, immediate, provisioned, ephemeral, limits, same_words):
            part(p)
        assert sum(refusals(p, [sched]).values()) == 0, open(sched.log).read()[-2000:]
        p.end(sched)
    finally:
        p.done()
    print('ok: volumes on a real API server, bound by kube-controller-manager' + ('' if p.old else '; the words are kube-scheduler\'s'))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workloads on `dray up` with simulated nodes: a Deployment with a claim template rolls to a new template, a Job completes, a
DaemonSet covers the nodes, a StatefulSet counts up, its pods have storage, a switched off controller does nothing. Usage: workloads.py DRAY"""
import shutil, sys, tempfile

from up import Cluster

APPS = '/apis/apps/v1/namespaces/default'
JOBS = '/apis/batch/v1/namespaces/default/jobs'
PODS = '/api/v1/namespaces/default/pods'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default'


def template(app, image='i', claim=False, **spec):
    pod = {'containers': [{'name': 'c', 'image': image}], **spec}
    if claim:
        pod['resourceClaims'] = [{'name': 'gpu', 'resourceClaimTemplateName': 'gpu'}]
        pod['containers'][0]['resources'] = {'claims': [{'name': 'gpu'}]}
    return {'metadata': {'labels': {'app': app}}, 'spec': pod}


def workload(kind, name, pod, **spec):
    return {'apiVersion': 'apps/v1', 'kind': kind, 'metadata': {'name': name},
            'spec': {'selector': {'matchLabels': {'app': name}}, 'template': pod, **spec}}


def status(cluster, path, **wanted):
    def there():
        have = cluster.good('GET', path).get('status', {})
        return have if all(have.get(k) == v for k, v in wanted.items()) else None
    return cluster.until(f'{path} {wanted}', there)


def pods(cluster, app):
    return cluster.good('GET', f'{PODS}?labelSelector=app%3D{app}')['items']


def deployment_rolls(cluster, device_class):
    cluster.good('POST', f'{CLAIMS}/resourceclaimtemplates',
                 {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': 'gpu'},
                  'spec': {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': device_class}}]}}}})
    cluster.good('POST', f'{APPS}/deployments', workload('Deployment', 'web', template('web', claim=True), replicas=3))
    status(cluster, f'{APPS}/deployments/web', availableReplicas=3, updatedReplicas=3)
    claims = cluster.good('GET', f'{CLAIMS}/resourceclaims')['items']
    assert len(claims) == 3 and all(c['status'].get('allocation') for c in claims), 'each pod has a claim with devices'
    code, answer = cluster.call('PATCH', f'{APPS}/deployments/web',
                                {'spec': {'template': template('web', 'i2', claim=True)}}, 'application/merge-patch+json')
    assert code == 200, answer
    status(cluster, f'{APPS}/deployments/web', availableReplicas=3, updatedReplicas=3, replicas=3, observedGeneration=2)
    cluster.until('old pods go', lambda: len(pods(cluster, 'web')) == 3)
    assert all(p['spec']['containers'][0]['image'] == 'i2' for p in pods(cluster, 'web'))
    done = cluster.good('GET', f'{APPS}/deployments/web')
    assert done['metadata']['annotations']['deployment.kubernetes.io/revision'] == '2'
    assert {c['type']: c['status'] for c in done['status']['conditions']} == {'Available': 'True', 'Progressing': 'True'}


def job_completes(cluster):
    cluster.good('POST', JOBS, {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': 'sum'},
                                'spec': {'completions': 2, 'parallelism': 2, 'template': template('sum', restartPolicy='Never')}})
    status(cluster, f'{JOBS}/sum', active=2, ready=2)
    for pod in pods(cluster, 'sum'):  # simulated pods run for ever: their end is said from outside
        code, answer = cluster.call('PATCH', f'{PODS}/{pod["metadata"]["name"]}/status', {'status': {'phase': 'Succeeded'}},
                                    'application/merge-patch+json')
        assert code == 200, answer
    done = cluster.until('the job completes', lambda: next(
        (j for j in [cluster.good('GET', f'{JOBS}/sum')]
         if any(c['type'] == 'Complete' for c in j['status'].get('conditions', []))), None))
    assert done['status']['succeeded'] == 2, done['status']
    assert not any(p['metadata'].get('finalizers') for p in pods(cluster, 'sum'))


def stateful_set_has_storage(cluster):
    volumes, claims = '/api/v1/persistentvolumes', '/api/v1/namespaces/default/persistentvolumeclaims'
    pod = template('store')
    pod['spec']['containers'][0]['volumeMounts'] = [{'name': 'data', 'mountPath': '/data'}]
    cluster.good('POST', f'{APPS}/statefulsets', workload(
        'StatefulSet', 'store', pod, replicas=2, serviceName='store', volumeClaimTemplates=[
            {'metadata': {'name': 'data'},
             'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}]))
    status(cluster, f'{APPS}/statefulsets/store', readyReplicas=2, currentReplicas=2)
    node_of = {p['metadata']['name']: p['spec']['nodeName'] for p in pods(cluster, 'store')}
    for name in 'store-0', 'store-1':
        claim = cluster.good('GET', f'{claims}/data-{name}')
        assert claim['spec']['storageClassName'] == 'local', 'the default class'
        bound = status(cluster, f'{claims}/data-{name}', phase='Bound')
        assert bound['capacity'] == {'storage': '1Gi'} and bound['accessModes'] == ['ReadWriteOnce'], bound
        volume = cluster.good('GET', f'{volumes}/{claim["spec"]["volumeName"]}')
        assert volume['status']['phase'] == 'Bound' and volume['spec']['claimRef']['name'] == f'data-{name}'
        term, = volume['spec']['nodeAffinity']['required']['nodeSelectorTerms']
        assert term['matchExpressions'][0]['values'] == [node_of[name]], 'it is where the pod runs'
    cluster.good('DELETE', f'{APPS}/statefulsets/store')
    cluster.until('the pods go', lambda: not pods(cluster, 'store'))
    assert len(cluster.good('GET', volumes)['items']) == 2, 'storage outlives its pods'
    cluster.good('DELETE', f'{claims}/data-store-1')
    cluster.until('its volume goes', lambda: [v['spec']['claimRef']['name'] for v in cluster.good('GET', volumes)['items']] ==
                  ['data-store-0'])
    volume, = cluster.good('GET', volumes)['items']
    path = f'{volumes}/{volume["metadata"]["name"]}'
    code, answer = cluster.call('PATCH', path, {'spec': {'persistentVolumeReclaimPolicy': 'Retain'}}, 'application/merge-patch+json')
    assert code == 200, answer
    cluster.good('DELETE', f'{claims}/data-store-0')
    status(cluster, path, phase='Released')


def main():
    folder = tempfile.mkdtemp(prefix='dray-workloads-')
    try:
        cluster = Cluster(folder, '--sim', 'example-gpu', '--nodes', '3', '--controllers', '*,-statefulset-controller')
        device_class = cluster.until('device classes', lambda: cluster.good(
            'GET', '/apis/resource.k8s.io/v1/deviceclasses')['items'])[0]['metadata']['name']
        cluster.until('nodes', lambda: len(cluster.good('GET', '/api/v1/nodes')['items']) == 3)
        deployment_rolls(cluster, device_class)
        job_completes(cluster)
        cluster.good('POST', f'{APPS}/daemonsets', workload('DaemonSet', 'agent', template('agent')))
        status(cluster, f'{APPS}/daemonsets/agent', desiredNumberScheduled=3, numberAvailable=3)
        assert len({p['spec']['nodeName'] for p in pods(cluster, 'agent')}) == 3
        cluster.good('POST', f'{APPS}/statefulsets', workload('StatefulSet', 'db', template('db'), replicas=2, serviceName='db'))
        cluster.until('the default account', lambda: cluster.call(
            'GET', '/api/v1/namespaces/default/serviceaccounts/default')[0] == 200)
        assert not pods(cluster, 'db'), 'its controller is off'
        cluster.stop()
        cluster = Cluster(folder, '--sim', 'example-gpu', '--nodes', '3')
        status(cluster, f'{APPS}/statefulsets/db', readyReplicas=2, currentReplicas=2)
        assert sorted(p['metadata']['name'] for p in pods(cluster, 'db')) == ['db-0', 'db-1']
        assert len(pods(cluster, 'web')) == 3, 'a restart changes nothing'
        stateful_set_has_storage(cluster)
        cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print('workloads: all well')
    return 0


if __name__ == '__main__':
    sys.exit(main())

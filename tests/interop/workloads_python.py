#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workloads on `dray up` by the official Python client, as programs use them: watches that wait for status, scale subresources, deletion
with propagation policies, patches of status, server-side dry run. Usage: workloads_python.py DRAY"""
import os, subprocess, sys, time

from common import Up, peers, skip

VENV = os.path.join(peers(), 'venv/bin/python3')
NS = 'default'


def meta(name, **labels):
    return {'name': name, **({'labels': labels} if labels else {})}


def template(app, image='web:1', **spec):
    return {'metadata': {'labels': {'app': app}}, 'spec': {'terminationGracePeriodSeconds': 1, 'containers': [{'name': 'c', 'image': image}], **spec}}


def workload(kind, name, **spec):
    return {'apiVersion': 'apps/v1', 'kind': kind, 'metadata': meta(name),
            'spec': {'selector': {'matchLabels': {'app': name}}, 'template': template(name), **spec}}


class Programs:
    """What a program with the client does."""

    def __init__(self, client, watch):
        self.client, self.watch = client, watch
        self.apps, self.batch, self.core = client.AppsV1Api(), client.BatchV1Api(), client.CoreV1Api()

    def until(self, listing, name, good):
        """Watches objects of one name until one is good, as controllers of users do."""
        w = self.watch.Watch()
        for event in w.stream(listing, NS, field_selector=f'metadata.name={name}', timeout_seconds=60):
            if good(event['type'], event['object']):
                w.stop()
                return event['object']
        raise AssertionError(f'{name}: nothing came')

    def pods(self, app):
        return self.core.list_namespaced_pod(NS, label_selector=f'app={app}').items

    def wait(self, what, check, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = check()
            if got:
                return got
            time.sleep(0.1)
        raise AssertionError(f'{what}: not within {seconds} s')


def available(n):
    return lambda kind, o: o.status.available_replicas == n and (o.status.observed_generation or 0) >= o.metadata.generation


def deployment_is_watched_until_it_is_there(p):
    """create, watch to availability, scale by the subresource, replace the template, read the conditions."""
    made = p.apps.create_namespaced_deployment(NS, workload('Deployment', 'web', replicas=2))
    assert made.metadata.generation == 1
    p.until(p.apps.list_namespaced_deployment, 'web', available(2))
    scale = p.apps.read_namespaced_deployment_scale('web', NS)
    assert scale.spec.replicas == 2 and scale.status.selector == 'app=web', scale
    p.apps.patch_namespaced_deployment_scale('web', NS, {'spec': {'replicas': 3}})
    p.until(p.apps.list_namespaced_deployment, 'web', available(3))
    now = p.apps.read_namespaced_deployment('web', NS)
    now.spec.template.spec.containers[0].image = 'web:2'
    p.apps.replace_namespaced_deployment('web', NS, now)
    done = p.until(p.apps.list_namespaced_deployment, 'web', lambda kind, o: o.status.updated_replicas == 3 and available(3)(kind, o) and o.status.replicas == 3)
    assert {c.type: c.status for c in done.status.conditions} == {'Available': 'True', 'Progressing': 'True'}
    sets = p.apps.list_namespaced_replica_set(NS, label_selector='app=web').items
    assert sorted(s.spec.replicas for s in sets) == [0, 3] and all(s.metadata.owner_references[0].uid == made.metadata.uid for s in sets)


def deletion_says_how(p):
    """Foreground: the object stays, with its finalizer, until its dependents are gone; Orphan: they stay."""
    p.apps.create_namespaced_replica_set(NS, workload('ReplicaSet', 'rs', replicas=2))
    p.wait('pods', lambda: len(p.pods('rs')) == 2)
    p.apps.delete_namespaced_replica_set('rs', NS, propagation_policy='Orphan')
    p.wait('orphans', lambda: all(not x.metadata.owner_references for x in p.pods('rs')))
    assert len(p.pods('rs')) == 2
    p.core.delete_collection_namespaced_pod(NS, label_selector='app=rs')
    uid = p.apps.read_namespaced_deployment('web', NS).metadata.uid
    p.apps.delete_namespaced_deployment('web', NS, body=p.client.V1DeleteOptions(propagation_policy='Foreground', preconditions={'uid': uid}))
    p.wait('all goes', lambda: not p.apps.list_namespaced_deployment(NS).items)
    assert not p.pods('web') and not p.apps.list_namespaced_replica_set(NS, label_selector='app=web').items


def daemonset_and_statefulset(p):
    """Status of both as the client's models have it; the StatefulSet's pods have their number as a label."""
    p.apps.create_namespaced_daemon_set(NS, workload('DaemonSet', 'ds'))
    p.until(p.apps.list_namespaced_daemon_set, 'ds', lambda kind, o: o.status.number_available == 3 == o.status.desired_number_scheduled)
    p.apps.create_namespaced_stateful_set(NS, workload('StatefulSet', 'db', replicas=2, serviceName='db'))
    p.until(p.apps.list_namespaced_stateful_set, 'db', lambda kind, o: o.status.ready_replicas == 2)
    assert [x.metadata.labels['apps.kubernetes.io/pod-index'] for x in p.pods('db')] == ['0', '1']
    assert {r.metadata.owner_references[0].kind for r in p.apps.list_namespaced_controller_revision(NS).items} == {'DaemonSet', 'StatefulSet'}
    p.apps.delete_namespaced_daemon_set('ds', NS)
    p.apps.delete_namespaced_stateful_set('db', NS)
    p.wait('pods go', lambda: not p.pods('ds') and not p.pods('db'))


def indexed_job(p):
    """Each index once; a pod's failure is made good; the status tells which indexes are done."""
    p.batch.create_namespaced_job(NS, {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': meta('index'),
                                       'spec': {'completions': 3, 'parallelism': 3, 'completionMode': 'Indexed', 'backoffLimit': 2,
                                                'template': template('index', restartPolicy='Never')}})
    running = lambda: {x.metadata.annotations['batch.kubernetes.io/job-completion-index']: x for x in p.pods('index') if x.status.phase == 'Running'}
    first = p.wait('three pods', lambda: len(running()) == 3 and running())
    end = lambda pod, phase: p.core.patch_namespaced_pod_status(pod.metadata.name, NS, {'status': {'phase': phase}})
    end(first['1'], 'Failed')
    end(first['0'], 'Succeeded')
    second = p.wait('index 1 again', lambda: '1' in running() and running()['1'].metadata.uid != first['1'].metadata.uid and running())
    end(second['1'], 'Succeeded')
    end(first['2'], 'Succeeded')
    done = p.until(p.batch.list_namespaced_job, 'index', lambda kind, o: any(c.type == 'Complete' for c in o.status.conditions or []))
    assert done.status.completed_indexes == '0-2' and done.status.succeeded == 3 and done.status.failed == 1, done.status
    p.batch.delete_namespaced_job('index', NS, propagation_policy='Background')
    p.wait('pods go', lambda: not p.pods('index'))


def pods_as_they_are_admitted(p):
    """A dry run shows what a pod would be: account, token, tolerations, priority. One of an unknown account is forbidden."""
    pod = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': meta('dry'), 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}}
    seen = p.core.create_namespaced_pod(NS, pod, dry_run='All')
    token = seen.spec.volumes[0].projected.sources[0].service_account_token
    assert token.path == 'token' and token.expiration_seconds == 3607 and seen.spec.service_account_name == 'default'
    assert sorted(t.key for t in seen.spec.tolerations) == ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']
    pod['spec']['serviceAccountName'] = 'robot'
    try:
        p.core.create_namespaced_pod(NS, pod)
        raise AssertionError('a pod of an account that is not there')
    except p.client.ApiException as e:
        assert e.status == 403 and 'error looking up service account' in e.body, e


SCENARIOS = (deployment_is_watched_until_it_is_there, deletion_says_how, daemonset_and_statefulset, indexed_job, pods_as_they_are_admitted)


def main():
    try:
        from kubernetes import client, config, watch
        client.AppsV1Api
    except (ImportError, AttributeError):
        if os.path.exists(VENV) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(VENV))):
            return subprocess.run([VENV, os.path.abspath(__file__), *sys.argv[1:]]).returncode
        skip('workloads with the official Python client (not installed; python3 -m venv $PEERS/venv && $PEERS/venv/bin/pip install kubernetes)')
    server = Up(sys.argv[1], '--nodes', '3')
    try:
        config.load_kube_config(server.kubeconfig)
        p = Programs(client, watch)
        p.wait('nodes', lambda: len(p.core.list_node().items) == 3)
        for scenario in SCENARIOS:
            start = time.monotonic()
            scenario(p)
            print(f'  {scenario.__name__}: {time.monotonic() - start:.1f} s', flush=True)
    finally:
        server.done()
    print(f'Python client: {len(SCENARIOS)} scenarios of workloads')
    return 0


if __name__ == '__main__':
    sys.exit(main())

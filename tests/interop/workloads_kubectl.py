#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scenarios of Kubernetes' own end-to-end tests for workloads, garbage and nodes, in our words, with kubectl against `dray up`. Each
function is one scenario. Usage: workloads_kubectl.py DRAY"""
import json, os, sys, time

from common import Up, peers, skip
from kubectl import Kubectl

KUBECTL = os.path.join(peers(), 'bin/v1.37.1/kubectl')


def workload(kind, name, image='web:1', **spec):
    pod = {'metadata': {'labels': {'app': name}}, 'spec': {'terminationGracePeriodSeconds': 1, 'containers': [{'name': 'c', 'image': image}]}}
    return json.dumps({'apiVersion': 'apps/v1', 'kind': kind, 'metadata': {'name': name},
                       'spec': {'selector': {'matchLabels': {'app': name}}, 'template': pod, **spec}})


def job(name, **spec):
    pod = {'spec': {'restartPolicy': 'Never', 'containers': [{'name': 'c', 'image': 'sum:1'}]}}
    return json.dumps({'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': name}, 'spec': {'template': pod, **spec}})


class Cluster(Kubectl):
    def apply(self, text):
        return self.run('apply', '-f', '-', stdin=text)

    def field(self, kind, name, path):
        return self.run('get', kind, name, '-o', f'jsonpath={{{path}}}')

    def names(self, kind, *words):
        return sorted(self.run('get', kind, *words, '-o', 'jsonpath={.items[*].metadata.name}').split())

    def pods(self, app):
        return self.names('pods', '-l', f'app={app}')

    def until(self, what, check, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = check()
            if got:
                return got
            time.sleep(0.2)
        raise AssertionError(f'{what}: not within {seconds} s')

    def rolled(self, what):
        assert 'successfully rolled out' in self.run('rollout', 'status', what, '--timeout=60s') or what.startswith('statefulset')

    def end(self, pod, phase):
        self.run('patch', 'pod', pod, '--subresource=status', '--type=merge', '-p', json.dumps({'status': {'phase': phase}}))


# --- Deployments -----------------------------------------------------------------------------------

def deployment_rolls_forward_and_back(k):
    """A new image replaces all pods; history has both revisions; undo brings the old one, as a new revision."""
    k.apply(workload('Deployment', 'web', replicas=3))
    k.rolled('deployment/web')
    k.run('set', 'image', 'deployment/web', 'c=web:2')
    k.rolled('deployment/web')
    images = k.run('get', 'pods', '-l', 'app=web', '--field-selector=status.phase=Running', '-o', 'jsonpath={.items[*].spec.containers[0].image}')
    assert set(images.split()) <= {'web:2', 'web:1'} and 'web:2' in images, images
    history = k.run('rollout', 'history', 'deployment/web')
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ['1', '2'], history
    assert 'web:1' in k.run('rollout', 'history', 'deployment/web', '--revision=1')
    k.run('rollout', 'undo', 'deployment/web')
    k.rolled('deployment/web')
    assert k.field('deployment', 'web', '.spec.template.spec.containers[0].image') == 'web:1'
    history = k.run('rollout', 'history', 'deployment/web')
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ['2', '3'], history
    k.run('rollout', 'undo', 'deployment/web', '--to-revision=2')
    k.rolled('deployment/web')
    assert k.field('deployment', 'web', '.metadata.annotations.deployment\\.kubernetes\\.io/revision') == '4'


def deployment_that_is_paused_waits(k):
    """Paused: a new template rolls nothing; scaling goes on; resumed: it rolls."""
    k.run('rollout', 'pause', 'deployment/web')
    before = k.names('replicasets', '-l', 'app=web')
    k.run('set', 'image', 'deployment/web', 'c=web:9')
    k.run('scale', 'deployment/web', '--replicas=4')
    k.run('wait', 'deployment/web', '--for=jsonpath={.status.availableReplicas}=4', '--timeout=60s')
    assert k.names('replicasets', '-l', 'app=web') == before, 'a paused deployment makes no ReplicaSet'
    k.run('rollout', 'resume', 'deployment/web')
    k.rolled('deployment/web')
    assert k.field('deployment', 'web', '.status.updatedReplicas') == '4'


def deployment_restarts(k):
    """`rollout restart` replaces the pods though the template's containers are the same."""
    before = set(k.pods('web'))
    k.run('rollout', 'restart', 'deployment/web')
    k.rolled('deployment/web')
    k.until('old pods go', lambda: not before & set(k.pods('web')))


def deployment_that_cannot_progress_says_so(k):
    """Pods that never become available: after the deadline the condition says ProgressDeadlineExceeded, and rollout status fails."""
    text = json.loads(workload('Deployment', 'stuck', replicas=1, progressDeadlineSeconds=2))
    text['spec']['template']['spec']['nodeSelector'] = {'nowhere': 'here'}
    k.apply(json.dumps(text))
    assert 'exceeded its progress deadline' in k.run('rollout', 'status', 'deployment/stuck', '--timeout=60s', fails=True)
    k.run('delete', 'deployment', 'stuck')


def deletion_follows_the_cascade(k):
    """orphan leaves ReplicaSets and pods, which a new Deployment adopts; foreground is over when all is gone; background takes them later."""
    pods, sets = k.pods('web'), k.names('replicasets', '-l', 'app=web')
    k.run('delete', 'deployment', 'web', '--cascade=orphan')
    k.until('owners go', lambda: not k.run('get', 'rs', '-l', 'app=web', '-o', 'jsonpath={.items[*].metadata.ownerReferences}'))
    assert k.pods('web') == pods and k.names('replicasets', '-l', 'app=web') == sets
    image = k.field('pod', pods[0], '.spec.containers[0].image')
    template = json.loads(k.run('get', 'rs', '-l', 'app=web', '-o', 'json'))['items']
    newest = max(template, key=lambda r: int(r['metadata']['annotations']['deployment.kubernetes.io/revision']))['spec']['template']
    del newest['metadata']['labels']['pod-template-hash']
    again = json.loads(workload('Deployment', 'web', image, replicas=4))
    again['spec']['template'] = newest
    k.apply(json.dumps(again))
    k.rolled('deployment/web')
    assert k.pods('web') == pods, 'the same pods under a new Deployment'
    k.run('delete', 'deployment', 'web', '--cascade=foreground', '--timeout=60s')
    assert not k.pods('web') and not k.names('replicasets', '-l', 'app=web'), 'dependents go first'


# --- ReplicaSets -----------------------------------------------------------------------------------

def replicaset_adopts_and_releases(k):
    """A pod with matching labels is adopted, and counts; one that loses its label is released, and replaced."""
    k.run('run', 'stray', '--image=web:1', '--labels=app=rs')
    k.apply(workload('ReplicaSet', 'rs', replicas=2))
    k.run('wait', 'rs/rs', '--for=jsonpath={.status.readyReplicas}=2', '--timeout=60s')
    assert k.field('pod', 'stray', '.metadata.ownerReferences[0].name') == 'rs' and len(k.pods('rs')) == 2
    k.run('label', 'pod', 'stray', 'app=free', '--overwrite')
    k.until('it is released', lambda: not k.field('pod', 'stray', '.metadata.ownerReferences'))
    k.until('it is replaced', lambda: len(k.pods('rs')) == 2)
    k.run('scale', 'rs/rs', '--replicas=1')
    k.until('one goes', lambda: len(k.pods('rs')) == 1)
    k.run('delete', 'rs', 'rs')
    k.run('delete', 'pod', 'stray')


# --- DaemonSets and StatefulSets ---------------------------------------------------------------------

def daemonset_covers_nodes_and_rolls(k):
    """A pod on each node, on those alone that a selector names, a new one when one is lost; update and undo by revisions."""
    nodes = k.names('nodes')
    k.apply(workload('DaemonSet', 'ds'))
    k.rolled('daemonset/ds')
    where = k.run('get', 'pods', '-l', 'app=ds', '-o', 'jsonpath={.items[*].spec.nodeName}').split()
    assert sorted(where) == nodes, where
    lost = k.pods('ds')[0]
    k.run('delete', 'pod', lost)
    k.until('it is replaced', lambda: len(k.pods('ds')) == len(nodes) and lost not in k.pods('ds'))
    k.run('set', 'image', 'daemonset/ds', 'c=web:2')
    k.rolled('daemonset/ds')
    assert len(k.names('controllerrevisions')) >= 2
    k.run('rollout', 'undo', 'daemonset/ds')
    k.rolled('daemonset/ds')
    assert k.field('ds', 'ds', '.spec.template.spec.containers[0].image') == 'web:1'
    k.run('label', 'node', nodes[0], 'only=here')
    k.run('patch', 'ds', 'ds', '--type=merge', '-p', '{"spec":{"template":{"spec":{"nodeSelector":{"only":"here"}}}}}')
    k.until('one node', lambda: len(k.pods('ds')) == 1)
    k.run('delete', 'ds', 'ds')


def statefulset_keeps_order_and_names(k):
    """Pods come one after the other and go in the opposite order; a partition holds those below it back; names and storage stay."""
    k.apply(workload('StatefulSet', 'db', replicas=3, serviceName='db', volumeClaimTemplates=[
        {'metadata': {'name': 'data'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}])
        .replace('"image": "web:1"', '"image": "db:1"'))
    k.run('rollout', 'status', 'statefulset/db', '--timeout=60s')
    assert k.pods('db') == ['db-0', 'db-1', 'db-2'] and k.names('pvc') == ['data-db-0', 'data-db-1', 'data-db-2']
    made = k.run('get', 'pods', '-l', 'app=db', '--sort-by=.metadata.creationTimestamp', '-o', 'jsonpath={.items[*].metadata.name}').split()
    assert made[0] == 'db-0', made
    k.run('patch', 'sts', 'db', '--type=merge', '-p', '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}')
    k.run('set', 'image', 'statefulset/db', 'c=db:2')
    k.until('the last is new', lambda: k.field('pod', 'db-2', '.spec.containers[0].image') == 'db:2')
    assert k.field('pod', 'db-0', '.spec.containers[0].image') == 'db:1'
    k.run('scale', 'sts/db', '--replicas=1')
    k.until('the first stays', lambda: k.pods('db') == ['db-0'])
    assert len(k.names('pvc')) == 3, 'storage stays'
    k.run('delete', 'sts', 'db')
    k.run('delete', 'pvc', '--all')


# --- Jobs --------------------------------------------------------------------------------------------

def job_completes(k):
    """As many pods as parallelism says; complete when enough have succeeded; its pods go with it."""
    k.apply(job('sum', completions=3, parallelism=2))
    for number in range(3):
        pod = k.until('a pod runs', lambda: k.names('pods', '-l', 'job-name=sum', '--field-selector=status.phase=Running'))[0]
        k.end(pod, 'Succeeded')
    k.run('wait', 'job/sum', '--for=condition=complete', '--timeout=60s')
    assert k.field('job', 'sum', '.status.succeeded') == '3'
    k.run('delete', 'job', 'sum', '--cascade=foreground', '--timeout=60s')
    assert not k.names('pods', '-l', 'job-name=sum')


def job_fails_and_waits(k):
    """backoffLimit 0: the first failed pod ends it; suspended: no pods; a TTL deletes it after its end."""
    k.apply(job('bad', backoffLimit=0, ttlSecondsAfterFinished=3))
    k.end(k.until('a pod runs', lambda: k.names('pods', '-l', 'job-name=bad', '--field-selector=status.phase=Running'))[0], 'Failed')
    k.run('wait', 'job/bad', '--for=condition=failed', '--timeout=60s')
    k.run('wait', 'job/bad', '--for=delete', '--timeout=60s')
    k.apply(job('held', suspend=True))
    k.run('wait', 'job/held', '--for=condition=suspended', '--timeout=60s')
    assert not k.names('pods', '-l', 'job-name=held')
    k.run('patch', 'job', 'held', '--type=merge', '-p', '{"spec":{"suspend":false}}')
    k.until('it goes on', lambda: k.names('pods', '-l', 'job-name=held'))
    k.run('delete', 'job', 'held')


# --- Garbage and nodes -------------------------------------------------------------------------------

def accounts_are_looked_at(k):
    """A pod gets the token of its account; one whose account is not there is refused; every namespace has the CA."""
    k.run('create', 'namespace', 'team')
    k.run('run', 'p', '-n', 'team', '--image=web:1')
    spec = json.loads(k.run('get', 'pod', 'p', '-n', 'team', '-o', 'json'))['spec']
    assert spec['serviceAccountName'] == 'default' and spec['volumes'][0]['name'].startswith('kube-api-access-'), spec
    assert [t['tolerationSeconds'] for t in spec['tolerations']] == [300, 300], spec['tolerations']
    k.until('the CA', lambda: 'kube-root-ca.crt' in k.names('configmaps', '-n', 'team'))
    refused = k.run('run', 'q', '--image=web:1', '--overrides={"spec":{"serviceAccountName":"robot"}}', fails=True)
    assert 'error looking up service account default/robot: serviceaccount "robot" not found' in refused, refused
    k.run('delete', 'namespace', 'team', '--timeout=60s')


def pods_that_are_over_are_collected(k):
    """Of pods that have ended as many stay as --terminated-pod-gc-threshold says, the youngest."""
    for name in ('old', 'middle', 'young'):
        k.run('run', name, '--image=web:1', '--restart=Never')
        k.run('wait', f'pod/{name}', '--for=jsonpath={.status.phase}=Running', '--timeout=60s')
        time.sleep(1.1)  # creation times are in seconds
    for name in ('young', 'old', 'middle'):
        k.end(name, 'Succeeded')
    k.run('wait', 'pod/old', '--for=delete', '--timeout=60s')
    assert k.names('pods', '--field-selector=status.phase=Succeeded') == ['middle', 'young']
    k.run('delete', 'pod', 'middle', 'young')


def lost_nodes(k):
    """A node that stops renewing its Lease becomes Unknown and tainted; one that is deleted loses its pods after a while, and their
    ReplicaSet replaces them."""
    k.apply('{"apiVersion":"v1","kind":"Node","metadata":{"name":"silent"}}')
    k.run('patch', 'node', 'silent', '--subresource=status', '--type=merge', '-p', '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}')
    k.apply('{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"silent","namespace":"kube-node-lease"},'
            '"spec":{"holderIdentity":"silent","leaseDurationSeconds":40}}')
    k.apply(workload('ReplicaSet', 'lost', replicas=6))
    k.run('wait', 'rs/lost', '--for=jsonpath={.status.readyReplicas}=6', '--timeout=60s')
    pods = json.loads(k.run('get', 'pods', '-l', 'app=lost', '-o', 'json'))['items']
    node = pods[0]['spec']['nodeName']
    there = [p['metadata']['name'] for p in pods if p['spec']['nodeName'] == node]
    k.run('delete', 'node', node)
    k.until('its pods go', lambda: not set(there) & set(k.pods('lost')), 120)
    k.run('wait', 'rs/lost', '--for=jsonpath={.status.readyReplicas}=6', '--timeout=60s')
    k.run('wait', 'node/silent', '--for=condition=Ready=Unknown', '--timeout=120s')
    k.until('it is tainted', lambda: 'node.kubernetes.io/unreachable' in k.field('node', 'silent', '.spec.taints[*].key'))
    k.run('delete', 'rs', 'lost')


SCENARIOS = (deployment_rolls_forward_and_back, deployment_that_is_paused_waits, deployment_restarts, deployment_that_cannot_progress_says_so,
             deletion_follows_the_cascade, replicaset_adopts_and_releases, daemonset_covers_nodes_and_rolls, statefulset_keeps_order_and_names,
             job_completes, job_fails_and_waits, accounts_are_looked_at, pods_that_are_over_are_collected, lost_nodes)


def main():
    if not os.path.exists(KUBECTL):
        skip('workloads with kubectl (no ' + KUBECTL + ')')
    server = Up(sys.argv[1], '--nodes', '3', '--terminated-pod-gc-threshold', '2')
    try:
        k = Cluster(KUBECTL, server)
        k.until('nodes', lambda: len(k.names('nodes')) == 3)
        for scenario in SCENARIOS:
            start = time.monotonic()
            scenario(k)
            print(f'  {scenario.__name__}: {time.monotonic() - start:.1f} s', flush=True)
    finally:
        server.done()
    print(f'kubectl: {len(SCENARIOS)} scenarios of workloads, garbage and nodes')
    return 0


if __name__ == '__main__':
    sys.exit(main())

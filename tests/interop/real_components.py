#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler and kube-controller-manager on `dray server`: a Deployment, a DaemonSet and a Job whose pods have claims
from templates are scheduled and bound, taints evict, deletion is collected, namespaces end, and nobody complains in the logs for
long. Usage: real_components.py DRAY [--keep]"""
import json, os, re, shutil, subprocess, sys, time

from common import Server, peers, skip

NODES = 2
MANIFEST = '''
apiVersion: v1
kind: Namespace
metadata: {name: work}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: work}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: work}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: &pod
      tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]
      resourceClaims: [{name: c, resourceClaimTemplateName: one}]
      containers: [{name: main, image: busybox, resources: {claims: [{name: c}]}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: work}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      resourceClaims: [{name: c, resourceClaimTemplateName: one}]
      containers: [{name: main, image: busybox, resources: {claims: [{name: c}]}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: work}
spec:
  completions: 2
  parallelism: 2
  template:
    metadata: {labels: {app: once}}
    spec:
      restartPolicy: Never
      resourceClaims: [{name: c, resourceClaimTemplateName: one}]
      containers: [{name: main, image: busybox, resources: {claims: [{name: c}]}}]
'''

# What components say in passing on any API server.
HARMLESS = re.compile(r'is not as new as written version|manifest file is empty|the object has been modified|'
                      r'FlexVolume|client rate limiter|Leader election|lost connection|http2: client connection|'
                      r'unable to sync caches|Neither --kubeconfig|Authorization is disabled|Authentication is disabled')


class Cluster:
    def __init__(self, dray):
        self.bin = os.path.join(peers(), 'bin/v1.37.1')
        self.server = Server(dray)
        self.logs, self.processes = {}, []

    def start(self, name, *flags):
        path = os.path.join(self.server.top, name + '.log')
        self.logs[name] = path
        k = self.server.kubeconfig
        self.processes.append(subprocess.Popen(
            [os.path.join(self.bin, name), '--kubeconfig', k, '--authentication-kubeconfig', k, '--authorization-kubeconfig', k, '--bind-address=127.0.0.1',
             '--secure-port=0', '--leader-elect=true', '--kube-api-qps=1000', '--kube-api-burst=1000', *flags],
            stdout=open(path, 'wb'), stderr=subprocess.STDOUT))

    def kubectl(self, *words, stdin=None):
        r = subprocess.run([os.path.join(self.bin, 'kubectl'), '--kubeconfig', self.server.kubeconfig, '--cache-dir', os.path.join(self.server.top, 'cache'), *words],
                           input=stdin, capture_output=True, text=True, timeout=300)
        if r.returncode:
            raise AssertionError(f'kubectl {" ".join(words)}: {r.stdout}{r.stderr}')
        return r.stdout

    def items(self, kind, *words):
        return json.loads(self.kubectl('get', kind, '-o', 'json', *words))['items']

    def wait(self, what, test, seconds=90):
        end = time.monotonic() + seconds
        while True:
            for p in self.processes:
                assert p.poll() is None, 'a component ended: ' + self.tail()
            answer = test()
            if answer:
                print('  ' + what, flush=True)
                return answer
            if time.monotonic() > end:
                raise AssertionError(f'not in time: {what}\n{self.kubectl("get", "pods,resourceclaims,events", "-A")}\n{self.tail()}')
            time.sleep(0.3)

    def tail(self):
        return '\n'.join(open(p, errors='replace').read()[-1500:] for p in self.logs.values())

    def complaints(self, since):
        """Errors that were logged after a moment and are not said in passing, by how they begin."""
        found = {}
        for name, path in self.logs.items():
            for line in open(path, errors='replace'):
                m = re.match(r'[EF]\d{4} (\d\d:\d\d:\d\d)\.\d+ +\d+ (.*)', line)
                if m and m.group(1) >= since and not HARMLESS.search(line):
                    text = name + ': ' + re.sub(r'\d+', 'N', m.group(2))[:200]
                    found.setdefault(text, []).append(m.group(2))
        return found

    def done(self):
        for p in self.processes:
            p.terminate()
        for p in self.processes:
            p.wait(timeout=60)
        self.server.done()


def make_node(c, i):
    name = f'node{i}'
    c.kubectl('apply', '-f', '-', stdin=json.dumps({'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': {'kubernetes.io/hostname': name}}}))
    room = {'cpu': '8', 'memory': '16Gi', 'pods': '110'}
    status = {'status': {'capacity': room, 'allocatable': room, 'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'T', 'message': 't',
              'lastHeartbeatTime': '2100-01-01T00:00:00Z', 'lastTransitionTime': '2026-01-01T00:00:00Z'}]}}
    c.kubectl('patch', 'node', name, '--subresource=status', '-p', json.dumps(status))
    c.kubectl('apply', '-f', '-', stdin=json.dumps({
        'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': {'name': name, 'namespace': 'kube-node-lease'},
        'spec': {'holderIdentity': name, 'leaseDurationSeconds': 3600, 'renewTime': '2100-01-01T00:00:00.000000Z'}}))
    c.kubectl('apply', '-f', '-', stdin=json.dumps({
        'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': name + '-gpus'},
        'spec': {'nodeName': name, 'driver': 'gpu.example.com', 'pool': {'name': name, 'generation': 1, 'resourceSliceCount': 1},
                 'devices': [{'name': f'gpu{d}'} for d in range(8)]}}))


def bound(c, n):
    pods = [p for p in c.items('pods', '-n', 'work') if not p['metadata'].get('deletionTimestamp')]
    claims = c.items('resourceclaims', '-n', 'work')
    good = [p for p in pods if p['spec'].get('nodeName') and p['status'].get('resourceClaimStatuses')]
    allocated = [x for x in claims if x.get('status', {}).get('allocation') and x['status'].get('reservedFor')]
    return len(pods) == n and len(good) == n and len(allocated) >= n and pods


def devices_once(c):
    used = [(r['pool'], r['device']) for x in c.items('resourceclaims', '-A') if x.get('status', {}).get('allocation')
            for r in x['status']['allocation']['devices']['results']]
    assert len(used) == len(set(used)), used


def check(c):
    pki = os.path.join(c.server.folder, 'pki')
    c.start('kube-scheduler')
    c.start('kube-controller-manager', '--node-monitor-grace-period=1h', '--use-service-account-credentials=true', '--service-account-private-key-file=' + os.path.join(pki, 'sa.key'),
            '--root-ca-file=' + os.path.join(pki, 'ca.crt'), '--cluster-signing-cert-file=' + os.path.join(pki, 'ca.crt'),
            '--cluster-signing-key-file=' + os.path.join(pki, 'ca.key'))
    for i in range(NODES):
        make_node(c, i)
    c.wait('service accounts are made', lambda: any(s['metadata']['name'] == 'default' for s in c.items('serviceaccounts', '-n', 'default')))
    c.kubectl('apply', '-f', '-', stdin=MANIFEST)
    n = 3 + NODES + 2
    c.wait(f'{n} pods of a Deployment, a DaemonSet and a Job are bound with their claims', lambda: bound(c, n))
    devices_once(c)
    quiet = time.strftime('%H:%M:%S')

    # Jobs end when their pods do; claims of pods that are over are let go.
    for p in c.items('pods', '-n', 'work', '-l', 'app=once'):
        c.kubectl('patch', 'pod', '-n', 'work', p['metadata']['name'], '--subresource=status', '--type=merge', '-p', '{"status":{"phase":"Succeeded"}}')
    c.wait('the Job is complete', lambda: any(x['type'] == 'Complete' and x['status'] == 'True'
                                              for x in c.items('jobs', '-n', 'work')[0].get('status', {}).get('conditions', [])))
    c.wait('claims of its pods are free', lambda: sum(bool(x.get('status', {}).get('reservedFor')) for x in c.items('resourceclaims', '-n', 'work')) == 3 + NODES)

    # A device taint evicts; the Deployment makes another pod, which gets another device.
    victim = next(p for p in c.items('pods', '-n', 'work', '-l', 'app=web'))
    claim = next(x for x in c.items('resourceclaims', '-n', 'work') if x['metadata']['ownerReferences'][0]['uid'] == victim['metadata']['uid'])
    hit = claim['status']['allocation']['devices']['results'][0]
    c.kubectl('apply', '-f', '-', stdin=json.dumps({
        'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceTaintRule', 'metadata': {'name': 'broken'},
        'spec': {'deviceSelector': {'driver': hit['driver'], 'pool': hit['pool'], 'device': hit['device']}, 'taint': {'key': 'broken', 'effect': 'NoExecute'}}}))
    def evicted():
        p = [x for x in c.items('pods', '-n', 'work', '-l', 'app=web') if x['metadata']['uid'] == victim['metadata']['uid']]
        return not p or p[0]['metadata'].get('deletionTimestamp')
    c.wait('a device taint evicts its pod', evicted)
    c.kubectl('delete', 'pod', '-n', 'work', victim['metadata']['name'], '--grace-period=0', '--force', '--ignore-not-found')
    c.wait('another pod has another device', lambda: sum(bool(p['spec'].get('nodeName')) for p in c.items('pods', '-n', 'work', '-l', 'app=web')) == 3)
    devices_once(c)

    # A node taint evicts, too.
    web = c.items('pods', '-n', 'work', '-l', 'app=web')
    node = web[0]['spec']['nodeName']
    c.kubectl('taint', 'node', node, 'trouble=yes:NoExecute')
    c.wait('a node taint evicts', lambda: not [p for p in c.items('pods', '-n', 'work', '-l', 'app=web') if p['spec'].get('nodeName') == node and not p['metadata'].get('deletionTimestamp')])
    c.kubectl('taint', 'node', node, 'trouble-')
    for p in c.items('pods', '-n', 'work'):
        if p['metadata'].get('deletionTimestamp'):  # there is no kubelet that would end them
            c.kubectl('delete', 'pod', '-n', 'work', p['metadata']['name'], '--grace-period=0', '--force', '--ignore-not-found')

    # Deletion: background, foreground.
    c.kubectl('delete', 'deployment', '-n', 'work', 'web', '--cascade=foreground', '--wait=false')
    def over():
        for p in c.items('pods', '-n', 'work'):
            if p['metadata'].get('deletionTimestamp'):
                c.kubectl('delete', 'pod', '-n', 'work', p['metadata']['name'], '--grace-period=0', '--force', '--ignore-not-found')
        return not c.items('deployments', '-n', 'work') and not c.items('replicasets', '-n', 'work') and not c.items('pods', '-n', 'work', '-l', 'app=web')
    c.wait('a Deployment goes in the foreground, ReplicaSet and pods first', over)
    c.kubectl('delete', 'job', '-n', 'work', 'once', '--cascade=background', '--wait=false')
    c.wait('a Job and its pods go in the background', lambda: not c.items('jobs', '-n', 'work') and not c.items('pods', '-n', 'work', '-l', 'app=once'))
    c.kubectl('delete', 'daemonset', '-n', 'work', 'agent', '--cascade=orphan')
    c.wait('pods of a DaemonSet stay as orphans', lambda: len(c.items('pods', '-n', 'work', '-l', 'app=agent')) == NODES and
           not any(p['metadata'].get('ownerReferences') for p in c.items('pods', '-n', 'work', '-l', 'app=agent')))
    c.kubectl('delete', 'namespace', 'work', '--wait=false')
    def ended():
        for p in c.items('pods', '-n', 'work'):
            c.kubectl('delete', 'pod', '-n', 'work', p['metadata']['name'], '--grace-period=0', '--force', '--ignore-not-found')
        return not [n for n in c.items('namespaces') if n['metadata']['name'] == 'work']
    c.wait('the namespace ends with all that is in it', ended)
    assert not c.items('resourceclaims', '-A')
    served = c.kubectl('api-resources', '-o', 'name')
    recurring = {t: lines for t, lines in c.complaints(quiet).items() if len(lines) > 3 and ('ValidatingAdmissionPolicy' not in t or 'validatingadmissionpolicies' in served)}
    assert not recurring, recurring


def main():
    if not os.path.exists(os.path.join(peers(), 'bin/v1.37.1/kube-controller-manager')):
        skip('kube-scheduler and kube-controller-manager on dray server (no binaries)')
    c = Cluster(sys.argv[1])
    try:
        check(c)
        print('kube-scheduler and kube-controller-manager 1.37.1 work on dray server')
    finally:
        c.done()


if __name__ == '__main__':
    main()

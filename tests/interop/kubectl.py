#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl against `dray server`: every kubectl that is there, the packaged one and 1.37's. Usage: kubectl.py DRAY"""
import json, os, shutil, subprocess, sys

from common import Server, peers, skip

MANIFEST = '''
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.example.com"'}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim}
spec:
  devices:
    requests:
    - name: r
      exactly: {deviceClassName: gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  resourceClaims: [{name: c, resourceClaimName: claim}]
  containers:
  - name: main
    image: busybox
    resources: {claims: [{name: c}]}
'''


class Kubectl:
    def __init__(self, program, server):
        self.base = [program, '--kubeconfig', server.kubeconfig, '--cache-dir', os.path.join(server.top, 'cache-' + str(hash(program)))]

    def run(self, *words, stdin=None, fails=False):
        r = subprocess.run([*self.base, *words], input=stdin, capture_output=True, text=True, timeout=120)
        if (r.returncode != 0) != fails:
            raise AssertionError(f'kubectl {" ".join(words)}: exit {r.returncode}\n{r.stdout}{r.stderr}')
        return r.stderr if fails else r.stdout


def check(k, old):
    assert 'v1.37.' in k.run('version')
    resources = k.run('api-resources')
    for word in ('resourceslices', 'deviceclasses', 'po '):
        assert word in resources, resources
    assert 'resource.k8s.io/v1beta1' in k.run('api-versions')
    if old:  # before 1.34 it knows nothing of resource.k8s.io/v1, and needs not to
        assert 'KIND:' in k.run('explain', 'pod.spec')
    else:
        assert 'exactly' in k.run('explain', 'resourceclaim.spec.devices.requests')
        assert 'FIELD' in k.run('explain', 'resourceslice', '--recursive')
    made = k.run('apply', '-f', '-', stdin=MANIFEST)
    assert made.count('created') == 3, made
    again = k.run('apply', '-f', '-', stdin=MANIFEST)
    assert 'deviceclass.resource.k8s.io/gpu unchanged' in again, again
    changed = k.run('apply', '-f', '-', stdin=MANIFEST.replace('{name: gpu}', '{name: gpu, labels: {tier: a}}', 1))
    assert 'gpu configured' in changed, changed
    for output in ('name', 'wide', 'json', 'yaml', 'jsonpath={.items[*].metadata.name}', 'custom-columns=N:.metadata.name',
                   'go-template={{range .items}}{{.metadata.name}}{{end}}'):
        assert 'claim' in k.run('get', 'resourceclaims', '-o', output), output
    table = k.run('get', 'resourceclaims')
    assert table.split()[:3] == ['NAME', 'STATE', 'AGE'] and 'pending' in table, table
    assert json.loads(k.run('get', 'pod', 'pod', '-o', 'json'))['spec']['resourceClaims'][0]['resourceClaimName'] == 'claim'
    assert 'gpu' in k.run('get', 'deviceclasses', '-l', 'tier=a') and 'gpu' not in k.run('get', 'deviceclasses', '-l', 'tier=b')
    assert 'pod' in k.run('get', 'pods', '-A', '--field-selector', 'metadata.name=pod')
    for kind, name in (('resourceclaim', 'claim'), ('deviceclass', 'gpu'), ('pod', 'pod')):
        assert name in k.run('describe', kind, name)
    k.run('patch', 'resourceclaim', 'claim', '--type=merge', '-p', '{"metadata":{"labels":{"m":"1"}}}')
    k.run('patch', 'resourceclaim', 'claim', '--type=json', '-p', '[{"op":"add","path":"/metadata/labels/j","value":"2"}]')
    k.run('patch', 'pod', 'pod', '--type=strategic', '-p', '{"metadata":{"labels":{"s":"3"}}}')
    status = '{"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"gpu.example.com","pool":"p","device":"d"}]}}}}'
    k.run('patch', 'resourceclaim', 'claim', '--subresource=status', '--type=merge', '-p', status)
    assert 'allocated' in k.run('get', 'resourceclaims')
    k.run('wait', '--for=jsonpath={.metadata.labels.j}=2', 'resourceclaim/claim', '--timeout=20s')
    k.run('label', 'resourceclaim', 'claim', 'm-')
    k.run('annotate', 'pod', 'pod', 'note=x')
    assert 'invalid' in k.run('create', '-f', '-', stdin=MANIFEST.replace('name: claim}', 'name: UP}').replace('name: gpu}', 'name: g2}'), fails=True)
    assert 'unknown field' in k.run('create', '-f', '-', stdin=MANIFEST.replace('resourceClaims: [', 'color: red\n  resourceClaims: [').replace('name: pod}', 'name: p2}'), fails=True)
    assert 'NotFound' in k.run('get', 'resourceclaim', 'nosuch', fails=True)
    assert 'AlreadyExists' in k.run('create', '-f', '-', stdin=MANIFEST, fails=True)
    k.run('create', 'configmap', 'cm', '--from-literal=a=b')
    k.run('replace', '-f', '-', stdin=k.run('get', 'configmap', 'cm', '-o', 'yaml').replace('a: b', 'a: c'))
    assert k.run('get', 'configmap', 'cm', '-o', 'jsonpath={.data.a}') == 'c'
    k.run('create', 'namespace', 'spare')
    k.run('delete', 'namespace', 'spare', '--timeout=60s')
    k.run('delete', 'pod', 'pod', '--timeout=60s')
    k.run('delete', 'resourceclaims', '--all', '--timeout=60s')
    k.run('delete', 'deviceclasses', '--all', '--timeout=60s')
    k.run('delete', 'configmap', 'cm')
    assert 'yes' in k.run('auth', 'can-i', 'create', 'pods')
    assert 'ok' in k.run('get', '--raw', '/readyz')


def check_more(k):
    """What people do with clusters of today: server-side apply, diff, questions about rights, tokens."""
    made = k.run('apply', '--server-side', '-f', '-', stdin=MANIFEST)
    assert made.count('serverside-applied') == 3, made
    assert 'serverside-applied' in k.run('apply', '--server-side', '-f', '-', stdin=MANIFEST)
    changed = MANIFEST.replace('{name: gpu}', '{name: gpu, labels: {tier: b}}', 1)
    diff = subprocess.run([*k.base, 'diff', '--server-side', '-f', '-'], input=changed, capture_output=True, text=True, timeout=120)
    assert diff.returncode == 1 and 'tier: b' in diff.stdout, diff
    k.run('label', 'deviceclass', 'gpu', 'tier=c', '--field-manager=people')
    assert 'conflict' in k.run('apply', '--server-side', '-f', '-', stdin=changed, fails=True)
    k.run('apply', '--server-side', '--force-conflicts', '-f', '-', stdin=changed)
    assert k.run('get', 'deviceclass', 'gpu', '-o', 'jsonpath={.metadata.labels.tier}') == 'b'
    assert k.run('diff', '--server-side', '-f', '-', stdin=changed) == ''
    assert 'yes' in k.run('auth', 'can-i', '*', '*')
    assert 'Resources' in k.run('auth', 'can-i', '--list')
    assert 'system:masters' in k.run('auth', 'whoami')
    k.run('create', 'serviceaccount', 'driver')
    who = ('--as=system:serviceaccount:default:driver', '--as-group=system:serviceaccounts')
    assert subprocess.run([*k.base, 'auth', 'can-i', 'create', 'resourceslices', *who], capture_output=True, text=True).stdout.strip() == 'no'
    k.run('create', 'clusterrole', 'slices', '--verb=create,get', '--resource=resourceslices.resource.k8s.io')
    k.run('create', 'clusterrolebinding', 'slices', '--clusterrole=slices', '--serviceaccount=default:driver')
    k.run('auth', 'can-i', 'create', 'resourceslices', *who)
    token = k.run('create', 'token', 'driver', '--duration=1h').strip()
    assert token.count('.') == 2
    mine = subprocess.run([*k.base, '--token', token, '--client-certificate=', '--client-key=', 'auth', 'whoami'], capture_output=True, text=True)
    assert 'driver' in mine.stdout or 'dray-admin' in mine.stdout, mine
    for what in (('clusterrolebinding', 'slices'), ('clusterrole', 'slices'), ('serviceaccount', 'driver'), ('pod', 'pod'), ('resourceclaim', 'claim'), ('deviceclass', 'gpu')):
        k.run('delete', *what, '--timeout=60s')


def minor(program):
    return int(json.loads(subprocess.run([program, 'version', '--client', '-o', 'json'], capture_output=True, text=True).stdout)['clientVersion']['minor'].rstrip('+'))


def main():
    programs = [p for p in (shutil.which('kubectl'), os.path.join(peers(), 'bin/v1.37.1/kubectl')) if p and os.path.exists(p)]
    if not programs:
        skip('kubectl against dray server (no kubectl)')
    server = Server(sys.argv[1])
    try:
        for p in programs:
            check(Kubectl(p, server), minor(p) < 34)
            if minor(p) >= 34:
                check_more(Kubectl(p, server))
            print(f'kubectl 1.{minor(p)}: apply, get, describe, wait, patch, delete, api-resources, explain')
    finally:
        server.done()


if __name__ == '__main__':
    main()

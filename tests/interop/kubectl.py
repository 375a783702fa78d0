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
            print(f'kubectl 1.{minor(p)}: apply, get, describe, wait, patch, delete, api-resources, explain')
    finally:
        server.done()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray's command line beside kubectl on the same real API server: tables and data must be equal, and every verb must work there.

usage: cli.py DRAY; PEERS: where etcd, kube-apiserver and kubectl lie"""
import json, os, re, subprocess, sys, tempfile

sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))
from remote_kit import Plane, programs

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build-gcc/dray')
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
failures = []

OBJECTS = '''
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice-1}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: a}}, capacity: {memory: {value: 80Gi}}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {role: gpu}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "registry.example/web:1"}, {name: side, image: "registry.example/side:1"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: frobs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: frobs, singular: frob, kind: Frob, shortNames: [fr], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Nothing, type: string, jsonPath: .spec.nothing, priority: 1}
'''
FROB = 'apiVersion: example.com/v1\nkind: Frob\nmetadata: {name: frob-1}\nspec: {size: 7}\n'

TABLES = (['pods'], ['pods', '-o', 'wide'], ['pods', '-A'], ['pods', '-A', '-o', 'wide', '--show-labels'], ['nodes'], ['no', '-o', 'wide'], ['namespaces'],
          ['deploy'], ['deployments.apps', '-o', 'wide'], ['deployments.v1.apps'], ['resourceclaims'], ['resourceclaimtemplates', '-A'], ['deviceclasses'],
          ['resourceslices', '-o', 'wide'], ['frobs'], ['fr', '-o', 'wide'], ['pods,deployments'], ['all'], ['all', '-A'], ['pod/trainer', 'deployment/web'],
          ['pod', 'trainer'], ['pods', '-l', 'app=web'], ['pods', '--field-selector', 'status.phase=Pending'], ['customresourcedefinitions'], ['clusterroles'],
          ['svc', '-A'], ['leases', '-A'], ['pods', '--no-headers'], ['events'], ['sa', '-n', 'kube-system'])
DATA = (['pod', 'trainer', '-o', 'json'], ['pods', '-o', 'yaml'], ['pods', '-o', 'name'], ['deploy,pods', '-o', 'name'], ['resourceslices', '-o', 'yaml'],
        ['frob', 'frob-1', '-o', 'yaml'], ['pods,nodes', '-o', 'json'], ['pods', '-o', 'jsonpath={.items[*].metadata.name}'],
        ['pods', '-o', 'jsonpath={range .items[*]}{.metadata.name}{"\\t"}{.spec.containers[0].image}{"\\n"}{end}'],
        ['pods', '-o', 'jsonpath={.items[?(@.metadata.name=="trainer")].spec.containers[*].name}'],
        ['pods', '-o', 'jsonpath={.items[0].metadata.labels}'], ['pods', '-o', 'jsonpath={..image}'], ['pod', 'trainer', '-o', "jsonpath={.spec['schedulerName','priority']}"],
        ['nodes', '-o', 'jsonpath={.items[-1:].metadata.name} and {.items[0].metadata.labels.role}'], ['frobs', '-o', 'jsonpath={.items[0].spec.size}'])


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}:\n  want {want!r}\n  got  {got!r}'[:3000])


def ageless(text):
    """Rows without the ages: a second may pass between two questions."""
    return re.sub(r'\b(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?= |$)', lambda m: '#' * len(m.group(0)) if m.group(0) else '', text, flags=re.M)


class Both:
    def __init__(self, plane):
        self.env = dict(os.environ, KUBECONFIG=plane.kubeconfig)
        self.kubectl_program = os.path.join(programs(), 'kubectl')

    def run(self, program, words, stdin=''):
        r = subprocess.run([program, *words], input=stdin, capture_output=True, text=True, env=self.env, timeout=120)
        return r.returncode, r.stdout, r.stderr

    def dray(self, *words, stdin=''):
        return self.run(DRAY, words, stdin)

    def kubectl(self, *words, stdin=''):
        return self.run(self.kubectl_program, words, stdin)


def make(both):
    code, out, err = both.dray('apply', '-f', '-', '-f', os.path.join(HERE, 'examples', 'claim.yaml'), stdin=OBJECTS)
    expect('apply', (code, err), (0, ''))
    expect('what was made', out.splitlines(), ['resourceslice.resource.k8s.io/slice-1 created', 'node/node-1 created', 'deployment.apps/web created',
           'customresourcedefinition.apiextensions.k8s.io/frobs.example.com created', 'deviceclass.resource.k8s.io/gpu.example.com created',
           'resourceclaimtemplate.resource.k8s.io/large-gpu created', 'pod/trainer created'])
    expect('wait for a definition', both.dray('wait', 'crd/frobs.example.com', '--for=condition=Established', '--timeout=60s')[0], 0)
    expect('a kind that is new', both.dray('apply', '-f', '-', stdin=FROB)[:2], (0, 'frob.example.com/frob-1 created\n'))
    expect('twice', both.dray('apply', '-f', '-', stdin=FROB)[:2], (0, 'frob.example.com/frob-1 unchanged\n'))
    expect('changed', both.dray('apply', '-f', '-', stdin=FROB.replace('7', '8'))[:2], (0, 'frob.example.com/frob-1 configured\n'))
    expect('as kubectl does it', both.kubectl('apply', '--server-side', '--field-manager', 'dray', '-f', '-', stdin=FROB.replace('7', '8'))[0], 0)
    code, _, err = both.dray('apply', '-f', '-', '--field-manager', 'other', stdin=FROB)
    expect('a conflict', (code, 'conflict with "dray"' in err, err.count('\n')), (1, True, 1))


def compare(both):
    for words in TABLES:
        for _ in range(5):  # 9s may become 10s between two questions
            code, out, _ = both.dray('get', *words)
            k_code, k_out, _ = both.kubectl('get', *words)
            if ageless(out) == ageless(k_out):
                break
        expect(f'table of {words}', (code, ageless(out)), (k_code, ageless(k_out)))
    for words in DATA:
        expect(f'data of {words}', both.dray('get', *words)[:2], both.kubectl('get', *words)[:2])
    code, out, err = both.dray('get', 'pod', 'nobody')
    expect('not there', (code, out, err), (1, '', 'dray get: ' + both.kubectl('get', 'pod', 'nobody')[2].split(': ', 1)[1]))
    expect('nothing', both.dray('get', 'jobs'), both.kubectl('get', 'jobs'))


def verbs(both):
    for kind in ('pod/trainer', 'node/node-1', 'deployment/web', 'slices', 'class', 'templates', 'frob/frob-1'):
        code, out, err = both.dray('describe', kind)
        expect(f'describe {kind}', (code, 'Name: ' in out, err), (0, True, ''))
    code, _, err = both.dray('logs', 'trainer')
    expect('logs of a pod without a node', (code, err), (0, ''))
    code, _, err = both.dray('exec', 'trainer', '--', 'ls')
    expect('exec in a pod without a node', (code, 'does not have a host assigned' in err), (1, True))
    expect('a value', both.dray('wait', 'frob/frob-1', '--for=jsonpath={.spec.size}=8')[0], 0)
    code, _, err = both.dray('wait', 'pod/trainer', '--for=condition=Ready', '--timeout=500ms')
    expect('in vain', (code, 'timed out' in err), (1, True))
    w = subprocess.Popen([DRAY, 'get', 'frobs', '-w', '-o', 'name'], stdout=subprocess.PIPE, text=True, env=both.env)
    expect('a watch', w.stdout.readline(), 'frob.example.com/frob-1\n')
    expect('another', both.kubectl('apply', '-f', '-', stdin=FROB.replace('frob-1', 'frob-2'))[0], 0)
    expect('an event', w.stdout.readline(), 'frob.example.com/frob-2\n')
    w.kill()
    w.wait()
    expect('delete', both.dray('delete', 'frobs', '--all')[:2], (0, 'frob.example.com "frob-1" deleted\nfrob.example.com "frob-2" deleted\n'))
    expect('gone', both.kubectl('get', 'frobs', '-o', 'name')[1], '')
    expect('delete a pod', both.dray('delete', 'pod/trainer', '--grace-period=0', '--force', '--timeout=60s')[0], 0)
    expect('delete files', both.dray('delete', '-f', '-', stdin=OBJECTS)[0], 0)


def plugin(both):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(DRAY, os.path.join(folder, 'kubectl-dray'))
        both.env['PATH'] = folder + ':' + both.env['PATH']
        expect('kubectl dray', both.kubectl('dray', 'get', 'ns', '-o', 'name'), both.dray('get', 'ns', '-o', 'name'))


def main():
    plane = Plane()
    try:
        plane.start('kcm')
        both = Both(plane)
        make(both)
        compare(both)
        verbs(both)
        plugin(both)
    finally:
        plane.done()
    for f in failures:
        print('FAIL', f)
    print('cli beside kubectl:', 'failed' if failures else 'ok')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

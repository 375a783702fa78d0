#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The right cluster, and no more than the user may read: a KUBECONFIG that is set but unusable is an error that names the file, and with
`edit` in one namespace why, free and who answer at once from what that namespace shows. Usage: limited.py DRAY"""
import json, os, re, shutil, signal, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
OBJECTS = '''
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dev, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: dev, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %(name)s, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: %(count)d}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, namespace: team}
spec:
  resourceClaims: [{name: g, resourceClaimTemplateName: %(name)s}]
  containers: [{name: c, image: x, resources: {claims: [{name: g}]}}]
'''


def run(kubeconfig, *words, **options):
    began = time.monotonic()
    r = subprocess.run([DRAY, *words], capture_output=True, text=True, timeout=120, env=dict(os.environ, **kubeconfig), **options)
    return r, time.monotonic() - began


def right_cluster(home):
    """Nothing falls back to the cluster in HOME when another one is named."""
    broken, empty = os.path.join(home, 'broken'), os.path.join(home, 'empty')
    open(broken, 'w').write('clusters: [')
    open(empty, 'w').close()
    for file in (os.path.join(home, 'missing'), broken, empty):
        for words in (('get', 'pods', '-n', 'team'), ('delete', 'pod', 'waits', '-n', 'team'), ('why', 'waits', '-n', 'team'), ('free',)):
            r, _ = run({'HOME': home, 'KUBECONFIG': file}, *words)
            assert r.returncode != 0 and file in r.stderr and not r.stdout, (file, words, r)
    r, _ = run({'HOME': home, 'KUBECONFIG': ''}, 'get', 'pod', 'waits', '-n', 'team')
    assert r.returncode == 0, r  # it is still there


def limited(dev):
    r, took = run(dev, 'why', 'waits')
    assert r.returncode == 1 and took < 20, (took, r)
    assert r.stdout.startswith('Pod team/waits waits: 0/1 nodes: 1 has fewer than 20 devices for request gpu'), r.stdout
    assert re.search(r'You may not list nodes,[^:]* resourceslices,', r.stdout), r.stdout
    r, _ = run(dev, 'why', 'waits', '-o', 'json')
    answer = json.loads(r.stdout)
    assert 'nodes' in answer['forbidden'] and 'fewer than 20' in answer['reason'], answer
    r, _ = run(dev, 'why', 'runs')
    assert r.returncode == 0 and 'bound to example-gpu-0' in r.stdout, r
    for verb in ('free', 'who'):
        r, took = run(dev, verb)
        assert took < 20 and re.search(r'you may not list nodes, deviceclasses, resourceslices', r.stderr), r
        assert re.search(r'gpu\.example\.com/example-gpu-0/gpu-\d +runs-g-\w+ +runs', r.stdout), r.stdout


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    home, data = os.path.join(top, 'home'), os.path.join(top, 'home', '.dray')
    os.makedirs(home)
    tokens = os.path.join(top, 'tokens.csv')
    open(tokens, 'w').write('secret-of-dev,dev,1,\n')
    os.chmod(tokens, 0o600)
    up = subprocess.Popen([DRAY, 'up', '--nodes', '1', '--listen', '127.0.0.1:0', '--data-dir', data, '--token-file', tokens],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while not up.stdout.readline().startswith('Ctrl-C'):
            assert up.poll() is None
        admin = {'HOME': home, 'KUBECONFIG': os.path.join(data, 'admin.kubeconfig')}
        for name, count in (('waits', 20), ('runs', 1)):
            r, _ = run(admin, 'apply', '-f', '-', input=OBJECTS % {'name': name, 'count': count})
            assert r.returncode == 0, r
        assert run(admin, 'wait', 'pod/runs', '-n', 'team', '--for=condition=Ready')[0].returncode == 0
        assert run(admin, 'wait', 'pod/waits', '-n', 'team', '--for=condition=PodScheduled=False')[0].returncode == 0
        right_cluster(home)
        config = open(admin['KUBECONFIG']).read()
        config = re.sub(r'client-(certificate|key)[-\w]*: .*\n', '', config)
        config = re.sub(r'(\n\s+user:)(\s*\n|\s*\{\}\n)', r'\1 {token: secret-of-dev}\n', config, count=1)
        config = re.sub(r'(context:\n\s+cluster:[^\n]*\n)(\s+)', r'\1\2namespace: team\n\2', config, count=1)
        dev = os.path.join(top, 'dev.kubeconfig')
        open(dev, 'w').write(config)
        limited({'HOME': home, 'KUBECONFIG': dev})
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(timeout=60)
        shutil.rmtree(top, ignore_errors=True)
    print('limited: ok')


if __name__ == '__main__':
    main()

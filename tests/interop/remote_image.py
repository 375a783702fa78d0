#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way a user installs dray on a cluster, whole: the image of tools/image in a real containerd, the Helm chart rendered by helm (and the
same objects as deploy/kubernetes), its pods under a real kubelet with no rights but those of their service accounts; then the scheduler that
runs there places a pod with a claim. Needs what real_cluster.py names, and helm in $PEERS/bin or on the PATH. Usage: remote_image.py DRAY"""
import glob, json, os, shutil, subprocess, sys

from common import peers, skip
from real_cluster import Cluster, until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
CHART = os.path.join(ROOT, 'deploy', 'helm', 'dray')
NAMESPACE = 'dray-system'
RESOURCES = '/apis/resource.k8s.io/v1'
EVERYTHING = ('controllers.enabled=true', 'driverNet.enabled=true')


def helm():
    for path in (os.path.join(peers(), 'bin', 'helm'), shutil.which('helm') or ''):
        if os.path.exists(path):
            return path
    return skip('dray installed by helm (no helm)')


def as_json(cluster, text):
    """Objects of a YAML text as the real tool reads them, by kind and name."""
    run = subprocess.run([os.path.join(cluster.env['K8S_BIN'], 'kubectl'), '--kubeconfig', cluster.kubeconfig, 'create', '--dry-run=client', '-o', 'json', '-f', '-'],
                         input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    at, found, reader = 0, {}, json.JSONDecoder()
    while at < len(run.stdout.rstrip()):
        one, at = reader.raw_decode(run.stdout, at)
        at += len(run.stdout[at:]) - len(run.stdout[at:].lstrip())
        for item in one.get('items', [one]):
            found[item['kind'], item['metadata']['name']] = item
    return found


def template(program, *settings):
    words = [program, 'template', 'dray', CHART, '--namespace', NAMESPACE, '--kube-version', '1.37.1']
    run = subprocess.run(words + [w for s in settings for w in ('--set', s)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def chart_is_the_manifests(cluster, program):
    run = subprocess.run([program, 'lint', CHART], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    rendered = as_json(cluster, template(program, *EVERYTHING))
    plain = {}
    for path in glob.glob(os.path.join(ROOT, 'deploy', 'kubernetes', '*.yaml')):
        if not path.endswith('kustomization.yaml'):
            plain.update(as_json(cluster, open(path).read()))
    del plain['Namespace', NAMESPACE]  # helm's own
    assert rendered.keys() == plain.keys(), rendered.keys() ^ plain.keys()
    for key, wanted in plain.items():
        assert rendered[key] == wanted, (key, rendered[key], wanted)
    given = as_json(cluster, template(program, 'scheduler.extraArgs={--v=2,a b}', 'scheduler.name=other', 'scheduler.replicas=3', 'image.repository=r', 'image.tag=t'))
    spec = given['Deployment', 'dray-scheduler']['spec']
    container = spec['template']['spec']['containers'][0]
    assert spec['replicas'] == 3 and container['image'] == 'r:t', spec
    assert container['args'][-3:] == ['--scheduler-name=other', '--v=2', 'a b'], container
    assert ('Deployment', 'dray-controllers') not in given, given.keys()


def image(cluster, dray):
    archive = os.path.join(cluster.top, 'dray.tar')
    subprocess.run([os.path.join(ROOT, 'tools', 'image'), '--program', dray, '--out', os.path.join(cluster.top, 'image'), '--archive', archive],
                   check=True, stdout=subprocess.DEVNULL)
    ctr = [os.path.join(peers(), 'bin', 'ctr'), '-a', os.path.join(cluster.node, 'containerd.sock'), '-n', 'k8s.io', 'image', 'import']
    runtime = open(os.path.join(cluster.node, 'containerd.pid')).read().strip()
    # As systemd has it on any node; here /run is the test's own.
    subprocess.run(['nsenter', '-m', '-t', runtime, 'mount', '--make-rshared', '/run'], check=True)
    subprocess.run(['nsenter', '-m', '-t', runtime, *ctr, '--base-name', 'localhost/dray', archive], check=True, stdout=subprocess.DEVNULL)


def patch(cluster, kind, name, spec):
    # There is no kube-proxy here: pods use the host's network and are told where the API server is.
    spec['hostNetwork'] = True
    spec['containers'][0]['env'] = [{'name': 'KUBERNETES_SERVICE_HOST', 'value': '127.0.0.1'},
                                    {'name': 'KUBERNETES_SERVICE_PORT', 'value': str(cluster.port + 3)}]
    run = subprocess.run([os.path.join(cluster.env['K8S_BIN'], 'kubectl'), '--kubeconfig', cluster.kubeconfig, '-n', NAMESPACE, 'patch', kind, name,
                          '-p', json.dumps({'spec': {'template': {'spec': spec}}})], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def install(cluster, program):
    folders = [f'driverNet.extraArgs[{i}]=--{f}={cluster.folders[f]}' for i, f in enumerate(('plugins', 'registry', 'cdi'))]
    settings = (*EVERYTHING, *folders, 'image.repository=localhost/dray', 'image.pullPolicy=Never', 'scheduler.replicas=1', 'controllers.replicas=1')
    words = [program, 'install', 'dray', CHART, '--namespace', NAMESPACE, '--create-namespace', '--kubeconfig', cluster.kubeconfig]
    run = subprocess.run(words + [w for s in settings for w in ('--set', s)], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and 'schedulerName: dray' in run.stdout, (run.stdout, run.stderr)
    patch(cluster, 'deployment', 'dray-scheduler', {'containers': [{'name': 'scheduler'}]})
    patch(cluster, 'deployment', 'dray-controllers', {'containers': [{'name': 'controllers'}]})
    # kubelet's folders are elsewhere here; as on any node they have the same path inside and outside.
    mounts = [{'name': f, 'mountPath': cluster.folders[f]} for f in ('plugins', 'registry', 'cdi')]
    volumes = [{'name': f, 'hostPath': {'path': cluster.folders[f], 'type': 'DirectoryOrCreate'}} for f in ('plugins', 'registry', 'cdi')]
    patch(cluster, 'daemonset', 'dray-driver-net', {'containers': [{'name': 'driver', 'volumeMounts': mounts}], 'volumes': volumes})


def available(cluster):
    items = cluster.call('GET', f'/apis/apps/v1/namespaces/{NAMESPACE}/deployments')['items']
    return len(items) == 2 and all(d['status'].get('availableReplicas') and d['status'].get('observedGeneration') == d['metadata']['generation']
                                   and d['status'].get('updatedReplicas') == d['status'].get('replicas') for d in items)


def driver_publishes(cluster):
    """Slices come after registration: kubelet knows the driver of the DaemonSet."""
    until('slices of the DaemonSet\'s driver', lambda: [s for s in cluster.call('GET', RESOURCES + '/resourceslices')['items'] if s['spec']['driver'] == 'dra.net'])
    assert 'dra.net' in os.listdir(cluster.folders['plugins']), os.listdir(cluster.folders['plugins'])


def works(cluster, dray):
    driver = subprocess.Popen([dray, 'driver', 'sim', '--profile', 'example-gpu', '--node', 'vm', '--kubeconfig', cluster.kubeconfig,
                               *[w for f in ('plugins', 'registry', 'cdi') for w in ('--' + f, cluster.folders[f])]],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        slices = until('slices', lambda: [s for s in cluster.call('GET', RESOURCES + '/resourceslices')['items'] if s['spec']['driver'] != 'dra.net'])
        cluster.call('POST', RESOURCES + '/deviceclasses', {'metadata': {'name': 'mine'}, 'spec': {'selectors': [
            {'cel': {'expression': f'device.driver == "{slices[0]["spec"]["driver"]}"'}}]}})
        cluster.call('POST', RESOURCES + '/namespaces/default/resourceclaimtemplates', {'metadata': {'name': 'one'}, 'spec': {'spec': {'devices': {
            'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'mine'}}]}}}})
        cluster.call('POST', '/api/v1/namespaces/default/pods', {'metadata': {'name': 'a'}, 'spec': {
            'schedulerName': 'dray', 'terminationGracePeriodSeconds': 1, 'resourceClaims': [{'name': 'g', 'resourceClaimTemplateName': 'one'}],
            'containers': [{'name': 'main', 'image': 'localhost/busybox:1', 'imagePullPolicy': 'Never', 'command': ['sh', '-c', 'sleep 600'],
                            'resources': {'claims': [{'name': 'g'}]}}]}})
        # kube-scheduler is there and leaves pods with another scheduler's name alone.
        until('the pod runs', lambda: cluster.call('GET', '/api/v1/namespaces/default/pods/a')['status'].get('phase') == 'Running')
        cluster.call('DELETE', '/api/v1/namespaces/default/pods/a')
        until('the claim is gone', lambda: not cluster.call('GET', RESOURCES + '/resourceclaims')['items'])
    finally:
        driver.terminate()
        driver.wait(timeout=60)


def removed(cluster, program):
    run = subprocess.run([program, 'uninstall', 'dray', '--namespace', NAMESPACE, '--kubeconfig', cluster.kubeconfig], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    roles = cluster.call('GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles')['items']
    assert not [r for r in roles if r['metadata']['name'].startswith('dray-')], 'roles stay behind'
    until('no pods of ours', lambda: not cluster.call('GET', f'/api/v1/namespaces/{NAMESPACE}/pods')['items'])


def main():
    dray, program = os.path.abspath(sys.argv[1]), helm()
    # kube-controller-manager leaves claims to dray's controllers.
    without = '*,-node-lifecycle-controller,-resourceclaim-controller,-device-taint-eviction-controller'
    cluster = Cluster(env=lambda run: {'CONTROLLERS': without})
    try:
        chart_is_the_manifests(cluster, program)
        image(cluster, dray)
        install(cluster, program)
        try:
            until('both parts available', lambda: available(cluster))
            driver_publishes(cluster)
        except AssertionError:
            for path in glob.glob(os.path.join(cluster.node, 'podlogs', '*', '*', '*.log')):
                print(path, open(path, errors='replace').read()[-1500:])
            print(json.dumps([e['message'] for e in cluster.call('GET', f'/api/v1/namespaces/{NAMESPACE}/events')['items']][-40:], indent=1))
            raise
        works(cluster, dray)
        removed(cluster, program)
    finally:
        cluster.done()
    print('ok: dray installed by its chart and image on a real cluster')


if __name__ == '__main__':
    main()

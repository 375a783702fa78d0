#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real DRA drivers register with dray's DRA manager (`dray kubelet-stub`), publish on `dray server`, prepare and unprepare; kubelet's own code
reads the checkpoint. Drivers are taken from $PEERS/bin: dra-example-kubeletplugin, dra-e2e-test-driver. Usage: kubelet_stub.py DRAY"""
import glob, json, os, shutil, signal, subprocess, sys, tempfile, time

from common import Server, call, peers

SLICES = '/apis/resource.k8s.io/v1/resourceslices'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'


def wait(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError('waited in vain for ' + what)


class Node:
    """The folders of a node, and our end of it."""

    def __init__(self, server):
        self.server = server
        self.folders = {n: os.path.join(server.top, n) for n in ('cdi', 'plugins', 'registry', 'state')}
        for f in self.folders.values():
            os.makedirs(f, exist_ok=True)
        self.flags = ['--registry', self.folders['registry'], '--plugins', self.folders['plugins'], '--state', self.folders['state'],
                      '--kubeconfig', server.kubeconfig, '--cdi-dir', self.folders['cdi'], '-o', 'json']

    def stub(self, *words, ok=True):
        run = subprocess.run([self.server.dray, 'kubelet-stub', *self.flags, *words], capture_output=True, text=True, timeout=120)
        assert (run.returncode == 0) == ok, (words, run.stdout, run.stderr)
        return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{')], run.stderr

    def staying(self, *words):
        return subprocess.Popen([self.server.dray, 'kubelet-stub', *self.flags, *words, 'run'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Driver:
    def __init__(self, node, command):
        self.log = open(os.path.join(node.server.top, 'driver.log'), 'ab')
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout=30)
        self.log.close()


def example(node, extra=()):
    f = node.folders
    return Driver(node, [os.path.join(peers(), 'bin', 'dra-example-kubeletplugin'), '--device-profile', 'gpu', '--num-devices', '4', '--node-name', 'node-a',
                         '--kubeconfig', node.server.kubeconfig, '--cdi-root', f['cdi'], '--kubelet-plugins-directory-path', f['plugins'],
                         '--kubelet-registrar-directory-path', f['registry'], *extra])


def e2e(node):
    f = node.folders
    os.makedirs(os.path.join(f['plugins'], 'test-driver.cdi.k8s.io'))  # it makes only the folder above
    return Driver(node, [os.path.join(peers(), 'bin', 'dra-e2e-test-driver'), '--kubeconfig', node.server.kubeconfig, '--drivername', 'test-driver.cdi.k8s.io', 'kubelet-plugin',
                         '--node-name', 'node-a', '--cdi-dir', f['cdi'], '--datadir', f['plugins'], '--plugin-registration-path', f['registry']])


def sim(node):
    f = node.folders
    return Driver(node, [node.server.dray, 'driver', 'sim', '--profile', 'example-gpu', '--node', 'node-a', '--kubeconfig', node.server.kubeconfig, '--plugins', f['plugins'],
                         '--registry', f['registry'], '--cdi', f['cdi'], '--no-classes'])


def published(server, driver):
    def look():
        for s in call(server, 'GET', SLICES)['items']:
            if s['spec']['driver'] == driver and s['spec'].get('devices'):
                return s
    return wait('slices of ' + driver, look)


def allocated(server, name, s, device, pods=()):
    """A claim with a device of a slice."""
    call(server, 'POST', CLAIMS, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name, 'namespace': 'default'},
                                  'spec': {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': 'gpu'}}]}}})
    claim = call(server, 'GET', f'{CLAIMS}/{name}')
    claim['status'] = {'allocation': {'devices': {'results': [{'request': 'gpu', 'driver': s['spec']['driver'], 'pool': s['spec']['pool']['name'],
                                                              'device': device}]}},
                       'reservedFor': [{'resource': 'pods', 'name': n, 'uid': u} for n, u in pods]}
    return call(server, 'PUT', f'{CLAIMS}/{name}/status', claim)


def one_shot(node, name):
    """list, prepare (twice), unprepare by the command."""
    found, _ = node.stub('list')
    assert [d['driver'] for d in found] == [name] and found[0]['connected'], found
    s = published(node.server, name)
    device = s['spec']['devices'][0]['name']
    claim = allocated(node.server, 'one', s, device)
    first, _ = node.stub('prepare', 'default/one')
    again, _ = node.stub('prepare', 'default/one')
    assert first[0]['devices'] == again[0]['devices'], (first, again)
    assert first[0]['uid'] == claim['metadata']['uid'] and first[0]['devices'][0]['device'] == device, first
    ids = first[0]['devices'][0]['cdiDeviceIDs']
    assert ids and first[0].get('containerEdits', {}).get('env'), first
    kept, _ = node.stub('claims')
    assert kept[0]['devices'] == first[0]['devices'], kept
    node.stub('unprepare', 'default/one')
    assert node.stub('claims')[0] == []
    node.stub('unprepare', 'default/one', ok=False)
    call(node.server, 'DELETE', f'{CLAIMS}/one')
    return s


def pods_of_a_node(node, s, driver):
    """run looks after pods that are bound to the node; kill -9 of it in between; the driver restarts."""
    server = node.server
    device = s['spec']['devices'][1]['name']
    pod = call(server, 'POST', '/api/v1/namespaces/default/pods', {
        'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'default'},
        'spec': {'nodeName': 'node-a', 'resourceClaims': [{'name': 'gpu', 'resourceClaimName': 'two'}],
                 'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'gpu'}]}}]}})
    allocated(server, 'two', s, device, [('p', pod['metadata']['uid'])])
    run = node.staying('--node', 'node-a')
    held = os.path.join(node.folders['state'], 'dra_manager_state')
    wait('the claim in the checkpoint', lambda: 'cdiDeviceIDs'.lower() in open(held).read().lower() and device in open(held).read())
    run.kill()
    run.wait()
    driver.stop(signal.SIGKILL)
    driver = example(node)
    run = node.staying('--node', 'node-a')
    time.sleep(2)
    call(server, 'DELETE', '/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0')
    wait('the claim to be let go', lambda: device not in open(held).read())
    run.terminate()
    out = run.communicate(timeout=30)[0]
    assert run.returncode == 0, out
    assert 'driver up' in out, out
    return driver


def kubelets_checkpoint(node, scratch):
    """kubelet's code reads our file, we read kubelet's."""
    if not shutil.which('go'):
        print('skipped: kubelet\'s checkpoint code (needs Go)')
        return
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'checkpoint')
    built = os.path.join(peers(), 'build', 'k8s-1.37.1')
    if not os.path.exists(os.path.join(built, 'go.mod')):
        print('skipped: kubelet\'s checkpoint code (no Kubernetes 1.37.1 in $PEERS/build)')
        return
    folder, program = os.path.join(scratch, 'go'), os.path.join(scratch, 'checkpoint')
    os.makedirs(folder)
    for f in [os.path.join(here, 'main.go'), *(os.path.join(built, n) for n in ('go.mod', 'go.sum'))]:
        shutil.copy(f, folder)
    subprocess.run(['go', 'build', '-mod=mod', '-o', program, '.'], cwd=folder, check=True, env=dict(os.environ, CGO_ENABLED='0'))
    s = published(node.server, 'gpu.example.com')
    allocated(node.server, 'three', s, s['spec']['devices'][2]['name'])
    ours, _ = node.stub('prepare', 'default/three')
    read = json.loads(subprocess.run([program, 'read', node.folders['state']], check=True, capture_output=True, text=True).stdout)
    assert read[0]['ClaimName'] == 'three' and read[0]['ClaimUID'] == ours[0]['uid'], read
    device = read[0]['DriverState']['gpu.example.com']['Devices'][0]
    assert device['CDIDeviceIDs'] == ours[0]['devices'][0]['cdiDeviceIDs'], read
    node.stub('unprepare', 'default/three')
    theirs = os.path.join(scratch, 'theirs')
    subprocess.run([program, 'write', theirs], check=True)
    run = subprocess.run([node.server.dray, 'kubelet-stub', '--registry', node.folders['registry'], '--state', theirs, '-o', 'json', 'claims'],
                         check=True, capture_output=True, text=True)
    found = {c['name']: c for c in map(json.loads, run.stdout.splitlines())}
    assert sorted(found) == ['bare', 'plain'] and found['plain']['pods'] == ['pod-a', 'pod-b'], found
    print('ok: checkpoints of kubelet and dray load in each other')


def main():
    programs = {'example driver': ('dra-example-kubeletplugin', 'gpu.example.com', example), 'e2e test driver': ('dra-e2e-test-driver', 'test-driver.cdi.k8s.io', e2e)}
    found = {n: p for n, p in programs.items() if os.path.exists(os.path.join(peers(), 'bin', p[0]))}
    programs['dray driver sim'] = found['dray driver sim'] = ('', 'gpu.example.com', sim)
    for title, (program, name, make) in programs.items():
        if title not in found:
            print(f'skipped: {title} (no {program} in $PEERS/bin)')
            continue
        server = Server(sys.argv[1])
        node = Node(server)
        driver = None
        try:
            call(server, 'POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node-a'}})
            driver = make(node)
            s = one_shot(node, name)
            if make is example:
                driver = pods_of_a_node(node, s, driver)
                with tempfile.TemporaryDirectory() as scratch:
                    kubelets_checkpoint(node, scratch)
            print(f'ok: {title} registers, publishes, prepares and unprepares')
        except BaseException:
            print(open(os.path.join(server.top, 'driver.log'), errors='replace').read()[-3000:])
            raise
        finally:
            if driver:
                driver.stop()
            server.done()


main()

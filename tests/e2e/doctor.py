#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray doctor` finds what is broken: an XID under a running job, nodes that are not ready or cannot release devices, pods that are bound and
fail, writes of drivers that the server refuses for a feature gate, certificate requests that wait; `who`, `free` and `top` show the state
broken. Usage: doctor.py DRAY"""
import base64, json, os, shutil, subprocess, tempfile

from up import Cluster, DRAY

HEAD = '/api/v1/nodes'
PODS = '/api/v1/namespaces/default/pods'
LISTS = '''profile: lists
node: {status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}, capacity: {cpu: "8", memory: 8Gi, pods: "110"}}}
classes:
- metadata: {name: lists.example.com}
  spec: {selectors: [{cel: {expression: "device.driver == 'lists.example.com'"}}]}
pools:
- driver: lists.example.com
  slices:
  - devices:
    - name: one
      attributes: {links: {strings: [a, b]}}
'''


def dray(c, *words):
    return subprocess.run([DRAY, *words, '--kubeconfig', os.path.join(c.folder, 'admin.kubeconfig')], capture_output=True, text=True, timeout=120)


def findings(c):
    r = dray(c, 'doctor', '-o', 'json')
    answer = json.loads(r.stdout)
    assert r.returncode == (1 if answer['worst'] == 'bad' else 0), r
    return {(f['level'], f['check'], f['what']): f.get('remedy', '') for f in answer['findings']}


def finding(c, level, check, *parts):
    """The finding with these parts, as soon as there is one."""

    def look():
        return [(what, remedy) for (l, k, what), remedy in findings(c).items() if (l, k) == (level, check) and all(p in what for p in parts)]

    return c.until(f'doctor says {level}: {check}: {parts}', look)[0]


def good(c):
    levels = {level for level, _, _ in findings(c)}
    assert levels == {'good'}, findings(c)


def driver(c, top, profile, node, *flags):
    return subprocess.Popen([DRAY, 'driver', 'sim', '--profile', profile, '--node', node, '--root', os.path.join(top, 'hw'), '--kubeconfig',
                             os.path.join(c.folder, 'admin.kubeconfig'), '--lease-namespace', '', *flags], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def broken(c, top):
    """An XID on a device in use: the simulated hardware of a node beside those of `dray up`."""
    c.good('POST', HEAD, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'real'}})
    ready(c, 'True')
    hw = driver(c, top, 'example-gpu', 'real', '--no-classes', '--reset-ms', '600000')  # it stays broken
    try:
        assert hw.stdout.readline() == 'drivers run\n'
        c.until('its devices are published', lambda: 'real' in dray(c, 'free', '--class', 'gpu.example.com').stdout)
        r = dray(c, 'request', 'gpu', '--pod', '--name', 'job', '--node', 'real', '--apply')
        assert r.returncode == 0, r
        c.until('the pod is bound', lambda: c.good('GET', f'{PODS}/job')['spec'].get('nodeName'))
        device = json.loads(dray(c, 'who', '-o', 'json').stdout)['devices'][0]
        assert device['state'] == 'held' and device['node'] == 'real', device
        subprocess.run([DRAY, 'driver', 'fault', '--state', os.path.join(top, 'hw'), '--node', 'real', 'add', 'xid', '--device', device['device'],
                        '--code', '79'], check=True)
        what, remedy = finding(c, 'bad', 'devices', f'real/{device["device"]}', 'pod default/job', 'xid=79')
        assert 'delete the pods' in remedy, remedy
        assert dray(c, 'doctor').returncode == 1
        now = json.loads(dray(c, 'who', '-o', 'json').stdout)['devices'][0]
        assert now['state'] == 'broken' and 'xid=79' in now['why'], now
        assert 'broken' in dray(c, 'who').stdout
        free = json.loads(dray(c, 'free', '-o', 'json').stdout)['classes'][0]
        assert free['broken'] == 1 and free['held'] == 0, free
        assert 'BROKEN' in dray(c, 'free').stdout and 'BROKEN' in dray(c, 'free', '--class', 'gpu.example.com').stdout
        assert '1 broken %' in dray(c, 'top', '--once').stdout
    finally:
        hw.kill()
        hw.wait()


def ready(c, status, *more):
    node = c.good('GET', f'{HEAD}/real')
    conditions = [{'type': 'Ready', 'status': status, 'reason': 'Test', 'message': 'by the test'}, *more]
    room = {'cpu': '64', 'memory': '512Gi', 'pods': '110'}
    node['status'] = {**node.get('status', {}), 'conditions': conditions, 'allocatable': room, 'capacity': room}
    c.good('PUT', f'{HEAD}/real/status', node)


def nodes(c):
    ready(c, 'Unknown')
    finding(c, 'bad', 'nodes', 'node real', 'is not ready', 'Ready is Unknown')
    ready(c, 'False', {'type': 'DRAUnprepareBlocked', 'status': 'True', 'reason': 'DriverGone', 'message': 'gpu.example.com does not answer'},
          {'type': 'DiskPressure', 'status': 'True'})
    finding(c, 'bad', 'nodes', 'node real', 'Ready is False')
    finding(c, 'bad', 'nodes', 'node real', 'cannot release devices', 'gpu.example.com does not answer')
    finding(c, 'bad', 'nodes', 'node real', 'disk')
    ready(c, 'True', {'type': 'DiskPressure', 'status': 'False', 'lastHeartbeatTime': '2126-01-01T00:00:00Z'})
    finding(c, 'bad', 'nodes', 'the clock of node real is', 'ahead')


def pods(c):
    pod = c.good('GET', f'{PODS}/job')
    waiting = {'name': 'main', 'image': 'busybox', 'imageID': '', 'ready': False, 'restartCount': 4,
               'state': {'waiting': {'reason': 'CrashLoopBackOff', 'message': 'back-off 40s'}}}
    pod['status'] |= {'phase': 'Running', 'containerStatuses': [waiting]}
    c.good('PUT', f'{PODS}/job/status', pod)
    what, remedy = finding(c, 'bad', 'pods', 'pod default/job on node real', 'CrashLoopBackOff: back-off 40s')
    assert remedy == 'dray why pod/default/job explains it', remedy


def writes(c, top):
    """A driver whose attributes need a gate that is off."""
    assert ('good', 'writes', 'the server has refused no write of a driver') in findings(c)
    profile = os.path.join(top, 'lists.yaml')
    with open(profile, 'w', encoding='utf-8') as f:
        f.write(LISTS)
    hw = driver(c, top, profile, 'real')
    try:
        _, remedy = finding(c, 'bad', 'writes', 'ResourceSlices of drivers as invalid')
        assert 'DRAListTypeAttributes' in remedy, remedy
    finally:
        hw.kill()
        hw.wait()


def certificates(c):
    key = subprocess.run(['openssl', 'req', '-new', '-newkey', 'rsa:2048', '-nodes', '-keyout', '/dev/null', '-subj', '/CN=a'], capture_output=True,
                         check=True).stdout
    c.good('POST', '/apis/certificates.k8s.io/v1/certificatesigningrequests',
           {'apiVersion': 'certificates.k8s.io/v1', 'kind': 'CertificateSigningRequest', 'metadata': {'name': 'waits'},
            'spec': {'request': base64.b64encode(key).decode(), 'signerName': 'example.com/a', 'usages': ['client auth']}})
    finding(c, 'warn', 'certificates', '1 certificate requests wait')


def main():
    top = tempfile.mkdtemp(prefix='dray-doctor.')
    c = Cluster(os.path.join(top, 'data'), '--sim', 'example-gpu', '--nodes', '1')
    try:
        good(c)
        broken(c, top)
        writes(c, top)
        nodes(c)
        pods(c)
        certificates(c)
        c.stop()
    finally:
        c.process.kill()
        shutil.rmtree(top, ignore_errors=True)
    print('doctor: all good')


if __name__ == '__main__':
    main()

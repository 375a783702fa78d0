#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb kubelet-stub as a driver's author meets it. usage: kubelet_stub.py DRAY"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

DRAY = os.path.abspath(sys.argv[1])
DRIVER = os.path.join(os.path.dirname(DRAY), 'tests', 'dra_driver')
CLAIM = '''apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
status:
  allocation:
    devices:
      results: [{request: gpu, driver: gpu.example.com, pool: pool, device: dev-a}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
'''
SPEC = '''cdiVersion: 0.7.0
kind: gpu.example.com/gpu
devices:
- name: a
  containerEdits:
    env: [GPU=a]
    mounts: [{hostPath: /opt, containerPath: /gpu}]
'''


class Node:
    def __init__(self, top):
        self.top = top
        for name in ('registry', 'plugins', 'cdi'):
            os.mkdir(os.path.join(top, name))
        self.write('claim.yaml', CLAIM)
        self.write('cdi/gpu.yaml', SPEC)
        self.flags = ['--registry', self.path('registry'), '--cdi-dir', self.path('cdi')]

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        with open(self.path(name), 'w') as f:
            f.write(text)

    def start_driver(self):
        driver = subprocess.Popen([DRIVER, self.top], stdout=subprocess.PIPE, text=True)
        assert driver.stdout.readline() == 'serving\n'
        return driver

    def stub(self, *words, code=0):
        run = subprocess.run([DRAY, 'kubelet-stub', *self.flags, *words], capture_output=True, text=True, timeout=60)
        assert run.returncode == code, (words, run.returncode, run.stdout, run.stderr)
        return run.stdout, run.stderr


def stop(process):
    process.send_signal(signal.SIGTERM)
    out = process.stdout.read()
    assert process.wait(timeout=30) == 0, out
    process.stdout.close()
    return out


def one_shots(node):
    out, _ = node.stub('--wait', '1', 'list', code=1)
    assert 'no driver registered' in out, out
    _, err = node.stub('--wait', '1', 'prepare', '-f', node.path('claim.yaml'), code=1)
    assert 'default/a: DRA driver gpu.example.com is not registered' in err, err
    driver = node.start_driver()
    out, _ = node.stub('list')
    assert 'gpu.example.com' in out and 'v1.DRAPlugin' in out and 'connected' in out, out
    found = json.loads(node.stub('-o', 'json', 'list')[0])
    assert found['driver'] == 'gpu.example.com' and found['healthService'] == 'v1.DRAResourceHealth', found
    out, _ = node.stub('prepare', '-f', node.path('claim.yaml'))
    for part in ('default/a (UID ', 'device dev-a  for gpu', 'gpu.example.com/gpu=a', 'env     GPU=a', 'mount   /gpu from /opt'):
        assert part in out, (part, out)
    again = json.loads(node.stub('-o', 'json', 'prepare', '-f', node.path('claim.yaml'))[0])
    assert again['devices'][0]['cdiDeviceIDs'] == ['gpu.example.com/gpu=a'] and again['containerEdits']['env'] == ['GPU=a'], again
    assert json.loads(node.stub('-o', 'json', 'claims')[0])['uid'] == again['uid']
    return driver


def health(node, driver):
    run = subprocess.Popen([DRAY, 'kubelet-stub', *node.flags, 'run'], stdout=subprocess.PIPE, text=True)
    lines = [run.stdout.readline(), run.stdout.readline()]
    while 'driver up' not in lines[-1]:
        lines.append(run.stdout.readline())
    for _ in range(100):
        driver.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        with open(node.path('dray-kubelet-stub/dra_health_state')) if os.path.exists(node.path('dray-kubelet-stub/dra_health_state')) else open(os.devnull) as f:
            if 'Unhealthy' in f.read():
                break
    out = stop(run)
    assert 'health       gpu.example.com/pool/dev-a of claim default/a: Unhealthy, hot' in out, (lines, out)


def endings(node, driver):
    out, _ = node.stub('unprepare', 'default/a')
    assert 'default/a: unprepared in' in out, out
    assert 'nothing is prepared' in node.stub('claims')[0]
    _, err = node.stub('unprepare', 'default/a', code=1)
    assert 'was not prepared here' in err, err
    node.stub('prepare', '-f', node.path('claim.yaml'))
    _, err = node.stub('abandon', 'gpu.example.com', code=1)
    assert 'is there' in err, err
    stop(driver)
    _, err = node.stub('--wait', '1', 'unprepare', 'a', code=1)
    assert 'DRA driver gpu.example.com is not registered' in err, err
    out, _ = node.stub('abandon', 'gpu.example.com')
    assert '1 claim forgot it' in out, out
    node.stub('--wait', '1', 'unprepare', 'a')
    assert 'nothing is prepared' in node.stub('claims')[0]


def mistakes(node):
    for words in ((), ('dance',), ('prepare',), ('unprepare',), ('--timeout', '0', 'list'), ('-o', 'xml', 'list'), ('run', '--node', 'n')):
        _, err = node.stub(*words, code=2)
        assert 'dray help kubelet-stub' in err, err
    node.write('bad.yaml', 'kind: Nothing')
    _, err = node.stub('prepare', '-f', node.path('bad.yaml'), code=1)
    assert 'bad.yaml' in err, err
    _, err = node.stub('prepare', 'default/a', code=1)
    assert '--kubeconfig' in err, err
    node.write('dray-kubelet-stub/dra_manager_state', '{')
    assert 'default/a' in node.stub('claims')[0]  # the older copy does not know yet that it is gone
    node.write('dray-kubelet-stub/dra_manager_state', '{')
    node.write('dray-kubelet-stub/dra_manager_state.old', '{')
    _, err = node.stub('claims', code=1)
    assert 'remove DRA state file' in err, err


def main():
    if not os.path.exists(DRIVER):
        print('skipped: no ' + DRIVER)
        return 77
    with tempfile.TemporaryDirectory(prefix='dray-') as top:
        node = Node(top)
        driver = one_shots(node)
        health(node, driver)
        endings(node, driver)
        mistakes(node)
    print('kubelet-stub: list, prepare, unprepare, claims, abandon, run')
    return 0


sys.exit(main())

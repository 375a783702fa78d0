#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray conformance` against a cluster of dray's own that runs containers: `dray up`, `dray agent`, simulated GPUs and `dray driver net`.
Every check that has something to look at must pass. Usage: conformance_agent.py DRAY"""
import json, os, shutil, subprocess, sys

from agent_kit import IMAGE, Cluster, Node, make_image, skip_if_impossible

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
PASS = ['dra-api', 'crud-deviceclass', 'crud-resourceclaim', 'crud-resourceclaimtemplate', 'crud-resourceslice', 'crud-devicetaintrule', 'containers',
        'access-with-claim', 'access-without-claim', 'access-two-containers', 'access-other-pod', 'gpu-sharing', 'driver-versions', 'nic-in-pod']


def net_driver(c, n):
    """Interfaces made on demand alone: the machine's own stay where they are."""
    d = subprocess.Popen([DRAY, 'driver', 'net', '--node', n.name, '--kubeconfig', c.kubeconfig, '--plugins', os.path.join(n.data, 'plugins'),
                          '--registry', os.path.join(n.data, 'plugins_registry'), '--cdi', c.cdi, '--only', 'none', '--offer', 'veth=2'],
                         stdout=open(os.path.join(c.folder, 'net.out'), 'a'), stderr=open(os.path.join(c.folder, 'net.err'), 'a'))
    n.drivers.append(d)


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    n = Node(c)
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n.start()
        n.driver('example-gpu')
        net_driver(c, n)
        c.until('both drivers publish', lambda: {s['spec']['driver'] for s in c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items']} ==
                {'gpu.example.com', 'dra.net'})
        run = subprocess.run([DRAY, 'conformance', '--kubeconfig', c.kubeconfig, '--image', IMAGE, '--timeout', '240', '-o', 'json'],
                             capture_output=True, text=True, timeout=900)
        got = json.loads(run.stdout)
        by = {x['id']: x for x in got['checks']}
        for name in PASS:
            assert by[name]['result'] == 'Pass', json.dumps(by[name], indent=1)[-4000:]
        assert by['gang-scheduling']['result'] != 'Fail', by['gang-scheduling']
        assert run.returncode == 0 and 'leftover' not in got, run.stderr
        n.end()
        c.stop()
    except BaseException:
        print(c.tell())
        c.wreck()
        raise
    shutil.rmtree(c.folder, ignore_errors=True)
    print(f'conformance of dray with containers: {got["passed"]} passed, {got["skipped"]} skipped')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes example DRA driver publishes its slices on `dray server`, keeps them over a restart, and changes them. Its plugin
(dra-example-kubeletplugin) is taken from $PEERS/bin. Usage: example_driver.py DRAY"""
import json, os, subprocess, sys, time

from common import Server, call, peers, skip

SLICES = '/apis/resource.k8s.io/v1/resourceslices'


class Driver:
    def __init__(self, program, server, devices):
        folders = {n: os.path.join(server.top, n) for n in ('cdi', 'plugins', 'registry')}
        for f in folders.values():
            os.makedirs(f, exist_ok=True)
        self.log = open(os.path.join(server.top, 'driver.log'), 'ab')
        self.process = subprocess.Popen([program, '--device-profile', 'gpu', '--num-devices', str(devices), '--node-name', 'node-a',
                                         '--kubeconfig', server.kubeconfig, '--cdi-root', folders['cdi'],
                                         '--kubelet-plugins-directory-path', folders['plugins'],
                                         '--kubelet-registrar-directory-path', folders['registry']], stdout=self.log, stderr=self.log)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()


def published(server, devices, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        items = call(server, 'GET', SLICES)['items']
        if len(items) == 1 and len(items[0]['spec'].get('devices', [])) == devices:
            return items[0]
        time.sleep(0.2)
    raise AssertionError(f'{devices} devices were not published: {json.dumps(items)[:1000]}')


def main():
    program = os.path.join(peers(), 'bin', 'dra-example-kubeletplugin')
    if not os.path.exists(program):
        skip(f'no {program} (build cmd/dra-example-kubeletplugin of the Kubernetes example driver)')
    server = Server(sys.argv[1])
    try:
        node = call(server, 'POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node-a'}})
        driver = Driver(program, server, 4)
        first = published(server, 4)
        assert first['metadata']['ownerReferences'][0]['uid'] == node['metadata']['uid'], first['metadata']
        assert first['spec']['nodeName'] == 'node-a' and first['spec']['driver'] == 'gpu.example.com', first['spec']
        driver.stop()
        driver = Driver(program, server, 4)
        time.sleep(5)
        again = published(server, 4)
        assert again['metadata']['resourceVersion'] == first['metadata']['resourceVersion'], 'a restart wrote the same slice again'
        driver.stop()
        driver = Driver(program, server, 6)
        published(server, 6)
        driver.stop()
    finally:
        server.done()
    print('example driver: publishes, keeps and changes its slices')


main()

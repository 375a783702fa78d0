#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that is killed for good: its Lease runs out, its devices are tainted, nothing new is allocated from them; when it is back they are
free again, and the pod that waited runs. Usage: driver_lease.py DRAY"""
import os, shutil, signal, subprocess, sys, tempfile

from up import Cluster, DRAY

CLASS = 'gpu.nvidia.com'
RESOURCE = '/apis/resource.k8s.io/v1'
CLAIMS = f'{RESOURCE}/namespaces/default/resourceclaims'
PODS = '/api/v1/namespaces/default/pods'
LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'


def start_driver(folder, kubeconfig):
    driver = subprocess.Popen([DRAY, 'driver', 'sim', '--profile', 'nvidia-t4', '--nodes', '1', '--make-nodes', '--lease-seconds', '4',
                               '--root', os.path.join(folder, 'r'), '--kubeconfig', kubeconfig], stdout=subprocess.PIPE, text=True)
    line = driver.stdout.readline()
    assert line == 'drivers run\n', line
    return driver


def end_driver(driver):
    if driver.poll() is None:
        driver.kill()
    driver.wait()
    driver.stdout.close()


def pod(name):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name},
            'spec': {'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'gpu'}]}}],
                     'resourceClaims': [{'name': 'gpu', 'resourceClaimName': name}]}}


def claim(name):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name},
            'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': CLASS}}]}}}


def ask_for_device(cluster, name):
    cluster.good('POST', CLAIMS, claim(name))
    cluster.good('POST', PODS, pod(name))


def node_of(cluster, name):
    return cluster.good('GET', f'{PODS}/{name}')['spec'].get('nodeName')


def told(cluster, name):
    conditions = cluster.good('GET', f'{PODS}/{name}').get('status', {}).get('conditions', [])
    return [c['message'] for c in conditions if c['type'] == 'PodScheduled' and c['status'] == 'False']


def check(cluster, folder):
    rules = lambda: [r['spec']['taint'] for r in cluster.good('GET', f'{RESOURCE}/devicetaintrules')['items']]
    kubeconfig = os.path.join(cluster.folder, 'admin.kubeconfig')
    driver = start_driver(folder, kubeconfig)
    try:
        slices = cluster.until('slices', lambda: cluster.good('GET', f'{RESOURCE}/resourceslices')['items'])
        lease = slices[0]['metadata']['annotations']['dray.dev/publisher-lease']
        first = cluster.good('GET', f'{LEASES}/{lease.split("/")[1]}')
        assert first['spec']['leaseDurationSeconds'] == 4 and first['metadata']['ownerReferences'][0]['kind'] == 'Node', first
        cluster.until('the class', lambda: cluster.call('GET', f'{RESOURCE}/deviceclasses/{CLASS}')[0] == 200)
        ask_for_device(cluster, 'before')
        cluster.until('the first pod is bound', lambda: node_of(cluster, 'before'))
        cluster.until('the Lease is renewed', lambda: cluster.good(
            'GET', f'{LEASES}/{lease.split("/")[1]}')['spec']['renewTime'] > first['spec']['renewTime'])
        assert rules() == [], 'nothing is tainted while the driver lives'
        driver.send_signal(signal.SIGKILL)
        taint = cluster.until('a taint', rules)[0]
        assert (taint['key'], taint['value'], taint['effect']) == ('dray.dev/stale', 'LeaseNotRenewed', 'NoSchedule'), taint
        ask_for_device(cluster, 'after')
        cluster.until('the second pod is told', lambda: told(cluster, 'after'))
        assert not node_of(cluster, 'after') and node_of(cluster, 'before'), 'who runs stays, who is new waits'
    finally:
        end_driver(driver)
    driver = start_driver(folder, kubeconfig)
    try:
        cluster.until('the taint goes', lambda: not rules())
        cluster.until('the second pod is bound', lambda: node_of(cluster, 'after'))
    finally:
        end_driver(driver)


def main():
    folder = tempfile.mkdtemp(prefix='dl-')
    try:
        cluster = Cluster(os.path.join(folder, 'data'), '--nodes', '0')
        check(cluster, folder)
        cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print('driver lease: renewed, run out, tainted, back, free')


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: a claim whose selectors are as costly as the API allows, on thousands of devices that all differ, holds up nobody. The process that schedules answers
everyone's requests and stops when it is told to, other pods get their nodes, and the claim's pod is told what is wrong. Usage: costly.py DRAY"""
import json, threading, time
from kit import DRA, DRAY, ROOT, Cluster, until

SANITIZED = b'__asan_init' in open(DRAY, 'rb').read()
SLOW = 10 if SANITIZED else 1
NODES, DEVICES = 65, 64
TEN = '[0,1,2,3,4,5,6,7,8,9]'
COSTLY = f'{TEN}.all(x,{TEN}.all(y,{TEN}.all(z,{TEN}.all(w, x + y + z + w + 1 >= 0))))'
# Lists of lists of lists: 60 bindings, each a list of the one before, twice, and a comparison of the last one. What that costs is next to nothing.
HEAVY = ''.join(f'cel.bind(v{i}, [v{i - 1}, v{i - 1}], ' if i else 'cel.bind(v0, [1], ' for i in range(60)) + 'v59 == v59' + ')' * 60
PODS = '/api/v1/namespaces/default/pods'


def cluster_of_devices(c):
    c.good('POST', DRA + '/deviceclasses', {'metadata': {'name': 'c'}, 'spec': {'selectors': [{'cel': {'expression': 'device.driver == "d.example.com"'}}]}})
    for n in range(NODES):
        name = f'n{n}'
        room = {'cpu': '64', 'memory': '64Gi', 'pods': '110'}
        c.good('POST', '/api/v1/nodes', {'metadata': {'name': name}, 'status': {'allocatable': room, 'capacity': room}})
        devices = [{'name': f'd{i}', 'attributes': {'serial': {'int': n * DEVICES + i}}} for i in range(DEVICES)]
        pool = {'name': name, 'generation': 1, 'resourceSliceCount': 1}
        c.good('POST', DRA + '/resourceslices', {'metadata': {'name': name}, 'spec': {'driver': 'd.example.com', 'nodeName': name, 'pool': pool, 'devices': devices}})


def pod(c, name, selectors):
    exactly = {'deviceClassName': 'c', 'selectors': [{'cel': {'expression': e}} for e in selectors]}
    c.good('POST', DRA + '/namespaces/default/resourceclaims', {'metadata': {'name': name}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': exactly}]}}})
    c.good('POST', PODS, {'metadata': {'name': name}, 'spec': {
        'schedulerName': 'dray', 'tolerations': [{'operator': 'Exists'}], 'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'd'}]}}],
        'resourceClaims': [{'name': 'd', 'resourceClaimName': name}]}})


def attack(c, name):
    pod(c, name, [f'{COSTLY} && device.attributes["d.example.com"].serial != {-i}' for i in range(1, 32)] + ['device.driver == "nope"'])


def condition(c, name):
    conditions = c.good('GET', f'{PODS}/{name}').get('status', {}).get('conditions', [])
    return next((x.get('message', '') for x in conditions if x['type'] == 'PodScheduled'), '')


class Neighbour(threading.Thread):
    """Asks for what costs nothing, all the time."""

    def __init__(self, c):
        super().__init__()
        self.c, self.on, self.times = c, True, []

    def run(self):
        while self.on:
            for path in ('/healthz', '/api/v1/namespaces/default/configmaps'):
                began = time.monotonic()
                code, text = self.c.call('GET', path)
                assert code == 200, (path, code, text)
                self.times.append(time.monotonic() - began)
            time.sleep(0.02)


with Cluster(verb='up', flags=('--nodes', '0', '--controllers', '*,-node-lifecycle-controller')) as c:
    cluster_of_devices(c)
    neighbour = Neighbour(c)
    neighbour.start()
    try:
        attack(c, 'greedy')
        for i in range(10):
            pod(c, f'heavy-{i}', [f'{HEAVY} && device.attributes["d.example.com"].serial != {-i}'])
        time.sleep(2)
        pod(c, 'modest', ['device.attributes["d.example.com"].serial == 77'])
        until('modest gets its node', lambda: c.good('GET', PODS + '/modest')['spec'].get('nodeName') == 'n1')
        # An expression that is costly and legal is answered all the same.
        pod(c, 'costly', [f'{COSTLY} && device.attributes["d.example.com"].serial == {NODES * DEVICES - 1}'])
        for name in () if SANITIZED else ('greedy',):
            until(f'{name} is told', lambda: 'cost more than' in condition(c, name))
            until('costly gets its node', lambda: c.good('GET', PODS + '/costly')['spec'].get('nodeName') == f'n{NODES - 1}')
        for kind, name in (('Pod', 'greedy'), ('ResourceClaim', 'greedy')):
            code, text = c.call('GET', f'/dray/explain?kind={kind}&namespace=default&name={name}')
            assert code in (200, 503), (code, text)
    finally:
        neighbour.on = False
        neighbour.join()
    worst = max(neighbour.times)
    assert worst < 1 * SLOW, f'a request of a neighbour took {worst:.2f} s'
    # It also stops while selectors are evaluated.
    attack(c, 'greedy-again')
    time.sleep(0.5)
    began = time.monotonic()
assert time.monotonic() - began < 10 * SLOW, 'it did not stop'
print(f'{len(neighbour.times)} requests beside costly selectors, the slowest took {worst * 1000:.0f} ms')

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray's scheduler and controllers on a real API server, in every mixture with kube-scheduler and kube-controller-manager."""
import json, sys, threading, time

from remote_kit import ALL, WITHOUT_DRA, Plane, until

# Parameters that nobody would write like that: what comes back must be what was sent.
ODD = {'b': 1, 'a': [1, 2, {'x': 'y'}], 'text': 'with  spaces', 'kind': 'GpuConfig', 'apiVersion': 'gpu.example.com/v1'}


def alone(p, dray):
    """Neither kube-scheduler nor the controllers of DRA."""
    p.start('kcm', WITHOUT_DRA)
    p.ready()
    p.nodes(4, parameters=ODD)
    sched, ctl = p.dray(dray, 'scheduler'), p.dray(dray, 'controllers')
    names = [f'a{i}' for i in range(24)]
    for n in names:
        p.pod(n)
    p.bound(names)
    assert len(p.check()) == 24
    # A claim that several pods use: the allocation, parameters and all, is written back with each reservation.
    p.call('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims', {
        'metadata': {'name': 'shared'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}],
                                                            'config': [{'opaque': {'driver': 'gpu.example.com', 'parameters': ODD}}]}}})
    for i in range(3):
        p.pod(f's{i}', claim='shared')
        p.bound([f's{i}'])
    p.check()
    claim = p.call('GET', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/shared')
    assert all(c['opaque']['parameters'] == ODD for c in claim['status']['allocation']['devices']['config']), claim['status']
    # Full: the pod is told why, and gets its turn when there is room.
    for i in range(8):
        p.pod(f'f{i}')
    waiting = lambda: [x for x in p.pods().values() if not x['spec'].get('nodeName')]
    until('seven pods placed', lambda: len(waiting()) == 1)
    last = waiting()[0]['metadata']['name']
    def told():
        return next((c['message'] for c in p.pods()[last]['status'].get('conditions', []) if c['type'] == 'PodScheduled'), None)
    message = until('a reason', told)
    assert message.startswith('0/4 nodes'), message
    p.call('DELETE', '/api/v1/namespaces/default/pods/a0?gracePeriodSeconds=0')
    p.bound([last])
    p.check()
    p.clear()
    until('claims of pods are gone, the other is free', lambda: [(c['metadata']['name'], 'allocation' in c.get('status', {})) for c in p.claims()]
          == [('shared', False)])
    assert p.metric(sched, 'leader_election_master_status') == 1 and p.metric(ctl, 'leader_election_master_status') == 1
    assert p.metric(sched, 'scheduler_schedule_attempts_total{profile="dray",result="error"}') == 0
    lease = p.call('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/dray-scheduler')
    assert lease['spec']['holderIdentity'] and lease['spec']['leaseDurationSeconds'] == 2
    p.end(sched), p.end(ctl)
    lease = p.call('GET', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/dray-scheduler')
    assert not lease['spec'].get('holderIdentity'), lease  # let go of
    p.stop('kcm')
    print('dray alone: pods, a shared claim with odd parameters, a full cluster')


def mixed(p, dray):
    """dray's scheduler with kube-controller-manager, then dray's controllers with kube-scheduler."""
    p.start('kcm', ALL)
    sched = p.dray(dray, 'scheduler')
    names = [f'm{i}' for i in range(16)]
    for n in names:
        p.pod(n)
    p.bound(names)
    p.check()
    p.end(sched)
    p.clear()
    p.stop('kcm')
    print("dray's scheduler with kube-controller-manager")
    p.start('kcm', WITHOUT_DRA)
    p.start('scheduler')
    ctl = p.dray(dray, 'controllers')
    for n in names:
        p.pod(n, scheduler='default-scheduler')
    p.bound(names)
    p.check()
    p.clear()
    until('claims of pods are gone', lambda: len(p.claims()) == 1)
    p.end(ctl)
    p.stop('scheduler')
    p.stop('kcm')
    print("dray's controllers with kube-scheduler")


def beside(p, dray, pods=96, nodes=16):
    """Both schedulers at once on the same devices, with more pods than there are devices for them."""
    p.start('kcm scheduler', ALL)
    for i in range(4, nodes):
        p.call('POST', '/api/v1/nodes', {'metadata': {'name': f'n{i}'}, 'spec': {}})
        p.call('PATCH', f'/api/v1/nodes/n{i}/status', {'status': {'allocatable': {'cpu': '64', 'memory': '256Gi', 'pods': '500'}}},
               content='application/merge-patch+json')
        p.call('PATCH', f'/api/v1/nodes/n{i}', {'spec': {'taints': None}}, content='application/merge-patch+json')
        p.call('POST', '/apis/resource.k8s.io/v1/resourceslices', {
            'metadata': {'name': f's-n{i}'}, 'spec': {'driver': 'gpu.example.com', 'nodeName': f'n{i}', 'pool': {'name': f'n{i}', 'generation': 1,
                                                     'resourceSliceCount': 1}, 'devices': [{'name': f'd{d}'} for d in range(8)]}})
    sched = p.dray(dray, 'scheduler')
    until('the scheduler leads', lambda: p.metric(sched, 'leader_election_master_status') == 1)
    def make(kind, scheduler):
        for i in range(pods // 2):
            p.pod(f'{kind}{i}', scheduler=scheduler)
    threads = [threading.Thread(target=make, args=a) for a in (('k', 'default-scheduler'), ('d', 'dray'))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    p.bound([f'{k}{i}' for k in 'kd' for i in range(pods // 2)], 120)
    used = p.check()
    assert len(used) == pods, len(used)
    conflicts = p.metric(sched, 'rest_client_requests_total{code="409"')
    ways = p.metric(sched, 'dray_scheduler_gave_way_total')
    p.end(sched)
    p.clear()
    p.stop('scheduler')
    p.stop('kcm')
    print(f'beside kube-scheduler: {pods} pods, no device twice; {conflicts:g} conflicts, gave way {ways:g} times')


def holders(p):
    """Devices of pods that are bound and not on their way out; a device of two of them is a collision."""
    claims = {c['metadata']['name']: c for c in p.claims()}
    held = {}
    for pod in p.pods().values():
        if not pod['spec'].get('nodeName') or pod['metadata'].get('deletionTimestamp'):
            continue
        for s in pod['status'].get('resourceClaimStatuses', []):
            results = claims.get(s.get('resourceClaimName'), {}).get('status', {}).get('allocation', {}).get('devices', {}).get('results', [])
            for r in results:
                held.setdefault((r['pool'], r['device']), []).append(pod['metadata']['name'])
    return held


def contend(p, dray, bound_each=60, waiting=8):
    """Both schedulers for a long time on devices that are nearly all taken: each pod that is bound makes room for another one."""
    p.start('kcm scheduler', ALL)
    sched = p.dray(dray, 'scheduler')
    until('the scheduler leads', lambda: p.metric(sched, 'leader_election_master_status') == 1)
    made, done, live = {'k': 0, 'd': 0}, {'k': 0, 'd': 0}, set()
    twice = set()
    names = {'k': 'default-scheduler', 'd': 'dray'}
    end = time.monotonic() + 240
    while min(done.values()) < bound_each:
        assert time.monotonic() < end, (made, done)
        for kind, scheduler in names.items():
            while made[kind] - done[kind] < waiting + 16:  # 32 devices: more pods than there is room for
                p.pod(f'c-{kind}{made[kind]}', scheduler=scheduler)
                live.add(f'c-{kind}{made[kind]}')
                made[kind] += 1
        held = holders(p)
        for device, who in held.items():
            if len(who) > 1:
                twice.add((device, *sorted(who)))
        # kube-scheduler forgets that a pod of its own holds a device (src/sched/dra/beside.c): two of its pods are its business.
        ours = [t for t in twice if any(n.startswith('c-d') for n in t[1:])]
        assert not ours, ours
        bound = {who[0] for who in held.values()} & live
        for name in [n for kind in 'kd' for n in sorted(b for b in bound if b[2] == kind)[:4]]:
            p.call('DELETE', f'/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0')
            live.discard(name)
            done[name[2]] += 1
    conflicts = p.metric(sched, 'rest_client_requests_total{code="409"')
    ways = p.metric(sched, 'dray_scheduler_gave_way_total')
    p.end(sched)
    p.clear()
    p.stop('scheduler')
    p.stop('kcm')
    print(f'beside kube-scheduler on full nodes: {done["k"]} pods of its, {done["d"]} of ours, no device twice with ours in it; '
          f'{conflicts:g} conflicts, gave way {ways:g} times; devices that kube-scheduler gave two of its own: {len(twice)}')


def main():
    p = Plane()
    try:
        alone(p, sys.argv[1])
        mixed(p, sys.argv[1])
        beside(p, sys.argv[1])
        contend(p, sys.argv[1])
    finally:
        p.done()
    print('ok: dray on a real API server')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two schedulers and two sets of controllers: the one that leads is killed, cut off or frozen, in turn; the other takes over. Pods are asked for all the
time, one a tenth of a second; how long is the gap in which none of them gets a node? Frozen and cut off ones find out that they do not lead
any more and do no harm. Usage: failover.py DRAY [ROUNDS] (1)"""
import threading, time

from fault_kit import *

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'
GAP = 30  # seconds without a pod that is bound, ten times what it takes: a machine may be busy; what it took is told (docs/design/faults.md)


def world(dray):
    w = World(dray)
    w.server.start()
    for i in range(2):
        w.controllers(i).start()
        w.scheduler(i).start()
    w.good('POST', '/api/v1/nodes', {'metadata': {'name': 'n'}, 'status': {'allocatable': {'cpu': '800', 'memory': '800Gi', 'pods': '100000'}}})
    w.good('POST', f'{RESOURCE}/resourceslices', {'metadata': {'name': 's'}, 'spec': {
        'driver': DRIVER, 'nodeName': 'n', 'pool': {'name': 'n', 'generation': 1, 'resourceSliceCount': 1}, 'devices': [{'name': f'd{i}'} for i in range(128)]}})
    w.good('POST', f'{RESOURCE}/deviceclasses', {'metadata': {'name': DRIVER}, 'spec': {}})
    w.template()
    return w


class Stream(threading.Thread):
    """Pods with claims, one after the other; when each was made and when it was bound. Those that are bound are deleted."""

    def __init__(self, w):
        super().__init__(daemon=True)
        self.w, self.ended, self.bound_at, self.n = w, False, [], 0

    def run(self):
        waiting = set()
        while not self.ended:
            name = f'p{self.n}'
            self.n += 1
            self.w.run_pod(name)
            waiting.add(name)
            for p in self.w.good('GET', PODS)['items']:
                if p['spec'].get('nodeName') and p['metadata']['name'] in waiting:
                    waiting.discard(p['metadata']['name'])
                    self.bound_at.append(time.monotonic())
                    self.w.good('DELETE', f"{PODS}/{p['metadata']['name']}?gracePeriodSeconds=0")
            time.sleep(0.1)

    def gap(self, since):
        """The longest time without a pod that was bound, from then on."""
        times = [since] + [t for t in self.bound_at if t >= since] + [time.monotonic()]
        return max(b - a for a, b in zip(times, times[1:]))


def leader(w, part):
    """Which of the two holds the lease, and says so itself."""
    holder = (w.get(f'{LEASES}/dray-{part}') or {}).get('spec', {}).get('holderIdentity')
    for i in range(2):
        p = w.parts[f'{part}-{i}']
        if holder and p.alive() and not p.paused and f'"msg":"leading","identity":"{holder}"' in p.tail(100000):
            return i
    return None


def no_device_twice(w):
    used = [(r['pool'], r['device']) for c in w.good('GET', CLAIMS)['items'] for r in c.get('status', {}).get('allocation', {}).get('devices', {}).get('results', [])
            if c['status'].get('reservedFor')]
    assert len(used) == len(set(used)), 'a device is given twice'


def lose(w, part, how):
    p = w.parts[f'{part}-{leader(w, part)}']
    if how == 'killed':
        p.kill()
        return p, lambda: p.start()
    if how == 'stopped':
        p.stop()
        return p, lambda: p.start()
    if how == 'frozen':
        p.pause()
        return p, p.go_on
    w.proxy.break_(p.name, CUT_OFF)
    return p, lambda: w.proxy.clear(p.name)


def main():
    w = world(program())
    stream, gaps = Stream(w), {}
    try:
        for part in ('scheduler', 'controllers'):
            until(f'one of the {part} leads', lambda: leader(w, part) is not None)
        stream.start()
        until('pods are bound', lambda: len(stream.bound_at) > 5)
        for part in ('scheduler', 'controllers'):
            for how in ('killed', 'stopped', 'frozen', 'cut off') * ROUNDS:
                since = time.monotonic()
                p, again = lose(w, part, how)
                until(f'pods are bound again after {p.name} was {how}', lambda: [t for t in stream.bound_at if t > since + 2.5], 60)
                gaps.setdefault((part, how), []).append(stream.gap(since))
                again()
                no_device_twice(w)
                until(f'{part} has one that leads', lambda: leader(w, part) is not None)
                assert p.alive(), f'{p.name} did not survive that it was {how}'
        stream.ended = True
        stream.join(60)
        no_device_twice(w)
    except BaseException:
        for p in w.parts.values():
            print(f'--- {p.name}\n{p.tail()}')
        raise
    finally:
        stream.ended = True
        w.done()
    for (part, how), took in gaps.items():
        print(f'{part:12}{how:9}gap ' + ', '.join(f'{s:.2f} s' for s in took))
    worst = max(max(took) for took in gaps.values())
    assert worst < GAP, f'a gap of {worst:.2f} s'
    print(f'ok: the longest gap is {worst:.2f} s')


if __name__ == '__main__':
    main()

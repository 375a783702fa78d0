#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray's scheduler and controllers on a real API server that is restarted, forgets history, is slow, drops connections; and whose leader is
killed. Scheduling resumes, nothing is allocated twice, no pod is lost."""
import os, re, signal, subprocess, sys, time

from real_cluster import SCRIPTS
from remote_kit import WITHOUT_DRA, Plane, until
from remote_proxy import Proxy


def through(p, proxy):
    """A kubeconfig that goes through the proxy."""
    path = os.path.join(p.top, 'proxy.kubeconfig')
    with open(path, 'w') as f:
        f.write(open(p.kubeconfig).read().replace(f':{p.port + 3}"', f':{proxy.port}"'))
    return path


def some(p, name, count=8):
    names = [f'{name}{i}' for i in range(count)]
    for n in names:
        p.pod(n)
    return names


def leads(p, parts):
    return [c for c in parts if p.metric(c, 'leader_election_master_status') == 1]


def fail_over(p, dray):
    """The leader dies without a word. The other one schedules within three seconds (more on a machine that has no time)."""
    config = p.kubeconfig
    parts = [p.dray(dray, 'scheduler', kubeconfig=config) for _ in range(2)]
    until('one leads, the other knows everything', lambda: len(leads(p, parts)) == 1 and all(p.metric(c, 'scheduler_cache_size{type="nodes"}') == 4
                                                                                             for c in parts))
    p.bound(some(p, 'before'))
    leader = leads(p, parts)[0]
    other = next(c for c in parts if c is not leader)
    p.end(leader, signal.SIGKILL)
    died = time.monotonic()
    names = some(p, 'after')
    until('the first pod', lambda: any(p.pods()[n]['spec'].get('nodeName') for n in names))
    gap = time.monotonic() - died
    p.bound(names)
    p.check()
    assert gap < 3 or os.getloadavg()[0] > os.cpu_count(), f'scheduling stood still for {gap:.1f} s'
    p.end(other)
    p.clear()
    print(f'the leader killed: the next pod was bound {gap:.1f} s later')


def connections(p, dray):
    """Connections are cut in the middle, again and again; then they are deaf; then slow."""
    proxy = Proxy(p.port + 3)
    config = through(p, proxy)
    sched, ctl = p.dray(dray, 'scheduler', kubeconfig=config), p.dray(dray, 'controllers', '--leader-elect-resource-name=ctl', kubeconfig=config)
    names = some(p, 'c', 12)
    for _ in range(6):
        time.sleep(0.15)
        proxy.cut()
    p.bound(names)
    p.check()
    proxy.delay = 0.05
    p.bound(some(p, 'slow', 4))
    proxy.delay = 0
    p.check()
    p.end(sched), p.end(ctl)
    proxy.done()
    print('connections cut in the middle, slow answers')
    p.clear()


def restart(p, dray, ctl):
    """The API server goes and comes back; its history is gone with it, and with etcd's after a compaction."""
    sched = p.dray(dray, 'scheduler')
    p.bound(some(p, 'r', 4))
    p.stop('apiserver', signal.SIGKILL)
    etcd = subprocess.run(['curl', '-s', f'http://127.0.0.1:{p.port + 1}/v3/kv/range', '-d', '{"key":"AA=="}'], capture_output=True, text=True, check=True).stdout
    revision = re.search(r'"revision":"(\d+)"', etcd).group(1)
    subprocess.run(['curl', '-s', f'http://127.0.0.1:{p.port + 1}/v3/kv/compaction', '-d', '{"revision":"%s","physical":true}' % revision], capture_output=True,
                   check=True)
    p.start('apiserver')
    p.local.c = None
    p.bound(some(p, 'again', 8))
    p.check()
    p.clear()
    until('claims of pods are gone', lambda: not p.claims())
    p.end(sched)
    print('the API server killed and restarted, its history compacted')


def main():
    dray = sys.argv[1]
    p = Plane()
    try:
        p.start('kcm', WITHOUT_DRA)
        p.ready()
        p.nodes(4)
        ctl = p.dray(dray, 'controllers')
        fail_over(p, dray)
        restart(p, dray, ctl)
        p.end(ctl)
        connections(p, dray)
    finally:
        p.done()
    print('ok: faults on a real API server')


if __name__ == '__main__':
    main()

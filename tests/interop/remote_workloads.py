#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every workload of `dray bench sched` (Kubernetes' scheduler_perf for DRA) on a real API server, with kube-scheduler and Kubernetes' DRA
controllers off: all pods are bound and the load generator finds no device given twice. `remote_workloads.py DRAY [PART OF A NAME…]`; with
several parts, workloads that have any of them. Prints one line each."""
import json, subprocess, sys

from remote_kit import WITHOUT_DRA, Plane, until


def names(dray):
    """An unknown name is answered with the list."""
    told = subprocess.run([dray, 'bench', 'sched', '--workload', '?'], capture_output=True, text=True, timeout=30).stderr
    line = next(l for l in told.splitlines() if l.startswith('workloads: '))
    return line[len('workloads: '):].split(', ')


def bench(dray, plane, name):
    run = subprocess.run([dray, 'bench', 'sched', '--kubeconfig', plane.kubeconfig, '--workload', name, '--scheduler-name', 'dray', '--json'],
                         capture_output=True, text=True, timeout=1800)
    lines = run.stdout.splitlines()
    told = json.loads(lines[-1]) if lines and lines[-1].startswith('{') else {}
    print(f'{"ok " if run.returncode == 0 else "BAD"} {name}: {told.get("pods", 0)} pods on {told.get("nodes", 0)} nodes, '
          f'{told.get("pods_per_s", 0):g} pods/s', flush=True)
    if run.returncode:
        print(run.stdout[-2000:], run.stderr[-2000:], flush=True)
    return run.returncode == 0


def main():
    dray, parts = sys.argv[1], sys.argv[2:]
    p = Plane()
    try:
        p.start('kcm', WITHOUT_DRA)
        p.ready()
        sched = p.dray(dray, 'scheduler')
        ctl = p.dray(dray, 'controllers')
        until('both lead', lambda: all(p.metric(c, 'leader_election_master_status') == 1 for c in (sched, ctl)))
        chosen = [n for n in names(dray) if not parts or any(part in n for part in parts)]
        bad = [n for n in chosen if not bench(dray, p, n)]
        p.end(sched)
        p.end(ctl)
    finally:
        p.done()
    assert not bad, bad
    print(f'ok: {len(chosen)} workloads on a real API server')


if __name__ == '__main__':
    main()

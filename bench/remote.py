#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray's scheduler and controllers beside kube-scheduler and kube-controller-manager, each alone on the same kind of kube-apiserver:
pods a second, created -> bound, processor time and memory of the two parts and of the API server. `bench/remote.py DRAY [NODES [PODS [ROUNDS]]]`;
`WORKLOAD=NAME` takes one of `dray bench sched --workload`. Prints one JSON line a run and a last line with the ratios."""
import json, os, statistics, subprocess, sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, 'tests', 'interop'))
from remote_kit import DRA_CONTROLLERS, Plane  # noqa: E402

TICK = os.sysconf('SC_CLK_TCK')
# What dray's controllers do on such a cluster, so that like is compared with like. Service accounts, without which no pod can be made, are
# kube-controller-manager's in both.
KCM = 'serviceaccount-controller,serviceaccount-token-controller,' + ','.join(DRA_CONTROLLERS)


def cpu(pid):
    fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss(pid):
    return next(int(l.split()[1]) for l in open(f'/proc/{pid}/status') if l.startswith('VmHWM')) / 1024


def load(dray, plane, scheduler, nodes, pods, pids):
    what = ['--workload', os.environ['WORKLOAD']] if 'WORKLOAD' in os.environ else ['--nodes', str(nodes), '--pods', str(pods)]
    run = subprocess.run([dray, 'bench', 'sched', '--kubeconfig', plane.kubeconfig, *what, '--scheduler-name', scheduler, '--json',
                          '--pids', ','.join(f'{n}={p}' for n, p in pids.items())],
                         stdout=subprocess.PIPE, text=True, timeout=1200)
    assert run.returncode == 0, run.stdout
    return json.loads(run.stdout.splitlines()[-1])


def measured(dray, ours, nodes, pods):
    plane = Plane()
    try:
        plane.start('kcm', 'serviceaccount-controller' if ours else KCM)
        plane.ready()
        if ours:
            parts = {'scheduler': plane.dray(dray, 'scheduler').pid, 'controllers': plane.dray(dray, 'controllers').pid}
        else:
            plane.start('scheduler')
            parts = {'scheduler': plane.pid('scheduler'), 'controllers': plane.pid('kcm')}
        pids = dict(parts, apiserver=plane.pid('apiserver'), etcd=plane.pid('etcd'))
        before = {n: cpu(p) for n, p in pids.items()}
        told = load(dray, plane, 'dray' if ours else 'default-scheduler', nodes, pods, pids)
        row = {'who': 'dray' if ours else 'kubernetes', 'pods': told['pods'], 'pods_per_s': told['pods_per_s'],
               'created_bound_ms': {k: told[k] for k in told if k.startswith('p') and k.endswith('_ms')} or told.get('latency_ms')}
        for name, pid in pids.items():
            # From the first create to the last binding; and with nodes and slices made before, and everything removed afterwards.
            row[name] = {'cpu_ms_a_pod': round(told['server_cpu_s'][name] * 1000 / told['pods'], 3),
                         'all_cpu_ms_a_pod': round((cpu(pid) - before[name]) * 1000 / told['pods'], 3), 'rss_mib': round(rss(pid), 1)}
        print(json.dumps(row), flush=True)
        return row
    finally:
        plane.done()


def main():
    dray = os.path.abspath(sys.argv[1])
    nodes, pods, rounds = (int(a) for a in (sys.argv[2:5] + ['100', '700', '3'][len(sys.argv) - 2:]))
    rows = {True: [], False: []}
    for _ in range(rounds):
        for ours in (False, True):
            rows[ours].append(measured(dray, ours, nodes, pods))

    def mean(ours, *path):
        def get(row):
            for key in path:
                row = row[key]
            return row
        return statistics.mean(get(r) for r in rows[ours])
    own = {ours: sum(mean(ours, p, 'cpu_ms_a_pod') for p in ('scheduler', 'controllers')) for ours in rows}
    whole = {ours: sum(mean(ours, p, 'all_cpu_ms_a_pod') for p in ('scheduler', 'controllers')) for ours in rows}
    memory = {ours: sum(mean(ours, p, 'rss_mib') for p in ('scheduler', 'controllers')) for ours in rows}
    print(json.dumps({'pods_per_s_ratio': round(mean(True, 'pods_per_s') / mean(False, 'pods_per_s'), 2),
                      'cpu_kubernetes_over_dray': round(own[False] / own[True], 1),
                      'all_cpu_kubernetes_over_dray': round(whole[False] / whole[True], 1),
                      'rss_kubernetes_over_dray': round(memory[False] / memory[True], 1),
                      'apiserver_and_etcd_share_of_cpu_with_dray': round(1 - own[True] / (own[True] + mean(True, 'apiserver', 'cpu_ms_a_pod')
                                                                                         + mean(True, 'etcd', 'cpu_ms_a_pod')), 3)}))


if __name__ == '__main__':
    main()

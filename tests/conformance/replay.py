#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray replay against published figures, if the folder ../shared/traces is there: best fit and FGD to the last
printed digit, and pack ahead of FGD, whatever it knows. One seed a policy: docs/utilization.md has all. Without the
folder only a small trace of our own.

usage: replay.py DRAY"""
import csv, json, os, subprocess, sys, tempfile

DRAY = os.path.abspath(sys.argv[1])
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'shared', 'traces')
KEYS = ['allocated100', 'allocated130', 'firstRejection', 'pods', 'gpusToBuy', 'fragmentation', 'decisionsPerSecond']
failures = []


def expect(what, good, got):
    if not good:
        failures.append(f'{what}: got {got}')


def replay(nodes, pods, arrivals, order, *more):
    p = subprocess.run([DRAY, 'replay', '--nodes', nodes, '--pods', pods, '--arrivals', arrivals, '--order', order, '-o', 'json', *more],
                       capture_output=True, text=True)
    if p.returncode:
        failures.append(f'{more}: exit status {p.returncode}: {p.stderr}')
        return dict.fromkeys(KEYS, 0)
    return json.loads(p.stdout)


def own():
    with tempfile.TemporaryDirectory() as d:
        def write(name, text):
            with open(os.path.join(d, name), 'w') as f:
                f.write(text)
            return os.path.join(d, name)
        nodes = write('n.csv', 'sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,A\nn1,128000,786432,8,B\n')
        pods = write('p.csv', 'name,cpu_milli,memory_mib,num_gpu,gpu_milli\nhalf,1000,1024,1,500\neight,8000,1024,8,1000\n')
        arrivals = write('a.txt', '1 5 0 0 0 0 1\n2 3 0 1 0\n')
        order = write('o.txt', '1 2 1 0\n2 2 0 1\n')
        for policy in ['pack', 'whole', 'first', 'bestfit', 'fgd']:
            r = replay(nodes, pods, arrivals, order, '--policy', policy, '--check')
            expect(f'{policy}: keys', all(k in r for k in KEYS) and r.get('policy') == policy, r)
            expect(f'{policy}: seeds', [s['seed'] for s in r.get('seeds', [])] == [1, 2], r)
            one = replay(nodes, pods, arrivals, order, '--policy', policy, '--seed', '2')
            expect(f'{policy}: one seed', one.get('seed') == 2 and one['pods'] == r['seeds'][1]['pods'], one)
        expect('pack keeps eight GPUs together', replay(nodes, pods, arrivals, order, '--seed', '1')['pods'] == 5, '')
        bad = subprocess.run([DRAY, 'replay', '--nodes', nodes, '--pods', nodes, '--arrivals', arrivals, '--order', order],
                             capture_output=True, text=True)
        expect('a wrong file', bad.returncode == 1 and 'n.csv:1:' in bad.stderr and 'no column is named name' in bad.stderr, bad.stderr)
        bad = subprocess.run([DRAY, 'replay', '--nodes', nodes], capture_output=True, text=True)
        expect('wrong usage', bad.returncode == 2, bad.stderr)


def published():
    rows = list(csv.DictReader(open(os.path.join(TRACES, 'published_allocation.csv'))))

    def file(name):
        return os.path.join(TRACES, name)

    def run(workload, seed, *more):
        return replay(file('openb_node_list_gpu_node.csv'), file(f'openb_pod_list_{workload}.csv'), file(f'arrivals_{workload}.txt'),
                      file(f'nodeorder_{workload}.txt'), '--seed', str(seed), '--no-buy', *more)
    for policy, workload, seed in [('bestfit', 'default', 42), ('fgd', 'default', 43), ('fgd', 'gpuspec20', 44), ('bestfit', 'multigpu30', 45)]:
        want = next(r for r in rows if (r['workload'], r['policy'], r['seed']) == (workload, policy, str(seed)))
        got = run(workload, seed, '--policy', policy)
        for key, column in [('allocated100', 'alloc_at_100'), ('allocated130', 'alloc_at_130'), ('fragmentation', 'frag_at_100')]:
            expect(f'{policy} {workload} {seed} {key}: want {want[column]}', abs(got[key] - float(want[column])) < 0.0101, got[key])
    for workload, seed, more in [('default', 42, []), ('default', 43, ['--history', 'none']),
                                 ('gpushare60', 44, ['--history', file('openb_pod_list_multigpu30.csv')])]:
        fgd = next(r for r in rows if (r['workload'], r['policy'], r['seed']) == (workload, 'fgd', str(seed)))
        got = run(workload, seed, '--policy', 'pack', *more)
        expect(f'pack {workload} {seed} {more}: FGD has {fgd["alloc_at_130"]}', got['allocated130'] > float(fgd['alloc_at_130']), got['allocated130'])


own()
if os.path.isdir(TRACES):
    published()
else:
    print('no ../shared/traces: only a small trace of our own')
for f in failures:
    print(f)
sys.exit(1 if failures else 0)

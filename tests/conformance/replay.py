#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray replay against published figures: best fit and FGD to the last
printed digit, and pack ahead of FGD, whatever it knows. One seed a policy: docs/measurements/utilization.md has all. Without the
folder only a small trace of our own.

usage: replay.py DRAY"""
import csv, json, os, subprocess, sys, tempfile

DRAY = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import unpack

TRACES = unpack.directory('traces')
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

        def refused(what, files, *texts):
            p = subprocess.run([DRAY, 'replay', '--nodes', files[0], '--pods', files[1], '--arrivals', files[2], '--order', files[3]], capture_output=True, text=True)
            expect(what, p.returncode == 1 and not p.stdout and all(t in p.stderr for t in texts), p.stderr)
        refused('no such file', [nodes, os.path.join(d, 'none.csv'), arrivals, order], 'none.csv')
        refused('no nodes', [write('n0.csv', 'sn,cpu_milli,memory_mib,gpu,model\n'), pods, arrivals, order], 'n0.csv:1:', 'no node')
        refused('no GPUs', [write('n1.csv', 'sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n'), pods, arrivals, write('o1.txt', '1 1 0\n')], 'no GPU')
        refused('a bad number', [nodes, write('p1.csv', 'name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1,1,1,500\ny,one,1,1,500\n'), arrivals, order], 'p1.csv:3:', 'cpu_milli')
        refused('a short line', [nodes, write('p2.csv', 'name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1,1\n'), arrivals, order], 'p2.csv:2:', 'num_gpu is missing')
        refused('a row too many', [nodes, pods, write('a1.txt', '1 1 0\n2 1 9\n'), order], 'a1.txt:2:', 'row 9')
        refused('an empty file', [write('n2.csv', ''), pods, arrivals, order], 'n2.csv:1:', 'empty')


def partitions():
    """A few claims only; docs/measurements/utilization.md has more."""
    def mig(*more):
        p = subprocess.run([DRAY, 'replay', '--mig', '-o', 'json', *more], capture_output=True, text=True)
        expect(f'--mig {more}', p.returncode == 0, p.stderr)
        return json.loads(p.stdout or '{}')
    got = {}
    for policy in ['pack', 'first', 'mfi']:
        r = got[policy] = mig('--policy', policy, '--seed', '42', '--gpus', '16', '--claims', '300', '--check', '--no-buy')
        keys = ['firstRejection', 'acceptance', 'acceptedDemand', 'allocated', 'gpusNeeded', 'decisionsPerSecond']
        expect(f'--mig {policy}: keys', all(k in r for k in keys) and r.get('gpus') == 16, r)
    expect('pack ahead of first', got['pack']['acceptedDemand'] > got['first']['acceptedDemand'], got)
    for wrong in [['--gpus', '12'], ['--mix', 'x'], ['--policy', 'fgd'], ['--nodes', 'n.csv'], ['--load', '-1'], ['--claims', 'many'], ['--gpu', 'v100']]:
        p = subprocess.run([DRAY, 'replay', '--mig', *wrong], capture_output=True, text=True)
        expect(f'--mig {wrong}', p.returncode == 2 and p.stderr, p.stderr)


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
partitions()
published()
for f in failures:
    print(f)
sys.exit(1 if failures else 0)

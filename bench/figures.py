#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/figures.py [--from FILE] [--write] [--long] [AREA…]: the figures of speed and memory that the project promises, measured in one go: bound, measured
value, verdict, and how. Runs tools/bench (or reads the lines of an earlier run) and the programs beside it; --long also runs what takes minutes (fleet, real
control plane, workloads, fairness). --write writes docs/measurements/performance.md, with date, commit and machine."""
import datetime, json, os, re, subprocess, sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, 'tests', 'data'))
import unpack  # noqa: E402
BUILD = os.path.join(HERE, 'build-bench')
DRAY = os.path.join(BUILD, 'dray')


class Rows:
    """The lines of a run of tools/bench."""

    def __init__(self, path):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]

    def pick(self, area, pattern, key='value'):
        found = [r[key] for r in self.rows if r['area'] == area and re.fullmatch(pattern, r['name']) and r[key] is not None]
        return found or None

    def speed(self, area, pattern):
        """MB/s, from the note."""
        found = [float(r['note'].split()[0]) for r in self.rows if r['area'] == area and re.fullmatch(pattern, r['name']) and 'MB/s' in r['note']]
        return found or None


# --- What tools/bench does not run ---

def json_lines(*command, **env):
    run = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=1800, env=dict(os.environ, **env))
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{')]


def whole(*flags):
    """`dray bench sched` on a fresh `dray up` in memory."""
    sys.path.insert(0, os.path.join(HERE, 'bench'))
    from whole import load, running
    with running(DRAY, 'up', '--nodes', '0') as p:
        return load(DRAY, p.kubeconfig, {'up': p.pid}, *flags)[0]


def five_thousand(_):
    return whole('sched', '--nodes', '5000', '--pods', '5000', '--settle', '0', '--timeout', '120')['seconds']


FLEET = []


def fleet(step, key):
    def measure(_):
        if not FLEET:
            FLEET.extend(json_lines(DRAY, 'bench', 'fleet', '--json'))
        rows = [r for r in FLEET if r['step'] == step]
        return rows[0][key] if rows else None
    return measure


def fleet_memory(_):
    fleet('', '')(None)
    return max(r['rss_mib'] for r in FLEET) if FLEET else None


def sweep(name):
    """One of the 1000-node sweeps: upstream's time over ours, asked through the index."""
    def measure(rows):
        path = os.path.join(unpack.directory('alloc'), 'bench')
        files = [f for f in os.listdir(path) if f.startswith(name)]
        peer = rows.pick('allocator', name + '.*', 'peer')
        if not files or not peer:
            return None
        with open(os.path.join(path, files[0])) as f:
            document = json.dumps(json.load(f))
        run = subprocess.run([DRAY, 'alloc', '--jsonl', '--cluster', '--policy', 'first', '--repeat', '200'], input=document + '\n',
                             stdout=subprocess.PIPE, text=True, timeout=300)
        return peer[0] / json.loads(run.stdout.splitlines()[0])['ns']
    return measure


REMOTE = {}


def remote(key):
    def measure(_):
        if not REMOTE:
            lines = json_lines(os.path.join(HERE, 'bench', 'remote.py'), DRAY, '100', '700', '1')
            REMOTE.update(lines[-1] if lines else {'none': True})
        return REMOTE.get(key)
    return measure


def workloads(_):
    lines = json_lines(os.path.join(HERE, 'bench', 'workloads.py'), DRAY)
    return lines[-1]['settled_s'] if lines else None


def fairness(_):
    run = subprocess.run([os.path.join(HERE, 'bench', 'fairness.py'), DRAY, '5'], stdout=subprocess.PIPE, text=True, timeout=600)
    found = [float(p) for p in re.findall(r'p99 +([0-9.]+) ms', run.stdout)]
    return max(found) if found else None


def agent_memory(_):
    lines = json_lines(os.path.join(HERE, 'bench', 'agent.py'), DRAY, '100', '5')
    return next((r['value'] for r in lines if r['name'] == 'agent with 100 pods'), None)


def hundred_thousand_claims(_):
    """Memory with 100,000 claims, and the time to start with them."""
    sys.path.insert(0, os.path.join(HERE, 'bench'))
    from whole import Process, load, rss_mib
    p = Process(DRAY, 'server')
    p.ready()
    load(DRAY, p.kubeconfig, {'s': p.pid}, 'api', '--ops', 'create', '--count', '100000', '--concurrency', '64')
    CLAIMS['rss'] = rss_mib(p.pid)
    p.stop(keep=True)
    q = Process(DRAY, 'server', folder=p.folder)
    CLAIMS['ready'] = q.ready()
    q.stop()
    return CLAIMS['rss']


CLAIMS = {}


def ready_with_claims(_):
    if not CLAIMS:
        hundred_thousand_claims(None)
    return CLAIMS['ready']



def least(*arguments):
    return lambda rows: min(found) if (found := rows.pick(*arguments)) else None


def most(*arguments):
    return lambda rows: max(found) if (found := rows.pick(*arguments)) else None


def mean(*arguments):
    return lambda rows: sum(found) / len(found) if (found := rows.pick(*arguments)) else None


def speed(*arguments):
    return lambda rows: min(found) if (found := rows.speed(*arguments)) else None


def over(area, pattern, below):
    """The worst of value / value of the line it is made from."""
    def measure(rows):
        pairs = [(r['value'], below(r['name'])) for r in rows.rows if r['area'] == area and re.fullmatch(pattern, r['name'])]
        found = [v / rows.pick(area, name)[0] for v, name in pairs]
        return max(found) if found else None
    return measure


def total(*names):
    return lambda rows: sum(rows.pick('scheduler', n)[0] for n in names) if all(rows.pick('scheduler', n) for n in names) else None


# --- The figures: area, what, bound, unit, how, how it is measured here. scale turns the lines' unit into the figure's. ---

class Figure:
    def __init__(self, area, what, bound, unit, how, measure, scale=1.0, long=False):
        self.area, self.what, self.bound, self.unit, self.how = area, what, bound, unit, how
        self.measure, self.scale, self.long = measure, scale, long

    def limit(self):
        return f'{"≥" if self.bound[0] == ">" else "≤"} {self.bound[1]:,g} {self.unit}'.strip()

    def judge(self, rows):
        value = self.measure(rows)
        if value is None:
            return None, None
        value *= self.scale
        return value, value >= self.bound[1] if self.bound[0] == '>' else value <= self.bound[1]


def at_least(n):
    return '>', n


def at_most(n):
    return '<', n


CODEC, CEL, ALLOC, SERVER, SCHED, AGENT = (f'tools/bench {a}' for a in ('codec', 'cel', 'allocator', 'server', 'scheduler', 'agent'))
OPS = '(create|get|update|status|delete)'
FIGURES = [
    Figure('codec', 'JSON parse + walk, of bare yyjson\'s speed', at_least(0.6), 'x', CODEC, least('codec', 'codec/json, duplicates refused', 'ratio')),
    Figure('codec', 'quantity parse, of Go\'s speed, the least of 8 texts', at_least(5), 'x', CODEC, least('codec', 'quantity parse .*', 'ratio')),
    Figure('codec', '… mean of 8 texts', at_least(5), 'x', CODEC, mean('codec', 'quantity parse .*', 'ratio')),
    Figure('api', 'ResourceSlice from JSON to typed form', at_least(200), 'MB/s', CODEC, speed('codec', 'slice from JSON')),
    Figure('api', '… of Go\'s client decoder', at_least(5), 'x', CODEC, least('codec', 'slice from JSON', 'ratio')),
    Figure('cel', 'CEL evaluation, of cel-go\'s, mean', at_least(40), 'x', CEL, mean('cel', 'eval .*', 'ratio')),
    Figure('cel', '… the least', at_least(15), 'x', CEL, least('cel', 'eval .*', 'ratio')),
    Figure('cel', 'parse + check + estimate, the least', at_least(20), 'x', CEL, least('cel', 'compile .*', 'ratio')),
    Figure('cel', 'batch of a simple selector, a device', at_most(10), 'ns', CEL, least('cel', r'batch driver \(a device\)')),
    Figure('allocator', 'allocator, problems a–d, of upstream\'s, first, the least', at_least(30), 'x', ALLOC, least('allocator', r'[a-d]\d+[^(]*', 'ratio')),
    Figure('allocator', '… pack, the least', at_least(30), 'x', ALLOC, least('allocator', r'[a-d]\d.*\(pack\)', 'ratio')),
    Figure('allocator', 'adversarial problems (c5, e1–e5), the worst', at_most(5), 'ms', ALLOC, most('allocator', r'(c5|e\d).*'), 1e-6),
    Figure('allocator', 'hard problems of ours (128 devices, 32 requests), the worst', at_most(5), 'ms', ALLOC, most('allocator', 'hard .*'), 1e-6),
    Figure('allocator', 'past the deadline, at worst', at_most(1), 'ms', ALLOC, most('allocator', 'past the deadline.*'), 1e-6),
    Figure('allocator', 'the funnel, of the bare answer', at_most(3), 'x', ALLOC, over('allocator', 'explain_funnel_.*', lambda n: n.replace('funnel', 'solve'))),
    Figure('allocator', 'remedies', at_most(50), 'ms', ALLOC, most('allocator', 'remedies_.*'), 1e-6),
    Figure('server', 'server processor time per operation, of Kubernetes\', the least', at_least(10), 'x less', SERVER, least('server', f'processor time, ({OPS}|a .*)', 'ratio')),
    Figure('server', 'rate, of Kubernetes\', the least of create, get, update, status, delete', at_least(10), 'x', SERVER, least('server', f'rate, {OPS}', 'ratio')),
    Figure('server', 'p99, of Kubernetes\' (16 in flight each), the least', at_least(5), 'x less', SERVER, least('server', f'p99, {OPS}', 'ratio')),
    Figure('server', '1,000 watchers, 50 events/s, p99', at_most(50), 'ms', SERVER, least('server', '1000 watchers.*: p99')),
    Figure('server', 'ready after start, empty', at_most(100), 'ms', 'tools/bench start', least('start', 'dray server, start again')),
    Figure('server', 'idle memory', at_most(20), 'MiB', 'tools/bench memory', least('memory', 'idle dray server')),
    Figure('server', 'memory with 100,000 claims (Kubernetes: over 1,900 MB)', at_most(380), 'MiB', 'bench/figures.py --long', hundred_thousand_claims, long=True),
    Figure('server', 'ready with 100,000 objects', at_most(3), 's', 'bench/figures.py --long', ready_with_claims, long=True),
    Figure('scheduler', 'processor time per bound pod, of Kubernetes\', 100 nodes', at_least(20), 'x less', SCHED, least('scheduler', 'processor time, a bound pod, 100 nodes, one', 'ratio')),
    Figure('scheduler', 'pods/s, of Kubernetes\', 100 nodes', at_least(20), 'x', SCHED, least('scheduler', 'rate, 100 nodes, one', 'ratio')),
    Figure('scheduler', '5,000 DRA pods on 5,000 nodes', at_most(5), 's', 'dray bench sched --nodes 5000 --pods 5000', five_thousand, long=True),
    Figure('scheduler', 'created → bound p99 at 100 pods/s', at_most(20), 'ms', SCHED, least('scheduler', 'created -> bound p99.*')),
    Figure('scheduler', 'an impossible pod explained, 5,000 nodes (processor time)', at_most(50), 'ms', SCHED, least('scheduler', 'sched 5000x5000 one, impossible'), 1e-6),
    Figure('driver', 'prepare p99', at_most(5), 'ms', AGENT, least('agent', 'prepare, p99')),
    Figure('node', 'created → container running p50', at_most(150), 'ms', AGENT, least('agent', '.*one at a time: p50')),
    Figure('node', 'agent with 100 pods', at_most(15), 'MiB', 'bench/agent.py DRAY 100', agent_memory, long=True),
    Figure('fairness', 'a neighbour\'s p99 beside a flood', at_most(50), 'ms', 'bench/fairness.py', fairness, long=True),
    Figure('remote', 'pods/s on a real API server, of Kubernetes\' own', at_least(2), 'x', 'bench/remote.py', remote('pods_per_s_ratio'), long=True),
    Figure('remote', 'own processor time there', at_least(10), 'x less', 'bench/remote.py', remote('cpu_kubernetes_over_dray'), long=True),
    Figure('remote', 'memory there', at_least(4), 'x less', 'bench/remote.py', remote('rss_kubernetes_over_dray'), long=True),
    Figure('workloads', '500 Deployments × 10 pods settled', at_most(30), 's', 'bench/workloads.py', workloads, long=True),
    Figure('fleet', '100,000 nodes × 8 + 1,000 pools in memory', at_most(2048), 'MiB', 'dray bench fleet', fleet_memory, long=True),
    Figure('fleet', 'index built', at_most(20), 's', 'dray bench fleet', fleet('index built', 'seconds'), long=True),
    Figure('fleet', 'a decision while it fills, p50', at_most(200), 'us', 'dray bench fleet', fleet('fill, all', 'p50_us'), long=True),
    Figure('fleet', 'a decision while it fills, p99', at_most(2000), 'us', 'dray bench fleet', fleet('fill, all', 'p99_us'), long=True),
    *(Figure('fleet', f'sweep {name} over 1,000 nodes, of upstream\'s', at_least(100), 'x', 'dray alloc --cluster --repeat 200', sweep(name)) for name in ('f1', 'f2', 'f3')),
    Figure('cli', '--help', at_most(10), 'ms', 'tools/bench start', least('start', 'dray --help')),
    Figure('cli', '--help, processor time', at_most(10), 'ms', 'tools/bench start', least('start', 'dray --help, processor time')),
    Figure('cli', 'dray top redraws 10,000 devices', at_most(50), 'ms', SCHED, total('top/10000/model', 'top/10000/redraw'), 1e-6),
]


PAGE = os.path.join(HERE, 'docs', 'measurements', 'performance.md')


def machine():
    """One line about where a page's figures come from."""
    with open('/proc/cpuinfo') as f:
        model = next((line.split(':')[1].strip() for line in f if line.startswith('model name')), 'unknown processor')
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=HERE, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f'{datetime.date.today()}, commit {commit}, {os.cpu_count()} × {model}, load {os.getloadavg()[0]:.1f}'


def measured(figure, rows, long):
    """The row of a figure: its value as text, and the verdict."""
    value, good = (None, None) if figure.long and not long else figure.judge(rows)
    text = '–' if value is None else f'{value:,.3g}' if value < 1000 else f'{value:,.0f}'
    return text, {True: 'yes', False: 'no', None: '–'}[good]


def write_page(lines):
    with open(PAGE, 'w', encoding='utf-8') as f:
        f.write('# Performance\n\nWritten by `bench/figures.py --write`; the method is in bench/README.md.\n'
                f'Measured: {machine()}.\n\n| area | what | bound | measured | within | command |\n|---|---|---|---|---|---|\n')
        f.writelines(f'| {f_.area} | {f_.what} | {f_.limit()} | {text} | {word} | `{f_.how}` |\n' for f_, text, word in lines)


def main():
    words = sys.argv[1:]
    path = os.path.join(BUILD, 'bench.jsonl')
    if '--from' in words:
        at = words.index('--from')
        path = words[at + 1]
        del words[at:at + 2]
    else:
        areas = ['codec', 'cel', 'allocator', 'server', 'scheduler', 'agent', 'memory', 'start']
        if subprocess.run([os.path.join(HERE, 'tools', 'bench'), *areas], cwd=HERE).returncode != 0:
            return 1
    wanted = {w for w in words if not w.startswith('--')}
    rows, lines = Rows(path), []
    print(f'\n{"area":10} {"what":72} {"bound":>14} {"measured":>14}  within  command')
    for f in FIGURES:
        if wanted and f.area not in wanted:
            continue
        text, word = measured(f, rows, '--long' in words)
        lines.append((f, text, word))
        print(f'{f.area:10} {f.what:72} {f.limit():>14} {text:>14}  {word:6}  {f.how}', flush=True)
    short, missing = (sum(word == w for _, _, word in lines) for w in ('no', '–'))
    print(f'\n{short} out of bounds, {missing} not measured in this run (load {os.getloadavg()[0]:.1f})')
    if '--write' in words:
        write_page(lines)
    return 0


if __name__ == '__main__':
    sys.exit(main())

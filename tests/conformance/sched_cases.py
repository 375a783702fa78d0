#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the scheduling questions under sched/ to `dray sched-case` and compares with what kube-scheduler 1.37.1 said: whether the pod gets a turn, which
nodes would do with the score of each plugin, and for every other node the plugin that refuses it, its reasons and its code; where no node does, who would
be preempted on every node, which node is chosen, and the message of the pod's condition.

usage: sched_cases.py DRAY [FILE.jsonl.gz…]"""
import glob, gzip, json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def told(answer, want):
    """What is compared; reasons have no order."""
    stop = answer.get('preEnqueue')
    if stop:
        return {'preEnqueue': (stop['plugin'], sorted(stop['reasons']), stop['code'])}
    rows = {node: (plugin, sorted(reasons), code) for node, (plugin, reasons, code) in answer.get('filtered', {}).items()}
    scores = {key: answer.get(key) for key in ('scores', 'top') if want.get(key)}
    return {'feasible': sorted(answer.get('feasible', [])), 'filtered': rows, **scores}


def victims(candidate):
    return sorted(candidate['victims']), candidate['violations']


def preempted(got, want):
    """What is wrong with the answer about preemption: upstream takes any of `best`, and where overlapping budgets make victims a matter of the order in
    which it reads them, `luck` has all its answers."""
    if not want:
        return None
    luck = {node: [victims(c) for c in cs] for node, cs in want.get('luck', {}).items()}
    right = {node: luck.get(node) or [victims(c)] for node, c in want['candidates'].items()}
    if set(got['candidates']) != set(right) or any(victims(c) not in right[node] for node, c in got['candidates'].items()):
        return 'candidates', got['candidates'], want['candidates']
    if got['node'] not in (want['best'] if want['node'] else ['']):
        return 'node', got['node'], want['best']
    if got['node'] and victims(got) != victims(got['candidates'][got['node']]):
        return 'victims', got['victims'], got['candidates'][got['node']]
    rows = lambda refused: {node: (r['plugin'], sorted(r['reasons']), r['code']) for node, r in refused.items()}
    if rows(got['refused']) != rows(want['refused']):
        return 'refused', got['refused'], want['refused']
    one = len(want['best']) < 2 and not luck
    return ('message', got['message'], want['message']) if one and got['message'] != want['message'] else None


def check(dray, path):
    with gzip.open(path, 'rt') as f:
        cases = [json.loads(line) for line in f]
    questions = ''.join(json.dumps({k: v for k, v in c.items() if k != 'want'}) + '\n' for c in cases)
    run = subprocess.run([dray, 'sched-case', '--jsonl'], input=questions, capture_output=True, text=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or [a['name'] for a in answers] != [c['name'] for c in cases]:
        sys.exit(f'{path}: exit {run.returncode}, {len(answers)} answers to {len(cases)} cases: {run.stderr[-500:]}')
    wrong = 0
    for case, got in zip(cases, answers):
        if 'error' in got or told(got, case['want']) != told(case['want'], case['want']):
            wrong += 1
            print(f'{case["name"]}:\n  got  {got.get("error") or told(got, case["want"])}\n  want {told(case["want"], case["want"])}')
            continue
        want = case['want'].get('preemption')
        bad = preempted(got.get('preemption'), want)
        if not bad and want and len(want['best']) < 2 and 'luck' not in want and got['message'] != case['want']['message']:
            bad = 'message', got['message'], case['want']['message']
        if bad:
            wrong += 1
            print(f'{case["name"]}: {bad[0]}\n  got  {bad[1]}\n  want {bad[2]}')
    print(f'{os.path.basename(path)}: {len(cases) - wrong} of {len(cases)}')
    return wrong


def rejects(dray):
    """A line that is no case is answered with an error, and the next one is answered."""
    run = subprocess.run([dray, 'sched-case', '--jsonl'], input='{\n{"name":"x","pending":"nobody"}\n{"name":"y","pending":"a/b","pods":[{"kind":"Pod"}]}\n{"name":"z","pending":"a/b"}\n',
                         capture_output=True, text=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0 and len(answers) == 4 and all(a['error'] for a in answers), run


files = sys.argv[2:] or sorted(glob.glob(os.path.join(HERE, 'sched', '*.jsonl.gz')))
assert files, 'no cases'
rejects(sys.argv[1])
sys.exit(1 if sum(check(sys.argv[1], f) for f in files) else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the scheduling questions under sched/ to `dray sched-case` and compares with what kube-scheduler 1.37.1 said: whether the pod gets a turn, which
nodes would do with the score of each plugin, and for every other node the plugin that refuses it, its reasons and its code.

usage: sched_cases.py DRAY [FILE.jsonl.gz…]"""
import glob, gzip, json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def told(answer):
    """What is compared; reasons have no order."""
    stop = answer.get('preEnqueue')
    if stop:
        return {'preEnqueue': (stop['plugin'], sorted(stop['reasons']), stop['code'])}
    rows = {node: (plugin, sorted(reasons), code) for node, (plugin, reasons, code) in answer.get('filtered', {}).items()}
    return {'feasible': sorted(answer.get('feasible', [])), 'filtered': rows, 'scores': answer.get('scores', {}), 'top': sorted(answer.get('top', []))}


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
        if 'error' in got or told(got) != told(case['want']):
            wrong += 1
            print(f'{case["name"]}:\n  got  {got.get("error") or told(got)}\n  want {told(case["want"])}')
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

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `dray validate --jsonl` against Kubernetes' own answers.

usage: validation.py DRAY

First the scoring script with its bounds. Then, more strictly: with --server-only every case of the unit
set must have exactly the causes of Kubernetes, words included, and every strategy case its object."""
import glob, json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'data'))
import unpack

DATA = unpack.directory('validation')
# Upstream's tests of these call the strategy alone, without defaults; spec.limit is one.
WITHOUT_DEFAULTS = {'ResourcePoolStatusRequest'}


def ask(dray, cases):
    text = ''.join(json.dumps(c) + '\n' for c in cases)
    run = subprocess.run([dray, 'validate', '--jsonl', '--server-only'], input=text, capture_output=True, text=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or len(answers) != len(cases):
        sys.exit(f'{len(answers)} answers to {len(cases)} cases, exit {run.returncode}: {run.stderr[-500:]}')
    return answers


def causes(list_):
    return sorted((c['reason'], c['field'], c['message']) for c in list_)


def clean(o):
    if isinstance(o, dict):
        o = {k: clean(v) for k, v in o.items()}
        return {k: v for k, v in o.items() if v not in (None, {}, []) and k != 'timeAdded'}
    return [clean(v) for v in o] if isinstance(o, list) else o


def read(pattern):
    for path in sorted(glob.glob(os.path.join(DATA, pattern))):
        with open(path) as lines:
            yield from (json.loads(line) for line in lines)


def main():
    dray = sys.argv[1]
    check = subprocess.run([sys.executable, os.path.join(HERE, 'score', 'check_validation.py'), '--dray', dray, '--misses', '3'],
                           capture_output=True, text=True)
    if check.returncode != 0:
        print(check.stdout + check.stderr)
        return 1
    failures = []
    unit = [c for c in read('*.jsonl') if 'apiCauses' in c]
    for case, answer in zip(unit, ask(dray, unit)):
        if causes(case['apiCauses']) != causes(answer['causes']):
            failures.append(f"{case['test']}/{case['name']}: want {causes(case['apiCauses'])} got {causes(answer['causes'])}")
    plans = [c for c in read('strategy/*.jsonl') if not c.get('errors') and c['kind'] not in WITHOUT_DEFAULTS]
    for case, answer in zip(plans, ask(dray, [dict(c, new=c['in']) for c in plans])):
        if clean(answer.get('object')) != clean(case['out']):
            failures.append(f"{case['test']}/{case['name']}: want {clean(case['out'])} got {answer}")
    for failure in failures[:20]:
        print(failure[:600])
    print(f'{check.stdout.splitlines()[-1]}; exact: {len(unit) + len(plans) - len(failures)} of {len(unit) + len(plans)}')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

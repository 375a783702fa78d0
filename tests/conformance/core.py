#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of core kinds and workloads with what Kubernetes' own strategies say against them (tests/unit/data/core_rows.jsonl,
work_rows.jsonl and bound_rows.jsonl, made by tests/diff/core_diff.py): `dray validate --jsonl` must say the same, in the same words.

usage: core.py DRAY"""
import json, os, subprocess, sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'unit', 'data')
ROWS = [os.path.join(DATA, name) for name in ('core_rows.jsonl', 'work_rows.jsonl', 'bound_rows.jsonl')]


def main():
    rows = []
    for path in ROWS:
        with open(path) as f:
            rows += [json.loads(line) for line in f]
    run = subprocess.run([sys.argv[1], 'validate', '--jsonl', '--server-only'], input=''.join(json.dumps(r) + '\n' for r in rows),
                         capture_output=True, text=True)
    answers = [json.loads(line) for line in run.stdout.split('\n')[:-1]]
    assert len(answers) == len(rows), run.stderr[-2000:]
    wrong = 0
    for row, answer in zip(rows, answers):
        want = {tuple(c) for c in row['causes']}
        got = {(c['reason'], c['field'], c['message'].split('\n')[0]) for c in answer['causes']}
        if want != got:
            wrong += 1
            if wrong < 10:
                print(f'{row["kind"]} {row["op"]} {row["name"]}: missing {sorted(want - got)}, too much {sorted(got - want)}')
    kinds = len({r['kind'] for r in rows})
    print(f'{len(rows) - wrong} of {len(rows)} objects of {kinds} kinds judged as by Kubernetes')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

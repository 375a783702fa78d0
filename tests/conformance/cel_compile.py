#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own tests of its DRA compiler, as data: expression, environment, gates, device → match, errors, cost,
type. usage: cel_compile.py DRAY"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import unpack


def questions(case):
    """(question, want) pairs of a case; want holds compileError, evalError, match, attr, cost, maxCost, type."""
    env = lambda name: 'new' if name == 'NewExpressions' else 'stored'
    q = {'expr': case['expr'], 'device': case.get('device', {'driver': ''})}
    if case['kind'] == 'selector':
        for r in case['runs']:
            features = {k: r[k] for k in ('consumableCapacity', 'listTypeAttributes')}
            yield dict(q, env=env(r['env']), features=features), {
                'compileError': r.get('compileError'), 'evalError': r.get('matchError') or r.get('evalError'), 'match': r.get('match'),
                'cost': r.get('actualCost'), 'maxCost': r.get('maxCost'), 'type': r.get('type')}
    elif case['kind'] == 'derivedCompile':
        yield dict(q, env=env(case['env']), derived=True, features=case['features'], compileOnly=True), {
            'compileError': case.get('actualCompileError'), 'maxCost': case.get('actualMaxCost'), 'type': case.get('actualType')}
    else:
        yield dict(q, env='derived'), {'evalError': case.get('actualEvalError'), 'attr': case.get('actualAttr'),
                                       'cost': case.get('actualCost')}


def plain(v):
    """A value's form as the attribute it becomes."""
    (kind, x), = v.items()
    if kind == 'list':
        kinds = {'int': 'ints', 'bool': 'bools', 'string': 'strings', 'semver': 'versions'}
        first = next(iter(x[0])) if x else 'string'
        return {kinds[first]: [next(iter(plain(e).values())) for e in x]}
    return {'version' if kind == 'semver' else kind: int(x) if kind == 'int' else x}


def wrong(q, want, got):
    if not q.get('compileOnly') and bool(want.get('evalError')) != bool(got.get('evalError')):
        return 'evalError'
    if bool(want.get('compileError')) != bool(got.get('compileError')):
        return 'compileError'
    if want.get('compileError'):
        # ANTLR's recovery reports more than the first syntax error; its wording is not ours to match.
        same = 'Syntax error' in want['compileError'] or want['compileError'] == got['compileError']
        return None if same else 'text of compileError'
    if want.get('match') is not None and not want.get('evalError') and want['match'] != got.get('match'):
        return 'match'
    if want.get('attr') and want['attr'] != plain(got['value']):
        return 'attr'
    for key in ('cost', 'maxCost', 'type'):
        if want.get(key) is not None and str(want[key]) != str(got.get(key)):
            return key
    return None


def main():
    dray, path = sys.argv[1], os.path.join(unpack.directory('cel'), 'k8s_compile_cases.jsonl')
    pairs = [p for line in open(path) for p in questions(json.loads(line))]
    run = subprocess.run([dray, 'cel', '--jsonl'], input='\n'.join(json.dumps(q) for q, _ in pairs) + '\n',
                         capture_output=True, text=True)
    answers = [json.loads(x) for x in run.stdout.splitlines()]
    bad = 0
    for (q, want), got in zip(pairs, answers, strict=True):
        what = wrong(q, want, got)
        if what:
            bad += 1
            print(f'{what}: {json.dumps(q)}\n  want {json.dumps(want)}\n  got  {json.dumps(got)}')
    print(f'{len(pairs)} runs, {bad} wrong')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())

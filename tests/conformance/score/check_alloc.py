#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `dray alloc --jsonl --policy first` on the upstream cases and probes (tests/data/alloc.tar.xz)."""
import json, os, re
from jsonl import Score, arguments, ask, read

SHARE = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'


def drop_empty(x):
    if isinstance(x, dict):
        x = {k: drop_empty(v) for k, v in x.items()}
        return {k: v for k, v in x.items() if v not in (None, [], {})}
    return [drop_empty(v) for v in x] if isinstance(x, list) else x


def normal(results, ordered):
    out = []
    for r in results or []:
        r = drop_empty(json.loads(re.sub(r'"shareID": "[^"]*"', f'"shareID": "{SHARE}"', json.dumps(r))))
        key = lambda v: json.dumps(v, sort_keys=True)
        if not ordered:
            if 'results' in r.get('devices', {}):
                r['devices']['results'].sort(key=key)
            for term in r.get('nodeSelector', {}).get('nodeSelectorTerms', []):
                for part in ('matchExpressions', 'matchFields'):
                    for q in term.get(part, []):
                        q.get('values', []).sort()
                    term.get(part, []).sort(key=key)
        out.append(r)
    return sorted(json.dumps(r, sort_keys=True) for r in out)


def document(c):
    keep = ('name', 'features', 'deviceClasses', 'claims', 'resourceSlices', 'node', 'nodes', 'allocated', 'allocatedClaims', 'timeoutMs')
    return {k: c[k] for k in keep if k in c}


def verdict_of(a):
    return (a or {}).get('verdict')


def cases(args, score):
    cs = read(os.path.join(args.data, 'cases.jsonl'))
    answers = ask(args, ['alloc', '--jsonl', '--policy', 'first'], [document(c) for c in cs])
    verdicts, results, errors = [], [], []
    for c, a in zip(cs, answers):
        want = 'error' if c.get('expectError') else ('allocated' if c.get('expectResults') else c.get('verdict'))
        got = verdict_of(a)
        label = f"{c['name']}: want {want}, got {json.dumps(a)}"
        # The dumped cases do not tell a node's error from a pod's; an empty question may be answered either way.
        verdicts.append((got == want or (want == 'error' and got == 'nodeError') or not c.get('claims'), label))
        if c.get('expectResults'):
            exact = all(c.get('expectExact') or [False])
            results.append((bool(a) and normal(a.get('results'), exact) == normal(c['expectResults'], exact),
                            f"{c['name']}: want {json.dumps(c['expectResults'])[:180]} got {json.dumps((a or {}).get('results'))[:180]}"))
        if c.get('expectError'):
            parts = c['expectError'] if isinstance(c['expectError'], list) else [c['expectError']]
            text = str((a or {}).get('error') or '')
            errors.append((all(p in text for p in parts), f"{c['name']}: want {parts} got {text}"))
    score.add('verdict cases', verdicts)
    score.add('result cases', results)
    score.add('error cases', errors)


def probes(args, score):
    ps = [p for p in read(os.path.join(args.data, 'probes.jsonl')) if (p.get('oracle') or {}).get('verdict') != 'panic' and not p['name'].startswith('bug-') and 'variant' not in p and not p['name'].endswith('-stable')]
    answers = ask(args, ['alloc', '--jsonl', '--policy', 'first'], [document(p) for p in ps])
    score.add('verdict probes', [(verdict_of(a) == p['oracle']['verdict'], f"{p['name']} ({p.get('what', '')}): want {p['oracle']['verdict']} got {json.dumps(a)}") for p, a in zip(ps, answers)])
    score.add('result probes', [(bool(a) and normal(a.get('results'), False) == normal(p['oracle']['results'], False), p['name'])
                                for p, a in zip(ps, answers) if p['oracle']['verdict'] == 'allocated'])


def random_problems(args, score):
    """Files NAME.jsonl[.gz] with NAME.ref.jsonl[.gz] under random/: problems of gen.py and upstream's answers."""
    folder = os.path.join(args.data, 'random')
    for f in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if '.ref.' in f or '.jsonl' not in f:
            continue
        docs, refs = read(os.path.join(folder, f)), read(os.path.join(folder, f.replace('.jsonl', '.ref.jsonl')))
        pairs = [(d, r) for d, r in zip(docs, refs) if r['verdict'] not in ('timeout', 'panic')]
        for policy in ('first', 'pack'):
            use = [(d, r) for d, r in pairs if policy == 'first' or not d.get('orderSensitive')]
            answers = ask(args, ['alloc', '--jsonl', '--policy', policy], [document(d) for d, _ in use])
            score.add(f'verdict random {policy} {f}', [(verdict_of(a) == r['verdict'], f"{d['name']}: want {r['verdict']} got {verdict_of(a)} {(a or {}).get('error')}") for (d, r), a in zip(use, answers)])
            if policy == 'first':
                score.add(f'result random {f}', [(bool(a) and normal(a.get('results'), False) == normal(r['results'], False), d['name'])
                                                 for (d, r), a in zip(use, answers) if r['verdict'] == 'allocated'])


if __name__ == '__main__':
    args = arguments('alloc', __doc__)
    score = Score(args)
    cases(args, score)
    probes(args, score)
    random_problems(args, score)
    score.end({'verdict': 100, 'result': 99.5, 'error': 97})

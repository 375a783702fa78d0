#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `dray validate --jsonl` on the validation cases (tests/data/validation.tar.xz)."""
import collections, glob, json, os
from jsonl import Score, arguments, ask, read


def pairs(causes, with_message=False):
    return collections.Counter((c.get('reason') or c.get('type'), c.get('field')) + ((c.get('message'),) if with_message else ()) for c in causes or [])


def request(c):
    return {k: c[k] for k in ('name', 'kind', 'apiVersion', 'op', 'features', 'old', 'new', 'in', 'user', 'emulationVersion') if k in c}


def unit(args, score):
    for path in sorted(glob.glob(os.path.join(args.data, '*.jsonl'))):
        cs = [c for c in read(path) if 'apiCauses' in c]
        if not cs:
            continue
        answers = ask(args, ['validate', '--jsonl'], [request(c) for c in cs])
        name = os.path.basename(path)[:-6]
        label = lambda c, a: f"{c['test']}/{c['name']}: want {json.dumps(c['apiCauses'])[:200]} got {json.dumps((a or {}).get('causes'))[:200]}"
        score.add(f'field {name}', [(a is not None and pairs(c['apiCauses']) == pairs(a.get('causes')), label(c, a)) for c, a in zip(cs, answers)])
        score.add(f'message {name}', [(a is not None and pairs(c['apiCauses'], True) == pairs(a.get('causes'), True), label(c, a)) for c, a in zip(cs, answers)])


def declarative(args, score):
    for path in sorted(glob.glob(os.path.join(args.data, 'declarative', '*.jsonl'))):
        cs = [c for c in read(path) if '$repeat(' not in json.dumps(c)]
        answers = ask(args, ['validate', '--jsonl'], [request(c) for c in cs])
        # Handwritten checks may add causes; every declarative error must be among ours.
        score.add(f'field declarative/{os.path.basename(path)[:-6]}',
                  [(a is not None and not pairs(c.get('actualErrors')) - pairs(a.get('causes')),
                    f"{c['apiVersion']} {c['name']}: want {json.dumps(c.get('actualErrors'))[:200]} got {json.dumps((a or {}).get('causes'))[:200]}") for c, a in zip(cs, answers)])

        # Not bounded: an object without declarative errors is normally accepted; look at the others.
        score.add(f'accepted declarative/{os.path.basename(path)[:-6]}',
                  [(a is not None and not a.get('causes'), f"{c['apiVersion']} {c['name']}: {json.dumps((a or {}).get('causes'))[:200]}") for c, a in zip(cs, answers) if not c.get('actualErrors')])


def clean(o):
    if isinstance(o, dict):
        o = {k: clean(v) for k, v in o.items()}
        return {k: v for k, v in o.items() if v not in (None, {}, []) and k != 'timeAdded'}
    return [clean(v) for v in o] if isinstance(o, list) else o


def strategy(args, score):
    for path in sorted(glob.glob(os.path.join(args.data, 'strategy', '*.jsonl'))):
        cs = [c for c in read(path) if not c.get('errors') and not c.get('user')]
        answers = ask(args, ['validate', '--jsonl'], [dict(request(c), new=c['in']) for c in cs])
        score.add(f'strategy {os.path.basename(path)[:-6]}', [(a is not None and clean(a.get('object')) == clean(c['out']), f"{c['name']}: want {json.dumps(c['out'])[:200]} got {json.dumps((a or {}).get('object'))[:200]}")
                                                              for c, a in zip(cs, answers)])


if __name__ == '__main__':
    args = arguments('validation', __doc__)
    score = Score(args)
    unit(args, score)
    declarative(args, score)
    strategy(args, score)
    score.end({'field': 99, 'message': 90, 'strategy': 95})

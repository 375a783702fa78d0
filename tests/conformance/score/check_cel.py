#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores `dray cel --jsonl` on the CEL cases (tests/data/cel.tar.xz)."""
import glob, json, math, os
from jsonl import Score, arguments, ask, read


def value(v):
    """cel-spec's protojson value in the value form of the cases."""
    if v is None:
        return None
    (k, x), = v.items() if len(v) == 1 else [next(iter(v.items()))]
    if k == 'int64Value': return {'int': str(x)}
    if k == 'uint64Value': return {'uint': str(x)}
    if k == 'doubleValue': return {'double': x}
    if k == 'stringValue': return {'string': x}
    if k == 'bytesValue': return {'bytes': x}
    if k == 'boolValue': return {'bool': x}
    if k == 'nullValue': return {'null': True}
    if k == 'typeValue': return {'type': x}
    if k == 'listValue': return {'list': [value(e) for e in x.get('values', [])]}
    if k == 'mapValue': return {'map': [[value(e['key']), value(e['value'])] for e in x.get('entries', [])]}
    return {k: x}


def number(x):
    return float(x) if not isinstance(x, str) else float({'Infinity': 'inf', '-Infinity': '-inf', 'NaN': 'nan'}.get(x, x))


def same(a, b):
    if not isinstance(a, dict) or not isinstance(b, dict):
        return a == b
    if set(a) != set(b):
        return False
    if 'double' in a:
        x, y = number(a['double']), number(b['double'])
        return x == y or (math.isnan(x) and math.isnan(y))
    if 'list' in a:
        return len(a['list']) == len(b['list']) and all(same(x, y) for x, y in zip(a['list'], b['list']))
    if 'map' in a:
        key = lambda e: json.dumps(e[0], sort_keys=True)
        x, y = sorted(a['map'], key=key), sorted(b['map'], key=key)
        return len(x) == len(y) and all(same(p[0], q[0]) and same(p[1], q[1]) for p, q in zip(x, y))
    return {k: str(v) for k, v in a.items()} == {k: str(v) for k, v in b.items()}


def spec(args, score):
    for path in sorted(glob.glob(os.path.join(args.data, 'spec', '*.jsonl'))):
        # Extension libraries have versions: only what Kubernetes' versions answer as the specification does.
        cases = [c for c in read(path) if not c['needsProto'] and (c['kubernetes'] or not c['file'].endswith('_ext'))]
        docs = [{'id': str(i), 'expr': c['expr'], 'env': 'generic', 'any': True, 'container': c['container'], 'typeEnv': c['typeEnv'],
                 'bindings': {k: value(v['value']) for k, v in c['bindings'].items()},
                 'disableMacros': c['disableMacros'], 'disableCheck': c['disableCheck']} for i, c in enumerate(cases)]
        out = []
        for c, a in zip(cases, ask(args, ['cel', '--jsonl'], docs)):
            e, ok = c['expected'], False
            if a:
                if 'evalError' in e:
                    ok = bool(a.get('evalError') or a.get('compileError'))
                else:
                    want = value(e['value']) if 'value' in e else value(e['typedResult'].get('result'))
                    ok = not a.get('compileError') and not a.get('evalError') and (want is None or same(a.get('value'), want))
            out.append((ok, f"{c['file']}/{c['section']}/{c['name']}: {c['expr']} -> {json.dumps(a)}"))
        score.add('spec ' + os.path.basename(path)[:-6], out)


def outcome(want, a, keys):
    """keys: which of value, match, error, cost, maxCost to compare."""
    if not a:
        return False
    werr = want.get('compileError') or want.get('programError') or None, want.get('evalError') or None
    aerr = a.get('compileError') or None, a.get('evalError') or None
    if 'error' in keys and [bool(x) for x in werr] != [bool(x) for x in aerr]:
        return False
    if 'value' in keys and not any(werr) and 'value' in want and not same(a.get('value'), want['value']):
        return False
    if 'match' in keys and not any(werr) and want.get('match') is not None and a.get('match') != want['match']:
        return False
    if 'cost' in keys and want.get('cost') is not None and not werr[0] and str(a.get('cost')) != str(want['cost']):
        return False
    if 'maxCost' in keys and want.get('maxCost') is not None and not werr[0] and str(a.get('maxCost')) != str(want['maxCost']):
        return False
    return True


def kubernetes(args, score):
    devices = {d['name']: d for d in read(os.path.join(args.data, 'sample_devices.jsonl'))}
    sets = {}
    for name in ('k8s_library_cases', 'k8s_cost_cases'):
        sets[name] = [({'expr': c['expr'], 'env': 'dra', 'any': True}, c['dra']) for c in read(os.path.join(args.data, name + '.jsonl')) if 'dra' in c]
    sets['k8s_function_cases'] = [(dict({'expr': c['expr'], 'env': 'dra', 'any': True}, **({'device': c['device']} if 'device' in c else {})), c) for c in read(os.path.join(args.data, 'k8s_function_cases.jsonl'))]
    sets['real_selectors'] = [({'expr': c['expr'], 'env': 'dra', 'device': devices[c['device']]}, c)
                              for c in read(os.path.join(args.data, 'real_selectors_eval.jsonl'))]
    for name, pairs in sets.items():
        docs = [dict(d, id=str(i)) for i, (d, _) in enumerate(pairs)]
        answers = ask(args, ['cel', '--jsonl'], docs)
        for what, keys in (('answer', ('value', 'match', 'error')), ('cost', ('cost',)), ('estimate', ('maxCost',))):
            score.add(f'k8s-{what} {name}', [(outcome(w, a, keys), f"{d['expr']} want {json.dumps({k: w.get(k) for k in ('value', 'match', 'compileError', 'evalError', 'cost', 'maxCost') if k in w})} got {json.dumps(a)}")
                                             for (d, w), a in zip(pairs, answers)])


if __name__ == '__main__':
    args = arguments('cel', __doc__)
    score = Score(args)
    spec(args, score)
    kubernetes(args, score)
    score.end({'spec': 99, 'k8s-answer': 99.5, 'k8s-cost': 99, 'k8s-estimate': 98})

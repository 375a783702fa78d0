#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `dray cel --jsonl` with an oracle on random expressions.

usage: cel_diff.py DRAY ORACLE [COUNT [SEED]]

The oracle is a program that reads {"expr","device","env","features","derived"} and prints
{"match","compileError","evalError","cost","maxCost"} line by line, made of Kubernetes' own code.
Differences in the answer (match, kind of error), the run-time cost and the estimate are printed.
"""
import json
import random
import subprocess
import sys

DEVICES = [
    {"driver": "gpu.example.com",
     "attributes": {"model": {"string": "A100"}, "index": {"int": 3}, "ecc": {"bool": True},
                    "version": {"version": "1.2.3"}, "links": {"strings": ["l0", "l1", "l2"]},
                    "nodes": {"ints": [0, 1]}, "flags": {"bools": [True, False]},
                    "vers": {"versions": ["1.0.0", "2.0.0-rc.1"]},
                    "other.example.com/name": {"string": "\u00e4\u00f6\u00fc-long-value-of-some-text"}},
     "capacity": {"memory": "80Gi", "cores": "108", "other.example.com/bw": "1500m"}},
    {"driver": "d", "allowMultipleAllocations": True},
    {"driver": "gpu.example.com", "attributes": {"model": {"int": 7}, "index": {"string": "x"}}},
]

STRINGS = ['""', '"a"', '"abc"', '"A100"', "'gpu.example.com'", '"l1"', '"1.2.3"', '"80Gi"', '"10.0.0.1"',
           '"10.0.0.0/8"', '"https://example.com:80/a?b=c"', '"\u00e4\u00f6\u00fc"', '"2009-02-13T23:31:30Z"', '"1h30m"',
           '"[a-z]+"', '"true"', '"12"', '"-3.5"', '"x y  z"', '"' + 'long' * 8 + '"']
INTS = ['0', '1', '-1', '2', '3', '100', '9223372036854775807', '-9223372036854775808']
UINTS = ['0u', '1u', '7u', '18446744073709551615u']
DOUBLES = ['0.0', '1.0', '-2.5', '1e10', '3.25']
BYTES = ["b'abc'", "b''", "b'\\xff\\x00'"]


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.vars = []

    def pick(self, *options):
        return self.r.choice(options)

    def expr(self, t, d):
        r = self.r
        if d <= 0:
            return self.leaf(t)
        if r.random() < 0.06:
            return f'({self.expr("bool", d - 1)} ? {self.expr(t, d - 1)} : {self.expr(t, d - 1)})'
        if r.random() < 0.05:
            v = f'v{len(self.vars)}'
            init_t = self.pick('int', 'string', 'list', 'bool', 'dyn')
            init = self.expr(init_t, d - 1)
            self.vars.append((v, init_t))
            body = self.expr(t, d - 1)
            self.vars.pop()
            return f'cel.bind({v}, {init}, {body})'
        if r.random() < 0.04 and t != 'dyn':
            o = self.opt(t, d - 1)
            return self.pick(f'{o}.orValue({self.expr(t, d - 1)})', f'{o}.value()')
        return getattr(self, 'gen_' + t)(d - 1)

    def leaf(self, t):
        r = self.r
        mine = [v for v, vt in self.vars if vt == t]
        if mine and r.random() < 0.6:
            return r.choice(mine)
        if t == 'bool':
            return self.pick('true', 'false', 'device.allowMultipleAllocations',
                             'device.attributes["gpu.example.com"].ecc', 'has(device.attributes["gpu.example.com"].index)',
                             'has(device.attributes.x)')
        if t == 'int':
            return self.pick(*INTS, 'device.attributes["gpu.example.com"].index')
        if t == 'uint':
            return r.choice(UINTS)
        if t == 'double':
            return r.choice(DOUBLES)
        if t == 'string':
            return self.pick(*STRINGS, 'device.driver', 'device.attributes["gpu.example.com"].model',
                             'device.attributes["other.example.com"].name')
        if t == 'bytes':
            return r.choice(BYTES)
        if t == 'list':
            return self.pick('[1, 2, 3]', '[]', '[0]', '[3, 1, 2, 1]', 'device.attributes["gpu.example.com"].nodes')
        if t == 'strlist':
            return self.pick('["a", "b", "c"]', '["x"]', 'device.attributes["gpu.example.com"].links', '["b", "a", "b"]')
        if t == 'map':
            return self.pick('{"a": 1, "b": 2}', '{"a": 1}', '{"x": 0, "a": 5, "b": 6}')
        if t == 'quantity':
            return self.pick('quantity("1")', 'quantity("40Gi")', 'quantity("1500m")', 'quantity("x")',
                             'device.capacity["gpu.example.com"].memory', 'device.capacity["other.example.com"].bw')
        if t == 'semver':
            return self.pick('semver("1.2.3")', 'semver("1.0.0-rc.1+b")', 'semver("v1", true)', 'semver("bad")',
                             'device.attributes["gpu.example.com"].version')
        if t == 'ip':
            return self.pick('ip("10.0.0.1")', 'ip("::1")', 'ip("bad")', 'cidr("10.0.0.0/8").ip()')
        if t == 'cidr':
            return self.pick('cidr("10.0.0.0/8")', 'cidr("2001:db8::/32")', 'cidr("10.1.2.3/24")', 'cidr("bad")')
        if t == 'url':
            return self.pick('url("https://example.com:80/a?b=c")', 'url("/p")', 'url("../x")')
        if t == 'duration':
            return self.pick('duration("1h30m")', 'duration("1.5s")', 'duration("0s")')
        if t == 'timestamp':
            return self.pick('timestamp("2009-02-13T23:31:30Z")', 'timestamp(0)', 'timestamp("2024-02-29T12:00:00.5+02:00")')
        if t == 'dyn':
            return self.pick('device.attributes["gpu.example.com"].model', 'device.attributes["gpu.example.com"].index',
                             'device.attributes["gpu.example.com"].links', 'device.attributes["gpu.example.com"].nope',
                             'device.attributes["gpu.example.com"].version', 'dyn(1)', 'dyn("a")', 'dyn([1])',
                             'device.attributes["none"]', 'dyn(null)', 'dyn(1.0)', 'dyn(1u)', 'dyn({"a": 1})')
        raise KeyError(t)

    def opt(self, t, d):
        if self.r.random() < 0.3:
            return self.pick('optional.none()', f'optional.of({self.expr(t, d)})', f'optional.ofNonZeroValue({self.expr(t, d)})')
        if t in ('int',):
            return self.pick(f'{self.expr("list", d)}[?{self.expr("int", d)}]', f'{self.expr("map", d)}[?{self.expr("string", d)}]',
                             f'{self.expr("map", d)}.?a', f'{self.expr("list", d)}.first()', f'{self.expr("list", d)}.last()')
        if t == 'string':
            return self.pick('device.attributes["gpu.example.com"].?model', 'device.attributes["other.example.com"].?name',
                             'device.attributes["zz"].?name', f'{self.expr("strlist", d)}[?{self.expr("int", d)}]')
        return f'optional.of({self.expr(t, d)})'

    def gen_bool(self, d):
        r, e = self.r, self.expr
        k = r.randrange(34)
        if k < 4:
            return f'({e("bool", d)} {self.pick("&&", "||")} {e("bool", d)})'
        if k == 4:
            return f'!{e("bool", 0)}' if r.random() < .5 else f'!({e("bool", d)})'
        if k < 9:
            t = self.pick('int', 'uint', 'double', 'string', 'bytes', 'duration', 'timestamp', 'bool')
            return f'({e(t, d)} {self.pick("<", "<=", ">", ">=", "==", "!=")} {e(t, d)})'
        if k < 12:
            t = self.pick('int', 'string', 'list', 'strlist', 'map', 'quantity', 'semver', 'ip', 'cidr', 'url', 'dyn', 'double')
            return f'({e(t, d)} {self.pick("==", "!=")} {e(t, d)})'
        if k == 12:
            return f'{e("string", d)}.{self.pick("startsWith", "endsWith", "contains", "matches")}({e("string", d)})'
        if k == 13:
            return f'({e("int", d)} in {e("list", d)})'
        if k == 14:
            return f'({e("string", d)} in {e("strlist", d)})'
        if k == 15:
            return f'({e("string", d)} in {e("map", d)})'
        if k < 19:
            v = f'x{len(self.vars)}'
            coll, t = self.pick(('list', 'int'), ('strlist', 'string'), ('map', 'string'))
            c = e(coll, d)
            self.vars.append((v, t))
            body = e('bool', d)
            self.vars.pop()
            return f'{c}.{self.pick("all", "exists", "exists_one")}({v}, {body})'
        if k == 19:
            v, w = f'i{len(self.vars)}', f'j{len(self.vars)}'
            coll, t1, t2 = self.pick(('list', 'int', 'int'), ('map', 'string', 'int'), ('strlist', 'int', 'string'))
            c = e(coll, d)
            self.vars += [(v, t1), (w, t2)]
            body = e('bool', d)
            del self.vars[-2:]
            return f'{c}.{self.pick("all", "exists", "existsOne")}({v}, {w}, {body})'
        if k == 20:
            return f'{e("quantity", d)}.{self.pick("isLessThan", "isGreaterThan")}({e("quantity", d)})'
        if k == 21:
            return f'{e("semver", d)}.{self.pick("isLessThan", "isGreaterThan")}({e("semver", d)})'
        if k == 22:
            return f'{self.pick("isQuantity", "isIP", "isCIDR", "isURL", "isSemver")}({e("string", d)})'
        if k == 23:
            return f'{e("cidr", d)}.{self.pick("containsIP", "containsCIDR")}({e(self.pick("ip", "cidr", "string"), d)})'
        if k == 24:
            return f'{e("ip", d)}.{self.pick("isLoopback", "isUnspecified", "isGlobalUnicast", "isLinkLocalUnicast")}()'
        if k == 25:
            return f'sets.{self.pick("contains", "intersects", "equivalent")}({e("list", d)}, {e("list", d)})'
        if k == 26:
            return f'{e(self.pick("list", "strlist"), d)}.isSorted()'
        if k == 27:
            return f'{self.opt(self.pick("int", "string"), d)}.hasValue()'
        if k == 28:
            return f'has({e("map", d)}.{self.pick("a", "b", "zz")})'
        if k == 29:
            return f'{e("dyn", d)}.includes({e("dyn", d)})'
        if k == 30:
            return f'({e("dyn", d)} {self.pick("<", "==", "!=", ">=")} {e(self.pick("dyn", "int", "string"), d)})'
        if k == 31:
            return f'format.dns1123Label().validate({e("string", d)}).hasValue()'
        if k == 32:
            return f'(type({e("dyn", d)}) == {self.pick("int", "string", "list", "map", "bool")})'
        return f'bool({e("string", d)})'

    def gen_int(self, d):
        e, k = self.expr, self.r.randrange(20)
        if k < 5:
            return f'({e("int", d)} {self.pick("+", "-", "*", "/", "%")} {e("int", d)})'
        if k < 8:
            t = self.pick('string', 'bytes', 'list', 'map', 'strlist', 'dyn')
            return self.pick(f'size({e(t, d)})', f'{e(t, d)}.size()')
        if k == 8:
            return f'int({e(self.pick("double", "uint", "string", "duration", "timestamp", "dyn"), d)})'
        if k == 9:
            return f'{e("list", d)}[{e("int", d)}]'
        if k == 10:
            return self.pick(f'{e("map", d)}.a', f'{e("map", d)}[{e("string", d)}]')
        if k == 11:
            return f'{e("list", d)}.{self.pick("sum", "max", "min")}()'
        if k == 12:
            return f'{e("string", d)}.{self.pick("indexOf", "lastIndexOf")}({e("string", d)})'
        if k == 13:
            return f'{e("list", d)}.{self.pick("indexOf", "lastIndexOf")}({e("int", d)})'
        if k == 14:
            return f'{e("quantity", d)}.{self.pick("asInteger()", "compareTo(" + e("quantity", d) + ")")}'
        if k == 15:
            return f'{e("semver", d)}.{self.pick("major()", "minor()", "patch()", "compareTo(" + e("semver", d) + ")")}'
        if k == 16:
            return f'{e("timestamp", d)}.{self.pick("getFullYear", "getMonth", "getHours", "getDayOfWeek", "getDayOfYear")}({self.pick("", chr(34) + "Europe/Berlin" + chr(34), chr(34) + "-02:30" + chr(34))})'
        if k == 17:
            return f'{e("duration", d)}.{self.pick("getHours", "getMinutes", "getSeconds", "getMilliseconds")}()'
        if k == 18:
            return f'sign({e("quantity", d)})'
        return f'-({e("int", d)})'

    def gen_uint(self, d):
        e = self.expr
        return self.pick(f'({e("uint", d)} {self.pick("+", "-", "*", "/", "%")} {e("uint", d)})', f'uint({e("int", d)})')

    def gen_double(self, d):
        e = self.expr
        return self.pick(f'({e("double", d)} {self.pick("+", "-", "*", "/")} {e("double", d)})', f'double({e("int", d)})',
                         f'{e("quantity", d)}.asApproximateFloat()')

    def gen_string(self, d):
        e, k = self.expr, self.r.randrange(14)
        if k < 2:
            return f'({e("string", d)} + {e("string", d)})'
        if k == 2:
            return f'string({e(self.pick("int", "uint", "double", "bool", "bytes", "duration", "timestamp", "ip"), d)})'
        if k == 3:
            return f'{e("string", d)}.{self.pick("lowerAscii()", "upperAscii()", "trim()")}'
        if k == 4:
            return f'{e("string", d)}.substring({e("int", d)})'
        if k == 5:
            return f'{e("string", d)}.replace({e("string", d)}, {e("string", d)})'
        if k == 6:
            return f'{e("strlist", d)}.join({e("string", d)})'
        if k == 7:
            return f'{e("strlist", d)}[{e("int", d)}]'
        if k == 8:
            return f'{e("string", d)}.charAt({e("int", d)})'
        if k == 9:
            return f'{e("string", d)}.find({self.pick(*[s for s in STRINGS])})'
        if k == 10:
            return f'strings.quote({e("string", d)})'
        if k == 11:
            return f'"%s-%d".format([{e("string", d)}, {e("int", d)}])' if self.r.random() < .3 else f'"%s".format([{e("string", d)}])'
        if k == 12:
            return f'{e("url", d)}.{self.pick("getHost", "getPort", "getScheme", "getEscapedPath", "getHostname")}()'
        return f'{e("string", d)}.substring({e("int", d)}, {e("int", d)})'

    def gen_bytes(self, d):
        e = self.expr
        return self.pick(f'({e("bytes", d)} + {e("bytes", d)})', f'bytes({e("string", d)})')

    def gen_list(self, d):
        e, k = self.expr, self.r.randrange(12)
        if k == 0:
            return f'({e("list", d)} + {e("list", d)})'
        if k < 4:
            v = f'y{len(self.vars)}'
            c = e('list', d)
            self.vars.append((v, 'int'))
            body, cond = e('int', d), e('bool', d)
            self.vars.pop()
            return self.pick(f'{c}.map({v}, {body})', f'{c}.filter({v}, {cond})', f'{c}.map({v}, {cond}, {body})')
        if k == 4:
            return f'[{e("int", d)}, {e("int", d)}]'
        if k == 5:
            return f'{e("list", d)}.{self.pick("reverse()", "distinct()", "sort()")}'
        if k == 6:
            return f'{e("list", d)}.slice({e("int", d)}, {e("int", d)})'
        if k == 7:
            return f'lists.range({self.pick("0", "1", "5", "-1", "100")})'
        if k == 8:
            return f'[{e("list", d)}, {e("list", d)}].flatten()'
        if k == 9:
            v, w = f'i{len(self.vars)}', f'j{len(self.vars)}'
            c = e('list', d)
            self.vars += [(v, 'int'), (w, 'int')]
            body = e('int', d)
            del self.vars[-2:]
            return f'{c}.transformList({v}, {w}, {body})'
        if k == 10:
            v = f's{len(self.vars)}'
            c = e('list', d)
            self.vars.append((v, 'int'))
            body = e('int', d)
            self.vars.pop()
            return f'{c}.sortBy({v}, {body})'
        return f'[?{self.opt("int", d)}, {e("int", d)}]'

    def gen_strlist(self, d):
        e = self.expr
        return self.pick(f'{e("string", d)}.split({e("string", d)})', f'[{e("string", d)}, {e("string", d)}]',
                         f'({e("strlist", d)} + {e("strlist", d)})', f'{e("string", d)}.findAll({self.pick(*STRINGS)})',
                         f'{e("strlist", d)}.sort()')

    def gen_map(self, d):
        e = self.expr
        k = self.r.randrange(4)
        if k == 0:
            return f'{{"a": {e("int", d)}, "b": {e("int", d)}}}'
        if k == 1:
            v, w = f'i{len(self.vars)}', f'j{len(self.vars)}'
            c = e('map', d)
            self.vars += [(v, 'string'), (w, 'int')]
            body = e('int', d)
            del self.vars[-2:]
            return f'{c}.transformMap({v}, {w}, {body})'
        if k == 2:
            return f'{{{e("string", d)}: {e("int", d)}}}'
        return f'{{?"a": {self.opt("int", d)}}}'

    def gen_quantity(self, d):
        e = self.expr
        return self.pick(f'{e("quantity", d)}.{self.pick("add", "sub")}({e(self.pick("quantity", "int"), d)})', f'quantity({e("string", d)})')

    def gen_semver(self, d):
        return f'semver({self.expr("string", d)})'

    def gen_ip(self, d):
        return f'ip({self.expr("string", d)})'

    def gen_cidr(self, d):
        return f'{self.expr("cidr", d)}.masked()'

    def gen_url(self, d):
        return f'url({self.expr("string", d)})'

    def gen_duration(self, d):
        e = self.expr
        return self.pick(f'({e("duration", d)} + {e("duration", d)})', f'({e("timestamp", d)} - {e("timestamp", d)})', f'duration({e("string", d)})')

    def gen_timestamp(self, d):
        e = self.expr
        return self.pick(f'({e("timestamp", d)} {self.pick("+", "-")} {e("duration", d)})', f'timestamp({e(self.pick("string", "int"), d)})')

    def gen_dyn(self, d):
        return f'dyn({self.expr(self.pick("int", "string", "list", "bool", "double", "map", "dyn"), d)})'


def run(cmd, docs):
    p = subprocess.run(cmd, input='\n'.join(map(json.dumps, docs)) + '\n', capture_output=True, text=True)
    return [json.loads(x) for x in p.stdout.splitlines()]


def iterates_map(expr):
    """The order of maps is random upstream: early exits cost what they cost."""
    return '{' in expr and any(w in expr for w in ('.all(', '.exists(', 'exists_one(', 'existsOne(', '.transformMap('))


def compare(doc, want, got):
    if want.get('evalError', '').startswith('PANIC'):
        return None
    kinds = [bool(want.get(k)) for k in ('compileError', 'evalError')]
    mine = [bool(got.get(k)) for k in ('compileError', 'evalError')]
    if kinds != mine:
        return 'answer'
    if not any(kinds) and want.get('match') != got.get('match'):
        return 'answer'
    if kinds[0]:
        return None
    est = {'max': '18446744073709551615'}.get(want.get('maxCost'), want.get('maxCost'))
    if est is not None and str(got.get('maxCost')) != est:
        return 'estimate'
    if want.get('cost') is not None and got.get('cost') != want['cost'] and not iterates_map(doc['expr']):
        return 'cost'
    return None


def main():
    dray, oracle = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    gen, bad, done = Gen(seed), {}, 0
    while done < count:
        docs = []
        for _ in range(min(5000, count - done)):
            doc = {'expr': gen.expr('bool', gen.r.choice((1, 2, 2, 3, 3, 4))), 'device': gen.r.choice(DEVICES)}
            if gen.r.random() < 0.1:
                doc['env'] = 'new'
                doc['features'] = {'consumableCapacity': gen.r.random() < .5, 'listTypeAttributes': gen.r.random() < .5}
            docs.append(doc)
        wants, gots = run([oracle], docs), run([dray, 'cel', '--jsonl'], docs)
        if len(wants) != len(docs) or len(gots) != len(docs):
            print(f'lost answers: oracle {len(wants)}, dray {len(gots)} of {len(docs)}')
            return 1
        for doc, want, got in zip(docs, wants, gots):
            what = compare(doc, want, got)
            if what:
                bad.setdefault(what, []).append((doc, want, got))
        done += len(docs)
    for what, items in bad.items():
        print(f'{what}: {len(items)}')
        for doc, want, got in sorted(items, key=lambda x: len(x[0]['expr']))[:15]:
            print('  ', doc['expr'], doc.get('env', ''), doc.get('features', ''), DEVICES.index(doc['device']))
            print('      want', {k: str(want[k])[:150] for k in ('match', 'compileError', 'evalError', 'cost', 'maxCost') if want.get(k) is not None})
            print('      got ', {k: str(got[k])[:150] for k in ('match', 'compileError', 'evalError', 'cost', 'maxCost') if got.get(k) is not None})
    print(f'{done} expressions, {sum(map(len, bad.values()))} differences')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())

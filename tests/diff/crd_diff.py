#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Definitions and objects at random, made from a seed: does dray prune, default, validate and refuse as kube-apiserver does?

usage: crd_diff.py DRAY                     compares with the answers in tests/diff/crd_answers.jsonl.gz
       crd_diff.py --record URL TOKEN       asks a kube-apiserver and writes that file
       crd_diff.py --show N DRAY            one case, both answers"""
import gzip, http.client, json, os, random, re, shutil, signal, socket, ssl, subprocess, sys, tempfile, time, urllib.parse

ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'crd_answers.jsonl.gz')
SEED, DEFINITIONS, OBJECTS = 37, 120, 12
CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
WORDS = ['a', 'bb', 'c-c', 'd.d', 'Eve', 'fox', '']
FORMATS = ['date-time', 'date', 'ipv4', 'ipv6', 'cidr', 'uuid', 'byte', 'hostname', 'duration', 'email', 'uri', 'mac', 'k8s-short-name', 'strange']
TEXTS = ['', 'a', 'bb', 'abc', 'ABC', 'x' * 12, '1', '10.0.0.1', '::1', '10.0.0.0/8', '2026-01-02', '2026-01-02T03:04:05Z', '2026-13-02',
         '123e4567-e89b-12d3-a456-426614174000', 'aGk=', 'a.b-c.d', '5m', '1h2x', 'me@example.com', 'https://a.b/c', '00:11:22:33:44:55', 'ünï', '-x']


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def scalar(self):
        r = self.r
        kind = r.choice(['string', 'string', 'integer', 'number', 'boolean', 'port'])
        if kind == 'port':
            return {'x-kubernetes-int-or-string': True, **({'anyOf': [{'type': 'integer'}, {'type': 'string'}]} if r.random() < 0.5 else {})}
        s = {'type': kind}
        if kind == 'string':
            if r.random() < 0.25:
                s['format'] = r.choice(FORMATS)
            elif r.random() < 0.3:
                s['pattern'] = r.choice(['^[a-z]+$', 'b', '^x{3,}', r'^\d*$'])
            elif r.random() < 0.3:
                s['enum'] = r.sample(['a', 'bb', 'abc', '1'], 2)
            if r.random() < 0.3:
                s['minLength'] = r.randint(0, 3)
            if r.random() < 0.3:
                s['maxLength'] = r.randint(2, 10)
        if kind in ('integer', 'number'):
            if r.random() < 0.4:
                s['minimum'] = r.choice([0, 1, -5, 2.5 if kind == 'number' else 2])
                if r.random() < 0.3:
                    s['exclusiveMinimum'] = True
            if r.random() < 0.4:
                s['maximum'] = r.choice([10, 100, 7.25 if kind == 'number' else 7])
                if r.random() < 0.3:
                    s['exclusiveMaximum'] = True
            if r.random() < 0.2:
                s['multipleOf'] = r.choice([2, 5, 0.5 if kind == 'number' else 3])
            if r.random() < 0.2:
                s['format'] = r.choice(['int32', 'int64'] if kind == 'integer' else ['float', 'double'])
            if r.random() < 0.15:
                s['enum'] = [1, 2, 3]
        if r.random() < 0.15:
            s['nullable'] = True
        if r.random() < 0.3:
            s['default'] = self.value(s, good=r.random() < 0.9)
        return s

    def schema(self, depth):
        r = self.r
        kind = r.choice(['scalar', 'scalar', 'object', 'map', 'list', 'set', 'maplist', 'free']) if depth else 'scalar'
        if kind == 'scalar':
            return self.scalar()
        if kind == 'object':
            return self.object(depth - 1)
        if kind == 'map':
            s = {'type': 'object', 'additionalProperties': self.schema(depth - 1)}
            s['additionalProperties'].pop('default', None)
            if r.random() < 0.3:
                s['maxProperties'] = 2
            if r.random() < 0.2:
                s['minProperties'] = 1
            return s
        if kind == 'free':
            return {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True, **({'properties': {'known': self.scalar()}} if r.random() < 0.5 else {})}
        s = {'type': 'array'}
        if kind == 'set':
            s['x-kubernetes-list-type'] = 'set'
            s['items'] = {'type': r.choice(['string', 'integer'])}
        elif kind == 'maplist':
            s['x-kubernetes-list-type'] = 'map'
            s['x-kubernetes-list-map-keys'] = ['name']
            s['items'] = self.object(depth - 1)
            s['items'].pop('nullable', None)
            s['items'].setdefault('properties', {})['name'] = {'type': 'string'}
            s['items']['required'] = sorted(set(s['items'].get('required', []) + ['name']))
        else:
            s['items'] = self.schema(depth - 1)
        if r.random() < 0.3:
            s['maxItems'] = r.randint(1, 3)
        if r.random() < 0.2:
            s['minItems'] = 1
        return s

    def object(self, depth):
        r = self.r
        names = r.sample(['alpha', 'beta', 'gamma', 'delta', 'in', 'x-y'], r.randint(1, 4))
        s = {'type': 'object', 'properties': {n: self.schema(depth) for n in names}}
        if r.random() < 0.3:
            s['required'] = r.sample(names, 1)
        if r.random() < 0.1:
            s['nullable'] = True
        if r.random() < 0.25:
            s[r.choice(['anyOf', 'oneOf', 'allOf'])] = [{'required': [n]} for n in r.sample(names, min(2, len(names)))]
        if r.random() < 0.1:
            s['not'] = {'required': [r.choice(names)]}
        if r.random() < 0.3:
            s['x-kubernetes-validations'] = [self.rule(s, names)]
        return s

    def rule(self, s, names):
        r = self.r
        n = r.choice(names)
        spelt = {'in': '__in__', 'x-y': 'x__dash__y'}.get(n, n)
        p = s['properties'][n]
        if p.get('type') == 'integer':
            text = r.choice([f'!has(self.{spelt}) || self.{spelt} < 50', f'self.{spelt} != 3'])
        elif p.get('type') == 'string' and 'format' not in p:
            text = r.choice([f'!has(self.{spelt}) || self.{spelt}.size() < 4', f'self.{spelt}.startsWith("a")'])
        elif p.get('type') == 'array':
            text = f'!has(self.{spelt}) || size(self.{spelt}) < 2'
        else:
            text = f'has(self.{spelt})'
        rule = {'rule': text}
        if r.random() < 0.5:
            rule['message'] = 'it is not right'
        if r.random() < 0.3:
            rule['reason'] = r.choice(['FieldValueInvalid', 'FieldValueForbidden', 'FieldValueRequired'])
        if r.random() < 0.2:
            rule['messageExpression'] = '"the rule of " + string(1 + 1)'
        return rule

    def spoil(self, s):
        """Something no definition may have, at a random place."""
        r = self.r
        places = []

        def walk(n):
            places.append(n)
            for p in n.get('properties', {}).values():
                walk(p)
            for k in ('items', 'additionalProperties'):
                if isinstance(n.get(k), dict):
                    walk(n[k])
        walk(s['properties']['spec'])
        n = r.choice(places)
        r.choice([lambda: n.pop('type', None), lambda: n.update(type='strange'), lambda: n.update({'$ref': '#/a'}), lambda: n.update(uniqueItems=True),
                  lambda: n.update({'x-kubernetes-list-type': 'bag'}), lambda: n.update(pattern='('), lambda: n.update(default={'q': 1}),
                  lambda: n.update({'x-kubernetes-preserve-unknown-fields': False}), lambda: n.update(allOf=[{'type': 'string'}]),
                  lambda: n.update(anyOf=[{'properties': {'zz': {'minimum': 1}}}]), lambda: n.update({'x-kubernetes-embedded-resource': True}),
                  lambda: n.update({'x-kubernetes-validations': [{'rule': 'self.zz == 1'}]}), lambda: n.update(items={'type': 'string'}, type='array', nullable=True),
                  lambda: n.update({'x-kubernetes-validations': [{'rule': ' '}]}), lambda: n.update({'x-kubernetes-map-type': 'atomic'})])()

    def value(self, s, good=None):
        r = self.r
        if good is None:
            good = r.random() < 0.8
        if not good and r.random() < 0.7:
            return r.choice([None, True, 5, -3, 2.5, 'text', [], {}, ['a', 'a'], {'k': 'v'}, [{'name': 'a'}, {'name': 'a'}], 1e10, 3.0])
        if s.get('x-kubernetes-int-or-string'):
            return r.choice([1, 'one'])
        if 'enum' in s and r.random() < 0.8:
            return r.choice(s['enum'])
        kind = s.get('type')
        if kind == 'string':
            return r.choice(TEXTS)
        if kind == 'integer':
            return r.choice([0, 1, 2, 3, 5, 6, 7, 10, 11, 100, -5, 49, 50, 3000000000])
        if kind == 'number':
            return r.choice([0, 1, 2.5, 7.25, 10, 0.5, 1.1, 1e21, -5, 1e39])
        if kind == 'boolean':
            return r.random() < 0.5
        if kind == 'array':
            return [self.value(s['items']) for _ in range(r.randint(0, 3))]
        o = {}
        for n, p in s.get('properties', {}).items():
            if r.random() < 0.7:
                o[n] = self.value(p)
        if isinstance(s.get('additionalProperties'), dict):
            for n in r.sample(['k1', 'k2', 'k3'], r.randint(0, 3)):
                o[n] = self.value(s['additionalProperties'])
        if r.random() < 0.2:
            o['unknown'] = r.choice([1, {'deep': 1}, ['x']])
        return o


def cases():
    """(number, definition, objects): the same for everyone."""
    for i in range(DEFINITIONS):
        m = Maker(SEED * 1000 + i)
        schema = {'type': 'object', 'properties': {'spec': m.object(2)}}
        if i % 3 == 2:
            m.spoil(schema)
        plural, kind = f'things{i}', f'Thing{i}'
        crd = {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': f'{plural}.diff.example.com'},
               'spec': {'group': 'diff.example.com', 'scope': 'Cluster', 'names': {'plural': plural, 'kind': kind},
                        'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': schema}}]}}
        objects = [{'apiVersion': 'diff.example.com/v1', 'kind': kind, 'metadata': {'name': f'o{k}'}, 'spec': m.value(schema['properties']['spec'], True)}
                   for k in range(OBJECTS)]
        yield i, crd, objects


class Peer:
    def __init__(self, url=None, token=None, sock=None):
        self.url, self.token, self.sock, self.c = url, token, sock, None

    def connect(self):
        if self.sock:
            self.c = http.client.HTTPConnection('localhost', timeout=120)
            self.c.sock = socket.socket(socket.AF_UNIX)
            self.c.sock.connect(self.sock)
        else:
            u = urllib.parse.urlparse(self.url)
            self.c = http.client.HTTPSConnection(u.hostname, u.port, timeout=120, context=ssl._create_unverified_context())

    def call(self, method, path, body=None):
        if not self.c:
            self.connect()
        h = {'Content-Type': 'application/json', **({'Authorization': f'Bearer {self.token}'} if self.token else {})}
        self.c.request(method, path, json.dumps(body) if body is not None else None, h)
        a = self.c.getresponse()
        text = a.read()
        return a.status, json.loads(text) if text[:1] == b'{' else text.decode()


def causes(e):
    """What is compared of a refusal: fields, reasons and messages, where these are not a library's prose."""
    out = []
    for c in e.get('details', {}).get('causes', []):
        message = re.sub(r'^(Invalid value: )\{.*\}(: )', r'\1{...}\2', c['message'], flags=re.S)
        if 'compilation failed' in message or 'regular expression' in message:
            message = message.split(':')[0]
        out.append([c.get('field', ''), c['reason'], message])
    return sorted(map(list, {tuple(x) for x in out}))


def run(peer, crd, objects):
    code, o = peer.call('POST', CRDS, crd)
    row = {'definition': [code, causes(o) if code != 201 else []], 'objects': []}
    if code != 201:
        return row
    name, path = crd['metadata']['name'], f'/apis/diff.example.com/v1/{crd["spec"]["names"]["plural"]}'
    end = time.monotonic() + 60
    while time.monotonic() < end and peer.call('GET', path)[0] != 200:
        time.sleep(0.02)
    for object in objects:
        code, o = peer.call('POST', path, object)
        row['objects'].append([code, o.get('spec') if code == 201 else causes(o)])
    peer.call('DELETE', f'{CRDS}/{name}')
    return row


def record(url, token):
    peer = Peer(url, token)
    with gzip.GzipFile(ANSWERS, 'wb', mtime=0) as f:
        for i, crd, objects in cases():
            f.write((json.dumps(run(peer, crd, objects), sort_keys=True) + '\n').encode())
    return 0


def start(dray):
    top = tempfile.mkdtemp(prefix='dray-crddiff-')
    folder = os.path.join(top, 'data')
    process = subprocess.Popen([dray, 'server', '--data-dir', folder, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE,
                               stderr=open(os.path.join(top, 'log'), 'wb'), text=True)
    assert 'ready at' in process.stdout.readline(), open(os.path.join(top, 'log')).read()
    return top, process, Peer(sock=os.path.join(folder, 'dray.sock'))


def same(a, b):
    # 1 and 1.0 are one number, as JSON has them.
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def compare(dray, only=None):
    want = [json.loads(line) for line in gzip.open(ANSWERS)]
    top, process, peer = start(dray)
    different = rows = 0
    try:
        for i, crd, objects in cases():
            if only is not None and i != only:
                continue
            got = run(peer, crd, objects)
            rows += 1 + len(want[i]['objects'])
            # What a rule may cost is not estimated here; it is bounded when it runs.
            if want[i]['definition'][1] and all('cost' in c[2] for c in want[i]['definition'][1]):
                continue
            if not same(got['definition'], want[i]['definition']):
                different += 1
                print(f'definition {i}: {json.dumps(crd["spec"]["versions"][0]["schema"])[:600]}\n  want {want[i]["definition"]}\n  got  {got["definition"]}')
                continue
            for k, (w, g) in enumerate(zip(want[i]['objects'], got['objects'])):
                if same(w, g):
                    continue
                different += 1
                print(f'object {i}/{k}: {json.dumps(objects[k]["spec"])[:400]}\n  want {json.dumps(w)[:800]}\n  got  {json.dumps(g)[:800]}')
            if only is not None:
                print(json.dumps(crd, indent=1))
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
        shutil.rmtree(top)
    print(f'{rows} rows, {different} differences')
    return 1 if different or code else 0


if __name__ == '__main__':
    if sys.argv[1] == '--record':
        sys.exit(record(sys.argv[2], sys.argv[3]))
    if sys.argv[1] == '--show':
        sys.exit(compare(sys.argv[3], int(sys.argv[2])))
    sys.exit(compare(sys.argv[1]))

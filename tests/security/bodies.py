#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: no object, parameter or expression that a client sends takes more of the server than its size warrants: large and deep bodies, millions of keys, bombs,
opaque parameters of drivers, CEL that would run for ever; nor do thousands of watches of one user. Another user is served all the while. Usage: bodies.py DRAY"""
import concurrent.futures, gzip, json, os, struct, time, urllib.request
from kit import ROOT, TLS, DATA, DRA, DRAY, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, Cluster, frame, request_headers, until

SANITIZED = b'__asan_init' in open(DRAY, 'rb').read()
MAPS = '/api/v1/namespaces/default/configmaps'
CLAIMS = DRA + '/namespaces/default/resourceclaims'
MIB = 1024
slowest = 0


def timed(c, *args, **more):
    """A request, and what it cost: nothing here may take seconds of the server's one thread."""
    global slowest
    began = c.cpu_s()
    code, text = c.call(*args, **more)
    took = c.cpu_s() - began
    slowest = max(slowest, took)
    assert took < (60 if SANITIZED else 15), (args[:2], took)
    assert code != 500 and (code < 500 or code == 503), (args[:2], code, text[:300])
    return code, text


def bounded(c, what, most_mib, fn):
    before = c.memory_kib()
    fn()
    c.alive()
    grown = (c.memory_kib() - before) // MIB
    assert grown < most_mib * (4 if SANITIZED else 1), f'{what}: {grown} MiB more'


def bounded_all_the_time(c, what, most_mib, fn):
    """… also while it is under way."""
    c.forget_peak()
    before = c.memory_kib()
    bounded(c, what, most_mib, fn)
    grown = (c.peak_kib() - before) // MIB
    assert grown < most_mib * (2 if SANITIZED else 1), f'{what}: {grown} MiB more for a while'


def bodies(c):
    def post(body, code, path=MAPS, **more):
        got, text = timed(c, 'POST', path, body, **more)
        assert got in (code if isinstance(code, tuple) else (code,)), (path, body[:60], got, text[:300])
        return text
    text = lambda n: json.dumps({'metadata': {'name': 'x'}, 'data': {'k': 'y' * n}}).encode()
    post(text(1500000), 422)  # as upstream: more than a map may have
    post(text(3 << 20), 413)
    for deep in (b'{"metadata":{"name":"x"},"data":' + b'[' * 1500000, b'{"a":' * 500000, b'[' * 3000000, b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 200000 + b'1' + b'}' * 200001):
        post(deep, 400)
    keys = b','.join(b'"k%d":"v"' % i for i in range(200000))
    post(b'{"metadata":{"name":"x","labels":{' + keys + b'}}}', (201, 422))
    c.call('DELETE', MAPS + '/x')
    post(b'{"metadata":{"name":"keys"},"data":{' + keys[:900000].rsplit(b',', 1)[0] + b'}}', (201, 422))
    post(b'{' + keys + b'}', (400, 422))
    post(b'{"metadata":{"name":"x"},"data":{' + b'"k":"v",' * 300000 + b'"k":"v"}}', (201, 400, 422))
    post(b'{"metadata":{"name":"f","finalizers":[' + b'"a/b",' * 300000 + b'"a/b"]}}', (201, 400, 422))
    for junk in (b'', b'null', b'[]', b'"x"', b'1', b'\xff\xfe{}', b'{"metadata":{"name":"\xed\xa0\x80"}}', b'{"metadata":{"name":"x\\u0000y"}}', b'{"metadata":{"name":1e999}}', b'\x00' * 100000, b'{"metadata":' + b' ' * 2000000 + b'}', b'NaN'):
        post(junk, (400, 422))
    # Compressed bodies are not taken: there are none that are larger than they look.
    post(gzip.compress(bytes(300 << 20), 1), (400, 415, 413), headers=[('Content-Encoding', 'gzip')])
    bomb = b'a: &a [x,x,x,x,x,x,x,x,x]\n' + b''.join(b'%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n' % ((b + 1, b + 1) + (b,) * 8) for b in range(97, 110))
    post(bomb, 400, kind='application/yaml')
    post(b'k8s\x00' + b'\x0a\xff\xff\xff\xff\x0f' + bytes(1000), 400, kind='application/vnd.kubernetes.protobuf')
    # A patch of many steps, and one that copies itself larger with each.
    c.good('POST', MAPS, {'metadata': {'name': 'p'}, 'data': {'a': 'x' * 1000}})
    grow = [{'op': 'copy', 'from': '/data', 'path': '/data/' + str(i)} for i in range(30)]
    for patch in (grow, [{'op': 'test', 'path': '/data/a', 'value': 'x'}] * 10001, [{'op': 'add', 'path': '/' + 'a/' * 50000, 'value': 1}], [{'op': 'copy', 'from': '/data/a', 'path': f'/data/k{i}'} for i in range(9000)]):
        code, answer = timed(c, 'PATCH', MAPS + '/p', patch, kind='application/json-patch+json')
        assert code in (400, 413, 422), (patch[:1], code, answer[:200])


def lists(c):
    """Lists of an object that are checked against each other: the cost grows with their length, not with its square or cube."""
    def filled(share, make):
        all, size = [], 0
        while size < 2_900_000 * share:
            all.append(make(len(all)))
            size += len(json.dumps(all[-1])) + 2
        return all

    def pod(container=None, **spec):
        return {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': 'c', 'image': 'i', **(container or {})}], **spec}}

    def post(body, path='/api/v1/namespaces/default/pods'):
        code, text = timed(c, 'POST', path + '?dryRun=All', body)
        assert code in (201, 422), (code, text[:300])
    folder = {'name': 'v', 'emptyDir': {}}
    mounts = filled(.5, lambda i: {'name': 'v', 'mountPath': f'/{i}'})
    devices = filled(.5, lambda i: {'name': f'{i}', 'devicePath': f'/d{i}'})
    post(pod({'volumeMounts': mounts, 'volumeDevices': devices}, volumes=[folder]))
    post(pod(volumes=filled(.4, lambda i: {'name': f'v{i}', 'persistentVolumeClaim': {'claimName': f'c{i}'}}) + filled(.6, lambda i: {
        'name': f'e{i}', 'ephemeral': {'volumeClaimTemplate': {'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1'}}}}}})))
    post(pod({'env': filled(.6, lambda i: {'name': f'E{i}', 'valueFrom': {'fileKeyRef': {'volumeName': 'v1', 'path': 'a', 'key': 'a'}}})},
             volumes=filled(.4, lambda i: {'name': f'v{i}', 'emptyDir': {}})))
    post(pod({'resources': {'limits': {f'e.com/r{i}': '1' for i in range(120000)}}}))
    post({'metadata': {'name': 'm'}, 'data': {f'k{i}': '' for i in range(80000)}, 'binaryData': {f'l{i}': '' for i in range(80000)}}, MAPS)
    post({'metadata': {'name': 's'}, 'spec': {
        'serviceName': 's', 'selector': {'matchLabels': {'a': 'b'}}, 'volumeClaimTemplates': filled(.5, lambda i: {'metadata': {'name': f'{i}'}}),
        'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}], 'volumes': filled(.5, lambda i: {'name': f'v{i}'})}}}},
        '/apis/apps/v1/namespaces/default/statefulsets')
    post(pod(topologySpreadConstraints=filled(1, lambda i: {'maxSkew': 1, 'topologyKey': f'k{i}', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {}})))
    term = {'topologyKey': 'zone', 'labelSelector': {}, 'matchLabelKeys': filled(.5, lambda i: f'k{i}'), 'mismatchLabelKeys': filled(.5, lambda i: f'l{i}')}
    near = lambda term: {'podAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [term]}}
    post(pod(affinity=near(term)))
    term = {'topologyKey': 'zone', 'labelSelector': {'matchExpressions': filled(.7, lambda i: {'key': 'x', 'operator': 'Exists'})}, 'matchLabelKeys': filled(.3, lambda i: f'k{i}')}
    post(pod(affinity=near(term)))
    own = {'cpu': '1', **{f'hugepages-{i}': '1' for i in range(40000)}}
    post({'metadata': {'name': 'p'}, 'spec': {'resources': {'requests': own, 'limits': own}, 'containers': filled(.3, lambda i: {'name': f'c{i}', 'image': 'i'})}})
    post({'metadata': {'name': 'm', 'managedFields': filled(.6, lambda i: {
        'manager': f'm{i}', 'operation': 'Update', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {'f:data': {f'f:k{i}': {}}}})}, 'data': {f'k{i}': '' for i in range(9000)}}, MAPS)


def updates(c):
    """… against what was there before."""
    pods = '/api/v1/namespaces/default/pods'
    tolerations = [{'key': f'k{i}', 'operator': 'Exists'} for i in range(40000)]
    c.good('POST', pods, {'metadata': {'name': 't'}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}], 'tolerations': tolerations}})
    now = c.good('GET', pods + '/t')
    now['spec']['tolerations'].append({'key': 'more', 'operator': 'Exists'})
    code, text = timed(c, 'PUT', pods + '/t?dryRun=All', now)
    assert code == 200, (code, text[:300])
    now['spec']['tolerations'][100]['key'] = 'another'
    code, text = timed(c, 'PUT', pods + '/t?dryRun=All', now)
    assert code == 422 and 'existing toleration can not be modified' in text, (code, text[:300])
    c.good('DELETE', pods + '/t')
    item = {'type': 'object', 'properties': {'k': {'type': 'string', 'maxLength': 9}, 'v': {'type': 'integer', 'x-kubernetes-validations': [{'rule': 'self >= oldSelf'}]}}, 'required': ['k']}
    spec = {'type': 'object', 'properties': {'list': {'type': 'array', 'maxItems': 60000, 'items': item, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k']}}}
    c.good('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {'metadata': {'name': 'longs.example.com'}, 'spec': {
        'group': 'example.com', 'scope': 'Namespaced', 'names': {'plural': 'longs', 'kind': 'Long'},
        'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {'type': 'object', 'properties': {'spec': spec}}}}]}})
    longs = '/apis/example.com/v1/namespaces/default/longs'
    until('the new kind', lambda: c.call('GET', longs)[0] == 200)
    c.good('POST', longs, {'apiVersion': 'example.com/v1', 'kind': 'Long', 'metadata': {'name': 'l'}, 'spec': {'list': [{'k': f'{i}', 'v': i} for i in range(50000)]}})
    now = c.good('GET', longs + '/l')
    del now['metadata']['managedFields']
    now['spec']['list'].reverse()
    code, text = timed(c, 'PUT', longs + '/l', now)
    assert code == 200, (code, text[:300])
    now = json.loads(text)
    del now['metadata']['managedFields']
    now['spec']['list'][7]['v'] = -1
    code, text = timed(c, 'PUT', longs + '/l', now)
    assert code == 422 and 'spec.list[7].v' in text, (code, text[:300])
    c.good('DELETE', longs + '/l')


APPLY = 'application/apply-patch+yaml'


def managed(c):
    """Who manages which fields: sets in any order, many owners of an object with many fields, long paths in conflicts."""
    entry = lambda fields: {'manager': 'm', 'operation': 'Update', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {'f:data': fields}}
    backwards = {'metadata': {'name': 'm', 'managedFields': [entry({f'f:{i:06d}': {} for i in range(200000, 0, -1)})]}, 'data': {'a': 'b'}}
    code, text = timed(c, 'POST', MAPS + '?dryRun=All', json.dumps(backwards, separators=(',', ':')).encode())
    assert code == 201, (code, text[:300])
    data = lambda value, *first: {f'{k}{i:05d}': value for k in first for i in range(15000)}
    first = {'metadata': {'name': 'm'}, 'data': {**data('a', 'k'), **{f'z{i}': 'x' for i in range(90)}}}
    c.good('POST', MAPS, first)
    first['metadata']['managedFields'] = [dict(entry({f'f:z{i}': {}}), manager=f'm{i}', operation='Apply') for i in range(90)]
    c.good('PUT', MAPS + '/m', first)
    code, text = timed(c, 'PUT', MAPS + '/m', {'metadata': {'name': 'm'}, 'data': {**data('b', 'k', 'l'), **{f'z{i}': 'x' for i in range(90)}}})
    assert code == 200, (code, text[:300])
    code, text = timed(c, 'PATCH', MAPS + '/m?fieldManager=m7', {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'm'}, 'data': {'new': 'x'}}, kind=APPLY)
    assert code == 200 and '"z7"' not in text and '"z8"' in text, (code, text[:300])
    c.good('DELETE', MAPS + '/m')


def define(c, plural, kind, schema, **more):
    c.good('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {'metadata': {'name': plural + '.example.com'}, 'spec': {
        'group': 'example.com', 'scope': 'Namespaced', 'names': {'plural': plural, 'kind': kind},
        'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {'type': 'object', **schema}}, **more}]}})
    path = f'/apis/example.com/v1/namespaces/default/{plural}'
    until('the new kind', lambda: c.call('GET', path)[0] == 200)
    return path, lambda **members: {'apiVersion': 'example.com/v1', 'kind': kind, 'metadata': {'name': 'x'}, **members}


def customs(c):
    """Objects of kinds that users added: thousands of errors, of members, of defaults, and paths as long as the object."""
    spec = lambda **properties: {'properties': {'spec': {'type': 'object', 'properties': properties}}}
    path, make = define(c, 'texts', 'Text', spec(list={'type': 'array', 'items': {'type': 'string'}}))
    code, text = timed(c, 'POST', path, make(spec={'list': [1] * 80000}))
    assert code == 422, (code, text[:300])
    path, make = define(c, 'names', 'Name', spec(list={'type': 'array', 'items': {'type': 'string', 'format': 'hostname'}}))
    code, text = timed(c, 'POST', path, make(spec={'list': ['a.example.com'] * 100000}))
    assert code == 201, (code, text[:300])
    path, make = define(c, 'opens', 'Open', {'x-kubernetes-preserve-unknown-fields': True}, subresources={'status': {}})
    now = c.good('POST', path, make(**{f'k{i:05d}': i for i in range(8000)}))
    code, text = timed(c, 'PUT', path + '/x/status', make(status={'a': 1}, metadata={'name': 'x', 'resourceVersion': now['metadata']['resourceVersion']}))
    assert code == 200 and 'k07999' in text, (code, text[:300])
    item = {'type': 'object', 'properties': {k: {'type': 'string', 'default': 'x' * 100} for k in 'abcdef'}}
    path, make = define(c, 'fills', 'Fill', spec(list={'type': 'array', 'items': item}))
    assert timed(c, 'POST', path, make(spec={'list': [{}] * 9}))[0] == 201
    code, text = timed(c, 'POST', path, make(metadata={'name': 'y'}, spec={'list': [{}] * 400000}))
    assert code == 422 and 'too large' in text, (code, text[:300])
    path, make = define(c, 'pools', 'Pool', spec(pools={'type': 'object', 'additionalProperties': {'type': 'object', 'additionalProperties': {
        'x-kubernetes-int-or-string': True, 'anyOf': [{'type': 'integer'}, {'type': 'string'}]}}}))
    long = {'x' * 300000: {f'k{i}': 'v' for i in range(3000)}}
    code, text = timed(c, 'PATCH', path + '/x?fieldManager=one', make(spec={'pools': long}), kind=APPLY)
    assert code == 201, (code, text[:300])
    long = {key: {k: 'w' for k in below} for key, below in long.items()}
    code, text = timed(c, 'PATCH', path + '/x?fieldManager=two', make(spec={'pools': long}), kind=APPLY)
    assert code == 409, (code, text[:300])


def policies(c):
    """Policies are asked about large objects one after the other."""
    at = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic'
    rules = [{'apiGroups': [''], 'apiVersions': ['v1'], 'operations': ['*'], 'resources': ['configmaps']}]
    for i in range(15):
        c.good('POST', at + 'ies', {'metadata': {'name': f'p{i}'}, 'spec': {'matchConstraints': {'resourceRules': rules}, 'validations': [{'expression': 'true'}]}})
        c.good('POST', at + 'ybindings', {'metadata': {'name': f'p{i}'}, 'spec': {'policyName': f'p{i}', 'validationActions': ['Deny']}})
    code, text = timed(c, 'POST', MAPS + '?dryRun=All', {'metadata': {'name': 'm', 'labels': {f'k{i:06d}': '' for i in range(150000)}}})
    assert code == 201, (code, text[:300])
    c.good('DELETE', at + 'ybindings')


def fields(message):
    """The fields of a protobuf message: number and bytes; nothing may be left over."""
    def varint(at):
        n = shift = 0
        while True:
            n, at, more = n | (message[at] & 127) << shift, at + 1, message[at] & 128
            if not more:
                return n, at
            shift += 7
    at, found = 0, []
    while at < len(message):
        key, at = varint(at)
        n, at = varint(at)
        assert key & 7 == 2 and at + n <= len(message), (key, n, at, len(message))
        found.append((key >> 3, message[at:at + n]))
        at += n
    return found


def forms(c):
    """Long lists are not made whole in memory: not in YAML, and not in protobuf, whose length comes first, for many at once that nobody reads."""
    path, proto = '/api/v1/namespaces/forms/configmaps', 'application/vnd.kubernetes.protobuf'
    c.namespace('forms')
    def ask(query, form):
        q = urllib.request.Request(c.url + path + query, headers={'Authorization': 'Bearer ' + ROOT, 'Accept': form})
        with urllib.request.urlopen(q, context=TLS, timeout=300) as answer:
            return answer.read()
    assert b'ConfigMapList' in ask('', 'application/yaml')
    for i in range(27):
        c.good('POST', path, {'metadata': {'name': f'm{i}'}, 'data': {'k': 'x' * 900000}})
    code, text = timed(c, 'GET', path, headers=[('Accept', 'application/yaml')])
    assert code == 406 and 'too long' in text, (code, text[:300])
    assert b'\n  continue: ' in ask('?limit=1', 'application/yaml')
    for query, n in (('', 27), ('?limit=2', 2), ('?limit=1', 1)):
        message = ask(query, proto)
        assert message[:4] == b'k8s\0'
        assert [number for number, _ in fields(dict(fields(message[4:]))[2])] == [1] + [2] * n, query
    k = c.raw(None, 'h2')
    head = request_headers(f'{path}?limit=26'.encode(), b'GET', (b'authorization', b'Bearer many-token'), (b'accept', proto.encode()))
    k.sendall(PREFACE + frame(SETTINGS) + b''.join(frame(HEADERS, END_HEADERS | END_STREAM, s, head) for s in range(1, 101, 2)))
    # The last one of the page goes while pages are made, and is forgotten for what is written afterwards.
    names = sorted(f'm{i}' for i in range(27))
    c.good('DELETE', f'{path}/{names[25]}')
    short = [('Accept', 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1')]
    write = lambda i: c.good('PUT', f'{path}/{names[0]}', {'metadata': {'name': names[0]}, 'data': {'k': f'{i}' + 'y' * 900000}}, headers=short)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(write, range(90)))) == 90
    used = -1
    while c.cpu_s() - used > 0.02:  # until nothing goes on any more
        used = c.cpu_s()
        time.sleep(1)
    k.close()
    c.good('DELETE', path)


def counted(c):
    """Resources by the ten thousand where they are counted and limited."""
    c.good('POST', '/api/v1/namespaces', {'metadata': {'name': 'counted'}})
    at = '/api/v1/namespaces/counted/'
    c.good('POST', at + 'resourcequotas', {'metadata': {'name': 'q'}, 'spec': {'hard': {'pods': '5'}}})
    c.good('PUT', at + 'resourcequotas/q/status', {'metadata': {'name': 'q'}, 'spec': {'hard': {'pods': '5'}}, 'status': {'hard': {'pods': '5'}, 'used': {'pods': '0'}}})
    c.good('POST', at + 'limitranges', {'metadata': {'name': 'l'}, 'spec': {'limits': [{'type': 'Pod', 'max': {'memory': '1Gi'}}]}})
    some = lambda first, n: {'limits': {**{f'e.com/r{i}': '1' for i in range(first, first + n)}, 'memory': '1Ki'}}
    for containers in ([{'name': 'c', 'image': 'i', 'resources': some(0, 100000)}],
                       [{'name': 'c', 'image': 'i', 'resources': some(0, 40000)}] + [{'name': f'c{i}', 'image': 'i', 'resources': some(40000 + i, 1)} for i in range(9000)]):
        code, text = timed(c, 'POST', at + 'pods', {'metadata': {'generateName': 'p-'}, 'spec': {'containers': containers}})
        assert code in (201, 403, 422), (code, text[:300])


def roles(c):
    """Rights that multiply with each other."""
    rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/'
    every = [{'verbs': ['*'], 'apiGroups': ['*'], 'resources': ['*']}]
    c.good('POST', rbac + 'roles', {'metadata': {'name': 'every'}, 'rules': every})
    c.good('POST', rbac + 'rolebindings', {'metadata': {'name': 'every'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role', 'name': 'every'},
                                           'subjects': [{'kind': 'User', 'name': 'tenant', 'apiGroup': 'rbac.authorization.k8s.io'}]})
    def write(n):
        rule = {key: [f'{key}{i}' for i in range(n)] for key in ('verbs', 'apiGroups', 'resources', 'resourceNames')}
        return timed(c, 'POST', rbac + 'roles', {'metadata': {'name': f'r{n}'}, 'rules': [rule]}, token='tenant-token')
    assert write(8)[0] == 201
    code, text = write(5000)
    assert code in (201, 403), (code, text[:300])


def opaque(c):
    """Parameters that go to a driver as they are."""
    def claim(parameters):
        return (b'{"metadata":{"generateName":"o-"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}],'
                b'"config":[{"opaque":{"driver":"d.example","parameters":' + parameters + b'}}]}}}')
    good = b'{"apiVersion":"a/v1","kind":"K","x":[1,2]}'
    assert c.call('POST', CLAIMS, claim(good))[0] == 201
    for what, parameters, codes in (('large', b'{"x":"' + b'y' * 11000 + b'"}', (422,)), ('deep', b'[' * 5000 + b']' * 5000, (400, 422)), ('not JSON', b'{"x":', (400,)), ('a text', b'"x"', (422,)), ('nothing', b'null', (422,)),
                                    ('a key twice', b'{"x":1,"x":2}', (201, 400, 422)), ('NUL', b'{"x":"a\\u0000b"}', (201, 400, 422)), ('many numbers', b'{"x":[' + b'1,' * 4000 + b'1]}', (201, 422)), ('large numbers', b'{"x":1e400}', (201, 400, 422))):
        code, text = timed(c, 'POST', CLAIMS, claim(parameters))
        assert code in codes, (what, code, text[:300])
    many = {'metadata': {'name': 'many'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}], 'config': [{'opaque': {'driver': 'd.example', 'parameters': {'a': 1}}}] * 1000}}}
    assert timed(c, 'POST', CLAIMS, many)[0] == 422


CEL = ['true' + '||true' * 5000, '(' * 5000 + '1' + ')' * 5000, '!' * 9999 + 'true', '[' * 5000 + ']' * 5000, '"' + 'x' * 9000 + '".matches("(x+x+)+y")', '"' + 'a' * 5000 + '".matches("(a|aa|aaa)*{1000}b")', '"x".matches("(((((x{100}){100}){100}){100}){100})")',
       '"x".matches("[")', '[0,1,2,3,4,5,6,7,8,9].all(a,[0,1,2,3,4,5,6,7,8,9].all(b,[0,1,2,3,4,5,6,7,8,9].all(c,[0,1,2,3,4,5,6,7,8,9].all(d,[0,1,2,3,4,5,6,7,8,9].all(e,[0,1,2,3,4,5,6,7,8,9].all(f,[0,1,2,3,4,5,6,7,8,9].all(g,true)))))))',
       'device.attributes["d"].x.matches("(.*)*$")', '"' + '\\x41' * 2500 + '"' + ' + "a"' * 100 + ' == ""', 'device' + '.a' * 3000, '-' * 9000 + '1 == 1', '1' + '+1' * 5000 + ' > 0', '9223372036854775807 + 1 == 0', '"' + 'a' * 9990 + '".split("").size() > 0',
       'duration("' + '9' * 9000 + 's") > duration("0s")', '{' + ','.join(f'"k{i}":{i}' for i in range(900)) + '}.all(k, k.size() > 0)', 'x' * 10241, '\x00', 'a ? ' * 3000 + 'b']


def cel(c):
    def claim(expression):
        return {'metadata': {'generateName': 'c-'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu', 'selectors': [{'cel': {'expression': expression}}]}}]}}}
    refused = 0
    for expression in CEL:
        code, text = timed(c, 'POST', CLAIMS, claim(expression))
        assert code in (201, 400, 422), (expression[:60], code, text[:300])
        refused += code != 201
    assert refused > len(CEL) / 2
    assert c.call('POST', CLAIMS, claim('device.driver == "d"'))[0] == 201


def selectors(c):
    for name in ('labelSelector', 'fieldSelector'):
        for value in ('a%20in%20(' + ','.join('v%d' % i for i in range(5000)) + ')', ','.join(f'a{i}=b' for i in range(5000)), '(' * 5000, 'a' * 8000, '%00', 'a%3D' * 2000):
            code, text = timed(c, 'GET', f'{MAPS}?{name}={value}')
            assert code in (200, 400, 414), (name, value[:30], code)
    assert timed(c, 'GET', MAPS + '?' + 'a=b&' * 4000)[0] in (200, 400, 414)
    for token in ('x' * 5000, 'AAAA', 'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vc2VjcmV0cy94XHUwMDAwIn0'):
        assert timed(c, 'GET', f'{MAPS}?limit=1&continue={token}')[0] in (400, 410), token[:20]


def begun(c, size, many=False):
    """One connection of nobody in particular, with requests whose bodies are almost there; many: in HTTP/2."""
    k = c.raw(None, *(['h2'] if many else []))
    if not many:
        k.sendall(b'POST ' + MAPS.encode() + b' HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n' % size + b'{' + b' ' * (size - 1000))
        return k
    k.sendall(PREFACE + frame(SETTINGS))
    for s in range(1, 430, 2):
        k.sendall(frame(HEADERS, END_HEADERS, s, request_headers(MAPS.encode(), b'POST')) + b''.join(frame(DATA, 0, s, b' ' * 16000) for _ in range(size // 16000)))
    return k


def unfinished(c):
    """Bodies that never come to their end, from somebody who need not even say who they are, leave room for those that do."""
    for what, begin in (('HTTP/1.1', [(size,) for size in [3 << 20] * 86 + [400000] * 8 + [60000] * 20]), ('HTTP/2', [(250000, True)] * 6)):
        conns = []
        for args in begin:
            try:
                conns.append(begun(c, *args))
            except OSError:
                pass  # it had to give way
        time.sleep(1.5)
        for i in range(5):
            code, text = c.call('POST', MAPS, {'metadata': {'generateName': 'room-'}, 'data': {'k': 'x' * 500000}})
            assert code == 201, (what, i, code, text[:300])
        for k in conns:
            k.close()


def watches(c):
    """One user with hundreds of watches, none of which is read, on a namespace of large objects: who lets most wait is cut off before memory is. Another one works."""
    before, conns = c.memory_kib(), []
    head = request_headers(b'/api/v1/namespaces/default/configmaps?watch=1', b'GET', (b'authorization', b'Bearer many-token'))
    for _ in range(5):
        k = c.raw(None, 'h2')
        # A window in which everything has room, of a client that does not read.
        k.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack('>HI', 4, 0x7fffffff)) + frame(WINDOW_UPDATE, 0, 0, struct.pack('>I', 0x7fff0000 - 65535)) +
                  b''.join(frame(HEADERS, END_HEADERS | END_STREAM, s, head) for s in range(1, 400, 2)))
        conns.append(k)
    most = 0
    for _ in range(20):
        began = c.cpu_s()
        code, text = c.call('POST', MAPS, {'metadata': {'generateName': 'w-'}, 'data': {'k': 'x' * 1000}})
        assert code == 201 and c.cpu_s() - began < 30, text
        most = max(most, c.memory_kib() - before)
    assert most < 800 * MIB, f'{most // MIB} MiB for watches that nobody reads'
    for k in conns:
        k.close()
    c.alive()


def waits(c):
    """A watch of a moment that has not come yet does not keep the server from ending well, which it is told to next."""
    k = c.raw()
    k.sendall(f'GET /api/v1/pods?watch=1&resourceVersion={1 << 40} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer many-token\r\n\r\n'.encode())
    time.sleep(0.3)


def main():
    with Cluster({'many-token': ('max', 'system:masters'), 'tenant-token': ('tenant', '')}, env={'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=4'}) as c:
        bounded(c, 'bodies', 300, lambda: bodies(c))
        bounded(c, 'lists', 300, lambda: lists(c))
        bounded(c, 'updates', 300, lambda: updates(c))
        bounded(c, 'counted', 300, lambda: counted(c))
        bounded_all_the_time(c, 'managed fields', 250, lambda: managed(c))
        bounded_all_the_time(c, 'custom resources', 250, lambda: customs(c))
        bounded_all_the_time(c, 'policies', 250, lambda: policies(c))
        bounded_all_the_time(c, 'forms', 350, lambda: forms(c))
        bounded(c, 'roles', 100, lambda: roles(c))
        bounded(c, 'parameters', 30, lambda: opaque(c))
        bounded(c, 'CEL', 60, lambda: cel(c))
        bounded(c, 'selectors', 30, lambda: selectors(c))
        unfinished(c)
        watches(c)
        waits(c)
    print(f'bodies: the dearest answer took {slowest:.1f} s of the processor')


main()

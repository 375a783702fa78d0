#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API server from outside: a real `dray server` with a folder of its own, spoken to over TLS with nothing but
http.client. Usage: server.py DRAY"""
import base64, http.client, json, os, shutil, signal, socket, ssl, subprocess, sys, tempfile, threading, time, traceback

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
SLICES = '/apis/resource.k8s.io/v1/resourceslices'
CLASSES = '/apis/resource.k8s.io/v1/deviceclasses'


class Server:
    def __init__(self, folder, *flags):
        self.folder = folder
        log = open(os.path.join(os.path.dirname(folder), 'server.log'), 'ab')
        self.process = subprocess.Popen([DRAY, 'server', '--data-dir', folder, '--listen', '127.0.0.1:0',
                                         '--bookmark-interval', '300', *flags], stdout=subprocess.PIPE, stderr=log, text=True)
        self.ready = self.process.stdout.readline()
        if 'ready at' not in self.ready:
            self.process.wait()
            raise RuntimeError('not ready: ' + self.ready + open(log.name).read()[-2000:])
        url = self.ready.split('ready at ')[1].split(',')[0]
        self.tls = url.startswith('https')
        self.host, self.port = url.split('//')[1].rsplit(':', 1)
        self.connection = None

    def context(self, certificate=True):
        c = ssl.create_default_context(cafile=os.path.join(self.folder, 'pki/ca.crt'))
        if certificate:
            c.load_cert_chain(os.path.join(self.folder, 'pki/admin.crt'), os.path.join(self.folder, 'pki/admin.key'))
        return c

    def connect(self, certificate=True, timeout=30):
        if not self.tls:
            return http.client.HTTPConnection(self.host, int(self.port), timeout=timeout)
        return http.client.HTTPSConnection(self.host, int(self.port), timeout=timeout, context=self.context(certificate))

    def call(self, method, path, body=None, headers=None, connection=None, raw=False):
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault('Content-Type', 'application/json')
        if connection is None:
            if self.connection is None:
                self.connection = self.connect()
            connection = self.connection
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
        except (ConnectionError, http.client.HTTPException, ssl.SSLError):
            connection.close()
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
        data = answer.read()
        self.headers = answer.headers
        if raw:
            return answer.status, data
        return answer.status, json.loads(data) if data else None

    def good(self, method, path, body=None, headers=None):
        code, answer = self.call(method, path, body, headers)
        assert 200 <= code < 300, f'{method} {path}: {code} {json.dumps(answer)[:600]}'
        return answer

    def watch(self, path):
        return Watch(self, path)

    def stop(self, how=signal.SIGTERM):
        if self.connection:
            self.connection.close()
            self.connection = None
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


class Watch:
    def __init__(self, server, path):
        self.connection = server.connect(timeout=20)
        self.connection.request('GET', path)
        self.answer = self.connection.getresponse()
        self.status = self.answer.status

    def next(self):
        line = self.answer.readline()
        return json.loads(line) if line else None

    def until(self, kind):
        seen = []
        while True:
            event = self.next()
            assert event is not None, f'the watch ended before a {kind}: {seen}'
            seen.append(event)
            if event['type'] == kind:
                return seen

    def close(self):
        self.connection.close()


def claim(name, **meta):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': dict({'name': name}, **meta),
            'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}}


def slice_(name, node='n1', driver='gpu.example.com'):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': name},
            'spec': {'driver': driver, 'nodeName': node, 'pool': {'name': node, 'generation': 1, 'resourceSliceCount': 1},
                     'devices': [{'name': 'd0'}]}}


def names(listing):
    return [i['metadata']['name'] for i in listing['items']]


def expect(answer, code, **status):
    got, body = answer
    assert got == code, f'{got} instead of {code}: {json.dumps(body)[:600]}'
    for key, value in status.items():
        have = body
        for step in key.split('__'):
            have = have[int(step)] if step.isdigit() else have[step]
        assert have == value if not callable(value) else value(have), f'{key} is {have!r}'
    return body


# --- Objects ---------------------------------------------------------------------------------------------------------

def test_crud(s):
    made = s.good('POST', CLAIMS, claim('one'))
    meta = made['metadata']
    assert meta['uid'] and meta['creationTimestamp'] and int(meta['resourceVersion']) > 0 and meta['namespace'] == 'default', meta
    got = s.good('GET', CLAIMS + '/one')
    assert got == made, (got, made)
    expect(s.call('POST', CLAIMS, claim('one')), 409, reason='AlreadyExists', details__kind='resourceclaims',
           message='resourceclaims.resource.k8s.io "one" already exists')
    got['metadata']['labels'] = {'a': 'b'}
    changed = s.good('PUT', CLAIMS + '/one', got)
    assert int(changed['metadata']['resourceVersion']) > int(meta['resourceVersion'])
    expect(s.call('PUT', CLAIMS + '/one', got), 409, reason='Conflict')
    same = s.good('PUT', CLAIMS + '/one', changed)
    assert same['metadata']['resourceVersion'] == changed['metadata']['resourceVersion'], 'a write that changes nothing'
    # Claims come back as they were; most other kinds answer with a Status.
    gone = s.good('DELETE', CLAIMS + '/one')
    assert gone['kind'] == 'ResourceClaim' and gone['metadata']['name'] == 'one', gone
    maps = '/api/v1/namespaces/default/configmaps'
    s.good('POST', maps, {'metadata': {'name': 'one'}, 'data': {'a': 'b'}})
    gone = s.good('DELETE', maps + '/one')
    assert gone['kind'] == 'Status' and gone['status'] == 'Success' and gone['details']['name'] == 'one', gone
    expect(s.call('GET', CLAIMS + '/one'), 404, reason='NotFound',
           message='resourceclaims.resource.k8s.io "one" not found', details__name='one', details__group='resource.k8s.io')
    made = s.good('POST', CLAIMS, dict(claim('x'), metadata={'generateName': 'gen-'}))
    assert made['metadata']['name'].startswith('gen-') and len(made['metadata']['name']) == 9
    s.good('DELETE', CLAIMS + '/' + made['metadata']['name'])


def test_every_dra_kind(s):
    request = {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}
    beta = {'devices': {'requests': [{'name': 'r', 'deviceClassName': 'gpu'}]}}
    taint = {'deviceSelector': {'driver': 'd.example.com'}, 'taint': {'key': 'k', 'effect': 'NoSchedule'}}
    rows = [('v1', 'resourceclaims', 'ResourceClaim', request), ('v1', 'resourceclaimtemplates', 'ResourceClaimTemplate', {'spec': request}),
            ('v1', 'deviceclasses', 'DeviceClass', {}), ('v1', 'devicetaintrules', 'DeviceTaintRule', taint),
            ('v1beta2', 'resourceclaims', 'ResourceClaim', request), ('v1beta2', 'deviceclasses', 'DeviceClass', {}),
            ('v1beta1', 'resourceclaims', 'ResourceClaim', beta), ('v1beta1', 'deviceclasses', 'DeviceClass', {})]
    for version, plural, kind, spec in rows:
        place = 'namespaces/default/' if 'claim' in plural else ''
        path = f'/apis/resource.k8s.io/{version}/{place}{plural}'
        api = f'resource.k8s.io/{version}'
        made = s.good('POST', path, {'apiVersion': api, 'kind': kind, 'metadata': {'name': 'k'}, 'spec': spec})
        assert made['apiVersion'] == api and made['kind'] == kind, made
        w = s.watch(f'{path}?watch=1&resourceVersion={int(made["metadata"]["resourceVersion"]) - 1}')
        event = w.next()
        assert event['type'] == 'ADDED' and event['object']['apiVersion'] == api, event
        listing = s.good('GET', path)
        assert listing['kind'] == kind + 'List' and listing['apiVersion'] == api and names(listing) == ['k'], listing
        # Kubernetes leaves kind and apiVersion out of the items of a list.
        assert 'kind' not in listing['items'][0]
        s.good('PATCH', path + '/k', {'metadata': {'labels': {'l': version}}}, {'Content-Type': 'application/merge-patch+json'})
        assert w.next()['type'] == 'MODIFIED'
        s.good('DELETE', path + '/k')
        assert w.next()['type'] == 'DELETED'
        w.close()
    s.good('POST', SLICES, slice_('k'))
    s.good('DELETE', SLICES + '/k')


def test_versions_are_views_of_one_object(s):
    s.good('POST', CLAIMS, claim('view'))
    old = s.good('GET', CLAIMS.replace('/v1/', '/v1beta1/') + '/view')
    assert old['apiVersion'] == 'resource.k8s.io/v1beta1' and old['spec']['devices']['requests'][0]['deviceClassName'] == 'gpu', old
    listing = s.good('GET', CLAIMS.replace('/v1/', '/v1beta1/'))
    assert listing['items'][0]['spec']['devices']['requests'][0]['deviceClassName'] == 'gpu'
    s.good('DELETE', CLAIMS + '/view')


def test_status_is_a_resource_of_its_own(s):
    made = s.good('POST', CLAIMS, claim('st'))
    made['status'] = {'allocation': {'devices': {'results': [{'request': 'r', 'driver': 'd.example.com', 'pool': 'p', 'device': 'd'}]}}}
    made['metadata']['labels'] = {'not': 'here'}
    answer = s.good('PUT', CLAIMS + '/st/status', made)
    assert answer['status']['allocation']['devices']['results'][0]['device'] == 'd' and 'labels' not in answer['metadata'], answer
    plain = s.good('GET', CLAIMS + '/st')
    plain['status'] = {}
    assert 'allocation' in s.good('PUT', CLAIMS + '/st', plain)['status']
    assert s.good('GET', CLAIMS + '/st/status')['status']['allocation']
    s.good('DELETE', CLAIMS + '/st')


def test_finalizers(s):
    s.good('POST', CLAIMS, claim('fin', finalizers=['example.com/wait']))
    marked = s.good('DELETE', CLAIMS + '/fin')
    assert marked['kind'] == 'ResourceClaim' and marked['metadata']['deletionTimestamp'], marked
    s.good('PATCH', CLAIMS + '/fin', [{'op': 'remove', 'path': '/metadata/finalizers'}], {'Content-Type': 'application/json-patch+json'})
    expect(s.call('GET', CLAIMS + '/fin'), 404)


def test_preconditions_and_dry_run(s):
    made = s.good('POST', CLAIMS + '?dryRun=All', claim('dry'))
    assert made['metadata']['uid']
    expect(s.call('GET', CLAIMS + '/dry'), 404)
    s.good('POST', CLAIMS, claim('pre'))
    expect(s.call('DELETE', CLAIMS + '/pre', {'preconditions': {'uid': 'other'}}), 409, reason='Conflict')
    expect(s.call('DELETE', CLAIMS + '/pre?propagationPolicy=Sideways'), 422, reason='Invalid', details__kind='DeleteOptions')
    expect(s.call('DELETE', CLAIMS + '/pre', {'kind': 'Pod', 'apiVersion': 'v1'}), 400)
    s.good('DELETE', CLAIMS + '/pre?dryRun=All')
    s.good('GET', CLAIMS + '/pre')
    s.good('DELETE', CLAIMS + '/pre')


def test_patches(s):
    s.good('POST', CLAIMS, claim('p', labels={'a': '1', 'b': '2'}))
    def patch(kind, body, path=CLAIMS + '/p'):
        return s.call('PATCH', path, body, {'Content-Type': f'application/{kind}'})
    assert expect(patch('merge-patch+json', {'metadata': {'labels': {'a': None}}}), 200)['metadata']['labels'] == {'b': '2'}
    assert expect(patch('json-patch+json', [{'op': 'add', 'path': '/metadata/labels/c', 'value': '3'}]), 200)['metadata']['labels'] == {'b': '2', 'c': '3'}
    assert expect(patch('strategic-merge-patch+json', {'metadata': {'labels': {'d': '4'}}}), 200)['metadata']['labels']['d'] == '4'
    expect(patch('json-patch+json', [{'op': 'test', 'path': '/metadata/name', 'value': 'q'}]), 422)
    expect(patch('merge-patch+json', '{'), 400)
    expect(patch('json', {}), 415, reason='UnsupportedMediaType')
    expect(patch('apply-patch+yaml', {}), 422, details__causes__0__field='fieldManager')
    expect(patch('merge-patch+json', {}, CLAIMS + '/nosuch'), 404)
    s.good('DELETE', CLAIMS + '/p')


def test_delete_collection(s):
    for i in range(6):
        s.good('POST', CLAIMS, claim(f'dc{i}', labels={'group': 'even' if i % 2 == 0 else 'odd'}))
    gone = s.good('DELETE', CLAIMS + '?labelSelector=group%3Deven')
    assert gone['kind'] == 'ResourceClaimList' and names(gone) == ['dc0', 'dc2', 'dc4'], gone
    assert names(s.good('GET', CLAIMS + '?labelSelector=group')) == ['dc1', 'dc3', 'dc5']
    s.good('DELETE', CLAIMS)
    assert names(s.good('GET', CLAIMS)) == []


def test_other_subresources(s):
    pods = '/api/v1/namespaces/default/pods'
    s.good('POST', '/api/v1/nodes', {'metadata': {'name': 'node'}})
    s.good('POST', pods, {'metadata': {'name': 'p'}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}})
    bound = s.good('POST', pods + '/p/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'p'}, 'target': {'kind': 'Node', 'name': 'node'}})
    assert bound['kind'] == 'Status' and bound['status'] == 'Success', bound
    assert s.good('GET', pods + '/p')['spec']['nodeName'] == 'node'
    assert names(s.good('GET', pods + '?fieldSelector=spec.nodeName%3Dnode')) == ['p']
    expect(s.call('GET', pods + '/p/binding'), 405, reason='MethodNotAllowed')
    expect(s.call('GET', pods + '/p/proxy'), 404)
    s.good('DELETE', pods + '/p?gracePeriodSeconds=0')
    sets = '/apis/apps/v1/namespaces/default/replicasets'
    template = {'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}}
    s.good('POST', sets, {'metadata': {'name': 'rs'}, 'spec': {'replicas': 2, 'selector': {'matchLabels': {'a': 'b'}}, 'template': template}})
    scale = s.good('GET', sets + '/rs/scale')
    assert scale['kind'] == 'Scale' and scale['apiVersion'] == 'autoscaling/v1' and scale['spec']['replicas'] == 2, scale
    scale['spec']['replicas'] = 5
    assert s.good('PUT', sets + '/rs/scale', scale)['spec']['replicas'] == 5
    assert s.good('GET', sets + '/rs')['spec']['replicas'] == 5
    s.good('DELETE', sets + '/rs')
    s.good('DELETE', '/api/v1/nodes/node')


# --- Lists -----------------------------------------------------------------------------------------------------------

def test_selectors(s):
    for node in ('n1', 'n2'):
        for driver in ('a.example.com', 'b.example.com'):
            s.good('POST', SLICES, slice_(f'{node}-{driver[0]}', node, driver))
    assert names(s.good('GET', SLICES + '?fieldSelector=spec.nodeName%3Dn1')) == ['n1-a', 'n1-b']
    assert names(s.good('GET', SLICES + '?fieldSelector=spec.nodeName%21%3Dn1%2Cspec.driver%3Da.example.com')) == ['n2-a']
    assert names(s.good('GET', SLICES + '?fieldSelector=metadata.name%3Dn2-b')) == ['n2-b']
    expect(s.call('GET', SLICES + '?fieldSelector=spec.color%3Dred'), 400, reason='BadRequest')
    expect(s.call('GET', SLICES + '?labelSelector=a%3D%3D%3Db'), 400, reason='BadRequest')
    s.good('DELETE', SLICES)


def test_pages_are_of_one_moment(s):
    for i in range(25):
        s.good('POST', CLAIMS, claim(f'pg{i:02}'))
    page = s.good('GET', CLAIMS + '?limit=10')
    assert page['metadata']['remainingItemCount'] == 15
    revision, seen = page['metadata']['resourceVersion'], names(page)
    s.good('DELETE', CLAIMS + '/pg15')
    s.good('POST', CLAIMS, claim('pg095'))
    left = [15]
    while page['metadata'].get('continue'):
        page = s.good('GET', CLAIMS + '?limit=10&continue=' + page['metadata']['continue'])
        assert page['metadata']['resourceVersion'] == revision
        left.append(page['metadata'].get('remainingItemCount'))
        seen += names(page)
    assert seen == [f'pg{i:02}' for i in range(25)] and left == [15, 5, None], (seen, left)
    exact = s.good('GET', f'{CLAIMS}?resourceVersion={revision}&resourceVersionMatch=Exact')
    assert names(exact) == seen
    now = names(s.good('GET', CLAIMS))
    assert 'pg15' not in now and 'pg095' in now
    expect(s.call('GET', CLAIMS + '?limit=10&continue=nonsense'), 400, message='continue key is not valid')
    expect(s.call('GET', CLAIMS + '?resourceVersionMatch=Exact'), 422, details__kind='ListOptions')
    started = time.time()
    expect(s.call('GET', CLAIMS + '?resourceVersion=99999999'), 504, reason='Timeout', details__causes__0__reason='ResourceVersionTooLarge')
    assert time.time() - started > 2
    s.good('DELETE', CLAIMS)


def test_large_lists_stream(s):
    def some(part):
        connection = s.connect()
        for i in range(part * 500, part * 500 + 500):
            body = json.dumps(claim(f'big{i:04}', annotations={'pad': 'x' * 300}))
            connection.request('POST', CLAIMS, body, {'Content-Type': 'application/json'})
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
        connection.close()
    threads = [threading.Thread(target=some, args=(p,)) for p in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    listing = s.good('GET', CLAIMS)
    assert len(listing['items']) == 2000 and names(listing) == sorted(names(listing))
    assert len(s.good('GET', CLAIMS, None, {'Accept': 'application/json;as=Table;v=v1;g=meta.k8s.io'})['rows']) == 2000
    w = s.watch(CLAIMS + '?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true')
    seen = w.until('BOOKMARK')
    assert len(seen) == 2001 and seen[-1]['object']['metadata']['annotations'] == {'k8s.io/initial-events-end': 'true'}
    w.close()
    s.good('DELETE', CLAIMS)


# --- Watches ---------------------------------------------------------------------------------------------------------

def test_watch_filters(s):
    start = s.good('GET', CLAIMS)['metadata']['resourceVersion']
    w = s.watch(f'{CLAIMS}?watch=1&resourceVersion={start}&labelSelector=on%3Dyes')
    merge = {'Content-Type': 'application/merge-patch+json'}
    s.good('POST', CLAIMS, claim('w'))
    s.good('PATCH', CLAIMS + '/w', {'metadata': {'labels': {'on': 'yes'}}}, merge)
    on = w.next()
    assert on['type'] == 'ADDED' and on['object']['metadata']['labels'] == {'on': 'yes'}
    s.good('PATCH', CLAIMS + '/w', {'metadata': {'labels': {'more': '1'}}}, merge)
    assert w.next()['type'] == 'MODIFIED'
    off = s.good('PATCH', CLAIMS + '/w', {'metadata': {'labels': {'on': 'no'}}}, merge)
    event = w.next()
    # The object as it was when it still matched, at the revision of the change.
    assert event['type'] == 'DELETED' and event['object']['metadata']['labels']['on'] == 'yes', event
    assert event['object']['metadata']['resourceVersion'] == off['metadata']['resourceVersion']
    s.good('PATCH', CLAIMS + '/w', {'metadata': {'labels': {'on': 'yes'}}}, merge)
    assert w.next()['type'] == 'ADDED'
    s.good('DELETE', CLAIMS + '/w')
    event = w.next()
    assert event['type'] == 'DELETED' and int(event['object']['metadata']['resourceVersion']) > int(off['metadata']['resourceVersion'])
    w.close()


def test_watch_one_name(s):
    w = s.watch(CLAIMS + '?watch=1&fieldSelector=metadata.name%3Dmine')
    s.good('POST', CLAIMS, claim('other'))
    s.good('POST', CLAIMS, claim('mine'))
    assert w.next()['object']['metadata']['name'] == 'mine'
    w.close()
    w = s.watch('/apis/resource.k8s.io/v1/watch/namespaces/default/resourceclaims/mine')
    assert w.next()['object']['metadata']['name'] == 'mine'
    w.close()
    s.good('DELETE', CLAIMS)


def test_watch_list_and_bookmarks(s):
    s.good('POST', CLAIMS, claim('wl'))
    w = s.watch(CLAIMS + '?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true')
    first = w.until('BOOKMARK')
    assert [e['type'] for e in first] == ['ADDED', 'BOOKMARK'], first
    mark = first[1]['object']
    assert mark['kind'] == 'ResourceClaim' and mark['metadata']['annotations'] == {'k8s.io/initial-events-end': 'true'}, mark
    later = w.until('BOOKMARK')[-1]['object']
    assert 'annotations' not in later['metadata'] and int(later['metadata']['resourceVersion']) >= int(mark['metadata']['resourceVersion'])
    w.close()
    expect(s.call('GET', CLAIMS + '?watch=1&sendInitialEvents=true'), 422, reason='Invalid')
    s.good('DELETE', CLAIMS)


def test_watch_ends_in_time(s):
    started = time.time()
    w = s.watch(CLAIMS + '?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=' + s.good('GET', CLAIMS)['metadata']['resourceVersion'])
    last = None
    while True:
        event = w.next()
        if event is None:
            break
        last = event
    assert 0.8 < time.time() - started < 5 and last['type'] == 'BOOKMARK', last


def test_watch_too_old_and_too_new(s):
    w = s.watch(CLAIMS + '?watch=1&resourceVersion=99999999')
    event = w.next()
    assert event['type'] == 'ERROR' and event['object']['code'] == 504, event
    assert event['object']['details']['causes'][0]['reason'] == 'ResourceVersionTooLarge'
    assert w.next() is None


def test_watch_of_tables_and_metadata(s):
    c = s.connect()
    for accept, check in (('application/json;as=Table;v=v1;g=meta.k8s.io', lambda o: o['kind'] == 'Table' and o['rows'][0]['cells'][0] == 'tm'),
                          ('application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io', lambda o: o['kind'] == 'PartialObjectMetadata' and 'spec' not in o)):
        c = s.connect()
        c.request('GET', CLAIMS + '?watch=1', headers={'Accept': accept})
        answer = c.getresponse()
        s.good('POST', CLAIMS, claim('tm'))
        event = json.loads(answer.readline())
        assert event['type'] == 'ADDED' and check(event['object']), event
        s.good('DELETE', CLAIMS + '/tm')
        assert json.loads(answer.readline())['type'] == 'DELETED'
        c.close()


def test_watchers_share(s):
    start = s.good('GET', CLAIMS)['metadata']['resourceVersion']
    watches = [s.watch(f'{CLAIMS}?watch=1&resourceVersion={start}') for _ in range(20)]
    for i in range(50):
        s.good('POST', CLAIMS, claim(f'sh{i}'))
    for w in watches:
        assert [w.next()['object']['metadata']['name'] for _ in range(50)] == [f'sh{i}' for i in range(50)]
        w.close()
    s.good('DELETE', CLAIMS)


def test_slow_watchers_do_not_hurt(s):
    start = s.good('GET', CLAIMS)['metadata']['resourceVersion']
    slow = s.connect(timeout=60)
    slow.request('GET', f'{CLAIMS}?watch=1&resourceVersion={start}')
    answer = slow.getresponse()
    s.good('POST', CLAIMS, claim('slow'))
    merge = {'Content-Type': 'application/merge-patch+json'}
    for i in range(100):
        s.good('PATCH', CLAIMS + '/slow', {'metadata': {'annotations': {'pad': str(i) * 20000}}}, merge)
    # It reads late, and still gets everything in order.
    seen = [json.loads(answer.readline()) for _ in range(101)]
    assert [e['type'] for e in seen] == ['ADDED'] + ['MODIFIED'] * 100
    assert seen[-1]['object']['metadata']['annotations']['pad'].startswith('99')
    slow.close()
    s.good('DELETE', CLAIMS)


# --- Forms -----------------------------------------------------------------------------------------------------------

def test_yaml_and_tables(s):
    text = 'apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: yy\nspec: {}\n'
    made = s.good('POST', CLASSES, text, {'Content-Type': 'application/yaml'})
    assert made['metadata']['name'] == 'yy'
    code, data = s.call('GET', CLASSES + '/yy', None, {'Accept': 'application/yaml'}, raw=True)
    assert code == 200 and b'kind: DeviceClass\n' in data and s.headers['Content-Type'] == 'application/yaml', data
    table = s.good('GET', CLASSES, None, {'Accept': 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'})
    assert table['kind'] == 'Table' and table['columnDefinitions'][0]['name'] == 'Name' and table['rows'][0]['cells'][0] == 'yy'
    assert table['rows'][0]['object']['kind'] == 'PartialObjectMetadata'
    partial = s.good('GET', CLASSES + '/yy', None, {'Accept': 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'})
    assert partial['kind'] == 'PartialObjectMetadata' and partial['metadata']['name'] == 'yy' and 'spec' not in partial
    partial = s.good('GET', CLASSES, None, {'Accept': 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'})
    assert partial['kind'] == 'PartialObjectMetadataList' and partial['items'][0]['metadata']['name'] == 'yy'
    code, data = s.call('GET', CLASSES + '/yy?pretty=true', raw=True)
    assert data.startswith(b'{\n  "kind"'), data[:50]
    code, data = s.call('GET', CLASSES, None, {'Accept': 'application/vnd.kubernetes.protobuf'}, raw=True)
    assert code == 200 and data.startswith(b'k8s\0') and b'DeviceClassList' in data and b'yy' in data, data[:80]
    s.good('GET', CLASSES, None, {'Accept': 'application/json,application/vnd.kubernetes.protobuf'})
    expect(s.call('GET', CLASSES, None, {'Accept': 'image/png'}), 406, reason='NotAcceptable')
    s.good('DELETE', CLASSES + '/yy')


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(n, value):
    return varint(n << 3) + varint(value)


def envelope(api_version, kind, raw):
    return b'k8s\0' + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, '') + field(4, '')


def test_protobuf_bodies(s):
    proto = {'Content-Type': 'application/vnd.kubernetes.protobuf', 'Accept': 'application/json'}
    pool = field(1, 'n1') + number(2, 1) + number(3, 1)
    raw = field(1, field(2, 'pb-')) + field(2, field(1, 'gpu.example.com') + field(2, pool) + field(3, 'n1') + field(6, field(1, 'd0')))
    made = s.good('POST', SLICES, envelope('resource.k8s.io/v1', 'ResourceSlice', raw), proto)
    name, meta = made['metadata']['name'], made['metadata']
    assert name.startswith('pb-') and made['spec']['devices'] == [{'name': 'd0'}], made
    stale = field(2, field(1, meta['uid']) + field(2, '1'))
    expect(s.call('DELETE', f'{SLICES}/{name}', envelope('resource.k8s.io/v1', 'DeleteOptions', stale), proto), 409)
    exact = field(2, field(1, meta['uid']) + field(2, meta['resourceVersion']))
    s.good('DELETE', f'{SLICES}/{name}', envelope('resource.k8s.io/v1', 'DeleteOptions', exact), proto)
    expect(s.call('POST', SLICES, b'k8s\0\xff\xff\xff', proto), 400, reason='BadRequest')
    expect(s.call('POST', SLICES, envelope('v1', 'Pod', b''), proto), 400)


def wait_for(what, holds, seconds=30):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_own_service(s):
    """The Service default/kubernetes is there, leads to the server, and comes back."""
    base = '/api/v1/namespaces/default/'
    slices = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes'
    wait_for('service', lambda: s.call('GET', base + 'services/kubernetes')[0] == 200)
    wait_for('slice', lambda: s.call('GET', slices)[0] == 200)
    wait_for('endpoints', lambda: s.call('GET', base + 'endpoints/kubernetes')[0] == 200)
    service = s.good('GET', base + 'services/kubernetes')
    assert service['metadata']['labels'] == {'component': 'apiserver', 'provider': 'kubernetes'}, service
    spec = service['spec']
    port = {'name': 'https', 'protocol': 'TCP', 'port': 443, 'targetPort': int(s.port)}
    assert spec['ports'] == [port] and spec['clusterIP'] == '10.96.0.1' and spec['type'] == 'ClusterIP' and spec['sessionAffinity'] == 'None', spec
    slice = s.good('GET', slices)
    assert slice['metadata']['labels'] == {'kubernetes.io/service-name': 'kubernetes'} and slice['addressType'] == 'IPv4', slice
    assert slice['endpoints'] == [{'addresses': ['127.0.0.1'], 'conditions': {'ready': True}}], slice
    assert slice['ports'] == [{'name': 'https', 'port': int(s.port), 'protocol': 'TCP'}], slice
    assert s.good('GET', base + 'endpoints/kubernetes')['subsets'][0]['addresses'] == [{'ip': '127.0.0.1'}]
    version = service['metadata']['resourceVersion']
    s.good('DELETE', slices)
    s.good('PATCH', base + 'endpoints/kubernetes', {'subsets': None}, {'Content-Type': 'application/merge-patch+json'})
    wait_for('the slice comes back', lambda: s.call('GET', slices)[0] == 200)
    wait_for('the endpoints come back', lambda: 'subsets' in s.good('GET', base + 'endpoints/kubernetes'))
    assert s.good('GET', base + 'services/kubernetes')['metadata']['resourceVersion'] == version  # nothing is written that does not change
    s.good('DELETE', base + 'services/kubernetes')
    wait_for('the service comes back', lambda: s.call('GET', base + 'services/kubernetes')[0] == 200)


def test_bad_bodies(s):
    expect(s.call('POST', CLAIMS, '{"a":'), 400, reason='BadRequest')
    expect(s.call('POST', CLAIMS, '[]'), 400)
    expect(s.call('POST', CLAIMS, ''), 400)
    expect(s.call('POST', CLAIMS, {'apiVersion': 'v1', 'kind': 'Pod'}), 400, message=lambda m: 'Pod in version "v1" cannot be handled as a ResourceClaim' in m)
    expect(s.call('POST', CLAIMS, dict(claim('x'), apiVersion='resource.k8s.io/v1beta1')), 400,
           message='the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version (resource.k8s.io/v1)')
    expect(s.call('POST', CLAIMS, 'x', {'Content-Type': 'text/plain'}), 415, reason='UnsupportedMediaType')
    wrong = claim('UPPER')
    expect(s.call('POST', CLAIMS, wrong), 422, reason='Invalid', details__causes__0__field='metadata.name')
    expect(s.call('POST', CLAIMS, claim('x', namespace='other')), 400)
    code, _ = s.call('POST', CLAIMS, 'x' * (4 << 20), connection=s.connect(), raw=True)
    assert code == 413, code


def test_field_validation(s):
    odd = claim('fv')
    odd['spec']['color'] = 'red'
    expect(s.call('POST', CLAIMS + '?fieldValidation=Strict', odd), 400,
           message=lambda m: m.endswith('strict decoding error: unknown field "spec.color"'))
    s.good('POST', CLAIMS, odd)
    assert '299 - "unknown field \\"spec.color\\""' in s.headers['Warning'], s.headers['Warning']
    s.good('DELETE', CLAIMS + '/fv')
    s.good('POST', CLAIMS + '?fieldValidation=Ignore', odd)
    assert 'Warning' not in s.headers
    s.good('DELETE', CLAIMS + '/fv')
    expect(s.call('POST', CLAIMS + '?fieldValidation=Loud', odd), 422, details__kind='CreateOptions')


# --- Documents -------------------------------------------------------------------------------------------------------

def test_discovery(s):
    aggregated = {'Accept': 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json'}
    groups = s.good('GET', '/apis', None, aggregated)
    assert groups['kind'] == 'APIGroupDiscoveryList'
    tag = s.headers['ETag']
    assert s.call('GET', '/apis', None, dict(aggregated, **{'If-None-Match': tag}))[0] == 304
    dra = next(g for g in groups['items'] if g['metadata']['name'] == 'resource.k8s.io')
    assert [v['version'] for v in dra['versions']] == ['v1', 'v1beta2', 'v1beta1']
    claims = next(r for r in dra['versions'][0]['resources'] if r['resource'] == 'resourceclaims')
    assert claims['scope'] == 'Namespaced' and claims['singularResource'] == 'resourceclaim' and claims['subresources'][0]['subresource'] == 'status'
    assert s.good('GET', '/api')['versions'] == ['v1']
    assert any(g['name'] == 'apps' for g in s.good('GET', '/apis')['groups'])
    pods = next(r for r in s.good('GET', '/api/v1')['resources'] if r['name'] == 'pods')
    assert pods['shortNames'] == ['po'] and pods['namespaced'] and 'watch' in pods['verbs']
    expect(s.call('GET', '/api/v1/foos'), 404, reason='NotFound', message='the server could not find the requested resource')
    expect(s.call('DELETE', '/api/v1/pods'), 405, reason='MethodNotAllowed')
    code, data = s.call('GET', '/nothing/here', raw=True)
    assert code == 404 and data == b'404 page not found\n'


def test_documents(s):
    index = s.good('GET', '/openapi/v3')['paths']
    document = s.good('GET', index['apis/resource.k8s.io/v1']['serverRelativeURL'])
    assert '/apis/resource.k8s.io/v1/resourceslices' in document['paths']
    assert s.good('GET', '/version')['gitVersion'].startswith('v1.37.')
    assert s.call('GET', '/readyz', raw=True) == (200, b'ok')
    code, data = s.call('GET', '/readyz?verbose', raw=True)
    assert code == 200 and b'[+]ping ok\n' in data and data.endswith(b'readyz check passed\n')
    assert s.call('GET', '/livez/ping', raw=True)[0] == 200 and s.call('GET', '/livez/nosuch', raw=True)[0] == 404
    code, data = s.call('GET', '/metrics', raw=True)
    assert b'apiserver_request_total{' in data and b'process_resident_memory_bytes ' in data and b'dray_store_objects ' in data
    assert '/apis/resource.k8s.io/v1' in s.good('GET', '/')['paths']


def test_authentication(s):
    stranger = s.connect(certificate=False)
    assert s.call('GET', '/livez', connection=stranger, raw=True)[0] == 200
    assert s.call('GET', '/version', connection=stranger)[0] == 200
    expect(s.call('GET', CLAIMS, connection=stranger), 401, reason='Unauthorized', message='Unauthorized')
    expect(s.call('GET', CLAIMS, None, {'Authorization': 'Bearer wrong'}, connection=stranger), 401)
    # Known, but nobody has given them anything; then somebody has.
    sesame = {'Authorization': 'Bearer sesame'}
    expect(s.call('GET', CLAIMS, None, sesame, connection=stranger), 403, reason='Forbidden')
    s.good('POST', '/apis/rbac.authorization.k8s.io/v1/clusterroles', {
        'metadata': {'name': 'claims'}, 'rules': [{'apiGroups': ['resource.k8s.io'], 'resources': ['resourceclaims'], 'verbs': ['list']}]})
    s.good('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        'metadata': {'name': 'cave'}, 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'claims'},
        'subjects': [{'kind': 'Group', 'apiGroup': 'rbac.authorization.k8s.io', 'name': 'cave'}]})
    expect(s.call('GET', CLAIMS, None, sesame, connection=stranger), 200)
    stranger.close()
    config = open(os.path.join(s.folder, 'admin.kubeconfig')).read()
    assert f'server: https://127.0.0.1:{s.port}' in config and 'client-key-data: ' in config
    for top, folders, files in os.walk(s.folder):
        for name in files:
            assert os.stat(os.path.join(top, name)).st_mode & 0o77 == 0, name
    assert os.stat(s.folder).st_mode & 0o77 == 0


def test_reviews(s):
    path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
    answer = s.good('POST', path, {'spec': {'resourceAttributes': {'verb': 'get', 'resource': 'pods'}}})
    assert answer['status']['allowed'] is True and answer['kind'] == 'SelfSubjectAccessReview', answer
    expect(s.call('GET', path), 405)
    rules = s.good('POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {'spec': {'namespace': 'default'}})
    assert {'verbs': ['*'], 'apiGroups': ['*'], 'resources': ['*']} in rules['status']['resourceRules'], rules
    tokens = '/apis/authentication.k8s.io/v1/tokenreviews'
    assert s.good('POST', tokens, {'spec': {'token': 'sesame'}})['status']['user']['username'] == 'ali'
    assert 'authenticated' not in s.good('POST', tokens, {'spec': {'token': 'wrong'}})['status']


TESTS = [v for k, v in list(globals().items()) if k.startswith('test_')]


# --- Life ------------------------------------------------------------------------------------------------------------

def life(folder):
    """Restart, kill, backup, restore, wrong starts."""
    s = Server(folder)
    kept = s.good('POST', CLAIMS, claim('kept'))
    w = s.watch(f'{CLAIMS}?watch=1&resourceVersion={kept["metadata"]["resourceVersion"]}')
    again = subprocess.run([DRAY, 'server', '--data-dir', folder, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=30)
    assert again.returncode == 1 and 'dray server:' in again.stderr, again
    assert s.stop() == 0
    assert w.next() is None, 'a stopped server ends its watches'
    s = Server(folder)
    assert s.good('GET', CLAIMS + '/kept') == kept
    after = s.good('POST', CLAIMS, claim('after'))
    assert int(after['metadata']['resourceVersion']) > int(kept['metadata']['resourceVersion'])
    # A watch resumes across the restart.
    w = s.watch(f'{CLAIMS}?watch=1&resourceVersion={kept["metadata"]["resourceVersion"]}')
    assert w.next()['object']['metadata']['name'] == 'after'
    w.close()
    s.stop(signal.SIGKILL)
    s = Server(folder)
    assert names(s.good('GET', CLAIMS)) == ['after', 'kept']
    copy = folder + '.backup'
    run = subprocess.run([DRAY, 'backup', copy, '--data-dir', folder], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run
    run = subprocess.run([DRAY, 'backup', copy, '--data-dir', folder], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and run.stderr, 'a backup does not overwrite'
    s.good('DELETE', CLAIMS)
    s.stop()
    run = subprocess.run([DRAY, 'server', '--data-dir', folder, '--restore', copy], capture_output=True, text=True, timeout=30)
    assert run.returncode == 1 and 'new --data-dir' in run.stderr, run
    s = Server(folder + '.restored', '--restore', copy)
    assert names(s.good('GET', CLAIMS)) == ['after', 'kept']
    s.stop()


def short_history(folder):
    """A server that forgets quickly says 410 where it must."""
    s = Server(folder, '--history-events', '5')
    for i in range(10):
        s.good('POST', CLAIMS, claim(f'h{i}'))
    page = s.good('GET', CLAIMS + '?limit=3')
    merge = {'Content-Type': 'application/merge-patch+json'}
    for i in range(20):
        s.good('PATCH', CLAIMS + '/h0', {'metadata': {'labels': {'i': str(i)}}}, merge)
    old = expect(s.call('GET', CLAIMS + '?limit=3&continue=' + page['metadata']['continue']), 410, reason='Expired',
                 message=lambda m: m.startswith('The provided continue parameter is too old'))
    rest = s.good('GET', CLAIMS + '?limit=100&continue=' + old['metadata']['continue'])
    assert names(rest) == [f'h{i}' for i in range(3, 10)], names(rest)
    revision = page['metadata']['resourceVersion']
    expect(s.call('GET', f'{CLAIMS}?resourceVersion={revision}&resourceVersionMatch=Exact'), 410, reason='Expired')
    assert len(names(s.good('GET', f'{CLAIMS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan'))) == 10
    w = s.watch(f'{CLAIMS}?watch=1&resourceVersion={revision}')
    event = w.next()
    assert w.status == 200 and event['type'] == 'ERROR' and event['object']['code'] == 410 and event['object']['reason'] == 'Expired', event
    assert w.next() is None
    s.stop()


def wrong_starts(folder):
    def run(*flags):
        return subprocess.run([DRAY, 'server', *flags], capture_output=True, text=True, timeout=30)
    assert run().returncode == 2
    assert run('--nonsense').returncode == 2
    for flags, word in ((('--feature-gates', 'NoSuch=true'), 'NoSuch'), (('--runtime-config', 'no/v1=true'), 'no/v1'),
                        (('--listen', 'nowhere'), 'nowhere'), (('--insecure-http', '--listen', '0.0.0.0:0'), 'loopback'),
                        (('--log-level', 'loud'), 'loud')):
        r = run('--data-dir', folder, *flags)
        assert r.returncode == 1 and word in r.stderr, (flags, r)
    config = folder + '.yaml'
    with open(config, 'w') as f:
        f.write(f'data-dir: {folder}\nlisten: 127.0.0.1:0\nruntime-config: {{resource.k8s.io/v1alpha3: true}}\ninsecure-http: true\n')
    s = subprocess.Popen([DRAY, 'server', '--config', config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = s.stdout.readline()
    assert 'http://127.0.0.1:' in line, line
    host, port = line.split('//')[1].split(',')[0].split(':')
    c = http.client.HTTPConnection(host, int(port), timeout=20)
    c.request('GET', '/apis/resource.k8s.io/v1alpha3')
    assert c.getresponse().status == 200
    s.terminate()
    assert s.wait(timeout=30) == 0
    s.stdout.close()


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    folder = os.path.join(top, 'data')
    failed = 0
    try:
        os.mkdir(folder, 0o700)
        with open(os.open(os.path.join(folder, 'tokens.csv'), os.O_WRONLY | os.O_CREAT, 0o600), 'w') as f:
            f.write('sesame,ali,1,"cave"\n')
        s = Server(folder)
        only = os.environ.get('ONLY')
        for test in TESTS:
            if only and only not in test.__name__:
                continue
            try:
                test(s)
            except Exception:
                failed += 1
                print(f'FAIL {test.__name__}')
                traceback.print_exc(file=sys.stdout)
                if s.process.poll() is not None:
                    print(open(os.path.join(top, 'server.log')).read()[-6000:])
                    s = Server(folder)
                else:
                    if s.connection:
                        s.connection.close()
                    s.connection = None
                    for path in (CLAIMS, SLICES, CLASSES):
                        s.call('DELETE', path)
        if s.stop() != 0:
            failed += 1
            print('FAIL: the server did not stop well\n' + open(os.path.join(top, 'server.log')).read()[-6000:])
        for extra in (life, short_history, wrong_starts):
            if only and only not in extra.__name__:
                continue
            try:
                extra(os.path.join(top, extra.__name__))
            except Exception:
                failed += 1
                print(f'FAIL {extra.__name__}')
                traceback.print_exc(file=sys.stdout)
                print(open(os.path.join(top, 'server.log')).read()[-3000:])
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f'{len(TESTS) + 3 - failed} of {len(TESTS) + 3} server tests passed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Server-side apply over HTTP: creation, conflicts, force, removal, co-ownership, status, versions, what kubectl relies on.

usage: apply.py DRAY"""
import http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile

failures = []


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {repr(want)[:2000]}, got {repr(got)[:2000]}')


class Server:
    def __init__(self, dray):
        self.dray = dray
        self.top = tempfile.mkdtemp(prefix='dray-apply-')
        self.folder = os.path.join(self.top, 'data')
        self.log = open(os.path.join(self.top, 'log'), 'wb')
        self.process = subprocess.Popen([dray, 'server', '--data-dir', self.folder, '--listen', '127.0.0.1:0'], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        assert 'ready at' in self.process.stdout.readline(), open(self.log.name).read()

    def call(self, method, path, body=None, kind='application/json', manager=None):
        c = http.client.HTTPConnection('localhost', timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(os.path.join(self.folder, 'dray.sock'))
        headers = {'Content-Type': kind, 'User-Agent': (manager or 'test') + '/1'}
        c.request(method, path, body if isinstance(body, str) else json.dumps(body) if body is not None else None, headers)
        a = c.getresponse()
        data = json.loads(a.read())
        c.close()
        return a.status, data

    def apply(self, path, config, manager, force=False, **query):
        q = f'?fieldManager={manager}' + ('&force=true' if force else '') + ''.join(f'&{k}={v}' for k, v in query.items())
        return self.call('PATCH', path + q, config, 'application/apply-patch+yaml')

    def done(self):
        self.process.send_signal(signal.SIGTERM)
        expect('it ends well', self.process.wait(60), 0)
        self.log.close()
        shutil.rmtree(self.top)


def owners(o):
    return {(m['manager'], m['operation'], m.get('subresource', '')): m['fieldsV1'] for m in o['metadata'].get('managedFields', [])}


def config_map(data, **meta):
    return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'a', **meta}, 'data': data}


def basics(s):
    path = '/api/v1/namespaces/default/configmaps/a'
    code, o = s.apply(path, config_map({'k': 'v', 'l': 'w'}, labels={'x': '1'}), 'one')
    expect('made', (code, o['data']), (201, {'k': 'v', 'l': 'w'}))
    expect('owned', owners(o), {('one', 'Apply', ''): {'f:data': {'f:k': {}, 'f:l': {}}, 'f:metadata': {'f:labels': {'f:x': {}}}}})
    code, again = s.apply(path, config_map({'k': 'v', 'l': 'w'}, labels={'x': '1'}), 'one')
    expect('twice is once', (code, again['metadata']['resourceVersion']), (200, o['metadata']['resourceVersion']))
    # The same value is owned together, another one is a conflict.
    code, o = s.apply(path, config_map({'k': 'v'}), 'two')
    expect('together', (code, owners(o)['two', 'Apply', '']), (200, {'f:data': {'f:k': {}}}))
    code, e = s.apply(path, config_map({'k': 'other'}), 'two')
    expect('conflict', (code, e['reason'], e['message'], e['details']['causes']),
           (409, 'Conflict', 'Apply failed with 1 conflict: conflict with "one": .data.k',
            [{'reason': 'FieldManagerConflict', 'message': 'conflict with "one"', 'field': '.data.k'}]))
    code, o = s.apply(path, config_map({'k': 'other', 'l': 'w'}), 'two', force=True)
    expect('force', (code, o['data'], owners(o)['one', 'Apply', '']['f:data']), (200, {'k': 'other', 'l': 'w'}, {'f:l': {}}))
    # What one no longer states stays while the other owns it.
    code, o = s.apply(path, config_map({'k': 'other'}), 'two')
    expect('the other owns it', o['data'], {'k': 'other', 'l': 'w'})
    code, o = s.apply(path, 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {}\n', 'one')
    expect('nobody owns it', (o['data'], 'labels' in o['metadata']), ({'k': 'other'}, False))
    # An update takes over without asking, and is asked about afterwards.
    o['data']['k'] = 'third'
    code, o = s.call('PUT', path, o, manager='writer')
    expect('update', (code, owners(o)['writer', 'Update', '']), (200, {'f:data': {'f:k': {}}}))
    code, e = s.apply(path, config_map({'k': 'fourth'}), 'two')
    expect('conflict with a writer', (code, e['message']), (409, 'Apply failed with 1 conflict: conflict with "writer" using v1: .data.k'))
    # A dry run says so too, and changes nothing.
    expect('dry run', s.apply(path, config_map({'k': 'fourth'}), 'two', True, dryRun='All')[1]['data'], {'k': 'fourth'})
    expect('nothing changed', s.call('GET', path)[1]['data'], {'k': 'third'})
    # Clients may forget who managed what.
    o['metadata']['managedFields'] = [{}]
    code, o = s.call('PUT', path, o, manager='writer')
    expect('forgotten', (code, 'managedFields' in o['metadata']), (200, False))
    code, o = s.apply(path, config_map({'z': '1'}), 'two')
    expect('begun again', sorted(owners(o)), [('before-first-apply', 'Update', ''), ('two', 'Apply', '')])


def refusals(s):
    path = '/api/v1/namespaces/default/configmaps/b'
    config = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'b'}}
    expect('no manager', s.call('PATCH', path, config, 'application/apply-patch+yaml')[0], 422)
    code, e = s.apply(path, {**config, 'datum': {}}, 'one')
    expect('unknown field', (code, e['message']),
           (500, 'failed to create typed patch object (/b; /v1, Kind=ConfigMap): .datum: field not declared in schema'))
    code, e = s.apply(path, {**config, 'kind': 'Secret'}, 'one')
    expect('another kind', (code, e['message']), (400, 'invalid object type: /v1, Kind=Secret'))
    code, e = s.apply(path, {**config, 'metadata': {'name': 'b', 'managedFields': []}}, 'one')
    expect('managedFields', (code, e['message']), (400, 'metadata.managedFields must be nil'))
    expect('another name', s.apply(path, {**config, 'metadata': {'name': 'c'}}, 'one')[0], 400)
    expect('no YAML', s.apply(path, 'a: [', 'one')[0], 400)
    expect('no object', s.apply(path, '[]', 'one')[0], 400)
    code, e = s.apply(path, {**config, 'metadata': {'name': 'b', 'uid': 'x'}}, 'one')
    expect('a UID of nothing', code, 409)
    s.apply(path, config, 'one')
    code, e = s.apply(path, {**config, 'metadata': {'name': 'b', 'resourceVersion': '1'}}, 'one')
    expect('an old version', code, 409)
    expect('status of nothing', s.apply('/api/v1/namespaces/default/pods/none/status', {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'none'}}, 'one')[0], 404)


def lists(s):
    path = '/api/v1/namespaces/default/pods/p'

    def pod(*containers, **more):
        return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', **more}, 'spec': {'containers': list(containers)}}
    code, o = s.apply(path, pod({'name': 'a', 'image': 'x', 'ports': [{'containerPort': 80}]}), 'one')
    expect('defaults are nobody’s', (code, o['spec']['containers'][0]['ports'][0]['protocol'],
                                     owners(o)['one', 'Apply', '']['f:spec']['f:containers']['k:{"name":"a"}']['f:ports']),
           (201, 'TCP', {'k:{"containerPort":80,"protocol":"TCP"}': {'.': {}, 'f:containerPort': {}}}))
    code, o = s.apply(path, pod({'name': 'a', 'image': 'x'}, finalizers=['test/two']), 'two')
    code, o = s.apply(path, pod({'name': 'a', 'image': 'x'}, finalizers=['test/three']), 'three')
    expect('sets grow together', o['metadata']['finalizers'], ['test/two', 'test/three'])
    code, o = s.apply(path, pod({'name': 'a', 'image': 'x'}), 'two')
    expect('and shrink alone', o['metadata']['finalizers'], ['test/three'])
    # Status: of the status alone, owned apart.
    status = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'},
              'status': {'conditions': [{'type': 'Ready', 'status': 'True'}], 'phase': 'Running'}}
    code, o = s.apply(path + '/status', status, 'node', True)
    expect('status', (code, o['status']['phase'], ('node', 'Apply', 'status') in owners(o)), (200, 'Running', True))
    code, o = s.apply(path, {**pod({'name': 'a', 'image': 'x'}), 'status': {'phase': 'Failed'}}, 'two')
    expect('status is not for everyone', (o['status']['phase'], 'f:status' in json.dumps(owners(o)['two', 'Apply', ''])), ('Running', False))
    status['status'] = {'conditions': [{'type': 'Extra', 'status': 'True'}]}
    code, o = s.apply(path + '/status', status, 'other')
    expect('conditions by type', sorted(c['type'] for c in o['status']['conditions']), ['Extra', 'Ready'])
    s.apply(path, pod({'name': 'a', 'image': 'x'}), 'three')


def claims(s):
    """Two managers that speak two versions of a kind."""
    v1 = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c'
    beta = v1.replace('/v1/', '/v1beta1/')
    meta = {'name': 'c'}
    new = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {**meta, 'labels': {'a': '1'}},
           'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu', 'allocationMode': 'ExactCount', 'count': 1}}]}}}
    old = {'apiVersion': 'resource.k8s.io/v1beta1', 'kind': 'ResourceClaim', 'metadata': {**meta, 'labels': {'b': '2'}},
           'spec': {'devices': {'requests': [{'name': 'r', 'deviceClassName': 'gpu', 'allocationMode': 'ExactCount', 'count': 1}]}}}
    code, o = s.apply(v1, new, 'new')
    expect('v1', code, 201)
    code, o = s.apply(beta, old, 'old')
    expect('v1beta1', (code, sorted(o['metadata']['labels'])), (200, ['a', 'b']))
    code, o = s.call('GET', v1)
    expect('versions', sorted((m['manager'], m['apiVersion']) for m in o['metadata']['managedFields']),
           [('new', 'resource.k8s.io/v1'), ('old', 'resource.k8s.io/v1beta1')])
    del old['metadata']['labels']
    code, o = s.apply(beta, old, 'old')
    expect('its label goes', o['metadata']['labels'], {'a': '1'})
    new['metadata']['labels'] = {'a': '3'}
    expect('its own', s.apply(v1, new, 'new')[1]['metadata']['labels'], {'a': '3'})
    # A driver's report on the status.
    status = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': meta, 'status': {'devices': [
        {'driver': 'd', 'pool': 'p', 'device': 'x', 'conditions': [], 'networkData': {'interfaceName': 'eth1'}}]}}
    code, e = s.apply(v1 + '/status', status, 'driver')
    expect('rules still hold', code, 422)


def kubectl_s(s):
    """From kubectl's own apply to the server's, and back."""
    path = '/api/v1/namespaces/default/configmaps/k'
    config = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'k', 'namespace': 'default'}, 'data': {'a': '1'}}
    last = json.dumps(config) + '\n'
    body = json.loads(json.dumps(config))
    body['metadata']['annotations'] = {'kubectl.kubernetes.io/last-applied-configuration': last}
    s.call('POST', '/api/v1/namespaces/default/configmaps?fieldManager=kubectl-client-side-apply', body)
    config['data']['a'] = '2'
    expect('others conflict', s.apply(path, config, 'someone')[0], 409)
    code, o = s.apply(path, config, 'kubectl')
    expect('kubectl goes on', (code, o['data']), (200, {'a': '2'}))
    expect('and keeps its record', json.loads(o['metadata']['annotations']['kubectl.kubernetes.io/last-applied-configuration']), config)


def other_server(s):
    """A server whose certificate is for other names fails for all objects alike: one message."""
    text = open(os.path.join(s.folder, 'admin.kubeconfig')).read()
    wrong = os.path.join(s.top, 'wrong.kubeconfig')
    with open(wrong, 'w') as f:
        f.write(re.sub(r'( +)server: (.*)', r'\1server: \2\n\1tls-server-name: other.example', text, count=1))
    objects = '---\n'.join(json.dumps(config_map({}, name=n)) + '\n' for n in 'xyz')
    got = subprocess.run([s.dray, 'apply', '--kubeconfig', wrong, '-f', '-'], input=objects, capture_output=True, text=True, timeout=60)
    expect('one message', (got.returncode, len(got.stderr.splitlines()), 'mismatch' in got.stderr), (1, 1, True))


def main():
    s = Server(sys.argv[1])
    try:
        for test in basics, refusals, lists, claims, kubectl_s, other_server:
            test(s)
    finally:
        s.done()
    for f in failures:
        print('FAIL', f)
    print('apply:', 'failed' if failures else 'ok')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

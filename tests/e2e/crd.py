#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kinds that users add, and admission policies, over HTTP: definitions, objects, schemas, versions, discovery, deletion, restart.

usage: crd.py DRAY"""
import base64, copy, http.client, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'diff'))
import crd_diff  # noqa: E402

failures = []
GROUP = 'stable.example.com'
CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
TABS = f'/apis/{GROUP}/v1/namespaces/default/crontabs'


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {repr(want)[:2000]}, got {repr(got)[:2000]}')


class Server:
    def __init__(self, dray):
        self.dray = dray
        self.top = tempfile.mkdtemp(prefix='dray-crd-')
        self.folder = os.path.join(self.top, 'data')
        self.log = open(os.path.join(self.top, 'log'), 'wb')
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.dray, 'server', '--data-dir', self.folder, '--listen', '127.0.0.1:0'],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert 'ready at' in self.process.stdout.readline(), open(self.log.name).read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        expect('it ends well', self.process.wait(120), 0)

    def call(self, method, path, body=None, kind='application/json', accept='application/json', headers=False):
        c = http.client.HTTPConnection('localhost', timeout=120)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(os.path.join(self.folder, 'dray.sock'))
        h = {'Content-Type': kind, 'Accept': accept, 'User-Agent': 'test/1'}
        c.request(method, path, body if isinstance(body, (str, bytes)) else json.dumps(body) if body is not None else None, h)
        a = c.getresponse()
        text = a.read()
        c.close()
        data = json.loads(text) if text[:1] in b'{[' else text.decode(errors='replace')
        return (a.status, data, a.headers.get_all('Warning') or []) if headers else (a.status, data)

    def done(self):
        self.stop()
        self.log.close()
        shutil.rmtree(self.top)


SCHEMA = {
    'type': 'object',
    'required': ['spec'],
    'properties': {
        'spec': {
            'type': 'object',
            'properties': {
                'cronSpec': {'type': 'string', 'pattern': r'^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'},
                'image': {'type': 'string', 'minLength': 2, 'maxLength': 20},
                'replicas': {'type': 'integer', 'minimum': 1, 'maximum': 10, 'default': 1},
                'mode': {'type': 'string', 'enum': ['Allow', 'Forbid'], 'default': 'Allow'},
                'when': {'type': 'string', 'format': 'date-time'},
                'port': {'x-kubernetes-int-or-string': True, 'anyOf': [{'type': 'integer'}, {'type': 'string'}]},
                'tags': {'type': 'array', 'items': {'type': 'string'}, 'x-kubernetes-list-type': 'set'},
                'rooms': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'],
                          'items': {'type': 'object', 'required': ['name'],
                                    'properties': {'name': {'type': 'string'}, 'size': {'type': 'integer', 'default': 3}}}},
                'labels': {'type': 'object', 'additionalProperties': {'type': 'string'}},
                'free': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True},
                'pod': {'type': 'object', 'x-kubernetes-embedded-resource': True, 'x-kubernetes-preserve-unknown-fields': True},
                'note': {'type': 'string', 'nullable': True},
                'limits': {'type': 'object', 'properties': {'low': {'type': 'integer'}, 'high': {'type': 'integer'}},
                           'x-kubernetes-validations': [
                               {'rule': 'self.low <= self.high', 'message': 'low must not be above high'},
                               {'rule': 'self.low == oldSelf.low', 'messageExpression': '"low was " + string(oldSelf.low)',
                                'reason': 'FieldValueForbidden', 'fieldPath': '.low'}]},
            },
        },
        'status': {'type': 'object', 'properties': {'replicas': {'type': 'integer'}, 'selector': {'type': 'string'},
                                                    'phase': {'type': 'string'}}},
    },
}


def definition(**spec):
    version = {'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': copy.deepcopy(SCHEMA)},
               'subresources': {'status': {}, 'scale': {'specReplicasPath': '.spec.replicas', 'statusReplicasPath': '.status.replicas',
                                                        'labelSelectorPath': '.status.selector'}},
               'additionalPrinterColumns': [
                   {'name': 'Spec', 'type': 'string', 'jsonPath': '.spec.cronSpec', 'description': 'When it runs.'},
                   {'name': 'Replicas', 'type': 'integer', 'jsonPath': '.spec.replicas'},
                   {'name': 'Age', 'type': 'date', 'jsonPath': '.metadata.creationTimestamp'}],
               'selectableFields': [{'jsonPath': '.spec.mode'}]}
    return {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': f'crontabs.{GROUP}'},
            'spec': {'group': GROUP, 'scope': 'Namespaced',
                     'names': {'plural': 'crontabs', 'singular': 'crontab', 'kind': 'CronTab', 'shortNames': ['ct'], 'categories': ['all']},
                     'versions': [version, {**copy.deepcopy(version), 'name': 'v1beta1', 'storage': False, 'deprecated': True}], **spec}}


def tab(name='a', spec=None, **rest):
    return {'apiVersion': f'{GROUP}/v1', 'kind': 'CronTab', 'metadata': {'name': name}, 'spec': spec if spec is not None else {}, **rest}


def causes(e):
    return sorted((c.get('field'), c['reason'], c['message']) for c in e.get('details', {}).get('causes', []))


def definitions(s):
    bad = definition(scope='Everywhere')
    bad['spec']['versions'][0]['schema']['openAPIV3Schema']['properties']['spec']['properties']['image'].pop('type')
    bad['spec']['versions'][1]['storage'] = True
    code, e = s.call('POST', CRDS, bad)
    expect('a bad definition', (code, [c[:2] for c in causes(e)]),
           (422, [('spec.scope', 'FieldValueNotSupported'), ('spec.versions', 'FieldValueInvalid'),
                  ('spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[image].type', 'FieldValueRequired')]))
    webhook = definition(conversion={'strategy': 'Webhook', 'webhook': {'conversionReviewVersions': ['v1'], 'clientConfig': {'url': 'https://a.b/c'}}})
    code, e = s.call('POST', CRDS, webhook)
    expect('conversion webhooks are refused', (code, 'does not call conversion webhooks' in e['message']), (422, True))
    rule = definition()
    rule['spec']['versions'][0]['schema']['openAPIV3Schema']['x-kubernetes-validations'] = [{'rule': 'self.spec.nothing == 1'}]
    code, e = s.call('POST', CRDS, rule)
    expect('a rule on a field that is not there', (code, "undefined field 'nothing'" in e['message']), (422, True))
    code, o = s.call('POST', CRDS, definition())
    expect('made', (code, o.get('message', '')), (201, ''))
    conditions = {c['type']: c['status'] for c in o['status']['conditions']}
    expect('established', (conditions, o['status']['storedVersions'], o['status']['acceptedNames']['listKind'], o['spec']['conversion']),
           ({'NamesAccepted': 'True', 'Established': 'True'}, ['v1'], 'CronTabList', {'strategy': 'None'}))
    other = definition()
    other['metadata']['name'] = f'cts.{GROUP}'
    other['spec']['names'] = {'plural': 'cts', 'kind': 'CronTab'}
    code, o = s.call('POST', CRDS, other)
    expect('names in use', (code, {c['type']: c['reason'] for c in o['status']['conditions']}),
           (201, {'NamesAccepted': 'ListKindConflict', 'Established': 'NotAccepted'}))
    expect('not served', s.call('GET', f'/apis/{GROUP}/v1/cts')[0], 404)
    expect('deleted', s.call('DELETE', f'{CRDS}/cts.{GROUP}')[0], 200)


def objects(s):
    code, o, warnings = s.call('POST', TABS, tab('a', {'cronSpec': '* * * * *', 'unknown': 1, 'free': {'x': {'y': 1}},
                                                       'rooms': [{'name': 'r', 'more': 2}], 'note': None, 'image': None},
                                                 status={'phase': 'no'}), headers=True)
    expect('created', code, 201)
    expect('pruned and defaulted', o.get('spec'),
           {'cronSpec': '* * * * *', 'replicas': 1, 'mode': 'Allow', 'free': {'x': {'y': 1}}, 'rooms': [{'name': 'r', 'size': 3}], 'note': None})
    expect('no status by way of the object', ('status' in o, o['metadata']['generation']), (False, 1))
    expect('warnings', warnings, ['299 - "unknown field \\"spec.rooms[0].more\\""', '299 - "unknown field \\"spec.unknown\\""'])
    code, e = s.call('POST', TABS + '?fieldValidation=Strict', tab('b', {'unknown': 1}))
    expect('strict', (code, 'unknown field "spec.unknown"' in e['message']), (400, True))
    code, e = s.call('POST', TABS, tab('b', {'cronSpec': 'x', 'image': 'i', 'replicas': 11, 'mode': 'Other', 'when': 'now', 'port': True,
                                             'tags': ['a', 'b', 'a'], 'labels': {'k': 5}, 'pod': {'kind': 'Pod'}}))
    expect('invalid', (code, causes(e)), (422, sorted([
        ('spec.cronSpec', 'FieldValueInvalid', 'Invalid value: "x": spec.cronSpec in body should match \'' + SCHEMA['properties']['spec']['properties']['cronSpec']['pattern'] + "'"),
        ('spec.image', 'FieldValueInvalid', 'Invalid value: "i": spec.image in body should be at least 2 chars long'),
        ('spec.replicas', 'FieldValueInvalid', 'Invalid value: 11: spec.replicas in body should be less than or equal to 10'),
        ('spec.mode', 'FieldValueNotSupported', 'Unsupported value: "Other": supported values: "Allow", "Forbid"'),
        ('spec.when', 'FieldValueTypeInvalid', 'Invalid value: "now": spec.when in body must be of type date-time: "now"'),
        ('spec.port', 'FieldValueTypeInvalid', 'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'),
        ('<nil>', 'FieldValueInvalid', 'Invalid value: "": "spec.port" must validate at least one schema (anyOf)'),
        ('spec.port', 'FieldValueTypeInvalid', 'Invalid value: "boolean": spec.port in body must be of type integer: "boolean"'),
        ('spec.labels.k', 'FieldValueTypeInvalid', 'Invalid value: "integer": spec.labels.k in body must be of type string: "integer"'),
        ('spec.pod.apiVersion', 'FieldValueRequired', 'Required value'),
        ('spec.tags[2]', 'FieldValueDuplicate', 'Duplicate value: "a"'),
        ('<nil>', 'FieldValueInvalid', 'Invalid value: null: some validation rules were not checked because the object was invalid; '
                                       'correct the existing errors to complete validation'),
    ])))
    code, e = s.call('POST', TABS, {'apiVersion': f'{GROUP}/v1', 'kind': 'CronTab', 'metadata': {'name': 'b'}})
    expect('required', (code, causes(e)[-1]), (422, ('spec', 'FieldValueRequired', 'Required value')))
    rules(s)
    # The other version shows the same object.
    old = TABS.replace('/v1/', '/v1beta1/')
    code, o = s.call('GET', old + '/a')
    expect('another version', (code, o['apiVersion'], o['spec']['cronSpec']), (200, f'{GROUP}/v1beta1', '* * * * *'))
    updates(s, old)


def rules(s):
    limits = lambda low, high: {'limits': {'low': low, 'high': high}}
    code, e = s.call('POST', TABS, tab('r', limits(5, 2)))
    expect('a rule', (code, causes(e)), (422, [('spec.limits', 'FieldValueInvalid', 'Invalid value: low must not be above high')]))
    code, o = s.call('POST', TABS, tab('r', limits(1, 2)))
    expect('kept', code, 201)
    o['spec']['limits']['low'] = 2
    code, e = s.call('PUT', TABS + '/r', o)
    expect('a rule that looks back', (code, causes(e)), (422, [('spec.limits.low', 'FieldValueForbidden', 'Forbidden: low was 1')]))
    expect('gone', s.call('DELETE', TABS + '/r')[1]['status'], 'Success')


def updates(s, old):
    o = s.call('GET', TABS + '/a')[1]
    same = s.call('PUT', TABS + '/a', o)[1]
    expect('no change, no version', same['metadata']['resourceVersion'], o['metadata']['resourceVersion'])
    stale = copy.deepcopy(o)
    o['spec']['replicas'] = 2
    code, o = s.call('PUT', old + '/a', {**o, 'apiVersion': f'{GROUP}/v1beta1'})
    expect('an update', (code, o['spec']['replicas'], o['metadata']['generation']), (200, 2, 2))
    expect('a stale one', s.call('PUT', TABS + '/a', stale)[0], 409)
    del stale['metadata']['resourceVersion']
    expect('one without version', s.call('PUT', TABS + '/a', stale)[0], 422)
    code, o = s.call('PATCH', TABS + '/a', {'spec': {'image': 'busybox', 'free': None}}, 'application/merge-patch+json')
    expect('a merge patch', (code, o['spec'].get('image'), 'free' in o['spec']), (200, 'busybox', False))
    code, o = s.call('PATCH', TABS + '/a', [{'op': 'replace', 'path': '/spec/replicas', 'value': 3}], 'application/json-patch+json')
    expect('a JSON patch', (code, o['spec']['replicas'], o['metadata']['generation']), (200, 3, 4))
    expect('no strategic patch', s.call('PATCH', TABS + '/a', {}, 'application/strategic-merge-patch+json')[0], 415)
    code, o = s.call('PATCH', TABS + '/a/status', {'spec': {'replicas': 9}, 'status': {'replicas': 2, 'selector': 'a=b', 'other': 1}},
                     'application/merge-patch+json')
    expect('a status', (code, o['status'], o['spec']['replicas'], o['metadata']['generation']), (200, {'replicas': 2, 'selector': 'a=b'}, 3, 4))
    code, o = s.call('GET', TABS + '/a/scale')
    expect('a scale', (code, o['kind'], o['spec'], o['status']), (200, 'Scale', {'replicas': 3}, {'replicas': 2, 'selector': 'a=b'}))
    code, o = s.call('PATCH', TABS + '/a/scale', {'spec': {'replicas': 5}}, 'application/merge-patch+json')
    expect('scaled', (code, o['spec'], s.call('GET', TABS + '/a')[1]['spec']['replicas']), (200, {'replicas': 5}, 5))
    applied(s)


def applied(s):
    config = lambda **spec: {'apiVersion': f'{GROUP}/v1', 'kind': 'CronTab', 'metadata': {'name': 'p'}, 'spec': spec}
    apply = lambda manager, c, more='': s.call('PATCH', f'{TABS}/p?fieldManager={manager}{more}', c, 'application/apply-patch+yaml')
    code, o = apply('one', config(cronSpec='* * * * *', rooms=[{'name': 'x', 'size': 1}], tags=['a']))
    expect('applied', (code, o.get('spec', {}).get('rooms')), (201, [{'name': 'x', 'size': 1}]))
    code, o = apply('two', config(rooms=[{'name': 'y'}], tags=['b']))
    expect('merged by key', (code, o['spec']['rooms'], o['spec']['tags']), (200, [{'name': 'x', 'size': 1}, {'name': 'y', 'size': 3}], ['a', 'b']))
    code, e = apply('two', config(cronSpec='1 1 1 1 1'))
    expect('conflict', (code, e['message']), (409, 'Apply failed with 1 conflict: conflict with "one": .spec.cronSpec'))
    code, o = apply('one', config(cronSpec='* * * * *'))
    expect('what nobody states goes', o['spec'].get('rooms'), [{'name': 'y', 'size': 3}] if 'rooms' in o['spec'] else None)
    expect('gone', s.call('DELETE', TABS + '/p')[0], 200)


def lists(s):
    s.call('POST', TABS, tab('z', {'mode': 'Forbid'}))
    code, o = s.call('GET', TABS)
    expect('a list', (o['kind'], o['apiVersion'], [(i['kind'], i['metadata']['name']) for i in o['items']]),
           ('CronTabList', f'{GROUP}/v1', [('CronTab', 'a'), ('CronTab', 'z')]))
    code, o = s.call('GET', TABS + '?fieldSelector=spec.mode%3DForbid')
    expect('a field selector', [i['metadata']['name'] for i in o['items']], ['z'])
    expect('a field that is not offered', s.call('GET', TABS + '?fieldSelector=spec.image%3Dx')[0], 400)
    code, t = s.call('GET', TABS, accept='application/json;as=Table;v=v1;g=meta.k8s.io')
    expect('a table', ([c['name'] for c in t['columnDefinitions']], [r['cells'][:3] for r in t['rows']]),
           (['Name', 'Spec', 'Replicas', 'Age'], [['a', '* * * * *', 5], ['z', None, 1]]))
    code, m = s.call('GET', TABS, accept='application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io')
    expect('metadata alone', (m['kind'], len(m['items'])), ('PartialObjectMetadataList', 2))


def documents(s):
    code, o = s.call('GET', f'/apis/{GROUP}')
    expect('the group', [v['version'] for v in o['versions']], ['v1', 'v1beta1'])
    code, o = s.call('GET', f'/apis/{GROUP}/v1')
    expect('resources', [(r['name'], r['kind'], r.get('shortNames'), r.get('categories')) for r in o['resources']],
           [('crontabs', 'CronTab', ['ct'], ['all']), ('crontabs/scale', 'Scale', None, None), ('crontabs/status', 'CronTab', None, None)])
    code, o = s.call('GET', '/apis', accept='application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList')
    expect('aggregated', [i['metadata']['name'] for i in o['items'] if i['metadata']['name'] == GROUP], [GROUP])
    code, o = s.call('GET', '/openapi/v3')
    expect('in the index', f'apis/{GROUP}/v1' in o['paths'], True)
    code, o = s.call('GET', f'/openapi/v3/apis/{GROUP}/v1')
    schema = o['components']['schemas']['com.example.stable.v1.CronTab']
    expect('OpenAPI v3', (schema['x-kubernetes-group-version-kind'][0]['kind'], schema['properties']['spec']['properties']['replicas']['default']),
           ('CronTab', 1))
    code, o = s.call('GET', '/openapi/v2')
    expect('OpenAPI v2', 'com.example.stable.v1.CronTab' in o['definitions'] and f'/apis/{GROUP}/v1/namespaces/{{namespace}}/crontabs' in o['paths'], True)


def changed(s):
    """A definition that changes: new defaults show, the storage version moves."""
    o = s.call('GET', f'{CRDS}/crontabs.{GROUP}')[1]
    for v in o['spec']['versions']:
        v['schema']['openAPIV3Schema']['properties']['spec']['properties']['added'] = {'type': 'string', 'default': 'new'}
        v['storage'] = v['name'] == 'v1beta1'
    code, o = s.call('PUT', f'{CRDS}/crontabs.{GROUP}', o)
    expect('changed', (code, o.get('status', {}).get('storedVersions'), o['metadata'].get('generation')), (200, ['v1', 'v1beta1'], 2))
    expect('old objects have the new default', s.call('GET', TABS + '/a')[1]['spec']['added'], 'new')
    o['spec']['names']['kind'] = 'Other'
    code, e = s.call('PUT', f'{CRDS}/crontabs.{GROUP}', o)
    expect('the kind stays', (code, causes(e)), (422, [('spec.names.kind', 'FieldValueInvalid', 'Invalid value: "Other": field is immutable')]))


def ended(s):
    o = s.call('GET', TABS + '/z')[1]
    o['metadata']['finalizers'] = ['example.com/hold']
    expect('held', s.call('PUT', TABS + '/z', o)[0], 200)
    code, o = s.call('DELETE', f'{CRDS}/crontabs.{GROUP}')
    expect('marked', (code, o['metadata']['finalizers'], o['status']['conditions'][-1]['type']),
           (200, ['customresourcecleanup.apiextensions.k8s.io'], 'Terminating'))
    wait('what nothing holds goes', lambda: [i['metadata']['name'] for i in s.call('GET', TABS)[1]['items']] == ['z'])
    expect('nothing new', s.call('POST', TABS, tab('n'))[0], 405)
    expect('let go', s.call('PATCH', TABS + '/z', {'metadata': {'finalizers': None}}, 'application/merge-patch+json')[0], 200)
    wait('the definition goes', lambda: s.call('GET', f'{CRDS}/crontabs.{GROUP}')[0] == 404)
    expect('and the kind', (s.call('GET', TABS)[0], s.call('GET', f'/apis/{GROUP}')[0]), (404, 404))
    expect('it can come again', s.call('POST', CRDS, definition())[0], 201)
    expect('empty', s.call('GET', TABS)[1]['items'], [])


def wait(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            failures.append(f'{what}: not in time')
            return
        time.sleep(0.05)


POLICIES = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies'
BINDINGS = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings'
MAPS = '/api/v1/namespaces/default/configmaps'


def policy(name, rules, validations, **spec):
    return {'apiVersion': 'admissionregistration.k8s.io/v1', 'kind': 'ValidatingAdmissionPolicy', 'metadata': {'name': name},
            'spec': {'matchConstraints': {'resourceRules': rules}, 'validations': validations, **spec}}


def binding(name, actions, **spec):
    return {'apiVersion': 'admissionregistration.k8s.io/v1', 'kind': 'ValidatingAdmissionPolicyBinding', 'metadata': {'name': name},
            'spec': {'policyName': name, 'validationActions': actions, **spec}}


def policies(s):
    rule = [{'apiGroups': [''], 'apiVersions': ['v1'], 'resources': ['configmaps'], 'operations': ['CREATE', 'UPDATE', 'DELETE']}]
    code, e = s.call('POST', POLICIES, policy('bad', rule, [{'expression': 'object.data.size( > 1'}]))
    expect('an expression that is none', (code, causes(e)[0][0]), (422, 'spec.validations[0].expression'))
    code, e = s.call('POST', POLICIES, policy('bad', rule, [{'expression': 'authorizer.group("").allowed()'}]))
    expect('no authorizer', code, 422)
    code, o = s.call('POST', POLICIES, policy('p', rule, [
        {'expression': 'request.operation == "DELETE" || variables.n <= params.data.max', 'messageExpression': '"has " + string(variables.n)'},
        {'expression': 'request.operation != "DELETE" || oldObject.metadata.name != "kept"', 'message': 'it stays', 'reason': 'Forbidden'}],
        variables=[{'name': 'n', 'expression': 'string(has(object.data) ? size(object.data) : 0)'}],
        matchConditions=[{'name': 'mine', 'expression': 'request.userInfo.username != "nobody" && namespaceObject.metadata.name == "default"'}],
        paramKind={'apiVersion': 'v1', 'kind': 'ConfigMap'}))
    expect('a policy', (code, o['spec']['failurePolicy'], o['spec']['matchConstraints']['matchPolicy']), (201, 'Fail', 'Equivalent'))
    m = lambda name, **data: {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name}, 'data': data}
    expect('unbound policies do nothing', s.call('POST', MAPS, m('limit', max='1'))[0], 201)
    expect('a binding', s.call('POST', BINDINGS, binding('p', ['Deny'], paramRef={'name': 'limit', 'namespace': 'default',
                                                                                 'parameterNotFoundAction': 'Deny'}))[0], 201)
    expect('within the limit', s.call('POST', MAPS, m('kept', a='1'))[0], 201)
    code, e = s.call('POST', MAPS, m('two', a='1', b='2'))
    expect('beyond it', (code, e['reason'], e['message']),
           (422, 'Invalid', 'configmaps "two" is forbidden: ValidatingAdmissionPolicy \'p\' with binding \'p\' denied request: has 2'))
    code, e = s.call('DELETE', MAPS + '/kept')
    expect('a deletion', (code, e['reason'], 'it stays' in e['message']), (403, 'Forbidden', True))
    # Errors refuse, or do not.
    s.call('POST', POLICIES, policy('q', rule, [{'expression': 'object.data.nothing == "1"'}]))
    s.call('POST', BINDINGS, binding('q', ['Warn']))
    code, o, warnings = s.call('POST', MAPS, m('w'), headers=True)
    expect('a warning', (code, len(warnings), 'no such key: data' in ''.join(warnings)), (201, 1, True))
    expect('rid of it', s.call('DELETE', BINDINGS + '/p')[0], 200)
    expect('the deletion', s.call('DELETE', MAPS + '/kept')[0], 200)
    drivers(s)


def drivers(s):
    """As drivers install them: a plugin may write slices of its own node only."""
    s.call('POST', POLICIES, policy('slices', [{'apiGroups': ['resource.k8s.io'], 'apiVersions': ['v1beta1'], 'resources': ['resourceslices'],
                                                'operations': ['CREATE', 'UPDATE', 'DELETE']}],
           [{'expression': 'variables.userNodeName != ""', 'message': 'no node association found for user'},
            {'expression': 'variables.userNodeName == variables.objectNodeName'}],
           variables=[{'name': 'userNodeName', 'expression': "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"},
                      {'name': 'objectNodeName', 'expression': '(request.operation == "DELETE" ? oldObject : object).spec.?nodeName.orValue("")'}]))
    s.call('POST', BINDINGS, binding('slices', ['Deny']))
    slice = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': 's'},
             'spec': {'driver': 'a.example.com', 'nodeName': 'n', 'pool': {'name': 'n', 'generation': 1, 'resourceSliceCount': 1}, 'devices': []}}
    code, e = s.call('POST', '/apis/resource.k8s.io/v1/resourceslices', slice)
    expect('a driver\'s policy, by another version', (code, e['message'].split('request: ')[-1]), (422, 'no node association found for user'))
    s.call('DELETE', BINDINGS + '/slices')
    expect('without it', s.call('POST', '/apis/resource.k8s.io/v1/resourceslices', slice)[0], 201)
    hook = {'apiVersion': 'admissionregistration.k8s.io/v1', 'kind': 'ValidatingWebhookConfiguration', 'metadata': {'name': 'h'},
            'webhooks': [{'name': 'a.b.c', 'clientConfig': {'service': {'namespace': 'a', 'name': 'b'}}, 'sideEffects': 'None',
                          'admissionReviewVersions': ['v1'], 'rules': []}]}
    code, e = s.call('POST', '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', hook)
    expect('webhooks are refused, not ignored', (code, 'webhook' in e['message']), (422, True))


LONG_GROUP = '.'.join(['g' * 60] * 4)[:243] + '.io'
LONG_KIND, LONG_VERSION = 'K' * 59, 'v1' + 'a' * 61


def long_names(s):
    """Names as long as they may be: the kind's objects are found, and refused bodies name it."""
    schema = {'openAPIV3Schema': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}}
    crd = {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': f'longs.{LONG_GROUP}'},
           'spec': {'group': LONG_GROUP, 'scope': 'Cluster', 'names': {'plural': 'longs', 'kind': LONG_KIND},
                    'versions': [{'name': LONG_VERSION, 'served': True, 'storage': True, 'schema': schema}]}}
    code, e = s.call('POST', CRDS, crd)
    expect('a definition with long names', (code, e.get('message')), (201, None))
    path = f'/apis/{LONG_GROUP}/{LONG_VERSION}/longs'
    wait('its path', lambda: s.call('GET', path)[0] == 200)
    one = {'apiVersion': f'{LONG_GROUP}/{LONG_VERSION}', 'kind': LONG_KIND, 'metadata': {'name': 'one'}}
    expect('an object of it', s.call('POST', path, one)[0], 201)
    code, e = s.call('POST', path, dict(one, kind='Other'))
    expect('an object of another kind', (code, 'this path takes kind K' in e['message']), (400, True))
    return path + '/one'


def in_protobuf(s):
    """Definitions as Kubernetes' own clients send them."""
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'unit', 'data', 'definition_rows.tsv')
    text, wire = open(data).read().split('\n')[1].split('\t')
    proto = 'application/vnd.kubernetes.protobuf'
    code, made = s.call('POST', CRDS, base64.b64decode(wire), kind=proto)
    expect('a definition in protobuf', (code, made.get('message')), (201, None))
    schema = json.loads(text)['spec']['versions'][0]['schema']
    expect('its schema', made['spec']['versions'][0]['schema'] if code == 201 else None, schema)
    code, back = s.call('GET', CRDS + '/ws.x.io', accept=proto)
    expect('given back in protobuf', (code, back[:4], 'ws.x.io' in back), (200, 'k8s\0', True))
    code, back = s.call('GET', CRDS, accept=proto)
    expect('a list in protobuf', (code, back[:4]), (200, 'k8s\0'))
    expect('its end', s.call('DELETE', CRDS + '/ws.x.io')[0], 200)


def main():
    s = Server(sys.argv[1])
    long_path = long_names(s)
    in_protobuf(s)
    definitions(s)
    objects(s)
    lists(s)
    documents(s)
    changed(s)
    s.stop()
    s.start()
    expect('a long name after a restart', s.call('GET', long_path)[0], 200)
    expect('after a restart', s.call('GET', TABS + '/a')[1].get('spec', {}).get('image'), 'busybox')
    ended(s)
    policies(s)
    s.done()
    # Some of the definitions and objects that kube-apiserver was asked about.
    expect('as kube-apiserver answers', crd_diff.compare(sys.argv[1], step=8), 0)
    for f in failures:
        print('FAIL', f)
    print(f'{len(failures)} failures')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

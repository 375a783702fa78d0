#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray validate as people and programs use it.

usage: validate.py DRAY"""
import json, os, subprocess, sys, tempfile

CLASS = 'apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: gpu\n'
CLAIM = '''apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: Bad
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
        count: -1
        colour: red
'''
failures = []


def dray(*args, text=''):
    return subprocess.run([sys.argv[1], 'validate', *args], input=text, capture_output=True, text=True)


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {want!r}, got {got!r}')


def files(folder):
    good, bad = os.path.join(folder, 'good.yaml'), os.path.join(folder, 'bad.yaml')
    with open(good, 'w') as f:
        f.write(CLASS)
    with open(bad, 'w') as f:
        f.write('# a comment\n---\n' + CLASS + '---\n' + CLAIM)
    r = dray('-f', good)
    expect('good file', (r.returncode, r.stdout), (0, '1 object, all good\n'))
    r = dray('-f', good, bad)
    lines = r.stdout.splitlines()
    expect('bad file', r.returncode, 1)
    expect('unknown field', lines[0], f'{bad}:19: spec.devices.requests[0].exactly.colour: BadRequest: unknown field')
    expect('name', lines[1].startswith(f'{bad}:11: metadata.name: FieldValueInvalid: Invalid value: "Bad": a lowercase RFC 1123'), True)
    expect('count', lines[2], f'{bad}:18: spec.devices.requests[0].exactly.count: FieldValueInvalid: Invalid value: -1: '
                              'must be greater than zero')
    expect('summary', lines[3:], ['1 of 3 objects with errors'])
    expect('quiet', dray('-q', '-f', good).stdout, '')
    expect('missing file', (dray('-f', os.path.join(folder, 'none')).returncode), 1)


def streams():
    r = dray('-f', '-', text=json.dumps({'kind': 'List', 'apiVersion': 'v1', 'items': [
        {'kind': 'DeviceClass', 'apiVersion': 'resource.k8s.io/v1', 'metadata': {'name': 'a'}},
        {'kind': 'NoSuch', 'apiVersion': 'x/v1', 'metadata': {'name': 'b'}}]}, indent=1))
    expect('list from standard input', r.returncode, 1)
    expect('unknown kind', 'no kind "NoSuch" is registered for version "x/v1"' in r.stdout, True)
    r = dray('-v', '-f', '-', text=CLASS)
    expect('verbose', r.stdout, '<stdin>:1: DeviceClass gpu: good\n1 object, all good\n')
    r = dray('-f', '-', text='a: [1\n')
    expect('not YAML', (r.returncode, r.stdout.startswith('<stdin>:')), (1, True))
    twice = '{"kind":"DeviceClass","apiVersion":"resource.k8s.io/v1","metadata":{"name":"a","name":"b"}}'
    r = dray('-f', '-', text=twice)
    expect('field twice', r.stdout.splitlines()[0], '<stdin>:1: metadata.name: BadRequest: duplicate field')
    expect('gates', dray('--feature-gates', 'NoSuch=true', '-f', '-').returncode, 2)
    expect('usage', dray().returncode, 2)


def lines():
    case = {'name': 'one', 'kind': 'DeviceClass', 'apiVersion': 'resource.k8s.io/v1', 'op': 'create',
            'new': {'metadata': {'name': 'a', 'uid': 'x'}}}
    wrong = [dict(case, name='op', op='eat'), dict(case, name='kind', kind='Soup'), dict(case, name='type', new={'spec': 3}),
             dict(case, name='none', new=None), dict(case, name='gates', features={'DRADeviceTaints': 'on'})]
    text = json.dumps(case) + '\n{"name":\n[]\n' + ''.join(json.dumps(w) + '\n' for w in wrong) + json.dumps(case) + '\n'
    r = dray('--jsonl', text=text)
    answers = [json.loads(line) for line in r.stdout.splitlines()]
    expect('exit status', r.returncode, 0)
    expect('an answer a line', [a['name'] for a in answers], ['one', '', '', 'op', 'kind', 'type', 'none', 'gates', 'one'])
    expect('accepted', answers[0], {'name': 'one', 'causes': [], 'object': {
        'kind': 'DeviceClass', 'apiVersion': 'resource.k8s.io/v1', 'metadata': {'name': 'a', 'generation': 1}, 'spec': {}}})
    for a in answers[1:8]:
        expect(f'bad line {a["name"]}', ([c['reason'] for c in a['causes']], 'object' in a), (['BadRequest'], False))
    tolerant = dict(case, kind='ResourceClaim', new={'metadata': {'name': 'a'}, 'spec': {'devices': {'requests': [
        {'name': 'r', 'exactly': {'deviceClassName': 'c', 'tolerations': [{'value': 'v'}]}}]}}})
    a = json.loads(dray('--jsonl', text=json.dumps(tolerant)).stdout)
    expect('what the server repairs is marked', {c.get('unprepared') for c in a['causes']}, {True})
    expect('and taken', 'object' in a, True)
    a = json.loads(dray('--jsonl', '--server-only', text=json.dumps(tolerant)).stdout)
    expect('server only', a['causes'], [])


with tempfile.TemporaryDirectory() as folder:
    files(folder)
streams()
lines()
for failure in failures:
    print(failure)
print(f'{len(failures)} of the checks failed' if failures else 'all checks passed')
sys.exit(1 if failures else 0)

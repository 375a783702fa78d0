#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs convert and explain as a user meets them. usage: convert.py DRAY"""
import json
import subprocess
import sys

CLAIM = b'''
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: one}
spec:
  devices:
    requests:
    - {name: gpu, deviceClassName: gpu.example.com, count: 2}
---
apiVersion: example.com/v1
kind: Unknown
spec: {keep: [1, 2.5, "three"]}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {a: "1"}}
'''


def run(*args, data=b''):
    return subprocess.run([DRAY, *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check(what, condition, run_result=None):
    if not condition:
        print(f'failed: {what}')
        if run_result:
            print(run_result.stdout.decode(errors='replace')[:2000], run_result.stderr.decode()[:2000])
        sys.exit(1)


def converts_versions_and_formats():
    out = run('convert', '-f', '-', '--to', 'resource.k8s.io/v1', '-o', 'json', data=CLAIM)
    check('exit status', out.returncode == 0, out)
    text, decoder, values = out.stdout.decode(), json.JSONDecoder(), []
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        values.append(value)
        text = text.lstrip()[end:]
    check('three objects', len(values) == 3, out)
    check('the claim is v1', values[0]['apiVersion'] == 'resource.k8s.io/v1', out)
    check('the request is nested', values[0]['spec']['devices']['requests'] ==
          [{'name': 'gpu', 'exactly': {'deviceClassName': 'gpu.example.com', 'count': 2}}], out)
    check('an unknown kind is kept', values[1]['spec'] == {'keep': [1, 2.5, 'three']}, out)
    check('a list is taken apart', values[2]['kind'] == 'ConfigMap', out)
    back = run('convert', '-f', '-', '--to', 'v1beta1', '-o', 'yaml', data=json.dumps(values[0]).encode())
    check('back in v1beta1', b'deviceClassName: gpu.example.com' in back.stdout and b'exactly' not in back.stdout, back)
    proto = run('convert', '-f', '-', '-o', 'protobuf', data=json.dumps(values[2]).encode())
    check('protobuf has the envelope', proto.stdout.startswith(b'k8s\0'), proto)
    again = run('convert', '-f', '-', '-o', 'json', data=proto.stdout)
    check('protobuf is read', json.loads(again.stdout) == values[2], again)


def says_what_is_wrong():
    out = run('convert', '-f', '-', '-o', 'json', data=b'apiVersion: v1\nkind: Pod\nspec:\n  containers: 7\n')
    check('a wrong type is refused', out.returncode == 1 and b'<stdin>:4:15: spec.containers: ' in out.stderr, out)
    out = run('convert', '-f', '-', data=b'apiVersion: v1\nkind: Pod\nspec: {bogus: 1}\n')
    check('an unknown field is a warning', out.returncode == 0 and b'unknown field "spec.bogus"' in out.stderr, out)
    out = run('convert', '-f', '-', '--to', 'resource.k8s.io/v1beta1',
              data=b'apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\n')
    check('a missing kind is refused', out.returncode == 1 and b'has no DeviceTaintRule' in out.stderr, out)
    check('no file', run('convert', '-f', '/no/such/file').returncode == 1)
    check('usage', run('convert').returncode == 2 and run('explain').returncode == 2)


def explains():
    out = run('explain', 'claim.spec')
    check('a short word for a kind', out.returncode == 0 and b'KIND:       ResourceClaim' in out.stdout, out)
    out = run('explain', 'nonsense')
    check('an unknown kind', out.returncode == 1 and b'no kind is called' in out.stderr, out)
    out = run('explain', 'deviceclass.spec', '--api-version', 'resource.k8s.io/v1beta1')
    check('a field', out.returncode == 0 and b'extendedResourceName' in out.stdout and b'VERSION:    v1beta1' in out.stdout, out)


DRAY = sys.argv[1]
converts_versions_and_formats()
says_what_is_wrong()
explains()
print('convert and explain do as they say')

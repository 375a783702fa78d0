#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published manifests decode and survive JSON, YAML and protobuf and the way through the other versions. Fields that a kind
does not know are reported exactly where the API server's strict decoding refused them. usage: manifests.py DRAY"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'data'))
import unpack

OPEN = os.path.join(unpack.directory('manifests'), 'open')

# The verdicts are 1.36's. This field became another one in 1.37.
GONE_IN_137 = 'nodeAllocatableResourceMappings'


def convert(dray, data, *args):
    return subprocess.run([dray, 'convert', '-f', '-', *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def objects(text):
    """JSON values that follow each other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    text = text.decode()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def stream(values):
    return '\n'.join(json.dumps(v) for v in values).encode()


def has_protobuf(dray, value):
    return convert(dray, stream([value]), '-o', 'protobuf').returncode == 0


def compare(name, before, after):
    """Both must hold the same objects; the first that changed is shown."""
    if before == after:
        return []
    for i, (a, b) in enumerate(zip(before, after)):
        if a != b:
            return [f'object {i} changed by {name}: {json.dumps(a)[:400]}\n  became {json.dumps(b)[:400]}']
    return [f'{len(before)} objects became {len(after)} by {name}']


def round_trips(dray, before):
    """What becomes of objects through formats and versions."""
    yaml = convert(dray, stream(before), '-o', 'yaml').stdout
    problems = compare('YAML', before, objects(convert(dray, yaml, '-o', 'json').stdout))
    kinds = {(v['apiVersion'], v['kind']): v for v in before}
    typed = {k for k, v in kinds.items() if has_protobuf(dray, v)}
    known = [v for v in before if (v['apiVersion'], v['kind']) in typed]
    proto = convert(dray, stream(known), '-o', 'protobuf').stdout
    problems += compare('protobuf', known, objects(convert(dray, proto, '-o', 'json').stdout))
    # DeviceTaintRule and ResourcePoolStatusRequest are not in v1beta1.
    claims = [v for v in known if v['apiVersion'] == 'resource.k8s.io/v1' and v['kind'] != 'DeviceTaintRule']
    old = convert(dray, stream(claims), '--to', 'resource.k8s.io/v1beta1', '-o', 'json').stdout
    back = convert(dray, old, '--to', 'resource.k8s.io/v1', '-o', 'json').stdout
    return problems + compare('way of v1beta1', claims, objects(back))


def check_decoding(said, files, refused):
    """What decoding said of each file, against what the API server said."""
    problems = []
    for path in files:
        mine = [line for line in said if f' {path}:' in line]
        name = os.path.relpath(path, OPEN)
        errors = [line for line in mine if 'warning: ' not in line and 'is missing' not in line]
        if errors:
            problems.append(f'{name}: does not decode: {errors[0]}')
        unknown = any('unknown field' in line and GONE_IN_137 not in line for line in mine)
        if unknown != (name in refused):
            problems.append(f'{name}: unknown fields: here {unknown}, by the API server {name in refused}: {mine}')
    return problems


def main():
    dray = sys.argv[1]
    verdicts = json.load(open(os.path.join(OPEN, 'ORACLE.json'), encoding='utf-8'))
    refused = {v['path'] for v in verdicts if 'unknown field' in (v.get('message') or '')}
    files = sorted(os.path.join(top, n) for top, _, names in os.walk(OPEN) for n in names if n.endswith(('.yaml', '.yml')))
    all_files = [word for path in files for word in ('-f', path)]
    run = subprocess.run([dray, 'convert', '-o', 'json', *all_files], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    before = objects(run.stdout)
    problems = check_decoding(run.stderr.decode().split('\n'), files, refused) + round_trips(dray, before)
    print('\n'.join(problems[:20]))
    print(f'{len(before)} objects of {len(files)} manifests through every format and version: {len(problems)} problems')
    return 1 if problems or len(before) < 300 else 0


if __name__ == '__main__':
    sys.exit(main())

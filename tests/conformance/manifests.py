#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published manifests decode and survive JSON, YAML and protobuf and the way through the other versions. Fields that a kind
does not know are reported exactly where the API server's strict decoding refused them. usage: manifests.py DRAY"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPEN = os.path.join(HERE, '..', '..', '..', 'shared', 'manifests', 'open')

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


def formats(dray, plain, typed):
    """What becomes of JSON through other formats; protobuf only when every kind has one."""
    yaml = convert(dray, plain, '-o', 'yaml')
    yield 'YAML', convert(dray, yaml.stdout, '-o', 'json')
    if typed:
        proto = convert(dray, plain, '-o', 'protobuf')
        yield 'protobuf', convert(dray, proto.stdout, '-o', 'json')


def versions(dray, plain):
    there = convert(dray, plain, '--to', 'resource.k8s.io/v1beta1', '-o', 'json')
    if there.returncode == 0:
        yield 'v1beta1', convert(dray, there.stdout, '--to', 'resource.k8s.io/v1', '-o', 'json')


def check(dray, path, refused):
    data = open(path, 'rb').read()
    first = convert(dray, data, '-o', 'json')
    said = first.stderr.decode()
    if first.returncode != 0 and 'is missing' not in said:
        return f'does not decode: {said.strip()}'
    unknown = 'unknown field' in said and GONE_IN_137 not in said
    if unknown != refused:
        return f'unknown fields: here {unknown}, by the API server {refused}: {said.strip()}'
    before = objects(first.stdout)
    typed = convert(dray, first.stdout, '-o', 'protobuf').returncode == 0
    for name, after in formats(dray, first.stdout, typed):
        if objects(after.stdout) != before:
            return f'changed by {name}'
    v1 = convert(dray, first.stdout, '--to', 'resource.k8s.io/v1', '-o', 'json')
    if v1.returncode == 0:
        for name, after in versions(dray, v1.stdout):
            if objects(after.stdout) != objects(v1.stdout):
                return f'changed by way of {name}'
    return None


def main():
    dray = sys.argv[1]
    if not os.path.isdir(OPEN):
        print('skipped: no manifests beside the project')
        return 77
    verdicts = json.load(open(os.path.join(OPEN, 'ORACLE.json'), encoding='utf-8'))
    refused = {v['path'] for v in verdicts if 'unknown field' in (v.get('message') or '')}
    count, problems = 0, []
    for top, _, names in sorted(os.walk(OPEN)):
        for name in sorted(n for n in names if n.endswith(('.yaml', '.yml'))):
            path = os.path.join(top, name)
            count += 1
            problem = check(dray, path, os.path.relpath(path, OPEN) in refused)
            if problem:
                problems.append(f'{os.path.relpath(path, OPEN)}: {problem}')
    print('\n'.join(problems[:20]))
    print(f'{count - len(problems)} of {count} manifests survive every format and version')
    return 1 if problems or count < 100 else 0


if __name__ == '__main__':
    sys.exit(main())

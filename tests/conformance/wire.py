#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recorded protobuf bodies of real drivers and a real API server decode to the JSON recorded beside them, and encode
back to the same bytes. usage: wire.py DRAY"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# This driver was built for 1.36 and sends a field (number 13 of a device) that 1.37 has no more.
OLD_FIELDS = ('example-cpu/0001', 'example-cpu/0003')
sys.path.insert(0, os.path.join(HERE, '..', 'data'))
import unpack

WIRE = unpack.directory('wire')


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The length-delimited fields of a message: {number: bytes}."""
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2, 'only strings and messages are expected here'
        size, at = varint(data, at)
        found[tag >> 3] = data[at:at + size]
        at += size
    return found


def bodies(data, decoded):
    """The enveloped objects of a body with their JSON: one, or one a frame of a watch."""
    if data.startswith(b'k8s\0'):
        return [(data, json.loads(decoded))]
    pairs, at = [], 0
    lines = [json.loads(line) for line in decoded.split('\n') if line]
    while at + 4 <= len(data):
        size = int.from_bytes(data[at:at + 4], 'big')
        frame = data[at + 4:at + 4 + size]
        if len(frame) < size:
            break  # the recording ended within a frame
        at += 4 + size
        event = fields(frame)
        want = lines[len(pairs)]
        assert event[1].decode() == want['type']
        pairs.append((fields(event[2])[1], want['object']))
    assert len(pairs) == len(lines), 'a frame for each line'
    return pairs


def run(dray, *args):
    return subprocess.run([dray, 'convert', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check(dray, body, want, where, folder):
    path = os.path.join(folder, 'body')
    with open(path, 'wb') as f:
        f.write(body)
    out = run(dray, '-f', path, '-o', 'json')
    if out.returncode != 0:
        return f'{where}: {out.stderr.decode().strip()}'
    got = json.loads(out.stdout)
    if got != want:
        return f'{where}: decodes to {json.dumps(got)[:500]}, not {json.dumps(want)[:500]}'
    again = run(dray, '-f', path, '-o', 'protobuf')
    if again.stdout != body and not where.startswith(OLD_FIELDS):
        return f'{where}: encodes to {len(again.stdout)} other bytes than the {len(body)} recorded'
    return None


def main():
    dray = sys.argv[1]
    count, problems = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for top, _, names in sorted(os.walk(WIRE)):
            for name in sorted(n for n in names if n.endswith('.bin')):
                path = os.path.join(top, name)
                data = open(path, 'rb').read()
                decoded = open(path[:-4] + '.decoded.json', encoding='utf-8').read()
                for number, (body, want) in enumerate(bodies(data, decoded)):
                    count += 1
                    problem = check(dray, body, want, f'{os.path.relpath(path, WIRE)} object {number}', folder)
                    if problem:
                        problems.append(problem)
    print('\n'.join(problems[:20]))
    print(f'{count - len(problems)} of {count} recorded objects decode and encode exactly')
    return 1 if problems or count < 80 else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks `dray validate -f` about the manifests of drivers and of Kubernetes,
and compares with what a kube-apiserver said of each object (ORACLE.json).

usage: verdicts.py DRAY"""
import collections, json, os, re, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import unpack

OPEN = os.path.join(unpack.directory('manifests'), 'open')
# The server was a 1.36.3, with all gates of DRA on. What 1.37 does otherwise:
NEW_IN_1_37 = {('DeviceTaintRule', 'resource.k8s.io/v1')}
# spec.devices[].nodeAllocatableResourceMappings became nodeAllocatableResources.
GONE_IN_1_37 = {('ResourceSlice', 'my-node-xpus')}


def accepted(verdict):
    if (verdict['kind'], verdict['name']) in GONE_IN_1_37:
        return False
    # 409: it exists. 403 comes from admission (no such RuntimeClass), which is not validation.
    return verdict['status'] in (200, 201, 403, 409) or (verdict['kind'], verdict['apiVersion']) in NEW_IN_1_37


def judge(dray, path):
    """What dray says of the objects in a file: {(kind, name): [good?, ...]} in order."""
    run = subprocess.run([dray, 'validate', '-v', '--no-admin-access', '--feature-gates', 'AllAlpha=true', '-f', path], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f'{path}: exit {run.returncode}: {run.stderr[-500:]}')
    answers = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        m = re.fullmatch(r'.*?:\d+: (\S+) (\S*): (good|refused)', line)
        if m:
            answers[m.group(1), m.group(2)].append((m.group(3) == 'good', run.stdout))
    return answers


def main():
    with open(os.path.join(OPEN, 'ORACLE.json')) as f:
        oracle = json.load(f)
    files, failures = {}, []
    for verdict in oracle:
        path = verdict['path']
        if path not in files:
            files[path] = judge(sys.argv[1], os.path.join(OPEN, path))
        said = files[path].get((verdict['kind'], verdict['name']))
        if not said:
            failures.append(f"{path}: {verdict['kind']} {verdict['name']}: no answer")
            continue
        good, output = said.pop(0)
        if good != accepted(verdict):
            failures.append(f"{path}: {verdict['kind']} {verdict['name']}: {verdict['status']} {verdict['message'][:200]}\n{output[:600]}")
    for failure in failures[:20]:
        print(failure)
    print(f'{len(oracle) - len(failures)} of {len(oracle)} objects judged as the server did')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

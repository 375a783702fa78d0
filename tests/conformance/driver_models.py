#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The slices of simulated hardware have the shape of those that real drivers published for the same hardware: names and types of attributes,
capacities, counters, forms of names, layout of slices.
Usage: driver_models.py DRAY"""
import json, os, re, subprocess, sys

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import unpack

MODELS = unpack.directory('models')
# Attributes that depend on the machine or on gates, so that one side may be without them.
OPTIONAL = {'addressingMode', 'resource.kubernetes.io/pcieRoot', 'resource.kubernetes.io/numaNode', 'resource.kubernetes.io/pciBusID', 'dra.net/numaNode',
            'topology', 'dra.net/rdmaDevice', 'dra.net/ipv4', 'dra.net/ipv6', 'dra.net/alias', 'dra.net/pciSubsystem', 'dra.net/tcFilterNames', 'dra.net/ebpf',
            'dra.net/sriovVfs', 'dra.net/sriov', 'dra.net/encapsulation', 'dra.net/isSriovVf', 'resource.kubernetes.io/pciBusID'}
PAIRS = [('real-nvidia-gb200-oci', 'nvidia-gb200', 'gpu.nvidia.com'), ('real-dranet-gb200-oci', 'nvidia-gb200', 'dra.net'),
         ('constructed-nvidia-dgxa100-dynamicmig', 'nvidia-a100-mig', 'gpu.nvidia.com'), ('run-nvidia-h100-mocknvml', 'nvidia-h100', 'gpu.nvidia.com'),
         ('real-nvidia-aws', 'nvidia-a100-static-mig', 'gpu.nvidia.com'), ('run-nvidia-h100-mocknvml', 'nvidia-l40s', 'gpu.nvidia.com'),
         ('run-nvidia-h100-mocknvml', 'nvidia-b200', 'gpu.nvidia.com'), ('run-nvidia-h100-mocknvml', 'nvidia-t4', 'gpu.nvidia.com'),
         ('constructed-nvidia-dgxa100-dynamicmig', 'nvidia-h100-mig', 'gpu.nvidia.com'),
         ('constructed-nvidia-dgxa100-dynamicmig', 'nvidia-b200-mig', 'gpu.nvidia.com'),
         ('constructed-nvidia-dgxa100-dynamicmig', 'nvidia-gb200-mig', 'gpu.nvidia.com'), ('run-tpu-fake', 'tpu-v6e', 'tpu.google.com'),
         ('doc-cpu-grouped', 'cpu', 'dra.cpu'), ('run-dracpu', 'numa-gpu-nic-cpu', 'dra.cpu'), ('run-exnet', 'example-net', None),
         ('doc-rocm-mi300x', 'amd-mi300x', 'gpu.amd.com'), ('run-intel-gpu-devicefaker', 'intel-flex', 'gpu.intel.com')]


def model(name):
    data = json.load(open(os.path.join(MODELS, name + '.json')))
    return data if isinstance(data, list) else data.get('items', [data])


def shape(slices, driver):
    """Of each type of device: attributes with types, capacities, counters; and the forms of names."""
    kinds, sets = {}, set()
    for s in slices:
        spec = s.get('spec', s)
        if driver and spec.get('driver', driver) != driver:
            continue
        for c in spec.get('sharedCounters', []):
            sets.add((re.sub(r'\d+', 'N', c['name']), tuple(sorted(re.sub(r'-\d+$', '-N', k) for k in c['counters']))))
        for d in spec.get('devices', []):
            d = dict(d, **d.get('basic', {}))
            a = d.get('attributes', {})
            kind = a.get('type', {}).get('string', '')
            k = kinds.setdefault(kind, {'attributes': {}, 'capacity': set(), 'consumes': set(), 'many': set()})
            for name, value in a.items():
                k['attributes'].setdefault(name, set()).add(next(iter(value)))
            k['capacity'] |= {re.sub(r'\d+$', 'N', c) for c in d.get('capacity', {})}
            for c in d.get('consumesCounters', []):
                k['consumes'] |= {re.sub(r'-\d+$', '-N', n) for n in c['counters']}
            k['many'].add(bool(d.get('allowMultipleAllocations')))
    return kinds, sets


def compare(name, profile, driver):
    made = json.loads(subprocess.run([DRAY, 'driver', 'show', profile], check=True, capture_output=True, text=True).stdout)
    ours, our_sets = shape(made, driver)
    theirs, their_sets = shape(model(name), driver)
    problems = []
    for kind, t in theirs.items():
        o = ours.get(kind)
        if o is None:
            problems.append(f'no device of type "{kind}"')
            continue
        for attribute in sorted(set(t['attributes']) | set(o['attributes'])):
            mine, real = o['attributes'].get(attribute), t['attributes'].get(attribute)
            if (attribute in OPTIONAL or attribute.startswith('oke.')) and (mine is None or real is None):
                continue
            if mine != real:
                problems.append(f'{kind}: attribute {attribute}: {mine}, the real driver has {real}')
        for part in ('capacity', 'consumes', 'many'):
            if o[part] != t[part]:
                problems.append(f'{kind}: {part}: {sorted(o[part])}, the real driver has {sorted(t[part])}')
    if our_sets != their_sets:
        problems.append(f'counter sets: {our_sets}, the real driver has {their_sets}')
    return problems


def main():
    bad = 0
    for name, profile, driver in PAIRS:
        for problem in compare(name, profile, driver):
            print(f'{profile} against {name}: {problem}')
            bad += 1
    print(f'{len(PAIRS)} pairs of simulated and real hardware, {bad} differences')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())

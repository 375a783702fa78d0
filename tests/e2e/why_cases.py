# SPDX-License-Identifier: Apache-2.0
"""Mistakes on unequal nodes, for why_worlds.py: two nodes each of tests/why/worlds. A case has objects; pods whose names begin with "user"
get their node first. cause: words of the first line; kinds: of the best remedy, any of them; before and hand: changes of nodes first, and
what is done by hand where the remedy is none that the program can carry out."""

GPU, NIC, MIG, CAMERA, FPGA = ('gpu.example.com', 'nic.example.com', 'mig.example.com', 'camera.example.com', 'fpga.example.org')


def request(name, device_class, **more):
    return {'name': name, 'exactly': dict({'deviceClassName': device_class}, **more)}


def cel(expression):
    return [{'cel': {'expression': expression}}]


def template(name, *requests, kind='ResourceClaimTemplate', **more):
    spec = {'devices': dict({'requests': list(requests)}, **more)}
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': kind, 'metadata': {'name': name},
            'spec': spec if kind == 'ResourceClaim' else {'spec': spec}}


def pod(name, *claims, resources=None, labels=None, ports=None, named=False, **spec):
    main = {'name': 'main', 'image': 'registry.example/app:1', 'resources': dict(resources or {})}
    if claims:
        main['resources']['claims'] = [{'name': f'c{i}'} for i in range(len(claims))]
        spec['resourceClaims'] = [{'name': f'c{i}', 'resourceClaimName' if named else 'resourceClaimTemplateName': c}
                                  for i, c in enumerate(claims)]
    if ports:
        main['ports'] = ports
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': labels or {'app': name}},
            'spec': dict({'containers': [main]}, **spec)}


def on(node, name, *claims, **more):
    return pod(name, *claims, nodeSelector={'kubernetes.io/hostname': node}, **more)


def asks(cpu=None, memory=None, **more):
    r = dict({k: v for k, v in (('cpu', cpu), ('memory', memory)) if v}, **more)
    return {'requests': r, 'limits': {k: v for k, v in r.items() if '/' in k}} if any('/' in k for k in r) else {'requests': r}


def case(name, *objects, cause, kinds=(), before=(), hand=None, absent=(), **more):
    return dict(name=name, objects=list(objects), cause=[cause] if isinstance(cause, str) else cause, kinds=kinds, before=before, hand=hand,
                absent=absent, **more)


CORDON, TAINT = ('cordon', 'taint')
ONE = template('one', request('gpu', GPU))
A100 = 'device.attributes["gpu.example.com"].model == "A100"'
FULL_LARGE = [template('four', request('gpu', GPU, count=4)), on('gpu-large-0', 'user-l0', 'four')]
SPREAD = [{'maxSkew': 1, 'topologyKey': 'zone', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {'matchLabels': {'app': 'trainer'}}}]

# gpu-large-1 is cordoned and gpu-small-1 tainted in all cases.
PENDING = [
    case('count', template('t', request('gpu', GPU, count=6)), pod('trainer', 't'), cause='fewer than 6 devices', kinds=('count',),
         absent=('uncordon gpu-large-1   (on gpu-large-1)',)),
    case('count-held', *FULL_LARGE, template('t', request('gpu', GPU, count=2)), pod('trainer', 't'),
         cause='fewer than 2', kinds=('count', 'claimGone', 'uncordon')),
    case('one-held', *FULL_LARGE, ONE, on('gpu-small-0', 'user-s0', 'one'), pod('trainer', 'one'),
         cause=['no free device', 'held by'], kinds=('claimGone', 'toleration', 'uncordon')),
    case('model-typo', template('t', request('gpu', GPU, selectors=cel('device.attributes["gpu.example.com"].model == "A10"'))),
         pod('trainer', 't'), cause='model == "A10"', kinds=('rewrite',)),
    case('attribute-typo', template('t', request('gpu', GPU, selectors=cel('device.attributes["gpu.example.com"].modle == "A100"'))),
         pod('trainer', 't'), cause='no such key: modle', kinds=('rewrite',)),
    case('domain-typo', template('t', request('gpu', GPU, selectors=cel('device.attributes["gpu.exmaple.com"].model == "A100"'))),
         pod('trainer', 't'), cause='no such key', kinds=('rewrite',)),
    case('class-typo', template('t', request('gpu', 'gpu.exmaple.com')), pod('trainer', 't'), cause='gpu.exmaple.com', kinds=('rewrite',)),
    case('class-wrong', template('t', request('gpu', FPGA, selectors=cel(A100))), pod('trainer', 't'), cause='no such key', kinds=('rewrite',)),
    case('capacity-selector', template('t', request('gpu', GPU, selectors=cel(
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("96Gi")) >= 0'))), pod('trainer', 't'),
         cause='memory', kinds=('rewrite', 'selectorTerm')),
    case('capacity-cordoned', *FULL_LARGE, template('t', request('gpu', GPU, selectors=cel(
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'))), pod('trainer', 't'),
         cause='no free device', kinds=('claimGone', 'uncordon')),
    case('int-selector', template('t', request('gpu', GPU, selectors=cel('device.attributes["gpu.example.com"].cores >= 200'))),
         pod('trainer', 't'), cause='cores', kinds=('rewrite', 'selectorTerm')),
    case('version-selector', template('t', request('gpu', GPU, selectors=cel(
        'device.attributes["gpu.example.com"].driverVersion.compareTo(semver("3.0.0")) >= 0'))), pod('trainer', 't'),
         cause='driverVersion', kinds=('selectorTerm',)),
    case('share-policy', template('t', request('nic', NIC, capacity={'requests': {'bandwidth': '80'}})), pod('trainer', 't'),
         cause=['bandwidth', 'at most 60'], kinds=('capacity',)),
    case('share-left', template('big', request('nic', NIC, capacity={'requests': {'bandwidth': '60'}})),
         on('net-shared-0', 'user-n0', 'big'), on('net-shared-1', 'user-n1', 'big'),
         template('t', request('nic', NIC, capacity={'requests': {'bandwidth': '50'}})), pod('trainer', 't'),
         cause='bandwidth', kinds=('capacity',)),
    case('share-unknown', template('t', request('nic', NIC, capacity={'requests': {'bandwith': '10'}})), pod('trainer', 't'),
         cause='bandwith', kinds=('rewrite',)),
    case('counters', template('w', request('mig', MIG, selectors=cel('device.attributes["mig.example.com"].profile == "whole"'))),
         on('net-shared-0', 'user-m0', 'w'), on('net-shared-1', 'user-m1', 'w'),
         template('t', request('mig', MIG, selectors=cel('device.attributes["mig.example.com"].profile == "half"'))), pod('trainer', 't'),
         cause='memory', kinds=('claimGone',)),
    case('cameras-held', template('cam', request('cam', CAMERA)), pod('user-c0', 'cam'), pod('user-c1', 'cam'), pod('trainer', 'cam'),
         cause=['no free device', '2 claims|default/user-c0-[^,]*, default/user-c1'], kinds=('claimGone',), absent=('10 claims', '16 claims')),
    case('mode-all', template('t', request('gpu', GPU, allocationMode='All', selectors=cel(A100))), ONE,
         on('gpu-large-0', 'user-l0', 'one'), pod('trainer', 't'), cause='device', kinds=('claimGone', 'count', 'uncordon')),
    case('constraint', template('t', request('gpu', GPU), request('nic', NIC), constraints=[
        {'requests': ['gpu', 'nic'], 'matchAttribute': 'resource.kubernetes.io/pcieRoot'}]), pod('trainer', 't'),
         cause='device', hand='constraint'),
    case('constraint-roots', template('t', request('gpu', GPU, count=3), constraints=[
        {'requests': ['gpu'], 'matchAttribute': 'resource.kubernetes.io/pcieRoot'}]), pod('trainer', 't'),
         cause='pcieRoot', kinds=('constraint', 'count')),
    case('distinct', template('t', request('gpu', GPU, count=3), constraints=[
        {'requests': ['gpu'], 'distinctAttribute': 'resource.kubernetes.io/numaNode'}]), pod('trainer', 't'),
         cause='numaNode', kinds=('constraint', 'count')),
    case('two-requests', template('t', request('a', GPU, count=3), request('b', GPU, count=2)), pod('trainer', 't'),
         cause='a, b', kinds=('count',)),
    case('cpu', ONE, pod('trainer', 'one', resources=asks(cpu='40')), cause='insufficient cpu', kinds=('request',),
         absent=('left on cpu-only',)),
    case('cpu-everywhere', pod('trainer', resources=asks(cpu='100')), cause='insufficient cpu', kinds=('request',)),
    case('memory', ONE, pod('trainer', 'one', resources=asks(memory='200Gi')), cause='insufficient memory', kinds=('request',)),
    case('cpu-full', ONE, on('gpu-large-0', 'user-a', resources=asks(cpu='30')), on('gpu-small-0', 'user-b', resources=asks(cpu='7')),
         pod('trainer', 'one', resources=asks(cpu='4')), cause='insufficient cpu', kinds=('request', 'podGone')),
    case('node-selector', ONE, pod('trainer', 'one', nodeSelector={'zone': 'estt'}), cause='zone=estt', kinds=('nodeSelector',)),
    case('selector-key', ONE, pod('trainer', 'one', nodeSelector={'zoen': 'east'}), cause='zoen=east', kinds=('nodeSelector',)),
    case('selector-cpu-node', ONE, pod('trainer', 'one', nodeSelector={'tier': 'bronze'}), cause='class gpu.example.com',
         kinds=('nodeSelector',)),
    case('affinity', ONE, pod('trainer', 'one', affinity={'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {
        'nodeSelectorTerms': [{'matchExpressions': [{'key': 'tier', 'operator': 'In', 'values': ['platinum']}]}]}}}),
         cause='tier In platinum', kinds=('nodeAffinity',)),
    case('tainted-only', template('t', request('gpu', GPU, selectors=cel('device.attributes["gpu.example.com"].model == "T4"'))),
         pod('trainer', 't'), cause='taint dedicated=batch:NoSchedule', kinds=('toleration',), before=(('cordon', 'gpu-small-0'),)),
    case('cordoned-only', template('t', request('gpu', GPU, count=4, selectors=cel(A100))), *FULL_LARGE[:1], FULL_LARGE[1],
         pod('trainer', 't'), cause='device|cordoned', kinds=('claimGone', 'uncordon', 'count')),
    case('cordoned-all', template('t', request('gpu', GPU, selectors=cel(A100))), pod('trainer', 't'), cause='cordoned',
         kinds=('uncordon',), before=(('cordon', 'gpu-large-0'),)),
    case('spread-label', ONE, pod('trainer', 'one', topologySpreadConstraints=[
        {'maxSkew': 1, 'topologyKey': 'rack', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {'matchLabels': {'app': 'trainer'}}}]),
         cause='no label rack', kinds=('spread', 'topologyKey'), absent=('raise maxSkew',)),
    case('spread-key', ONE, pod('trainer', 'one', topologySpreadConstraints=[dict(SPREAD[0], topologyKey='zon')]),
         cause='no label zon', kinds=('topologyKey',), absent=('raise maxSkew',)),
    case('spread-skew', template('t', request('gpu', GPU, selectors=cel(A100))), *[
        on('gpu-large-0', f'user-{i}', labels={'app': 'trainer'}) for i in range(2)],
         pod('trainer', 't', labels={'app': 'trainer'}, topologySpreadConstraints=SPREAD), cause='topology spread', kinds=('maxSkew',)),
    case('anti-affinity', template('t', request('gpu', GPU, selectors=cel(A100))), on('gpu-large-0', 'user-web', labels={'app': 'web'}),
         pod('trainer', 't', affinity={'podAntiAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [
             {'labelSelector': {'matchLabels': {'app': 'web'}}, 'topologyKey': 'kubernetes.io/hostname'}]}}),
         cause='anti-affinity', kinds=('podAffinity', 'podGone')),
    case('pod-affinity', ONE, pod('trainer', 'one', affinity={'podAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [
        {'labelSelector': {'matchLabels': {'app': 'nobody'}}, 'topologyKey': 'kubernetes.io/hostname'}]}}),
         cause='pod affinity', kinds=('podAffinity',)),
    case('host-port', template('t', request('gpu', GPU, selectors=cel(A100))),
         on('gpu-large-0', 'user-web', ports=[{'containerPort': 80, 'hostPort': 8080}]),
         pod('trainer', 't', ports=[{'containerPort': 80, 'hostPort': 8080}]), cause='host port 8080', kinds=('hostPort',)),
    case('extended-count', pod('trainer', resources=asks(**{'example.com/gpu': '6'})), cause='device', kinds=('request',)),
    case('extended-typo', pod('trainer', resources=asks(**{'example.com/gpus': '1'})), cause='example.com/gpus', kinds=('resourceName',)),
    case('template-missing', ONE, pod('trainer', 'onee'), cause='onee', kinds=('reference',)),
    case('claim-missing', template('own', request('gpu', GPU), kind='ResourceClaim'), pod('trainer', 'owm', named=True), cause='owm',
         kinds=('reference',)),
    case('claim-count', template('own', request('gpu', GPU, count=6), kind='ResourceClaim'), pod('trainer', 'own', named=True),
         cause='fewer than 6', kinds=('count',)),
    case('gate', ONE, pod('trainer', 'one', schedulingGates=[{'name': 'example.com/wait'}]), cause='scheduling gate', kinds=('schedulingGate',)),
    case('scheduler-name', ONE, pod('trainer', 'one', schedulerName='other'), cause='schedulerName other', kinds=('schedulerName',)),
    case('device-taint', template('t', request('gpu', GPU, selectors=cel(A100))),
         {'apiVersion': 'resource.k8s.io/v1beta2', 'kind': 'DeviceTaintRule', 'metadata': {'name': 'service'},
          'spec': {'deviceSelector': {'driver': GPU}, 'taint': {'key': 'example.com/service', 'value': 'now', 'effect': 'NoSchedule'}}},
         pod('trainer', 't'), cause='without taint example.com/service=now:NoSchedule', kinds=('deleteRule', 'tolerate')),
    case('alternatives', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': 't'}, 'spec': {'spec': {
        'devices': {'requests': [{'name': 'any', 'firstAvailable': [
            {'name': 'big', 'deviceClassName': GPU, 'selectors': cel('device.attributes["gpu.example.com"].model == "H100"')},
            {'name': 'many', 'deviceClassName': GPU, 'count': 8}]}]}}}}, pod('trainer', 't'), cause='any/', kinds=('count', 'rewrite')),
    case('fpga-tainted', template('t', request('fpga', FPGA)), pod('trainer', 't'), cause='taint a=b:NoSchedule|cordoned',
         kinds=('toleration',), before=(('taint', 'cpu-only-0', 'a', 'b'), ('cordon', 'cpu-only-1'))),
    case('no-driver', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': 'tpu.example.net'},
                       'spec': {'selectors': cel("device.driver == 'tpu.example.net'")}},
         template('t', request('tpu', 'tpu.example.net')), pod('trainer', 't'), cause='no device of class tpu.example.net', hand='no-driver'),
]

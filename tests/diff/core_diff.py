#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of core kinds, each spoilt in a few places, judged by `dray validate --jsonl` and by Kubernetes' own strategies
(tests/oracle/core): the causes must be the same, words included. Order and repetitions do not count, nor does the diff that
upstream shows of a pod's old and new spec.

usage: core_diff.py DRAY ORACLE [--count N] [--seed S] [--kind KIND] [--show N] [--record FILE]

--record keeps the smaller ones of those that both judge alike, with their causes, for tests/conformance/core.py."""
import argparse, copy, json, os, random, subprocess, sys

META = {'name': 'n', 'namespace': 'default', 'labels': {'app': 'a'}, 'annotations': {'example.com/a': 'b'}}
PROBE = {'httpGet': {'path': '/', 'port': 80, 'scheme': 'HTTP', 'httpHeaders': [{'name': 'X-A', 'value': 'b'}]}, 'initialDelaySeconds': 1,
         'timeoutSeconds': 1, 'periodSeconds': 2, 'successThreshold': 1, 'failureThreshold': 3}
CONTAINER = {
    'name': 'c', 'image': 'i:1', 'command': ['a'], 'workingDir': '/w',
    'ports': [{'name': 'web', 'containerPort': 80, 'hostPort': 8080, 'protocol': 'TCP'}, {'containerPort': 81}],
    'env': [{'name': 'A', 'value': 'b'}, {'name': 'B', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}},
            {'name': 'C', 'valueFrom': {'resourceFieldRef': {'resource': 'limits.cpu', 'divisor': '1m'}}},
            {'name': 'D', 'valueFrom': {'configMapKeyRef': {'name': 'm', 'key': 'k'}}}, {'name': 'E', 'valueFrom': {'secretKeyRef': {'name': 's', 'key': 'k'}}}],
    'envFrom': [{'prefix': 'P', 'configMapRef': {'name': 'm'}}, {'secretRef': {'name': 's'}}],
    'resources': {'limits': {'cpu': '2', 'memory': '1Gi', 'example.com/gpu': '1'}, 'requests': {'cpu': '1', 'memory': '1Gi'}, 'claims': [{'name': 'gpu'}]},
    'volumeMounts': [{'name': 'empty', 'mountPath': '/e'}, {'name': 'config', 'mountPath': '/c', 'readOnly': True, 'subPath': 'x', 'mountPropagation': 'None'}],
    'volumeDevices': [{'name': 'claim', 'devicePath': '/dev/x'}],
    'livenessProbe': PROBE, 'readinessProbe': {'tcpSocket': {'port': 'web'}}, 'startupProbe': {'exec': {'command': ['a']}},
    'lifecycle': {'postStart': {'exec': {'command': ['a']}}, 'preStop': {'sleep': {'seconds': 3}}},
    'imagePullPolicy': 'Always', 'terminationMessagePolicy': 'File',
    'securityContext': {'runAsUser': 1, 'runAsGroup': 2, 'privileged': False, 'allowPrivilegeEscalation': False, 'capabilities': {'add': ['NET_ADMIN']},
                        'seccompProfile': {'type': 'RuntimeDefault'}, 'appArmorProfile': {'type': 'Localhost', 'localhostProfile': 'p'}},
    'resizePolicy': [{'resourceName': 'cpu', 'restartPolicy': 'NotRequired'}]}
SMALL = {'name': 's', 'image': 'i'}
SPEC = {
    'containers': [CONTAINER, {'name': 'd', 'image': 'j', 'livenessProbe': {'grpc': {'port': 90}}}],
    'initContainers': [{'name': 'i', 'image': 'k'}, {'name': 'side', 'image': 'k', 'restartPolicy': 'Always', 'readinessProbe': PROBE}],
    'volumes': [{'name': 'empty', 'emptyDir': {'sizeLimit': '1Gi'}}, {'name': 'config', 'configMap': {'name': 'm', 'items': [{'key': 'k', 'path': 'p', 'mode': 256}]}},
                {'name': 'secret', 'secret': {'secretName': 's', 'defaultMode': 256}}, {'name': 'claim', 'persistentVolumeClaim': {'claimName': 'p'}},
                {'name': 'host', 'hostPath': {'path': '/h', 'type': 'Directory'}},
                {'name': 'down', 'downwardAPI': {'items': [{'path': 'l', 'fieldRef': {'fieldPath': 'metadata.labels'}},
                                                           {'path': 'r', 'resourceFieldRef': {'containerName': 'c', 'resource': 'requests.memory'}}]}},
                {'name': 'all', 'projected': {'sources': [{'secret': {'name': 's', 'items': [{'key': 'k', 'path': 'a'}]}}, {'configMap': {'name': 'm'}},
                                                          {'serviceAccountToken': {'path': 't', 'expirationSeconds': 3600}}]}},
                {'name': 'csi', 'csi': {'driver': 'd.example.com', 'nodePublishSecretRef': {'name': 's'}}}, {'name': 'nfs', 'nfs': {'server': 's', 'path': '/p'}},
                {'name': 'eph', 'ephemeral': {'volumeClaimTemplate': {'metadata': {'labels': {'a': 'b'}}, 'spec': {
                    'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}, 'storageClassName': 'fast'}}}},
                {'name': 'img', 'image': {'reference': 'r', 'pullPolicy': 'Always'}}],
    'resourceClaims': [{'name': 'gpu', 'resourceClaimName': 'c'}, {'name': 'nic', 'resourceClaimTemplateName': 't'}],
    'restartPolicy': 'Always', 'dnsPolicy': 'ClusterFirst', 'terminationGracePeriodSeconds': 30, 'activeDeadlineSeconds': 100,
    'nodeSelector': {'a': 'b'}, 'serviceAccountName': 'sa', 'hostname': 'h', 'subdomain': 'sub', 'priorityClassName': 'high', 'runtimeClassName': 'r',
    'securityContext': {'runAsUser': 1, 'fsGroup': 2, 'supplementalGroups': [3], 'sysctls': [{'name': 'kernel.shm_rmid_forced', 'value': '1'}],
                        'fsGroupChangePolicy': 'Always', 'seccompProfile': {'type': 'Localhost', 'localhostProfile': 'p/q'}},
    'imagePullSecrets': [{'name': 's'}], 'schedulerName': 'x', 'preemptionPolicy': 'Never', 'overhead': {'cpu': '10m'},
    'affinity': {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': [
        {'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['v']}, {'key': 'l', 'operator': 'Exists'}],
         'matchFields': [{'key': 'metadata.name', 'operator': 'In', 'values': ['n1']}]}]},
        'preferredDuringSchedulingIgnoredDuringExecution': [{'weight': 5, 'preference': {'matchExpressions': [{'key': 'k', 'operator': 'Gt', 'values': ['1']}]}}]},
        'podAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [
            {'labelSelector': {'matchLabels': {'a': 'b'}}, 'topologyKey': 'zone', 'namespaces': ['n'], 'matchLabelKeys': ['x']}]},
        'podAntiAffinity': {'preferredDuringSchedulingIgnoredDuringExecution': [
            {'weight': 1, 'podAffinityTerm': {'labelSelector': {'matchExpressions': [{'key': 'a', 'operator': 'NotIn', 'values': ['b']}]}, 'topologyKey': 'host'}}]}},
    'tolerations': [{'key': 'k', 'operator': 'Equal', 'value': 'v', 'effect': 'NoExecute', 'tolerationSeconds': 5}, {'operator': 'Exists'}],
    'topologySpreadConstraints': [{'maxSkew': 1, 'topologyKey': 'zone', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {'matchLabels': {'a': 'b'}}, 'minDomains': 2}],
    'hostAliases': [{'ip': '1.2.3.4', 'hostnames': ['a.b']}], 'dnsConfig': {'nameservers': ['1.1.1.1'], 'searches': ['a.b'], 'options': [{'name': 'ndots', 'value': '2'}]},
    'readinessGates': [{'conditionType': 'example.com/ready'}], 'schedulingGates': [{'name': 'example.com/gate'}], 'os': {'name': 'linux'}}
SMALL_SPEC = {'containers': [SMALL]}


def pod(spec):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': META, 'spec': spec}


# The status of a pod, for updates of it.
STATUS = {'phase': 'Running', 'conditions': [{'type': 'Ready', 'status': 'True'}, {'type': 'example.com/x', 'status': 'False', 'observedGeneration': 1}],
          'podIP': '1.2.3.4', 'podIPs': [{'ip': '1.2.3.4'}, {'ip': '::1'}], 'hostIP': '5.6.7.8', 'hostIPs': [{'ip': '5.6.7.8'}],
          'containerStatuses': [{'name': 's', 'ready': False, 'restartCount': 0, 'image': 'i', 'imageID': 'x', 'state': {'terminated': {'exitCode': 1}}}],
          'resourceClaimStatuses': [{'name': 'gpu', 'resourceClaimName': 'x'}]}


GROUP_CLAIMS = [{'name': 'net', 'resourceClaimTemplateName': 't'}, {'name': 'gpu', 'resourceClaimName': 'c'}]

# Kinds that need gates; the oracle takes them from GATES in its environment.
FEATURES = {k: {'GenericWorkload': True, 'DRAWorkloadResourceClaims': True} for k in ('PodGroup', 'Workload')}

BASES = {
    'PodGroup': [{'apiVersion': 'scheduling.k8s.io/v1beta1', 'kind': 'PodGroup', 'metadata': META, 'spec': {
        'schedulingPolicy': p, 'resourceClaims': GROUP_CLAIMS, 'workloadRef': {'workloadName': 'w', 'templateName': 't'},
        'disruptionMode': {'single': {}}, 'priorityClassName': 'high', 'priority': 5}} for p in ({'gang': {'minCount': 3}}, {'basic': {}})],
    'Workload': [{'apiVersion': 'scheduling.k8s.io/v1beta1', 'kind': 'Workload', 'metadata': META, 'spec': {
        'controllerRef': {'apiGroup': 'batch', 'kind': 'Job', 'name': 'j'}, 'podGroupTemplates': [
            {'name': 'a', 'schedulingPolicy': {'gang': {'minCount': 2}}, 'resourceClaims': GROUP_CLAIMS, 'priorityClassName': 'high', 'priority': 5},
            {'name': 'b', 'schedulingPolicy': {'basic': {}}, 'disruptionMode': {'all': {}}, 'priorityClassName': 'high', 'priority': 5}]}}],
    'Pod': [pod(SPEC), pod({'containers': [CONTAINER] , 'volumes': SPEC['volumes'], 'resourceClaims': SPEC['resourceClaims'], 'serviceAccountName': 'sa'}), pod(SMALL_SPEC),
            pod({'containers': [SMALL], 'hostNetwork': True, 'hostPID': True, 'dnsPolicy': 'None', 'dnsConfig': {'nameservers': ['8.8.8.8']}}),
            pod({'containers': [SMALL], 'resources': {'requests': {'cpu': '1'}, 'limits': {'cpu': '2', 'memory': '1Gi'}}, 'hostUsers': False})],
    'PodTemplate': [{'apiVersion': 'v1', 'kind': 'PodTemplate', 'metadata': META, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': SMALL_SPEC}}],
    'ConfigMap': [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': META, 'data': {'k': 'v', 'a.b': 'c'}, 'binaryData': {'x': 'AAAA'}}],
    'Secret': [{'apiVersion': 'v1', 'kind': 'Secret', 'metadata': META, 'data': {'k': 'AAAA'}, 'type': t} for t in ('Opaque', 'kubernetes.io/tls', 'kubernetes.io/basic-auth')],
    'ServiceAccount': [{'apiVersion': 'v1', 'kind': 'ServiceAccount', 'metadata': META, 'imagePullSecrets': [{'name': 'x'}]}],
    'Namespace': [{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'n', 'labels': {'a': 'b'}}}],
    'Node': [{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {'a': 'b'}}, 'spec': {
        'taints': [{'key': 'k', 'value': 'v', 'effect': 'NoSchedule'}], 'podCIDRs': ['10.0.0.0/24'], 'podCIDR': '10.0.0.0/24', 'providerID': 'p'}}],
    'Lease': [{'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': META, 'spec': {'holderIdentity': 'h', 'leaseDurationSeconds': 5, 'leaseTransitions': 1}}],
    'PriorityClass': [{'apiVersion': 'scheduling.k8s.io/v1', 'kind': 'PriorityClass', 'metadata': {'name': 'n'}, 'value': 5, 'preemptionPolicy': 'Never'}],
    'Event': [{'apiVersion': 'v1', 'kind': 'Event', 'metadata': META, 'involvedObject': {'kind': 'Pod', 'namespace': 'default', 'name': 'p'}, 'reason': 'r', 'message': 'm',
               'type': 'Normal', 'reportingComponent': 'c', 'reportingInstance': 'i', 'action': 'a', 'eventTime': '2024-01-01T00:00:00.000000Z'}],
    'LimitRange': [{'apiVersion': 'v1', 'kind': 'LimitRange', 'metadata': META, 'spec': {'limits': [
        {'type': 'Container', 'max': {'cpu': '2'}, 'min': {'cpu': '1'}, 'default': {'cpu': '2'}, 'defaultRequest': {'cpu': '1'}, 'maxLimitRequestRatio': {'cpu': '2'}},
        {'type': 'PersistentVolumeClaim', 'max': {'storage': '1Gi'}}]}}],
    'ResourceQuota': [{'apiVersion': 'v1', 'kind': 'ResourceQuota', 'metadata': META, 'spec': {'hard': {'pods': '5', 'cpu': '1', 'requests.memory': '1Gi'}, 'scopes': ['NotTerminating']}}],
    'Service': [{'apiVersion': 'v1', 'kind': 'Service', 'metadata': META, 'spec': {'type': 'ClusterIP', 'selector': {'a': 'b'}, 'ports': [
        {'name': 'a', 'port': 80, 'targetPort': 'web', 'protocol': 'TCP'}, {'name': 'b', 'port': 81}], 'clusterIP': '10.0.0.1', 'clusterIPs': ['10.0.0.1'],
        'ipFamilies': ['IPv4'], 'ipFamilyPolicy': 'SingleStack'}},
        {'apiVersion': 'v1', 'kind': 'Service', 'metadata': META, 'spec': {'type': 'ExternalName', 'externalName': 'a.b'}},
        {'apiVersion': 'v1', 'kind': 'Service', 'metadata': META, 'spec': {'type': 'NodePort', 'ports': [{'port': 80, 'nodePort': 30000}]}}],
    'PersistentVolumeClaim': [{'apiVersion': 'v1', 'kind': 'PersistentVolumeClaim', 'metadata': META, 'spec': {
        'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}, 'storageClassName': 'fast', 'volumeMode': 'Block'}}],
}
# Workloads are spoilt in their numbers, shares and policies only: rules of selectors and of restart policies are not dray's yet.
TEMPLATE = {'metadata': {'labels': {'app': 'a'}}, 'spec': SMALL_SPEC}
ONCE = {'metadata': {'labels': {'app': 'a'}}, 'spec': {'containers': [SMALL], 'restartPolicy': 'Never'}}
SELECTOR = {'matchLabels': {'app': 'a'}}
REPLICAS = {'replicas': 3, 'readyReplicas': 2, 'availableReplicas': 2, 'observedGeneration': 1}
FAILURES = {'rules': [{'action': 'FailJob', 'onExitCodes': {'operator': 'In', 'containerName': 's', 'values': [1, 2, 40]}},
                      {'action': 'FailIndex', 'onPodConditions': [{'type': 'DisruptionTarget', 'status': 'True'}]}]}


def apps(kind, spec, status):
    return {'apiVersion': 'apps/v1', 'kind': kind, 'metadata': META, 'spec': dict(spec, selector=SELECTOR, template=TEMPLATE), 'status': status}


def job(spec):
    return {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': META, 'spec': dict(spec, template=ONCE),
            'status': {'active': 2, 'ready': 1, 'succeeded': 1, 'failed': 1, 'terminating': 0, 'startTime': '2024-01-01T00:00:00Z'}}


INDEXED = {'parallelism': 2, 'completions': 8, 'completionMode': 'Indexed', 'backoffLimit': 6, 'backoffLimitPerIndex': 1, 'maxFailedIndexes': 3,
           'activeDeadlineSeconds': 100, 'ttlSecondsAfterFinished': 100, 'podFailurePolicy': FAILURES,
           'successPolicy': {'rules': [{'succeededIndexes': '0,2-5', 'succeededCount': 2}, {'succeededCount': 3}]}}
WORK = {
    'Deployment': [apps('Deployment', {'replicas': 3, 'minReadySeconds': 5, 'revisionHistoryLimit': 4, 'progressDeadlineSeconds': 100,
                                       'strategy': {'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': s, 'maxUnavailable': u}}},
                        dict(REPLICAS, updatedReplicas=1, unavailableReplicas=1, terminatingReplicas=0, collisionCount=1))
                   for s, u in ((1, 1), ('25%', '25%'), (0, '50%'))],
    'ReplicaSet': [apps('ReplicaSet', {'replicas': 3, 'minReadySeconds': 5}, dict(REPLICAS, fullyLabeledReplicas=3, terminatingReplicas=0))],
    'DaemonSet': [apps('DaemonSet', {'minReadySeconds': 5, 'revisionHistoryLimit': 4,
                                     'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': s, 'maxUnavailable': u}}},
                       {'currentNumberScheduled': 1, 'numberMisscheduled': 0, 'desiredNumberScheduled': 2, 'numberReady': 1, 'observedGeneration': 1,
                        'updatedNumberScheduled': 1, 'numberAvailable': 1, 'numberUnavailable': 1, 'collisionCount': 1}) for s, u in ((0, 1), ('25%', 0))],
    'StatefulSet': [apps('StatefulSet', {'replicas': 3, 'minReadySeconds': 5, 'revisionHistoryLimit': 4, 'serviceName': 's', 'ordinals': {'start': 2},
                                         'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': 1}}},
                         dict(REPLICAS, currentReplicas=2, updatedReplicas=1, collisionCount=1))],
    'ControllerRevision': [{'apiVersion': 'apps/v1', 'kind': 'ControllerRevision', 'metadata': META, 'data': {'a': 1}, 'revision': 3}],
    'Job': [job(INDEXED), job(dict(INDEXED, completions=200000, maxFailedIndexes=10000)), job({'parallelism': 2, 'completions': 8, 'backoffLimit': 6}),
            job({k: INDEXED[k] for k in ('completions', 'parallelism', 'completionMode')})],
    'CronJob': [{'apiVersion': 'batch/v1', 'kind': 'CronJob', 'metadata': META, 'spec': {
        'schedule': '* * * * *', 'startingDeadlineSeconds': 10, 'successfulJobsHistoryLimit': 2, 'failedJobsHistoryLimit': 2,
        'jobTemplate': {'spec': dict(INDEXED, template=ONCE)}}}],
}
BASES.update(WORK)
SHARES = ['0', '5', '0%', '1%', '100%', '101%', '%', '-1%', '5%%', '99999999999999999999%', '', 'x']
INDEXES = ['', '0', '1,3', '3,1', '1-3', '3-1', '2-2', '1-2-3', '7,8', '8', '0-7', 'x', '1,,2', '-1', '1,1', '0-99999', '+1']
WORDS = {'operator': ['', 'In', 'NotIn', 'x'], 'action': ['', 'Count', 'FailIndex', 'FailJob', 'Ignore', 'x'], 'status': ['', 'True', 'False', 'x'],
         'type': ['', 'DisruptionTarget', 'Bad Type', 'a/b'], 'containerName': ['', 's', 'x'], 'completionMode': ['NonIndexed', 'Indexed'],
         'succeededIndexes': INDEXES, 'maxSurge': SHARES, 'maxUnavailable': SHARES}
LARGE = [-2147483648, -1, 0, 1, 2, 5, 8, 9, 100, 10000, 10001, 100000, 100001, 200000, 2147483647]


def spoil_work(rng, root, part):
    """Spoils a number, a share or a word of a policy below part, outside templates of pods."""
    def value_at(path):
        found = root
        for step in path:
            found = found[step]
        return found
    where = [p for p in places(root) if p[0] in part and 'template' not in p and 'selector' not in p and 'data' not in p and
             (type(value_at(p)) is int or (p[-1] in WORDS and len(p) > 2) or p[-1] in ('values', 'rules', 'onPodConditions', 'onExitCodes'))]
    where = [p for p in where if not (p[-1] == 'type' and 'trategy' in str(p))]
    if not where:
        return  # all of it was taken away before
    path = rng.choice(where)
    owner, key, value = value_at(path[:-1]), path[-1], value_at(path)
    if key in WORDS and (isinstance(value, str) or rng.random() < 0.5):
        owner[key] = rng.choice(WORDS[key])
    elif isinstance(value, int):
        owner[key] = rng.choice(LARGE)
        if isinstance(owner, dict) and rng.random() < 0.05:
            del owner[key]
    elif isinstance(value, list) and value:
        owner[key] = rng.choice([[], value * 25, list(reversed(value)), value + value[:1]])
    elif isinstance(value, dict):
        del owner[key]


def spoil_selection(rng, new):
    """Spoils what a workload selects its pods by, or what its template must be for it."""
    spec = new['spec']
    template = spec['template']
    how = rng.randrange(6)
    if how == 0:
        template['metadata']['labels'] = rng.choice([{}, {'app': 'x'}, {'app': 'a', 'b': 'c'}, {'x': 'y'}])
    elif how == 1 and new['kind'] != 'Job':
        spec['selector'] = rng.choice([{}, None, {'matchLabels': {}}, {'matchLabels': {'x': 'y'}}, {'matchExpressions': [{'key': 'app', 'operator': 'Exists'}]},
                                       {'matchExpressions': [{'key': 'app', 'operator': 'Near', 'values': ['a']}]}, {'matchLabels': {'-': 'a b'}},
                                       {'matchExpressions': [{'key': 'app', 'operator': 'In'}]}, {'matchExpressions': [{'key': 'app', 'operator': 'NotIn', 'values': ['a']}]}])
    elif how == 2 and new['kind'] == 'Job':
        spec['manualSelector'] = True
        spec['selector'] = rng.choice([{}, {'matchLabels': {'x': 'y'}}, {'matchLabels': {'app': 'a'}}])
    elif how == 3:
        template['spec']['restartPolicy'] = rng.choice(['Never', 'Always', 'OnFailure', '', 'x'])
    elif how == 4:
        template['spec']['activeDeadlineSeconds'] = rng.choice([1, 0])
    else:
        spec.get('selector', {}).setdefault('matchLabels', {})['more'] = 'x'


def selection_case(rng, number, kind, new):
    update = kind != 'Job' and rng.random() < 0.3
    if update:
        new['metadata'].update(uid='5f1e2d3c-0000-4000-8000-000000000001', resourceVersion='5', creationTimestamp='1970-01-01T00:00:01Z')
    new.pop('status', None)
    old = copy.deepcopy(new)
    spoil_selection(rng, new)
    row = {'name': str(number), 'kind': kind, 'apiVersion': new['apiVersion'], 'op': 'update' if update else 'create', 'new': new}
    return dict(row, old=old) if update else row


def work_case(rng, number, kind):
    new = copy.deepcopy(rng.choice(WORK[kind]))
    if kind in ('Deployment', 'ReplicaSet', 'DaemonSet', 'StatefulSet', 'Job') and rng.random() < 0.3:
        return selection_case(rng, number, kind, new)
    status = 'status' in new and rng.random() < 0.3
    update = status or (rng.random() < 0.25)
    if update:
        new['metadata'].update(uid='5f1e2d3c-0000-4000-8000-000000000001', resourceVersion='5', creationTimestamp='1970-01-01T00:00:01Z')
        if kind == 'Job':  # as the server made it
            labels = {p + n: v for p in ('', 'batch.kubernetes.io/') for n, v in (('controller-uid', new['metadata']['uid']), ('job-name', 'n'))}
            new['spec']['template']['metadata']['labels'].update(labels)
            new['spec']['selector'] = {'matchLabels': {'batch.kubernetes.io/controller-uid': new['metadata']['uid']}}
    old = copy.deepcopy(new)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        spoil_work(rng, new, ['status'] if status else ['spec', 'revision'])
    row = {'name': str(number), 'kind': kind, 'apiVersion': new['apiVersion'], 'op': 'statusUpdate' if status else 'update' if update else 'create', 'new': new}
    return dict(row, old=old) if update else row


TARGET = {'type': 'Value', 'value': '5'}
SCALED = {'kind': 'Deployment', 'name': 'd', 'apiVersion': 'apps/v1'}
METRICS = [{'type': 'Resource', 'resource': {'name': 'cpu', 'target': {'type': 'Utilization', 'averageUtilization': 60}}},
           {'type': 'ContainerResource', 'containerResource': {'name': 'memory', 'container': 'c', 'target': {'type': 'AverageValue', 'averageValue': '1Gi'}}},
           {'type': 'Pods', 'pods': {'metric': {'name': 'q', 'selector': {'matchLabels': {'a': 'b'}}}, 'target': {'type': 'AverageValue', 'averageValue': '10'}}},
           {'type': 'Object', 'object': {'describedObject': {'kind': 'Service', 'name': 's', 'apiVersion': 'v1'}, 'metric': {'name': 'r'}, 'target': TARGET}},
           {'type': 'External', 'external': {'metric': {'name': 'queue'}, 'target': TARGET}}]
RULES = {'stabilizationWindowSeconds': 30, 'selectPolicy': 'Min', 'tolerance': '100m',
         'policies': [{'type': 'Pods', 'value': 4, 'periodSeconds': 60}, {'type': 'Percent', 'value': 10, 'periodSeconds': 1800}]}


def scaler(spec):
    return {'apiVersion': 'autoscaling/v2', 'kind': 'HorizontalPodAutoscaler', 'metadata': META,
            'spec': dict({'scaleTargetRef': SCALED, 'minReplicas': 1, 'maxReplicas': 5}, **spec),
            'status': {'observedGeneration': 1, 'currentReplicas': 2, 'desiredReplicas': 3, 'currentMetrics': [
                {'type': 'Object', 'object': {'describedObject': SCALED, 'metric': {'name': 'r'}, 'current': {'value': '5'}}}],
                'conditions': [{'type': 'AbleToScale', 'status': 'True', 'observedGeneration': 1}]}}


def budget(spec):
    return {'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': META,
            'spec': dict({'selector': {'matchLabels': {'a': 'b'}}, 'unhealthyPodEvictionPolicy': 'AlwaysAllow'}, **spec),
            'status': {'observedGeneration': 1, 'disruptedPods': {'p': '2026-01-01T00:00:00Z'}, 'disruptionsAllowed': 1, 'currentHealthy': 3, 'desiredHealthy': 2,
                       'expectedPods': 3, 'conditions': [{'type': 'DisruptionAllowed', 'status': 'True', 'reason': 'Enough', 'message': 'm',
                                                          'lastTransitionTime': '2026-01-01T00:00:00Z', 'observedGeneration': 1}]}}


# Kinds of policy and autoscaling: numbers, words, names and amounts are spoilt anywhere in spec and status.
BOUNDS = {
    'HorizontalPodAutoscaler': [scaler({'metrics': METRICS}), scaler({'metrics': METRICS[:1], 'behavior': {'scaleUp': RULES, 'scaleDown': RULES}}),
                                scaler({'metrics': METRICS[3:], 'minReplicas': 0}), scaler({'behavior': {'scaleUp': {'selectPolicy': 'Disabled'}}})],
    'PodDisruptionBudget': [budget({'minAvailable': '50%'}), budget({'maxUnavailable': 1}), budget({'minAvailable': 0, 'maxUnavailable': '10%'})],
}
BASES.update(BOUNDS)
KIND_WORDS = {'type': ['', 'Resource', 'Object', 'Pods', 'Percent', 'External', 'ContainerResource', 'Utilization', 'Value', 'AverageValue', 'x'],
              'selectPolicy': ['', 'Max', 'Min', 'Disabled', 'x'], 'apiVersion': ['', 'v1', 'apps/v1', 'a/b/c', '/', '/v1', 'apps/', '//', 'x'],
              'kind': ['', 'ReplicationController', 'a/b', '..', 'A%', 'x'], 'name': ['', 'a/b', '.', '..', 'a%b', 'x' * 300, 'cpu', 'hugepages-2Mi', 'Bad Name'],
              'container': ['', 'A', 'x' * 64, 'a.b', 'c'], 'minAvailable': SHARES, 'maxUnavailable': SHARES, 'unhealthyPodEvictionPolicy': ['', 'IfHealthyBudget', 'x'],
              'status': ['', 'True', 'Unknown', 'x'], 'reason': ['', 'A b', 'Ok', 'x' * 1025, '1', 'a:', 'a_'], 'message': ['', 'x' * 32769]}
AMOUNTS = ('value', 'averageValue', 'tolerance')
SMALL_NUMBERS = [-2147483648, -1, 0, 1, 2, 1799, 1800, 1801, 3600, 3601, 2147483647]


def spoil_bounds(rng, root, part):
    where = [p for p in places(root) if p[0] == part and len(p) > 1]
    if not where:
        return
    path = rng.choice(where)
    owner = root
    for step in path[:-1]:
        owner = owner[step]
    key, value = path[-1], owner[path[-1]]
    if isinstance(owner, dict) and rng.random() < 0.1:
        del owner[key]
    elif key in AMOUNTS and isinstance(value, str):
        owner[key] = rng.choice(['-1', '0', '1m', '-1m', '5', '1Gi'])
    elif key in KIND_WORDS and (isinstance(value, str) or 'vailable' in key):
        owner[key] = rng.choice(KIND_WORDS[key] + (LARGE if 'vailable' in key else []))
    elif isinstance(value, int):
        owner[key] = rng.choice(SMALL_NUMBERS)
    elif isinstance(value, list):
        owner[key] = rng.choice([[], value * 2, list(reversed(value))])
    elif isinstance(value, dict) and path[-2:] == ('selector', 'matchLabels'):
        value[rng.choice(['', 'a/b/c', 'ok', 'x' * 64])] = rng.choice(['', '-a', 'v', 'x' * 64])
    elif isinstance(value, dict) and 'metrics' in path and rng.random() < 0.5:
        source = copy.deepcopy(rng.choice(METRICS))
        owner.update(source) if 'type' in owner else value.update(source)
    elif isinstance(value, dict) and 'target' in value:
        value['target'].update(rng.choice([{'averageUtilization': 0}, {'averageUtilization': 5}, {'averageValue': '1'}, {'value': '1'}]))


def bounds_case(rng, number, kind):
    new = copy.deepcopy(rng.choice(BOUNDS[kind]))
    status = rng.random() < 0.25
    update = status or rng.random() < 0.3
    if update:
        new['metadata'].update(uid='5f1e2d3c-0000-4000-8000-000000000001', resourceVersion='5', creationTimestamp='1970-01-01T00:00:01Z')
    old = copy.deepcopy(new)
    if update and not status and rng.random() < 0.3:  # rules spare what was stored before them
        spoil_bounds(rng, new, 'spec')
        old = copy.deepcopy(new)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        spoil_bounds(rng, new, 'status' if status else 'spec')
    row = {'name': str(number), 'kind': kind, 'apiVersion': new['apiVersion'], 'op': 'statusUpdate' if status else 'update' if update else 'create', 'new': new}
    return dict(row, old=old) if update else row


STRINGS = ['', 'a', 'A', 'Bad_Name', 'a.b', 'a..b', '-a', 'a-', 'x' * 64, 'x' * 254, 'a/b', '/a', '../a', '..', '.', '..a', 'é', ' a', 'a ', 'a b', 'a=b', 'None', 'Always', 'Never',
           'default', 'example.com/x', 'a/b/c', 'kubernetes.io/x', '0', '1', '-1', '1.2.3.4', '01.2.3.4', '::1', '::ffff:1.2.3.4', 'cpu', 'memory', 'hugepages-2Mi', 'pods',
           'In', 'Exists', 'Local', 'TCP', 'HTTP', 'metadata.name', "metadata.labels['a']", "metadata.annotations['B_c']", 'status.podIP', 'limits.cpu', 'NoSchedule',
           'windows', 'linux', 'Localhost', 'Unconfined', 'runtime/default', 'empty', 'gpu', 'c', 'web', '80', '10.0.0.0/8', '50%', '101%', 'ClientIP', 'SIGTERM', 'system-x']
NUMBERS = [-1, 0, 1, 2, 80, 255, 256, 511, 512, 599, 600, 1000, 65535, 65536, 86401, 2147483647]
QUANTITIES = ['0', '-1', '1', '1500m', '1Gi', '0.5', '3', '1k', '1m', '2Mi', '3Mi']
QUANTITY_MAPS = {'limits', 'requests', 'overhead', 'hard', 'max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio', 'capacity', 'allocatable'}
KEYS = ['cpu', 'memory', 'pods', 'ephemeral-storage', 'example.com/gpu', 'Bad_Key', 'a/b/c', 'hugepages-2Mi', 'x', 'storage', 'requests.cpu', '', 'kubernetes.io/x', '-']


def places(value, path=()):
    """Every place in a value that can be spoilt."""
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        found.append(path + (key,))
        if isinstance(below, (dict, list)):
            found += places(below, path + (key,))
    return found


def spoil(rng, root, fields):
    where = [p for p in places(root) if p[0] in fields] or [p for p in places(root) if p[0] == 'metadata']
    if not where:
        return  # all of it was taken away before
    path = rng.choice(where)
    owner = root
    for step in path[:-1]:
        owner = owner[step]
    key, value = path[-1], owner[path[-1]]
    in_quantities = any(s in QUANTITY_MAPS for s in path[:-1])
    how = rng.random()
    if isinstance(value, dict):
        if isinstance(owner, list) and how < 0.3:
            owner.append(copy.deepcopy(value))
        elif key in QUANTITY_MAPS and how < 0.6:
            value[rng.choice(KEYS)] = rng.choice(QUANTITIES)
        elif how < 0.5:
            del owner[key]
        elif how < 0.6:
            value.clear()
        elif value and all(isinstance(v, str) for v in value.values()):
            value[rng.choice(STRINGS)] = rng.choice(STRINGS) if not in_quantities else rng.choice(QUANTITIES)
    elif isinstance(value, list):
        if how < 0.4:
            del owner[key]
        elif how < 0.6:
            value.clear()
        elif value:
            value.append(copy.deepcopy(rng.choice(value)))
    elif isinstance(value, bool):
        owner[key] = not value
    elif isinstance(value, int):
        owner[key] = rng.choice(NUMBERS)
    elif isinstance(value, str):
        if isinstance(owner, dict) and how < 0.1:
            del owner[key]
        elif in_quantities or key in ('sizeLimit', 'divisor', 'storage'):
            owner[key] = rng.choice(QUANTITIES)
        elif key == 'image':
            # Names that no registry takes are defaulted otherwise upstream, which reads them with the registry's library.
            owner[key] = rng.choice(['', 'a', ' a', 'a ', 'i:latest', 'i:2', 'r.example.com:5000/a/b:c'])
        else:
            owner[key] = rng.choice(STRINGS)


EXTRA = [('hostNetwork', True), ('hostPID', True), ('hostIPC', True), ('shareProcessNamespace', True), ('hostUsers', False), ('hostnameOverride', 'h'), ('setHostnameAsFQDN', True),
         ('nodeName', 'n1'), ('os', {'name': 'windows'}), ('ephemeralContainers', [{'name': 'e', 'image': 'i', 'targetContainerName': 'c'}]), ('automountServiceAccountToken', True),
         ('resources', {'requests': {'cpu': '1'}}), ('activeDeadlineSeconds', 5)]
POD_ANNOTATIONS = ['kubernetes.io/config.mirror', 'controller.kubernetes.io/pod-deletion-cost', 'seccomp.security.alpha.kubernetes.io/pod',
                   'container.apparmor.security.beta.kubernetes.io/c', 'container.seccomp.security.alpha.kubernetes.io/c']


def status_case(rng, number):
    spec = {'containers': [SMALL], 'restartPolicy': rng.choice(['Always', 'Never', 'OnFailure']), 'resourceClaims': SPEC['resourceClaims']}
    old = pod(spec)
    old = copy.deepcopy(dict(old, status=STATUS, metadata=dict(META, uid='5f1e2d3c-0000-4000-8000-000000000001', resourceVersion='5',
                                                               creationTimestamp='1970-01-01T00:00:01Z')))
    new = copy.deepcopy(old)
    for _ in range(rng.choice([1, 1, 2])):
        spoil(rng, new, ['status'])
    return {'name': str(number), 'kind': 'Pod', 'apiVersion': 'v1', 'op': 'statusUpdate', 'new': new, 'old': old}


def case(rng, number, kinds):
    kind = rng.choice(kinds)
    if kind in WORK:
        return work_case(rng, number, kind)
    if kind in BOUNDS:
        return bounds_case(rng, number, kind)
    if kind == 'Pod' and rng.random() < 0.1:
        return status_case(rng, number)
    new = copy.deepcopy(rng.choice(BASES[kind]))
    update = rng.random() < 0.25
    fields = [f for f in new if f not in ('apiVersion', 'kind')]
    old = None
    if update:
        new['metadata'].update(uid='5f1e2d3c-0000-4000-8000-000000000001', resourceVersion='5', creationTimestamp='1970-01-01T00:00:01Z')
        old = copy.deepcopy(new)
    if kind == 'Pod' and rng.random() < 0.3:
        name, value = rng.choice(EXTRA)
        new['spec'][name] = copy.deepcopy(value)
    if kind == 'Pod' and rng.random() < 0.1:
        new['metadata']['annotations'][rng.choice(POD_ANNOTATIONS)] = rng.choice(STRINGS)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # Most of what is to be found is not in metadata.
        spoil(rng, new, fields if rng.random() < 0.15 or len(fields) == 1 else [f for f in fields if f != 'metadata'])
    # Upstream makes up a name for a LimitRange that has none.
    if 'metadata' not in new or (kind == 'LimitRange' and not new['metadata'].get('name')) or (update and any(new['metadata'].get(k) != old['metadata'].get(k) for k in ('name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp'))):
        return case(rng, number, kinds)
    # The server, not the strategy, puts addresses back that an update leaves out; and a change of type takes ports away before they are looked at.
    if kind == 'Service' and update and new.get('spec', {}).get('type') != old['spec'].get('type'):
        return case(rng, number, kinds)
    if kind == 'Service' and update and any(not new.get('spec', {}).get(f) and f in old['spec'] for f in ('clusterIP', 'clusterIPs', 'ipFamilies', 'type')):
        return case(rng, number, kinds)
    if 'namespace' in BASES[kind][0]['metadata'] and new['metadata'].get('namespace') != 'default':
        return case(rng, number, kinds)
    row = {'name': str(number), 'kind': kind, 'apiVersion': new['apiVersion'], 'op': 'update' if update else 'create', 'new': new}
    if kind in FEATURES:
        row['features'] = FEATURES[kind]
    if update:
        row['old'] = old
    return row


def ask(command, rows, env=None):
    text = ''.join(json.dumps(r) + '\n' for r in rows)
    run = subprocess.run(command, input=text, capture_output=True, text=True, env=env)
    lines = run.stdout.split('\n')[:-1]
    if len(lines) != len(rows):
        sys.exit(f'{len(lines)} answers to {len(rows)} cases, exit {run.returncode}: {run.stderr[-2000:]}')
    return [json.loads(line) for line in lines]


def causes(answer):
    return {(c['reason'], c['field'], c['message'].split('\n')[0]) for c in answer['causes']}


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dray'), p.add_argument('oracle')
    p.add_argument('--count', type=int, default=2000), p.add_argument('--seed', type=int, default=1)
    p.add_argument('--kind', action='append'), p.add_argument('--show', type=int, default=10)
    p.add_argument('--record')
    o = p.parse_args()
    rng = random.Random(o.seed)
    kinds = o.kind or [k for k in BASES for _ in range(12 if k == 'Pod' else 1)]
    rows = [case(rng, i, kinds) for i in range(o.count)]
    env = dict(os.environ, GATES=','.join(f'{g}=true' for g in sorted({g for f in FEATURES.values() for g in f})))
    theirs, ours = ask([o.oracle], rows, env), ask([o.dray, 'validate', '--jsonl', '--server-only'], rows)
    same, refused, unreadable, wrong = 0, 0, 0, []
    record = open(o.record, 'w') if o.record else None
    for row, want, got in zip(rows, theirs, ours):
        # Upstream's own confusion (a CIDR that it has called invalid before) is not repeated.
        if want.get('error') or any(c['reason'] == 'InternalError' for c in want['causes']):
            unreadable += 1
            continue
        a, b = causes(want), causes(got)
        refused += bool(a)
        if a == b:
            same += 1
            if record and len(json.dumps(row)) < 2000 and (b or same % 10 == 0):
                record.write(json.dumps(dict(row, causes=sorted(b)), separators=(',', ':')) + '\n')
        else:
            wrong.append((row, a - b, b - a))
    for row, missing, extra in wrong[:o.show]:
        print(f'{row["kind"]} {row["op"]} #{row["name"]}')
        for c in sorted(missing):
            print('   missing', *c, sep=' | ')
        for c in sorted(extra):
            print('   too much', *c, sep=' | ')
    print(f'{same} of {same + len(wrong)} alike, {refused} of them refused; {unreadable} could not be read by upstream; seed {o.seed}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

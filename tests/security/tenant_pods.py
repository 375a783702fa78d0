#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: with examples/tenant-pods.yaml, pods of tenants name nothing of the host: no paths, namespaces, ports, capabilities; neither when they are made nor later,
by no way to write a pod; and tenants cannot do away with it. Usage: tenant_pods.py DRAY"""
import os, subprocess
from kit import DRAY, Cluster, rule

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USERS = {'tenant-token': ('tina', ''), 'other-token': ('otto', '')}
ADMISSION = '/apis/admissionregistration.k8s.io/v1'


def pod(name, spec=None, **container):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': {'containers': [{'name': 'c', 'image': 'x', **container}], **(spec or {})}}


def context(**fields):
    return {'securityContext': fields}


BAD = [
    pod('p', {'volumes': [{'name': 'v', 'hostPath': {'path': '/'}}]}),
    pod('p', {'volumes': [{'name': 'w', 'emptyDir': {}}, {'name': 'v', 'hostPath': {'path': '/etc', 'type': 'Directory'}}]}),
    pod('p', {'hostNetwork': True}), pod('p', {'hostPID': True}), pod('p', {'hostIPC': True}),
    pod('p', **context(privileged=True)), pod('p', **context(allowPrivilegeEscalation=True)), pod('p', **context(capabilities={'add': ['SYS_ADMIN']})),
    pod('p', **context(seccompProfile={'type': 'Unconfined'})), pod('p', context(seccompProfile={'type': 'Unconfined'})), pod('p', context(sysctls=[{'name': 'kernel.shm_rmid_forced', 'value': '1'}])),
    pod('p', ports=[{'containerPort': 80, 'hostPort': 80}]),
    pod('p', {'initContainers': [{'name': 'i', 'image': 'x', **context(privileged=True)}]}), pod('p', {'initContainers': [{'name': 'i', 'image': 'x', **context(capabilities={'add': ['NET_ADMIN']})}]}),
]


# What contradicts itself, or names a profile, setting or user that cannot be: refused everywhere, policy or not.
WRONG = [
    pod('p', **context(privileged=True, allowPrivilegeEscalation=False)), pod('p', **context(capabilities={'add': ['CAP_SYS_ADMIN']}, allowPrivilegeEscalation=False)),
    pod('p', **context(seccompProfile={'type': 'Localhost'})), pod('p', **context(seccompProfile={'type': 'Localhost', 'localhostProfile': '../../etc/x'})), pod('p', **context(seccompProfile={'type': 'None'})),
    pod('p', **context(seccompProfile={'type': 'RuntimeDefault', 'localhostProfile': 'x'})), pod('p', context(seccompProfile={'type': 'Localhost', 'localhostProfile': '/etc/x'})),
    pod('p', **context(appArmorProfile={'type': 'Localhost'})), pod('p', **context(appArmorProfile={'type': 'Localhost', 'localhostProfile': ' x'})), pod('p', **context(appArmorProfile={'type': 'Off'})),
    pod('p', **context(procMount='Open')), pod('p', **context(procMount='Unmasked')), pod('p', **context(runAsUser=-1)), pod('p', context(runAsGroup=2 ** 31)), pod('p', context(supplementalGroups=[-5])),
    pod('p', context(sysctls=[{'name': 'kernel shm', 'value': '1'}])), pod('p', context(sysctls=[{'name': 'kernel.shmmax', 'value': '1'}] * 2)), pod('p', {'hostIPC': True, **context(sysctls=[{'name': 'kernel.shmmax', 'value': '1'}])}),
    pod('p', {'hostNetwork': True, **context(sysctls=[{'name': 'net.ipv4.ip_forward', 'value': '1'}])}), pod('p', {'hostPID': True, 'shareProcessNamespace': True}),
    pod('p', **context(windowsOptions={'runAsUserName': 'a/b'})), pod('p', **context(windowsOptions={'runAsUserName': 'x' * 300})), pod('p', **context(windowsOptions={'hostProcess': True})),
]


def contradictions(c):
    for body in WRONG:
        c.refused('POST', '/api/v1/namespaces/free/pods?dryRun=All', body, code=422, token='other-token')
    for key, value in (('seccomp.security.alpha.kubernetes.io/pod', 'any'), ('seccomp.security.alpha.kubernetes.io/pod', 'localhost/../x'), ('container.apparmor.security.beta.kubernetes.io/c', 'any'), ('container.apparmor.security.beta.kubernetes.io/none', 'unconfined')):
        body = pod('p')
        body['metadata']['annotations'] = {key: value}
        c.refused('POST', '/api/v1/namespaces/free/pods?dryRun=All', body, code=422, token='other-token')


def main():
    with Cluster(USERS) as c:
        c.namespace('team', tenant='true')
        c.namespace('free')
        c.role('', 'pods', rule('*', 'pods pods/ephemeralcontainers'))
        c.bind('team', 'pods', 'tina')
        c.bind('free', 'pods', 'otto')
        run = subprocess.run([DRAY, 'apply', '-f', HERE + '/examples/tenant-pods.yaml'], env=dict(os.environ, KUBECONFIG=c.data + '/admin.kubeconfig', HOME=c.folder), capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run
        pods, tenant = '/api/v1/namespaces/team/pods', {'token': 'tenant-token'}
        for body in BAD:
            text = c.refused('POST', pods, body, code=422, **tenant)
            assert 'tenants' in text, (body, text)
            c.refused('PATCH', pods + '/p?fieldManager=x', body, code=422, kind='application/apply-patch+yaml', **tenant)
            # It is this policy that keeps them from it, and only here.
            c.good('POST', '/api/v1/namespaces/free/pods?dryRun=All', body, token='other-token')
        good = pod('p', {'volumes': [{'name': 'v', 'emptyDir': {}}], 'initContainers': [{'name': 'i', 'image': 'x'}]}, **context(runAsUser=1000, allowPrivilegeEscalation=False, capabilities={'drop': ['ALL']}))
        c.good('POST', pods, good, **tenant)
        debugger = {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'x', 'targetContainerName': 'c', **context(privileged=True)}]}}
        c.refused('PATCH', pods + '/p/ephemeralcontainers', debugger, code=422, kind='application/strategic-merge-patch+json', **tenant)
        contradictions(c)
        # The rule and whom it binds are not theirs.
        for method, path, body in (('DELETE', f'{ADMISSION}/validatingadmissionpolicies/tenant-pods', None), ('DELETE', f'{ADMISSION}/validatingadmissionpolicybindings/tenant-pods', None),
                                   ('PATCH', f'{ADMISSION}/validatingadmissionpolicybindings/tenant-pods', {'spec': {'validationActions': ['Warn']}}), ('PATCH', '/api/v1/namespaces/team', {'metadata': {'labels': {'tenant': None}}}),
                                   ('POST', '/api/v1/namespaces', {'metadata': {'name': 'mine'}})):
            c.refused(method, path, body, **tenant)
        c.alive()
    print(f'tenant_pods: {len(BAD)} ways to the node are closed')


main()

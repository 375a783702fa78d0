#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official Python client against `dray server`: every kind of resource.k8s.io, made, read, watched, changed, deleted.
It is looked for in the running Python and in $PEERS/venv. Usage: python_client.py DRAY"""
import os, subprocess, sys

from common import Server, peers, skip

VENV = os.path.join(peers(), 'venv/bin/python3')


def spec_of(kind):
    request = {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}
    return {'ResourceClaim': request, 'ResourceClaimTemplate': {'spec': request}, 'DeviceClass': {},
            'ResourceSlice': {'driver': 'd.example.com', 'nodeName': 'n', 'pool': {'name': 'n', 'generation': 1, 'resourceSliceCount': 1},
                              'devices': [{'name': 'd0'}]},
            'DeviceTaintRule': {'deviceSelector': {'driver': 'd.example.com'}, 'taint': {'key': 'example.com/broken', 'effect': 'NoSchedule'}},
            'ResourcePoolStatusRequest': {'driver': 'd.example.com'}}[kind]


KINDS = {'ResourceClaim': ('namespaced_', 'resource_claim'), 'ResourceClaimTemplate': ('namespaced_', 'resource_claim_template'),
         'DeviceClass': ('', 'device_class'), 'ResourceSlice': ('', 'resource_slice'), 'DeviceTaintRule': ('', 'device_taint_rule'),
         'ResourcePoolStatusRequest': ('', 'resource_pool_status_request')}
ALPHA = {'ResourcePoolStatusRequest'}


def client_version():
    import kubernetes
    return kubernetes.__version__


def check(client, config, watch, kubeconfig):
    config.load_kube_config(kubeconfig)
    done = []
    for kind, (scope, word) in KINDS.items():
        api, version = (client.ResourceV1alpha3Api(), 'resource.k8s.io/v1alpha3') if kind in ALPHA else (client.ResourceV1Api(), 'resource.k8s.io/v1')
        if not hasattr(api, f'create_{scope}{word}'):
            print(f'skipped: {kind} (this client, {client_version()}, does not know it)')
            continue
        where = ('default',) if scope else ()
        call = lambda verb, *args, **more: getattr(api, f'{verb}_{scope}{word}')(*args, **more)
        made = call('create', *where, body={'apiVersion': version, 'kind': kind, 'metadata': {'name': 'k'}, 'spec': spec_of(kind)})
        assert made.metadata.uid, made
        assert call('read', 'k', *where).metadata.uid == made.metadata.uid
        listing = call('list', *where)
        assert [i.metadata.name for i in listing.items] == ['k']
        call('patch', 'k', *where, body={'metadata': {'labels': {'a': 'b'}}})
        current = call('read', 'k', *where)
        current.metadata.labels['c'] = 'd'
        call('replace', 'k', *where, body=current)
        call('delete', 'k', *where)
        seen = []
        for event in watch.Watch(return_type='object').stream(getattr(api, f'list_{scope}{word}'), *where, resource_version=listing.metadata.resource_version, timeout_seconds=5):
            seen.append(event['type'])
            if seen[-1] == 'DELETED':
                break
        assert seen == ['MODIFIED', 'MODIFIED', 'DELETED'], seen
        done.append(kind)
    core = client.CoreV1Api()
    assert [n.metadata.name for n in core.list_namespace().items] == ['default', 'kube-node-lease', 'kube-public', 'kube-system']
    try:
        core.read_namespaced_pod('nosuch', 'default')
        raise AssertionError('a pod that is not there')
    except client.ApiException as e:
        assert e.status == 404
    print(f'Python client {client_version()}: create, read, list, patch, replace, watch, delete of {", ".join(done)}')


def main():
    try:
        from kubernetes import client, config, watch
        client.ResourceV1Api
    except (ImportError, AttributeError):
        if os.path.exists(VENV) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(VENV))):
            return subprocess.run([VENV, os.path.abspath(__file__), *sys.argv[1:]]).returncode
        skip('the official Python client (not installed; python3 -m venv $PEERS/venv && $PEERS/venv/bin/pip install kubernetes)')
    server = Server(sys.argv[1], '--runtime-config', 'resource.k8s.io/v1alpha3=true', '--feature-gates', 'DRAResourcePoolStatus=true')
    try:
        check(client, config, watch, server.kubeconfig)
    finally:
        server.done()
    return 0


if __name__ == '__main__':
    sys.exit(main())

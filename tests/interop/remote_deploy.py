#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes on a real API server: the manifests apply, and what they allow is enough: scheduler and controllers work with nothing but
tokens of their service accounts."""
import os, subprocess, sys

from remote_kit import WITHOUT_DRA, Plane, programs, until

MANIFESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'deploy', 'kubernetes')
NAMESPACE = 'dray-system'


def apply(p, kubectl):
    run = subprocess.run([kubectl, '--kubeconfig', p.kubeconfig, 'apply', '-k', MANIFESTS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # The driver is no part of the kustomization, and must still be good.
    run = subprocess.run([kubectl, '--kubeconfig', p.kubeconfig, 'apply', '-f', os.path.join(MANIFESTS, 'driver-net.yaml')], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run.stderr


def config_of(p, account):
    """A kubeconfig with a fresh token of a service account."""
    answer = p.call('POST', f'/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token', {'spec': {'expirationSeconds': 3600}})
    path, token = os.path.join(p.top, account + '.kubeconfig'), os.path.join(p.top, account + '.token')
    with open(token, 'w') as f:
        f.write(answer['status']['token'])
    with open(path, 'w') as f:
        f.write(open(p.kubeconfig).read().replace(f'token: admin-token-{p.port}', f'tokenFile: {token}'))
    return path


def refusals(p, parts):
    return {c.log: sum(p.metric(c, 'rest_client_requests_total{code="%d"' % code) for code in (401, 403, 422)) for c in parts}


def evict_by_rule(p):
    """Eviction from a tainted device."""
    claim = next(c for c in p.claims() if c.get('status', {}).get('allocation'))
    device = claim['status']['allocation']['devices']['results'][0]
    victim = claim['status']['reservedFor'][0]['name']
    p.call('POST', '/apis/resource.k8s.io/v1/devicetaintrules', {'metadata': {'name': 't'}, 'spec': {
        'deviceSelector': {'driver': device['driver'], 'pool': device['pool'], 'device': device['device']},
        'taint': {'key': 'broken', 'effect': 'NoExecute'}}})
    until('the pod is evicted', lambda: victim not in p.pods() or p.pods()[victim]['metadata'].get('deletionTimestamp'))
    until('the rule tells of it', lambda: p.call('GET', '/apis/resource.k8s.io/v1/devicetaintrules/t').get('status', {}).get('conditions'))


def main():
    dray = sys.argv[1]
    kubectl = os.path.join(programs(), 'kubectl')
    p = Plane()
    try:
        p.start('kcm', WITHOUT_DRA)
        p.ready()
        apply(p, kubectl)
        p.nodes(2)
        parts = [p.dray(dray, verb, '--leader-elect-resource-namespace', NAMESPACE, kubeconfig=config_of(p, 'dray-' + verb))
                 for verb in ('scheduler', 'controllers')]
        names = [f'p{i}' for i in range(17)]  # one too many: it is told why
        for n in names:
            p.pod(n)
        until('sixteen pods bound', lambda: sum(1 for x in p.pods().values() if x['spec'].get('nodeName')) == 16)
        last = next(n for n, x in p.pods().items() if not x['spec'].get('nodeName'))
        until('a reason', lambda: any(c.get('message', '').startswith('0/2 nodes') for c in p.pods()[last]['status'].get('conditions', [])))
        until('an event', lambda: [e for e in p.call('GET', '/api/v1/namespaces/default/events')['items'] if e['reason'] == 'FailedScheduling'])
        p.check()
        if not p.old:
            evict_by_rule(p)
        p.clear()
        until('claims of pods are gone', lambda: not p.claims())
        assert all(n == 0 for n in refusals(p, parts).values()), (refusals(p, parts), [open(c.log).read()[-2000:] for c in parts])
        for c in parts:
            p.end(c)
        # What they may not do.
        for what in ('secrets', 'configmaps'):
            run = subprocess.run([kubectl, '--kubeconfig', config_of(p, 'dray-scheduler'), 'get', what, '-A'], capture_output=True, text=True, check=False)
            assert 'forbidden' in run.stderr.lower(), (run.stdout, run.stderr)
    finally:
        p.done()
    print('ok: manifests apply, and their roles suffice')


if __name__ == '__main__':
    main()

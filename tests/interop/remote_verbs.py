#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs on devices on a real API server: what they say is what the cluster has, and none writes but those that must."""
import json, os, subprocess, sys

from remote_kit import WITHOUT_DRA, Plane


def main():
    dray = os.path.abspath(sys.argv[1])
    p = Plane()

    def run(*words, status=0):
        out = subprocess.run([dray, *words, '--kubeconfig', p.kubeconfig], capture_output=True, text=True, check=False, timeout=60)
        assert out.returncode == status, (words, out.returncode, out.stdout, out.stderr)
        return out.stdout + out.stderr

    def has(text, *words):
        assert all(w in text for w in words), (words, text)
    try:
        p.start('kcm', WITHOUT_DRA)
        p.ready()
        p.nodes(2)
        parts = [p.dray(dray, 'scheduler'), p.dray(dray, 'controllers')]
        names = [f'p{i}' for i in range(3)]
        for n in names:
            p.pod(n)
        p.bound(names)
        claim = next(c for c in p.claims() if c['status']['allocation'])
        device = claim['status']['allocation']['devices']['results'][0]
        where = f"{device['driver']}/{device['pool']}/{device['device']}"
        before = [c['metadata']['resourceVersion'] for c in p.claims()]
        has(run('who', where), claim['metadata']['name'], device['pool'])
        free = json.loads(run('free', '-o', 'json'))
        assert '13' in json.dumps(free), free  # 16 devices, three held
        has(run('topo', device['pool']), device['device'])
        has(run('top', '--once'), device['pool'])
        has(run('history', where), claim['metadata']['name'])
        has(run('why', 'pod/p0'), 'p0')
        has(run('plan', '--all'), 'default/p0')
        has(run('describe', 'resourceclaim', claim['metadata']['name']), f"device {device['device']} of pool {device['pool']}")
        has(run('get', 'pods'), 'p0')
        asked = run('request', 'gpu', '--count', '2', '--claim')
        has(asked, 'ResourceClaim', 'count: 2')
        snapshot = os.path.join(p.top, 'snapshot')
        run('snapshot', 'save', snapshot)
        out = subprocess.run([dray, 'who', where, '--snapshot', snapshot], capture_output=True, text=True, check=False)
        has(out.stdout, claim['metadata']['name'])
        sick = subprocess.run([dray, 'doctor', '--kubeconfig', p.kubeconfig], capture_output=True, text=True, check=False, timeout=60)
        assert sick.returncode in (0, 1), (sick.stdout, sick.stderr)
        assert before == [c['metadata']['resourceVersion'] for c in p.claims()], 'a verb that asks has written'
        rules = '/apis/resource.k8s.io/v1/devicetaintrules'
        assert not p.call('GET', rules)['items']
        print(run('taint', where, 'broken=yes:NoSchedule').strip())
        assert len(p.call('GET', rules)['items']) == 1
        run('untaint', where, 'broken')
        assert not p.call('GET', rules)['items']
        for c in parts:
            p.end(c)
    finally:
        p.done()
    print('ok: the verbs on devices on a real API server')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What-ifs of `dray plan` equal what then happens: for each option five questions on clusters in different states, each carried out
afterwards. Usage: whatif.py DRAY"""
import json, os, random, shutil, tempfile, time

from fits import apply, dray, patch_node, pod, pods, served, template
from up import Cluster

GPU = 'gpu.example.com'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
PODS = '/api/v1/namespaces/default/pods'
TEMPLATES = [template(f't{n}', GPU, n) for n in (1, 2, 3)]


def plan(c, *words, objects=()):
    """Where the plan says that each pod is."""
    files = ('-f', '-') if objects else ()
    r = dray(c, 'plan', '--all', '-o', 'json', *files, *words, text='\n---\n'.join(json.dumps(o) for o in objects) if objects else None)
    assert r.returncode in (0, 1) and r.stdout, (words, r)
    return {s['pod'].split('/')[1]: s.get('node') for s in json.loads(r.stdout)['steps'] if 'pod' in s}


def now(c):
    return {name: p['spec'].get('nodeName') for name, p in pods(c, '').items() if not p['metadata'].get('deletionTimestamp')}


def fill(c, rng, least, most):
    """Pods with devices on the nodes; returns their names."""
    names = [f'a{i:02}' for i in rng.sample(range(20), rng.randrange(least, most))]
    apply(c, TEMPLATES)
    for name in names:
        apply(c, [pod(name, rng.choice(('t1', 't2', 't3')))])
        if not served(c, name, 1)[name]:
            time.sleep(1)  # pods that wait are told apart by their time of creation, of whole seconds
    return names


def delete(c, name):
    c.good('DELETE', f'{PODS}/{name}?gracePeriodSeconds=0')
    c.until(f'{name} and its claim are gone', lambda: c.call('GET', f'{PODS}/{name}')[0] == 404 and not any(
        o['metadata']['name'].startswith(f'{name}-d-') for o in c.good('GET', CLAIMS)['items']))


def again(c, names):
    """Pods that were evicted, created again as their controllers would, in the same order."""
    specs = {name: next(e['resourceClaimTemplateName'] for e in pods(c, name)[name]['spec']['resourceClaims']) for name in names}
    for name in names:
        delete(c, name)
    for name in names:
        apply(c, [pod(name, specs[name])])
        served(c, name, 1)


def drain(c, rng, nodes):
    fill(c, rng, 3, 7)
    before = now(c)
    node = rng.choice(sorted({n for n in before.values() if n}))
    said = plan(c, '--drain', node)
    patch_node(c, node, {'unschedulable': True})
    again(c, [name for name, at in before.items() if at == node])
    return said, now(c)


def taint(c, rng, nodes):
    fill(c, rng, 3, 7)
    before = now(c)
    node = rng.choice(sorted({n for n in before.values() if n}))
    effect = rng.choice(('NoSchedule', 'NoExecute'))
    some = [pod('new', 't2')]
    said = plan(c, '--taint', f'{GPU}/{node}=sick:{effect}', objects=TEMPLATES + some)
    hit = [name for name, at in before.items() if at == node] if effect == 'NoExecute' else []
    specs = {name: next(e['resourceClaimTemplateName'] for e in pods(c, name)[name]['spec']['resourceClaims']) for name in hit}
    r = dray(c, 'taint', f'{GPU}/{node}', f'sick:{effect}', '--yes')
    assert r.returncode == 0, r
    for name in hit:
        c.until(f'{name} is evicted', lambda n=name: c.call('GET', f'{PODS}/{n}')[0] == 404)
    c.until('their devices are free', lambda: len(c.good('GET', CLAIMS)['items']) == len(before) - len(hit))
    for name in hit:
        apply(c, [pod(name, specs[name])])
        served(c, name, 1)
    apply(c, some)
    served(c, 'new', 1)
    return said, now(c)


def without(c, rng, nodes):
    names = fill(c, rng, 9, 12)
    claim = rng.choice([o['metadata']['name'] for o in c.good('GET', CLAIMS)['items'] if o.get('status', {}).get('allocation')])
    owner = next(n for n in names if claim.startswith(n + '-d-'))
    waiting = [n for n, at in now(c).items() if not at]
    said = plan(c, '--without', claim)
    delete(c, owner)
    moved = [n for n in waiting if said.get(n)]
    if moved:  # pods that wait are tried again after their backoff
        c.until('as many pods move up as the plan says', lambda: sum(bool(now(c)[n]) for n in waiting) >= len(moved), 60)
    return said, now(c)


def add_node(c, rng, nodes):
    """The node is then created, with its devices."""
    fill(c, rng, 6, 9)
    some = [pod(f'new{i}', 't3') for i in range(rng.randrange(1, 4))]
    like = rng.choice(nodes)
    said = plan(c, '--add-node', f'like={like},count=1,name=added', objects=TEMPLATES + some)
    clone(c, like, 'added')
    for p in some:
        apply(c, [p])
        served(c, p['metadata']['name'], 1)
    return {k: 'added' if v and v.startswith('added') else v for k, v in said.items()}, now(c)


def clone(c, like, name):
    node = c.good('GET', f'/api/v1/nodes/{like}')
    meta = node['metadata']
    labels = dict(meta['labels'], **{'kubernetes.io/hostname': name})
    c.good('POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': name, 'labels': labels}, 'spec': {'taints': [
        t for t in node['spec'].get('taints', []) if not t['key'].startswith('node.kubernetes.io/')]}})
    made = c.good('GET', f'/api/v1/nodes/{name}')
    made['status'] = node['status']
    c.good('PUT', f'/api/v1/nodes/{name}/status', made)
    for s in c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items']:
        if s['spec'].get('nodeName') == like:
            spec = dict(s['spec'], nodeName=name, pool=dict(s['spec']['pool'], name=name))
            c.good('POST', '/apis/resource.k8s.io/v1/resourceslices', {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {
                'generateName': name}, 'spec': spec})
    c.until('the node may be used', lambda: not [t for t in c.good('GET', f'/api/v1/nodes/{name}')['spec'].get('taints', [])
                                                 if t['key'].startswith('node.kubernetes.io/')])


def only_node(c, rng, nodes):
    fill(c, rng, 2, 5)
    node = rng.choice(nodes)
    some = [pod(f'new{i}', rng.choice(('t1', 't2', 't3'))) for i in range(rng.randrange(2, 5))]
    said = plan(c, '--node', node, objects=TEMPLATES + some)
    for other in nodes:
        if other != node:
            patch_node(c, other, {'unschedulable': True})
    for p in some:
        apply(c, [p])
        served(c, p['metadata']['name'], 1)
    live = now(c)
    return {k: v for k, v in said.items() if k.startswith('new')}, {k: v for k, v in live.items() if k.startswith('new')}


def needed(c, rng, nodes):
    """So many nodes are needed, and with one less a pod waits."""
    fill(c, rng, 4, 7)
    some = [pod(f'new{i}', 't3') for i in range(rng.randrange(4, 9))]
    text = '\n---\n'.join(json.dumps(o) for o in TEMPLATES + some)
    r = dray(c, 'plan', '--needed', '--add-node', f'like={nodes[0]}', '-f', '-', text=text)
    n = 0 if 'Needed: ' not in r.stdout or 'no more' in r.stdout else int(r.stdout.split('Needed: ')[1].split()[0])
    apply(c, some)
    live = served(c, 'new', len(some))
    for i in range(n):
        assert any(not at for at in live.values()), (r.stdout, live, i)
        clone(c, nodes[0], f'more-{i}')
        c.until('pods are tried again', lambda: any(at == f'more-{i}' for at in now(c).values()))
        live = c.until('no pod is undecided', lambda: served(c, 'new', len(some)))
    c.until('all pods have a node', lambda: all(now(c).values()), 20)
    return n, n


OPTIONS = {'--drain': drain, '--taint': taint, '--without': without, '--add-node': add_node, '--node': only_node, '--needed': needed}


def main():
    top = tempfile.mkdtemp(prefix='dray-whatif.')
    failed = []
    try:
        for option, ask in OPTIONS.items():
            for seed in range(5):
                rng = random.Random(f'{option} {seed}')
                c = Cluster(os.path.join(top, f'{option}{seed}'), '--sim', 'example-gpu', '--nodes', str(rng.randrange(2, 4)))
                try:
                    nodes = sorted(n['metadata']['name'] for n in c.good('GET', '/api/v1/nodes')['items'])
                    said, live = ask(c, rng, nodes)
                    if said != live:
                        failed.append(f'{option} {seed}: the plan said {said}, then there was {live}')
                finally:
                    c.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    assert not failed, '\n'.join(failed)
    print('whatif: all good')


if __name__ == '__main__':
    main()

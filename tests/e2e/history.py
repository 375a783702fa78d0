#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray history` knows past holders of a device, how long they had it and how that ended, after a restart as well; entries of one second are
in the order in which things happened; records are bounded; `describe pod` names the devices. Usage: history.py DRAY"""
import json, os, shutil, subprocess, tempfile

from up import Cluster, DRAY

PODS = '/api/v1/namespaces/default/pods'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
DEVICE = 'gpu.example.com/example-gpu-0/gpu-0'
MAPS = '/api/v1/namespaces/kube-system/configmaps?labelSelector=dray.dev/history%3Ddevices'


def dray(c, *words):
    return subprocess.run([DRAY, *words, '--kubeconfig', os.path.join(c.folder, 'admin.kubeconfig')], capture_output=True, text=True, timeout=120)


def start(c, name):
    r = dray(c, 'request', 'gpu', '--pod', '--name', name, '--node', 'example-gpu-0', '--apply')
    assert r.returncode == 0, r
    c.until(f'{name} runs', lambda: c.good('GET', f'{PODS}/{name}').get('status', {}).get('phase') == 'Running')


def free(c):
    c.until('no claim is left', lambda: not c.good('GET', CLAIMS)['items'])


def history(c, name=DEVICE):
    return json.loads(dray(c, 'history', name, '-o', 'json').stdout)


def order(c):
    """Within a second: created, allocated, bound, started."""
    words = [e['what'] for e in history(c)['entries']]
    steps = ['created', 'allocated: ', 'Scheduled: ', 'started on example-gpu-0 (simulated)']
    at = [next(i for i, w in enumerate(words) if s in w and not w.startswith('slice')) for s in steps]
    assert at == sorted(at), words


def main():
    top = tempfile.mkdtemp(prefix='dray-history.')
    folder = os.path.join(top, 'data')
    flags = ('--sim', 'example-gpu', '--nodes', '1')
    c = Cluster(folder, *flags)
    try:
        start(c, 'first')
        order(c)
        shown = dray(c, 'describe', 'pod', 'first').stdout
        assert f'{DEVICE} (request gpu)' in shown and 'example-gpu-0 (simulated)' in shown, shown
        c.good('DELETE', f'{PODS}/first')
        free(c)
        start(c, 'second')
        r = dray(c, 'taint', DEVICE, 'sick=yes:NoExecute', '--yes')
        assert r.returncode == 0, r
        free(c)
        held = c.until('two holders are recorded', lambda: (lambda h: h if len(h) == 2 else None)(history(c)['holders']))
        assert [h['pods'] for h in held] == ['first', 'second'], held
        assert held[0]['end'] == 'the pod was deleted' and held[1]['end'].startswith('evicted: DeletionByDeviceTaintManager: '), held
        assert all(h['from'] <= h['until'] and h['device'] == DEVICE for h in held), held
        text = dray(c, 'history', DEVICE).stdout
        assert '(pod second) gave it up after ' in text and 'who had it before' not in text, text
        c.stop()
        c = Cluster(folder, *flags)
        assert history(c)['holders'] == held
        gone = history(c, 'claim/' + held[0]['claim'])
        assert 'which is gone' in gone['subject'] and gone['holders'] == held[:1], gone
        bounded(c)
        c.stop()
    finally:
        c.process.kill()
        shutil.rmtree(top, ignore_errors=True)
    print('history: all good')


def bounded(c):
    """The oldest records go when a map is full."""
    maps = c.good('GET', MAPS)['items']
    assert len(maps) == 1, maps
    line = json.dumps({'device': 'other/pool/device', 'namespace': 'a', 'claim': 'b', 'from': '2026-01-01T00:00:00Z', 'until': '2026-01-01T00:00:00Z',
                       'end': 'x' * 100}) + '\n'
    maps[0]['data']['records'] = line * (65536 // len(line)) + maps[0]['data']['records']
    where = f"/api/v1/namespaces/kube-system/configmaps/{maps[0]['metadata']['name']}"
    c.good('PUT', where, maps[0])
    assert dray(c, 'untaint', DEVICE, 'sick').returncode == 0
    c.until('the taint is gone', lambda: 'tainted' not in dray(c, 'who', DEVICE).stdout)
    before = len(history(c)['holders'])
    start(c, 'third')
    c.good('DELETE', f'{PODS}/third')
    free(c)
    c.until('a third holder is recorded', lambda: len(history(c)['holders']) == before + 1)
    records = c.good('GET', where)['data']['records']
    assert len(records) <= 65536 and all(json.loads(x) for x in records.splitlines()), len(records)


if __name__ == '__main__':
    main()

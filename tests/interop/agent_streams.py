#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl logs, exec and attach on real containers: kubectl → dray's API server → `dray agent` → crun. Needs root, crun or runc, a static
busybox and kubectl; else it is skipped.

usage: agent_streams.py DRAY; PEERS: where kubectl lies (bin/v*/kubectl)"""
import glob, os, sys, threading

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, '..', 'e2e')]
from agent_kit import *  # noqa: E402
from common import peers, skip
import importlib.util

# The helpers beside us; e2e has a module of the same name.
spec = importlib.util.spec_from_file_location('kubectl_streams', os.path.join(FOLDER, 'streams.py'))
kubectl_streams = importlib.util.module_from_spec(spec)


class World:
    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig


def same(what, got, want):
    assert got == want, f'{what}: want {want!r}, got {got!r}'


def logs(k, c):
    c.good('POST', PODS, pod('talk', [container('main', 'echo one; echo two >&2; echo start; ' + FOREVER), container('side', 'echo side; ' + FOREVER)], 'here'))
    c.until('it runs', lambda: c.phase('talk', 'Running'))
    c.until('it has spoken', lambda: k('logs', 'talk', '-c', 'main')[1].count('\n') == 3)
    same('a log', sorted(k('logs', 'talk', '-c', 'main')[1].split()), ['one', 'start', 'two'])
    same('all containers', sorted(k('logs', 'talk', '--all-containers')[1].split()), ['one', 'side', 'start', 'two'])
    same('the last line', k('logs', 'talk', '-c', 'side', '--tail=1')[1], 'side\n')
    # A container that ends, and the run before.
    c.good('POST', PODS, pod('again', [container('main', 'echo run; sleep 0.3; exit 1')], 'here', restartPolicy='Always'))
    c.until('it was restarted', lambda: (c.pod('again')['status'].get('containerStatuses') or [{}])[0].get('restartCount', 0) >= 1)
    c.until('the run before', lambda: k('logs', 'again', '--previous')[:2] == (0, 'run\n'))
    # Following ends with the container.
    c.good('POST', PODS, pod('brief', [container('main', 'for i in 1 2 3 4 5; do echo $i; sleep 0.2; done')], 'here', restartPolicy='Never'))
    c.until('it runs', lambda: (c.pod('brief')['status'].get('containerStatuses') or [{}])[0].get('containerID'))
    c.until('it has a log', lambda: k('logs', 'brief')[0] == 0)
    same('followed to its end', k('logs', '-f', 'brief')[:2], (0, '1\n2\n3\n4\n5\n'))


def commands(k, c):
    same('exec', k('exec', 'talk', '-c', 'main', '--', 'sh', '-c', 'echo out; echo err >&2; hostname'), (0, 'out\ntalk\n', 'err\n'))
    code, _, err = k('exec', 'talk', '-c', 'main', '--', 'sh', '-c', 'exit 42')
    same('an exit code', (code, err), (42, 'command terminated with exit code 42\n'))
    text = ''.join(f'{i:07}\n' for i in range(200000))
    same('much in, much out', k('exec', '-i', 'talk', '-c', 'main', '--', 'cat', input=text), (0, text, ''))
    code, out, err = k('exec', 'talk', '-c', 'main', '--', '/no/such')
    same('no program', (code != 0, 'no such file' in err.lower() or 'not found' in err.lower()), (True, True))
    same('much out alone', len(k('exec', 'talk', '-c', 'main', '--', 'sh', '-c', 'head -c 5000000 /dev/zero | tr "\\0" x')[1]), 5000000)
    code, _, err = k('exec', 'brief', '--', 'true')
    same('no run', code, 1)
    # The command goes with its client.
    p = k.start('exec', 'talk', '-c', 'side', '--', 'sh', '-c', 'echo go; sleep 12345')
    same('it runs', p.stdout.readline(), 'go\n')
    p.kill()
    p.wait()
    c.until('the command ends with its client', lambda: '12345' not in k('exec', 'talk', '-c', 'side', '--', 'ps')[1])


def attach(k, c):
    c.good('POST', PODS, pod('tick', [container('main', 'while true; do echo tick; sleep 0.1; done')], 'here'))
    c.until('it runs', lambda: c.phase('tick', 'Running'))
    p = k.start('attach', 'tick')
    got = []
    t = threading.Thread(target=lambda: got.extend(iter(p.stdout.readline, '')))
    t.start()
    c.until('its output', lambda: got.count('tick\n') >= 3)
    c.good('DELETE', f'{PODS}/tick?gracePeriodSeconds=0')
    t.join(60)
    p.wait(timeout=60)


def main():
    dray = os.path.abspath(sys.argv[1])
    found = sorted(glob.glob(os.path.join(peers(), 'bin', 'v*', 'kubectl')))
    if why_not() or not found:
        skip(why_not() or 'no kubectl')
    spec.loader.exec_module(kubectl_streams)
    c = Cluster(dray)
    n = Node(c)
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n.start()
        k = kubectl_streams.Kubectl(found[-1], World(c.kubeconfig))
        for step in logs, commands, attach:
            step(k, c)
            print(f'{step.__name__}: good', flush=True)
        kubectl_streams.terminal(k, 'talk')
        assert not kubectl_streams.streams.failures, kubectl_streams.streams.failures
        for p in c.good('GET', PODS)['items']:
            c.call('DELETE', f'{PODS}/{p["metadata"]["name"]}?gracePeriodSeconds=0')
        c.until('nothing is left', lambda: not c.good('GET', PODS)['items'] and not n.clean())
        n.end()
        c.stop()
    except BaseException:
        print(c.tell())
        c.wreck()
        raise
    shutil.rmtree(c.folder, ignore_errors=True)
    print('kubectl streams on containers: ok')


if __name__ == '__main__':
    main()

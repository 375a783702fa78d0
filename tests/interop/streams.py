#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl logs, exec and attach through dray's server to a node's endpoint of dray's.

usage: streams.py DRAY (the test endpoint lies beside it, in tests/); PEERS: where kubectl lies (v*/kubectl)"""
import glob, os, pty, select, subprocess, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))
sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))
import streams
from common import peers, skip
from streams import World, expect, line, wait_for


class Kubectl:
    def __init__(self, binary, world):
        self.binary, self.world = binary, world

    def args(self, *args):
        return [self.binary, '--kubeconfig', self.world.kubeconfig, *args]

    def __call__(self, *args, input=None):
        r = subprocess.run(self.args(*args), capture_output=True, text=True, input=input, timeout=120)
        return r.returncode, r.stdout, r.stderr

    def start(self, *args):
        return subprocess.Popen(self.args(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def logs(k, w):
    path = os.path.join(w.top, 'k.log')
    with open(path, 'w') as f:
        f.write(line(1, 'stdout', 'one') + line(2, 'stdout', 'two') + line(3, 'stderr', 'three'))
    w.make_pod('web', ('main', 'side'))
    w.run('web', 'main', 'running', path, path)
    w.run('web', 'side', '-', '-', '-', 'ContainerCreating')
    expect('logs', k('logs', 'web', '-c', 'main'), (0, 'one\ntwo\nthree\n', ''))
    expect('tail', k('logs', 'web', '-c', 'main', '--tail', '1')[:2], (0, 'three\n'))
    expect('timestamps', k('logs', 'web', '-c', 'main', '--timestamps', '--tail=1')[1], '2026-11-16T09:00:03.000000000Z three\n')
    expect('previous', k('logs', 'web', '-c', 'main', '--previous')[1], 'one\ntwo\nthree\n')
    expect('since', k('logs', 'web', '-c', 'main', '--since-time=2026-11-16T09:00:02Z')[1], 'two\nthree\n')
    code, _, err = k('logs', 'web', '-c', 'side')
    expect('waiting', (code, 'is waiting to start: ContainerCreating' in err), (1, True))
    code, _, err = k('logs', 'web', '-c', 'nope')
    expect('no container', (code, 'container nope is not valid for pod web' in err), (1, True))
    p = k.start('logs', '-f', 'web', '-c', 'main')
    got = []
    t = threading.Thread(target=lambda: got.extend(iter(p.stdout.readline, '')))
    t.start()
    wait_for('what is there', lambda: len(got) == 3)
    with open(path, 'a') as f:
        f.write(line(4, 'stdout', 'four'))
    wait_for('what comes', lambda: got[3:] == ['four\n'])
    w.run('web', 'main', 'exited', path, path)
    t.join(60)
    expect('the end of a log', p.wait(timeout=60), 0)
    w.run('web', 'main', 'running', path, path)


def commands(k, w):
    expect('exec', k('exec', 'web', '-c', 'main', '--', 'sh', '-c', 'echo out; echo err >&2'), (0, 'out\n', 'err\n'))
    code, out, err = k('exec', 'web', '-c', 'main', '--', 'sh', '-c', 'exit 42')
    expect('an exit code', (code, err), (42, 'command terminated with exit code 42\n'))
    text = 'x' * 99 + '\n'
    expect('input', k('exec', '-i', 'web', '-c', 'main', '--', 'cat', input=text * 5000), (0, text * 5000, ''))
    code, _, err = k('exec', 'web', '-c', 'main', '--', '/no/such')
    expect('no program', (code != 0, 'executable file not found' in err), (True, True))
    w.run('web', 'side', 'exited')
    code, _, err = k('exec', 'web', '-c', 'side', '--', 'true')
    expect('no run', (code, 'container not found ("side")' in err), (1, True))
    terminal(k, 'web')


def terminal(k, pod):
    """exec -it wants a terminal on its own side, too."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(k.binary, k.args('exec', '-it', pod, '-c', 'main', '--', 'sh', '-c', 'test -t 0 && echo term; read x; echo got $x; exit 3'))
    text, sent, end = b'', False, time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
        if b'term' in text and not sent:
            os.write(fd, b'hello\r')
            sent = True
    _, status = os.waitpid(pid, 0)
    expect('a terminal', (b'term' in text, b'got hello' in text, os.waitstatus_to_exitcode(status)), (True, True, 3))


def attach(k, w):
    w.make_pod('att')
    w.run('att', 'main', 'running')
    w.call('PATCH', '/api/v1/namespaces/default/pods/att/status', {'status': {'phase': 'Running', 'conditions': [
        {'type': 'Ready', 'status': 'True'}]}}, kind='application/merge-patch+json')
    expect('attach', k('attach', 'att')[:2], (0, 'new\n'))
    expect('attach with input', k('attach', '-i', 'att', input='typed\n')[:2], (0, 'new\ntyped\n'))


def main():
    found = sorted(glob.glob(os.path.join(peers(), 'bin', 'v*', 'kubectl')))
    if not found:
        skip('streams with kubectl (no kubectl in $PEERS/bin/v*)')
    w = World(sys.argv[1])
    try:
        k = Kubectl(found[-1], w)
        for test in logs, commands:
            test(k, w)
        attach(k, w)
    finally:
        w.done()
    for f in streams.failures:
        print('FAIL', f)
    print('kubectl streams:', 'failed' if streams.failures else 'ok')
    return 1 if streams.failures else 0


if __name__ == '__main__':
    sys.exit(main())

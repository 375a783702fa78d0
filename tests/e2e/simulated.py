#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes are recognisable, their Jobs end, their cameras attach, and nothing pretends to run there; `dray up` takes another port
when its own is in use and reports nodes of another profile; `dray down` ends a cluster. Usage: simulated.py DRAY"""
import json, os, shutil, signal, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
JOB = '''apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: default}
spec:
  template:
    metadata: {annotations: {%s}}
    spec: {restartPolicy: Never, containers: [{name: c, image: x}]}
'''


class Up:
    def __init__(self, folder, *flags):
        self.folder = folder
        self.errors = open(folder + '.err', 'w+')
        self.process = subprocess.Popen([DRAY, 'up', '--data-dir', folder, *flags], stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        cwd=os.path.dirname(folder))
        self.card = ''
        for line in self.process.stdout:
            self.card += line
            if line.startswith('Ctrl-C stops it'):
                break
        assert 'dray is up at' in self.card, open(folder + '.err').read()

    def run(self, *words, **options):
        env = dict(os.environ, KUBECONFIG=os.path.join(self.folder, 'admin.kubeconfig'))
        return subprocess.run([DRAY, *words], capture_output=True, text=True, timeout=60, env=env, **options)

    def good(self, *words, **options):
        r = self.run(*words, **options)
        assert r.returncode == 0, (words, r)
        return r.stdout

    def object(self, *words):
        return json.loads(self.good('get', *words, '-o', 'json'))

    def until(self, what, condition, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.1)
        raise AssertionError(f'{what}: not within {seconds} s; {open(self.folder + ".err").read()[-2000:]}')

    def stderr(self):
        return open(self.folder + '.err').read()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.stderr()
        return out


def marks(c):
    for node in c.object('nodes')['items']:
        labels = node['metadata']['labels']
        assert labels['dray.dev/simulated'] == 'true' and labels['node-role.kubernetes.io/simulated'] == '', labels
        assert {'key': 'dray.dev/simulated', 'effect': 'PreferNoSchedule'} in node['spec']['taints'], node['spec']
    assert 'simulated' in c.good('get', 'nodes').split('\n')[1].split()


def job(c, name, annotations):
    c.good('apply', '-f', '-', input=JOB % (name, annotations))


def phase(c, name):
    pods = c.object('pods', '-l', f'job-name={name}')['items']
    return pods[0]['status'].get('phase') if pods else None


def jobs(c):
    """One ends after its run time, one after that of the flag, one runs on."""
    job(c, 'short', 'dray.dev/run-time: 1s')
    job(c, 'usual', '')
    job(c, 'long', 'dray.dev/run-time: 1h')
    c.good('wait', 'job/short', '--for=condition=Complete', '--timeout', '30s')
    c.good('wait', 'job/usual', '--for=condition=Complete', '--timeout', '30s')
    assert phase(c, 'long') == 'Running'
    ended = c.object('pods', '-l', 'job-name=short')['items'][0]['status']['containerStatuses'][0]['state']['terminated']
    assert ended['exitCode'] == 0 and ended['startedAt'] < ended['finishedAt'], ended


def nothing_runs(c):
    name = c.object('pods', '-l', 'job-name=long')['items'][0]['metadata']['name']
    for words in (('logs', name), ('exec', name, '--', 'true')):
        r = c.run(*words)
        assert r.returncode != 0 and 'is simulated: nothing runs there' in r.stderr, r


def camera(c):
    c.good('request', 'camera.dray.dev', '--pod', '--apply', '--name', 'watcher')
    c.good('wait', 'pod/watcher', '--for=condition=Ready', '--timeout', '30s')
    claim = c.object('resourceclaims')['items'][0]
    condition = claim['status']['devices'][0]['conditions'][0]
    assert (condition['type'], condition['status']) == ('camera.dray.dev/attached', 'True'), claim


def hints(c):
    """Every command of the card works as printed, in another directory."""
    lines = c.card.split('Try:\n', 1)[1].split('\n\n')[0].split('\n')
    assert len(lines) >= 4, c.card
    for line in lines:
        command = line.strip()
        assert command.startswith(DRAY), command
        r = subprocess.run(['sh', '-c', command], capture_output=True, text=True, timeout=60, cwd='/', stdin=subprocess.DEVNULL,
                           env=dict(os.environ, KUBECONFIG=os.path.join(c.folder, 'admin.kubeconfig')))
        assert r.returncode == 0, (command, r)


def other_profile(folder):
    c = Up(folder, '--listen', '127.0.0.1:0', '--sim', 'example-cpu', '--nodes', '1')
    c.until('nodes of other profiles are reported', lambda: 'simulated nodes of example-gpu,ip-cameras from an earlier start' in c.stderr())
    c.stop()


def down(folder):
    """Two clusters without a port: the second takes another one. down ends one, and --purge deletes what is a data directory alone."""
    first, second = Up(folder, '--sim', 'none'), Up(folder + '2', '--sim', 'none')
    assert 'is in use; listening on port' in second.stderr(), second.stderr()
    assert 'simulated' not in first.card and first.object('nodes')['items'] == []
    r = first.run('down', '--data-dir', folder)
    assert r.returncode == 0 and 'stopped the cluster' in r.stdout and os.path.exists(folder), r
    assert first.process.wait(timeout=30) == 0
    assert 'Stopped: API server' in first.process.stdout.read()
    second.good('down', '--data-dir', folder + '2', '--purge')
    assert not os.path.exists(folder + '2')
    other = os.path.join(os.path.dirname(folder), 'other')
    os.mkdir(other)
    r = first.run('down', '--data-dir', other, '--purge')
    assert r.returncode == 1 and 'no data directory' in r.stderr and os.path.exists(other), r


def conforms(c):
    """On simulated nodes alone the checks of containers are skipped, with the reason; nothing fails."""
    r = c.run('conformance')
    assert r.returncode == 0 and ' 0 failed' in r.stdout and 'all nodes are simulated' in r.stdout, r


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    try:
        folder = os.path.join(top, 'data')
        c = Up(folder, '--listen', '127.0.0.1:0', '--sim', 'example-gpu,ip-cameras', '--nodes', '2', '--sim-run-time', '2s')
        marks(c)
        jobs(c)
        nothing_runs(c)
        camera(c)
        hints(c)
        conforms(c)
        out = c.stop()
        assert 'Stopped: API server, scheduler, controllers, simulated nodes.' in out, out
        other_profile(folder)
        down(os.path.join(top, 'two'))
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print('simulated: ok')


if __name__ == '__main__':
    main()

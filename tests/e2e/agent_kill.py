#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 on a real node, at every step: the agent (with runtime and manager of claims) dies before each thing it changes while a pod with
a claim starts and stops; the driver dies at each step of its calls; what stays with a container dies; the machine boots anew. Each time
everything is started again and has to come to the same end: the pod runs, then goes, and nothing is left — no container, no mount, no
folder, no prepared claim — and no two containers ran at once. Needs root, crun or runc, a static busybox; else it is skipped.
Usage: agent_kill.py DRAY [POINTS]   (default: 48 of them, spread evenly; 0: all, as make soak does)"""
import json, os, re, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_kit import *  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'
POINTS = int(sys.argv[2]) if len(sys.argv) > 2 else 48
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
PATIENCE = 90


class Life:
    """A pod with a claim, from its making to its end, on a node whose parts die."""
    def __init__(self, c, n):
        self.c, self.n, self.number = c, n, 0

    def keep_alive(self, env=None):
        """Whoever is dead is started again. Returns whether the agent had died."""
        for i, d in enumerate(self.n.drivers):
            if d.poll() is not None:
                del self.n.drivers[i]
                self.n.driver('example-gpu')
        if self.n.process.poll() is None:
            return False
        self.n.start(env=env, wait=False)
        return True

    def until(self, what, so, env=None):
        end, died = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end:
            died += self.keep_alive(env)
            got = so()
            if got:
                return died
            time.sleep(0.03)
        raise AssertionError(f'{what}: not within {PATIENCE} s\n' + self.c.tell())

    def running(self, name):
        p = self.c.phase(name, 'Running')
        return p and all(s.get('ready') for s in p['status']['containerStatuses'])

    def live(self, env=None):
        """Returns how often the agent died."""
        self.number += 1
        name = f'life-{self.number}'
        marks = os.path.join(self.c.folder, 'marks')
        script = f'mkdir /m/{name} || echo twice >> /m/twice; trap "rmdir /m/{name}; exit 0" TERM; while true; do sleep 0.05; done'
        self.c.good('POST', PODS, pod(name, [container('c', script, resources={'claims': [{'name': 'gpu'}]}, volumeMounts=[{'name': 'm', 'mountPath': '/m'}])],
                                      volumes=[{'name': 'm', 'hostPath': {'path': marks, 'type': 'DirectoryOrCreate'}}], terminationGracePeriodSeconds=5,
                                      initContainers=[container('i', 'true')], nodeSelector={'kubernetes.io/hostname': self.n.name},
                                      resourceClaims=[{'name': 'gpu', 'resourceClaimTemplateName': 'gpu'}]))
        died = self.until(f'{name} runs', lambda: self.running(name), env)
        self.c.good('DELETE', f'{PODS}/{name}')
        died += self.until(f'{name} goes', lambda: self.c.pod(name) is None, env)
        died += self.until('nothing is left', lambda: not self.left(), env)
        twice = os.path.join(marks, 'twice')
        assert not os.path.exists(twice), 'two containers ran at once'
        for m in os.listdir(marks):  # of containers that were killed
            os.rmdir(os.path.join(marks, m))
        return died

    def left(self):
        state = os.path.join(self.n.data, 'dra_manager_state')
        try:
            claims = json.loads(json.loads(open(state).read())['Data']).get('ClaimInfoStateList') or []
        except OSError:
            claims = []
        specs = [f for f in os.listdir(self.c.cdi) if 'claim' in f]
        return self.n.clean() + claims + specs + self.c.good('GET', CLAIMS)['items']


def count_steps(c, n, life):
    n.stop()
    path = os.path.join(c.folder, 'steps')
    n.start(env={'DRAY_AGENT_STEPS': path})
    life.live()
    n.stop()
    return [line.split(' ', 1)[1].rsplit(' ', 1)[0] for line in open(path)]


def kill_agent(c, n, life):
    steps = count_steps(c, n, life)
    points = list(range(len(steps) + 3))
    if POINTS and POINTS < len(points):
        points = [round(i * (len(points) - 1) / (POINTS - 1)) for i in range(POINTS)]
    deaths = 0
    for at in points:
        n.kill()
        n.start(env={'DRAY_AGENT_KILL_AT': str(at)}, wait=False)
        try:
            deaths += min(1, life.live())
        except AssertionError as e:
            raise AssertionError(f"killed at step {at} ({steps[at] if at < len(steps) else 'behind the last'}): {e}")
    print(f'agent: {len(points)} points of {len(steps)} steps, {deaths} deaths', flush=True)
    assert deaths >= len(points) * 0.8, 'it hardly ever died'


def kill_and_boot(c, n, life):
    """The same with another boot each time, at fewer points."""
    steps = count_steps(c, n, life)
    points = range(0, len(steps), max(1, len(steps) // (min(POINTS, 12) or 12)))
    for at in points:
        n.kill()
        n.start(env={'DRAY_AGENT_KILL_AT': str(at), 'DRAY_AGENT_BOOT_ID': f'boot-{at}'}, wait=False)
        life.live(env={'DRAY_AGENT_BOOT_ID': f'boot-{at}-after'})
    print(f'boots: {len(points)} points', flush=True)
    n.kill()
    n.start()


def kill_driver(c, n, life):
    """The driver dies at each step of a call, before and after what it does; the next one goes on."""
    done = 0
    for step in range(1, 16):
        run = subprocess.run([c.dray, 'driver', 'fault', '--state', os.path.join(n.data, 'plugins', 'dray-sim'), '--node', n.name, 'add', 'crash', '--step', str(step)],
                             capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        life.live()
        done += 1
        subprocess.run([c.dray, 'driver', 'fault', '--state', os.path.join(n.data, 'plugins', 'dray-sim'), '--node', n.name, 'clear'], capture_output=True)
    print(f'driver: {done} points', flush=True)


def kill_monitor(c, n, life):
    """What stays with a container is killed: the container is counted as ended, and started again."""
    c.good('POST', PODS, pod('watched', [container('c', FOREVER)], n.name))
    c.until('runs', lambda: life.running('watched'))
    for i in range(3):
        before = c.pod('watched')['status']['containerStatuses'][0]
        pids = [p for p in glob.glob('/proc/[0-9]*') if monitors(p, before['containerID'].split('://')[1])]
        assert pids, 'no monitor'
        for p in pids:
            os.kill(int(p.split('/')[2]), signal.SIGKILL)

        def again():
            s = c.pod('watched')['status']['containerStatuses'][0]
            return s['containerID'] != before['containerID'] and s['state'].get('running') and s['restartCount'] == i + 1
        c.until('it runs again', again, 180)
    c.good('DELETE', f'{PODS}/watched')
    c.until('gone', lambda: c.pod('watched') is None)
    c.until('nothing is left', lambda: not n.clean())
    print('monitor: 3 points', flush=True)


def monitors(p, container_id):
    try:
        line = open(p + '/cmdline', 'rb').read()
    except OSError:
        return False
    return b'dray-monitor' in line and container_id.encode() in line


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    n = Node(c)
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n.start()
        n.driver('example-gpu')
        c.until('slices', lambda: c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'])
        device_class = c.until('a class', lambda: c.good('GET', '/apis/resource.k8s.io/v1/deviceclasses')['items'])[0]['metadata']['name']
        c.good('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates',
               {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': 'gpu'},
                'spec': {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': device_class}}]}}}})
        life = Life(c, n)
        life.live()
        for part in (kill_monitor, kill_driver, kill_agent, kill_and_boot):
            part(c, n, life)
        n.end()
        c.stop()
    except BaseException:
        print(c.tell()[-6000:])
        raise
    finally:
        c.wreck()
    print('agent_kill: good')


if __name__ == '__main__':
    main()

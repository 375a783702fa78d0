#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node keeps what it promises: user namespaces, limits on processes and storage, evictions, drivers that come back. Real containers; needs root,
crun and busybox. Usage: agent_limits.py DRAY"""
import glob, os, shutil, signal, subprocess, sys, tempfile, time
from agent_kit import Cluster, IMAGE, Node, PODS, make_image, skip_if_impossible

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
CORE = '/proc/sys/kernel/core_pattern'


def pod(name, script, spec=None, **container):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name},
            'spec': {'nodeName': 'here', 'restartPolicy': 'Never', 'terminationGracePeriodSeconds': 1,
                     'containers': [{'name': 'c', 'image': IMAGE, 'command': ['/bin/sh', '-c', script], **container}], **(spec or {})}}


def log_of(c, node, name):
    uid = c.pod(name)['metadata']['uid']
    return ''.join(open(f).read() for f in glob.glob(f'{node.data}/logs/*{uid}*/c/0.log'))


def gone(c, *names):
    for name in names:
        c.call('DELETE', f'{PODS}/{name}?gracePeriodSeconds=0')
    for name in names:
        c.until(f'{name} is gone', lambda: not c.pod(name))


def users(c, node):
    """Root in a pod with a user namespace is not root of the machine, whatever it may write to in /proc."""
    features = c.good('GET', '/api/v1/nodes/here')['status']['runtimeHandlers'][0]['features']
    volume = {'volumes': [{'name': 'v', 'emptyDir': {}}, {'name': 's', 'secret': {'secretName': 'word'}}], 'hostUsers': False}
    mounts = [{'name': 'v', 'mountPath': '/v'}, {'name': 's', 'mountPath': '/s'}]
    script = f'id -u; cat /s/word; echo x > /v/file && stat -c "owner %u" /v/file; echo evil > {CORE} || echo refused; cat /proc/self/uid_map; echo bye > /dev/termination-log'
    core = open(CORE).read()
    c.good('POST', '/api/v1/namespaces/default/secrets', {'metadata': {'name': 'word'}, 'stringData': {'word': 'secret-word\n'}})
    for name in ('users-a', 'users-b'):
        c.good('POST', PODS, pod(name, script, volume, volumeMounts=mounts, securityContext={'procMount': 'Unmasked'}))
    if not features['userNamespaces']:
        c.until('it is refused', lambda: (c.phase('users-a', 'Failed') or {}).get('status', {}).get('reason') == 'UserNamespacesNotSupported')
        print('users: refused, as this machine has none')
        return gone(c, 'users-a', 'users-b')
    ranges = set()
    for name in ('users-a', 'users-b'):
        p = c.until(f'{name} ends', lambda: c.phase(name, 'Succeeded'))
        text = log_of(c, node, name)
        assert 'refused' in text and 'owner 0' in text and 'secret-word' in text, text
        ranges.add(text.split('stdout F ')[-1].split()[1])
        assert p['status']['containerStatuses'][0]['state']['terminated'].get('message') == 'bye\n', p['status']
    assert len(ranges) == 2 and all(int(r) >= 65536 for r in ranges), ranges
    assert open(CORE).read() == core
    gone(c, 'users-a', 'users-b')


def processes(c):
    """A fork bomb ends at its pod's limit; a neighbour notices nothing."""
    c.good('POST', PODS, pod('bomb', 'while true; do sleep 100 & done'))
    c.good('POST', PODS, pod('calm', 'i=0; while [ $i -lt 50 ]; do sleep 0 & i=$((i+1)); done; wait; echo fine'))
    c.until('the neighbour forks', lambda: c.phase('calm', 'Succeeded'))
    gone(c, 'bomb', 'calm')


def storage(c):
    """Pods that hold more than they may are evicted with kubelet's words."""
    limit = {'limits': {'ephemeral-storage': '4Mi'}}
    fill = 'dd if=/dev/zero of={} bs=1M count=8 2>/dev/null; sleep 600'
    c.good('POST', PODS, pod('volume', fill.format('/v/f'), {'volumes': [{'name': 'v', 'emptyDir': {'sizeLimit': '2Mi'}}]}, volumeMounts=[{'name': 'v', 'mountPath': '/v'}]))
    c.good('POST', PODS, pod('layer', fill.format('/f'), resources=limit))
    c.good('POST', PODS, pod('logs', 'yes 0123456789012345678901234567890123456789 | head -n 150000; sleep 600', resources=limit))
    c.good('POST', PODS, pod('memory', 'dd if=/dev/zero of=/m/f bs=1M count=32 2>&1; df -k /m; sleep 600', {'volumes': [{'name': 'm', 'emptyDir': {'medium': 'Memory', 'sizeLimit': '8Mi'}}]}, volumeMounts=[{'name': 'm', 'mountPath': '/m'}]))
    c.good('POST', PODS, pod('message', 'dd if=/dev/zero of=/dev/termination-log bs=1M count=64 2>&1; dd if=/dev/zero of=/etc/hosts bs=1M count=64 2>&1; sleep 600'))
    for name, words in (('volume', 'Usage of EmptyDir volume "v" exceeds the limit "2Mi". '), ('layer', 'Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. '),
                        ('logs', 'Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ')):
        p = c.until(f'{name} is evicted', lambda: c.phase(name, 'Failed'))
        assert p['status']['reason'] == 'Evicted' and p['status']['message'] == words, p['status']
        assert (name, 'Evicted', words) in c.events(), c.events()
    assert c.phase('memory', 'Running') and c.phase('message', 'Running'), c.tell()


def bounded(c, node):
    assert 'No space left' in log_of(c, node, 'memory') and log_of(c, node, 'message').count('No space left') == 2, log_of(c, node, 'message')
    gone(c, 'volume', 'layer', 'logs', 'memory', 'message')


def pressure(c, node):
    """Thresholds that this machine really is below: the condition appears, pods go, one after the other, and new ones are refused."""
    node.stop()
    node.start(flags=['--eviction-hard', 'pid.available<100%,memory.available<100Mi'.replace('100%', '99.99%'), '--eviction-pressure-transition-period', '5s'])
    before = c.until('the node is short of process ids', lambda: condition(c, 'PIDPressure', 'True'))
    assert before['reason'] == 'KubeletHasInsufficientPID', before
    c.good('POST', PODS, pod('late', 'sleep 600'))
    p = c.until('it is refused', lambda: c.phase('late', 'Failed'))
    assert p['status']['reason'] == 'Evicted' and '[PIDPressure]' in p['status']['message'], p['status']
    p = c.until('a pod is evicted', lambda: c.phase('early', 'Failed'))
    assert p['status']['reason'] == 'Evicted' and p['status']['message'].startswith('The node was low on resource: pids. Threshold quantity: '), p['status']
    assert any(x['type'] == 'DisruptionTarget' and x['reason'] == 'TerminationByKubelet' for x in p['status']['conditions']), p['status']
    c.until('the node is tainted', lambda: any(t['key'] == 'node.kubernetes.io/pid-pressure' for t in c.good('GET', '/api/v1/nodes/here')['spec'].get('taints', [])))
    node.stop()
    node.start()
    c.until('it is over', lambda: condition(c, 'PIDPressure', 'False'))
    gone(c, 'late', 'early')


def condition(c, kind, status):
    for x in c.good('GET', '/api/v1/nodes/here')['status']['conditions']:
        if x['type'] == kind and x['status'] == status:
            return x
    return None


def refused_options(c):
    for flags, words in ((['--eviction-hard', 'disk<1Gi'], 'no signal of this node'), (['--eviction-soft', 'memory.available<1Gi'], '--eviction-soft-grace-period'),
                         (['--runtime-handler', 'x=/does/not/exist'], 'x=/does/not/exist'), (['--runtime-handler', 'Bad Name=/bin/true'], 'NAME=PATH')):
        r = subprocess.run([DRAY, 'agent', '--kubeconfig', c.kubeconfig, '--data-dir', c.folder + '/none', '--listen', 'none', *flags], capture_output=True, text=True, timeout=60)
        assert r.returncode != 0 and words in r.stderr, (flags, r)


def drivers_of(data):
    """Processes of simulated drivers below a directory."""
    found = []
    for p in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            words = open(p, 'rb').read().split(b'\0')
        except OSError:
            continue
        if b'driver' in words and b'--plugins' in words and (data + '/agent/plugins').encode() in words:
            found.append(int(p.split('/')[2]))
    return found


def within(what, seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError(f'{what}: not within {seconds} s')


def supervision():
    """The driver of `dray up --agent` comes back when it is killed, and dies with up, however that ends; one that hangs does not keep up."""
    data = tempfile.mkdtemp(prefix='dray-limits-', dir='/tmp')
    command = [DRAY, 'up', '--nodes', '0', '--agent', '--sim', 'example-gpu', '--data-dir', data, '--listen', '127.0.0.1:0']
    up = subprocess.Popen(command, stdout=open(data + '/out', 'w'), stderr=open(data + '/err', 'w'))
    try:
        first = within('a driver', 60, lambda: drivers_of(data))
        c = Cluster.__new__(Cluster)
        c.folder = data
        os.symlink('.', data + '/up')
        slices = '/apis/resource.k8s.io/v1/resourceslices'
        within('it publishes', 60, lambda: c.call('GET', slices)[1]['items'])
        os.kill(first[0], signal.SIGKILL)
        second = within('another driver', 20, lambda: [p for p in drivers_of(data) if p != first[0]])
        for s in c.good('GET', slices)['items']:
            c.good('DELETE', slices + '/' + s['metadata']['name'])
        within('it publishes again', 60, lambda: c.call('GET', slices)[1]['items'])
        up.kill()
        up.wait()
        within('the driver is gone', 1, lambda: not drivers_of(data))
        assert second
        up = subprocess.Popen(command, stdout=open(data + '/out', 'w'), stderr=open(data + '/err', 'w'))
        os.kill(within('a driver again', 60, lambda: drivers_of(data))[0], signal.SIGSTOP)
        up.terminate()
        assert up.wait(60) == 0 and not drivers_of(data), open(data + '/err').read()[-2000:]
    finally:
        if up.poll() is None:
            up.terminate()
            up.wait(60)
        shutil.rmtree(data, ignore_errors=True)


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    make_image(os.path.join(c.images, 'busybox'))
    node = Node(c)
    try:
        refused_options(c)
        node.start(flags=['--pod-max-pids', '64'])
        users(c, node)
        processes(c)
        storage(c)
        bounded(c, node)
        c.good('POST', PODS, pod('early', 'sleep 600'))
        c.until('it runs', lambda: c.phase('early', 'Running'))
        pressure(c, node)
        left = c.until('nothing is left', lambda: not node.clean() or None)
        assert left
        node.stop()
        node.end()
        c.stop()
    except BaseException:
        print(c.tell())
        raise
    finally:
        for p in (node.process, c.up):
            if p and p.poll() is None:
                p.kill()
                p.wait()
        c.wreck()
    supervision()
    print('agent_limits: ok')


main()

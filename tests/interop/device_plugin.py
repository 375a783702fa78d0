#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' sample device plugin, as it is, on `dray agent`: it registers, its resource is the node's, a pod that the scheduler placed gets
a device by mount and by CDI, and after a restart of the agent it is there again. Taken from $PEERS/bin, or built there from Go modules
(test/images/sample-device-plugin). Needs root, crun or runc, and busybox. Usage: device_plugin.py DRAY"""
import json, os, re, shutil, signal, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import peers, skip
from agent_kit import *  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'
VERSION, RESOURCE = '1.37.1', 'example.com/resource'
PROGRAM = os.path.join(peers(), 'bin', 'sample-device-plugin')


def build():
    """From the module proxy; modules that Kubernetes has in its own tree are taken at the same version."""
    if os.path.exists(PROGRAM):
        return
    if not shutil.which('go'):
        skip('no sample-device-plugin in $PEERS/bin, and no Go to build it')
    folder = os.path.join(peers(), 'build', 'sample-device-plugin')
    os.makedirs(folder, exist_ok=True)
    os.makedirs(os.path.dirname(PROGRAM), exist_ok=True)
    module = f'k8s.io/kubernetes@v{VERSION}'
    found = subprocess.run(['go', 'mod', 'download', '-json', module], cwd=folder, capture_output=True, text=True)
    if found.returncode:
        skip('the module proxy does not have ' + module)
    source = json.loads(found.stdout)['Dir']
    theirs = open(os.path.join(source, 'go.mod')).read()
    own = re.findall(r'^\t(k8s.io/[a-z-]+) => ./staging/', theirs, re.M)
    with open(os.path.join(folder, 'go.mod'), 'w') as f:
        f.write('module peers.local/plugin\n\n' + re.search(r'^go .*$', theirs, re.M)[0] + f'\n\nrequire k8s.io/kubernetes v{VERSION}\n\nreplace (\n')
        f.write(''.join(f'\t{m} => {m} v0.{VERSION[2:]}\n' for m in own) + ')\n')
    shutil.copyfile(os.path.join(source, 'go.sum'), os.path.join(folder, 'go.sum'))
    built = subprocess.run(['go', 'build', '-mod=mod', '-trimpath', '-o', PROGRAM, 'k8s.io/kubernetes/test/images/sample-device-plugin'], cwd=folder,
                           env=dict(os.environ, CGO_ENABLED='0'), capture_output=True, text=True)
    if built.returncode:
        skip('cannot build the sample plugin: ' + built.stderr.strip().split('\n')[-1])


def start_plugin(c, n):
    """In a mount namespace where kubelet's folders are the node's: their paths are fixed in the plugin."""
    script = ('mount --make-rprivate / && mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/kubelet/device-plugins /var/run/cdi && '
              f'mount --bind {n.data}/device-plugins /var/lib/kubelet/device-plugins && mount --bind {c.cdi} /var/run/cdi && exec {PROGRAM}')
    return subprocess.Popen(['unshare', '--mount', 'sh', '-c', script], env=dict(os.environ, CDI_ENABLED='1'),
                            stdout=open(os.path.join(c.folder, 'plugin.out'), 'a'), stderr=open(os.path.join(c.folder, 'plugin.err'), 'a'))


def amounts(c):
    s = c.good('GET', '/api/v1/nodes/here')['status']
    return s['capacity'].get(RESOURCE), s['allocatable'].get(RESOURCE)


def log(c, name):
    code, text = c.call('GET', f'{PODS}/{name}/log')
    return text if code == 200 and isinstance(text, str) else ''


def device_of(c, name):
    """A pod that the scheduler places; which device it says it has."""
    script = 'echo CDI=$CDI_DEVICE; ls /tmp; echo end; ' + FOREVER
    c.good('POST', PODS, pod(name, [container('c', script, resources={'limits': {RESOURCE: '1'}})]))
    c.until(f'{name} runs', lambda: c.phase(name, 'Running'))
    c.until('it has said all', lambda: 'end' in log(c, name).split())
    said = log(c, name).split()
    device = said[0].split('=CDI-')[1]
    assert device in ('Dev-1', 'Dev-2') and device in said[1:] and 'CDI-' + device in said[1:], said
    return device


def main():
    skip_if_impossible()
    build()
    c = Cluster(DRAY)
    plugin = None
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n = Node(c)
        n.start()
        plugin = start_plugin(c, n)
        c.until('the node offers two', lambda: amounts(c) == ('2', '2'))
        first = device_of(c, 'one')
        plugin.send_signal(signal.SIGSTOP)
        n.kill()
        n.start()
        c.until('the node offers nothing', lambda: amounts(c) == ('0', '0'))
        plugin.send_signal(signal.SIGCONT)
        c.until('the plugin saw the new socket and came again', lambda: amounts(c) == ('2', '2'))
        second = device_of(c, 'two')
        assert {first, second} == {'Dev-1', 'Dev-2'}, (first, second)
        for name in ('one', 'two'):
            c.good('DELETE', f'{PODS}/{name}')
        c.until('nothing is left', lambda: c.pod('one') is None and c.pod('two') is None and not n.clean())
        plugin.terminate()
        plugin.wait(30)
        c.until('nothing can be allocated', lambda: amounts(c) == ('2', '0'))
        n.end()
        c.stop()
    except BaseException:
        if plugin:
            plugin.kill()
        print(c.tell())
        c.wreck()
        raise
    c.wreck()
    for name in ('Dev-1', 'Dev-2'):  # the plugin leaves them
        if os.path.exists('/tmp/' + name):
            os.remove('/tmp/' + name)
    print('sample device plugin: ok')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device plugins, old style, on `dray agent`: a plugin registers, its devices are the node's capacity, a container sees what it was given,
and nothing is given twice, over restarts of plugin and agent and beside claims for the same resource. Needs root, crun or runc, and a static busybox; else it is skipped.
Usage: device_plugin.py DRAY"""
import json, os, signal, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_kit import *  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(DRAY)), 'tests', 'device_plugin')
RESOURCE = 'example.com/widget'


class Plugin:
    def __init__(self, c, n, devices='a b', socket='widget.sock'):
        self.host = os.path.join(c.folder, 'from-host')
        open(self.host, 'w').write('a gift')
        self.out = os.path.join(c.folder, 'plugin.out')
        self.process = subprocess.Popen([PROGRAM, os.path.join(n.data, 'device-plugins'), socket, RESOURCE, devices, self.host],
                                        stdout=open(self.out, 'a'), stderr=open(os.path.join(c.folder, 'plugin.err'), 'a'))

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(30)


def amounts(c):
    s = c.good('GET', '/api/v1/nodes/here')['status']
    return s['capacity'].get(RESOURCE), s['allocatable'].get(RESOURCE)


def asking(name, script, number='1', node='here', **more):
    return pod(name, [container('c', script, resources={'limits': {RESOURCE: number}})], node, **more)


def log(c, name):
    code, text = c.call('GET', f'{PODS}/{name}/log')
    return text if code == 200 and isinstance(text, str) else ''


def checkpoint(n):
    data = json.load(open(os.path.join(n.data, 'device-plugins', 'kubelet_internal_checkpoint')))['Data']
    return {e['PodUID']: sum(e['DeviceIDs'].values(), []) for e in data['PodDeviceEntries'] or []}


def gone(c, *names):
    for name in names:
        c.good('DELETE', f'{PODS}/{name}')
    for name in names:
        c.until(f'{name} is gone', lambda: c.pod(name) is None)


def a_container_gets_its_device(c, n):
    """Environment, mount and device node reach the container; the scheduler placed the pod by the node's allocatable."""
    script = 'echo DEVICES=$DEVICES; cat /from-plugin; echo; dd if=/dev/$DEVICES bs=1 count=1 2>/dev/null | wc -c; touch /from-plugin 2>&1 || true; echo end; ' + FOREVER
    c.good('POST', PODS, asking('one', script, node=None))
    p = c.until('it runs', lambda: c.phase('one', 'Running'))
    c.until('it has said all', lambda: 'end' in log(c, 'one').split())
    said = log(c, 'one').split('\n')
    device = said[0].split('=')[1]
    assert device in ('a', 'b') and said[1] == 'a gift' and said[2].strip() == '1', said
    assert 'Read-only' in log(c, 'one'), said
    assert checkpoint(n) == {p['metadata']['uid']: [device]}, checkpoint(n)
    status = c.until('its health is told', lambda: c.pod('one')['status']['containerStatuses'][0].get('allocatedResourcesStatus'))
    assert status == [{'name': RESOURCE, 'resources': [{'resourceID': device, 'health': 'Healthy'}]}], status
    return device


def what_is_not_there(c):
    """Bound past the scheduler, to devices that others hold: the pod fails with kubelet's reason, and nothing is held for it."""
    c.good('POST', PODS, asking('greedy', FOREVER, '2'))
    p = c.until('it is refused', lambda: c.phase('greedy', 'Failed'))
    assert p['status']['reason'] == 'OutOf' + RESOURCE, p['status']
    gone(c, 'greedy')


def plugin_restarts(c, n, plugin):
    plugin.end(signal.SIGKILL)
    c.until('nothing can be allocated', lambda: amounts(c) == ('2', '0'))
    c.until('the pod knows', lambda: 'Unhealthy' in json.dumps(c.pod('one')['status']))
    plugin = Plugin(c, n, socket='widget-2.sock')  # another endpoint
    c.until('all is there again', lambda: amounts(c) == ('2', '2'))
    c.until('the pod knows', lambda: 'Unhealthy' not in json.dumps(c.pod('one')['status']))
    assert c.phase('one', 'Running') and c.pod('one')['status']['containerStatuses'][0]['restartCount'] == 0
    return plugin


def agent_restarts(c, n, plugin, first):
    """The next agent knows who has what: a second pod gets the other device. Until the plugin is back, there is nothing."""
    plugin.process.send_signal(signal.SIGSTOP)
    n.kill()
    n.start()
    c.until('the node offers nothing', lambda: amounts(c) == ('0', '0'))
    plugin.process.send_signal(signal.SIGCONT)
    c.until('the plugin came again by itself', lambda: amounts(c) == ('2', '2'))
    c.good('POST', PODS, asking('two', 'echo DEVICES=$DEVICES; ' + FOREVER))
    c.until('it runs', lambda: 'DEVICES=' in log(c, 'two'))
    second = log(c, 'two').split()[0].split('=')[1]
    assert {first, second} == {'a', 'b'}, (first, second)
    gone(c, 'one', 'two')
    c.until('nothing is held', lambda: checkpoint(n) == {})
    c.until('nothing is left', lambda: not n.clean(), 30)


def claims_and_plugins(c, n, plugin):
    """One name, a class and a plugin on one node: a node that offers none of it gives it by a claim, one that does by its plugin. Neither
    asks for what the other one gave."""
    classes = '/apis/resource.k8s.io/v1/deviceclasses'
    n.driver('example-gpu')
    c.until('slices', lambda: c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'])
    spec = c.until('a class', lambda: c.good('GET', classes)['items'])[0]['spec']
    c.good('POST', classes, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': 'widgets'},
                             'spec': dict(spec, extendedResourceName=RESOURCE)})
    say = 'echo DEVICES=$DEVICES; echo end; ' + FOREVER
    c.good('POST', PODS, asking('claimed', say, node=None))
    c.until('it runs', lambda: c.phase('claimed', 'Running'))
    c.until('it has said all', lambda: 'end' in log(c, 'claimed').split())
    assert c.pod('claimed')['status']['extendedResourceClaimStatus']['requestMappings'][0]['resourceName'] == RESOURCE
    assert log(c, 'claimed').split()[0] == 'DEVICES=' and checkpoint(n) == {}, (log(c, 'claimed'), checkpoint(n))
    plugin.end(signal.SIGKILL)
    plugin = Plugin(c, n)
    c.until('the plugin is well again', lambda: amounts(c) == ('2', '2'))
    c.good('POST', PODS, asking('given', say, node=None))
    p = c.until('it runs', lambda: c.phase('given', 'Running'))
    c.until('it has said all', lambda: 'end' in log(c, 'given').split())
    assert 'extendedResourceClaimStatus' not in p['status'] and log(c, 'given').split()[0] in ('DEVICES=a', 'DEVICES=b')
    assert list(checkpoint(n)) == [p['metadata']['uid']], checkpoint(n)
    gone(c, 'claimed', 'given')
    c.until('nothing is held', lambda: checkpoint(n) == {} and not c.good('GET', '/apis/resource.k8s.io/v1/resourceclaims')['items'])
    return plugin


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    plugin = None
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n = Node(c)
        n.start()
        plugin = Plugin(c, n)
        c.until('the node offers it', lambda: amounts(c) == ('2', '2'))
        first = a_container_gets_its_device(c, n)
        what_is_not_there(c)
        plugin = plugin_restarts(c, n, plugin)
        agent_restarts(c, n, plugin, first)
        plugin.process.send_signal(signal.SIGUSR1)
        c.until('ill devices are capacity, but not allocatable', lambda: amounts(c) == ('2', '0'))
        plugin = claims_and_plugins(c, n, plugin)
        plugin.end()
        n.end()
        c.stop()
    except BaseException:
        if plugin:
            plugin.end(signal.SIGKILL)
        print(c.tell())
        c.wreck()
        raise
    c.wreck()
    print('device plugins: ok')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast pods start on a real node, and what the agent takes: pod created → container running, one after the other, then memory
with 100 pods. Needs root, crun or runc, a static busybox. Usage: bench/agent.py DRAY [PODS [REPEATS]]"""
import json, os, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'e2e'))
import agent_kit as kit  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'
PODS = int(sys.argv[2]) if len(sys.argv) > 2 else 100
REPEATS = int(sys.argv[3]) if len(sys.argv) > 3 else 30


class Watch(threading.Thread):
    """Notes when pods are first seen running, from the API's watch."""
    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.c, self.at, self.changed = cluster, {}, threading.Condition()
        self.start()

    def run(self):
        c = kit.Unix(os.path.join(self.c.folder, 'up', 'dray.sock'), timeout=3600)
        c.request('GET', '/api/v1/namespaces/default/pods?watch=true')
        for line in c.getresponse():
            now = time.monotonic()
            o = json.loads(line)['object']
            states = o['status'].get('containerStatuses') or [{}]
            if all(s.get('state', {}).get('running') for s in states):
                with self.changed:
                    self.at.setdefault(o['metadata']['name'], now)
                    self.changed.notify_all()

    def wait(self, names, seconds=300):
        with self.changed:
            assert self.changed.wait_for(lambda: all(n in self.at for n in names), seconds), 'not all run'


def memory(pid):
    fields = dict(line.split(':', 1) for line in open(f'/proc/{pid}/status') if ':' in line)
    return int(fields['VmRSS'].split()[0]) / 1024


def tell(name, value, unit):
    print(json.dumps({'name': name, 'value': round(value, 2), 'unit': unit}), flush=True)


def main():
    kit.skip_if_impossible()
    c = kit.Cluster(DRAY)
    n = kit.Node(c)
    try:
        kit.make_image(os.path.join(c.images, 'busybox'))
        n.start(flags=('--max-pods', '1000'))
        watch = Watch(c)
        empty = memory(n.process.pid)
        took = []
        for i in range(REPEATS + 1):
            name, begun = f'one-{i}', time.monotonic()
            c.good('POST', kit.PODS, kit.pod(name, [kit.container('c', 'exec sleep 3600')], 'here'))
            watch.wait([name])
            took.append((watch.at[name] - begun) * 1000)
            c.good('DELETE', f'{kit.PODS}/{name}?gracePeriodSeconds=1')
            c.until('gone', lambda: c.pod(name) is None)
        took = sorted(took[1:])  # the first one unpacks the image
        tell('created -> running, one at a time: p50', took[len(took) // 2], 'ms')
        tell('created -> running, one at a time: p95', took[int(len(took) * 0.95)], 'ms')
        tell('created -> running, one at a time: worst', took[-1], 'ms')
        names, begun = [f'many-{i}' for i in range(PODS)], time.monotonic()
        for name in names:
            c.good('POST', kit.PODS, kit.pod(name, [kit.container('c', 'exec sleep 3600')], 'here'))
        watch.wait(names)
        tell(f'{PODS} pods at once: all running', time.monotonic() - begun, 's')
        time.sleep(2)
        tell('agent without pods', empty, 'MiB')
        tell(f'agent with {PODS} pods', memory(n.process.pid), 'MiB')
        begun = time.monotonic()
        for name in names:
            c.good('DELETE', f'{kit.PODS}/{name}?gracePeriodSeconds=1')
        c.until('gone', lambda: not c.good('GET', kit.PODS)['items'], 300)
        tell(f'{PODS} pods deleted: all gone', time.monotonic() - begun, 's')
        n.end()
        c.stop()
    finally:
        c.wreck()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One link at a time is cut, in both directions or in one, refused, slowed down or made to stutter: between scheduler, controllers, agent and API server, and
between agent and driver; then the wire behind which a node lives loses, doubles, spoils, delays and reorders packets. Pods that run go on; what cannot be done
meanwhile is done soon after the link is whole. Needs root, crun or runc, a static busybox; else it is skipped. Usage: partitions.py DRAY [long | LINK…];
short: each way on one link alone."""
import time

from fault_kit import *

WAYS = {
    'cut': CUT_OFF,
    'requests lost': {'stall-up': 1},
    'answers lost': {'stall-down': 1},
    'refused': {'refuse': 1},
    'slow': {'delay': 100, 'jitter': 300},
    'crumbs': {'piece': 5},
    'resets': {'reset': 50},
}
PACKETS = {
    'cut': {'cut-up': 1, 'cut-down': 1},
    'cut in one direction': {'cut-down': 1},
    'lossy': {'loss': 50},
    'out of order': {'delay': 5, 'jitter': 50},
    'doubled and spoilt': {'duplicate': 100, 'corrupt': 30},
}
WORKS_ANYWAY = ('slow', 'crumbs', 'lossy', 'out of order', 'doubled and spoilt')
LONG = sys.argv[2:] == ['long']
HOLD = 6 if LONG else 2      # seconds
SOON = 90                    # within which all is well again; how long it took is told


class Test:
    def __init__(self, w):
        self.w, self.n = w, 0

    def pod(self):
        self.n += 1
        name = f'p{self.n}'
        self.w.run_pod(name)
        return name

    def runs(self, name):
        return bool(self.w.phase(name))

    def break_(self, link, way):
        if link == 'wire':
            self.w.wire.break_(PACKETS[way])
            return
        self.w.proxy.break_(link, WAYS[way])
        if way == 'refused':
            self.w.proxy.cut(link)

    def mend(self, link):
        if link == 'wire':
            self.w.wire.clear()
        else:
            self.w.proxy.clear(link)

    def one(self, link, way):
        """A pod that comes while the link is broken, and one that was there before."""
        w = self.w
        self.break_(link, way)
        name = self.pod()
        if way in WORKS_ANYWAY:
            until(f'{link} {way}: a pod runs all the same', lambda: self.runs(name), SOON)
        else:
            time.sleep(HOLD)
        assert self.runs('steady') and self.restarts('steady') == 0, f'{link} {way}: a pod that ran is disturbed'
        self.mend(link)
        began = time.monotonic()
        until(f'{link} {way}: the pod runs when the link is whole', lambda: self.runs(name), SOON)
        took = time.monotonic() - began
        w.delete_pod(name)
        until(f'{link} {way}: the pod goes', lambda: w.get(f'{PODS}/{name}') is None, SOON)
        return took

    def restarts(self, name):
        return sum(s['restartCount'] for s in self.w.get(f'{PODS}/{name}')['status']['containerStatuses'])


WATCHER = """
import http.client, socket, ssl, sys
host, port, ca, path = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
tls = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname='localhost')
tls.sendall(f'GET {path}?watch=1 HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer token-admin\\r\\n\\r\\n'.encode())
print('watching' if b' 200 ' in tls.recv(4096) else 'not', flush=True)
while tls.recv(4096):
    pass
"""
VANISHED = 180  # seconds; the kernel needs 120 as it is told to, and 219 when it is not


def connections(w):
    """How many the server has with the far side of the wire, those that are being ended included."""
    far = ''.join(f'{int(n):02X}' for n in reversed(w.wire.far.split('.')))
    with open('/proc/net/tcp') as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(r[1].endswith(f':{w.port:04X}') and r[2].startswith(far) and r[3] != '06' for r in rows)


def vanish(w):
    """Two watchers behind the wire, one to whom events are sent and one who hears nothing; the wire is cut for good. The server lets go of both."""
    paths = ('/api/v1/configmaps', '/apis/scheduling.k8s.io/v1/priorityclasses')
    watchers = [subprocess.Popen([*w.wire.enter(), sys.executable, '-c', WATCHER, w.wire.near, str(w.port), os.path.join(w.data, 'pki', 'ca.crt'), path], stdout=subprocess.PIPE,
                                 text=True) for path in paths]
    try:
        for p in watchers:
            assert p.stdout.readline() == 'watching\n', 'no watch over the wire'
        assert connections(w) == len(watchers)
        w.wire.break_(PACKETS['cut'])
        began, seen = time.monotonic(), {}

        def gone():
            w.good('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'generateName': 'event-'}})
            now = connections(w)
            if now not in seen:
                seen[now] = time.monotonic() - began
            return now == 0
        until('whoever vanished is forgotten', gone, VANISHED, 1)
        print('vanished       ' + ', '.join(f'{n} left after {s:.0f} s' for n, s in seen.items() if n < len(watchers)), flush=True)
        w.wire.clear()
    finally:
        for p in watchers:
            p.kill()
            p.wait()
            p.stdout.close()


def choose(links):
    """(link, ways) of this run."""
    if len(sys.argv) > 2 and not LONG:
        return [(link, PACKETS if link == 'wire' else WAYS) for link in sys.argv[2:]]
    if LONG:
        return [(link, PACKETS if link == 'wire' else WAYS) for link in links]
    plain = [link for link in links if link != 'wire']
    chosen = [(link, [way for i, way in enumerate(WAYS) if i % len(plain) == n]) for n, link in enumerate(plain)]
    return chosen + [('wire', PACKETS)] * ('wire' in links)


def main():
    skip_if_impossible()
    w = World(program(), host='0.0.0.0' if LONG else '127.0.0.1')
    try:
        w.server.start()
        far = w.make_wire() is not None
        w.controllers().start()
        w.scheduler().start()
        a = w.agent(0, 'example-gpu', far=far).start()
        until('the class', lambda: w.get(f'{RESOURCE}/deviceclasses/{DRIVER}'))
        w.template()
        t = Test(w)
        w.run_pod('steady')
        until('the first pod runs', lambda: t.runs('steady'))
        for link, ways in choose(['scheduler-0', 'controllers-0', 'agent-0', a.link] + ['wire'] * far):
            took = {way: t.one(link, way) for way in ways}
            print(f'{link:15}' + ', '.join(f'{way} {s:.1f} s' for way, s in took.items()), flush=True)
        if far:
            met = w.wire.stat()
            print('packets: ' + ', '.join(f'{n} {what}' for what, n in met.items()), flush=True)
            assert all(met.values()) or sys.argv[2:] and not LONG, f'the wire did nothing of some kind: {met}'
        if far and LONG:
            vanish(w)
        w.delete_pod('steady')
        until('nothing is left', lambda: not a.left() and not w.good('GET', CLAIMS)['items'])
    except BaseException:
        for p in w.parts.values():
            print(f'--- {p.name}\n{p.tail()}')
        raise
    finally:
        w.done()
    print('ok: links cut, half cut, refused, slow, in crumbs, reset' + ('; packets lost, doubled, spoilt, out of order' if far else ''))


if __name__ == '__main__':
    main()

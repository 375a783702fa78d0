#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One link at a time is cut, in both directions or in one, refused, slowed down or made to stutter: between scheduler, controllers, agent and API server, and
between agent and driver. Pods that run go on; what cannot be done meanwhile is done soon after the link is whole. Needs root, crun or runc, a static
busybox; else it is skipped. Usage: partitions.py DRAY [LINK…]"""
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
WORKS_ANYWAY = ('slow', 'crumbs')
HOLD = 4      # seconds
SOON = 30     # within which all is well again


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

    def one(self, link, way):
        """A pod that comes while the link is broken, and one that was there before."""
        w = self.w
        w.proxy.break_(link, WAYS[way])
        if way == 'refused':
            w.proxy.cut(link)
        name = self.pod()
        if way in WORKS_ANYWAY:
            until(f'{link} {way}: a pod runs all the same', lambda: self.runs(name), SOON)
        else:
            time.sleep(HOLD)
        assert self.runs('steady') and self.restarts('steady') == 0, f'{link} {way}: a pod that ran is disturbed'
        w.proxy.clear(link)
        began = time.monotonic()
        until(f'{link} {way}: the pod runs when the link is whole', lambda: self.runs(name), SOON)
        took = time.monotonic() - began
        w.delete_pod(name)
        until(f'{link} {way}: the pod goes', lambda: w.get(f'{PODS}/{name}') is None, SOON)
        return took

    def restarts(self, name):
        return sum(s['restartCount'] for s in self.w.get(f'{PODS}/{name}')['status']['containerStatuses'])


def main():
    skip_if_impossible()
    w = World(program())
    try:
        w.server.start()
        w.controllers().start()
        w.scheduler().start()
        a = w.agent(0, 'example-gpu').start()
        until('the class', lambda: w.get(f'{RESOURCE}/deviceclasses/{DRIVER}'))
        w.template()
        t = Test(w)
        w.run_pod('steady')
        until('the first pod runs', lambda: t.runs('steady'))
        for link in sys.argv[2:] or ('scheduler-0', 'controllers-0', 'agent-0', a.link):
            took = {way: t.one(link, way) for way in WAYS}
            print(f'{link:15}' + ', '.join(f'{way} {s:.1f} s' for way, s in took.items()), flush=True)
        w.delete_pod('steady')
        until('nothing is left', lambda: not a.left() and not w.good('GET', CLAIMS)['items'])
    except BaseException:
        for p in w.parts.values():
            print(f'--- {p.name}\n{p.tail()}')
        raise
    finally:
        w.done()
    print('ok: every link cut, half cut, refused, slow, in crumbs, reset')


if __name__ == '__main__':
    main()

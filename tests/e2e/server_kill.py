#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill -9 in the middle of WRITES concurrent writes, when a random share of them is acknowledged, again and again: every acknowledged write is there, whole, and revisions
never go back; a watch resumes behind the last event it saw. Usage: server_kill.py DRAY [ROUNDS [WRITES]]"""
import http.client, json, os, random, shutil, signal, subprocess, sys, tempfile, threading, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
WRITES = int(sys.argv[3]) if len(sys.argv) > 3 else 400
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
WRITERS = 8 if WRITES < 5000 else 50


def start(folder):
    p = subprocess.Popen([DRAY, 'server', '--data-dir', folder, '--listen', '127.0.0.1:0', '--insecure-http'], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    line = p.stdout.readline()
    assert 'ready at' in line, 'the server does not start again'
    return p, int(line.split(',')[0].rsplit(':', 1)[1])


def body(name, value):
    return json.dumps({'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name, 'labels': {'v': value}},
                       'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}})


class Count:
    """How many writes were acknowledged; reached is set when there are as many as wanted."""

    def __init__(self, wanted):
        self.lock, self.n, self.wanted, self.reached = threading.Lock(), 0, wanted, threading.Event()

    def add(self):
        with self.lock:
            self.n += 1
            if self.n == self.wanted:
                self.reached.set()


class Writer(threading.Thread):
    """Writes names of its own; notes what was acknowledged, and what may or may not have happened at the end."""

    def __init__(self, port, number, round_, count):
        super().__init__()
        self.count = count
        self.port, self.number, self.round = port, number, round_
        self.sure, self.unsure, self.revision = {}, {}, 0

    def run(self):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=20)
        js = {'Content-Type': 'application/json'}
        for i in range(WRITES // WRITERS):
            name, value = f'w{self.number}-{i % 15}', f'{self.round}-{i}'
            try:
                self.unsure[name] = value
                c.request('PUT', f'{CLAIMS}/{name}', body(name, value), js)
                code, data = self.answer(c)
                if code == 404:
                    c.request('POST', CLAIMS, body(name, value), js)
                    code, data = self.answer(c)
            except (OSError, http.client.HTTPException):
                return
            assert code in (200, 201), data
            revision = int(data['metadata']['resourceVersion'])
            assert revision > self.revision, 'a revision went back'
            self.revision, self.sure[name] = revision, value
            del self.unsure[name]
            self.count.add()

    @staticmethod
    def answer(c):
        a = c.getresponse()
        return a.status, json.loads(a.read())


def listing(port):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
    c.request('GET', CLAIMS)
    data = json.loads(c.getresponse().read())
    c.close()
    return int(data['metadata']['resourceVersion']), {i['metadata']['name']: i for i in data['items']}


def watched(port, revision, until):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
    c.request('GET', f'{CLAIMS}?watch=1&resourceVersion={revision}')
    a, last = c.getresponse(), revision
    while last < until:
        event = json.loads(a.readline())
        assert event['type'] in ('ADDED', 'MODIFIED'), event
        now = int(event['object']['metadata']['resourceVersion'])
        assert now > last, 'events out of order'
        last = now
    c.close()


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    folder, sure, newest = os.path.join(top, 'data'), {}, 0
    total = 0
    try:
        for round_ in range(ROUNDS):
            p, port = start(folder)
            began, _ = listing(port)
            assert began >= newest, f'revisions went back from {newest} to {began}'
            count = Count(random.randint(1, WRITES * 9 // 10))
            writers = [Writer(port, n, round_, count) for n in range(WRITERS)]
            [w.start() for w in writers]
            assert count.reached.wait(300), 'the writes do not come along'
            p.send_signal(signal.SIGKILL)
            p.wait()
            p.stdout.close()
            [w.join() for w in writers]
            unsure = {}
            total += count.n
            for w in writers:
                sure.update(w.sure)
                unsure.update(w.unsure)
                newest = max(newest, w.revision)
            p, port = start(folder)
            revision, objects = listing(port)
            assert revision >= newest, f'revision {newest} was acknowledged, now it is {revision}'
            for name, value in sure.items():
                have = objects[name]['metadata']['labels']['v'] if name in objects else None
                assert have == value or have == unsure.get(name), f'{name} is {have}, was acknowledged as {value}'
                sure[name] = have
            # From 0, which a server has before its first commit, a watch begins with what is there, in no order.
            # The newest revision may be another kind's: at its start the server sets the endpoints of its own Service.
            watched(port, max(began, 1), max(int(o['metadata']['resourceVersion']) for o in objects.values()))
            p.terminate()
            assert p.wait() == 0
            p.stdout.close()
            newest = revision
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f'{ROUNDS} kills among {WRITES} writes each, {total} acknowledged, none of them lost; revision {newest}')


if __name__ == '__main__':
    main()

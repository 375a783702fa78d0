#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: whatever a tenant with `edit` in one namespace does, another tenant is served. Each attack runs for some seconds beside a neighbour that reads and
writes a small object; its p99 stays within max(10 times its quiet value of the same run, 100 ms), and the server's memory within a bound.
Usage: neighbours.py DRAY [ATTACK…]"""
import http.client, json, multiprocessing, os, socket, ssl, sys, threading, time
from kit import DRA, DRAY, TLS, Cluster

SANITIZED = b'__asan_init' in open(DRAY, 'rb').read()
SLOW = 5 if SANITIZED else 1  # a sanitized server is that much slower
LEAST_S = 0.1 * SLOW
MEMORY_KIB = (2048 if SANITIZED else 512) * 1024
ATTACK_S, QUIET_S = 3.0, 3.0
EVIL, GOOD = 'evil-token-1', 'good-token-1'
NS = '/api/v1/namespaces/evil'
APPS, BATCH = '/apis/apps/v1/namespaces/evil', '/apis/batch/v1/namespaces/evil'
TEN = '[0,1,2,3,4,5,6,7,8,9]'
COSTLY = f'{TEN}.all(x,{TEN}.all(y,{TEN}.all(z,{TEN}.all(w, x + y + z + w + 1 >= 0))))'


class Client:
    def __init__(self, port, token):
        self.port, self.token, self.c = port, token, None

    def call(self, method, path, body=None, kind='application/json'):
        if self.c is None:
            self.c = http.client.HTTPSConnection('127.0.0.1', self.port, context=TLS, timeout=60)
        data = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        try:
            self.c.request(method, path, data, {'Authorization': 'Bearer ' + self.token, 'Content-Type': kind})
            r = self.c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            self.c.close()
            self.c = None
            return 0, b''


# --- Attacks: each gets a client and a number, again and again until the time is over -----------

def env(n):
    return [{'name': f'E{i}', 'value': 'v'} for i in range(n)]


def template(labels=None):
    return {'metadata': {'labels': labels or {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}}


def costly_selectors(c, i):
    selectors = [{'cel': {'expression': f'{COSTLY} && device.attributes["d.example.com"].serial != {-k}'}} for k in range(1, 32)]
    exactly = {'deviceClassName': 'c', 'selectors': selectors + [{'cel': {'expression': 'device.driver == "nope"'}}]}
    c.call('POST', DRA + '/namespaces/evil/resourceclaims', {'metadata': {'name': f'c{i}'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': exactly}]}}})
    c.call('POST', NS + '/pods', {'metadata': {'name': f'c{i}'}, 'spec': {
        'schedulerName': 'dray', 'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'd'}]}}],
        'resourceClaims': [{'name': 'd', 'resourceClaimName': f'c{i}'}]}})
    time.sleep(0.5)


def absurd_numbers(c, i):
    selector = {'matchLabels': {'a': 'b'}}
    c.call('POST', APPS + '/statefulsets', {'metadata': {'name': f's{i}'}, 'spec': {
        'replicas': 2147483647, 'revisionHistoryLimit': -1, 'serviceName': 's', 'selector': selector, 'template': template()}})
    c.call('POST', APPS + '/daemonsets', {'metadata': {'name': f'd{i}'}, 'spec': {'revisionHistoryLimit': -1, 'selector': selector, 'template': template({'x': 'y'})}})
    pod = template()
    pod['spec']['restartPolicy'] = 'Never'
    c.call('POST', BATCH + '/jobs', {'metadata': {'name': f'j{i}'}, 'spec': {'completions': 1000000000, 'parallelism': 100000, 'completionMode': 'Indexed', 'template': pod}})
    time.sleep(0.2)


PATTERNS = json.dumps({'metadata': {'name': 'p'}, 'spec': {'devices': {'requests': [
    {'name': f'r{r}', 'exactly': {'deviceClassName': 'c', 'selectors': [{'cel': {'expression': f'"{k}".matches("{"ab" * 500}[a-z]@@-{r}-{k}")'}} for k in range(32)]}}
    for r in range(32)]}}})


def expensive_patterns(c, i):
    c.call('POST', DRA + '/namespaces/evil/resourceclaims', PATTERNS.replace('@@', str(i)))  # none is known from before


def large_patches(c, i):
    c.call('POST', NS + '/pods', {'metadata': {'name': 'large'}, 'spec': {'containers': [{'name': 'c', 'image': 'i', 'env': env(5000)}]}})
    c.call('PATCH', NS + '/pods/large', {'spec': {'containers': [{'name': 'c', 'env': env(30000)}]}}, 'application/strategic-merge-patch+json')
    c.call('PATCH', APPS + '/deployments/large?fieldManager=a&force=true', {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'large'}, 'spec': {
        'replicas': 0, 'selector': {'matchLabels': {'a': 'b'}},
        'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i', 'env': env(10000 + i % 2)}]}}}}, 'application/apply-patch+yaml')


def filling_storage(c, i):
    code, _ = c.call('POST', NS + '/configmaps', {'metadata': {'name': f'fill{i}'}, 'data': {'a': 'x' * 900000}})
    if code not in (0, 201):
        time.sleep(0.02)


def dangling_owners(c, i):
    owners = [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': f'o{k}', 'uid': f'{i}-{k}'} for k in range(3000)]
    c.call('POST', NS + '/configmaps', {'metadata': {'name': f'owned{i}', 'ownerReferences': owners}})
    time.sleep(0.05)


def aliases(c, i):
    lines = ['a0: &a0 ' + 'x' * 1000] + [f'a{k}: &a{k} [' + ','.join([f'*a{k - 1}'] * 9) + ']' for k in range(1, 9)]
    c.call('POST', NS + '/configmaps', '\n'.join(lines) + f'\nmetadata: {{name: y{i}}}\n', 'application/yaml')


def handshakes(c, i):
    opened = []
    for _ in range(100):
        s, inward, outward = socket.create_connection(('127.0.0.1', c.port)), ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            TLS.wrap_bio(inward, outward).do_handshake()
        except ssl.SSLWantReadError:
            pass
        opened.append((s, outward.read()))
    for s, hello in opened:
        s.sendall(hello)
    time.sleep(0.2)
    for s, _ in opened:
        s.close()


def watches(c, i):
    """A hundred watches that are never read, and objects for them."""
    opened = []
    for _ in range(20):
        s = TLS.wrap_socket(socket.create_connection(('127.0.0.1', c.port)))
        s.sendall(f'GET {NS}/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {c.token}\r\n\r\n'.encode())
        opened.append(s)
    for k in range(20):
        c.call('PUT', NS + '/configmaps/seen', {'metadata': {'name': 'seen'}, 'data': {'a': str(k) * 50000}})
        c.call('POST', NS + '/configmaps', {'metadata': {'name': 'seen'}})
    for s in opened:
        s.close()


ATTACKS = [costly_selectors, absurd_numbers, expensive_patterns, large_patches, filling_storage, dangling_owners, aliases, handshakes, watches]
LANES = {expensive_patterns: 4, filling_storage: 2, large_patches: 2}


def attack(which, port, end):
    os.nice(5)  # it is the server that must serve, not this machine's scheduler
    def lane(number):
        c, i = Client(port, EVIL), number * 100000
        while time.monotonic() < end:
            which(c, i)
            i += 1
    threads = [threading.Thread(target=lane, args=(n,), daemon=True) for n in range(LANES.get(which, 1))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(max(0.1, end + 1 - time.monotonic()))


# --- The neighbour -------------------------------------------------------------------------------

def served(client, seconds):
    """The p99 of reading and writing a small object."""
    times, end, n = [], time.monotonic() + seconds, 0
    path = '/api/v1/namespaces/good/configmaps/mine'
    while time.monotonic() < end or len(times) < 50:
        n += 1
        for method, body in (('GET', None), ('PUT', {'metadata': {'name': 'mine'}, 'data': {'n': str(n)}})):
            began = time.monotonic()
            code, text = client.call(method, path, body)
            times.append(time.monotonic() - began)
            assert code == 200, (method, code, text[:300])
        time.sleep(0.01)
    return sorted(times)[int(len(times) * 0.99) - 1], len(times)


def scheduled(c):
    """How long the server's thread has run, and how long it was ready and had no processor."""
    with open(f'/proc/{c.process.pid}/task/{c.process.pid}/schedstat') as f:
        return [int(x) for x in f.read().split()[:2]]


def judged(c, client, seconds):
    """The p99, less the share that other work on this machine took from the server's thread."""
    ran, waited = scheduled(c)
    p99, n = served(client, seconds)
    ran, waited = scheduled(c)[0] - ran, scheduled(c)[1] - waited
    return p99 * ran / max(1, ran + waited), p99, n


def prepare(c):
    for name in ('evil', 'good'):
        c.namespace(name)
        c.bind(name, 'edit', name)
    # What an administrator of a shared cluster sets.
    c.good('POST', NS + '/resourcequotas', {'metadata': {'name': 'q'}, 'spec': {'hard': {'pods': '50', 'count/jobs.batch': '20', 'count/statefulsets.apps': '20'}}})
    c.good('POST', DRA + '/deviceclasses', {'metadata': {'name': 'c'}, 'spec': {'selectors': [{'cel': {'expression': 'device.driver == "d.example.com"'}}]}})
    for n in range(10):
        devices = [{'name': f'd{i}', 'attributes': {'serial': {'int': n * 64 + i}}} for i in range(64)]
        c.good('POST', '/api/v1/nodes', {'metadata': {'name': f'n{n}'}, 'status': {'allocatable': {'cpu': '64', 'pods': '110'}, 'capacity': {'cpu': '64', 'pods': '110'}}})
        c.good('POST', DRA + '/resourceslices', {'metadata': {'name': f'n{n}'}, 'spec': {
            'driver': 'd.example.com', 'nodeName': f'n{n}', 'pool': {'name': f'n{n}', 'generation': 1, 'resourceSliceCount': 1}, 'devices': devices}})
    c.good('POST', '/api/v1/namespaces/good/configmaps', {'metadata': {'name': 'mine'}})


def main():
    only = sys.argv[2:]
    users = {EVIL: ('evil', 'tenants'), GOOD: ('good', 'tenants')}
    with Cluster(users, 'up', ['--max-database-bytes', str(128 << 20)]) as c:
        prepare(c)
        client = Client(c.port, GOOD)
        served(client, 0.5)
        quiet, _, n = judged(c, client, QUIET_S)
        bound = max(10 * quiet, LEAST_S)
        print(f'quiet: p99 {quiet * 1000:.1f} ms of {n}; bound {bound * 1000:.0f} ms', flush=True)
        late = []
        for which in ATTACKS:
            if only and which.__name__ not in only:
                continue
            process = multiprocessing.Process(target=attack, args=(which, c.port, time.monotonic() + ATTACK_S))
            process.start()
            p99, wall, n = judged(c, client, ATTACK_S)
            process.join(30)
            process.kill()
            memory = c.peak_kib()
            print(f'{which.__name__}: p99 {p99 * 1000:.1f} ms of {n} (with waits for a processor {wall * 1000:.1f} ms), memory {memory >> 10} MiB', flush=True)
            if p99 > bound or memory > MEMORY_KIB:
                late.append((which.__name__, round(p99, 3), memory >> 10))
        assert not late, f'a neighbour was not served (attack, p99 in s, MiB): {late}'
    print('neighbours: served')


if __name__ == '__main__':
    main()

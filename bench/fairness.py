#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a client waits beside another that floods the server. Usage: fairness.py DRAY [SECONDS]

A user reads and writes one request at a time (the neighbour), alone and then while others flood: another user with many gets
at once over several connections, with large lists, with creates. Prints p50, p99 and the slowest of the neighbour's requests,
and what the flood got through."""
import http.client, json, os, shutil, signal, ssl, subprocess, sys, tempfile, threading, time

USERS = ('neighbour', 'flood')
CLASS = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'DeviceClass', 'metadata': {'name': 'gpu'}, 'spec': {}}


def claim(name):
    return {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name},
            'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu'}}]}}}


class Client:
    def __init__(self, port, user):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection('127.0.0.1', port, context=context, timeout=60)
        self.headers = {'Authorization': 'Bearer token-' + user, 'Content-Type': 'application/json'}

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body else None, self.headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def neighbour(port, seconds):
    c, times, end, i = Client(port, 'neighbour'), [], time.monotonic() + seconds, 0
    base = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
    while time.monotonic() < end:
        for method, path, body in (('POST', base, claim(f'n{i}')), ('GET', f'{base}/n{i}', None), ('DELETE', f'{base}/n{i}', None)):
            start = time.monotonic()
            status = c.call(method, path, body)
            times.append(time.monotonic() - start)
            assert status < 300, status
        i += 1
        time.sleep(0.005)
    times.sort()
    return times


def show(name, times, more=''):
    at = lambda q: 1000 * times[min(len(times) - 1, int(q * len(times)))]
    print(f'{name:34} neighbour {len(times):5} requests, p50 {at(.5):5.1f} ms, p99 {at(.99):5.1f} ms, slowest {1000 * times[-1]:5.1f} ms {more}', flush=True)
    return at(.99)


def flood(dray, top, port, seconds, ops, count, concurrency, processes):
    kubeconfig = os.path.join(top, 'flood.kubeconfig')
    with open(kubeconfig, 'w') as f:
        json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'x',
                   'clusters': [{'name': 'c', 'cluster': {'server': f'https://127.0.0.1:{port}', 'certificate-authority': os.path.join(top, 'data/pki/ca.crt')}}],
                   'users': [{'name': 'u', 'user': {'token': 'token-flood'}}], 'contexts': [{'name': 'x', 'context': {'cluster': 'c', 'user': 'u'}}]}, f)
    return [subprocess.Popen([dray, 'bench', 'api', '--kubeconfig', kubeconfig, '--ops', ops, '--count', str(count), '--list-count', str(count),
                              '--namespace', f'flood{i}', '--concurrency', str(concurrency), '--json'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for i in range(processes)]


def rejected(port):
    c = Client(port, 'neighbour')
    c.connection.request('GET', '/metrics', None, c.headers)
    text = c.connection.getresponse().read().decode()
    pick = lambda name: sum(float(l.rsplit(' ', 1)[1]) for l in text.split('\n') if l.startswith(name))
    return pick('apiserver_request_total'), pick('apiserver_flowcontrol_rejected_requests_total')


def main():
    dray, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 8
    top = tempfile.mkdtemp(prefix='dray-fairness-')
    data = os.path.join(top, 'data')
    os.mkdir(data, 0o700)
    with open(os.path.join(data, 'tokens.csv'), 'w') as f:
        os.fchmod(f.fileno(), 0o600)
        for u in USERS:
            f.write(f'token-{u},{u},{u}\n')
    server = subprocess.Popen([dray, 'server', '--data-dir', data, '--listen', '127.0.0.1:0', '--authorization-mode', 'AlwaysAllow'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().split('ready at ')[1].split(',')[0].rsplit(':', 1)[1])
        Client(port, 'neighbour').call('POST', '/apis/resource.k8s.io/v1/deviceclasses', CLASS)
        worst = 0
        show('alone', neighbour(port, seconds / 2))
        for name, ops, count, concurrency, processes in (('gets, 64 at once', 'create,get,get,get,get,get,get,get,get', 10000, 64, 1),
                                                         ('gets, 2 x 250 at once', 'create,get,get,get,get,get,get', 10000, 250, 2),
                                                         ('creates, 64 at once', 'create,delete,create,delete', 10000, 64, 1),
                                                         ('lists of 5,000, 16 at once', 'create,list', 5000, 16, 1)):
            load = flood(dray, top, port, seconds, ops, count, concurrency, processes)
            time.sleep(2.5 if 'list' not in name else 4)
            before, start = rejected(port), time.monotonic()
            times = neighbour(port, seconds)
            after, took = rejected(port), time.monotonic() - start
            for p in load:
                p.kill()
                p.wait()
            worst = max(worst, show(name, times, f'(server {(after[0] - before[0]) / took:.0f} requests/s, {after[1] - before[1]:.0f} sent away)'))
        return 0 if worst < 50 else 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
        shutil.rmtree(top, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())

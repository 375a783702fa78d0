#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The load generators on a fresh `dray up`: small counts, every variant, numbers that must be right whatever the machine
does. Usage: bench.py DRAY"""
import json, os, signal, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')


def dray(*arguments, code=0, env=None):
    run = subprocess.run([DRAY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240, env=env)
    assert run.returncode == code, f'{arguments}: {run.returncode}, not {code}: {run.stdout[-500:]} {run.stderr[-2000:]}'
    return run.stdout if code == 0 else run.stderr


def get(config, kind):
    """What the server still has, by way of the socket beside the kubeconfig."""
    import http.client, socket
    connection = http.client.HTTPConnection('localhost')
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.path.join(os.path.dirname(config), 'dray.sock'))
    connection.request('GET', kind)
    return json.loads(connection.getresponse().read())['items']


def check_sched(config, pid):
    for variant, devices in (('one', 12), ('pair', 24), ('none', 0)):
        r = json.loads(dray('bench', 'sched', '--kubeconfig', config, '--nodes', '4', '--pods', '12', '--variant', variant, '--settle',
                            '0', '--json', '--pids', f'up={pid}'))
        assert (r['variant'], r['nodes'], r['pods'], r['bound'], r['timed_out']) == (variant, 4, 12, 12, False), r
        assert 0 < r['p50_ms'] <= r['p90_ms'] <= r['p99_ms'] <= r['max_ms'] and r['pods_per_s'] > 0, r
        assert r.get('verify') == (f'ok, {devices} devices allocated' if devices else None), r
        assert 'up' in r['server_cpu_s'], r
    for kind in ('/api/v1/namespaces/schedbench/pods', '/apis/resource.k8s.io/v1/namespaces/schedbench/resourceclaims',
                 '/api/v1/nodes', '/apis/resource.k8s.io/v1/resourceslices'):
        assert get(config, kind) == [], f'{kind} was not cleaned up'


def check_prefill(config):
    r = json.loads(dray('bench', 'sched', '--kubeconfig', config, '--nodes', '3', '--pods', '6', '--prefill-per-node', '5',
                        '--prefill-full-nodes', '1', '--rate', '200', '--settle', '0', '--json'))
    assert (r['bound'], r['prefilled_devices'], r['verify']) == (6, 18, 'ok, 24 devices allocated'), r
    # One pod more than there are devices: it waits, the others run.
    out = subprocess.run([DRAY, 'bench', 'sched', '--kubeconfig', config, '--nodes', '1', '--pods', '9', '--settle', '0', '--timeout',
                          '3', '--json'], stdout=subprocess.PIPE, text=True, timeout=240)
    r = json.loads(out.stdout)
    assert out.returncode == 1 and r['timed_out'] and r['bound'] == 8, (out.returncode, r)


def check_workloads(config):
    """The smallest workload of each test of scheduler_perf: pods and devices are as there."""
    for name, pods, devices in (('fast', 10, 10), ('SchedulingWithResourceClaimTemplate/match_fast', 2, 10),
                                ('SchedulingWithResourceClaim/fast', 10, 2), ('FirstAvailable/fast', 10, 10),
                                ('DeviceTaintToleration/fast', 10, 10), ('Partitionable/fast', 1, 2),
                                ('PartitionableBacktracking/fast', 1, 7), ('CompatibilityGroups/fast', 1, 2),
                                ('ConsumableCapacity/fast', 1, 2), ('SchedulingWithResourceClaimTemplateListAttributes/fast', 1, 32),
                                ('ExtendedResource/fast', 10, 10), ('ExtendedResourceScoring/fast', 10, 10)):
        r = json.loads(dray('bench', 'sched', '--kubeconfig', config, '--workload', name, '--settle', '0', '--json'))
        assert (r['bound'], r['timed_out'], r['verify']) == (pods, False, f'ok, {devices} devices allocated'), (name, r)
    for kind in ('/api/v1/nodes', '/apis/resource.k8s.io/v1/resourceslices', '/apis/resource.k8s.io/v1/devicetaintrules'):
        assert get(config, kind) == [], f'{kind} was not cleaned up'
    assert 'Partitionable/half_500nodes' in dray('bench', 'sched', '--workload', 'nix', code=2)


def check_api(config):
    lines = [json.loads(l) for l in dray('bench', 'api', '--kubeconfig', config, '--count', '30', '--list-count', '5', '--concurrency',
                                         '4', '--json').splitlines()]
    assert [l['op'] for l in lines] == ['create', 'get', 'update', 'status', 'list', 'watch', 'delete'], lines
    assert all(l['errors'] == 0 and l['ops_per_s'] > 0 for l in lines), lines
    assert lines[5]['count'] == 30 * 4 and '30 items' in lines[4]['extra'], lines
    assert get(config, '/apis/resource.k8s.io/v1/namespaces/apibench/resourceclaims') == []
    assert 'already exists' in dray('bench', 'api', '--kubeconfig', config, '--count', '2', '--ops', 'create') + subprocess.run(
        [DRAY, 'bench', 'api', '--kubeconfig', config, '--count', '2', '--ops', 'create'], stdout=subprocess.PIPE, text=True).stdout
    # Many large answers at once on one connection: none may be left lying in the client.
    for _ in range(4):
        many = [json.loads(l) for l in dray('bench', 'api', '--kubeconfig', config, '--namespace', 'many', '--count', '50', '--ops',
                                            'create,list,delete', '--json').splitlines()]
        assert [(l['op'], l['errors']) for l in many] == [('create', 0), ('list', 0), ('delete', 0)], many
    dray('bench', 'api', '--kubeconfig', config, '--count', '2', '--ops', 'delete')


def check_usage(config):
    assert 'no context' in dray('bench', 'api', '--kubeconfig', config, '--context', 'nowhere', code=1)
    assert 'No such file' in dray('bench', 'sched', '--kubeconfig', '/nowhere', code=1)
    bare = dict(os.environ, KUBECONFIG='/nowhere')
    bare.pop('KUBERNETES_SERVICE_HOST', None)
    assert "no file that KUBECONFIG names exists: '/nowhere'" in dray('bench', 'sched', code=1, env=bare)
    bare.update(KUBECONFIG='', HOME='/nowhere')
    assert 'there is no kubeconfig' in dray('bench', 'sched', code=1, env=bare)
    for wrong in (['sched', '--nodes', 'many'], ['sched', '--variant', 'three'], ['sched', '--bogus'], ['api', '--count', '0'], []):
        dray('bench', *wrong, code=2)
    with tempfile.NamedTemporaryFile('w', suffix='.kubeconfig') as f:
        f.write('clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]\ncontexts: [{name: x, context: {cluster: c}}]\n'
                'current-context: x\n')
        f.flush()
        assert 'cannot reach https://127.0.0.1:1' in dray('bench', 'sched', '--kubeconfig', f.name, code=1)


def main():
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, 'data')
        log = open(os.path.join(top, 'log'), 'w+')
        up = subprocess.Popen([DRAY, 'up', '--nodes', '0', '--data-dir', folder, '--listen', '127.0.0.1:0', '--feature-gates',
                               'DRADeviceCompatibilityGroups=true,DRAListTypeAttributes=true'], stdout=log, stderr=log)
        try:
            config = os.path.join(folder, 'admin.kubeconfig')
            for _ in range(600):
                if 'dray is up' in open(log.name).read():
                    break
                assert up.poll() is None, open(log.name).read()
                time.sleep(0.1)
            check_sched(config, up.pid)
            check_prefill(config)
            check_workloads(config)
            check_api(config)
            check_usage(config)
        finally:
            up.send_signal(signal.SIGTERM)
            code = up.wait(timeout=60)
        assert code == 0, (code, open(log.name).read()[-2000:])
    print('bench: sched, prefill, workloads, api, usage')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray up` as a user runs it: a cluster with simulated nodes, pods that are bound, one that waits and says why, a restart that
continues. Spoken to over the local socket. Usage: up.py DRAY"""
import http.client, json, os, shutil, signal, socket, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PODS = '/api/v1/namespaces/default/pods'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


class Cluster:
    def __init__(self, folder, *flags):
        self.folder = folder
        self.process = subprocess.Popen([DRAY, 'up', '--data-dir', folder, '--listen', '127.0.0.1:0', *flags], cwd=HERE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()
        if 'dray is up at' not in self.first:
            _, errors = self.process.communicate(timeout=60)
            raise RuntimeError(f'not up: {self.first}{errors[-2000:]}')

    def call(self, method, path, body=None, kind='application/json'):
        c = Unix(os.path.join(self.folder, 'dray.sock'))
        c.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': kind})
        answer = c.getresponse()
        data = answer.read()
        c.close()
        return answer.status, json.loads(data) if data else None

    def good(self, method, path, body=None):
        code, answer = self.call(method, path, body)
        assert 200 <= code < 300, f'{method} {path}: {code} {json.dumps(answer)[:600]}'
        return answer

    def until(self, what, condition, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = condition()
            if got:
                return got
            time.sleep(0.05)
        raise AssertionError(f'{what}: not within {seconds} s')

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, f'exit {self.process.returncode}: {errors[-3000:]}'
        return out


def pod(name, template):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name},
            'spec': {'containers': [{'name': 'c', 'image': 'i', 'resources': {'claims': [{'name': 'gpu'}]}}],
                     'resourceClaims': [{'name': 'gpu', 'resourceClaimTemplateName': template}]}}


def running(c, name):
    code, p = c.call('GET', f'{PODS}/{name}')
    return p if code == 200 and p['status'].get('phase') == 'Running' else None


def waiting(c, name):
    code, p = c.call('GET', f'{PODS}/{name}')
    conditions = [x for x in p.get('status', {}).get('conditions', []) if x['type'] == 'PodScheduled'] if code == 200 else []
    return conditions[0] if conditions and conditions[0]['status'] == 'False' else None


def devices(c):
    """Every allocated device, and that none is given twice."""
    seen = []
    for claim in c.good('GET', CLAIMS)['items']:
        for r in claim.get('status', {}).get('allocation', {}).get('devices', {}).get('results', []):
            seen.append((r['driver'], r['pool'], r['device']))
    assert len(seen) == len(set(seen)), f'a device was given twice: {seen}'
    return seen


def why(c, name):
    return subprocess.run([DRAY, 'why', name, '--data-dir', c.folder], capture_output=True, text=True, timeout=60)


def life(folder):
    c = Cluster(folder, '--nodes', '3', '--apply', 'examples/claim.yaml', '--apply', 'examples/pending.yaml')
    p = c.until('the example pod runs', lambda: running(c, 'trainer'))
    assert p['spec']['nodeName'].startswith('example-gpu-'), p['spec']
    condition = c.until('the other says why it waits', lambda: waiting(c, 'hungry'))
    assert condition['reason'] == 'Unschedulable' and condition['message'].startswith('0/3 nodes:'), condition
    assert 'would fit' in condition['message'], condition
    answer = why(c, 'hungry')
    assert answer.returncode == 1 and '100Gi' in answer.stdout and 'would fit with' in answer.stdout, answer
    answer = why(c, 'trainer')
    assert answer.returncode == 0 and 'bound to example-gpu-' in answer.stdout, answer
    assert why(c, 'nobody').returncode != 0
    # All 24 devices but the one in use go to 23 more pods; the 25th waits.
    for i in range(24):
        c.good('POST', PODS, pod(f'p{i}', 'large-gpu'))
    c.until('23 more pods run', lambda: sum(bool(running(c, f'p{i}')) for i in range(24)) == 23)
    assert len(devices(c)) == 24
    left = c.until('one pod waits', lambda: [i for i in range(24) if waiting(c, f'p{i}')])
    assert len(left) == 1, left
    # A pod that goes makes room, its claim goes with it.
    c.good('DELETE', f'{PODS}/trainer')
    c.until('the last pod runs', lambda: running(c, f'p{left[0]}'))
    c.until('the claim is gone', lambda: not [x for x in c.good('GET', CLAIMS)['items'] if x['metadata']['name'].startswith('trainer')])
    assert len(devices(c)) == 24
    out = c.stop()
    assert 'pod default/trainer → example-gpu-' in out and ' with gpu.example.com/example-gpu-' in out and 'pod default/hungry is pending:' in out, out


def again(folder):
    config = os.path.join(os.path.dirname(folder), 'admin.conf')
    c = Cluster(folder, '--nodes', '3', '--kubeconfig-out', config)
    assert 'certificate-authority' in open(config, encoding='utf-8').read()
    assert len(devices(c)) == 24
    assert len(c.good('GET', '/api/v1/nodes')['items']) == 3
    for i in range(24):
        c.good('DELETE', f'{PODS}/p{i}')
    c.until('all devices are free', lambda: not devices(c))
    c.stop()


def unprivileged(top):
    """Without root everything but containers works, and that is said."""
    if os.geteuid() != 0 or not shutil.which('setpriv'):
        return
    os.chmod(top, 0o755)
    program = shutil.copy(DRAY, os.path.join(top, 'dray'))
    folder = os.path.join(top, 'nobodys')
    os.mkdir(folder, 0o700)
    os.chown(folder, 65534, 65534)
    command = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', program, 'up', '--data-dir', folder, '--listen',
               '127.0.0.1:0', '--nodes', '1', '--sim', 'example-gpu', '--agent', '--apply', os.path.join(top, 'claim.yaml')]
    shutil.copy(os.path.join(HERE, 'examples', 'claim.yaml'), top)
    p = subprocess.Popen(command, cwd=top, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in p.stdout:
        if 'pod default/trainer →' in line:
            break
    c = Cluster.__new__(Cluster)
    c.folder = folder
    c.until('the pod runs', lambda: running(c, 'trainer'))
    p.send_signal(signal.SIGINT)
    _, errors = p.communicate(timeout=60)
    assert p.returncode == 0 and 'needs root' in errors and 'simulated nodes' in errors, errors


def demo(top):
    """`make up`: as root, with crun, a pod on this machine shows its device; else its pods are simulated."""
    data = os.path.join(top, 'demo')
    p = subprocess.Popen([os.path.join(HERE, 'tools', 'up'), DRAY, '--listen', '127.0.0.1:0', '--nodes', '1'], cwd=top,
                         env=dict(os.environ, DRAY_DATA_DIR=data), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    real = 'Pods only seem to run' not in p.stdout.readline()
    for line in p.stdout:
        if ('pod default/show-device →' if real else 'pod default/trainer →') in line:
            assert '/gpu-' in line, line
            break
    c = Cluster.__new__(Cluster)
    c.folder, c.process = data, p
    if real:
        c.until('the demo pod runs', lambda: running(c, 'show-device'), 120)
        c.until('it shows its device', lambda: 'GPU_DEVICE_0=gpu-' in log_of(c, 'show-device'))
        assert '1, 3' in log_of(c, 'show-device'), log_of(c, 'show-device')  # /dev/gpu-N, as /dev/null
        for line in p.stdout:
            if 'crw-rw-rw-' in line and 'gpu-' in line:
                break
        else:
            raise AssertionError('the first lines of the container are not shown')
    out = c.stop()
    if real:
        assert 'keep running' in out and 'down --data-dir' in out, out
        r = subprocess.run([DRAY, 'down', '--data-dir', data, '--grace', '0', '--purge'], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0 and 'removed 1 pod with 1 container' in r.stdout and not os.path.exists(data), r
        assert data not in open('/proc/self/mountinfo').read()


def log_of(c, name):
    u = Unix(os.path.join(c.folder, 'dray.sock'))
    u.request('GET', f'{PODS}/{name}/log')
    text = u.getresponse().read().decode()
    u.close()
    return text


def wrong(folder):
    for flags, word in ((['--sim', 'nix'], 'example-gpu'), (['--nodes', 'many'], 'number'), (['--policy', 'best'], 'pack'),
                        (['--sim'], 'value'), (['--frobnicate'], 'frobnicate')):
        r = subprocess.run([DRAY, 'up', '--data-dir', folder, *flags], capture_output=True, text=True, timeout=60)
        assert r.returncode in (1, 2) and word in r.stderr, (flags, r)
    profile = folder + '.yaml'
    with open(profile, 'w') as f:  # it parses, and fails when its nodes are made: scheduler and controllers run by then
        f.write('profile: bad\npools:\n- driver: bad.example.com\n  slices:\n  - devices:\n    - name: a\n      attributes: {x: {string: "${nosuch(node)}"}}\n')
    r = subprocess.run([DRAY, 'up', '--data-dir', folder, '--sim', profile, '--listen', '127.0.0.1:0'], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and 'no such function' in r.stderr, r
    r = subprocess.run([DRAY, 'up', '--sim', 'list'], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and 'nvidia-a100-mig' in r.stdout, r


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    try:
        folder = os.path.join(top, 'data')
        life(folder)
        again(folder)
        wrong(os.path.join(top, 'other'))
        unprivileged(top)
        demo(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print('up: ok')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray driver net` as a program: publishes interfaces, follows changes, and its hook, called by a real container runtime, puts them into
containers; they come back, also after kill -9. Runs in a network namespace of its own. Usage: driver_net.py DRAY"""
import atexit, json, os, shutil, signal, subprocess, sys

sys.argv[1:] = sys.argv[1:] or ['build/dray']
NET = 'dra.net'


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def enter_namespace():
    """Starts this script again where the machine's interfaces are not."""
    if os.environ.get('DRAY_TEST_NETNS') == 'yes':
        return
    if os.geteuid() != 0:
        skip('not root')
    for tool in ('ip', 'unshare'):
        if not shutil.which(tool):
            skip(f'no {tool}')
    if subprocess.run(['unshare', '-n', 'ip', 'link', 'add', 'try0', 'type', 'veth', 'peer', 'name', 'try1'], capture_output=True).returncode != 0:
        skip('no network namespaces with veth')
    os.environ['DRAY_TEST_NETNS'] = 'yes'
    os.execvp('unshare', ['unshare', '-n', '--', sys.executable, os.path.abspath(__file__), *sys.argv[1:]])


enter_namespace()
from driver import Api, CLAIMS, DRAY, PEER, TOP, claim, published, until  # noqa: E402


def ip(*words):
    run = subprocess.run(['ip', *words], capture_output=True, text=True)
    assert run.returncode == 0, (words, run.stderr)
    return run.stdout


def interfaces():
    return {l['ifname']: l for l in json.loads(ip('-j', 'address'))}


def call(*words, fails=False):
    run = subprocess.run([PEER, os.path.join(TOP, 'registry', f'{NET}-reg.sock'), *words], capture_output=True, text=True, timeout=60)
    assert (run.returncode != 0) == fails, (words, run.stdout, run.stderr)
    return json.loads(run.stdout)


class Driver:
    def __init__(self, api):
        self.args = [DRAY, 'driver', 'net', '--node', 'n1', '--kubeconfig', api.kubeconfig, '--offer', 'veth:br0=2', '--skip', '*-far']
        for flag in ('plugins', 'registry', 'cdi'):
            self.args += ['--' + flag, os.path.join(TOP, flag)]
        self.start()
        atexit.register(lambda: self.process.poll() is None and self.process.kill())

    def start(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == 'driver runs\n'

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def runtime():
    for name in ('runc', 'crun'):
        found = shutil.which(name)
        if found:
            return found
    return None


class Container:
    """A container with CDI devices that prints its interfaces and ends with its input."""

    def __init__(self, name, devices):
        self.name, self.bundle = name, os.path.join(TOP, name)
        rootfs = os.path.join(self.bundle, 'rootfs')
        for folder in ('bin', 'proc', 'sys', 'dev', 'run', 'var/run'):
            os.makedirs(os.path.join(rootfs, folder), exist_ok=True)
        shutil.copy(shutil.which('busybox'), os.path.join(rootfs, 'bin', 'busybox'))
        caps = ['CAP_NET_ADMIN']
        config = {'ociVersion': '1.0.2', 'root': {'path': 'rootfs'}, 'hostname': name,
                  'process': {'args': ['/bin/busybox', 'sh', '-c', '/bin/busybox ip -o address; echo looked; /bin/busybox cat'], 'cwd': '/',
                              'env': ['PATH=/bin'], 'user': {'uid': 0, 'gid': 0},
                              'capabilities': {k: caps for k in ('bounding', 'effective', 'permitted')}},
                  'mounts': [{'destination': '/proc', 'type': 'proc', 'source': 'proc'}],
                  'linux': {'namespaces': [{'type': t} for t in ('pid', 'mount', 'network', 'uts', 'ipc')]}}
        plain = os.path.join(self.bundle, 'plain.json')
        with open(plain, 'w') as f:
            json.dump(config, f)
        subprocess.run([DRAY, 'cdi', 'apply', '--spec', plain, '--dir', os.path.join(TOP, 'cdi'), '-o', os.path.join(self.bundle, 'config.json'),
                        *devices], check=True)
        self.process = subprocess.Popen([runtime(), '--root', os.path.join(TOP, 'runtime'), 'run', '--bundle', self.bundle, f'dray-{os.getpid()}-{name}'],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.seen = []
        for line in self.process.stdout:
            if line == 'looked\n':
                return
            self.seen.append(line)
        _, errors = self.process.communicate(timeout=60)
        self.error = errors
        self.process = None

    def end(self):
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


def check_moved(api, driver):
    config = {'interface': {'name': 'data0', 'addresses': ['10.9.0.5/24'], 'mtu': 1300}, 'routes': [{'destination': '10.11.0.0/16', 'gateway': '10.9.0.1'}]}
    bad, _ = claim(api, 'bad', NET, 'n1', ['nic0'], {'interface': {'nmae': 'data0'}})
    answer = str(call('prepare', bad, fails=True))
    assert 'interface.nmae: unknown field' in answer, answer
    call('unprepare', bad)
    key, uid = claim(api, 'moved', NET, 'n1', ['nic0'], config)
    before = interfaces()['nic0']
    cdi = call('prepare', key)[uid]['devices'][0]['cdi']
    assert interfaces()['nic0'] == before
    if not runtime() or not shutil.which('busybox'):
        print('no container runtime or no busybox: the hook is not tried')
        call('unprepare', key)
        return 0
    container = Container('one', cdi)
    assert container.process, container.error
    assert any('data0' in l and '10.9.0.5/24' in l for l in container.seen), container.seen
    assert 'nic0' not in interfaces()

    def ready():
        devices = api.call('GET', f'{CLAIMS}/moved')['status'].get('devices', [])
        return [d for d in devices if any(c['type'] == 'NetworkReady' and c['status'] == 'True' for c in d.get('conditions', []))]
    status = until('the claim says that it is attached', ready)[0]
    assert status['networkData']['interfaceName'] == 'data0' and status['networkData']['ips'] == ['10.9.0.5/24'], status
    assert 'nic0' in [d['name'] for d in published(api, NET, 1)[0]['spec']['devices']], 'a device in use stays published'
    driver.kill()
    driver.start()
    container.end()
    call('unprepare', key)
    after = interfaces()['nic0']
    assert after['mtu'] == before['mtu'] and after['address'] == before['address'], after
    assert [a['local'] for a in after['addr_info'] if a['family'] == 'inet'] == ['10.7.0.2'], after
    assert not [n for n in os.listdir(os.path.join(TOP, 'plugins', NET, 'interfaces')) if n.endswith('.json')]
    call('unprepare', key)
    return 1


def check_made(api):
    if not runtime() or not shutil.which('busybox'):
        return 0
    key, uid = claim(api, 'made', NET, 'n1', ['veth-br0-1'], {'interface': {'addresses': ['10.9.1.5/24']}})
    container = Container('two', call('prepare', key)[uid]['devices'][0]['cdi'])
    assert container.process, container.error
    assert any('net1' in l and '10.9.1.5/24' in l for l in container.seen), container.seen
    assert any(l.get('master') == 'br0' for l in interfaces().values())
    container.end()
    call('unprepare', key)
    assert not any(l.get('master') == 'br0' for l in interfaces().values())
    # A container that is started although the claim is gone fails, with words.
    key, uid = claim(api, 'gone', NET, 'n1', ['veth-br0-0'])
    cdi = call('prepare', key)[uid]['devices'][0]['cdi']
    os.remove(os.path.join(TOP, 'plugins', NET, 'interfaces', 'veth-br0-0.json'))
    container = Container('three', cdi)
    assert not container.process and 'no claim has the device veth-br0-0' in container.error, container.error
    return 1


def main():
    ip('link', 'set', 'lo', 'up')
    ip('link', 'add', 'nic0', 'type', 'veth', 'peer', 'name', 'nic0-far')
    ip('address', 'add', '10.7.0.2/24', 'dev', 'nic0')
    ip('link', 'set', 'nic0', 'mtu', '1400', 'up')
    ip('link', 'add', 'br0', 'type', 'bridge')
    api = Api()
    open(os.path.join(TOP, 'driver.log'), 'w').close()
    api.call('POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n1'}})
    driver = Driver(api)
    try:
        def names():
            return [d['name'] for s in api.slices(NET) for d in s['spec'].get('devices', [])]
        until('slices', lambda: names() == ['nic0', 'veth-br0-0', 'veth-br0-1'])
        device = api.slices(NET)[0]['spec']['devices'][0]['attributes']
        assert device['dra.net/ifName'] == {'string': 'nic0'} and device['dra.net/ipv4'] == {'string': '10.7.0.2/24'}, device
        ip('link', 'add', 'late0', 'type', 'veth', 'peer', 'name', 'late0-far')
        until('a new interface is published', lambda: 'late0' in names())
        ip('link', 'delete', 'late0')
        until('one that is gone is not', lambda: 'late0' not in names())
        tried = check_moved(api, driver) + check_made(api)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.process.wait(timeout=30) == 0
    finally:
        api.process.terminate()
        api.process.wait()
        api.process.stdout.close()
    shutil.rmtree(TOP, ignore_errors=True)
    print(f'driver net: publishes, follows changes, {tried} kinds of interfaces into containers of {os.path.basename(runtime() or "no runtime")} and back')


if __name__ == '__main__':
    main()

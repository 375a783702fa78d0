#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public DRA drivers, as they are, on `dray server` and dray's DRA manager (`dray kubelet-stub`): each registers, publishes, prepares and
unprepares as far as a machine without its hardware lets it. Programs are taken from $PEERS/bin; rows without one are skipped. Everything runs in
mount and network namespaces of its own: drivers find the folders they expect, and nothing of the machine changes. Usage: public_drivers.py DRAY"""
import glob, json, os, shutil, signal, subprocess, sys, tempfile, time

from common import Server, call, peers, skip

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, 'peers')
SLICES = '/apis/resource.k8s.io/v1/resourceslices'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
KUBELET, CDI, NODE = '/var/lib/kubelet', '/var/run/cdi', 'node-a'


def until(what, check, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError('never came: ' + what)


def binary(name):
    return os.path.join(peers(), 'bin', name)


def run(*words):
    subprocess.run(words, check=True)


# --- A machine of its own ----------------------------------------------------------------------------

def private():
    """Folders that drivers take for granted, made anew; sysctls read-only; a bridge to be a network device."""
    run('mount', '--make-rprivate', '/')
    for folder in ('/run', '/var/lib', '/etc/cdi'):
        if not os.path.isdir(folder):
            continue
        run('mount', '-t', 'tmpfs', 'tmpfs', folder)
    run('mount', '--bind', '/proc/sys', '/proc/sys')
    run('mount', '-o', 'remount,ro,bind', '/proc/sys')
    run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/dev')
    for name, minor in (('null', 3), ('zero', 5), ('random', 8), ('urandom', 9)):
        run('mknod', '-m', '666', f'/dev/{name}', 'c', '1', str(minor))
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'link', 'add', 'tst0', 'type', 'bridge')
    run('ip', 'link', 'set', 'tst0', 'up')


def folders():
    for folder in (f'{KUBELET}/plugins', f'{KUBELET}/plugins_registry', f'{KUBELET}/stub', CDI, '/var/run/nri'):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)


class Helper:
    """Something a driver needs beside it."""

    def __init__(self, *command, wait=None, **more):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        if wait:
            until(wait, lambda: os.path.exists(wait))

    def stop(self):
        self.process.kill()
        self.process.wait()


def nri():
    """The runtime's side of NRI, without a runtime."""
    if 'FAKENRI' not in os.environ:
        raise Missing('no NRI peer: needs Go')
    return Helper(os.environ['FAKENRI'], wait='/var/run/nri/nri.sock')


def build_nri(folder):
    """Before the namespaces, since Go may have to download; its environment variable, or nothing."""
    if not shutil.which('go'):
        return {}
    source, program = os.path.join(folder, 'source'), os.path.join(folder, 'fakenri')
    shutil.copytree(os.path.join(SOURCES, 'fakenri'), source, copy_function=shutil.copyfile)
    os.chmod(source, 0o755)
    build = subprocess.run(['go', 'build', '-mod=mod', '-o', program, '.'], cwd=source, env=dict(os.environ, CGO_ENABLED='0'))
    return {'FAKENRI': program} if build.returncode == 0 else {}


class OwnSys:
    """/sys of this network namespace."""

    def __init__(self):
        run('mount', '-t', 'sysfs', 'sysfs', '/sys')

    def stop(self):
        run('umount', '/sys')


class Missing(Exception):
    pass


# --- The drivers -------------------------------------------------------------------------------------

def cpu(server, top):
    return [nri()], [binary('dracpu'), '--kubeconfig', server.kubeconfig, '--hostname-override', NODE, '--bind-address', '127.0.0.1:18201'], {}


def net(server, top):
    return [OwnSys(), nri()], [binary('dranet'), '--kubeconfig', server.kubeconfig, '--hostname-override', NODE, '--bind-address', '127.0.0.1:18202',
                        '--cloud-provider-hint', 'NONE', '--db-path', '/run/dranet.db'], {}


def memory(server, top):
    return [nri()], [binary('dramemory'), '--kubeconfig', server.kubeconfig, '--hostname-override', NODE, '--cgroup-mount', ''], {}


def tpu(server, top):
    for i in range(4):
        if not os.path.exists(f'/dev/accel{i}'):
            run('mknod', f'/dev/accel{i}', 'c', '1', '3')
    return [], [binary('tpu-dra-kubeletplugin'), '--kubeconfig', server.kubeconfig, '--node-name', NODE, '--cdi-root', CDI,
                '--tpu-accelerator', 'tpu-v4-podslice', '--tpu-chip-count', '4', '--tpu-topology', '2x2x1'], {}


def intel(server, top):
    if not os.path.exists(binary('intel-device-faker')):
        raise Missing('no intel-device-faker in $PEERS/bin')
    place = os.path.join(top, 'intel')
    os.makedirs(place, exist_ok=True)
    template = os.path.join(place, 'gpus.json')
    with open(template, 'w') as f:
        json.dump({}, f)
    made = subprocess.run([binary('intel-device-faker'), 'gpu', '--new-template'], cwd=place, capture_output=True, text=True)
    found = [n for n in glob.glob(os.path.join(place, '*.json')) if n != template] + [w for w in made.stdout.split() if w.endswith('.json')]
    if not found:
        raise Missing('device-faker made no template: ' + made.stdout + made.stderr)
    run(binary('intel-device-faker'), 'gpu', '--template', os.path.join(place, found[0]), '--target-dir', place, '--real-devices')
    fake = {'SYSFS_ROOT': os.path.join(place, 'sysfs'), 'DEVFS_ROOT': os.path.join(place, 'dev')}
    return [], [binary('intel-gpu-kubeletplugin'), '--kubeconfig', server.kubeconfig, '--node-name', NODE, '--cdi-root', CDI], fake


def nvidia(server, top, *flags):
    library = next(iter(sorted(glob.glob(binary('libnvidia-ml.so.*.*')))), None)
    if not library:
        raise Missing('no libnvidia-ml.so.VERSION (a mock of NVML) in $PEERS/bin')
    version = library.split('.so.')[1]  # the driver looks for CUDA's library of the same one
    root = os.path.join(top, 'driver-root')
    for folder in ('usr/lib/x86_64-linux-gnu', 'usr/bin', 'dev'):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    shutil.copy(library, os.path.join(root, 'usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1'))
    with open(os.path.join(root, f'usr/lib/x86_64-linux-gnu/libcuda.so.{version}'), 'w'):
        pass  # found, mounted, never loaded
    for name in ('usr/bin/nvidia-smi', 'usr/bin/nvidia-cdi-hook'):
        with open(os.path.join(root, name), 'w') as f:
            f.write('#!/bin/sh\nexit 0\n')
        os.chmod(os.path.join(root, name), 0o755)
    minors = [('nvidiactl', 255), ('nvidia-uvm', 0), *((f'nvidia{i}', i) for i in range(8))]
    for name, minor in minors:
        for folder in ('/dev', os.path.join(root, 'dev')):
            if not os.path.exists(os.path.join(folder, name)):
                run('mknod', os.path.join(folder, name), 'c', '195', str(minor))
    return [], [binary('nvidia-gpu-kubelet-plugin'), '--kubeconfig', server.kubeconfig, '--node-name', NODE, '--cdi-root', CDI, '--nvidia-driver-root', root,
                '--container-driver-root', root, '--nvidia-cdi-hook-path', os.path.join(root, 'usr/bin/nvidia-cdi-hook'), '--healthcheck-port', '-1',
                '--namespace', 'default', '--image-name', 'none', *flags], {'LD_LIBRARY_PATH': os.path.join(root, 'usr/lib/x86_64-linux-gnu')}


# title: program, driver, how to start it, what the claim's result has beside the device, whether containers get CDI devices
DRIVERS = {
    'CPU (kubernetes-sigs/dra-driver-cpu)': ('dracpu', 'dra.cpu', cpu, {'consumedCapacity': {'dra.cpu/cpu': '1'}}, True),
    'DRANET (kubernetes-sigs/dranet)': ('dranet', 'dra.net', net, {}, False),
    'memory (ffromani/dra-driver-memory)': ('dramemory', 'dra.memory', memory, {'consumedCapacity': {'size': '64Mi'}}, True),
    'Google TPU (kubernetes-sigs/dra-driver-google-tpu)': ('tpu-dra-kubeletplugin', 'tpu.google.com', tpu, {}, True),
    'Intel GPU (intel/intel-resource-drivers-for-kubernetes)': ('intel-gpu-kubeletplugin', 'gpu.intel.com', intel, {}, True),
    'NVIDIA GPU (kubernetes-sigs/dra-driver-nvidia-gpu)': ('nvidia-gpu-kubelet-plugin', 'gpu.nvidia.com', nvidia, {}, True),
}


# --- The check ---------------------------------------------------------------------------------------

def stub(server, *words, ok=True):
    done = subprocess.run([server.dray, 'kubelet-stub', '--registry', f'{KUBELET}/plugins_registry', '--plugins', f'{KUBELET}/plugins', '--state',
                           f'{KUBELET}/stub', '--kubeconfig', server.kubeconfig, '--cdi-dir', CDI, '-o', 'json', *words],
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, (words, done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]


def allocated(server, name, s, devices, more):
    call(server, 'POST', CLAIMS, {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'metadata': {'name': name, 'namespace': 'default'},
                                  'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'class'}}]}}})
    made = call(server, 'GET', f'{CLAIMS}/{name}')
    results = [{'request': 'r', 'driver': s['spec']['driver'], 'pool': s['spec']['pool']['name'], 'device': d['name']} for d in devices]
    for result, device in zip(results, devices):
        if device.get('allowMultipleAllocations'):
            result.update(more, shareID='11111111-2222-4333-8444-555555555555')
    made['status'] = {'allocation': {'devices': {'results': results}}, 'reservedFor': [{'resource': 'pods', 'name': 'p', 'uid': 'uid-of-p'}]}
    return call(server, 'PUT', f'{CLAIMS}/{name}/status', made)


def check(server, top, log, program, driver, start, more, cdi):
    folders()
    helpers, command, env = start(server, top)
    process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ, NODE_NAME=NODE, POD_UID='', **env))
    stayer = None
    try:
        # One that stays: some drivers give up when nobody registers them soon.
        stayer = subprocess.Popen([server.dray, 'kubelet-stub', '--registry', f'{KUBELET}/plugins_registry', '--plugins', f'{KUBELET}/plugins', '--state',
                                   f'{KUBELET}/stub', '--kubeconfig', server.kubeconfig, '--node', NODE, '--cdi-dir', CDI, 'run'],
                                  stdout=log, stderr=log)

        def published():
            if process.poll() is not None:
                raise AssertionError(f'it ended with {process.returncode}')
            for s in call(server, 'GET', SLICES)['items']:
                for d in s['spec'].get('devices', []):
                    name = d.get('attributes', {}).get('dra.net/ifName', {}).get('string')
                    if s['spec']['driver'] == driver and (driver != 'dra.net' or name == 'tst0'):  # of DRANET only our own interface
                        return s, d
        s, device = until('slices of ' + driver, published)
        stayer.terminate()
        assert stayer.wait(timeout=30) == 0
        found = stub(server, 'list')
        assert [d['driver'] for d in found] == [driver] and found[0]['connected'], found
        devices = s['spec']['devices'] if driver == 'tpu.google.com' else [device]  # it gives all chips of a host, or none
        claim = allocated(server, 'one', s, devices, more)
        first = stub(server, 'prepare', 'default/one')
        again = stub(server, 'prepare', 'default/one')
        assert first[0]['devices'] == again[0]['devices'] and first[0]['uid'] == claim['metadata']['uid'], (first, again)
        # One that works through NRI alone answers with no devices.
        assert sorted(d['device'] for d in first[0]['devices']) == sorted(d['name'] for d in devices if cdi), first
        ids = [i for d in first[0]['devices'] for i in d['cdiDeviceIDs']]
        assert not cdi or first[0].get('containerEdits'), first
        stub(server, 'unprepare', 'default/one')
        assert stub(server, 'claims') == []
        call(server, 'DELETE', f'{CLAIMS}/one')
        count = sum(len(x['spec'].get('devices', [])) for x in call(server, 'GET', SLICES)['items'] if x['spec']['driver'] == driver)
        return f'{found[0]["service"]}, {count} devices, {len(ids)} CDI device{"s" * (len(ids) != 1)}'
    finally:
        for p in (stayer, process):
            if p and p.poll() is None:
                p.send_signal(signal.SIGTERM)
                try:
                    p.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
        for h in helpers:
            h.stop()


def inside(dray):
    private()
    failed = 0
    for title, (program, driver, start, more, cdi) in DRIVERS.items():
        if not os.path.exists(binary(program)):
            print(f'skipped: {title} (no {program} in $PEERS/bin)', flush=True)
            continue
        server = Server(dray)
        call(server, 'POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': NODE}})
        path = os.path.join(server.top, 'driver.log')
        try:
            with open(path, 'ab') as log:
                print(f'ok: {title}: {check(server, server.top, log, program, driver, start, more, cdi)}', flush=True)
        except Missing as e:
            print(f'skipped: {title} ({e})', flush=True)
        except Exception as e:
            failed += 1
            print(f'FAILED: {title}: {e!r}\n{open(path, errors="replace").read()[-3000:]}', flush=True)
        finally:
            server.done()
    return failed


def main():
    if 'INSIDE' in os.environ:
        sys.exit(1 if inside(sys.argv[1]) else 0)
    if os.geteuid() != 0:
        skip('public drivers (needs root for namespaces)')
    if not any(os.path.exists(binary(d[0])) for d in DRIVERS.values()):
        skip('public drivers (none of ' + ', '.join(d[0] for d in DRIVERS.values()) + ' in $PEERS/bin)')
    with tempfile.TemporaryDirectory(prefix='dray-nri-') as folder:
        done = subprocess.run(['unshare', '-m', '-n', sys.executable, os.path.abspath(__file__), os.path.abspath(sys.argv[1])],
                              env=dict(os.environ, INSIDE='1', PEERS=peers(), **build_nri(folder)))
    sys.exit(done.returncode)


main()

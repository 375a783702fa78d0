#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray driver sim` with a kubelet's end of the protocol on grpc-go (peers/fakekubelet): registration, v1 and v1beta1, health. Usage:
driver_sim.py DRAY"""
import json, os, shutil, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
import driver as e2e
from common import skip

PEER = os.path.join(HERE, 'peers', 'fakekubelet')


def build(folder):
    if not shutil.which('go'):
        skip('fakekubelet (needs Go)')
    source = os.path.join(folder, 'fakekubelet')
    shutil.copytree(PEER, source, copy_function=shutil.copyfile)
    os.chmod(source, 0o755)
    run = subprocess.run(['go', 'build', '-mod=mod', '-o', os.path.join(folder, 'fake'), '.'], cwd=source, capture_output=True, text=True)
    if run.returncode:
        skip('fakekubelet (cannot build: ' + run.stderr.strip().split('\n')[-1] + ')')
    return os.path.join(folder, 'fake')


def main():
    folder = tempfile.mkdtemp(prefix='dray-fake-')
    program = build(folder)
    api = e2e.Api()
    sim = e2e.Driver(api, 'nvidia-a100-mig', '--nodes', '1')
    registry = os.path.join(e2e.ROOT, e2e.NODE, 'plugins_registry')

    def fake(*words, timeout='20s'):
        run = subprocess.run([program, '--registry', registry, '--driver', e2e.GPU, '--timeout', timeout, *words], capture_output=True, text=True, timeout=90)
        return [json.loads(l) for l in run.stdout.splitlines()], run
    try:
        key, uid = e2e.claim(api, 'whole', e2e.GPU, e2e.NODE, ['gpu-0', 'gpu-1'])
        for version in ('v1', 'v1beta1'):
            lines, run = fake('--api', version, 'prepare', key)
            assert run.returncode == 0, run.stderr
            answer = lines[-1]['data']['claims'][uid]
            assert [d['device_name'] for d in answer['devices']] == ['gpu-0', 'gpu-1'] and not answer['error'], answer
            assert lines[0]['data']['supportedVersions'][:2] == ['v1.DRAPlugin', 'v1beta1.DRAPlugin'], lines[0]
            lines, run = fake('--api', version, 'unprepare', key)
            assert run.returncode == 0 and not lines[-1]['data']['claims'][uid]['error'], lines
            assert not e2e.cdi(e2e.NODE)
        lines, _ = fake('health', '1', timeout='3s')
        assert any(len(l['data'].get('devices', [])) == 208 for l in lines if 'NodeWatch' in l['event']), lines[:3]
    finally:
        sim.end()
        api.process.terminate()
        api.process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(e2e.TOP, ignore_errors=True)
    print('driver sim: grpc-go registers it, prepares and unprepares over v1 and v1beta1, watches health')


if __name__ == '__main__':
    main()

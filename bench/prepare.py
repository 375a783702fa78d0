#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long NodePrepareResources of `dray driver sim` takes, from call to answer, with the claim read from `dray server` and the promise synced to
disk: JSON lines {"name", "value", "unit"}. Folders lie where a node has them: the driver's own on disk (under $PREPARE_DISK, the folder for temporary files
otherwise), sockets, CDI specs and the API server's data in memory (/dev/shm), since a node has /var/run there and its API server elsewhere.
Usage: prepare.py DRAY [ROUNDS]"""
import json, os, shutil, subprocess, sys, tempfile

DISK = tempfile.mkdtemp(prefix='dp-', dir=os.environ.get('PREPARE_DISK'))
os.environ['TMPDIR'] = '/dev/shm'
tempfile.tempdir = None
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'e2e'))
import driver as e2e

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000


def main():
    api = e2e.Api()
    plugins = os.path.join(e2e.ROOT, e2e.NODE, 'plugins')
    os.makedirs(os.path.dirname(plugins))
    os.symlink(DISK, plugins)
    sim = e2e.Driver(api, 'nvidia-a100-mig', '--nodes', '1')
    try:
        e2e.published(api, e2e.GPU, 9)
        key, _ = e2e.claim(api, 'bench', e2e.GPU, e2e.NODE, ['gpu-0'])
        path = os.path.join(e2e.ROOT, e2e.NODE, 'plugins_registry', f'{e2e.GPU}-reg.sock')
        out = subprocess.run([e2e.PEER, path, 'bench', str(ROUNDS), key], check=True, capture_output=True, text=True).stdout
        took = sorted(int(l) for l in out.split())
        for name, at in (('p50', 0.5), ('p90', 0.9), ('p99', 0.99), ('max', 1)):
            print(json.dumps({'name': f'prepare, {name}', 'value': took[min(len(took) - 1, int(len(took) * at))] / 1e6, 'unit': 'ms'}))
    finally:
        sim.end()
        api.process.terminate()
        api.process.wait()
        shutil.rmtree(DISK, ignore_errors=True)
    shutil.rmtree(e2e.TOP, ignore_errors=True)


main()

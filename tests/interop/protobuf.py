#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""client-go reads everything from `dray server` as JSON and as protobuf; both must say the same. Usage: protobuf.py DRAY"""
import os, shutil, subprocess, sys, tempfile

from common import Server, skip

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    if not shutil.which('go'):
        skip('protobuf answers (needs Go)')
    out = tempfile.mkdtemp(prefix='dray-protobuf-')
    server = None
    try:
        program = os.path.join(out, 'protobuf')
        built = subprocess.run(['go', 'build', '-o', program, '.'], cwd=os.path.join(HERE, 'protobuf'), capture_output=True, text=True)
        if built.returncode:
            skip('protobuf answers (cannot build: ' + built.stderr.strip().split('\n')[-1] + ')')
        server = Server(sys.argv[1])
        return subprocess.run([program, '--kubeconfig', server.kubeconfig]).returncode
    finally:
        if server:
            server.done()
        shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes' conformance asks of the kinds of resource.k8s.io, by client-go against `dray server`. Usage: conformance.py DRAY"""
import os, shutil, subprocess, sys, tempfile

from common import Server, skip

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    if not shutil.which('go'):
        skip('conformance of resource.k8s.io (needs Go)')
    out = tempfile.mkdtemp(prefix='dray-conformance-')
    server = None
    try:
        program = os.path.join(out, 'conformance')
        built = subprocess.run(['go', 'build', '-o', program, '.'], cwd=os.path.join(HERE, 'conformance'), capture_output=True, text=True)
        if built.returncode:
            skip('conformance of resource.k8s.io (cannot build: ' + built.stderr.strip().split('\n')[-1] + ')')
        server = Server(sys.argv[1])
        return subprocess.run([program, '--kubeconfig', server.kubeconfig]).returncode
    finally:
        if server:
            server.done()
        shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())

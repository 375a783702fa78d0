#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""client-go's shared informers against `dray server` that is stopped, killed and started again, with so short a history
that watches must end with 410. Usage: informer.py DRAY"""
import shutil, signal, subprocess, sys, tempfile, time

from common import Server, build_go


def main():
    out = tempfile.mkdtemp(prefix='dray-informer-')
    server = None
    try:
        program = build_go('informer', out)
        server = Server(sys.argv[1], '--history-events', '40')
        run = subprocess.Popen([program, '--kubeconfig', server.kubeconfig, '--seconds', '16'], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
        assert run.stdout.readline() == 'synced\n'
        for how in (signal.SIGTERM, signal.SIGKILL) * 3:
            time.sleep(2)
            server.stop(how)
            time.sleep(0.3)
            server.start()
        verdict = run.stdout.read().strip()
        print('informers across 6 restarts: ' + verdict)
        return run.wait()
    finally:
        if server:
            server.done()
        shutil.rmtree(out, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/setup on a fresh machine, with a package manager that only takes notes: as root `make up` gets an OCI runtime, without root
nothing is asked for that could not be used. Usage: setup.py DRAY (not used)"""
import os, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = ('sh', 'cat', 'cut', 'head', 'mktemp', 'mkdir', 'rm', 'sed', 'uname', 'printf', 'chmod', 'grep', 'pkg-config')


def setup(uid, extra=(), missing=('crun', 'runc'), what='build'):
    """Runs tools/setup; returns its exit code, what it said and the packages it installed."""
    with tempfile.TemporaryDirectory(prefix='dray-setup-') as top:
        def program(name, text):
            with open(os.path.join(top, name), 'w', encoding='utf-8') as f:
                f.write('#!/bin/sh\n' + text + '\n')
            os.chmod(os.path.join(top, name), 0o755)
        for name in TOOLS:
            os.symlink(shutil.which(name) or '/bin/true', os.path.join(top, name))
        program('id', f'echo {uid}')
        program('apt-get', f'echo "$@" >>{top}/log')
        program('dpkg-query', 'for last; do :; done; case " ' + ' '.join(missing) + ' " in *" $last "*) ;; *) echo amd64 installed ;; esac')
        program('dpkg', 'echo amd64')
        program('clang', 'echo /etc/passwd')  # its runtimes are there
        for name in extra:
            program(name, '')
        r = subprocess.run([os.path.join(HERE, 'tools', 'setup'), what], env={'PATH': top, 'TMPDIR': top}, capture_output=True, text=True, timeout=60)
        log = os.path.join(top, 'log')
        lines = open(log, encoding='utf-8').read().splitlines() if os.path.exists(log) else []
        return r.returncode, r.stderr, [w for line in lines if line.startswith('install') for w in line.split()[1:] if w[0] != '-']


def main():
    assert setup(0) == (0, 'tools/setup: installing crun\n', ['crun']), setup(0)
    for runtime in ('crun', 'runc'):
        assert setup(0, [runtime]) == (0, '', []), (runtime, setup(0, [runtime]))
    assert setup(1000) == (0, '', []), setup(1000)
    code, said, installed = setup(1000, missing=('ninja-build',))
    assert code == 1 and 'ninja-build' in said and not installed, (code, said, installed)
    code, said, installed = setup(0, what='test')
    assert code == 0 and installed == ['crun', 'runc'], (code, said, installed)
    print('setup: good')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test data is kept as archives, NAME.tar.xz beside this file. `directory(NAME)` unpacks one, once per content, below
build-data and returns the path. As a program: unpack.py NAME prints it."""
import hashlib, os, shutil, sys, tarfile, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNPACKED = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'build-data')


def directory(name):
    archive = os.path.join(HERE, name + '.tar.xz')
    with open(archive, 'rb') as f:
        target = os.path.join(UNPACKED, f'{name}-{hashlib.sha256(f.read()).hexdigest()[:12]}')
    if os.path.isdir(target):
        return target
    os.makedirs(UNPACKED, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix=name + '.', dir=UNPACKED)
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
    try:
        os.rename(scratch, target)
    except OSError:  # another process was faster
        shutil.rmtree(scratch)
    return target


if __name__ == '__main__':
    print(directory(sys.argv[1]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `dray cel --jsonl` and `dray alloc --jsonl` against Kubernetes' own answers:
runs the scoring scripts, which fail when a bound is missed.

usage: scores.py DRAY"""
import os, subprocess, sys, tempfile

SCORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'score')
CHECKS = (('cel', ''), ('alloc', ''), ('alloc', '--cluster'))  # the last: answered by the index of the whole cluster


def wrapped(folder, dray, flag):
    """A program that is dray with one more flag."""
    path = os.path.join(folder, 'dray' + flag)
    with open(path, 'w') as f:
        f.write(f'#!/bin/sh\nexec "{os.path.abspath(dray)}" "$@" {flag}\n')
    os.chmod(path, 0o755)
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, flag in CHECKS:
            program = wrapped(folder, sys.argv[1], flag) if flag else sys.argv[1]
            run = subprocess.run([sys.executable, os.path.join(SCORE, f'check_{name}.py'), '--dray', program, '--misses', '3'],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                print(run.stdout + run.stderr)
                print(f'{name} {flag}: a bound is missed')
                return 1
    print('all bounds held for ' + ', '.join(f'{name} {flag}'.strip() for name, flag in CHECKS))
    return 0


if __name__ == '__main__':
    sys.exit(main())

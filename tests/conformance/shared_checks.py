#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `dray cel --jsonl` and `dray alloc --jsonl` against Kubernetes' own answers, if the folder ../shared is there:
runs its scoring scripts, which fail when a bound is missed.

usage: shared_checks.py DRAY"""
import os, subprocess, sys

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'shared')
CHECKS = ('cel', 'alloc')


def main():
    if not os.path.isdir(os.path.join(SHARED, 'check')):
        print('skipped: no ../shared folder with the cases')
        return 77
    for name in CHECKS:
        run = subprocess.run([sys.executable, os.path.join(SHARED, 'check', f'check_{name}.py'), '--dray', sys.argv[1], '--misses', '3'],
                             capture_output=True, text=True)
        if run.returncode != 0:
            print(run.stdout + run.stderr)
            print(f'{name}: a bound is missed')
            return 1
    print('all bounds held for ' + ' and '.join(CHECKS))
    return 0


if __name__ == '__main__':
    sys.exit(main())

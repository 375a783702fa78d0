#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the programs are built position-independent, with their relocations done and write-protected before main, a stack that is not executable, checked
copies, stack protection and marks for control-flow protection. Reads the plain build (build-gcc), as `make test` makes it. Usage: hardened.py DRAY"""
import os, re, subprocess, sys

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SANITIZED = b'__asan_init' in open(sys.argv[1], 'rb').read()
TOP = os.path.join(HERE, 'build-gcc') if SANITIZED else os.path.dirname(os.path.abspath(sys.argv[1]))


def readelf(path, *what):
    return subprocess.run(['readelf', '-W', *what, path], capture_output=True, text=True, check=True).stdout


def check(path):
    head, dynamic, symbols = readelf(path, '-hl'), readelf(path, '-d'), readelf(path, '--dyn-syms')
    assert 'Type:                              DYN' in head and 'PIE' in dynamic, 'it is not position-independent'
    assert 'GNU_RELRO' in head and 'BIND_NOW' in dynamic, 'its relocations stay writable'
    stack = re.search(r'GNU_STACK.*', head).group(0)
    assert ' RW ' in stack and 'E' not in stack.split()[6:7], 'its stack is executable'
    loads = [line.split()[6:-1] for line in head.splitlines() if line.strip().startswith('LOAD')]
    flags = [''.join(f) for f in loads]
    assert not any('W' in f and 'E' in f for f in flags), f'something is writable and executable: {flags}'
    assert flags.count('RE') == 1 and 'R' in flags, f'code and constants lie together: {flags}'
    assert '__stack_chk_fail' in symbols, 'no stack protection'
    assert len(set(re.findall(r'__\w+_chk@', symbols))) > 3, 'copies are not checked'
    assert 'TEXTREL' not in dynamic and 'RPATH' not in dynamic and 'RUNPATH' not in dynamic, 'it looks for libraries in odd places, or rewrites its code'
    for needed in re.findall(r'Shared library: \[(.*)\]', dynamic):
        assert '/' not in needed, needed
    if os.uname().machine == 'x86_64':
        code = subprocess.run(['objdump', '-d', '--no-show-raw-insn', path], capture_output=True, text=True).stdout
        assert code.count('endbr64') > 50, 'no marks for control-flow protection'


def main():
    if SANITIZED:
        env = dict(os.environ, TARGETS='dray dray-monitor')
        subprocess.run([HERE + '/tools/build', 'build-gcc', '-Dtests=true', '-Dbench=true', '-Dwerror=true'], cwd=HERE, env=env, check=True)
    for name in ('dray', 'dray-monitor'):
        check(f'{TOP}/{name}')
    print('hardened: dray and dray-monitor are built as they should be')


main()

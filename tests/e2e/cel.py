#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dray cel as people and programs use it, and the help pages.

usage: cel.py DRAY"""
import json, os, subprocess, sys

SLICES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'slices.yaml')
failures = []


def dray(*args, text=''):
    return subprocess.run([sys.argv[1], *args], input=text, capture_output=True, text=True)


def expect(what, got, want):
    if got != want:
        failures.append(f'{what}: want {want!r}, got {got!r}')


def matching():
    r = dray('cel', 'device.driver == "nic.example.com"', '-f', SLICES)
    lines = r.stdout.splitlines()
    expect('a match exits 0', r.returncode, 0)
    expect('last line', lines[-1], '2 of 8 devices match')
    expect('a match', lines[-2], 'nic.example.com/node-c/nic-1: match (cost 4)')
    expect('no match', lines[0], 'gpu.example.com/node-a/gpu-0: no match (cost 4)')
    r = dray('cel', 'device.driver == "none"', '-f', SLICES)
    expect('no match exits 1', (r.returncode, r.stdout.splitlines()[-1]), (1, '0 of 8 devices match'))


def failing():
    r = dray('cel', 'device.attributes["gpu.example.com"].index < 1', '-f', SLICES)
    expect('errors stand together', r.stdout.splitlines()[6:], [
        'nic.example.com/node-c/nic-0: error (cost 5)',
        'ERROR: <input>:1:37: no such key: index',
        ' | device.attributes["gpu.example.com"].index < 1',
        ' | ....................................^',
        '   hint: guard the attribute with has(...), or read it with .? and orValue(...)',
        '   the same for 1 more device',
        '2 of 8 devices match, 2 could not be evaluated'])
    r = dray('cel', 'device.attribute', '-f', SLICES)
    expect('compile error', (r.returncode, r.stdout, r.stderr.splitlines()[0]),
           (1, '', "compilation failed: ERROR: <input>:1:7: undefined field 'attribute'"))
    expect('no such file', dray('cel', 'true', '-f', '/nonexistent').stderr,
           'dray cel: /nonexistent: cannot open: No such file or directory\n')
    r = dray('cel', 'true', '-f', '-', text='kind: Pod\n')
    expect('no slices', (r.returncode, 'no devices' in r.stderr), (1, True))
    r = dray('cel', 'true', '-f', '-', text='a: [\n')
    expect('bad YAML names its place', (r.returncode, r.stderr.startswith('dray cel: <stdin>:2:1: invalid YAML')), (1, True))


def checking():
    r = dray('cel', '--check', 'device.driver == "x"')
    expect('check', (r.returncode, r.stdout.splitlines()[0]), (0, 'type: bool'))
    expect('too long', dray('cel', '--check', '"' + 'x' * 10240 + '" == ""').returncode, 1)


def answering():
    questions = [{'id': '1', 'expr': '1 + 1', 'env': 'generic'}, {'id': '2', 'expr': '1 +', 'env': 'dra'}]
    text = json.dumps(questions[0]) + '\nnot json\n' + json.dumps(questions[1]) + '\n'
    r = dray('cel', '--jsonl', text=text)
    answers = [json.loads(line) for line in r.stdout.splitlines()]
    expect('one answer a line, in order', (r.returncode, len(answers)), (0, 3))
    expect('value', (answers[0]['id'], answers[0]['value']), ('1', {'int': '2'}))
    expect('a bad line is answered', 'inputError' in answers[1], True)
    expect('compile error', (answers[2]['id'], bool(answers[2].get('compileError'))), ('2', True))


def helping():
    every = dray('help', 'all').stdout
    for verb in ('cel', 'convert', 'explain', 'validate', 'version'):
        expect(f'help lists {verb}', f'\n  {verb} ' in every, True)
        expect(f'{verb} --help', dray(verb, '--help').stdout.startswith(f'dray {verb}: '), True)
        expect(f'help {verb}', dray('help', verb).stdout, dray(verb, '--help').stdout)
    expect('unknown verb', (dray('frob').returncode, dray('help', 'frob').returncode), (2, 2))
    expect('unknown option', dray('cel', '--frob', 'true').returncode, 2)


for part in (matching, failing, checking, answering, helping):
    part()
for f in failures:
    print(f)
print('dray cel answers people and programs' if not failures else f'{len(failures)} wrong')
sys.exit(1 if failures else 0)

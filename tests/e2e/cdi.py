#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verb cdi as a user meets it. usage: cdi.py DRAY"""
import json
import os
import stat
import subprocess
import sys
import tempfile

GOOD = '''cdiVersion: 0.7.0
kind: vendor.com/gpu
containerEdits:
  env: [ALL=1]
  additionalGids: [44]
devices:
- name: 0
  containerEdits:
    env: [GPU=0]
    deviceNodes: [{path: /dev/gpu0, hostPath: /dev/null}]
- name: "1"
  containerEdits:
    mounts: [{hostPath: /opt/lib, containerPath: /usr/lib/gpu, options: [ro, rbind]}]
    hooks: [{hookName: createContainer, path: /bin/hook, args: [hook, x]}]
'''
CONFIG = {'ociVersion': '1.2.0', 'process': {'user': {'uid': 1000, 'gid': 0}, 'env': ['PATH=/bin', 'GPU=old'], 'cwd': '/'},
          'mounts': [{'destination': '/a/b/c/d'}], 'future': {'kept': 1.50}}


def run(*args, data=b''):
    return subprocess.run([DRAY, 'cdi', *args], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check(what, condition, run_result=None):
    if not condition:
        print(f'failed: {what}')
        if run_result:
            print(run_result.stdout.decode(errors='replace')[:2000], run_result.stderr.decode()[:2000])
        sys.exit(1)


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def lists(static, dynamic):
    dirs = ('--dir', static, f'--dir={dynamic}')
    out = run('list', *dirs)
    check('no folders yet', out.returncode == 0 and out.stdout == b'no devices\n', out)
    os.mkdir(static)
    os.mkdir(dynamic)
    write(f'{static}/gpu.yaml', GOOD)
    write(f'{dynamic}/broken.json', '{"cdiVersion": "0.7.0",\n "kinds": 1}')
    out = run('list', *dirs)
    check('both devices', out.stdout.decode().split() ==
          ['DEVICE', 'SPEC', 'vendor.com/gpu=0', f'{static}/gpu.yaml', 'vendor.com/gpu=1', f'{static}/gpu.yaml'], out)
    check('the broken file has its place', out.returncode == 0 and
          f'{dynamic}/broken.json:2:2: unknown field "kinds"'.encode() in out.stderr, out)
    out = run('list', *dirs, '-o', 'json')
    check('as JSON', [d['name'] for d in json.loads(out.stdout)] == ['vendor.com/gpu=0', 'vendor.com/gpu=1'], out)
    return dirs


def inspects(dirs):
    out = run('inspect', *dirs, 'vendor.com/gpu=1', '-o', 'json')
    got = json.loads(out.stdout)
    check('a device', got['device']['containerEdits']['mounts'][0]['options'] == ['ro', 'rbind'], out)
    check('edits for all', got['containerEdits'] == {'env': ['ALL=1'], 'additionalGids': [44]}, out)
    out = run('inspect', *dirs, 'vendor.com/gpu=0')
    check('as YAML', b'name: vendor.com/gpu=0\n' in out.stdout and b'    - GPU=0\n' in out.stdout, out)
    out = run('inspect', *dirs, 'vendor.com/gpu=7', 'vendor.com/gpu=0', 'x')
    check('all missing ones are named', out.returncode == 1 and b'no spec offers: vendor.com/gpu=7, x\n' in out.stderr, out)


def validates(folder):
    good, bad = f'{folder}/good.yaml', f'{folder}/bad.yaml'
    write(good, GOOD)
    write(bad, GOOD.replace('0.7.0', '0.5.0').replace('GPU=0', 'GPU'))
    out = run('validate', good)
    check('a good one', out.returncode == 0 and b'good.yaml: good, vendor.com/gpu, version 0.7.0, 2 devices\n' in out.stdout, out)
    out = run('validate', bad, good, f'{folder}/none')
    lines = out.stderr.decode().splitlines()
    check('every problem', out.returncode == 1 and len(lines) == 3 and b': good' in out.stdout, out)
    check('the version', lines[0].startswith(f'{bad}:1:13: cdiVersion: ') and '0.7.0' in lines[0], out)
    check('the variable', lines[1].startswith(f'{bad}:9:11: devices[0].containerEdits.env[0]: '), out)
    check('the file', lines[2].startswith(f'{folder}/none: cannot open'), out)


def applies(folder, dirs):
    config, target = f'{folder}/config.json', f'{folder}/out.json'
    write(config, json.dumps(CONFIG))
    names = ('vendor.com/gpu=1', 'vendor.com/gpu=0')
    out = run('apply', '--spec', config, *dirs, *names)
    check('applied', out.returncode == 0, out)
    got = json.loads(out.stdout)
    check('variables', got['process']['env'] == ['PATH=/bin', 'GPU=0', 'ALL=1'], out)
    check('groups', got['process']['user']['additionalGids'] == [44], out)
    check('mounts by depth', [m['destination'] for m in got['mounts']] == ['/usr/lib/gpu', '/a/b/c/d'], out)
    check('hooks', got['hooks'] == {'createContainer': [{'path': '/bin/hook', 'args': ['hook', 'x']}]}, out)
    node = got['linux']['devices'][0]
    check('the host\'s node', (node['type'], node['major'], node['minor'], node['uid']) == ('c', 1, 3, 1000) and 'gid' not in node, out)
    check('its rule', got['linux']['resources']['devices'] ==
          [{'allow': True, 'type': 'c', 'major': 1, 'minor': 3, 'access': 'rwm'}], out)
    check('unknown fields stay', got['future'] == {'kept': 1.5} and got['ociVersion'] == '1.2.0', out)
    out = run('apply', '--spec', '-', '-o', target, *dirs, *names, data=out.stdout)
    with open(target) as f:
        check('again changes nothing', json.load(f) == got and out.stdout == b'', out)
    check('the file is readable', stat.S_IMODE(os.stat(target).st_mode) == 0o644)
    out = run('apply', '--spec', config, *dirs, '-o', f'{folder}/never', 'vendor.com/gpu=9')
    check('nothing half done', out.returncode == 1 and not os.path.exists(f'{folder}/never'), out)
    out = run('apply', '--spec', '-', *dirs, *names, data=b'{"process": 1}')
    check('a wrong configuration', out.returncode == 1 and b'"process"' in out.stderr, out)
    out = run('apply', '--spec', '-', *dirs, *names, data=b'{')
    check('no configuration', out.returncode == 1 and b'<stdin>:1:' in out.stderr, out)


def usage():
    for args in ((), ('bogus',), ('list', 'x'), ('list', '-o', 'yaml'), ('inspect',), ('validate',), ('apply', 'v/c=a'),
                 ('apply', '--spec', 'x'), ('list', '--dir')):
        out = run(*args)
        check(f'usage {args}', out.returncode == 2, out)


DRAY = sys.argv[1]
with tempfile.TemporaryDirectory() as top:
    where = lists(f'{top}/etc', f'{top}/run')
    inspects(where)
    validates(top)
    applies(top, where)
usage()
print('cdi does as it says')

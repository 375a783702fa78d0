#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as a user types it: help, mistakes, completion; then get, apply, wait, describe and delete against `dray up`, logs and
exec against a node's endpoint, and screens of 80 and 200 columns through a terminal. Usage: cli.py DRAY"""
import fcntl, json, os, pty, re, select, shlex, shutil, signal, struct, subprocess, sys, tempfile, termios, threading, time

import streams
from streams import expect, failures

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(HERE, 'examples', 'claim.yaml')
TIMEOUT = 120
ENV = {k: v for k, v in os.environ.items() if k not in ('KUBECONFIG', 'NO_COLOR')}


def dray(*words, stdin='', kubeconfig=None, program=DRAY):
    """(exit status, standard output, standard error)"""
    env = dict(ENV, **({'KUBECONFIG': kubeconfig} if kubeconfig else {}))
    r = subprocess.run([program, *words], input=stdin, capture_output=True, text=True, env=env, timeout=TIMEOUT)
    if 'Sanitizer' in r.stderr:
        failures.append(f'{words}: {r.stderr[-3000:]}')
    return r.returncode, r.stdout, r.stderr


def on_terminal(columns, *words, kubeconfig=None, keys=b'', env=None):
    """What a terminal of so many columns shows, and the exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(dict(ENV, TERM='xterm', **({'KUBECONFIG': kubeconfig} if kubeconfig else {}), **(env or {})))
        time.sleep(0.05)  # the size comes from outside
        os.execv(DRAY, [DRAY, *words])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))
    shown, sent, end = b'', False, time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 1)
        try:
            part = os.read(fd, 65536) if ready else None
        except OSError:
            break
        if part == b'':
            break
        shown += part or b''
        if keys and not sent and b'ready$' in shown:
            os.write(fd, keys)
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), shown.decode().replace('\r\n', '\n')


class Up:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='dray-cli-')
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')
        self.process = subprocess.Popen([DRAY, 'up', '--data-dir', self.folder, '--listen', '127.0.0.1:0', '--nodes', '2'], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if 'dray is up at' not in line:
            raise RuntimeError(self.process.communicate(timeout=TIMEOUT))

    def __call__(self, *words, **kw):
        return dray(*words, kubeconfig=self.kubeconfig, **kw)

    def done(self):
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=TIMEOUT)
        expect('up ends well', (self.process.returncode, 'Sanitizer' in errors), (0, False))
        shutil.rmtree(self.folder)


# --- Without a cluster ----------------------------------------------------------------------------

def helps():
    verbs = re.findall(r'^  ([a-z-]+) +\S', dray('help')[1], re.M)
    everything = re.findall(r'^  ([a-z-]+) +\S', dray('help', 'all')[1], re.M)
    expect('help lists what people use every day', set(verbs), set('up down get apply delete describe logs exec why free who top doctor plan request taint'.split()))
    expect('help all lists the others, too', (set(verbs) <= set(everything), {'server', 'wait', 'completion', 'sched-case'} - set(everything)), (True, set()))
    expect('a subverb has a page of its own', dray('help', 'token', 'create'), dray('token', 'create', '--help'))
    expect('that begins with its name', dray('token', '--ttl', '1h', 'create', '-h')[1].startswith('dray token create: create a token\n'), True)
    for verb in ('get', 'up', 'exec', 'plan', 'completion'):
        code, out, err = dray(verb, '--help')
        expect(f'help of {verb}', (code, out.startswith(f'dray {verb}: '), err), (0, True, ''))
        expect(f'help {verb}', dray('help', verb), (code, out, err))
        expect(f'{verb} x -h', dray(verb, 'x', '-h'), (code, out, err))
    for verb in everything:
        out = dray(verb, '--help')[1]
        expect(f'one look of {verb}', (out.startswith(f'dray {verb}: '), f'\n\nUsage:\n  dray {verb}' in out, '\n\nExamples:\n  ' in out), (True, True, True))


def mistakes():
    for words, want in ((['gte'], "did you mean 'get'?"), (['descrbe'], "did you mean 'describe'?"), (['get', 'pods', '--selctor', 'a=b'], "did you mean '--selector'?"),
                        (['server', '--data-di=x'], "did you mean '--data-dir'?"), (['get', 'pods', '-o', 'jsn'], "did you mean 'json'?"),
                        (['wait', 'pod/a', '--for=redy'], '--for is condition=NAME'), (['logs', '--tail', 'x', 'a'], '--tail needs a number'),
                        (['apply'], '--filename FILE is missing'), (['exec', 'a'], 'POD -- COMMAND'), (['get', 'pods', '-n'], '--namespace needs a value'),
                        (['get', 'pods', '-o', 'jsonpath={.a'], "the '{' is not closed")):
        code, out, err = dray(*words)
        expect(f'{words}: exit, lines, meant', (code, out, err.count('\n'), want in err), (2, '', 1, True))
    for verb in re.findall(r'^  ([a-z-]+) +\S', dray('help', 'all')[1], re.M):
        for words in ((verb, '--no-such-flag'), (verb, 'no', 'such', 'words', 'here', '--no-such-flag')):
            if verb == 'request':  # takes any flag for an attribute of devices
                continue
            code, out, err = dray(*words)
            expect(f'{words}: exit, lines', (code, out if code else '', err.count('\n'), err.startswith('dray')), (2, '', 1, True))
    for words in (['get', 'pods', '--sort-by', 'x'], ['get', 'pods', '-o', 'custom-columns=A:.b'], ['apply', '-k', '.'], ['logs', '-l', 'a=b']):
        code, out, err = dray(*words)
        expect(f'{words}: kubectl has it', (code, out, 'of kubectl, which works with this cluster' in err), (2, '', True))
    for words in (['agent', '--frob'], ['cel', '--frob'], ['validate', '--frob'], ['driver', 'sim', '--frob'], ['bench', 'api', '--frob'], ['conformance', '--frob']):
        expect(f'{words}: the flag is named', "unknown flag '--frob'" in dray(*words)[2], True)
    code, out, err = dray('up', '--apply', '/nonexistent')
    expect('a file that is not there', (code, out, err.count('\n'), 'cannot read /nonexistent' in err), (2, '', 1, True))
    expect('a flag before a verb that does not have it', dray('-n', 'a', 'cel', 'true')[0], 2)
    expect('flags and no verb', dray('--kubeconfig', 'a'), (2, '', "dray: no verb behind '--kubeconfig' ('dray help' lists verbs)\n"))
    code, out, err = dray('--kubeconfig', '/nonexistent', 'get', 'pods')
    expect('no such file, before the verb', (code, out, err), (1, '', 'dray get: cannot read /nonexistent: No such file or directory\n'))
    code, out, err = dray('get', 'pods', '--kubeconfig', '/nonexistent')
    expect('no such file', (code, out, err), (1, '', 'dray get: cannot read /nonexistent: No such file or directory\n'))


def completion():
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, 'dray.bash')
        with open(script, 'w') as f:
            f.write(dray('completion', 'bash')[1])

        def complete(*words):
            text = f'dray() {{ {DRAY} "$@"; }}; source {script}; COMP_WORDS=({" ".join(shlex.quote(w) for w in words)}); COMP_CWORD={len(words) - 1}; _dray; echo ${{COMPREPLY[@]}}'
            return subprocess.run(['bash', '-c', text], capture_output=True, text=True).stdout.split()
        expect('verbs', complete('dray', 'des'), ['describe'])
        expect('flags', complete('dray', 'get', '--all-'), ['--all-namespaces'])
        expect('flags of a server', complete('dray', 'server', '--data-d'), ['--data-dir'])
        expect('subverbs', complete('dray', 'token', ''), ['create', 'list', 'delete'])
        expect('flags of subverbs', complete('dray', 'token', 'create', '--pr'), ['--print-join-command'])
        expect('choices', complete('dray', 'get', 'pods', '-o', 'js'), ['json', 'jsonpath='])
        expect('kinds', complete('dray', 'get', 'resourcecl'), ['resourceclaims', 'resourceclaimtemplates'])
    for shell, word in (('zsh', '#compdef dray'), ('fish', 'complete -c dray')):
        expect(shell, word in dray('completion', shell)[1], True)
        expect(f'{shell} asks the program', 'dray completion --candidates -- ' in dray('completion', shell)[1], True)
    everything = re.findall(r'^  ([a-z-]+) +\S', dray('help', 'all')[1], re.M)
    offered = dray('completion', '--candidates', '--', '')[1]
    expect('every verb is offered', [l.split('\t')[0] for l in offered.splitlines()], sorted(everything))


# --- Against a cluster ----------------------------------------------------------------------------

def objects(up):
    code, out, err = up('apply', '-f', EXAMPLE)
    expect('created', (code, out.split('\n')[1:3], err), (0, ['resourceclaimtemplate.resource.k8s.io/large-gpu created', 'pod/trainer created'], ''))
    expect('wait', up('wait', 'pod/trainer', '--for=condition=Ready', '--timeout=60s'), (0, 'pod/trainer condition met\n', ''))
    expect('wait for a value', up('wait', 'pods', '--all', "--for=jsonpath={.status.phase}=Running"), (0, 'pod/trainer condition met\n', ''))
    # At rest: what others write between reading and applying would count as a change.
    code, out, err = up('apply', '-f', '-', stdin=open(EXAMPLE).read())
    expect('unchanged', (code, [line.split()[1] for line in out.splitlines()]), (0, ['unchanged'] * 3))
    code, out, err = up('wait', 'pod', 'trainer', '--for=condition=Odd', '--timeout=300ms')
    expect('wait in vain', (code, out, err), (1, '', 'dray wait: timed out waiting for condition=Odd of pod/trainer\n'))
    rows = [line.split() for line in up('get', 'pods', '-o', 'wide')[1].splitlines()]
    expect('a table', (rows[0][:5], rows[1][:3]), (['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE'], ['trainer', '1/1', 'Running']))
    claim = up('get', 'claims', '-o', 'jsonpath={.items[0].metadata.name}')[1]
    expect('several kinds', [line.split()[0] for line in up('get', 'claims,pods')[1].splitlines() if line],
           ['NAME', 'resourceclaim.resource.k8s.io/' + claim, 'NAME', 'pod/trainer'])
    expect('everywhere', up('get', 'po', '-A', '--no-headers')[1].split()[:2], ['default', 'trainer'])
    expect('labels', 'kubernetes.io/os=linux' in up('get', 'nodes', '--show-labels')[1], True)
    expect('nothing', up('get', 'pods', '-l', 'a=b'), (0, '', 'No resources found in default namespace.\n'))
    expect('not there', up('get', 'pod', 'nobody'), (1, '', 'dray get: pods "nobody" not found\n'))
    expect('no kind', up('get', 'frobs'), (1, '', "dray get: the server has no kind 'frobs'\n"))
    whole = json.loads(up('get', 'pod/trainer', '-o', 'json')[1])
    expect('an object', (whole['kind'], 'managedFields' in whole['metadata']), ('Pod', False))
    expect('as yaml', up('get', 'pod/trainer', '-o', 'yaml')[1].startswith('apiVersion: v1\nkind: Pod\n'), True)
    expect('names', up('get', 'nodes', '-o', 'name')[1], 'node/example-gpu-0\nnode/example-gpu-1\n')
    for flags in (['--kubeconfig', up.kubeconfig, '-n', 'default'], ['-n=default', '--kubeconfig=' + up.kubeconfig]):
        expect(f'flags before the verb: {flags[0]}', dray(*flags, 'get', 'pods', '-o', 'name'), (0, 'pod/trainer\n', ''))
    return claim


def words(up, claim):
    code, out, _ = up('describe', 'pod', 'trainer')
    expect('a pod in words', (code, f'gpu: {claim} (of template large-gpu)' in out, 'Conditions:' in out, 'Events:' in out), (0, True, True, True))
    code, out, _ = up('describe', 'claim/' + claim)
    expect('a claim in words', re.search(r'Wants: +1 of class gpu.example.com[^$]*Got: +device gpu-\d of pool example-gpu-\d, driver gpu.example.com\nIn use by: +pods/trainer', out) is not None, True)
    expect('slices, classes, nodes', [up('describe', k)[0] for k in ('slices', 'classes', 'nodes', 'templates', 'sa', 'cm')], [0] * 6)
    expect('nobody in words', up('describe', 'pod', 'nobody'), (1, '', 'dray describe: pods "nobody" not found\n'))


def conflicts(up):
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: %s}\n'
    expect('one manager', up('apply', '-f', '-', '--field-manager', 'one', stdin=text % 1)[0], 1)  # a number is no text
    expect('a good one', up('apply', '-f', '-', '--field-manager', 'one', stdin=text % 'x')[:2], (0, 'configmap/cm created\n'))
    code, out, err = up('apply', '-f', '-', stdin=text % 'w')
    expect('a conflict', (code, out, 'conflict with "one"' in err, err.count('\n')), (1, '', True, 1))
    expect('taken over', up('apply', '-f', '-', '--force-conflicts', stdin=text % 'w')[:2], (0, 'configmap/cm configured\n'))
    expect('dry', up('apply', '-f', '-', '--dry-run', stdin=text % 'z')[:2], (0, 'configmap/cm configured (dry run)\n'))
    expect('dry, as kubectl says it', up('apply', '-f', '-', '--dry-run=server', stdin=text % 'z')[:2], (0, 'configmap/cm configured (dry run)\n'))
    expect('a dry deletion', up('delete', 'cm', 'cm', '--dry-run=client')[:2], (0, 'configmap "cm" deleted (dry run)\n'))
    expect('not changed', up('get', 'cm', 'cm', '-o', 'jsonpath={.data.a}')[1], 'w')


def everyday(up):
    """Label columns, names for completion, and lines of what the server refuses."""
    header, row = up('get', 'nodes', '-L', 'dray.dev/profile,no.such/label')[1].split('\n')[:2]
    expect('label columns', (header.split()[-2:], row.split()[-1]), (['PROFILE', 'LABEL'], 'example-gpu'))
    names = lambda *words: [line.split('\t')[0] for line in up('completion', '--candidates', '--', *words)[1].split('\n') if line]
    expect('nodes', names('topo', 'example-gpu-1'), ['example-gpu-1'])
    expect('names of a kind', names('get', 'node', 'example-gpu-0'), ['example-gpu-0'])
    expect('names behind a kind', names('describe', 'node/example-gpu-0'), ['node/example-gpu-0'])
    expect('classes', names('free', '--class', 'gpu.'), ['gpu.example.com'])
    expect('devices', 'gpu-7' in names('who', 'gpu-'), True)
    expect('objects of a namespace', names('get', 'sa', '-n', 'kube-public', 'def'), ['default'])
    expect('profiles', 'nvidia-a100-mig' in names('up', '--sim', 'nvidia-a100'), True)
    pod = 'apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  containers:\n  - name: c\n    %s\n'
    for line, want in (('imag: x', '<stdin>:7: pod/bad: '), ('image: x\n    resources: {limits: {cpu: -1}}', '<stdin>:8: pod/bad: '),
                       ('image: "x "', '<stdin>:7: pod/bad: ')):
        code, _, err = up('apply', '-f', '-', stdin=pod % line)
        expect(f'line of {line!r}', (code, err.startswith('dray apply: ' + want)), (1, True))


def watching(up):
    """-w shows what is, then what comes, in the same columns."""
    w = subprocess.Popen([DRAY, 'get', 'pods', '-w'], stdout=subprocess.PIPE, text=True, env=dict(ENV, KUBECONFIG=up.kubeconfig))
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(iter(w.stdout.readline, '')), daemon=True)
    reader.start()
    streams.wait_for('the first rows', lambda: len(lines) >= 2, TIMEOUT)
    pod = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'b'}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}}
    expect('another pod', up('apply', '-f', '-', stdin=json.dumps(pod))[0], 0)
    streams.wait_for('it runs', lambda: any(line.startswith('b ') and 'Running' in line for line in lines), TIMEOUT)
    w.send_signal(signal.SIGINT)
    w.wait(timeout=TIMEOUT)
    reader.join()
    expect('ages make sense', [line for line in lines if '<invalid>' in line or '<unknown>' in line], [])
    expect('columns stay', len({line.index(word) for line in lines for word in ('Pending', 'Running', 'STATUS') if word in line}), 1)


def screens(up):
    for columns in (40, 80, 200):
        for what in (['get', 'slices', '-o', 'wide'], ['get', 'nodes', '--show-labels']):
            code, shown = on_terminal(columns, *what, kubeconfig=up.kubeconfig)
            plain = re.sub('\x1b\\[[0-9;]*m', '', shown)
            expect(f'{what} at {columns}', (code, max(map(len, plain.splitlines())) <= columns, '\x1b[1m' in shown), (0, True, True))
            expect(f'cut at {columns}', '…' in plain, columns < 80 or (columns == 80 and 'slices' in what) or (columns == 80 and '--show-labels' in what))
    expect('NO_COLOR', '\x1b' in on_terminal(80, 'get', 'pods', kubeconfig=up.kubeconfig, env={'NO_COLOR': '1'})[1], False)
    expect('colour of a state', '\x1b[32mRunning' in on_terminal(80, 'get', 'pods', kubeconfig=up.kubeconfig)[1], True)
    expect('a pipe has none', '\x1b' in up('get', 'pods')[1], False)
    expect('unless it is forced', '\x1b' in up('get', 'pods', '--color=always')[1], True)


def deleting(up):
    expect('nobody', up('delete', 'pod', 'nobody'), (1, '', 'dray delete: pods "nobody" not found\n'))
    expect('which', up('delete', 'pods')[0], 2)
    expect('by label', up('delete', 'pods', '-l', 'a=b'), (0, '', 'No resources found\n'))
    expect('one', up('delete', 'pod', 'b', '--timeout', '60s'), (0, 'pod "b" deleted\n', ''))
    code, out, _ = up('delete', '-f', EXAMPLE)
    expect('files', (code, [line.split()[1:] for line in out.splitlines()]), (0, [['"gpu.example.com"', 'deleted'], ['"large-gpu"', 'deleted'], ['"trainer"', 'deleted']]))
    expect('all gone', up('get', 'pods')[1:], ('', 'No resources found in default namespace.\n'))
    expect('wait for what is gone', up('wait', 'pod/trainer', '--for=delete')[0], 0)


def choosing(up):
    """A cluster that KUBECONFIG names and that cannot be found is an error for every verb; the `dray up` of this machine is not taken instead."""
    home = os.path.join(up.folder, 'home')
    for name in ('.dray', '.kube'):
        os.makedirs(os.path.join(home, name))
    shutil.copy(up.kubeconfig, os.path.join(home, '.dray', 'admin.kubeconfig'))

    def run(kubeconfig, *words):
        env = dict(ENV, HOME=home, **({} if kubeconfig is None else {'KUBECONFIG': kubeconfig}))
        r = subprocess.run([DRAY, *words], capture_output=True, text=True, env=env, timeout=TIMEOUT)
        return r.returncode, r.stdout + r.stderr

    def file(name, text):
        path = os.path.join(up.folder, name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        return path
    whole = open(up.kubeconfig, encoding='utf-8').read()
    missing, empty = os.path.join(up.folder, 'missing'), file('empty', '')
    broken, aimless = file('broken', 'clusters: ['), file('aimless', whole.replace('current-context: ', 'current-context: x'))
    expect('a config map', up('apply', '-f', '-', stdin='{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}')[0], 0)
    for bad in (missing, empty, broken, aimless, f'{missing}:{missing}2', f'{missing}:{empty}', ':'):
        for words in (['get', 'configmaps'], ['delete', 'configmap', 'kept'], ['apply', '-f', EXAMPLE], ['describe', 'nodes'], ['why', 'kept'], ['free'], ['doctor'], ['plan'],
                      ['snapshot', 'save', missing + '.json'], ['wait', 'configmap/kept', '--for=delete', '--timeout=1s'], ['logs', 'kept'], ['token', 'list'],
                      ['request', 'gpu'], ['who', 'gpu'], ['taint', 'gpu', 'a:NoSchedule', '--dry-run'], ['history', 'claim/kept'], ['topo', 'n'], ['conformance', '--only', 'x']):
            code, said = run(bad, *words)
            named = bad == ':' or bad == aimless or bad.split(':')[-1].rstrip('2') in said
            if code == 0 or not named or 'KUBECONFIG' not in said and bad != aimless:
                failures.append(f'KUBECONFIG={bad} {words}: {code} {said[:300]}')
    expect('nothing was deleted', up('get', 'configmap', 'kept')[0], 0)
    for good in (None, '', f'{missing}:{up.kubeconfig}', f':{up.kubeconfig}'):
        expect(f'KUBECONFIG={good}', run(good, 'get', 'configmap', 'kept')[0], 0)
    shutil.copy(aimless, os.path.join(home, '.kube', 'config'))
    code, said = run(None, 'get', 'configmap', 'kept')
    expect('a default file without a usable context', (code, 'context' in said), (1, True))


def plugin(up):
    """kubectl finds the program as kubectl-dray."""
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, 'kubectl-dray')
        os.symlink(DRAY, link)
        expect('kubectl dray get', up('get', 'ns', '-o', 'name', program=link), up('get', 'ns', '-o', 'name'))


# --- Containers -----------------------------------------------------------------------------------

def containers(w):
    log = os.path.join(w.top, 'cli.log')
    with open(log, 'w') as f:
        f.write(streams.line(1, 'stdout', 'one') + streams.line(2, 'stderr', 'two'))
    w.make_pod('box', ('main', 'side'))
    w.run('box', 'main', 'running', log, log)
    run = lambda *words, **kw: dray(*words, kubeconfig=w.kubeconfig, **kw)
    note = 'container main of: main side\n'
    expect('logs', run('logs', 'box'), (0, 'one\ntwo\n', note))
    expect('the last line', run('logs', 'pod/box', 'main', '--tail=1'), (0, 'two\n', ''))
    expect('before', run('logs', 'box', '-c', 'main', '-p')[:2], (0, 'one\ntwo\n'))
    expect('no such container', run('logs', 'box', '-c', 'x'), (2, '', "dray logs: the pod has no container 'x'; there is: main side (see 'dray help logs')\n"))
    expect('no such pod', run('logs', 'nobody'), (1, '', 'dray logs: pods "nobody" not found\n'))
    expect('exec', run('exec', 'box', '-c', 'main', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7'), (7, 'out\n', 'err\n'))
    expect('input', run('exec', '-i', 'box', '-c', 'main', '--', 'wc', '-c', stdin='x' * 300000), (0, '300000\n', ''))
    expect('no input', run('exec', 'box', '-c', 'main', '--', 'cat'), (0, '', ''))
    expect('help of the command is its own', run('exec', 'box', '-c', 'main', '--', 'echo', '--help')[0], 0)
    # The size comes after the command has begun, as with kubectl.
    size = 'for i in $(seq 200); do [ "$(stty size)" = "40 97" ] && break; sleep 0.05; done; stty size'
    code, shown = on_terminal(97, 'exec', '-it', 'box', '-c', 'main', '--', 'sh', '-c', size + '; echo "ready$"; read x; echo "got $x"; exit 3',
                              kubeconfig=w.kubeconfig, keys=b'abc\r')
    expect('a terminal', (code, '40 97' in shown, 'got abc' in shown), (3, True, True))
    expect('exec of nothing', run('exec', 'box', '-c', 'main', '--', '/no/such/file')[0] != 0, True)


def main():
    helps()
    mistakes()
    completion()
    up = Up()
    try:
        claim = objects(up)
        words(up, claim)
        conflicts(up)
        everyday(up)
        watching(up)
        screens(up)
        deleting(up)
        choosing(up)
        plugin(up)
    finally:
        up.done()
    w = streams.World(DRAY)
    try:
        containers(w)
    finally:
        w.done()
    for f in failures:
        print('FAIL', f)
    print('cli:', 'failed' if failures else 'ok')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

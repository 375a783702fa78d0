#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees, in a real terminal (tmux) of 80 and of 200 columns: no line of any verb is wider than the screen, what is cut says so,
colours are there unless NO_COLOR says no, and `dray top` answers keys, follows the terminal's size and gives the terminal back.
Usage: screens.py DRAY"""
import concurrent.futures, os, re, shutil, subprocess, sys, tempfile, time

from up import Cluster, DRAY, HERE

ROWS = 60
TIMEOUT = 90
PROMPT = 'ready$'


class Screen:
    """A shell in a terminal of its own."""

    def __init__(self, columns, kubeconfig, **env):
        self.name = f'dray-{os.getpid()}-{columns}-{len(env)}'
        self.columns = columns
        keep = {k: v for k, v in os.environ.items() if k not in ('KUBECONFIG', 'NO_COLOR', 'TMUX', 'COLUMNS')}
        self.env = dict(keep, KUBECONFIG=kubeconfig, PS1=PROMPT + ' ', LC_ALL='C.UTF-8', PATH=os.path.dirname(DRAY) + ':' + os.environ['PATH'], **env)
        self.tmux('-f', '/dev/null', 'start-server', ';', 'set-option', '-g', 'history-limit', '20000', ';', 'new-session', '-d', '-x', str(columns), '-y', str(ROWS), 'bash', '--norc', '--noprofile')
        self.wait(lambda text: PROMPT in text, 'a shell')

    def tmux(self, *words):
        r = subprocess.run(['tmux', '-u', '-L', self.name, *words], env=self.env, cwd=HERE, capture_output=True, text=True, timeout=30)
        assert r.returncode == 0, (words, r.stderr)
        return r.stdout

    def close(self):
        subprocess.run(['tmux', '-L', self.name, 'kill-server'], capture_output=True)

    def seen(self, *how):
        """The screen and what has scrolled away; lines that the terminal had to break are whole again."""
        return self.tmux('capture-pane', '-p', '-J', '-S', '-', *how)

    def wait(self, good, what):
        end = time.monotonic() + TIMEOUT
        while True:
            text = self.seen()
            if good(text):
                return text
            assert time.monotonic() < end, f'{self.columns} columns: {what} did not come:\n{text}'
            time.sleep(0.05)

    def run(self, command, *how):
        """What a command shows."""
        self.tmux('send-keys', '-R')
        self.tmux('clear-history')
        self.tmux('send-keys', '-l', f' {command}; printf "%s %d\\n" over $?')
        self.tmux('send-keys', 'Enter')
        self.wait(lambda text: re.search(r'^over \d+', text, re.M), command)
        text = self.seen(*how)
        return text[text.index('\n') + 1:text.rindex('over ')]

    def keys(self, *keys):
        self.tmux('send-keys', *keys)

    def flag(self, name):
        return self.tmux('display-message', '-p', '#{' + name + '}').strip()


def check(where, condition, shown):
    assert condition, f'{where}:\n{shown}'


def lines_fit(screen, where, shown):
    for line in shown.split('\n'):
        check(f'{where} at {screen.columns} columns: a line of {len(line.rstrip())}', len(line.rstrip()) <= screen.columns, line)


# What every verb has to show, whatever the width. Words may be anywhere.
COMMANDS = (
    ('dray get nodes', ['NAME', 'STATUS', 'example-gpu-0', 'Ready']),
    ('dray get pods -o wide', ['NAME', 'READY', 'trainer', 'hungry']),
    ('dray get slices', ['NAME', 'DRIVER', '00000-gpu.example.com-example-gpu-0']),
    ('dray get claims', ['STATE', 'allocated,reserved', 'pending']),
    ('dray free', ['CLASS', 'DEVICES', 'FREE', 'HELD', 'FITS', 'compute-domain-default-channel.nvidia.com']),
    ('dray free --class gpu.example.com', ['NODE', 'FREE NOW', '(all)']),
    ('dray who', ['DEVICE', 'STATE', 'CLAIM', 'POD', 'FOR', 'gpu.example.com/example-gpu-0/gpu-', 'trainer']),
    ('dray topo example-gpu-0', ['DEVICE', 'PHB', 'NUMA', 'PCIE ROOT', 'Legend:']),
    ('dray topo nvidia-a100-mig-0 --all', ['DEVICE', 'PART', 'NUMA', 'PCIE ROOT', '207']),
    ('dray describe pod hungry', ['Name:', 'Conditions:', 'PodScheduled', 'Events:', 'FailedScheduling']),
    ('dray describe slices', ['Driver:', 'Device:', 'Attributes:']),
    ('dray why hungry', ['Pod default/hungry waits', 'What would help', 'Nodes']),
    ('dray plan', ['WHAT', 'pod default/hungry', 'does not fit', '1 of 2 not placed']),
    ('dray doctor', ['server', 'certificates', 'pools', 'waits for devices', 'to look at']),
    ('dray history gpu.example.com/example-gpu-0/gpu-0', ['WHEN', 'WHAT', 'created', 'Not known:']),
    ('dray taint gpu.example.com a=b:NoExecute --dry-run', ['taint a=b:NoExecute for 16 devices', 'evicts trainer']),
    ('dray top --once', ['4 nodes, 432 devices', 'NODE', 'EACH', 'WAITING POD', 'default/hungry']),
    ('dray help', ['Usage: dray VERB', 'Devices:', 'why']),
)


def verbs():
    listed = subprocess.run([DRAY, 'help', 'all'], capture_output=True, text=True, check=True).stdout
    found = re.findall(r'^  ([a-z-]+) +\S', listed, re.M)
    completed = subprocess.run([DRAY, 'completion', '--candidates', '--', ''], capture_output=True, text=True, check=True).stdout
    known = {line.split('\t')[0] for line in completed.splitlines()}
    assert len(found) == len(set(found)) >= 40 and set(found) == known, (set(found) ^ known)
    return found


def look(columns, kubeconfig):
    screen = Screen(columns, kubeconfig)
    try:
        for command, words in COMMANDS:
            shown = screen.run(command)
            lines_fit(screen, command, shown)
            for word in words:
                check(f'{command} at {columns} columns does not show {word!r}', word in shown, shown)
        for verb in verbs():
            shown = screen.run(f'dray {verb} --help')
            lines_fit(screen, f'{verb} --help', shown)
            check(f'{verb} --help', shown.startswith(f'dray {verb}: '), shown)
        live(screen)
    finally:
        screen.close()


def colours(kubeconfig):
    """On a terminal there are some, with NO_COLOR or into a pipe there are none."""
    plain = Screen(100, kubeconfig, NO_COLOR='1')
    bright = Screen(101, kubeconfig)
    try:
        for command in ('dray free', 'dray get pods', 'dray doctor'):
            check(f'{command}: colours', '\x1b[' in bright.run(command, '-e'), command)
            check(f'{command} | cat: colours', '\x1b[' not in bright.run(command + ' | cat', '-e'), command)
            check(f'NO_COLOR {command}: colours', '\x1b[' not in plain.run(command, '-e'), command)
    finally:
        plain.close()
        bright.close()


def live(screen):
    """top: keys, another size, and the terminal as it was."""
    before = screen.run('stty -a')
    screen.tmux('send-keys', '-l', ' dray top')
    screen.keys('Enter')
    shown = screen.wait(lambda text: 'q quit' in text, 'top')
    lines_fit(screen, 'top', shown)
    check('the other screen', screen.flag('alternate_on') == '1', shown)
    screen.keys('d')
    shown = screen.wait(lambda text: 'DEVICE ' in text and 'gpu.example.com/example-gpu-0/gpu-0' in text, 'top by device')
    lines_fit(screen, 'top by device', shown)
    screen.keys('j', 'j')
    screen.wait(lambda text: re.search(r'^> \S+gpu-2 ', text, re.M) and '\ngpu.example.com/example-gpu-0/gpu-2: ' in text, 'top, moved')
    screen.keys(*['Space'] * 3)
    shown = screen.wait(lambda text: '\ngpu.nvidia.com/nvidia-a100-mig-1/gpu-7: ' in text, 'the last device')
    lines_fit(screen, 'the last device', shown)
    screen.keys('/', *'gpu-1-mig', 'Enter')
    shown = screen.wait(lambda text: '/ filter: gpu-1-mig' in text and '>   gpu.' in text and '\ngpu.nvidia.com/nvidia-a100-mig-0/gpu-1-mig-' in text, 'partitions')
    check('only what was asked for', 'gpu-0/gpu-0 ' not in shown, shown)
    screen.keys('/', 'Escape')
    screen.wait(lambda text: 'filter: ' not in text and 'gpu-0/gpu-0 ' in text, 'no filter')
    screen.keys('?')
    shown = screen.wait(lambda text: 'Keys of dray top' in text, 'help')
    check('help is whole', all(w in shown for w in ('%  broken, and in use', 'x  lost', 'quit')), shown)
    screen.keys('?', 'd')
    screen.wait(lambda text: 'EACH' in text, 'top by node')
    reason = screen.wait(lambda text: 'default/hungry ' in text, 'a pod that waits')
    screen.keys('Tab')
    shown = screen.wait(lambda text: '> default/hungry ' in text, 'the pod')
    whole = ' '.join((shown.split('\ndefault/hungry: ')[-1].split('? help')[0]).split())
    check('the whole reason', whole.startswith('0/4 nodes') and '…' not in whole, shown)
    other = 200 if screen.columns == 80 else 80
    screen.tmux('set-option', '-g', 'window-size', 'manual')
    screen.tmux('resize-window', '-x', str(other), '-y', '20')
    time.sleep(1)  # what the old size showed is gone by then
    shown = screen.wait(lambda text: 'q quit' in text, 'top in another size')
    check('top in another size', all(len(line.rstrip()) <= other for line in shown.split('\n')), shown)
    screen.keys('d', *['Space'] * 4)
    shown = screen.wait(lambda text: 'gpu-0/gpu-0 ' not in text and re.search(r'^> \S+mig-1/gpu-7 ', text, re.M), 'top, scrolled')
    check('top, scrolled', all(len(line.rstrip()) <= other for line in shown.split('\n')), shown)
    screen.keys('d')
    screen.tmux('resize-window', '-x', str(screen.columns), '-y', str(ROWS))
    screen.keys('q')
    screen.wait(lambda text: 'EACH' not in text and text.rstrip().endswith(PROMPT), 'the end of top')
    check('the screen is back', screen.flag('alternate_on') == '0' and screen.flag('cursor_flag') == '1', screen.seen())
    after = screen.run('stty -a')
    check('the terminal is as it was', after == before, before + after)


def card(columns):
    """What `dray up` shows while it starts, and then; Ctrl-C ends it."""
    folder = tempfile.mkdtemp(prefix='dray-')
    screen = Screen(columns, '/nonexistent', CARD='1')
    try:
        screen.tmux('send-keys', '-l', f' dray up --data-dir {folder} --listen 127.0.0.1:0 --nodes 1 --apply examples/pending.yaml')
        screen.keys('Enter')
        shown = screen.wait(lambda text: 'is pending' in text, 'the card')
        for word in ('dray is up at https://', 'export KUBECONFIG=', 'Try:', 'dray request', 'Ctrl-C stops it', 'pod default/hungry is pending: 0/1 nodes'):
            check(f'the card has no {word!r}', word in shown, shown)
        lines_fit(screen, 'up', shown[shown.index('dray is up at'):])
        screen.keys('C-c')
        screen.wait(lambda text: text.rstrip().endswith(PROMPT), 'the end of up')
        check('how it ended', screen.run('echo ended with $?').startswith('ended with 0'), screen.seen())
    finally:
        screen.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if not shutil.which('tmux'):
        print('skipped: tmux is not there')
        sys.exit(77)
    top = tempfile.mkdtemp(prefix='dray-')
    cluster = Cluster(os.path.join(top, 'data'), '--sim', 'example-gpu,nvidia-a100-mig', '--nodes', '2', '--apply',
                      os.path.join(HERE, 'examples', 'claim.yaml'), '--apply', os.path.join(HERE, 'examples', 'pending.yaml'))
    kubeconfig = os.path.join(top, 'data', 'admin.kubeconfig')
    try:
        cluster.until('one pod runs, one waits', lambda: len([1 for p in cluster.good('GET', '/api/v1/pods')['items']
                      if p['status'].get('phase') == 'Running' or any(c.get('message') for c in p['status'].get('conditions', []))]) == 2)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(look, columns, kubeconfig) for columns in (80, 200)]:
                done.result()
        colours(kubeconfig)
        card(80)
        cluster.stop()
    finally:
        if cluster.process.poll() is None:
            cluster.process.kill()
        shutil.rmtree(top, ignore_errors=True)
    print(f'screens: {len(COMMANDS)} commands and the help of every verb at 80 and 200 columns ok')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks through docs/guides: runs every command of every guide as a reader would and compares what it prints.

In a block ```console a line that starts with `$ ` is a command (one that ends in `\\` goes on in the next line); what follows is what
it prints. `…` within a line stands for anything, a line `…` for any lines, blanks for blanks. Without lines after it a command may
print anything, but has to succeed; with them it may exit with 1, as `dray why` does for a pod that waits. Commands that only read are
tried again until they match or the time is up: clusters take a moment.

`$ dray up …` starts the guide's cluster, at a port that is free (a second one stops the first, as Ctrl-C does); a command that ends in `&` stays until the
guide ends; `$ export …` counts for all that follow. A ```yaml or ```c block whose first line is a comment `file: NAME` becomes that
file. A block after `<!-- skip: why -->` is not run: it needs what this machine has not. Everything happens in a folder of its own
that is also HOME; examples, deploy, include, profiles and docs are those of the source. PATH begins with dray and driver-led.

Usage: guides.py DRAY [GUIDE…] [--write]      --write puts what was printed into the guides, for authors to read and shorten"""
import concurrent.futures, difflib, os, re, shutil, signal, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUIDES = os.path.join(HERE, 'docs', 'guides')
LINKED = ('examples', 'deploy', 'docs', 'include', 'profiles')
READS = re.compile(r'(dray|kubectl) (get|describe|why|free|who|top|topo|plan|history|logs|doctor|wait|cdi list|kubelet-stub list)\b')
PATIENCE = 60


class Wrong(Exception):
    pass


class Command:
    def __init__(self, text, line):
        self.text, self.line, self.expected, self.end = text, line, [], line


def blocks(lines):
    """Yields (language, number of its first line, lines, why it is skipped) for every fenced block."""
    language, start, skip, inside = None, 0, '', []
    for number, line in enumerate(lines, 1):
        if language is None:
            if line.startswith('<!-- skip:'):
                skip = line[len('<!-- skip:'):].split('-->')[0].strip()
            elif line.startswith('```'):
                language, start, inside = line[3:].strip(), number + 1, []
        elif line.startswith('```'):
            yield language, start, inside, skip
            language, skip = None, ''
        else:
            inside.append(line)


def commands(start, lines):
    """The commands of a console block; `end` is the number of the last line that belongs to one."""
    found, goes_on = [], False
    for number, line in enumerate(lines, start):
        if goes_on:
            found[-1].text += '\n' + line
        elif line.startswith('$ '):
            found.append(Command(line[2:], number))
        elif found:
            found[-1].expected.append(line)
        else:
            raise Wrong(f'line {number}: a console block starts with a command, `$ …`')
        if not found[-1].expected:
            found[-1].line = number
        goes_on = not found[-1].expected and line.endswith('\\')
        found[-1].end = number
    return found


def pattern(line):
    """A line of a guide as an expression: `…` is anything, blanks are blanks."""
    words = [re.escape(w).replace('…', '.*') for w in line.split()]
    return re.compile(r'\s*' + r'\s+'.join(words) + r'\s*$')


def matches(expected, got):
    """Whether the lines are those of the guide. A line `…` may stand for any number of lines."""
    if not expected:
        return not got
    if expected[0].strip() == '…':
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and bool(pattern(expected[0]).match(got[0])) and matches(expected[1:], got[1:])


def trimmed(text):
    lines = [line.rstrip() for line in text.split('\n')]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def loosened(line):
    """A line as an author would write it: names that are made up and times are `…`."""
    line = re.sub(r'-[bcdfghjklmnpqrstvwxz2456789]{10}(?=-)', '-…', line)
    line = re.sub(r'-[bcdfghjklmnpqrstvwxz2456789]{5}\b(?!-)', '-…', line)
    line = re.sub(r'(?<=…-)[bcdfghjklmnpqrstvwxz2456789]{5}(?=-)', '…', line)
    return re.sub(r'(?<=\s)[≤≥]?\d+(ms|s|m\d+s|m)(?=\s|$)', '…', line)


class Walk:
    """One guide, its folder, its cluster and what it left running."""

    def __init__(self, dray, name, write):
        self.name, self.write = name, write
        self.folder = tempfile.mkdtemp(prefix='dray-guide-')
        self.exports, self.cluster, self.printed, self.left = '', None, [], []
        self.count, self.skipped = 0, []
        os.mkdir(os.path.join(self.folder, 'bin'))
        for program in ('dray', 'driver-led'):
            os.symlink(os.path.join(os.path.dirname(dray), program), os.path.join(self.folder, 'bin', program))
        for link in LINKED:
            os.symlink(os.path.join(HERE, link), os.path.join(self.folder, link))
        self.env = {k: v for k, v in os.environ.items() if k not in ('KUBECONFIG', 'XDG_RUNTIME_DIR')}
        self.env.update(HOME=self.folder, PATH=os.path.join(self.folder, 'bin') + ':' + os.environ['PATH'], COLUMNS='150',
                        KUBECONFIG=os.path.join(self.folder, '.dray', 'admin.kubeconfig'), NO_COLOR='1')

    def start(self, text):
        process = subprocess.Popen(['bash', '-c', self.exports + 'exec ' + text.rstrip('& \n')], cwd=self.folder, env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        printed = []
        threading.Thread(target=lambda: printed.extend(iter(process.stdout.readline, '')), daemon=True).start()
        return process, printed

    def up(self, command):
        self.stop()
        text = command.text.replace(':6443', ':0') if '--listen' in command.text else command.text + ' --listen 127.0.0.1:0'
        self.cluster, self.printed = self.start(text)

        def is_up():
            if self.cluster.poll() is not None:
                raise Wrong(f'line {command.line}: dray up ended\n' + ''.join(self.printed))
            return any('dray is up at' in line for line in self.printed) and trimmed(''.join(self.printed))
        self.until(command, is_up, lambda got: bool(got) and (not command.expected or matches(['…'] + command.expected + ['…'], got)))

    def stop(self):
        """Ctrl-C, and that it ends well."""
        if self.cluster:
            self.cluster.send_signal(signal.SIGINT)
            code = self.cluster.wait(60)
            self.cluster = None
            if code != 0 or 'Sanitizer' in ''.join(self.printed):
                raise Wrong(f'dray up ended with {code}\n' + ''.join(self.printed)[-3000:])

    def until(self, command, get, good):
        end = time.monotonic() + PATIENCE
        got = get()
        while not good(got):
            if time.monotonic() > end:
                raise Wrong(f'line {command.line}: $ {command.text}\n' + '\n'.join(
                    difflib.unified_diff(command.expected, got or [], 'the guide', 'dray', lineterm='')))
            time.sleep(0.1)
            got = get()
        return got

    def once(self, command):
        run = subprocess.run(['bash', '-c', self.exports + command.text], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE + 60)
        if 'Sanitizer' in run.stdout:
            raise Wrong(f'line {command.line}: $ {command.text}\n{run.stdout}')
        return run.returncode, trimmed(run.stdout)

    def run(self, command):
        self.count += 1
        if command.text.startswith('export '):
            self.exports += command.text + '\n'
        elif command.text.startswith('dray up ') or command.text == 'dray up':
            self.up(command)
        elif command.text.endswith('&'):
            self.left.append(self.start(command.text)[0])
        else:
            self.compare(command)

    def compare(self, command):
        reads = READS.match(command.text)
        if self.write and reads:
            time.sleep(1)

        def good(answer):
            code, got = answer
            return (code in (0, 1) and matches(command.expected, got)) if command.expected else code == 0
        answer = self.once(command)
        end = time.monotonic() + (PATIENCE if reads and not self.write else 0)
        while not good(answer) and time.monotonic() < end:
            time.sleep(0.1)
            answer = self.once(command)
        if good(answer) and (command.expected or not self.write):
            return
        if self.write:
            command.expected = [loosened(line) for line in answer[1]]
            return
        difference = '\n'.join(difflib.unified_diff(command.expected, answer[1], 'the guide', 'dray', lineterm=''))
        raise Wrong(f'line {command.line}: $ {command.text}\nexit {answer[0]}\n{difference}')

    def file(self, start, lines):
        found = re.match(r'(?:#|//|/\*) file: ([\w./-]+)', lines[0]) if lines else None
        if found:
            with open(os.path.join(self.folder, found[1]), 'w') as f:
                f.write('\n'.join(lines) + '\n')

    def walk(self):
        path = os.path.join(GUIDES, self.name)
        with open(path) as f:
            lines = f.read().split('\n')
        done = []
        try:
            for language, start, inside, skip in blocks(lines):
                if skip:
                    if language == 'console':
                        self.skipped.append(f'line {start}: {skip}')
                elif language == 'console':
                    for command in commands(start, inside):
                        done.append(command)
                        self.run(command)
                elif language in ('yaml', 'c'):
                    self.file(start, inside)
            self.stop()
        finally:
            self.end()
            if self.write:
                self.put_back(path, lines, done)

    def put_back(self, path, lines, done):
        for command in reversed(done):
            lines[command.line:command.end] = command.expected
        with open(path, 'w') as f:
            f.write('\n'.join(lines))

    def end(self):
        for process in self.left + ([self.cluster] if self.cluster else []):
            process.terminate()
            process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


def one(dray, name, write):
    began = time.monotonic()
    walk = Walk(dray, name, write)
    try:
        walk.walk()
    except (Wrong, subprocess.TimeoutExpired) as e:
        return f'docs/guides/{name}: {e}'
    print(f'  {name}: {walk.count} commands, {time.monotonic() - began:.1f} s', *(f'\n    not run, {s}' for s in walk.skipped), flush=True)
    return None


def main():
    args = [a for a in sys.argv[1:] if not a.startswith('--')]
    dray = os.path.abspath(args[0] if args else 'build/dray')
    names = [os.path.basename(a) for a in args[1:]] or sorted(n for n in os.listdir(GUIDES) if n.endswith('.md'))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        wrong = [w for w in pool.map(lambda n: one(dray, n, '--write' in sys.argv), names) if w]
    print('\n\n'.join(wrong) if wrong else f'guides: ok, {len(names)} walked')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

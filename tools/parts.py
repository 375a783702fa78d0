# SPDX-License-Identifier: Apache-2.0
"""What tools/soak and tools/interop share: long runs in parts. All parts are run, or those that are named; the run goes on when one fails, and ends
with one line that says what passed, failed and was skipped. What a part prints goes to a log of its own, too; parts that are run side by side print only
there, unless they fail."""
import concurrent.futures, glob, os, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZERS = {'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1', 'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1',
              'TSAN_OPTIONS': 'halt_on_error=1:ignore_noninstrumented_modules=1'}  # as tools/run-tests has them
SKIPPED = 77
TAIL = 60  # lines of a part that failed unseen
WORDS = {'pass': 'passed', 'FAIL': 'failed', 'skip': 'skipped'}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Part:
    """What a part is run with: its log, and builds that are made when somebody first needs them."""
    built, building = set(), threading.Lock()

    def __init__(self, name, folder, aloud):
        self.aloud = aloud  # lines of two parts at once would say nothing
        self.log = open(os.path.join(folder, f'{name}.log'), 'w')
        self.reports = os.path.join(folder, f'{name}.report')  # of sanitizers, in whatever process
        for path in glob.glob(self.reports + '.*'):
            os.remove(path)

    def run(self, *command, cwd=HERE, **env):
        """Prints what the command prints and keeps it. Status 77 says that something is not there, and on the last line what."""
        watched = {key: f'{words}:log_path={self.reports}' for key, words in SANITIZERS.items()}
        run = subprocess.Popen(list(map(str, command)), cwd=cwd, env=dict(os.environ, **watched, **env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
        last = ''
        for line in run.stdout:
            self.say(line.rstrip('\n'))
            last = line.strip() or last
        code = run.wait()
        if code == SKIPPED:
            raise Skipped(last)
        if code != 0:
            raise Failed(f"{' '.join(map(str, command))}: status {code}")

    def say(self, line):
        if self.aloud:
            print(line, flush=True)
        self.log.write(line + '\n')
        self.log.flush()

    def findings(self):
        for path in sorted(glob.glob(self.reports + '.*')):
            with open(path, errors='replace') as f:
                self.say(f.read())
            yield os.path.basename(path)

    def build(self, folder, *options, targets=''):
        """Once in a run of all parts. targets: all if none is named."""
        with Part.building:
            if (folder, targets) not in Part.built:
                self.run('tools/build', folder, *options, TARGETS=targets)
                Part.built.add((folder, targets))


def judged(part, function):
    """What became of a part in a word, and why."""
    try:
        function(part)
        found = list(part.findings())
        return ('FAIL', f'sanitizers found something: {found}') if found else ('pass', '')
    except Skipped as why:
        return 'skip', str(why).removeprefix('skipped: ')
    except (Failed, OSError) as why:
        return 'FAIL', str(why)


def do(name, function, folder, aloud):
    print(f'=== {name}: {function.__doc__}', flush=True)
    began = time.monotonic()
    part = Part(name, folder, aloud)
    with part.log:
        status, why = judged(part, function)
    print(f'  {status:4}  {time.monotonic() - began:8.1f} s  {name}{": " + why if why else ""}', flush=True)
    if status == 'FAIL' and not aloud:
        with open(part.log.name, errors='replace') as log:
            print(''.join(log.readlines()[-TAIL:]), flush=True)
    return status, why


def listed(settings):
    for name, (default, what) in settings.items():
        print(f'{name:26}{what} ({default or "by chance"})')


def summary(title, results):
    """What was skipped is said again with its reason: a green run that left something out should not look like one that did not."""
    by = {word: [name for name, (status, _) in results.items() if status == word] for word in WORDS}
    for name in by['skip']:
        print(f'  skipped: {name}: {results[name][1]}')
    print(f'{title}: ' + '; '.join(f"{len(names)} {WORDS[word]}{' (' + ', '.join(names) + ')' if names else ''}" for word, names in by.items() if names or word != 'skip'))
    return 1 if by['FAIL'] or not by['pass'] else 0


def main(title, parts, settings, lanes=None):
    """parts: functions by name, described by their first words. lanes: lists of names that are run side by side; one after the other otherwise.
    Returns the exit status of the program."""
    if '--list' in sys.argv or '--help' in sys.argv:
        for name, part in parts.items():
            print(f'{name:26}{part.__doc__}')
        print('\nin the environment:')
        listed(settings)
        return 0
    wanted = sys.argv[1:] or list(parts)
    unknown = [word for word in wanted if word not in parts]
    if unknown:
        sys.exit(f"tools/{title}: no part {', '.join(unknown)}; there are: {', '.join(parts)}")
    folder = os.path.join(HERE, f'build-{title}')
    os.makedirs(folder, exist_ok=True)
    used = list(filter(None, ([name for name in wanted if name in lane] for lane in lanes or [parts])))
    results = {}

    def run(lane):
        for name in lane:
            results[name] = do(name, parts[name], folder, len(used) == 1)
    with concurrent.futures.ThreadPoolExecutor(len(used)) as pool:
        for lane in [pool.submit(run, lane) for lane in used]:
            lane.result()
    return summary(title, {name: results[name] for name in wanted})

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/counts.py BUILD [--write] [PROGRAM…]: counts the instructions of the hot loops under callgrind and compares them with
bench/counts.json. Only instructions in code of ours count: libc, yyjson and SQLite choose theirs by the processor. Fails when a loop
takes over a quarter more than it did; --write takes the new counts over. Exit 77: no valgrind here."""
import concurrent.futures, json, os, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, 'counts.json')
PROGRAMS = ['alloc', 'api', 'cel', 'explain', 'index', 'json', 'registry', 'sched', 'store']
BOUND = 1.25
REFERENCE = 'gcc 12'  # others make other code: their counts are told, not judged


def own_instructions(path, program):
    """Self cost of all functions of the program's own file in one dump."""
    total, ours, called = 0, False, False
    with open(path) as f:
        for line in f:
            if line.startswith('ob='):
                ours = os.path.basename(line.strip()[3:]) == os.path.basename(program)
            elif line.startswith('calls='):
                called = True  # the line behind it has the cost of the callee
            elif line[0].isdigit():
                if ours and not called:
                    total += int(line.split()[1])
                called = False
    return total


def count(program):
    """Every loop of one program: {name: instructions of one run}, and what compiled it."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'out')
        run = subprocess.run(['valgrind', '--tool=callgrind', '--zero-before=bench_count_begin', '--dump-before=bench_count_end',
                              '--compress-strings=no', '--compress-pos=no', f'--callgrind-out-file={out}', program, '--count'],
                             cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        if run.returncode != 0:
            sys.exit(f'{program} --count failed with status {run.returncode}:\n{run.stderr}')
        loops = [json.loads(line) for line in run.stdout.split('\n') if line.startswith('{')]
        return {loop['name']: round(own_instructions(f'{out}.{i}', program) / loop['runs']) for i, loop in enumerate(loops, 1)}, loops[0]['compiler']


def count_all(build, names):
    programs = [os.path.abspath(os.path.join(build, 'bench', 'bench_' + name)) for name in names]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = list(pool.map(count, programs))
    return {f'{name}: {loop}': n for name, (loops, _) in zip(names, found) for loop, n in loops.items()}, found[0][1]


def compare(now, was, judged):
    """Prints what has changed; returns the loops that became too slow."""
    slow = []
    for name, n in now.items():
        before = was.get(name)
        if before and n > before * BOUND:
            slow.append(name)
        if not before or abs(n / before - 1) >= 0.01:
            change = f'{(n / before - 1) * 100:+.1f} %' if before else 'new'
            print(f'  {"SLOW" if judged and name in slow else "    "}  {name}: {before or "-"} -> {n} instructions ({change})')
    for name in was:
        if name.split(':')[0] in {key.split(':')[0] for key in now} and name not in now:
            print(f'        {name}: counted before, gone now')
    return slow


def main():
    words = [word for word in sys.argv[1:] if word != '--write']
    if not words:
        sys.exit(__doc__)
    if not shutil.which('valgrind'):
        print('no valgrind on this machine (tools/setup test installs it)')
        return 77
    build, names = words[0], words[1:] or PROGRAMS
    with open(FILE) as f:
        was = json.load(f)
    now, compiler = count_all(build, names)
    judged = compiler == REFERENCE and os.uname().machine == 'x86_64'
    slow = compare(now, was, judged)
    if '--write' in sys.argv:
        kept = {k: v for k, v in was.items() if k.split(':')[0] not in names}
        with open(FILE, 'w') as f:
            f.write(json.dumps(dict(sorted({**kept, **now}.items())), indent=1) + '\n')
        print(f'{len(now)} counts written to bench/counts.json')
        return 0
    if not judged:
        print(f'{len(now)} loops counted, not judged: the counts are {REFERENCE}\'s on x86_64, this is {compiler} on {os.uname().machine}')
        return 0
    if slow:
        print(f'{len(slow)} of {len(now)} loops take over {round((BOUND - 1) * 100)} % more instructions than in bench/counts.json: '
              f'{"; ".join(slow)}. If that is meant: bench/counts.py {build} --write')
        return 1
    print(f'{len(now)} loops within {round((BOUND - 1) * 100)} % of bench/counts.json')
    return 0


if __name__ == '__main__':
    sys.exit(main())

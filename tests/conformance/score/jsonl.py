# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks: feed JSON lines to a dray verb, read JSON lines back, print scores and the first misses."""
import argparse, gzip, json, os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'data'))
import unpack


def arguments(default_data, about):
    p = argparse.ArgumentParser(description=about)
    p.add_argument('--dray', default='build/dray', help='the dray binary')
    p.add_argument('--data', default=unpack.directory(default_data), help='the directory of the cases')
    p.add_argument('--misses', type=int, default=5, help='how many misses of each set to print')
    p.add_argument('--timeout', type=int, default=600)
    return p.parse_args()


def read(path):
    opener = gzip.open if path.endswith('.gz') else open
    with opener(path, 'rt') as f:
        return [json.loads(line) for line in f if line.strip()]


def ask(args, verb, documents):
    """One answer per document, in order; a missing or unreadable answer is None."""
    text = '\n'.join(json.dumps(d) for d in documents) + '\n'
    try:
        run = subprocess.run([args.dray] + verb, input=text, capture_output=True, text=True, timeout=args.timeout)
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f'  {verb[0]}: {e}', file=sys.stderr)
        return [None] * len(documents)
    if run.returncode != 0:
        print(f'  {verb[0]}: exit {run.returncode}: {run.stderr.strip()[-300:]}', file=sys.stderr)
    answers = []
    for line in run.stdout.split('\n'):
        if not line.strip():
            continue
        try:
            answers.append(json.loads(line))
        except ValueError:
            answers.append(None)
    return (answers + [None] * len(documents))[:len(documents)]


class Score:
    def __init__(self, args):
        self.args, self.rows = args, []

    def add(self, name, results):
        """results: list of (ok, what to print for a miss)"""
        good = sum(1 for ok, _ in results if ok)
        self.rows.append((name, good, len(results)))
        if results:
            print(f'{name}: {good}/{len(results)} = {100 * good / len(results):.2f} %')
        for ok, miss in [r for r in results if not r[0]][:self.args.misses]:
            print(f'    miss: {miss[:400]}')

    def end(self, bounds):
        """bounds: name prefix -> least percent. Exit 1 where one is missed."""
        short = []
        for prefix, least in bounds.items():
            g = sum(r[1] for r in self.rows if r[0].startswith(prefix))
            n = sum(r[2] for r in self.rows if r[0].startswith(prefix))
            pct = 100 * g / n if n else 0
            if pct < least:
                short.append(f'{prefix} {pct:.2f} % < {least} %')
        print('falls short: ' + '; '.join(short) if short else 'all bounds held')
        sys.exit(1 if short else 0)

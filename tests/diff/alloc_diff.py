#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `dray alloc` with the real allocator on random problems.

usage: alloc_diff.py DRAY ORACLE GEN [--count N] [--seed S] [--batch N] [--answers FOLDER] [--validate-every N]

ORACLE is a program around the upstream allocator, GEN the generator of problems (gen.py beside it). Every combination of
the generator's profiles and sizes is used, small problems four times as often as medium ones. For each problem:

  first          the verdict and the devices, in their order, are upstream's; also with --eager, which makes the search
                 look for reasons to turn back where it would not need any
  pack, spread   the verdict is upstream's unless it depends on the order of candidates; what is allocated passes our
                 own checker and, where it differs from upstream's choice, the oracle's validation

Problems on which upstream crashes or runs out of time are counted and left out. With --answers, upstream's answers are
kept in a folder as verdicts and digests, so that a second run over the same seeds need not ask again. With
--validate-every, only every Nth round of batches goes through the oracle's validation (0: none), which is the slow part."""
import argparse, hashlib, importlib.util, json, os, subprocess, sys, time

SHARE = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'
KINDS = [(p, s, share) for p in ('mixed', 'clean') for s, share in (('small', 4), ('medium', 1))]
UPSTREAM_GAVE_UP = ('timeout', 'panic')


def load_generator(path):
    spec = importlib.util.spec_from_file_location('gen', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Gen


def ask(command, lines):
    run = subprocess.run(command, env=dict(os.environ, GOGC='400'), input='\n'.join(lines) + '\n', capture_output=True, text=True)
    answers = [json.loads(x) for x in run.stdout.splitlines()]
    if run.returncode != 0 or len(answers) != len(lines):
        at = lines[len(answers)] if len(answers) < len(lines) else ''
        sys.exit(f'{" ".join(command)}: status {run.returncode}, {len(answers)} answers to {len(lines)} problems\n'
                 f'{run.stderr[-2000:]}\n{at}')
    return answers


def plain(x):
    """Without empty fields and with one share ID."""
    if isinstance(x, dict):
        x = {k: SHARE if k == 'shareID' else plain(v) for k, v in x.items()}
        return {k: v for k, v in x.items() if v not in (None, [], {})}
    return [plain(v) for v in x] if isinstance(x, list) else x


def digest(results):
    text = json.dumps(plain(results or []), sort_keys=True)
    return hashlib.sha1(text.encode()).hexdigest()


class Run:
    def __init__(self, args):
        self.args, self.gen = args, load_generator(args.gen)
        self.counts, self.bad, self.validating = {}, [], True

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    def differs(self, what, line, want, got):
        self.count('differences')
        self.bad.append((what, line))
        print(f'DIFFERENCE {what}: {json.loads(line)["name"]}\n  want {str(want)[:400]}\n  got  {str(got)[:400]}', flush=True)

    def upstream(self, key, lines):
        """[(verdict, digest of the results)], asked or remembered."""
        path = self.args.answers and os.path.join(self.args.answers, key)
        if path and os.path.exists(path):
            with open(path) as f:
                return [tuple(x.split()) for x in f]
        out = ask([self.args.oracle, '-variant', 'deterministic', '-timeout', '100ms'], lines)
        pairs = [(a['verdict'], digest(a['results'])) for a in out]
        if path:
            os.makedirs(self.args.answers, exist_ok=True)
            with open(path + '.new', 'w') as f:
                f.writelines(f'{v} {d}\n' for v, d in pairs)
            os.rename(path + '.new', path)
        return pairs

    def first(self, lines, want, *more):
        label = ' '.join(('first',) + more)
        for line, (verdict, results), got in zip(lines, want, ask([self.args.dray, 'alloc', '--jsonl', '--policy', 'first', *more], lines)):
            if verdict in UPSTREAM_GAVE_UP:
                self.count('left out: upstream ' + verdict, 0 if more else 1)
                continue
            self.count(label + ' ' + verdict)
            if got['verdict'] != verdict:
                self.differs('verdict ' + label, line, verdict, got)
            elif verdict == 'allocated' and digest(got['results']) != results:
                self.differs('devices ' + label, line, results, got)

    def other(self, policy, docs, lines, want):
        doubtful = []
        for doc, line, (verdict, results), got in zip(docs, lines, want, ask([self.args.dray, 'alloc', '--jsonl', '--check', '--policy', policy], lines)):
            if verdict not in UPSTREAM_GAVE_UP and not doc['orderSensitive'] and got['verdict'] != verdict:
                self.differs('verdict ' + policy, line, verdict, got)
            if got['verdict'] != 'allocated':
                continue
            self.count(policy + ' checked')
            if not got.get('valid'):
                self.differs('our check ' + policy, line, 'valid', got)
            if digest(got['results']) != results:
                doubtful.append(json.dumps(dict(doc, candidate=plain(got['results']))))
        if not self.validating or not doubtful:
            return
        for line, got in zip(doubtful, ask([self.args.oracle, '-validate', '-variant', 'deterministic'], doubtful)):
            self.count(policy + ' validated by upstream')
            if not got['valid']:
                self.differs('validation ' + policy, line, 'valid', got)

    def batch(self, profile, size, seed, n):
        docs = [self.gen(seed + i, size, profile).make() for i in range(n)]
        lines = [json.dumps(d, separators=(',', ':')) for d in docs]
        want = self.upstream(f'{profile}-{size}-{seed}-{n}', lines)
        self.count('problems', n)
        self.first(lines, want)
        self.first(lines, want, '--eager')
        for policy in ('pack', 'spread'):
            self.other(policy, docs, lines, want)

    def report(self):
        for what in sorted(self.counts):
            print(f'  {what:34} {self.counts[what]}')
        for what, line in self.bad[:20]:
            print(f'{what}\n{line}')
        sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('dray')
    ap.add_argument('oracle')
    ap.add_argument('gen')
    ap.add_argument('--count', type=int, default=20000)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--batch', type=int, default=2000)
    ap.add_argument('--answers')
    ap.add_argument('--validate-every', type=int, default=1)
    args = ap.parse_args()
    run, done, rounds, started = Run(args), 0, 0, time.time()
    while done < args.count:
        run.validating = args.validate_every > 0 and rounds % args.validate_every == 0
        for k, (profile, size, share) in enumerate(KINDS):
            n = min(args.batch * share // 4, args.count - done)
            if n > 0:
                # Seeds of the kinds do not overlap: a problem's shape must not repeat.
                run.batch(profile, size, args.seed + done + k * 100_000_000, n)
                done += n
        rounds += 1
        print(f'{done} problems, {run.counts.get("differences", 0)} differences, {time.time() - started:.0f} s', flush=True)
    run.report()
    return 1 if run.bad else 0


if __name__ == '__main__':
    sys.exit(main())

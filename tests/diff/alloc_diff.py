#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `dray alloc` with the real allocator on random problems.

usage: alloc_diff.py DRAY ORACLE GEN [--count N] [--seed S] [--batch N] [--keep FOLDER] [--prepare] [--part K/N] [--validate-every N] [--cluster]

ORACLE is a program around the upstream allocator, GEN the generator of problems (gen.py beside it). Every combination of
the generator's profiles and sizes is used, small problems four times as often as medium ones. For each problem:

  first          the verdict and the devices, in their order, are upstream's; also with --eager, which makes the search
                 look for reasons to turn back where it would not need any
  pack, spread   the verdict is upstream's unless it depends on the order of candidates; what is allocated passes our
                 own checker and, where it differs from upstream's choice, the oracle's validation

Problems on which upstream crashes or runs out of time are counted and left out. Ours has LIMIT_MS for each: to need more
is a difference where upstream has an answer, and counted where it has none.

With --keep, problems (packed) and upstream's answers (verdicts and digests) are kept in a folder, so that a second run
over the same seeds is quick; --prepare makes them and asks nothing of ours. --part 2/3 does every third round of batches
from the second on, so that several processes share the work. With --validate-every, only every Nth round of batches
goes through the oracle's validation (0: none), which is the slow part. With --cluster the index of the whole cluster answers."""
import argparse, gzip, hashlib, importlib.util, json, os, subprocess, sys, time

SHARE = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'
KINDS = [(p, s, share) for p in ('mixed', 'clean') for s, share in (('small', 4), ('medium', 1))]
UPSTREAM_GAVE_UP = ('timeout', 'panic')
LIMIT_MS = 5000
BATCH_LIMIT_S = 900


def load_generator(path):
    spec = importlib.util.spec_from_file_location('gen', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Gen


def ask(command, lines):
    """The answers, as text."""
    try:
        run = subprocess.run(command, env=dict(os.environ, GOGC='1600', GOMAXPROCS='1'), input='\n'.join(lines) + '\n',
                             capture_output=True, text=True, timeout=BATCH_LIMIT_S)
        out, status, words = run.stdout, run.returncode, run.stderr
    except subprocess.TimeoutExpired as late:
        out, status, words = (late.stdout or b'').decode(), 'none: it does not end', ''
    answers = out.splitlines()
    if status != 0 or len(answers) != len(lines):
        at = lines[len(answers)] if len(answers) < len(lines) else ''
        sys.exit(f'{" ".join(command)}: status {status}, {len(answers)} answers to {len(lines)} problems\n{words[-2000:]}\n{at}')
    return answers


def limited(line):
    return f'{line[:-1]},"timeoutMs":{LIMIT_MS}}}'


def plain(x):
    """Without empty fields and with one share ID."""
    if isinstance(x, dict):
        x = {k: SHARE if k == 'shareID' else plain(v) for k, v in x.items()}
        return {k: v for k, v in x.items() if v not in (None, [], {})}
    return [plain(v) for v in x] if isinstance(x, list) else x


def digest(results):
    text = json.dumps(plain(results or []), sort_keys=True)
    return hashlib.sha1(text.encode()).hexdigest()


class Answers:
    """Answers of ours to a batch. The digest of results is made once for the same text in the same place."""
    def __init__(self, n):
        self.known = [{} for _ in range(n)]

    def read(self, texts):
        for known, text in zip(self.known, texts):
            got = json.loads(text)
            key = text[text.find('"results"'):text.rfind('"ns"')]
            if key not in known:
                known[key] = digest(got['results'])
            yield got, known[key]


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

    def kept(self, name, make):
        """Lines of a kept file, or those that make() returns, kept from now on."""
        path = self.args.keep and os.path.join(self.args.keep, name)
        if path and os.path.exists(path):
            with (gzip.open if name.endswith('.gz') else open)(path, 'rt') as f:
                return f.read().splitlines()
        lines = make()
        if path:
            with gzip.open(path + '.new', 'wt', compresslevel=1) if name.endswith('.gz') else open(path + '.new', 'w') as f:
                f.write('\n'.join(lines) + '\n')
            os.rename(path + '.new', path)
        return lines

    def upstream(self, lines):
        out = map(json.loads, ask([self.args.oracle, '-variant', 'deterministic', '-timeout', '100ms'], lines))
        return [f'{a["verdict"]} {digest(a["results"])}' for a in out]

    def dray(self, lines, *more):
        return ask([self.args.dray, 'alloc', '--jsonl', *(['--cluster'] if self.args.cluster else []), *more], [limited(x) for x in lines])

    def gave_up(self, verdict, got, label):
        """Whether one of the two has no answer that could be compared."""
        if verdict in UPSTREAM_GAVE_UP:
            self.count(f'{label}: left out, upstream {verdict}')
            self.count(f'{label}: needs more than {LIMIT_MS} ms, like upstream', got['verdict'] == 'timeout')
        return verdict in UPSTREAM_GAVE_UP

    def first(self, lines, want, answers, *more):
        label = ' '.join(('first',) + more)
        for line, (verdict, results), (got, ours) in zip(lines, want, answers.read(self.dray(lines, '--policy', 'first', *more))):
            if self.gave_up(verdict, got, label):
                continue
            self.count(label + ' ' + verdict)
            if got['verdict'] != verdict:
                self.differs('verdict ' + label, line, verdict, got)
            elif verdict == 'allocated' and ours != results:
                self.differs('devices ' + label, line, results, got)

    def other(self, policy, lines, want, answers):
        doubtful = []
        for line, (verdict, results), (got, ours) in zip(lines, want, answers.read(self.dray(lines, '--check', '--policy', policy))):
            if not self.gave_up(verdict, got, policy) and '"orderSensitive":true' not in line:
                self.count(policy + ' verdicts')
                if got['verdict'] != verdict:
                    self.differs('verdict ' + policy, line, verdict, got)
            if got['verdict'] != 'allocated':
                continue
            self.count(policy + ' checked')
            if not got.get('valid'):
                self.differs('our check ' + policy, line, 'valid', got)
            if self.validating and ours != results:
                doubtful.append(json.dumps(dict(json.loads(line), candidate=plain(got['results']))))
        if not doubtful:
            return
        for line, got in zip(doubtful, map(json.loads, ask([self.args.oracle, '-validate', '-variant', 'deterministic'], doubtful))):
            self.count(policy + ' validated by upstream')
            if not got['valid']:
                self.differs('validation ' + policy, line, 'valid', got)

    def batch(self, profile, size, seed, n):
        def problems():
            return [json.dumps(self.gen(seed + i, size, profile).make(), separators=(',', ':')) for i in range(n)]
        key = f'{profile}-{size}-{seed}-{n}'
        lines = self.kept(key + '.gz', problems)
        want = [tuple(x.split()) for x in self.kept(key, lambda: self.upstream(lines))]
        self.count('problems', n)
        if self.args.prepare:
            return
        answers = Answers(n)
        self.first(lines, want, answers)
        self.first(lines, want, answers, '--eager')
        for policy in ('pack', 'spread'):
            self.other(policy, lines, want, answers)

    def report(self):
        for what in sorted(self.counts):
            print(f'  {what:54} {self.counts[what]}')
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
    ap.add_argument('--keep')
    ap.add_argument('--prepare', action='store_true')
    ap.add_argument('--part', default='1/1')
    ap.add_argument('--validate-every', type=int, default=1)
    ap.add_argument('--cluster', action='store_true')
    args = ap.parse_args()
    part, parts = map(int, args.part.split('/'))
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    run, done, rounds, started = Run(args), 0, 0, time.time()
    while done < args.count:
        run.validating = args.validate_every > 0 and rounds // parts % args.validate_every == 0
        mine = rounds % parts == part - 1
        for k, (profile, size, share) in enumerate(KINDS):
            n = min(args.batch * share // 4, args.count - done)
            if n > 0 and mine:
                # Seeds of the kinds do not overlap: a problem's shape must not repeat.
                run.batch(profile, size, args.seed + done + k * 100_000_000, n)
            done += n
        rounds += 1
        if mine:
            print(f'{run.counts["problems"]} problems, {run.counts.get("differences", 0)} differences, {time.time() - started:.0f} s', flush=True)
    run.report()
    return 1 if run.bad else 0


if __name__ == '__main__':
    sys.exit(main())

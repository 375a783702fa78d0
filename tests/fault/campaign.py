#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything at once: a cluster of separate processes (server, two schedulers, two sets of controllers, three nodes of this machine with a driver
each; the third node and the second of the others live behind a wire that loses packets), in use all the time, is broken in every way we know, one
fault alone with its recovery measured, then several at once, again and again. The invariants of the simulation are judged from outside all the time
(invariants.py); at the end, when faults are over, nothing may be left. docs/design/faults.md tells of all of it.
Needs root, crun or runc, a static busybox; else it is skipped. Usage: campaign.py DRAY [SECONDS [SEED]]; PREVIOUS in the environment: another build of
the program, as which parts are started now and then."""
import json, os, random, shutil, sys, threading, time

from fault_kit import *
from invariants import Broken, History
from workload import Workload

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 20
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1, 10 ** 6) if len(sys.argv) > 2 else 1
PROFILES = ('example-gpu', 'example-gpu-partitions', 'example-gpu-shared')
RECOVER = 120    # seconds: within which a pod runs again after a fault is over
SLOW = 5         # what is told of at once
REST = 120       # and within which nothing is left when nobody wants anything any more
GROWTH_KIB = 64 * 1024             # what a process may have more than after its start
QUARANTINE_KIB = 512 * 1024        # and one under AddressSanitizer, which keeps for a while what was freed
FILES = 40       # open files more than after the start


class Fault:
    """Something that is broken, and how it is made whole. A kind is counted in the report."""

    def __init__(self, kind, target, begin, end):
        self.kind, self.target, self.begin, self.end = kind, target, begin, end


LINKS = {  # what a link can suffer
    'partition': CUT_OFF,
    'half open, requests lost': {'stall-up': 1},
    'half open, answers lost': {'stall-down': 1},
    'refused': {'refuse': 1},
    'slow and jittery': {'delay': 40, 'jitter': 200},
    'narrow': {'rate': 30000},
    'crumbs': {'piece': 7},
    'resets': {'reset': 30},
    'slow, narrow and resets': {'delay': 20, 'jitter': 60, 'rate': 200000, 'reset': 10},
}


WIRES = {  # and what the wire can
    'lossy': {'loss': 80},
    'very lossy': {'loss': 250},
    'out of order': {'delay': 5, 'jitter': 60},
    'doubled and spoilt': {'duplicate': 100, 'corrupt': 50},
    'lossy, late, out of order': {'loss': 50, 'delay': 40, 'jitter': 80, 'duplicate': 20},
    'cut': {'cut-up': 1, 'cut-down': 1},
    'cut in one direction': {'cut-down': 1},
}


class Campaign:
    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.parts = [p for p in world.parts.values()]
        self.agents = list(world.agents.values())
        self.links = [p.name for p in self.parts if p.name != 'server'] + ['user']
        self.down = set()      # parts that are meant to be down
        self.recovered = {}    # kind -> seconds
        self.injected = {}     # kind -> how often
        self.probes = 0
        self.deck = []
        self.certified = {}    # name of a part -> subject of its certificate
        self.authority = None

    # --- Faults ---

    def some(self):
        """A random fault; nothing has happened yet. All kinds have their turn before one comes again."""
        if not self.deck:
            self.deck = self.kinds()
            self.rng.shuffle(self.deck)
        return self.deck.pop()()

    def kinds(self):
        kinds = [self.link, self.link, self.link, self.cut, self.call_link, self.kill, self.kill, self.restart, self.pause, self.disk, self.node_disk, self.hardware]
        if self.world.shim:
            kinds.append(self.clock)
        if self.world.wire:
            kinds += [self.packets, self.packets]
        if self.world.server.memory_of:
            kinds.append(self.memory)
        if self.authority:
            kinds.append(self.certificate)
        if os.path.exists(os.environ.get('PREVIOUS', '')):
            kinds.append(self.exchange)
        return kinds

    def packets(self):
        kind, wire = self.rng.choice(list(WIRES)), self.world.wire
        return Fault(f'packets: {kind}', 'node-2', lambda: wire.break_(WIRES[kind]), wire.clear)

    def memory(self):
        p = self.part()

        def begin():
            self.down.add(p.name)
            if p.alive() and not p.starve():
                raise Broken(f'{p.name} outlived that there was no memory')
        return Fault(f"out of memory: {p.name.split('-')[0]}", p.name, begin, lambda: self.up(p))

    def certificate(self):
        """One is replaced, or ends while its owner is at work and is replaced afterwards."""
        ends, name = self.rng.random() < 0.5, self.rng.choice(['server', *self.certified])

        def make(seconds=None):
            crt, key = self.authority.make(name, self.certified.get(name, '/CN=dray-server'), seconds, server=name == 'server')
            if name == 'server':
                for made, place in ((key, 'server.key'), (crt, 'server.crt')):
                    replace(made, os.path.join(self.world.data, 'pki', place))
        whose = "server's" if name == 'server' else "client's"
        if ends:
            return Fault(f'certificate: {whose} ends', name, lambda: make(2), make)
        return Fault(f'certificate: {whose} replaced', name, make, lambda: None)

    def exchange(self):
        """Stopped, and started as the previous build of the program, or as this one again."""
        p = self.part()

        def begin():
            self.down.add(p.name)
            if p.alive():
                p.stop(90)
            p.argv[0] = os.environ['PREVIOUS'] if p.argv[0] == self.world.dray else self.world.dray
        return Fault(f"exchanged: {p.name.split('-')[0]}", p.name, begin, lambda: self.up(p))

    def link(self):
        kind, target = self.rng.choice(list(LINKS)), self.rng.choice(self.links)

        def begin():
            self.world.proxy.break_(target, LINKS[kind])
            if kind == 'refused':
                self.world.proxy.cut(target)
        return Fault(f'link: {kind}', target, begin, lambda: self.world.proxy.clear(target))

    def cut(self):
        target = self.rng.choice(self.links)
        return Fault('link: all connections reset', target, lambda: self.world.proxy.cut(target), lambda: None)

    def call_link(self):
        """Between an agent and its driver."""
        kind, a = self.rng.choice(list(LINKS)), self.rng.choice(self.agents)
        return Fault(f'driver call: {kind}', a.link, lambda: a.linked and self.world.proxy.break_(a.link, LINKS[kind]), lambda: a.linked and self.world.proxy.clear(a.link))

    def part(self):
        return self.rng.choice([p for p in self.parts if p.name not in self.down] or self.parts)

    def kill(self):
        p = self.part()

        def begin():
            self.down.add(p.name)
            if p.alive():
                p.kill()
        return Fault(f"killed: {p.name.split('-')[0]}", p.name, begin, lambda: self.up(p))

    def restart(self):
        p = self.part()

        def begin():
            self.down.add(p.name)
            if p.alive():
                p.stop(90)
        return Fault(f"stopped: {p.name.split('-')[0]}", p.name, begin, lambda: self.up(p))

    def pause(self):
        p = self.part()

        def begin():
            if p.alive():
                p.pause()
        return Fault(f"frozen: {p.name.split('-')[0]}", p.name, begin, p.go_on)

    def clock(self):
        p, by = self.part(), self.rng.choice((-86400, -3600, -30, -3, 3, 30, 3600))
        return Fault('clock: back' if by < 0 else 'clock: forward', p.name, lambda: p.shift(by), lambda: p.shift(0))

    def disk(self):
        return self.full('disk full: server', self.world.data)

    def node_disk(self):
        a = self.rng.choice(list(self.world.agents.values()))
        return self.full('disk full: node', a.data)

    def full(self, kind, folder):
        ballast = os.path.join(folder, 'ballast')

        def end():
            if os.path.exists(ballast):
                os.unlink(ballast)
        return Fault(kind, os.path.basename(folder), lambda: fill(ballast), end)

    def hardware(self):
        a = self.rng.choice(list(self.world.agents.values()))
        words = self.rng.choice((('prepare-failure',), ('unprepare-failure',), ('slow-prepare', '--ms', '1500'), ('crash', '--step', str(self.rng.randint(1, 12)))))

        def end():
            if not a.fault('clear'):
                raise Broken(f'{a.node} has room again, and its driver cannot write')
            self.up(a.driver)
        return Fault(f'driver: {words[0]}', a.node, lambda: a.fault('add', *words), end)

    def up(self, p):
        """Whoever is dead is started again."""
        self.down.discard(p.name)
        if p.alive():
            return
        p.start(wait=False)
        until(f'{p.name} is started', lambda: p.process.poll() is None, 10)

    def keep_up(self):
        """A driver that a fault of its own killed comes back, as a DaemonSet would bring it back; links find new sockets."""
        for p in self.parts:
            if not p.alive() and p.name not in self.down:
                if not p.name.startswith('driver'):
                    print(f'{p.name} ended by itself with {p.process.returncode}: {p.tail(300)}', flush=True)
                p.start(wait=False)
        for a in self.world.agents.values():
            try:
                a.relink()
            except OSError:
                pass  # the driver went in between

    # --- Phases ---

    def heal(self, faults):
        """Disks first: others may need the room."""
        for f in sorted(faults, key=lambda f: not f.kind.startswith('disk')):
            f.end()
        self.keep_up()

    def hold(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.keep_up()
            time.sleep(0.1)

    def inject(self, f):
        self.injected[f.kind] = self.injected.get(f.kind, 0) + 1
        f.begin()

    def alone(self):
        """One fault; how long after its end does a new pod run on the node that had it, or any?"""
        f = self.some()
        self.inject(f)
        self.hold(self.rng.uniform(1, 6))
        self.heal([f])
        number = f.target.rsplit('-', 1)[-1]
        nodes = list(self.world.agents)
        node = int(number) if f.target.split('-')[0] in ('agent', 'driver', 'call', 'node') else self.rng.choice(nodes)
        self.recovered.setdefault(f.kind, []).append(self.probe(node, f'{f.kind} of {f.target}'))

    def storm(self):
        faults, count = [], self.rng.randint(2, 4)
        for _ in range(count):
            f = self.some()
            faults.append(f)
            self.inject(f)
            self.hold(self.rng.uniform(0, 2))
        self.hold(self.rng.uniform(2, 8))
        what = ' + '.join(f'{f.kind} of {f.target}' for f in faults)
        self.heal(faults)
        for node in self.world.agents:
            self.recovered.setdefault('several at once', []).append(self.probe(node, what))

    def probe(self, node, after):
        """A pod on that node, from its making to Running. Returns seconds."""
        self.probes += 1
        name, began = f'probe-{self.probes}', time.monotonic()
        body = claim_pod(name, 'probe', nodeSelector={'kubernetes.io/hostname': f'node-{node}'})
        self.patiently('POST', PODS, body)
        accepted = time.monotonic() - began

        def runs():
            self.keep_up()
            try:
                return self.world.phase(name)
            except OSError:
                return None
        try:
            until(f'after {after}: a new pod on node-{node} runs', runs, RECOVER)
        except AssertionError as e:
            raise Broken(f'{e}; {self.tell(name)}')
        took = time.monotonic() - began
        if took > SLOW:
            print(f'slow: {took:.1f} s after {after} on node-{node}, {accepted:.1f} s of them until the server took it: {self.tell(name)}', flush=True)
        self.patiently('DELETE', f'{PODS}/{name}')
        return took

    def patiently(self, method, path, body=None):
        """The server may still be on its way up."""
        def did():
            self.keep_up()
            try:
                code, answer = self.world.call(method, path, body)
                return code in (200, 201, 202, 404, 409)
            except OSError:
                return False
        until(f'{method} {path} is answered', did, RECOVER)

    def tell(self, name):
        try:
            p = self.world.get(f'{PODS}/{name}')
            events = self.world.get('/api/v1/namespaces/default/events')
            return json.dumps(p.get('status'))[:1500] + ' ' + json.dumps([(e['reason'], e.get('message')) for e in events['items'] if e['involvedObject'].get('name') == name])[:1500]
        except (OSError, AttributeError) as e:
            return f'(and cannot tell why: {e})'


def replace(source, target):
    """As a whole; a full disk is a fault of its own."""
    try:
        shutil.copy(source, target + '.new')
        os.rename(target + '.new', target)
    except OSError:
        pass


class Witness(threading.Thread):
    """No pod runs whose claims are not prepared on its node, by the node's own checkpoint; memory and open files, every second."""

    def __init__(self, world, history):
        super().__init__(daemon=True)
        self.world, self.history, self.ended, self.looks = world, history, False, 0
        self.first, self.most, self.last = {}, {}, {}
        self.growth = QUARANTINE_KIB if sanitized(world.dray) else GROWTH_KIB

    def run(self):
        while not self.ended:
            time.sleep(1)
            for p in self.world.parts.values():
                self.measure(p)
            try:
                self.look()
            except (OSError, KeyError, ValueError, TypeError):
                continue

    def measure(self, p):
        try:
            pid, (kib, files) = p.process.pid, p.memory()
        except (OSError, StopIteration, AttributeError):
            return
        key = (p.name, pid)
        self.first.setdefault(key, []).append((kib, files))
        del self.first[key][10:]
        self.last[key] = (kib, files)
        most = self.most.get(p.name, (0, 0))
        self.most[p.name] = (max(most[0], kib), max(most[1], files))

    def running(self):
        """Those that end by themselves are left out: the node lets go of their devices, and may not be able to say so yet."""
        for p in self.world.good('GET', PODS)['items']:
            if p.get('status', {}).get('phase') == 'Running' and 'deletionTimestamp' not in p['metadata'] and p['spec']['restartPolicy'] == 'Always':
                yield p

    def look(self):
        prepared = {a.node: a.prepared() for a in self.world.agents.values()}
        claims = {c['metadata']['name']: c['metadata']['uid'] for c in self.world.good('GET', CLAIMS)['items']}
        self.looks += 1
        for p in self.running():
            for s in p['status'].get('resourceClaimStatuses') or []:
                uid = claims.get(s.get('resourceClaimName'))
                if uid and uid not in prepared[p['spec']['nodeName']]:
                    self.again(p, uid)

    def again(self, p, uid):
        """It may have begun to run, or to end, between the two looks."""
        agent = next(a for a in self.world.agents.values() if a.node == p['spec']['nodeName'])
        is_there = uid in agent.prepared()
        now = self.world.get(f"{PODS}/{p['metadata']['name']}")
        if not is_there and now and now['metadata']['uid'] == p['metadata']['uid'] and 'deletionTimestamp' not in now['metadata'] and now['status'].get('phase') == 'Running':
            self.history.broken(f"pod {p['metadata']['name']} runs on {agent.node}, where its claim {uid} is not prepared")

    def judge(self):
        for (name, pid), (kib, files) in self.last.items():
            early = self.first[(name, pid)]
            if self.world.parts[name].process.pid == pid and len(early) == 10 and name != 'server':
                if kib > max(k for k, _ in early) + self.growth:
                    self.history.broken(f'{name} grew from {early[-1][0]} to {kib} KiB')
                if files > max(f for _, f in early) + FILES:
                    self.history.broken(f'{name} had {early[-1][1]} open files, at the end {files}')


def rest(world, history, campaign):
    """Nobody wants anything any more: nothing may be left."""
    world.proxy.clear()
    for p in world.parts.values():
        p.shift(0)
        p.go_on()
    for a in world.agents.values():
        a.fault('clear')
        for f in (os.path.join(a.data, 'ballast'), os.path.join(world.data, 'ballast')):
            if os.path.exists(f):
                os.unlink(f)
    campaign.down.clear()
    campaign.keep_up()
    began = time.monotonic()
    for path in (PODS, CLAIMS, GROUPS):
        campaign.patiently('DELETE', path)

    def left():
        campaign.keep_up()
        out = [f"pod {p['metadata']['name']}" for p in world.good('GET', PODS)['items']]
        out += [f"claim {c['metadata']['name']}" for c in world.good('GET', CLAIMS)['items']]
        out += [f"group {g['metadata']['name']}" for g in world.good('GET', GROUPS)['items']]
        for a in world.agents.values():
            out += [f'{a.node}: {x}' for x in a.left()]
        return out
    try:
        until('nothing is left', lambda: not left(), REST, 0.3)
    except AssertionError:
        history.broken(f'{REST} s after the end are left: {left()[:12]}')
    took = time.monotonic() - began
    revision = int(world.good('GET', PODS)['metadata']['resourceVersion'])
    until('everything is judged', lambda: history.caught_up() >= revision or history.wrong, 60)
    for w in history.watches:
        listed = {o['metadata']['uid'] for o in world.good('GET', w.path)['items']}
        known = set(history.state[w.kind])
        if listed != known and w.kind != 'slices':
            history.broken(f'{w.kind}: the history ends with {sorted(known)[:5]}, the server has {sorted(listed)[:5]}')
    return took


def table(campaign, witness, history, workload, rested):
    print(f"\n{'fault':44}{'times':>6}{'p50 s':>8}{'p99 s':>8}{'max s':>8}")
    for kind in sorted(set(campaign.injected) | set(campaign.recovered)):
        took = sorted(campaign.recovered.get(kind, []))
        times = [f'{took[min(len(took) - 1, int(len(took) * q))]:8.2f}' for q in (0.5, 0.99, 1)] if took else ['       –'] * 3
        print(f"{kind:44}{campaign.injected.get(kind, len(took)):6}{''.join(times)}")
    print(f"\n{'process':20}{'starts':>7}{'most MiB':>10}{'most files':>12}")
    for name, p in campaign.world.parts.items():
        most = witness.most.get(name, (0, 0))
        print(f'{name:20}{p.starts:7}{most[0] / 1024:10.1f}{most[1]:12}')
    print(f'\n{history.revisions} revisions, {history.judged} moments judged, {witness.looks} looks at nodes, '
          f'{sum(w.cuts for w in history.watches)} watches cut, {sum(w.gaps for w in history.watches)} gaps; '
          + ', '.join(f'{v} {k}' for k, v in workload.count.items()) + f'; nothing left {rested:.1f} s after the end')


def build(world, authority):
    """The second scheduler and set of controllers show certificates; they and the third node live behind the wire, if there is one."""
    world.server.start()
    certified = {f'{part}-1': f'/O=system:masters/CN={part}' for part in ('scheduler', 'controllers')}
    far = world.make_wire(SEED) is not None
    for i in range(2):
        for part, make in (('controllers', world.controllers), ('scheduler', world.scheduler)):
            user = {}
            if f'{part}-{i}' in certified and authority:
                user = dict(zip(('client-certificate', 'client-key'), authority.make(f'{part}-{i}', certified[f'{part}-{i}'])))
            make(i, far=far and i == 1, **user)
    for i, profile in enumerate(PROFILES):
        a = world.agent(i, profile, far=far and i == 2)
        world.mount(a.data, '96m')
    for p in world.parts.values():
        p.memory_of = Memory.make(world.tag, p.name)
    world.server.stop()
    for p in world.parts.values():
        if not p.name.startswith(('agent', 'driver')):
            p.start()
    for a in world.agents.values():
        a.start()
    until('the class', lambda: world.get(f'{RESOURCE}/deviceclasses/{DRIVER}'))
    return certified


def run(world, rng, history):
    authority = None
    if shutil.which('openssl'):
        authority = Authority(os.path.join(world.folder, 'certificates'), os.path.join(world.data, 'pki', 'ca.crt'), os.path.join(world.data, 'pki', 'ca.key'))
    certified = build(world, authority)
    history.start()
    workload = Workload(world, history, SEED)
    workload.prepare()
    campaign, witness = Campaign(world, rng), Witness(world, history)
    campaign.authority, campaign.certified = authority, certified
    rested = 0.0
    for node in world.agents:
        campaign.recovered.setdefault('(nothing)', []).append(campaign.probe(node, 'the start'))
    workload.start()
    witness.start()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end and not history.wrong:
            (campaign.alone if rng.random() < 0.6 else campaign.storm)()
        world.proxy.clear()
        workload.stop()
        if world.wire:
            world.wire.clear()
        rested = rest(world, history, campaign)
        witness.judge()
    except Broken as e:
        history.broken(str(e))
    finally:
        witness.ended = True
        workload.stopping = True
        history.stop()
        table(campaign, witness, history, workload, rested)


def main():
    skip_if_impossible()
    print(f'seed {SEED}, {SECONDS:.0f} s', flush=True)
    world = World(program(), SEED, disk='512m', history=1000000)
    history = History(world)
    try:
        run(world, random.Random(SEED), history)
        if history.wrong:
            for p in world.parts.values():
                print(f'--- {p.name}\n{p.tail(4000)}')
    finally:
        world.done()
    assert not history.wrong, f'seed {SEED}: {len(history.wrong)} invariants are broken: {history.wrong[:5]}'
    print(f'ok: seed {SEED}, {SECONDS:.0f} s of faults, every invariant holds')


if __name__ == '__main__':
    main()

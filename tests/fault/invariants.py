# SPDX-License-Identifier: Apache-2.0
"""The invariants of the simulation (tests/sim), judged from outside: the history of watches is played back in the order of revisions, and after
each revision what must hold at any time is looked at. An allocation counts from the moment a pod is bound with it, as in the simulation."""
import heapq, http.client, json, os, threading, time

from fault_kit import Unix

KINDS = {'pods': '/api/v1/pods', 'claims': '/apis/resource.k8s.io/v1/resourceclaims', 'slices': '/apis/resource.k8s.io/v1/resourceslices',
         'groups': '/apis/scheduling.k8s.io/v1beta1/podgroups', 'notes': '/api/v1/namespaces/default/configmaps'}
FINALIZER = 'resource.kubernetes.io/delete-protection'
DONE = ('Succeeded', 'Failed')
UNITS = {'Ki': 1 << 10, 'Mi': 1 << 20, 'Gi': 1 << 30, 'Ti': 1 << 40, 'k': 1000, 'M': 10 ** 6, 'G': 10 ** 9}


def quantity(text):
    text = str(text)
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text[:-len(unit)]) * factor
    return int(text)


class Broken(AssertionError):
    pass


class Watch(threading.Thread):
    """Every change of a kind, in order, across restarts of the server."""

    def __init__(self, history, kind):
        super().__init__(daemon=True)
        self.history, self.kind, self.path = history, kind, KINDS[kind]
        self.seen, self.gaps, self.cuts = 0, 0, 0

    def run(self):
        while not self.history.ended:
            try:
                if not self.seen:
                    self.list()
                self.watch()
            except (OSError, http.client.HTTPException, ValueError):
                self.cuts += 1
                time.sleep(0.05)
            except Broken as e:
                self.history.broken(str(e))
                return

    def ask(self, query):
        c = Unix(os.path.join(self.history.world.data, 'dray.sock'), 20)
        c.request('GET', self.path + query)
        return c, c.getresponse()

    def list(self):
        c, answer = self.ask('')
        data = json.loads(answer.read())
        c.close()
        if answer.status != 200:
            raise ValueError('not ready')
        revision = int(data['metadata']['resourceVersion'])
        for o in data['items']:
            self.history.put(int(o['metadata']['resourceVersion']), self.kind, 'ADDED', o)
        self.seen = revision

    def watch(self):
        c, answer = self.ask(f'?watch=1&allowWatchBookmarks=true&resourceVersion={self.seen}')
        try:
            while answer.status == 200 and not self.history.ended:
                line = answer.readline()
                if not line.endswith(b'\n'):
                    raise ValueError('cut')
                self.take(json.loads(line))
            if answer.status == 410:
                self.lost()
            else:
                time.sleep(0.1)
        finally:
            c.close()

    def take(self, event):
        if event['type'] == 'ERROR':
            if event['object'].get('code') == 410:
                self.lost()
            raise ValueError('ended')
        revision = int(event['object']['metadata']['resourceVersion'])
        if event['type'] == 'BOOKMARK':
            if revision < self.seen:
                raise Broken(f'{self.kind}: a bookmark of revision {revision} after {self.seen}')
        elif revision <= self.seen:
            raise Broken(f'{self.kind}: revision {revision} comes after {self.seen}: revisions go back')
        else:
            self.history.put(revision, self.kind, event['type'], event['object'])
        self.seen = revision

    def lost(self):
        """The history does not reach back so far: begin anew. What happened in between is not judged."""
        self.gaps += 1
        self.seen = 0
        self.history.forget(self.kind)
        raise ValueError('begin anew')


class History:
    """Plays the changes back in order, and judges each moment."""

    def __init__(self, world):
        self.world, self.ended = world, False
        self.lock = threading.Lock()
        self.waiting, self.count = [], 0
        self.state = {kind: {} for kind in KINDS}  # kind -> UID -> object
        self.acknowledged = {}                     # (UID, revision) -> what; until it is seen
        self.written = set()                       # (UID, revision) seen, of what may be acknowledged
        self.wrong = []
        self.revisions, self.judged = 0, 0
        self.marks = {}
        self.watches = [Watch(self, kind) for kind in KINDS]
        self.player = threading.Thread(target=self.play, daemon=True)

    def start(self):
        for t in (*self.watches, self.player):
            t.start()
        return self

    def stop(self):
        self.ended = True
        self.player.join(30)

    def broken(self, what):
        if what not in self.wrong:
            self.wrong.append(what)
            print(f'BROKEN: {what}', flush=True)

    def put(self, revision, kind, type_, o):
        with self.lock:
            self.count += 1
            heapq.heappush(self.waiting, (revision, self.count, kind, type_, o))

    def forget(self, kind):
        with self.lock:
            self.state[kind] = {}

    def acknowledge(self, o, what):
        """Somebody was told that this was written: it has to be in the history."""
        key = (o['metadata']['uid'], int(o['metadata']['resourceVersion']))
        with self.lock:
            if key not in self.written:
                self.acknowledged[key] = what

    def caught_up(self):
        """To which revision everything has been judged."""
        with self.lock:
            edge = min(w.seen for w in self.watches)
            return min(edge, self.waiting[0][0] - 1) if self.waiting else edge

    def play(self):
        while not self.ended:
            with self.lock:
                edge = min(w.seen for w in self.watches)
                ready = []
                while self.waiting and self.waiting[0][0] <= edge:
                    ready.append(heapq.heappop(self.waiting))
            for revision, _, kind, type_, o in ready:
                try:
                    self.apply(revision, kind, type_, o)
                except Exception as e:  # a defect of this judge must not look like peace
                    self.broken(f'the judge failed at revision {revision}: {type(e).__name__} {e}')
            self.lose(edge)
            time.sleep(0.02 if ready else 0.1)

    def lose(self, edge):
        if any(w.gaps for w in self.watches):
            return
        with self.lock:
            lost = [(k, what) for k, what in self.acknowledged.items() if k[1] <= edge and k not in self.written]
            for k, _ in lost:
                del self.acknowledged[k]
        for (uid, revision), what in lost:
            self.broken(f'lost: {what} (UID {uid}) was acknowledged at revision {revision}, and the history does not have it')

    def apply(self, revision, kind, type_, o):
        self.revisions += 1
        uid = o['metadata']['uid']
        with self.lock:
            self.written.add((uid, revision))
            self.acknowledged.pop((uid, revision), None)
        before = self.state[kind].get(uid)
        if type_ == 'DELETED':
            self.state[kind].pop(uid, None)
        else:
            self.state[kind][uid] = o
        if kind in ('pods', 'claims') and (type_ == 'DELETED' or mark(kind, before) != mark(kind, o)):
            if kind == 'claims' and before and type_ != 'DELETED':
                self.steady(before, o)
            self.judged += 1
            for what in judge(self.state):
                self.broken(f'at revision {revision}: {what}')

    def steady(self, before, after):
        """Devices are not exchanged under a pod that has them."""
        pods = self.state['pods']
        was, now = allocation(before), allocation(after)
        if was and now and was != now and counts(before, pods, self.state['groups']) and counts(after, pods, self.state['groups']):
            self.broken(f"claim {after['metadata']['name']} had {was}, now {now}, and is in use")


def mark(kind, o):
    """What of an object the judge looks at."""
    if not o:
        return None
    status = o.get('status', {})
    if kind == 'pods':
        return (o['spec'].get('nodeName'), status.get('phase'), json.dumps(status.get('resourceClaimStatuses')), scheduled(o))
    return (json.dumps(status.get('allocation')), json.dumps(status.get('reservedFor')), tuple(o['metadata'].get('finalizers', ())))


def scheduled(p):
    return next((c['status'] for c in p.get('status', {}).get('conditions', []) if c['type'] == 'PodScheduled'), None)


def allocation(claim):
    results = claim.get('status', {}).get('allocation', {}).get('devices', {}).get('results', [])
    return [(r['driver'], r['pool'], r['device'], r.get('shareID')) for r in results]


def is_done(p):
    return p.get('status', {}).get('phase') in DONE


def group_of(p):
    return p['spec'].get('schedulingGroup', {}).get('podGroupName')


def claim_names(p):
    """Of each entry of the pod the claim's name, None if it has none yet."""
    made = {s['name']: s.get('resourceClaimName') for s in p.get('status', {}).get('resourceClaimStatuses') or []}
    return [e.get('resourceClaimName') or made.get(e['name']) for e in p['spec'].get('resourceClaims', [])]


def users(claim, pods, groups):
    """Pods on nodes that have the claim, by its reservations."""
    for r in claim.get('status', {}).get('reservedFor') or []:
        if r['resource'] == 'podgroups':
            name = r['name']
            yield from (p for p in pods.values() if group_of(p) == name and p['spec'].get('nodeName') and not is_done(p) and claim['metadata']['name'] in claim_names(p))
        elif r['uid'] in pods and pods[r['uid']]['spec'].get('nodeName'):
            yield pods[r['uid']]


def counts(claim, pods, groups):
    return bool(allocation(claim)) and any(True for _ in users(claim, pods, groups))


def judge(state):
    """All that is wrong at one moment."""
    pods, claims, groups = state['pods'], state['claims'], state['groups']
    by_name = {(c['metadata']['namespace'], c['metadata']['name']): c for c in claims.values()}
    for c in claims.values():
        yield from judge_claim(c)
    for p in pods.values():
        if p['spec'].get('nodeName') and not is_done(p):
            yield from judge_pod(p, by_name)
    yield from judge_devices([c for c in claims.values() if counts(c, pods, groups)], state['slices'].values())


def judge_claim(c):
    name, users_ = c['metadata']['name'], c.get('status', {}).get('reservedFor') or []
    if len(users_) > 256:
        yield f'claim {name} has {len(users_)} users'
    if users_ and not c['status'].get('allocation'):
        yield f'claim {name} is reserved and has no devices'
    if c.get('status', {}).get('allocation') and FINALIZER not in c['metadata'].get('finalizers', []):
        yield f'claim {name} has devices and no finalizer'


def judge_pod(p, by_name):
    where, who = p['metadata']['namespace'], p['metadata']['name']
    if scheduled(p) == 'False':
        yield f'pod {who} is on a node, and says that it is not'
    for name in claim_names(p):
        c = by_name.get((where, name))
        if not c:
            yield f"pod {who} is on {p['spec']['nodeName']}, and its claim {name} is not there"
            continue
        reserved = c.get('status', {}).get('reservedFor') or []
        if not allocation(c):
            yield f'pod {who} is on a node, and its claim {name} has no devices'
        elif not any(r['uid'] == p['metadata']['uid'] or (r['resource'] == 'podgroups' and r['name'] == group_of(p)) for r in reserved):
            yield f'pod {who} is on a node, and its claim {name} is not reserved for it'
        elif any(pool != p['spec']['nodeName'] for _, pool, _, _ in allocation(c)):
            yield f"pod {who} is on {p['spec']['nodeName']}, and its claim {name} has {allocation(c)}"


def judge_devices(claims, slices):
    holders = {}
    for c in claims:
        for r in c['status']['allocation']['devices']['results']:
            if not r.get('adminAccess'):
                holders.setdefault((r['driver'], r['pool'], r['device']), []).append((c['metadata']['name'], r))
    for key, list_ in holders.items():
        alone = [name for name, r in list_ if not r.get('shareID')]
        if len(list_) > 1 and alone:
            yield f"device {'/'.join(key)} is given to {', '.join(name for name, _ in list_)}"
    drawn = {}
    for s in slices:
        pool = (s['spec']['driver'], s['spec']['pool']['name'])
        for d in s['spec'].get('devices', []):
            list_ = holders.get((*pool, d['name']), [])
            for use in d.get('consumesCounters', []) if list_ else []:
                for counter, amount in use['counters'].items():
                    key = (*pool, use['counterSet'], counter)
                    drawn[key] = drawn.get(key, 0) + quantity(amount['value'])
            for capacity, amount in d.get('capacity', {}).items() if d.get('allowMultipleAllocations') else ():
                taken = sum(quantity(r.get('consumedCapacity', {}).get(capacity, 0)) for _, r in list_)
                if taken > quantity(amount['value']):
                    yield f"device {'/'.join(pool)}/{d['name']} gives {taken} of its {capacity}, and has {amount['value']}"
    for s in slices:
        for set_ in s['spec'].get('sharedCounters', []):
            for counter, amount in set_['counters'].items():
                key = (s['spec']['driver'], s['spec']['pool']['name'], set_['name'], counter)
                if drawn.get(key, 0) > quantity(amount['value']):
                    yield f"counter {'/'.join(key)} is drawn {drawn[key]}, and has {amount['value']}"

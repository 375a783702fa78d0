#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data that another build of the program wrote is opened by this one, and nothing is lost. With OLD, another build: a cluster of it, in use, is killed or
stopped and goes on as this build, its pods without a restart; then back again, which works or is refused with words. Without: the database kept in
tests/fault/old is opened. Either way a database of a newer format is refused with words. Usage: upgrade.py DRAY [OLD], or upgrade.py DRAY --keep, which
writes tests/fault/old/format-N.sql.gz and .json.gz anew."""
import glob, gzip, sqlite3

from fault_kit import *

OLD = os.path.join(HERE, 'old')
APPLICATION = 1685217657
KEPT_KINDS = ('configmaps', 'secrets', 'pods', 'resourceclaims', 'resourceclaimtemplates', 'deviceclasses', 'resourceslices', 'nodes', 'namespaces', 'priorityclasses',
              'resourcequotas', 'customresourcedefinitions', 'things', 'podgroups')
OURS = {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': 'things.example.com'}, 'spec': {
    'group': 'example.com', 'scope': 'Namespaced', 'names': {'plural': 'things', 'singular': 'thing', 'kind': 'Thing', 'listKind': 'ThingList'},
    'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {'type': 'object', 'properties': {
        'spec': {'type': 'object', 'properties': {'n': {'type': 'integer', 'default': 7}}}}}}}]}}


# --- What there is ---

def lists(w):
    """Where objects can be listed, in the versions the server prefers."""
    groups = [('/api/v1', w.good('GET', '/api/v1'))]
    for g in w.good('GET', '/apis')['groups']:
        at = f"/apis/{g['preferredVersion']['groupVersion']}"
        groups.append((at, w.good('GET', at)))
    for at, found in groups:
        for r in found['resources']:
            if '/' not in r['name'] and 'list' in r['verbs']:
                yield r['name'], f"{at}/{r['name']}"


def everything(w):
    """(kind, UID) -> object."""
    out = {}
    for name, path in lists(w):
        for o in w.good('GET', path)['items']:
            out[name, o['metadata']['uid']] = o
    return out


def lost(before, after, exact=True):
    """What was there and is not, or is another. Not exact: fields may have come, none may have gone or changed."""
    for key, o in before.items():
        name = f"{key[0]} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}"
        if key not in after:
            yield f'{name} is gone'
        elif exact and after[key] != o or not within(o, after[key]):
            yield f'{name} was {json.dumps(o)[:700]} and is {json.dumps(after[key])[:700]}'


def within(small, large):
    if isinstance(small, dict) and isinstance(large, dict):
        return all(k in large and within(v, large[k]) for k, v in small.items())
    if isinstance(small, list) and isinstance(large, list):
        return len(small) == len(large) and all(map(within, small, large))
    return small == large


# --- A cluster in use ---

def populate(w):
    """Some of many kinds, some written more than once, some deleted."""
    w.good('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', OURS)
    until('things can be made', lambda: w.call('POST', '/apis/example.com/v1/namespaces/default/things', {
        'apiVersion': 'example.com/v1', 'kind': 'Thing', 'metadata': {'name': 'thing'}, 'spec': {}})[0] in (201, 409))
    w.good('POST', '/api/v1/namespaces', {'metadata': {'name': 'team', 'labels': {'team': 'a'}}})
    w.good('POST', '/api/v1/namespaces/team/secrets', {'metadata': {'name': 's'}, 'type': 'Opaque', 'stringData': {'word': 'ä ö ü \u2603'}})
    w.good('POST', '/api/v1/namespaces/team/resourcequotas', {'metadata': {'name': 'q'}, 'spec': {'hard': {'pods': '10', 'count/configmaps': '50'}}})
    w.good('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', {'metadata': {'name': 'high'}, 'value': 1000, 'description': 'x' * 3000})
    for i in range(20):
        w.good('POST', '/api/v1/namespaces/team/configmaps', {'metadata': {'name': f'c{i}', 'finalizers': ['example.com/kept'] if i == 7 else []}, 'data': {'n': str(i)}})
    for i in range(0, 20, 2):
        w.good('PATCH', f'/api/v1/namespaces/team/configmaps/c{i}', {'data': {'more': 'y' * i * 50}}, 'application/merge-patch+json')
    for i in (5, 6, 7):
        w.good('DELETE', f'/api/v1/namespaces/team/configmaps/c{i}')
    if not w.get(f'{RESOURCE}/deviceclasses/{DRIVER}'):
        w.good('POST', f'{RESOURCE}/deviceclasses', {'metadata': {'name': DRIVER}, 'spec': {'selectors': [{'cel': {'expression': f"device.driver == '{DRIVER}'"}}]}})
    w.template()
    w.template('two', count=2)
    w.good('POST', CLAIMS, {'metadata': {'name': 'shared'}, 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': DRIVER}}]}}})


def use(w):
    for name, more in (('a', {}), ('b', {'template': 'two'}), ('c', {'claim': 'shared'}), ('d', {'claim': 'shared'})):
        w.good('POST', PODS, claim_pod(name, more.get('template', 'one'), more.get('claim')))
    w.good('POST', PODS, claim_pod('hungry', nodeSelector={'no': 'where'}))
    return [p for p in 'abcd']


def containers(w, names):
    """Of each pod, which containers it has and how often they began."""
    out = {}
    for n in names:
        p = w.phase(n)
        assert p, f'{n} does not run: {json.dumps(w.get(f"{PODS}/{n}"))[:600]}'
        out[n] = [(s['containerID'], s['restartCount']) for s in p['status']['containerStatuses']]
    return out


def come_in(w, agents):
    w.controllers()
    w.scheduler()
    if agents:
        w.agent(0, 'example-gpu')
        return
    w.good('POST', '/api/v1/nodes', {'metadata': {'name': 'n'}, 'status': {'allocatable': {'cpu': '80', 'memory': '80Gi', 'pods': '100'}}})
    w.good('POST', f'{RESOURCE}/resourceslices', {'metadata': {'name': 's'}, 'spec': {
        'driver': DRIVER, 'nodeName': 'n', 'pool': {'name': 'n', 'generation': 1, 'resourceSliceCount': 1}, 'devices': [{'name': f'd{i}'} for i in range(8)]}})


def start(w):
    for p in w.parts.values():
        if not p.name.startswith(('agent', 'driver', 'server')):
            p.start()
    for a in w.agents.values():
        a.start()


def end(w, how):
    for p in reversed(w.parts.values()):
        getattr(p, how)()


def become(w, program):
    for p in w.parts.values():
        p.argv[0] = program


# --- One build after the other ---

def first_event(w, revision):
    """The first change of configmaps after a revision that another build gave out."""
    c = Unix(os.path.join(w.data, 'dray.sock'))
    c.request('GET', f'/api/v1/configmaps?watch=1&resourceVersion={revision}')
    answer = c.getresponse()
    assert answer.status == 200, f'a watch from revision {revision}: {answer.status} {answer.read()[:300]}'
    event = json.loads(answer.readline())
    c.close()
    return event


def between(old, new, how):
    """A cluster of the old build goes on as the new one. Returns what the way back said."""
    w = World(old, kit=new)
    try:
        w.server.start()
        agents = why_not() is None
        come_in(w, agents)
        start(w)
        if agents:
            until('the class', lambda: w.get(f'{RESOURCE}/deviceclasses/{DRIVER}'))
        populate(w)
        names = use(w)
        until('pods have nodes', lambda: all((w.get(f'{PODS}/{n}') or {})['spec'].get('nodeName') for n in names), 120)
        if agents:
            until('pods run', lambda: all(w.phase(n) for n in names), 120)
        ran = containers(w, names) if agents else None
        revision = int(w.good('GET', '/api/v1/configmaps')['metadata']['resourceVersion'])
        w.good('POST', '/api/v1/namespaces/team/configmaps', {'metadata': {'name': 'late'}})
        for p in list(w.parts.values())[:0:-1]:
            getattr(p, how)()
        before = everything(w)
        w.server.__getattribute__(how)()
        become(w, os.path.abspath(new))
        w.server.start()
        wrong = list(lost(before, everything(w)))
        assert not wrong, f'{how}, then the new build: {wrong[:5]}'
        assert first_event(w, revision)['object']['metadata']['name'] == 'late', 'the history is lost'
        start(w)
        goes_on(w, names, ran)
        return back(w, old, names, ran)
    except BaseException:
        for p in w.parts.values():
            print(f'--- {p.name}\n{p.tail()}')
        raise
    finally:
        w.done()


def goes_on(w, names, ran):
    """What ran runs on, what comes is served."""
    if ran:
        time.sleep(3)
        assert containers(w, names) == ran, 'pods that ran were disturbed'
        w.run_pod('new')
        until('a new pod runs', lambda: w.phase('new'), 120)
        w.delete_pod('new')
        until('and goes', lambda: w.get(f'{PODS}/new') is None, 120)
    made = w.good('POST', '/apis/example.com/v1/namespaces/default/things', {'apiVersion': 'example.com/v1', 'kind': 'Thing', 'metadata': {'generateName': 'new-'}, 'spec': {}})
    assert made['spec'] == {'n': 7}, made


def back(w, old, names, ran):
    for p in list(w.parts.values())[:0:-1]:
        p.stop()
    before = everything(w)
    w.server.stop()
    become(w, old)
    try:
        w.server.start()
    except AssertionError as e:
        code, said = w.server.process.returncode, w.server.tail(300).strip().split('\n')[-1]
        assert code not in (0, None) and code > 0 and 'newer' in said, f'the way back is not refused with words: {e}'
        return f'refused: {said}'
    wrong = list(lost(before, everything(w), exact=False))
    assert not wrong, f'the way back: {wrong[:5]}'
    start(w)
    goes_on(w, names, ran)
    return 'works, nothing lost'


# --- The kept one ---

def all_kept():
    return sorted(glob.glob(os.path.join(OLD, 'format-*.sql.gz')), key=lambda p: int(p.rsplit('-', 1)[1].split('.')[0]))


def database(w):
    return os.path.join(w.data, 'dray.db')


def tells_of_ca(o):
    """The CA's key is not kept: a server without one makes another, and says so here."""
    return o['metadata']['name'] in ('cluster-info', 'extension-apiserver-authentication', 'kube-root-ca.crt')


def keep(dray):
    """Writes the kept files anew, of this build's format."""
    w = World(dray)
    try:
        w.server.start()
        come_in(w, False)
        start(w)
        populate(w)
        names = use(w)
        until('pods have nodes', lambda: all(w.get(f'{PODS}/{n}')['spec'].get('nodeName') for n in names), 120)
        for p in list(w.parts.values())[:0:-1]:
            p.stop()
        had = [{'list': k[0], 'object': o} for k, o in sorted(everything(w).items()) if k[0] in KEPT_KINDS and not tells_of_ca(o)]
        w.server.stop()
        with sqlite3.connect(database(w)) as db:
            number = db.execute('PRAGMA user_version').fetchone()[0]
            sql = [f'PRAGMA application_id={APPLICATION};', f'PRAGMA user_version={number};', *db.iterdump()]
    finally:
        w.done()
    os.makedirs(OLD, exist_ok=True)
    for kind, text in (('sql', '\n'.join(sql)), ('json', '\n'.join(json.dumps(o, separators=(',', ':')) for o in had))):
        with open(os.path.join(OLD, f'format-{number}.{kind}.gz'), 'wb') as f:
            f.write(gzip.compress((text + '\n').encode(), mtime=0))
    print(f'kept: {len(had)} objects of format {number}')


def open_kept(dray, sql):
    """A database that an earlier build wrote, as text."""
    with gzip.open(sql.replace('.sql.gz', '.json.gz'), 'rt') as f:
        rows = [json.loads(line) for line in f]
    w = World(dray)
    try:
        with gzip.open(sql, 'rt') as f, sqlite3.connect(database(w)) as db:
            db.executescript(f.read())
        db.close()
        os.chmod(database(w), 0o600)
        w.server.start()
        had = {(r['list'], r['object']['metadata']['uid']): r['object'] for r in rows}
        wrong = list(lost(had, everything(w), exact=False))
        assert not wrong, f'{os.path.basename(sql)}: {wrong[:5]}'
        newest = max(int(o['metadata']['resourceVersion']) for o in had.values())
        made = w.good('POST', '/api/v1/namespaces/team/configmaps', {'metadata': {'name': 'after'}})
        assert int(made['metadata']['resourceVersion']) > newest, 'revisions go back'
        assert w.get('/api/v1/namespaces/team/configmaps/c7')['metadata']['deletionTimestamp'], 'what waits for a finalizer is whole'
        come_in_again(w)
        w.server.stop()
        return len(had), refused(w)
    except BaseException:
        print(f'--- server\n{w.server.tail()}')
        raise
    finally:
        w.done()


def come_in_again(w):
    """Devices of the kept claims are still theirs: eight there are, four are taken, two are asked for."""
    w.controllers().start()
    w.scheduler().start()
    for n in ('e', 'f'):
        w.run_pod(n, 'two')
    until('those that come get a node', lambda: all(w.get(f'{PODS}/{n}')['spec'].get('nodeName') for n in 'ef'), 120)
    given = [(r['pool'], r['device']) for c in w.good('GET', CLAIMS)['items'] for r in c.get('status', {}).get('allocation', {}).get('devices', {}).get('results', [])]
    assert len(given) == 8 and len(set(given)) == 8, f'given: {given}'
    for p in list(w.parts.values())[:0:-1]:
        p.stop()


def refused(w):
    """A database of a format that this build does not know."""
    with sqlite3.connect(database(w)) as db:
        db.execute(f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0] + 1}")
    db.close()
    before = open(database(w), 'rb').read()
    run = subprocess.run(w.server.argv, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and 'newer dray' in run.stderr and run.stderr.strip().count('\n') == 0, f'{run.returncode}: {run.stderr}'
    assert open(database(w), 'rb').read() == before, 'and is left as it is'
    return run.stderr.strip()


def main():
    if '--keep' in sys.argv:
        keep(program())
        return
    said = []
    if len(sys.argv) > 2:
        for how in ('stop', 'kill'):
            said.append(f"after {how}: the way back {between(os.path.abspath(sys.argv[2]), program(), how)}")
    kept = all_kept()
    assert kept, f'no kept database under {OLD}'
    for sql in kept:
        count, words = open_kept(program(), sql)
        said.append(f'{os.path.basename(sql)}: {count} objects are whole')
    print('ok: ' + '; '.join(said) + f'; a newer format is refused ({words})')


if __name__ == '__main__':
    main()

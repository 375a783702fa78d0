# SPDX-License-Identifier: Apache-2.0
"""Somebody who uses the cluster while it is being broken: pods with claims of their own, shared claims, partitions, shares of devices, gangs. Each
request goes over a link that may misbehave; what is acknowledged is told to the judge. Devices with an index of 6 and 7 are left to probes."""
import http.client, json, random, ssl, threading, time

from fault_kit import CLAIMS, DRIVER, GROUPS, PODS, TEMPLATES, claim_pod

INDEX = f"device.attributes['{DRIVER}'].index"
MEMORY = f"device.capacity['{DRIVER}'].memory"
WORKS = f'({INDEX} < 6 && {INDEX} != 1)'
PROBES = f'({INDEX} >= 6 && {INDEX} < 8)'
SMALL = f"{MEMORY}.compareTo(quantity('21Gi')) < 0"
NOTES = '/api/v1/namespaces/default/configmaps'


def request(selector, **more):
    return {'deviceClassName': DRIVER, 'selectors': [{'cel': {'expression': selector}}], **more}


SHAPES = {
    'one': {'requests': [{'name': 'r', 'exactly': request(WORKS)}]},
    'two': {'requests': [{'name': 'r', 'exactly': request(WORKS, count=2)}]},
    'part': {'requests': [{'name': 'r', 'exactly': request(f'{SMALL} && ({INDEX} >= 8 || {WORKS})')}]},
    'share': {'requests': [{'name': 'r', 'exactly': request(WORKS, capacity={'requests': {'memory': '10Gi', 'compute': '10'}})}]},
    'either': {'requests': [{'name': 'r', 'firstAvailable': [{'name': 'large', **request(f'{WORKS} && !({SMALL})', count=3)}, {'name': 'small', **request(WORKS)}]}]},
    'probe': {'requests': [{'name': 'r', 'exactly': request(PROBES)}]},
}


class Refused(Exception):
    pass


class Client:
    """One user's connection over the link 'user', made anew when it breaks."""

    def __init__(self, world, port, ca):
        self.world, self.port, self.ca, self.c = world, port, ca, None

    def call(self, method, path, body=None, patience=15):
        if not self.c:
            context = ssl.create_default_context(cafile=self.ca)
            self.c = http.client.HTTPSConnection('127.0.0.1', self.port, timeout=patience, context=context)
        try:
            self.c.request(method, path, json.dumps(body) if body is not None else None,
                           {'Content-Type': 'application/json', 'Authorization': 'Bearer token-admin'})
            answer = self.c.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        return answer.status, json.loads(data) if data else None

    def close(self):
        if self.c:
            self.c.close()
        self.c = None


class Workload:
    def __init__(self, world, history, seed, workers=4):
        self.world, self.history = world, history
        self.port = world.proxy.link('user', f'tcp:{world.port}')
        self.ca = f'{world.data}/pki/ca.crt'
        self.stopping = False
        self.lock = threading.Lock()
        self.count = {'acknowledged': 0, 'unsure': 0, 'refused': 0, 'pods that ran': 0, 'pods that were given up': 0}
        self.threads = [threading.Thread(target=self.work, args=(i, random.Random(seed * 100 + i)), daemon=True) for i in range(workers)]
        self.threads.append(threading.Thread(target=self.note, daemon=True))

    def prepare(self):
        for name, shape in SHAPES.items():
            self.world.good('POST', TEMPLATES, {'metadata': {'name': name}, 'spec': {'spec': {'devices': shape}}})

    def start(self):
        for t in self.threads:
            t.start()

    def stop(self):
        self.stopping = True
        for t in self.threads:
            t.join(120)
            assert not t.is_alive(), 'a worker does not come to its end'

    def add(self, what, n=1):
        with self.lock:
            self.count[what] += n

    # --- Requests ---

    def create(self, client, path, body):
        """True: acknowledged; False: it may or may not be there."""
        name = f"{body.get('kind', path.rsplit('/', 1)[1])} {body['metadata']['name']}"
        try:
            code, answer = client.call('POST', path, body)
        except (OSError, http.client.HTTPException, ValueError):
            self.add('unsure')
            return False
        if code == 201:
            self.history.acknowledge(answer, name)
            self.add('acknowledged')
            return True
        if code in (429, 500, 503, 504, 507):
            self.add('refused')
            return False
        self.history.broken(f'{name}: {code} {json.dumps(answer)[:300]}')
        return False

    def delete(self, client, path):
        for _ in range(200):
            try:
                code, _ = client.call('DELETE', path)
                if code in (200, 202, 404):
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.3)

    def phase(self, client, name):
        try:
            code, p = client.call('GET', f'{PODS}/{name}')
            return p.get('status', {}).get('phase') if code == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None

    # --- What is done ---

    def work(self, number, rng):
        client, n = Client(self.world, self.port, self.ca), 0
        while not self.stopping:
            n += 1
            name = f'w{number}-{n}'
            rng.choice((self.single, self.single, self.single, self.brief, self.together, self.gang))(client, name, rng)
            time.sleep(rng.random() * 0.5)
        client.close()

    def live(self, client, names, rng):
        """Waits until they run, for a while; lets them run; deletes them."""
        end, wanted = time.monotonic() + rng.uniform(5, 20), set(names)
        while wanted and time.monotonic() < end and not self.stopping:
            wanted = {n for n in wanted if self.phase(client, n) not in ('Running', 'Succeeded', 'Failed')}
            time.sleep(0.2)
        self.add('pods that ran', len(names) - len(wanted))
        self.add('pods that were given up', len(wanted))
        time.sleep(rng.uniform(0, 3))
        for n in names:
            self.delete(client, f'{PODS}/{n}')

    def single(self, client, name, rng):
        self.create(client, PODS, claim_pod(name, rng.choice(('one', 'one', 'two', 'part', 'share', 'share', 'either'))))
        self.live(client, [name], rng)

    def brief(self, client, name, rng):
        self.create(client, PODS, claim_pod(name, 'one', script='sleep 0.5; exit 0', restartPolicy='Never'))
        self.live(client, [name], rng)

    def together(self, client, name, rng):
        """A claim that several pods share; it goes when they are gone."""
        self.create(client, CLAIMS, {'metadata': {'name': name}, 'spec': {'devices': SHAPES[rng.choice(('one', 'part', 'share'))]}})
        names = [f'{name}-{i}' for i in range(rng.randint(2, 3))]
        for n in names:
            self.create(client, PODS, claim_pod(n, claim=name))
        self.live(client, names, rng)
        self.delete(client, f'{CLAIMS}/{name}')

    def gang(self, client, name, rng):
        size = rng.randint(2, 3)
        self.create(client, GROUPS, {'metadata': {'name': name}, 'spec': {'schedulingPolicy': {'gang': {'minCount': size}}}})
        names = [f'{name}-{i}' for i in range(size)]
        for n in names:
            self.create(client, PODS, claim_pod(n, rng.choice(('one', 'part', 'share')), schedulingGroup={'podGroupName': name}))
        self.live(client, names, rng)
        self.delete(client, f'{GROUPS}/{name}')

    def note(self):
        """One object, written again and again: no acknowledged version may be missing, and none comes back."""
        client, n = Client(self.world, self.port, self.ca), 0
        self.create(client, NOTES, {'metadata': {'name': 'note'}, 'data': {'n': '0'}})
        while not self.stopping:
            n += 1
            try:
                code, o = client.call('PUT', f'{NOTES}/note', {'metadata': {'name': 'note'}, 'data': {'n': str(n)}}, 5)
                if code == 200:
                    self.history.acknowledge(o, f'version {n} of the note')
                    self.add('acknowledged')
                elif code == 404:
                    self.create(client, NOTES, {'metadata': {'name': 'note'}, 'data': {'n': str(n)}})
                else:
                    self.add('refused')
            except (OSError, http.client.HTTPException, ValueError):
                self.add('unsure')
            time.sleep(0.1)
        client.close()

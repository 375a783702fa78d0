#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: who may read or watch one object by its name gets that one alone, whatever selectors, versions of the path and escapes they send.
Usage: names.py DRAY"""
import concurrent.futures, http.client, json
from kit import Cluster, TLS, read_all, rule

OTHERS = 'the-other-ones-password'
USERS = {'one-token': ('one', 'devs'), 'node-token': ('system:node:n1', 'system:nodes')}
SECRETS = '/api/v1/namespaces/team/secrets'


def set_up(c):
    c.namespace('team')
    c.namespace('other')
    for ns in ('team', 'other'):
        c.good('POST', f'/api/v1/namespaces/{ns}/secrets', {'metadata': {'name': 'mine', 'labels': {'a': 'b'}}, 'stringData': {'k': 'not-so-secret'}})
        c.good('POST', f'/api/v1/namespaces/{ns}/secrets', {'metadata': {'name': 'theirs', 'labels': {'a': 'b'}}, 'stringData': {'k': OTHERS}})
    c.role('team', 'one-secret', rule('get list watch', 'secrets', names=['mine']))
    c.bind('team', 'one-secret', 'one', kind='Role')
    c.good('POST', '/api/v1/nodes', {'metadata': {'name': 'n1'}})
    c.good('POST', '/api/v1/namespaces/team/serviceaccounts', {'metadata': {'name': 'runner'}})
    c.good('POST', '/api/v1/namespaces/team/pods', {'metadata': {'name': 'p'}, 'spec': {
        'nodeName': 'n1', 'serviceAccountName': 'runner', 'automountServiceAccountToken': False, 'containers': [{'name': 'c', 'image': 'x'}],
        'volumes': [{'name': 's', 'secret': {'secretName': 'mine'}}]}})


# Ways to ask for one object and mean another.
SELECTORS = ['metadata.name!=mine', 'metadata.name=theirs', 'metadata.name%3Dtheirs', 'metadata.namespace=team', 'metadata.name!=', 'type=Opaque', 'metadata.name=mine,metadata.name!=mine',
             'metadata.name=mine&fieldSelector=metadata.name=theirs', 'metadata.name=theirs&fieldSelector=metadata.name=mine', '&fieldSelector=metadata.name=theirs']


def questions():
    for s in SELECTORS:
        for path in (SECRETS + '/mine?watch=1&timeoutSeconds=1&', '/api/v1/watch/namespaces/team/secrets/mine?timeoutSeconds=1&', SECRETS + '/mine?', SECRETS + '?', SECRETS + '?watch=1&timeoutSeconds=1&resourceVersion=0&'):
            yield f'{path}fieldSelector={s}'


def some_answers(c, token, paths):
    """Requests on one connection, one after the other."""
    k = http.client.HTTPSConnection('127.0.0.1', c.port, context=TLS, timeout=60)
    for path in paths:
        k.request('GET', path, headers={'Authorization': 'Bearer ' + token})
        a = k.getresponse()
        yield path, a.status, a.read().decode()
    k.close()


def all_answers(c, token, paths):
    """Watches end after a second, so several are asked for at once."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answers in pool.map(lambda i: list(some_answers(c, token, paths[i::8])), range(8)):
            yield from answers


def selectors(c):
    paths = list(questions())
    for token in USERS:
        got = 0
        for path, code, text in all_answers(c, token, paths):
            assert OTHERS not in text and 'dGhlLW90aGVy' not in text, (token, path, text[:300])  # in base64, too
            got += code == 200
        assert got, 'nothing was allowed: this tests nothing'
    # What it is all for still works.
    code, text = c.call('GET', SECRETS + '/mine?watch=1&timeoutSeconds=1', token='node-token')
    assert code == 200 and '"name":"mine"' in text, text
    code, text = c.call('GET', SECRETS + '?fieldSelector=metadata.name=mine', token='one-token')
    assert code == 200 and len(json.loads(text)['items']) == 1, text
    assert 'field selector' in c.refused('GET', SECRETS + '/mine?watch=1&fieldSelector=metadata.name=theirs', code=400)


PATHS = ['/api/v1/namespaces/team/../other/secrets/theirs', '/api/v1/namespaces/team/./secrets/theirs', '/api/v1/namespaces/team/secrets/mine/../theirs', '/api/v1/namespaces/team%2f..%2fother/secrets/theirs',
         '/api/v1/namespaces/team/secrets/mine%2f..%2ftheirs', '/api/v1/namespaces/team/secrets/%2e%2e/theirs', '/api/v1/namespaces/team/secrets/mine%00theirs', '/api/v1/namespaces/team%00/secrets/theirs',
         '/api/v1/namespaces//secrets/theirs', '//api/v1/namespaces/other/secrets/theirs', '/api/v1/namespaces/other/secrets/theirs/', '/api/v1/namespaces/other/secrets//theirs', '/API/v1/namespaces/other/secrets/theirs',
         '/api/v1/namespaces/other/Secrets/theirs', '/version/../api/v1/namespaces/other/secrets/theirs', '/livez/../api/v1/secrets', '/healthz/%2e%2e/api/v1/secrets', '/livez%2f..%2fapi/v1/secrets',
         '/api/v1/namespaces/other/secrets/theirs;x', '/api/v1/namespaces/other/secrets/theirs%3fx', '/api/v1/namespaces/other/secrets/theirs#', '/api/v1/namespaces/other/secrets/theirs%', '/api/v1/secrets?fieldSelector=metadata.name=mine',
         '/api/v1/secrets/theirs', '/api/v1/namespaces/*/secrets', '/api/v1/namespaces/%2a/secrets/mine', '/apis//v1/namespaces/other/secrets', '/api/v1/proxy/namespaces/other/secrets/theirs', '/livez/api/v1/secrets',
         '/api/v1/namespaces/other/secrets/theirs\\..\\mine', '/api/v1/namespaces/team/secrets/..%5ctheirs', '/\xc0\xae\xc0\xae/api/v1/secrets', '/etc/passwd', '/../../../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd']


def ask(c, path, who):
    k = c.raw()
    k.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}Connection: close\r\n\r\n'.encode('latin-1'))
    got = read_all(k).decode('latin-1')
    k.close()
    assert OTHERS not in got and 'dGhlLW90aGVy' not in got and 'root:' not in got, (who, path, got[:300])
    return int(got.split(' ')[1])


def paths(c):
    for path in PATHS:
        code = ask(c, path, 'Authorization: Bearer one-token\r\n')
        assert code in (400, 403, 404) or path.startswith('/livez'), (path, code)
    for path in PATHS[:1] + PATHS[15:17]:
        for form in ('', 'https://127.0.0.1', 'http://other.example'):
            assert ask(c, form + path, '') in (400, 401, 403, 404), form + path


def main():
    with Cluster(USERS) as c:
        set_up(c)
        selectors(c)
        paths(c)
        c.alive()
    print('names: one object by its name is that one alone, however it is asked for')


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates end and are replaced while everything runs: the server's own, the CA that clients are judged by, a client's. Nothing is restarted,
nothing that runs is disturbed; who shows a certificate that has ended is sent away, on connections from before that, too. Needs the command openssl.
Usage: certificates.py DRAY"""
import http.client, shutil, ssl, time

from fault_kit import *

SOON = 6  # seconds that a certificate is good for here


def shown(w):
    """The certificate the server shows now, as text."""
    return ssl.get_server_certificate(('127.0.0.1', w.port))


def serial(path):
    return open(path).read()[open(path).read().index('-----BEGIN CERT'):].strip()


def connect(w, certificate=None):
    context = ssl.create_default_context(cafile=os.path.join(w.data, 'pki', 'ca.crt'))
    if certificate:
        context.load_cert_chain(*certificate)
    c = http.client.HTTPSConnection('127.0.0.1', w.port, timeout=30, context=context)
    c.connect()
    return c


def asks(c):
    c.request('GET', '/api/v1/namespaces/default')
    answer = c.getresponse()
    answer.read()
    return answer.status


def refused(w, certificate):
    try:
        return asks(connect(w, certificate)) == 401
    except (OSError, http.client.HTTPException):
        return True


def serving(w, authority):
    """A new certificate of the server is shown within seconds; connections from before go on; a broken file changes nothing."""
    before = connect(w, None)
    old = shown(w)
    crt, key = os.path.join(w.data, 'pki', 'server.crt'), os.path.join(w.data, 'pki', 'server.key')
    new = authority.make('server', '/CN=dray-server', server=True)
    for name, path in (('server.key', key), ('server.crt', crt)):
        shutil.copy(os.path.join(authority.folder, name), path + '.new')
        os.rename(path + '.new', path)
    until('the new certificate is shown', lambda: shown(w).strip() == serial(new[0]) and shown(w) != old, 20)
    assert asks(before) in (200, 401), 'a connection from before goes on'
    with open(crt + '.new', 'w') as f:
        f.write('nonsense')
    os.rename(crt + '.new', crt)
    until('the server says what is wrong', lambda: 'the old ones stay' in w.server.tail(), 20)
    assert shown(w).strip() == serial(new[0]), 'the last good one is still shown'
    shutil.copy(new[0], crt + '.new')
    os.rename(crt + '.new', crt)


def client_ca(w, authority):
    """A CA that is added counts at once; one that is taken away counts no more."""
    ca = os.path.join(w.data, 'pki', 'ca.crt')
    ours = open(ca).read()
    other = Authority(os.path.join(w.folder, 'other'))
    theirs = other.make('visitor', '/O=system:masters/CN=visitor')
    assert refused(w, theirs), 'nobody knows that CA'

    def replace(text):
        with open(ca + '.new', 'w') as f:
            f.write(text)
        os.rename(ca + '.new', ca)
    replace(ours + open(other.ca).read())
    until('the other CA counts', lambda: not refused(w, theirs), 20, 0.3)
    assert asks(connect(w, theirs)) == 200
    replace(ours)
    until('it counts no more', lambda: refused(w, theirs), 20, 0.3)


def expiry(w, authority):
    """A client whose certificate ends is sent away, on the connection that it had, too."""
    short = authority.make('short', '/O=system:masters/CN=short', seconds=SOON)
    c = connect(w, short)
    assert asks(c) == 200
    until('it is sent away', lambda: asks(c) == 401, SOON + 20, 0.5)
    assert refused(w, short), 'and does not come back'


def rotation(w, authority):
    """A scheduler's certificate is replaced before it ends, as often as needed: it works on, without a restart."""
    crt, key = authority.make('scheduler', '/O=system:masters/CN=scheduler', seconds=SOON + 8)
    s = w.scheduler(0, **{'client-certificate': crt, 'client-key': key}).start()
    w.controllers(0).start()
    w.good('POST', '/api/v1/nodes', {'metadata': {'name': 'n'}, 'status': {'allocatable': {'cpu': '8', 'memory': '8Gi', 'pods': '50'}}})

    def bound(name):
        w.good('POST', PODS, {'metadata': {'name': name}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}})
        until(f'{name} is bound', lambda: w.get(f'{PODS}/{name}')['spec'].get('nodeName'), 60)
    bound('first')
    old = (shutil.copy(crt, crt + '.old'), shutil.copy(key, key + '.old'))
    authority.make('scheduler', '/O=system:masters/CN=scheduler')
    until('the old one has ended', lambda: refused(w, old), SOON + 40, 0.5)
    bound('second')
    assert s.alive() and s.starts == 1


def main():
    if not shutil.which('openssl'):
        skip('no command openssl')
    w = World(program())
    try:
        w.server.start()
        authority = Authority(os.path.join(w.folder, 'ours'), os.path.join(w.data, 'pki', 'ca.crt'), os.path.join(w.data, 'pki', 'ca.key'))
        serving(w, authority)
        client_ca(w, authority)
        expiry(w, authority)
        rotation(w, authority)
        w.server.stop()
    except BaseException:
        for p in w.parts.values():
            print(f'--- {p.name}\n{p.tail()}')
        raise
    finally:
        w.done()
    print("ok: the server's certificate, the CA of clients and a client's certificate, replaced and ended while they are in use")


if __name__ == '__main__':
    main()

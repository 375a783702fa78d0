#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims: TLS is 1.2 or 1.3 with forward secrecy, and a certificate counts if this cluster's CA made it for clients and it has not ended; a request is what
its framing says, in HTTP/1.1 and HTTP/2; whoever floods with frames or headers is sent away, and memory stays. Usage: wire.py DRAY"""
import os, socket, ssl, struct, subprocess
from kit import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Cluster, frame, frames, literal, read_all, request_headers)


# --- TLS ----------------------------------------------------------------------------------------------------------------


def openssl(*args, given=b'', check=True):
    return subprocess.run(['openssl', *args], input=given, capture_output=True, check=check, timeout=60)


def handshake(c, *args, given=b'', seconds=10):
    """What openssl says of a connection: its output, and whether it came to be."""
    run = subprocess.run(['timeout', str(seconds), 'openssl', 's_client', '-connect', f'127.0.0.1:{c.port}', *args], input=given, capture_output=True)
    text = (run.stdout + run.stderr).decode(errors='replace')
    return text, 'Cipher is (NONE)' not in text and 'Cipher is ' in text


def versions(c):
    for version in ('-tls1', '-tls1_1'):
        text, connected = handshake(c, version, '-cipher', 'ALL:@SECLEVEL=0')
        assert not connected, text
    for cipher in ('AES128-SHA', 'AES256-GCM-SHA384', 'ECDHE-ECDSA-AES128-SHA', 'ECDHE-RSA-AES256-SHA384', 'DHE-RSA-AES128-GCM-SHA256', 'aNULL', 'eNULL', 'ADH', 'PSK', 'DES-CBC3-SHA', 'RC4-SHA', 'NULL'):
        text, connected = handshake(c, '-tls1_2', '-cipher', cipher + ':@SECLEVEL=0')
        assert not connected, (cipher, text)
    for version in ('-tls1_2', '-tls1_3'):
        text, connected = handshake(c, version)
        assert connected and 'Compression: NONE' in text, text
        assert version == '-tls1_3' or 'ECDHE' in text, text
    # Who asks for new keys within TLS 1.2 is not answered: it costs the server more than the client.
    text, _ = handshake(c, '-tls1_2', given=b'R\n', seconds=5)
    assert 'no renegotiation' in text or 'RENEGOTIATING' in text and 'error' in text.lower(), text[-600:]
    # Neither old hellos nor plain text get anything but a refusal.
    for hello in (b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', b'\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10' + bytes(40), b'\x16\x03\x01\xff\xff' + bytes(100), bytes(600), b'\x15\x03\x03\x00\x02\x02\x28', PREFACE):
        with socket.create_connection(('127.0.0.1', c.port), 15) as k:
            k.sendall(hello)
            k.shutdown(socket.SHUT_WR)
            got = read_all(k)
            assert b'200 OK' not in got and b'ok' not in got, got


def certificate(c, name, subject, ca=None, days=1, start=None, extensions=('extendedKeyUsage=clientAuth',)):
    """A key and certificate in the test's folder; ca: (certificate, key), else it signs itself."""
    at = f'{c.folder}/{name}'
    openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', at + '.key', '-subj', subject, '-out', at + '.csr')
    with open(at + '.ext', 'w') as f:
        f.write('\n'.join(extensions) + '\n')
    how = ['-CA', ca[0], '-CAkey', ca[1], '-CAcreateserial', '-CAserial', c.folder + '/serial'] if ca else ['-signkey', at + '.key']
    openssl('x509', '-req', '-in', at + '.csr', '-days', str(days), '-extfile', at + '.ext', '-out', at + '.crt', *how)
    return at + '.crt', at + '.key'


def code_with(c, pair, version=None, path='/api/v1/nodes'):
    """The status that a request with this certificate gets; 0: there was no connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*pair)
    if version:
        context.minimum_version = context.maximum_version = version
    try:
        k = c.raw(context)
        k.sendall(f'GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'.encode())
        got = read_all(k)
        k.close()
    except (ConnectionError, ssl.SSLError):
        return 0
    return int(got.split(b' ')[1]) if got else 0


def certificates(c):
    ca = (c.data + '/pki/ca.crt', c.data + '/pki/ca.key')
    admin = '/O=system:masters/CN=mallory'
    assert code_with(c, certificate(c, 'good', admin, ca)) == 200, 'the right one does not work: this tests nothing'
    rogue = certificate(c, 'rogue', '/CN=dray-ca', extensions=('basicConstraints=critical,CA:TRUE', 'keyUsage=keyCertSign'))
    with open(c.data + '/pki/ca.crt') as f:
        subject = openssl('x509', '-noout', '-subject', '-nameopt', 'compat', given=f.read().encode()).stdout.decode().strip().replace('subject=', '').strip()
    twin = certificate(c, 'twin', subject if subject.startswith('/') else '/' + subject, extensions=('basicConstraints=critical,CA:TRUE', 'keyUsage=keyCertSign'))
    leaf = certificate(c, 'leaf', '/CN=leaf', ca)
    bad = {'of another CA': certificate(c, 'other', admin, rogue), 'of a CA of the same name': certificate(c, 'same', admin, twin), 'signed by itself': certificate(c, 'self', admin),
           'signed by a client': certificate(c, 'below', admin, leaf), 'for servers': certificate(c, 'servers', admin, ca, extensions=('extendedKeyUsage=serverAuth',)),
           'for e-mail': certificate(c, 'mail', admin, ca, extensions=('extendedKeyUsage=emailProtection',)), 'ended': certificate(c, 'ended', admin, ca, days=-1),
           'the server\'s own': (c.data + '/pki/server.crt', c.data + '/pki/server.key')}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for what, pair in bad.items():
            code = code_with(c, pair, version)
            assert code in (0, 401), (what, version, code)
    # Known, but nobody in particular: no name, or one that looks like another.
    for what, subject in {'no name': '/O=system:masters', 'blank': '/CN=', 'anonymous': '/CN=system:anonymous'}.items():
        try:
            pair = certificate(c, 'x', subject, ca)
        except subprocess.CalledProcessError:
            continue
        assert code_with(c, pair) in (0, 401, 403), what


# --- HTTP/1.1 -----------------------------------------------------------------------------------------------------------

HIDDEN = b'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
SMUGGLERS = [b'Content-Length: 5\r\nTransfer-Encoding: chunked', b'Content-Length: 5\r\nContent-Length: 0', b'Transfer-Encoding: chunked, identity', b'Transfer-Encoding : chunked', b'X: y\nTransfer-Encoding: chunked',
             b'Transfer-Encoding: chunked\r\n folded: x', b'Content-Length: 0x5', b'Content-Length: 1e1', b'\x00: y', b'Host: b']


def smuggling(c):
    """The end-to-end form of tests/e2e/net.py and tests/unit/h1_parse_test.c: over TLS, at the real server."""
    for head in SMUGGLERS:
        k = c.raw()
        k.sendall(b'POST /version HTTP/1.1\r\nHost: a\r\n' + head + b'\r\n\r\n0\r\n\r\n' + HIDDEN)
        got = read_all(k)
        k.close()
        assert got.count(b'HTTP/1.1 ') == 1 and got[9:12] in (b'400', b'501'), (head, got[:200])
    # Extensions of chunks are passed over, not believed; sizes that run over are refused.
    for chunks, want in ((b'fffffffffffffffff\r\n', b'400'), (b'-1\r\n', b'400'), (b'5 \r\nhello\r\n0\r\n\r\n', b'400'), (b'0\r\nX: y\nA: b\r\n\r\n', b'400')):
        k = c.raw()
        k.sendall(b'POST /version HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n' + chunks)
        got = read_all(k)
        k.close()
        assert got[9:12] == want and got.count(b'HTTP/1.1 ') == 1, (chunks, got[:200])


# --- HTTP/2 -------------------------------------------------------------------------------------------------------------


def h2(c):
    k = c.raw(None, 'h2', timeout=30)
    assert k.selected_alpn_protocol() == 'h2'
    k.sendall(PREFACE + frame(SETTINGS))
    return k


def answers(k):
    """What comes until the server hangs up or is silent: frames."""
    k.settimeout(20)
    try:
        return list(frames(read_all(k)))
    except TimeoutError:
        return []


def pseudo_headers(c):
    """Heads that mean one thing here and might mean another behind a proxy: refused in their stream or with the connection, never served."""
    good = request_headers(b'/livez')
    bad = {'CRLF in a value': request_headers(b'/livez', b'GET', (b'x', b'a\r\nX-User: root')), 'CRLF in the path': request_headers(b'/livez HTTP/1.1\r\nX: y'), 'LF in a name': request_headers(b'/livez', b'GET', (b'x\ny', b'a')),
           'upper case': request_headers(b'/livez', b'GET', (b'X-Up', b'a')), 'a space in the method': request_headers(b'/livez', b'GET /x HTTP/1.1'), 'transfer-encoding': request_headers(b'/livez', b'GET', (b'transfer-encoding', b'chunked')),
           'connection': request_headers(b'/livez', b'GET', (b'connection', b'close')), 'two paths': good + literal(b':path', b'/version'), 'pseudo header behind': literal(b'a', b'b') + good, 'unknown pseudo header': literal(b':user', b'root') + good,
           'no path': literal(b':method', b'GET') + literal(b':scheme', b'https') + literal(b':authority', b'a'), 'no method': literal(b':scheme', b'https') + literal(b':path', b'/livez'),
           'a relative path': request_headers(b'livez'), 'wrong length': request_headers(b'/livez', b'POST', (b'content-length', b'5')), 'NUL': request_headers(b'/livez', b'GET', (b'x', b'a\x00b')), 'an empty name': request_headers(b'/livez', b'GET', (b'', b'b'))}
    for what, head in bad.items():
        k = h2(c)
        k.sendall(frame(HEADERS, END_HEADERS | END_STREAM, 1, head) + frame(HEADERS, END_HEADERS | END_STREAM, 3, good) + frame(GOAWAY, 0, 0, bytes(8)))
        got = answers(k)
        k.close()
        # :status 200 is one byte, 0x88, at the beginning of a block of headers.
        served = [s for kind, _, s, p in got if kind == HEADERS and p[:1] == b'\x88']
        assert 1 not in served, (what, got)
        assert any(kind in (RST_STREAM, GOAWAY, HEADERS) for kind, *_ in got), what


def flood(c, what, beginning, burst, bursts=400):
    """Sends the same over and over. The server hangs up, or has the bytes pass through without keeping them."""
    before = c.memory_kib()
    k, hung_up = h2(c), False
    try:
        k.sendall(beginning)
        for i in range(bursts):
            k.sendall(burst(i) if callable(burst) else burst)
    except OSError:
        hung_up = True
    got = answers(k)
    k.close()
    c.alive()
    grown = c.memory_kib() - before
    assert grown < 64 * 1024, f'{what}: {grown // 1024} MiB more'
    assert hung_up or any(kind == GOAWAY for kind, *_ in got), f'{what}: nobody said no'


def floods(c):
    open_head = frame(HEADERS, END_STREAM, 1, request_headers(b'/livez'))
    flood(c, 'CONTINUATION without end', open_head, lambda i: b''.join(frame(CONTINUATION, 0, 1, literal(b'x%d' % j, b'y' * 200)) for j in range(50)))
    flood(c, 'empty CONTINUATION', open_head, frame(CONTINUATION, 0, 1) * 1000)
    # One entry of the table, 4,000 bytes, named by one byte each: 60,000,000 bytes in a head of 15,000.
    bomb = request_headers(b'/livez') + literal(b'x', b'y' * 3900, index=True) + b'\xbe' * 12000
    flood(c, 'HPACK bombs', b'', lambda i: frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * i, (bomb if i == 0 else request_headers(b'/livez') + b'\xbe' * 15000)) + frame(PING, 0, 0, bytes(8)) * 50, 200)
    flood(c, 'PING', b'', frame(PING, 0, 0, bytes(8)) * 2000)
    flood(c, 'SETTINGS', b'', frame(SETTINGS, 0, 0, struct.pack('>HI', 4, 65535)) * 1000)
    flood(c, 'resets', b'', lambda i: b''.join(frame(HEADERS, END_HEADERS | END_STREAM, s, request_headers(b'/api/v1/pods')) + frame(RST_STREAM, 0, s, struct.pack('>I', 8)) for s in range(1 + 400 * i, 1 + 400 * (i + 1), 2)), 100)
    flood(c, 'empty DATA', frame(HEADERS, END_HEADERS, 1, request_headers(b'/livez', b'POST')), frame(DATA, 0, 1) * 2000)
    flood(c, 'windows that run over', b'', frame(WINDOW_UPDATE, 0, 0, struct.pack('>I', 0x7fffffff)) * 2)


def many_streams(c):
    """More streams at once than are allowed, none of which reads: the surplus is refused, the rest waits its turn."""
    k = h2(c)
    k.sendall(frame(SETTINGS, 0, 0, struct.pack('>HI', 4, 0)) + b''.join(frame(HEADERS, END_HEADERS | END_STREAM, s, request_headers(b'/livez')) for s in range(1, 2001, 2)))
    k.settimeout(5)
    got = b''
    try:
        while part := k.recv(65536):
            got += part
    except OSError:
        pass
    refused = sum(kind == RST_STREAM for kind, *_ in frames(got))
    assert refused > 500 or any(kind == GOAWAY for kind, *_ in frames(got)), f'{refused} of 1000 streams were refused'
    k.close()
    c.alive()


def main():
    with Cluster(env={'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':quarantine_size_mb=4'}) as c:
        for part in (versions, certificates, smuggling, pseudo_headers, floods, many_streams):
            part(c)
    print('wire: TLS, framing and floods: refused, and nothing was left behind')


main()

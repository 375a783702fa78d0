#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What real drivers sent, byte for byte, sent again to `dray server`: recorded requests lie beside the source folder.
Usage: wire.py DRAY [FOLDER]"""
import http.client, json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import unpack

from common import Server, skip


def headers_of(row):
    names = {'accept': 'Accept', 'contentType': 'Content-Type', 'requestContentType': 'Content-Type', 'userAgent': 'User-Agent'}
    return {header: row[key] for key, header in names.items() if row.get(key)}


def body_of(folder, number):
    for ending in ('req.bin', 'req.json'):
        path = os.path.join(folder, f'{number:04}-{ending}')
        if os.path.exists(path):
            with open(path, 'rb') as f:
                return f.read()
    return None


class Replay:
    def __init__(self, server):
        self.host, self.port = server.url.split('//')[1].split(':')
        self.sent = self.accepted = 0

    def call(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection(self.host, int(self.port), timeout=20)
        c.request(method, path, body, headers or {})
        answer = c.getresponse()
        data = answer.read()
        c.close()
        return answer.status, data

    def prepare(self, path):
        """Makes what a request takes for granted: its namespace, its node, its claim."""
        words = path.strip('/').split('/')
        js = {'Content-Type': 'application/json'}
        if 'namespaces' in words:
            self.call('POST', '/api/v1/namespaces', json.dumps({'metadata': {'name': words[words.index('namespaces') + 1]}}), js)
        if words[:3] == ['api', 'v1', 'nodes'] and len(words) == 4:
            self.call('POST', '/api/v1/nodes', json.dumps({'metadata': {'name': words[3]}}), js)

    def row(self, folder, number, row):
        method, path = row['method'], row['path']
        query = row.get('query') or ''
        body = body_of(folder, number)
        if 'watch=true' in query:
            query += '&timeoutSeconds=1' if 'timeoutSeconds' not in query else ''
            query = '&'.join('timeoutSeconds=1' if p.startswith('timeoutSeconds') else p for p in query.split('&'))
        self.prepare(path)
        code, data = self.call(method, path + ('?' + query if query else ''), body, headers_of(row))
        self.sent += 1
        # Names that the other server made up, and server-side apply, are not here.
        fine = code < 300 or code in (404, 409) or (code == 415 and b'server-side apply' in data) or \
            (code == 422 and row.get('status') == 422)
        if not fine:
            raise AssertionError(f'{folder} {number}: {method} {path}?{query}: {code} {data[:400]}')
        self.accepted += code < 300


def main():
    top = sys.argv[2] if len(sys.argv) > 2 else unpack.directory('wire')
    if not os.path.isdir(top):
        skip('requests of real drivers (no recordings beside the source folder)')
    server = Server(sys.argv[1], '--insecure-http', '--feature-gates', 'AllAlpha=true,AllBeta=true')
    try:
        replay = Replay(server)
        for name in sorted(os.listdir(top)):
            folder = os.path.join(top, name)
            index = os.path.join(folder, 'index.json')
            if not os.path.exists(index):
                continue
            with open(index) as f:
                rows = json.load(f)
            for i, row in enumerate(rows, 1):
                replay.row(folder, row.get('n') or i, row)
        assert replay.accepted > replay.sent // 2, (replay.accepted, replay.sent)
        print(f'requests of real drivers: {replay.sent} sent, {replay.accepted} done, the rest about objects of another cluster')
    finally:
        server.done()


if __name__ == '__main__':
    main()

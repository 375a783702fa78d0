#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray conformance` against `dray up`, against a server that lies, and interrupted. Usage: conformance.py DRAY"""
import http.server, json, os, shutil, signal, subprocess, sys, tempfile, threading, time, xml.etree.ElementTree as xml

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOP = tempfile.mkdtemp(prefix='dc-')


def conformance(*words, want=(0,)):
    run = subprocess.run([DRAY, 'conformance', *words], capture_output=True, text=True, timeout=300)
    assert run.returncode in want, (words, run.returncode, run.stdout[-3000:], run.stderr[-2000:])
    return run


def report(kubeconfig, *words, want=(0, 1)):
    return json.loads(conformance('--kubeconfig', kubeconfig, '-o', 'json', *words, want=want).stdout)


class Up:
    def __init__(self):
        self.folder = os.path.join(TOP, 'data')
        self.process = subprocess.Popen([DRAY, 'up', '--data-dir', self.folder, '--listen', '127.0.0.1:0', '--nodes', '1'], cwd=HERE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert 'dray is up at' in self.process.stdout.readline()
        self.kubeconfig = os.path.join(self.folder, 'admin.kubeconfig')

    def leftovers(self):
        names = []
        for kind in ('namespaces', 'deviceclasses', 'resourceslices', 'devicetaintrules'):
            path = f'/api/v1/{kind}' if kind == 'namespaces' else f'/apis/resource.k8s.io/v1/{kind}'
            items = json.loads(subprocess.run(['curl', '-s', '--unix-socket', os.path.join(self.folder, 'dray.sock'), f'http://localhost{path}'],
                                              capture_output=True, text=True, check=True).stdout)['items']
            names += [i['metadata']['name'] for i in items if 'conformance' in i['metadata']['name']]
        return names

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)


def check_kinds(up):
    junit = os.path.join(TOP, 'junit.xml')
    got = report(up.kubeconfig, '--only', 'dra-api,crud-*,driver-versions,accelerator-metrics', '--junit', junit)
    by = {c['id']: c for c in got['checks']}
    assert len(by) == 8 and got['kubernetesVersion'].startswith('v1.'), got
    for name, c in by.items():
        apply_missing = name == 'crud-resourceclaim' and 'server-side apply is not built yet' in c.get('reason', '')
        wanted = 'Skip' if name == 'accelerator-metrics' else 'Fail' if apply_missing else 'Pass'
        assert c['result'] == wanted, c
        assert c['evidence'] or wanted == 'Skip', c
        assert c['level'] in ('MUST', 'SHOULD') and c['requirement'] and c['started'].endswith('Z')
    requests = [e['text'] for e in by['crud-resourceslice']['evidence'] if e['type'] == 'request']
    for verb in ('POST', 'PUT', 'PATCH', 'GET', 'DELETE'):
        assert any(r.startswith(verb + ' /apis/resource.k8s.io/v1/resourceslices') for r in requests), requests
    assert any('ADDED MODIFIED' in e['text'] and 'DELETED' in e['text'] for e in by['crud-deviceclass']['evidence'])
    suite = xml.parse(junit).getroot()
    assert suite.get('tests') == '8' and len(suite.findall('testcase')) == 8 and suite.get('skipped') == '1'
    assert up.leftovers() == [], up.leftovers()


def check_forms(up):
    table = conformance('--kubeconfig', up.kubeconfig, '--only', 'dra-api', '--evidence').stdout
    assert 'pass   MUST   dra-api' in table and 'request  GET /apis/resource.k8s.io/v1' in table and '1 passed, 0 failed, 0 skipped' in table, table
    yaml = conformance('--kubeconfig', up.kubeconfig, '--only', 'dra-api', '-o', 'yaml').stdout
    assert yaml.startswith('kind: ConformanceReport\n'), yaml
    assert 'crud-devicetaintrule' in conformance('--list').stdout
    conformance('-o', 'xml', want=(2,))
    conformance('--nonsense', want=(2,))
    conformance('--kubeconfig', os.path.join(TOP, 'none'), want=(2,))
    bad = os.path.join(TOP, 'claim.yaml')
    with open(bad, 'w') as f:
        f.write('kind: Pod\nspec: {}\n')
    assert 'holds no claim' in conformance('--kubeconfig', up.kubeconfig, '--claim', bad, want=(2,)).stderr


def check_namespace(up):
    """A namespace that exists is used and left."""
    subprocess.run(['curl', '-s', '-f', '--unix-socket', os.path.join(up.folder, 'dray.sock'), '-H', 'Content-Type: application/json', '-d',
                    '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"mine"}}', 'http://localhost/api/v1/namespaces'],
                   capture_output=True, check=True)
    got = report(up.kubeconfig, '--only', 'crud-resourceclaimtemplate', '--namespace', 'mine')
    assert got['namespace'] == 'mine' and got['passed'] == 1, got
    again = report(up.kubeconfig, '--only', 'crud-resourceclaimtemplate', '--namespace', 'mine')
    assert again['passed'] == 1, again


def check_interrupt(up):
    run = subprocess.Popen([DRAY, 'conformance', '--kubeconfig', up.kubeconfig, '-o', 'json', '--only', 'crud-*,containers'], stdout=subprocess.PIPE,
                           text=True)
    until = time.monotonic() + 60
    while not up.leftovers() and time.monotonic() < until:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=120)
    got = json.loads(out)
    assert run.returncode == 1 and got['interrupted'] and any(c.get('reason') == 'interrupted' for c in got['checks']), out[-2000:]
    assert up.leftovers() == [], up.leftovers()


class Liar(http.server.BaseHTTPRequestHandler):
    """Says that it has everything, and forgets what it is given."""
    protocol_version = 'HTTP/1.1'

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        names = ('deviceclasses', 'resourceclaims', 'resourceclaimtemplates', 'resourceslices')
        if self.path == '/version':
            self.answer(200, {'gitVersion': 'v1.99.0'})
        elif self.path == '/apis/resource.k8s.io/v1':
            self.answer(200, {'kind': 'APIResourceList', 'resources': [{'name': n} for n in names]})
        elif self.path.startswith('/apis/resource.k8s.io/v1/'):
            self.answer(200, {'kind': 'List', 'metadata': {'resourceVersion': '1'}, 'items': []})
        else:
            self.answer(404, {'kind': 'Status', 'reason': 'NotFound', 'code': 404, 'message': 'not here'})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if body['kind'] == 'DeviceClass':
            body['metadata'].update(uid='u', resourceVersion='2', creationTimestamp='2026-01-01T00:00:00Z')
        self.answer(201, body)

    def do_DELETE(self):
        self.answer(200, {'kind': 'Status', 'status': 'Success'})

    def log_message(self, *args):
        pass


def check_liar():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = os.path.join(TOP, 'liar.kubeconfig')
    with open(path, 'w') as f:
        json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c', 'contexts': [{'name': 'c', 'context': {'cluster': 'c', 'user': 'u'}}],
                   'clusters': [{'name': 'c', 'cluster': {'server': f'http://127.0.0.1:{server.server_address[1]}'}}], 'users': [{'name': 'u', 'user': {}}]}, f)
    got = report(path, '--only', 'dra-api,crud-*', want=(1,))
    by = {c['id']: (c['result'], c.get('reason', '')) for c in got['checks']}
    assert by['dra-api'][0] == 'Pass', by
    assert by['crud-deviceclass'] == ('Fail', 'create again: AlreadyExists wanted, got success'), by
    assert by['crud-resourceslice'] == ('Fail', 'create: uid, resourceVersion or creationTimestamp is missing'), by
    assert by['crud-devicetaintrule'] == ('Skip', 'the server does not serve devicetaintrules'), by
    server.shutdown()


def main():
    if not shutil.which('curl'):
        print('skipped: no curl')
        sys.exit(77)
    up = Up()
    try:
        check_kinds(up)
        check_forms(up)
        check_namespace(up)
        check_interrupt(up)
    finally:
        up.stop()
    check_liar()
    shutil.rmtree(TOP, ignore_errors=True)
    print('conformance: kinds, forms, namespaces, Ctrl-C, a server that lies')


if __name__ == '__main__':
    main()

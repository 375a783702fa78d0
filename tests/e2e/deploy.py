#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is in deploy/ and the image: manifests are valid and apply to dray's own server, the chart is made from them, the image is an OCI layout
that others read, and the program in it runs with nothing else around it."""
import glob, gzip, json, os, shutil, subprocess, sys, tarfile, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
MANIFESTS = sorted((f for f in glob.glob(os.path.join(ROOT, 'deploy', 'kubernetes', '*.yaml')) if not f.endswith('kustomization.yaml')),
                   key=lambda f: (not f.endswith('namespace.yaml'), f))  # the namespace first


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


def manifests(dray):
    assert len(MANIFESTS) == 6, MANIFESTS
    for f in MANIFESTS:
        out = run(dray, 'validate', '-f', f)
        assert out.returncode == 0, (f, out.stdout, out.stderr)
    # Every manifest is in the kustomization, or named there as a choice.
    listed = open(os.path.join(ROOT, 'deploy', 'kubernetes', 'kustomization.yaml')).read()
    for f in MANIFESTS:
        assert os.path.basename(f) in listed, f


def applied(dray, folder):
    """They apply: made on a server of our own, then read back."""
    config = os.path.join(folder, 'data', 'admin.kubeconfig')
    server = subprocess.Popen([dray, 'up', '--nodes', '0', '--data-dir', os.path.join(folder, 'data'), '--listen', '127.0.0.1:0',
                               *[w for f in MANIFESTS for w in ('--apply', f)]],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = ''
        while 'Ctrl-C' not in line:
            line = server.stdout.readline()
            assert line, server.stderr.read()
        socket = os.path.join(folder, 'data', 'dray.sock')
        for path in ('/apis/apps/v1/namespaces/dray-system/deployments/dray-scheduler', '/apis/apps/v1/namespaces/dray-system/daemonsets/dray-driver-net',
                     '/apis/rbac.authorization.k8s.io/v1/clusterroles/dray-controllers', '/api/v1/namespaces/dray-system/serviceaccounts/dray-scheduler'):
            for _ in range(100):
                out = run('curl', '-s', '--unix-socket', socket, 'http://localhost' + path)
                if json.loads(out.stdout or '{}').get('kind') != 'Status':
                    break
            assert json.loads(out.stdout)['kind'] != 'Status', (path, out.stdout)
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert os.path.exists(config)


def chart():
    out = run(sys.executable, os.path.join(ROOT, 'tools', 'chart'), '--check')
    assert out.returncode == 0, out.stdout
    if shutil.which('helm'):
        out = run('helm', 'template', 'dray', os.path.join(ROOT, 'deploy', 'helm', 'dray'), '--set', 'controllers.enabled=true', '--set', 'driverNet.enabled=true')
        assert out.returncode == 0 and 'kind: Deployment' in out.stdout, out.stderr


def blob(layout, digest):
    return open(os.path.join(layout, 'blobs', *digest.split(':')), 'rb').read()


def image(dray, folder):
    layout, archive = os.path.join(folder, 'image'), os.path.join(folder, 'image.tar')
    tool = [sys.executable, os.path.join(ROOT, 'tools', 'image'), '--program', dray, '--out', layout]
    first = run(*tool, '--archive', archive)
    assert first.returncode == 0, first.stderr
    assert run(*tool).stdout == first.stdout  # the same bytes again
    index = json.load(open(os.path.join(layout, 'index.json')))
    manifest = json.loads(blob(layout, index['manifests'][0]['digest']))
    config = json.loads(blob(layout, manifest['config']['digest']))
    assert config['config']['Entrypoint'] == ['/usr/bin/dray'] and config['config']['User'] == '65532:65532'
    if shutil.which('skopeo'):
        for where in (f'oci:{layout}:latest', f'oci-archive:{archive}'):
            seen = run('skopeo', 'inspect', where)
            assert seen.returncode == 0 and json.loads(seen.stdout)['Labels']['org.opencontainers.image.title'] == 'dray', seen.stderr
    root = os.path.join(folder, 'root')
    with open(os.path.join(folder, 'layer.tar'), 'wb') as f:
        f.write(gzip.decompress(blob(layout, manifest['layers'][0]['digest'])))
    with tarfile.open(os.path.join(folder, 'layer.tar')) as tar:
        tar.extractall(root)
    sanitized = 'libasan' in run('ldd', dray).stdout  # wants /proc, which is not in there
    if os.geteuid() == 0 and not sanitized:
        inside = run('chroot', '--userspec=65532:65532', root, '/usr/bin/dray', 'version')
        assert inside.returncode == 0 and inside.stdout.startswith('dray '), inside


def main():
    dray = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp(prefix='dd-')
    try:
        manifests(dray)
        chart()
        applied(dray, folder)
        image(dray, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print('ok: manifests, chart and image')


if __name__ == '__main__':
    main()

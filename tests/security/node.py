#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims about a node: an image is unpacked into its own folder and nowhere else, whatever its layers and documents say; no name of an image leads to other files of
the machine; whoever listens in the folder of plugins and does not behave is left alone, and others are served; links there are not followed.
Needs root, crun or runc, and a static busybox; else it is skipped. Usage: node.py DRAY"""
import hashlib, io, json, os, shutil, socket, struct, subprocess, sys, tarfile, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'e2e'))
from agent_kit import *  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'
SANITIZED = b'__asan_init' in open(DRAY, 'rb').read() or b'__tsan_init' in open(DRAY, 'rb').read()
MIB = 1024  # in KiB


# --- Images -------------------------------------------------------------------------------------------------------------


def hostile_image(folder, name, entries=(), **documents):
    """An OCI layout of busybox and a second layer of entries (type, name, link or bytes); documents: changes by function."""
    blobs = folder + '/blobs/sha256'
    os.makedirs(blobs)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(f'{blobs}/{digest}', 'wb') as f:
            f.write(data)
        return {'digest': 'sha256:' + digest, 'size': len(data)}

    def layer(rows):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as tar:
            for kind, path, what in rows:
                e = tarfile.TarInfo(path)
                data = what if isinstance(what, bytes) else b''
                e.type, e.mode, e.size, e.linkname = kind, 0o755, len(data), '' if isinstance(what, bytes) else what
                tar.addfile(e, io.BytesIO(data))
        return out.getvalue()
    with open(shutil.which('busybox'), 'rb') as f:
        base = layer([(tarfile.DIRTYPE, 'bin', b''), (tarfile.REGTYPE, 'bin/busybox', f.read()), (tarfile.SYMTYPE, 'bin/sh', 'busybox'), (tarfile.SYMTYPE, 'bin/sleep', 'busybox')])
    layers = [base] + ([layer(entries)] if entries else [])
    arch = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine)
    config = {'architecture': arch, 'os': 'linux', 'config': {'Cmd': ['sleep', '3600'], 'Env': ['PATH=/bin']}, 'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(x).hexdigest() for x in layers]}}
    documents.get('config', lambda d: None)(config)
    manifest = {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json', 'config': dict(blob(json.dumps(config).encode()), mediaType='application/vnd.oci.image.config.v1+json'),
                'layers': [dict(blob(x), mediaType='application/vnd.oci.image.layer.v1.tar') for x in layers]}
    documents.get('manifest', lambda d: None)(manifest)
    index = {'schemaVersion': 2, 'manifests': [dict(blob(json.dumps(manifest).encode()), mediaType='application/vnd.oci.image.manifest.v1+json', annotations={'org.opencontainers.image.ref.name': name})]}
    documents.get('index', lambda d: None)(index)
    for file, content in (('oci-layout', {'imageLayoutVersion': '1.0.0'}), ('index.json', index)):
        with open(f'{folder}/{file}', 'w') as f:
            json.dump(content, f)


def hostile_layers(victim):
    """Each tries to change what lies in the folder of the victim."""
    file, link, hard, folder = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
    up = '../' * 20 + victim.strip('/')
    return {
        'dots': [(file, up + '/keep', b'mine')],
        'whole': [(file, victim + '/keep', b'mine')],
        'link': [(link, 'x', victim), (file, 'x/keep', b'mine'), (file, 'x/new', b'mine')],
        'linkup': [(link, 'x', up), (file, 'x/keep', b'mine')],
        'twolinks': [(link, 'a', '/'), (link, 'b', 'a/' + victim.strip('/')), (file, 'b/keep', b'mine')],
        'hard': [(hard, 'h', victim + '/keep'), (file, 'h', b'mine')],
        'hardup': [(hard, 'h', up + '/keep'), (file, 'h', b'mine')],
        'hardlink': [(link, 'x', victim), (hard, 'h', 'x/keep'), (file, 'h', b'mine')],
        'gone': [(file, up + '/.wh.keep', b'')],
        'gonelink': [(link, 'x', victim), (file, 'x/.wh.keep', b''), (file, 'x/.wh..wh..opq', b'')],
        'goneup': [(file, '.wh...', b''), (file, '.wh..', b''), (file, 'bin/.wh...', b'')],
        'folder': [(link, 'x', victim), (folder, 'x', b''), (file, 'x/keep', b'mine')],
        'fifo': [(tarfile.FIFOTYPE, up + '/fifo', b'')],
        'device': [(tarfile.CHRTYPE, 'null', b''), (tarfile.BLKTYPE, 'disk', b'')],
    }


def hostile_documents(victim):
    digest = 'sha256:' + '../' * 20 + victim.strip('/') + '/keep'

    def put(where, key, value):
        def change(d):
            for step in where:
                d = d[step]
            d[key] = value
        return change
    return {
        'index': {'index': put(('manifests', 0), 'digest', digest)},
        'manifest': {'manifest': put(('config',), 'digest', digest)},
        'layer': {'manifest': put(('layers', 0), 'digest', digest)},
        'algorithm': {'manifest': put(('layers', 0), 'digest', '../../../..:' + 'a' * 64)},
        'sum': {'config': put(('rootfs', 'diff_ids'), 0, 'sha256:' + '0' * 64)},
        'size': {'manifest': put(('layers', 0), 'size', 2 ** 63)},
        'user': {'config': put(('config',), 'User', '../../../../etc/passwd')},
    }


def state(c, name):
    """running, or why not; None: not known yet."""
    p = c.pod(name)
    for s in (p or {}).get('status', {}).get('containerStatuses', []):
        if s['state'].get('running') or s['state'].get('terminated'):
            return 'running'
        reason = s['state'].get('waiting', {}).get('reason', '')
        if reason.startswith(('Err', 'ImagePullBackOff', 'Invalid', 'Create', 'Run')):
            return reason
    return None


def remove(c, names):
    for name in names:
        c.good('DELETE', f'{PODS}/{name}?gracePeriodSeconds=0')
    for name in names:
        c.until(f'{name} is gone', lambda: c.pod(name) is None)


def a_pod(name, image):
    return pod(name, [{'name': 'c', 'image': image, 'command': ['/bin/sh', '-c', 'sleep 1000'], 'imagePullPolicy': 'Never'}], 'here', restartPolicy='Never', automountServiceAccountToken=False)


def images(c):
    victim = c.folder + '/victim'
    os.mkdir(victim)

    def untouched(after):
        assert os.listdir(victim) == ['keep'] and open(victim + '/keep').read() == 'theirs', f'{after} reached {os.listdir(victim)}'
        assert os.stat(victim + '/keep').st_nlink == 1, f'{after} holds a link to it'
    with open(victim + '/keep', 'w') as f:
        f.write('theirs')
    for name, entries in hostile_layers(victim).items():
        hostile_image(f'{c.images}/layer-{name}', f'example.test/layer-{name}:1', entries)
    for name, documents in hostile_documents(victim).items():
        hostile_image(f'{c.images}/document-{name}', f'example.test/document-{name}:1', **documents)
    hostile_image(c.images + '/plain', 'example.test/plain:1')
    names = ['layer-' + n for n in hostile_layers(victim)] + ['document-' + n for n in hostile_documents(victim)] + ['plain']
    for name in names:
        c.good('POST', PODS, a_pod(name, f'example.test/{name}:1'))
    for name in names:
        c.until(f'{name} runs or does not', lambda: state(c, name))
        untouched(name)
    assert state(c, 'plain') == 'running', 'this tests nothing'
    for name in names:
        if name.startswith('document-'):
            assert state(c, name) != 'running', f'{name} runs'
    remove(c, names)
    untouched('all of them')
    return len(names)


def others_of_the_machine(c, n):
    """What root in a container makes, and what its pod was given, is out of reach for other users of the machine, set-user-id programs above all."""
    os.chmod(c.folder, 0o755)  # the test's own folder hides it otherwise
    c.good('POST', '/api/v1/namespaces/default/secrets', {'metadata': {'name': 'kept'}, 'stringData': {'word': 'hunter2'}})
    p = pod('suid', [dict(container('c', 'cp /bin/busybox /s && chmod 4755 /s && cp /bin/busybox /v/s && chmod 4755 /v/s && echo made; ' + FOREVER), volumeMounts=[{'name': 'v', 'mountPath': '/v'}, {'name': 'k', 'mountPath': '/k'}])], 'here',
            volumes=[{'name': 'v', 'emptyDir': {}}, {'name': 'k', 'secret': {'secretName': 'kept', 'defaultMode': 0o444}}])
    c.good('POST', PODS, p)
    c.until('it runs', lambda: c.phase('suid', 'Running'))

    def found():
        names = {'s': [], 'word': []}
        for top, _, files in os.walk(n.data):
            for name in set(files) & set(names):
                names[name].append(os.path.join(top, name))
        return names if len(names['s']) >= 2 and names['word'] else None
    for paths in c.until('its files are there', found).values():
        for path in paths:
            mode = os.lstat(path).st_mode
            seen = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'test', '-e', path])
            assert seen.returncode == 1, f'others of the machine get to {path}, mode {mode:o}'
    remove(c, ['suid'])


def image_names(c):
    """No path of the machine is an image: what a pod names lies in the node's folder of images."""
    for number, image in enumerate((f'dir:/', 'dir:/etc', 'dir:' + c.folder, 'dir:' + c.images, 'dir:' + c.images + '/..', f'dir:{c.images}/plain/../..', 'oci:/etc', 'oci-archive:/etc/passwd', 'docker-archive:/etc/passwd', f'oci:{c.images}/../up:latest', '../../../etc/passwd',
                                    'example.test/../../plain:1', '/etc/passwd', 'file:///etc/passwd', 'sha256:' + '../' * 10 + 'etc')):
        name = f'named-{number}'
        code, answer = c.call('POST', PODS, a_pod(name, image))
        if code == 422:
            continue
        assert code == 201, answer
        got = c.until(f'{image} is refused', lambda: state(c, name))
        assert got != 'running', f'{image} runs'
        remove(c, [name])
    # One that is there, by its path, does run.
    c.good('POST', PODS, a_pod('by-path', f'oci:{c.images}/plain'))
    assert c.until('it runs', lambda: state(c, 'by-path')) == 'running'
    remove(c, ['by-path'])


# --- Plugins ------------------------------------------------------------------------------------------------------------


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


HEAD = frame(1, 4, 1, b'\x88\x00\x0ccontent-type\x10application/grpc')  # :status 200
SETTINGS = frame(4)


def forever(part, beginning=b''):
    def act(c):
        c.sendall(beginning)
        while True:
            c.sendall(part)
    return act


def once(data):
    def act(c):
        c.sendall(data)
        time.sleep(600)
    return act


MANNERS = {
    'silent': lambda c: time.sleep(600),
    'short': lambda c: None,
    'noise': forever(os.urandom(4096)),
    'http1': once(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'),
    'settings': forever(SETTINGS * 500),
    'ping': forever(frame(6, 0, 0, b'12345678') * 500, SETTINGS),
    'reset': forever(frame(3, 0, 1, b'\0\0\0\x07') * 100, SETTINGS),
    'headers': forever(frame(1, 0, 1, b'\x88') + frame(9, 0, 1, b'\x00\x7f\x81\x01' + b'h' * 256) * 50, SETTINGS),
    'data': forever(frame(0, 0, 1, b'\0\0\0\x00\x01x' * 2700), SETTINGS + HEAD),
    'largest': forever(frame(0, 0, 1, b'x' * 16384), SETTINGS + HEAD + frame(0, 0, 1, b'\0\xff\xff\xff\xff')),
    'compressed': once(SETTINGS + HEAD + frame(0, 0, 1, b'\1\0\0\0\1x')),
    'goaway': forever(frame(7, 0, 0, b'\0' * 8), SETTINGS),
    'window': once(SETTINGS + frame(8, 0, 0, b'\x7f\xff\xff\xff') * 3),
    'push': once(SETTINGS + frame(5, 4, 1, b'\0\0\0\2\x82')),
    'nonsense': once(SETTINGS + HEAD + frame(0, 0, 1, b'\0\0\0\0\x03\xff\xff\xff') + frame(1, 5, 1, b'\x00\x0bgrpc-status\x010')),
}


class Plugin(threading.Thread):
    """A socket in the folder of plugins, at which somebody misbehaves."""

    def __init__(self, path, act):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(8)
        self.act, self.came = act, 0
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.came += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.recv(4096)
            self.act(c)
        except OSError:
            pass
        c.close()


def memory_kib(process):
    with open(f'/proc/{process.pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


CLAIM = {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaim', 'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'gpu.example.com'}}]}}}


def plugins(c, n):
    registry, outside = n.data + '/plugins_registry', c.folder + '/outside'
    os.mkdir(outside)
    before = memory_kib(n.process)
    bad = {name: Plugin(f'{registry}/{name}.sock', act) for name, act in MANNERS.items()}
    crowd = [Plugin(f'{registry}/crowd-{i}.sock', MANNERS['silent']) for i in range(100)]
    # Not sockets, or not here: a link to one elsewhere, a folder elsewhere, a file, a pipe.
    away = Plugin(outside + '/away.sock', MANNERS['silent'])
    os.symlink(outside + '/away.sock', registry + '/linked.sock')
    os.symlink(outside, registry + '/folder')
    open(registry + '/file.sock', 'w').close()
    os.mkfifo(registry + '/fifo.sock')
    n.driver('example-gpu')
    c.until('the good driver has its devices', lambda: [s for s in c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'] if s['spec'].get('nodeName') == 'here'])
    c.good('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims', {**CLAIM, 'metadata': {'name': 'claim'}})
    p = pod('good', [dict(container('c', 'env; ' + FOREVER), resources={'claims': [{'name': 'gpu'}]})], None, resourceClaims=[{'name': 'gpu', 'resourceClaimName': 'claim'}])
    c.good('POST', PODS, p)
    c.until('a pod with a device runs', lambda: c.phase('good', 'Running'))
    c.until('all of them were asked', lambda: all(x.came for x in [*bad.values(), *crowd]), 60)
    # Those that send without end send for a while.
    time.sleep(5)
    grown = memory_kib(n.process) - before
    assert n.process.poll() is None, c.tell()
    assert grown < (400 if SANITIZED else 64) * MIB, f'the agent has {grown // MIB} MiB more'
    assert away.came == 0, 'a link in the folder of plugins was followed'
    remove(c, ['good'])
    told = open(os.path.join(c.folder, 'here.err')).read()
    assert len(told) < 2 << 20, f'the agent said {len(told)} bytes about them'
    for x in [*bad.values(), *crowd, away]:
        x.socket.close()
    return len(bad) + len(crowd)


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    n = Node(c)
    done = False
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n.start()
        tried = images(c)
        image_names(c)
        others_of_the_machine(c, n)
        listened = plugins(c, n)
        n.end()
        c.stop()
        done = True
    finally:
        if not done:
            print(c.tell(), file=sys.stderr)
        n.kill()
        c.wreck()
    print(f'node: {tried} images and {listened} plugins, and the machine is as it was')


main()

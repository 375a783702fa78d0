# SPDX-License-Identifier: Apache-2.0
"""What tests of `dray agent` share: an image made from busybox, a control plane, a node of this machine, drivers."""
import glob, hashlib, http.client, io, json, os, re, shutil, signal, socket, subprocess, tarfile, tempfile, time, zlib

IMAGE = 'example.test/busybox:1'
PODS = '/api/v1/namespaces/default/pods'
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def why_not():
    """Why containers cannot run here, or None."""
    if os.geteuid() != 0:
        return 'not root'
    if not (shutil.which('crun') or shutil.which('runc')):
        return 'neither crun nor runc is there'
    if not shutil.which('busybox'):
        return 'busybox is not there'
    if b'dynamically' in subprocess.run(['file', '-L', shutil.which('busybox')], capture_output=True).stdout if shutil.which('file') else False:
        return 'busybox is not static (install busybox-static)'
    return None


def skip_if_impossible():
    why = why_not()
    if why:
        print(f'skipped: {why}')
        raise SystemExit(77)


def make_image(folder, name=IMAGE):
    """An OCI layout with one layer: busybox, its names as links, the folders a container expects."""
    busybox = shutil.which('busybox')
    names = subprocess.run([busybox, '--list'], capture_output=True, text=True, check=True).stdout.split()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode='w') as tar:
        def entry(path, kind, mode=0o755, data=b'', link=''):
            e = tarfile.TarInfo(path)
            e.type, e.mode, e.size, e.linkname = kind, mode, len(data), link
            tar.addfile(e, io.BytesIO(data))
        for path in ('bin', 'etc', 'tmp', 'proc', 'sys', 'dev', 'var'):
            entry(path, tarfile.DIRTYPE, 0o1777 if path == 'tmp' else 0o755)
        entry('bin/busybox', tarfile.REGTYPE, data=open(busybox, 'rb').read())
        for n in names:
            if n != 'busybox':
                entry('bin/' + n, tarfile.SYMTYPE, link='busybox')
        entry('etc/passwd', tarfile.REGTYPE, 0o644, b'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n')
        entry('etc/group', tarfile.REGTYPE, 0o644, b'extra:x:77:nobody\n')
    blobs = os.path.join(folder, 'blobs', 'sha256')
    os.makedirs(blobs, exist_ok=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), 'wb') as f:
            f.write(data)
        return {'digest': 'sha256:' + digest, 'size': len(data)}
    diff = layer.getvalue()
    arch = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine)
    config = blob(json.dumps({'architecture': arch, 'os': 'linux', 'config': {'Cmd': ['sleep', '3600'], 'Env': ['PATH=/bin', 'FROM_IMAGE=yes']},
                              'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(diff).hexdigest()]}}).encode())
    manifest = blob(json.dumps({'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json',
                                'config': dict(config, mediaType='application/vnd.oci.image.config.v1+json'),
                                'layers': [dict(blob(diff), mediaType='application/vnd.oci.image.layer.v1.tar')]}).encode())
    with open(os.path.join(folder, 'oci-layout'), 'w') as f:
        json.dump({'imageLayoutVersion': '1.0.0'}, f)
    with open(os.path.join(folder, 'index.json'), 'w') as f:
        json.dump({'schemaVersion': 2, 'manifests': [dict(manifest, mediaType='application/vnd.oci.image.manifest.v1+json',
                                                         annotations={'org.opencontainers.image.ref.name': name})]}, f)


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__('localhost', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Cluster:
    """A control plane (`dray up --nodes 0`), and what is needed to add nodes of this machine to it."""

    def __init__(self, dray, flags=()):
        self.dray = os.path.abspath(dray)
        self.folder = tempfile.mkdtemp(prefix='dray-agent-', dir='/tmp')
        self.tag = os.path.basename(self.folder)[-6:].lower().replace('_', 'x')
        self.images = os.path.join(self.folder, 'images')
        self.cdi = os.path.join(self.folder, 'cdi')
        for d in (self.images, self.cdi):
            os.makedirs(d)
        self.processes = []
        self.flags = flags
        self.up = None
        self.start()

    def start(self):
        data = os.path.join(self.folder, 'up')
        self.up = subprocess.Popen([self.dray, 'up', '--nodes', '0', '--data-dir', data, '--listen', '127.0.0.1:0', *self.flags],
                                   stdout=subprocess.PIPE, stderr=open(os.path.join(self.folder, 'up.err'), 'a'), text=True)
        first = self.up.stdout.readline()
        assert 'dray is up at' in first, 'not up: ' + first + open(os.path.join(self.folder, 'up.err')).read()[-2000:]
        self.url = first.split()[-1]
        self.kubeconfig = os.path.join(data, 'kubeconfig')
        for line in self.up.stdout:
            if 'KUBECONFIG=' in line:
                self.kubeconfig = line.strip().split('KUBECONFIG=')[1]
            if 'Ctrl-C' in line:
                break

    def call(self, method, path, body=None, kind='application/json'):
        c = Unix(os.path.join(self.folder, 'up', 'dray.sock'))
        c.request(method, path, json.dumps(body) if body is not None else None, {'Content-Type': kind})
        answer = c.getresponse()
        data = answer.read()
        c.close()
        try:
            return answer.status, json.loads(data) if data else None
        except ValueError:
            return answer.status, data.decode(errors='replace')

    def good(self, method, path, body=None, kind='application/json'):
        code, answer = self.call(method, path, body, kind)
        assert 200 <= code < 300, f'{method} {path}: {code} {json.dumps(answer)[:1000]}'
        return answer

    def pod(self, name, namespace='default'):
        code, p = self.call('GET', f'/api/v1/namespaces/{namespace}/pods/{name}')
        return p if code == 200 else None

    def phase(self, name, want):
        p = self.pod(name)
        return p if p and p['status'].get('phase') == want else None

    def events(self, namespace='default'):
        items = self.good('GET', f'/api/v1/namespaces/{namespace}/events')['items']
        return [(e['involvedObject'].get('name'), e['reason'], e.get('message', '')) for e in items]

    def until(self, what, condition, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = condition()
            if got:
                return got
            time.sleep(0.05)
        raise AssertionError(f'{what}: not within {seconds} s\n' + self.tell())

    def tell(self):
        out = []
        try:
            for p in self.good('GET', '/api/v1/pods')['items']:
                out.append(json.dumps({'pod': p['metadata']['name'], 'status': p['status']})[:3000])
            out += [' '.join(map(str, e)) for e in self.events()]
        except Exception as e:
            out.append(f'(cannot tell: {e})')
        for f in glob.glob(os.path.join(self.folder, '*.err')) + glob.glob(os.path.join(self.folder, '*.out')):
            out.append(f'--- {f}\n' + open(f, errors='replace').read()[-3000:])
        return '\n'.join(out)

    def stop(self):
        if self.up and self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
            self.up.wait(60)
            assert self.up.returncode == 0, open(os.path.join(self.folder, 'up.err')).read()[-4000:]


    def wreck(self):
        """After a failure: everything that was started here goes, so that the next test finds a clean machine."""
        for _ in range(3):
            for p in glob.glob('/proc/[0-9]*'):
                try:
                    ours = f'dray-{self.tag}' in open(p + '/cgroup').read() or self.folder.encode() in open(p + '/cmdline', 'rb').read()
                except OSError:
                    continue
                if ours and int(p.split('/')[2]) != os.getpid():
                    try:
                        os.kill(int(p.split('/')[2]), signal.SIGKILL)
                    except OSError:
                        pass
            time.sleep(0.2)
        for line in reversed(open('/proc/self/mountinfo').read().splitlines()):
            if self.folder in line:
                subprocess.run(['umount', '-l', line.split()[4]], capture_output=True)
        for link in os.listdir('/sys/class/net'):
            if link.startswith('dr' + self.tag):
                subprocess.run(['ip', 'link', 'del', link], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """`dray agent` on this machine, in a folder of its own, with drivers."""

    def __init__(self, cluster, name='here'):
        self.c, self.name = cluster, name
        self.data = os.path.join(cluster.folder, name)
        self.process = None
        self.drivers = []
        self.said = 0
        number = zlib.crc32((cluster.tag + name).encode())  # several tests at a time do not meet
        self.subnet = f'10.{200 + number % 50}.{number // 50 % 250}.0/24'

    def start(self, env=None, flags=(), wait=True):
        # The umask of `dray up`: nothing that containers see may depend on it.
        c = self.c
        out = os.path.join(c.folder, f'{self.name}.out')
        self.said = len(open(out).read()) if os.path.exists(out) else 0
        command = [c.dray, 'agent', '--kubeconfig', c.kubeconfig, '--node-name', self.name, '--data-dir', self.data, '--image-dir', c.images,
                   '--cdi-dir', c.cdi, '--bridge', 'dr' + c.tag + self.name[:4], '--cgroup', 'dray-' + c.tag, '--pod-subnet', self.subnet,
                   '--listen', '127.0.0.1:0', '--node-ip', '127.0.0.1', '--pki', os.path.join(c.folder, 'up', 'pki'), '--refresh', '1', '--keep-slices', *flags]
        self.process = subprocess.Popen(command, stdout=open(os.path.join(c.folder, f'{self.name}.out'), 'a'),
                                        stderr=open(os.path.join(c.folder, f'{self.name}.err'), 'a'), env=dict(os.environ, **(env or {})), umask=0o077)
        if wait:
            self.until_ready()

    def until_ready(self):
        def ready():
            assert self.process.poll() is None, 'the agent ended: ' + self.c.tell()
            if 'registered node' not in open(os.path.join(self.c.folder, f'{self.name}.out')).read()[self.said:]:
                return False
            code, n = self.c.call('GET', f'/api/v1/nodes/{self.name}')
            return code == 200 and any(x['type'] == 'Ready' and x['status'] == 'True' for x in n['status'].get('conditions', []))
        self.c.until('the node is ready', ready)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            assert self.process.returncode == 0, self.c.tell()

    def driver(self, profiles, *flags):
        d = subprocess.Popen([self.c.dray, 'driver', 'sim', '--profile', profiles, '--node', self.name, '--kubeconfig', self.c.kubeconfig,
                              '--plugins', os.path.join(self.data, 'plugins'), '--registry', os.path.join(self.data, 'plugins_registry'),
                              '--cdi', self.c.cdi, *flags],
                             stdout=open(os.path.join(self.c.folder, 'driver.out'), 'a'), stderr=open(os.path.join(self.c.folder, 'driver.err'), 'a'))
        self.drivers.append(d)
        return d

    def clean(self):
        """Nothing may be left of a node whose pods are all gone: no container, no mount, no folder."""
        left = glob.glob(os.path.join(self.data, 'pods', '*')) + glob.glob(os.path.join(self.data, 'runtime', 'containers', '*')) + \
            glob.glob(os.path.join(self.data, 'runtime', 'pods', '*'))
        mounts = [line.split()[4] for line in open('/proc/self/mountinfo') if self.data in line]
        running = [p for p in processes(self.c.folder) if 'dray-monitor' in p]
        return left + mounts + running

    def end(self):
        for d in self.drivers:
            if d.poll() is None:
                d.send_signal(signal.SIGTERM)
        for d in self.drivers:
            try:
                d.wait(30)
            except subprocess.TimeoutExpired:
                d.kill()
        self.stop()


def processes(word):
    out = []
    for p in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            line = open(p, 'rb').read().replace(b'\0', b' ').decode(errors='replace')
        except OSError:
            continue
        if word in line:
            out.append(line)
    return out


def container(name, script=None, **more):
    c = {'name': name, 'image': IMAGE, **more}
    if script is not None:
        c['command'] = ['sh', '-c', script]
    return c


def pod(name, containers, node=None, **spec):
    s = {'containers': containers, 'terminationGracePeriodSeconds': 2, **spec}
    if node:
        s['nodeName'] = node
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': s}


FOREVER = "trap 'exit 0' TERM; while true; do sleep 0.1; done"

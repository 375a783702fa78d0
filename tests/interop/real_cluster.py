# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes on this machine for the interoperability checks: etcd, kube-apiserver, kube-scheduler, kube-controller-manager,
containerd and kubelet, started by the scripts of peers/kubernetes from the programs in $PEERS/bin, with state in a folder of its own.

KUBERNETES names the folder of programs below $PEERS/bin (the newest there is otherwise), KUBELET a folder whose kubelet is taken instead
(kubelet may be up to three minor versions older than the rest)."""
import glob, http.client, json, os, shutil, ssl, subprocess, sys, tempfile, time

from common import peers, skip

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'peers', 'kubernetes')
NODE = 'vm'
CONTROL = ('kube-apiserver', 'kube-scheduler', 'kube-controller-manager', 'kubectl')
RUNTIME = '/usr/sbin/runc'


def until(what, check, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError('never came: ' + what)


def programs(kubelet=True):
    """Folders of the control plane and of kubelet; skips when something is not there."""
    if os.geteuid() != 0:
        skip('a real kubelet (needs root)')
    top = os.path.join(peers(), 'bin')
    versions = sorted(glob.glob(os.path.join(top, 'v1.*')), key=lambda p: [int(n) for n in os.path.basename(p)[1:].split('.')])
    control = os.path.join(top, os.environ['KUBERNETES']) if 'KUBERNETES' in os.environ else versions[-1] if versions else os.path.join(top, 'v1.37.1')
    node = os.path.join(top, os.environ['KUBELET']) if 'KUBELET' in os.environ else control
    wanted = [os.path.join(control, n) for n in CONTROL] + [os.path.join(top, 'etcd')]
    if kubelet:
        wanted += [os.path.join(node, 'kubelet'), *(os.path.join(top, n) for n in ('containerd', 'containerd-shim-runc-v2', 'ctr')), RUNTIME]
    missing = [p for p in wanted if not os.path.exists(p)]
    if missing:
        skip('a real kubelet (no ' + ', '.join(missing) + ')')
    return control, node


def loopback():
    """containerd wants the plugin of this name for every pod that has a network of its own; Debian's package is containernetworking-plugins."""
    wanted, packaged = os.path.join(peers(), 'bin', 'cni', 'loopback'), '/usr/lib/cni/loopback'
    if not os.path.exists(wanted):
        if not os.path.exists(packaged):
            skip('a real kubelet (no loopback plugin for containerd: install containernetworking-plugins)')
        os.makedirs(os.path.dirname(wanted), exist_ok=True)
        shutil.copy(packaged, wanted)


def images():
    """The two images that pods here are made of, as archives."""
    folder = os.path.join(peers(), 'images')
    os.makedirs(folder, exist_ok=True)
    tool = [sys.executable, os.path.join(SCRIPTS, 'mkimage.py')]
    if not os.path.exists(os.path.join(folder, 'pause.tar')):
        with tempfile.TemporaryDirectory() as scratch:
            pause = os.path.join(scratch, 'pause')
            subprocess.run(['cc', '-static', '-Os', '-o', pause, os.path.join(SCRIPTS, 'pause.c')], check=True)
            subprocess.run([*tool, os.path.join(folder, 'pause.tar'), 'localhost/pause:1', '/pause', f'{pause}=/pause'], check=True)
    if not os.path.exists(os.path.join(folder, 'busybox.tar')):
        busybox = shutil.which('busybox')
        if not busybox:
            skip('a real kubelet (no busybox for the image of its pods)')
        links = 'sh,cat,env,echo,ls,sleep,test,sort'
        subprocess.run([*tool, os.path.join(folder, 'busybox.tar'), 'localhost/busybox:1', '/bin/sh', f'{busybox}=/bin/busybox={links}'], check=True)


class Cluster:
    """A control plane, and kubelet's node unless told otherwise. env: what the script that starts it is told beyond that. dray: this
    program is the control plane."""

    def __init__(self, kubelet=True, env=lambda run: {}, dray=None):
        control, node = programs(kubelet)
        if kubelet:
            loopback()
            images()
        self.top = tempfile.mkdtemp(prefix='dk-')  # short: sockets have 108 bytes
        self.node = os.path.join(self.top, 'n')
        self.port = int(os.environ.get('PORTBASE', '17440'))
        both = os.path.join(self.top, 'bin')
        os.makedirs(both)
        for name in CONTROL:
            os.symlink(os.path.join(control, name), os.path.join(both, name))
        if kubelet:
            os.symlink(os.path.join(node, 'kubelet'), os.path.join(both, 'kubelet'))
        self.env = dict(os.environ, PEERS=peers(), K8S_BIN=both, RUN=os.path.join(self.top, 'c'), NODE=self.node, NODENAME=NODE,
                        PORTBASE=str(self.port), RUNTIME=RUNTIME)
        if 'v1.37' not in control and 'v1.36' not in control:
            self.env.update(FEATURES='default', TUNED='0')  # flags of today are not theirs
        self.env.update(env(self.env['RUN']))
        self.kubeconfig = os.path.join(self.env['RUN'], 'admin.kubeconfig')
        self.folders = {'plugins': os.path.join(self.node, 'kubelet', 'plugins'), 'registry': os.path.join(self.node, 'kubelet', 'plugins_registry'),
                        'cdi': os.path.join(self.node, 'cdi')}
        self.dray = None
        try:
            if dray:
                self.start_dray(dray)
            else:
                self.script('up')
            self.tls = ssl.create_default_context(cafile=os.path.join(self.env['RUN'], 'ca.crt'))
            until('the default service account', lambda: self.call('GET', '/api/v1/namespaces/default/serviceaccounts/default', missing=True))
            if kubelet:
                self.script('node-up')
                until('a node that is ready', self.ready)
        except BaseException:
            self.done()
            raise
        self.version = self.call('GET', '/version')['gitVersion']
        if kubelet:
            self.kubelet = self.call('GET', f'/api/v1/nodes/{NODE}')['status']['nodeInfo']['kubeletVersion']

    def start_dray(self, dray):
        run = self.env['RUN']
        tokens = os.path.join(run, 'tokens.csv')
        os.makedirs(run)
        with open(tokens, 'w') as f:
            f.write(f'admin-token-{self.port},admin,admin,"system:masters"\n')
        os.chmod(tokens, 0o600)
        with open(os.path.join(run, 'dray.log'), 'ab') as log:
            self.dray = subprocess.Popen([dray, 'up', '--nodes', '0', '--data-dir', os.path.join(run, 'd'), '--listen', f'127.0.0.1:{self.port + 3}',
                                          '--token-file', tokens, '--kubeconfig-out', self.kubeconfig], stdout=log, stderr=log)
        authority = os.path.join(run, 'd', 'pki', 'ca.crt')
        until('dray to be up', lambda: b'dray is up' in open(log.name, 'rb').read())
        shutil.copy(authority, os.path.join(run, 'ca.crt'))

    def script(self, name):
        words = [os.path.join(SCRIPTS, name)]
        if name == 'node-up':
            # Once somebody has made a network namespace by name here, /run/netns is a mount of its own. The node has another /run above it,
            # but containerd still finds that mount in the table, made private, and refuses what wants to share it.
            words = ['unshare', '-m', 'sh', '-c', 'umount -l /run/netns 2>/dev/null; exec "$0"', *words]
        # Files, not pipes: what the scripts leave running has them open.
        with open(os.path.join(self.top, name + '.log'), 'ab') as log:
            run = subprocess.run(words, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=300)
        assert run.returncode == 0, (name, open(log.name).read())

    def call(self, method, path, body=None, missing=False, refused=False):
        c = http.client.HTTPSConnection('127.0.0.1', self.port + 3, timeout=30, context=self.tls)
        c.request(method, path, json.dumps(body) if body else None,
                  {'Content-Type': 'application/json', 'Authorization': f'Bearer admin-token-{self.port}'})
        answer = c.getresponse()
        data = json.loads(answer.read())
        c.close()
        if missing and answer.status == 404:
            return None
        assert refused or answer.status < 300, (method, path, data)
        return data

    def ready(self):
        node = self.call('GET', f'/api/v1/nodes/{NODE}', missing=True)
        return node and any(c['type'] == 'Ready' and c['status'] == 'True' for c in node['status'].get('conditions', []))

    def kubelet_pid(self):
        return int(open(os.path.join(self.node, 'kubelet.pid')).read())

    def kubelet_restart(self):
        """kubelet again, killed in between; containers go on."""
        old = self.kubelet_pid()
        words = open(f'/proc/{old}/cmdline').read().split('\0')[:-1]
        os.kill(old, 9)
        until('the end of kubelet', lambda: not os.path.exists(f'/proc/{old}'))
        runtime = open(os.path.join(self.node, 'containerd.pid')).read().strip()
        with open(os.path.join(self.node, 'kubelet.log'), 'ab') as log:
            new = subprocess.Popen(['nsenter', '-m', '-t', runtime, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        self.started = new
        with open(os.path.join(self.node, 'kubelet.pid'), 'w') as f:
            f.write(str(new.pid))

    def log(self, name):
        path = os.path.join(self.node, name + '.log')
        return open(path, errors='replace').read() if os.path.exists(path) else ''

    def done(self):
        if not os.path.isdir(self.top):
            return
        scripts = ['node-down'] * os.path.isdir(self.node) + ['down'] * (not self.dray)
        for name in scripts:
            try:
                self.script(name)
            except (AssertionError, subprocess.TimeoutExpired) as e:
                print(e)
        if self.dray:
            self.dray.terminate()
            assert self.dray.wait(timeout=60) == 0, 'dray up did not stop well'
        if getattr(self, 'started', None):
            self.started.wait(timeout=30)
        for path in glob.glob('/proc/[0-9]*/cmdline'):  # pods of a run that broke off
            try:
                words = open(path, errors='replace').read()
                if 'containerd-shim' in words and self.top + '/' in words:
                    os.kill(int(path.split('/')[2]), 9)
            except OSError:
                pass
        for line in reversed(open('/proc/mounts').read().splitlines()):  # containerd's mounts stay in its namespace; those of a failed start may not
            if line.split()[1].startswith(self.top + '/'):
                subprocess.run(['umount', '-l', line.split()[1]], check=False)
        if not os.environ.get('KEEP'):
            shutil.rmtree(self.top, ignore_errors=True)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray agent` as a node of a real cluster: etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubectl, nothing of dray but the
node and its driver. The agent is `system:node:NAME` by its certificate, judged by the Node authorizer and NodeRestriction; the API server
comes to its endpoint with a certificate of its own and checks the node's. Needs root, crun or runc, a static busybox and what
real_cluster.py says. Usage: agent_real.py DRAY"""
import glob, importlib.util, json, os, shutil, signal, socket, subprocess, sys, threading

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, '..', 'e2e')]
import agent_kit  # noqa: E402
from agent_kit import FOREVER, PODS, container, make_image, pod
from common import skip
from real_cluster import Cluster, until

NODE, GPU = 'here', 'gpu.example.com'
CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'
SHOW = 'env | grep GPU_DEVICE | sort; echo shown; ' + FOREVER

# kubectl as the helpers beside us call it; e2e has a module of the same name.
spec = importlib.util.spec_from_file_location('kubectl_streams', os.path.join(FOLDER, 'streams.py'))
streams = importlib.util.module_from_spec(spec)


class World:
    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig


def same(what, got, want):
    assert got == want, f'{what}: want {want!r}, got {got!r}'


def certificate(cluster, name, subject, extensions):
    """A certificate of the cluster's CA; the names of its files."""
    run, at = cluster.env['RUN'], os.path.join(cluster.top, name)
    with open(at + '.ext', 'w') as f:
        f.write(extensions)
    quiet = dict(check=True, capture_output=True)
    subprocess.run(['openssl', 'req', '-newkey', 'rsa:2048', '-nodes', '-subj', subject, '-keyout', at + '.key', '-out', at + '.csr'], **quiet)
    subprocess.run(['openssl', 'x509', '-req', '-in', at + '.csr', '-CA', run + '/ca.crt', '-CAkey', run + '/ca.key', '-CAcreateserial', '-days', '2',
                    '-extfile', at + '.ext', '-out', at + '.crt'], **quiet)
    return at + '.crt', at + '.key'


class Node:
    """The agent and its driver."""

    def __init__(self, cluster, dray):
        self.c, self.dray = cluster, dray
        self.data = os.path.join(cluster.top, 'a')
        self.cdi = os.path.join(cluster.top, 'cdi')
        self.images = os.path.join(cluster.top, 'images')
        self.tag = os.path.basename(cluster.top)[3:9].lower().replace('_', 'x')
        self.running = {}
        os.makedirs(self.cdi)
        make_image(os.path.join(self.images, 'busybox'))
        self.serving = certificate(cluster, 'serving', f'/O=system:nodes/CN=system:node:{NODE}', 
                                   f'subjectAltName=IP:127.0.0.1,DNS:{NODE},DNS:{socket.gethostname()}\nextendedKeyUsage=serverAuth\n')
        crt, key = certificate(cluster, 'node', f'/O=system:nodes/CN=system:node:{NODE}', 'extendedKeyUsage=clientAuth\n')
        self.kubeconfig = os.path.join(cluster.top, 'node.kubeconfig')
        with open(self.kubeconfig, 'w') as f:
            json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'x', 'contexts': [{'name': 'x', 'context': {'cluster': 'c', 'user': 'u'}}],
                       'clusters': [{'name': 'c', 'cluster': {'server': f'https://127.0.0.1:{cluster.port + 3}', 'certificate-authority': cluster.env['RUN'] + '/ca.crt'}}],
                       'users': [{'name': 'u', 'user': {'client-certificate': crt, 'client-key': key}}]}, f)

    def log(self, name):
        return os.path.join(self.c.top, name + '.out')

    def run(self, name, *words):
        out = open(self.log(name), 'ab')
        self.running[name] = subprocess.Popen([self.dray, *words], stdout=out, stderr=out)

    def start(self):
        self.run('agent', 'agent', '--kubeconfig', self.kubeconfig, '--node-name', NODE, '--data-dir', self.data, '--image-dir', self.images, '--cdi-dir', self.cdi,
                 '--bridge', 'dr' + self.tag, '--cgroup', 'dray-' + self.tag, '--pod-subnet', '10.251.77.0/24', '--listen', f'127.0.0.1:{self.c.port + 6}',
                 '--node-ip', '127.0.0.1', '--tls-cert-file', self.serving[0], '--tls-private-key-file', self.serving[1], '--refresh', '1')

    def start_driver(self):
        self.run('driver', 'driver', 'sim', '--profile', 'example-gpu', '--node', NODE, '--kubeconfig', self.c.kubeconfig, '--plugins', os.path.join(self.data, 'plugins'),
                 '--registry', os.path.join(self.data, 'plugins_registry'), '--cdi', self.cdi)

    def stop(self, name, how=signal.SIGTERM):
        p = self.running.pop(name)
        p.send_signal(how)
        code = p.wait(timeout=60)
        assert how == signal.SIGKILL or code == 0, (name, code)

    def left(self):
        """What is left of pods."""
        names = [p for w in ('pods', 'runtime/containers', 'runtime/pods') for p in glob.glob(os.path.join(self.data, w, '*'))]
        mounts = [line.split()[4] for line in open('/proc/self/mountinfo') if self.data in line]
        return names + mounts + [p for p in agent_kit.processes(self.c.top) if 'dray-monitor' in p]


# --- What is looked at ---------------------------------------------------------------------------

def conditions(o):
    return {c['type']: c['status'] for c in o['status'].get('conditions', [])}


def phase(c, name):
    p = c.call('GET', f'{PODS}/{name}', missing=True)
    return p['status'].get('phase') if p else None


def events(c, name):
    return [e['reason'] for e in c.call('GET', '/api/v1/namespaces/default/events')['items'] if e['involvedObject'].get('name') == name]


def check_node(c, n):
    def ready():
        assert n.running['agent'].poll() is None, 'the agent ended'
        o = c.call('GET', f'/api/v1/nodes/{NODE}', missing=True)
        return o and conditions(o).get('Ready') == 'True'
    until('a node that is ready', ready)
    node = c.call('GET', f'/api/v1/nodes/{NODE}')
    assert 'ExtendWebSocketsToKubelet' in node['status']['declaredFeatures'], node['status']
    same('its port', node['status']['daemonEndpoints']['kubeletEndpoint']['Port'], c.port + 6)
    until('its lease', lambda: c.call('GET', f'/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}', missing=True))
    # The controllers find nothing to complain of, and take off the taint with which nodes are born.
    until('a node without taints', lambda: not c.call('GET', f'/api/v1/nodes/{NODE}')['spec'].get('taints'))


def check_claim(c, n, k):
    """A pod with a claim, scheduled by kube-scheduler, shows its device and lets go of it at the end."""
    until('slices', lambda: [s for s in c.call('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'] if s['spec']['driver'] == GPU])
    c.call('POST', CLAIMS[:-1] + 'templates', {'metadata': {'name': 'one'}, 'spec': {'spec': {'devices': {'requests': [{'name': 'g', 'exactly': {'deviceClassName': GPU}}]}}}})
    both = [container('main', SHOW, resources={'claims': [{'name': 'c'}]}), container('other', SHOW)]
    c.call('POST', PODS, pod('gpu', both, resourceClaims=[{'name': 'c', 'resourceClaimTemplateName': 'one'}]))
    until('it runs', lambda: phase(c, 'gpu') == 'Running')
    until('it shows', lambda: 'shown' in k('logs', 'gpu', '-c', 'main')[1])
    claim = [o for o in c.call('GET', CLAIMS)['items']][0]
    device = claim['status']['allocation']['devices']['results'][0]['device']
    assert f'={device}\n' in k('logs', 'gpu', '-c', 'main')[1], k('logs', 'gpu', '-c', 'main')
    until('the other shows', lambda: 'shown' in k('logs', 'gpu', '-c', 'other')[1])
    same('what the other has', k('logs', 'gpu', '-c', 'other')[1], 'shown\n')
    p = c.call('GET', f'{PODS}/gpu')
    got = conditions(p)
    same('conditions', [t for t in ('PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled') if got.get(t) != 'True'], [])
    same('health', [r['health'] for s in p['status']['containerStatuses'] for a in s.get('allocatedResourcesStatus', []) for r in a['resources']], ['Healthy'])
    until('events', lambda: {'Scheduled', 'Pulled', 'Created', 'Started'} <= set(events(c, 'gpu')))
    # The token of its service account came from the real API server and is good there.
    code, out, _ = k('exec', 'gpu', '-c', 'main', '--', 'cat', '/var/run/secrets/kubernetes.io/serviceaccount/token')
    review = c.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': out.strip()}})
    same('its token', review['status'].get('user', {}).get('username'), 'system:serviceaccount:default:default')
    # Restarts of the agent and of the driver do not touch it.
    before = p['status']['containerStatuses']
    n.stop('agent', signal.SIGKILL)
    n.stop('driver', signal.SIGKILL)
    n.start()
    n.start_driver()
    until('slices again', lambda: [s for s in c.call('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'] if s['spec']['driver'] == GPU])
    c.call('POST', PODS, pod('next', [both[0]], resourceClaims=[{'name': 'c', 'resourceClaimTemplateName': 'one'}]))
    until('the next runs', lambda: phase(c, 'next') == 'Running')
    after = c.call('GET', f'{PODS}/gpu')['status']['containerStatuses']
    same('containers over a restart', [s['containerID'] for s in after], [s['containerID'] for s in before])
    for name in 'gpu', 'next':
        same('deletion', k('delete', 'pod', name, '--timeout=60s')[0], 0)
    until('claims are gone', lambda: not c.call('GET', CLAIMS)['items'])
    assert 'Killing' in events(c, 'gpu'), events(c, 'gpu')
    until('nothing is left', lambda: not n.left())


def check_logs(c, n, k):
    c.call('POST', PODS, pod('talk', [container('main', 'echo one; echo two >&2; echo three; ' + FOREVER), container('side', 'echo side; ' + FOREVER)]))
    until('it runs', lambda: phase(c, 'talk') == 'Running')
    until('it has spoken', lambda: k('logs', 'talk', '-c', 'main')[1].count('\n') == 3)
    same('a log', sorted(k('logs', 'talk', '-c', 'main')[1].split()), ['one', 'three', 'two'])
    same('the last line', k('logs', 'talk', '-c', 'side', '--tail=1')[1], 'side\n')
    c.call('POST', PODS, pod('brief', [container('main', 'for i in 1 2 3 4 5; do echo $i; sleep 0.2; done')], restartPolicy='Never'))
    until('it has a log', lambda: k('logs', 'brief')[0] == 0)
    same('followed to its end', k('logs', '-f', 'brief')[:2], (0, '1\n2\n3\n4\n5\n'))
    until('it has succeeded', lambda: phase(c, 'brief') == 'Succeeded')


def check_exec(c, n, k):
    same('exec', k('exec', 'talk', '-c', 'main', '--', 'sh', '-c', 'echo out; echo err >&2; hostname'), (0, 'out\ntalk\n', 'err\n'))
    code, _, err = k('exec', 'talk', '-c', 'main', '--', 'sh', '-c', 'exit 42')
    same('an exit code', (code, err), (42, 'command terminated with exit code 42\n'))
    text = ''.join(f'{i:07}\n' for i in range(100000))
    same('much in, much out', k('exec', '-i', 'talk', '-c', 'main', '--', 'cat', input=text), (0, text, ''))
    streams.terminal(k, 'talk')
    assert not streams.streams.failures, streams.streams.failures
    p = k.start('exec', 'talk', '-c', 'side', '--', 'sh', '-c', 'echo go; sleep 12345')
    same('it runs', p.stdout.readline(), 'go\n')
    p.kill()
    p.wait()
    until('the command ends with its client', lambda: '12345' not in k('exec', 'talk', '-c', 'side', '--', 'ps')[1])


def check_attach(c, n, k):
    c.call('POST', PODS, pod('tick', [container('main', 'while true; do echo tick; sleep 0.1; done')]))
    until('it runs', lambda: phase(c, 'tick') == 'Running')
    p = k.start('attach', 'tick')
    got = []
    t = threading.Thread(target=lambda: got.extend(iter(p.stdout.readline, '')))
    t.start()
    until('its output', lambda: got.count('tick\n') >= 3)
    k('delete', 'pod', 'tick', '--grace-period=0', '--force')
    t.join(60)
    p.wait(timeout=60)
    # Its input, once: `sort` ends with it, and its output comes whole.
    code, out, err = k('run', 'sorter', '--image', agent_kit.IMAGE, '--restart=Never', '-i', '--rm', '--quiet', '--', 'sort', input='b\nc\na\n')
    same('run -i', (code, out), (0, 'a\nb\nc\n'))


def check_debug(c, n, k):
    """kubectl debug: a container that joins a running pod, and sees the processes of another."""
    code, _, err = k('debug', 'talk', '--image', agent_kit.IMAGE, '--image-pull-policy=IfNotPresent', '--target=main', '-c', 'look', '-q', '--',
                     'sh', '-c', 'ps; echo debugged')
    same('debug', code, 0)
    until('what it says', lambda: 'debugged' in k('logs', 'talk', '-c', 'look')[1])
    assert 'trap' in k('logs', 'talk', '-c', 'look')[1], k('logs', 'talk', '-c', 'look')
    p = until('its end', lambda: (lambda p: p if p['status'].get('ephemeralContainerStatuses', [{}])[0].get('state', {}).get('terminated') else None)(
        c.call('GET', f'{PODS}/talk')))
    same('its status', p['status']['ephemeralContainerStatuses'][0]['state']['terminated']['reason'], 'Completed')
    same('the pod', (p['status']['phase'], conditions(p)['Ready']), ('Running', 'True'))


def check_lives(c, n, k):
    """Probes, restarts, failures: conditions, reasons and events as kubelet's."""
    probe = {'exec': {'command': ['cat', '/tmp/ready']}}
    c.call('POST', PODS, pod('probe', [container('main', FOREVER, readinessProbe=dict(probe, periodSeconds=1))]))
    until('it runs', lambda: phase(c, 'probe') == 'Running')
    until('a failed probe', lambda: 'Unhealthy' in events(c, 'probe'))
    same('not ready', conditions(c.call('GET', f'{PODS}/probe'))['Ready'], 'False')
    same('a file', k('exec', 'probe', '--', 'touch', '/tmp/ready')[0], 0)
    until('it is ready', lambda: conditions(c.call('GET', f'{PODS}/probe'))['Ready'] == 'True')
    c.call('POST', PODS, pod('fails', [container('main', 'echo why > /dev/termination-log; exit 3')], restartPolicy='Never'))
    until('it fails', lambda: phase(c, 'fails') == 'Failed')
    ended = c.call('GET', f'{PODS}/fails')['status']['containerStatuses'][0]['state']['terminated']
    same('its end', (ended['reason'], ended['exitCode'], ended.get('message')), ('Error', 3, 'why\n'))
    c.call('POST', PODS, pod('loops', [container('main', 'exit 1')]))
    until('back-off', lambda: [s for s in c.call('GET', f'{PODS}/loops')['status'].get('containerStatuses', [])
                              if s['state'].get('waiting', {}).get('reason') == 'CrashLoopBackOff'])
    until('its event', lambda: 'BackOff' in events(c, 'loops'))
    c.call('POST', PODS, pod('image', [dict(container('main', 'true'), image='example.test/none:1', imagePullPolicy='Never')]))
    until('an image that is not there', lambda: [s for s in c.call('GET', f'{PODS}/image')['status'].get('containerStatuses', [])
                                                if s['state'].get('waiting', {}).get('reason') == 'ErrImageNeverPull'])
    c.call('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'name': 'cm'}, 'data': {'color': 'blue'}})
    c.call('POST', '/api/v1/namespaces/default/secrets', {'metadata': {'name': 'se'}, 'stringData': {'word': 'sesame'}})
    c.call('POST', PODS, pod('files', [container('main', 'echo $COLOR $WORD; cat /cm/color; echo; ' + FOREVER, volumeMounts=[{'name': 'cm', 'mountPath': '/cm'}], env=[
        {'name': 'COLOR', 'valueFrom': {'configMapKeyRef': {'name': 'cm', 'key': 'color'}}},
        {'name': 'WORD', 'valueFrom': {'secretKeyRef': {'name': 'se', 'key': 'word'}}}])], volumes=[{'name': 'cm', 'configMap': {'name': 'cm'}}]))
    until('config maps and secrets', lambda: k('logs', 'files')[:2] == (0, 'blue sesame\nblue\n'))


def check_end(c, n, k):
    same('deletion of all', k('delete', 'pods', '--all', '--timeout=120s')[0], 0)
    until('nothing is left', lambda: not n.left())


def tell(c, n, k):
    for name in 'agent', 'driver':
        if os.path.exists(n.log(name)):
            print(f'--- {name}\n' + open(n.log(name), errors='replace').read()[-4000:])
    for p in c.call('GET', '/api/v1/pods')['items']:
        print(k('logs', p['metadata']['name'], '--all-containers', '--tail=5'))
        print(json.dumps({'pod': p['metadata']['name'], 'status': p['status']})[:3000])
    for e in c.call('GET', '/api/v1/events')['items'][-40:]:
        print(e['involvedObject'].get('name'), e['reason'], e.get('message'))


def wreck(c, n):
    """Everything that was started goes."""
    for p in n.running.values():
        if p.poll() is None:
            p.kill()
            p.wait()
    broom = agent_kit.Cluster.__new__(agent_kit.Cluster)
    broom.tag, broom.folder = n.tag, n.data
    broom.wreck()


def main():
    dray = os.path.abspath(sys.argv[1])
    if agent_kit.why_not():
        skip('dray agent in a real cluster: ' + agent_kit.why_not())
    c = Cluster(kubelet=False, env=lambda run: {'APISERVER_EXTRA': f'--kubelet-certificate-authority={run}/ca.crt --enable-admission-plugins=NodeRestriction',
                                                'CONTROLLERS': '*'})
    spec.loader.exec_module(streams)
    n = Node(c, dray)
    k = streams.Kubectl(os.path.join(c.env['K8S_BIN'], 'kubectl'), World(c.kubeconfig))
    print(f'control plane {c.version}', flush=True)
    try:
        # What an administrator does so that the API server may use nodes' endpoints.
        same('a binding', k('create', 'clusterrolebinding', 'endpoints', '--clusterrole=system:kubelet-api-admin', '--user=kube-apiserver')[0], 0)
        n.start()
        check_node(c, n)
        n.start_driver()
        for step in check_claim, check_logs, check_exec, check_attach, check_debug, check_lives, check_end:
            step(c, n, k)
            print(f'ok: {step.__name__[6:]}', flush=True)
        for name in 'driver', 'agent':
            n.stop(name)
    except BaseException:
        tell(c, n, k)
        raise
    finally:
        wreck(c, n)
        c.done()
    print('dray agent in a real cluster: ok')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dray agent`: this machine as a node that runs containers. Pods with init containers and sidecars, environment and volumes of every
kind, probes, restarts, graceful ends, claims whose devices are seen by the container that names them and by no other, restarts of the
agent. Needs root, crun or runc, and a static busybox; else it is skipped. Usage: agent.py DRAY"""
import json, os, shutil, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_kit import *  # noqa: E402

DRAY = sys.argv[1] if len(sys.argv) > 1 else 'build/dray'


def log(c, name, container=None):
    code, text = c.call('GET', f'{PODS}/{name}/log' + (f'?container={container}' if container else ''))
    assert code == 200, f'log of {name}: {code} {text}'
    return text if isinstance(text, str) else json.dumps(text)


def status_of(p, name):
    for s in p['status'].get('containerStatuses', []) + p['status'].get('initContainerStatuses', []):
        if s['name'] == name:
            return s
    return {}


def gone(c, n, *names):
    for name in names:
        c.good('DELETE', f'{PODS}/{name}')
    for name in names:
        c.until(f'{name} is gone', lambda: c.pod(name) is None)
    c.until('nothing is left', lambda: not n.clean(), 30)


# --- The node ------------------------------------------------------------------------------------

def the_node(c, n):
    node = c.good('GET', '/api/v1/nodes/here')
    info, status = node['status']['nodeInfo'], node['status']
    assert status['capacity']['cpu'] == str(os.cpu_count()), status['capacity']
    assert status['capacity']['memory'].endswith('Ki') and status['allocatable']['pods'] == '110', status
    assert info['bootID'] == open('/proc/sys/kernel/random/boot_id').read().strip(), info
    assert info['kernelVersion'] == os.uname().release and info['operatingSystem'] == 'linux', info
    assert node['metadata']['labels']['kubernetes.io/hostname'] == 'here' and node['metadata']['labels']['kubernetes.io/os'] == 'linux'
    assert {x['type']: x['status'] for x in status['conditions']}['Ready'] == 'True'
    assert {'MemoryPressure', 'DiskPressure', 'PIDPressure'} <= {x['type'] for x in status['conditions']}
    assert status['daemonEndpoints']['kubeletEndpoint']['Port'] > 0
    assert {'type': 'InternalIP', 'address': '127.0.0.1'} in status['addresses']
    path = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/here'
    lease = c.until('a lease', lambda: (lambda code, o: o if code == 200 else None)(*c.call('GET', path)))
    assert lease['spec']['holderIdentity'] == 'here' and lease['spec']['leaseDurationSeconds'] == 40, lease


# --- Pods ----------------------------------------------------------------------------------------

def order_of_containers(c, n):
    shared = [{'name': 'work', 'mountPath': '/steps'}]
    c.good('POST', PODS, pod('order', [container('main', 'echo main >> /steps/order; cat /steps/order; ' + FOREVER, volumeMounts=shared)], 'here',
                             volumes=[{'name': 'work', 'emptyDir': {}}],
                             initContainers=[container('one', 'echo one >> /steps/order', volumeMounts=shared),
                                             container('side', 'echo side >> /steps/order; ' + FOREVER, volumeMounts=shared, restartPolicy='Always'),
                                             container('two', 'sleep 0.3; echo two >> /steps/order', volumeMounts=shared)]))
    p = c.until('it runs', lambda: c.phase('order', 'Running'))
    c.until('main wrote', lambda: 'main' in log(c, 'order', 'main'))
    assert log(c, 'order', 'main').split() == ['one', 'side', 'two', 'main'], log(c, 'order', 'main')
    p = c.pod('order')
    assert status_of(p, 'one')['state']['terminated']['reason'] == 'Completed', p['status']
    assert status_of(p, 'side')['state'].get('running') and status_of(p, 'side')['ready'], p['status']
    assert status_of(p, 'main')['containerID'].split('://')[0] in ('crun', 'runc'), p['status']
    gone(c, n, 'order')


def environment(c, n):
    c.good('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'name': 'cm'}, 'data': {'color': 'blue', 'size': 'big'}})
    c.good('POST', '/api/v1/namespaces/default/secrets', {'metadata': {'name': 'se'}, 'stringData': {'word': 'sesame'}})
    env = [{'name': 'PLAIN', 'value': 'x'}, {'name': 'EXPANDED', 'value': '$(PLAIN)-$$(PLAIN)-$(NONE)'},
           {'name': 'NAME', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}, {'name': 'NODE', 'valueFrom': {'fieldRef': {'fieldPath': 'spec.nodeName'}}},
           {'name': 'POD_IP', 'valueFrom': {'fieldRef': {'fieldPath': 'status.podIP'}}}, {'name': 'HOST_IP', 'valueFrom': {'fieldRef': {'fieldPath': 'status.hostIP'}}},
           {'name': 'LABEL', 'valueFrom': {'fieldRef': {'fieldPath': "metadata.labels['app']"}}},
           {'name': 'MILLI', 'valueFrom': {'resourceFieldRef': {'resource': 'limits.cpu', 'divisor': '1m'}}},
           {'name': 'MIB', 'valueFrom': {'resourceFieldRef': {'resource': 'requests.memory', 'divisor': '1Mi'}}},
           {'name': 'COLOR', 'valueFrom': {'configMapKeyRef': {'name': 'cm', 'key': 'color'}}},
           {'name': 'WORD', 'valueFrom': {'secretKeyRef': {'name': 'se', 'key': 'word'}}},
           {'name': 'MAYBE', 'valueFrom': {'configMapKeyRef': {'name': 'none', 'key': 'x', 'optional': True}}}]
    p = pod('env', [container('c', 'env; echo arg=$0; ' + FOREVER, args=['$(COLOR)'], env=env, envFrom=[{'prefix': 'CM_', 'configMapRef': {'name': 'cm'}}, {'secretRef': {'name': 'se'}}],
                              resources={'limits': {'cpu': '250m', 'memory': '64Mi'}})], 'here')
    p['metadata']['labels'] = {'app': 'shop'}
    c.good('POST', PODS, p)
    p = c.until('it runs', lambda: c.phase('env', 'Running'))
    c.until('all is said', lambda: 'arg=' in log(c, 'env'))
    got = dict(line.split('=', 1) for line in log(c, 'env').splitlines() if '=' in line)
    want = {'PLAIN': 'x', 'EXPANDED': 'x-$(PLAIN)-$(NONE)', 'NAME': 'env', 'NODE': 'here', 'POD_IP': p['status'].get('podIP', ''), 'HOST_IP': '127.0.0.1',
            'LABEL': 'shop', 'MILLI': '250', 'MIB': '64', 'COLOR': 'blue', 'WORD': 'sesame', 'CM_color': 'blue', 'CM_size': 'big', 'word': 'sesame',
            'FROM_IMAGE': 'yes', 'KUBERNETES_SERVICE_HOST': '127.0.0.1', 'HOSTNAME': 'env', 'arg': 'blue'}
    wrong = {k: (got.get(k), v) for k, v in want.items() if got.get(k) != v}
    assert not wrong and 'MAYBE' not in got, wrong
    assert p['status']['qosClass'] == 'Guaranteed'
    gone(c, n, 'env')


def volumes(c, n):
    host = os.path.join(c.folder, 'host')
    os.makedirs(host)
    open(os.path.join(host, 'file'), 'w').write('from the host')
    script = ('for f in /cm/color /se/deep/word /pro/size /pro/word /pro/name /down/labels /host/file /sub/x /one; do echo "$f:$(cat $f)"; done; '
              'stat -c %a /se/deep/word; touch /cm/new 2>&1 || echo read-only; touch /empty/a /memory/b && echo writable; '
              'grep " /memory " /proc/mounts; grep " /se " /proc/mounts; ls -a /cm; echo end; ' + FOREVER)
    p = pod('vol', [container('c', script, volumeMounts=[
        {'name': 'cm', 'mountPath': '/cm'}, {'name': 'se', 'mountPath': '/se'}, {'name': 'pro', 'mountPath': '/pro'}, {'name': 'down', 'mountPath': '/down'},
        {'name': 'host', 'mountPath': '/host', 'readOnly': True}, {'name': 'empty', 'mountPath': '/empty'}, {'name': 'memory', 'mountPath': '/memory'},
        {'name': 'empty', 'mountPath': '/sub', 'subPath': 'dir/sub'}, {'name': 'cm', 'mountPath': '/one', 'subPath': 'color'}])], 'here',
        initContainers=[container('fill', 'mkdir -p /e/dir/sub; echo -n deep > /e/dir/sub/x', volumeMounts=[{'name': 'empty', 'mountPath': '/e'}])],
        volumes=[{'name': 'cm', 'configMap': {'name': 'cm'}},
                 {'name': 'se', 'secret': {'secretName': 'se', 'items': [{'key': 'word', 'path': 'deep/word', 'mode': 0o400}]}},
                 {'name': 'pro', 'projected': {'sources': [{'configMap': {'name': 'cm', 'items': [{'key': 'size', 'path': 'size'}]}}, {'secret': {'name': 'se'}},
                                                          {'downwardAPI': {'items': [{'path': 'name', 'fieldRef': {'fieldPath': 'metadata.name'}}]}}]}},
                 {'name': 'down', 'downwardAPI': {'items': [{'path': 'labels', 'fieldRef': {'fieldPath': 'metadata.labels'}}]}},
                 {'name': 'host', 'hostPath': {'path': host, 'type': 'Directory'}}, {'name': 'empty', 'emptyDir': {}},
                 {'name': 'memory', 'emptyDir': {'medium': 'Memory', 'sizeLimit': '1Mi'}}])
    p['metadata']['labels'] = {'app': 'shop'}
    c.good('POST', PODS, p)
    c.until('it runs', lambda: c.phase('vol', 'Running'))
    c.until('all is said', lambda: 'end' in log(c, 'vol').split())
    said = log(c, 'vol')
    for line in ('/cm/color:blue', '/se/deep/word:sesame', '/pro/size:big', '/pro/word:sesame', '/pro/name:vol', '/down/labels:app="shop"', '/host/file:from the host',
                 '/sub/x:deep', '/one:blue', '400', 'read-only', 'writable', '..data'):
        assert line in said.splitlines(), f'{line} is missing in\n{said}'
    assert 'tmpfs /memory' in said and 'tmpfs /se' in said, said
    # A change of the config map appears in the running container, without a restart.
    c.good('PATCH', '/api/v1/namespaces/default/configmaps/cm', {'data': {'color': 'green'}}, 'application/merge-patch+json')
    path = f"{n.data}/pods/{c.pod('vol')['metadata']['uid']}/volumes/kubernetes.io~configmap/cm/color"
    c.until('the file follows', lambda: open(path).read() == 'green', 30)
    gone(c, n, 'vol')
    assert open(os.path.join(host, 'file')).read() == 'from the host'


def storage(c, n):
    """Claims: a folder that is made for the first pod and outlives it, a local volume, what cannot be mounted."""
    claims, volumes_at = '/api/v1/namespaces/default/persistentvolumeclaims', '/api/v1/persistentvolumes'
    base, disk = os.path.join(c.folder, 'made'), os.path.join(c.folder, 'disk')
    os.makedirs(disk)
    os.makedirs(base)
    os.chmod(base, 0o755)  # as /srv is

    def claim(name, kind):
        c.good('POST', claims, {'metadata': {'name': name}, 'spec': {
            'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Mi'}}, 'storageClassName': kind}})

    def volume(name, source):
        c.good('POST', volumes_at, {'metadata': {'name': name}, 'spec': {
            'accessModes': ['ReadWriteOnce'], 'capacity': {'storage': '1Mi'}, 'storageClassName': name, **source,
            'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [
                {'key': 'kubernetes.io/hostname', 'operator': 'In', 'values': ['elsewhere' if name == 'far' else 'here']}]}]}}}})
        claim(name, name)
        c.until(f'{name} is bound', lambda: c.good('GET', f'{claims}/{name}')['status']['phase'] == 'Bound')

    def user(name, of, script, node='here', read_only=False, **more):
        c.good('POST', PODS, pod(name, [container('c', script + '; echo end; ' + FOREVER, volumeMounts=[{'name': 'v', 'mountPath': '/data'}])], node,
                                 volumes=[{'name': 'v', 'persistentVolumeClaim': {'claimName': of, 'readOnly': read_only}}], **more))

    def ended(name):
        return c.phase(name, 'Running') and 'end' in log(c, name).split()

    def told(name, word):
        return any(e[0] == name and e[1] == 'FailedMount' and word in e[2] for e in c.events())

    c.good('POST', '/apis/storage.k8s.io/v1/storageclasses', {
        'metadata': {'name': 'made'}, 'provisioner': 'dray.dev/local', 'volumeBindingMode': 'WaitForFirstConsumer', 'parameters': {'path': base}})
    claim('data', 'made')
    user('early', 'data', 'true')  # it is bound by hand, the claim is not yet
    c.until('the claim is not bound', lambda: told('early', 'error processing PVC default/data: PVC is not bound'))
    user('writer', 'data', 'echo -n kept > /data/word', None, securityContext={'runAsUser': 1234})
    c.until('it has written', lambda: ended('writer'))
    name = c.good('GET', f'{claims}/data')['spec']['volumeName']
    assert open(f'{base}/{name}/data/word').read() == 'kept'
    assert os.stat(f'{base}/{name}').st_mode & 0o007 == 0, 'others on the node stay out'
    c.until('the early one gets it, too', lambda: ended('early'))
    gone(c, n, 'writer', 'early')
    user('reader', 'data', 'cat /data/word; echo; touch /data/new || echo read-only', None, True)
    c.until('it has read', lambda: ended('reader'))
    assert {'kept', 'read-only'} <= set(log(c, 'reader').split()), log(c, 'reader')
    gone(c, n, 'reader')
    c.good('DELETE', f'{claims}/data')
    c.until('its volume goes', lambda: c.call('GET', f'{volumes_at}/{name}')[0] == 404)

    volume('disk', {'local': {'path': disk}})
    volume('absent', {'local': {'path': disk + '/absent'}})
    volume('far', {'hostPath': {'path': disk}})
    volume('driver', {'csi': {'driver': 'csi.example.com', 'volumeHandle': 'h'}})
    c.good('POST', claims, {'metadata': {'name': 'forged', 'annotations': {'pv.kubernetes.io/bind-completed': 'yes'}}, 'spec': {
        'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Mi'}}, 'storageClassName': 'disk', 'volumeName': 'disk'}})
    for of in 'disk', 'absent', 'far', 'driver', 'forged':
        user(of, of, 'touch /data/here')
    c.until('the local one is there', lambda: ended('disk') and os.path.exists(disk + '/here'))
    c.until('a local volume is not made', lambda: told('absent', 'is not a directory'))
    c.until('another node has it', lambda: told('far', 'is not on this node'))
    c.until('its type is named', lambda: told('driver', 'is of type csi'))
    c.until('who says of himself that he is bound is not', lambda: told('forged', 'error processing PVC default/forged: PVC is not bound'))
    gone(c, n, 'disk', 'absent', 'far', 'driver', 'forged')
    assert os.path.exists(disk + '/here'), 'storage outlives its pods'


def what_cannot_be(c, n):
    """Volumes that are not offered or not there, images that are not there: events and states say so, and the pods can be deleted."""
    c.good('POST', PODS, pod('nfs', [container('c', FOREVER)], 'here', volumes=[{'name': 'v', 'nfs': {'server': 's', 'path': '/p'}}]))
    # Its account goes before the node hears of the pod: the server takes none whose account is not there.
    c.good('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'nobody'}})
    c.good('POST', PODS, pod('token', [container('c', FOREVER)], None, schedulerName='nobody', serviceAccountName='nobody', volumes=[{'name': 'v', 'projected': {'sources': [{'serviceAccountToken': {'path': 'token'}}]}}]))
    c.good('DELETE', '/api/v1/namespaces/default/serviceaccounts/nobody')
    c.good('POST', f'{PODS}/token/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'token'}, 'target': {'kind': 'Node', 'name': 'here'}})
    c.good('POST', PODS, pod('missing', [container('c', FOREVER)], 'here', volumes=[{'name': 'v', 'configMap': {'name': 'nothing'}}]))
    c.good('POST', PODS, pod('image', [dict(container('c', FOREVER), image='example.test/none:1', imagePullPolicy='Never')], 'here'))
    c.good('POST', PODS, pod('socket', [container('c', FOREVER)], 'here', volumes=[{'name': 'v', 'hostPath': {'path': '/etc/passwd', 'type': 'Socket'}}]))

    def told(name, word):
        return any(e[0] == name and e[1] == 'FailedMount' and word in e[2] for e in c.events())
    c.until('nfs is refused with what to do', lambda: told('nfs', 'this node offers configMap'))
    c.until('the token is told of', lambda: told('token', 'failed to fetch token'))
    c.until('the config map is named', lambda: told('missing', 'configmap "nothing" not found'))
    c.until('the type is named', lambda: told('socket', 'is not a socket'))
    c.until('the image is never pulled', lambda: status_of(c.pod('image'), 'c').get('state', {}).get('waiting', {}).get('reason') == 'ErrImageNeverPull')
    assert status_of(c.pod('nfs'), 'c')['state']['waiting']['reason'] == 'ContainerCreating'
    gone(c, n, 'nfs', 'token', 'missing', 'image', 'socket')


def probes(c, n):
    web = 'mkdir -p /www; echo ok > /www/healthz; httpd -p 8080 -h /www; sleep 1; touch /ready; '
    quick = {'periodSeconds': 1, 'failureThreshold': 1, 'timeoutSeconds': 5}
    c.good('POST', PODS, pod('probes', [
        container('web', web + FOREVER, ports=[{'name': 'http', 'containerPort': 8080}], startupProbe={'tcpSocket': {'port': 'http'}, 'periodSeconds': 1, 'failureThreshold': 60},
                  livenessProbe={'httpGet': {'path': '/healthz', 'port': 8080}, 'periodSeconds': 1}, readinessProbe={'exec': {'command': ['test', '-e', '/ready']}, **quick}),
        container('sick', 'touch /alive; sleep 2; rm /alive; ' + FOREVER, livenessProbe={'exec': {'command': ['test', '-e', '/alive']}, **quick})], 'here'))
    p = c.until('the web server is ready', lambda: (lambda p: p if p and status_of(p, 'web').get('ready') else None)(c.pod('probes')))
    assert status_of(p, 'web')['started'], p['status']
    p = c.until('the sick one is restarted', lambda: (lambda p: p if status_of(p, 'sick').get('restartCount', 0) > 0 else None)(c.pod('probes')))
    assert status_of(p, 'web')['restartCount'] == 0, p['status']
    c.until('the event is there', lambda: any(e[1] == 'Unhealthy' and 'Liveness probe failed' in e[2] for e in c.events()), 30)
    c.until('the event is there', lambda: any(e[1] == 'Killing' and 'failed liveness probe, will be restarted' in e[2] for e in c.events()), 30)
    gone(c, n, 'probes')


def restarts(c, n):
    c.good('POST', PODS, pod('crash', [container('c', 'echo -n the end > /dev/termination-log; exit 3')], 'here'))
    p = c.until('it is backed off from', lambda: (lambda p: p if status_of(p, 'c').get('state', {}).get('waiting', {}).get('reason') == 'CrashLoopBackOff' else None)(c.pod('crash')))
    s = status_of(p, 'c')
    assert s['restartCount'] >= 1 and s['lastState']['terminated']['exitCode'] == 3 and s['lastState']['terminated']['message'] == 'the end', s
    c.until('the event is there', lambda: any(e[1] == 'BackOff' and 'Back-off restarting failed container c' in e[2] for e in c.events()), 30)
    c.good('POST', PODS, pod('job', [container('c', 'echo worked; exit 0'), container('d', 'exit 0')], 'here', restartPolicy='Never'))
    p = c.until('it is done', lambda: c.phase('job', 'Succeeded'))
    assert log(c, 'job', 'c') == 'worked\n'
    c.good('POST', PODS, pod('fails', [container('c', 'echo so it ends; exit 1', terminationMessagePolicy='FallbackToLogsOnError')], 'here', restartPolicy='Never'))
    p = c.until('it failed', lambda: c.phase('fails', 'Failed'))
    assert status_of(p, 'c')['state']['terminated']['message'] == 'so it ends\n', p['status']
    c.good('POST', PODS, pod('late', [container('c', FOREVER)], 'here', activeDeadlineSeconds=2))
    p = c.until('its time is over', lambda: c.phase('late', 'Failed'))
    assert p['status']['reason'] == 'DeadlineExceeded', p['status']
    c.good('POST', PODS, pod('big', [container('c', FOREVER, resources={'requests': {'cpu': '1000'}})], 'here'))
    p = c.until('it is rejected', lambda: c.phase('big', 'Failed'))
    assert p['status']['reason'] == 'OutOfcpu' and p['status']['message'].startswith("Pod was rejected: Node didn't have enough resource: cpu"), p['status']
    gone(c, n, 'crash', 'job', 'fails', 'late', 'big')


def ends(c, n):
    shared = os.path.join(c.folder, 'ends')
    os.makedirs(shared)
    mount = {'volumeMounts': [{'name': 'h', 'mountPath': '/h'}]}
    volume = {'volumes': [{'name': 'h', 'hostPath': {'path': shared}}]}
    c.good('POST', PODS, pod('polite', [container('c', "trap 'echo -n bye > /h/said; exit 0' TERM; echo up; while true; do sleep 0.1; done",
                                                 lifecycle={'preStop': {'exec': {'command': ['sh', '-c', 'echo -n first > /h/hook']}}}, **mount)], 'here', **volume))
    c.good('POST', PODS, pod('deaf', [container('c', "trap '' TERM; echo up; while true; do sleep 0.1; done")], 'here'))
    for name in ('polite', 'deaf'):
        c.until(f'{name} is up', lambda: c.phase(name, 'Running') and 'up' in log(c, name))
    begun = time.monotonic()
    gone(c, n, 'polite', 'deaf')
    assert open(shared + '/hook').read() == 'first' and open(shared + '/said').read() == 'bye'
    assert time.monotonic() - begun >= 2, 'the deaf one had its grace'
    c.good('POST', PODS, pod('forced', [container('c', "trap '' TERM; echo up; while true; do sleep 0.1; done")], 'here', terminationGracePeriodSeconds=3600))
    c.until('up', lambda: c.phase('forced', 'Running'))
    c.good('DELETE', f'{PODS}/forced?gracePeriodSeconds=0')
    assert c.pod('forced') is None
    c.until('nothing is left', lambda: not n.clean(), 60)


# --- Claims --------------------------------------------------------------------------------------

CLAIMS = '/apis/resource.k8s.io/v1/namespaces/default/resourceclaims'


def claims(c, n):
    n.driver('example-gpu')
    c.until('slices', lambda: [s for s in c.good('GET', '/apis/resource.k8s.io/v1/resourceslices')['items'] if s['spec'].get('nodeName') == 'here'])
    device_class = c.until('a class', lambda: c.good('GET', '/apis/resource.k8s.io/v1/deviceclasses')['items'])[0]['metadata']['name']
    c.good('POST', '/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates',
           {'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': 'gpu'},
            'spec': {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': device_class}}]}}}})
    script = 'env | sort; ls -l /dev; echo end; ' + FOREVER
    spec = {'resourceClaims': [{'name': 'gpu', 'resourceClaimTemplateName': 'gpu'}]}
    for name in ('first', 'second'):
        c.good('POST', PODS, pod(name, [container('with', script, resources={'claims': [{'name': 'gpu'}]}), container('without', script)], **spec))
    for name in ('first', 'second'):
        c.until(f'{name} runs', lambda: c.phase(name, 'Running'))
        for k in ('with', 'without'):
            c.until('all is said', lambda: 'end' in log(c, name, k).split())
    seen = {}
    for name in ('first', 'second'):
        extra = set(log(c, name, 'with').splitlines()) - set(log(c, name, 'without').splitlines())
        assert extra, f"{name}: the container with the claim sees nothing more:\n{log(c, name, 'with')}"
        seen[name] = extra
    claim = {x['status']['reservedFor'][0]['name']: x['status']['allocation']['devices']['results'][0]['device'] for x in c.good('GET', CLAIMS)['items']}
    assert claim['first'] != claim['second'], claim
    for name, other in (('first', 'second'), ('second', 'first')):
        assert any(claim[name] in line for line in seen[name]), f'{name} does not see {claim[name]}: {seen[name]}'
        assert not any(claim[other] in line for line in seen[name]), f'{name} sees the device of {other}: {seen[name]}'
    health = status_of(c.pod('first'), 'with').get('allocatedResourcesStatus')
    assert health and health[0]['name'] == 'claim:gpu', c.pod('first')['status']
    gone(c, n, 'first', 'second')
    c.until('claims are gone', lambda: not c.good('GET', CLAIMS)['items'])
    state = json.loads(json.loads(open(n.data + '/dra_manager_state').read())['Data'])
    assert not state.get('ClaimInfoStateList'), state


# --- Isolation -----------------------------------------------------------------------------------

def modes(c, n):
    """The agent's umask is 077: a container that is not root reads what it should all the same, and has umask 022."""
    c.good('POST', '/api/v1/namespaces/default/configmaps', {'metadata': {'name': 'modes'}, 'data': {'key': 'value'}})
    script = ('umask; stat -c "%a %n" / /etc/hosts /etc/hostname /etc/resolv.conf /nest /nest/a/b /sub /made /var; ls / >/dev/null && cat /etc/hosts >/dev/null && '
              'cat /nest/a/b/key && id -u && ' + FOREVER)
    mounts = [{'name': 'nest', 'mountPath': '/nest'}, {'name': 'empty', 'mountPath': '/sub', 'subPath': 'x/y'}, {'name': 'host', 'mountPath': '/made'}]
    c.good('POST', PODS, pod('modes', [container('c', script, volumeMounts=mounts, securityContext={'runAsUser': 1000, 'runAsGroup': 1000})], 'here',
                             volumes=[{'name': 'nest', 'configMap': {'name': 'modes', 'items': [{'key': 'key', 'path': 'a/b/key'}]}}, {'name': 'empty', 'emptyDir': {}},
                                      {'name': 'host', 'hostPath': {'path': c.folder + '/made', 'type': 'DirectoryOrCreate'}}]))
    c.until('it runs as 1000', lambda: c.phase('modes', 'Running') and log(c, 'modes').endswith('1000\n'), 60)
    lines = log(c, 'modes').splitlines()
    assert lines[0] == '0022', lines
    assert lines[1:10] == ['755 /', '644 /etc/hosts', '644 /etc/hostname', '644 /etc/resolv.conf', '777 /nest', '755 /nest/a/b', '755 /sub', '755 /made', '755 /var'], lines
    out = subprocess.run([DRAY, '--kubeconfig', c.kubeconfig, 'exec', 'modes', '--', 'sh', '-c', 'umask'], capture_output=True, text=True)
    assert out.stdout.strip() == '0022', out
    gone(c, n, 'modes')


def groups(c, n):
    """supplementalGroupsPolicy: Merge adds the groups of the image's /etc/group, Strict does not; the node declares that it knows the difference."""
    for policy, expected in (('Merge', {9, 77, 65534}), ('Strict', {9, 65534})):
        name = 'groups-' + policy.lower()
        context = {'runAsUser': 65534, 'supplementalGroups': [9], 'supplementalGroupsPolicy': policy}
        c.good('POST', PODS, pod(name, [container('c', 'id -G; ' + FOREVER)], 'here', securityContext=context))
        c.until(f'{name} runs', lambda: c.phase(name, 'Running') and log(c, name))
        assert set(map(int, log(c, name).split())) == expected, log(c, name)
        gone(c, n, name)
    assert c.good('GET', '/api/v1/nodes/' + n.name)['status']['features'] == {'supplementalGroupsPolicy': True}


def isolation(c, n):
    """Promises that this node cannot keep: the pod fails with a reason, and runs nothing."""
    labelled = container('c', FOREVER, securityContext={'seLinuxOptions': {'type': 'spc_t'}})
    refused = [('other', 'RuntimeHandlerNotSupported')]
    if not os.path.exists('/sys/fs/selinux/enforce'):
        refused.append(('label', 'SELinuxNotSupported'))
    runtime = 'crun' if shutil.which('crun') else 'runc'
    classes = '/apis/node.k8s.io/v1/runtimeclasses'
    for name, handler in (('usual', runtime), ('other', 'runsc')):
        c.good('POST', classes, {'metadata': {'name': name}, 'handler': handler})
    c.good('POST', PODS, pod('label', [labelled], 'here'))
    c.good('POST', PODS, pod('other', [container('c', FOREVER)], 'here', runtimeClassName='other'))
    c.good('POST', PODS, pod('usual', [container('c', FOREVER)], 'here', runtimeClassName='usual'))
    for name, reason in refused:
        p = c.until(f'{name} is refused', lambda: c.phase(name, 'Failed'))
        assert p['status']['reason'] == reason and p['status']['message'].startswith('Pod was rejected: '), p['status']
        c.until('an event', lambda: [e for e in c.events() if e[:2] == (name, reason)])
    c.until('the usual one runs', lambda: c.phase('usual', 'Running'))
    assert not c.pod('other')['status'].get('containerStatuses', [{}])[0].get('containerID'), c.pod('other')['status']
    gone(c, n, 'label', 'other', 'usual')
    for name in ('usual', 'other'):
        c.good('DELETE', f'{classes}/{name}')


# --- The agent itself ----------------------------------------------------------------------------

def restarted_agent(c, n):
    c.good('POST', PODS, pod('stays', [container('c', 'date +%s%N; ' + FOREVER)], 'here'))
    c.until('up', lambda: c.phase('stays', 'Running'))
    before = status_of(c.pod('stays'), 'c')
    n.kill()
    n.start()
    c.good('POST', PODS, pod('next', [container('c', FOREVER)], 'here'))
    c.until('the next one runs', lambda: c.phase('next', 'Running'))
    after = status_of(c.pod('stays'), 'c')
    assert before['containerID'] == after['containerID'] and after['restartCount'] == 0 and after['state'].get('running'), (before, after)
    n.stop()  # in an orderly way: containers go on, too
    c.good('DELETE', f'{PODS}/next?gracePeriodSeconds=0')
    n.start()
    c.until('the orphan is gone', lambda: len([p for p in os.listdir(n.data + '/pods')]) == 1)
    assert status_of(c.pod('stays'), 'c')['containerID'] == before['containerID']
    # Another boot: everything starts anew.
    n.kill()
    n.start(env={'DRAY_AGENT_BOOT_ID': '11111111-2222-3333-4444-555555555555'})
    s = c.until('it runs again', lambda: (lambda s: s if s.get('restartCount') == 1 and s['state'].get('running') else None)(status_of(c.pod('stays'), 'c')))
    assert s['containerID'] != before['containerID'], s
    gone(c, n, 'stays')
    n.stop()
    n.start()


def main():
    skip_if_impossible()
    c = Cluster(DRAY)
    n = Node(c)
    steps = [the_node, order_of_containers, environment, volumes, storage, what_cannot_be, probes, restarts, ends, claims, modes, groups, isolation, restarted_agent]
    only = sys.argv[2:]
    try:
        make_image(os.path.join(c.images, 'busybox'))
        n.start()
        for step in steps:
            if not only or step.__name__ in only or step.__name__ == 'environment' and 'volumes' in only:
                begun = time.monotonic()
                step(c, n)
                print(f'{step.__name__}: good, {time.monotonic() - begun:.1f} s', flush=True)
        n.end()
        c.stop()
    except BaseException:
        print(c.tell())
        c.wreck()
        raise
    shutil.rmtree(c.folder, ignore_errors=True)
    print('agent: good')


if __name__ == '__main__':
    main()

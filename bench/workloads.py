#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long many Deployments take to settle on `dray up` with simulated nodes, and what the process costs for each pod.
Usage: workloads.py [--apart] DRAY [DEPLOYMENTS [PODS [NODES]]]; defaults 500, 10, 100. --apart: the controllers of Deployments and
ReplicaSets run in a process of their own, over TLS, whose cost is told besides."""
import concurrent.futures, json, os, shutil, subprocess, sys, tempfile, time

APART = '--apart' in sys.argv
if APART:
    sys.argv.remove('--apart')

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'e2e'))
from up import Cluster, DRAY  # noqa: E402

DEPLOYMENTS = '/apis/apps/v1/namespaces/default/deployments'


def cpu_seconds(pid):
    fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def deployment(i, pods):
    labels = {'app': f'd{i}'}
    return {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': f'd{i}'},
            'spec': {'replicas': pods, 'selector': {'matchLabels': labels},
                     'template': {'metadata': {'labels': labels}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}]}}}}


def start_controllers(cluster):
    command = [DRAY, 'controllers', '--kubeconfig', os.path.join(cluster.folder, 'admin.kubeconfig'), '--bind-address', 'none', '--leader-elect=false',
               '--controllers', 'deployment-controller,replicaset-controller', '--log-level', 'error']
    return subprocess.Popen(command)


def told(controllers, pods):
    used = cpu_seconds(controllers.pid)
    return {'controllers_cpu_s': round(used, 2), 'controllers_cpu_ms_per_pod': round(1000 * used / pods, 2)}


def main():
    many, pods, nodes = (int(a) for a in (sys.argv[2:] + ['500', '10', '100'][len(sys.argv) - 2:]))
    folder = tempfile.mkdtemp(prefix='dray-bench-')
    try:
        apart = ['--controllers', '*,-deployment-controller,-replicaset-controller'] if APART else []
        cluster = Cluster(folder, '--sim', 'example-gpu', '--nodes', str(nodes), *apart)
        cluster.until('nodes', lambda: len(cluster.good('GET', '/api/v1/nodes')['items']) == nodes)
        controllers = start_controllers(cluster) if APART else None
        begin, cpu = time.monotonic(), cpu_seconds(cluster.process.pid)
        with concurrent.futures.ThreadPoolExecutor(32) as at_once:
            list(at_once.map(lambda i: cluster.good('POST', DEPLOYMENTS, deployment(i, pods)), range(many)))
        made = time.monotonic() - begin

        def settled():
            items = cluster.good('GET', DEPLOYMENTS)['items']
            return sum(d['status'].get('availableReplicas', 0) == pods for d in items) == many or time.sleep(0.3)
        cluster.until('settled', settled, 600)
        took, used = time.monotonic() - begin, cpu_seconds(cluster.process.pid) - cpu
        print(json.dumps({'deployments': many, 'pods': many * pods, 'nodes': nodes, 'created_s': round(made, 2),
                          'settled_s': round(took, 2), 'cpu_s': round(used, 2),
                          'cpu_ms_per_pod': round(1000 * used / (many * pods), 2),
                          **(told(controllers, many * pods) if APART else {}), 'load': os.getloadavg()[0]}))
        if APART:
            controllers.terminate()
            controllers.wait()
        cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()

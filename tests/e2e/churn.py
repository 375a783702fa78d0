#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods come and go for a long time: memory stays flat, and in the end the scheduler's caches equal the store.
Usage: churn.py DRAY [SECONDS [PODS_A_SECOND]]"""
import http.client, json, os, re, shutil, subprocess, sys, tempfile, time

DRAY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build/dray')
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
RATE = int(sys.argv[3]) if len(sys.argv) > 3 else 300
STEP = 60 if SECONDS >= 300 else max(1, SECONDS // 5)
GROWTH = 1.05  # what memory may grow by, from a third of the time on


def resident(pid):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))


def cpu(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def check(address):
    c = http.client.HTTPConnection(address, timeout=60)
    c.request('GET', '/dray/check')
    a = c.getresponse()
    text = a.read()
    assert a.status == 200, text
    return json.loads(text)


def main():
    folder = tempfile.mkdtemp(prefix='dray-churn-')
    up = subprocess.Popen([DRAY, 'up', '--nodes', '0', '--data-dir', folder, '--listen', '127.0.0.1:0', '--insecure-http'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    bench = None
    try:
        line = up.stdout.readline()
        while 'dray is up at' not in line:
            assert line, 'dray up did not start'
            line = up.stdout.readline()
        address = line.split('//')[1].strip()
        while 'KUBECONFIG=' not in line:
            line = up.stdout.readline()
        bench = subprocess.Popen([DRAY, 'bench', 'sched', '--kubeconfig', line.split('=', 1)[1].strip(), '--nodes', '100', '--pods', '300',
                                  '--rate', str(RATE), '--steady', str(SECONDS), '--no-verify', '--pids', f'dray={up.pid}'],
                                 stdout=subprocess.PIPE, text=True)
        sizes, began = [], time.monotonic()
        while bench.poll() is None:
            time.sleep(min(STEP, 1))
            if time.monotonic() - began >= STEP * (len(sizes) + 1):
                sizes.append(resident(up.pid))
                print(f'{len(sizes) * STEP:6d} s: {sizes[-1] / 1024:8.1f} MiB, {cpu(up.pid):8.2f} s of processor', flush=True)
        print(bench.stdout.read().strip())
        assert bench.returncode == 0, 'the load generator failed'
        answer = check(address)
        for _ in range(60):
            if answer['equal']:
                break
            time.sleep(0.5)
            answer = check(address)
        assert answer['equal'], answer['differences'][:20]
        print('caches equal the store')
        late = sizes[len(sizes) // 3:]
        if SECONDS >= 300:  # until then the history that watches resume from fills up
            assert late[-1] <= late[0] * GROWTH, f'memory grows: {sizes}'
    finally:
        for p in (bench, up):
            if p and p.poll() is None:
                p.terminate()
                p.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


main()

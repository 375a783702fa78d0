#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: a tenant cannot fill the database or the disk for others, everything can still be deleted and the server starts again; lost or damaged data is never
served in silence, and what can be read is salvaged. Usage: storage.py DRAY"""
import os, shutil, signal, sqlite3, subprocess, tempfile, time
from kit import DRAY, ROOT, Cluster

STARTED = []
CONFIGS = '/api/v1/namespaces/{}/configmaps'


class Disk(Cluster):
    """A server whose data directory stays, and may be on a small disk."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder + '/data'
        with open(os.open(folder + '/tokens.csv', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
            f.write(f'{ROOT},root,,"system:masters"\n')

    def start(self, *flags):
        """Returns None, or why it does not start."""
        self.log = open(self.folder + '/log', 'w+')
        self.process = subprocess.Popen([DRAY, 'server', '--data-dir', self.data, '--listen', '127.0.0.1:0', '--token-file', self.folder + '/tokens.csv', *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        STARTED.append(self.process)
        said = self.process.stdout.readline()
        if ' at http' not in said:
            assert self.process.wait(60) == 1, self.process.returncode
            self.process.stdout.close()
            return open(self.folder + '/log').read()
        self.url = 'http' + said.split(' at http')[1].split()[0].rstrip(',')
        return None

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.communicate(timeout=60)
        self.log.close()

    def fill(self, namespace, size, most=10000):
        """Creates objects until one is refused: how many, and the refusal."""
        for i in range(most):
            code, text = self.call('POST', CONFIGS.format(namespace), {'metadata': {'name': f'c{i}'}, 'data': {'x': 'x' * size}})
            if code != 201:
                return i, code, text
        raise AssertionError('nothing bounds it')


def bound(folder):
    d = Disk(folder)
    flags = ('--max-database-bytes', str(8 << 20))
    assert d.start(*flags) is None
    d.namespace('greedy')
    d.namespace('neighbour')
    n, code, text = d.fill('greedy', 100000)
    assert code == 403 and 'share of the database' in text and 20 < n < 45, (n, code, text)
    for i in range(5):
        d.good('POST', CONFIGS.format('neighbour'), {'metadata': {'name': f'n{i}'}, 'data': {'x': 'x' * 100000}})
    metrics = d.call('GET', '/metrics')[1]
    assert 'apiserver_storage_size_bytes{storage_cluster_id="dray"} ' in metrics and 'dray_store_namespace_bytes{namespace="greedy"} ' in metrics
    for i in range(40):
        d.call('POST', '/api/v1/namespaces', {'metadata': {'name': f'more{i}'}})
        _, code, text = d.fill(f'more{i}', 100000)
        if code == 500:
            break
    n, code, text = d.fill('more0', 10)
    d.stop()
    assert d.start(*flags) is None, 'a full database loads'
    assert len(d.good('GET', CONFIGS.format('greedy'))['items']) > 20
    d.good('DELETE', CONFIGS.format('greedy') + '/c0')
    d.good('DELETE', '/api/v1/namespaces/more0')
    d.stop()
    assert d.start('--max-database-bytes', '1000') is None, 'a bound below what there is does not stop a start'
    code, text = d.call('POST', CONFIGS.format('neighbour'), {'metadata': {'name': 'z'}})
    assert code == 500 and 'database space exceeded' in text and '--max-database-bytes' in text, (code, text)
    d.good('DELETE', CONFIGS.format('neighbour') + '/n0')
    d.stop()


def full_disk(folder):
    data = folder + '/data'
    os.mkdir(data)
    if os.geteuid() != 0 or subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64m,mode=700', 'tmpfs', data], capture_output=True).returncode:
        print('skipped: cannot mount a small disk here')
        return
    try:
        d = Disk(folder)
        assert d.start() is None
        d.namespace('team')
        for i in range(40):
            d.good('POST', CONFIGS.format('team'), {'metadata': {'name': f'k{i}'}, 'data': {'x': str(i) * 100000}})
        fill_up(data)
        n, code, text = d.fill('team', 100000)
        assert code == 500 and 'no space left' in text, (n, code, text)
        code, text = d.call('POST', CONFIGS.format('team'), {'metadata': {'name': 'again'}, 'data': {'x': 'x' * 100000}})
        assert code == 500 and 'only deletions and small updates' in text, (code, text)
        for i in range(20):
            d.good('DELETE', CONFIGS.format('team') + f'/k{i}')
        d.good('PATCH', CONFIGS.format('team') + '/k30', {'data': {'y': 'small'}})
        d.stop(signal.SIGKILL)
        fill_up(data)
        assert d.start() is None, open(folder + '/log').read()
        for i in range(20, 30):
            d.good('DELETE', CONFIGS.format('team') + f'/k{i}')
        d.stop()
        fill_up(data)
        assert d.start() is None, open(folder + '/log').read()
        left = {o['metadata']['name'] for o in d.good('GET', CONFIGS.format('team'))['items']}
        assert {f'k{i}' for i in range(30, 40)} <= left and not {f'k{i}' for i in range(30)} & left, left
        os.unlink(data + '/ballast')
        for _ in range(100):  # a rejected write looks for space
            code, text = d.call('POST', CONFIGS.format('team'), {'metadata': {'generateName': 'back-'}, 'data': {'x': 'x' * 100000}})
            if code == 201:
                break
            time.sleep(0.05)
        assert code == 201, text
        d.stop()
    finally:
        subprocess.run(['umount', '-l', data], check=True)


def fill_up(folder):
    """Others take what was freed."""
    with open(folder + '/ballast', 'ab', buffering=0) as f:
        try:
            while f.write(b'x' * 4096):
                pass
        except OSError:
            pass


def lost(folder):
    """Nothing is served in silence that has less than there was."""
    d = Disk(folder)
    assert d.start() is None
    for i in range(50):
        d.good('POST', CONFIGS.format('default'), {'metadata': {'name': f'c{i}'}, 'data': {'x': str(i)}})
    d.stop(signal.SIGKILL)
    kept = folder + '/kept'
    shutil.copytree(d.data, kept, ignore=shutil.ignore_patterns('*.sock'))

    def again():
        shutil.rmtree(d.data)
        shutil.copytree(kept, d.data)

    def refused(*words):
        said = d.start()
        assert said and all(w in said for w in (*words, '--salvage')), said

    def salvaged(*gone):
        assert d.start('--salvage') is None, open(folder + '/log').read()
        names = {o['metadata']['name'] for o in d.good('GET', CONFIGS.format('default'))['items']} - {'kube-root-ca.crt'}
        assert names == {f'c{i}' for i in range(50)} - set(gone), names
        d.good('POST', CONFIGS.format('default'), {'metadata': {'name': 'next'}})
        assert os.path.getsize(d.data + '/salvage.log') > 0
        d.stop()
        assert d.start() is None, 'salvaged once, it starts as ever'
        d.stop()
    os.unlink(d.data + '/dray.db-wal')
    refused('has lost data')
    again()
    os.truncate(d.data + '/dray.db-wal', os.path.getsize(d.data + '/dray.db-wal') // 2)
    said = d.start()
    assert said is None or 'has lost data' in said  # the newest seconds of the log may go unnoticed
    if said is None:
        d.stop()
    again()
    for name in ('dray.db', 'dray.db-wal'):
        os.unlink(f'{d.data}/{name}')
    refused('is missing, but had revision')
    again()
    assert d.start() is None
    d.stop()
    db = sqlite3.connect(d.data + '/dray.db')
    at, blob = db.execute("SELECT revision,data FROM object WHERE name='c7'").fetchone()
    db.execute('UPDATE object SET data=? WHERE revision=?', (blob[:30] + bytes([blob[30] ^ 1]) + blob[31:], at))
    db.commit()
    db.close()
    refused('default/c7', 'checksum')
    salvaged('c7')
    with open(d.data + '/salvage.log') as f:
        assert 'default/c7' in f.read()
    assert os.path.exists(d.data + '/dray.db.damaged')
    again()
    shutil.rmtree(d.data + '/pki')
    refused('pki/ca.crt is missing')
    salvaged()
    again()
    os.unlink(d.data + '/pki/server.crt')
    assert d.start() is None
    d.stop()
    assert 'created again' in open(folder + '/log').read()


def backup(folder):
    """A backup has everything; what is damaged, newer or in the way is refused and changes nothing."""
    d = Disk(folder)
    assert d.start() is None
    shutil.copy(folder + '/tokens.csv', d.data + '/tokens.csv')
    d.good('POST', CONFIGS.format('default'), {'metadata': {'name': 'kept'}, 'data': {'x': 'y'}})
    token = d.good('POST', '/api/v1/namespaces/default/serviceaccounts', {'metadata': {'name': 'robot'}}) and \
        d.good('POST', '/api/v1/namespaces/default/serviceaccounts/robot/token', {'spec': {}})['status']['token']

    def dray(*args):
        return subprocess.run([DRAY, *args], capture_output=True, text=True, timeout=60)
    file, plain = folder + '/b.dray', folder + '/b.db'
    run = dray('backup', file, '--data-dir', d.data)
    assert run.returncode == 0 and os.stat(file).st_mode & 0o777 == 0o600 and os.listdir(folder).count('b.dray.database') == 0, run
    assert dray('backup', file, '--data-dir', d.data).returncode == 1, 'a backup does not overwrite'
    assert dray('backup', plain, '--unix', d.data + '/dray.sock').returncode == 0
    with open(plain, 'rb') as f:
        assert f.read(15) == b'SQLite format 3'
    assert dray('restore', file, '--data-dir', d.data).returncode == 1, 'data is not overwritten'
    d.stop()
    with open(file, 'rb') as f:
        whole = f.read()
    bad = folder + '/bad.dray'
    for data, words in ((whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], 'checksum'), (whole[:-100], 'checksum'), (b'hello', 'not a backup'),
                        (whole.replace(b'dray-backup 1', b'dray-backup 7', 1), 'format 7, this one knows 1'), (b'', 'not a backup')):
        with open(bad, 'wb') as f:
            f.write(data)
        run = dray('restore', bad, '--data-dir', folder + '/none')
        assert run.returncode == 1 and words in run.stderr, run
        assert not [n for n in os.listdir(folder) if n.startswith('none')], os.listdir(folder)
    keys = {n: open(f'{d.data}/pki/{n}').read() for n in ('ca.crt', 'ca.key', 'sa.key')}
    for source in (file, plain):
        d.data = folder + '/restored' + source[-2:]
        run = dray('restore', source, '--data-dir', d.data)
        assert run.returncode == 0, run
        assert d.start() is None, open(folder + '/log').read()
        assert d.good('GET', CONFIGS.format('default') + '/kept')['data'] == {'x': 'y'}
        same = {n: open(f'{d.data}/pki/{n}').read() == text for n, text in keys.items()}
        assert set(same.values()) == {source == file}, same
        if source == file:
            d.refused('GET', CONFIGS.format('default'), token=token)  # known, though it may not
            assert os.path.exists(d.data + '/tokens.csv')
        d.stop()


for part in (bound, full_disk, lost, backup):
    at = tempfile.mkdtemp(prefix='dray-storage-')
    try:
        part(at)
        print(f'{part.__name__}: ok', flush=True)
    finally:
        for process in STARTED:
            process.kill()
        shutil.rmtree(at, ignore_errors=True)

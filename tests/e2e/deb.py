#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package: its program runs, its units are whole, it goes without a trace. Usage: deb.py DRAY"""
import glob, os, shutil, subprocess, sys, tempfile

DRAY = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNITS = ('dray-up', 'dray-agent', 'dray-join', 'dray-scheduler', 'dray-controllers')


def run(*args, **flags):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, **flags)


def contents(package, top):
    root = os.path.join(top, 'unpacked')
    assert run('dpkg-deb', '-x', package, root).returncode == 0
    r = run(os.path.join(root, 'usr/bin/dray'), 'version')
    assert r.returncode == 0 and r.stdout.startswith('dray '), r
    assert os.readlink(os.path.join(root, 'usr/bin/kubectl-dray')) == 'dray'
    for unit in UNITS:
        with open(os.path.join(root, 'usr/lib/systemd/system', unit + '.service'), encoding='utf-8') as f:
            text = f.read()
        assert 'ExecStart=/usr/bin/dray ' in text and '@' not in text.split('ExecStart', 1)[1].split('\n', 1)[0], text
        verb = text.split('ExecStart=/usr/bin/dray ', 1)[1].split()[0]
        assert run(DRAY, verb, '--help').returncode == 0, verb
    for path in ('usr/share/man/man1/dray.1.gz', 'usr/share/doc/dray/copyright', 'usr/share/bash-completion/completions/dray',
                 'usr/share/zsh/vendor-completions/_dray', 'usr/share/fish/vendor_completions.d/dray.fish'):
        assert os.path.getsize(os.path.join(root, path)) > 0, path
    verbs = [line.split('\t')[0] for line in run(DRAY, 'completion', '--candidates', '--', '').stdout.splitlines()]
    pages = [os.path.join(root, 'usr/share/man/man1', f'dray-{verb}.1.gz') for verb in verbs]
    assert len(pages) >= 42 and all(os.path.getsize(page) > 200 for page in pages), pages
    fields = run('dpkg-deb', '-f', package).stdout
    assert 'libc6' in fields and 'libssl' in fields, fields
    if shutil.which('systemd-analyze'):
        for unit in glob.glob(os.path.join(root, 'usr/lib/systemd/system/*.service')):
            r = run('systemd-analyze', 'verify', '--root=' + root, '--man=no', unit)
            assert 'Unknown' not in r.stderr and 'Failed to parse' not in r.stderr, r.stderr


def others(packages, top):
    """Headers and examples are in packages of their own."""
    for name, path in (('dray-dev', 'usr/include/dray/driver.h'), ('dray-examples', 'usr/share/doc/dray-examples/examples/claim.yaml')):
        root = os.path.join(top, name)
        assert run('dpkg-deb', '-x', packages[name], root).returncode == 0, name
        assert os.path.getsize(os.path.join(root, path)) > 0, path


def installed(package, top):
    """Into a root of its own, and out again."""
    if os.geteuid() != 0:
        return
    root = os.path.join(top, 'root')
    for folder in ('var/lib/dpkg/updates', 'var/lib/dpkg/info', 'var/log'):
        os.makedirs(os.path.join(root, folder))
    open(os.path.join(root, 'var/lib/dpkg/status'), 'w', encoding='utf-8').close()
    dpkg = ('dpkg', '--root=' + root, '--force-depends', '--force-script-chrootless')
    r = run(*dpkg, '-i', package)
    assert r.returncode == 0, r
    assert os.path.exists(os.path.join(root, 'usr/bin/dray'))
    r = run(*dpkg, '--purge', 'dray')
    assert r.returncode == 0, r
    left = [os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs if not d.startswith(os.path.join(root, 'var'))]
    assert not left, left


def scripts(package, top):
    """What the maintainer's scripts ask of systemd: nothing is started; an upgrade restarts what runs, a removal ends it."""
    folder = os.path.join(top, 'control')
    assert run('dpkg-deb', '-e', package, folder).returncode == 0
    tools = os.path.join(top, 'tools')
    os.makedirs(tools)
    with open(os.path.join(tools, 'systemctl'), 'w', encoding='utf-8') as f:
        f.write('#!/bin/sh\necho "systemctl $*"\n')
    os.chmod(os.path.join(tools, 'systemctl'), 0o755)

    def asks(script, *args):
        with open(os.path.join(folder, script), encoding='utf-8') as f:
            text = f.read().replace('/run/systemd/system', tools).replace('>/dev/null 2>&1', '')
        r = run('sh', '-c', text, script, *args, env=dict(os.environ, PATH=tools + ':' + os.environ['PATH']))
        assert r.returncode == 0, r
        return r.stdout.splitlines()
    units = ' '.join(UNITS)
    assert asks('postinst', 'configure', '') == ['systemctl daemon-reload']
    assert asks('postinst', 'configure', '0.0.1') == ['systemctl daemon-reload', 'systemctl try-restart ' + units]
    assert asks('prerm', 'remove') == ['systemctl disable --now ' + units]
    assert asks('prerm', 'upgrade', '0.2') == []
    assert asks('postrm', 'remove') == ['systemctl daemon-reload']


def main():
    if not shutil.which('dpkg-deb'):
        print('skipped: dpkg-deb is not there')
        sys.exit(77)
    top = tempfile.mkdtemp(prefix='dray-')
    try:
        r = run(os.path.join(HERE, 'tools', 'deb'), '--build', os.path.dirname(DRAY), '--out', top)
        assert r.returncode == 0, r
        packages = {os.path.basename(line).split('_')[0]: line for line in r.stdout.split()}
        assert {'dray', 'dray-dev', 'dray-examples'} == set(packages), packages
        package = packages['dray']
        others(packages, top)
        contents(package, top)
        scripts(package, top)
        installed(package, top)
        if shutil.which('lintian'):
            r = run('lintian', '--fail-on', 'error', package)
            assert r.returncode == 0, r.stdout
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print('deb: ok')


if __name__ == '__main__':
    main()

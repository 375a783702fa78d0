#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed libraries: their size, their symbols, what they link, and programs built against the installed files alone.
Usage: libraries.py DRAY (the libraries come from build-gcc, which is not sanitized)"""
import json, os, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DRAY, BUILD = os.path.abspath(sys.argv[1]), os.path.join(HERE, 'build-gcc')
MB = 1000 * 1000
# By pkg-config name: the largest static library, shared libraries beside libc's, an example's source, and symbols that must not be in it.
LIBRARIES = {
    'dray-driver': (2 * MB, {'libyyjson', 'libyaml-0', 'libuv', 'libssl', 'libcrypto', 'libnghttp2'}, 'driver-led/led.c',
                    ('registry_', 'store_', 'sqlite3_', 'cel_', 'alloc_', 'local_client_', 'memory_client', '_ZN3re2')),
    'dray': (5 * MB, {'libyyjson', 'libyaml-0', 'libre2'}, 'embed/ask.c', ('registry_new', 'store_open', 'sqlite3_', 'client_get', 'loop_new', 'SSL_', 'uv_')),
}
FOLDERS = {'dray-driver': 'src/driver', 'dray': 'src/embed'}
LIBC = {'libc', 'libm', 'libpthread', 'ld-linux-x86-64', 'ld-linux-aarch64', 'libstdc++', 'libgcc_s'}


def run(*command, **flags):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, **flags)
    assert r.returncode == 0, (command, r.stdout)
    return r.stdout


def symbols(path, *flags):
    """Names by their letter in nm's output."""
    return [(words[-2], words[-1].split('@')[0]) for words in (line.split() for line in run('nm', *flags, path).splitlines()) if len(words) >= 2]


def linked(path):
    return {line.split()[1].split('.so')[0] for line in run('objdump', '-p', path).splitlines() if 'NEEDED' in line}


def find(top, name):
    found = [os.path.join(folder, name) for folder, _, files in os.walk(top) if name in files]
    assert len(found) == 1, (name, found)
    return found[0]


def check(name, top):
    most, needed, _, unwanted = LIBRARIES[name]
    static, shared = find(top, f'lib{name}.a'), find(top, f'lib{name}.so.0.2.0')
    size = os.path.getsize(static)
    assert size <= most, f'lib{name}.a has {size} bytes, more than {most}'
    for path, flags in ((static, ('--defined-only', '--extern-only')), (shared, ('--defined-only', '--dynamic'))):
        public = [s for kind, s in symbols(path, *flags) if kind in 'TDBRVWu']
        foreign = [s for s in public if not s.startswith('dray_')]
        assert public and not foreign, (path, foreign[:10])
    assert linked(shared) - LIBC == needed, linked(shared)
    inside = [s for _, s in symbols(static) if s.startswith(unwanted)]
    assert not inside, inside[:10]
    return size


def build(name, prefix, top, static):
    """The example, by the installed headers and libraries alone."""
    pc = os.path.dirname(find(prefix, f'{name}.pc'))
    env = dict(os.environ, PKG_CONFIG_PATH=pc)
    words = run('pkg-config', f'--define-variable=prefix={prefix}', '--cflags', '--libs', *(['--static'] if static else []), name, env=env).split()
    if static:
        words = [find(prefix, f'lib{name}.a') if w == f'-l{name}' else w for w in words]
    program = os.path.join(top, f'{name}-{"static" if static else "shared"}')
    run(os.environ.get('CC', 'cc'), '-Wall', '-Wextra', '-Werror', '-std=c11', '-D_GNU_SOURCE', '-o', program, os.path.join(HERE, 'examples', LIBRARIES[name][2]),
        *words, f'-Wl,-rpath,{os.path.dirname(find(prefix, f"lib{name}.a"))}')
    assert (f'lib{name}' in linked(program)) != static, linked(program)
    return program


def ask(program, top):
    """Yes with devices, no with a reason, and a claim that is wrong."""
    folder = os.path.join(HERE, 'examples', 'embed')
    cluster, claim = os.path.join(folder, 'cluster.yaml'), os.path.join(folder, 'claim.yaml')
    lines = run(program, cluster, claim, 'device.attributes["gpu.example.com"].model').splitlines()
    assert lines[:4] == [f'gpu.example.com/{pool}/{gpu}: {model}' for pool, gpu, model in
                         (('n1', 'gpu-0', 'A100'), ('n1', 'gpu-1', 'A100'), ('n2', 'gpu-0', 'A100'), ('n2', 'gpu-1', 'H100'))], lines
    assert lines[4].startswith('node n2: '), lines
    result = json.loads(lines[4].split(': ', 1)[1])[0]['devices']['results'][0]
    assert (result['pool'], result['device']) == ('n2', 'gpu-1'), result
    text = open(claim, encoding='utf-8').read()
    for change, code, expected in ((('60Gi', '90Gi'), 1, 'selector'), (('name: gpu\n', 'name: GPU\n'), 1, 'a lowercase RFC 1123'), (('spec:', 'spec: ['), 2, 'line')):
        assert change[0] in text
        path = os.path.join(top, 'claim.yaml')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text.replace(*change))
        r = subprocess.run([program, cluster, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        assert r.returncode == code and expected in r.stdout, (change, r)


def main():
    top = tempfile.mkdtemp(prefix='dray-')
    try:
        targets = [f'{FOLDERS[name]}/lib{name}.{form}' for name in LIBRARIES for form in ('a', 'so.0.2.0')]
        run(os.path.join(HERE, 'tools', 'build'), 'build-gcc', '-Dtests=true', '-Dbench=true', '-Dwerror=true', env=dict(os.environ, TARGETS=' '.join(targets)))
        run('meson', 'install', '-C', BUILD, '--no-rebuild', '--tags', 'libraries,devel', '--destdir', top, '--quiet')
        prefix = top + '/usr/local'
        sizes = {name: check(name, top) for name in LIBRARIES}
        programs = {(name, static): build(name, prefix, top, static) for name in LIBRARIES for static in (False, True)}
        for static in (False, True):
            run(os.path.join(HERE, 'tests', 'e2e', 'driver_led.py'), DRAY, env=dict(os.environ, DRIVER_LED=programs['dray-driver', static]))
            ask(programs['dray', static], top)
    finally:
        shutil.rmtree(top)
    print('; '.join(f'lib{name}.a {size / MB:.2f} MB' for name, size in sizes.items()) + ', examples build and run against the installed files')


if __name__ == '__main__':
    main()

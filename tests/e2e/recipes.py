#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Carries out the recipes of CONTRIBUTING.md in a copy of the tree: its ```sh blocks are run, ```diff blocks are applied, a ```c block
that names a file becomes that file. Then the program is built, and the commands of the ```console blocks must print what the page
shows (`…` stands for anything). Usage: recipes.py DRAY (ignored: the recipes change the program)"""
import os, re, shutil, subprocess, tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START = 'carries out the following two recipes'
NEEDED = ('.clang-format', 'bench', 'deploy', 'examples', 'include', 'lab', 'meson.build', 'meson_options.txt', 'profiles', 'schema', 'src', 'tests/meson.build', 'tools')


def blocks(text):
    return re.findall(r'^```(\w+)\n(.*?)^```$', text[text.index(START):text.index('## Conventions')], re.M | re.S)


def run(command, cwd, **kw):
    r = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
    assert r.returncode == 0, f'{command}: exit {r.returncode}\n{r.stdout[-4000:]}'
    return r.stdout


def apply_diff(tree, text):
    """A hunk without line numbers: the lines before the added ones are looked for in the file."""
    path = os.path.join(tree, re.search(r'^\+\+\+ b/(\S+)', text, re.M).group(1))
    lines = text.split('@@\n', 1)[1].splitlines()
    context = '\n'.join(line[1:] for line in lines if line.startswith(' '))
    added = '\n'.join(line[1:] for line in lines if line.startswith('+'))
    with open(path, encoding='utf-8') as f:
        source = f.read()
    assert source.count(context) == 1, f'{path} has the context of the recipe {source.count(context)} times:\n{context}'
    with open(path, 'w', encoding='utf-8') as f:
        f.write(source.replace(context, context + '\n' + added))


def write_file(tree, text):
    name, body = re.match(r'// file: (\S+)\n(.*)', text, re.S).groups()
    with open(os.path.join(tree, name), 'w', encoding='utf-8') as f:
        f.write(body)


def show(tree, build, text):
    for part in re.split(r'^\$ ', text, flags=re.M)[1:]:
        command, _, wanted = part.partition('\n')
        r = subprocess.run(['bash', '-c', command], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=dict(os.environ, PATH=f'{build}:{os.environ["PATH"]}'))
        pattern = re.escape(wanted.strip()).replace('…', '.*')
        pattern = re.sub(r'(\\\s)+', r'\\s+', pattern)
        assert re.search(pattern, r.stdout, re.S), f'$ {command}\nprints\n{r.stdout}\nand not\n{wanted}'


def main():
    with open(os.path.join(HERE, 'CONTRIBUTING.md'), encoding='utf-8') as f:
        recipes = blocks(f.read())
    assert [kind for kind, _ in recipes] == ['sh', 'diff', 'console', 'c', 'sh', 'console'], recipes
    with tempfile.TemporaryDirectory(prefix='dray-recipes-') as top:
        tree, build = os.path.join(top, 'dray'), os.path.join(top, 'build')
        for name in NEEDED:
            source, target = os.path.join(HERE, name), os.path.join(tree, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
        actions = {'sh': lambda text: run(['bash', '-ec', text], tree), 'diff': lambda text: apply_diff(tree, text), 'c': lambda text: write_file(tree, text)}
        for kind, text in recipes:
            actions.get(kind, lambda text: None)(text)
        # Not optimised: the build is most of the time that this takes.
        run(['meson', 'setup', build, '-Doptimization=0', '-Ddebug=false', '-Dwerror=true'], tree)
        run(['ninja', '-C', build, 'dray'], tree)
        for text in (text for kind, text in recipes if kind == 'console'):
            show(tree, build, text)
    print('recipes: a field and a verb')


if __name__ == '__main__':
    main()

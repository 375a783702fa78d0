#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rendered Helm charts of public DRA drivers applied to `dray server`, twice. Usage:
helm_manifests.py DRAY"""
import glob, os, re, subprocess, sys

from common import Server, peers, skip

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'data'))
import unpack

MANIFESTS = os.path.join(unpack.directory('manifests'), 'open')
# Kinds that kubectl may say are not there, as long as they are not.
OPTIONAL = ('CustomResourceDefinition', 'ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding', 'ValidatingWebhookConfiguration', 'Certificate', 'Issuer')


def main():
    kubectl = os.path.join(peers(), 'bin/v1.37.1/kubectl')
    files = sorted(glob.glob(os.path.join(MANIFESTS, '*/_helm_rendered/**/*.yaml'), recursive=True))
    if not files or not os.path.exists(kubectl):
        skip('Helm charts of public drivers (no rendered manifests, or no kubectl)')
    server = Server(sys.argv[1])
    missing, made, problems = set(), 0, []
    base = [kubectl, '--kubeconfig', server.kubeconfig, '--cache-dir', os.path.join(server.top, 'cache')]
    try:
        namespaces = {m for f in files for m in re.findall(r'^  namespace: "?([\w-]+)"?$', open(f).read(), re.M)} | {'dra-test'}
        for n in sorted(namespaces - {'default', 'kube-system'}):
            subprocess.run([*base, 'create', 'namespace', n], check=True, capture_output=True)
        served = subprocess.run([*base, 'api-resources', '--no-headers'], capture_output=True, text=True).stdout
        for f in files:
            for again in (False, True):
                r = subprocess.run([*base, 'apply', '-f', f], capture_output=True, text=True, timeout=120)
                made += r.stdout.count(' created')
                if again and ' created' in r.stdout:
                    problems.append(f'{f}: made again the second time: {r.stdout}')
                for kind in re.findall(r'no matches for kind "(\w+)"', r.stderr):
                    missing.add(kind)
                    if kind not in OPTIONAL or re.search(rf'\b{kind}$', served, re.M):
                        problems.append(f'{f}: {kind}')
                rest = [l for l in r.stderr.split('\n') if l and 'no matches for kind' not in l and 'ensure CRDs' not in l and not l.startswith('Warning')]
                problems += [f'{f}: {l}' for l in rest]
        print(f'{len(files)} rendered charts, {made} objects made' + (', without ' + ', '.join(sorted(missing)) if missing else ''))
        for p in problems:
            print(p)
        return 1 if problems else 0
    finally:
        server.done()


if __name__ == '__main__':
    sys.exit(main())

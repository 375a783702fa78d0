#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes' conformance asks of the kinds of resource.k8s.io, by client-go against `dray server`. Usage: conformance.py DRAY"""
import sys

from common import run_go

if __name__ == '__main__':
    sys.exit(run_go('conformance', sys.argv[1]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""client-go reads everything from `dray server` as JSON and as protobuf; both must say the same. Usage: protobuf.py DRAY"""
import sys

from common import run_go

if __name__ == '__main__':
    sys.exit(run_go('protobuf', sys.argv[1]))

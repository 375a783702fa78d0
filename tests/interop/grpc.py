#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gRPC both ways with grpc-go and grpcio: tests/interop/grpc.py build/tests/grpc_peer.

grpcio is looked for in the Python of $DRAY_GRPC_PYTHON (a virtual environment's), else in this one. What
is missing is skipped and said; exit 77 when nothing could run.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grpc")
ours = os.path.abspath(sys.argv[1])


def others(scratch):
    """The peers that exist here, by name."""
    found = {}
    python = os.environ.get("DRAY_GRPC_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import grpc"], capture_output=True).returncode == 0:
        found["grpcio"] = [python, os.path.join(HERE, "peer.py")]
    else:
        print("skipped: grpcio (install it and name its Python in DRAY_GRPC_PYTHON)")
    if shutil.which("go"):
        program = os.path.join(scratch, "gopeer")
        subprocess.run(["go", "build", "-o", program, "."], cwd=os.path.join(HERE, "gopeer"), check=True)
        found["grpc-go"] = [program]
    else:
        print("skipped: grpc-go (needs Go)")
    return found


def pair(name, server, client, scratch):
    """Runs one server and one client against each other."""
    path = os.path.join(scratch, name.replace(" ", "-") + ".sock")
    serving = subprocess.Popen(server + ["serve", path], stdout=subprocess.PIPE, text=True)
    try:
        line = serving.stdout.readline()
        calling = subprocess.run(client + ["call", path], timeout=300) if line == "serving\n" else None
    finally:
        serving.send_signal(signal.SIGTERM)
        ended = serving.wait(timeout=30)
        serving.stdout.close()
    ok = calling is not None and calling.returncode == 0 and ended == 0
    print(("ok: " if ok else "FAIL: ") + name)
    return ok


def main():
    with tempfile.TemporaryDirectory() as scratch:
        found = others(scratch)
        if not found:
            return 77
        ok = pair("dray to dray", [ours], [ours], scratch)
        for name, peer in found.items():
            ok &= pair(f"{name} to dray", [ours], peer, scratch)
            ok &= pair(f"dray to {name}", peer, [ours], scratch)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

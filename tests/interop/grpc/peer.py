#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grpcio's end of the gRPC tests: peer.py serve|call SOCKET. The methods are those of methods.h."""
import signal
import sys
import threading
from concurrent import futures

import grpc

BIG = [("grpc.max_receive_message_length", 16 << 20), ("grpc.max_send_message_length", -1)]


def echo(request, context):
    for key, value in context.invocation_metadata():
        if key == "x-in":
            context.send_initial_metadata((("x-head", value),))
            context.set_trailing_metadata((("x-tail", value),))
    return request


def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, request.decode())


def count(request, context):
    for i in range(int(request)):
        yield f"{i} ".encode().ljust(1000, b".")


def large(request, context):
    return b"L" * int(request)


def hang(request, context):
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait()
    return b""


class Methods(grpc.GenericRpcHandler):
    unary = {"Echo": echo, "Fail": fail, "Large": large, "Hang": hang}

    def service(self, call):
        service, _, name = call.method[1:].partition("/")
        if service != "test.Peer":
            return None
        if name == "Count":
            return grpc.unary_stream_rpc_method_handler(count)
        return grpc.unary_unary_rpc_method_handler(self.unary[name]) if name in self.unary else None


def serve(path):
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Methods()], options=BIG)
    server.add_insecure_port("unix:" + path)
    server.start()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    print("serving", flush=True)
    over.wait()
    server.stop(0).wait()


def expect_error(code, call):
    try:
        call()
    except grpc.RpcError as e:
        assert e.code() == code, f"{e.code()} is not {code}: {e.details()}"
        return e.details()
    raise AssertionError(f"no error, {code} was expected")


def call_all(path):
    channel = grpc.insecure_channel("unix:" + path, options=BIG)

    def unary(name):
        return channel.unary_unary("/test.Peer/" + name)

    answer, info = unary("Echo").with_call(b"hello", timeout=20, metadata=(("x-in", "value"),))
    assert answer == b"hello"
    assert ("x-head", "value") in info.initial_metadata()
    assert ("x-tail", "value") in info.trailing_metadata()
    assert unary("Echo")(b"", timeout=20) == b""
    big = b"b" * (16 << 20)
    assert unary("Echo")(big, timeout=60) == big
    expect_error(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: unary("Echo")(big + b"b", timeout=60))
    expect_error(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: unary("Large")(b"16777217", timeout=60))
    text = "50% \u00e9\n!"
    assert expect_error(grpc.StatusCode.NOT_FOUND, lambda: unary("Fail")(text.encode(), timeout=20)) == text
    expect_error(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: unary("Hang")(b"", timeout=0.1))
    expect_error(grpc.StatusCode.UNIMPLEMENTED, lambda: unary("Nothing")(b"", timeout=20))
    expect_error(grpc.StatusCode.UNIMPLEMENTED,
                 lambda: unary("Echo")(b"x" * 2000, timeout=20, compression=grpc.Compression.Gzip))
    stream = channel.unary_stream("/test.Peer/Count")
    for i, message in enumerate(stream(b"20000", timeout=60)):
        assert message.startswith(f"{i} ".encode()) and len(message) == 1000
    assert i == 19999
    endless = stream(b"100000000")
    next(endless)
    endless.cancel()
    many = [unary("Echo").future(str(i).encode(), timeout=60) for i in range(1000)]
    assert [f.result() for f in many] == [str(i).encode() for i in range(1000)]
    channel.close()


if __name__ == "__main__":
    {"serve": serve, "call": call_all}[sys.argv[1]](sys.argv[2])

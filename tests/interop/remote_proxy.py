# SPDX-License-Identifier: Apache-2.0
"""A proxy in user space between a client and a server, which can be told to misbehave: cut every connection, swallow bytes without a
word, or let each piece wait. It knows nothing of TLS or HTTP."""
import select, socket, threading, time


class Proxy:
    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.delay, self.deaf, self.closed = 0.0, False, False
        self.pairs = set()
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closed:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        try:
            far = socket.create_connection(('127.0.0.1', self.target), timeout=10)
        except OSError:
            near.close()
            return
        pair = (near, far)
        with self.lock:
            self.pairs.add(pair)
        try:
            while True:
                for one in select.select(pair, [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    if self.delay:
                        time.sleep(self.delay)
                    if not self.deaf:
                        (far if one is near else near).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.pairs.discard(pair)
            for s in pair:
                s.close()

    def cut(self):
        """Ends every connection there is, in the middle of whatever it was doing."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def done(self):
        self.closed = True
        self.listener.close()
        self.cut()

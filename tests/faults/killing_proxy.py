"""A proxy that kills its broker between a request and its response.

Clients use the address of the proxy as that of the broker (``advertised.listeners``). The proxy
waits for a request of the chosen API, forwards it, drops all later responses, and kills the broker
a moment later. Clients cannot know how much of the request the broker has processed.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable

from protocol.framing import Framer
from tests.brokers import Broker

MAX_FRAME_BYTES = 8 << 20


class KillingProxy:
    """Listens on a port of its own. Forwards bytes to `broker` while the broker runs."""

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.passed: dict[int, int] = {}
        """The number of forwarded requests by API key."""
        self.hits = 0
        """The number of times that the proxy killed the broker after a request and before its
        response."""
        self._awaited: int | None = None
        self._met = threading.Event()
        self._silent = False
        """If true, responses are dropped and new connections are rejected."""
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()
        self._hang_up()

    def cut(self) -> None:
        """Closes all connections. Clients may connect again."""
        self._hang_up()

    def kill_in(self, api_key: int, delay_s: float, patience_s: float) -> None:
        """Kills the broker ``delay_s`` seconds after the next request of ``api_key``, or after
        ``patience_s`` seconds without such a request."""
        assert self.broker is not None
        with self._lock:
            self._awaited = api_key
        if self._met.wait(patience_s):
            self.hits += 1
            time.sleep(delay_s)  # a random delay: the broker dies at any point of the request
        with self._lock:
            self._awaited, self._silent = None, True
        self.broker.kill()
        self._hang_up()

    def start_again(self) -> None:
        """Restarts the killed broker and forwards connections again."""
        assert self.broker is not None
        self.broker.start()
        self._met.clear()
        self._silent = False

    def _hang_up(self) -> None:
        with self._lock:
            gone, self._open = self._open, set()
        for each in gone:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    if self._silent or self.broker is None:
                        raise ConnectionRefusedError
                    server = socket.create_connection(("127.0.0.1", self.broker.port), 5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._open |= {client, server}
                for pump in (self._requests, self._replies):
                    self._pump(pump, client, server)

    def _pump(
        self,
        pump: Callable[[socket.socket, socket.socket], None],
        client: socket.socket,
        server: socket.socket,
    ) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):
                pump(client, server)
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=run, daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        framer = Framer(MAX_FRAME_BYTES, 4)
        while data := client.recv(1 << 16):
            for each in framer.feed(data):
                (key,) = struct.unpack_from(">h", each)
                self.passed[key] = self.passed.get(key, 0) + 1
                with self._lock:
                    meant = key == self._awaited
                    if meant:
                        self._awaited = None
                        self._silent = True
                server.sendall(struct.pack(">i", len(each)) + each)
                if meant:
                    self._met.set()

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        while data := server.recv(1 << 16):
            if self._silent:
                return
            client.sendall(data)

"""Requests with false lengths and counts, and checks of their effect on a broker."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.brokers import Broker
from tests.core_waits import CoreWaits

API = json.loads((Path(__file__).parents[1] / "data" / "schema" / "api.json").read_text())
BY_KEY = {
    entry["key"]: entry for entry in sorted(API.values(), key=lambda entry: len(entry["versions"]))
}
"""The API of each API key. The schemas have two entries for a renamed API; this dict has the entry
with more versions."""
_FIXED = {
    "BOOLEAN": 1,
    "INT8": 1,
    "INT16": 2,
    "UINT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FLOAT64": 8,
    "UUID": 16,
}
INT32_MAX = 2**31 - 1
LIE = struct.pack(">i", INT32_MAX)
LONG_LIE = b"\x80\x80\x80\x80\x08"
"""The varint 2^31. It encodes the compact length 2^31 - 1."""


class _Writer:
    """Writes the smallest body of a request schema, with one element per array. ``lie`` is the
    index of the length or count that is false, or -1 if all are true."""

    def __init__(self, lie: int) -> None:
        self.lie = lie
        self.claims = 0
        self.kinds: list[str] = []
        self.out = bytearray()

    def fields(self, layout: list[Any]) -> None:
        for _, type_ in layout:
            self.value(type_)

    def value(self, type_: Any) -> None:
        if isinstance(type_, list):  # a nullable struct: a byte says that it is present
            self.out += b"\x01"
            self.fields(type_)
        elif isinstance(type_, dict) and "tags" in type_:
            self.claim("tags", b"\0", LONG_LIE)
        elif isinstance(type_, dict):
            compact = "compactArray" in type_
            element = type_["compactArray" if compact else "array"]
            if compact:
                self.claim("array", b"\x02", LONG_LIE)
            else:
                self.claim("array", struct.pack(">i", 1), LIE)
            if isinstance(element, list):
                self.fields(element)
            else:
                self.value(element)
        elif type_ in _FIXED:
            self.out += bytes(_FIXED[type_])
        elif type_.startswith("COMPACT_"):
            self.claim("length", b"\x01", LONG_LIE)
        elif type_.endswith("STRING"):
            self.claim("length", b"\0\0", b"\x7f\xff")
        else:
            self.claim("length", bytes(4), LIE)

    def claim(self, kind: str, truth: bytes, lie: bytes) -> None:
        self.out += lie if self.claims == self.lie else truth
        self.claims += 1
        self.kinds.append(kind)


def header(key: int, version: int, client_id: str = "hostile") -> bytes:
    kind = BY_KEY[key]["versions"][str(version)]["request_header"]
    text = client_id.encode()
    start = struct.pack(">hhih", key, version, 7, len(text)) + text
    return start + (b"\0" if kind == 2 else b"")


def framed(payload: bytes) -> bytes:
    """Returns ``payload`` after its length as an int32."""
    return struct.pack(">i", len(payload)) + payload


def honest(key: int, version: int) -> bytes:
    """Returns the body of a small valid request. Numbers are 0, strings are empty, and arrays have
    one element."""
    writer = _Writer(-1)
    writer.fields(BY_KEY[key]["versions"][str(version)]["request"])
    return bytes(writer.out)


def lies(key: int, version: int) -> Iterator[tuple[str, bytes]]:
    """Yields request bodies in which one length or count is wrong. Each pair has the kind of the
    wrong field, and the body."""
    layout = BY_KEY[key]["versions"][str(version)]["request"]
    count = _Writer(-1)
    count.fields(layout)
    for number in range(count.claims):
        writer = _Writer(number)
        writer.fields(layout)
        yield writer.kinds[number], bytes(writer.out)


def connect(broker: Broker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=20)


def ends(sock: socket.socket) -> bytes:
    """Ends the writing side of a connection. Returns all bytes that the broker sends before it
    closes the connection."""
    said = bytearray()
    try:
        sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(65536):
            said += data
    except (ConnectionResetError, BrokenPipeError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
    finally:
        sock.close()
    return bytes(said)


def send(broker: Broker, data: bytes) -> bytes:
    """Sends ``data`` on a new connection. Returns all bytes that the broker sends before it closes
    the connection."""
    sock = connect(broker)
    try:
        sock.sendall(data)
    except (ConnectionResetError, BrokenPipeError):
        sock.close()
        return b""
    return ends(sock)


def closed_without_a_word(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        sock.close()


def served(broker: Broker) -> dict[int, range]:
    """Returns the served versions by API key, as the broker's ApiVersions lists them."""
    reply = send(broker, framed(header(18, 0)))
    (count,) = struct.unpack_from(">i", reply, 10)
    rows = [struct.unpack_from(">hhh", reply, 14 + 6 * row) for row in range(count)]
    return {key: range(first, last + 1) for key, first, last in rows}


def resident_bytes(broker: Broker) -> int:
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS for the broker")


class Bystander:
    """A well-behaved client that sends requests continuously while a test sends hostile bytes.

    ``longest_s`` is its longest wait for a response in seconds. Waits of client and broker for a
    CPU core do not count.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker_pid = broker.pid
        self._sock = connect(broker)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0
        self.longest_s = 0.0
        self.failure: Exception | None = None

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join(30)
        self._sock.close()

    def _run(self) -> None:
        question = framed(header(18, 0, "bystander"))
        core_waits = CoreWaits(self._broker_pid)
        try:
            while not self._done.wait(0.005):
                began = time.monotonic() - core_waits.seconds()
                self._sock.sendall(question)
                left = struct.unpack(">i", self._exactly(4))[0]
                self._exactly(left)
                self.longest_s = max(
                    self.longest_s, time.monotonic() - core_waits.seconds() - began
                )
                self.answers += 1
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            data = self._sock.recv(count - len(got))
            if not data:
                raise ConnectionError("the broker closed a connection that did nothing wrong")
            got += data
        return got

"""A minimal Kafka client for tests that control every byte of a request."""

from __future__ import annotations

import socket
import struct
from typing import Any

from protocol.framing import Framer
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME

MAX_ANSWER_BYTES = 64 << 20


def frame(name: str, version: int, correlation_id: int, value: dict[str, Any]) -> bytes:
    """Returns the bytes of a request frame, including the length prefix."""
    api = BY_NAME[name]
    head = encode_request_header(api.key, version, correlation_id, "raw")
    body = api.encode_request(version, value)
    return struct.pack(">i", len(head) + len(body)) + head + body


def answer(name: str, version: int, data: bytes) -> tuple[int, dict[str, Any]]:
    """Decodes a response without its length prefix. Returns the correlation id and the value."""
    api = BY_NAME[name]
    correlation_id, position = decode_response_header(api.key, version, data)
    return correlation_id, api.decode_response(version, data, position)


class RawConnection:
    """A blocking connection with at most one request in flight."""

    def __init__(self, port: int, timeout_s: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._framer = Framer(MAX_ANSWER_BYTES, 4)
        self._frames: list[bytes] = []
        self._correlation_id = 0

    def call(self, name: str, version: int, **value: Any) -> dict[str, Any]:
        self._correlation_id += 1
        self.socket.sendall(frame(name, version, self._correlation_id, value))
        while not self._frames:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._frames += self._framer.feed(data)
        correlation_id, found = answer(name, version, self._frames.pop(0))
        assert correlation_id == self._correlation_id
        return found

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""A client with one connection that sends any request in any version."""

from __future__ import annotations

import socket
import struct
from typing import Any

from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored

TIMEOUT_S = 20.0


class Wire:
    """A blocking connection. `call` sends a request and waits for its response."""

    def __init__(self, port: int, client_id: str = "wire", host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_S)
        self.client_id = client_id
        self._correlation_id = 0
        self._sent: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, name: str, version: int, value: dict[str, Any]) -> int:
        """Sends a request without waiting for its response, and returns its correlation id."""
        return self.send_body(name, version, BY_NAME[name].encode_request(version, value))

    def send_body(self, name: str, version: int, body: bytes) -> int:
        """Sends a request with the given bytes as its body. Returns the correlation id."""
        self._correlation_id += 1
        key = BY_NAME[name].key
        header = encode_request_header(key, version, self._correlation_id, self.client_id)
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        self._sent[self._correlation_id] = (name, version)
        return self._correlation_id

    def receive(self) -> tuple[int, dict[str, Any]]:
        """Returns the correlation id and the value of the next response."""
        (length,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(length)
        (correlation_id,) = struct.unpack_from(">i", frame)
        name, version = self._sent.pop(correlation_id)
        api = BY_NAME[name]
        _, position = decode_response_header(api.key, version, frame)
        return correlation_id, api.decode_response(version, frame, position)

    def call(self, name: str, version: int, value: dict[str, Any] | None = None) -> dict[str, Any]:
        correlation_id = self.send(name, version, value or {})
        got, answer = self.receive()
        assert got == correlation_id, "an answer out of order"
        return answer

    def is_closed(self) -> bool:
        """Returns True if the broker closes the connection without sending another response."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)


def batch(*values: bytes | None, timestamp: int = 1_000, **fields: Any) -> bytes:
    """Returns one batch of magic 2 with ``values`` and null keys. Its base offset is 0."""
    records = [Record(i, timestamp + i, None, value) for i, value in enumerate(values)]
    return encode_batch(records, base_offset=0, **fields)


def values_of(records: bytes | None) -> list[bytes | None]:
    """Returns the values of all records in batches of magic 2, in offset order."""
    data = records or b""
    return [
        record.value
        for header, _ in iter_stored(data, partial=True)
        for record in records_of(data, header)
    ]

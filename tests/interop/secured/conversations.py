"""Sequences of messages to a broker before and during a login. Each sequence is one row of a table.

A step is a request, raw bytes, or several requests in one write. Its result is a response, or the
end of the connection.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from typing import Any, NamedTuple

from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from tests.interop.secured.brokers import Secured

ANSWERED_WITHIN_S = 10.0
Value = dict[str, Any]


class Said(NamedTuple):
    """A request or raw bytes. Without an API name, the frame contains only the bytes ``raw``."""

    name: str
    version: int
    value: Value
    raw: bytes = b""
    answered_as: int | None = None
    """The version of the response if it differs from that of the request."""

    def frame(self, correlation_id: int) -> bytes:
        """Returns the length of the request as an int32, followed by the request."""
        data = self.raw
        if self.name:
            api = BY_NAME[self.name]
            known = min(self.version, api.versions[-1])
            head = encode_request_header(api.key, self.version, correlation_id, "stranger")
            data = head + api.encode_request(known, self.value)
        return struct.pack(">i", len(data)) + data

    def heard(self, frame: bytes) -> Any:
        """Returns the decoded response, without values that differ between brokers."""
        if not self.name:
            return frame
        api = BY_NAME[self.name]
        version = self.version if self.answered_as is None else self.answered_as
        _, position = decode_response_header(api.key, version, frame)
        answer = api.decode_response(version, frame, position)
        if self.name == "Metadata":
            return "metadata"
        answer.pop("throttle_time_ms", None)
        if "api_keys" in answer:
            return {"error_code": answer["error_code"], "told": bool(answer["api_keys"])}
        if "mechanisms" in answer:
            answer["mechanisms"] = sorted(answer["mechanisms"])
        if answer.get("auth_bytes"):
            answer["auth_bytes"] = answer["auth_bytes"][:2]  # the nonce and the salt differ
        return answer


def versions(version: int = 3, name: str = "me", answered_as: int | None = None) -> Said:
    fields = {"client_software_name": name, "client_software_version": "1"}
    return Said("ApiVersions", version, fields, answered_as=answered_as)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Said:
    return Said("SaslHandshake", version, {"mechanism": mechanism})


def token(text: bytes, version: int = 1) -> Said:
    return Said("SaslAuthenticate", version, {"auth_bytes": text})


def raw(data: bytes) -> Said:
    return Said("", 0, {}, data)


def metadata() -> Said:
    return Said("Metadata", 1, {"topics": []})


class Together(NamedTuple):
    """Requests that are sent with one write."""

    said: tuple[Said, ...]


Step = Said | Together


class Conversation(NamedTuple):
    """A sequence of steps, and the results that Kafka returns."""

    name: str
    steps: tuple[Step, ...]
    expected: tuple[str, ...]
    listener: str = "SASL_PLAINTEXT"


def hear(secured: Secured, conversation: Conversation) -> list[Any]:
    """Executes the steps. Returns their results. The last result is "closed" if the broker closes
    the connection."""
    host, _, port = secured.listeners[conversation.listener].rpartition(":")
    heard: list[Any] = []
    with socket.create_connection((host, int(port)), ANSWERED_WITHIN_S) as connection:
        for step in conversation.steps:
            said = step.said if isinstance(step, Together) else (step,)
            try:
                connection.sendall(b"".join(each.frame(7) for each in said))
                for each in said:
                    heard.append(each.heard(_frame(connection)))
            except ConnectionError:
                heard.append("closed")
                return heard
    return heard


def _frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def gist(heard: list[Any]) -> tuple[str, ...]:
    """Returns the results that the test compares with its table: an error code for each response,
    or the bytes of a frame that has no header."""
    return tuple(_gist(each) for each in heard)


def _gist(heard: Any) -> str:
    if isinstance(heard, bytes):
        return f"{len(heard)} bytes"
    if isinstance(heard, dict):
        return " ".join([str(heard["error_code"]), *filter(None, [heard.get("error_message")])])
    return str(heard)


def is_cut_off(secured: Secured, listener: str, data: bytes) -> bool:
    host, _, port = secured.listeners[listener].rpartition(":")
    with socket.create_connection((host, int(port)), ANSWERED_WITHIN_S) as connection:
        connection.sendall(data)
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


def hello_of_tls() -> bytes:
    """Returns the first bytes of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        peer.do_handshake()
    return outgoing.read()

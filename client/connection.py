"""One blocking connection to a broker of Kafka 0.10 or newer. Each call uses the newest API version
that the broker, the protocol tables and the caller all allow."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from client.chance import monotonic_s
from client.errors import ClientError, NoBroker, NotAskable, Unreachable
from client.security import PLAINTEXT, Security
from protocol import errors, headers
from protocol.messages import BY_NAME
from protocol.schema import Api

Value = dict[str, Any]
Address = tuple[str, int]

VERSION_CAPS: Mapping[str, int] = {
    "Fetch": 12,
    "Metadata": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "Produce": 12,
}
"""The newest version of each API that still identifies topics by name. Later versions have only
topic ids."""
MAX_RESPONSE_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_RENEWED_AT = 0.85
"""The fraction of a SASL session's lifetime after which the client logs in again, as Kafka's own
clients do."""


class Sent(NamedTuple):
    """A request that was sent."""

    api: Api
    version: int
    correlation_id: int
    timeout_s: float


class Connection:
    """A connection to a broker. Responses arrive in the order of the requests, so that several
    requests may be sent before the first response is received.

    Methods raise ClientError or a subclass, such as NoBroker if no broker listens at the address.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_s: float,
        security: Security = PLAINTEXT,
        left_s: Callable[[], float] | None = None,
    ) -> None:
        """Connects to the broker. ``left_s`` returns the number of seconds that are left for
        connecting and for the login."""
        self.host = host
        self.port = port
        self.address = name_of((host, port))
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.security = security
        self.moved_bytes = 0
        """The number of bytes of all requests and responses, with their length fields."""
        left = left_s or (lambda: timeout_s)
        self._correlation_id = 0
        self._answered_id = 0
        self._renew_s: float | None = None
        """The monotonic time in seconds at which the client logs in again, before the SASL session
        expires; None if the session does not expire."""
        self._received = bytearray()
        """The received part of an incomplete response. If Ctrl-C interrupts a read, the next read
        continues from here."""
        self._socket = self._connect(left)
        try:
            self.ranges = self._versions(left())
            """The minimum and maximum version of each API key, from the broker's ApiVersions
            response."""
            self._log_in(left)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, left: Callable[[], float]) -> None:
        self._renew_s = None
        lifetime_ms = self.security.authenticate(self, left)
        if lifetime_ms > 0:
            self._renew_s = monotonic_s() + _RENEWED_AT * lifetime_ms / 1000

    def _renew(self) -> None:
        """Logs in again, if the login must be renewed and no response is outstanding."""
        if self._renew_s is None or self._answered_id < self._correlation_id:
            return
        if monotonic_s() >= self._renew_s:
            self._log_in(lambda: self.timeout_s)

    def _connect(self, left: Callable[[], float]) -> socket.socket:
        try:
            plain = socket.create_connection((self.host, self.port), left())
        except (OSError, UnicodeError) as error:  # IDNA may not allow the host's name
            reason = getattr(error, "strerror", None) or str(error)
            raise NoBroker(f"no broker answers at {self.address} ({reason})") from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            plain.settimeout(left())
            return self.security.wrap(plain, self.host, self.address)
        except BaseException:
            plain.close()
            raise

    def _versions(self, timeout_s: float) -> dict[int, tuple[int, int]]:
        answer = self.receive(self.send("ApiVersions", {}, timeout_s, 0))
        if answer["error_code"] != errors.NONE:
            name = errors.NAMES.get(answer["error_code"], answer["error_code"])
            raise ClientError(
                f"the broker at {self.address} did not return its API versions: {name}"
            )
        return {k["api_key"]: (k["min_version"], k["max_version"]) for k in answer["api_keys"]}

    @property
    def is_here(self) -> bool:
        """Returns True if the broker runs on the same machine as the client."""
        return bool(self._socket.getpeername()[0] == self._socket.getsockname()[0])

    def supports(self, name: str, version: int) -> bool:
        """Returns True if the broker supports this version of an API."""
        least, most = self.ranges.get(BY_NAME[name].key, (0, -1))
        return least <= version <= most

    def version_of(self, name: str) -> int:
        """Returns the version to use for an API. Raises ClientError if broker and client have no
        common version."""
        api = BY_NAME[name]
        least, most = self.ranges.get(api.key, (0, -1))
        chosen = min(most, api.versions[-1], VERSION_CAPS.get(name, most))
        if chosen < least:
            raise ClientError(
                f"the broker at {self.address} and this client have no common version of {name}"
            )
        return chosen

    def call(
        self, name: str, value: Value, timeout_s: float | None = None, version: int | None = None
    ) -> Value:
        """Sends one request and returns the decoded response. By default, uses the newest version
        that client and broker support."""
        return self.receive(self.send(name, value, timeout_s, version))

    def send(
        self, name: str, value: Value, timeout_s: float | None = None, version: int | None = None
    ) -> Sent:
        """Sends one request without waiting for the response, which `receive` returns."""
        api = BY_NAME[name]
        version = self.version_of(name) if version is None else version
        self._renew()
        self._correlation_id += 1
        sent = Sent(api, version, self._correlation_id, timeout_s or self.timeout_s)
        head = headers.encode_request_header(api.key, version, sent.correlation_id, self.client_id)
        try:
            body = api.encode_request(version, value)
        except errors.ProtocolError as error:  # a name above 32767 bytes, or one that is not UTF-8
            raise NotAskable(f"can't encode the request: {error}") from None
        try:
            self._socket.settimeout(sent.timeout_s)
            self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        except OSError as error:
            raise self._lost(sent, error) from error
        self.moved_bytes += 4 + len(head) + len(body)
        return sent

    def receive(self, sent: Sent) -> Value:
        """Waits for the response to a request, and returns the decoded response."""
        try:
            self._socket.settimeout(sent.timeout_s)
            frame = self._read_frame()
            while 0 < int.from_bytes(frame[:4]) < sent.correlation_id:
                frame = self._read_frame()  # the response to a call that was given up
        except OSError as error:
            raise self._lost(sent, error) from error
        expected = headers.response_header(sent.api.key, sent.version, sent.correlation_id)
        if frame[: len(expected)] != expected:
            raise Unreachable(
                f"the broker at {self.address} sent a response that does not match the request"
            )
        self._answered_id = sent.correlation_id
        try:
            return sent.api.decode_response(sent.version, frame, len(expected))
        except errors.ProtocolError as error:
            raise Unreachable(
                f"the broker at {self.address} sent an invalid {sent.api.name} response: {error}"
            ) from None

    def exchange(self, token: bytes, timeout_s: float) -> bytes:
        """Sends bytes without a request header and returns the response. Clients before Kafka 1.0
        used this form for SASL."""
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(struct.pack(">i", len(token)) + token)
            return self._read_frame(least_bytes=0)
        except OSError:
            raise ClientError(
                f"the broker at {self.address} closed the connection during SASL"
            ) from None

    def _lost(self, sent: Sent, error: OSError) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(
                f"the broker at {self.address} did not respond to {sent.api.name} within"
                f" {sent.timeout_s:g} s"
            )
        return Unreachable(
            f"the broker at {self.address} closed the connection during {sent.api.name}"
            f"{self.security.advice}"
        )

    def _read_frame(self, least_bytes: int = 4) -> bytes:
        """Returns the next complete response, without its length field."""
        self._receive(4)
        size = int.from_bytes(self._received[:4], signed=True)
        if not least_bytes <= size <= MAX_RESPONSE_BYTES:
            raise Unreachable(
                f"the server at {self.address} does not speak Kafka's protocol"
                f"{self.security.advice}"
            )
        self._receive(4 + size)
        frame = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        self.moved_bytes += 4 + size
        return frame

    def _receive(self, size: int) -> None:
        """Reads until at least ``size`` bytes of the response are buffered."""
        while len(self._received) < size:
            chunk = self._socket.recv(min(size - len(self._received), _CHUNK_BYTES))
            if not chunk:
                raise ConnectionResetError("end of stream")
            self._received += chunk

    def close(self) -> None:
        self._socket.close()


def name_of(address: Address) -> str:
    """Returns HOST:PORT, with brackets around an IPv6 address."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""A connection to another broker that sends requests and matches the responses to them in order.

Several requests may be in flight. A late or malformed response ends the connection, because later
responses could not be matched to their requests. A frame is buffered as its bytes arrive, like
frames of clients, so that the length that it claims never causes an allocation.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from broker.time import Time
from protocol.errors import ProtocolError
from protocol.framing import Framer
from protocol.headers import encode_request_header, response_header
from protocol.schema import Api

if TYPE_CHECKING:
    import ssl

ANSWER_BYTES_MAX = 256 << 20
"""The maximum size of an accepted response in bytes. The fetch limits of followers are far below
this size."""
_LENGTH = struct.Struct(">i")

Value = dict[str, Any]
Decode = Callable[[bytes, int], Any]
"""A function that decodes a response. Its arguments are the frame, and the position of the body in
the frame."""


class PeerLost(Exception):
    """The other broker can't be reached, was too slow, or sent an invalid response. The exception's
    text has the reason.

    The other broker may have executed the request.
    """


class Address(NamedTuple):
    """The host and port of another broker's inter-broker listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


PeerT = TypeVar("PeerT", bound="Peer")


class _Asked(NamedTuple):
    """A request in flight, which waits for its response."""

    expected: bytes
    """The bytes with which the response must begin: its header."""
    decode: Decode
    answer: asyncio.Future[Any]


class Peer(asyncio.Protocol):
    """A connection to another broker, made by `connect`."""

    def __init__(self, address: Address, client_id: str, time: Time) -> None:
        self.address = address
        self._client_id = client_id
        self._time = time.real
        self._loop = asyncio.get_running_loop()
        self._framer = Framer(ANSWER_BYTES_MAX, 0)
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self.lost: PeerLost | None = None
        """The reason why the connection can no longer be used; None while it can be used."""

    # -- requests

    async def call(self, api: Api, version: int, value: Value, timeout_ms: int) -> Value:
        """Sends a request in the given version. Returns the decoded response. Raises PeerLost."""
        answer: Value = await self.send(
            api,
            version,
            api.encode_request(version, value),
            lambda frame, position: api.decode_response(version, frame, position),
            timeout_ms,
        )
        return answer

    async def send(
        self, api: Api, version: int, body: bytes, decode: Decode, timeout_ms: int
    ) -> Any:
        """Sends a request with an encoded body. Returns the response as ``decode`` decodes it.
        Raises PeerLost."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        head = encode_request_header(api.key, version, self._correlation_id, self._client_id)
        expected = response_header(api.key, version, self._correlation_id)
        frame = [_LENGTH.pack(len(head) + len(body)) + head, body]
        return await self._answer_to(frame, expected, decode, api.name, timeout_ms)

    async def exchange(self, token: bytes, timeout_ms: int) -> bytes:
        """Sends a SASL token as a frame without a request header. Returns the bytes of the
        response. Raises PeerLost."""
        frame = [_LENGTH.pack(len(token)), token]
        answer: bytes = await self._answer_to(frame, b"", _as_it_is, "a login", timeout_ms)
        return answer

    async def _answer_to(
        self, frame: list[bytes], expected: bytes, decode: Decode, name: str, timeout_ms: int
    ) -> Any:
        if self.lost is not None or self._transport is None:
            raise self.lost or PeerLost(f"not connected to {self.address}")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked.append(_Asked(expected, decode, answer))
        self._transport.writelines(frame)
        try:
            async with self._time.within(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            lost = PeerLost(f"{self.address} did not answer {name} within {timeout_ms} ms")
            self.close(lost)
            raise lost from None
        except asyncio.CancelledError:
            self.close(PeerLost(f"the request to {self.address} was cancelled"))
            raise

    def close(self, reason: PeerLost | None = None) -> None:
        """Closes the connection. Requests in flight fail with ``reason``."""
        if self.lost is None:
            self.lost = reason or PeerLost(f"the connection to {self.address} was closed")
        if self._transport is not None:
            self._transport.abort()
        asked, self._asked = self._asked, deque()
        for each in asked:
            if not each.answer.done():
                each.answer.set_exception(self.lost)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._framer.feed(data)
            for frame in frames:
                self._answered(frame)
        except ProtocolError as error:
            self.close(PeerLost(f"invalid response from {self.address}: {error}"))

    def _answered(self, frame: bytes) -> None:
        if not self._asked:
            raise ProtocolError("the broker sent a response without a request")
        asked = self._asked[0]
        if frame[: len(asked.expected)] != asked.expected:
            raise ProtocolError("the correlation id does not match the request")
        value = asked.decode(frame, len(asked.expected))
        self._asked.popleft()
        if not asked.answer.done():
            asked.answer.set_result(value)

    def connection_lost(self, error: Exception | None) -> None:
        reason = f": {error}" if error else ""
        self.close(PeerLost(f"{self.address} closed the connection{reason}"))


def _as_it_is(frame: bytes, position: int) -> bytes:
    return frame[position:]


async def connect(address: Address, client_id: str, time: Time, timeout_ms: int) -> Peer:
    """Opens a plaintext connection to another broker. Raises PeerLost."""
    return await connect_as(Peer(address, client_id, time), time, timeout_ms)


Connect = Callable[[Address, str, Time, int], Awaitable[Peer]]
"""The type of `connect`, and of functions that connect with TLS or SASL."""


async def connect_as(
    peer: PeerT, time: Time, timeout_ms: int, context: ssl.SSLContext | None = None
) -> PeerT:
    """Opens the connection of ``peer``, with TLS if ``context`` is not None. Raises PeerLost."""
    loop, address = asyncio.get_running_loop(), peer.address
    try:
        async with time.real.within(timeout_ms / 1000):
            await loop.create_connection(
                lambda: peer,
                address.host,
                address.port,
                ssl=context,
                server_hostname=None if context is None else address.host,
            )
    except TimeoutError:
        raise PeerLost(f"{address} did not accept the connection within {timeout_ms} ms") from None
    except OSError as error:
        if context is not None and hasattr(error, "reason"):  # only TLS errors have a reason
            reason = getattr(error, "verify_message", None) or error.reason
            raise PeerLost(f"TLS handshake with {address} failed: {reason}") from None
        raise PeerLost(f"can't connect to {address}: {error.strerror or error}") from None
    return peer

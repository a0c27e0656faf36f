"""A request: its fields for a handler, and the methods that end it. `ServedApi` is the row that
each module of ``broker/apis`` adds to the table of served APIs. `Request` is the only object that
is created per request.

The connection decodes the header. The handler decodes the body, either with the reference codec
(``value``) or with a generated decoder that reads ``buffer`` from ``position`` on.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from broker.loop.histogram import Histogram
from broker.net.required_acls import UNSAID, Rights
from log.values import Slice
from protocol.encoded_array import EncodedArray
from protocol.headers import response_header
from protocol.schema import Api
from protocol.slotted import slotted
from security.quotas.mutations import UNBOUND, Mutations

if TYPE_CHECKING:
    from broker.net.connection import Connection

Steps: TypeAlias = Iterator["asyncio.Future[Any] | None"]
"""The work of a handler for many elements, in steps. A step yields None, or a future that must be
done before the next step. Other work may run between two steps. The last step ends the request."""
Handler = Callable[[Any, "Request"], Steps | None]
"""A function that handles a request; its first argument is the broker's services. It either ends
the request itself, immediately or later, or returns the steps that end the request."""
ReplyEncoder = Callable[["Request", Any], None]


ELEMENTS_MAX = 20_000
"""The default maximum number of elements in a request: more than any cluster tool sends in one
request."""
ENCODED_AT_ONCE = 500
"""The maximum number of elements of a response that the event loop's thread encodes. Encoding so
many takes about 1 ms."""
ENCODED_AT_ONCE_BYTES = 1024 * 1024
"""The event loop's thread encodes a response only if the request has at most this number of bytes,
and if no encoded array in the response has more bytes."""


@slotted(frozen=True, eq=False)
class ServedApi:
    """One API that this broker serves, in all versions from ``min_version`` to ``max_version``.

    ``handle`` must end its request exactly once, immediately or later; see `Request`.
    """

    api: Api
    min_version: int
    max_version: int
    handle: Handler
    left_out: str = ""
    """The features of Kafka that this broker lacks in these versions, as text for
    docs/use/coverage.md."""
    elements_max: int | None = ELEMENTS_MAX
    """The maximum number of elements in one request, summed over its arrays; None if the handler
    checks the number itself."""
    decoders: Mapping[int, Callable[[bytes, int], Any]] = field(default_factory=dict)
    """The decoders of large bodies by API version. The handler finds the decoded body in
    `Request.context`. Bodies of other versions are decoded into `Request.value` by the reference
    codec."""
    is_offered: bool = True
    """True if ApiVersions lists the API. If False, the broker still answers requests of the API."""
    rights: Rights = UNSAID

    def decode(self, version: int, buffer: bytes, position: int) -> Any:
        """Counts the elements of a large body, and decodes it. Thread-safe. Raises
        ProtocolError."""
        assert self.elements_max is not None
        self.api.count_elements(version, buffer, position, self.elements_max)
        decode = self.decoders.get(version)
        if decode is None:
            return self.api.decode_request(version, buffer, position)
        return decode(buffer, position)


class Route:
    """One API in one version, with the properties that a connection needs before it reads the body
    of a request."""

    __slots__ = (
        "api_version",
        "errors",
        "flexible",
        "handle",
        "new_meter",
        "served",
        "times",
    )

    def __init__(
        self,
        served: ServedApi,
        api_version: int,
        flexible: bool,
        errors: dict[int, int],
        times: Histogram,
    ) -> None:
        self.served = served
        self.handle = served.handle
        self.new_meter: Callable[[Connection, str], Meter] | None = None
        """A function that creates the meter of a request from its connection and client id; None if
        no quotas are set."""
        self.api_version = api_version
        self.flexible = flexible
        """True if the request header of this version has tagged fields."""
        self.errors = errors
        """The number of answered requests by error code. All versions of the API share this
        counter."""
        self.times = times
        """The times in nanoseconds from a request's arrival to its response. All versions of the
        API share this histogram."""


Chunk = bytes | bytearray | memoryview | Slice
"""A part of a reply. A `Slice` is a range of a file, which is read when it is written to the
socket."""
Body = bytes | Sequence[Chunk]

_LENGTH = struct.Struct(">i")


class Meter(Protocol):
    """Measures how much of the client's quotas one request uses; see
    `broker/apis/throttling/meter.py`."""

    def begin(self) -> None: ...

    def end(self, is_answered: bool) -> None: ...

    def steps(self, request: Request, steps: Steps) -> Steps: ...

    def coroutine(
        self, request: Request, work: Coroutine[Any, Any, None]
    ) -> Coroutine[Any, Any, None]:
        """Wraps ``work`` so that its running time is measured, without the time for which it
        waits."""

    def park(self, request: Request) -> bool:
        """Returns True if the connection is throttled. The meter has then parked the request, and
        the caller must not park it again."""

    def exempt(self) -> None: ...

    def fetched_at_most(self, asked_bytes: int) -> int:
        """Returns how many of ``asked_bytes`` requested bytes the quotas allow; see
        `Request.fetched_at_most`."""

    def mutations(self, version: int, strict_from: int | None) -> Mutations:
        """Returns the client's quota of topic changes (KIP-599); see `Request.mutations`."""

    def finish(self, request: Request, frame: Body, error_code: int) -> Body:
        """Returns the response to send; if the client exceeds a quota, the response contains the
        throttle time."""


class Request:
    """One request of one connection.

    A handler ends the request exactly once: by ``respond`` with a dict, ``complete`` with a whole
    frame, or ``respond_nothing``. A handler that replies later may store the request. If later
    requests of the connection must wait for the reply (JoinGroup, SyncGroup, Fetch), the handler
    first calls ``park``. With or without ``park``, replies are sent in the order of the requests.
    """

    __slots__ = (
        "_value",
        "api_version",
        "buffer",
        "client_id",
        "connection",
        "context",
        "correlation_id",
        "encode",
        "meter",
        "on_disconnect",
        "position",
        "reply",
        "route",
        "since_ns",
    )

    def __init__(
        self,
        connection: Connection,
        route: Route,
        correlation_id: int,
        client_id: str,
        buffer: bytes,
        position: int,
    ) -> None:
        self.connection = connection
        self.route = route
        self.api_version = route.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        """The client id; an empty string if the client sent null, as in Kafka."""
        self.buffer = buffer
        """The received bytes up to the end of the request; the request's body begins at
        ``position``."""
        self.position = position
        self.reply: Body | None = None
        """The finished reply; None before the request is finished; empty if no reply is to be sent.
        """
        self.on_disconnect: Callable[[], None] | None = None
        """A function that is called once if the peer disconnects before the request is answered.
        After the call, the request must not be answered."""
        self.encode: ReplyEncoder | None = None
        """A function that encodes the reply of a core and ends this request; see `take`."""
        self.since_ns = connection.read_ns
        """The arrival time of the request's bytes, in nanoseconds of the performance counter."""
        self.context: Any = None
        """Data that the handler of the request stores here. At first it is the body of the request,
        if ``ServedApi.decoders`` decoded the body."""
        self.meter: Meter | None = None
        """Measures how much of the client's quotas this request uses; None if no quotas are set."""
        if route.new_meter is not None:
            self.meter = route.new_meter(connection, client_id)
            self.meter.begin()  # the connection calls `end` when the handler has returned

    @property
    def served(self) -> ServedApi:
        return self.route.served

    @property
    def value(self) -> dict[str, Any]:
        """Returns the body as a dict; the reference codec decodes the body at the first access.

        Raises ProtocolError, which closes the connection, if the body is incomplete or has trailing
        bytes.
        """
        try:
            return self._value
        except AttributeError:
            self._value: dict[str, Any] = self.route.served.api.decode_request(
                self.api_version, self.buffer, self.position
            )
            return self._value

    def check(self) -> None:
        """Raises ProtocolError if the body is invalid. A handler that does not read `value` calls
        this method."""
        self.value  # noqa: B018 - the body is decoded

    def respond(self, value: dict[str, Any], error_code: int | None = None) -> None:
        """Ends the request with ``value``, encoded by the reference codec. The request is counted
        under ``error_code``; by default, under the top-level ``error_code`` of ``value``, or under
        0 if that field is missing."""
        if error_code is None:
            error_code = value.get("error_code", 0)
        at_once = len(self.buffer) <= ENCODED_AT_ONCE_BYTES and not _is_large(value)
        self.complete_later(partial(self.frame, value), error_code, at_once=at_once)

    def array(self, *path: str) -> EncodedArray:
        """Creates the response array at ``path``, whose elements are encoded one by one."""
        served = self.route.served
        return served.api.message(self.api_version, is_request=False).array(*path)

    def complete_later(
        self, frame: Callable[[], bytes], error_code: int, *, at_once: bool = False
    ) -> None:
        """Ends the request with the frame that ``frame`` returns. The worker thread calls
        ``frame``, unless ``at_once`` is set."""
        if at_once:
            self.complete(frame(), error_code)
        else:
            self.connection.server.long.answer(self, frame, error_code)

    def frame(self, value: dict[str, Any]) -> bytes:
        """Returns the encoded frame of the response ``value``. Thread-safe."""
        api = self.route.served.api
        version = self.api_version
        header = response_header(api.key, version, self.correlation_id)
        body = api.encode_response(version, value)
        return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))

    def decoded(self, body: Any) -> None:
        """Stores a body that ``ServedApi.decode`` decoded in another thread."""
        if self.api_version in self.route.served.decoders:
            self.context = body
        else:
            self._value = body

    def complete(self, frame: Body, error_code: int = 0) -> None:
        """Ends the request with a whole frame, which includes the length prefix and the header.

        ``frame`` may be a list of chunks, some of which are slices of files. The request is counted
        under ``error_code``.
        """
        assert self.reply is None, f"{self.route.served.api.name} was answered twice"
        self.reply = frame if self.meter is None else self.meter.finish(self, frame, error_code)
        route = self.route
        route.errors[error_code] += 1
        # This is Histogram.add, inlined: it saves a third of a microsecond.
        connection = self.connection
        waited_ns = connection.ticks_ns() - self.since_ns
        times = route.times
        times.counts[waited_ns.bit_length()] += 1
        times.total += waited_ns
        if connection.handling is not self:
            connection.answered(self)

    def respond_nothing(self, error_code: int = 0) -> None:
        """Ends the request without a response, for Produce with acks=0."""
        self.complete((), error_code)

    def answer_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work``, which ends the request; later requests of the connection wait until the
        end of ``work``."""
        if self.meter is not None:
            work = self.meter.coroutine(self, work)
        self.connection.server.long.answer_later(self, work)

    def work_off(self, steps: Steps) -> None:
        """Runs ``steps``; the last step ends the request. Most handlers return their steps. A
        handler that can't return them calls this method."""
        self.connection.server.long.work_off(self, steps)

    def park(self) -> None:
        """Delays later requests of this connection until this request is answered. On a throttled
        connection, the delay begins when the throttle ends."""
        if self.meter is None or not self.meter.park(self):
            self.connection.park(self)

    def exempt(self) -> None:
        """Exempts the request from quotas. Called if another broker sent the request."""
        if self.meter is not None:
            self.meter.exempt()

    def fetched_at_most(self, asked_bytes: int) -> int:
        """Returns how many of ``asked_bytes`` requested bytes the response may contain according to
        the quotas."""
        return asked_bytes if self.meter is None else self.meter.fetched_at_most(asked_bytes)

    def mutations(self, strict_from: int | None) -> Mutations:
        """Returns the client's quota of topic changes (KIP-599). Without a meter, the quota has no
        limit. From API version ``strict_from`` on, changes above the quota are rejected."""
        meter = self.meter
        return UNBOUND if meter is None else meter.mutations(self.api_version, strict_from)

    def take(self, reply: Any) -> None:
        """Ends the request with the reply of a core. The request is itself the ticket of its
        call."""
        assert self.encode is not None
        if self.meter is not None:
            self.meter.begin()
        try:
            self.encode(self, reply)
        except Exception:  # noqa: BLE001 - logged, with its traceback
            self.fail()
        if self.meter is not None:
            self.meter.end(self.reply is not None)

    def fail(self) -> None:
        """Ends the request after its handler has raised an exception. Must be called in the
        ``except`` block."""
        self.connection.handler_failed(self)


def _is_large(value: dict[str, Any]) -> bool:
    """Returns True if a response contains more than `ENCODED_AT_ONCE` elements, or an already
    encoded array of more than `ENCODED_AT_ONCE_BYTES` bytes."""
    for part in value.values():
        if type(part) is EncodedArray and len(part.data) > ENCODED_AT_ONCE_BYTES:
            return True
    todo: list[Any] = [value]
    for container in todo:
        parts = container.values() if type(container) is dict else container
        if len(todo) + len(parts) > ENCODED_AT_ONCE:
            return True
        todo += [part for part in parts if type(part) is dict or type(part) is list]
    return False

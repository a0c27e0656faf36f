"""A request: its fields for a handler, and the ways to end it.

Owns `ServedApi`, the row that each module of ``broker/apis`` adds to the table of served APIs, and
`Request`, the one object made per request. Bytes arrive decoded up to the body; the body is decoded
when a handler reads it, by the reference codec (``value``) or by a generated decoder over
``buffer`` and ``position``.
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
"""The steps of a handler over elements: it yields None where other work may run, and a future to
continue when that is done. Its last step ends the request."""
Handler = Callable[[Any, "Request"], Steps | None]
"""Called with the broker's services and the request. Ends its request, at once or later; one over
many elements returns its steps instead."""
ReplyEncoder = Callable[["Request", Any], None]


ELEMENTS_MAX = 20_000
"""The elements that a request of most APIs may name: more than tools of any cluster send at
once."""
ENCODED_AT_ONCE = 500
"""Elements of an answer that is encoded in the loop's thread: about 1 ms."""
ENCODED_AT_ONCE_BYTES = 1024 * 1024
"""Bytes of such an answer's encoded arrays, and of its request, whose names it may repeat."""


@slotted(frozen=True, eq=False)
class ServedApi:
    """One API as this broker serves it: versions ``min_version`` to ``max_version``, all of them.

    ``handle`` must end its request exactly once, at once or later; see `Request`.
    """

    api: Api
    min_version: int
    max_version: int
    handle: Handler
    left_out: str = ""
    """Kafka's behaviour in these versions that this broker lacks; for docs/use/coverage.md."""
    elements_max: int | None = ELEMENTS_MAX
    """How many elements one request may name, entries of all its arrays together; None where the
    handler counts for itself."""
    decoders: Mapping[int, Callable[[bytes, int], Any]] = field(default_factory=dict)
    """By version, what decodes large bodies for a handler that takes them from ``context``; the
    reference codec, into ``value``, for the other versions."""
    is_offered: bool = True
    """Whether ApiVersions names it; requests are answered in any case."""
    rights: Rights = UNSAID
    """The ACLs that its sender needs."""

    def decode(self, version: int, buffer: bytes, position: int) -> Any:
        """Counts and decodes a large body; in any thread. Raises ProtocolError."""
        assert self.elements_max is not None
        self.api.count_elements(version, buffer, position, self.elements_max)
        decode = self.decoders.get(version)
        if decode is None:
            return self.api.decode_request(version, buffer, position)
        return decode(buffer, position)


class Route:
    """One API at one version in one broker: the connection's data for a request before its body."""

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
        """Makes the meter of a request of a client id; None without quotas."""
        self.api_version = api_version
        self.flexible = flexible
        """Whether the request's header has tagged fields."""
        self.errors = errors
        """Requests answered, by error code; shared by all versions of the API."""
        self.times = times
        """Nanoseconds from a request's arrival to its answer; shared in the same way."""


Chunk = bytes | bytearray | memoryview | Slice
"""A piece of a reply; a slice of a file is read when it is written."""
Body = bytes | Sequence[Chunk]

_LENGTH = struct.Struct(">i")


class Meter(Protocol):
    """A request's use of its client's quotas; see `broker/apis/throttling/meter.py`."""

    def begin(self) -> None:
        """A piece of work on the request begins."""

    def end(self, is_answered: bool) -> None:
        """That piece is over."""

    def steps(self, request: Request, steps: Steps) -> Steps:
        """The same steps, each of them measured."""

    def coroutine(
        self, request: Request, work: Coroutine[Any, Any, None]
    ) -> Coroutine[Any, Any, None]:
        """The same coroutine, each of its pieces between two waits measured."""

    def park(self, request: Request) -> bool:
        """Whether the request need not park, since its connection is throttled."""

    def exempt(self) -> None:
        """No quota bounds the request."""

    def fetched_at_most(self, asked_bytes: int) -> int:
        """See `Request.fetched_at_most`."""

    def mutations(self, version: int, strict_from: int | None) -> Mutations:
        """See `Request.mutations`."""

    def finish(self, request: Request, frame: Body, error_code: int) -> Body:
        """The answer as it is sent: it may say how long its client has to wait."""


class Request:
    """One request of one connection, from its header on.

    A handler ends it exactly once: ``respond`` with a dict, ``complete`` with a whole frame, or
    ``respond_nothing``. A handler that answers later may keep the request; it calls ``park`` first
    when the later requests of that connection must not be handled before this one is answered
    (JoinGroup, SyncGroup, Fetch). Replies leave in the order of the requests either way.
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
        """"" where the header has null, as Kafka reads it."""
        self.buffer = buffer
        """Ends where the request ends; ``position`` is where its body begins."""
        self.position = position
        self.reply: Body | None = None
        """The finished answer, None until there is one; empty when nothing is to be sent."""
        self.on_disconnect: Callable[[], None] | None = None
        """Called once if the peer disconnects while the request is unanswered; then the request is
        void."""
        self.encode: ReplyEncoder | None = None
        """Turns the coordinator's reply into this request's end, see `take`."""
        self.since_ns = connection.read_ns
        """When it had arrived, by the performance counter."""
        self.context: Any = None
        """The result of ``ServedApi.decoders`` for a large body; later the handler's own data for
        the reply."""
        self.meter: Meter | None = None
        """The use of its client's quotas; None without quotas."""
        if route.new_meter is not None:
            self.meter = route.new_meter(connection, client_id)
            self.meter.begin()  # the connection ends this piece when the handler has returned

    @property
    def served(self) -> ServedApi:
        """The row of the table of served APIs that serves this request."""
        return self.route.served

    @property
    def value(self) -> dict[str, Any]:
        """The body as a dict, decoded by the reference codec on first use.

        Raises ProtocolError, which closes the connection, for anything but a whole, exact body.
        """
        try:
            return self._value
        except AttributeError:
            self._value: dict[str, Any] = self.route.served.api.decode_request(
                self.api_version, self.buffer, self.position
            )
            return self._value

    def check(self) -> None:
        """Raises ProtocolError like `value`, for a handler that asks for nothing of the body."""
        self.value  # noqa: B018 - the body is decoded

    def respond(self, value: dict[str, Any], error_code: int | None = None) -> None:
        """Ends the request with ``value``, encoded by the reference codec.

        ``error_code`` is what the request is counted under; by default the value's own top-level
        ``error_code``, or 0 where it has none.
        """
        if error_code is None:
            error_code = value.get("error_code", 0)
        at_once = len(self.buffer) <= ENCODED_AT_ONCE_BYTES and not _is_large(value)
        self.complete_later(partial(self.frame, value), error_code, at_once=at_once)

    def array(self, *path: str) -> EncodedArray:
        """An array of the answer that is encoded as its elements come, by the names down to it."""
        served = self.route.served
        return served.api.message(self.api_version, is_request=False).array(*path)

    def complete_later(
        self, frame: Callable[[], bytes], error_code: int, *, at_once: bool = False
    ) -> None:
        """Ends the request with what ``frame`` makes, in the worker unless that is fast enough."""
        if at_once:
            self.complete(frame(), error_code)
        else:
            self.connection.server.long.answer(self, frame, error_code)

    def frame(self, value: dict[str, Any]) -> bytes:
        """The whole frame that answers ``value``; in any thread."""
        api = self.route.served.api
        version = self.api_version
        header = response_header(api.key, version, self.correlation_id)
        body = api.encode_response(version, value)
        return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))

    def decoded(self, body: Any) -> None:
        """Takes what ``ServedApi.decode`` made of the body in another thread."""
        if self.api_version in self.route.served.decoders:
            self.context = body
        else:
            self._value = body

    def complete(self, frame: Body, error_code: int = 0) -> None:
        """Ends the request with a whole frame, length prefix and header included.

        ``frame`` may be a list of chunks, some of them slices of files. ``error_code`` is counted.
        """
        assert self.reply is None, f"{self.route.served.api.name} was answered twice"
        self.reply = frame if self.meter is None else self.meter.finish(self, frame, error_code)
        route = self.route
        route.errors[error_code] += 1
        # A third of a microsecond: Histogram.add, written out.
        connection = self.connection
        waited_ns = connection.ticks_ns() - self.since_ns
        times = route.times
        times.counts[waited_ns.bit_length()] += 1
        times.total += waited_ns
        if connection.handling is not self:
            connection.answered(self)

    def respond_nothing(self, error_code: int = 0) -> None:
        """Ends the request without an answer, as Produce with acks=0 asks."""
        self.complete((), error_code)

    def answer_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work``, which ends the request; the connection's later requests wait for it."""
        if self.meter is not None:
            work = self.meter.coroutine(self, work)
        self.connection.server.long.answer_later(self, work)

    def work_off(self, steps: Steps) -> None:
        """Works off steps that end the request; for a handler that could not return them."""
        self.connection.server.long.work_off(self, steps)

    def park(self) -> None:
        """Holds back the later requests of this connection until this one is answered.

        While the connection is throttled, that begins afterwards.
        """
        if self.meter is None or not self.meter.park(self):
            self.connection.park(self)

    def exempt(self) -> None:
        """Exempts the request from quotas: the sender is known to be another broker."""
        if self.meter is not None:
            self.meter.exempt()

    def fetched_at_most(self, asked_bytes: int) -> int:
        """How many bytes its sender may be given, of as many as it asks for."""
        return asked_bytes if self.meter is None else self.meter.fetched_at_most(asked_bytes)

    def mutations(self, strict_from: int | None) -> Mutations:
        """Its quota of topic changes; from version ``strict_from`` on, excess changes are rejected.

        Without a meter the quota is unbounded.
        """
        meter = self.meter
        return UNBOUND if meter is None else meter.mutations(self.api_version, strict_from)

    def take(self, reply: Any) -> None:
        """Takes the reply of a core: a request is itself the ticket of its call."""
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
        """Ends the request over the exception that is being handled, a bug of ours."""
        self.connection.handler_failed(self)


def _is_large(value: dict[str, Any]) -> bool:
    """Whether an answer has more than `ENCODED_AT_ONCE` elements, entries of all its arrays, or
    encoded ones of more than `ENCODED_AT_ONCE_BYTES`."""
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

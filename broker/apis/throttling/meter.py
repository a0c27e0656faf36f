"""The meter of a request on a broker with quotas: measures what the request uses, and throttles its
client.

The meter records the use when the response is complete. A client that exceeds a quota gets its
response at once, with a throttle time. Then its connection is throttled
(`broker/net/limits/throttles.py`). If several quotas are exceeded, the longest throttle time
counts.

The time of a request is the time that the event loop works for the request: its handler, slice by
slice, and the encoding of its response. Waiting does not count. If work for the request continues
after its response, that work is recorded when it ends. docs/operate/security.md describes quotas
for operators.
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, Final

from broker.apis.throttling import throttled_fetch
from broker.apis.throttling.measures import Measures, is_of_brokers
from broker.apis.throttling.throttle_field import size_of, with_throttle
from broker.net.request import Body, Request, Steps
from broker.quotas.client_quotas import Kind, Shares
from protocol.api_keys import FETCH, PRODUCE, SHARE_FETCH
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED
from security.quotas.mutations import UNBOUND, BoundMutations, Mutations

if TYPE_CHECKING:
    from broker.net.connection import Connection

_LENGTH = struct.Struct(">i")
_NS_OF_A_PERCENT: Final = 10_000_000
"""The nanoseconds in 1 % of a second."""
_UNBOUND: Final = Shares()


class Meter:
    """Measures one request. `broker/net/request.py` documents when each method is called."""

    __slots__ = (
        "_measures", "_mutations", "_pieces", "_since_work_ns", "_ticks_ns", "_worked_ns", "shares",
    )  # fmt: skip

    def __init__(self, measures: Measures, connection: Connection, client_id: str) -> None:
        self._measures = measures
        self._ticks_ns = connection.ticks_ns
        self._worked_ns = 0
        """The time in ns for which the event loop has worked on the request, excluding work that
        has not ended yet."""
        self._pieces = 0
        """The number of spans of work for this request that have begun and not ended. A span may
        begin inside another one. The number is 0 while the request waits."""
        self._since_work_ns = 0
        """The time in ns from which work on the request is measured: the start of the current span
        of work. A span inside another span does not change it."""
        self._mutations: Mutations = UNBOUND
        self.shares = measures.quotas.shares_of(connection.principal.name, client_id)

    # -- time

    def begin(self) -> None:
        """Called when the broker begins a span of work for the request.

        Spans can be nested: the span of a handler contains the spans of the steps that the handler
        passes to `work_off`.
        """
        if not self._pieces:
            self._since_work_ns = self._ticks_ns()
        self._pieces += 1

    def end(self, is_answered: bool) -> None:
        """Ends a span of work for the request. If the response is already complete
        (``is_answered``), counts the time of the span against the quota at once."""
        self._pieces -= 1
        if self._pieces:
            return
        worked_ns = self._ticks_ns() - self._since_work_ns
        if not is_answered:
            self._worked_ns += worked_ns
        elif self.shares.request is not None:
            self.shares.request.use(worked_ns / _NS_OF_A_PERCENT, self._measures.now_ms())

    def _take_time(self) -> float:
        """Returns the time that the event loop has worked on this request since the last call of
        this method, in percent of a second."""
        worked_ns, self._worked_ns = self._worked_ns, 0
        if self._pieces:
            now_ns = self._ticks_ns()
            worked_ns += now_ns - self._since_work_ns
            self._since_work_ns = now_ns
        return worked_ns / _NS_OF_A_PERCENT

    def steps(self, request: Request, steps: Steps) -> Steps:
        """Runs ``steps``, and measures each step."""
        while True:
            self.begin()
            try:
                waits_for = next(steps)
            except StopIteration:
                return
            finally:
                self.end(request.reply is not None)
            yield waits_for

    @coroutine
    def coroutine(
        self, request: Request, work: Coroutine[Any, Any, None]
    ) -> Generator[Any, Any, None]:
        """Runs ``work``. Measures the time in which ``work`` runs, without the time in which it
        waits."""
        step, given = work.send, None
        while True:
            self.begin()
            try:
                waits_for = step(given)
            except StopIteration:
                return
            finally:
                self.end(request.reply is not None)
            try:
                given = yield waits_for
                step = work.send
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine handles it
                step, given = work.throw, error

    # -- calls of the request

    def park(self, request: Request) -> bool:
        """If the connection of the request is throttled, parks the request and returns True.
        Otherwise returns False."""
        return self._measures.throttles.park(request)

    def exempt(self) -> None:
        self.shares = _UNBOUND

    def fetched_at_most(self, asked_bytes: int) -> int:
        """Returns the maximum number of bytes that a Fetch may read now; see `Request`."""
        share = self.shares.fetch
        return asked_bytes if share is None else min(asked_bytes, share.at_once)

    def mutations(self, version: int, strict_from: int | None) -> Mutations:
        """Returns the number of partition mutations that the request may make; see `Request`."""
        share = self.shares.mutation
        if share is None:
            return UNBOUND
        share.bucket.used_ms = self._measures.now_ms()
        is_strict = strict_from is not None and version >= strict_from
        mutations = BoundMutations(share.bucket.tokens, self._measures.now_ms, is_strict=is_strict)
        if strict_from is not None:
            self._mutations = mutations
        return mutations

    # -- the end

    def finish(self, request: Request, frame: Body, error_code: int) -> Body:
        """Counts the bytes and the time of a request against the client's quotas, and returns the
        response to send. Throttles the connection if a quota is exceeded."""
        if is_of_brokers(request.served) and error_code != CLUSTER_AUTHORIZATION_FAILED:
            self.exempt()
        measures, shares = self._measures, self.shares
        key, now_ms = request.served.api.key, measures.now_ms()
        waits: list[tuple[int, Kind]] = []
        if shares.request is not None:
            waits.append((shares.request.use(self._take_time(), now_ms), Kind.REQUEST))
        if key == PRODUCE and shares.produce is not None:
            waits.append((shares.produce.use(_size(request.buffer), now_ms), Kind.PRODUCE))
            if not frame:  # acks=0 has no response, and Kafka does not count the time
                waits = waits[-1:]
        elif key == FETCH and (shares.fetch is not None or waits):
            frame = throttled_fetch.bounded(request, measures, shares.fetch, frame, waits)
        elif key == SHARE_FETCH and shares.fetch is not None:
            # An empty response would leave the acquired records locked.
            waits.append((shares.fetch.use(size_of(frame), now_ms), Kind.FETCH))
        if self._mutations is not UNBOUND:
            waits.append((self._mutations.wait_ms, Kind.MUTATION))
        wait_ms, kind = max(waits, default=(0, Kind.REQUEST))
        if wait_ms <= 0:
            return frame
        connection = request.connection
        measures.quotas.count(kind, wait_ms, connection.principal.name)
        measures.throttles.hold(connection, kind, shares.allowed(kind) or 0, wait_ms)
        return with_throttle(frame, key, request.api_version, wait_ms)


def _size(buffer: bytes) -> int:
    """Returns the size in bytes of a request's header and body. The buffer may begin with the
    frame's length field, which does not count."""
    size = len(buffer)
    return size - 4 if _LENGTH.unpack_from(buffer)[0] == size - 4 else size

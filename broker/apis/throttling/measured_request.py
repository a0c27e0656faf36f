"""A request of a broker with quotas: it is measured, and its answer says how long to wait.

Owns the order of things. What was used is recorded when the answer is complete; whoever is over a
quota is answered at once, told so in the answer, and its connection is then throttled
(`broker/net/limits/throttles.py`). Where several quotas are exceeded the longest wait holds.

The time of a request is what the loop works for it: its handler, slice by slice, and the encoding
of its answer, until that is complete. Waiting costs nothing. What is still done for it afterwards
counts too, when it is done. docs/security.md says it for operators.
"""

from __future__ import annotations

import struct
from collections.abc import Coroutine, Generator, Iterator
from types import coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Final

from broker.apis.throttling import throttled_fetch
from broker.apis.throttling.measures import Measures, is_of_brokers
from broker.apis.throttling.throttle_field import with_throttle
from broker.net.request import Body, Handler, Request, Steps
from broker.quotas.client_quotas import Kind, Shares
from protocol.api_keys import FETCH, PRODUCE
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED
from security.quotas.mutations import UNBOUND, BoundMutations, Mutations

if TYPE_CHECKING:
    import asyncio

    from broker.net.connection import Connection
    from broker.net.request import Route

_LENGTH = struct.Struct(">i")
_NS_OF_A_PERCENT: Final = 10_000_000
"""Of one second of the loop's thread."""
_UNBOUND: Final = Shares()


class MeasuredRequest(Request):
    """See the module. A broker makes its own subclass, with its ``measures``."""

    __slots__ = ("_mutations", "_pieces", "_since_work_ns", "_worked_ns", "shares")

    measures: ClassVar[Measures]

    def __init__(
        self,
        connection: Connection,
        route: Route,
        correlation_id: int,
        client_id: str,
        buffer: bytes,
        position: int,
    ) -> None:
        super().__init__(connection, route, correlation_id, client_id, buffer, position)
        self._worked_ns = 0
        """How long it was worked on, without what goes on now."""
        self._pieces = 0
        """How many pieces of its work are under way, one inside the other; 0 while it waits."""
        self._since_work_ns = 0
        """Since when it is worked on, while it is: since the outermost piece began."""
        self._mutations: Mutations = UNBOUND
        self.shares = self.measures.quotas.shares_of(connection.principal.name, client_id)

    # -- time

    def begin(self) -> None:
        """From now on it is worked on.

        A piece may begin inside another one: what a handler hands to `work_off` is begun at once.
        """
        if not self._pieces:
            self._since_work_ns = self.connection.ticks_ns()
        self._pieces += 1

    def end(self) -> None:
        """It waits, or is done; what was done since its answer was complete is recorded."""
        self._pieces -= 1
        if self._pieces:
            return
        worked_ns = self.connection.ticks_ns() - self._since_work_ns
        if self.reply is None:
            self._worked_ns += worked_ns
        elif self.shares.request is not None:
            self.shares.request.use(worked_ns / _NS_OF_A_PERCENT, self.measures.now_ms())

    def _take_time(self) -> float:
        """What it has used of the loop until now, in percent of a second."""
        worked_ns, self._worked_ns = self._worked_ns, 0
        if self._pieces:
            now_ns = self.connection.ticks_ns()
            worked_ns += now_ns - self._since_work_ns
            self._since_work_ns = now_ns
        return worked_ns / _NS_OF_A_PERCENT

    # -- what a request does, measured

    def take(self, reply: Any) -> None:
        """See `Request`."""
        self.begin()
        try:
            super().take(reply)
        finally:
            self.end()

    def answer_later(self, work: Coroutine[Any, Any, None]) -> None:
        """See `Request`."""
        super().answer_later(_measured_coroutine(self, work))

    def work_off(self, steps: Steps) -> None:
        """See `Request`."""
        super().work_off(_measured_steps(self, steps))

    def park(self) -> None:
        """See `Request`; while its connection is throttled, it holds that back afterwards."""
        if not self.measures.throttles.park(self):
            super().park()

    def exempt(self) -> None:
        """See `Request`."""
        self.shares = _UNBOUND

    def fetched_at_most(self, asked_bytes: int) -> int:
        """See `Request`."""
        share = self.shares.fetch
        return asked_bytes if share is None else min(asked_bytes, share.at_once)

    def mutations(self, strict_from: int | None) -> Mutations:
        """See `Request`."""
        share = self.shares.mutation
        if share is None:
            return UNBOUND
        share.bucket.used_ms = self.measures.now_ms()
        is_strict = strict_from is not None and self.api_version >= strict_from
        mutations = BoundMutations(share.bucket.tokens, self.measures.now_ms, is_strict=is_strict)
        if strict_from is not None:
            self._mutations = mutations
        return mutations

    # -- the end

    def complete(self, frame: Body, error_code: int = 0) -> None:
        """See `Request`."""
        if is_of_brokers(self.route.served) and error_code != CLUSTER_AUTHORIZATION_FAILED:
            self.exempt()
        super().complete(self._told(frame), error_code)

    def _told(self, frame: Body) -> Body:
        """Records what was used. The answer that is sent, its connection throttled if it must."""
        measures, shares = self.measures, self.shares
        key, now_ms = self.route.served.api.key, measures.now_ms()
        waits: list[tuple[int, Kind]] = []
        if shares.request is not None:
            waits.append((shares.request.use(self._take_time(), now_ms), Kind.REQUEST))
        if key == PRODUCE and shares.produce is not None:
            waits.append((shares.produce.use(self._size(), now_ms), Kind.PRODUCE))
            if not frame:  # acks=0: nobody can be told, and Kafka leaves the time alone
                waits = waits[-1:]
        elif key == FETCH and (shares.fetch is not None or waits):
            frame = throttled_fetch.bounded(self, measures, shares.fetch, frame, waits)
        if self._mutations is not UNBOUND:
            waits.append((self._mutations.wait_ms, Kind.MUTATION))
        wait_ms, kind = max(waits, default=(0, Kind.REQUEST))
        if wait_ms <= 0:
            return frame
        measures.quotas.count(kind, wait_ms, self.connection.principal.name)
        allowed = shares.allowed(kind) or 0
        measures.throttles.hold(self.connection, kind, allowed, wait_ms)
        return with_throttle(frame, key, self.api_version, wait_ms)

    def _size(self) -> int:
        """Bytes of the request, header and body: the buffer may have its length before it."""
        size = len(self.buffer)
        return size - 4 if _LENGTH.unpack_from(self.buffer)[0] == size - 4 else size


def measured(handle: Handler) -> Handler:
    """A route's handler, whose time is measured."""

    def handled(services: Any, request: Request) -> Steps | None:
        if not isinstance(request, MeasuredRequest):  # it came before the first quota
            return handle(services, request)
        request.begin()
        try:
            steps = handle(services, request)
        finally:
            request.end()
        return None if steps is None else _measured_steps(request, steps)

    return handled


def _measured_steps(request: MeasuredRequest, steps: Steps) -> Iterator[asyncio.Future[Any] | None]:
    while True:
        request.begin()
        try:
            waits_for = next(steps)
        except StopIteration:
            return
        finally:
            request.end()
        yield waits_for


@coroutine
def _measured_coroutine(
    request: MeasuredRequest, work: Coroutine[Any, Any, None]
) -> Generator[Any, Any, None]:
    """The same coroutine; each of its pieces between two waits is measured."""
    step, given = work.send, None
    while True:
        request.begin()
        try:
            waits_for = step(given)
        except StopIteration:
            return
        finally:
            request.end()
        try:
            given = yield waits_for
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
            step, given = work.throw, error

"""The base class of all clients of a simulation: a connection with numbered requests.

A client has one connection at a time and, unless it pipelines, one request at a time. It connects,
sends, waits, gives up and reconnects. It also checks that each request is answered once, in order
and in time.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from tests.simulation.whole.agenda import MS, S

if TYPE_CHECKING:
    from tests.simulation.whole.living import LivingWorld
    from tests.simulation.whole.network import Wire

PATIENCE_NS = 12 * S
"""The maximum response time in ns without faults, including the wait of a Fetch."""
REBALANCE_PATIENCE_NS = 70 * S
"""The maximum response time in ns of a request that waits for a rebalance."""
CONNECTS_AGAIN_NS = (50 * MS, 500 * MS, 2 * S)
CORRELATION = struct.Struct(">i")


@dataclass(frozen=True)
class WireRequest:
    """A request: the name of its API, its version and its fields."""

    name: str
    version: int
    value: dict[str, Any]


def _patience_ns(request: WireRequest) -> int:
    waits = request.name in ("JoinGroup", "SyncGroup")
    return REBALANCE_PATIENCE_NS if waits else PATIENCE_NS


@dataclass
class Sent:
    """A request in flight. ``about`` is any information that the client needs for the response."""

    correlation_id: int
    request: WireRequest
    about: Any
    at_ns: int

    def answer_in(self, frame: bytes) -> dict[str, Any]:
        api = BY_NAME[self.request.name]
        _, position = decode_response_header(api.key, self.request.version, frame)
        return api.decode_response(self.request.version, frame, position)


class Client:
    """A client with one connection at a time. Subclasses send requests in `act` and process
    responses in `hear`."""

    def __init__(self, world: LivingWorld, name: str, host: str, chance: Random) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.chance = chance
        self.wire: Wire | None = None
        self.sent: deque[Sent] = deque()
        """Requests in flight, oldest first."""
        self.calm = False
        """True if the client must send only correct requests from now on."""
        self.may_be_closed = False
        """True if the client has sent a request after which the broker may close the connection."""
        self.answered = 0
        self._correlation_id = 0
        self._thinks_at_ns = -1

    # -- for subclasses

    def act(self) -> None:
        """Sends a request, or schedules the next action. Called when no request is in flight."""
        raise NotImplementedError

    def hear(self, sent: Sent, frame: bytes) -> None:
        """Processes the response to ``sent``, and schedules the next action."""
        raise NotImplementedError

    def leaves(self, sent: Sent, frame: bytes) -> None:
        """Checks a response at the time when the broker passes it to a transport."""

    def lost(self) -> None:
        """Called when the connection is closed. The requests in flight will not be answered."""

    def power_fails(self) -> None:
        """Called when a power failure may remove unflushed records of __consumer_offsets."""

    def think_after(self, ns: int) -> None:
        """Schedules `act` after ``ns`` nanoseconds. A later call of this method replaces the
        schedule."""
        self._thinks_at_ns = self.world.agenda.now_ns + ns
        self.world.agenda.at(self._thinks_at_ns, self._thinks, self._thinks_at_ns)

    def send(self, request: WireRequest, about: Any = None, expects_answer: bool = True) -> None:
        """Sends a request. The client abandons the request if no response arrives in time."""
        assert self.wire is not None
        self._correlation_id += 1
        sent = Sent(self._correlation_id, request, about, self.world.agenda.now_ns)
        if expects_answer:
            self.sent.append(sent)
        api = BY_NAME[request.name]
        header = encode_request_header(api.key, request.version, self._correlation_id, self.name)
        body = api.encode_request(request.version, request.value)
        self.world.happened[request.name] += 1
        self.wire.send(struct.pack(">i", len(header) + len(body)) + header + body)
        patience_ns = _patience_ns(request)
        if not self.calm and self.chance.random() < 0.02:
            patience_ns = self.chance.choice((1 * MS, 200 * MS, 3 * S))
        self.think_after(patience_ns)

    def drop_connection(self) -> None:
        how = self.chance.choice(("closed", "reset", "vanished"))
        if self.wire is not None:
            self.world.happened[f"connection {how}"] += 1
            if how == "vanished":
                self.wire.vanish()
            else:
                self.wire.close(reset=how == "reset")
        self._forget_connection()

    def written(self, frame: bytes) -> None:
        """Called when the broker passes a response to a transport, even if the client has abandoned
        the request."""
        (correlation_id,) = CORRELATION.unpack_from(frame)
        for sent in self.sent:
            if sent.correlation_id == correlation_id:
                self.leaves(sent, frame)
                return

    # -- inside

    def _thinks(self, at_ns: int) -> None:
        if at_ns != self._thinks_at_ns:
            return  # another time was set since
        self._thinks_at_ns = -1
        if self.sent:
            self._gives_up()
        elif self.wire is None:
            self._connect()
        else:
            self.act()

    def _connect(self) -> None:
        self.wire = self._reach()
        if self.wire is None:
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
            return
        self.wire.on_frame = self._frame
        self.wire.on_lost = self._lost
        self.act()

    def _reach(self) -> Wire | None:
        return self.world.network.connect(self.world.port, self.host)

    def _gives_up(self) -> None:
        """Abandons an unanswered request. Fails if the maximum response time has passed and no
        fault explains the missing response."""
        sent = self.sent[0]
        if self.world.agenda.now_ns - sent.at_ns >= _patience_ns(sent.request):
            assert self.world.excused(sent.at_ns), f"{self.name} waits in vain for {sent}"
        self.drop_connection()
        self.think_after(self.chance.choice((0, 30 * MS, 1 * S)))

    def _forget_connection(self) -> None:
        self.wire = None
        self.sent.clear()
        self.lost()

    def _lost(self) -> None:
        self._forget_connection()
        self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))

    def _frame(self, frame: bytes) -> None:
        (correlation_id,) = CORRELATION.unpack_from(frame)
        assert self.sent, f"{self.name} hears of {correlation_id}, and asked nothing"
        sent = self.sent.popleft()
        assert correlation_id == sent.correlation_id, (
            f"{self.name} hears of {correlation_id}, and waits for {sent.correlation_id}"
        )
        self.answered += 1
        self.hear(sent, frame)

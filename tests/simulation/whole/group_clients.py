"""The members and admins of groups as clients with connections, for the simulation of a whole
broker.

`tests/simulation/clients.py`, which the simulation of a shard also uses, decides the requests of a
client and processes the replies.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from coordinator.outcome import Reply
from tests.simulation.clients import Admin, Member
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.calls_on_the_wire import reply_of, request_of
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent

if TYPE_CHECKING:
    from tests.simulation.whole.world import World


class GroupClient(Client):
    """A member or an admin with a connection. It sometimes sends wrong requests, hangs or
    crashes."""

    def __init__(self, world: World, logic: Member | Admin, host: str, chance: Random) -> None:
        super().__init__(world, logic.name, host, chance)
        self.logic = logic
        self._confused = False
        """True if the request in flight is deliberately wrong."""

    def act(self) -> None:
        chance = self.chance
        number = self._correlation_id + 1
        dice = 1.0 if self.calm else chance.random()
        if dice < 0.004:
            self._restart()
        elif dice < 0.008:
            self.drop_connection()
            self.think_after(chance.choice(CONNECTS_AGAIN_NS))
        elif dice < 0.012:
            self.world.happened["client hangs"] += 1
            self.think_after(chance.choice((3, 8, 20, 40)) * S)
        else:
            confused = self._confused = dice < 0.06
            self.world.happened["confused"] += confused
            logic = self.logic
            call = logic.confused(number) if confused else logic.next_call(number, calm=self.calm)
            logic.waiting_for = call
            self.send(request_of(call, chance), call)

    def _restart(self) -> None:
        self.world.happened["client restarts"] += 1
        self.drop_connection()
        self.logic.restart()
        self.think_after(self.chance.choice((100 * MS, 5 * S, 15 * S)))

    def leaves(self, sent: Sent, frame: bytes) -> None:
        key = (self.name, sent.correlation_id)
        self.world.replies.leaves(key, lambda: reply_in(sent, frame))

    def unread_ns(self, now_ns: int) -> int:
        """Returns the time in ns for which the oldest unread request has waited at the broker.
        Returns 0 if the broker has read all requests, or if the client's last request was
        deliberately invalid."""
        wire = self.wire
        if wire is None or wire.transport.gone or not wire.arrived:
            return 0  # or the broker's process is dead
        if not self.sent or self._confused:
            return 0
        return now_ns - wire.arrived_ns

    def lost(self) -> None:
        self.logic.waiting_for = None

    def hear(self, sent: Sent, frame: bytes) -> None:
        reply = reply_in(sent, frame)
        self.world.replies.heard(self.name, sent.correlation_id, sent.about, reply)
        self.logic.waiting_for = None
        self.logic.hear(sent.about, reply)
        self.think_after(self._pause_ns())

    def _pause_ns(self) -> int:
        """Returns the pause in ns before the next request. The pause is short for a member that
        must join or sync."""
        if isinstance(self.logic, Member) and self.logic.phase != "in":
            return self.chance.choice((1 * MS, 20 * MS, 100 * MS, 500 * MS))
        return self.chance.choice((1 * MS, 300 * MS, 1 * S, 2 * S, 3 * S))


def reply_in(sent: Sent, frame: bytes) -> Reply:
    """Decodes a response frame into a reply of the core. ``sent`` contains the call."""
    return reply_of(sent.about, sent.request.version, sent.answer_in(frame))

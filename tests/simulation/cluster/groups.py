"""Members of classic groups in a cluster, and checks of the group state that must survive a change
of the coordinator.

`tests/simulation/clients.py` decides the requests of a member and processes the replies. The
classes here connect to the coordinator, and compare each response with earlier responses of any
broker.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from coordinator.calls import Call, LeaveGroup, Leaver, OffsetCommit, OffsetFetch, TopicOffsets
from coordinator.outcome import CommitReply, FetchReply, JoinReply, Reply, SyncReply
from protocol.consumer_protocol import encode_subscription
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
)
from tests.simulation.clients import Member
from tests.simulation.cluster.clients import THINKS_MS, CoordinatorClient, RisingOffset
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.calls_on_the_wire import reply_of, request_of
from tests.simulation.whole.client import Sent

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

_OF_COORDINATORS = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
SESSION_S = 20
_PUT_OUT_S = 12
"""The coordinator must not remove a member whose last answered request is less than this number of
seconds ago."""


class GroupTruth:
    """The facts in the responses that members of one group have received from any coordinator."""

    def __init__(self, group_id: str, topic: str) -> None:
        self.group_id = group_id
        self.topic = topic
        self.generation = -1
        """The newest generation whose assignment was sent to a member, and which is therefore in
        the log."""
        self._assigned_by: dict[int, bytes] = {}
        """By generation: the leader that computed the assignment, as the assignment names it."""

    def joined(self, reply: JoinReply, newest: int, name: str) -> None:
        """Asserts that the generation of a JoinGroup response is not below ``newest``, the newest
        generation when the request was sent."""
        assert reply.generation_id >= newest, (
            f"{self.group_id} had generation {newest}, and {name} joins {reply.generation_id}"
        )

    def synced(self, generation: int, assignment: bytes, name: str) -> None:
        """Asserts that one leader has computed the assignments of all members of a generation."""
        self.generation = max(self.generation, generation)
        if assignment:
            _, _, whose = assignment.partition(b":")
            first = self._assigned_by.setdefault(generation, whose)
            assert first == whose, (
                f"{self.group_id} in generation {generation}: {first!r} has assigned, and {name}"
                f" is told what {whose!r} has"
            )


class _Logic(Member):
    """A member of a classic group that commits increasing offsets for one partition."""

    def __init__(self, group: GroupTruth, name: str, number: int, chance: Random) -> None:
        self.group = group
        self.number = number
        self.offset = RisingOffset()
        super().__init__(name, group.group_id, chance, name if number == 0 else None)

    def restart(self) -> None:
        super().restart()
        self.session_timeout_ms = self.rebalance_timeout_ms = SESSION_S * 1000

    def choose_protocols(self) -> None:
        self.protocols = [("range", encode_subscription([self.group.topic]))]

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        if self.phase == "out":
            return self._join(ticket)
        if self.phase == "joined":
            return self._sync(ticket)
        dice = self.rng.random()
        if dice < 0.5:
            return self._heartbeat(ticket)
        if dice < 0.75:
            return self._commit(ticket)
        if dice < 0.98 or calm:
            wanted = [(self.group.topic, [self.number])]
            return OffsetFetch(ticket, self.group_id, wanted, require_stable=False)
        leaver = Leaver(self.member_id, self.group_instance_id, None)
        return LeaveGroup(ticket, self.group_id, [leaver])

    def _commit(self, ticket: int) -> OffsetCommit:
        mine = TopicOffsets(self.group.topic, [self.number], [self.offset.next()], [-1], None, None)
        who = (self.group_id, self.generation_id, self.member_id, self.group_instance_id)
        return OffsetCommit(ticket, *who, -1, [mine])


class GroupMember(CoordinatorClient):
    """A member of a classic group. It may crash and return as another member."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        group: GroupTruth,
        number: int,
    ) -> None:
        super().__init__(cluster, name, host, chance, group.group_id)
        self.group = group
        self.logic = _Logic(group, name, number, chance)
        self._alive: tuple[str, int, int] | None = None
        """The member id, the generation and the time of the member's last request that got a
        response."""

    def work(self) -> None:
        if not self.calm and self.chance.random() < 0.01:
            self.cluster.happened["member restarts"] += 1
            self.drop_connection()
            self.logic.restart()
            self.think_after(self.chance.choice((100 * MS, 3 * S)))
            return
        call = self.logic.next_call(self._correlation_id + 1, calm=self.calm)
        if isinstance(call, LeaveGroup):
            self._alive = None  # for any response
        self.send(request_of(call, self.chance), (call, self.group.generation))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        call, newest = sent.about
        reply = reply_of(call, sent.request.version, answer)
        code = _code(reply)
        self.cluster.happened[f"{sent.request.name} {code}"] += 1
        surely = self.is_at_coordinator
        logic = self.logic
        member = (logic.member_id, logic.generation_id)
        match reply:
            case JoinReply() if code == NONE and surely:
                self.group.joined(reply, newest, self.name)
            case SyncReply() if code == NONE:
                self.group.synced(logic.generation_id, reply.assignment, self.name)
            case CommitReply() if code == NONE:
                logic.offset.acknowledged(call.topics[0].offsets[0])
            case FetchReply() if code == NONE:
                [offset] = reply.topics[0].offsets
                self.told(logic.offset, logic.number, offset)
        if code == UNKNOWN_MEMBER_ID and surely and self._alive is not None:
            *alive, at_ns = self._alive
            silent_s = (self.cluster.agenda.now_ns - at_ns) / S
            assert tuple(alive) != member or silent_s > _PUT_OUT_S, (
                f"{self.name} is put out of generation {member[1]}, and was there {silent_s} s ago"
            )
        logic.hear(call, reply)
        if code == NONE and surely and sent.request.name in ("Heartbeat", "SyncGroup"):
            self._alive = (*member, sent.at_ns)
            self.served += 1
        if code in _OF_COORDINATORS:
            self.go_elsewhere()
        else:
            short = logic.phase != "in" or self.chance.random() < 0.3
            self.think_after(self.chance.choice(THINKS_MS if short else (1_000, 2_000)) * MS)


def _code(reply: Reply) -> int:
    if isinstance(reply, int):
        return reply
    if isinstance(reply, CommitReply):
        assert isinstance(reply.errors, int)
        return reply.errors
    return reply.error_code  # type: ignore[union-attr]

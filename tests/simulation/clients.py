"""Simulated clients that are mostly correct, and sometimes send wrong requests on purpose.

A client knows only the replies that it has received. ``next_call`` returns its next request, and
``hear`` processes a reply. A client has at most one unanswered request, with the id ``ticket``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.outcome import CommitReply, JoinReply, Reply, SyncReply
from protocol.consumer_protocol import encode_subscription
from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

GROUPS = ("alpha", "beta", "группа")
TOPICS = ("orders", "payments", "🙂")
PARTITIONS = 6
SESSIONS_MS = (6_000, 10_000, 30_000)
REBALANCES_MS = (2_000, 10_000, 45_000)
LONGEST_REBALANCE_MS = max(REBALANCES_MS)

_RESET = (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED)


@dataclass
class Member:
    """A consumer that joins a group. It is a static member if it has an instance id."""

    name: str
    group_id: str
    rng: Random
    group_instance_id: str | None = None
    member_id: str = ""
    generation_id: int = -1
    phase: str = "out"
    """"out" if the member must join next, "joined" if it must sync next, and "in" if it has an
    assignment."""
    leads: bool = False
    others: Sequence[str] = ()
    protocols: Sequence[tuple[str, bytes]] = ()
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 10_000
    modern: bool = True
    """True if the member uses JoinGroup version 9: the coordinator assigns the member id before the
    join, and may let a static leader skip the assignment."""
    waiting_for: Call | None = None
    """The request whose reply has not arrived."""
    assigns: int = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Replaces the member by a new process that has the same settings and no other state."""
        self.member_id, self.generation_id, self.phase = "", -1, "out"
        self.waiting_for = None
        self.leads, self.others = False, ()
        self.session_timeout_ms = self.rng.choice(SESSIONS_MS)
        self.rebalance_timeout_ms = self.rng.choice(REBALANCES_MS)
        self.modern = self.rng.random() < 0.6
        self.choose_protocols()

    def choose_protocols(self) -> None:
        topics = self.rng.sample(TOPICS, self.rng.randint(1, 2))
        offered = self.rng.choice([("range",), ("range", "sticky"), ("sticky", "range")])
        metadata = b"\xff" if self.rng.random() < 0.03 else encode_subscription(topics)
        self.protocols = [(name, metadata) for name in offered]

    # ------------------------------------------------------------------------------- requests

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        if self.phase == "out":
            return self._join(ticket)
        dice = self.rng.random()
        if self.phase == "joined":
            if calm or dice < 0.85:
                return self._sync(ticket)
            return self._heartbeat(ticket) if dice < 0.92 else self._commit(ticket)
        if calm or dice < 0.45:
            return self._heartbeat(ticket)
        if dice < 0.80:
            return self._commit(ticket)
        if dice < 0.88:
            return fetch(self.rng, ticket, self.group_id)
        if dice < 0.92:
            self.choose_protocols()
            return self._join(ticket)
        if dice < 0.95:
            return self._join(ticket)
        if dice < 0.97:
            return self._sync(ticket)
        reason = self.rng.choice([None, "closing"])
        leaver = Leaver(self.member_id, self.group_instance_id, reason)
        return LeaveGroup(ticket, self.group_id, [leaver])

    def _heartbeat(self, ticket: int) -> Heartbeat:
        return Heartbeat(
            ticket, self.group_id, self.generation_id, self.member_id, self.group_instance_id
        )

    def _commit(self, ticket: int) -> OffsetCommit:
        who = (self.group_id, self.generation_id, self.member_id, self.group_instance_id)
        return commit(self.rng, ticket, *who)

    def _join(self, ticket: int) -> JoinGroup:
        return JoinGroup(
            ticket,
            self.group_id,
            self.member_id,
            self.group_instance_id,
            client_id=self.name,
            client_host="/127.0.0.1",
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=self.protocols,
            reason=None,
            member_id_required=self.modern and self.group_instance_id is None,
            supports_skip_assignment=self.modern,
            fresh_id="" if self.member_id else f"{ticket:08x}",
        )

    def _sync(self, ticket: int) -> SyncGroup:
        given: list[tuple[str, bytes]] = []
        if self.leads:
            self.assigns += 1
            given = [
                (other, f"{other}:{self.name}:{self.assigns}".encode()) for other in self.others
            ]
            if self.rng.random() < 0.1:
                given = [*given[1:], ("nobody", b"lost")]
        return SyncGroup(
            ticket,
            self.group_id,
            self.generation_id,
            self.member_id,
            self.group_instance_id,
            self.rng.choice([None, "consumer"]),
            None,
            given,
        )

    def confused(self, ticket: int) -> Call:
        """Returns the next request of the member with a deliberate error."""
        call = self.next_call(ticket)
        wrong = self.rng.choice(["generation", "member", "instance", "session", "group"])
        if wrong == "generation" and hasattr(call, "generation_id"):
            return replace(call, generation_id=self.generation_id + self.rng.choice([-1, 1, 7]))
        if wrong == "member" and hasattr(call, "member_id"):
            return replace(call, member_id=self.rng.choice(["nobody", f"{self.name}-0"]))
        if wrong == "instance" and hasattr(call, "group_instance_id"):
            return replace(call, group_instance_id="nobody's")
        if wrong == "session" and isinstance(call, JoinGroup):
            return replace(call, session_timeout_ms=5)
        if wrong == "group":
            return replace(call, group_id="" if self.rng.random() < 0.2 else "no such group")
        return call

    # -------------------------------------------------------------------------------- replies

    def hear(self, call: Call, reply: Reply) -> None:
        if isinstance(reply, JoinReply):
            self._hear_join(reply)
        elif isinstance(reply, SyncReply):
            self._hear_sync(reply)
        elif isinstance(call, LeaveGroup):
            self.restart()
        elif isinstance(reply, CommitReply):
            if isinstance(reply.errors, int):
                self._hear_code(reply.errors)
        elif isinstance(reply, int):
            self._hear_code(reply)

    def _hear_join(self, reply: JoinReply) -> None:
        self.phase = "out"
        if reply.error_code == NONE:
            self.member_id, self.generation_id = reply.member_id, reply.generation_id
            self.leads = reply.leader == reply.member_id and not reply.skip_assignment
            self.others = [member.member_id for member in reply.members]
            self.phase = "joined"
        elif reply.error_code == MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error_code == INCONSISTENT_GROUP_PROTOCOL:
            self.choose_protocols()
        elif reply.error_code in _RESET:
            self.member_id = ""

    def _hear_sync(self, reply: SyncReply) -> None:
        if reply.error_code == NONE:
            self.phase = "in"
        else:
            self._hear_code(reply.error_code)

    def _hear_code(self, code: int) -> None:
        if code in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            self.phase = "out"
        elif code in _RESET:
            self.phase, self.member_id = "out", ""


@dataclass
class Admin:
    """An administrative tool, or a consumer without a group. It has no membership and names any
    group."""

    name: str
    rng: Random
    groups: Sequence[str] = GROUPS
    waiting_for: Call | None = None
    heard: int = field(default=0)

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        group_id = self.rng.choice([*self.groups, "simple", "simple", "unheard"])
        dice = self.rng.random()
        if dice < 0.35:
            return commit(self.rng, ticket, group_id, -1, "", None)
        if dice < 0.60:
            return fetch(self.rng, ticket, group_id)
        if dice < 0.75:
            return DescribeGroup(ticket, group_id)
        if dice < 0.85:
            states = self.rng.choice([(), ("stable",), ("empty", "awaitingsync"), ("nonsense",)])
            types = self.rng.choice([(), ("classic",), ("consumer",)])
            return ListGroups(ticket, frozenset(states), frozenset(types))
        if dice < 0.89:
            return DeleteGroup(ticket, group_id)
        if dice < 0.98:
            return OffsetDelete(ticket, group_id, _some_partitions(self.rng))
        instance_id = f"{group_id}-static-{self.rng.randint(0, 1)}"
        return LeaveGroup(ticket, group_id, [Leaver("", instance_id, "removed by an admin")])

    def confused(self, ticket: int) -> Call:
        return commit(self.rng, ticket, self.rng.choice(self.groups), 3, "nobody", None)

    def hear(self, call: Call, reply: Reply) -> None:
        self.heard += 1

    def restart(self) -> None:
        self.waiting_for = None


@dataclass
class Transactor:
    """A transactional producer that commits offsets, and the coordinator that ends its
    transactions.

    The coordinator may send a marker twice, or may end a transaction without offsets.
    """

    name: str
    producer_id: int
    rng: Random
    groups: Sequence[str] = GROUPS
    epoch: int = 0
    waiting_for: Call | None = None

    def next_call(self, ticket: int, calm: bool = False) -> Call:
        if calm or self.rng.random() < 0.35:
            return self._end(ticket)
        group_id = self.rng.choice([*self.groups, "simple", "transactional"])
        return self._commit(ticket, group_id, -1, "", None)

    def _end(self, ticket: int) -> EndOffsets:
        return EndOffsets(ticket, self.producer_id, self.epoch, 0, self.rng.random() < 0.7)

    def _commit(self, ticket: int, *who: Any) -> TxnOffsetCommit:
        group_id, *membership = who
        plain = commit(self.rng, ticket, group_id, -1, "", None)
        topics = [topic._replace(commit_timestamps_ms=None) for topic in plain.topics]
        return TxnOffsetCommit(
            ticket, group_id, self.producer_id, self.epoch, *membership, topics, self.name
        )

    def confused(self, ticket: int) -> Call:
        """Returns a commit with a deliberate error: the membership is that of another client, or
        the group does not exist."""
        group_id = self.rng.choice([*self.groups, "unheard"])
        instance_id = self.rng.choice([None, f"{group_id}-static-0"])
        return self._commit(ticket, group_id, self.rng.choice([-1, 1]), "nobody", instance_id)

    def hear(self, call: Call, reply: Reply) -> None:
        if isinstance(call, EndOffsets) and reply == NONE and self.rng.random() < 0.5:
            self.epoch += 1

    def restart(self) -> None:
        self.waiting_for = None


def _some_partitions(rng: Random) -> list[tuple[str, list[int]]]:
    topics = rng.sample(TOPICS, rng.randint(1, 2))
    return [(topic, rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))) for topic in topics]


def fetch(rng: Random, ticket: int, group_id: str) -> OffsetFetch:
    """Returns an OffsetFetch of some partitions or of all partitions."""
    topics = None if rng.random() < 0.4 else _some_partitions(rng)
    return OffsetFetch(ticket, group_id, topics, rng.random() < 0.5)


def commit(
    rng: Random,
    ticket: int,
    group_id: str,
    generation_id: int,
    member_id: str,
    group_instance_id: str | None,
) -> OffsetCommit:
    """Returns an OffsetCommit with the fields of a random version from 1 to 9."""
    version = rng.choice([1, 2, 6, 6, 6, 6])
    topics = []
    for topic, partitions in _some_partitions(rng):
        size = len(partitions)
        metadata: list[str | None] | None = None
        if rng.random() < 0.2:
            metadata = [rng.choice([None, "", "mine", "långt", "x" * 60]) for _ in partitions]
        stamps = None
        if version == 1:
            stamps = [rng.choice([-1, 1_000, 2_000]) for _ in partitions]
        epochs = [rng.randint(0, 9)] * size if version >= 6 else [-1] * size
        if version >= 6 and rng.random() < 0.2:
            epochs = [rng.randint(-1, 9) for _ in partitions]
        offsets = [rng.randint(0, 10_000) for _ in partitions]
        topics.append(TopicOffsets(topic, partitions, offsets, epochs, metadata, stamps))
    retention_ms = rng.choice([-1, 0, 5_000]) if version == 2 else -1
    return OffsetCommit(
        ticket, group_id, generation_id, member_id, group_instance_id, retention_ms, topics
    )

"""A group of the classic protocol: its members, its generation and its state.

The group maintains its counts and changes its state. `membership.py`, `static_members.py` and
`rebalance.py` decide the effect of a request. A failed assertion is a bug: the shard stops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from coordinator.classic.member import Member
from coordinator.classic.states import LEGAL_PREVIOUS, State
from coordinator.timers import GroupTimer
from offsets.runs import GroupMember, GroupRun, GroupValue
from protocol.consumer_protocol import CONSUMER, subscribed_topics
from protocol.deadlines import NEVER
from protocol.errors import FENCED_INSTANCE_ID, NONE, UNKNOWN_MEMBER_ID, ProtocolError
from protocol.now import Now

_MAX_GENERATION = 2**31 - 1


class Awaited(NamedTuple):
    """The members for which a group waits, and the deadline of the wait."""

    phase: str
    """The reason for the wait: "initial delay", "coalescing", "join" or "sync"; "" if the group
    does not wait."""
    deadline_ms: int | None
    """The deadline in monotonic milliseconds; None if the group does not wait for members."""
    members: tuple[str, ...]
    """The ids of members that have not joined or synced, and the new member ids with which no
    client has joined yet."""


class Group:
    """One classic group of a shard."""

    __slots__ = (
        "delay_remaining_ms",
        "delay_step_ms",
        "expiry_warned_ms",
        "generation_id",
        "group_id",
        "holding",
        "initial_delay",
        "join_deadline_ms",
        "joined",
        "last_join_ms",
        "last_joined_id",
        "last_wait_ms",
        "leader_id",
        "member_added",
        "members",
        "offsets_read_ms",
        "pending",
        "pending_syncs",
        "phase",
        "protocol_name",
        "protocol_type",
        "record_offset",
        "state",
        "state_since_ms",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "support",
    )

    def __init__(self, group_id: str, now: Now | None = None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        """Only ``transition_to`` and ``restored`` change the state."""
        self.state_since_ms = 0 if now is None else now.mono_ms
        """Monotonic time in ms of the last state change. If the state has not changed since a load,
        the monotonic time of the ``wake`` after this load."""
        self.state_timestamp_ms = -1 if now is None else now.wall_ms
        """Wall time in ms of the last state change, from the group's record; -1 if unknown."""
        self.protocol_type: str | None = None
        """The protocol type of the group's first member; None if no member ever joined."""
        self.protocol_name: str | None = None
        """The protocol that the members selected last; None without members."""
        self.generation_id = 0
        """The generation, which is 0 at first and increases by 1 at the end of each join phase."""
        self.leader_id: str | None = None
        """The leader's member id. None without members, or if no rebalance followed a downgrade."""
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, GroupTimer] = {}
        """The timers of member ids that MEMBER_ID_REQUIRED returned and no client has used yet."""
        self.pending_syncs: set[str] = set()
        """Members that must still send SyncGroup. Empty except in AWAITING_SYNC and STABLE."""
        self.joined = 0
        self.subscribed_topics: Collection[str] | None = None
        """Topics to which members of the current generation subscribe. None (unknown) counts as all
        topics. Only a new generation or a load changes this value, as in Kafka."""
        self.support: dict[str, int] = {}
        """The number of members that offer each protocol. Protocols without members are absent."""
        self.phase = GroupTimer(group_id)
        """The timer of the current phase: of the join phase or a step of the initial delay in
        PREPARING_REBALANCE; of the sync phase in AWAITING_SYNC, and in STABLE with
        ``pending_syncs``."""
        self.initial_delay = False
        self.delay_step_ms = 0
        self.delay_remaining_ms = 0
        """The time in ms by which the initial delay may still be extended after its current step.
        The delay is extended only if a new member has joined during the step."""
        self.member_added = False
        """True if a new member has joined since the last extension of the initial delay. The delay
        is then extended again."""
        self.holding = False
        """True if group.join.coalescing.ms extends the join phase after all members have joined."""
        self.join_deadline_ms = 0
        """The monotonic time in ms at which the join phase ends at the latest. If members are still
        missing after group.join.coalescing.ms, the phase waits for them until this time."""
        self.last_joined_id = ""
        """The id of the member whose JoinGroup was parked last, in this join phase or earlier."""
        self.last_join_ms = 0
        self.last_wait_ms = 0
        """Milliseconds between the last two JoinGroups that were parked in this join phase; 0 if
        fewer than two were parked."""
        self.offsets_read_ms = -1
        """Wall time in ms of the last OffsetFetch, if OffsetFetch requests count as activity of the
        group; otherwise -1."""
        self.expiry_warned_ms = 0
        """The shortest warning time in ms within which, at the last check, an offset of the group
        would expire; 0 if no offset would expire within any of the warning times."""
        self.record_offset = -1
        """The log offset of the group's metadata record; -1 if the log has no such record."""

    @classmethod
    def restored(cls, group_id: str, value: GroupValue, record_offset: int) -> Group:
        """Builds a group from its metadata record. The group's timers are not armed yet."""
        group = cls(group_id)
        group.state = State.STABLE if value.members else State.EMPTY
        group.state_timestamp_ms = value.state_timestamp_ms
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol_name if value.members else None
        group.generation_id = value.generation_id
        group.record_offset = record_offset
        for stored in value.members:
            if (
                stored.member_id in group.members
                or stored.group_instance_id in group.static_members
            ):
                continue  # no coordinator writes a duplicate: keep the first
            protocols = [(value.protocol_name or "", stored.subscription)]
            member = Member(
                group_id,
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                stored.session_timeout_ms,
                stored.rebalance_timeout_ms,
                protocols,
                stored.assignment,
            )
            member.restored = True
            group.add(member)
        if value.leader is None or value.leader in group.members:
            group.leader_id = value.leader
        group.note_subscriptions()
        return group

    # ------------------------------------------------------------------------------------ state

    def transition_to(self, state: State, now: Now) -> None:
        """Changes the state. Only this method and ``restored`` do so."""
        assert self.state in LEGAL_PREVIOUS[state], (
            f"group {self.group_id!r} cannot go from {self.state.name} to {state.name}"
        )
        self.state = state
        self.state_since_ms = now.mono_ms
        self.state_timestamp_ms = now.wall_ms
        assert self.phase.due_ms != NEVER or state not in (
            State.PREPARING_REBALANCE,
            State.AWAITING_SYNC,
        ), f"group {self.group_id!r} enters {state.name} without a deadline"

    def next_generation(self) -> None:
        """Begins the next generation: sets its number, leader, protocol and topics. After Kafka's
        maximum the number continues at 1.

        A leader that has not rejoined is replaced by the oldest member that has rejoined. A leader
        whose connection has closed is also replaced, if a joined member has an open connection.
        Kafka keeps a leader without a connection, so its group waits for the leader's assignment
        until the leader's session ends.
        """
        self.generation_id = 1 if self.generation_id >= _MAX_GENERATION else self.generation_id + 1
        joined = [m for m in self.members.values() if m.join_ticket is not None]
        able = [m for m in joined if m.closed_ms is None] or joined
        if able and all(m.member_id != self.leader_id for m in able):
            self.leader_id = able[0].member_id
        self.protocol_name = vote(m.protocols for m in self.members.values()) if joined else None
        self.note_subscriptions()

    def awaited(self) -> Awaited:
        match self.state:
            case State.PREPARING_REBALANCE:
                phase = "join"
                if self.initial_delay:
                    phase = "initial delay"
                elif self.holding:
                    phase = "coalescing"
                absent = [m.member_id for m in self.members.values() if m.join_ticket is None]
                return Awaited(phase, self.phase.due_ms, (*absent, *self.pending))
            case State.AWAITING_SYNC:
                waiting = [name for name in self.members if name in self.pending_syncs]
                return Awaited("sync", self.phase.due_ms, tuple(waiting))
            case State.STABLE:
                waiting = [name for name in self.members if name in self.pending_syncs]
                if waiting:
                    return Awaited("sync", self.phase.due_ms, tuple(waiting))
                return Awaited("", None, ())
            case State.EMPTY | State.DEAD:
                return Awaited("", None, ())

    type = "classic"

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_assigned(self) -> bool:
        """Returns whether the members have valid assignments. This is so only in STABLE."""
        return self.state is State.STABLE

    def all_joined(self) -> bool:
        return self.joined == len(self.members) and not self.pending

    def is_blank(self) -> bool:
        return (
            self.state is State.EMPTY
            and not self.pending
            and self.generation_id == 0
            and self.record_offset == -1
        )

    # ---------------------------------------------------------------------------------- members

    def check_member(self, member_id: str, group_instance_id: str | None) -> int:
        """Returns the error code of a request that names this member, or NONE.

        Every request is checked in the same order: instance id, member id, then the generation,
        which the caller checks. FENCED_INSTANCE_ID means that the instance id now belongs to
        another member id, so the old process must stop (KIP-345).
        """
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return UNKNOWN_MEMBER_ID
            if holder != member_id:
                return FENCED_INSTANCE_ID
        return NONE if member_id in self.members else UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        assert member.member_id not in self.members
        assert member.member_id not in self.pending
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count_protocols(member.protocols, 1)

    def remove(self, member: Member) -> None:
        """Removes a member that has no parked request. If it was the leader, the oldest remaining
        member becomes the leader."""
        assert member.join_ticket is None
        assert member.sync_ticket is None
        del self.members[member.member_id]
        self.pending_syncs.discard(member.member_id)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        member.session.disarm()
        self._count_protocols(member.protocols, -1)

    def replace(self, old: Member, new: Member) -> None:
        """Replaces the static member ``old`` by ``new``. If ``old`` was the leader, ``new`` becomes
        the leader."""
        assert old.group_instance_id == new.group_instance_id
        assert new.member_id not in self.members
        led = self.leader_id == old.member_id
        awaited = old.member_id in self.pending_syncs
        self.remove(old)
        self.add(new)
        if led:
            self.leader_id = new.member_id
        if awaited:
            self.pending_syncs.add(new.member_id)

    def set_protocols(self, member: Member, protocols: Sequence[tuple[str, bytes]]) -> None:
        member.restored = False
        if member.offers(protocols):
            return
        self._count_protocols(member.protocols, -1)
        member.protocols = tuple(protocols)
        self._count_protocols(member.protocols, 1)

    def rebalance_timeout_ms(self) -> int:
        return max((max(m.rebalance_timeout_ms, 0) for m in self.members.values()), default=0)

    # -------------------------------------------------------------------------------- protocols

    def accepts(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Returns whether a member with these protocols may join. At least one of the protocols
        must be offered by all members."""
        if not protocol_type or not protocols:
            return False
        if self.state is State.EMPTY:
            return True
        all_members = len(self.members)  # 0 while an unused member id keeps the join phase open
        return protocol_type == self.protocol_type and any(
            self.support.get(name, 0) == all_members for name, _ in protocols
        )

    def note_subscriptions(self) -> None:
        if not self.members:
            self.subscribed_topics = ()
            return
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER:
            return
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(subscribed_topics(member.metadata(self.protocol_name)))
        except ProtocolError:
            return
        self.subscribed_topics = topics

    def run(self, replaced: Member | None = None, by: Member | None = None) -> GroupRun:
        leader = self.leader_id
        members = []
        for member in self.members.values():
            said = by if by is not None and member is replaced else member
            members.append(
                GroupMember(
                    said.member_id,
                    said.group_instance_id,
                    said.client_id,
                    said.client_host,
                    said.rebalance_timeout_ms,
                    said.session_timeout_ms,
                    said.metadata(self.protocol_name),
                    said.assignment,
                )
            )
            if said is not member and leader == member.member_id:
                leader = said.member_id
        value = GroupValue(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            leader,
            self.state_timestamp_ms,
            members,
        )
        return GroupRun(self.group_id, value)

    def _count_protocols(self, protocols: Sequence[tuple[str, bytes]], step: int) -> None:
        support = self.support
        for name in {name for name, _ in protocols}:
            count = support.get(name, 0) + step
            if count:
                support[name] = count
            else:
                del support[name]


def vote(offers: Iterable[Sequence[tuple[str, bytes]]]) -> str:
    """Returns the protocol that a group uses, given each member's protocols in the member's order
    of preference.

    Candidates are the names that every member offers. Each member votes for the first candidate of
    its list; the candidate with the most votes wins. In a tie the candidate with the lowest sum of
    ranks over all lists wins. If these sums are equal too, the name that sorts first wins, so that
    the result is deterministic.
    """
    lists = Counter(tuple([name for name, _ in offer]) for offer in offers)  # most lists are equal
    candidates = set.intersection(*map(set, lists))
    assert candidates, "accepts() admits only members that share a protocol with all others"
    votes = dict.fromkeys(candidates, 0)
    ranks = dict.fromkeys(candidates, 0)
    for names, members in lists.items():
        offered = [name for name in dict.fromkeys(names) if name in candidates]
        votes[offered[0]] += members
        for rank, name in enumerate(offered):
            ranks[name] += rank * members
    return min(candidates, key=lambda name: (-votes[name], ranks[name], name))

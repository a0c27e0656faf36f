"""Implements `GroupView` for consumer groups; metrics, verdicts and pages read all groups through
this interface.

The generation is the group's epoch. A member's assigned partitions are encoded as in the classic
consumer protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator.classic.group import Awaited
from coordinator.consumer.group import ConsumerGroup, ConsumerMember, session_timeout_ms
from coordinator.consumer.states import ConsumerGroupState, MemberState
from coordinator.consumer.target import preferred_assignor
from coordinator.read_only import MemberView, Reconciliation, TimerView
from offsets.consumer_records import Assignment, CurrentAssignment
from protocol.consumer_protocol import CONSUMER, encode_assignment
from protocol.deadlines import NEVER

if TYPE_CHECKING:
    from coordinator.calls import Ticket
    from coordinator.step import ShardState

_KNOWN_STATES = frozenset(MemberState)
REVOKE = "revoke"
"""The phase of a group that waits for members to give up partitions; see `Awaited`."""


def encoded(current: CurrentAssignment, names: Mapping[bytes, str]) -> bytes:
    """Returns the assigned partitions, encoded in the classic consumer protocol, without deleted
    topics."""
    assigned = current.assigned.items()
    return encode_assignment({names[id_]: sorted(own) for id_, own in assigned if id_ in names})


class ConsumerMemberView:
    """Implements `MemberView`. A heartbeat is answered immediately, so a request of the member is
    never parked."""

    __slots__ = ("_group", "_member", "_state")

    closed_ms: int | None = None
    join_ticket: Ticket | None = None
    protocols: Sequence[tuple[str, bytes]] = ()
    waits = False

    def __init__(self, state: ShardState, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._state = state
        self._group = group
        self._member = member

    @property
    def member_id(self) -> str:
        """Returns the member id."""
        return self._member.member_id

    @property
    def group_instance_id(self) -> str | None:
        """Returns the instance id of a static member; None for a dynamic member."""
        return self._member.metadata.instance_id

    @property
    def client_id(self) -> str:
        """Returns the client.id of the member's last heartbeat."""
        return self._member.metadata.client_id

    @property
    def client_host(self) -> str:
        """Returns the client's host at the member's last heartbeat."""
        return self._member.metadata.client_host

    @property
    def session_timeout_ms(self) -> int:
        """Returns the session timeout in ms."""
        return session_timeout_ms(self._state.config, self._member)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Returns the time in ms within which the member must give up partitions; clients send
        max.poll.interval.ms."""
        return self._member.metadata.rebalance_timeout_ms

    @property
    def subscription(self) -> list[str]:
        """Returns the topics to which the member subscribes, by name or by resolved regex."""
        metadata = self._member.metadata
        resolved = self._group.regexes.get(metadata.subscribed_regex or "")
        return sorted({*metadata.subscribed_topics, *(resolved.topics if resolved else ())})

    @property
    def assignment(self) -> bytes:
        """Returns the member's assigned partitions in the classic consumer protocol, without
        deleted topics."""
        member, names = self._member, self._state.topics.names
        kept = member.encoded
        if kept is None or kept[0] is not member.current:
            kept = member.encoded = (member.current, encoded(member.current, names))
        return kept[1]

    @property
    def session(self) -> TimerView:
        """Returns the timer that ends the membership."""
        return self._member.session

    @property
    def reconciliation(self) -> Reconciliation:
        """Returns the progress of the member towards its target assignment."""
        member, names = self._member, self._state.topics.names
        current, target = member.current, self._group.target_of(member.member_id)
        until_ms = member.rebalance.due_ms
        is_late = current.state == MemberState.UNREVOKED and until_ms != NEVER
        since_ms = until_ms - member.metadata.rebalance_timeout_ms
        state = current.state
        return Reconciliation(
            current.epoch,
            MemberState(state).name if state in _KNOWN_STATES else MemberState.UNKNOWN.name,
            {names[id_]: numbers for id_, numbers in target.items() if id_ in names},
            {names[id_]: sorted(own) for id_, own in current.revoking.items() if id_ in names},
            since_ms if is_late else None,
            until_ms if is_late else None,
            self._awaited(target),
        )

    def _awaited(self, target: Assignment) -> list[tuple[str, int, str]]:
        names, holders = self._state.topics.names, self._group.holders
        own = self._member.member_id
        return [
            (names[topic_id], partition, holder)
            for topic_id, partitions in target.items()
            for partition in partitions
            if topic_id in names and (holder := holders.get((topic_id, partition), own)) != own
        ]


class _Members(Mapping[str, MemberView]):
    """The members of a group by id. The mapping is a live view: it is invalid after a change of the
    group."""

    __slots__ = ("_group", "_state")

    def __init__(self, state: ShardState, group: ConsumerGroup) -> None:
        self._state = state
        self._group = group

    def __getitem__(self, member_id: str) -> MemberView:
        return ConsumerMemberView(self._state, self._group, self._group.members[member_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._group.members)

    def __len__(self) -> int:
        return len(self._group.members)


class ConsumerGroupView:
    """Implements `GroupView`."""

    __slots__ = ("_group", "_state")

    type = "consumer"
    protocol_type: str | None = CONSUMER
    leader_id: str | None = None
    pending: Collection[str] = ()
    offsets_read_ms = -1
    record_offset = -1

    def __init__(self, state: ShardState, group: ConsumerGroup) -> None:
        self._state = state
        self._group = group

    @property
    def group_id(self) -> str:
        """Returns the group id."""
        return self._group.group_id

    @property
    def state(self) -> ConsumerGroupState:
        """Returns the state, which is derived from epochs and members."""
        return self._group.state()

    @property
    def is_empty(self) -> bool:
        """Returns whether the group has no members."""
        return not self._group.members

    @property
    def is_assigned(self) -> bool:
        """Returns True, since the assignments of a consumer group's members are always valid."""
        return bool(self._group.members)

    @property
    def state_since_ms(self) -> int:
        """Returns the monotonic time in ms of the last change of members, target or assignments, or
        of the load."""
        return self._group.changed_ms

    @property
    def state_timestamp_ms(self) -> int:
        """Returns the wall time in ms of the last change of the group's epoch; -1 if unknown."""
        return self._group.epoch_ms

    @property
    def protocol_name(self) -> str | None:
        """Returns the name of the assignor."""
        members = {name: each.metadata for name, each in self._group.members.items()}
        return preferred_assignor(members, self._state.config.consumer_assignors)

    @property
    def generation_id(self) -> int:
        """Returns the group's epoch."""
        return self._group.epoch.epoch

    @property
    def members(self) -> Mapping[str, MemberView]:
        """Returns the members by id, the oldest first."""
        return _Members(self._state, self._group)

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Returns the topics to which the members subscribe, by name or by resolved regex."""
        return self._group.subscribed_names()

    def awaited(self) -> Awaited:
        """Returns the members that must give up partitions, and the time at which the first of them
        is removed."""
        members = self._group.members.values()
        late = [each for each in members if each.current.state == MemberState.UNREVOKED]
        due_ms = min((each.rebalance.due_ms for each in late), default=NEVER)
        if due_ms == NEVER:
            return Awaited("", None, ())
        return Awaited(REVOKE, due_ms, tuple(each.member_id for each in late))

"""Implements `GroupView` for share groups; metrics, verdicts and pages read all groups through this
interface.

The generation is the group's epoch. A member's partitions are encoded as in the classic consumer
protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator.classic.group import Awaited
from coordinator.read_only import MemberView, Reconciliation, TimerView
from coordinator.share.group import (
    SHARE,
    ShareGroup,
    ShareGroupState,
    ShareMember,
    session_timeout_ms,
)
from offsets.share_records import ShareCurrentAssignment
from protocol.consumer_protocol import encode_assignment

if TYPE_CHECKING:
    from coordinator.calls import Ticket
    from coordinator.step import ShardState


def encoded(current: ShareCurrentAssignment, names: Mapping[bytes, str]) -> bytes:
    """Returns the assigned partitions, encoded in the classic consumer protocol, without deleted
    topics."""
    assigned = current.assigned.items()
    return encode_assignment({names[id_]: list(own) for id_, own in assigned if id_ in names})


class ShareMemberView:
    """Implements `MemberView`. A heartbeat is answered immediately, so a request of the member is
    never parked."""

    __slots__ = ("_group", "_member", "_state")

    closed_ms: int | None = None
    group_instance_id: str | None = None
    join_ticket: Ticket | None = None
    protocols: Sequence[tuple[str, bytes]] = ()
    rebalance_timeout_ms = 0
    waits = False

    def __init__(self, state: ShardState, group: ShareGroup, member: ShareMember) -> None:
        self._state = state
        self._group = group
        self._member = member

    @property
    def member_id(self) -> str:
        """Returns the member id."""
        return self._member.member_id

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
    def subscription(self) -> list[str]:
        """Returns the topics to which the member subscribes."""
        return list(self._member.metadata.subscribed_topics)

    @property
    def assignment(self) -> bytes:
        """Returns the member's partitions in the classic consumer protocol, without deleted
        topics."""
        return encoded(self._member.current, self._state.topics.names)

    @property
    def session(self) -> TimerView:
        """Returns the timer that ends the membership."""
        return self._member.session

    @property
    def reconciliation(self) -> Reconciliation:
        """Returns the member's epoch and target. The member never has to give up partitions before
        other members get them."""
        names = self._state.topics.names
        target = self._group.targets.get(self._member.member_id, {})
        named = {names[id_]: numbers for id_, numbers in target.items() if id_ in names}
        return Reconciliation(self._member.current.epoch, "STABLE", named, {}, None, None, ())


class _Members(Mapping[str, MemberView]):
    """The members of a group by id. The mapping is a live view: it is invalid after a change of the
    group."""

    __slots__ = ("_group", "_state")

    def __init__(self, state: ShardState, group: ShareGroup) -> None:
        self._state = state
        self._group = group

    def __getitem__(self, member_id: str) -> MemberView:
        return ShareMemberView(self._state, self._group, self._group.members[member_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._group.members)

    def __len__(self) -> int:
        return len(self._group.members)


class ShareGroupView:
    """Implements `GroupView`."""

    __slots__ = ("_group", "_state")

    type = SHARE
    protocol_type: str | None = SHARE
    protocol_name: str | None = "simple"
    leader_id: str | None = None
    pending: Collection[str] = ()
    offsets_read_ms = -1
    record_offset = -1

    def __init__(self, state: ShardState, group: ShareGroup) -> None:
        self._state = state
        self._group = group

    @property
    def group_id(self) -> str:
        """Returns the group id."""
        return self._group.group_id

    @property
    def state(self) -> ShareGroupState:
        """Returns the state, which is derived from the members."""
        return self._group.state()

    @property
    def is_empty(self) -> bool:
        """Returns whether the group has no members."""
        return not self._group.members

    @property
    def is_assigned(self) -> bool:
        """Returns whether the group has members, whose assignments are always valid."""
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
    def generation_id(self) -> int:
        """Returns the group's epoch."""
        return self._group.epoch.epoch

    @property
    def members(self) -> Mapping[str, MemberView]:
        """Returns the members by id, the oldest first."""
        return _Members(self._state, self._group)

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Returns the topics to which the members subscribe."""
        return self._group.subscribed_names()

    @property
    def share_partitions(self) -> Mapping[bytes, Collection[int]]:
        """Returns the partitions whose delivery state is initialized, by topic id."""
        return self._group.assignable()

    def awaited(self) -> Awaited:
        """Returns no members, since a share group never waits for its members."""
        return Awaited("", None, ())

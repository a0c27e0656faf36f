"""The parts of `GroupView` and `MemberView` that consumer, share and streams groups have in common.

The coordinator computes the assignments of these groups (KIP-848, KIP-932, KIP-1071). The
generation is the group's epoch. A heartbeat is answered immediately, so a request of a member is
never parked. A member's partitions are encoded as in the classic consumer protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from coordinator.read_only import MemberView, TimerView
from protocol.consumer_protocol import encode_assignment

if TYPE_CHECKING:
    from coordinator.calls import Ticket
    from coordinator.step import ShardState


class _Metadata(Protocol):
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class _Member(Protocol):
    @property
    def member_id(self) -> str: ...
    @property
    def metadata(self) -> _Metadata: ...
    @property
    def session(self) -> TimerView: ...


class _Epoch(Protocol):
    @property
    def epoch(self) -> int: ...


Member = TypeVar("Member", bound=_Member)
Member_co = TypeVar("Member_co", bound=_Member, covariant=True)


class _Group(Protocol[Member_co]):
    group_id: str
    epoch_ms: int
    changed_ms: int

    @property
    def epoch(self) -> _Epoch: ...
    @property
    def members(self) -> Mapping[str, Member_co]: ...
    def subscribed_names(self) -> Collection[str]: ...


Group = TypeVar("Group", bound=_Group[_Member])


def encoded(assigned: Mapping[bytes, Iterable[int]], names: Mapping[bytes, str]) -> bytes:
    """Returns the assigned partitions without deleted topics, encoded as in the classic consumer
    protocol."""
    own = assigned.items()
    return encode_assignment({names[id_]: sorted(each) for id_, each in own if id_ in names})


class ModernMemberView(ABC, Generic[Group, Member]):
    """The properties of `MemberView` that do not depend on the type of the group."""

    __slots__ = ("_group", "_member", "_state")

    closed_ms: int | None = None
    join_ticket: Ticket | None = None
    protocols: Sequence[tuple[str, bytes]] = ()
    waits = False

    def __init__(self, state: ShardState, group: Group, member: Member) -> None:
        self._state = state
        self._group = group
        self._member = member

    @property
    def member_id(self) -> str:
        return self._member.member_id

    @property
    def client_id(self) -> str:
        return self._member.metadata.client_id

    @property
    def client_host(self) -> str:
        return self._member.metadata.client_host

    @property
    def session(self) -> TimerView:
        return self._member.session


class _Members(Mapping[str, MemberView]):
    """The members of a group by id. The mapping is a live view; do not use it after the group has
    changed."""

    __slots__ = ("_ids", "_view_of")

    def __init__(self, ids: Collection[str], view_of: Callable[[str], MemberView]) -> None:
        self._ids = ids
        self._view_of = view_of

    def __getitem__(self, member_id: str) -> MemberView:
        return self._view_of(member_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class ModernGroupView(ABC, Generic[Group]):
    """The properties of `GroupView` that do not depend on the type of the group."""

    __slots__ = ("_group", "_state")

    leader_id: str | None = None
    pending: Collection[str] = ()
    offsets_read_ms = -1
    record_offset = -1

    def __init__(self, state: ShardState, group: Group) -> None:
        self._state = state
        self._group = group

    @abstractmethod
    def _member_view(self, member_id: str) -> MemberView:
        """Returns the view of a member. Raises KeyError if the group has no such member."""

    @property
    def group_id(self) -> str:
        return self._group.group_id

    @property
    def is_empty(self) -> bool:
        return not self._group.members

    @property
    def is_assigned(self) -> bool:
        """Returns whether the group has members with valid assignments. In a group of this type,
        the assignment of every member is valid."""
        return bool(self._group.members)

    @property
    def state_since_ms(self) -> int:
        """Returns the monotonic time in ms of the last change of members, target or assignments.
        Without a change since the load, returns the time of the load."""
        return self._group.changed_ms

    @property
    def state_timestamp_ms(self) -> int:
        """Returns the wall time in ms of the last change of the group's epoch; -1 if unknown."""
        return self._group.epoch_ms

    @property
    def generation_id(self) -> int:
        return self._group.epoch.epoch

    @property
    def members(self) -> Mapping[str, MemberView]:
        """Returns the members by id, the oldest first."""
        return _Members(self._group.members, self._member_view)

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Returns the topics to which the members subscribe. In a consumer group a member
        subscribes by name or by resolved regex."""
        return self._group.subscribed_names()

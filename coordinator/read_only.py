"""Read-only interfaces to a shard's groups, members and offsets.

The interfaces expose the objects of the shard without copying them. An object may change with the
next call to the shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from offsets.cache import CachedOffset, FetchedColumns
from offsets.columns import TopicColumns

if TYPE_CHECKING:
    from coordinator.calls import Ticket
    from coordinator.classic.group import Awaited


class TimerView(Protocol):
    """Read access to a timer. ``due_ms`` is the due time in monotonic milliseconds; NEVER if the
    timer is not armed."""

    @property
    def due_ms(self) -> int: ...


class Reconciliation(NamedTuple):
    """The progress of a consumer group's member towards its target assignment (KIP-848)."""

    epoch: int
    """The member's epoch; -2 for a static member that has left temporarily."""
    state: str
    """STABLE, UNREVOKED, UNRELEASED or UNKNOWN; see `coordinator/consumer/states.py`."""
    target: Mapping[str, Sequence[int]]
    revoking: Mapping[str, Sequence[int]]
    """The partitions that the member must give up and still owns."""
    revoke_since_ms: int | None
    """The monotonic time in ms at which the member was asked to give up the partitions in
    ``revoking``; None if ``revoking`` is empty."""
    revoke_until_ms: int | None
    """The monotonic time in ms at which the member is removed if it has not given up the partitions
    in ``revoking``."""
    waits_for: Sequence[tuple[str, int, str]]
    """The partitions in the member's target that another member still holds. Each has the topic,
    the partition and the id of the holder."""


class MemberView(Protocol):
    """A read-only view of a member of a group. For classic groups,
    `coordinator.classic.member.Member` implements this interface."""

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None:
        """Returns the instance id of a static member; None for a dynamic member."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def session_timeout_ms(self) -> int:
        """Milliseconds without a heartbeat after which the member is removed."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """Milliseconds for which a rebalance waits for the member to rejoin."""

    @property
    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Returns the name and the metadata of each protocol, in the member's order of
        preference."""

    @property
    def subscription(self) -> Sequence[str] | None:
        """Returns the topics to which a member of a consumer or share group subscribes; None for a
        member of a classic group, whose ``protocols`` contain its topics."""

    @property
    def assignment(self) -> bytes:
        """Returns the encoded assignment of the member. In a classic group the leader has computed
        it, and it is valid only in the state STABLE."""

    @property
    def join_ticket(self) -> Ticket | None:
        """The ticket of the member's parked JoinGroup; None if no JoinGroup is parked."""

    @property
    def waits(self) -> bool: ...

    @property
    def closed_ms(self) -> int | None:
        """Returns the monotonic time in ms at which the member's connection closed; None if the
        connection is open or its state is unknown."""

    @property
    def session(self) -> TimerView: ...

    @property
    def reconciliation(self) -> Reconciliation | None:
        """Returns the progress of a member of a consumer group towards its target; None for a
        member of a classic group."""


class GroupView(Protocol):
    """A read-only view of a group of any type."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> str:
        """Returns the group's type in ListGroups: "classic", "consumer", "share" or "streams"."""

    @property
    def state(self) -> Enum:
        """The state of the group. The value of the Enum member is the name in responses."""

    @property
    def is_empty(self) -> bool:
        """Returns whether the group has no members and no member is joining."""

    @property
    def is_assigned(self) -> bool: ...

    @property
    def state_since_ms(self) -> int:
        """Monotonic time in ms of the last state change. Without a state change since the load, it
        is the time of the load."""

    @property
    def state_timestamp_ms(self) -> int:
        """Wall time in ms of the last state change, from the group's record; -1 if the record has
        no time."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the group; None if no member ever joined."""

    @property
    def protocol_name(self) -> str | None:
        """The protocol that the members selected last; None without members."""

    @property
    def generation_id(self) -> int:
        """Returns the generation, which increases by 1 at the end of each join phase. In a consumer
        or share group it is the epoch."""

    @property
    def leader_id(self) -> str | None:
        """The member id of the leader; None if the group has no leader."""

    @property
    def members(self) -> Mapping[str, MemberView]: ...

    @property
    def pending(self) -> Collection[str]:
        """The member ids that were returned to clients and with which no client has joined yet."""

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Returns the topics to which the members subscribe; None if unknown."""

    @property
    def offsets_read_ms(self) -> int:
        """Returns the wall time in ms of the last OffsetFetch if
        group.offsets.fetch.counts.as.activity is set; otherwise -1."""

    @property
    def record_offset(self) -> int:
        """Returns the log offset of the group's record; -1 if the log has no such record."""

    def awaited(self) -> Awaited:
        """Returns the members for which the group waits, and the deadline of the wait."""


class OffsetsView(Protocol):
    """The methods of `offsets.cache.OffsetCache` that only read."""

    def count(self) -> int: ...

    def pending_count(self) -> int: ...

    def groups(self) -> Collection[str]:
        """The ids of the groups with offsets. The collection is a live view, valid until the next
        ``replay``."""

    def has_offsets(self, group_id: str) -> bool: ...

    def has_more_than(self, group_id: str, count: int) -> bool: ...

    def topics(self, group_id: str) -> Collection[str]:
        """The topics in which the group has offsets. The collection is a live view, valid until the
        next ``replay``."""

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """Returns the partitions of a topic in which the group has offsets, in ascending order."""

    def keys(self, group_id: str) -> list[tuple[str, int]]: ...

    def get(self, group_id: str, topic: str, partition: int) -> CachedOffset | None:
        """Returns the committed offset of a partition with its metadata and times; None if the
        group has no offset in the partition."""

    def entries(self, group_id: str) -> Iterator[tuple[str, int, CachedOffset]]:
        """Yields the topic, the partition and the fields of every offset of the group."""

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> FetchedColumns:
        """Returns the committed offsets of ``partitions``; -1 for a partition without a committed
        offset."""

    def fetch_all(self, group_id: str) -> list[FetchedColumns]:
        """Returns all offsets of the group, with one FetchedColumns per topic. The partitions are
        in ascending order."""

    def commits(
        self, group_id: str, topic: str, at_most: int
    ) -> Iterator[Iterable[tuple[int, int, int, int]]]:
        """Yields the offsets of a topic in blocks of at most ``at_most`` elements (partition,
        offset, commit time, expire time), in ascending order of partition."""

    def columns(self, group_id: str) -> list[tuple[str, TopicColumns]]:
        """Returns each topic of the group with the columns of its offsets, for snapshots."""

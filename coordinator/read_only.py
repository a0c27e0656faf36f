"""Read-only types of a shard's groups, members and offsets.

These types expose the objects of the shard without copying them: an object changes with the next
call to the shard.
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
    """A read-only timer."""

    @property
    def due_ms(self) -> int:
        """Returns the due time in monotonic milliseconds; NEVER if the timer is not armed."""


class Reconciliation(NamedTuple):
    """The progress of a consumer group's member towards its target assignment (KIP-848)."""

    epoch: int
    """The member's epoch; -2 for a static member that has left temporarily."""
    state: str
    """STABLE, UNREVOKED, UNRELEASED or UNKNOWN; see `coordinator/consumer/states.py`."""
    target: Mapping[str, Sequence[int]]
    """The member's target assignment, by topic."""
    revoking: Mapping[str, Sequence[int]]
    """The partitions that the member must give up and still owns."""
    revoke_since_ms: int | None
    """The monotonic time in ms since when the member must give up the partitions; None without such
    partitions."""
    revoke_until_ms: int | None
    """The monotonic time in ms at which the member is removed unless it gives up the partitions."""
    waits_for: Sequence[tuple[str, int, str]]
    """Topic, partition and holder of each partition in the member's target that another member
    still holds."""


class MemberView(Protocol):
    """A member of a group. For classic groups, `coordinator.classic.member.Member` implements this
    interface."""

    @property
    def member_id(self) -> str:
        """The member id."""

    @property
    def group_instance_id(self) -> str | None:
        """Returns the instance id of a static member; None for a dynamic member."""

    @property
    def client_id(self) -> str:
        """The client.id of the member's requests."""

    @property
    def client_host(self) -> str:
        """The client's host."""

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """Milliseconds for which a rebalance waits for the member to rejoin."""

    @property
    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Returns the name and the metadata of each protocol, in the member's order of
        preference."""

    @property
    def subscription(self) -> Sequence[str] | None:
        """Returns the topics to which a member of a consumer group subscribes; None for a member of
        a classic group, whose ``protocols`` contain its topics."""

    @property
    def assignment(self) -> bytes:
        """Returns the assignment that the leader computed, as bytes; meaningful only in STABLE."""

    @property
    def join_ticket(self) -> Ticket | None:
        """The ticket of the member's parked JoinGroup, or None."""

    @property
    def waits(self) -> bool:
        """Whether a request of the member is parked."""

    @property
    def closed_ms(self) -> int | None:
        """Returns the monotonic time in ms at which the member's connection closed; None if the
        connection is open or its state is unknown."""

    @property
    def session(self) -> TimerView:
        """The timer that ends the membership."""

    @property
    def reconciliation(self) -> Reconciliation | None:
        """Returns the member's reconciliation in a consumer group; None for a member of a classic
        group."""


class GroupView(Protocol):
    """A read-only view of a group of either type."""

    @property
    def group_id(self) -> str:
        """The group id."""

    @property
    def type(self) -> str:
        """Returns the group's type in ListGroups: "classic", "consumer" or "share"."""

    @property
    def state(self) -> Enum:
        """The state of the group; its value is the name on the wire."""

    @property
    def is_empty(self) -> bool:
        """Returns whether the group has no members and no member is joining."""

    @property
    def is_assigned(self) -> bool:
        """Returns whether the members' assignments are valid now."""

    @property
    def state_since_ms(self) -> int:
        """Monotonic time of the last state change, or of the group's ``wake`` after a load."""

    @property
    def state_timestamp_ms(self) -> int:
        """Wall time of the last state change, as in the group's record; -1 if the record has no
        time."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type of the group; None if no member ever joined."""

    @property
    def protocol_name(self) -> str | None:
        """The protocol selected by the last vote; None without members."""

    @property
    def generation_id(self) -> int:
        """Returns the generation, which increases by 1 at the end of each join phase; for a
        consumer group, its epoch."""

    @property
    def leader_id(self) -> str | None:
        """The member id of the leader, or None."""

    @property
    def members(self) -> Mapping[str, MemberView]:
        """The members by id, the oldest first."""

    @property
    def pending(self) -> Collection[str]:
        """New member ids with which no client has joined yet."""

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Returns the topics to which the members subscribe; None if unknown."""

    @property
    def offsets_read_ms(self) -> int:
        """Returns the wall time in ms of the last OffsetFetch if
        group.offsets.fetch.counts.as.activity is set; else -1."""

    @property
    def record_offset(self) -> int:
        """Returns the log offset of the group's record; -1 if the log has no such record."""

    def awaited(self) -> Awaited:
        """Returns the members for which the group waits, and the deadline."""


class OffsetsView(Protocol):
    """The read methods of `offsets.cache.OffsetCache`."""

    def count(self) -> int:
        """The number of offsets."""

    def pending_count(self) -> int:
        """The number of offsets that wait for the end of their transaction."""

    def groups(self) -> Collection[str]:
        """The groups with offsets: a live view, valid until the next ``replay``."""

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has committed offsets."""

    def has_more_than(self, group_id: str, count: int) -> bool:
        """Whether the group has more than ``count`` offsets."""

    def topics(self, group_id: str) -> Collection[str]:
        """The topics in which the group has offsets: a live view, like ``groups``."""

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """The partitions of a topic in which the group has offsets, ascending."""

    def keys(self, group_id: str) -> list[tuple[str, int]]:
        """The (topic, partition) of every offset of the group."""

    def get(self, group_id: str, topic: str, partition: int) -> CachedOffset | None:
        """The cached offset with all fields, or None."""

    def entries(self, group_id: str) -> Iterator[tuple[str, int, CachedOffset]]:
        """Yields (topic, partition, entry) of every offset of the group."""

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> FetchedColumns:
        """Returns the committed offsets of these partitions; -1 for a partition without a committed
        offset."""

    def fetch_all(self, group_id: str) -> list[FetchedColumns]:
        """Returns all offsets of the group, with one FetchedColumns per topic and ascending
        partitions."""

    def commits(
        self, group_id: str, topic: str, at_most: int
    ) -> Iterator[Iterable[tuple[int, int, int, int]]]:
        """Yields blocks of at most ``at_most`` (partition, offset, commit time, expire time), by
        ascending partition."""

    def columns(self, group_id: str) -> list[tuple[str, TopicColumns]]:
        """Returns the topic and the columns for each topic of the group, for snapshots."""

"""Read-only types of a shard's groups, members and offsets.

These types expose the shard's own objects, not copies: an object changes with the next call to the
shard.
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
    """A deadline."""

    @property
    def due_ms(self) -> int:
        """Monotonic milliseconds; NEVER if the timer is not armed."""


class Reconciliation(NamedTuple):
    """How far a member of a consumer group is on the way to its target assignment (KIP-848)."""

    epoch: int
    """The member's epoch; -2: a static member that has left for a while."""
    state: str
    """STABLE, UNREVOKED, UNRELEASED or UNKNOWN; see `coordinator/consumer/states.py`."""
    target: Mapping[str, Sequence[int]]
    """Its target assignment, by topic."""
    revoking: Mapping[str, Sequence[int]]
    """The partitions that it has to give up and still owns."""
    revoke_since_ms: int | None
    """Monotonic time since which the member has to give them up; None without such partitions."""
    revoke_until_ms: int | None
    """Monotonic time at which it is removed unless it gives them up."""
    waits_for: Sequence[tuple[str, int, str]]
    """Topic, partition and holder of each partition of its target that another member holds."""


class MemberView(Protocol):
    """A member of a group; a classic group has `coordinator.classic.member.Member`."""

    @property
    def member_id(self) -> str:
        """The member id."""

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member; None: dynamic."""

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
        """(name, metadata) in the member's order of preference."""

    @property
    def assignment(self) -> bytes:
        """The leader's assignment bytes; meaningless outside STABLE."""

    @property
    def join_ticket(self) -> Ticket | None:
        """The ticket of the member's parked JoinGroup, or None."""

    @property
    def waits(self) -> bool:
        """Whether a request of the member is parked."""

    @property
    def closed_ms(self) -> int | None:
        """Monotonic time at which the member's connection closed; None while the connection is open
        or unknown."""

    @property
    def session(self) -> TimerView:
        """The timer that ends the membership."""

    @property
    def reconciliation(self) -> Reconciliation | None:
        """Its state in a consumer group; None for a member of a classic group."""


class GroupView(Protocol):
    """A group, classic or of KIP-848."""

    @property
    def group_id(self) -> str:
        """The group id."""

    @property
    def type(self) -> str:
        """Its type in ListGroups: classic or consumer."""

    @property
    def state(self) -> Enum:
        """The state of the group; its value is the name on the wire."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, and none is joining."""

    @property
    def is_assigned(self) -> bool:
        """Whether the members' assignments are in force."""

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
        """Increases by 1 at the end of each join phase; of a consumer group, its epoch."""

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
        """Topics to which the members subscribe; None: unknown."""

    @property
    def offsets_read_ms(self) -> int:
        """Wall time of the last OffsetFetch, with
        group.offsets.fetch.counts.as.activity; else -1.
        """

    @property
    def record_offset(self) -> int:
        """Log offset of the group's record; -1 when the log has none."""

    def awaited(self) -> Awaited:
        """The members that the group waits for, and the deadline."""


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
        """(topic, partition, entry) of every offset of the group."""

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> FetchedColumns:
        """The committed offsets of these partitions; -1 for a partition without one."""

    def fetch_all(self, group_id: str) -> list[FetchedColumns]:
        """All offsets of the group, one value per topic, partitions ascending."""

    def commits(
        self, group_id: str, topic: str, at_most: int
    ) -> Iterator[Iterable[tuple[int, int, int, int]]]:
        """Blocks of at most ``at_most`` (partition, offset, commit time, expire
        time), ascending.
        """

    def columns(self, group_id: str) -> list[tuple[str, TopicColumns]]:
        """(topic, columns) for each topic of the group; for snapshots."""

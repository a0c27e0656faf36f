"""Read-only types of a shard's groups, members and offsets.

These types describe the shard's own objects as far as others may read them: nothing is copied, and
an object that is kept changes with the next call to the shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from coordinator.classic.states import State
from offsets.cache import CachedOffset, FetchedColumns
from offsets.columns import TopicColumns

if TYPE_CHECKING:
    from coordinator.calls import Ticket
    from coordinator.classic.group import Awaited


class TimerView(Protocol):
    """A deadline."""

    @property
    def due_ms(self) -> int:
        """Monotonic; NEVER where it is not armed."""


class MemberView(Protocol):
    """A member of a group; the fields are those of `coordinator.classic.member.Member`."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def group_instance_id(self) -> str | None:
        """Not None for a static member."""

    @property
    def client_id(self) -> str:
        """The client.id of the member's requests."""

    @property
    def client_host(self) -> str:
        """Where its client is."""

    @property
    def session_timeout_ms(self) -> int:
        """How long it may be silent."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long others wait for it to rejoin."""

    @property
    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Names with its metadata, in its order of preference."""

    @property
    def assignment(self) -> bytes:
        """The leader's assignment bytes; meaningless outside STABLE."""

    @property
    def join_ticket(self) -> Ticket | None:
        """Its parked JoinGroup."""

    @property
    def waits(self) -> bool:
        """Whether it has a request parked."""

    @property
    def closed_ms(self) -> int | None:
        """When its connection closed, monotonic; None while it is open, or unknown."""

    @property
    def session(self) -> TimerView:
        """Ends its membership."""


class GroupView(Protocol):
    """A group; the fields are those of `coordinator.classic.group.Group`."""

    @property
    def group_id(self) -> str:
        """Its id."""

    @property
    def state(self) -> State:
        """Its state."""

    @property
    def state_since_ms(self) -> int:
        """When it entered its state, by the monotonic clock; 0 after a load."""

    @property
    def state_timestamp_ms(self) -> int:
        """The same by the wall clock, as stored; -1 where the record did not say."""

    @property
    def protocol_type(self) -> str | None:
        """None when no member ever joined."""

    @property
    def protocol_name(self) -> str | None:
        """The result of the last vote; None without members."""

    @property
    def generation_id(self) -> int:
        """Goes up at every end of a join phase."""

    @property
    def leader_id(self) -> str | None:
        """In ``members``, or None."""

    @property
    def members(self) -> Mapping[str, MemberView]:
        """The members by id, the oldest first."""

    @property
    def pending(self) -> Collection[str]:
        """Member ids given out and not used yet."""

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        """Topics that the members subscribe; None: unknown."""

    @property
    def offsets_read_ms(self) -> int:
        """Wall time of the last OffsetFetch, where that counts as life."""

    @property
    def record_offset(self) -> int:
        """Log offset of the group's record; -1 when the log has none."""

    def awaited(self) -> Awaited:
        """Whom the group waits for."""


class OffsetsView(Protocol):
    """The committed offsets; see `offsets.cache.OffsetCache`, which has the writers besides."""

    def count(self) -> int:
        """How many offsets there are."""

    def pending_count(self) -> int:
        """How many offsets wait for the end of their transaction."""

    def groups(self) -> Collection[str]:
        """The groups with offsets: live, not to be kept over a ``replay``."""

    def has_offsets(self, group_id: str) -> bool:
        """Whether anything is committed in the group."""

    def has_more_than(self, group_id: str, count: int) -> bool:
        """Whether the group has more than so many offsets."""

    def topics(self, group_id: str) -> Collection[str]:
        """The topics in which the group has offsets: live, like ``groups``."""

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """The partitions of a topic in which the group has offsets, ascending."""

    def keys(self, group_id: str) -> list[tuple[str, int]]:
        """The (topic, partition) of every offset of the group."""

    def get(self, group_id: str, topic: str, partition: int) -> CachedOffset | None:
        """One entry whole."""

    def entries(self, group_id: str) -> Iterator[tuple[str, int, CachedOffset]]:
        """(topic, partition, entry) of every offset of the group."""

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> FetchedColumns:
        """The committed offsets of these partitions; -1 for a partition without one."""

    def fetch_all(self, group_id: str) -> list[FetchedColumns]:
        """Every offset of the group, a value a topic, partitions ascending."""

    def commits(
        self, group_id: str, topic: str, at_most: int
    ) -> Iterator[Iterable[tuple[int, int, int, int]]]:
        """Blocks of at most so many (partition, offset, commit time, expire time), ascending."""

    def columns(self, group_id: str) -> list[tuple[str, TopicColumns]]:
        """(topic, its columns as they are now) of the group; for snapshots."""

"""The facts about a group from which the judge computes the verdict. None means unknown.

A Muster broker supplies all facts. A client of an Apache Kafka broker knows no history: no times at
which offsets moved, no restarts and no rebalances. The judge then omits the verdicts that need
history.

Fields that end in ``_ms`` are wall times in ms since 1970. The exceptions are ``silent_ms``,
``session_timeout_ms``, ``closed_for_ms``, ``session_left_ms`` and ``away_ms``, which are durations
in ms.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

STABLE = "Stable"
if TYPE_CHECKING:
    from verdicts.share_rules import ShareFacts
    from verdicts.streams_rules import StreamsFacts

EMPTY = "Empty"
SHARE = "share"
"""The protocol type of share groups (KIP-932), which do not commit offsets."""
STREAMS = "streams"
"""The protocol type of streams groups (KIP-1071)."""
DEAD = "Dead"


class MemberFacts(NamedTuple):
    """Facts about one member of a group."""

    member: str
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    silent_ms: int | None = None
    """The time since the last request of the member. None if this time is unknown, or if a request
    of the member is parked."""
    is_heard: bool = True
    """True if the member counts as alive. The code that collects the facts decides this; it may be
    true although the member has been silent for ``silent_ms``."""
    session_timeout_ms: int | None = None
    closed_for_ms: int | None = None
    """The time since the connection of the member closed. None if the connection is open or its
    state is unknown."""
    session_left_ms: int | None = None
    """The time until the session of the member expires. None if it is unknown, or if a request of
    the member is parked."""


class HoldFacts(NamedTuple):
    """The oldest open transaction of a partition. read_committed consumers can't read beyond its
    start."""

    transactional_id: str | None
    """The transactional id, or None if this broker knows no id of the producer.

    Without an id the transaction is hanging, unless ``is_elsewhere`` is True.
    """
    producer_id: int
    producer_epoch: int
    offset: int
    since_ms: int
    """The time at which the transaction began."""
    ends_ms: int | None = None
    """The time at which the transaction times out. None if the transaction is ending or hanging."""
    client: str | None = None
    host: str | None = None
    is_elsewhere: bool = False
    """True if another broker may be the coordinator of the transactional id."""


class PartitionFacts(NamedTuple):
    """A partition for which the group has a committed offset, or which a member owns."""

    topic: str
    partition: int
    committed: int | None = None
    """The committed offset, or None without a commit."""
    log_start: int | None = None
    """The log start offset. None, like ``log_end``, if this broker does not have the partition."""
    log_end: int | None = None
    committed_ms: int | None = None
    """The time of the last commit, which may have repeated the same offset."""
    moved_ms: int | None = None
    """The time at which the committed offset last changed."""
    stands_since_ms: int | None = None
    """The time since which the partition has had unread records and an unchanged committed
    offset."""
    unread_since_ms: int | None = None
    """The timestamp of the oldest unread record."""
    owner: str | None = None
    """The id of the member to which the partition is assigned."""
    has_grown: bool = True
    """True if records were appended since the owner got the partition.

    An owner that has never committed may have started at the log end. It has no records to read
    until records are appended.
    """
    hold: HoldFacts | None = None
    """The open transaction that blocks the group. The group has read all records before this
    transaction."""

    @property
    def unread(self) -> int | None:
        """The number of offsets from the committed offset to the log end. If the committed offset
        is below the log start offset, the count begins there."""
        if self.log_start is None or self.log_end is None:
            return None
        first = self.log_start if self.committed is None else max(self.committed, self.log_start)
        return max(0, self.log_end - first)

    @property
    def lost(self) -> int:
        """The number of records that were deleted before the group could read them."""
        if self.committed is None or self.log_start is None:
            return 0
        return max(0, self.log_start - self.committed)

    @property
    def above(self) -> int:
        """The number of offsets by which the committed offset is above the log end offset, or 0."""
        if self.committed is None or self.log_end is None:
            return 0
        return max(0, self.committed - self.log_end)


class AwaitedFacts(NamedTuple):
    """The current phase of a rebalance, and the members for which it waits."""

    phase: str
    """The phase of the rebalance: "join", "sync", or in a consumer group "revoke". In any other
    phase, the group does not wait for members, but only until a certain time."""
    until_ms: int | None
    """The latest time in ms at which the phase can end: its deadline, or the time at which the
    sessions of the awaited, silent members expire."""
    members: tuple[str, ...]


class StreakFacts(NamedTuple):
    """The number of similar events, and the time of the first one. No two consecutive events have a
    long pause between them."""

    times: int
    since_ms: int


class ReturnFacts(NamedTuple):
    """A client that left the group and returned, or a member that rejoined with a new member id or
    a new subscription."""

    member: str
    """The current member id of the client."""
    client: str | None
    host: str | None
    at_ms: tuple[int, ...]
    """The times of the last few returns of the client, in ascending order."""
    has_new_id: bool = True
    """True if the client returned with a new member id each time."""
    why: str | None = None
    """A description of the client's behaviour as text, or None if it is unknown."""
    streak: StreakFacts | None = None
    """The whole series of the client's returns; None if returns are not counted."""
    ways: Sequence[tuple[str, int]] = ()
    """How the client lost its earlier member ids: pairs of a `Way`, such as ``restarted``, and a
    count. Empty if unknown. The names are in verdicts/flapping_words."""
    instance: str | None = None
    """The group.instance.id of a static member that was away for longer than its session
    timeout."""
    away_ms: int | None = None
    """The time for which the static member was away before its last return."""


class FencedFacts(NamedTuple):
    """A group.instance.id that two running processes use. When one of them joins, the other is
    fenced."""

    instance: str
    member: str
    """The id of the member that currently owns the group.instance.id."""
    client: str | None
    host: str | None
    other_client: str | None
    """The client id of the process that was fenced most recently."""
    other_host: str | None
    at_ms: tuple[int, ...]
    """The times of the last few fencings, in ascending order."""
    streak: StreakFacts | None = None


class RefusedFacts(NamedTuple):
    """A client whose JoinGroup requests are rejected until a setting of the client or the broker is
    changed."""

    error: str
    """The name of the error, such as INVALID_SESSION_TIMEOUT."""
    client: str | None
    host: str | None
    since_ms: int
    last_ms: int
    times: int
    why: str
    """The reason of the last rejection as text."""


class GroupFacts(NamedTuple):
    """The current state of a group, and the known facts about its past."""

    group: str
    state: str
    """Kafka's name of the state, such as Stable."""
    state_since_ms: int | None = None
    protocol_type: str | None = None
    """The protocol type of the group. None or "" if no member ever joined, because its clients call
    assign()."""
    members: Sequence[MemberFacts] = ()
    partitions: Sequence[PartitionFacts] = ()
    all_read: int = 0
    """The number of partitions that ``partitions`` omits because the group has read all their
    records."""
    subscribed: Collection[str] | None = None
    awaits: AwaitedFacts | None = None
    returns: Sequence[ReturnFacts] | None = None
    fenced: Sequence[FencedFacts] | None = None
    refused: Sequence[RefusedFacts] | None = None
    rebalances_ms: Sequence[int] | None = None
    """The start times of the last few rebalances, in ascending order.

    A rebalance that only a new member caused is omitted, so that a growing group is not FLAPPING.
    """
    rebalances_streak: StreakFacts | None = None
    """The current series of rebalances: their number and the time of the first one.
    ``rebalances_ms`` has the times of only the last few of them."""
    last_why: str | None = None
    """The cause of the last rebalance in ``rebalances_ms``, as text."""
    reads_nothing_since_ms: int | None = None
    """The time since which no member has read, although unread records exist. The judge computes
    this field."""
    share: ShareFacts | None = None
    """The deliveries of a share group, or None for any other group."""
    streams: StreamsFacts | None = None
    """The problem with the topics of a streams group, such as a missing topic. None if all its
    topics exist, or if the group has another type.

    The problem remains set when all instances of the application have ended.
    """
    state_counts_from_ms: int | None = None
    """The wall time at which the broker started or its last long pause ended. The duration of the
    group's state counts only from this time, because members need time to continue after a pause.
    None if the whole duration counts."""

    @property
    def counts_from_ms(self) -> int | None:
        """The time from which the age of the group's state is counted: the later of
        ``state_since_ms`` and ``state_counts_from_ms``."""
        if self.state_counts_from_ms is None or self.state_since_ms is None:
            return self.state_since_ms
        return max(self.state_counts_from_ms, self.state_since_ms)

    def member(self, member_id: str | None) -> MemberFacts | None:
        return next((each for each in self.members if each.member == member_id), None)

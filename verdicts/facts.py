"""The facts about a group from which the judge derives the verdict; None means unknown.

The broker supplies all facts. A client of an Apache Kafka broker has no history: no times at which
offsets moved, no restarts, no rebalances. The judge then omits the verdicts that need history.

Fields that end in ``_ms`` are wall milliseconds since 1970, except for ``silent_ms``,
``session_timeout_ms``, ``closed_for_ms``, ``session_left_ms`` and ``away_ms``, which are durations.
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
    """A member of the group."""

    member: str
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    silent_ms: int | None = None
    """The time since the member's last request; None if the time is unknown or a request of the
    member is parked."""
    is_heard: bool = True
    """True if the member counts as alive although it has been silent for ``silent_ms``; the
    collector of the facts decides."""
    session_timeout_ms: int | None = None
    closed_for_ms: int | None = None
    """The time since the member's connection closed; None if the connection is open or its state is
    unknown."""
    session_left_ms: int | None = None
    """The time until the member's session expires; None if the time is unknown or a request of the
    member is parked."""


class HoldFacts(NamedTuple):
    """The oldest open transaction of a partition, at which read_committed consumers stop."""

    transactional_id: str | None
    """The transactional id; None if this broker can't map the producer to an id. The transaction
    then hangs, unless ``is_elsewhere`` is true."""
    producer_id: int
    producer_epoch: int
    offset: int
    """The first offset of the transaction."""
    since_ms: int
    """The start of the transaction."""
    ends_ms: int | None = None
    """The time at which the transaction times out; None if the transaction is ending or hanging."""
    client: str | None = None
    host: str | None = None
    is_elsewhere: bool = False
    """Whether the coordinator of the transactional id may be another broker."""


class PartitionFacts(NamedTuple):
    """A partition in which the group has a committed offset, or that a member owns."""

    topic: str
    partition: int
    committed: int | None = None
    """The committed offset; None without a commit."""
    log_start: int | None = None
    """The log start offset. Like ``log_end`` it is None if this broker does not have the partition.
    """
    log_end: int | None = None
    committed_ms: int | None = None
    """The time of the last commit, even of the same offset."""
    moved_ms: int | None = None
    """The time when the committed offset last changed."""
    stands_since_ms: int | None = None
    """The time since which unread records wait and the committed offset has not moved."""
    unread_since_ms: int | None = None
    """The timestamp of the oldest unread record."""
    owner: str | None = None
    """The id of the member to which the partition is assigned."""
    has_grown: bool = True
    """Whether records were appended since the owner got the partition.

    An owner that has never committed may have started at the log end; then older records do not
    concern the owner.
    """
    hold: HoldFacts | None = None
    """The transaction that blocks the group: the group has read all records before the transaction,
    and no record after its start."""

    @property
    def unread(self) -> int | None:
        """The number of records from the committed offset, or the log start if higher, to the log
        end."""
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
        """The number of offsets by which the committed offset exceeds the log end offset; 0 if it
        does not exceed it."""
        if self.committed is None or self.log_end is None:
            return 0
        return max(0, self.committed - self.log_end)


class AwaitedFacts(NamedTuple):
    """A running phase of a rebalance, and the members for which the phase waits."""

    phase: str
    """"join", "sync", or "revoke" in a consumer group; other phases wait for time only."""
    until_ms: int | None
    """The latest end of the phase: its deadline, or the expiry of the silent members' sessions."""
    members: tuple[str, ...]


class StreakFacts(NamedTuple):
    """A series of events without a long pause between them."""

    times: int
    since_ms: int
    """The time of the first event."""


class ReturnFacts(NamedTuple):
    """A client that left its group and returned, or a member that rejoined under a new member id or
    with a new subscription."""

    member: str
    """The client's present member id."""
    client: str | None
    host: str | None
    at_ms: tuple[int, ...]
    """The times of the client's last few returns, ascending."""
    has_new_id: bool = True
    """Whether the client returned with a new member id each time."""
    why: str | None = None
    """The client's behaviour in words; None if unknown."""
    streak: StreakFacts | None = None
    """The whole series of returns; None if returns are not counted."""
    ways: Sequence[tuple[str, int]] = ()
    """The number of times that the client lost its member id in each `Way`, such as ``restarted``
    (verdicts/flapping_words); empty if unknown."""
    instance: str | None = None
    """The group.instance.id of a static member that was away for longer than its session timeout.
    """
    away_ms: int | None = None
    """How long the static member was away before its last return."""


class FencedFacts(NamedTuple):
    """A group.instance.id that two running processes use: when one process joins, the other is
    fenced."""

    instance: str
    member: str
    """The id of the member that has the group.instance.id now."""
    client: str | None
    host: str | None
    other_client: str | None
    """The client id of the process that was fenced last."""
    other_host: str | None
    at_ms: tuple[int, ...]
    """The times of the last few fencings, ascending."""
    streak: StreakFacts | None = None
    """The whole series of fencings."""


class RefusedFacts(NamedTuple):
    """A client whose JoinGroup requests are rejected until a setting of the client or broker
    changes."""

    error: str
    """The error's name, such as INVALID_SESSION_TIMEOUT."""
    client: str | None
    host: str | None
    since_ms: int
    last_ms: int
    times: int
    why: str
    """The reason of the last rejection, in words."""


class GroupFacts(NamedTuple):
    """A group's present state, and the known facts about its past."""

    group: str
    state: str
    """Kafka's name of the state, such as Stable."""
    state_since_ms: int | None = None
    protocol_type: str | None = None
    """The group's protocol type; None or "" if no member ever joined, because the clients of the
    group use assign()."""
    members: Sequence[MemberFacts] = ()
    partitions: Sequence[PartitionFacts] = ()
    all_read: int = 0
    """The number of partitions that ``partitions`` omits because the group has read all records."""
    subscribed: Collection[str] | None = None
    """The topics to which the members subscribe."""
    awaits: AwaitedFacts | None = None
    returns: Sequence[ReturnFacts] | None = None
    fenced: Sequence[FencedFacts] | None = None
    refused: Sequence[RefusedFacts] | None = None
    rebalances_ms: Sequence[int] | None = None
    """The start times of the last few rebalances, ascending, without rebalances that only a new
    member caused: a growing group does not flap."""
    rebalances_streak: StreakFacts | None = None
    """The whole series of the rebalances in ``rebalances_ms``."""
    last_why: str | None = None
    """The cause of the last rebalance in ``rebalances_ms``, in words."""
    reads_nothing_since_ms: int | None = None
    """The time since which no member has read although records wait. The judge computes this field.
    """
    share: ShareFacts | None = None
    """The deliveries of a share group; None for other groups."""
    streams: StreamsFacts | None = None
    """The problem of a streams group with its topics; None for other groups, and if all topics
    exist. A group whose instances have ended keeps the problem."""
    state_counts_from_ms: int | None = None
    """The time from which the present state counts. The time is after the last pause of the broker,
    because pauses do not count."""

    @property
    def counts_from_ms(self) -> int | None:
        """The later of the start of the present state and ``state_counts_from_ms``."""
        if self.state_counts_from_ms is None or self.state_since_ms is None:
            return self.state_since_ms
        return max(self.state_counts_from_ms, self.state_since_ms)

    def member(self, member_id: str | None) -> MemberFacts | None:
        """The member with this id, or None."""
        return next((each for each in self.members if each.member == member_id), None)

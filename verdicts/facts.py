"""The facts about a group, from which it is judged; None means unknown.

The broker supplies all of them. Over the wire of another Kafka the history is missing: the times at
which offsets moved, restarts, rebalances. The judge then leaves out what it can't know.

Fields that end in ``_ms`` are wall milliseconds since 1970, except for ``silent_ms``,
``session_timeout_ms``, ``closed_for_ms``, ``session_left_ms`` and ``away_ms``, which are durations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

STABLE = "Stable"
EMPTY = "Empty"
DEAD = "Dead"


class MemberFacts(NamedTuple):
    """A member of the group."""

    member: str
    instance: str | None = None
    client: str | None = None
    host: str | None = None
    silent_ms: int | None = None
    """The time since its last request; None also while a request of it is parked."""
    is_heard: bool = True
    """Whether that means that it is alive; the rule is with the code that collects the facts."""
    session_timeout_ms: int | None = None
    closed_for_ms: int | None = None
    """The time since its connection closed; None while it is open or if unknown."""
    session_left_ms: int | None = None
    """The rest of its session; None while a request of it is parked or if unknown."""


class HoldFacts(NamedTuple):
    """The oldest open transaction of a partition, at which read_committed consumers stop."""

    transactional_id: str | None
    """None if the broker knows no id with this producer: it is hanging, unless ``is_elsewhere``."""
    producer_id: int
    producer_epoch: int
    offset: int
    """Its first offset."""
    since_ms: int
    """When it began."""
    ends_ms: int | None = None
    """When it is aborted at the latest; None while it is ending, or if it is hanging."""
    client: str | None = None
    host: str | None = None
    is_elsewhere: bool = False
    """A transactional id of another broker's coordinator may have it."""


class PartitionFacts(NamedTuple):
    """A partition in which the group has a committed offset, or that a member owns."""

    topic: str
    partition: int
    committed: int | None = None
    """None without a committed offset."""
    log_start: int | None = None
    """None, like the end, if the partition does not exist here."""
    log_end: int | None = None
    committed_ms: int | None = None
    """The time of the last commit, even of the same offset."""
    moved_ms: int | None = None
    """The time when the committed offset last changed."""
    stands_since_ms: int | None = None
    """Since when there have been unread records and the committed offset has not moved."""
    unread_since_ms: int | None = None
    """The timestamp of the oldest unread record."""
    owner: str | None = None
    """The id of the member that it is assigned to."""
    has_grown: bool = True
    """Records were appended since its owner got it.

    An owner that has never committed may have begun at the end, and then older records do not
    concern it.
    """
    hold: HoldFacts | None = None
    """The transaction that the group waits for, if all records below it are read and none beyond.
    """

    @property
    def unread(self) -> int | None:
        """The number of records from the committed offset or the log start to the log end."""
        if self.log_start is None or self.log_end is None:
            return None
        first = self.log_start if self.committed is None else max(self.committed, self.log_start)
        return max(0, self.log_end - first)

    @property
    def lost(self) -> int:
        """Records that were deleted before the group read them."""
        if self.committed is None or self.log_start is None:
            return 0
        return max(0, self.log_start - self.committed)

    @property
    def above(self) -> int:
        """By how many offsets the committed offset is above the log end offset."""
        if self.committed is None or self.log_end is None:
            return 0
        return max(0, self.committed - self.log_end)


class AwaitedFacts(NamedTuple):
    """A running phase of a rebalance and the members that it waits for."""

    phase: str
    """"join" or "sync"; other phases wait for time, not for members."""
    until_ms: int | None
    """When it ends at the latest: its deadline, or the end of its silent members' sessions."""
    members: tuple[str, ...]


class StreakFacts(NamedTuple):
    """A series of events without a long pause between them."""

    times: int
    since_ms: int
    """The time of the first event."""


class ReturnFacts(NamedTuple):
    """A client that was out and returned, or a member that rejoined as another."""

    member: str
    """Its present id."""
    client: str | None
    host: str | None
    at_ms: tuple[int, ...]
    """The times of its last few returns, ascending."""
    has_new_id: bool = True
    """It returned with a new member id each time."""
    why: str | None = None
    """Its behaviour, in words, if known."""
    streak: StreakFacts | None = None
    """The whole series of its returns; None if they are not counted."""
    ways: Sequence[tuple[str, int]] = ()
    """How often its old id was lost in each way, such as ``restarted`` (verdicts/flapping_words);
    empty if unknown."""
    instance: str | None = None
    """The group.instance.id of a static member that was away for longer than its session."""
    away_ms: int | None = None
    """How long it was away the last time."""


class FencedFacts(NamedTuple):
    """A group.instance.id that two running processes use: each join of one fences the other."""

    instance: str
    member: str
    """The member that has it now."""
    client: str | None
    host: str | None
    other_client: str | None
    """The client id of the process that was fenced last."""
    other_host: str | None
    at_ms: tuple[int, ...]
    """The times of the last few fencings, ascending."""
    streak: StreakFacts | None = None
    """The whole series of them."""


class RefusedFacts(NamedTuple):
    """A client whose joins are rejected until a setting of the client or the broker is changed."""

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
    """A group's present state, and the known facts of its past."""

    group: str
    state: str
    """Its name on the wire, such as Stable."""
    state_since_ms: int | None = None
    protocol_type: str | None = None
    """None or "" if no member ever joined: its clients assign partitions to themselves."""
    members: Sequence[MemberFacts] = ()
    partitions: Sequence[PartitionFacts] = ()
    all_read: int = 0
    """The number of partitions left out of ``partitions``, since the group has read all its
    records."""
    subscribed: Collection[str] | None = None
    """The topics that its members subscribe to."""
    awaits: AwaitedFacts | None = None
    returns: Sequence[ReturnFacts] | None = None
    fenced: Sequence[FencedFacts] | None = None
    refused: Sequence[RefusedFacts] | None = None
    rebalances_ms: Sequence[int] | None = None
    """When its last few rebalances began, ascending; without those that only a new member caused,
    since a growing group does not flap."""
    rebalances_streak: StreakFacts | None = None
    """The whole series of these rebalances."""
    last_why: str | None = None
    """The cause of the last of these, in words."""
    reads_nothing_since_ms: int | None = None
    """Since when no member has read although records wait; computed by the judge."""
    state_counts_from_ms: int | None = None
    """When the time in its state begins to count, since pauses of the broker are left out."""

    @property
    def counts_from_ms(self) -> int | None:
        """When the time in its state begins to count."""
        if self.state_counts_from_ms is None or self.state_since_ms is None:
            return self.state_since_ms
        return max(self.state_counts_from_ms, self.state_since_ms)

    def member(self, member_id: str | None) -> MemberFacts | None:
        """The member with this id, or None."""
        return next((each for each in self.members if each.member == member_id), None)

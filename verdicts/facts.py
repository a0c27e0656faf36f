"""What is known of a group when it is judged; None stands for what is not known.

The broker fills all of it in. Over the wire of another Kafka there is no history: no times at which
an offset moved, no returns, no rebalances. The judge then leaves out what it can't know.

Times are wall milliseconds since 1970 where they end in ``_ms``, but for ``silent_ms`` and
``session_timeout_ms``, which are lengths.
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
    """How long nothing has been heard of it; None also while a request of it waits."""
    is_heard: bool = True
    """By that it is alive; who gathers the facts has the rule."""
    session_timeout_ms: int | None = None
    closed_for_ms: int | None = None
    """How long ago its connection closed; None while it is open, or where nobody knows."""
    session_left_ms: int | None = None
    """How long its session still runs; None while a request of it waits, or where nobody knows."""


class HoldFacts(NamedTuple):
    """The oldest open transaction of a partition, at which who reads committed records stops."""

    transactional_id: str | None
    """None: no id that the broker knows has its producer; it hangs, unless ``is_elsewhere``."""
    producer_id: int
    producer_epoch: int
    offset: int
    """Where it begins."""
    since_ms: int
    """Since when it is open."""
    ends_ms: int | None = None
    """When it is aborted at the latest; None where it is ending, or hangs."""
    client: str | None = None
    host: str | None = None
    is_elsewhere: bool = False
    """An id that another broker coordinates may have it."""


class PartitionFacts(NamedTuple):
    """A partition in which the group has a committed offset, or that a member owns."""

    topic: str
    partition: int
    committed: int | None = None
    """None: nothing is committed."""
    log_start: int | None = None
    """None, as the end: there is no such partition here."""
    log_end: int | None = None
    committed_ms: int | None = None
    """When something was committed last, the same offset again included."""
    moved_ms: int | None = None
    """When the committed offset last became another one."""
    stands_since_ms: int | None = None
    """Since when there have been unread records and the committed offset has not moved."""
    unread_since_ms: int | None = None
    """The timestamp of the oldest unread record."""
    owner: str | None = None
    """The id of the member that it is assigned to."""
    has_grown: bool = True
    """Records have come since its owner has it. Those of before need not concern an owner that
    has never committed: it may have begun at the end."""
    hold: HoldFacts | None = None
    """What the group waits for, where all below it is read and nothing beyond."""

    @property
    def unread(self) -> int | None:
        """Records from the committed offset, or from the start of the log, to its end."""
        if self.log_start is None or self.log_end is None:
            return None
        first = self.log_start if self.committed is None else max(self.committed, self.log_start)
        return max(0, self.log_end - first)

    @property
    def lost(self) -> int:
        """Records that were removed from the log before the group read them."""
        if self.committed is None or self.log_start is None:
            return 0
        return max(0, self.log_start - self.committed)

    @property
    def above(self) -> int:
        """How far the committed offset is above the end of the log."""
        if self.committed is None or self.log_end is None:
            return 0
        return max(0, self.committed - self.log_end)


class AwaitedFacts(NamedTuple):
    """A running phase of a rebalance and whom it waits for."""

    phase: str
    """"join" or "sync"; other phases wait for time, not for members."""
    until_ms: int | None
    """When it ends at the latest: its deadline, or the end of its silent members' sessions."""
    members: tuple[str, ...]


class StreakFacts(NamedTuple):
    """What has happened again and again without a long pause."""

    times: int
    since_ms: int
    """When it happened first."""


class ReturnFacts(NamedTuple):
    """A client that was out and came back, or a member that rejoined as another."""

    member: str
    """Its id now."""
    client: str | None
    host: str | None
    at_ms: tuple[int, ...]
    """When, the latest last; the last few of them."""
    has_new_id: bool = True
    """It came back under a new member id each time."""
    why: str | None = None
    """What it does, where that is known in words."""
    streak: StreakFacts | None = None
    """All of the last ones; None where nobody has counted."""
    ways: Sequence[tuple[str, int]] = ()
    """How often its old id was lost in which way, such as ``restarted``: verdicts/flapping_words;
    nothing where that is not known."""
    instance: str | None = None
    """Of a static member, which was away for longer than its session."""
    away_ms: int | None = None
    """How long it was away the last time."""


class FencedFacts(NamedTuple):
    """A group.instance.id that two living processes use: each join of one fences the other."""

    instance: str
    member: str
    """Whose it is now."""
    client: str | None
    host: str | None
    other_client: str | None
    """Of the process that was fenced last."""
    other_host: str | None
    at_ms: tuple[int, ...]
    """When, the latest last; the last few of them."""
    streak: StreakFacts | None = None
    """All of the last ones."""


class RefusedFacts(NamedTuple):
    """A client whose joins are refused until a setting is changed, its own or the broker's."""

    error: str
    """Its name, such as INVALID_SESSION_TIMEOUT."""
    client: str | None
    host: str | None
    since_ms: int
    last_ms: int
    times: int
    why: str
    """What was wrong with the last one, in words."""


class GroupFacts(NamedTuple):
    """A group as it is now, and what is known of its past."""

    group: str
    state: str
    """Its name on the wire, such as Stable."""
    state_since_ms: int | None = None
    protocol_type: str | None = None
    """None or "": nobody ever joined, its clients assign partitions to themselves."""
    members: Sequence[MemberFacts] = ()
    partitions: Sequence[PartitionFacts] = ()
    all_read: int = 0
    """So many partitions are not in ``partitions``, since all of the group is read to the end."""
    subscribed: Collection[str] | None = None
    """The topics that its members subscribe."""
    awaits: AwaitedFacts | None = None
    returns: Sequence[ReturnFacts] | None = None
    fenced: Sequence[FencedFacts] | None = None
    refused: Sequence[RefusedFacts] | None = None
    rebalances_ms: Sequence[int] | None = None
    """When its last few rebalances began, the latest last; those that only a new member began are
    left out: a group that grows does not flap."""
    rebalances_streak: StreakFacts | None = None
    """All of the last ones of these."""
    last_why: str | None = None
    """Why the last of these began, in words."""
    reads_nothing_since_ms: int | None = None
    """Since when no member has read although records wait; the judge works it out."""
    state_counts_from_ms: int | None = None
    """From when on its time in its state counts, where pauses of the broker are left out."""

    @property
    def counts_from_ms(self) -> int | None:
        """From when on its time in its state counts."""
        if self.state_counts_from_ms is None or self.state_since_ms is None:
            return self.state_since_ms
        return max(self.state_counts_from_ms, self.state_since_ms)

    def member(self, member_id: str | None) -> MemberFacts | None:
        """A member by its id."""
        return next((each for each in self.members if each.member == member_id), None)

"""The verdicts of share groups (KIP-932): their rules and texts.

A share group has no committed offsets. It makes progress when members accept or reject records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from verdicts.commands import command
from verdicts.facts import GroupFacts, PartitionFacts
from verdicts.findings import Mark
from verdicts.names import Verdict
from verdicts.spelling import counted, instant, named, since, span, verb
from verdicts.thresholds import Thresholds


class RepeatedFacts(NamedTuple):
    """Records of a share group that are delivered repeatedly."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
    limit: int
    """The number of deliveries after which a record is archived."""
    since_ms: int | None
    member: str | None
    """The member that got the record in the last delivery that has ended; None if it is unknown."""
    outcome: str
    """The outcome of the last delivery that has ended, such as ``lock expired``, or "" if it is
    unknown."""


class ExpiredFacts(NamedTuple):
    """The expired acquisition locks of one member of a share group."""

    member: str
    at_ms: Sequence[int]
    """The times at which the last few locks expired, in ascending order."""
    records: Sequence[int]
    """The number of records whose lock expired, for each time in ``at_ms``."""
    lock_ms: int
    """The duration of an acquisition lock in ms."""


LOCKS_EXPIRED_AT = 3
"""The minimum number of expired locks of one member, within `Thresholds.locks_expire_ms`, that
leads to the verdict LOCKS_EXPIRE."""


class ShareFacts(NamedTuple):
    """The deliveries of a share group."""

    waiting: int
    """The number of records that the next fetches can acquire."""
    held: int
    """The number of records that members have acquired."""
    stands_since_ms: int | None
    """The time since which no record was accepted or rejected, although records wait or are
    acquired."""
    repeated: Sequence[RepeatedFacts] = ()
    """Records that are delivered repeatedly. The records with the most deliveries are first."""
    expired: Sequence[ExpiredFacts] = ()


def share_marks(facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> Iterator[Mark]:
    """Yields the marks of a share group.

    STALLED: records wait, and no member accepts or rejects a record. STUCK_RECORD: records are
    delivered repeatedly. LOCKS_EXPIRE: the locks of a member expire repeatedly.
    """
    share = facts.share
    if share is None or not facts.members:
        return
    if (share.waiting or share.held) and share.stands_since_ms is not None:
        since_ms = max(share.stands_since_ms, facts.state_counts_from_ms or 0)
        if now_ms - since_ms >= thresholds.stalled_ms:
            yield Mark(Verdict.STALLED, since_ms, (), None)
    for each in share.repeated:
        place = PartitionFacts(each.topic, each.partition)
        yield Mark(Verdict.STUCK_RECORD, each.since_ms, (place,), each.member, repeated=each)
    for found in share.expired:
        recent = _within(found, now_ms - thresholds.locks_expire_ms)
        if len(recent.at_ms) >= LOCKS_EXPIRED_AT and facts.member(found.member) is not None:
            yield Mark(Verdict.LOCKS_EXPIRE, recent.at_ms[0], (), found.member, expired=recent)


def _within(found: ExpiredFacts, from_ms: int) -> ExpiredFacts:
    """Returns the locks that expired at or after ``from_ms``."""
    pairs = zip(found.at_ms, found.records, strict=True)
    recent = [pair for pair in pairs if pair[0] >= from_ms]
    return found._replace(at_ms=[at for at, _ in recent], records=[size for _, size in recent])


def share_words(mark: Mark, facts: GroupFacts) -> tuple[str, str, str | None]:
    """Returns the sentence, the advice and the command for a mark of `share_marks`."""
    if mark.expired is not None:
        return _locks_expire(mark.expired, facts)
    if mark.repeated is None:
        return _stalled(mark, facts)
    record = mark.repeated
    first, last = record.first_offset, record.last_offset
    place = f"{record.topic}:{record.partition}"
    many = last > first
    what = f"offsets {first} to {last}" if many else f"offset {first}"
    sentence = (
        f"{place} {what} {verb(1 + many, 'was', 'were')} delivered {record.deliveries} times"
        f"{since(record.since_ms)}"
    )
    if record.outcome and record.member:
        member = facts.member(record.member)
        who = record.member if member is None else named(member)
        sentence += f"; the last delivery to {who} ended with: {record.outcome}"
    advice = (
        f"the record is archived after {record.limit} deliveries; fix the consumer, or let it"
        " reject records that it can't process"
    )
    return sentence, advice, command("share why", [facts.group, f"{place}@{first}"])


def _locks_expire(expired: ExpiredFacts, facts: GroupFacts) -> tuple[str, str, str | None]:
    member = facts.member(expired.member)
    who = expired.member if member is None else named(member)
    times, records = len(expired.at_ms), sum(expired.records)
    sentence = (
        f"the locks of {who} have expired {counted(times, 'time')}{since(expired.at_ms[0])}, the"
        f" last time at {instant(expired.at_ms[-1])}: the member did not acknowledge"
        f" {counted(records, 'record')} within {span(expired.lock_ms)}, and they were delivered"
        " again or archived"
    )
    advice = (
        "check that the member acknowledges the records that it polls; if its work takes longer"
        " than a lock, let it poll fewer records (max.poll.records), renew its locks, or raise"
        " share.record.lock.duration.ms of the group"
    )
    return sentence, advice, command("share why", facts.group)


def _stalled(mark: Mark, facts: GroupFacts) -> tuple[str, str, str | None]:
    share = facts.share
    assert share is not None
    parts = []
    if share.waiting:
        parts.append(f"{counted(share.waiting, 'record')} {verb(share.waiting, 'waits', 'wait')}")
    if share.held:
        parts.append(f"members hold {counted(share.held, 'record')}")
    sentence = (
        f"{' and '.join(parts)}; no record was accepted or rejected{since(mark.since_ms)}, although"
        f" the group has {counted(len(facts.members), 'member')}"
    )
    advice = "check whether the members poll and acknowledge: take a thread dump of their processes"
    return sentence, advice, command("share describe", facts.group)

"""The verdicts of share groups (KIP-932): the rules and their texts.

A share group has no committed offsets; its progress is that members accept or reject records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from verdicts.commands import command
from verdicts.facts import GroupFacts, PartitionFacts
from verdicts.findings import Mark
from verdicts.names import Verdict
from verdicts.spelling import counted, named, since, verb
from verdicts.thresholds import Thresholds


class RepeatedFacts(NamedTuple):
    """Records of a share group that are delivered again and again."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    deliveries: int
    limit: int
    """The number of deliveries after which the records are archived."""
    since_ms: int | None
    """The time of the first known delivery."""
    member: str | None
    """The member of the last delivery that has ended; None if it is unknown."""
    outcome: str
    """How this delivery ended, such as ``lock expired``; "" if it is unknown."""


class ShareFacts(NamedTuple):
    """The deliveries of a share group."""

    waiting: int
    """The number of records that the next fetches get."""
    held: int
    """The number of records that members hold."""
    stands_since_ms: int | None
    """The time since which records wait or are held, and none was accepted or rejected."""
    repeated: Sequence[RepeatedFacts] = ()
    """The records with the most deliveries first."""


def share_marks(facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> Iterator[Mark]:
    """Yields STALLED if records wait and members complete none, and STUCK_RECORD for records that
    are delivered again and again."""
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


def share_words(mark: Mark, facts: GroupFacts) -> tuple[str, str, str | None]:
    """Returns the sentence, the advice and the command of a mark of `share_marks`."""
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

"""`replicate`: committed offsets of one cluster translated to another with the same records.

A copied topic rarely has the offsets of the original: its log began later, or records were dropped
during the copy. Both have the timestamp of each record. An offset is translated to the first record
of the target that is not older than the source's record at the offset: some records of the same
millisecond are read again, and none is missed while timestamps rise. The offset stays if the logs
are aligned there: the target's record at the same offset has the same timestamp, and the first
record of that millisecond has the same offset in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.repairs.plan import Bounds, Log, Position, Positions, Step, same, step


class Located(NamedTuple):
    """The first record at or after an offset."""

    offset: int
    timestamp_ms: int
    """-1 if the record has none (message format 0)."""


class Known(NamedTuple):
    """Facts about one committed offset's partition on both sides."""

    source: Bounds | None
    target: Bounds | None
    """Each is None if that side does not have the partition."""
    record: Located | None
    """The source's record at the committed offset; None at the end of its log."""
    beside: Located | None
    """The target's record at the same offset; None if it has none."""
    by_time: int | None
    """The target's first offset that is not older than ``record``; None if all are older."""
    by_time_at_source: int | None = None
    """The source's first offset that is not older than ``record``; None if all are older."""


class Replication(NamedTuple):
    """The result of `plan_replication`."""

    steps: tuple[Step, ...]
    same: int
    left: tuple[str, ...]
    """Sentences about offsets that can't be translated."""


def plan_replication(
    committed: Positions,
    now: Positions,
    known: Mapping[tuple[Log, int], Known],
) -> Replication:
    """Plan the steps that commit the source's offsets, translated, on the target.

    ``known`` is by partition and committed offset.
    """
    steps: list[Step] = []
    left: list[str] = []
    unchanged = 0
    for key, position in sorted(committed.items()):
        facts = known[key.log, position.offset]
        if facts.target is None or facts.source is None:
            side = "target" if facts.target is None else "source"
            left.append(f"{key}: left out, the partition does not exist in the {side} cluster")
            continue
        offset, note = translated(position.offset, facts)
        if offset is None:
            left.append(f"{key}: left out, {note}")
            continue
        # epochs belong to a cluster and are not copied
        after = Position(offset, position.metadata)
        before = now.get(key)
        if same(before, after):
            unchanged += 1
            continue
        note = f"{position.offset} at the source" + (f", {note}" if note else "")
        steps.append(step(key, before, after, facts.target, note))
    return Replication(tuple(steps), unchanged, tuple(left))


def translated(offset: int, facts: Known) -> tuple[int | None, str | None]:
    """The target's offset, or None if it can't be found, and a note."""
    source, target = facts.source, facts.target
    assert source is not None
    assert target is not None
    if facts.record is None:
        return (
            target.end,
            "its end"
            if offset >= source.end
            else "the log end offset: the source no longer has a record there",
        )
    note = None
    if offset < source.first:
        note = f"before its log start offset {source.first}"
    record, beside = facts.record, facts.beside
    if beside == record and facts.by_time == facts.by_time_at_source:
        # the offset itself, which may lie in a gap before the record, as both logs have it
        return max(offset, target.first), note
    if record.timestamp_ms < 0:
        return None, f"record {record.offset} has no timestamp to search by"
    if facts.by_time is None:
        late = f"the log end offset: the target has no record since {record.timestamp_ms} ms yet"
        return target.end, late
    return facts.by_time, note

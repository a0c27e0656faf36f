"""`replicate`: translates committed offsets of one cluster to another cluster that has a copy of
the records.

A copied topic rarely has the offsets of the original: its log began later, or records were dropped
during the copy. The timestamp of each record is the same in both topics. A committed offset is
therefore translated by time. Its translation is the target's first record that is not older than
the source's record at this offset. Some records of the same millisecond are read again, and no
record is missed while timestamps rise.

The offset stays the same if the logs are aligned at this offset. They are aligned if two conditions
are met: the target's record at the same offset has the same timestamp, and the first record of that
millisecond has the same offset in both logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.repairs.plan import Bounds, Log, Position, Positions, Step, same, step


class Located(NamedTuple):
    """A record that was found by offset or by timestamp: the first record that is not before the
    searched offset or timestamp."""

    offset: int
    timestamp_ms: int
    """The record's timestamp in ms; -1 if it has none (message format 0)."""


class Known(NamedTuple):
    """The known facts about a committed offset and its partition, in the source and in the
    target."""

    source: Bounds | None
    target: Bounds | None
    """The log start and end offsets of the partition in the target cluster; ``source`` has those in
    the source cluster. None if the target cluster does not have the partition."""
    record: Located | None
    """The source's record at the committed offset; None if the offset is the log end offset."""
    beside: Located | None
    """The record of the target cluster at the committed offset of the source; None if the target
    has no record at this offset."""
    by_time: int | None
    """The offset of the target's first record whose timestamp is equal to or higher than that of
    ``record``; None if the target has no such record."""
    by_time_at_source: int | None = None
    """In the source's log: the offset of the first record whose timestamp is at least that of
    ``record``; None if no record has such a timestamp."""


class Replication(NamedTuple):
    """The result of `plan_replication`."""

    steps: tuple[Step, ...]
    same: int
    left: tuple[str, ...]
    """One sentence about each offset that can't be translated."""


def plan_replication(
    committed: Positions,
    now: Positions,
    known: Mapping[tuple[Log, int], Known],
) -> Replication:
    """Plan the steps that copy the committed offsets of a source cluster to a target cluster, in
    which the same records have other offsets. ``now`` has the offsets that are committed in the
    target. A key of ``known`` is a partition and an offset that is committed in the source."""
    steps: list[Step] = []
    left: list[str] = []
    unchanged = 0
    for key, position in sorted(committed.items()):
        facts = known[key.log, position.offset]
        if facts.target is None or facts.source is None:
            side = "target" if facts.target is None else "source"
            left.append(
                f"{key}: left out, because the partition does not exist in the {side} cluster"
            )
            continue
        offset, note = translated(position.offset, facts)
        if offset is None:
            left.append(f"{key}: left out, because {note}")
            continue
        # epochs belong to a cluster and are not copied
        after = Position(offset, position.metadata)
        before = now.get(key)
        if same(before, after):
            unchanged += 1
            continue
        note = f"{position.offset} at the source" + (f"; {note}" if note else "")
        steps.append(step(key, before, after, facts.target, note))
    return Replication(tuple(steps), unchanged, tuple(left))


def translated(offset: int, facts: Known) -> tuple[int | None, str | None]:
    """Return the offset in the target cluster that corresponds to ``offset`` in the source cluster,
    or None if it can't be found; and a note for the user, or None."""
    source, target = facts.source, facts.target
    assert source is not None
    assert target is not None
    if facts.record is None:
        return (
            target.end,
            "moved to the target's log end offset"
            if offset >= source.end
            else "moved to the target's log end offset: the source no longer has a record at this"
            " offset",
        )
    note = None
    if offset < source.first:
        note = f"this offset is below the source's log start offset {source.first}"
    record, beside = facts.record, facts.beside
    if beside == record and facts.by_time == facts.by_time_at_source:
        # the same offset, which may be in a gap before the record in both logs
        return max(offset, target.first), note
    if record.timestamp_ms < 0:
        return (
            None,
            f"the record at offset {record.offset} has no timestamp to search for",
        )
    if facts.by_time is None:
        late = (
            "moved to the target's log end offset: the target has no record with timestamp"
            f" {record.timestamp_ms} ms or later yet"
        )
        return target.end, late
    return facts.by_time, note

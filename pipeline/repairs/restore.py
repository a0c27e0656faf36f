"""`restore`: determines from the history which offsets groups had at a past time.

An offset is valid from the time at which the broker wrote its record. In a transaction it is valid
from the time of the COMMIT marker, and never if the transaction was aborted or is open. Of the
changes of a key up to the requested time, the last one in log order wins, by Kafka's own rule for
commits.

A record of an old format has no timestamp. The commit timestamp in its value is then used, although
a client may have set it (OffsetCommit version 1). A tombstone does not have a commit timestamp. If
both timestamps are missing, the time of the previous change in the log is used.

Log compaction can make an offset unknown, but not wrong: it removes a commit only because of a
later commit of the same key. The last remaining record at or before a time was therefore the last
record at that time. If a key has only later records, either the key was new then, or its earlier
records were compacted. The key was certainly new if the log is complete: from offset 0 on, without
a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from pipeline.engines.dialect import Dialect
from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError
from pipeline.model.events import COMMIT, DAMAGED
from pipeline.model.events import EVENTS as EVENTS_COLUMNS
from pipeline.model.params import Params
from pipeline.names import where_named
from pipeline.repairs.plan import Bounds, Key, Log, Position, Positions, Step, inside, same, step
from pipeline.run.catalog import EVENTS, RELATIONS
from pipeline.sources.damage import whole
from pipeline.sources.source import Source
from pipeline.sql.offsets import KEY

COMMITTED: Final = "committed"
DELETED: Final = "deleted"
LATER: Final = "later"
"""The state of a group's offset in a partition, if all changes of the offset are after the
requested time."""


def offsets_then(d: Dialect, p: Params, groups: Sequence[str] | None) -> str:
    """Return a query of the committed offsets at the as-of time, with one row for each group and
    partition in `offset_changes`. A row has the last change of the offset up to this time. The
    column `log_whole` is true if all records of the change's partition of `__consumer_offsets` are
    known."""
    wanted = "true" if groups is None else where_named(d, groups)
    known = d.last('"at"', "PARTITION BY log_partition ORDER BY effect_offset")
    held = d.struct(
        kind="kind",
        committed_offset="committed_offset",
        leader_epoch="leader_epoch",
        metadata="metadata",
    )
    return f"""
    WITH timed AS (
        SELECT {KEY}, effect_offset, {held} AS held, {known} AS since FROM offset_changes
        WHERE {wanted}
    ),
    last AS (
        SELECT {KEY}, max_by(held, effect_offset)
            FILTER (WHERE coalesce(since <= {p.as_of}, true)) AS held
        FROM timed GROUP BY {KEY}
    ),
    logs AS (
        SELECT log_partition,
            max(CASE WHEN kind = '{DAMAGED}' THEN 1 ELSE 0 END) = 1 AS damaged,
            min(log_offset) = 0 AND count(*) = max(log_offset) + 1 AS gapless
        FROM events GROUP BY log_partition
    )
    SELECT l.group_id, l.topic, l.partition, l.held.kind AS kind,
        l.held.committed_offset AS committed_offset, l.held.leader_epoch AS leader_epoch,
        l.held.metadata AS metadata, h.gapless AND NOT h.damaged AS log_whole,
        h.damaged AS log_damaged
    FROM last l JOIN logs h ON h.log_partition = l.log_partition
    """


class Then(NamedTuple):
    """The committed offset of a group in a partition at the requested time, as far as the history
    shows it."""

    state: str
    position: Position | None
    log_whole: bool
    log_damaged: bool


def as_of(
    engine: Engine, source: Source, at: datetime, groups: Sequence[str] | None = None
) -> dict[Key, Then]:
    """Read from a history the offsets that groups had at a past time. ``groups`` has names, or
    patterns with ``*``; None means all groups."""
    return whole(source, partial(_as_of, engine, source, at, groups))


def _as_of(
    engine: Engine, source: Source, at: datetime, groups: Sequence[str] | None
) -> dict[Key, Then]:
    parts = source.event_parts(None)
    if parts is None:
        engine.open(EVENTS, source.event_files() or [], EVENTS_COLUMNS)
    else:
        engine.read(EVENTS, parts, EVENTS_COLUMNS)
    params = Params(as_of_ms=round(at.timestamp() * 1000))
    for name in ("offset_records", "offset_changes"):
        engine.define(name, RELATIONS[name].sql(engine.dialect, params), keep=False)
    return {
        Key(row["group_id"], row["topic"], row["partition"]): _then(row)
        for batch in engine.arrow(offsets_then(engine.dialect, params, groups))
        for row in batch.to_pylist()
    }


def _then(row: Mapping[str, Any]) -> Then:
    kind, position = row["kind"], None
    if kind == COMMIT and row["committed_offset"] >= 0:
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        position = Position(row["committed_offset"], row["metadata"] or "", epoch)
    state = LATER if kind is None else COMMITTED if kind == COMMIT else DELETED
    return Then(state, position, row["log_whole"], row["log_damaged"])


class Restored(NamedTuple):
    """The result of `plan_restore`."""

    steps: tuple[Step, ...]
    same: int
    """The number of offsets that have not changed since the requested time."""
    left: tuple[str, ...]
    """One sentence for each offset that is not restored, because the history does not contain the
    offset, or the cluster does not have its partition."""


def plan_restore(
    then: Mapping[Key, Then],
    now: Positions,
    bounds: Mapping[Log, Bounds],
    *,
    clamp: bool = False,
    delete_unknown: bool = False,
) -> Restored:
    """Plan the steps from the current offsets to the offsets of the past time. Raise PipelineError
    if no offset was committed at that time.

    ``bounds`` has the partitions that currently exist. ``clamp`` moves an offset outside a log to
    the nearer end of the log. A current offset is deleted if the history shows that no offset
    existed at the past time. If the history does not show whether an offset existed, the current
    offset is deleted only if ``delete_unknown`` is set.
    """
    if not any(each.position for each in then.values()):
        raise PipelineError(
            "the history has no offset of these groups at that time: choose a later --at, or"
            " delete offsets with `muster offsets delete`"
        )
    steps: list[Step] = []
    left: list[str] = []
    unchanged = 0
    for key in sorted({*then, *(key for key in now if key.group in {k.group for k in then})}):
        was, before = then.get(key), now.get(key)
        after = was.position if was is not None else None
        if after is not None and key.log not in bounds:
            left.append(
                f"{key}: offset {after.offset} is left out, because the partition does not exist"
                " in the cluster"
            )
            continue
        if after is not None and clamp:
            after = inside(after, bounds[key.log])
        note = None
        if was is not None and was.log_damaged:
            note = "part of the history of this offset is damaged"
        if after is None and before is not None:
            certain = was is not None and (was.state == DELETED or was.log_whole)
            if not (certain or delete_unknown):
                left.append(f"{key}: unchanged, because its offset at that time is unknown")
                continue
            note = note or (
                "the group had no offset at that time"
                if certain
                else "the group's offset at that time is unknown"
            )
        if same(before, after):
            unchanged += 1
            continue
        if was is not None and was.position is not None and was.position != after:
            assert after is not None
            note = f"{was.position.offset} is outside the log: moved to the log's nearest offset"
        steps.append(step(key, before, after, bounds.get(key.log), note))
    return Restored(tuple(steps), unchanged, tuple(left))

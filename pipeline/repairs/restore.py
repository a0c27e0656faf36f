"""`restore`: the offsets of groups as they were at a time, from the history.

A record counts for the time at which the broker wrote it (`written_at`): commits and tombstones
both have that one, by one clock. `commit_at` may be a client's own (OffsetCommit version 1) and
tombstones have none; it stands in where a record of an old format has no timestamp, and where
there is neither the time of the record before it in the log (of these groups) does. Of the records
of a key that count for the time or an earlier one the last in the log's order holds: Kafka's rule
for which commit wins.

Cleaning never makes this wrong, only unknown: it drops a commit for the sake of a later one of the
same key, so what is left at or before a time is the last there was. Where nothing is left of a key
that has later records, it either came later or was cleaned away; that is known by whether the
log is whole, from offset 0 on and without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pipeline.contract import COMMIT, COMMIT_TOMBSTONE, DAMAGED, conform, of_kind
from pipeline.errors import PipelineError
from pipeline.names import named
from pipeline.repairs.plan import Bounds, Key, Log, Position, Positions, Step, inside, same, step

COMMITTED: Final = "committed"
DELETED: Final = "deleted"
LATER: Final = "later"
"""There is no record of it from that time or before."""

AS_OF: Final = StructType(
    [
        StructField("group_id", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("state", StringType(), False),
        StructField("committed_offset", LongType()),
        StructField("leader_epoch", IntegerType()),
        StructField("metadata", StringType()),
        StructField("log_whole", BooleanType()),
        StructField("log_damaged", BooleanType()),
    ]
)
"""One row for each offset that the history knows: its state at a time, and what is known of the
partition of `__consumer_offsets` that holds it."""


def as_of(events: DataFrame, at: datetime, groups: Sequence[str] | None = None) -> DataFrame:
    """`EVENTS` to `AS_OF`; of ``groups`` (names, or patterns with ``*``), or of all."""
    keyed = events.where(of_kind(COMMIT, COMMIT_TOMBSTONE))
    if groups is not None:
        keyed = keyed.where(named(groups))
    in_order = Window.partitionBy("log_partition").orderBy("log_offset")
    known = F.coalesce("written_at", "commit_at")
    timed = keyed.withColumn("time", F.coalesce(known, F.last(known, True).over(in_order)))
    # A log that begins without times is older than all that has one.
    then = F.coalesce(F.col("time") <= F.lit(at), F.lit(True))
    record = F.struct("log_offset", "kind", "committed_offset", "leader_epoch", "metadata")
    last = timed.groupBy("group_id", "topic", "partition", "log_partition").agg(
        F.max(F.when(then, record)).alias("last")
    )
    state = (
        F.when(F.col("last").isNull(), LATER)
        .when(F.col("last.kind") == COMMIT, COMMITTED)
        .otherwise(DELETED)
    )
    made = last.join(_logs(events), "log_partition", "left").select(
        "*", state.alias("state"), "last.committed_offset", "last.leader_epoch", "last.metadata"
    )
    return conform(made, AS_OF)


def _logs(events: DataFrame) -> DataFrame:
    """Per partition of `__consumer_offsets`: is all there since offset 0, is something damaged."""
    damaged = F.coalesce(F.max(of_kind(DAMAGED)), F.lit(False))
    return events.groupBy("log_partition").agg(
        ((F.min("log_offset") == 0) & (F.count("*") == F.max("log_offset") + 1) & ~damaged).alias(
            "log_whole"
        ),
        damaged.alias("log_damaged"),
    )


class Then(NamedTuple):
    """What a group's offset was, as the history has it."""

    state: str
    position: Position | None
    log_whole: bool
    log_damaged: bool


def collected(frame: DataFrame) -> dict[Key, Then]:
    """`AS_OF` as values."""
    found = {}
    for row in frame.collect():
        position = None
        if row.state == COMMITTED and row.committed_offset >= 0:
            epoch = -1 if row.leader_epoch is None else row.leader_epoch
            position = Position(row.committed_offset, row.metadata or "", epoch)
        key = Key(row.group_id, row.topic, row.partition)
        found[key] = Then(row.state, position, bool(row.log_whole), bool(row.log_damaged))
    return found


class Restored(NamedTuple):
    """What `plan_restore` made."""

    steps: tuple[Step, ...]
    same: int
    """Offsets that are now as they were."""
    left: tuple[str, ...]
    """Sentences about what stays as it is because the history or the cluster does not have it."""


def plan_restore(
    then: Mapping[Key, Then],
    now: Positions,
    bounds: Mapping[Log, Bounds],
    *,
    clamp: bool = False,
    delete_unknown: bool = False,
) -> Restored:
    """Steps from what is committed now to what was then.

    ``bounds`` has the partitions that are there now. ``clamp`` moves what lies outside a log to its
    nearer end. What came later is deleted when the history shows that it was not there then, or
    when ``delete_unknown`` says so. PipelineError when nothing at all had been committed then.
    """
    if not any(each.position for each in then.values()):
        raise PipelineError(
            "the history has no offset of these groups from that time: choose a later --at;"
            " `muster offsets delete` deletes offsets"
        )
    steps: list[Step] = []
    left: list[str] = []
    unchanged = 0
    for key in sorted({*then, *(key for key in now if key.group in {k.group for k in then})}):
        was, before = then.get(key), now.get(key)
        after = was.position if was is not None else None
        if after is not None and key.log not in bounds:
            left.append(f"{key}: left out at {after.offset}, the cluster has no such partition")
            continue
        if after is not None and clamp:
            after = inside(after, bounds[key.log])
        note = None
        if was is not None and was.log_damaged:
            note = "part of its history is damaged"
        if after is None and before is not None:
            certain = was is not None and (was.state == DELETED or was.log_whole)
            if not (certain or delete_unknown):
                left.append(f"{key}: stays, the history does not know it from then")
                continue
            note = note or (
                "no offset then" if certain else "the history does not know it from then"
            )
        if same(before, after):
            unchanged += 1
            continue
        if was is not None and was.position is not None and was.position != after:
            assert after is not None
            note = f"{was.position.offset} then, moved to the log's nearer end"
        steps.append(step(key, before, after, bounds.get(key.log), note))
    return Restored(tuple(steps), unchanged, tuple(left))

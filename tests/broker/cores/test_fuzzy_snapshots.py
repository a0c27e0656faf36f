"""Tests that a snapshot and the later log restore the same state as a full replay, for random
histories and slices.

A history is a list of runs at log offsets, which a core replays. The snapshot begins before one of
the runs. It is written in slices, and between slices the core replays more runs. The test then
loads the snapshot with each possible later log end offset. The log is unchanged, or is cleaned
below the begin offset of the snapshot.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cores.groups.kind import blocks_of
from coordinator.config import GroupConfig
from coordinator.shard import GroupShard
from offsets.runs import (
    GroupRun,
    MarkerRun,
    OffsetRun,
    OffsetTombstones,
    OwnBatch,
    Run,
    TransactionalRun,
)
from offsets.snapshot_image import BatchMark, ImageHead, ImageWriter, read_image
from protocol.now import Now
from tests.coordinator.consumer.groups import hard_state
from tests.coordinator.consumer.lives import Lives
from tests.offsets.strategies import (
    few_names,
    few_partitions,
    group_runs,
    offset_runs,
    own_batches,
    tombstones,
)

NO_MARK = BatchMark(0, 0, -1)
Based = list[tuple[int, Run | OwnBatch]]

histories = st.lists(
    offset_runs(few_names, few_partitions)
    | tombstones(few_names, few_partitions)
    | group_runs(few_names)
    | own_batches(few_names, few_partitions),
    min_size=1,
    max_size=14,
)


class Case(NamedTuple):
    """A history, and the times at which the slices of its snapshot run. The snapshot begins before
    the run with the index ``begin``."""

    runs: list[Run | OwnBatch]
    begin: int
    gaps: list[int]
    """For each slice of the snapshot: the number of runs that are replayed after it, before the
    next slice."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    runs = draw(histories)
    begin = draw(st.integers(0, len(runs)))
    return Case(runs, begin, draw(st.lists(st.integers(0, 3), max_size=20)))


def based(runs: list[Run | OwnBatch]) -> Based:
    offset, found = 0, []
    for run in runs:
        found.append((offset, run))
        offset += len(run)
    return found


def live_shard() -> GroupShard:
    shard = GroupShard(GroupConfig())
    shard.loaded(Now(0, 0))
    return shard


def content(shard: GroupShard) -> object:
    cache = shard.view.offsets
    entries = {g: sorted(cache.entries(g), key=lambda e: e[:2]) for g in cache.groups()}
    pending = {
        tuple(whose): [(each, columns.get(each)) for each in columns.partitions()]
        for *whose, columns in shard.view.all_pending()
    }
    return entries, cache.count(), shard.view.recorded, pending, hard_state(shard)


def take(case: Case, log: Based) -> tuple[bytes, int]:
    """Returns the snapshot, and the number of runs in the log when the snapshot was complete."""
    shard = live_shard()
    for offset, run in log[: case.begin]:
        shard.replay(run, offset)
    begin = log[case.begin][0] if case.begin < len(log) else end_of(log)
    writer = ImageWriter()
    blocks = []
    seen = case.begin
    gaps = iter(case.gaps)
    head = ImageHead(bytes(16), 0, 0, begin, NO_MARK)
    # Each block has one group, or one topic of a group.
    for block in blocks_of(shard, writer, head, lambda: True):
        blocks.append(block)
        for offset, run in log[seen : seen + next(gaps, 0)]:
            shard.replay(run, offset)
            seen += 1
    blocks.append(writer.end(end_of(log[:seen]), NO_MARK))
    return b"".join(blocks), seen


def end_of(log: Based) -> int:
    return log[-1][0] + len(log[-1][1]) if log else 0


def load(image: bytes | None, log: Based) -> GroupShard:
    shard = GroupShard(GroupConfig())
    begin = 0
    if image is not None:
        read = read_image(image)
        begin = read.head.begin_offset
        for entry in read.pending():
            shard.restore_pending(*entry)
        for group_id, topic, columns in read.offsets():
            shard.restore(group_id, topic, columns)
        for offset, run in read.groups():
            shard.replay(run, offset)
        for records in read.states():
            shard.replay(records, -1)
    for offset, run in log:
        if offset >= begin:
            shard.replay(run, offset)
    return shard


@settings(max_examples=150, deadline=None)
@given(cases())
def test_snapshot_and_later_records_restore_the_state_of_a_full_replay(case: Case) -> None:
    log = based(case.runs)
    image, seen = take(case, log)
    for end in range(seen, len(log) + 1):
        assert content(load(image, log[:end])) == content(load(None, log[:end]))


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(cases(), st.data())
def test_cleaning_before_the_begin_offset_does_not_change_the_loaded_state(
    case: Case, data: st.DataObject
) -> None:
    """Below the snapshot's begin offset, the cleaning removes superseded records, and in some cases
    tombstones. It stops at the first record of an open transaction."""
    log = based(case.runs)
    image, _ = take(case, log)
    ends = ends_of(log)
    unstable = [at for at, each in enumerate(ends) if each is None]
    cleaned_to = data.draw(st.integers(0, min([case.begin, *unstable])), "runs cleaned")
    drop_tombstones = data.draw(st.booleans(), "tombstones are removed")
    committed = [
        entry for entry, end in zip(log[:cleaned_to], ends, strict=False) if end is not False
    ]
    cleaned = clean(committed, drop_tombstones) + log[cleaned_to:]

    assert content(load(None, cleaned)) == content(load(None, log)), "the cleaner of this test"
    assert content(load(image, cleaned)) == content(load(None, cleaned))


@pytest.mark.campaign
@settings(max_examples=50, deadline=None)
@given(cases())
def test_snapshot_of_a_loaded_shard_restores_the_same_state(case: Case) -> None:
    log = based(case.runs)
    image, _ = take(case, log)
    again = Case(case.runs, len(case.runs), [])
    from_tail = load(image, log)
    from_tail.loaded(Now(0, 0))
    writer = ImageWriter()
    head = ImageHead(bytes(16), 0, 0, end_of(log), NO_MARK)
    blocks = list(blocks_of(from_tail, writer, head, lambda: False))
    blocks.append(writer.end(end_of(log), NO_MARK))
    assert content(load(b"".join(blocks), log)) == content(load(take(again, log)[0], log))


@pytest.mark.parametrize("seed", range(25))
def test_consumer_group_snapshot_and_later_records_equal_full_replay(seed: int) -> None:
    """In some cases the group changes its type, or is deleted and recreated, between two slices."""
    lives = Lives(seed)
    for _ in range(60):
        lives.step()
    log = based(lives.groups.log)
    chance = lives.random
    for _ in range(30):
        begin = chance.randint(0, len(log))
        gaps = [chance.choice((0, 0, 1, 5)) for _ in range(200)]
        image, seen = take(Case([run for _, run in log], begin, gaps), log)
        for end in {seen, len(log), chance.randint(seen, len(log))}:
            assert content(load(image, log[:end])) == content(load(None, log[:end]))


def ends_of(log: Based) -> list[bool | None]:
    """Returns for each run whether its transaction committed; None for an open transaction, True
    for runs without a transaction."""
    ends: list[bool | None] = []
    for at, (_, run) in enumerate(log):
        end: bool | None = True
        if isinstance(run, TransactionalRun):
            later = (
                each.committed
                for _, each in log[at:]
                if isinstance(each, MarkerRun) and each.producer_id == run.producer_id
            )
            end = next(later, None)
        ends.append(end)
    return ends


def clean(log: Based, drop_tombstones: bool) -> Based:
    """Returns the log after a cleaning: the last record of each key, as a run of its own, and all
    markers. Omits tombstones if ``drop_tombstones``."""
    last: dict[tuple[object, ...], tuple[int, Run | OwnBatch]] = {}
    for base, run in log:
        match run:
            case GroupRun():
                last[run.group_id,] = base, run
            case OffsetTombstones():
                for index, key in enumerate(run.keys):
                    last[run.group_id, *key] = base + index, OffsetTombstones(run.group_id, [key])
            case MarkerRun():
                last[base, ""] = base, run
            case OffsetRun():
                last |= singles(run, base)
            case TransactionalRun():
                at = base
                for each in run.runs:
                    for key, (offset, one) in singles(each, at).items():
                        alone = TransactionalRun(run.producer_id, run.producer_epoch, [one])
                        last[key] = offset, alone
                    at += len(each)
    kept = [
        (offset, run)
        for offset, run in last.values()
        if not drop_tombstones
        or not (isinstance(run, OffsetTombstones) or (isinstance(run, GroupRun) and not run.value))
    ]
    return sorted(kept, key=lambda entry: entry[0])


def singles(run: OffsetRun, base: int) -> dict[tuple[object, ...], tuple[int, OffsetRun]]:
    """Returns the records of a run by key, each as a run of one record with its log offset."""
    return {
        (run.group_id, run.topic, partition): (base + index, single(run, index))
        for index, partition in enumerate(run.partitions)
    }


def single(run: OffsetRun, index: int) -> OffsetRun:
    return OffsetRun(
        run.group_id,
        run.topic,
        [run.partitions[index]],
        [run.offsets[index]],
        [run.leader_epochs[index]],
        None if run.metadata is None else [run.metadata[index]],
        run.commit_timestamp_ms,
        run.expire_timestamp_ms,
    )

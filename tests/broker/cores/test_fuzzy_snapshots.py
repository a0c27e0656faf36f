"""Snapshot plus tail equals full replay, at every point of any history, however it was sliced.

The history is of the pure core: runs at log offsets. The snapshot is begun before some run and
taken slice by slice, so many runs coming in between; it is loaded when the log has any later end,
as it was written or after a cleaning below the snapshot's beginning.
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
    """When the snapshot is begun and how it goes on."""

    runs: list[Run | OwnBatch]
    begin: int
    gaps: list[int]
    """Runs that come between two slices, slice by slice; none when the list has ended."""


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
    return entries, cache.count(), shard.view.recorded, pending


def take(case: Case, log: Based) -> tuple[bytes, int]:
    """The snapshot, and how many runs were in the log when it was whole."""
    shard = live_shard()
    for offset, run in log[: case.begin]:
        shard.replay(run, offset)
    begin = log[case.begin][0] if case.begin < len(log) else end_of(log)
    writer = ImageWriter()
    blocks = []
    seen = case.begin
    gaps = iter(case.gaps)
    head = ImageHead(bytes(16), 0, 0, begin, NO_MARK)
    for block in blocks_of(shard, writer, head, lambda: True):  # one (group, topic) or group each
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
    for offset, run in log:
        if offset >= begin:
            shard.replay(run, offset)
    return shard


@settings(max_examples=150, deadline=None)
@given(cases())
def test_snapshot_and_tail_equal_full_replay_at_every_later_end(case: Case) -> None:
    log = based(case.runs)
    image, seen = take(case, log)
    for end in range(seen, len(log) + 1):
        assert content(load(image, log[:end])) == content(load(None, log[:end]))


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(cases(), st.data())
def test_a_cleaning_below_its_beginning_changes_nothing(case: Case, data: st.DataObject) -> None:
    """What is dead at some point at or before the beginning goes, of tombstones any.

    No cleaner goes past the beginning of a transaction that has not ended.
    """
    log = based(case.runs)
    image, _ = take(case, log)
    ends = ends_of(log)
    unstable = [at for at, each in enumerate(ends) if each is None]
    cleaned_to = data.draw(st.integers(0, min([case.begin, *unstable])), "runs cleaned")
    with_tombstones = data.draw(st.booleans(), "tombstones go too")
    committed = [
        entry for entry, end in zip(log[:cleaned_to], ends, strict=False) if end is not False
    ]
    cleaned = clean(committed, with_tombstones) + log[cleaned_to:]

    assert content(load(None, cleaned)) == content(load(None, log)), "the cleaner of this test"
    assert content(load(image, cleaned)) == content(load(None, cleaned))


@pytest.mark.campaign
@settings(max_examples=50, deadline=None)
@given(cases())
def test_a_loaded_shard_makes_the_same_snapshot_again(case: Case) -> None:
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


def ends_of(log: Based) -> list[bool | None]:
    """Of each run whether its transaction was committed, None before its end; others were."""
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


def clean(log: Based, with_tombstones: bool) -> Based:
    """The last record of each key, as single runs, and the markers; tombstones if they stay."""
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
        if not with_tombstones
        or not (isinstance(run, OffsetTombstones) or (isinstance(run, GroupRun) and not run.value))
    ]
    return sorted(kept, key=lambda entry: entry[0])


def singles(run: OffsetRun, base: int) -> dict[tuple[object, ...], tuple[int, OffsetRun]]:
    """The records of a run one by one, by key, with their log offsets."""
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

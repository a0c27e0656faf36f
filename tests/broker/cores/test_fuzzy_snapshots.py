"""Snapshot plus tail equals full replay, at every point of any history, however it was sliced.

The history is of the pure core: runs at log offsets. The snapshot is begun before some run and
taken slice by slice, so many runs coming in between; it is loaded when the log has any later end,
as it was written or after a cleaning below the snapshot's beginning.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cores.groups.kind import blocks_of
from coordinator.config import GroupConfig
from coordinator.shard import GroupShard
from offsets.runs import GroupRun, OffsetRun, OffsetTombstones, Run
from offsets.snapshot_image import BatchMark, ImageHead, ImageWriter, read_image
from protocol.now import Now
from tests.offsets.strategies import few_names, few_partitions, group_runs, offset_runs, tombstones

NO_MARK = BatchMark(0, 0)
Based = list[tuple[int, Run]]

histories = st.lists(
    offset_runs(few_names, few_partitions)
    | tombstones(few_names, few_partitions)
    | group_runs(few_names),
    min_size=1,
    max_size=14,
)


class Case(NamedTuple):
    """When the snapshot is begun and how it goes on."""

    runs: list[Run]
    begin: int
    gaps: list[int]
    """Runs that come between two slices, slice by slice; none when the list has ended."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    runs = draw(histories)
    begin = draw(st.integers(0, len(runs)))
    return Case(runs, begin, draw(st.lists(st.integers(0, 3), max_size=20)))


def based(runs: list[Run]) -> Based:
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
    return entries, cache.count(), shard.view.recorded


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


@settings(max_examples=100, deadline=None)
@given(cases(), st.data())
def test_a_cleaning_below_its_beginning_changes_nothing(case: Case, data: st.DataObject) -> None:
    """What is dead at some point at or before the beginning goes, of tombstones any."""
    log = based(case.runs)
    image, _ = take(case, log)
    cleaned_to = data.draw(st.integers(0, case.begin), "runs cleaned")
    with_tombstones = data.draw(st.booleans(), "tombstones go too")
    cleaned = clean(log[:cleaned_to], with_tombstones) + log[cleaned_to:]

    assert content(load(None, cleaned)) == content(load(None, log)), "the cleaner of this test"
    assert content(load(image, cleaned)) == content(load(None, cleaned))


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


def clean(log: Based, with_tombstones: bool) -> Based:
    """The last record of each key, as single runs; tombstones only if they stay."""
    last: dict[tuple[object, ...], tuple[int, Run]] = {}
    for base, run in log:
        if isinstance(run, GroupRun):
            last[run.group_id,] = base, run
        elif isinstance(run, OffsetTombstones):
            for index, key in enumerate(run.keys):
                last[run.group_id, *key] = base + index, OffsetTombstones(run.group_id, [key])
        else:
            for index, partition in enumerate(run.partitions):
                last[run.group_id, run.topic, partition] = base + index, single(run, index)
    kept = [
        (offset, run)
        for offset, run in last.values()
        if not with_tombstones
        or not (isinstance(run, OffsetTombstones) or (isinstance(run, GroupRun) and not run.value))
    ]
    return sorted(kept, key=lambda entry: entry[0])


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

"""Tests of pending transactional offsets. After a replay of the log, the pending offsets equal
those of a model that uses dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.cache import OffsetCache
from offsets.columns import TopicColumns
from offsets.runs import MarkerRun, OffsetRun, OffsetTombstones, OwnBatch, Run, TransactionalRun

Key = tuple[str, str, int]


def run(offsets: dict[int, int], group: str = "g", topic: str = "t", text: str = "") -> OffsetRun:
    texts = [text] * len(offsets) if text else None
    return OffsetRun(group, topic, [*offsets], [*offsets.values()], [3] * len(offsets), texts, 9)


def pending(producer_id: int, *runs: OffsetRun) -> TransactionalRun:
    return TransactionalRun(producer_id, 0, runs)


def marker(producer_id: int, *, committed: bool) -> MarkerRun:
    return MarkerRun(producer_id, 0, 0, committed)


def folded(*runs: Run | OwnBatch) -> OffsetCache:
    cache, at = OffsetCache(), 0
    for each in runs:
        cache.replay(each, at)
        at += len(each)
    return cache


def offset(cache: OffsetCache, partition: int = 0) -> int:
    return cache.fetch("g", "t", [partition]).offsets[0]


@pytest.mark.proves("transactions 26")
def test_end_of_a_transaction_keeps_the_commit_with_the_higher_log_offset() -> None:
    plain, transactional = run({0: 10}), pending(7, run({0: 8}))
    end = marker(7, committed=True)
    assert offset(folded(transactional, plain, end)) == 10
    assert offset(folded(plain, transactional, end)) == 8


def test_non_transactional_commit_does_not_remove_pending_offsets() -> None:
    cache = folded(pending(7, run({0: 8})), run({0: 10}))
    assert cache.pending.producers("g", "t") == {0: (7,)}


def test_later_offset_of_a_transaction_replaces_the_earlier_offset() -> None:
    runs = [pending(7, run({0: 1, 1: 2}, text="first")), pending(7, run({0: 5}))]
    cache = folded(*runs)
    assert cache.pending.count() == 2
    cache.replay(marker(7, committed=True), 3)
    assert [entry[2:] for entry in cache.entries("g")] == [
        ((5, 3, "", 9, -1, 2),),
        ((2, 3, "first", 9, -1, 1),),
    ]


def test_two_producers_can_have_pending_offsets_for_the_same_partition() -> None:
    runs = [pending(7, run({0: 1})), pending(8, run({0: 2, 1: 3})), marker(8, committed=True)]
    cache = folded(*runs[:2])
    assert cache.pending.producers("g", "t") == {0: (7, 8), 1: (8,)}
    cache.replay(runs[2], 3)
    assert cache.pending.producers("g", "t") == {0: (7,)}
    cache.replay(marker(7, committed=True), 4)
    assert (offset(cache), offset(cache, 1)) == (2, 3), "the one of 7 is older"
    assert not cache.pending


def test_tombstone_removes_the_pending_offset() -> None:
    runs = [pending(7, run({0: 1, 1: 2})), OffsetTombstones("g", [("t", 0)])]
    cache = folded(*runs, marker(7, committed=True))
    assert cache.keys("g") == [("t", 1)]


def test_transactional_commit_replaces_offset_metadata_and_expiry_time() -> None:
    expiring = run({0: 4}, text="mine")
    expiring.expire_timestamp_ms = 99
    cache = folded(run({0: 1, 1: 1}, text="old"), pending(7, expiring), marker(7, committed=True))
    assert cache.get("g", "t", 0) == (4, 3, "mine", 9, 99, 2)
    assert cache.get("g", "t", 1) == (1, 3, "old", 9, -1, 1)
    cache.replay(pending(7, run({0: 5})), 4)
    cache.replay(marker(7, committed=True), 5)
    assert cache.get("g", "t", 0) == (5, 3, "", 9, -1, 4)


def test_pending_offsets_are_committed_when_partition_numbers_are_far_apart() -> None:
    cache = folded(run({0: 1}), pending(7, run({2**31 - 1: 2, 5: 3})), marker(7, committed=True))
    assert cache.keys("g") == [("t", 0), ("t", 5), ("t", 2**31 - 1)]


def test_offset_is_not_deletable_when_its_partition_has_a_later_pending_offset() -> None:
    cache = folded(
        run({0: 1, 1: 1, 2: 1}),  # log offsets 0 to 2
        pending(7, run({1: 2, 3: 2})),  # log offsets 3 and 4
        pending(8, run({3: 2, 4: 2})),  # log offsets 5 and 6
    )
    assert cache.to_delete("g", "t") == [0, 1, 2, 3, 4]
    partitions = range(6)
    assert cache.deletable("g", "t", partitions, 3) == [0, 2], "1 is pending above"
    assert cache.deletable("g", "t", partitions, 5) == [0, 1, 2], "3 is pending above"
    assert cache.deletable("g", "t", partitions, 9) == [0, 1, 2, 3, 4]
    assert cache.deletable("h", "t", partitions, 9) == []


def test_pending_transactions_of_a_group_are_listed_by_producer() -> None:
    cache = folded(pending(9, run({0: 1}), run({0: 1}, topic="u")), pending(7, run({0: 1})))
    assert cache.pending.of_group("g") == [(7, 0, 1), (9, 0, 2)]
    assert cache.pending.of_group("h") == []


# ---------------------------------------------------------------------- random runs against dicts


class Model:
    """A model of pending and committed offsets that uses dicts."""

    def __init__(self) -> None:
        self.committed: dict[Key, tuple[int, int]] = {}
        """The committed offset of each key, and the log offset of its record."""
        self.pending: dict[int, dict[Key, tuple[int, int]]] = {}

    def replay(self, each: Run | OwnBatch, at: int) -> None:
        match each:
            case OffsetRun():
                self._store(self.committed, each, at)
            case TransactionalRun():
                for part in each.runs:
                    self._store(self.pending.setdefault(each.producer_id, {}), part, at)
                    at += len(part)
            case OffsetTombstones():
                for topic, partition in each.keys:
                    for entries in (self.committed, *self.pending.values()):
                        entries.pop((each.group_id, topic, partition), None)
            case MarkerRun():
                ended = self.pending.pop(each.producer_id, {})
                for key, entry in ended.items() if each.committed else ():
                    if key not in self.committed or self.committed[key][1] < entry[1]:
                        self.committed[key] = entry

    @staticmethod
    def _store(entries: dict[Key, tuple[int, int]], each: OffsetRun, at: int) -> None:
        for i, partition in enumerate(each.partitions):
            entries[each.group_id, each.topic, partition] = (each.offsets[i], at + i)


PARTITIONS = st.sampled_from([0, 1, 2, 3, 70, 900, 2**31 - 1])


@st.composite
def offset_runs(draw: Any) -> OffsetRun:
    partitions = draw(st.lists(PARTITIONS, min_size=1, max_size=4, unique=True))
    offsets = {partition: draw(st.integers(0, 99)) for partition in partitions}
    return run(offsets, draw(st.sampled_from("gh")), draw(st.sampled_from("tu")))


STEPS: st.SearchStrategy[Run | OwnBatch] = st.one_of(
    offset_runs(),
    st.builds(
        lambda producer, runs: TransactionalRun(producer, 0, runs),
        st.integers(1, 3),
        st.lists(offset_runs(), min_size=1, max_size=2),
    ),
    st.builds(
        lambda producer, committed: marker(producer, committed=committed),
        st.integers(1, 3),
        st.booleans(),
    ),
    st.builds(
        OffsetTombstones,
        st.sampled_from("gh"),
        st.lists(st.tuples(st.sampled_from("tu"), PARTITIONS), min_size=1, max_size=3),
    ),
)


@given(st.lists(STEPS, max_size=25))
def test_offset_cache_equals_the_model_after_a_replay_of_random_records(
    steps: Sequence[Run | OwnBatch],
) -> None:
    cache, model, at = OffsetCache(), Model(), 0
    for step in steps:
        cache.replay(step, at)
        model.replay(step, at)
        at += len(step)
        committed = {
            (group, topic, partition): (entry.offset, entry.log_offset)
            for group in cache.groups()
            for topic, partition, entry in cache.entries(group)
        }
        assert committed == model.committed
        assert cache.count() == len(committed)
        check_pending(cache, model)


def check_pending(cache: OffsetCache, model: Model) -> None:
    found: dict[int, dict[Key, tuple[int, int]]] = {}
    for producer_id, _, group, topic, columns in cache.pending.columns():
        for partition in columns.partitions():
            found.setdefault(producer_id, {})[group, topic, partition] = _entry(columns, partition)
    there = {producer_id: entries for producer_id, entries in model.pending.items() if entries}
    assert found == there
    assert cache.pending.count() == sum(map(len, there.values()))
    assert set(cache.pending.groups()) == {key[0] for entries in there.values() for key in entries}
    for group in "gh":
        for topic in "tu":
            waiting: dict[int, set[int]] = {}
            for producer_id, entries in there.items():
                for key in entries:
                    if key[:2] == (group, topic):
                        waiting.setdefault(key[2], set()).add(producer_id)
            producers = cache.pending.producers(group, topic)
            assert {each: set(of) for each, of in producers.items()} == waiting


def _entry(columns: TopicColumns, partition: int) -> tuple[int, int]:
    entry = columns.get(partition)
    assert entry is not None
    return entry[0], entry[-1]

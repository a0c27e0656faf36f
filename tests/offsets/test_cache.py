"""Tests of the offset cache. After any sequence of records, the cache has the same offsets as a
dict."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from offsets.cache import OffsetCache
from offsets.expiry import GroupCondition
from offsets.runs import GroupRun, OffsetRun, OffsetTombstones
from tests.offsets.strategies import few_names, few_partitions, group_runs, offset_runs, tombstones


def commit(group_id: str, topic: str, committed: dict[int, int], **changes) -> OffsetRun:
    """Returns a commit with leader epoch 5. ``committed`` maps partitions to offsets."""
    fields = {
        "partitions": tuple(committed),
        "offsets": tuple(committed.values()),
        "leader_epochs": (5,) * len(committed),
        "metadata": None,
        "commit_timestamp_ms": 1000,
    }
    return OffsetRun(group_id, topic, **(fields | changes))


class CacheAgainstDict(RuleBasedStateMachine):
    """Applies random runs to the cache, and the records of the same runs one by one to a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = OffsetCache()
        self.model: dict[str, dict[tuple[str, int], tuple]] = {}
        self.next_offset = 0

    def replay(self, run) -> None:
        self.cache.replay(run, self.next_offset)
        self.next_offset += len(run)

    @rule(run=offset_runs(few_names, few_partitions))
    def offsets(self, run: OffsetRun) -> None:
        for i, partition in enumerate(run.partitions):
            self.model.setdefault(run.group_id, {})[run.topic, partition] = (
                run.offsets[i],
                run.leader_epochs[i],
                run.metadata[i] if run.metadata else "",
                run.commit_timestamp_ms,
                run.expire_timestamp_ms,
                self.next_offset + i,
            )
        self.replay(run)

    @rule(run=tombstones(few_names, few_partitions))
    def removals(self, run: OffsetTombstones) -> None:
        for key in run.keys:
            self.model.get(run.group_id, {}).pop(key, None)
        if not self.model.get(run.group_id, True):
            del self.model[run.group_id]
        self.replay(run)

    @rule(group_id=few_names, data=st.data())
    def removal_of_most_keys(self, group_id: str, data: st.DataObject) -> None:
        keys = sorted(self.model.get(group_id, {}))
        keep = data.draw(st.integers(0, 3))
        if keys[keep:]:
            self.removals(OffsetTombstones(group_id, keys[keep:]))

    @rule(run=group_runs(few_names))
    def groups(self, run: GroupRun) -> None:
        self.replay(run)

    @invariant()
    def entries_are_the_same(self) -> None:
        found = {
            group_id: {
                (topic, partition): tuple(entry)
                for topic, partition, entry in self.cache.entries(group_id)
            }
            for group_id in self.cache.groups()
        }
        assert found == self.model
        assert self.cache.count() == sum(map(len, self.model.values()))

    @invariant()
    def every_way_of_reading_has_the_same_entries(self) -> None:
        for group_id in ("a", "b", "group-1", "never heard of"):
            entries = self.model.get(group_id, {})
            assert self.cache.has_offsets(group_id) == bool(entries)
            assert set(self.cache.keys(group_id)) == set(entries)
            assert set(self.cache.topics(group_id)) == {topic for topic, _ in entries}
            for topic, of_topic in self.cache.columns(group_id):
                known = of_topic.partitions()
                for some in (known, known[1:3], [-1, *known, 2**31 - 1], []):
                    assert list(of_topic.commits(some)) == [
                        (each, entry[0], entry[3], entry[4])
                        for each in some
                        if (entry := entries.get((topic, each)))
                    ]
            everything = self.cache.fetch_all(group_id)
            assert {fetched.topic for fetched in everything} == {topic for topic, _ in entries}
            asked = [(topic, [3, -1, 0, 70, 2**31 - 1, 1, 3]) for topic in ("a", "b")]
            asked += [("a", [2]), ("a", [-1]), ("a", []), ("b", list(range(20)))]
            for topic, partitions, *columns in [
                *(self.cache.fetch(group_id, topic, numbers) for topic, numbers in asked),
                *everything,
            ]:
                metadata = columns[2] or [""] * len(partitions)
                assert columns[2] is None or any(columns[2])
                assert list(zip(*columns[:2], metadata, strict=True)) == [
                    entries.get((topic, partition), (-1, -1, ""))[:3] for partition in partitions
                ]


TestCacheAgainstDict = CacheAgainstDict.TestCase
TestCacheAgainstDict.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_second_offset_applies_when_a_commit_contains_a_partition_twice() -> None:
    cache = OffsetCache()
    run = commit("g", "t", {}, partitions=[4, 4], offsets=[1, 2], leader_epochs=[0, 0])
    cache.replay(run, 10)
    assert cache.get("g", "t", 4) == (2, 0, "", 1000, -1, 11)
    assert cache.count() == 1


def test_metadata_column_is_none_when_all_metadata_is_empty() -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "t", {0: 1, 1: 2}, metadata=["", "mine"]), 0)
    assert cache.fetch("g", "t", [0]).metadata is None
    assert cache.fetch("g", "t", [0, 1]).metadata == ["", "mine"]
    cache.replay(commit("g", "t", {1: 3}), 2)
    assert cache.fetch("g", "t", [0, 1]).metadata is None


def test_cache_uses_less_than_2000_bytes_for_an_offset_of_the_highest_partition_number() -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "t", {2**31 - 1: 7}), 0)
    assert cache.fetch("g", "t", [2**31 - 1]).offsets == [7]
    assert bytes_of(cache) < 2000


def test_cached_offset_takes_less_than_40_bytes_on_average() -> None:
    cache = OffsetCache()
    for group in range(100):
        cache.replay(commit(f"g{group}", "t", dict.fromkeys(range(1000), 5)), 1000 * group)
    assert cache.count() == 100_000
    assert bytes_of(cache) < 40 * 100_000


def bytes_of(cache: OffsetCache) -> int:
    """Returns the size in bytes of the cache's columns and of all objects that the columns
    reference."""
    import sys

    total = 0
    for topics in cache._groups.values():
        total += sys.getsizeof(topics)
        for columns in topics.values():
            total += sys.getsizeof(columns)
            total += sum(sys.getsizeof(getattr(columns, slot)) for slot in columns.__slots__)
    return total


# -------------------------------------------------------------------------------------- expiry


def expired(
    cache: OffsetCache, condition: GroupCondition, retention_ms: int, wall_ms: int
) -> list[tuple[str, int]]:
    return [key[:2] for key in cache.expiring("g", condition, retention_ms, wall_ms)]


def test_offset_expires_by_its_commit_time_or_its_own_expiry_time() -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "old", {0: 1, 1: 1}, commit_timestamp_ms=1_000), 0)
    cache.replay(commit("g", "new", {0: 1}, commit_timestamp_ms=5_000), 2)
    cache.replay(commit("g", "named", {0: 1}, commit_timestamp_ms=0, expire_timestamp_ms=9_000), 3)
    simple = GroupCondition()
    assert expired(cache, simple, 3_000, 3_999) == []
    assert expired(cache, simple, 3_000, 4_000) == [("old", 0), ("old", 1)]
    assert set(expired(cache, simple, 3_000, 9_000)) == set(cache.keys("g"))


def test_offsets_of_a_rebalancing_group_do_not_expire() -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "t", {0: 1}), 0)
    rebalancing = GroupCondition(protocol_type="consumer", empty=False)
    assert expired(cache, rebalancing, 0, 2**62) == []


@given(st.integers(0, 4), st.integers(0, 200))
def test_removal_of_all_offsets_leaves_an_empty_cache(topics: int, partitions: int) -> None:
    cache = OffsetCache()
    for topic in range(topics):
        if partitions:
            cache.replay(commit("g", f"t{topic}", {n * 7: n for n in range(partitions)}), 0)
    cache.replay(OffsetTombstones("g", cache.keys("g")), 1000)
    assert (cache.count(), list(cache.groups()), cache.has_offsets("g")) == (0, [], False)


@pytest.mark.parametrize("group_id", ["", "g"])
def test_offset_of_an_unknown_group_or_topic_is_minus_one(group_id: str) -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "t", {0: 1}), 0)
    fetched = cache.fetch(group_id, "other", [0, 1])
    assert (tuple(fetched.offsets), tuple(fetched.leader_epochs), fetched.metadata) == (
        (-1, -1),
        (-1, -1),
        None,
    )


def test_offset_cache_changes_from_sparse_to_dense_columns_when_it_has_many_partitions() -> None:
    cache = OffsetCache()
    cache.replay(commit("g", "t", {990: 1, 995: 2}, metadata=["", "mine"]), 0)
    cache.replay(commit("g", "t", {700: 3}, expire_timestamp_ms=77), 2)
    columns = cache._groups["g"]["t"]
    assert columns._slots is not None
    for first in range(0, 480, 40):
        cache.replay(commit("g", "t", {n: n for n in range(first, first + 40)}), 3 + first)
    assert columns._slots is None
    assert cache.count() == 483
    assert cache.get("g", "t", 995) == (2, 5, "mine", 1000, -1, 1)
    assert cache.get("g", "t", 700) == (3, 5, "", 1000, 77, 2)
    assert cache.get("g", "t", 399) == (399, 5, "", 1000, -1, 402)
    assert cache.fetch("g", "t", [39, 500, 990]).offsets == (39, -1, 1)

"""The compiled code for the offsets of a commit has the same effect as the Python code."""

from __future__ import annotations

import random
import resource
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from coordinator import commits
from coordinator.calls import OffsetCommit, TopicOffsets
from coordinator.config import GroupConfig
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from offsets import cache
from offsets.cache import OffsetCache
from offsets.columns import TopicColumns
from offsets.runs import OffsetRun, OffsetTombstones, Run
from protocol.now import Now
from tests.protocol.codecs_both_ways import built

GROUPS, TOPICS = ("billing", "audit"), ("orders", "bills", "réponses")
PLAIN = "bills"
"""The topic whose offsets have no metadata and no expiry times. Its partition numbers are
consecutive."""
NOW = Now(0, 1_000_000)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the cache and the commits use the compiled code."""
    module = built()
    monkeypatch.setattr(cache, "_store_offsets", module.store_offsets)
    monkeypatch.setattr(cache, "_first_lowered", module.first_lowered)
    monkeypatch.setattr(commits, "_offset_runs", module.offset_runs)
    return module


def numbers(chance: random.Random, values: list[int]) -> Sequence[int]:
    """Returns ``values`` as a tuple, an array or a list, because the columns of requests and of the
    log have different types."""
    kind = chance.random()
    return tuple(values) if kind < 0.3 else array("q", values) if kind < 0.4 else values


def partitions_of(chance: random.Random, topic: str) -> list[int]:
    """Returns partition numbers: usually a few consecutive numbers, sometimes random numbers."""
    first, count = chance.choice((0, 0, 1, 7)), chance.choice((1, 1, 2, 10))
    if topic == PLAIN or chance.random() < 0.9:
        return list(range(first, first + count))
    return [chance.choice((-1, 0, 3, 8, 70, 2**31 - 1)) for _ in range(count)]


def run_of(chance: random.Random) -> Run:
    group_id, topic = chance.choice(GROUPS), chance.choice(TOPICS)
    partitions = partitions_of(chance, topic)
    if chance.random() < 0.1:
        return OffsetTombstones(group_id, [(topic, each) for each in partitions])
    rare = 0.5 if topic == PLAIN else chance.random()
    return OffsetRun(
        group_id,
        topic,
        numbers(chance, partitions),
        numbers(chance, [chance.choice((-1, 0, 5, 2**62)) for _ in partitions]),
        [chance.choice((-1, 4)) for _ in partitions],
        [chance.choice(("", "note")) for _ in partitions] if rare < 0.05 else None,
        chance.randrange(1 << 40),
        chance.choice((5, -1)) if rare > 0.9 else -1,
    )


def replay_all(found: OffsetCache, runs: Sequence[Run], base_offset: int) -> int:
    """Replays ``runs`` into the cache as `GroupShard.replay_all` does: with compiled code where
    this is possible, otherwise with Python code. Returns the number of runs that the Python code
    replayed."""
    index = by_python = 0
    while True:
        index, base_offset = found.replay_plain(runs, index, base_offset)
        if index == len(runs):
            return by_python
        found.replay(runs[index], base_offset)
        base_offset += len(runs[index])
        index += 1
        by_python += 1


def content(found: OffsetCache) -> Any:
    """Returns everything that the cache stores, its internal columns included."""
    return found.count(), {
        (group_id, topic): [getattr(columns, slot) for slot in TopicColumns.__slots__]
        for group_id in found.groups()
        for topic, columns in found.columns(group_id)
    }


@pytest.mark.parametrize("seed", range(40))
def test_compiled_replay_has_the_same_effect_as_python_for_random_runs(
    seed: int, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    python, other = OffsetCache(), OffsetCache()
    total = rest = offset = 0
    for _ in range(200):
        runs = [run_of(chance) for _ in range(chance.choice((1, 2, 10)))]
        group_id = chance.choice(GROUPS)
        lowered = list(other.moved_back(group_id, runs))
        with monkeypatch.context() as patch:
            patch.setattr(cache, "_first_lowered", None)
            assert list(python.moved_back(group_id, runs)) == lowered

        for each in python.columns(group_id):
            each[1].encoded = b"cached"
        for each in other.columns(group_id):
            each[1].encoded = b"cached"
        rest += replay_all(other, runs, offset)
        for run in runs:
            python.replay(run, offset)
            offset += len(run)
        total += len(runs)
        assert content(other) == content(python)
    assert 0 < rest < total * 0.9, "compiled code replayed at least a tenth"


def commit_of(chance: random.Random) -> OffsetCommit:
    topics = []
    for topic in chance.sample(TOPICS, chance.randrange(4)):
        partitions = partitions_of(chance, topic) if chance.random() < 0.9 else []
        metadata = ["note"] * len(partitions) if chance.random() < 0.1 else None
        times = [7] * len(partitions) if chance.random() < 0.05 else None
        ones = [1] * len(partitions)
        topics.append(TopicOffsets(topic, partitions, ones, ones, metadata, times))
    retention_ms = chance.choice((-1, -1, 5))
    return OffsetCommit("", "billing", -1, "", None, retention_ms, topics, "", "", "", False)


def test_commit_has_the_same_outcome_in_compiled_code_and_in_python_code(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    limits = (200, 1000, 100_000)
    shards = [GroupShard(GroupConfig(max_record_bytes=limit)) for limit in limits]
    for shard in shards:
        shard.loaded(NOW)
    refused = 0
    for _ in range(1000):
        call, shard = commit_of(chance), chance.choice(shards)
        found = shard.handle(call, NOW)
        with monkeypatch.context() as patch:
            patch.setattr(commits, "_offset_runs", None)
            expected: Outcome = shard.handle(call, NOW)
        assert found == expected
        refused += not found[0] and bool(call.topics)
    assert refused > 10, "some commits exceeded the batch"


def test_compiled_runs_and_columns_leak_no_memory(compiled: Any) -> None:
    found = OffsetCache()
    topics = [TopicOffsets(topic, [0, 1], [2**40, 5], [-1, -1], None, None) for topic in TOPICS]

    def work(times: int) -> int:
        for number in range(times):
            runs, records, characters = compiled.offset_runs(
                OffsetRun, "billing", topics, 2**40 + number, -1
            )
            assert (records, characters) == (6, 2 * sum(map(len, TOPICS)))
            found.moved_back("billing", runs)
            replay_all(found, runs, 2**40)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before_kb = work(2000)
    assert work(60_000) - before_kb < 1000


@pytest.mark.parametrize("arguments", [(), ({}, 1, 0, 0, OffsetRun), ([], [], 0, 0, OffsetRun)])
def test_compiled_storage_raises_type_error_for_wrong_arguments(
    arguments: tuple[Any, ...], compiled: Any
) -> None:
    with pytest.raises(TypeError, match="store_offsets: unexpected arguments"):
        compiled.store_offsets(*arguments)
    with pytest.raises(TypeError, match="first_lowered: unexpected arguments"):
        compiled.first_lowered(*arguments[:2])
    assert compiled.offset_runs(*arguments) is None

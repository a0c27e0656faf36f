"""Muster and Kafka load the same consumer groups from a compacted log of random groups."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from coordinator.classic.states import State
from coordinator.config import GroupConfig
from coordinator.consumer.deletion import tombstones
from coordinator.consumer.group import ConsumerGroup
from coordinator.shard import GroupShard
from log.partition_log import PartitionLog
from offsets.consumer_records import ConsumerGroupRun, MemberMetadata, MemberRecord
from offsets.record_codec import run_records
from offsets.runs import MarkerRun, OwnBatch, Run, TransactionalRun
from offsets.section_reader import runs_of_section
from protocol.now import Now
from protocol.records.batch import assemble_batch, section_of
from tests.coordinator.consumer.groups import GROUP, hard_state
from tests.coordinator.consumer.kafka_loader import CanNotLoad, KafkaLoader
from tests.coordinator.consumer.lives import Lives
from tests.log.cleaning_tools import SETTINGS, clean_log
from tests.log.log_tools import NOW_MS, open_log
from tests.simulated_files import SimulatedFiles

CLEANINGS = 3


def load(log: PartitionLog) -> tuple[GroupShard, KafkaLoader]:
    """Loads the log into a shard of Muster, and into the reference for Kafka's loader. Returns the
    shard and the reference."""
    shard, kafka = GroupShard(GroupConfig()), KafkaLoader()
    for data, header in log.scan():
        section = section_of(data, header)
        count, at_ms = header.record_count, header.max_timestamp
        for offset, run in runs_of_section(section, header.base_offset, count, None, at_ms):
            shard.replay(run, offset)
            kafka.replay(run)
    shard.loaded(Now(0, NOW_MS))
    return shard, kafka


def small_log() -> PartitionLog:
    """Returns a log that has small segments and keeps tombstones for one second."""
    settings: dict[str, Any] = SETTINGS
    return open_log(SimulatedFiles(), **settings)


def append(log: PartitionLog, run: Run | OwnBatch, now_ms: int) -> None:
    assert not isinstance(run, TransactionalRun | MarkerRun)
    first, count = log.log_end_offset, len(run)
    batch = assemble_batch(run_records(run, 0), count, first, now_ms, now_ms)
    log.append_encoded(batch, first, first + count - 1, now_ms)


@pytest.mark.parametrize("seed", range(20))
def test_loaded_consumer_groups_are_the_same_when_the_log_was_compacted(seed: int) -> None:
    lives, chance = Lives(seed), random.Random(seed)
    for _ in range(120):
        lives.step()
    whole = open_log(SimulatedFiles(), segment_bytes=1 << 20)
    log = small_log()
    runs = lives.groups.log
    cleaned_at = {chance.randrange(len(runs)) for _ in range(CLEANINGS)} if runs else set()
    now_ms, first_dirty = NOW_MS, 0
    for number, run in enumerate(runs):
        append(whole, run, now_ms)
        append(log, run, now_ms)
        now_ms += chance.choice((0, 20, 900))
        if number in cleaned_at and log.active.base_offset > first_dirty:
            first_dirty = clean_log(log, first_dirty, now_ms).end_offset
            expected, _ = load(whole)
            found, kafka = load(log)
            assert hard_state(found) == hard_state(expected)
            assert set(kafka.consumers) == set(found.view.consumer_groups)
            assert kafka.classic == recorded(found)
    if log.active.base_offset:
        clean_log(log, 0, now_ms + 10_000)
        clean_log(log, 0, now_ms + 20_000)  # tombstones are gone now
    found, kafka = load(log)
    assert hard_state(found) == hard_state(load(whole)[0])
    assert set(kafka.consumers) == set(found.view.consumer_groups)


def recorded(shard: GroupShard) -> set[str]:
    groups = shard.view.groups.values()
    return {each.group_id for each in groups if each.state is State.EMPTY and each.protocol_type}


def test_cleaning_of_a_random_group_log_removes_records_and_tombstones() -> None:
    left: Counter[str] = Counter()
    for seed in range(5):
        lives = Lives(seed)
        for _ in range(120):
            lives.step()
        log = small_log()
        for run in lives.groups.log:
            append(log, run, NOW_MS)
        left["before"] += sum(header.record_count for _, header in log.scan())
        clean_log(log, 0, NOW_MS)
        left["after"] += sum(header.record_count for _, header in log.scan())
        clean_log(log, 0, NOW_MS + 10_000)
        left["without tombstones"] += sum(header.record_count for _, header in log.scan())
    assert left["before"] > 2 * left["after"] > 2 * left["without tombstones"]


@pytest.mark.parametrize("records", [(1, 0), (-1, 0)])
def test_kafka_loader_refuses_tombstones_of_a_group_when_their_order_is_changed(
    records: tuple[int, int],
) -> None:
    group = ConsumerGroup(GROUP)
    group.fold(MemberRecord("m", MemberMetadata()))
    run = tombstones(group)
    wrong = list(run.records)
    moved, to = records
    wrong.insert(to, wrong.pop(moved))
    kafka = KafkaLoader()
    kafka.replay(ConsumerGroupRun(GROUP, [MemberRecord("m", MemberMetadata())]))
    if moved == -1:
        with pytest.raises(CanNotLoad):
            kafka.replay(ConsumerGroupRun(GROUP, wrong))
    else:
        kafka.replay(ConsumerGroupRun(GROUP, wrong))  # 7T before 8T is as good
        assert not kafka.consumers

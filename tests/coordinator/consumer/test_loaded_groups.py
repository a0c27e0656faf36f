"""Records of consumer groups in a log, and the groups that are loaded from these records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.calls import OffsetCommit
from coordinator.config import GroupConfig
from coordinator.consumer.states import ConsumerGroupState
from coordinator.outcome import CommitReply
from coordinator.shard import GroupShard
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from offsets.record_codec import run_records
from offsets.record_reader import CONSUMER_RECORDS_PER_RUN, runs_of_records
from offsets.record_values import CorruptRecord
from offsets.runs import (
    GroupRun,
    GroupValue,
    MarkerRun,
    OffsetRun,
    Run,
    TransactionalRun,
)
from offsets.section_reader import iter_runs_of_section, runs_of_section
from protocol.errors import UNKNOWN_MEMBER_ID
from protocol.now import Now
from protocol.records.section import Record
from tests.coordinator.consumer.groups import (
    GROUP,
    WALL_MS,
    Groups,
    T,
    batches_of,
    hard_state,
    load,
)
from tests.coordinator.consumer.test_random_groups import World

NOW = Now(1_000, WALL_MS)
SUBSCRIBED = MemberMetadata(subscribed_topics=("t",), rebalance_timeout_ms=60_000)
CURRENT = CurrentAssignment(7, 6, 0, {T: {0: 7, 1: 6}})
CLASSIC = GroupRun(GROUP, GroupValue("consumer", 3, "range", None, WALL_MS, []))
COMMIT = OffsetRun(GROUP, "t", [0], [5], [-1], None, WALL_MS)


def loaded(*runs: Run) -> GroupShard:
    return load(batches_of(runs), GroupConfig(), NOW)


def of_group(*records: ConsumerRecord) -> ConsumerGroupRun:
    return ConsumerGroupRun(GROUP, list(records))


@pytest.mark.parametrize("seed", range(4))
def test_loaded_consumer_group_is_the_same_when_its_records_are_in_other_batches(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()
    groups = world.groups
    sections, count = [], 0
    for run in groups.log:
        assert not isinstance(run, TransactionalRun | MarkerRun)
        sections.append(run_records(run, count))
        count += len(run)
    assert hard_state(load([(0, count, b"".join(sections))], groups.config, groups.now)) == (
        hard_state(groups.shard)
    )
    single = [
        (offset, 1, run_records(ConsumerGroupRun(run.group_id, [record]), 0))
        for run in groups.log
        if isinstance(run, ConsumerGroupRun)
        for offset, record in enumerate(run.records)
    ]
    assert hard_state(load(single, groups.config, groups.now)) == hard_state(groups.shard)


def test_adjacent_records_of_a_group_are_decoded_as_one_run() -> None:
    runs: list[Run] = [
        of_group(EpochRecord(GroupEpoch(2)), MemberRecord("m", SUBSCRIBED)),
        ConsumerGroupRun("other", [EpochRecord(None)]),
        COMMIT,
        of_group(CurrentRecord("m", CURRENT), CurrentRecord("n", None)),
    ]
    sections, count = [], 0
    for run in runs:
        sections.append(run_records(run, count))
        count += len(run)
    found = runs_of_section(b"".join(sections), 40, count, None, WALL_MS)
    assert [offset for offset, _ in found] == [40, 42, 43, 44]
    assert [run for _, run in found if isinstance(run, ConsumerGroupRun)] == [
        replace(run, timestamp_ms=WALL_MS) for run in runs if isinstance(run, ConsumerGroupRun)
    ]


def test_records_with_different_timestamps_are_decoded() -> None:
    """Two kinds of batches are decoded record by record, each record with its timestamp: compressed
    batches, and batches in which the load skips a record."""
    [(_, _, section)] = batches_of([of_group(EpochRecord(GroupEpoch(2)))])
    key = b"\0\3\0\1" + GROUP.encode()
    assert key in section
    record = Record(9, WALL_MS, key, section[section.index(key) + len(key) + 1 : -1])
    [(offset, run)] = runs_of_records([record])
    assert offset == 9
    assert run == ConsumerGroupRun(GROUP, [EpochRecord(GroupEpoch(2))], WALL_MS)


def test_group_record_of_a_later_version_is_refused_with_its_offset() -> None:
    record = Record(9, 0, b"\0\3\0\1g", b"\0\1\0\0\0\7\0")
    with pytest.raises(CorruptRecord, match=r"offset 9 .*version 1 of ConsumerGroupMetadataValue"):
        list(runs_of_records([record]))


@given(st.sampled_from([3, 4, 5, 6, 7, 8, 16]), st.binary(max_size=60), st.binary(max_size=60))
def test_invalid_bytes_in_a_group_record_raise_corrupt_record_or_are_decoded(
    kind: int, key: bytes, value: bytes
) -> None:
    record = Record(9, 0, kind.to_bytes(2, "big") + b"\0\1g" + key, b"\0\0" + value)
    skipped: Counter[int] = Counter()
    with suppress(CorruptRecord):
        assert len(list(runs_of_records([record], skipped))) == 1
    assert not skipped


# ------------------------------------------------------------------------- what compaction leaves


def test_member_without_a_current_assignment_has_epoch_0() -> None:
    shard = loaded(of_group(MemberRecord("m", SUBSCRIBED)))
    group = shard.view.consumer_groups[GROUP]
    assert group.epoch.epoch == group.target_epoch.epoch == 1
    assert group.members["m"].current == CurrentAssignment()
    assert group.subscribed_names() == {"t"}


def test_loaded_member_without_metadata_keeps_its_partitions() -> None:
    shard = loaded(of_group(CurrentRecord("m", CURRENT)))
    group = shard.view.consumer_groups[GROUP]
    assert group.members["m"].metadata == MemberMetadata()
    assert group.holders == {(T, 0): "m", (T, 1): "m"}


def test_loaded_member_without_metadata_gets_partitions_when_it_rejoins() -> None:
    groups = Groups()
    records = of_group(CurrentRecord("m", CURRENT), EpochRecord(GroupEpoch(7)))
    groups.shard = load(batches_of([records]), groups.config, NOW, groups.image)
    reply = groups.join("m")
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (0, 8, {T: (0, 1)})


@pytest.mark.parametrize(
    "records",
    [
        [CurrentRecord("m", None), TargetRecord("m", None), MemberRecord("m", None)],
        [TargetEpochRecord(None)],
        [EpochRecord(None)],
    ],
)
def test_tombstones_of_a_group_that_does_not_exist_are_ignored(
    records: Sequence[ConsumerRecord],
) -> None:
    shard = loaded(CLASSIC, of_group(*records))
    assert not shard.view.consumer_groups
    assert list(shard.view.groups) == [GROUP]


def test_loaded_consumer_group_does_not_depend_on_the_order_of_its_records() -> None:
    parts: list[ConsumerRecord] = [
        EpochRecord(GroupEpoch(7, 9)),
        MemberRecord("m", SUBSCRIBED),
        TargetEpochRecord(TargetEpoch(7, WALL_MS)),
        TargetRecord("m", {T: (0, 1)}),
        CurrentRecord("m", CURRENT),
    ]
    expected = hard_state(loaded(of_group(*parts)))
    for first in range(len(parts)):
        turned = [*parts[first:], *parts[:first]]
        assert hard_state(loaded(*(of_group(each) for each in turned))) == expected
        assert hard_state(loaded(of_group(*reversed(turned)))) == expected


# ------------------------------------------------------------------------------ kinds of groups


def test_loaded_consumer_group_replaces_a_simple_group() -> None:
    shard = loaded(COMMIT, of_group(EpochRecord(GroupEpoch(2))))
    assert shard.view.groups[GROUP].type == "consumer"
    assert shard.view.consumer_groups[GROUP].state() is ConsumerGroupState.EMPTY
    assert shard.view.offsets.get(GROUP, "t", 0) is not None


def test_newest_record_of_a_group_id_determines_the_group_type() -> None:
    """In this test, the log lacks the tombstone that Muster and Kafka write when a group changes
    its type."""
    consumer = of_group(EpochRecord(GroupEpoch(2)))
    shard = loaded(COMMIT, CLASSIC, consumer)
    assert [each.type for each in shard.view.groups.values()] == ["consumer"]
    assert not shard.view.recorded
    shard = loaded(COMMIT, consumer, CLASSIC)
    assert [each.type for each in shard.view.groups.values()] == ["classic"]
    assert shard.view.groups[GROUP].generation_id == 3
    assert shard.view.offsets.get(GROUP, "t", 0) is not None


def test_upgraded_and_downgraded_groups_are_loaded() -> None:
    consumer = of_group(EpochRecord(GroupEpoch(4)), MemberRecord("m", SUBSCRIBED))
    shard = loaded(CLASSIC, GroupRun(GROUP, None), consumer)
    assert [each.type for each in shard.view.groups.values()] == ["consumer"]
    gone = of_group(MemberRecord("m", None), TargetEpochRecord(None), EpochRecord(None))
    shard = loaded(consumer, gone, CLASSIC)
    assert [each.type for each in shard.view.groups.values()] == ["classic"]


# ------------------------------------------------------------------------------------ soft state


def test_sessions_and_rebalance_timeouts_restart_after_a_load() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    groups.send("a", 2)
    assert groups.group.members["a"].current.state == 1
    groups.shard = load(batches_of(groups.log), groups.config, groups.now)
    groups.topics(t=2)
    groups.pass_ms(44_999)
    assert set(groups.group.members) == {"a", "b"}
    groups.pass_ms(1)
    assert not groups.group.members


def test_load_restores_the_time_of_the_last_group_epoch() -> None:
    groups = Groups()
    groups.join("a")
    groups.pass_ms(10_000)
    groups.send("a", -1)
    became_empty_ms = groups.now.wall_ms
    assert groups.group.epoch_ms == became_empty_ms
    shard = load(batches_of(groups.log), groups.config, groups.now)
    assert shard.view.consumer_groups[GROUP].epoch_ms == became_empty_ms


def test_commit_without_member_is_refused_when_a_loaded_group_has_members() -> None:
    groups = Groups()
    groups.join("a")
    groups.shard = load(batches_of(groups.log), groups.config, groups.now)
    call = OffsetCommit("ticket", GROUP, -1, "", None, -1, [])
    [(_, reply)] = groups.take(groups.shard.handle(call, groups.now)).replies
    assert reply == CommitReply(UNKNOWN_MEMBER_ID)


def test_long_batch_is_decoded_in_steps() -> None:
    """The broker can serve other requests between two steps."""
    count = 3 * CONSUMER_RECORDS_PER_RUN + 1
    run = of_group(*[TargetRecord(f"m{i}", {T: (i,)}) for i in range(count)])
    steps = iter_runs_of_section(run_records(run, 0), 0, count)
    first_offset, first = next(steps)
    assert (first_offset, len(first)) == (0, CONSUMER_RECORDS_PER_RUN)
    rest = [(offset, len(each)) for offset, each in steps]
    assert rest == [(100, 100), (200, 100), (300, 1)]

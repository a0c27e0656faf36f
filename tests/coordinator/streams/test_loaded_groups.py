"""Tests that a shard that is loaded from a log, compacted or not, has the same streams groups as
the shard that wrote the log. A task never has two owners."""

from __future__ import annotations

import pytest

from coordinator.config import GroupConfig
from coordinator.streams.states import MemberState
from offsets.consumer_records import ConsumerGroupRun, EpochRecord, GroupEpoch
from offsets.runs import GroupRun, GroupValue, OffsetRun, Run
from offsets.share_records import ShareEpochRecord, ShareGroupEpoch, ShareGroupRun
from offsets.streams_records import (
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsGroupRun,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    TaskRoles,
)
from protocol.now import Now
from tests.coordinator.consumer.groups import WALL_MS, batches_of, load
from tests.coordinator.streams.groups import (
    GROUP,
    STATEFUL,
    STORE,
    SUB,
    TOPOLOGY,
    StreamsGroups,
    hard_state,
)
from tests.coordinator.streams.lives import live

NOW = Now(1_000, WALL_MS)
CLASSIC = GroupRun(GROUP, GroupValue("consumer", 3, "range", None, WALL_MS, []))
CONSUMER = ConsumerGroupRun(GROUP, [EpochRecord(GroupEpoch(9))])
SHARE = ShareGroupRun(GROUP, [ShareEpochRecord(ShareGroupEpoch(9))])
COMMIT = OffsetRun(GROUP, "t", [0], [5], [-1], None, WALL_MS)


def of_group(*records: StreamsRecord) -> StreamsGroupRun:
    return StreamsGroupRun(GROUP, list(records))


EPOCH = of_group(StreamsEpochRecord(StreamsGroupEpoch(4)))


def kinds(*runs: Run) -> tuple[list[str], list[str]]:
    shard = load(batches_of(runs), GroupConfig(), NOW)
    types = [each.type for each in shard.view.groups.values()]
    return types, list(shard.view.streams_groups)


@pytest.mark.parametrize("seed", range(6))
def test_streams_group_after_random_requests_is_the_same_after_a_load(
    seed: int,
) -> None:
    live(seed)


def test_newest_record_in_the_log_determines_the_type_of_a_group() -> None:
    for other in (CLASSIC, COMMIT, CONSUMER, SHARE):
        assert kinds(other, EPOCH) == (["streams"], [GROUP])
    assert kinds(EPOCH, CONSUMER) == (["consumer"], [])
    assert kinds(EPOCH, SHARE) == (["share"], [])
    assert kinds(EPOCH, CLASSIC) == (["classic"], [])


def test_load_creates_a_group_from_any_of_its_records_and_removes_it_at_the_epoch_tombstone() -> (
    None
):
    topology = of_group(StreamsTopologyRecord(TOPOLOGY))
    gone = of_group(StreamsTopologyRecord(None))
    assert kinds(topology)[1] == [GROUP]
    assert kinds(topology, gone)[1] == [GROUP]
    assert kinds(topology, of_group(StreamsEpochRecord(None)), gone)[1] == []
    assert kinds(of_group(StreamsEpochRecord(None), StreamsMemberRecord("m", None)))[1] == []


def test_streams_member_is_loaded_from_a_member_record_or_a_current_assignment_record() -> None:
    shard = load(
        batches_of(
            [
                of_group(
                    StreamsMemberRecord("a", StreamsMemberMetadata(process_id="p")),
                    StreamsCurrentRecord("b", StreamsCurrentAssignment(3, 2, 1, {SUB: {0: 3}})),
                    StreamsTargetRecord("c", TaskRoles({SUB: (1,)})),
                )
            ]
        ),
        GroupConfig(),
        NOW,
    )
    group = shard.view.streams_groups[GROUP]
    assert [member.current.epoch for member in group.members.values()] == [0, 3]
    assert group.epoch == StreamsGroupEpoch(1)


def test_load_restarts_member_timeouts_and_detects_changed_topics() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.join("b")
    groups.owning("a", 2, active={SUB: (0, 1)})
    groups.topics(t=4)
    shard = load(batches_of(groups.log), groups.config, groups.now, groups.image)
    assert hard_state(shard) == hard_state(groups.shard)
    members = shard.view.streams_groups[GROUP].members
    assert members["a"].session.due_ms == groups.now_ms + 45_000
    assert members["a"].rebalance.due_ms == groups.now_ms + 60_000
    groups.shard = shard
    groups.owning("a", 2, active={SUB: (0,)})
    assert groups.kinds() == "17 21 21 20 22"


def test_member_in_an_unknown_state_must_confirm_that_it_has_no_tasks() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    strange = StreamsCurrentAssignment(2, 1, 9, {SUB: {0: 2, 1: 2}})
    shard = load(
        batches_of([*groups.log, of_group(StreamsCurrentRecord("a", strange))]),
        groups.config,
        groups.now,
        groups.image,
    )
    groups.shard = shard
    reply = groups.owning("a", 2, active={SUB: (0,)})
    assert "unknown state" in str(reply.error_message)
    assert groups.owning("a", 2).error_code == 0
    assert groups.group.members["a"].current.state == MemberState.STABLE


def test_member_of_a_group_without_topology_must_rejoin() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    runs = [
        StreamsGroupRun(
            GROUP, [each for each in run.records if not isinstance(each, StreamsTopologyRecord)]
        )
        for run in groups.log
        if isinstance(run, StreamsGroupRun)
    ]
    groups.shard = load(batches_of(runs), groups.config, groups.now, groups.image)
    reply = groups.send("a", 2)
    assert "must abandon all its tasks and rejoin" in str(reply.error_message)
    assert groups.join("a").error_code == 0
    assert groups.group.topology == TOPOLOGY


def test_records_written_for_a_streams_group_restore_the_same_group() -> None:
    groups = StreamsGroups(standby=1)
    groups.topic(STORE.name, 2)
    groups.stable("a", "b", "c", topology=STATEFUL)
    records = list(groups.group.records())
    shard = load(batches_of([of_group(*records)]), groups.config, groups.now)
    assert hard_state(shard) == hard_state(groups.shard)

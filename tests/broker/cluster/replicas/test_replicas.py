"""Tests the effects of LeaderAndIsr, StopReplica and UpdateMetadata on a broker's replicas."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from broker.cluster.peers.peer import Address, Peer, connect
from broker.cluster.replicas import missing_logs
from broker.topics.directory.partition_mark import partition_metadata
from broker.topics.registry import Topic
from broker.topics.replicas.roles import NotLeader, Role
from controller.requests import StoppedPartition, StoppedTopic
from controller.values import LEADER_OF_DELETED
from log.files.filesystem import read_whole
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    INELIGIBLE_REPLICA,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages import leader_and_isr, stop_replica
from protocol.schema import ZERO_UUID
from replication.values import PartitionState
from tests.broker.cluster.fellows import (
    TOPIC_ID,
    Fellow,
    cluster,
    eventually,
    identical_logs,
)
from tests.broker.edge import Taker
from tests.broker.mock_time import MockTime
from tests.simulated_files import SimulatedFiles

PLACE = ("t", 0)


def state_of(fellow: Fellow) -> PartitionState:
    state = fellow.replica().state
    assert state is not None
    return state


# -- LeaderAndIsr


async def test_leader_and_isr_request_starts_replication_and_calls_hooks() -> None:
    one, two, three = fellows = [Fellow(each) for each in (1, 2, 3)]
    async with cluster(*fellows) as controller:
        answers = await controller.lead(1)
        assert [each.partitions for each in answers.values()] == [{PLACE: NONE}] * 3
        one.append(5)
        await identical_logs(one, two, three)
        await controller.lead(1)
        await controller.lead(2)
    assert one.said == [("leader", "t-0", 0), ("leader", "t-0", 1), ("follower", "t-0", 2)]
    assert two.said == [("follower", "t-0", 0), ("follower", "t-0", 1), ("leader", "t-0", 2)]


async def test_log_is_created_with_the_id_and_settings_of_the_topic() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        await controller.lead(1, partitions=[3])
        topic = one.replica_logs.topic("t")
        assert topic is not None
        assert (topic.topic_id, topic.partitions) == (TOPIC_ID, 4)
        assert one.replica(index=3).log.config.segment_bytes == 1 << 20
        assert one.fs.exists("/broker-1/t-3/partition.metadata")
        assert one.logs.get("t", 0) is None
        await controller.lead(1, partitions=[0, 5])
        assert [each.index for each in one.logs.topics["t"].partitions] == [0, 3, 5]


@pytest.mark.proves("clusters 13")
@pytest.mark.parametrize(
    ("told", "code"),
    [
        (5, NONE),
        (1 << 40, NONE),  # The controller may know a new registration before the broker (trap 13).
        (-1, NONE),
        (4, STALE_BROKER_EPOCH),
    ],
)
async def test_control_requests_with_an_earlier_broker_epoch_are_refused(
    told: int, code: int
) -> None:
    one = Fellow(1)
    one.epoch = 5
    async with cluster(one) as controller:
        state = PartitionState(1, 1, 0, (1,), 0, (1,))
        answer = await controller.tell(one, controller.told("t", state), broker_epoch=told)
        assert answer == (code, {PLACE: NONE} if code == NONE else {})
        assert (one.logs.get("t", 0) is None) == (code != NONE)


async def test_control_requests_of_an_older_controller_are_refused() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        controller.epoch = 7
        await controller.lead(1)
        controller.epoch = 6
        assert (await controller.lead(1))[1] == (STALE_CONTROLLER_EPOCH, {})
        assert (await controller.stop(one, -1, delete=True)) == (STALE_CONTROLLER_EPOCH, {})
        assert controller.update(one) == STALE_CONTROLLER_EPOCH
        assert state_of(one).controller_epoch == 7


async def test_broker_refuses_controller_epochs_below_the_epoch_in_zookeeper() -> None:
    """A deposed controller may repeat requests that it sent before the broker restarted."""
    one = Fellow(1)
    async with cluster(one) as controller:
        one.manager.know_controller(7)
        controller.epoch = 6
        assert (await controller.lead(1))[1] == (STALE_CONTROLLER_EPOCH, {})
        assert one.logs.get("t", 0) is None
        controller.epoch = 7
        await controller.lead(1)
        assert state_of(one).controller_epoch == 7


@pytest.mark.proves("clusters 1")
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, STALE_CONTROLLER_EPOCH),  # Trap 1: the leader epoch is unchanged.
        ({"leader_epoch": 4}, STALE_CONTROLLER_EPOCH),
        ({"leader_epoch": 4, "replicas": (2, 3)}, STALE_CONTROLLER_EPOCH),
        ({"leader_epoch": 6, "replicas": (2, 3)}, UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 6}, NONE),
    ],
)
async def test_partition_state_is_refused_when_its_leader_epoch_is_not_higher(
    changed: dict[str, Any], code: int
) -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        state = PartitionState(1, 1, 5, (1,), 3, (1, 2))
        assert (await controller.tell(one, controller.told("t", state))).partitions[PLACE] == NONE
        told = controller.told("t", state._replace(**changed))
        assert (await controller.tell(one, told)) == (NONE, {PLACE: code})
        assert state_of(one).leader_epoch == (6 if code == NONE else 5)


async def test_leader_and_isr_refuses_a_partition_with_another_topic_id() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        await controller.lead(1)
        controller.topic_id = b"another" * 2 + b"id"
        answers = await controller.lead(1, partitions=[0, 1])
        assert answers[1].partitions == dict.fromkeys([("t", 0), ("t", 1)], INCONSISTENT_TOPIC_ID)


async def test_log_without_a_topic_id_gets_the_topic_id_that_the_controller_sends() -> None:
    one = Fellow(1)
    async with cluster(one, topic_id=None) as controller:
        await controller.lead(1)
        assert not one.fs.exists("/broker-1/t-0/partition.metadata")
        topic = one.replica_logs.topic("t")
        assert topic is not None
        assert topic.topic_id == ZERO_UUID
        controller.topic_id = TOPIC_ID
        told = controller.told("t", state_of(one))
        assert (await controller.tell(one, told)).partitions == {PLACE: NONE}
        assert one.logs.topics["t"].topic.topic_id == TOPIC_ID
        written = read_whole(one.fs, "/broker-1/t-0/partition.metadata")
        assert written == partition_metadata(TOPIC_ID)
        assert (await controller.tell(one, told)).partitions == {PLACE: STALE_CONTROLLER_EPOCH}


async def test_leader_and_isr_gets_storage_error_when_log_cannot_be_created() -> None:
    files = SimulatedFiles()
    one = Fellow(1, fs=files)
    async with cluster(one) as controller:
        files.fail("fsync_directory", "broker-1")
        assert (await controller.lead(1))[1].partitions == {PLACE: KAFKA_STORAGE_ERROR}
        assert (await controller.lead(1))[1].partitions == {PLACE: NONE}


@pytest.fixture
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces the pause before a retry of log creation to a very short time."""
    monkeypatch.setattr(missing_logs, "AGAIN_S", 0.02)
    monkeypatch.setattr(missing_logs, "AGAIN_S_MAX", 0.02)


@pytest.mark.usefixtures("fast_retries")
async def test_log_creation_is_retried_and_reported_to_the_controller() -> None:
    files = SimulatedFiles()
    one = Fellow(1, fs=files)
    async with cluster(one) as controller:
        files.fail("fsync_directory", "broker-1", count=3)
        assert (await controller.lead(1))[1].partitions == {PLACE: KAFKA_STORAGE_ERROR}
        await eventually(lambda: one.said)
        assert one.said == [("directory changed",)]
        assert one.replica().state is None
        assert (await controller.lead(1))[1].partitions == {PLACE: NONE}


@pytest.mark.usefixtures("fast_retries")
async def test_controller_is_notified_when_an_unwritable_log_becomes_writable() -> None:
    files = SimulatedFiles()
    one = Fellow(1, fs=files)
    async with cluster(one) as controller:
        await controller.lead(1)
        one.said.clear()
        files.fail("write", "leader-epoch-checkpoint", code=errno.ENOSPC)
        assert (await controller.lead(1))[1].partitions == {PLACE: KAFKA_STORAGE_ERROR}
        assert one.said == []
        await eventually(lambda: one.said)
        assert one.said == [("directory changed",)]
        assert (await controller.lead(1))[1].partitions == {PLACE: NONE}


@pytest.mark.usefixtures("fast_retries")
@pytest.mark.parametrize("how", ["stopped", "deleted", "moved", "another topic"])
async def test_log_creation_is_not_retried_after_the_replica_was_removed(
    how: str,
) -> None:
    files = SimulatedFiles()
    one = Fellow(1, fs=files)
    async with cluster(one) as controller:
        files.fail("fsync_directory", "broker-1", count=1 << 30)
        state = PartitionState(1, 1, 0, (1,), 0, (1,))
        await controller.lead(1)
        tries = len(files.calls)
        await eventually(lambda: len(files.calls) > tries)
        match how:
            case "stopped":
                await controller.stop(one, -1, delete=True)
            case "deleted":
                gone = state._replace(leader=LEADER_OF_DELETED)
                controller.show(controller.shown("t", gone))
            case "moved":
                controller.show(controller.shown("t", state._replace(leader=2, replicas=(2,))))
            case "another topic":
                controller.topic_id = bytes(15) + b"x"
                controller.show(controller.shown("t", state))
        await eventually(lambda: not one.manager.missing._missing)
        files.heal()
        await controller.lead(1, topic="other")
        assert one.replica_logs.get("t", 0) is None
        assert ("directory changed",) not in one.said


async def test_reply_that_waits_for_replication_gets_not_leader_at_leadership_loss() -> None:
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1, to=[one])
        replies: list[Any] = []
        end_offset = one.append()
        ticket = Taker(replies.append)
        one.replica().when_stable(end_offset, [(ticket, "stable")], lambda _, error: type(error))
        await controller.lead(2)
        await eventually(lambda: replies)
        assert replies == [NotLeader]
        assert one.replica().serving_error(-1) == NOT_LEADER_OR_FOLLOWER
        assert two.replica().role is Role.LEADER


async def test_follower_does_not_fetch_a_partition_without_a_leader() -> None:
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        await controller.lead(-1)
        assert one.replica().role is Role.FOLLOWER
        assert two.fetchers.followed("t", 0) is None
        await controller.lead(2)
        two.append(3)
        await identical_logs(*fellows)


# -- StopReplica


async def test_stop_replica_without_delete_keeps_the_log() -> None:
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append(2)
        await identical_logs(*fellows)
        assert await controller.stop(two, 0, delete=False) == (NONE, {PLACE: NONE})
        assert two.fetchers.followed("t", 0) is None
        one.append(2)
        assert two.end_offset() == 2
        await controller.lead(1)
        await identical_logs(*fellows)


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(-2, NONE), (-1, NONE), (3, NONE), (4, NONE), (2, FENCED_LEADER_EPOCH)],
)
async def test_stop_replica_with_an_older_leader_epoch_is_refused(
    leader_epoch: int, code: int
) -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        controller.leader_epoch = 2
        await controller.lead(1)
        answer = await controller.stop(one, leader_epoch, delete=True)
        assert answer == (NONE, {PLACE: code})
        assert (one.logs.get("t", 0) is None) == (code == NONE)
        assert (one.said[-1] == ("follower", "t-0", leader_epoch)) == (code == NONE)


async def test_deleted_replica_is_renamed_and_recreated_empty() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        await controller.lead(1, partitions=[0, 1])
        one.append(3)
        await one.replica_logs.write_high_watermarks()
        await controller.stop(one, -2, delete=True)
        names = [name for name in one.fs.list("/broker-1") if name.startswith("t-")]
        assert sorted(name.partition(".")[0] for name in names) == ["t-0", "t-1"]
        assert sum(name.endswith("-delete") for name in names) == 1
        assert ("t", 0) not in one.checkpoints()
        await controller.stop(one, -2, delete=True, index=1)
        assert "t" not in one.logs.topics
        controller.topic_id = b"another" * 2 + b"id"
        assert (await controller.lead(1))[1].partitions == {PLACE: NONE}
        assert one.end_offset() == 0
        assert one.replica().high_watermark == 0
    assert [name for name in one.fs.list("/broker-1") if name.startswith("t-")] == ["t-0"]


async def test_stop_replica_for_an_unknown_replica_succeeds() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        one.fs.make_directory("/broker-1/t-0")
        assert await controller.stop(one, -1, delete=False) == (NONE, {PLACE: NONE})
        assert await controller.stop(one, -1, delete=True) == (NONE, {PLACE: NONE})
        assert not one.fs.exists("/broker-1/t-0")
        assert await controller.stop(one, -1, delete=True) == (NONE, {PLACE: NONE})


async def test_many_replicas_in_one_stop_replica_request_are_deleted() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        await controller.lead(1, partitions=range(30))
        told = [StoppedPartition(index, -2, True) for index in range(30)]
        answer = await controller.stop_all(one, StoppedTopic("t", told))
        assert set(answer.partitions.values()) == {NONE}
        assert one.logs.topics == {}
        assert one.checkpoints() == set()


# -- in-sync replicas


async def test_lagging_replica_leaves_the_isr_and_returns() -> None:
    time = MockTime()
    one, two = fellows = [Fellow(1, lag_time_max_ms=400, time=time), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        one.append()
        await eventually(lambda: one.replica().high_watermark == 1)
        await controller.stop(two, -1, delete=False)
        one.append()
        assert one.replica().high_watermark == 1
        time.move(401)
        await eventually(lambda: state_of(one).isr == (1,))
        await eventually(lambda: one.replica().high_watermark == 2)
        later = state_of(one)._replace(leader_epoch=1)
        for each in fellows:
            await controller.tell(each, controller.told("t", later))
        await identical_logs(*fellows)
        await eventually(lambda: state_of(one).isr == (1, 2))
        assert [isr for _, isr, _ in one.isr.asked] == [(1,), (1, 2)]


async def test_high_watermarks_are_checkpointed_and_loaded() -> None:
    files = SimulatedFiles()
    one, two = fellows = [Fellow(1), Fellow(2, fs=files, checkpoint_ms=10)]
    async with cluster(*fellows) as controller:
        assert two.checkpoints() == set()
        await controller.lead(1)
        one.append(7)
        await identical_logs(*fellows)
        await eventually(lambda: two.replica().high_watermark == 7)
        await eventually(lambda: two.high_watermarks() == {("t", 0): 7})
    again = Fellow(2, fs=files.as_killed())
    again.open(Topic("t", TOPIC_ID, 1))
    assert again.end_offset() == 7
    assert again.replica().high_watermark == 7
    assert again.replica().role is Role.UNASSIGNED


# -- UpdateMetadata


async def test_update_metadata_request_updates_the_cache_and_calls_hooks() -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        state = PartitionState(1, 1, 0, (1,), 0, (1,))
        await controller.tell(one, controller.told("t", state))
        controller.show(controller.shown("t", state, range(5)))
        assert one.cache.partition("t", 4) is not None
        assert one.logs.topics["t"].topic.partitions == 5
        gone = state._replace(leader=LEADER_OF_DELETED)
        controller.show(controller.shown("t", gone, range(5)))
        assert one.said[1:] == [("deleted", "t", index) for index in range(5)]
        assert one.cache.topics == {}


async def test_leader_resigns_when_metadata_no_longer_lists_its_replica() -> None:
    one, two = Fellow(1), Fellow(2)
    async with cluster(one, two) as controller:
        await controller.lead(1)
        state = state_of(one)
        moved = state._replace(leader=2, leader_epoch=1, isr=(2,), replicas=(2,))
        controller.show(controller.shown("t", moved._replace(leader_epoch=0)))
        # The metadata are not newer than the state of the replica.
        assert one.replica().role is Role.LEADER
        controller.show(controller.shown("t", moved))
        assert one.replica().role is Role.UNASSIGNED
        assert one.said[-1] == ("follower", "t-0", 1)
        assert two.replica().role is Role.FOLLOWER  # A broker becomes leader only by LeaderAndIsr.
        await controller.tell(one, controller.told("t", state._replace(leader=1, leader_epoch=2)))
        assert one.replica().role is Role.LEADER


@pytest.mark.parametrize("is_told", [True, False])
async def test_leader_resigns_when_metadata_shows_its_topic_deleted(
    is_told: bool,
) -> None:
    one, two = Fellow(1), Fellow(2)
    async with cluster(one, two) as controller:
        await controller.lead(1)
        state = state_of(one)
        controller.show(controller.shown("t", state))
        if is_told:
            gone = state._replace(leader=LEADER_OF_DELETED, isr=(2,), replicas=(2,))
            controller.show(controller.shown("t", gone))
        else:
            one.manager.forget(["t"])
        assert one.cache.topics == {}
        assert one.replica().role is Role.UNASSIGNED
        assert ("deleted", "t", 0) in one.said


async def test_high_watermark_does_not_wait_for_a_replica_whose_broker_has_left() -> None:
    """Broker 3 has all records and is then stopped, so it does not fetch the next record. The
    leader commits this record when the metadata no longer contains broker 3. The leader does not
    wait for its next lag check."""
    one, two, three = fellows = [Fellow(each, lag_time_max_ms=600_000) for each in (1, 2, 3)]
    one.isr.is_held = True
    async with cluster(*fellows) as controller:
        await controller.lead(1, isr=(1, 2))
        one.append(1)
        await identical_logs(*fellows)
        await eventually(lambda: one.isr.asked)
        await three.stop()
        one.replica().isr_refused(INELIGIBLE_REPLICA)
        one.append(1)
        await identical_logs(one, two)
        led = one.replica().led
        assert led is not None
        await eventually(lambda: led.followers[2].end_offset == 2)
        assert one.replica().high_watermark == 1
        controller.fellows.remove(three)
        controller.show()
        await eventually(lambda: one.replica().high_watermark == 2)


# -- on the wire


async def _peer(fellow: Fellow) -> Peer:
    return await connect(Address("127.0.0.1", fellow.port), "controller", fellow.time, 5000)


@pytest.mark.parametrize("version", leader_and_isr.API.versions)
async def test_leader_and_isr_response_has_the_format_of_the_request_version(version: int) -> None:
    one = Fellow(1)
    async with cluster(one):
        partition = {
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": 1,
            "leader_epoch": 0,
            "isr": [1],
            "partition_epoch": 0,
            "replicas": [1],
        }
        value: dict[str, Any] = {
            "controller_id": 1,
            "controller_epoch": 1,
            "live_leaders": [],
        }
        if version >= 2:
            topic = {"topic_name": "t", "partition_states": [partition]}
            if version >= 5:
                topic["topic_id"] = TOPIC_ID
            value["topic_states"] = [topic]
        else:
            value["ungrouped_partition_states"] = [{"topic_name": "t", **partition}]
        peer = await _peer(one)
        first = await peer.call(leader_and_isr.API, version, value, 5000)
        again = await peer.call(leader_and_isr.API, version, value, 5000)
        peer.close()
    for answer, code in ((first, NONE), (again, STALE_CONTROLLER_EPOCH)):
        assert answer["error_code"] == NONE
        error = {"partition_index": 0, "error_code": code}
        if version >= 5:
            assert answer["topics"] == [{"topic_id": TOPIC_ID, "partition_errors": [error]}]
        else:
            assert answer["partition_errors"] == [{"topic_name": "t", **error}]


@pytest.mark.parametrize("version", stop_replica.API.versions)
async def test_stop_replica_response_has_the_format_of_the_request_version(version: int) -> None:
    one = Fellow(1)
    async with cluster(one) as controller:
        await controller.lead(1)
        value: dict[str, Any] = {"controller_id": 1, "controller_epoch": 1}
        if version >= 3:
            partition = {"partition_index": 0, "leader_epoch": 0, "delete_partition": True}
            value["topic_states"] = [{"topic_name": "t", "partition_states": [partition]}]
        elif version >= 1:
            value["topics"] = [{"name": "t", "partition_indexes": [0]}]
        else:
            value["ungrouped_partitions"] = [{"topic_name": "t", "partition_index": 0}]
        if version < 3:
            value["delete_partitions"] = True
        peer = await _peer(one)
        answer = await peer.call(stop_replica.API, version, value, 5000)
        peer.close()
        error = {"topic_name": "t", "partition_index": 0, "error_code": NONE}
        assert (answer["error_code"], answer["partition_errors"]) == (NONE, [error])
        assert one.logs.get("t", 0) is None


async def test_large_control_requests_are_handled() -> None:
    """The requests are so large that the worker thread decodes them."""
    one = Fellow(1)
    async with cluster(one) as controller:
        peer = await _peer(one)
        state = PartitionState(1, 1, 0, (1,), 0, (1,))
        shown = controller.shown("t", state, range(2000))
        await peer.call(*controller.update_message(one, shown, version=8), 5000)
        assert len(one.cache.topics["t"].partitions) == 2000
        told = controller.told("t", state, range(300))
        answer = await peer.call(*controller.tell_message(one, told, version=7), 30_000)
        peer.close()
        assert len(answer["topics"][0]["partition_errors"]) == 300
        assert len(one.logs.topics["t"].partitions) == 300


async def test_control_requests_of_clients_are_denied() -> None:
    one = Fellow(1, listener="INTERNAL")
    async with cluster(one) as controller:
        peer = await _peer(one)
        for message in (
            controller.update_message(one, version=8),
            controller.tell_message(one, version=7),
            (stop_replica.API, 4, {"controller_id": 1, "controller_epoch": 9, "topic_states": []}),
        ):
            answer = await peer.call(*message, 5000)
            assert answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED
        peer.close()

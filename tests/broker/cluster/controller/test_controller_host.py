"""Tests how the controller host reads ZooKeeper and handles invalid nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.zookeeper.zookeeper import Delete, Done, Operation, Set
from controller.calls import AllocateProducerIds, ControlledShutdown
from controller.events import (
    BrokerJoined,
    BrokerLeft,
    ControllerReady,
    NoLeader,
    ReassignmentStarted,
    TopicAdded,
)
from controller.outcome import ControlledShutdownReply, ProducerIdsReply
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE, NOT_CONTROLLER
from protocol.messages import leader_and_isr, update_metadata
from protocol.znodes import admin, brokers, cluster, topics
from tests.broker.cluster.hosted import Cluster, Host, hosted
from tests.broker.edge import Taker, eventually

BAD = b'{"version":'


async def started_controller(there: Cluster) -> Host:
    first = there.hosts[0]
    first.host.start()
    await eventually(lambda: first.seen(ControllerReady))
    return first


def leads(there: Cluster, topic: str, leader: int) -> bool:
    state = there.state(topic)
    return state is not None and state.leader == leader


@pytest.mark.proves("clusters 9")
async def test_controller_elects_leader_of_a_new_topic_and_notifies_brokers() -> None:
    """The controller must send the list of live brokers before it sends leaders."""
    async with hosted(1, obedient=2) as there:
        await started_controller(there)
        await there.topic("t", (11, 12))
        first = there.obedient[0]
        await eventually(lambda: first.of(leader_and_isr.API.key))
        keys = [api for api, _, _ in first.other.asked]
        assert keys[0] == update_metadata.API.key
        told = first.of(update_metadata.API.key)[0]
        assert {each["id"] for each in told["live_brokers"]} == {11, 12}
        state = there.state("t")
        assert state is not None
        assert (state.leader, state.isr, state.leader_epoch) == (11, (11, 12), 0)


@pytest.mark.proves("clusters 20")
async def test_controller_detects_a_broker_that_left_during_a_lost_connection() -> None:
    """kazoo removes all watches when it loses the connection."""
    async with hosted(1, obedient=2) as there:
        host = await started_controller(there)
        await there.topic("t", (11, 12))
        await eventually(lambda: leads(there, "t", 11))
        host.zookeeper.suspend()
        gone = there.obedient[0]
        there.ensemble.end_session(gone.zookeeper.session)
        await there.topic("u", (12,))
        host.zookeeper.resume()
        await eventually(lambda: leads(there, "t", 12))
        await eventually(lambda: leads(there, "u", 12))
        assert [each.broker_id for each in host.seen(BrokerLeft)] == [11]
        await gone.zookeeper.close()


async def test_topic_node_is_watched_after_a_reconnect() -> None:
    async with hosted(1, obedient=1) as there:
        host = await started_controller(there)
        await there.topic("t", (11,))
        await eventually(lambda: leads(there, "t", 11))
        host.zookeeper.lose_connection()
        data, stat = await there.zookeeper.get(topics.topic_path("t"))
        node = json.loads(data)
        node["partitions"]["1"] = [11]
        await there.zookeeper.set(topics.topic_path("t"), json.dumps(node).encode(), stat.version)
        await eventually(lambda: there.state("t", 1))


@pytest.mark.proves("clusters 15")
async def test_controller_sees_a_broker_restart_that_happens_during_a_lost_connection() -> None:
    async with hosted(1, obedient=1) as there:
        host = await started_controller(there)
        only = there.obedient[0]
        host.zookeeper.suspend()
        await there.zookeeper.delete(brokers.path(11))
        epoch = await only.register()
        host.zookeeper.resume()
        await eventually(lambda: host.seen(BrokerJoined))
        (left,) = host.seen(BrokerLeft)
        (joined,) = host.seen(BrokerJoined)
        assert (joined.epoch, joined.bounced) == (epoch, True)
        assert left.epoch < epoch
        await eventually(lambda: any(each["broker_epoch"] == epoch for each in only.of(6)))


async def test_controller_keeps_state_and_watch_of_a_topic_with_an_invalid_znode() -> None:
    async with hosted(1, obedient=1) as there:
        host = await started_controller(there)
        await there.topic("t", (11,))
        await eventually(lambda: leads(there, "t", 11))
        await eventually(lambda: b"topic_id" in (there.data(topics.topic_path("t")) or b""))
        good, _ = await there.zookeeper.get(topics.topic_path("t"))
        with capture_logs() as lines:
            await there.zookeeper.set(topics.topic_path("t"), BAD)
            await there.topic("u", (11,))
            await eventually(lambda: leads(there, "u", 11))
        assert [each["reason"] for each in lines if "parse" in each["event"]]
        term = host.host.term
        assert term is not None
        assert term.core.cluster.topics.keys() == {"t", "u"}
        node = json.loads(good)
        node["partitions"]["1"] = [11]
        await there.zookeeper.set(topics.topic_path("t"), json.dumps(node).encode())
        await eventually(lambda: there.state("t", 1))


@pytest.mark.proves("clusters 22")
async def test_invalid_znodes_do_not_affect_other_topics() -> None:
    """One of the invalid nodes registers a broker that does not have the inter-broker listener."""
    async with hosted(1, obedient=1) as there:
        await there.zookeeper.create(brokers.path(7), BAD, ephemeral=True)
        await there.zookeeper.create(f"{brokers.IDS}/not-a-number", b"", ephemeral=True)
        elsewhere = brokers.Registration(8, (brokers.Endpoint("OTHER", "h", 1),))
        data = brokers.encode_registration(elsewhere)
        await there.zookeeper.create(brokers.path(8), data, ephemeral=True)
        await there.topic("empty")
        await there.topic("bad", data=BAD)
        await there.topic("stateless", (11,))
        await there.topic("leaderless", (11,))
        for path in (topics.partitions_path("leaderless"), topics.partition_path("leaderless", 0)):
            await there.zookeeper.create(path, None)
        state = topics.StateNode(-1, 4, (), 0)
        path = topics.state_path("leaderless", 0)
        await there.zookeeper.create(path, topics.encode_state(state))
        await there.zookeeper.create(admin.delete_path("never"), None)
        host = await started_controller(there)
        await eventually(lambda: leads(there, "stateless", 11))
        await eventually(lambda: there.data(admin.delete_path("never")) is None)
        await there.zookeeper.create(admin.delete_path("neither"), None)
        await there.topic("later", (11,))
        await eventually(lambda: leads(there, "later", 11))
        await eventually(lambda: there.data(admin.delete_path("neither")) is None)
        assert there.active() == [1]
        assert host.seen(NoLeader) == []


@pytest.mark.proves("clusters 21")
async def test_controller_resigns_when_a_newer_controller_has_fenced_it() -> None:
    async with hosted(1, obedient=1) as there:
        host = await started_controller(there)
        await there.zookeeper.set(cluster.CONTROLLER_EPOCH, b"5")
        await there.topic("t", (11,))
        await eventually(lambda: len(host.seen(ControllerReady)) == 2)
        assert [each.epoch for each in host.seen(ControllerReady)] == [1, 6]
        await eventually(lambda: leads(there, "t", 11))


@pytest.mark.proves("clusters 17")
async def test_controller_restores_a_topic_id_that_brokers_know() -> None:
    """An old tool overwrites the topic node without the topic id (KAFKA-14190)."""
    async with hosted(1, obedient=1) as there:
        there.hosts[0].known_ids["t"] = bytes(range(16))
        await there.topic("t", (11,))
        await there.topic("u", (11,))
        await started_controller(there)
        await eventually(lambda: leads(there, "t", 11) and leads(there, "u", 11))
        ids = [
            topics.decode_topic(each, there.data(topics.topic_path(each)) or b"").topic_id
            for each in ("t", "u")
        ]
        assert ids[0] == "AAECAwQFBgcICQoLDA0ODw"
        assert ids[1] not in (None, ids[0])


def logged_deletions(lines: list[Any]) -> list[Any]:
    return [each for each in lines if each["event"].startswith("deleting a ZooKeeper node")]


async def test_controller_deletes_request_nodes_with_invalid_content() -> None:
    async with hosted(1, obedient=1) as there:
        await there.zookeeper.create(admin.REASSIGN, BAD)
        with capture_logs() as lines:
            await started_controller(there)
            await eventually(lambda: there.data(admin.REASSIGN) is None)
            await there.zookeeper.create(admin.PREFERRED, b"[]")
            await eventually(lambda: there.data(admin.PREFERRED) is None)
            await eventually(lambda: len(logged_deletions(lines)) == 2)
        await there.topic("t", (11,))
        await eventually(lambda: leads(there, "t", 11))
        good = admin.encode_reassignments({("t", 0): (11,)})
        await there.zookeeper.create(admin.REASSIGN, good)
        await eventually(lambda: there.data(admin.REASSIGN) is None)


async def test_controller_does_not_delete_a_missing_request_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A controller that deletes the node at the start of its term may delete a request of an old
    tool without reading it."""
    async with hosted(1, obedient=1) as there:
        zookeeper = there.hosts[0].zookeeper
        multi, deleted = zookeeper.multi, list[str]()

        async def watched(operations: Sequence[Operation]) -> list[Done]:
            deleted.extend(each.path for each in operations if isinstance(each, Delete))
            return await multi(operations)

        monkeypatch.setattr(zookeeper, "multi", watched)
        await started_controller(there)
        await there.topic("t", (11,))
        await eventually(lambda: leads(there, "t", 11))
        assert admin.PREFERRED not in deleted
        await there.zookeeper.create(admin.PREFERRED, admin.encode_preferred([("t", 0)]))
        await eventually(lambda: there.data(admin.PREFERRED) is None)
        await there.topic("u", (11,))
        await eventually(lambda: leads(there, "u", 11))
        assert deleted.count(admin.PREFERRED) == 1


async def test_controller_does_not_restart_reassignments_that_it_writes_back_to_the_node() -> None:
    """The controller itself writes the remaining reassignments to the ZooKeeper node, and must not
    handle this write as a request. A node that is deleted and created again is a new request."""
    async with hosted(1, obedient=2) as there:
        host = await started_controller(there)
        for each in ("fast", "slow"):
            await there.topic(each, (11,))
            await eventually(lambda each=each: leads(there, each, 11))
        left = {("slow", 0): (12,)}  # The replica never catches up, because no broker fetches.
        asked = admin.encode_reassignments({("fast", 0): (11,), **left})
        await there.zookeeper.create(admin.REASSIGN, asked)
        await eventually(lambda: there.data(admin.REASSIGN) == admin.encode_reassignments(left))
        await there.topic("meanwhile", (11,))
        await eventually(lambda: leads(there, "meanwhile", 11))
        begun_for = [each.topic for each in host.seen(ReassignmentStarted)]
        assert sorted(begun_for) == ["fast", "slow"]
        await there.zookeeper.delete(admin.REASSIGN)
        await there.zookeeper.create(admin.REASSIGN, admin.encode_reassignments(left))
        await eventually(lambda: len(host.seen(ReassignmentStarted)) == 3)


async def test_allocate_producer_ids_fails_until_an_invalid_block_znode_is_corrected() -> None:
    async with hosted(1, obedient=1) as there:
        await there.zookeeper.set(cluster.PRODUCER_IDS, b"")
        await there.zookeeper.set(cluster.PRODUCER_IDS, BAD)
        host = await started_controller(there)
        replies: list[Any] = []

        async def ask() -> ProducerIdsReply:
            replies.clear()
            epoch = there.ensemble.nodes[brokers.path(11)].czxid
            host.host.submit(AllocateProducerIds(Taker(replies.append), 11, epoch))
            await eventually(lambda: replies)
            reply = replies[0]
            assert isinstance(reply, ProducerIdsReply)
            return reply

        with capture_logs() as lines:
            for _ in range(3):
                assert (await ask()).error_code == COORDINATOR_LOAD_IN_PROGRESS
        assert len([each for each in lines if "parse" in each["event"]]) == 1
        block = cluster.encode_producer_ids(cluster.ProducerIdBlock(3, 4000, 4999))
        await there.zookeeper.set(cluster.PRODUCER_IDS, block)
        reply = await ask()
        assert (reply.error_code, reply.first) == (NONE, 5000)
        assert there.active() == [1]


async def test_requests_get_not_controller_until_the_broker_is_elected() -> None:
    async with hosted(1) as there:
        replies: list[Any] = []
        there.hosts[0].host.submit(AllocateProducerIds(Taker(replies.append), 11, 1))
        assert [each.error_code for each in replies] == [NOT_CONTROLLER]


async def test_controlled_shutdown_moves_leaderships_to_other_replicas() -> None:
    async with hosted(1, obedient=2) as there:
        host = await started_controller(there)
        await there.topic("t", (11, 12))
        await there.topic("u", (11,))
        await eventually(lambda: leads(there, "t", 11) and leads(there, "u", 11))
        replies: list[Any] = []
        epoch = there.ensemble.nodes[brokers.path(11)].czxid
        host.host.submit(ControlledShutdown(Taker(replies.append), 11, epoch))
        await eventually(lambda: replies)
        assert replies == [ControlledShutdownReply(NONE, [])]
        state = there.state("t")
        assert state is not None
        assert (state.leader, state.isr) == (12, (12,))
        assert leads(there, "u", 11), "nobody else has it"


async def test_starting_controller_yields_to_the_event_loop_after_each_topic() -> None:
    async with hosted(1, obedient=1) as there:
        for index in range(450):
            await there.topic(f"t{index}", (11,))
        turns = 0

        async def count() -> None:
            nonlocal turns
            while not there.hosts[0].seen(ControllerReady):
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        host = await started_controller(there)
        await counting
        assert turns > 450, "a topic is a turn"
        (ready,) = host.seen(ControllerReady)
        assert (ready.topics, ready.partitions) == (450, 450)
        assert host.seen(TopicAdded) == [], "they were there"


async def test_partition_state_is_not_written_when_its_leader_registered_again() -> None:
    """A leader that registered again may have lost its last records in a power failure. If the
    state with this leader were written now, the next controller could not know that the leader has
    restarted since its election."""
    async with hosted(1, obedient=3) as there:
        host = await started_controller(there)
        leader, _, third = there.obedient
        await there.topic("t", (11, 12, 13))
        await eventually(lambda: leads(there, "t", 11))
        multi, since = host.zookeeper.multi, list[int]()

        async def multi_with_a_return_before(operations: Sequence[Operation]) -> list[Done]:
            changes = any(isinstance(each, Set) and "/state" in each.path for each in operations)
            if changes and not since:
                since.append(len(there.ensemble.writes))
                await leader.register_again()
            return await multi(operations)

        host.zookeeper.multi = multi_with_a_return_before  # type: ignore[method-assign]
        there.ensemble.end_session(third.zookeeper.session)
        await eventually(lambda: leads(there, "t", 12))
        written = [
            topics.decode_state("t", 0, each.data).leader
            for each in there.ensemble.writes[since[0] :]
            if isinstance(each, Set) and each.path == topics.state_path("t", 0)
        ]
        assert set(written) == {12}

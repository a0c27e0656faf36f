"""Tests writes in transactions whose coordinator is another broker, and the AddPartitionsToTxn
requests to this coordinator."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.broker import Broker
from broker.cluster.coordinators.remote_add_partitions import RemoteEnlisting
from broker.cluster.coordinators.remote_markers import RemoteMarkers
from broker.cluster.peers.inter_broker import parse
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC, BrokerNode
from log.values import Marker
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)
from protocol.messages.add_partitions_to_txn import API
from tests.broker.cluster.other_broker import SETTINGS, FakeView, OtherBroker, Value, other_broker
from tests.broker.edge import eventually
from tests.broker.partitions import partition_of
from tests.broker.serving import asked, serving
from tests.broker.transactional import TransactionalProducer, initialized
from tests.broker.transactions import served
from tests.wire import Wire
from transactions.calls import Partitions

TOPIC = "orders"
ONE: Partitions = [(TOPIC, [0])]


# -- requests to a coordinator


class CoordinatorScene(NamedTuple):
    """Broker 1, and the broker that coordinates the transactions."""

    other: OtherBroker
    cluster: FakeView
    enlisting: RemoteEnlisting

    async def ask(
        self, partitions: Partitions = ONE, epoch: int = 0, *, verify_only: bool = True
    ) -> Mapping[tuple[str, int], int]:
        return await self.enlisting.ask("t", 7, epoch, partitions, verify_only=verify_only)


@asynccontextmanager
async def coordinator_scene() -> AsyncIterator[CoordinatorScene]:
    async with other_broker() as other:
        cluster = FakeView(other.node)
        cluster.leaders[TRANSACTION_TOPIC, 0] = 2

        def spawn(work: Any, name: str) -> asyncio.Task[None]:
            return asyncio.get_running_loop().create_task(work, name=name)

        enlisting = RemoteEnlisting(cluster, SETTINGS, lambda: 1, Time(), spawn)
        try:
            yield CoordinatorScene(other, cluster, enlisting)
        finally:
            enlisting.stop()


def answers(error_code: int, of_all: int = NONE) -> Any:
    """Returns a function with which a fake broker answers AddPartitionsToTxn. Its response has
    ``error_code`` for each partition, and ``of_all`` as the error of the whole request."""

    async def answer(_: int, request: Value) -> Value:
        results = [
            {
                "transactional_id": each["transactional_id"],
                "topic_results": [
                    {
                        "name": topic["name"],
                        "results_by_partition": [
                            {"partition_index": index, "partition_error_code": error_code}
                            for index in topic["partitions"]
                        ],
                    }
                    for topic in each["topics"]
                ],
            }
            for each in request["transactions"]
        ]
        return {"error_code": of_all, "results_by_transaction": [] if of_all else results}

    return answer


@pytest.mark.parametrize(("newest", "version"), [(5, 5), (4, 4), (9, 5)])
@pytest.mark.parametrize("verify_only", [True, False])
async def test_add_partitions_request_has_the_newest_common_version(
    newest: int, version: int, verify_only: bool
) -> None:
    async with coordinator_scene() as here:
        here.other.serve(API.key, 0, newest, answers(NONE))
        places: Partitions = [(TOPIC, [0, 2]), ("paid", [1])]
        said = await here.ask(places, verify_only=verify_only)
        assert said == {(TOPIC, 0): NONE, (TOPIC, 2): NONE, ("paid", 1): NONE}
        [(_, sent, request)] = here.other.asked
        assert sent == version
        assert request["transactions"] == [
            {
                "transactional_id": "t",
                "producer_id": 7,
                "producer_epoch": 0,
                "verify_only": verify_only,
                "topics": [
                    {"name": TOPIC, "partitions": [0, 2]},
                    {"name": "paid", "partitions": [1]},
                ],
            }
        ]


async def test_verification_calls_that_arrive_during_a_request_share_the_next_request() -> None:
    async with coordinator_scene() as here:
        go_on = asyncio.Event()

        async def answer(version: int, request: Value) -> Value:
            await go_on.wait()
            done: Value = await answers(NONE)(version, request)
            return done

        here.other.serve(API.key, 0, 5, answer)

        def ask(transactional_id: str, epoch: int = 0) -> asyncio.Task[Any]:
            work = here.enlisting.ask(transactional_id, 7, epoch, ONE, verify_only=True)
            return asyncio.ensure_future(work)

        first = ask("a")
        await eventually(lambda: len(here.other.asked) == 1)
        later = [ask("b"), ask("c"), ask("a"), ask("a")]
        await asyncio.sleep(0)
        go_on.set()
        assert [set(each.values()) for each in await asyncio.gather(first, *later)] == [{NONE}] * 5
        ids = [
            [each["transactional_id"] for each in request["transactions"]]
            for _, _, request in here.other.asked
        ]
        assert ids == [["a"], ["b", "c", "a"], ["a"]], "an id is told apart by its answer"


async def test_concurrent_verifications_of_a_producer_send_only_its_highest_epoch() -> None:
    async with coordinator_scene() as here:
        here.other.serve(API.key, 0, 5, answers(NONE))
        said = await asyncio.gather(*[here.ask(epoch=epoch) for epoch in (3, 5, 4)])
        codes = [each[TOPIC, 0] for each in said]
        assert codes == [INVALID_PRODUCER_EPOCH, NONE, INVALID_PRODUCER_EPOCH]
        [(_, _, request)] = here.other.asked
        assert [each["producer_epoch"] for each in request["transactions"]] == [5]


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        (answers(PRODUCER_FENCED), INVALID_PRODUCER_EPOCH),
        (answers(TRANSACTION_ABORTABLE), TRANSACTION_ABORTABLE),
        (answers(COORDINATOR_LOAD_IN_PROGRESS), COORDINATOR_LOAD_IN_PROGRESS),
        (answers(NONE, CLUSTER_AUTHORIZATION_FAILED), INVALID_TXN_STATE),
        (answers(NONE, NOT_COORDINATOR), NOT_COORDINATOR),
    ],
)
async def test_coordinator_error_is_replaced_by_an_error_that_producers_handle(
    answer: Any, taken: int
) -> None:
    async with coordinator_scene() as here:
        here.other.serve(API.key, 0, 5, answer)
        assert await here.ask() == {(TOPIC, 0): taken}


@pytest.mark.parametrize(("verify_only", "taken"), [(True, NONE), (False, INVALID_TXN_STATE)])
async def test_verification_is_skipped_when_coordinator_does_not_support_the_request_version(
    verify_only: bool, taken: int
) -> None:
    async with coordinator_scene() as here:
        here.other.serve(API.key, 0, 3, answers(TRANSACTION_ABORTABLE))
        assert await here.ask(verify_only=verify_only) == {(TOPIC, 0): taken}
        assert here.other.asked == []


@pytest.mark.parametrize(
    ("leader", "taken"),
    [
        (-1, COORDINATOR_NOT_AVAILABLE),
        (1, NOT_COORDINATOR),  # This broker does not know yet that it is the coordinator.
        (3, NETWORK_EXCEPTION),  # Broker 3 is down.
    ],
)
async def test_producer_gets_a_retriable_error_when_coordinator_is_unreachable(
    leader: int, taken: int
) -> None:
    async with coordinator_scene() as here:
        here.cluster.leaders[TRANSACTION_TOPIC, 0] = leader
        assert await here.ask() == {(TOPIC, 0): taken}


async def test_verification_fails_with_network_exception_when_its_response_is_missing() -> None:
    async with coordinator_scene() as here:

        async def hang_up(_: int, __: Value) -> None:
            return None

        async def silent(_: int, __: Value) -> Value:
            return {"error_code": NONE, "results_by_transaction": []}

        for answer in (hang_up, silent):
            here.other.serve(API.key, 0, 5, answer)
            assert await here.ask() == {(TOPIC, 0): NETWORK_EXCEPTION}


# -- two brokers: one coordinates, the other leads the partitions


class Pair(NamedTuple):
    """The transaction coordinator, and the leader of the partitions in the transactions."""

    coordinator: Broker
    leader: Broker
    cluster: FakeView

    async def told(self, work: Callable[[TransactionalProducer], Any], who: Any) -> Any:
        """Runs ``work`` with a connection to the leader of the partitions. Returns the result of
        ``work``."""

        def run(wire: Wire) -> Any:
            return work(dataclasses.replace(who, wire=wire))

        return await asked(self.leader, run)


def _node(broker: Broker, node_id: int) -> BrokerNode:
    return BrokerNode(node_id, "127.0.0.1", broker.sockets.addresses()[0][1], None)


@asynccontextmanager
async def pair(tmp_path: Path, **of_leader: str) -> AsyncIterator[Pair]:
    settings = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    async with (
        serving(tmp_path / "coordinator", settings) as coordinator,
        serving(tmp_path / "leader", {**settings, **of_leader}) as leader,
    ):
        await served(coordinator)
        for broker in (coordinator, leader):
            await broker.topics.create(TOPIC, 1, {})
            await broker.topics.ensure(OFFSETS_TOPIC)
        cluster = FakeView(_node(coordinator, 2), _node(leader, 3))
        cluster.leaders.update({(TRANSACTION_TOPIC, 0): 2, (TOPIC, 0): 3, (OFFSETS_TOPIC, 0): 3})
        enlisting = RemoteEnlisting(
            cluster, SETTINGS, lambda: 1, leader.time, leader.background.spawn
        )
        services: Any = leader.server.services
        leader.server.services = dataclasses.replace(services, enlisting=enlisting)
        zookeeper = MemoryZooKeeper(Ensemble())
        remote = RemoteMarkers(
            cluster,
            SETTINGS,
            parse("3.9"),
            zookeeper,
            coordinator.time,
            coordinator.background.spawn,
        )
        coordinator.markers._destination_of = lambda *_: remote
        try:
            yield Pair(coordinator, leader, cluster)
        finally:
            enlisting.stop()
            remote.stop()
            await zookeeper.close()


async def _producer(there: Pair, rules: int) -> TransactionalProducer:
    made: TransactionalProducer = await asked(
        there.coordinator, lambda wire: initialized(wire, "t", rules)
    )
    return made


async def _at_coordinator(
    there: Pair, who: TransactionalProducer, work: Callable[[TransactionalProducer], Any]
) -> Any:
    return await asked(there.coordinator, lambda wire: work(dataclasses.replace(who, wire=wire)))


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("rules", [1, 2])
async def test_transaction_of_records_and_offsets_spans_two_brokers(
    tmp_path: Path, rules: int, commit: bool
) -> None:
    async with pair(tmp_path) as there:
        who = await _producer(there, rules)
        if rules == 1:
            assert await _at_coordinator(there, who, lambda each: each.add({TOPIC: [0]})) == NONE
            assert await _at_coordinator(there, who, lambda each: each.add_offsets("g")) == NONE
        answer = await there.told(lambda each: each.produce(TOPIC, b"v"), who)
        assert answer["error_code"] == NONE
        codes = await there.told(lambda each: each.commit_offsets("g", {(TOPIC, 0): 5}), who)
        assert codes == [NONE]
        records, offsets = (
            partition_of(there.leader, TOPIC),
            partition_of(there.leader, OFFSETS_TOPIC),
        )
        assert records.last_stable_offset == 0
        assert await _at_coordinator(there, who, lambda each: each.end(commit)) == NONE
        await eventually(lambda: not there.coordinator.markers.sendings)
        assert records.last_stable_offset == records.high_watermark == 2
        assert offsets.last_stable_offset == offsets.high_watermark
        view = there.leader.groups.view_of("g")
        entry = view.offsets.get("g", TOPIC, 0)
        assert (entry is not None) == commit


@pytest.mark.parametrize(
    ("version", "told"), [(11, TRANSACTION_ABORTABLE), (10, INVALID_TXN_STATE)]
)
async def test_produce_is_refused_when_the_transaction_lacks_the_partition(
    tmp_path: Path, version: int, told: int
) -> None:
    async with pair(tmp_path) as there:
        who = await _producer(there, 1)
        assert await _at_coordinator(there, who, lambda each: each.add_offsets("g")) == NONE
        answer = await there.told(lambda each: each.produce(TOPIC, version=version), who)
        assert answer["error_code"] == told
        assert partition_of(there.leader, TOPIC).log.log_end_offset == 0


async def test_producer_gets_a_retriable_error_while_its_coordinator_is_unknown(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as there:
        who = await _producer(there, 1)
        there.cluster.leaders[TRANSACTION_TOPIC, 0] = -1
        answer = await there.told(lambda each: each.produce(TOPIC), who)
        assert answer["error_code"] == NOT_ENOUGH_REPLICAS
        codes = await there.told(lambda each: each.commit_offsets("g", {(TOPIC, 0): 5}), who)
        assert codes == [COORDINATOR_NOT_AVAILABLE]
        there.cluster.leaders[TRANSACTION_TOPIC, 0] = 9
        codes = await there.told(lambda each: each.commit_offsets("g", {(TOPIC, 0): 5}), who)
        assert codes == [COORDINATOR_LOAD_IN_PROGRESS], "a lost connection"


async def test_producer_gets_not_leader_when_partition_leadership_has_moved(tmp_path: Path) -> None:
    """If the old leader returned NOT_ENOUGH_REPLICAS, the producer would send the records to the
    old leader again and again, and would never request Metadata."""
    async with pair(tmp_path) as there:
        who = await _producer(there, 1)
        assert await _at_coordinator(there, who, lambda each: each.add({TOPIC: [0]})) == NONE
        partition: Any = partition_of(there.leader, TOPIC)
        with pytest.MonkeyPatch.context() as moved:
            moved.setattr(type(partition), "serving_error", lambda *_: NOT_LEADER_OR_FOLLOWER)
            answer = await there.told(lambda each: each.produce(TOPIC), who)
        assert answer["error_code"] == NOT_LEADER_OR_FOLLOWER


async def test_produce_to_a_partition_outside_the_transaction_succeeds_without_verification(
    tmp_path: Path,
) -> None:
    unverified = {"transaction.partition.verification.enable": "false"}
    async with pair(tmp_path, **unverified) as there:
        who = await _producer(there, 1)
        there.cluster.leaders[TRANSACTION_TOPIC, 0] = -1
        answer = await there.told(lambda each: each.produce(TOPIC), who)
        assert answer["error_code"] == NONE


async def test_records_are_refused_when_the_transaction_ended_during_verification(
    tmp_path: Path,
) -> None:
    """A record after the marker would begin a transaction that no coordinator ends."""
    async with pair(tmp_path) as there:
        who = await _producer(there, 1)
        assert await _at_coordinator(there, who, lambda each: each.add({TOPIC: [0]})) == NONE
        partition = partition_of(there.leader, TOPIC)
        services: Any = there.leader.server.services
        ask = services.enlisting.ask

        async def ended_meanwhile(*args: Any, **named: Any) -> Any:
            said = await ask(*args, **named)
            assert said == {(TOPIC, 0): NONE}
            marker = Marker(who.producer_id, who.epoch, 1, committed=False)
            partition.append_marker(marker, there.leader.time.now().wall_ms)
            return said

        services.enlisting.ask = ended_meanwhile
        answer = await there.told(lambda each: each.produce(TOPIC), who)
        assert answer["error_code"] == NOT_ENOUGH_REPLICAS, "it is to send again"
        assert partition.log.log_end_offset == 1, "the marker alone"
        services.enlisting.ask = ask
        answer = await there.told(lambda each: each.produce(TOPIC), who)
        assert answer["error_code"] == NONE

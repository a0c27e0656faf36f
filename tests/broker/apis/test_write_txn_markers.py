"""Tests WriteTxnMarkers requests of other brokers and of operators."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.cores.hosted_shard import Phase
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from coordinator.calls import OffsetFetch, TopicOffsets, TxnOffsetCommit
from offsets.partitioner import partition_for
from tests.broker.edge import Taker
from tests.broker.partitions import partition_of
from tests.broker.serving import asked, eventually, serving
from tests.broker.transactions import (
    TOPIC,
    Ended,
    Producer,
    added,
    append,
    ended,
    initialised,
    markers,
    served,
    state_now,
)
from transactions.events import Cause

PID = 4711
ZOMBIE = Producer("", PID, 3)
GROUP = "g"
HERE = partition_for(GROUP, 2)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "2",
}


@asynccontextmanager
async def broker_with_a_hanging_transaction(directory: Path) -> AsyncIterator[Broker]:
    """Yields a broker with an open transaction that its coordinator does not know."""
    async with serving(directory, SETTINGS) as broker:
        await served(broker)
        await broker.topics.ensure(OFFSETS_TOPIC)
        await broker.topics.create(TOPIC, 2, {})
        append(broker, ZOMBIE, 0)
        assert partition_of(broker, TOPIC).last_stable_offset == 0
        yield broker


async def write(
    broker: Broker,
    *places: tuple[str, Sequence[int]],
    version: int = 2,
    epoch: int = ZOMBIE.epoch,
    coordinator_epoch: int = 0,
    committed: bool = False,
    transaction_version: int = 0,
    client_id: str = "operator",
) -> list[int]:
    """Sends WriteTxnMarkers with one marker. Returns the error codes of the partitions."""
    marker = {
        "producer_id": PID,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": [{"name": name, "partition_indexes": list(ids)} for name, ids in places],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": transaction_version,
    }
    answer = await asked(
        broker,
        lambda wire: wire.call("WriteTxnMarkers", version, {"markers": [marker]}),
        client_id,
    )
    (of_marker,) = answer["markers"]
    assert of_marker["producer_id"] == PID
    assert [topic["name"] for topic in of_marker["topics"]] == [name for name, _ in places]
    return [each["error_code"] for topic in of_marker["topics"] for each in topic["partitions"]]


@pytest.mark.proves("transactions 22")
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("committed", [False, True])
async def test_marker_of_an_operator_ends_a_hanging_transaction(
    tmp_path: Path, version: int, committed: bool
) -> None:
    """The marker has the current epoch of the producer."""
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        with capture_logs() as lines:
            codes = await write(
                broker, (TOPIC, [0, 1, 9]), ("absent", [0]), version=version, committed=committed
            )
        assert codes == [0, 0, 3, 3]
        assert markers(broker, 0) == [Ended(1, PID, ZOMBIE.epoch, committed, 0)]
        assert len(markers(broker, 1)) == 1, "an empty transaction has its marker too"
        assert partition_of(broker, TOPIC).last_stable_offset == 2
        (line,) = [line for line in lines if "bypassing its coordinator" in line["event"]]
        assert (line["producer"], line["first"]) == (PID, f"{TOPIC}-0")
        assert (line["client"], line["committed"]) == ("operator", committed)
        assert broker.metrics.transactions.aborted[Cause.ADMIN] == (not committed)

        again = await write(broker, (TOPIC, [0]), version=version, committed=committed)
        assert again == [0], "repeats are harmless"
        assert broker.metrics.transactions.aborted[Cause.ADMIN] == (not committed)


@pytest.mark.parametrize("name", ["%d", "broker-%d-txn-marker-sender"])
@pytest.mark.parametrize("is_fellow", [True, False])
async def test_marker_is_logged_only_when_a_client_sends_it(
    tmp_path: Path, name: str, is_fellow: bool
) -> None:
    """A request comes from a broker of the cluster if its client id contains the id of that broker.
    The client ids that Muster's brokers send have another form than those of Kafka's brokers."""
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        services: Any = broker.server.services
        broker.server.services = dataclasses.replace(services, enlisting=object())
        named = name % (services.cluster.controller_id + (not is_fellow))
        with capture_logs() as lines:
            assert await write(broker, (TOPIC, [0]), client_id=named) == [0]
        told = [line["client"] for line in lines if "bypassing its coordinator" in line["event"]]
        assert told == ([] if is_fellow else [named])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"epoch": 2}, 47),
        ({"epoch": 3, "transaction_version": 2}, 47),
        ({"epoch": 4, "transaction_version": 2}, 0),
        ({"epoch": 4}, 0),
        ({"epoch": 3, "transaction_version": 1}, 0),
    ],
)
async def test_marker_with_a_lower_epoch_is_refused(
    tmp_path: Path, more: dict[str, Any], code: int
) -> None:
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        assert await write(broker, (TOPIC, [0]), **more) == [code]
        stable = partition_of(broker, TOPIC).last_stable_offset
        assert stable == (0 if code else 2)


async def test_marker_with_an_older_coordinator_epoch_is_fenced(tmp_path: Path) -> None:
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        assert await write(broker, (TOPIC, [0]), coordinator_epoch=5) == [0]
        assert await write(broker, (TOPIC, [0]), coordinator_epoch=4) == [52]
        assert len(markers(broker, 0)) == 1


async def test_txn_offsets_are_visible_after_the_response_to_their_marker(tmp_path: Path) -> None:
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        replies: list[Any] = []
        commit = TxnOffsetCommit(
            Taker(replies.append),
            GROUP,
            PID,
            ZOMBIE.epoch,
            -1,
            "",
            None,
            [TopicOffsets(TOPIC, [0], [7], [-1], None, None)],
        )
        broker.groups.submit(GROUP, commit)
        await eventually("it is pending", lambda: replies)
        assert (await committed_offset(broker)) is None

        assert await write(broker, (OFFSETS_TOPIC, [HERE]), committed=True) == [0]

        assert (await committed_offset(broker)) == 7
        assert [each.committed for each in markers(broker, HERE, OFFSETS_TOPIC)] == [True]


async def committed_offset(broker: Broker) -> int | None:
    replies: list[Any] = []
    broker.groups.submit(GROUP, OffsetFetch(Taker(replies.append), GROUP, [(TOPIC, [0])]))
    await eventually("an answer", lambda: replies)
    entry = broker.groups.view_of(GROUP).offsets.get(GROUP, TOPIC, 0)
    return None if entry is None else int(entry.offset)


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.UNWRITABLE, Phase.FAILED])
async def test_marker_gets_not_leader_when_the_group_shard_is_not_active(
    tmp_path: Path, phase: Phase
) -> None:
    """NOT_LEADER_OR_FOLLOWER replaces the coordinator errors 14, 15 and 16, because the sender of a
    marker retries after this error."""
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        hosted = broker.groups.hosted_shards[HERE]
        hosted.phase = phase
        assert await write(broker, (OFFSETS_TOPIC, [HERE])) == [6]
        hosted.phase = Phase.ACTIVE
        assert await write(broker, (OFFSETS_TOPIC, [HERE])) == [0]


async def test_ten_thousand_markers_are_answered_in_order(tmp_path: Path) -> None:
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        codes = await write(broker, *[(TOPIC, [0, 2])] * 5_000)
        assert codes == [0, 3] * 5_000


async def test_marker_for_the_transaction_state_topic_is_refused(tmp_path: Path) -> None:
    """A shard of this topic tracks its log end offset. A marker would occupy the offset that the
    shard expects for its next record."""
    async with broker_with_a_hanging_transaction(tmp_path) as broker:
        producer = await initialised(broker, "t")
        assert await write(broker, (TRANSACTION_TOPIC, [0])) == [3]

        assert await added(broker, producer, [(TOPIC, [1]), (TRANSACTION_TOPIC, [0])]) == 0
        await ended(broker, producer, committed=True)

        await eventually("it is complete", lambda: state_now(broker, "t") == "CompleteCommit")
        assert not markers(broker, 0, TRANSACTION_TOPIC)
        assert not any(broker.internal_errors.counts.values())

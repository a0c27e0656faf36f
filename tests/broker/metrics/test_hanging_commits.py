"""Tests that the broker logs hanging offset commits: pending commits whose transaction is not
open."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import TopicOffsets, TxnOffsetCommit
from log.values import Marker
from offsets.partitioner import partition_for
from protocol.errors import NONE
from tests.broker.edge import Taker
from tests.broker.serving import eventually, serving
from tests.broker.transactions import TOPIC, Producer, added, initialised, served
from transactions.calls import TV1

GROUP = "g"
HERE = partition_for(GROUP, 2)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "2",
}
HANGS = "offset commits are pending in a transaction that has ended"


async def leave_pending_commit(broker: Broker, producer: Producer) -> None:
    """Adds a pending commit of a transaction after the end of the transaction. An earlier version
    of Muster had such commits."""
    answers: list[object] = []
    topics = [TopicOffsets(TOPIC, [0], [7], [-1], None, None)]
    call = TxnOffsetCommit(
        Taker(answers.append), GROUP, producer.producer_id, producer.epoch, -1, "", None, topics
    )
    broker.groups.submit(GROUP, call)
    await eventually("it is pending", lambda: answers)


@pytest.mark.parametrize("has_another_open", [False, True])
async def test_hanging_commits_are_logged_once_and_dropped_by_an_abort_marker(
    tmp_path: Path, has_another_open: bool
) -> None:
    async with serving(tmp_path, SETTINGS) as broker:
        await served(broker)
        await broker.topics.ensure(OFFSETS_TOPIC)
        await broker.topics.create(TOPIC, 1, {})
        producer = await initialised(broker, "id")
        if has_another_open:
            assert await added(broker, producer, [(TOPIC, [0])], TV1) == NONE
        await leave_pending_commit(broker, producer)
        with capture_logs() as lines:
            for _ in range(3):
                await broker.hanging_commits.look()
        [line] = [each for each in lines if each["event"] == HANGS]
        assert line["partition"] == f"{OFFSETS_TOPIC}-{HERE}"
        assert (line["producer_id"], line["producer_epoch"]) == (producer.producer_id, 0)
        assert line["end_it_with"] == (
            f"muster transactions abort --topic {OFFSETS_TOPIC}:{HERE} --start-offset 0"
        )

        answers: list[int] = []
        marker = Marker(
            producer.producer_id, producer.epoch, 0, committed=False
        )  # The command muster transactions abort sends the same marker.
        broker.local_markers.write(OFFSETS_TOPIC, HERE, marker, Taker(answers.append))
        await eventually("the marker is stable", lambda: answers)

        assert answers == [NONE]
        assert not list(broker.groups.view_of(GROUP).all_pending())
        hosted = broker.groups.hosted_for(GROUP)
        assert hosted is not None
        assert broker.lso_blockers.of(hosted.partition) is None


async def test_commits_of_an_open_transaction_are_not_logged_as_hanging(tmp_path: Path) -> None:
    async with serving(tmp_path, SETTINGS) as broker:
        await served(broker)
        await broker.topics.ensure(OFFSETS_TOPIC)
        producer = await initialised(broker, "id")
        assert await added(broker, producer, [(OFFSETS_TOPIC, [HERE])], TV1) == NONE
        await leave_pending_commit(broker, producer)
        with capture_logs() as lines:
            for _ in range(3):
                await broker.hanging_commits.look()
        assert not [each for each in lines if each["event"] == HANGS]

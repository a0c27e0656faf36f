"""Tests that each decision considers what the broker has accepted earlier in the same turn,
although the records are not appended yet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.apis.shared.add_partitions_on_write import Enlisted
from broker.apis.txn_offset_commit import _commit
from broker.broker import Broker
from broker.cores.groups.runtime import HostedGroups
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import TopicOffsets, TxnOffsetCommit
from coordinator.outcome import CommitReply
from log.values import Marker
from offsets.partitioner import partition_for
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    NONE,
    TRANSACTION_COORDINATOR_FENCED,
)
from tests.broker.edge import Taker
from tests.broker.serving import eventually, serving
from tests.broker.transactions import Producer, added, initialised, markers, served
from transactions.calls import TV1, TV2, Client, EndTransaction

ID, GROUP, TOPIC = "id", "g", "orders"
HERE = partition_for(GROUP, 2)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "2",
}


class OpenTransaction(NamedTuple):
    """An open transaction with a committed offset of a group. ``answers`` collects the replies to
    commits and markers of this transaction."""

    broker: Broker
    producer: Producer
    rules: int
    answers: list[Any]

    @property
    def hosted(self) -> HostedGroups:
        found = self.broker.groups.hosted_for(GROUP)
        assert found is not None
        return found

    def commit(self, offset: int) -> None:
        producer = self.producer
        topics = [TopicOffsets(TOPIC, [0], [offset], [-1], None, None)]
        call = TxnOffsetCommit(
            Taker(self.answers.append), GROUP, producer.producer_id, producer.epoch, -1, "", None,
            topics,
        )  # fmt: skip
        enlisted = Enlisted(ID, producer.producer_id, producer.epoch, self.rules, Client(), GROUP)
        services: Any = self.broker.server.services
        _commit(services, enlisted, call)

    def decide(self) -> None:
        """Submits an EndTxn that aborts the transaction. The coordinator sends the markers only
        after it has accepted the Prepare record."""
        call = EndTransaction(Taker(lambda _: None), *self.producer, False, self.rules)
        self.broker.transactions.submit(ID, call)

    def mark(self, epoch: int, coordinator_epoch: int = 1) -> None:
        """Writes a marker to the partition of the offsets topic that contains the group."""
        marker = Marker(self.producer.producer_id, epoch, coordinator_epoch, False, self.rules)
        ticket = Taker(self.answers.append)
        self.broker.local_markers.write(OFFSETS_TOPIC, HERE, marker, ticket)


@asynccontextmanager
async def open_transaction(directory: Path, rules: int) -> AsyncIterator[OpenTransaction]:
    async with serving(directory, SETTINGS) as broker:
        await served(broker)
        await broker.topics.ensure(OFFSETS_TOPIC)
        producer = await initialised(broker, ID)
        assert await added(broker, producer, [(OFFSETS_TOPIC, [HERE])], rules) == NONE
        transaction = OpenTransaction(broker, producer, rules, [])
        transaction.commit(7)
        await eventually("it is pending", lambda: transaction.answers)
        assert transaction.answers == [CommitReply(NONE)]
        transaction.answers.clear()
        yield transaction


@pytest.mark.parametrize(
    ("rules", "error"), [(TV1, CONCURRENT_TRANSACTIONS), (TV2, INVALID_PRODUCER_EPOCH)]
)
async def test_txn_offset_commit_is_refused_after_the_marker_in_the_same_turn(
    tmp_path: Path, rules: int, error: int
) -> None:
    async with open_transaction(tmp_path, rules) as transaction:
        transaction.decide()
        transaction.mark(transaction.producer.epoch + (rules == TV2))
        transaction.commit(8)

        assert transaction.hosted.accepted > transaction.hosted.appended, "it is one turn"
        assert transaction.answers == [CommitReply(error)]
        await eventually("the marker is stable", lambda: len(transaction.answers) == 2)
        assert not list(transaction.hosted.core.view.all_pending())


async def test_txn_offset_commit_is_accepted_after_end_txn_in_the_same_turn(
    tmp_path: Path,
) -> None:
    async with open_transaction(tmp_path, TV1) as transaction:
        transaction.commit(8)
        transaction.decide()
        transaction.commit(9)  # the later marker ends this commit too

        await eventually("all is answered", lambda: len(transaction.answers) == 2)
        assert transaction.answers == [CommitReply(NONE)] * 2


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ((5, 1), (4, 1), INVALID_PRODUCER_EPOCH),
        ((5, 2), (5, 1), TRANSACTION_COORDINATOR_FENCED),
        ((5, 1), (5, 1), NONE),
        ((5, 1), (6, 2), NONE),
    ],
)
async def test_marker_is_checked_against_an_earlier_marker_of_the_same_turn(
    tmp_path: Path, first: tuple[int, int], second: tuple[int, int], error: int
) -> None:
    async with open_transaction(tmp_path, TV1) as transaction:
        transaction.mark(*first)
        transaction.mark(*second)

        await eventually("all is answered", lambda: len(transaction.answers) == 2)
        assert sorted(transaction.answers) == sorted([NONE, error])
        written = [each.epoch for each in markers(transaction.broker, HERE, OFFSETS_TOPIC)]
        assert written == [first[0], second[0]][: 1 if error else 2]
        known = transaction.hosted.log.producers.get(transaction.producer.producer_id)
        assert known is not None
        assert known.epoch == max(written)


async def test_transaction_stays_open_in_the_partition_when_its_marker_cannot_be_written(
    tmp_path: Path,
) -> None:
    async with open_transaction(tmp_path, TV1) as transaction:
        hosted, (_, producer_id, epoch) = transaction.hosted, transaction.producer
        transaction.mark(epoch)
        assert not hosted.partition.producers_of(producer_id).in_transaction(producer_id, epoch)

        hosted.drop_unwritten(OSError("the disk"))

        assert hosted.partition.producers_of(producer_id).in_transaction(producer_id, epoch)

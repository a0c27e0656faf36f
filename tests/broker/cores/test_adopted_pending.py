"""Tests that Muster loads a data directory of Apache Kafka 4.3.1 with an open transaction that
contains offset commits.

The directory has committed, aborted and open transactions. Later commits outside transactions have
replaced the offsets of some transactions. tests/data/kafka-groups/README.md describes the
directory.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from broker.cores.hosted_shard import HostedShard
from coordinator.calls import EndOffsets
from log.partition_log import PartitionLog
from offsets.own_batches import own_batch
from offsets.runs import MarkerRun
from protocol.errors import NONE, UNSTABLE_OFFSET_COMMIT
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from protocol.records.batch import PLAIN_FORM, BatchHeader
from protocol.records.markers import transaction_end
from protocol.records.stored import iter_stored
from tests.broker.edge import EdgeBroker, Taker, eventually

KAFKAS = Path(__file__).parents[2] / "data" / "kafka-groups"
PARTITIONS = 3
PRODUCER = 1
"""The producer id of the open transaction."""


@pytest.fixture
def adopted(tmp_path: Path) -> Path:
    with tarfile.open(KAFKAS / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def of_group(broker: EdgeBroker, group_id: str) -> HostedShard[Any]:
    hosted = broker.groups.hosted_for(group_id)
    assert hosted is not None
    return hosted


async def fetched(broker: EdgeBroker, *, stable: bool) -> dict[int, tuple[int, int]]:
    client = await broker.client()
    asked = [{"name": "orders", "partition_indexes": [0, 1]}]
    reply = await client.call(
        OFFSET_FETCH.key, 7, group_id="pending", topics=asked, require_stable=stable
    )
    return {
        each["partition_index"]: (each["committed_offset"], each["error_code"])
        for each in reply["topics"][0]["partitions"]
    }


async def test_committed_and_pending_offsets_of_kafka_are_loaded(adopted: Path) -> None:
    told = json.loads((KAFKAS / "told.json").read_text())["committed"]
    async with EdgeBroker(adopted, partitions=PARTITIONS) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        for group_id, offsets in told.items():
            entries = of_group(broker, group_id).core.view.offsets.entries(group_id)
            found = {f"{topic}:{partition}": entry.offset for topic, partition, entry in entries}
            assert found == offsets, group_id
        assert of_group(broker, "pending").core.view.pending("pending") == [(PRODUCER, 0, 1)]
        unstable = (-1, UNSTABLE_OFFSET_COMMIT)
        assert await fetched(broker, stable=True) == {0: unstable, 1: (32, NONE)}
        assert await fetched(broker, stable=False) == {0: (30, NONE), 1: (32, NONE)}


@pytest.mark.parametrize("committed", [True, False])
async def test_open_transaction_that_kafka_began_is_ended_by_its_marker(
    adopted: Path, committed: bool
) -> None:
    ended = {0: (99 if committed else 30, NONE), 1: (32, NONE)}
    async with EdgeBroker(adopted, partitions=PARTITIONS) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        hosted = of_group(broker, "pending")
        assert hosted.log.first_unstable_offset == 2
        replies: list[Any] = []
        call = EndOffsets(Taker(replies.append), PRODUCER, 0, 1, committed)
        broker.groups.submit(hosted, call)
        await eventually(lambda: replies == [NONE])
        assert await fetched(broker, stable=True) == ended
        assert hosted.partition.last_stable_offset == hosted.log.log_end_offset
    async with EdgeBroker(adopted, partitions=PARTITIONS) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert await fetched(broker, stable=True) == ended


def own_batches(adopted: Path) -> list[tuple[bytes, BatchHeader]]:
    """Returns the bytes and headers of the transactional commits and the markers that Kafka wrote
    to partition 1."""
    data = (adopted / "__consumer_offsets-1" / f"{0:020}.log").read_bytes()
    return [
        (data[header.position : header.end], header)
        for header, _ in iter_stored(data, partial=True)
        if header.is_transactional
    ]


def test_marker_and_commit_header_have_the_same_bytes_as_in_kafka(adopted: Path) -> None:
    """The values of the commits differ: Kafka 4.3 writes version 4, and Muster writes version 3."""
    found = own_batches(adopted)
    markers = 0
    for data, header in found:
        if not header.is_control:
            assert (header.attributes, header.base_sequence) == (0x10, 0)
            assert header.base_timestamp == header.max_timestamp
            continue
        markers += 1
        header.position = 0
        end = transaction_end(data, header)
        assert end is not None
        committed, coordinator_epoch = end
        run = MarkerRun(header.producer_id, header.producer_epoch, coordinator_epoch, committed)
        epoch = header.partition_leader_epoch
        ours, _ = own_batch(run, PLAIN_FORM, header.base_offset, epoch, header.max_timestamp)
        assert ours == data
    assert markers > 5
    assert len(found) > 2 * markers - 2


@pytest.mark.proves("transactions 37")
def test_first_unstable_offset_is_recovered_from_a_log_of_kafka(adopted: Path) -> None:
    broker = EdgeBroker(adopted, partitions=PARTITIONS)
    logs: list[PartitionLog] = [partition.log for partition in broker.open_partitions()]
    assert logs[0].first_unstable_offset == 2
    assert all(log.first_unstable_offset >= log.log_end_offset for log in logs[1:])

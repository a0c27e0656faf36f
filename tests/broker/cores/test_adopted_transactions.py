"""Tests read_committed reads from a topic with transactions that another broker wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import ABORT, COMMIT
from protocol.records.stored import iter_stored, stored_records
from tests.broker.topic_calls import create_topic, fetch
from tests.broker.transactional import committed_values, ended, initialized, last_stable_offset
from tests.brokers import KIND, Broker
from tests.log.log_tools import NOW_MS
from tests.log.test_cleaner import end, transactional
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.skipif(KIND != "muster", reason="it writes into the broker's directory")

READ_COMMITTED = 1
ABORTED, COMMITTED, OPEN = 91, 92, 93
"""The producer ids of an aborted, a committed and an open transaction."""


@pytest.fixture
def adopted(brokers: Callable[..., Broker]) -> Broker:
    """Returns a broker whose topic `t` has an aborted, a committed and an open transaction."""
    broker = brokers({"log.retention.ms": "-1"})
    with Wire(broker.port) as wire:
        assert create_topic(wire, "t")["error_code"] == 0
    broker.kill()
    folder = str(broker.partition_folder("t", 0))
    log = PartitionLog.open(OsFileSystem(), folder, "t", 0, LogConfig())
    transactional(log, ABORTED, 0, b"a", b"b")  # offsets 0 and 1
    transactional(log, COMMITTED, 0, b"c")  # offset 2
    end(log, ABORTED, ABORT)  # offset 3
    transactional(log, OPEN, 0, b"d")  # offset 4
    end(log, COMMITTED, COMMIT)  # offset 5
    return broker.start()


def test_read_committed_fetch_ends_at_an_open_transaction(adopted: Broker) -> None:
    with Wire(adopted.port) as wire:
        answer = fetch(wire, "t", isolation_level=READ_COMMITTED)
        assert (answer["high_watermark"], answer["last_stable_offset"]) == (6, 4)
        assert answer["aborted_transactions"] == [{"producer_id": ABORTED, "first_offset": 0}]
        found = list(iter_stored(answer["records"]))
        assert [header.last_offset for header, _ in found] == [1, 2, 3]

        answer = fetch(wire, "t", 4, isolation_level=READ_COMMITTED)
        assert not answer["records"], "nothing behind the open transaction's beginning"

        answer = fetch(wire, "t")
        assert answer["aborted_transactions"] is None
        keys = [
            record.key
            for header, _ in iter_stored(answer["records"])
            if not header.is_control
            for record in stored_records(answer["records"], header)
        ]
        assert keys == [b"a", b"b", b"c", b"d"], "who reads uncommitted records reads all"


def test_list_offsets_with_read_committed_ends_at_the_start_of_an_open_transaction(
    adopted: Broker,
) -> None:
    def asked(timestamp: int, isolation_level: int) -> int:
        with Wire(adopted.port) as wire:
            request = {
                "replica_id": -1,
                "isolation_level": isolation_level,
                "topics": [
                    {"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
                ],
            }
            answer = wire.call("ListOffsets", 7, request)["topics"][0]["partitions"][0]
            assert answer["error_code"] == 0
            offset: int = answer["offset"]
            return offset

    latest, earliest, newest = -1, -2, -3
    assert asked(latest, READ_COMMITTED) == 4
    assert asked(latest, 0) == 6
    assert asked(earliest, READ_COMMITTED) == 0
    assert asked(NOW_MS, READ_COMMITTED) == 0
    assert asked(newest, READ_COMMITTED) == 0


def test_describe_producers_returns_the_start_offset_of_an_open_transaction(
    adopted: Broker,
) -> None:
    with Wire(adopted.port) as wire:
        topics = [{"name": "t", "partition_indexes": [0]}]
        [topic] = wire.call("DescribeProducers", 0, {"topics": topics})["topics"]
        [partition] = topic["partitions"]
        began = {
            producer["producer_id"]: producer["current_txn_start_offset"]
            for producer in partition["active_producers"]
        }
        assert began == {ABORTED: -1, COMMITTED: -1, OPEN: 4}


@pytest.mark.parametrize("rules", [1, 2])
def test_transactions_complete_when_partitions_have_a_higher_coordinator_epoch(
    brokers: Callable[..., Broker], rules: int
) -> None:
    """The data directory comes from a cluster with coordinator epoch 40."""
    broker = brokers()
    with Wire(broker.port) as wire:
        assert create_topic(wire, "t")["error_code"] == 0
        producer = initialized(wire, "id", rules)
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "transaction_result": True,
            "topics": [{"name": "t", "partition_indexes": [0]}],
            "coordinator_epoch": 40,
        }
        [answer] = wire.call("WriteTxnMarkers", 1, {"markers": [marker]})["markers"]
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0
    broker.kill()
    broker.start()

    with Wire(broker.port) as wire:
        producer.wire = wire
        for committed in (True, False, True):
            value = b"kept" if committed else b"dropped"
            until("the shard serves", lambda: producer.init() == 0)
            if rules == 1:
                assert producer.add({"t": [0]}) == 0
            assert producer.produce("t", value)["error_code"] == 0
            assert producer.end(committed) == 0
            ended(wire, "t")

        answer = fetch(wire, "t", isolation_level=READ_COMMITTED)
        assert committed_values(answer) == [b"kept", b"kept"]
        assert last_stable_offset(wire, "t") == answer["high_watermark"] == 7

"""Transactions at the wire, for what no client does: one that hangs."""

from __future__ import annotations

import time

from protocol.errors import NONE, RETRIABLE
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire, batch


def hang(broker: Broker, transactional_id: str, topic: str, partition: int) -> None:
    """Two records of a transaction that its coordinator knows nothing of, as a late batch left
    them before KIP-890. The broker must not verify (transaction.partition.verification.enable)."""
    with Wire(broker.port) as wire:
        ready = until("there is a coordinator", lambda: _producer(wire, transactional_id))
        producer_id, epoch = ready
        data = batch(
            b"a",
            b"b",
            timestamp=round(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        asked = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": data}]}
            ],
        }
        answer = wire.call("Produce", 9, asked)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == NONE


def _producer(wire: Wire, transactional_id: str) -> tuple[int, int] | None:
    found = wire.call("FindCoordinator", 2, {"key": transactional_id, "key_type": 1})
    if found["error_code"] in RETRIABLE:
        return None
    assert found["error_code"] == NONE
    asked = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    made = wire.call("InitProducerId", 4, asked)
    if made["error_code"] in RETRIABLE:
        return None
    assert made["error_code"] == NONE
    return made["producer_id"], made["producer_epoch"]

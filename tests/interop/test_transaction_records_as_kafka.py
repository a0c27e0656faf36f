"""The core of the transaction coordinator writes the same records as Apache Kafka 4.3.1 for the
same requests. ``MUSTER_GOLDEN=write`` rewrites the golden file of tests/transactions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    NOT_COORDINATOR,
)
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.brokers import KafkaBroker, running
from tests.transactions.kafka_records import (
    STEPS,
    TOPICS,
    Step,
    StoredRecord,
    by_id,
    core_records,
    write_golden,
)
from tests.waiting import until
from tests.wire import Wire
from transactions.record_codec import decode_value
from transactions.states import State

pytestmark = pytest.mark.interop

SETTINGS = {"transaction.state.log.num.partitions": "1", "auto.create.topics.enable": "false"}
_MEANWHILE = (CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR)
"""Errors that Kafka returns while it is not ready. The test repeats the request. NOT_COORDINATOR
occurs only on a busy machine."""


DONE = {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}


class Speaker:
    """Sends each step to a broker. Repeats a step while its error is retriable."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.has: dict[str, tuple[int, int]] = {}

    def say(self, step: Step) -> None:
        def settled() -> bool:
            error = self._ask(step)
            assert error in (NONE, *_MEANWHILE)
            return error == NONE

        until(f"{step} is done", settled, tolerate=())

    def _ask(self, step: Step) -> int:
        producer_id, epoch = self.has.get(step.transactional_id, (-1, -1))
        owner = {
            "transactional_id": step.transactional_id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }
        if step.verb == "add":
            return self._add(step, owner)
        if step.verb == "init":
            given = owner if step.goes_on else {"transactional_id": step.transactional_id}
            name, asked = "InitProducerId", {**given, "transaction_timeout_ms": step.timeout_ms}
        else:
            name, asked = "EndTxn", {**owner, "committed": step.committed}
        answer = self.wire.call(name, step.version, asked)
        if answer.get("producer_id", -1) >= 0:
            has = (answer["producer_id"], answer["producer_epoch"])
            self.has[step.transactional_id] = has
        error: int = answer["error_code"]
        return error

    def _add(self, step: Step, owner: dict[str, Any]) -> int:
        topics = [{"name": topic, "partitions": ids} for topic, ids in step.partitions.items()]
        if step.version >= 4:
            asked = {"transactions": [{**owner, "verify_only": False, "topics": topics}]}
            [answer] = self.wire.call("AddPartitionsToTxn", step.version, asked)[
                "results_by_transaction"
            ]
            results = answer["topic_results"]
        else:
            asked = {f"v3_and_below_{key}": value for key, value in owner.items()}
            asked["v3_and_below_topics"] = topics
            answer = self.wire.call("AddPartitionsToTxn", step.version, asked)
            results = answer["results_by_topic_v3_and_below"]
        partitions = [each for topic in results for each in topic["results_by_partition"]]
        [error] = {each["partition_error_code"] for each in partitions}
        return int(error)


def stored(folder: Path) -> list[StoredRecord]:
    """Returns all records in the log of a partition directory."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    return [
        (record.key or b"", record.value)
        for header, _ in iter_stored(data, partial=True)
        for record in records_of(data, header)
    ]


def complete(records: list[StoredRecord]) -> list[StoredRecord] | None:
    """Returns the records if all transactions in them are complete, else None."""
    last = {key: decode_value(value)[0].state for key, value in records if value is not None}
    return records if DONE.issuperset(last.values()) else None


def test_transaction_records_of_the_core_equal_those_of_kafka(tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "data", SETTINGS)
    with running(kafka), Wire(kafka.port) as wire:
        made = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in TOPICS.items()
        ]
        wire.call("CreateTopics", 4, {"topics": made, "timeout_ms": 20_000})
        asked = {"key": "tv1", "key_type": 1}
        until(
            "there is a coordinator",
            lambda: wire.call("FindCoordinator", 3, asked)["error_code"] == NONE,
        )
        speaker = Speaker(wire)
        for step in STEPS:
            speaker.say(step)
        folder = kafka.partition_folder("__transaction_state", 0)
        records = until("all is complete", lambda: complete(stored(folder)))
    assert core_records(records) == by_id(records)
    if os.environ.get("MUSTER_GOLDEN") == "write":
        write_golden(records)

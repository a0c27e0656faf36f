"""A transactional producer that sends the request versions of transaction version 1 or 2."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.broker import transactional_calls as calls
from tests.broker.topic_calls import fetch, topic_id
from tests.waiting import until
from tests.wire import Wire, batch

PRODUCE = {1: 11, 2: 12}
TXN_OFFSET_COMMIT = {1: 4, 2: 5}
END_TXN = {1: 4, 2: 5}
"""For each transaction version, the highest version of EndTxn that a client sends. The constants
PRODUCE and TXN_OFFSET_COMMIT have the same form for the requests Produce and TxnOffsetCommit."""


def initialized(
    wire: Wire, transactional_id: str, rules: int = 2, timeout_ms: int = 60_000
) -> TransactionalProducer:
    """Returns a producer that has a producer id and epoch. Fences the previous producer of the
    transactional id."""
    producer = TransactionalProducer(wire, transactional_id, rules, timeout_ms)
    until(f"{transactional_id} gets its producer id", lambda: producer.init() == NONE)
    return producer


@dataclass
class TransactionalProducer:
    """The state of a transactional producer, and one method for each of its requests."""

    wire: Wire
    transactional_id: str
    rules: int = 2
    """The transaction version: 1 or 2."""
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next sequence number by topic and partition."""

    @property
    def pair(self) -> calls.Pair:
        return self.producer_id, self.epoch

    def init(self, version: int = 4, **fields: Any) -> int:
        """Sends InitProducerId and returns the error code. After success, adopts the producer id
        and epoch of the response."""
        answer = calls.init_once(
            self.wire, self.transactional_id, version, timeout_ms=self.timeout_ms, **fields
        )
        code: int = answer["error_code"]
        if code in (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR):
            calls.find(self.wire, self.transactional_id)
        elif code == NONE:
            self.adopt(answer["producer_id"], answer["producer_epoch"])
        return code

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Stores a producer id and epoch. If one of them changes, the sequence numbers start at 0
        again."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add(self, topics: Mapping[str, Sequence[int]], version: int = 3) -> int:
        """Sends AddPartitionsToTxn as a client and returns the highest error code. Repeats the
        request while it returns CONCURRENT_TRANSACTIONS."""
        codes: list[int] = []

        def added() -> bool:
            found = calls.add(
                self.wire, self.transactional_id, self.pair, list(topics.items()), version
            )
            codes[:] = found.values()
            return CONCURRENT_TRANSACTIONS not in codes

        until("the transaction before is completed", added)
        return max(codes)

    def add_offsets(self, group_id: str, version: int = 3) -> int:
        return calls.add_offsets(self.wire, self.transactional_id, self.pair, group_id, version)

    def records(self, name: str, partition: int, *values: bytes, **fields: Any) -> bytes:
        """Returns the next batch for a partition. ``fields`` override fields of the batch
        header."""
        return batch(
            *values,
            **{
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": self.sequences.get((name, partition), 0),
                "is_transactional": True,
                "timestamp": int(
                    time.time() * 1000
                ),  # a marker 50 years later would have its own segment
                **fields,
            },
        )

    def ask_produce(
        self,
        parts: Mapping[tuple[str, int], bytes],
        acks: int = -1,
        topic_id: bytes = bytes(16),
        **fields: Any,
    ) -> dict[str, Any]:
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for (name, partition), data in parts.items():
            by_topic.setdefault(name, []).append({"index": partition, "records": data})
        return {
            "transactional_id": self.transactional_id,
            "acks": acks,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": name, "topic_id": topic_id, "partition_data": data}
                for name, data in by_topic.items()
            ],
            **fields,
        }

    def produce(
        self,
        name: str,
        *values: bytes,
        partition: int = 0,
        version: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Produces a batch in the transaction and returns the partition's entry in the response."""
        data = self.records(name, partition, *(values or (b"v",)), **fields)
        [entry] = self.produce_all({(name, partition): data}, version)
        if entry["error_code"] == NONE:
            key = name, partition
            self.sequences[key] = self.sequences.get(key, 0) + len(values or (b"v",))
        return entry

    def produce_all(
        self, parts: Mapping[tuple[str, int], bytes], version: int | None = None, **fields: Any
    ) -> list[dict[str, Any]]:
        """Sends one Produce request with the given batches and returns the response entries of the
        partitions, in order."""
        version = PRODUCE[self.rules] if version is None else version
        answer = self.wire.call("Produce", version, self.ask_produce(parts, **fields))
        return [entry for topic in answer["responses"] for entry in topic["partition_responses"]]

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[tuple[str, int], int],
        version: int | None = None,
        **fields: Any,
    ) -> list[int]:
        version = TXN_OFFSET_COMMIT[self.rules] if version is None else version
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for (name, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset}
            by_topic.setdefault(name, []).append({**entry, "committed_metadata": ""})

        def named(name: str) -> dict[str, Any]:
            return {"topic_id": topic_id(self.wire, name)} if version >= 6 else {"name": name}

        value = {
            "transactional_id": self.transactional_id,
            "group_id": group_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [{**named(name), "partitions": data} for name, data in by_topic.items()],
            **fields,
        }
        answer = self.wire.call("TxnOffsetCommit", version, value)
        return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]

    def end(self, commit: bool, version: int | None = None, **fields: Any) -> int:
        """Sends EndTxn and returns the error code. With transaction version 2, adopts the producer
        id and epoch of the response."""
        version = END_TXN[self.rules] if version is None else version
        code, after = calls.end_once(
            self.wire, self.transactional_id, self.pair, commit, version, **fields
        )
        if code == NONE and version >= END_TXN[2]:
            self.adopt(*after)
        return code


def last_stable_offset(wire: Wire, name: str, partition: int = 0) -> int:
    answer = fetch(wire, name, 0, partition=partition, isolation_level=1)
    offset: int = answer["last_stable_offset"]
    return offset


def ended(wire: Wire, name: str, partition: int = 0) -> None:
    """Waits until the partition has no open transaction."""

    def settled() -> bool:
        answer = fetch(wire, name, 0, partition=partition, isolation_level=1)
        return bool(answer["last_stable_offset"] == answer["high_watermark"])

    until(f"{name}-{partition} has no open transaction", settled)


def committed_values(answer: Mapping[str, Any]) -> list[bytes]:
    """Returns the values that a read_committed client returns to its application. Skips the records
    of aborted transactions, up to their ABORT markers."""
    data = answer["records"] or b""
    begins = sorted(
        (entry["first_offset"], entry["producer_id"]) for entry in answer["aborted_transactions"]
    )
    aborted: set[int] = set()
    found: list[bytes] = []
    for header, _ in iter_stored(data, partial=True):
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.is_control:
            [marker] = records_of(data, header)
            if marker.key is not None and marker.key[2:4] == b"\0\0":
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [record.value or b"" for record in records_of(data, header)]
    return found

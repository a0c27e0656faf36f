"""Sends records to the leaders of a topic's partitions, batch by batch, one request at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cli import clock, output
from cli.client.cluster import RETRY_S, Cluster, Connection
from cli.errors import CommandError, refused
from cli.topics.sources import Outgoing
from client.connection import Value
from protocol import errors
from protocol.records.batch import encode_batch

BATCH_RECORDS = 1000
BATCH_BYTES = 256 * 1024
_TOO_LARGE = (errors.MESSAGE_TOO_LARGE, errors.RECORD_LIST_TOO_LARGE)


class Manner(NamedTuple):
    """The options that determine how batches are sent."""

    acks: int
    codec: int
    partition: int | None


class Producer:
    """Produces to one topic. ``sent`` is the number of acknowledged records."""

    def __init__(self, cluster: Cluster, topic: str, manner: Manner) -> None:
        self.cluster, self.topic, self.manner = cluster, topic, manner
        self.sent = 0
        self.ends: dict[int, int] = {}
        """The offset after the last acknowledged record, by partition."""
        self._turn = 0
        self._partitions: list[int] = []
        self._leaders: dict[int, Connection] = {}
        self._find_leaders()
        if manner.partition is not None and manner.partition not in self._partitions:
            count = output.counted(len(self._partitions), "partition")
            raise CommandError(
                f"partition {topic}:{manner.partition} does not exist; {topic} has {count}"
            )

    def _find_leaders(self) -> None:
        answer = self.cluster.metadata([self.topic])
        [found] = answer["topics"]
        if found["error_code"]:
            raise self.cluster.refused_topic(found)
        self._partitions = sorted(each["partition_index"] for each in found["partitions"])
        self._leaders = {p: leader for (_, p), leader in self.cluster.leaders_in(answer).items()}

    def send(self, records: Sequence[Outgoing]) -> None:
        """Sends records. Raises CommandError for a record that the broker rejects."""
        by_partition: dict[int, list[Outgoing]] = {}
        for each in records:
            by_partition.setdefault(self._target(each.record.key), []).append(each)
        self._turn += 1
        for partition, found in by_partition.items():
            for batch in _batches(found):
                self._append(partition, batch)

    def _target(self, key: bytes | None) -> int:
        if self.manner.partition is not None:
            return self.manner.partition
        if key is not None:
            return partition_of_key(key, len(self._partitions))
        able = sorted(self._leaders) or self._partitions
        return able[self._turn % len(able)]  # records without a key change partition per piece

    def _append(self, partition: int, batch: Sequence[Outgoing]) -> None:
        deadline_s = clock.monotonic_s() + self.cluster.timeout_s
        while True:
            result = self._ask(partition, batch)
            code = result["error_code"]
            if not code:
                self.sent += len(batch)
                self.ends[partition] = result["base_offset"] + len(batch)
                return
            if code in _TOO_LARGE and len(batch) > 1:
                half = len(batch) // 2
                self._append(partition, batch[:half])
                self._append(partition, batch[half:])
                return
            if code not in errors.RETRIABLE or clock.monotonic_s() > deadline_s:
                raise self._refused(partition, batch, result)
            clock.sleep(RETRY_S)
            self._find_leaders()

    def _ask(self, partition: int, batch: Sequence[Outgoing]) -> Value:
        leader = self._leaders.get(partition)
        if leader is None:
            return {"error_code": errors.LEADER_NOT_AVAILABLE}
        if leader.version_of("Produce") < 3:
            raise CommandError(
                "this broker does not accept record batches: use Kafka 0.11 or later"
            )
        now_ms = clock.now_ms()
        records = [
            each.record._replace(
                offset=number,
                timestamp=now_ms if each.record.timestamp < 0 else each.record.timestamp,
            )
            for number, each in enumerate(batch)
        ]
        data = encode_batch(records, base_offset=0, compression=self.manner.codec)
        request = {
            "transactional_id": None,
            "acks": self.manner.acks,
            "timeout_ms": int(self.cluster.timeout_s * 1000),
            "topic_data": [
                {"name": self.topic, "partition_data": [{"index": partition, "records": data}]}
            ],
        }
        answer = leader.call("Produce", request, self.cluster.timeout_s + 5)
        return dict(answer["responses"][0]["partition_responses"][0])

    def _refused(self, partition: int, batch: Sequence[Outgoing], result: Value) -> CommandError:
        code, message = result["error_code"], result.get("error_message")
        what = batch[0].what if len(batch) == 1 else f"{batch[0].what} to {batch[-1].what}"
        if wrong := result.get("record_errors"):
            what = batch[wrong[0]["batch_index"]].what
            message = wrong[0]["batch_index_error_message"] or message
        if code in _TOO_LARGE:
            record = batch[0].record
            size = len(record.key or b"") + len(record.value or b"")
            return CommandError(
                f"{what} has {size} bytes, more than topic {self.topic} allows: check `muster"
                f" configs get max.message.bytes --topic {self.topic}`"
            )
        return refused(f"{what} for {self.topic}:{partition}", code, message)


def _batches(records: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
    batch: list[Outgoing] = []
    size = 0
    for each in records:
        length = len(each.record.key or b"") + len(each.record.value or b"")
        if batch and (len(batch) == BATCH_RECORDS or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield batch


_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Returns Kafka's 32-bit murmur2 hash of ``data`` as an unsigned number."""
    length = len(data)
    value = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little")
        block = (block * _MULTIPLIER) & _MASK
        block ^= block >> 24
        block = (block * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ block
    if length > whole:
        value ^= int.from_bytes(data[whole:], "little")
        value = (value * _MULTIPLIER) & _MASK
    value ^= value >> 13
    value = (value * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Returns the partition that Kafka's Java client chooses for the key (murmur2)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

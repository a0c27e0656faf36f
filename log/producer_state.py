"""The idempotent producers of a partition: the last five batches of each.

A batch that is among them is a duplicate and answered with its first offsets; one that leaves a gap
is refused with OUT_OF_ORDER_SEQUENCE_NUMBER, one of an older epoch with INVALID_PRODUCER_EPOCH. A
producer that is not known (its records have gone, or it is new here) may begin with any sequence,
as in Kafka since 2.5. The state is a fold of the log's batch headers; Kafka's ``.snapshot`` files,
written when a segment is rolled and when the log is closed, save reading them all again.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import ItemsView
from typing import NamedTuple

from log.batch_scan import Header
from log.errors import AppendRefused
from protocol.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
from protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from protocol.records.crc import crc32c

BATCHES_KEPT = 5
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKED_FROM = 6  # the snapshot's CRC covers what is behind it
_SEQUENCE_MASK = 0x7FFFFFFF


class Appended(NamedTuple):
    """One batch of a producer: its sequence numbers, where it lies, and when it was written."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Producer:
    """A producer's current epoch and the last batches it wrote under it, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[Appended] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 when none is known."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """The producers of one partition by producer id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self.open_transactions: dict[int, int] = {}
        """First offset of each producer's transaction that has no marker yet."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def highest_id(self) -> int:
        """The highest producer id that is known, -1 without any."""
        return max(self._producers, default=-1)

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def items(self) -> ItemsView[int, Producer]:
        """What is known, by producer id."""
        return self._producers.items()

    def duplicate_of(self, batch: BatchHeader) -> Appended | None:
        """The batch already in the log that ``batch`` repeats."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        for known in producer.batches:
            if (
                known.first_sequence == batch.base_sequence
                and known.last_sequence == batch.last_sequence
            ):
                return known
        return None

    def check(self, batch: BatchHeader) -> None:
        """Raise AppendRefused unless ``batch``, which is no duplicate, may come next."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return
        if batch.producer_epoch < producer.epoch:
            raise AppendRefused(
                INVALID_PRODUCER_EPOCH,
                f"Producer {batch.producer_id} has epoch {producer.epoch} here, and the batch"
                f" has the older epoch {batch.producer_epoch}.",
            )
        if batch.producer_epoch > producer.epoch:
            due = 0
        elif not producer.batches:
            return
        else:
            due = (producer.last_sequence + 1) & _SEQUENCE_MASK
        if batch.base_sequence != due:
            raise AppendRefused(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence number"
                f" {batch.base_sequence} where {due} is due.",
            )

    def note(self, batch: BatchHeader | Header) -> None:
        """Enter a batch that lies in the log."""
        if batch.producer_id < 0:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            producer = self._producers[batch.producer_id] = Producer(batch.producer_epoch)
        elif batch.producer_epoch > producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.batches.clear()
        producer.last_timestamp_ms = batch.max_timestamp
        if batch.attributes & CONTROL_BIT:
            self.open_transactions.pop(batch.producer_id, None)
        elif batch.attributes & TRANSACTIONAL_BIT:
            self.open_transactions.setdefault(batch.producer_id, batch.base_offset)
        if batch.base_sequence >= 0:  # markers of transactions have none
            count = batch.last_offset - batch.base_offset
            producer.batches.append(
                Appended(
                    batch.base_sequence,
                    (batch.base_sequence + count) & _SEQUENCE_MASK,
                    batch.base_offset,
                    batch.last_offset,
                    batch.max_timestamp,
                )
            )

    def expire(self, before_ms: int) -> None:
        """Forget the producers that wrote nothing since ``before_ms`` (record timestamps)."""
        gone = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.last_timestamp_ms < before_ms and producer_id not in self.open_transactions
        ]
        for producer_id in gone:
            del self._producers[producer_id]

    def clear(self) -> None:
        """Forget all, to read the log again."""
        self._producers.clear()
        self.open_transactions.clear()

    def last_batches(self) -> dict[int, tuple[int, int]]:
        """Offset of the last data batch's last record (-1 without one) and epoch, by producer."""
        return {
            producer_id: (
                producer.batches[-1].last_offset if producer.batches else -1,
                producer.epoch,
            )
            for producer_id, producer in self._producers.items()
        }

    def snapshot(self) -> bytes:
        """Bytes of Kafka's ``.snapshot`` file: of each producer the last batch alone."""
        entries = []
        for producer_id, producer in self._producers.items():
            last = producer.batches[-1] if producer.batches else Appended(-1, -1, -1, -1, -1)
            entries.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id,
                    producer.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.first_offset,
                    producer.last_timestamp_ms,
                    producer.coordinator_epoch,
                    self.open_transactions.get(producer_id, -1),
                )
            )
        body = struct.pack(">i", len(entries)) + b"".join(entries)
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body

    def restore(self, data: bytes) -> bool:
        """Take over a ``.snapshot`` file; False, and nothing known, when it is damaged."""
        self.clear()
        if len(data) < _SNAPSHOT_HEADER.size:
            return False
        version, checksum, count = _SNAPSHOT_HEADER.unpack_from(data)
        if (
            version != _SNAPSHOT_VERSION
            or crc32c(data[_CHECKED_FROM:]) != checksum
            or len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size
        ):
            return False
        for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
            (
                producer_id, epoch, last_sequence, last_offset,
                delta, timestamp_ms, coordinator, transaction_offset,
            ) = fields  # fmt: skip
            if transaction_offset >= 0:
                self.open_transactions[producer_id] = transaction_offset
            producer = self._producers[producer_id] = Producer(epoch)
            producer.last_timestamp_ms = timestamp_ms
            producer.coordinator_epoch = coordinator
            if last_sequence >= 0:
                producer.batches.append(
                    Appended(
                        (last_sequence - delta) & _SEQUENCE_MASK,
                        last_sequence,
                        last_offset - delta,
                        last_offset,
                        timestamp_ms,
                    )
                )
        return True

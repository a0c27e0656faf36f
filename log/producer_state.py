"""The producers of a partition: the last five batches of each, and its open transaction.

A batch that is among the five is a duplicate and answered with its first offsets; one that leaves a
gap is refused with OUT_OF_ORDER_SEQUENCE_NUMBER, one of an older epoch with INVALID_PRODUCER_EPOCH.
A producer that is not known (its records have gone, or it is new here) may begin with any sequence,
as in Kafka since 2.5. A marker ends a transaction; which epochs it may have depends on the rules of
its transaction (KIP-890). The state is a fold of the log's batches; Kafka's ``.snapshot`` files,
written when a segment is rolled and when the log is closed, save reading them all again.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from log.batch_scan import Header
from log.errors import AppendRefused
from log.transaction_index import Aborted
from log.values import Ended
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
)
from protocol.records.batch import TRANSACTIONAL_BIT, BatchHeader
from protocol.records.crc import crc32c

BATCHES_KEPT = 5
EXPIRED_AT_ONCE = 10_000
"""So many producers are looked at in one step: about 2 ms."""
EPOCH_MAX = 32767
"""Given to no client: it only fences."""
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKED_FROM = 6  # the snapshot's CRC covers what is behind it
_SEQUENCE_MASK = 0x7FFFFFFF


class Appended(NamedTuple):
    """One batch of a producer: its sequence numbers, where it lies, and when it was written.

    A coordinator's batch of a transaction has no sequence numbers: both are -1.
    """

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
        self.batches: list[Appended] = []
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        """The highest that a marker of this producer had; -1 before the first."""

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 when none is known."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """The producers of one partition by producer id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self.open_transactions: OrderedDict[int, int] = OrderedDict()
        """First offset of each producer's transaction that has no marker yet; the oldest first."""
        self.ended: deque[tuple[int, int]] = deque()
        """Of the transactions that ended, those whose markers may not be stable yet: the offsets of
        marker and first record, both ascending. One that neither began first nor lasts longest is
        left out."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def highest_id(self) -> int:
        """The highest producer id that is known, -1 without any."""
        return max(self._producers, default=-1)

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def ids(self) -> list[int]:
        """A copy of the producer ids, 9 ms for a million: who goes through it may take his time."""
        return list(self._producers)

    # -- what may come next

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer, in this epoch, is open here."""
        if producer_id not in self.open_transactions:
            return False
        producer = self._producers.get(producer_id)
        return producer is not None and producer.epoch == epoch

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

    def check(self, batch: BatchHeader, from_zero: bool = False) -> None:
        """Raise AppendRefused unless ``batch``, which is no duplicate, may come next.

        With ``from_zero`` a producer that is not known begins with sequence number 0: under TV2
        each transaction has an epoch of its own.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch < 0:
            due = 0 if from_zero else batch.base_sequence
        elif batch.producer_epoch < producer.epoch:
            raise _old_epoch(batch.producer_id, producer.epoch, "the batch", batch.producer_epoch)
        elif batch.producer_epoch > producer.epoch or not producer.batches:
            due = 0
        else:
            due = (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
        if batch.base_sequence != due:
            raise AppendRefused(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {batch.producer_id} epoch {batch.producer_epoch} sent sequence number"
                f" {batch.base_sequence} where {due} is due.",
            )
        if batch.producer_id in self.open_transactions and not batch.attributes & TRANSACTIONAL_BIT:
            raise AppendRefused(
                INVALID_TXN_STATE,
                f"Producer {batch.producer_id} sent a batch outside of its transaction, which is"
                f" open here since offset {self.open_transactions[batch.producer_id]}.",
            )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, rules: int
    ) -> None:
        """Raise AppendRefused unless a marker may end the producer's transaction.

        By ``rules`` 1 its epoch is that of the transaction or higher. By ``rules`` 2 it is higher,
        and equal only when it is sent again, with nothing open, or has no higher one to come.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        known = producer.epoch
        is_repeated = epoch == known and (
            producer_id not in self.open_transactions or epoch == EPOCH_MAX
        )
        if epoch < known or (rules >= 2 and epoch == known and not is_repeated):
            raise _old_epoch(producer_id, known, "the marker", epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise AppendRefused(
                TRANSACTION_COORDINATOR_FENCED,
                f"The marker for producer {producer_id} comes from coordinator epoch"
                f" {coordinator_epoch}, and one from epoch {producer.coordinator_epoch} was here.",
            )

    def trial(self, batches: Sequence[BatchHeader]) -> ProducerStates:
        """The states of the producers of ``batches``, to be changed without changing these."""
        trial = ProducerStates()
        for producer_id in {batch.producer_id for batch in batches}:
            known = self._producers.get(producer_id)
            if known is not None:
                copied = trial._producers[producer_id] = Producer(known.epoch)
                copied.batches = known.batches[-1:]
            begun = self.open_transactions.get(producer_id)
            if begun is not None:
                trial.open_transactions[producer_id] = begun
        return trial

    # -- what has come

    def note(self, batch: BatchHeader | Header) -> None:
        """Enter a batch that lies in the log, and is no control batch."""
        if batch.producer_id < 0:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            producer = self._of_epoch(batch.producer_id, batch.producer_epoch)
        producer.last_timestamp_ms = batch.max_timestamp
        first, last = batch.base_offset, batch.last_offset
        last_sequence = sequence = batch.base_sequence
        if batch.attributes & TRANSACTIONAL_BIT:
            self.open_transactions.setdefault(batch.producer_id, first)
        elif sequence < 0:
            return
        if sequence >= 0:
            last_sequence = (sequence + last - first) & _SEQUENCE_MASK
        batches = producer.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(Appended(sequence, last_sequence, first, last, batch.max_timestamp))

    def end(self, ended: Ended) -> None:
        """Enter a marker that lies in the log, and is in the index of aborted transactions."""
        marker = ended.marker
        producer = self._of_epoch(marker.producer_id, marker.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = ended.timestamp_ms
        began = self.open_transactions.pop(marker.producer_id, None)
        if began is not None:
            ended_ones = self.ended
            while ended_ones and ended_ones[-1][1] >= began:
                ended_ones.pop()
            ended_ones.append((ended.offset, began))

    def settle(self, high_watermark: int) -> None:
        """All below is stable: transactions whose markers are there hold nobody back."""
        ended = self.ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def note_epoch(self, producer_id: int, epoch: int) -> None:
        """Enter a control batch that a cleaner has emptied: its epoch still fences."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch < epoch:
            self._of_epoch(producer_id, epoch)

    def _of_epoch(self, producer_id: int, epoch: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(epoch)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def aborted_by(self, batches: Sequence[BatchHeader | Ended]) -> list[Aborted]:
        """What the index of aborted transactions gets when ``batches`` are appended, in order."""
        began = self.open_transactions
        if len(batches) > 1:
            began = began.copy()
        aborted: list[Aborted] = []
        for batch in batches:
            if isinstance(batch, BatchHeader):
                if batch.attributes & TRANSACTIONAL_BIT:
                    began.setdefault(batch.producer_id, batch.base_offset)
                continue
            producer_id = batch.marker.producer_id
            since = began.get(producer_id)
            if since is not None and not batch.marker.committed:
                stable = next(
                    (first for other, first in began.items() if other != producer_id),
                    batch.offset + 1,
                )
                aborted.append(Aborted(producer_id, since, batch.offset, stable))
            if began is not self.open_transactions:
                began.pop(producer_id, None)
        return aborted

    def expire(self, before_ms: int) -> Iterator[None]:
        """Forget the producers that wrote nothing since ``before_ms`` (record timestamps).

        In short steps, between which the states may change. One with an open transaction stays.
        """
        producers, opened = self._producers, self.open_transactions
        known = iter(self.ids())
        while ids := list(islice(known, EXPIRED_AT_ONCE)):
            for producer_id in ids:
                producer = producers.get(producer_id)
                if (
                    producer is not None
                    and producer.last_timestamp_ms < before_ms
                    and producer_id not in opened
                ):
                    del producers[producer_id]
            yield

    def clear(self) -> None:
        """Forget all, to read the log again."""
        self._producers.clear()
        self.open_transactions.clear()
        self.ended.clear()

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
        began: list[tuple[int, int]] = []
        for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
            (
                producer_id, epoch, last_sequence, last_offset,
                delta, timestamp_ms, coordinator, transaction_offset,
            ) = fields  # fmt: skip
            if transaction_offset >= 0:
                began.append((transaction_offset, producer_id))
            producer = self._producers[producer_id] = Producer(epoch)
            producer.last_timestamp_ms = timestamp_ms
            producer.coordinator_epoch = coordinator
            if last_offset >= 0:
                has_sequence = last_sequence >= 0
                producer.batches.append(
                    Appended(
                        (last_sequence - delta) & _SEQUENCE_MASK if has_sequence else -1,
                        last_sequence,
                        last_offset - delta,
                        last_offset,
                        timestamp_ms,
                    )
                )
        for transaction_offset, producer_id in sorted(began):
            self.open_transactions[producer_id] = transaction_offset
        return True


def _old_epoch(producer_id: int, known: int, what: str, epoch: int) -> AppendRefused:
    return AppendRefused(
        INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {known} here, and {what} has epoch {epoch}.",
    )

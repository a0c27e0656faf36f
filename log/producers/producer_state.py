"""The producers of a partition: the last five batches of each producer, and its open transaction.

A batch that equals one of these five batches is a duplicate; the producer gets the offsets of the
first append. A batch that leaves a gap is rejected with OUT_OF_ORDER_SEQUENCE_NUMBER, a batch of an
older epoch with INVALID_PRODUCER_EPOCH. A producer that is unknown, because it was deleted or is
new, may begin with any sequence, as in Kafka since 2.5. A marker ends a transaction; the epochs
that a marker may have depend on the version of the transaction protocol (KIP-890).

The state is computed from the batches of the log, or from one of Kafka's ``.snapshot`` files and
the batches after it. A snapshot file is written when the log is rolled or closed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from log.batch_scan import Header
from log.errors import AppendRefused
from log.indexes.transaction_index import Aborted
from log.producers.producer_snapshot import SEQUENCE_MASK, ProducerImage, parse
from log.producers.producer_table import (
    A_BATCH,
    BEGAN,
    COORDINATOR_EPOCH,
    EPOCH,
    FIRST_BATCH,
    LAST_DELTA,
    LAST_OFFSET,
    LAST_SEQUENCE,
    NEW,
    TIMESTAMP,
    ProducerTable,
    State,
)
from log.values import Appended, Ended, Marker
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
)
from protocol.records.batch import PRODUCER_EPOCH_MAX, TRANSACTIONAL_BIT, BatchHeader

BATCHES_KEPT = 5
_SECOND_BATCH = FIRST_BATCH + A_BATCH
_FULL = FIRST_BATCH + BATCHES_KEPT * A_BATCH
_SAMPLE = 4096


class Producer(NamedTuple):
    """The state of one producer: its epoch and its last batches in this epoch, the oldest first."""

    epoch: int
    batches: list[Appended]
    last_timestamp_ms: int
    coordinator_epoch: int
    """The highest coordinator epoch in this producer's markers; -1 without markers."""

    @property
    def last_sequence(self) -> int:
        """The sequence number of the producer's last record; -1 if unknown."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """The producers of one partition by producer id."""

    def __init__(self) -> None:
        self._table = ProducerTable()
        self.open_transactions: OrderedDict[int, int] = OrderedDict()
        """For each producer with an open transaction, the first offset of the transaction. The
        oldest transaction comes first."""
        self.ended: deque[tuple[int, int]] = deque()
        """Ended transactions whose marker may be at or above the high watermark, in ascending
        order: the offset of the marker, and the first offset of the transaction. A transaction is
        left out if another one began before it and ended after it."""

    def __len__(self) -> int:
        return len(self._table)

    @property
    def highest_id(self) -> int:
        """The highest known producer id; -1 without producers."""
        return max(self.ids(), default=-1)

    @property
    def without_transaction(self) -> int:
        return len(self._table) - len(self.open_transactions)

    @property
    def are_many(self) -> bool:
        """Returns whether there are so many producers that an iteration over all of them must be
        split into several steps."""
        return self._table.is_large

    def get(self, producer_id: int) -> Producer | None:
        state = self._table.get(producer_id)
        if state is None:
            return None
        batches = [_batch(state, at) for at in range(FIRST_BATCH, len(state), A_BATCH)]
        return Producer(state[EPOCH], batches, state[TIMESTAMP], state[COORDINATOR_EPOCH])

    def ids(self) -> Iterator[int]:
        """Yields the producer ids. Producers may be added and removed during the iteration."""
        for piece in self._table.pieces():
            for producer_id, _ in piece:
                yield producer_id

    def state(self, producer_id: int) -> object:
        """Returns the current state object of a producer. Each batch or marker of the producer
        replaces it, so a caller that later gets another object knows that the state has changed."""
        return self._table.get(producer_id)

    # -- checks before an append

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        state = self._table.get(producer_id)
        return state is not None and state[BEGAN] >= 0 and state[EPOCH] == epoch

    def duplicate_of(self, batch: BatchHeader) -> Appended | None:
        """Returns the batch in the log that ``batch`` repeats; None if ``batch`` is not a
        duplicate."""
        producer_id = batch.producer_id
        state = self._table.get(producer_id)
        if state is None or state[EPOCH] != batch.producer_epoch:
            return None
        if batch.base_sequence in state[FIRST_BATCH::A_BATCH]:
            for at in range(FIRST_BATCH, len(state), A_BATCH):
                known = _batch(state, at)
                if (
                    known.first_sequence == batch.base_sequence
                    and known.last_sequence == batch.last_sequence
                ):
                    return known
        return None

    def check(self, batch: BatchHeader, from_zero: bool = False) -> None:
        """Raises AppendRefused unless ``batch`` may be appended next. The caller has checked that
        the batch is not a duplicate. With ``from_zero`` (TV2, KIP-890), the first batch of an
        unknown producer must have the sequence number 0."""
        producer_id = batch.producer_id
        state = self._table.get(producer_id) or NEW
        epoch = state[EPOCH]
        if epoch < 0:
            due = 0 if from_zero else batch.base_sequence
        elif batch.producer_epoch < epoch:
            raise _old_epoch(producer_id, epoch, "the batch", batch.producer_epoch)
        elif batch.producer_epoch > epoch or len(state) == FIRST_BATCH:
            due = 0
        else:
            sequence = state[LAST_SEQUENCE]
            if sequence >= 0:
                sequence += state[LAST_DELTA]
            due = (sequence + 1) & SEQUENCE_MASK
        if batch.base_sequence != due:
            raise AppendRefused(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} epoch {batch.producer_epoch} sent sequence number"
                f" {batch.base_sequence}, expected {due}.",
            )
        if state[BEGAN] >= 0 and not batch.attributes & TRANSACTIONAL_BIT:
            raise AppendRefused(
                INVALID_TXN_STATE,
                f"Producer {producer_id} sent a non-transactional batch, but has an open"
                f" transaction in this partition since offset {state[BEGAN]}.",
            )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, rules: int
    ) -> None:
        """Raises AppendRefused unless a marker may end the producer's transaction. ``rules`` is the
        version of the transaction protocol.

        With version 1, the marker's epoch must be at least the transaction's epoch. With version 2,
        the marker's epoch must be higher. An equal epoch is accepted only at the maximum epoch, or
        without an open transaction (the marker is then a repetition).
        """
        state = self._table.get(producer_id)
        if state is None:
            return
        known = state[EPOCH]
        is_repeated = epoch == known and (state[BEGAN] < 0 or epoch == PRODUCER_EPOCH_MAX)
        if epoch < known or (rules >= 2 and epoch == known and not is_repeated):
            raise _old_epoch(producer_id, known, "the marker", epoch)
        if coordinator_epoch < state[COORDINATOR_EPOCH]:
            raise AppendRefused(
                TRANSACTION_COORDINATOR_FENCED,
                f"The marker for producer {producer_id} has coordinator epoch"
                f" {coordinator_epoch}, but an earlier marker has"
                f" {state[COORDINATOR_EPOCH]}.",
            )

    def trial(self, batches: Sequence[BatchHeader | Header | Marker]) -> ProducerStates:
        """Returns an independent copy of the states of the producers that occur in ``batches``."""
        trial = ProducerStates()
        for producer_id in {batch.producer_id for batch in batches}:
            state = self._table.get(producer_id)
            if state is not None:
                trial._table.put(producer_id, state)
        return trial

    # -- updates by appended batches

    def note(self, batch: BatchHeader | Header) -> None:
        """Applies a data batch of the log. A batch of an older epoch may begin a transaction, but
        does not change the producer's epoch. (Leaders reject such batches.)"""
        producer_id = batch.producer_id
        if producer_id < 0:
            return
        state = self._table.get(producer_id) or NEW
        known, _, coordinator_epoch, began = state[:FIRST_BATCH]
        epoch, timestamp_ms, sequence, first = (
            batch.producer_epoch, batch.max_timestamp, batch.base_sequence, batch.base_offset
        )  # fmt: skip
        last: State = (sequence, batch.last_offset - first, first, timestamp_ms)
        if batch.attributes & TRANSACTIONAL_BIT:
            if began < 0:
                began = self.open_transactions[producer_id] = first
        elif sequence < 0:
            last = ()
        head = (epoch, timestamp_ms, coordinator_epoch, began)
        if epoch < known:
            state = (known, timestamp_ms, coordinator_epoch, began, *state[FIRST_BATCH:])
        elif known != epoch:
            state = head + last
        elif len(state) == _FULL and last:
            state = head + state[_SECOND_BATCH:] + last
        else:
            state = head + state[FIRST_BATCH:] + last
        self._table.put(producer_id, state)

    def end(self, ended: Ended) -> None:
        """Applies a marker. If it aborts a transaction, the transaction must already be in the
        index of aborted transactions."""
        marker = ended.marker
        producer_id = marker.producer_id
        state = self._table.get(producer_id) or NEW
        epoch = max(marker.producer_epoch, state[EPOCH])
        kept = state[FIRST_BATCH:] if state[EPOCH] == epoch else ()
        self._table.put(
            producer_id, (epoch, ended.timestamp_ms, marker.coordinator_epoch, -1, *kept)
        )
        began = self.open_transactions.pop(producer_id, None)
        if began is not None:
            ended_ones = self.ended
            while ended_ones and ended_ones[-1][1] >= began:
                ended_ones.pop()
            ended_ones.append((ended.offset, began))

    def settle(self, high_watermark: int) -> None:
        """Drops the transactions in ``ended`` whose markers are below ``high_watermark``."""
        ended = self.ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def note_epoch(self, producer_id: int, epoch: int) -> None:
        """Handles a control batch whose records a cleaner has removed. Raises the producer's epoch
        to the epoch of the batch, so that older epochs stay fenced."""
        state = self._table.get(producer_id) or NEW
        if state[EPOCH] < epoch:
            self._table.put(producer_id, (epoch, *state[TIMESTAMP:FIRST_BATCH]))

    def aborted_by(self, batches: Sequence[BatchHeader | Ended]) -> list[Aborted]:
        """Returns the entries that an append of ``batches`` adds to the index of aborted
        transactions. The entries are in the order of the batches."""
        opened = self.open_transactions
        begun: dict[int, int] = {}
        over: set[int] = set()
        aborted: list[Aborted] = []
        for batch in batches:
            if isinstance(batch, BatchHeader):
                producer_id = batch.producer_id
                if batch.attributes & TRANSACTIONAL_BIT and (
                    producer_id not in opened or producer_id in over
                ):
                    begun.setdefault(producer_id, batch.base_offset)
                continue
            producer_id = batch.marker.producer_id
            since = begun.pop(producer_id, None)
            if since is None and producer_id not in over:
                since = opened.get(producer_id)
            over.add(producer_id)
            if since is not None and not batch.marker.committed:
                still = (first for other, first in opened.items() if other not in over)
                stable = next(still, next(iter(begun.values()), batch.offset + 1))
                aborted.append(Aborted(producer_id, since, batch.offset, stable))
        return aborted

    # -- expiry

    def expire(self, before_ms: int) -> Iterator[None]:
        """Removes the producers without a record timestamp at or after ``before_ms``. A producer
        with an open transaction is kept. The generator runs in short steps, between which states
        may change."""
        for idle in self._idle_since(before_ms):
            for producer_id in idle:
                self._table.forget(producer_id)
            yield

    def _idle_since(self, before_ms: int) -> Iterator[list[int]]:
        get = self._table.get
        for piece in self._table.pieces():
            yield [
                producer_id
                for producer_id, _ in piece
                if (state := get(producer_id)) and state[BEGAN] < 0 and state[TIMESTAMP] < before_ms
            ]

    def forget_idlest(self, keep: int) -> Iterator[int]:
        """Removes the producers that were idle longest, until about ``keep`` producers are left.

        Producers with an open transaction are kept and don't count. The generator runs in short
        steps, between which states may change, and yields the number of producers that each step
        removed. The threshold is estimated from a sample of timestamps, so the remaining number is
        not exact.
        """
        table = self._table
        surplus = self.without_transaction - keep
        if surplus <= 0:
            return
        every = max(1, len(table) // _SAMPLE)
        sample: list[int] = []
        at = 0
        for piece in table.pieces():
            times = [state[TIMESTAMP] for _, state in piece if state[BEGAN] < 0]
            sample += times[-at % every :: every]
            at += len(times)
            yield 0
        if not sample:
            return
        sample.sort()
        cut_ms = sample[min(len(sample) - 1, (surplus - 1) * len(sample) // at)]
        for before_ms in (cut_ms, cut_ms + 1):
            for idle in self._idle_since(before_ms):
                if before_ms > cut_ms:
                    del idle[max(0, surplus) :]  # these producers have been idle equally long
                for producer_id in idle:
                    table.forget(producer_id)
                surplus -= len(idle)
                yield len(idle)

    def clear(self) -> None:
        self._table.clear()
        self.open_transactions.clear()
        self.ended.clear()

    # -- snapshots

    def last_batches(self) -> Iterator[dict[int, tuple[int, int]]]:
        """Yields dicts, each of some producers: by producer id, the last offset of its data batches
        (-1 if none) and its epoch. States may change between two dicts."""
        for piece in self._table.pieces():
            yield {
                producer_id: (
                    state[LAST_OFFSET] + state[LAST_DELTA] if len(state) > FIRST_BATCH else -1,
                    state[EPOCH],
                )
                for producer_id, state in piece
            }

    def freeze(self, offset: int) -> ProducerImage:
        """Returns an image of the current producers, for a log that ends at ``offset``. Until the
        caller has written the image and calls `thaw`, changes of the states cost slightly more."""
        return ProducerImage(offset, self._table.freeze())

    def thaw(self) -> None:
        """Must be called when the image that `freeze` returned is no longer needed. Afterwards,
        changes of the states are as cheap as before `freeze`."""
        self._table.thaw()

    def restore(self, data: bytes) -> bool:
        """Loads the content of a ``.snapshot`` file. Returns False, and has no producers, if the
        file is damaged."""
        self.clear()
        states = parse(data)
        if states is None:
            return False
        began: list[tuple[int, int]] = []
        for producer_id, state in states:
            self._table.put(producer_id, state)
            if state[BEGAN] >= 0:
                began.append((state[BEGAN], producer_id))
        for first_offset, producer_id in sorted(began):
            self.open_transactions[producer_id] = first_offset
        return True


def _batch(state: State, at: int) -> Appended:
    sequence, delta, first_offset, timestamp_ms = state[at : at + A_BATCH]
    last_sequence = (sequence + delta) & SEQUENCE_MASK if sequence >= 0 else -1
    return Appended(sequence, last_sequence, first_offset, first_offset + delta, timestamp_ms)


def _old_epoch(producer_id: int, known: int, what: str, epoch: int) -> AppendRefused:
    return AppendRefused(
        INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {known} in this partition, but {what} has {epoch}.",
    )

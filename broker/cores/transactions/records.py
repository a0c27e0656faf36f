"""Reads `__transaction_state`: decodes batches into runs, and replays the runs into a shard.

No batch of this topic belongs to a transaction. Control batches are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from broker.cores.pass_over import PassOver
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from offsets.partitioner import misplaced
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import stored_records
from transactions.record_codec import CorruptTransactionRecord, runs_of_records
from transactions.shard import TransactionShard
from transactions.values import TransactionRun

BasedRun = tuple[int, TransactionRun]
"""The log offset of a run's first record, and the run."""


class TransactionReader:
    """Reads the batches of a log into a shard. Each load has its own reader."""

    def __init__(
        self,
        shard: TransactionShard,
        partition: int,
        partitions: int,
        pass_over: PassOver | None = None,
    ) -> None:
        self.skipped: Counter[int] = Counter()
        """The number of records with unknown key versions, by version."""
        self._replay = shard.replay
        self._known = shard.view.transactions
        self._partition = partition
        self._partitions = partitions
        self._pass_over = pass_over

    def runs(self, data: Buffer, header: BatchHeader) -> Iterator[BasedRun]:
        """Yields a run for each record that is not skipped. Raises CorruptTransactionRecord if the
        batch can't be decoded."""
        if header.is_control:
            return
        yield from _runs_of_batch(data, header, self.skipped, self._pass_over)

    def replay(self, run: TransactionRun, base_offset: int) -> None:
        """Replays one run. Raises CorruptTransactionRecord if this fails, or if the transactional
        id belongs to another partition."""
        if run.transactional_id not in self._known:
            name = run.transactional_id
            why = misplaced("transactional id", name, self._partition, self._partitions)
            if why is not None:
                raise CorruptTransactionRecord(base_offset, why)
        try:
            self._replay(run, base_offset)
        except Exception as error:
            reason = f"the record can't be replayed: {error!r}"
            raise CorruptTransactionRecord(base_offset, reason) from error


def highest_producer_id(log: PartitionLog) -> int:
    """Returns the highest producer id in the records of a log; -1 if the log has none.

    Reads only up to the first corrupt batch, and raises no error, since the load of the log reports
    the corrupt batch.
    """
    highest = -1
    with suppress(CorruptLog, CorruptTransactionRecord):
        for data, header in log.scan():
            if not header.is_control:
                for _, run in _runs_of_batch(data, header, Counter()):
                    value = run.value
                    if value is not None:
                        highest = max(highest, value.producer_id, value.next_producer_id)
    return highest


def _runs_of_batch(
    data: Buffer, header: BatchHeader, skipped: Counter[int], pass_over: PassOver | None = None
) -> Iterator[BasedRun]:
    try:
        if pass_over is not None and pass_over.concerns(header):
            records = pass_over.rest(data, header)
        else:
            records = stored_records(data, header)
    except CorruptRecords as error:
        reason = f"the batch of {header.record_count} records can't be read: {error}"
        raise CorruptTransactionRecord(header.base_offset, reason) from error
    yield from runs_of_records(records, skipped)

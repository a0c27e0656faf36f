"""Reads `__consumer_offsets`: decodes batches of any magic into runs, and replays the runs into a
shard.

A transactional batch becomes one run with its producer, and so does a transaction marker: the core
stores pending offsets in the same way after a call and during a load.

A load ignores an offset commit if an earlier marker of the same producer has a higher epoch,
because the transaction of the commit has ended. Earlier versions of Muster could accept such a
commit, and the producer's next marker would commit it. If the client uses transaction.version 1, a
marker does not raise the epoch. A late commit then looks like the first commit of the next
transaction, and is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import structlog

from broker.cores.pass_over import PassOver
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.shard import GroupShard
from offsets.partitioner import misplaced
from offsets.record_reader import BasedRun, runs_of_records
from offsets.record_values import CorruptRecord
from offsets.runs import MarkerRun, OffsetRun, OwnBatch, Run, TransactionalRun
from offsets.section_reader import iter_runs_of_section
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.markers import transaction_end
from protocol.records.stored import stored_records

logger = structlog.get_logger(__name__)


class GroupReader:
    """Reads batches into a shard of groups, for a load or for the check of a client's records."""

    def __init__(
        self, shard: GroupShard, partition: int, partitions: int, pass_over: PassOver | None = None
    ) -> None:
        self.skipped: Counter[int] = Counter()
        """The number of records with an unknown type that were skipped, by type."""
        self._replay = shard.replay
        self._partition = partition
        self._partitions = partitions
        self._pass_over = pass_over
        self._at_home: set[str] = set()
        """The groups that are known to belong to this partition, so that their partition need not
        be computed again."""
        self._ended: dict[int, int] = {}
        """By producer id: the highest producer epoch of the transaction markers that were read so
        far."""
        self._late: set[int] = set()
        """The ids of producers for which a late offset commit was logged: a transactional commit
        that is in the log after its transaction's marker. Each id is logged only once."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, Run | OwnBatch]]:
        """Returns the runs of a batch, each with the offset of its first record. Raises
        CorruptRecord."""
        if header.is_control:
            if self._pass_over is not None and self._pass_over.takes(header):
                return ()
            return self._marker(data, header)
        runs = runs_of_batch(data, header, self.skipped, self._pass_over)
        if not header.is_transactional:
            return runs
        return self._of_producer(header, runs)

    def _marker(self, data: Buffer, header: BatchHeader) -> Iterable[tuple[int, OwnBatch]]:
        """Yields the transaction marker in a control batch. Yields nothing if the log cleaner has
        emptied the batch."""
        try:
            marker = transaction_end(data, header)
        except CorruptRecords as error:
            reason = f"the transaction marker can't be read: {error.message}"
            raise CorruptRecord(header.base_offset, reason) from None
        if marker is not None:
            committed, epoch = marker
            producer_id, producer_epoch = header.producer_id, header.producer_epoch
            self._ended[producer_id] = max(producer_epoch, self._ended.get(producer_id, -1))
            yield header.base_offset, MarkerRun(producer_id, producer_epoch, epoch, committed)

    def _of_producer(
        self, header: BatchHeader, runs: Iterable[BasedRun]
    ) -> Iterator[tuple[int, Run | OwnBatch]]:
        """Yields the runs of a transactional batch. A run of offsets becomes pending offsets of the
        transaction. Any other run is yielded unchanged, since its records take effect at once."""
        is_late = header.producer_epoch < self._ended.get(header.producer_id, -1)
        for offset, run in runs:
            if not isinstance(run, OffsetRun):
                yield offset, run
            elif is_late:
                self._leave_out(header)
            else:
                yield offset, TransactionalRun(header.producer_id, header.producer_epoch, (run,))

    def _leave_out(self, header: BatchHeader) -> None:
        if header.producer_id not in self._late:
            self._late.add(header.producer_id)
            logger.warning(
                "offset commit after the end of its transaction ignored",
                topic=OFFSETS_TOPIC,
                partition=self._partition,
                log_offset=header.base_offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
            )

    def replay(self, run: Run | OwnBatch, base_offset: int) -> None:
        """Replays a run into the shard. Raises CorruptRecord if this fails."""
        if not isinstance(run, MarkerRun):
            each = run.runs[0] if isinstance(run, TransactionalRun) else run
            self._check_home(each.group_id, base_offset)
        try:
            self._replay(run, base_offset)
        except Exception as error:
            raise CorruptRecord(base_offset, f"the record can't be replayed: {error!r}") from error

    def _check_home(self, group_id: str, base_offset: int) -> None:
        if group_id not in self._at_home:
            check_owner(group_id, base_offset, self._partition, self._partitions)
            self._at_home.add(group_id)


def check_owner(group_id: str, log_offset: int, partition: int, partitions: int) -> None:
    """Raises CorruptRecord if the group belongs to another partition than ``partition`` (of
    ``partitions`` partitions)."""
    why = misplaced("group", group_id, partition, partitions)
    if why is not None:
        raise CorruptRecord(log_offset, why)


def runs_of_batch(
    data: Buffer,
    header: BatchHeader,
    skipped: Counter[int],
    pass_over: PassOver | None = None,
) -> Iterator[BasedRun]:
    """Yields the runs of a batch of any magic. Records that ``pass_over`` names are omitted.

    Raises CorruptRecord if the batch can't be read, possibly after the first runs.
    """
    try:
        if pass_over is not None and pass_over.concerns(header):
            yield from runs_of_records(pass_over.rest(data, header), skipped)
        elif header.magic == 2:
            section = section_of(data, header)
            yield from iter_runs_of_section(
                section, header.base_offset, header.record_count, skipped, header.max_timestamp
            )
        else:
            yield from runs_of_records(stored_records(data, header), skipped)
    except CorruptRecord:
        raise
    except Exception as error:
        reason = f"the batch of {header.record_count} records can't be read: {error}"
        raise CorruptRecord(header.base_offset, reason) from error

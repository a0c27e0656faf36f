"""Reading `__consumer_offsets`: from batches of any magic to runs, and runs into a shard.

Plain records are replayed as they come. Transactional ones, which only logs of Apache Kafka have so
far, are kept per producer until their marker: COMMIT replays them, ABORT drops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.cores.pass_over import PassOver
from coordinator.shard import GroupShard
from offsets.open_transactions import OpenTransactions
from offsets.partitioner import partition_for
from offsets.record_errors import CorruptRecord
from offsets.record_reader import BasedRun, runs_of_records
from offsets.runs import OffsetTombstones, Run
from offsets.section_reader import runs_of_section
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader, records_of, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import stored_records

_COMMIT_MARKER = 1


class GroupReader:
    """Takes the batches of a log into a shard, as a load does and as foreign records are tried."""

    def __init__(
        self, shard: GroupShard, partition: int, partitions: int, pass_over: PassOver | None = None
    ) -> None:
        self.skipped: Counter[int] = Counter()
        """Records of unknown kinds, by their number."""
        self._replay = shard.replay
        self._cached = shard.view.offsets.get
        self._partition = partition
        self._partitions = partitions
        self._pass_over = pass_over
        self._transactions = OpenTransactions()
        self._at_home: set[str] = set()
        """Groups that this partition keeps."""

    def runs(self, data: Buffer, header: BatchHeader) -> Iterator[BasedRun]:
        """The runs that are committed now that this batch was read. Raises CorruptRecord."""
        transactions = self._transactions
        if header.is_control:
            if self._pass_over is None or not self._pass_over.takes(header):
                committed = _is_commit(data, header)
                yield from transactions.end(header.producer_id, committed, self._cached)
            return
        runs = runs_of_batch(data, header, self.skipped, self._pass_over)
        if header.is_transactional:
            transactions.add(header.producer_id, runs)
            return
        for offset, run in runs:
            yield offset, run
            if isinstance(run, OffsetTombstones):
                transactions.deleted(run)

    def replay(self, run: Run, base_offset: int) -> None:
        """Replays one run. Raises CorruptRecord, whatever is wrong with it."""
        group_id = run.group_id
        if group_id not in self._at_home:
            check_owner(group_id, base_offset, self._partition, self._partitions)
            self._at_home.add(group_id)
        try:
            self._replay(run, base_offset)
        except Exception as error:
            raise CorruptRecord(base_offset, f"it can't be replayed: {error!r}") from error


def check_owner(group_id: str, log_offset: int, partition: int, partitions: int) -> None:
    """Raises CorruptRecord where a record's group is not kept by ``partition`` of so many.

    Its clients would ask another partition, and get no committed offset.
    """
    owner = partition_for(group_id, partitions)
    if owner != partition:
        raise CorruptRecord(
            log_offset,
            f"it is of group {group_id!r}, which belongs to partition {owner} of"
            f" {partitions}, not to {partition}",
        )


def runs_of_batch(
    data: Buffer,
    header: BatchHeader,
    skipped: Counter[int],
    pass_over: PassOver | None = None,
) -> list[BasedRun]:
    """The runs of a batch of any magic, without the records that are passed over.

    Raises CorruptRecord, whatever is wrong with it.
    """
    try:
        if pass_over is not None and pass_over.concerns(header):
            return list(runs_of_records(pass_over.rest(data, header), skipped))
        if header.magic == 2:
            section = section_of(data, header)
            return runs_of_section(section, header.base_offset, header.record_count, skipped)
        return list(runs_of_records(stored_records(data, header), skipped))
    except CorruptRecord:
        raise
    except Exception as error:
        reason = f"its batch of {header.record_count} records can't be read: {error}"
        raise CorruptRecord(header.base_offset, reason) from error


def _is_commit(data: Buffer, header: BatchHeader) -> bool:
    """Whether a control batch ends its transaction with COMMIT; a cleaned one holds no record."""
    try:
        markers = records_of(data, header)
    except CorruptRecords as error:
        reason = f"its marker can't be read: {error.message}"
        raise CorruptRecord(header.base_offset, reason) from None
    if not markers or markers[0].key is None:
        return False
    return int.from_bytes(markers[0].key[2:4], "big") == _COMMIT_MARKER

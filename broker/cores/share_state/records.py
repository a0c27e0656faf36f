"""Reads `__share_group_state`: decodes batches into runs, and replays the runs into a shard.

The topic has no transactional batches; control batches are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.cores.pass_over import PassOver
from offsets.partitioner import misplaced
from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import stored_records
from share.persister.record_codec import CorruptShareRecord, runs_in_pieces
from share.persister.shard import ShareStateShard
from share.persister.values import ShareStateRun, coordinator_key


class ShareStateReader:
    """Reads batches into a shard of share-partition states. Each load has its own reader."""

    def __init__(
        self,
        shard: ShareStateShard,
        partition: int,
        partitions: int,
        pass_over: PassOver | None = None,
    ) -> None:
        self.skipped: Counter[int] = Counter()
        """The number of records with an unknown type that were skipped, by type."""
        self._replay = shard.replay
        self._known = shard.view.known_keys
        self._partition = partition
        self._partitions = partitions
        self._pass_over = pass_over

    def runs(self, data: Buffer, header: BatchHeader) -> Iterator[tuple[int, ShareStateRun | None]]:
        """Yields a run for each record that is not skipped, and None after each piece of a large
        record. Raises CorruptShareRecord."""
        if header.is_control:
            return
        try:
            if self._pass_over is not None and self._pass_over.concerns(header):
                records = self._pass_over.rest(data, header)
            else:
                records = stored_records(data, header)
        except CorruptRecords as error:
            reason = f"the batch of {header.record_count} records can't be read: {error}"
            raise CorruptShareRecord(header.base_offset, reason) from error
        yield from runs_in_pieces(records, self.skipped)

    def replay(self, run: ShareStateRun, base_offset: int) -> None:
        """Replays a run into the shard. Raises CorruptShareRecord if this fails."""
        if run.key not in self._known:
            name = coordinator_key(run.key)
            why = misplaced("share partition", name, self._partition, self._partitions)
            if why is not None:
                raise CorruptShareRecord(base_offset, why)
        try:
            self._replay(run, base_offset)
        except Exception as error:
            reason = f"the record can't be replayed: {error!r}"
            raise CorruptShareRecord(base_offset, reason) from error

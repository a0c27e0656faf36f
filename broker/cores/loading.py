"""Loading a shard in slices, and probing a log that failed.

The newest snapshot comes first, and then the log from where it begins (broker/cores/snapshots.py).

Plain records are replayed as they come. Transactional ones, which only logs of Apache Kafka have so
far, are kept per producer until their marker: COMMIT replays them, ABORT drops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import structlog

from broker.cores.hosted_shard import LOADED, HostedShard, Phase
from broker.cores.pass_over import PassOver
from broker.cores.snapshots import Snapshots
from broker.loop.slices import Slicer, Slices
from coordinator.shard import GroupShard
from log.errors import CorruptLog
from offsets.columns_image import BadImage
from offsets.open_transactions import OpenTransactions
from offsets.partitioner import partition_for
from offsets.record_errors import CorruptRecord
from offsets.record_reader import BasedRun, runs_of_records
from offsets.runs import OffsetTombstones, Run
from offsets.section_reader import runs_of_section
from offsets.snapshot_image import Image
from protocol.buffer import Buffer
from protocol.records.batch import HEADER_BYTES, BatchHeader, records_of, section_of
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import stored_records

logger = structlog.get_logger(__name__)

SLICE_NS = 8_000_000
"""How long one slice may hold the loop: everybody waits for a load."""
GROUPS_AT_ONCE = 200
"""Groups that come to be, or whose sessions start, between two looks at the clock: about 1 ms."""
_COMMIT_MARKER = 1


async def load(
    hosted: HostedShard,
    chunk_bytes: int,
    slicer: Slicer,
    snapshots: Snapshots | None,
    fresh: Callable[[], GroupShard],
    before_serving: Callable[[HostedShard], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Replays the log of ``hosted`` into its shard, ``chunk_bytes`` read at a time.

    The newest snapshot, if it is to be believed, spares what is below its beginning; ``fresh``
    makes another shard when it turns out on the way that it is not. ``before_serving`` is awaited
    when all is replayed and no session has begun. Raises CorruptLog or
    CorruptRecord when the log cannot be read; the shard must not serve then, see `give_up`.
    """
    skipped: Counter[int] = Counter()
    slices, time = slicer.work("load", SLICE_NS), slicer.time
    began_ms = time.now().mono_ms
    hosted.loaded_records = hosted.loaded_bytes = 0
    hosted.loaded_from = hosted.load_ms = -1
    hosted.loaded_to = hosted.log.log_start_offset
    image = None
    if snapshots is not None:
        image = await slices.beside(time.in_thread(snapshots.read, hosted.log))
    if snapshots is not None and image is not None:
        try:
            await _restore(hosted, image, slices)
            await _replay(
                hosted, _runs(hosted, chunk_bytes, skipped, image.head.begin_offset), slices
            )
            hosted.loaded_from = image.head.begin_offset
        except (BadImage, KeyError) as error:
            await slices.beside(time.in_thread(snapshots.refuse, hosted.log, str(error)))
            hosted.core = fresh()
            hosted.loaded_records = hosted.loaded_bytes = 0
            skipped.clear()
    if hosted.loaded_from < 0:
        await _replay(hosted, _runs(hosted, chunk_bytes, skipped), slices)
    if before_serving is not None:
        await slices.beside(before_serving(hosted))
    while hosted.core.wake(time.now(), GROUPS_AT_ONCE):
        if slices.over:
            await slices.pause()
    slices.end()
    hosted.load_ms = time.now().mono_ms - began_ms
    if skipped:
        logger.warning(
            "records of unknown kinds were skipped",
            partition=hosted.partition,
            kinds=dict(skipped),
        )
    logger.info(
        "groups loaded",
        partition=hosted.partition,
        records=hosted.loaded_records,
        bytes=hosted.loaded_bytes,
        groups=groups_of(hosted),
        snapshot_offset=hosted.loaded_from,
        ms=hosted.load_ms,
    )


async def _restore(hosted: HostedShard, image: Image, slices: Slices) -> None:
    """Takes over what the snapshot holds. Raises BadImage, KeyError, CorruptRecord."""
    shard = hosted.core
    at_home = ""
    for group_id, topic, columns in image.offsets():
        if group_id != at_home:
            if partition_for(group_id, hosted.partitions) != hosted.partition:
                entry = columns.get(columns.partitions()[0])
                check_owner(group_id, -1 if entry is None else entry[-1], *hosted.place)
            at_home = group_id
        shard.restore(group_id, topic, columns)
        if slices.over:
            await slices.pause()
    for record_offset, run in image.groups():
        check_owner(run.group_id, record_offset, *hosted.place)
        shard.replay(run, record_offset)
        if slices.over:
            await slices.pause()


async def _replay(
    hosted: HostedShard, runs: Iterator[tuple[Run | None, int]], slices: Slices
) -> None:
    """Replays what ``runs`` yields; it yields None where the slice may end."""
    take = Replay(hosted.core, *hosted.place).take
    for run, base_offset in runs:
        if run is not None:
            take(run, base_offset)
            hosted.loaded_records += len(run)
        if slices.over:
            await slices.pause()


class Replay:
    """Takes runs of a log into a shard, as a load does and as foreign records are tried."""

    def __init__(self, shard: GroupShard, partition: int, partitions: int) -> None:
        self._replay = shard.replay
        self._partition = partition
        self._partitions = partitions
        self._at_home: set[str] = set()
        """Groups that this partition keeps."""

    def take(self, run: Run, base_offset: int) -> None:
        """Replay one run. Raises CorruptRecord, whatever is wrong with it."""
        group_id = run.group_id
        if group_id not in self._at_home:
            check_owner(group_id, base_offset, self._partition, self._partitions)
            self._at_home.add(group_id)
        try:
            self._replay(run, base_offset)
        except Exception as error:
            raise CorruptRecord(base_offset, f"it can't be replayed: {error!r}") from error


def check_owner(group_id: str, log_offset: int, partition: int, partitions: int) -> None:
    """Raise CorruptRecord where a record's group is not kept by ``partition`` of so many.

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
    data: Buffer, header: BatchHeader, skipped: Counter[int], told: PassOver | None = None
) -> list[BasedRun]:
    """The runs of a batch of any magic, without the records that are ``told`` to be passed over.

    Raises CorruptRecord, whatever is wrong with it.
    """
    try:
        if told is not None and told.concerns(header):
            return list(runs_of_records(told.rest(data, header), skipped))
        if header.magic == 2:
            section = section_of(data, header)
            return runs_of_section(section, header.base_offset, header.record_count, skipped)
        return list(runs_of_records(stored_records(data, header), skipped))
    except CorruptRecord:
        raise
    except Exception as error:
        reason = f"its batch of {header.record_count} records can't be read: {error}"
        raise CorruptRecord(header.base_offset, reason) from error


def give_up(hosted: HostedShard, error: Exception) -> None:
    """Records and logs why the log of ``hosted`` can't be loaded, and what an operator can do."""
    name = f"{hosted.log.topic}-{hosted.partition}"
    if isinstance(error, CorruptLog):
        reason = str(error.with_advice(name))
    elif isinstance(error, CorruptRecord) and error.log_offset >= 0:
        reason = (
            f"{error}; bring back the files as they were, or start with offsets.load.skip.records="
            f"{name}:{error.log_offset} to do without that record"
        )
    else:
        reason = str(error) or repr(error)
    hosted.log.unreadable = reason
    logger.error(
        "the groups of a partition can't be read; their requests are refused",
        partition=hosted.partition,
        reason=reason,
        exc_info=None if isinstance(error, CorruptLog | CorruptRecord | OSError) else error,
    )


def progress(hosted_shards: Sequence[HostedShard]) -> dict[str, Any]:
    """How far the loading is: all shards together, and those under way each for itself."""
    under_way = [hosted for hosted in hosted_shards if hosted.phase is Phase.LOADING]
    return {
        "partitions": len(hosted_shards),
        "partitions_loaded": sum(hosted.phase in LOADED for hosted in hosted_shards),
        "records_loaded": sum(hosted.loaded_records for hosted in hosted_shards),
        "bytes_loaded": sum(hosted.loaded_bytes for hosted in hosted_shards),
        "groups_loaded": sum(map(groups_of, hosted_shards)),
        "loading": {
            str(hosted.partition): {
                "records": hosted.loaded_records,
                "bytes": hosted.loaded_bytes,
                "groups": groups_of(hosted),
                "offset": hosted.loaded_to,
                "log_end_offset": hosted.log.log_end_offset,
            }
            for hosted in under_way
            if hosted.load_ms < 0 and hosted.loaded_to >= 0
        },
    }


def groups_of(hosted: HostedShard) -> int:
    """How many groups a shard has so far, those of offsets alone included."""
    return hosted.core.view.known()


def _runs(
    hosted: HostedShard, chunk_bytes: int, skipped: Counter[int], begin: int | None = None
) -> Iterator[tuple[Run | None, int]]:
    """The committed runs of the log in order; None where a slice may end.

    With ``begin`` those from there on, which must follow each other without a gap: a gap is a
    cleaner's work, and what it took the snapshot may still have. Transactions might have begun
    before it, and are BadImage too.
    """
    transactions = OpenTransactions()
    due = begin
    for data, header in hosted.log.scan(begin, max(chunk_bytes, HEADER_BYTES)):
        hosted.loaded_bytes += header.size_bytes
        hosted.loaded_to = header.last_offset + 1
        if due is not None:
            due = _next_due(due, header)
        if header.is_control:
            if hosted.told is not None and hosted.told.takes(header):
                continue
            committed = _is_commit(data, header)
            for offset, run in transactions.end(
                header.producer_id, committed, hosted.core.view.offsets.get
            ):
                yield run, offset
            continue
        yield None, header.base_offset
        runs = runs_of_batch(data, header, skipped, hosted.told)
        if header.is_transactional:
            transactions.add(header.producer_id, runs)
            continue
        for offset, run in runs:
            yield run, offset
            if isinstance(run, OffsetTombstones):
                transactions.deleted(run)
    if due is not None and due != hosted.log.log_end_offset:
        raise BadImage(f"the log ends at {hosted.log.log_end_offset}, its last batch at {due}")


def _next_due(due: int, header: BatchHeader) -> int:
    """The offset behind a batch that begins at ``due`` and has all its records, else BadImage."""
    if header.base_offset != due or header.record_count != header.last_offset_delta + 1:
        raise BadImage(f"records are missing from offset {due} on: a cleaner was there")
    if header.is_transactional:
        raise BadImage(f"a transaction at offset {due} may have begun before it")
    return header.last_offset + 1


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

"""Loads a core in slices: restores the newest snapshot, and then replays the log from the
snapshot's begin offset on (broker/cores/snapshots.py)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from broker.cores.core import CoreT, Reader
from broker.cores.duties import Superseded
from broker.cores.hosted_shard import LOADED, HostedShard, Phase
from broker.cores.snapshots import Snapshots
from broker.loop.slices import Slicer, Slices
from log.errors import CorruptLog
from offsets.columns_image import BadImage
from protocol.records.batch import HEADER_BYTES, BatchHeader
from protocol.records.corrupt import CorruptStoredRecord

logger = structlog.get_logger(__name__)

SLICE_NS = 8_000_000
"""The maximum duration of one slice of a load, in nanoseconds. Slices are long, because all clients
of the shard wait for the load."""
AT_ONCE = 200
"""The number of groups or transactional ids for which work is done between two checks of the time.
The work for this number takes about 1 ms."""


async def load(
    hosted: HostedShard[CoreT],
    chunk_bytes: int,
    slicer: Slicer,
    snapshots: Snapshots | None,
    fresh: Callable[[], CoreT],
    before_serving: Callable[[HostedShard[CoreT]], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Replays the log of ``hosted`` into its core; reads ``chunk_bytes`` at a time.

    A valid snapshot replaces the part of the log before the snapshot's begin offset. ``fresh``
    returns another core, which is used if the snapshot proves to be invalid during the load.
    ``before_serving`` is awaited after the replay. Raises CorruptLog or CorruptStoredRecord; the
    caller then calls `give_up`. Raises Superseded if the shard was unloaded during the load.
    """
    slices, time = slicer.work("load", SLICE_NS), slicer.time
    began_ms = time.now().mono_ms
    hosted.loaded_records = hosted.loaded_bytes = 0
    hosted.loaded_from = hosted.load_ms = -1
    hosted.loaded_to = hosted.log.log_start_offset
    image = None
    if snapshots is not None:
        image = await slices.beside(time.in_thread(snapshots.read, hosted.log))
    reader = hosted.reader()
    if snapshots is not None and image is not None:
        begin = image.head.begin_offset
        try:
            for _ in snapshots.form.restore(hosted.core, image, *hosted.place):
                if slices.over:
                    await _pause(hosted, slices)
            await _replay(hosted, reader, chunk_bytes, slices, begin)
            hosted.loaded_from = begin
        except (BadImage, KeyError) as error:
            await slices.beside(time.in_thread(snapshots.refuse, hosted.log, str(error)))
            hosted.core = fresh()
            hosted.loaded_records = hosted.loaded_bytes = 0
            reader = hosted.reader()
    if hosted.loaded_from < 0:
        await _replay(hosted, reader, chunk_bytes, slices)
    if before_serving is not None:
        await slices.beside(before_serving(hosted))
    while hosted.core.wake(time.now(), AT_ONCE):
        if slices.over:
            await slices.pause()
    slices.end()
    hosted.load_ms = time.now().mono_ms - began_ms
    _log_load(hosted, reader)


def _log_load(hosted: HostedShard[Any], reader: Reader) -> None:
    if reader.skipped:
        logger.warning(
            "records of unknown types skipped while loading",
            topic=hosted.kind.topic,
            partition=hosted.index,
            kinds=dict(reader.skipped),
        )
    logger.info(
        f"{hosted.kind.things} loaded",
        partition=hosted.index,
        records=hosted.loaded_records,
        bytes=hosted.loaded_bytes,
        **{hosted.kind.field_name: hosted.core.view.known()},
        snapshot_offset=hosted.loaded_from,
        ms=hosted.load_ms,
    )


async def _replay(
    hosted: HostedShard[Any],
    reader: Reader,
    chunk_bytes: int,
    slices: Slices,
    begin: int | None = None,
) -> None:
    """Replays the log in order, from the offset ``begin`` on, or from its start if ``begin`` is
    None.

    ``begin`` is an offset in a snapshot that was loaded before. Raises BadImage if the log has a
    gap after ``begin``. The log cleaner has then removed superseded records, and the snapshot may
    still contain their values.
    """
    log = hosted.log
    replay = reader.replay
    due = begin
    for data, header in log.scan(begin, max(chunk_bytes, HEADER_BYTES)):
        hosted.loaded_bytes += header.size_bytes
        hosted.loaded_to = header.last_offset + 1
        if due is not None:
            due = _next_due(due, header)
        if slices.over:
            await _pause(hosted, slices)
        for base_offset, run in reader.runs(data, header):
            if run is not None:  # else a record is not decoded completely
                replay(run, base_offset)
                hosted.loaded_records += len(run)
            if slices.over:
                await _pause(hosted, slices)
    if due is not None and due != log.log_end_offset:
        raise BadImage(
            f"the log end offset is {log.log_end_offset}, but the last batch ends at {due}"
        )


async def _pause(hosted: HostedShard[Any], slices: Slices) -> None:
    """Ends the slice. Raises Superseded if the shard was unloaded before the next slice."""
    await slices.pause()
    if hosted.phase is not Phase.LOADING:
        raise Superseded


def _next_due(due: int, header: BatchHeader) -> int:
    """Returns the offset after the batch, if the batch begins at ``due`` and has all its records.
    Raises BadImage otherwise."""
    if header.base_offset != due or header.record_count != header.last_offset_delta + 1:
        raise BadImage(f"the records from offset {due} on are missing: the log was compacted")
    return header.last_offset + 1


def give_up(hosted: HostedShard[Any], error: Exception) -> None:
    """Stores and logs the reason why the log of ``hosted`` can't be loaded, with advice for the
    operator."""
    name, kind = f"{hosted.log.topic}-{hosted.index}", hosted.kind
    if isinstance(error, CorruptLog):
        reason = str(error.with_advice(name))
    elif isinstance(error, CorruptStoredRecord) and error.log_offset >= 0:
        place = f"{name}:{error.log_offset}"
        reason = (
            f"{error}; restore the files from a copy, or start with"
            f" {kind.skip_setting}={place} to skip that record"
        )
    else:
        reason = str(error) or repr(error)
    hosted.log.unreadable = reason
    logger.error(
        f"loading {kind.things} failed, requests for this partition are rejected",
        partition=hosted.index,
        reason=reason,
        exc_info=None if isinstance(error, CorruptLog | CorruptStoredRecord | OSError) else error,
    )


def progress(hosted_shards: Sequence[HostedShard[Any]]) -> dict[str, Any]:
    """Returns how far loading has progressed: totals of all shards, and each shard that is being
    loaded."""
    field = hosted_shards[0].kind.field_name if hosted_shards else "groups"
    under_way = [hosted for hosted in hosted_shards if hosted.phase is Phase.LOADING]
    return {
        "partitions": len(hosted_shards),
        "partitions_loaded": sum(hosted.phase in LOADED for hosted in hosted_shards),
        "records_loaded": sum(hosted.loaded_records for hosted in hosted_shards),
        "bytes_loaded": sum(hosted.loaded_bytes for hosted in hosted_shards),
        f"{field}_loaded": sum(hosted.core.view.known() for hosted in hosted_shards),
        "loading": {
            str(hosted.index): {
                "records": hosted.loaded_records,
                "bytes": hosted.loaded_bytes,
                field: hosted.core.view.known(),
                "offset": hosted.loaded_to,
                "log_end_offset": hosted.log.log_end_offset,
            }
            for hosted in under_way
            if hosted.load_ms < 0 and hosted.loaded_to >= 0
        },
    }

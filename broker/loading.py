"""Loading a shard, in slices between which the loop serves others; and probing a log that failed.

Plain records are replayed as they come. Transactional ones, which only a log written by Apache
Kafka has so far, are kept per producer until their marker: COMMIT replays them, ABORT drops them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from time import perf_counter

import structlog

from broker.clock import Clock
from broker.shard_log import ShardLog
from offsets.record_codec import runs_of_section
from offsets.runs import Run
from protocol.records.batch import BatchHeader, records_of, section_of
from protocol.schema import Buffer

logger = structlog.get_logger(__name__)

SLICE_S = 0.008
"""How long one slice may hold the loop."""
PROBE_MS_FIRST = 200
PROBE_MS_MAX = 10_000
_COMMIT_MARKER = 1


async def load(host: ShardLog, chunk_bytes: int, clock: Clock) -> None:
    """Replays the whole log of ``host`` into its shard, ``chunk_bytes`` read at a time.

    Raises CorruptLog or CorruptRecord when the log cannot be read; the shard must not serve then.
    """
    skipped: Counter[int] = Counter()
    began_ms = clock.now().mono_ms
    since = perf_counter()
    host.loaded_records = 0
    for run, base_offset in _runs(host, chunk_bytes, skipped):
        if run is not None:
            host.shard.replay(run, base_offset)
            host.loaded_records += len(run)
        if perf_counter() - since > SLICE_S:
            await asyncio.sleep(0)
            since = perf_counter()
    host.load_ms = clock.now().mono_ms - began_ms
    if skipped:
        logger.warning(
            "records of unknown kinds were passed over",
            partition=host.partition,
            kinds=dict(skipped),
        )
    logger.info(
        "groups loaded", partition=host.partition, records=host.loaded_records, ms=host.load_ms
    )


async def wait_until_writable(host: ShardLog) -> None:
    """Tries, ever less often, whether the log takes writes again; returns when it does.

    Raises LogPoisoned when it never will.
    """
    wait_ms = PROBE_MS_FIRST
    while True:
        await asyncio.sleep(wait_ms / 1000)
        try:
            host.log.probe()
        except OSError as error:
            wait_ms = min(2 * wait_ms, PROBE_MS_MAX)
            logger.warning(
                "the log still takes no writes",
                partition=host.partition,
                error=str(error),
                next_try_ms=wait_ms,
            )
        else:
            logger.info("the log takes writes again", partition=host.partition)
            return


def _runs(
    host: ShardLog, chunk_bytes: int, skipped: Counter[int]
) -> Iterator[tuple[Run | None, int]]:
    """The committed runs of the log in order; None where a slice may end."""
    open_transactions: dict[int, list[tuple[int, Run]]] = {}
    for data, header in host.log.scan(chunk_bytes=chunk_bytes):
        if header.is_control:
            ended = open_transactions.pop(header.producer_id, ())
            if _is_commit(data, header):
                for offset, run in ended:
                    yield run, offset
            continue
        yield None, header.base_offset
        runs = runs_of_section(
            section_of(data, header), header.base_offset, header.record_count, skipped
        )
        if header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).extend(runs)
            continue
        for offset, run in runs:
            yield run, offset


def _is_commit(data: Buffer, header: BatchHeader) -> bool:
    """Whether a control batch ends its transaction with COMMIT; a cleaned one holds no record."""
    markers = records_of(data, header)
    if not markers or markers[0].key is None:
        return False
    return int.from_bytes(markers[0].key[2:4], "big") == _COMMIT_MARKER

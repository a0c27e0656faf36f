"""Loading a shard: its log, replayed in slices between which the loop serves others.

Plain records are replayed as they come. Transactional ones, which only a log written by Apache
Kafka has so far, are kept per producer until their marker: COMMIT replays them, ABORT drops them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from time import perf_counter

from broker.shard_log import ShardLog
from offsets.record_codec import runs_of_section
from offsets.runs import Run
from protocol.records.batch import BatchHeader, records_of, section_of
from protocol.schema import Buffer

SLICE_S = 0.008
"""How long one slice may hold the loop."""
_COMMIT_MARKER = 1


async def load(host: ShardLog, chunk_bytes: int) -> Counter[int]:
    """Replays the whole log of ``host`` into its shard, ``chunk_bytes`` read at a time.

    Returns how many records of unknown key types were skipped, by type. Raises CorruptLog or
    CorruptRecord when the log cannot be read; the shard must not serve then.
    """
    skipped: Counter[int] = Counter()
    since = perf_counter()
    for run, base_offset in _runs(host, chunk_bytes, skipped):
        if run is not None:
            host.shard.replay(run, base_offset)
            host.loaded_records += len(run)
        if perf_counter() - since > SLICE_S:
            await asyncio.sleep(0)
            since = perf_counter()
    return skipped


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

"""Transactional commits between their record and their marker, while a log is loaded.

Only a log that Apache Kafka has written holds any so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from offsets.cache import CachedOffset
from offsets.runs import OffsetRun, OffsetTombstones, Run

Cached = Callable[[str, str, int], CachedOffset | None]
"""What is committed by group, topic and partition: `OffsetCache.get`."""


class OpenTransactions:
    """The runs of transactions that have not ended, by producer."""

    def __init__(self) -> None:
        self._runs: dict[int, list[tuple[int, Run]]] = {}

    def add(self, producer_id: int, runs: Iterable[tuple[int, Run]]) -> None:
        """``runs``, each with its base offset, wait for their producer's marker."""
        self._runs.setdefault(producer_id, []).extend(runs)

    def end(self, producer_id: int, committed: bool, cached: Cached) -> Iterator[tuple[int, Run]]:
        """What is to be replayed now that a marker has come; nothing for an aborted transaction.

        A partition whose plain commit came after the transactional one is left out: as in Kafka the
        record further on in the log counts, not the transaction that ended later.
        """
        ended = self._runs.pop(producer_id, ())
        for base_offset, run in ended if committed else ():
            if not isinstance(run, OffsetRun):
                yield base_offset, run
                continue
            for index, partition in enumerate(run.partitions):
                entry = cached(run.group_id, run.topic, partition)
                if entry is None or entry.log_offset < base_offset + index:
                    yield base_offset + index, _one_of(run, index)

    def deleted(self, tombstones: OffsetTombstones) -> None:
        """Drops the offsets that were deleted after they were written."""
        keys = set(tombstones.keys)
        for producer_id, runs in self._runs.items():
            kept: list[tuple[int, Run]] = []
            for base_offset, run in runs:
                if isinstance(run, OffsetRun) and run.group_id == tombstones.group_id:
                    kept += [
                        (base_offset + index, _one_of(run, index))
                        for index, partition in enumerate(run.partitions)
                        if (run.topic, partition) not in keys
                    ]
                else:
                    kept.append((base_offset, run))
            self._runs[producer_id] = kept


def _one_of(run: OffsetRun, index: int) -> OffsetRun:
    return replace(
        run,
        partitions=[run.partitions[index]],
        offsets=[run.offsets[index]],
        leader_epochs=[run.leader_epochs[index]],
        metadata=None if run.metadata is None else [run.metadata[index]],
    )

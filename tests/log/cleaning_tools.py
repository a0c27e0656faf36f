"""Helpers for tests of log cleaning: random logs, the records that readers receive, and cleanings
in the test process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.clean_plan import SegmentFacts
from log.cleaner.clean_swap import commit, discard, exchange, sources_of
from log.cleaner.cleaner import clean
from log.partition_log import PartitionLog
from protocol.records.batch import (
    ABORT,
    COMMIT,
    encode_batch,
    read_header,
    records_of,
)
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from tests.log.log_tools import NOW_MS, last_batches, open_log
from tests.simulated_files import SimulatedFiles

RETENTION_MS = 1000
SETTINGS = {
    "cleanup_policy": "compact",
    "segment_bytes": 900,
    "index_interval_bytes": 150,
    "delete_retention_ms": RETENTION_MS,
}


def facts(log: PartitionLog) -> list[list[int]]:
    """Returns the segments of a log in the form that a cleaning job contains."""
    return [
        list(
            SegmentFacts(
                segment.base_offset,
                segment.size,
                segment.max_timestamp_ms,
                segment.index.size_bytes,
                segment.time_index.size_bytes,
            )
        )
        for segment in log.segments
    ]


def job_for(log: PartitionLog, first_dirty: int, now_ms: int, **fields: Any) -> CleanJob:
    """Returns a cleaning job for all closed segments of ``log``."""
    config = log.config
    settings: dict[str, Any] = {
        "delete_retention_ms": config.delete_retention_ms,
        "segment_bytes": config.segment_bytes,
        "segment_index_bytes": config.segment_index_bytes,
        "index_interval_bytes": config.index_interval_bytes,
        "stable_offset": log.first_unstable_offset,
        "producers": last_batches(log),
        **fields,
    }
    return CleanJob(
        log.directory, facts(log), first_dirty, log.active.base_offset, now_ms, **settings
    )


def clean_log(log: PartitionLog, first_dirty: int, now_ms: int, **fields: Any) -> CleanDone:
    """Cleans ``log`` and replaces its segments, as the broker does."""
    log.flush()

    def replace(group: CleanedGroup) -> None:
        sources = sources_of(log, group)
        assert sources is not None
        discard(log.fs, exchange(log, group, sources, commit(log, group)), sources)

    return clean(log.fs, job_for(log, first_dirty, now_ms, **fields), replace)


def all_records(log: PartitionLog) -> list[Record]:
    """Returns all records of the log except markers, in log order."""
    return [
        record
        for buffer, header in log.scan()
        if not header.is_control
        for record in records_of(buffer, header)
    ]


def committed(log: PartitionLog) -> list[Record]:
    """Returns the records that a read_committed consumer receives, ordered by the end of their
    transactions."""
    return list(_committed(log))


def _committed(log: PartitionLog) -> Iterator[Record]:
    waiting: dict[int, list[Record]] = {}
    for buffer, header in log.scan():
        records = records_of(buffer, header)
        if header.is_control:
            ended = waiting.pop(header.producer_id, [])
            if records and records[0].key == b"\0\0\0\1":
                yield from ended
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, []).extend(records)
        else:
            yield from records


def last_by_key(records: list[Record]) -> dict[bytes, Record]:
    """Returns for each key the record with the highest offset."""
    last: dict[bytes, Record] = {}
    for record in sorted(records):
        if record.key is not None:
            last[record.key] = record
    return last


class RandomLog:
    """Appends random values, tombstones, transactions and idempotent batches, as in a compacted
    topic. Appends the same batches to ``shadow``, a log that is never cleaned."""

    def __init__(self, log: PartitionLog, chance: random.Random, keys: int = 12) -> None:
        self.log = log
        self.keys = keys
        self.shadow = open_log(SimulatedFiles())
        self.chance = chance
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def append(self, batches: int) -> None:
        for _ in range(batches):
            self.now_ms += self.chance.randint(0, 40)
            action = self.chance.random()
            if action < 0.15 and self.open:
                self._end(self.chance.choice(sorted(self.open)))
            elif action < 0.35:
                self._batch(self.chance.choice([7, 8]), transactional=True)
            elif action < 0.5:
                self._batch(self.chance.choice([1, 2]), transactional=False)
            else:
                self._batch(-1, transactional=False)

    def end_all(self) -> None:
        for producer in sorted(self.open):
            self._end(producer)

    def _records(self, first: int) -> list[Record]:
        chance = self.chance
        return [
            Record(
                first + index,
                self.now_ms - chance.randint(0, 3) * 7,
                b"k%d" % chance.randrange(self.keys),
                None if chance.random() < 0.25 else chance.randbytes(chance.choice([0, 3, 90])),
                [("h", b"x")] if chance.random() < 0.1 else [],
            )
            for index in range(chance.randint(1, 6))
        ]

    def _batch(self, producer: int, transactional: bool) -> None:
        first = self.log.log_end_offset
        records = self._records(first)
        sequence = -1
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(records)
            if transactional:
                self.open.add(producer)
        self._write(
            encode_batch(
                records,
                compression=self.chance.choice([0, 0, 0, 1, 2, 3, 4]),
                leader_epoch=0,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
                is_transactional=transactional,
            ),
        )

    def _end(self, producer: int) -> None:
        self.open.discard(producer)
        self._write(
            encode_end_transaction(
                self.chance.choice([ABORT, COMMIT]),
                base_offset=self.log.log_end_offset,
                timestamp=self.now_ms,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                leader_epoch=0,
            )
        )

    def _write(self, batch: bytes) -> None:
        header = read_header(batch)
        for log in (self.log, self.shadow):
            log.append_encoded(
                batch, header.base_offset, header.last_offset, header.max_timestamp, [header]
            )

"""A naive model of a share partition. It has one entry per offset, and its operations loop over all
entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from share.partition.settings import ShareSettings
from share.partition.values import AckBatch, AcquiredRange, FetchedRecords

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
FINAL = (ACKNOWLEDGED, ARCHIVED)
NONE, INVALID_REQUEST, INVALID_RECORD_STATE = 0, 42, 121
AFTER = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}

PerOffset = dict[int, tuple[int, int]]
"""Delivery state and delivery count by offset."""


@dataclass
class Record:
    """The delivery state of one offset. If ``change`` is not 0, a change with this number is in
    progress: when it is stored, the state becomes ``next_state``."""

    state: int = AVAILABLE
    count: int = 0
    member_id: str = ""
    lock_begins_ms: int = -1
    lock_ends_ms: int = -1
    change: int = 0
    next_state: int = AVAILABLE

    def put(self, state: int) -> None:
        self.state = state
        self.change = 0
        if state != ACQUIRED:
            self.member_id, self.lock_begins_ms, self.lock_ends_ms = "", -1, -1

    def is_complete(self) -> bool:
        return (self.next_state if self.change else self.state) in FINAL


class ModelChange(NamedTuple):
    """The expected content of a change of the share partition."""

    number: int
    start_offset: int
    delivery_complete_count: int
    records: PerOffset


@dataclass
class Model:
    """A model of the share partition. ``end`` is the offset after the last record in flight."""

    start: int
    settings: ShareSettings
    records: dict[int, Record] = field(default_factory=dict)
    changes: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def load(self, records: PerOffset) -> None:
        for offset in range(self.start, max(records, default=-1) + 1):
            state, count = records.get(offset, (AVAILABLE, 0))
            self.records[offset] = Record(state, count)
        self._move_start()

    def next_fetch_offset(self) -> int:
        for offset, record in sorted(self.records.items()):
            if record.state == AVAILABLE:
                return offset
        return self.end

    def can_acquire(self) -> bool:
        return self.next_fetch_offset() < self.end or (
            len(self.records) < self.settings.max_record_locks
        )

    def acquire(
        self, member_id: str, fetched: FetchedRecords, max_records: int, mode: int, now_ms: int
    ) -> list[tuple[int, int]]:
        for offset in range(fetched.fetch_offset, fetched.batches[0].base_offset):
            if (gone := self.records.get(offset)) and gone.state == AVAILABLE:
                gone.put(ARCHIVED)
        limit = self.settings.delivery_count_limit
        free = self.settings.max_record_locks - len(self.records)
        end, last = self.end, fetched.batches[-1].last_offset
        first = max(fetched.batches[0].base_offset, self.start)
        acquired: list[tuple[int, int]] = []
        left, strict = max_records, mode == 1
        alone: list[int] = []
        for offset in range(first, last + 1):
            if offset == max(first, end):
                last = min(last, self._last_free(offset + free - 1, fetched, strict))
            if offset > last or (offset >= end and free <= 0):
                break
            record = self.records.get(offset, Record())
            if record.state != AVAILABLE:
                continue
            if alone and offset not in alone:
                break
            if not alone and record.count >= max(2, (limit + 1) // 2):
                if acquired:
                    break
                alone, strict = self._piece(offset), True
                left = min(left, 1 if record.count >= limit - 1 else max(1, len(alone) // 2))
            goes_on = (
                not strict
                and offset != end
                and acquired[-1:] == [(offset - 1, record.count + 1)]
                and any(a < offset <= b for a, b in fetched.batches)
            )
            is_aborted = any(a <= offset <= b for a, b in fetched.aborted)
            if left <= 0 and (is_aborted or not goes_on):
                break
            for hole in range(self.end, offset):
                self.records[hole] = Record(ARCHIVED)
            self.records[offset] = record
            if is_aborted:
                record.put(ARCHIVED)
                continue
            record.put(ACQUIRED)
            record.count += 1
            record.member_id = member_id
            record.lock_begins_ms = now_ms
            record.lock_ends_ms = now_ms + self.settings.lock_duration_ms
            acquired.append((offset, record.count))
            left -= 1
        self._move_start()
        return acquired

    def _last_free(self, offset: int, fetched: FetchedRecords, strict: bool) -> int:
        """Returns the last offset that may be acquired together with ``offset``. In strict mode
        this is ``offset`` itself. Otherwise it is the last offset of the fetched batch that
        contains ``offset``."""
        ends = [b for a, b in fetched.batches if a <= offset <= b]
        return offset if strict or not ends else ends[0]

    def _piece(self, offset: int) -> list[int]:
        """Returns the contiguous available offsets around ``offset`` with the same delivery
        count."""
        count = self.records[offset].count
        pieces: list[list[int]] = [[]]
        for each, record in sorted(self.records.items()):
            if (record.state, record.count) == (AVAILABLE, count):
                pieces[-1].append(each)
            else:
                pieces.append([])
        return next(piece for piece in pieces if offset in piece)

    def acknowledge(
        self, member_id: str, batches: list[AckBatch], now_ms: int, is_renew: bool
    ) -> tuple[int, ModelChange | None]:
        before = -1
        for first, last, types in batches:
            known = range(5 if is_renew else 4)
            if (
                first > last
                or first < before
                or len(types) not in (1, last - first + 1)
                or any(each not in known for each in types)
            ):
                return INVALID_REQUEST, None
            before = last
        chosen: dict[int, int] = {}
        for first, last, types in batches:
            if last < self.start:
                continue
            if not self.records:
                return INVALID_RECORD_STATE, None
            if last >= self.end:
                return INVALID_REQUEST, None
            for index, offset in enumerate(range(first, last + 1)):
                if offset < self.start:
                    continue
                record = self.records[offset]
                if offset in chosen or record.change or record.member_id != member_id:
                    return INVALID_RECORD_STATE, None
                chosen[offset] = types[index % len(types)]
        after = {}
        for offset, type_ in chosen.items():
            if type_ == 4:
                self.records[offset].lock_begins_ms = now_ms
                self.records[offset].lock_ends_ms = now_ms + self.settings.lock_duration_ms
            else:
                after[offset] = self._limited(self.records[offset], AFTER[type_])
        return NONE, self._change(after)

    def release_member(self, member_id: str) -> ModelChange | None:
        return self._release(
            offset for offset, record in self.records.items() if record.member_id == member_id
        )

    def expire(self, now_ms: int) -> ModelChange | None:
        return self._release(
            offset for offset, record in self.records.items() if 0 <= record.lock_ends_ms <= now_ms
        )

    def _release(self, offsets: Iterator[int]) -> ModelChange | None:
        return self._change(
            {
                offset: self._limited(self.records[offset], AVAILABLE)
                for offset in offsets
                if not self.records[offset].change
            }
        )

    def _limited(self, record: Record, state: int) -> int:
        too_often = record.count >= self.settings.delivery_count_limit
        return ARCHIVED if state == AVAILABLE and too_often else state

    def _change(self, after: dict[int, int]) -> ModelChange | None:
        if not after:
            return None
        self.changes += 1
        for offset, state in after.items():
            self.records[offset].change = self.changes
            self.records[offset].next_state = state
        return ModelChange(
            self.changes,
            self.start,
            sum(record.is_complete() for record in self.records.values()),
            {offset: (state, self.records[offset].count) for offset, state in after.items()},
        )

    def written(self, number: int) -> None:
        for record in self.records.values():
            if record.change == number:
                record.put(record.next_state)
        self._move_start()

    def failed(self, number: int, now_ms: int) -> None:
        for record in self.records.values():
            if record.change == number:
                ended = record.lock_ends_ms <= now_ms
                record.put(self._limited(record, AVAILABLE) if ended else ACQUIRED)
        self._move_start()

    def log_start_moved(self, offset: int) -> None:
        while self.start < offset:
            self.records.pop(self.start, None)
            self.start += 1
        self._move_start()

    def _move_start(self) -> None:
        while (first := self.records.get(self.start)) and not first.change and first.state in FINAL:
            del self.records[self.start]
            self.start += 1
        self.records = dict(sorted(self.records.items()))


def split(
    acquired: list[tuple[int, int]], fetched: FetchedRecords, batch_size: int, mode: int
) -> list[AcquiredRange]:
    """Returns the ranges in which a member must receive the acquired records."""
    bases = {batch.base_offset for batch in fetched.batches}
    ranges: list[AcquiredRange] = []
    for offset, count in acquired:
        if ranges:
            first, last, delivery_count = ranges[-1]
            full = mode == 0 and offset in bases and offset - first >= batch_size
            if offset == last + 1 and count == delivery_count and not full:
                ranges[-1] = AcquiredRange(first, offset, count)
                continue
        ranges.append(AcquiredRange(offset, offset, count))
    return ranges


def batches_of(records: PerOffset) -> list[tuple[int, int, int, int]]:
    """Returns the offsets as batches of consecutive offsets with equal state and delivery count."""
    batches: list[tuple[int, int, int, int]] = []
    for offset, (state, count) in sorted(records.items()):
        if batches and batches[-1][1:] == (offset - 1, state, count):
            batches[-1] = (batches[-1][0], offset, state, count)
        else:
            batches.append((offset, offset, state, count))
    return batches

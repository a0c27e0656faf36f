"""The transactions in the logs, decoded from their bytes without the broker's code.

A transactional batch is committed if the next marker of its producer is COMMIT, dropped if it is
ABORT, and open without a later marker. The offsets of groups are read as ordinary records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.records.batch import BatchHeader, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.simulated_files import SimulatedFiles
from tests.simulation.transactions.ledger import Deed, Ledger, Outcome, Place
from tests.simulation.whole.disk_log import OFFSETS_TOPIC, batches_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_MARKER = struct.Struct(">hh")
_COMMIT = 1


@dataclass
class LogTruth:
    """The transactions in the log of one partition."""

    place: Place
    committed: dict[int, bytes] = field(default_factory=dict)
    """Values of committed records, by offset."""
    offsets: dict[int, Committed] = field(default_factory=dict)
    """The committed group offsets in a partition of __consumer_offsets, by the log offset of their
    record."""
    open: dict[int, list[tuple[int, Record]]] = field(default_factory=dict)
    """Records whose transaction has no marker yet, by producer id."""
    writers: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, epoch and base offset of each transactional batch with data."""
    end: int = 0


@dataclass(frozen=True)
class Committed:
    """A committed offset that a record of __consumer_offsets contains."""

    group_id: str
    topic: str
    partition: int
    offset: int
    metadata: str


def read(files: SimulatedFiles, place: Place) -> LogTruth:
    """Reads the transactions of one partition from the bytes of its log."""
    truth = LogTruth(place)
    for _, _, data in batches_of(files, *place, synced=False):
        for header, _ in iter_stored(data):
            _take(truth, header, records_of(data, header))
            truth.end = header.last_offset + 1
    return truth


def _take(truth: LogTruth, header: BatchHeader, records: list[Record]) -> None:
    if header.is_control:
        _, kind = _MARKER.unpack(records[0].key or b"")
        ended = truth.open.pop(header.producer_id, [])
        for offset, record in ended if kind == _COMMIT else ():
            _count(truth, offset, record)
    elif header.is_transactional:
        truth.writers.append((header.producer_id, header.producer_epoch, header.base_offset))
        pending = truth.open.setdefault(header.producer_id, [])
        pending += [(record.offset, record) for record in records]
    else:
        for record in records:
            _count(truth, record.offset, record)


def _count(truth: LogTruth, offset: int, record: Record) -> None:
    if truth.place[0] != OFFSETS_TOPIC:
        truth.committed[offset] = record.value or b""
        return
    commit = _commit_of(record)
    if commit is not None:
        truth.offsets[offset] = commit


def _commit_of(record: Record) -> Committed | None:
    """Decodes a record with an OffsetCommitKey of version 1 and a value of version 3. Returns None
    for any other record."""
    key, value = record.key or b"", record.value
    if value is None or key[:2] != b"\0\1":
        return None
    group_id, at = _text(key, 2)
    topic, at = _text(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    _, offset, _ = struct.unpack_from(">hqi", value)
    metadata, _ = _text(value, 14)
    return Committed(group_id, topic, partition, offset, metadata)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def check(ledger: Ledger, truths: Iterable[LogTruth], at_rest: bool) -> None:
    """Asserts that readers see each transaction of the ledger completely or not at all, only once,
    and in the order of the producer's requests. ``at_rest`` is False while the simulation may still
    write markers."""
    seen: dict[Deed, Seen] = {deed: Seen() for deed in ledger.deeds.values()}
    for truth in truths:
        latest: dict[str, int] = {}
        for _, value in sorted(truth.committed.items()):
            deed = ledger.of_value(value)
            seen[deed].parts.setdefault(truth.place, []).append(value)
            before = latest.setdefault(deed.producer, deed.number)
            if before > deed.number and not ledger.excused(deed):
                raise AssertionError(f"{truth.place}: {value!r} comes behind deed {before}")
            latest[deed.producer] = deed.number
        for commit in truth.offsets.values():
            if commit.metadata:
                seen[ledger.deeds[commit.metadata]].moved[commit.partition] = commit.offset
        for pending in truth.open.values():
            for _, record in pending:
                _note_pending(ledger, seen, truth.place, record)
        _check_fences(ledger, truth)
    for deed, found in seen.items():
        if not ledger.excused(deed):
            _check_deed(deed, found, at_rest)


@dataclass
class Seen:
    """The committed records and the pending records of one transaction in the logs."""

    parts: dict[Place, list[bytes]] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    pending: dict[Place, list[bytes]] = field(default_factory=dict)
    pending_moved: dict[int, int] = field(default_factory=dict)

    def is_whole(self, deed: Deed, at_rest: bool) -> bool:
        """Returns True if all records and offsets of the transaction ``deed`` are committed. If
        ``at_rest`` is False, pending records and offsets count as committed."""
        if at_rest:
            return self.parts == deed.parts and self.moved == deed.offsets
        parts = {**self.pending, **self.parts}
        return parts == deed.parts and {**self.pending_moved, **self.moved} == deed.offsets


def _note_pending(ledger: Ledger, seen: dict[Deed, Seen], place: Place, record: Record) -> None:
    if place[0] != OFFSETS_TOPIC:
        value = record.value or b""
        seen[ledger.of_value(value)].pending.setdefault(place, []).append(value)
        return
    commit = _commit_of(record)
    if commit is not None:
        seen[ledger.deeds[commit.metadata]].pending_moved[commit.partition] = commit.offset


def _check_deed(deed: Deed, seen: Seen, at_rest: bool) -> None:
    nothing = not seen.parts and not seen.moved
    match deed.outcome:
        case Outcome.COMMITTED:
            fits = seen.is_whole(deed, at_rest)
        case Outcome.ABORTED:
            fits = nothing
        case Outcome.OPEN | Outcome.UNKNOWN:
            fits = nothing or (deed.commit_asked and seen.is_whole(deed, at_rest))
    assert fits, (
        f"deed {deed.metadata} (TV{deed.rules}, {deed.outcome.value}) has {deed.parts} and moves"
        f" {deed.offsets}; of it is in the logs: {seen}"
    )


def _check_fences(ledger: Ledger, truth: LogTruth) -> None:
    """Asserts that no producer wrote with an outdated epoch: if a client had received a newer epoch
    before a record was appended, the record must not have a lower epoch."""
    given: dict[int, list[tuple[int, int]]] = {}
    for (producer_id, epoch), ends in ledger.fences.items():
        given.setdefault(producer_id, []).append((epoch, ends.get(truth.place, 0)))
    for producer_id, epoch, offset in truth.writers:
        for newer, end in given.get(producer_id, ()):
            assert epoch >= newer or offset < end, (
                f"{truth.place}: producer {producer_id} wrote at {offset} with epoch {epoch};"
                f" epoch {newer} was given out when the log ended at {end}"
            )

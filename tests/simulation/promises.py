"""Checks that acknowledged records are never lost, and that only records that were written are
read.

`Promises` stores all accepted records, and the offset up to which replies were sent. A client that
received a reply may rely on all earlier records. Each load of a shard is checked against the
promises.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.log_reader import ModelRecord


class Promises:
    """The accepted records of one log, including records that a crash has since removed."""

    def __init__(self) -> None:
        self.told = 0
        """The end offset that the log must keep, because the broker has sent a reply that depends
        on the record before this offset."""
        self._written: dict[bytes, list[tuple[int, bytes | None]]] = {}
        """The log offset and the value of each written record, by key, in ascending order."""
        self._open: dict[int, list[int]] = {}
        """Log offsets of the records in each producer's open transaction."""
        self._aborted: set[int] = set()
        """Log offsets of aborted transactional records, which a cleaner may remove."""

    def accepted(self, records: Iterable[ModelRecord]) -> None:
        """Notes records that will be appended next."""
        for record in records:
            if record.is_marker:
                ended = self._open.pop(record.producer_id, [])
                self._aborted.update(() if record.commits else ended)
                continue
            if record.producer_id >= 0:
                self._open.setdefault(record.producer_id, []).append(record.log_offset)
            self._written.setdefault(record.key, []).append((record.log_offset, record.value))

    def leaves(self, log_offset: int) -> None:
        """Notes that the broker sends a reply that depends on the records below ``log_offset``.
        From now on these records must not be lost."""
        self.told = max(self.told, log_offset)

    def forgo(self, log_offset: int) -> None:
        """Notes that a power failure may remove the records from ``log_offset`` on. From now on,
        the promises to clients cover only earlier records."""
        self.told = min(self.told, log_offset)

    def kept(self, found: Iterable[ModelRecord], end: int) -> None:
        """Checks that ``found``, the records that the load of a shard has read, contain all
        acknowledged records. The log ends at offset ``end``."""
        assert end >= self.told, f"the log ends at {end}, and {self.told} was acknowledged"
        newest: dict[bytes, int] = {}
        self._aborted = {each for each in self._aborted if each < end}
        self._open = {}
        for record in found:
            if record.is_marker:
                self._open.pop(record.producer_id, None)
                continue
            if record.producer_id >= 0:
                self._open.setdefault(record.producer_id, []).append(record.log_offset)
            written = (record.log_offset, record.value)
            assert written in self._written.get(record.key, ()), f"nobody wrote {record}"
            newest[record.key] = record.log_offset
        for key, written_of_key in self._written.items():
            while written_of_key and written_of_key[-1][0] >= end:
                written_of_key.pop()  # a lost record that was never acknowledged
            told = (
                each
                for each in reversed(written_of_key)
                if each[0] < self.told and each[0] not in self._aborted
            )
            offset, value = next(told, (-1, None))
            lost = f"{key!r} of offset {offset} was acknowledged, and is lost"
            assert newest.get(key, -1) >= offset or (value is None and key not in newest), lost

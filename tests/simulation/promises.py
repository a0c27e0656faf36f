"""Acknowledged records are never lost, and every read record was written (the first invariant).

It remembers every accepted record, and the offset up to which replies have left: a client with a
reply may rely on all earlier records. Each start is checked against that.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.log_reader import ModelRecord


class Promises:
    """The accepted records of one log, whatever became of the log since."""

    def __init__(self) -> None:
        self.told = 0
        """Replies that depend on all records below this offset have left."""
        self._written: dict[bytes, list[tuple[int, bytes | None]]] = {}
        """By key: log offset and value of each of its records, ascending."""
        self._open: dict[int, list[int]] = {}
        """By producer: the records of its open transaction."""
        self._aborted: set[int] = set()
        """Records of aborted transactions: a cleaner may remove them."""

    def accepted(self, records: Iterable[ModelRecord]) -> None:
        """These records are about to be appended."""
        for record in records:
            if record.is_marker:
                ended = self._open.pop(record.producer_id, [])
                self._aborted.update(() if record.commits else ended)
                continue
            if record.producer_id >= 0:
                self._open.setdefault(record.producer_id, []).append(record.log_offset)
            self._written.setdefault(record.key, []).append((record.log_offset, record.value))

    def leaves(self, log_offset: int) -> None:
        """A reply that depends on the records below ``log_offset`` leaves."""
        self.told = max(self.told, log_offset)

    def forgo(self, log_offset: int) -> None:
        """The power fails, and only flushed records, below ``log_offset``, are promised."""
        self.told = min(self.told, log_offset)

    def kept(self, found: Iterable[ModelRecord], end: int) -> None:
        """A start finds these records in a log that ends at ``end``; fail unless that is
        permitted."""
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
                written_of_key.pop()  # lost, and never acknowledged
            told = (
                each
                for each in reversed(written_of_key)
                if each[0] < self.told and each[0] not in self._aborted
            )
            offset, value = next(told, (-1, None))
            lost = f"{key!r} of offset {offset} was acknowledged, and is lost"
            assert newest.get(key, -1) >= offset or (value is None and key not in newest), lost

"""The errors of records of ``__consumer_offsets``, read or to be written."""

from __future__ import annotations


class CorruptRecord(ValueError):
    """A stored record that cannot be what it claims: its log is damaged, or from a newer Kafka."""

    def __init__(self, log_offset: int, reason: str) -> None:
        super().__init__(f"record at offset {log_offset} of the offsets log: {reason}")
        self.log_offset = log_offset
        self.reason = reason


class UnwritableRun(ValueError):
    """A value that Kafka's record formats cannot hold, such as a group id above 32767 bytes."""

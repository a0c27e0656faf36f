"""The errors of records of ``__consumer_offsets``, read or to be written."""

from __future__ import annotations

from protocol.records.corrupt import CorruptStoredRecord


class CorruptRecord(CorruptStoredRecord):
    """A stored record that can't be what it claims."""

    def __init__(self, log_offset: int, reason: str) -> None:
        message = f"record at offset {log_offset} of the offsets log: {reason}"
        super().__init__(message, log_offset, reason)


class UnwritableRun(ValueError):
    """A value that Kafka's record formats cannot hold, such as a group id above 32767 bytes."""

"""The exceptions for invalid record data from a client or a file."""

from __future__ import annotations

from typing import NamedTuple

from protocol.errors import CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, ProtocolError


class RecordError(NamedTuple):
    """A record that Produce rejects: its index in the batch, and the reason. Responses contain it
    from Produce v8 on."""

    batch_index: int
    message: str


class CorruptRecords(ProtocolError):
    """Record data that is rejected. ``error_code`` is Kafka's error code. ``record_errors`` lists
    the invalid records; the list is empty if the whole batch is invalid."""

    def __init__(
        self,
        message: str,
        error_code: int = CORRUPT_MESSAGE,
        record_errors: tuple[RecordError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code
        self.record_errors = record_errors


class NoOldForm(CorruptRecords):
    """Raised if a batch must be converted to magic 0 or 1 but is compressed with zstd, which these
    formats do not support. The response to Fetch v0-v3 has this error's code."""

    def __init__(self, message: str) -> None:
        super().__init__(message, UNSUPPORTED_COMPRESSION_TYPE)


class CorruptStoredRecord(ValueError):
    """An invalid record in a coordinator's log: the log is damaged, or was written by a newer
    Kafka.

    Each kind of log has a subclass with its own message. ``log_offset`` is negative if the record
    has no offset.
    """

    def __init__(self, message: str, log_offset: int, reason: str) -> None:
        super().__init__(message)
        self.log_offset = log_offset
        self.reason = reason

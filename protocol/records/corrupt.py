"""The exceptions for record data of a client or a file that Kafka's formats do not allow."""

from __future__ import annotations

from typing import NamedTuple

from protocol.errors import CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, ProtocolError


class RecordError(NamedTuple):
    """One record that Produce refuses: its index in the batch, and why (Produce v8 and up)."""

    batch_index: int
    message: str


class CorruptRecords(ProtocolError):
    """Record data that is refused.

    ``error_code`` is Kafka's code for it, ``record_errors`` the single records that are to blame,
    empty when the whole batch is.
    """

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
    """A batch that magic 0 and 1 cannot carry (zstd): Fetch v0-v3 answers its ``error_code``."""

    def __init__(self, message: str) -> None:
        super().__init__(message, UNSUPPORTED_COMPRESSION_TYPE)


class CorruptStoredRecord(ValueError):
    """A record of a coordinator's log that can't be what it claims; each log says so in its words.

    The log is damaged, or from a newer Kafka. ``log_offset`` below 0: the record is nowhere.
    """

    def __init__(self, message: str, log_offset: int, reason: str) -> None:
        super().__init__(message)
        self.log_offset = log_offset
        self.reason = reason

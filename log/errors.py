"""The errors of `log/`: damaged files, a log that rejects records, and rejected requests."""

from __future__ import annotations


class CorruptLog(Exception):
    """A file is damaged. The log is not opened, and is not treated as empty. ``position`` is the
    byte of ``file`` at which the damage begins."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(f"{file} is damaged at byte {position}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason

    def with_advice(self, partition: str) -> CorruptLog:
        """Returns the same error with advice for an operator. ``partition`` is the log's
        TOPIC-PARTITION."""
        return CorruptLog(
            self.file,
            self.position,
            f"{self.reason}; restore the file from a copy, or start the broker once"
            f" with log.recovery.truncate={partition} to truncate the log at the damage",
        )


class MissingFiles(CorruptLog):
    """Files are missing although other files prove that they existed. The log is not opened, and is
    not treated as empty."""

    def __init__(self, file: str, reason: str) -> None:
        Exception.__init__(self, f"{file} is missing: {reason}")
        self.file = file
        self.position = 0
        self.reason = reason

    def with_advice(self, partition: str) -> MissingFiles:
        return MissingFiles(
            self.file,
            f"{self.reason}; restore the missing files, or start the broker once with"
            f" log.recovery.missing={partition} to continue without them",
        )


class LogPoisoned(Exception):
    """A write failed, so the log rejects appends until a probe write succeeds.

    ``final`` means that no probe write will be tried: an fsync, or the truncation after a failed
    write, has failed, so the state of the disk is unknown.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class LogBusy(Exception):
    """The log can't be truncated while cleaned segments replace old segments. The caller must retry
    shortly."""


class DirectoryLocked(Exception):
    """Another process has locked the data directory."""


class OffsetOutOfRange(Exception):
    """The requested offset is below the log start offset or above the log end offset."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"Offset {offset} is outside the log: the log start offset is {log_start_offset}, the"
            f" log end offset {log_end_offset}."
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class NotInMemory(Exception):
    """The requested data is only on the disk, and the caller must not wait for the disk."""


class AppendRefused(Exception):
    """A producer's batch violates a rule of the log. The log is unchanged. ``error_code`` is
    Kafka's error code."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

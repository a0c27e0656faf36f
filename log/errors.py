"""The errors of `log/`: damage, a log that takes no records, and requests that a log refuses."""

from __future__ import annotations


class CorruptLog(Exception):
    """A file holds what no clean writer leaves: the log is refused, never read as empty.

    ``position`` is the byte of ``file`` where the damage begins.
    """

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(f"{file} is damaged at byte {position}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason

    def with_advice(self, partition: str) -> CorruptLog:
        """The same, saying what an operator can do about the log of TOPIC-PARTITION."""
        return CorruptLog(
            self.file,
            self.position,
            f"{self.reason}; restore the file from a copy, or start once with"
            f" log.recovery.truncate={partition} to truncate the log there",
        )


class MissingFiles(CorruptLog):
    """Files are gone that others say were there: the log is refused, never read as empty."""

    def __init__(self, file: str, reason: str) -> None:
        Exception.__init__(self, f"{file} is missing: {reason}")
        self.file = file
        self.position = 0
        self.reason = reason

    def with_advice(self, partition: str) -> MissingFiles:
        """See CorruptLog."""
        return MissingFiles(
            self.file,
            f"{self.reason}; restore the missing files, or start once without them,"
            f" with log.recovery.missing={partition}",
        )


class LogPoisoned(Exception):
    """A write has failed and nothing is appended until a probe succeeds.

    ``final`` says that none will: an fsync or the cut after a failed write has failed, so that
    nobody knows what is on the disk.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class LogBusy(Exception):
    """The log can't be truncated just now; in a moment it can."""


class DirectoryLocked(Exception):
    """Another process has the data directory."""


class OffsetOutOfRange(Exception):
    """An offset below the log's start or above its end was asked for."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"Offset {offset} is not in the log, which has {log_start_offset} to {log_end_offset}."
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class NotInMemory(Exception):
    """What is asked for is on the disk, and who asks may not wait for it."""


class AppendRefused(Exception):
    """A producer's batch breaks a rule of the log; ``error_code`` is Kafka's, the log untouched."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

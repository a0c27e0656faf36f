"""Chooses the next log to clean by its dirty ratio, and computes the time at which a log must be
cleaned. cleaning.py has a separate schedule for the logs of the coordinators' topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from broker.topics.cleaner.cleaner_checkpoint import CleanerCheckpoint
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from log.cleaner.clean_plan import Cleanable
from log.partition_log import PartitionLog
from protocol.now import Now


class Hosting(Protocol):
    """The coordinator that owns partitions of a topic."""

    def hosts(self, partition: int) -> bool:
        """Returns True if the coordinator owns the log of this partition now. `DirtyLogs` then
        omits the log."""


class DirtyLogs:
    """The compacted logs of one broker, except the logs that a coordinator owns. ``waits_ms``
    returns the monotonic time in ms before which a log must not be cleaned, or 0."""

    def __init__(
        self,
        logs: LogManager,
        checkpoint: CleanerCheckpoint,
        owners: Mapping[str, Hosting],
        waits_ms: Callable[[PartitionLog], int],
    ) -> None:
        self._logs = logs
        self._checkpoint = checkpoint
        self._owners = owners
        self._waits_ms = waits_ms

    def dirtiest(self, now: Now, roll: Callable[[PartitionLog], bool]) -> Partition | None:
        """Returns the partition whose log should be cleaned next; None if no log needs cleaning.

        A log that `max.compaction.lag.ms` requires to be cleaned comes first, then the log with the
        largest dirty ratio. ``roll`` is called for a log whose active segment is older than
        `max.compaction.lag.ms`.
        """
        due: list[tuple[bool, float, Partition]] = []
        for partition in self._compacted():
            log = partition.log
            if self._waits_ms(log) > now.mono_ms:
                continue
            if _rolls(log, now.wall_ms):
                roll(log)
            found = self._checkpoint.judge(log, now.wall_ms)
            if _is_due(log, found):
                due.append((found.overdue, found.dirty_ratio, partition))
        return max(due, key=lambda entry: entry[:2])[2] if due else None

    def idle_ms(self, now: Now) -> int | None:
        """Returns the time in ms until the first log needs cleaning, if no records are appended
        until then. Returns None if no log will need cleaning without new records."""
        times = []
        for partition in self._compacted():
            log = partition.log
            waits_ms = self._waits_ms(log)
            if waits_ms > now.mono_ms:
                times.append(waits_ms - now.mono_ms)
                continue
            if _rolls(log, now.wall_ms) or _is_due(log, self._checkpoint.judge(log, now.wall_ms)):
                return 0
            changes_in_ms = self._checkpoint.changes_in_ms(log, now.wall_ms)
            if changes_in_ms is not None:
                times.append(changes_in_ms)
        return min(times, default=None)

    def _compacted(self) -> list[Partition]:
        return [
            each
            for each in self._logs.all()
            if each.log.config.compacts and each.log.poisoned is None and not self._is_owned(each)
        ]

    def _is_owned(self, partition: Partition) -> bool:
        owner = self._owners.get(partition.topic)
        return owner is not None and owner.hosts(partition.index)


def _rolls(log: PartitionLog, now_ms: int) -> bool:
    return 0 <= log.active.first_timestamp_ms < now_ms - log.config.max_compaction_lag_ms


def _is_due(log: PartitionLog, found: Cleanable) -> bool:
    overdue = found.overdue or found.dirty_ratio > log.config.min_cleanable_dirty_ratio
    return found.dirty_bytes > 0 and overdue

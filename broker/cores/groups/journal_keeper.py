"""The journal of groups and its file: docs/groups-journal.md."""

from __future__ import annotations

from broker.cores.journal_file import JournalFile
from broker.cores.journal_keeper import JournalKeeper, Spawn
from broker.time import Time
from coordinator.journal import FORM, Journal
from journal.unsaved import Unsaved
from log.filesystem import FileSystem

GroupJournalKeeper = JournalKeeper[Journal]


def group_journal_keeper(
    time: Time, spawn: Spawn, fs: FileSystem, directory: str, bytes_max: int
) -> GroupJournalKeeper:
    """Why groups rebalanced; without a file where ``bytes_max`` is 0."""
    unsaved = Unsaved()
    file = JournalFile(FORM, fs, directory, bytes_max) if bytes_max else None
    journal = Journal(unsaved if bytes_max else None)
    return JournalKeeper(time, spawn, journal, unsaved, file)

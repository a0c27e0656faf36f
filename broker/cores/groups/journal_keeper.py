"""The journal of groups and its file: docs/groups-journal.md."""

from __future__ import annotations

from broker.cores.journal_file import JournalFile, JournalForm
from broker.cores.journal_keeper import JournalKeeper, Spawn
from broker.time import Time
from coordinator.journal import Journal
from coordinator.journal_entries import Entry, copied
from coordinator.journal_lines import NAME, VERSION, entry_of, group_of, line_of
from journal.unsaved import Unsaved
from log.filesystem import FileSystem

GroupJournalKeeper = JournalKeeper[Journal, Entry]

FORM: JournalForm[Entry] = JournalForm("groups.journal", NAME, VERSION, line_of, entry_of, group_of)


def group_journal_keeper(
    time: Time, spawn: Spawn, fs: FileSystem, directory: str, bytes_max: int
) -> GroupJournalKeeper:
    """Why groups rebalanced; without a file where ``bytes_max`` is 0."""
    unsaved: Unsaved[Entry] = Unsaved(copied)
    file = JournalFile(FORM, fs, directory, bytes_max) if bytes_max else None
    journal = Journal(unsaved=unsaved if bytes_max else None)
    return JournalKeeper(time, spawn, journal, unsaved, file)

"""The journal of transactions and its file: docs/transactions-journal.md."""

from __future__ import annotations

from broker.cores.journal_file import JournalFile
from broker.cores.journal_keeper import JournalKeeper, Spawn
from broker.time import Time
from journal.unsaved import Unsaved
from log.filesystem import FileSystem
from transactions.journal import FORM, Journal

TransactionJournalKeeper = JournalKeeper[Journal]


def transaction_journal_keeper(
    time: Time, spawn: Spawn, fs: FileSystem, directory: str, bytes_max: int
) -> TransactionJournalKeeper:
    """What became of transactions; without a file where ``bytes_max`` is 0."""
    unsaved = Unsaved()
    file = JournalFile(FORM, fs, directory, bytes_max) if bytes_max else None
    journal = Journal(unsaved=unsaved if bytes_max else None)
    return JournalKeeper(time, spawn, journal, unsaved, file)

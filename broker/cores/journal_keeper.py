"""A journal of the broker: its entries in memory, and a file from which the next process reads
them.

A thread writes the entries shortly after their events, so that the journal delays no request.
Entries that can't be written are lost when the process ends. The loss is logged, and no other work
fails (ARCHITECTURE.md, law 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from broker.cores.core import Event
from broker.cores.journal_file import JournalFile
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from journal.pages import Pages
from journal.unsaved import Unsaved
from log.files.filesystem import FileSystem

logger = structlog.get_logger(__name__)

WRITE_AFTER_S = 0.1
"""The delay in seconds between the first unwritten change and the write. All changes during the
delay share the write."""
LOOK_AT_AGES_S = 1.0
"""Some entries are written only when they have a certain age. A journal checks the ages of these
entries at this interval in seconds."""
TRY_AGAIN_S = 5.0
"""The delay in seconds before the next write of the journal file if the last write failed. After a
successful write, the delay is `WRITE_AFTER_S`."""
ENTRIES_AT_ONCE = 500
"""The maximum number of entries that the event loop passes to the journal's thread at a time. To
pass this number of entries takes about 2 ms."""
STOP_WITHIN_S = 2.0

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


JournalT = TypeVar("JournalT", bound=Pages[Any])


class JournalKeeper(Generic[JournalT]):
    """A journal and its file. Only the event loop's thread may use this class."""

    def __init__(
        self,
        new_journal: Callable[[Unsaved | None], JournalT],
        time: Time,
        spawn: Spawn,
        fs: FileSystem,
        directory: str,
        bytes_max: int,
        errors: InternalErrors | None = None,
    ) -> None:
        """If ``bytes_max`` is 0, the journal has no file."""
        self._time = time
        self._call_later = time.real.call_later
        self._spawn = spawn
        self._errors = errors or InternalErrors()
        self._unsaved = Unsaved(self._changed)
        self.journal = new_journal(self._unsaved if bytes_max else None)
        """The journal in memory, which the pages under /api show."""
        self._file = JournalFile(self.journal.form, fs, directory, bytes_max) if bytes_max else None
        self._threads = time.real.threads(1, "journal")
        self._due = False
        """True if a write is scheduled or in progress."""
        self._writing: asyncio.Task[None] | None = None
        self._fails = False
        """True if the last write failed."""
        self._stopped = False
        self._ripens = False
        """True if the next check of the ages of entries is scheduled."""

    def read(self) -> None:
        """Loads the entries that earlier processes have written. Called before the event loop runs,
        in any thread."""
        if self._file is not None:
            entries = 0
            for name, entry in self._file.read():
                self.journal.restore(name, entry)
                entries += 1
            if entries:
                logger.info("journal loaded", file=self._file.name, entries=entries)

    def observe(self, event: Event) -> None:
        self.journal.observe(event, self._time.now())

    def _changed(self) -> None:
        """Schedules a write of new entries."""
        if self._unsaved.young and not self._ripens and not self._stopped:
            self._ripens = True
            self._call_later(LOOK_AT_AGES_S, self._ripen)
        if (self._unsaved or self.journal.observed) and not self._due and not self._stopped:
            self._due = True
            self._call_later(TRY_AGAIN_S if self._fails else WRITE_AFTER_S, self._begin)

    async def stop(self) -> None:
        """Writes the remaining entries, for at most `STOP_WITHIN_S`. The journal then accepts no
        more entries."""
        self._stopped = True
        self._fold()
        self.journal.save_counts()
        with suppress(TimeoutError):
            async with self._time.real.within(STOP_WITHIN_S):
                if self._writing is not None:
                    await asyncio.wait([self._writing])
                await self._write()
        self._threads.stop()

    def _fold(self) -> None:
        """Applies the observed events to the histories in memory. If an event causes an exception,
        the other events are still applied."""
        while self.journal.observed:
            with self._errors.reporting("journal"):
                self.journal.fold_observed()

    def _ripen(self) -> None:
        self._ripens = False
        if not self._stopped:
            self._fold()
            self._unsaved.ripen(self._time.now())
            self._changed()

    def _begin(self) -> None:
        if not self._stopped:
            self._writing = self._spawn(self._write_all(), "journal")

    async def _write_all(self) -> None:
        try:
            self._fold()
            await self._write()
        finally:
            self._due, self._writing = False, None
            self._changed()

    async def _write(self) -> None:
        """Writes the new entries in the journal's thread, at most `ENTRIES_AT_ONCE` at a time."""
        file = self._file
        while file is not None and (entries := self._unsaved.take(ENTRIES_AT_ONCE)):
            try:
                await self._threads.run(partial(file.append, entries))
            except OSError as error:
                if not self._fails:
                    logger.warning(
                        "journal can't be written, new events are lost at a restart",
                        error=str(error),
                    )
                self._fails = True
                return
            if self._fails:
                logger.info("journal can be written again")
            self._fails = False

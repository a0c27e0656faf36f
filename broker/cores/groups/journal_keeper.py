"""The journal of a broker: what it tells now, and what it writes down for the next run.

A thread of its own writes, a little after the event: the journal delays nobody. What can't be
written is lost with the process, and a line in the log says so; nothing else comes of it (law 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from broker.cores.groups.journal_file import JournalFile
from broker.time import Time
from coordinator.events import Event
from coordinator.journal import Journal
from coordinator.unsaved import Unsaved
from log.filesystem import FileSystem

logger = structlog.get_logger(__name__)

WRITE_AFTER_S = 0.1
"""So long after the first change entries are written: what changes again in between is one line."""
TRY_AGAIN_S = 5.0
"""The same, when the last write failed."""
ENTRIES_AT_ONCE = 500
"""So many are copied for the thread at a time, in some 2 ms."""
STOP_WITHIN_S = 2.0

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class JournalKeeper:
    """The journal and its file; use from the event loop's thread alone.

    Without a file (a size of 0) the journal ends with the process.
    """

    def __init__(
        self, time: Time, spawn: Spawn, fs: FileSystem, directory: str, bytes_max: int
    ) -> None:
        self._time = time
        self._spawn = spawn
        self._unsaved = Unsaved()
        self._file = JournalFile(fs, directory, bytes_max) if bytes_max else None
        self.journal = Journal(unsaved=self._unsaved if bytes_max else None)
        """Why groups rebalanced; what /api shows."""
        self._threads = time.threads(1, "journal")
        self._due = False
        """A write is under way or will be."""
        self._writing: asyncio.Task[None] | None = None
        self._fails = False
        """The last write did."""
        self._stopped = False

    def read(self) -> None:
        """Takes over what earlier runs wrote down; before the loop runs, in any thread."""
        if self._file is not None:
            entries = 0
            for group_id, entry in self._file.read():
                self.journal.restore(group_id, entry)
                entries += 1
            if entries:
                logger.info("the journal was read", entries=entries)

    def observe(self, event: Event) -> None:
        """Takes in one fact of the core."""
        self.journal.observe(event, self._time.now())
        if self._unsaved and not self._due and not self._stopped:
            self._due = True
            self._time.call_later(TRY_AGAIN_S if self._fails else WRITE_AFTER_S, self._begin)

    async def stop(self) -> None:
        """Writes what is left, and nothing more; within a time."""
        self._stopped = True
        self.journal.save_counts()
        with suppress(TimeoutError):
            async with self._time.within(STOP_WITHIN_S):
                if self._writing is not None:
                    await asyncio.wait([self._writing])
                await self._write()
        self._threads.stop()

    def _begin(self) -> None:
        if not self._stopped:
            self._writing = self._spawn(self._write_all(), "journal")

    async def _write_all(self) -> None:
        try:
            await self._write()
        finally:
            self._due, self._writing = False, None

    async def _write(self) -> None:
        """Has the thread write what has changed, some of it at a time."""
        file = self._file
        while file is not None and (entries := self._unsaved.take(ENTRIES_AT_ONCE)):
            try:
                await self._threads.run(partial(file.append, entries))
            except OSError as error:
                if not self._fails:
                    logger.warning(
                        "the journal can't be written; what happens now is lost with the process",
                        error=str(error),
                    )
                self._fails = True
                return
            if self._fails:
                logger.info("the journal is written again")
            self._fails = False

"""A journal of a broker: what it tells now, and what it writes down for the next run.

A thread of its own writes, a little after the event: the journal delays nobody. What can't be
written is lost with the process, and a line in the log says so; nothing else comes of it (law 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import structlog

from broker.cores.core import Event
from broker.cores.journal_file import JournalFile
from broker.time import Time
from journal.unsaved import Unsaved
from protocol.now import Now

logger = structlog.get_logger(__name__)

WRITE_AFTER_S = 0.1
"""So long after the first change entries are written: what changes again in between is one line."""
LOOK_AT_AGES_S = 1.0
"""So often ages are looked at, where a journal has something to look at."""
TRY_AGAIN_S = 5.0
"""The same, when the last write failed."""
ENTRIES_AT_ONCE = 500
"""So many are copied for the thread at a time, in some 2 ms."""
STOP_WITHIN_S = 2.0

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class Journal(Protocol):
    """A fold of a core's events, which marks what is to be written down."""

    def observe(self, event: Any, now: Now) -> None:
        """Take in one fact."""

    def restore(self, name: str, entry: Any) -> None:
        """Take over an entry that an earlier run wrote down; the oldest first."""

    @property
    def ripens(self) -> bool:
        """Whether there is something that becomes worth writing down by its age alone."""

    def ripen(self, now: Now) -> None:
        """Mark what has become so."""

    def save_counts(self) -> None:
        """Have what is counted written down as it is; for a stop."""


JournalT = TypeVar("JournalT", bound=Journal)


class JournalKeeper(Generic[JournalT]):
    """A journal and its file; use from the event loop's thread alone.

    Without a file the journal ends with the process.
    """

    def __init__(
        self,
        time: Time,
        spawn: Spawn,
        journal: JournalT,
        unsaved: Unsaved,
        file: JournalFile | None,
    ) -> None:
        """``unsaved`` is what the journal marks."""
        self._time = time
        self._spawn = spawn
        self._unsaved = unsaved
        self._file = file
        self.journal = journal
        """What /api shows."""
        self._threads = time.real.threads(1, "journal")
        self._due = False
        """A write is under way or will be."""
        self._writing: asyncio.Task[None] | None = None
        self._fails = False
        """The last write did."""
        self._stopped = False
        self._ripens = False
        """Ages will be looked at."""

    def read(self) -> None:
        """Takes over what earlier runs wrote down; before the loop runs, in any thread."""
        if self._file is not None:
            entries = 0
            for name, entry in self._file.read():
                self.journal.restore(name, entry)
                entries += 1
            if entries:
                logger.info("the journal was read", file=self._file.name, entries=entries)

    def observe(self, event: Event) -> None:
        """Takes in one fact of the core."""
        self.journal.observe(event, self._time.now())
        self.changed()

    def changed(self) -> None:
        """Has what is new in the journal written down; after a change that no fact made, too."""
        if self.journal.ripens and not self._ripens and not self._stopped:
            self._ripens = True
            self._time.real.call_later(LOOK_AT_AGES_S, self._ripen)
        if self._unsaved and not self._due and not self._stopped:
            self._due = True
            self._time.real.call_later(TRY_AGAIN_S if self._fails else WRITE_AFTER_S, self._begin)

    async def stop(self) -> None:
        """Writes what is left, and nothing more; within a time."""
        self._stopped = True
        self.journal.save_counts()
        with suppress(TimeoutError):
            async with self._time.real.within(STOP_WITHIN_S):
                if self._writing is not None:
                    await asyncio.wait([self._writing])
                await self._write()
        self._threads.stop()

    def _ripen(self) -> None:
        self._ripens = False
        if not self._stopped:
            self.journal.ripen(self._time.now())
            self.changed()

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

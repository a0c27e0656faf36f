"""The connections to write to at the end of a turn: each once, however many answers it has."""

from __future__ import annotations

import asyncio
from typing import Protocol

from broker.loop.internal_errors import InternalErrors
from broker.loop.watchdog import Watchdog
from broker.time import Time


class Writer(Protocol):
    """A connection."""

    dirty: bool
    """Whether it is in the list of those to be flushed."""

    def flush(self) -> None:
        """Writes what is finished."""

    def abort(self) -> None:
        """Closes the connection at once."""


class TurnWrites:
    """The connections with something to write; use from the event loop's thread alone."""

    def __init__(self, time: Time, watchdog: Watchdog, internal_errors: InternalErrors) -> None:
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._internal_errors = internal_errors
        self._dirty: list[Writer] = []
        self._scheduled = False
        self._holding = False

    def touch(self, connection: Writer) -> None:
        """Has ``connection`` flushed at the end of this turn."""
        if connection.dirty:
            return
        connection.dirty = True
        self._dirty.append(connection)
        if not self._scheduled and not self._holding:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_scheduled)

    def hold(self) -> None:
        """Until `flush`, replies are gathered: the caller delivers many and then flushes."""
        self._holding = True

    def flush(self) -> None:
        """Writes the finished replies of every touched connection, one write each."""
        self._holding = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            try:
                connection.flush()
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                connection.abort()
                self._internal_errors.caught("connection", error)

    def _flush_scheduled(self) -> None:
        began_ns = self._ticks_ns()
        self._scheduled = False
        self.flush()
        self._watchdog.ended("replies", began_ns)

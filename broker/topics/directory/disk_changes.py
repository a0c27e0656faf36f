"""Runs changes of the registry's files and of partition directories, one at a time, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import ParamSpec, TypeVar

from broker.time import Time
from broker.topics.directory.reserved_file import NotSettled

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class DiskChanges:
    """Runs changes one at a time in a thread; use it only from the event loop's thread."""

    def __init__(self, time: Time, fail: Callable[[str], None]) -> None:
        """Creates the object; ``fail`` stops the broker, and is called when it is unknown whether a
        change of the topic list is on the disk."""
        self._time = time
        self._fail = fail
        self._disk = Lock()

    async def run(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        """Runs ``work`` in a thread, and returns its result or raises its exception."""

        def locked() -> Result:
            with self._disk:
                return work(*args, **more)

        try:
            return await self._time.in_thread(locked)
        except NotSettled as error:
            self._fail(f"a change of the topic list may not be on the disk: {error}")
            raise

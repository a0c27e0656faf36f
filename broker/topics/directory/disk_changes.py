"""Runs changes of the registry's files and of partition directories in a thread, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import ParamSpec, TypeVar

from broker.time import Time
from broker.topics.directory.reserved_file import NotSettled

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class DiskChanges:
    """Runs changes in a thread, one at a time. Only the event loop's thread may use this class."""

    def __init__(self, time: Time, fail: Callable[[str], None]) -> None:
        """``fail`` stops the broker. It is called after an error that leaves unknown whether a
        change of the topic list is on the disk."""
        self._time = time
        self._fail = fail
        self._disk = Lock()

    async def run(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        """Runs ``work`` in a thread. Returns its result or raises its exception."""

        def locked() -> Result:
            with self._disk:
                return work(*args, **more)

        try:
            return await self._time.in_thread(locked)
        except NotSettled as error:
            self._fail(f"a change of the topic list may not be on the disk: {error}")
            raise

"""Changes of the registry's files and of partitions' directories, one at a time, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import ParamSpec, TypeVar

from broker.time import Time
from broker.topics.directory.reserved_file import NotSettled

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class DiskChanges:
    """Runs them; use from the event loop's thread alone."""

    def __init__(self, time: Time, fail: Callable[[str], None]) -> None:
        """``fail`` stops the broker: the stored list of topics is unknown then."""
        self._time = time
        self._fail = fail
        self._disk = Lock()

    async def run(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        """Returns or raises the result of ``work``."""

        def locked() -> Result:
            with self._disk:
                return work(*args, **more)

        try:
            return await self._time.in_thread(locked)
        except NotSettled as error:
            self._fail(f"the topic list may not be on the disk: {error}")
            raise

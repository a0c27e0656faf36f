"""A block that may take so long by the hand clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]


class HandTimeout(asyncio.Timeout):  # type: ignore[misc]  # final for those who read types alone
    """asyncio's own, without a time of the loop: a timer of the hand clock ends it."""

    def __init__(self, seconds: float, call_later: Later) -> None:
        super().__init__(None)
        self._seconds = seconds
        self._call_later = call_later
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> asyncio.Timeout:
        entered = await super().__aenter__()
        self._timer = self._call_later(self._seconds, self._over)
        return entered

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().__aexit__(error_type, error, traceback)

    def _over(self) -> None:
        self.reschedule(0)  # the beginning of the loop's time: at once

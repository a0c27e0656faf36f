"""Releases the records of members whose share sessions have ended, in slices. One closed connection
may end thousands of sessions, and a member may have acquired thousands of ranges of records. A
member can't open a new session before the release of its records is stored; otherwise the release
could affect records of the new session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slices
from broker.share.live_partition import LivePartition

if TYPE_CHECKING:
    from share.partition.values import Change

MemberKey = tuple[str, str]
OnDone = Callable[[int, str | None], None]
"""A function that is called with an error code and an error message when a change of a share
partition was stored or has failed."""


class Releases:
    """The queued and running releases of acquired records on one broker."""

    def __init__(
        self,
        lives_of: Callable[[str], Iterable[LivePartition]],
        write: Callable[[LivePartition, Change, OnDone], None],
        run: Callable[[Iterator[None]], None],
        internal_errors: InternalErrors,
    ) -> None:
        """``lives_of`` returns the share partitions of a group. ``write`` stores a change. ``run``
        executes the steps of an iterator, in this turn and, if necessary, in later turns."""
        self._lives_of = lives_of
        self._write = write
        self._run = run
        self._errors = internal_errors
        self._pending: dict[MemberKey, _Release] = {}
        self._queue: deque[_Release] = deque()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, key: MemberKey, done: Callable[[], None] | None = None) -> None:
        """Releases the records of a member. Calls ``done`` when the release is stored or has
        failed. After a failure, records stay locked until their acquisition locks expire."""
        release = self._pending.get(key)
        if release is None:
            release = self._pending[key] = _Release(key, self._end)
            self._queue.append(release)
        if done is not None:
            release.on_done.append(done)
        if not self._is_running:
            self._is_running = True
            self._run(self._steps())

    async def until_stored(self, slices: Slices, key: MemberKey) -> None:
        """Waits until all releases of a member are finished."""
        while (release := self._pending.get(key)) is not None:
            stored = asyncio.get_running_loop().create_future()
            release.on_done.append(lambda stored=stored: stored.set_result(None))  # type: ignore[misc]
            await slices.until(stored)

    def _steps(self) -> Iterator[None]:
        """Begins all queued releases. Yields after each share partition and each change."""
        try:
            while self._queue:
                release = self._queue.popleft()
                for live in list(self._lives_of(release.key[0])):
                    try:
                        yield from self._release(live, release)
                    except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
                        self._errors.caught("shard", error, partition=live.partition.name)
                    yield
                release.one_done(0, None)
        finally:
            self._is_running = False

    def _release(self, live: LivePartition, release: _Release) -> Iterator[None]:
        first_offset = 0
        while live.share is not None and not live.is_dropped:
            change = live.share.release_member(release.key[1], first_offset)
            if change is None:
                return
            release.left += 1
            self._write(live, change, release.one_done)
            first_offset = change.batches[-1].last_offset + 1
            yield

    def _end(self, release: _Release) -> None:
        del self._pending[release.key]
        for done in release.on_done:
            done()


class _Release:
    """The release of the records that one member has acquired. It ends when each of its changes is
    stored or has failed."""

    __slots__ = ("_end", "key", "left", "on_done")

    def __init__(self, key: MemberKey, end: Callable[[_Release], None]) -> None:
        self.key = key
        self.left = 1
        """The number of changes that have not ended yet, plus 1 until all changes have begun."""
        self.on_done: list[Callable[[], None]] = []
        self._end = end

    def one_done(self, _code: int, _message: str | None) -> None:
        self.left -= 1
        if not self.left:
            self._end(self)

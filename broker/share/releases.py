"""Releases the records of members whose share sessions have ended, in slices.

One closed connection may end thousands of sessions, and a member may hold thousands of ranges of
records. The releases are queued; a member whose release is not stored can't open a session, so
that a late release never takes records of a later session.
"""

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
"""The group id and the member id."""
OnDone = Callable[[int, str | None], None]
"""A function that is called with the error code and message of a change."""


class Releases:
    """The releases of one broker that are not stored yet."""

    def __init__(
        self,
        lives_of: Callable[[str], Iterable[LivePartition]],
        write: Callable[[LivePartition, Change, OnDone], None],
        run: Callable[[Iterator[None]], None],
        internal_errors: InternalErrors,
    ) -> None:
        """``lives_of`` returns the share partitions of a group; ``write`` stores a change; ``run``
        runs steps, some of them later."""
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
        """Releases the records of a member; calls ``done`` when this is stored or has failed.
        Records of a failed release stay locked until their acquisition locks end."""
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
        """Waits until no release of a member is pending."""
        while (release := self._pending.get(key)) is not None:
            stored = asyncio.get_running_loop().create_future()
            release.on_done.append(lambda stored=stored: stored.set_result(None))  # type: ignore[misc]
            await slices.until(stored)

    def _steps(self) -> Iterator[None]:
        """Begins all queued releases; yields after each share partition and each change."""
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
    """The release of the records of one member. It ends when all its changes are stored or have
    failed; failures were logged before."""

    __slots__ = ("_end", "key", "left", "on_done")

    def __init__(self, key: MemberKey, end: Callable[[_Release], None]) -> None:
        self.key = key
        self.left = 1
        """The number of changes that are not stored, and 1 for those that have not begun."""
        self.on_done: list[Callable[[], None]] = []
        self._end = end

    def one_done(self, _code: int, _message: str | None) -> None:
        """Counts a change that was stored or has failed."""
        self.left -= 1
        if not self.left:
            self._end(self)

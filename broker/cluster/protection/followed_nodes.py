"""Follows ZooKeeper nodes that every broker keeps in memory.

The broker reads all nodes when it starts, before it serves clients. Later it reads each node that a
notification names. In every new ZooKeeper connection it reads all nodes again, because
notifications may have been removed before it connected. The owner of the nodes provides the
functions that read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

from broker.cluster.zookeeper.followed_notices import FollowedNotices, Handle
from broker.cluster.zookeeper.zookeeper import (
    Closed,
    Connection,
    SessionExpired,
    ZooKeeper,
    ZooKeeperError,
    ensure_path,
)
from broker.loop.internal_errors import InternalErrors
from broker.time import Time

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class FollowedNodes:
    """Reads all nodes below certain ZooKeeper paths, and learns of their changes from notification
    nodes. Only the event loop's thread may use this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        time: Time,
        spawn: Spawn,
        errors: InternalErrors,
        what: str,
        trees: Collection[str],
        changes: Collection[str],
        read_all: Callable[[], Awaitable[None]],
        handle: Handle,
    ) -> None:
        """``trees`` are the paths of the parents of the followed nodes. ``read_all`` reads these
        nodes. ``changes`` are the paths of the parents of the notification nodes. ``handle`` is
        called with each notification. ``what`` is a plural noun for the followed nodes in log
        lines."""
        self._zookeeper = zookeeper
        self._spawn = spawn
        self._errors = errors
        self._what = what
        self._directories = (*trees, *changes)
        self._read_all = read_all
        self._notices = [
            FollowedNotices(directory, zookeeper, time, errors, handle) for directory in changes
        ]
        self.unread = True
        """True if all nodes must be read. Notifications of changed nodes need not be handled before
        this read."""
        self._looking = False
        self._again = False
        self._stopped = False

    async def open(self) -> None:
        """Reads all nodes, and starts to follow their changes. Raises ZooKeeperError."""
        self._zookeeper.on_session(self._session_changed)
        self._looking = True
        try:
            while self.unread:
                with suppress(SessionExpired):  # repeated in the new session
                    for directory in self._directories:
                        await ensure_path(self._zookeeper, directory)
                    await self._look_once()
        finally:
            self._looking = False
        if self._again:
            self._look()

    def stop(self) -> None:
        self._stopped = True

    def changed(self) -> None:
        """Reads all nodes again, because it is unknown which nodes have changed."""
        self.unread = True
        self._look()

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.CONNECTED:
            self.changed()

    def _look(self) -> None:
        """Starts a read of the changes. If a read is in progress, another read starts after its
        end."""
        self._again = True
        if not self._looking and not self._stopped:
            self._looking = True
            self._spawn(self._follow(), self._what)

    async def _follow(self) -> None:
        try:
            while self._again and not self._stopped:
                with suppress(SessionExpired, Closed):  # repeated in the next session
                    await self._look_once()
        except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
            self._errors.caught("observer", error)
        finally:
            self._looking = False

    async def _look_once(self) -> None:
        self._again = False
        for each in self._notices:
            await each.follow(self._look)
        if self.unread:
            self.unread = False
            try:
                await self._read_all()
            except ZooKeeperError:
                self.unread = True
                raise

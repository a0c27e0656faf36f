"""The notification nodes under one parent in ZooKeeper: each is handled once, and deleted when it
is old.

A broker that writes a node also creates a notification, a sequential node that names the written
node. Every broker watches the parent and reads the named nodes again. A notification that can't be
parsed is logged and ignored, since it must not block later ones. Source: Kafka 3.9
``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from broker.cluster.zookeeper.zookeeper import Closed, NoNode, SessionExpired, Watch, ZooKeeper
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from protocol.znodes.fields import BadNode
from protocol.znodes.notices import number_of

logger = structlog.get_logger(__name__)

NOTICES_KEPT_MS = 15 * 60_000
"""The time in ms for which a notification exists, so that every broker can read it; the same as in
Kafka."""

Handle = Callable[[str, bytes], Awaitable[None]]
"""A function that handles a notification; its arguments are the path and the data. Raises BadNode
if the data can't be parsed."""


class FollowedNotices:
    """Handles the notifications under one parent node. Only the event loop's thread may use this
    class."""

    def __init__(
        self,
        directory: str,
        zookeeper: ZooKeeper,
        time: Time,
        errors: InternalErrors,
        handle: Handle,
    ) -> None:
        self._directory = directory
        self._zookeeper = zookeeper
        self._time = time
        self._errors = errors
        self._handle = handle
        self._handled = -1
        """The highest sequence number of a handled notification."""
        self._created_ms: dict[str, int] = {}
        """The creation time (ZooKeeper's wall clock, in ms) of each notification that exists, by
        path."""

    async def follow(self, watch: Watch) -> None:
        """Handles the notifications that are not handled yet. ZooKeeper calls ``watch`` once, at
        the next change of the list of notifications.

        Raises SessionExpired and Closed.
        """
        parent = self._directory
        names = await self._zookeeper.children(parent, watch)
        for name in sorted(names, key=number_of):
            number = number_of(name)
            if number <= self._handled:
                continue
            try:
                await self._take(f"{parent}/{name}")
            except (SessionExpired, Closed):
                raise
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self._errors.caught("observer", error, notice=name)
            self._handled = number
        await self._purge({f"{parent}/{name}" for name in names})

    async def _take(self, path: str) -> None:
        try:
            data, stat = await self._zookeeper.get(path)
        except NoNode:
            return  # another broker has removed it
        self._created_ms[path] = stat.ctime_ms
        try:
            await self._handle(path, data)
        except BadNode as error:
            logger.error("ZooKeeper notification can't be parsed, skipped", reason=str(error))

    async def _purge(self, there: set[str]) -> None:
        """Deletes notifications older than `NOTICES_KEPT_MS`, even if some brokers have not read
        them."""
        before_ms = self._time.now().wall_ms - NOTICES_KEPT_MS
        for path, created_ms in [*self._created_ms.items()]:
            if path not in there:
                del self._created_ms[path]
            elif created_ms < before_ms:
                del self._created_ms[path]
                with suppress(NoNode):
                    await self._zookeeper.delete(path)

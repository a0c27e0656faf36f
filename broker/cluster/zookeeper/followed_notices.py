"""The notices of one directory in ZooKeeper: each is handled once, and deleted when it is old.

The writer of a node leaves a notice, a sequential node that names it; every broker watches the
directory and reads the named nodes again. A notice that does not parse is logged and ignored: it
must not block later ones. Source: Kafka 3.9, its ``ZkNodeChangeNotificationListener``.
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
"""Milliseconds before a notice is deleted, so that every broker can read it, as in Kafka."""

Handle = Callable[[str, bytes], Awaitable[None]]
"""Handles a notice, by its path and data; raises BadNode if it does not parse."""


class FollowedNotices:
    """See the module; use from the event loop's thread alone."""

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
        """The highest number of a handled notice."""
        self._created_ms: dict[str, int] = {}
        """The existing notices, each with its creation time (wall)."""

    async def follow(self, watch: Watch) -> None:
        """Handles new notices; ``watch`` is called when further ones exist.

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
            logger.error("notification can't be read, skipped", reason=str(error))

    async def _purge(self, there: set[str]) -> None:
        """Deletes old notices, whether or not every broker has read them."""
        before_ms = self._time.now().wall_ms - NOTICES_KEPT_MS
        for path, created_ms in [*self._created_ms.items()]:
            if path not in there:
                del self._created_ms[path]
            elif created_ms < before_ms:
                del self._created_ms[path]
                with suppress(NoNode):
                    await self._zookeeper.delete(path)

"""The notices in one parent node in ZooKeeper: each is handled once, and deleted when it is old.

A broker that writes a node also creates a notice, a sequential node that names the written node;
every broker watches the parent and reads the named nodes again. A notice that does not parse is
logged and ignored, since it must not block later notices. Source: Kafka 3.9
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
"""Milliseconds for which a notice exists, so that every broker can read the notice, as in Kafka."""

Handle = Callable[[str, bytes], Awaitable[None]]
"""A function that handles a notice with its path and data; it raises BadNode if the data can't be
parsed."""


class FollowedNotices:
    """Handles the notices in one parent node; only the event loop's thread may use this class."""

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
        """The highest sequence number of a handled notice."""
        self._created_ms: dict[str, int] = {}
        """The existing notices by path, each with its creation time on the wall clock."""

    async def follow(self, watch: Watch) -> None:
        """Handles new notices; ``watch`` is called when further notices exist.

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
        """Deletes notices older than `NOTICES_KEPT_MS`, even if some brokers have not read them."""
        before_ms = self._time.now().wall_ms - NOTICES_KEPT_MS
        for path, created_ms in [*self._created_ms.items()]:
            if path not in there:
                del self._created_ms[path]
            elif created_ms < before_ms:
                del self._created_ms[path]
                with suppress(NoNode):
                    await self._zookeeper.delete(path)

"""This broker's nodes in ZooKeeper: the cluster id, the broker id, and the registration.

The node ``/brokers/ids/<id>`` is ephemeral; the id of the transaction that created the node is the
broker epoch (KIP-380). ZooKeeper deletes the node when the session ends, and the broker registers
again in the next session. Until then the broker has no epoch, and must not use the old epoch.
"""

from __future__ import annotations

from asyncio import Event, Task
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from broker.cluster.zookeeper.zookeeper import (
    Closed,
    Connection,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    Set,
    Stat,
    ZooKeeper,
    ensure_path,
)
from broker.time import Time
from broker.topics.registry import BadDirectory
from broker.topics.startup_parts import CannotJoin
from protocol.znodes import brokers, cluster
from protocol.znodes.brokers import Registration

logger = structlog.get_logger(__name__)

NO_EPOCH = -1


class AlreadyRegistered(CannotJoin):
    """Another live broker has this broker id; the exception's text names the fix."""


async def prepare(zookeeper: ZooKeeper) -> None:
    """Creates the nodes that every broker creates when it starts."""
    for path in cluster.AT_START:
        await ensure_path(zookeeper, path)


async def cluster_id(zookeeper: ZooKeeper, fresh: str, known: str | None) -> str:
    """Returns the cluster id in ZooKeeper; the first broker writes ``known`` or ``fresh`` there.

    ``known`` is the cluster id in the data directory. Raises BadDirectory if ``known`` differs from
    the id in ZooKeeper.
    """
    await ensure_path(zookeeper, "/cluster")
    try:
        written = cluster.encode_cluster_id(known or fresh)
        await zookeeper.create(cluster.CLUSTER_ID, written)
    except NodeExists:
        pass
    data, _ = await zookeeper.get(cluster.CLUSTER_ID)
    there = cluster.decode_cluster_id(data)
    if known is not None and known != there:
        raise BadDirectory(
            f"the data directory belongs to cluster {known}, but zookeeper.connect is the"
            f" address of cluster {there}: correct zookeeper.connect, or use another"
            " directory"
        )
    return there


async def generated_id(zookeeper: ZooKeeper, reserved_max: int) -> int:
    """Returns a broker id that was never used before (``broker.id.generation.enable``)."""
    stat = await zookeeper.set(brokers.SEQUENCE_IDS, b"")
    return stat.version + reserved_max


UNSEEN_MS = 3000
"""Milliseconds for which a broker id stays unregistered if controllers identify brokers only by
broker id (before 2.2, KIP-380). If a controller did not notice the missing registration, it would
not send any partitions to the new process."""


class BrokerRegistration:
    """Keeps this broker registered; only the event loop's thread may use this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        broker: Callable[[], Registration],
        node_version: int,
        session_timeout_ms: int,
        unseen_ms: int,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
        fail: Callable[[str], None],
    ) -> None:
        """``broker`` returns the data to register; ``fail`` stops the broker for a reason.

        ``unseen_ms`` is `UNSEEN_MS`, or 0 if controllers identify brokers by their epochs.
        """
        self.epoch = NO_EPOCH
        """The broker epoch of the current registration; NO_EPOCH while this broker is not
        registered."""
        self.last_epoch = NO_EPOCH
        """The broker epoch of the last registration; requests with an earlier broker epoch are
        rejected."""
        self._zookeeper = zookeeper
        self._broker = broker
        self._node_version = node_version
        self._session_timeout_ms = session_timeout_ms
        self._unseen_ms = unseen_ms
        self._time = time
        self._spawn = spawn
        self._fail = fail
        self._sessions: set[int] = set()
        """All sessions of this process, including expired sessions: nodes of these sessions belong
        to this process."""
        self._on_registered: list[Callable[[int], None]] = []
        self._expired = False

    def when_registered(self, call: Callable[[int], None]) -> None:
        """Adds a callback that is called with each new broker epoch."""
        self._on_registered.append(call)

    async def until_free(self) -> None:
        """Waits until no earlier session has this broker id registered. Raises
        AlreadyRegistered."""
        path = brokers.path(self._broker().broker_id)
        with suppress(SessionExpired):  # `start` checks again
            if await self._zookeeper.exists(path) is not None:
                await self._left(path)

    async def start(self) -> None:
        """Registers this broker now and in every later session. Raises AlreadyRegistered."""
        while self.epoch == NO_EPOCH:
            with suppress(SessionExpired):  # repeated in the new session
                await self._register()
        self._zookeeper.on_session(self._session_changed)

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.EXPIRED:
            self.epoch = NO_EPOCH
            self._expired = True
        elif connection is Connection.CONNECTED and self._expired:
            self._expired = False
            self._spawn(self._register_again(), "registration")

    async def _register_again(self) -> None:
        try:
            await self._register()
        except AlreadyRegistered as error:
            self._fail(str(error))
        except (SessionExpired, Closed):
            pass  # repeated in the next session

    async def _register(self) -> None:
        zookeeper = self._zookeeper
        self._sessions.add(zookeeper.session)
        broker = self._broker()
        path = brokers.path(broker.broker_id)
        data = brokers.encode_registration(broker, self._node_version)
        while True:
            try:
                # The last operation fences states that a controller decided before this
                # registration.
                done = await zookeeper.multi(
                    [Create(path, None, ephemeral=True), Set(path, data), Set(brokers.IDS, b"")]
                )
            except MultiFailed as failed:
                if not isinstance(failed.error, NodeExists):
                    raise failed.error from None
                epoch = await self._left(path)
                if epoch is None:
                    continue
            else:
                stat = done[1]
                assert isinstance(stat, Stat)
                epoch = stat.czxid
            break
        self.epoch = self.last_epoch = epoch
        logger.info("registered in ZooKeeper", broker=broker.broker_id, epoch=epoch)
        for call in self._on_registered:
            call(epoch)

    async def _left(self, path: str) -> int | None:
        """Calls `_taken`. If the node was deleted, waits long enough for the controllers to notice
        the deletion."""
        epoch = await self._taken(path)
        if epoch is None and self._unseen_ms:
            await self._time.sleep(self._unseen_ms / 1000)
        return epoch

    async def _taken(self, path: str) -> int | None:
        """Handles an existing node: returns the node's epoch if this session owns the node; returns
        None once the node is deleted.

        Deletes the node if an earlier session of this process owns it. For any other owner, waits
        until the owner's session expires (ZOOKEEPER-2985). Raises AlreadyRegistered if that session
        stays alive.
        """
        gone = Event()
        stat = await self._zookeeper.exists(path, gone.set)
        if stat is None:
            return None
        if stat.ephemeral_owner == self._zookeeper.session:
            return stat.czxid
        if stat.ephemeral_owner in self._sessions:
            with suppress(NoNode):
                await self._zookeeper.delete(path, stat.version)
            return None
        logger.warning(
            "broker id is registered by another ZooKeeper session, waiting for that session to end",
            path=path,
            wait_ms=2 * self._session_timeout_ms,
        )
        try:
            async with self._time.within(2 * self._session_timeout_ms / 1000):
                await gone.wait()
        except TimeoutError:
            # The watch may have missed the deletion if this process was paused or disconnected.
            there = await self._zookeeper.exists(path)
            if there is not None and there.ephemeral_owner == stat.ephemeral_owner:
                raise AlreadyRegistered(
                    f"broker.id is in use: {path} in ZooKeeper belongs to another live broker; set"
                    " another broker.id, or stop that broker"
                ) from None
        return None

"""This broker's registration in ZooKeeper, and the creation of the cluster id and the broker id.

The node ``/brokers/ids/<id>`` is ephemeral. The id of the ZooKeeper transaction that created the
node is the broker epoch (KIP-380). ZooKeeper deletes the node when the session ends, and the broker
registers again in the next session. Until it has registered again, the broker has no epoch, and
must not use the epoch of the ended session.
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
    """Another live broker has registered this broker id. The exception's text says what to do."""


async def prepare(zookeeper: ZooKeeper) -> None:
    """Creates the ZooKeeper nodes that every broker needs at its start, if they do not exist."""
    for path in cluster.AT_START:
        await ensure_path(zookeeper, path)


async def cluster_id(zookeeper: ZooKeeper, fresh: str, known: str | None) -> str:
    """Returns the cluster id in ZooKeeper. If ZooKeeper has no cluster id, first writes ``known``,
    or else ``fresh``.

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
"""The time in ms for which a restarted broker waits after its old ZooKeeper node is deleted, before
it registers again. Needed only in clusters whose controllers identify brokers by broker id alone
(before 2.2, KIP-380).

If the controller did not notice that the old node was deleted, it would not send any partitions to
the restarted broker.
"""


class BrokerRegistration:
    """Registers this broker in ZooKeeper, in each session. Only the event loop's thread may use
    this class."""

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
        """``broker`` returns the data to register. ``fail`` stops the broker; its argument is the
        reason.

        ``unseen_ms`` is `UNSEEN_MS`, or 0 if controllers identify brokers by their epochs.
        """
        self.epoch = NO_EPOCH
        """The broker epoch of the current registration; NO_EPOCH while this broker is not
        registered."""
        self.last_epoch = NO_EPOCH
        """The broker epoch of the last registration, which may have ended. Requests with an earlier
        broker epoch are rejected."""
        self._zookeeper = zookeeper
        self._broker = broker
        self._node_version = node_version
        self._session_timeout_ms = session_timeout_ms
        self._unseen_ms = unseen_ms
        self._time = time
        self._spawn = spawn
        self._fail = fail
        self._sessions: set[int] = set()
        """The ids of all ZooKeeper sessions of this process, including expired ones. A broker
        registration by one of these sessions belongs to this process."""
        self._on_registered: list[Callable[[int], None]] = []
        self._expired = False

    def when_registered(self, call: Callable[[int], None]) -> None:
        """Adds a callback, which gets each new broker epoch."""
        self._on_registered.append(call)

    async def until_free(self) -> None:
        """Waits until no session of an earlier process registers this broker id any more. Raises
        AlreadyRegistered."""
        path = brokers.path(self._broker().broker_id)
        with suppress(SessionExpired):  # `start` checks again
            if await self._zookeeper.exists(path) is not None:
                await self._left(path)

    async def start(self) -> None:
        """Registers this broker now, and again in every later session. Raises AlreadyRegistered."""
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
        """If the node of this broker's registration belongs to the present session, returns the
        broker epoch at once. Otherwise waits until the node is deleted and all controllers have
        noticed the deletion, and returns None."""
        epoch = await self._taken(path)
        if epoch is None and self._unseen_ms:
            await self._time.sleep(self._unseen_ms / 1000)
        return epoch

    async def _taken(self, path: str) -> int | None:
        """Handles a node in ZooKeeper that already registers this broker id. Returns the broker
        epoch if this session owns the node. Otherwise waits until the node is deleted, and returns
        None.

        If an earlier session of this process owns the node, deletes the node. If another process
        owns it, waits until the session of this process expires (ZOOKEEPER-2985), and raises
        AlreadyRegistered if the session does not expire in time.
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

"""A connection to a real ZooKeeper with the library kazoo.

kazoo returns results and calls watches in its own threads. This module passes all of them to the
event loop, so that no other thread accesses the broker's state. It also hides three differences
between kazoo and Kafka's client. First, kazoo drops every watch when a connection is lost, and
notifies each watch: this module then calls the watches, and their owners read again. Second, a
failed transaction in kazoo returns a list of exceptions: `multi` raises an exception. Third,
requests in flight fail when the connection is lost: this module sends them again. Source: kazoo
2.11.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol import serialization
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Closed,
    Connection,
    Create,
    Delete,
    Done,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Set,
    Stat,
    Watch,
    Where,
    ZooKeeperError,
)
from broker.loop.histogram import Histogram
from broker.time import Time

logger = structlog.get_logger(__name__)
logging.getLogger("kazoo").addHandler(logging.NullHandler())  # kazoo also raises its errors

_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError)
"""The errors after which the result of a request is unknown. ZooKeeper may have applied the
request."""
_EPHEMERAL, _SEQUENCE = 1, 2
"""The flags of a create request in ZooKeeper's protocol."""
CLOSED_WITHIN_S = 3
"""The maximum time in seconds that `close` waits until the session has ended."""
_AGAIN_S = 0.01
"""The delay in seconds before a lost request is sent again, since kazoo may not have noticed the
loss yet."""
_ERRORS: dict[type[KazooException], type[ZooKeeperError]] = {
    NoNodeError: NoNode,
    NodeExistsError: NodeExists,
    BadVersionError: BadVersion,
    NotEmptyError: NotEmpty,
    SessionExpiredError: SessionExpired,
}
_STATES = {
    KazooState.CONNECTED: Connection.CONNECTED,
    KazooState.SUSPENDED: Connection.SUSPENDED,
    KazooState.LOST: Connection.EXPIRED,
}


class KazooZooKeeper:
    """Implements `ZooKeeper` with kazoo. ``hosts`` is the value of ``zookeeper.connect``: hosts,
    followed by a chroot."""

    def __init__(self, hosts: str, session_timeout_ms: int, in_flight_max: int, time: Time) -> None:
        addresses, slash, chroot = hosts.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        self._hosts = hosts
        self._time = time
        self._client = KazooClient(addresses, timeout=session_timeout_ms / 1000)
        self._loop = asyncio.get_running_loop()
        self._in_flight = asyncio.Semaphore(in_flight_max)
        self._connected = asyncio.Event()
        self._closed = False
        self._sessions_over = 0
        """The number of sessions that have expired. A request stores this number when it is made.
        If the number is higher later, the session of the request has expired."""
        self._listeners: list[Callable[[Connection], None]] = []
        self.connection = Connection.SUSPENDED
        self.request_times = Histogram()

    async def start(self, timeout_ms: int) -> None:
        """Connects to ZooKeeper, and creates the chroot if it does not exist. Raises TimeoutError
        if ZooKeeper does not answer within ``timeout_ms``."""
        self._client.add_listener(self._state_changed)
        self._client.start_async()
        async with self._time.within(timeout_ms / 1000):
            await self._connected.wait()
        if self._chroot:
            parts = self._chroot.strip("/").split("/")
            for end in range(1, len(parts) + 1):
                node = "/" + "/".join(parts[:end])
                try:
                    await self._call(self._client.create_async, node, None)
                except NodeExists:
                    continue

    @property
    def session(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    def on_session(self, call: Callable[[Connection], None]) -> None:
        self._listeners.append(call)

    # -- requests

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        data, stat = await self._call(self._client.get_async, self._full(path), self._watch(watch))
        return data or b"", _stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        stat = await self._call(self._client.exists_async, self._full(path), self._watch(watch))
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = await self._call(
            self._client.get_children_async, self._full(path), self._watch(watch)
        )
        return list(names)

    async def create(
        self, path: str, data: bytes | None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        made, stat = await self._call(
            self._client.create_async,
            self._full(path),
            data,
            ephemeral=ephemeral,
            sequence=sequence,
            include_data=True,
        )
        return self._below_chroot(made), _stat(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return _stat(await self._call(self._client.set_async, self._full(path), data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(self._client.delete_async, self._full(path), version)

    async def multi(self, operations: Sequence[Operation]) -> list[Done]:
        results, unsure = await self._repeated(partial(self._commit, operations))
        failed = [
            (index, result)
            for index, result in enumerate(results)
            if isinstance(result, Exception)
            and not isinstance(result, RolledBackError | RuntimeInconsistency)
        ]
        if failed:
            index, error = failed[0]
            raise MultiFailed(index, _error(error, operations[index].path, unsure))
        return [self._done(result) for result in results]

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._connected.set()  # wakes the waiting callers
        ended = asyncio.Event()
        self._time.start_thread(partial(self._stop, ended), "end of a ZooKeeper session")
        try:
            async with self._time.within(CLOSED_WITHIN_S):
                await ended.wait()
        except TimeoutError:
            logger.warning(
                "ZooKeeper session not closed: ZooKeeper does not answer",
                effect="the session ends after its timeout",
                hosts=self._hosts,
                session=hex(self.session),
            )

    def _stop(self, ended: asyncio.Event) -> None:
        """Ends the session; runs in a thread, because kazoo waits up to the session timeout."""
        try:
            self._client.remove_listener(self._state_changed)
            self._client.stop()
            self._client.close()
        except (KazooException, OSError) as error:
            logger.warning("ZooKeeper session can't be closed", reason=repr(error))
        finally:
            self._on_loop(ended.set)

    # -- sending requests

    async def _call(self, send: Callable[..., Any], path: str, *rest: Any, **named: Any) -> Any:
        """Sends a request and returns its result. Raises ZooKeeperError."""
        try:
            result, _ = await self._repeated(partial(send, path, *rest, **named))
        except _Refused as refused:
            raise _error(refused.error, path, refused.unsure) from refused.error
        return result

    async def _repeated(self, send: Callable[[], Any]) -> tuple[Any, bool]:
        """Sends a request until ZooKeeper responds. Returns the result, and True if the request was
        sent more than once.

        Raises _Refused, SessionExpired and Closed.
        """
        unsure, sessions_over = False, self._sessions_over
        async with self._in_flight:
            while True:
                await self._connected.wait()
                if self._closed:
                    raise Closed(f"the session with ZooKeeper at {self._hosts} was closed")
                if sessions_over != self._sessions_over:
                    raise SessionExpired(
                        f"the session with ZooKeeper at {self._hosts} has expired", unsure=unsure
                    )
                began_ns = self._time.ticks_ns()
                try:
                    answer = await self._answer(send())
                    self.request_times.add(self._time.ticks_ns() - began_ns)
                    return answer, unsure
                except _LOST:
                    unsure = True  # kazoo queues the next attempt until it is connected
                    await self._time.sleep(_AGAIN_S)
                except SessionExpiredError as error:
                    raise SessionExpired(
                        f"the session with ZooKeeper at {self._hosts} has expired", unsure=unsure
                    ) from error
                except KazooException as error:
                    raise _Refused(error, unsure) from error

    def _answer(self, pending: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(result: Any) -> None:
            if answer.done():
                return
            if result.exception is None:
                answer.set_result(result.value)
            else:
                answer.set_exception(result.exception)

        pending.rawlink(lambda result: self._on_loop(settle, result))
        return answer

    def _commit(self, operations: Sequence[Operation]) -> Any:
        transaction = TransactionRequest(self._client)
        for each in operations:
            path = self._full(each.path)
            if isinstance(each, Create):
                flags = each.ephemeral * _EPHEMERAL | each.sequence * _SEQUENCE
                # kazoo's own method does not accept a node without data.
                made = serialization.Create(path, each.data, OPEN_ACL_UNSAFE, flags)
                transaction.operations.append(made)
            elif isinstance(each, Set):
                transaction.set_data(path, each.data, each.version)
            elif isinstance(each, Delete):
                transaction.delete(path, each.version)
            else:
                assert isinstance(each, Check)
                transaction.check(path, each.version)
        return transaction.commit_async()

    def _done(self, result: Any) -> Done:
        if isinstance(result, str):
            return self._below_chroot(result)
        return _stat(result) if isinstance(result, ZnodeStat) else None

    # -- from kazoo's threads to the event loop

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _state_changed(self, state: str) -> None:
        self._on_loop(self._connection_changed, _STATES[state])

    def _connection_changed(self, connection: Connection) -> None:
        if self._closed:
            return
        self.connection = connection
        logger.info("ZooKeeper connection changed", state=connection.value, hosts=self._hosts)
        for call in self._listeners:
            call(connection)
        if connection is Connection.EXPIRED:
            self._sessions_over += 1
            self._connected.set()  # wakes the waiting callers, which raise SessionExpired
        if connection is Connection.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()

    def _watch(self, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        if watch is None:
            return None
        callback = watch

        def fired(_: WatchedEvent) -> None:
            self._on_loop(self._call_watch, callback)

        return fired

    def _call_watch(self, watch: Watch) -> None:
        if not self._closed:
            watch()

    # -- paths

    def _full(self, path: str) -> str:
        return self._chroot + path

    def _below_chroot(self, path: str) -> str:
        return path[len(self._chroot) :]


async def connect(where: Where, time: Time) -> KazooZooKeeper:
    """Opens a session, and creates the chroot. Implements the type
    `broker.cluster.zookeeper.zookeeper.Connect`."""
    zookeeper = KazooZooKeeper(where.hosts, where.session_timeout_ms, where.in_flight_max, time)
    try:
        await zookeeper.start(where.connection_timeout_ms)
    except BaseException:
        await zookeeper.close()
        raise
    return zookeeper


class _Refused(Exception):
    """ZooKeeper has answered a request with an error."""

    def __init__(self, error: KazooException, unsure: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.unsure = unsure


def _error(error: Exception, path: str, unsure: bool) -> ZooKeeperError:
    kind = next((_ERRORS[each] for each in _ERRORS if isinstance(error, each)), ZooKeeperError)
    return kind(f"{path}: {type(error).__name__}", unsure=unsure)


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        stat.version,
        stat.czxid,
        stat.mzxid,
        stat.ephemeralOwner,
        stat.numChildren,
        stat.ctime,
    )

"""The registry of one tested cluster: the brokers' sessions, whose timeouts follow the cluster's
clock. A session stays alive while its broker is connected, however far a test advances the clock.
After a broker was killed or cut off from the registry, its session expires after the session
timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.cluster.zookeeper.zookeeper import Connection, Done, Operation, Where
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time


class ClockedEnsemble(Ensemble):
    """An ensemble whose node creation times come from the cluster's wall clock."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self._time = time

    def do(self, operations: Sequence[Operation], session: int) -> list[Done]:
        self.now_ms = self._time.now().wall_ms
        self.writes.clear()  # a cluster may run for days
        return super().do(operations, session)


class Registry:
    """The registry of one cluster. Only the event loop's thread may use this class."""

    def __init__(self, time: Time) -> None:
        self.ensemble = ClockedEnsemble(time)
        self._time = time
        self._clients: dict[int, MemoryZooKeeper] = {}
        """The registry client of each broker's last run, by broker id."""
        self._session_ms: dict[int, int] = {}
        self._expiries: dict[int, asyncio.TimerHandle] = {}
        """The timer that will end the session of a disconnected broker, by broker id."""

    async def connect(self, broker_id: int, where: Where, _: Time) -> MemoryZooKeeper:
        """Opens the session for a new run of a broker, and ends the broker's earlier session."""
        self.expire(broker_id)
        client = self._clients[broker_id] = MemoryZooKeeper(self.ensemble)
        self._session_ms[broker_id] = where.session_timeout_ms
        return client

    def vanish(self, broker_id: int) -> None:
        """Disconnects a killed broker. Its session expires after its timeout."""
        client = self._clients.get(broker_id)
        if client is not None:
            client.vanish()
            self._expire_later(broker_id)

    def cut(self, broker_id: int) -> None:
        """Disconnects a running broker from the registry. Its session expires after its timeout."""
        client = self._clients[broker_id]
        if client.connection is Connection.CONNECTED:
            client.suspend()
            self._expire_later(broker_id)

    def pause(self, broker_id: int) -> None:
        """Suspends the registry client of a broker until `restore`. The client does not notice the
        suspension. The broker's session expires after its timeout."""
        client = self._clients[broker_id]
        if client.connection is Connection.CONNECTED:
            client.pause()
            self._expire_later(broker_id)

    def restore(self, broker_id: int) -> None:
        """Reconnects a broker after `cut` or `pause`, with a new session if the old session has
        expired. Does nothing if the broker has ended."""
        client = self._clients[broker_id]
        if client.has_ended:
            return
        self._keep(broker_id)
        if client.is_paused:
            client.go_on()
        elif client.connection is not Connection.CONNECTED:
            client.resume()

    def expire(self, broker_id: int) -> None:
        """Immediately ends the session of a disconnected broker. Does nothing if the broker is
        connected or has no session."""
        timer = self._expiries.get(broker_id)
        if timer is not None:
            self._keep(broker_id)
            self.ensemble.end_session(self._clients[broker_id].session)

    def is_connected(self, broker_id: int) -> bool:
        """Returns True if the broker has a session and a connection."""
        client = self._clients.get(broker_id)
        return (
            client is not None
            and client.session in self.ensemble.sessions
            and broker_id not in self._expiries
        )

    def _keep(self, broker_id: int) -> None:
        timer = self._expiries.pop(broker_id, None)
        if timer is not None:
            timer.cancel()

    def _expire_later(self, broker_id: int) -> None:
        self._keep(broker_id)
        timeout_s = self._session_ms[broker_id] / 1000
        self._expiries[broker_id] = self._time.call_later(timeout_s, self.expire, broker_id)


__all__ = ["Registry"]

"""Counts how often this broker's ZooKeeper session has changed its state since the broker joined
the cluster."""

from __future__ import annotations

from collections import Counter

from broker.cluster.zookeeper.zookeeper import Connection, ZooKeeper
from broker.time import Time


class SessionTotals:
    """Counts the changes of the session's state. Only the event loop's thread may use this
    class."""

    def __init__(self, zookeeper: ZooKeeper, time: Time) -> None:
        self.changes: Counter[Connection] = Counter(dict.fromkeys(Connection, 0))
        """The number of times that the connection has entered each state; the state at the start
        counts too."""
        self.changes[Connection.CONNECTED] = 1
        self._time = time
        self._zookeeper = zookeeper
        self._lost_ms: int | None = None
        zookeeper.on_session(self._changed)

    @property
    def connection(self) -> Connection:
        return self._zookeeper.connection

    @property
    def lost_for_ms(self) -> int:
        """The time in ms since the connection was lost; 0 while the connection is open."""
        return 0 if self._lost_ms is None else self._time.now().mono_ms - self._lost_ms

    def _changed(self, connection: Connection) -> None:
        self.changes[connection] += 1
        if connection is Connection.CONNECTED:
            self._lost_ms = None
        elif self._lost_ms is None:
            self._lost_ms = self._time.now().mono_ms

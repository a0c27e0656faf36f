"""The registration fence: checks that this broker still has the roles that the controller assigned.

A broker that was paused beyond its ZooKeeper session timeout has lost its leaderships, and does not
know it yet. Its appends are not acknowledged, but the committed offsets that it returns from memory
may be outdated. Therefore, after a pause that may have ended the session, the broker writes to
ZooKeeper before it returns committed offsets. If the session has ended, the broker waits until the
controller has sent LeaderAndIsr in the new session.

If ZooKeeper is down, the controller elects no leaders, so this broker continues: a lost connection
alone does not make it wait.
"""

from __future__ import annotations

from asyncio import Event, Lock, Timeout

from broker.cluster.membership.registration import NO_EPOCH, BrokerRegistration
from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    Check,
    Closed,
    Connection,
    MultiFailed,
    SessionExpired,
    ZooKeeper,
)
from broker.time import Time

AGAIN_S = 0.05
"""The delay in seconds before a failed check of the session is repeated. No check is repeated after
the end of the session was reported."""


class RegistrationFence:
    """Checks whether this broker still has its roles. After a pause of this broker, another broker
    may have them. Only the event loop's thread may use this class."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        registration: BrokerRegistration,
        path: str,
        session_timeout_ms: int,
        time: Time,
    ) -> None:
        """``path`` is the path of this broker's registration in ZooKeeper."""
        self._zookeeper = zookeeper
        self._registration = registration
        self._path = path
        self._pause_ms = session_timeout_ms // 3
        """The length in ms of the shortest pause of this process that can end its ZooKeeper
        session. The ZooKeeper client sends at least two pings in this time."""
        self._time = time
        self._proven_at_ms = time.left_out_ms
        """The total time for which this process had been paused (`Time.left_out_ms`) when the
        ZooKeeper session was last known to be alive."""
        self._is_lost = False
        self._confirmed = Event()
        self._asking = Lock()
        zookeeper.on_session(self._session_changed)

    @property
    def is_sure(self) -> bool:
        """True if the broker may return committed offsets from memory: it has not noticed the loss
        of its registration, and since its ZooKeeper session was last confirmed, it was not paused
        so long that the session may have ended."""
        self._time.now()  # the first read of the clock after a pause counts the pause
        paused_ms = self._time.left_out_ms - self._proven_at_ms
        return paused_ms < self._pause_ms and not self._is_lost

    async def until_sure(self, timeout: Timeout) -> bool:
        """Waits until `is_sure` is True. Returns False after the timeout."""
        try:
            async with timeout:
                while not self.is_sure:
                    if self._is_lost:
                        await self._confirmed.wait()
                    else:
                        await self._ask()
        except TimeoutError:
            return False
        return True

    async def _ask(self) -> None:
        """Checks whether the session is alive. One check serves all callers that wait.

        The check is a ZooKeeper multi, which counts as a write. A ZooKeeper server that lags behind
        can answer a read, but not a write.
        """
        async with self._asking:
            if self.is_sure or self._is_lost:
                return
            left_out_ms = self._time.left_out_ms
            try:
                await self._zookeeper.multi([Check(self._path, ANY_VERSION)])
            except (SessionExpired, MultiFailed, Closed):
                await self._time.sleep(AGAIN_S)
            else:
                self._proven_at_ms = left_out_ms

    def _session_changed(self, connection: Connection) -> None:
        if connection is Connection.EXPIRED and self._registration.last_epoch != NO_EPOCH:
            self._is_lost = True
            self._confirmed.clear()

    def confirmed(self) -> None:
        """Marks the roles of this broker as current. The broker calls this method after it has
        applied a LeaderAndIsr of the controller."""
        if self._is_lost and self._registration.epoch != NO_EPOCH:
            self._is_lost = False
            self._proven_at_ms = self._time.left_out_ms
            self._confirmed.set()

"""The mandate: whether this broker is still what the controller has last told it to be.

Who stood still for longer than its session leads and coordinates nothing any more, and is the last
to hear of it. What it appends nobody acknowledges, but a committed offset that it tells from memory
may be an old one. So after a pause that could have cost the session, ZooKeeper is asked before such
an answer is given; and once the session was lost, the controller must have spoken in the new one.

While ZooKeeper is away nobody else is elected, and this broker goes on: a lost connection alone
puts nothing in doubt.
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
"""How soon ZooKeeper is asked again, behind a session whose end is not told yet."""


class RegistrationFence:
    """See the module; use from the event loop's thread alone."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        registration: BrokerRegistration,
        path: str,
        session_timeout_ms: int,
        time: Time,
    ) -> None:
        """``path`` is the registration's node."""
        self._zookeeper = zookeeper
        self._registration = registration
        self._path = path
        self._pause_ms = session_timeout_ms // 3
        """A shorter pause costs no session: ZooKeeper hears of a client twice as often as that."""
        self._time = time
        self._proven_at_ms = time.left_out_ms
        """What the clock had left out when the session was last known to live."""
        self._is_lost = False
        self._told = Event()
        self._asking = Lock()
        zookeeper.on_session(self._session_changed)

    @property
    def is_sure(self) -> bool:
        """Whether answers may be given from memory."""
        self._time.now()  # whoever reads first after a pause finds it left out
        paused_ms = self._time.left_out_ms - self._proven_at_ms
        return paused_ms < self._pause_ms and not self._is_lost

    async def until_sure(self, timeout: Timeout) -> bool:
        """Waits for it; False: that took too long."""
        try:
            async with timeout:
                while not self.is_sure:
                    if self._is_lost:
                        await self._told.wait()
                    else:
                        await self._ask()
        except TimeoutError:
            return False
        return True

    async def _ask(self) -> None:
        """Asks whether the session lives: once for all who wait.

        A check in a multi is a write to ZooKeeper. Unlike a read, no server that is behind answers
        it.
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
            self._told.clear()

    def told(self) -> None:
        """The controller's LeaderAndIsr is done."""
        if self._is_lost and self._registration.epoch != NO_EPOCH:
            self._is_lost = False
            self._proven_at_ms = self._time.left_out_ms
            self._told.set()

"""The rate of new connections: ``max.connection.creation.rate`` of the broker and of a listener.

A connection above the rate waits in a queue, and is not read. When the rate allows it, its TLS
handshake begins, and the limits on the number of connections apply. In Kafka the acceptor thread
waits, and connections wait in the system's backlog. Muster has its own queue, which it can count,
and closes connections above `WAITING_MAX`.

A connection to the inter-broker listener waits only for the rate of that listener. Source: KIP-612,
Kafka 3.9 ``ConnectionQuotas``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import structlog

from broker.config.config import Config
from broker.net.listener import Listener
from broker.time import Time
from security.quotas.sampled_rate import ClientRate

logger = structlog.get_logger(__name__)

SETTING: Final = "max.connection.creation.rate"
NO_LIMIT: Final = 2147483647
WAITING_MAX: Final = 1000
"""The maximum number of connections that may wait at one listener; further connections are closed.
"""
SAID_EVERY_MS: Final = 60_000
Made = Callable[[], asyncio.BaseProtocol]


class ListenerRates:
    """The connection rates of one broker; only the event loop's thread may use them."""

    def __init__(self, config: Config, time: Time) -> None:
        self._config = config
        self.time = time
        self._rate = self._new_rate()
        self._by_listener: dict[Listener, ListenerRate] = {}
        self.refused = 0
        """The number of connections that were closed because too many connections were waiting."""

    @property
    def waiting(self) -> int:
        return sum(len(rate.waiting) for rate in self._by_listener.values())

    def of(self, listener: Listener) -> ListenerRate | None:
        """Returns the rate of a listener; None if neither the listener nor the broker has a
        limit."""
        if not self.allowed(listener):
            return None
        if listener not in self._by_listener:
            self._by_listener[listener] = ListenerRate(self, listener, self._new_rate())
        return self._by_listener[listener]

    def allowed(self, listener: Listener) -> list[tuple[float, ClientRate | None]]:
        """Returns the limits on the rate of new connections to a listener. The limit of the
        listener is paired with None; the limit of the whole broker is paired with the broker's
        measured rate."""
        own = self._config.of_listener(listener.name).own(SETTING)
        limits: list[tuple[float, ClientRate | None]] = []
        if own is not None and own != NO_LIMIT:
            limits.append((own, None))
        if self._config[SETTING] != NO_LIMIT and not self.is_exempt(listener):
            limits.append((self._config[SETTING], self._rate))
        return limits

    def is_exempt(self, listener: Listener) -> bool:
        """Returns True if the broker-wide limit does not apply to the listener, because only
        brokers use it. If a broker has only one listener, clients use it too, and the limit
        applies."""
        return listener.is_inter_broker and len(self._config.listeners) > 1

    def came(self) -> None:
        """Adds an accepted connection to the measured rate of the broker."""
        self._rate.record(1, self.time.now().mono_ms)

    def stop(self) -> None:
        for rate in self._by_listener.values():
            rate.stop()

    def _new_rate(self) -> ClientRate:
        return ClientRate(
            self._config["quota.window.num"], self._config["quota.window.size.seconds"] * 1000
        )


class ListenerRate:
    """The connection rate of one listener, and the connections that wait until the rate allows
    them."""

    def __init__(self, rates: ListenerRates, listener: Listener, rate: ClientRate) -> None:
        self._rates = rates
        self._listener = listener
        self._rate = rate
        self.waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._said_ms: int | None = None

    def protocol(self, make: Made) -> asyncio.Protocol:
        """Returns the asyncio protocol for a new socket, which waits until the rate permits the
        connection. The protocol that ``make`` creates then takes over."""
        return _Waiting(self, make)

    def came(self, waiting: _Waiting) -> None:
        """Accepts a new socket, adds the socket to the queue, or closes the socket if the queue is
        full."""
        if not self.waiting and not self._wait_ms():
            self._let_in(waiting)
        elif len(self.waiting) >= WAITING_MAX:
            self._rates.refused += 1
            waiting.close()
        else:
            waiting.hold()
            self.waiting.append(waiting)
            self._say()
            self._arm()

    def _say(self) -> None:
        now_ms = self._rates.time.now().mono_ms
        if self._said_ms is None or now_ms - self._said_ms >= SAID_EVERY_MS:
            self._said_ms = now_ms
            logger.warning(
                "connection rate limit reached, new connections wait",
                listener=self._listener.name,
                setting=SETTING,
            )

    def stop(self) -> None:
        while self.waiting:
            self.waiting.popleft().close()
        if self._timer is not None:
            self._timer.cancel()

    def _wait_ms(self) -> int:
        now_ms = self._rates.time.now().mono_ms
        waits = [
            # The rate includes this connection, so a limit of 0 accepts none.
            1000 if not limit else (rate or self._rate).wait_ms(limit, now_ms)
            for limit, rate in self._rates.allowed(self._listener)
        ]
        return max(waits, default=0)

    def _let_in(self, waiting: _Waiting) -> None:
        self._rate.record(1, self._rates.time.now().mono_ms)
        if not self._rates.is_exempt(self._listener):
            self._rates.came()
        waiting.come_in()

    def _arm(self) -> None:
        if self._timer is None and self.waiting:
            wait_s = min(max(self._wait_ms(), 1), 1000) / 1000
            self._timer = self._rates.time.call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        while self.waiting and not self._wait_ms():
            waiting = self.waiting.popleft()
            if not waiting.is_gone:
                self._let_in(waiting)
        self._arm()


class _Waiting(asyncio.Protocol):
    """The asyncio protocol of a new connection until the listener accepts it. If connections arrive
    faster than the listener's rate, the connection waits."""

    def __init__(self, listener_rate: ListenerRate, make: Made) -> None:
        self._listener_rate = listener_rate
        self._make = make
        self._transport: asyncio.Transport
        self._is_held = False
        self._early: list[bytes] = []
        """The bytes that arrived before the connection was accepted."""
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener_rate.came(self)

    def data_received(self, data: bytes) -> None:
        """Stores bytes that arrive before the connection is accepted: asyncio may read once even if
        `connection_made` has paused the transport."""
        self._early.append(data)
        # The transport is marked as paused but still reads; only resuming and pausing again stops
        # it.
        self._transport.resume_reading()
        self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_gone = True

    def hold(self) -> None:
        self._is_held = True
        self._transport.pause_reading()

    def come_in(self) -> None:
        """Passes the accepted socket to its listener's protocol as if it had just been opened."""
        protocol = self._make()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._is_held and not self._transport.is_closing():
            self._transport.resume_reading()
            for data in self._early:
                cast(asyncio.Protocol, protocol).data_received(data)

    def close(self) -> None:
        self._transport.abort()

"""The listening sockets, and the state that all connections share.

Enforces ``max.connections`` and ``max.connections.per.ip``, and limits the total size of partly
received requests. Every second, checks for peers that are idle, do not read, or have disconnected
while their socket was not read.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from broker.loop.disk_reads import DiskReads
from broker.loop.histogram import Histogram
from broker.loop.internal_errors import InternalErrors
from broker.loop.watchdog import Watchdog
from broker.net.clients.stuck_clients import KEY as CONSUMER_GROUP_HEARTBEAT
from broker.net.clients.stuck_clients import StuckClients
from broker.net.clients.totals import Clients
from broker.net.clients.unsupported import Unsupported
from broker.net.connection import Connection, TurnWrites
from broker.net.limits.connections import Limits
from broker.net.limits.partial_requests import PartialRequests
from broker.net.limits.throttles import Throttles
from broker.net.listener import Listener
from broker.net.long_requests import LongRequests
from broker.net.request import Route, ServedApi
from broker.net.tls.handshakes import Handshakes
from broker.time import Time
from protocol.buffer import Buffer
from protocol.messages import BY_KEY

if TYPE_CHECKING:
    from broker.net.limits.address_rates import AddressRates
    from broker.net.limits.listener_rates import ListenerRates

logger = structlog.get_logger(__name__)

CLOSING_S_MAX = 10
"""The maximum number of seconds for which a closing connection waits until its peer has accepted
the last bytes."""


class Server:
    """All listeners of one broker; only the event loop's thread may use this class."""

    listener_rates: ListenerRates | None = None
    """The connection rates of the listeners; None if no listener has a limit."""
    address_rates: AddressRates | None = None
    """The connection rates of addresses; None if no address has a limit."""

    def __init__(
        self,
        services: object,
        served: Mapping[int, ServedApi],
        limits: Limits,
        *,
        writes: TurnWrites,
        long: LongRequests,
        disk_reads: DiskReads,
        unsupported: Unsupported,
        stuck_clients: StuckClients,
        time: Time,
        watchdog: Watchdog,
        internal_errors: InternalErrors,
    ) -> None:
        self.services = services
        """The services that handlers use; the server only passes them on."""
        self.served = served
        self.limits = limits
        self.writes = writes
        """The connections to which replies are written at the end of a turn."""
        self.long = long
        """Handles requests that are not finished when their handler returns."""
        self.disk_reads = disk_reads
        self.unsupported, self._stuck_clients = unsupported, stuck_clients
        """``unsupported`` records unsupported requests. ``_stuck_clients`` records clients that
        send no more requests, because the broker does not support their protocol."""
        self.time = time
        self.watchdog, self.internal_errors = watchdog, internal_errors
        self.routes: dict[int, Route] = {}
        """The routes, by the number that combines API key and version in the header of a request.
        """
        self.errors: dict[int, dict[int, int]] = {}
        """The number of answered requests, by API key and error code."""
        self.times: dict[int, Histogram] = {}
        """The nanoseconds from a request's arrival to its response, by API key."""
        self.clients = Clients()
        for key, row in served.items():
            self._add_routes(key, row)
        self.connections: dict[Connection, None] = {}
        self.refused = 0  # connections closed at once because there were too many
        self.protocol_errors = 0
        """The number of connections that were closed because of invalid data."""
        self.muted: dict[Connection, None] = {}
        """The connections whose peers do not read their replies."""
        self.unread: dict[Connection, None] = {}
        """The connections whose socket the broker currently does not read."""
        self.throttles = Throttles(time)  # connections of clients that are over a quota
        self.now_s = 0
        """The monotonic clock in whole seconds, updated every second."""
        queued = self.limits.queued_bytes
        self.partials = PartialRequests[Connection](queued) if queued >= 0 else None
        self.handshakes = Handshakes(time, watchdog, lambda: self.now_s)
        self._per_ip, self._per_listener = Counter[str](), Counter[Listener]()
        self._closing: dict[Connection, int] = {}
        self._loop: asyncio.AbstractEventLoop
        self._servers: list[asyncio.AbstractServer] = []
        self._look: asyncio.TimerHandle | None = None

    def _add_routes(self, key: int, served: ServedApi) -> None:
        errors = self.errors[key] = defaultdict(int)
        times = self.times[key] = Histogram()
        for version in range(served.min_version, served.max_version + 1):
            flexible = served.api.is_flexible(version)
            self.routes[key << 16 | version] = Route(served, version, flexible, errors, times)

    def configure(self, limits: Limits) -> None:
        """Applies ``limits`` to new connections immediately, and to existing connections at the
        next check."""
        self.limits = limits

    def limit_rates(self, rates: ListenerRates) -> None:
        self.listener_rates = rates

    def answered(self) -> int:
        """Returns the number of requests answered since the broker started."""
        return sum([sum(errors.values()) for errors in self.errors.values()])

    async def accept(
        self,
        bound: socket.socket,
        listener: Listener,
        connection: Callable[[Server, Listener], Connection] = Connection,
    ) -> None:
        """Accepts the connections of a listener; ``connection`` creates their protocol objects."""
        self._loop = asyncio.get_running_loop()
        if self._look is None:
            self.now_s = self.time.now().mono_ms // 1000
            self._look = self.time.call_later(1, self._tick)

        def admitted() -> asyncio.BaseProtocol:
            return listener.first_protocol(connection(self, listener))

        def make() -> asyncio.BaseProtocol:
            rate = None if self.listener_rates is None else self.listener_rates.of(listener)
            return admitted() if rate is None else rate.protocol(admitted)

        server = await self._loop.create_server(
            lambda: make() if self.address_rates is None else self.address_rates.protocol(make),
            sock=bound,
            backlog=self.limits.backlog,
        )
        self._servers.append(server)

    async def close(self) -> None:
        """Stops accepting connections, writes finished replies, and closes every connection.

        A peer that does not accept its last bytes within two seconds is disconnected.
        """
        self._accept_no_more()
        for connection in list(self.connections):
            connection.drain()
        for _ in range(20):
            if not self.connections:
                break
            await self.time.sleep(0.1)
        self._cut_off()
        await self.time.sleep(0)

    def drop(self) -> None:
        """Stops accepting connections and aborts every connection without writing finished replies.
        Tests use this method to simulate a killed process."""
        self._accept_no_more()
        self._cut_off()

    def _accept_no_more(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self.listener_rates is not None:
            self.listener_rates.stop()
        if self._look is not None:
            self._look.cancel()

    def _cut_off(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        self.disk_reads.stop()

    # -- calls from connections

    def admit(self, connection: Connection) -> bool:
        """Counts a new connection and returns True; returns False if a limit is reached."""
        ip = connection.client_host[1:]
        limits = self.limits
        per_ip = limits.connections_per_ip_overrides.get(ip, limits.connections_per_ip)
        listener = connection.listener
        of_listener = limits.listener_connections.get(listener.name)
        if of_listener is not None and self._per_listener[listener] >= of_listener:
            reason = f"max.connections={of_listener} of listener {listener.name} is reached"
        elif self._per_ip[ip] >= per_ip:
            reason = f"max.connections.per.ip={per_ip} is reached for this address"
        elif len(self.connections) >= limits.connections and not self._made_room(listener):
            reason = f"max.connections={limits.connections} is reached"
        else:
            self._per_ip[ip] += 1
            self._per_listener[listener] += 1
            self.connections[connection] = None
            return True
        self.refused += 1
        logger.warning("connection refused", peer=connection.peer, reason=reason)
        return False

    def _made_room(self, listener: Listener) -> bool:
        """Called when the connection limit is reached. If ``listener`` is the inter-broker
        listener, closes the longest idle connection of the other listeners. Returns False if no
        connection can be closed."""
        others = [each for each in self.connections if each.listener is not listener]
        if not listener.is_inter_broker or not others:
            return False
        idle = min(others, key=lambda each: each.last_active_s)
        self._drop(
            idle,
            f"max.connections={self.limits.connections} is reached: closed to admit a connection of"
            " another broker",
        )
        return True

    def unserved(self, connection: Connection, key: int, version: int, frame: Buffer) -> None:
        self.protocol_errors += 1
        row = self.served.get(key)
        if row is None:
            advice = "this broker does not serve this API"
        else:
            served = f"{row.min_version} to {row.max_version}"
            advice = f"the request has version {version}, but this broker serves {served}"
        self.unsupported.asked(connection, BY_KEY[key].name, advice)
        if key == CONSUMER_GROUP_HEARTBEAT:
            self._stuck_clients.sent(connection, frame)

    def forget(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.clients.closed(connection)
        ip = connection.client_host[1:]
        self._per_listener[connection.listener] -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
        self.muted.pop(connection, None)
        self.unread.pop(connection, None)
        self.throttles.forget(connection)
        self._closing.pop(connection, None)
        if self.partials is not None:
            self.partials.forget(connection)

    # -- once a second

    def _tick(self) -> None:
        began_ns = self.time.ticks_ns()
        self._look = self.time.call_later(1, self._tick)
        self.now_s = self.time.now().mono_ms // 1000
        self.look_around()
        self.watchdog.ended("connections", began_ns)

    def look_around(self) -> None:
        """Runs the checks of every second. Closes connections that are idle, do not read, have
        disconnected, or stall a partial request."""
        now_s = self.now_s
        self.handshakes.look()
        self._look_for_unread(now_s)
        self._stuck_clients.look(self.connections, now_s)
        for connection in list(self.unread):
            if connection.peer_is_gone():
                connection.abort()
        if self.partials is not None and (stalled := self.partials.stalled(now_s)) is not None:
            self._drop(
                stalled,
                "queued.max.request.bytes is reached, and the client does not send the"
                " rest of its request",
            )
        if self.limits.idle_ms >= 0:
            self._look_for_idle(now_s)
        for connection, since in list(self._closing.items()):
            if now_s - since >= CLOSING_S_MAX:
                connection.abort()

    def _look_for_unread(self, now_s: int) -> None:
        """Closes the connections of peers that read no byte of their replies during the idle time.
        A peer that reads slowly gets its whole reply, as in Apache Kafka; until then, the reply
        uses the memory of the transport's buffer."""
        idle_ms = self.limits.idle_ms
        for connection in list(self.muted):
            taken = connection.bytes_out - connection.write_buffer_size()
            if taken > connection.taken_bytes:
                connection.taken_bytes, connection.muted_at_s = taken, now_s
            elif idle_ms >= 0 and (now_s - (connection.muted_at_s or now_s)) * 1000 >= idle_ms:
                self._drop(
                    connection, f"the client did not read its responses for {idle_ms // 1000} s"
                )

    def _look_for_idle(self, now_s: int) -> None:
        idle_s = self.limits.idle_ms / 1000
        for connection in list(self.connections):
            if connection.closed:
                self._closing.setdefault(connection, now_s)
            elif now_s - connection.last_active_s >= idle_s and not connection.waits:
                connection.close()
                logger.debug("idle connection closed", peer=connection.peer)

    def _drop(self, connection: Connection, reason: str) -> None:
        connection.abort()
        logger.warning("connection closed", peer=connection.peer, reason=reason)

"""The network between the machines of a cluster, including connections between brokers and broken
links.

Each machine has a `MachineNetwork`. The `Internet` knows all hosts and all cut links. As in TCP,
data on a cut link waits, and arrives when the link is restored unless one peer has closed the
connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.whole.agenda import MS, Agenda
from tests.simulation.whole.network import READ_BYTES_MAX, ListeningSocket, Network, Wire

if TYPE_CHECKING:
    from tests.simulation.cluster.fellow_loop import FellowLoop

REACHED_AGAIN_NS = (0, 1 * MS, 200 * MS)
"""After a link is restored, waiting data arrives with one of these delays in ns, because TCP
retransmits the data."""
UNDER_WAY_NS = 200 * MS
"""Upper bound in ns of the transmission time on a link without an extra delay."""
Link = frozenset[str]


class Internet:
    """The links between all hosts of a simulated cluster."""

    def __init__(self, agenda: Agenda, chance: Random) -> None:
        self.agenda = agenda
        self.chance = chance
        self.networks: dict[str, MachineNetwork] = {}
        self._delays: dict[Link, int] = {}
        """The extra delay of each slow link, in ns."""
        self._not_before: dict[Link, int] = {}
        """By link: the earliest time at which new data may arrive, because new data must not
        overtake earlier data."""
        self._held: dict[Link, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        """The data that waits on each cut link, as calls that deliver the data."""

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._held

    def cut(self, one: str, other: str) -> None:
        self._held.setdefault(frozenset((one, other)), [])

    def mend(self, one: str, other: str) -> None:
        """Restores the link from ``one`` to ``other``. Waiting data arrives before later data."""
        link = frozenset((one, other))
        self._not_before[link] = self.agenda.now_ns + self.chance.choice(REACHED_AGAIN_NS)
        for arrives, args in self._held.pop(link, []):
            self._arrives(link, arrives, args)

    def delay(self, one: str, other: str, ns: int) -> None:
        """Delays all later data on the link from ``one`` to ``other`` by ``ns``. 0 removes the
        delay."""
        link = frozenset((one, other))
        now_ns, delay_ns = self.agenda.now_ns, self._delays.get(link, 0)
        self._not_before[link] = now_ns + delay_ns + UNDER_WAY_NS if ns < delay_ns else now_ns
        self._delays[link] = ns

    def mend_all(self) -> None:
        for link in sorted(self._delays, key=sorted):
            self.delay(*sorted(link), ns=0)
        for link in sorted(self._held, key=sorted):
            self.mend(*sorted(link))

    def carry(
        self, one: str, other: str, at_ns: int, arrives: Callable[..., None], *args: Any
    ) -> None:
        """Calls ``arrives`` at ``at_ns``, or later if the link from ``one`` to ``other`` is slow or
        cut."""
        link = frozenset((one, other))
        self.agenda.at(at_ns + self._delays.get(link, 0), self._arrives, link, arrives, args)

    def _arrives(self, link: Link, arrives: Callable[..., None], args: tuple[Any, ...]) -> None:
        held = self._held.get(link)
        if held is not None:
            held.append((arrives, args))
        elif self.agenda.now_ns < self._not_before.get(link, 0):
            self.agenda.at(self._not_before[link], self._arrives, link, arrives, args)
        else:
            arrives(*args)


class MachineNetwork(Network):
    """All incoming and outgoing connections of one machine."""

    def __init__(self, internet: Internet, host: str, chance: Random) -> None:
        super().__init__(internet.agenda, chance)
        self.internet = internet
        self.host = host
        self.calls: dict[CallTransport, None] = {}
        internet.networks[host] = self

    def carry(self, wire: Wire, at_ns: int, arrives: Callable[..., None], *args: Any) -> None:
        self.internet.carry(wire.address[0], self.host, at_ns, arrives, *args)

    def cut(self) -> None:
        super().cut()
        for call in list(self.calls):
            call.vanish()

    async def call(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, loop: FellowLoop
    ) -> tuple[CallTransport, asyncio.Protocol]:
        """Opens a connection to another machine. Raises ConnectionRefusedError if the other machine
        does not accept the connection."""
        reached: asyncio.Future[Wire | None] = loop.create_future()
        there = self.internet.networks[host]

        def arrives() -> None:
            listening = there.listening.get(port)
            if listening is None or reached.done():
                answer(None)
                return
            wire = CallWire(there, (self.host, self.chance.randint(20_000, 60_000)), listening)
            there.wires[wire] = None
            wire.has_news()
            answer(wire)

        def answer(wire: Wire | None) -> None:
            at_ns = self.agenda.now_ns + self.latency_ns()
            self.internet.carry(host, self.host, at_ns, told, wire)

        def told(wire: Wire | None) -> None:
            if loop.is_closed() or reached.done():
                if wire is not None:
                    wire.close(reset=True)
            else:
                reached.set_result(wire)

        self.internet.carry(self.host, host, loop.now_ns + self.latency_ns(), arrives)
        wire = await reached
        if wire is None:
            raise ConnectionRefusedError(111, f"nobody listens at {host}:{port}")
        assert isinstance(wire, CallWire)
        protocol = factory()
        transport = CallTransport(self, wire, loop, protocol)
        protocol.connection_made(transport)
        return transport, protocol


class CallWire(Wire):
    """A connection that a broker has opened to another broker."""

    caller: CallTransport | None = None

    def _now_ns(self) -> int:
        ahead_ns = 0 if self.caller is None else self.caller.loop.now_ns
        return max(self.network.agenda.now_ns, ahead_ns)

    def _take(self, data: bytes | None) -> None:
        """Adds bytes from the broker to the receive buffer of the process that opened the
        connection. If ``data`` is None, closes the connection."""
        if self.caller is not None:
            self.caller.arrives(data)
        elif data is None:
            self.closed = True

    def was_read(self, size: int) -> None:
        """Notes that the process that opened the connection has read ``size`` bytes."""
        self.unread_bytes -= size
        if self.transport.waits_for_room:
            self.has_news()


class CallTransport(asyncio.Transport):
    """The transport that a broker uses for a connection that it has opened."""

    def __init__(
        self, network: MachineNetwork, wire: CallWire, loop: FellowLoop, protocol: asyncio.Protocol
    ) -> None:
        super().__init__({"peername": (wire.network.host, 0), "sockname": wire.address})  # type: ignore[attr-defined]
        self.loop = loop
        self._network = network
        self._wire = wire
        self._protocol = protocol
        self._arrived: deque[bytes | None] = deque()
        self._closing = False
        network.calls[self] = None
        wire.caller = self
        if wire.closed:
            self.arrives(None)

    def arrives(self, data: bytes | None) -> None:
        """Stores received bytes, or the end of the stream if ``data`` is None."""
        if not self._closing:
            self._arrived.append(data)
            self._network.news[self] = None

    def ready(self) -> None:
        if self._closing:
            return
        received, ended = bytearray(), False
        while self._arrived and len(received) < READ_BYTES_MAX and not ended:
            data = self._arrived.popleft()
            ended = data is None
            received += data or b""
        if received:
            self._wire.was_read(len(received))
            self._protocol.data_received(bytes(received))
        if ended:
            self._lose()
        elif self._arrived:
            self._network.news[self] = None

    def vanish(self) -> None:
        """Closes the connection like the kernel of a dead process."""
        self._closing = True
        self._network.calls.pop(self, None)
        self._wire.close(reset=True)

    def _lose(self) -> None:
        if not self._closing:
            self.vanish()
            self._network.news.pop(self, None)
            if not self.loop.is_closed():
                self.loop.call_soon(self._protocol.connection_lost, None)

    # -- asyncio.Transport

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._lose()

    def abort(self) -> None:
        self._lose()

    def write(self, data: Any) -> None:
        if not self._closing and not self._wire.closed:
            self._wire.send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))


__all__ = ["CallTransport", "Internet", "ListeningSocket", "MachineNetwork"]

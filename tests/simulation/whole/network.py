"""Connections in memory between simulated clients and a broker process on a virtual event loop.

The broker's end of a connection is an `asyncio.Transport` under the broker's real protocol objects.
The client's end is a `Wire`, which passes complete frames to its owner.

Between both ends are the buffers of the kernel. The bytes of a client arrive after a random delay,
and may be split anywhere. Bytes of one connection stay in order, but connections overtake each
other. The bytes of the broker fill a window of bounded size, so the transport's buffer grows when a
client does not read.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.whole.agenda import MS, Agenda

if TYPE_CHECKING:
    from tests.simulation.whole.virtual_loop import VirtualLoop

READ_BYTES_MAX = 256 * 1024
"""The maximum number of bytes that an event loop reads from a socket at once."""
WINDOW_BYTES = 64 * 1024
"""The maximum number of unread response bytes that the kernel accepts."""
HIGH_WATER_BYTES = 64 * 1024
LATENCY_NS = (30_000, 80_000, 150_000, 400_000)
TORN_NS = (0, 50_000, 2 * MS, 40 * MS)

_LENGTH = struct.Struct(">i")


@dataclass
class ListeningSocket:
    """Replaces a bound socket and the asyncio server that accepts connections on it."""

    network: Network
    address: tuple[str, int]
    factory: Callable[[], asyncio.Protocol] | None = None
    loop: VirtualLoop | None = None

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def listen(self, backlog: int) -> None:
        """Does nothing. Connections are refused until the server accepts them."""

    def close(self) -> None:
        self.network.listening.pop(self.address[1], None)


class Network:
    """All connections of a simulation. `news` lists the transports that the broker's event loop
    must handle."""

    def __init__(self, agenda: Agenda, chance: Random) -> None:
        self.agenda = agenda
        self.chance = chance
        self.listening: dict[int, ListeningSocket] = {}
        self.news: dict[Transport, None] = {}
        """Transports that can be read or written, in the order of their events."""
        self.wires: dict[Wire, None] = {}
        """Connections that the broker has not closed."""
        self.torn = 0.05
        """The probability that the bytes of a client arrive in several pieces."""
        self.on_written: Callable[[Wire, bytes], None] = lambda wire, frame: None
        """Called with each complete frame that the broker passes to a transport."""
        self.on_closed: Callable[[Wire], None] = lambda wire: None
        """Called when the broker closes a connection that the client has not yet abandoned."""

    def bind(self, host: str, port: int, limits: object = None) -> Any:
        """Returns a simulated listening socket. Replaces `broker.net.sockets.bind`."""
        assert port, "a free port is not the same port twice"
        return ListeningSocket(self, (host, port))

    def accept_on(
        self,
        listening: ListeningSocket,
        factory: Callable[[], asyncio.Protocol],
        loop: VirtualLoop,
    ) -> None:
        assert listening.address[1] not in self.listening, "address in use"
        listening.factory, listening.loop = factory, loop
        self.listening[listening.address[1]] = listening

    def connect(self, port: int, host: str) -> Wire | None:
        """Connects to the listener on ``port``. Returns None if no listener exists."""
        listening = self.listening.get(port)
        if listening is None:
            return None
        wire = Wire(self, (host, self.chance.randint(20_000, 60_000)), listening)
        self.wires[wire] = None
        self.carry(wire, self.agenda.now_ns + self.latency_ns(), wire.arrives, b"")
        return wire

    def latency_ns(self) -> int:
        return self.chance.choice(LATENCY_NS)

    def carry(self, wire: Wire, at_ns: int, arrives: Callable[..., None], *args: Any) -> None:
        """Calls ``arrives`` at the time ``at_ns`` if the network works."""
        self.agenda.at(at_ns, arrives, *args)

    def deliver(self) -> None:
        """Polls all sockets, and passes the arrived bytes to their protocols."""
        looked_at = list(self.news)
        self.news.clear()
        if len(looked_at) > 1:
            self.chance.shuffle(looked_at)
        for transport in looked_at:
            transport.ready()
            if transport.loop._left:
                return

    def cut(self) -> None:
        """Closes all connections of a dead process, as the kernel does."""
        self.listening.clear()
        self.news.clear()
        for wire in list(self.wires):
            wire.transport.vanish()


class Wire:
    """The client's end of a connection, with the kernel's buffers of both directions."""

    def __init__(
        self, network: Network, address: tuple[str, int], listening: ListeningSocket
    ) -> None:
        self.network = network
        self.address = address
        self.on_frame: Callable[[bytes], None] = lambda frame: None
        """Called with each complete frame of the broker, without the length prefix."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called once, after the broker has closed the connection and all earlier bytes are
        read."""
        self.reading = True
        self.closed = False
        self.connected = False
        """True if the broker's process has accepted the connection."""
        self.arrived: deque[bytes] = deque()
        """Bytes that have arrived in the kernel of the broker and are unread."""
        self.arrived_ns = 0
        """The arrival time in ns of the oldest unread bytes."""
        self.end: str | None = None
        """How the connection ends after the arrived bytes: "closed", "reset", or None if it is
        open."""
        self.unread_bytes = 0
        """The number of bytes that the broker wrote and the client has not read. They fill the
        client's receive buffer."""
        self.transport = SimulatedTransport(self, listening)
        self._sent_until_ns = 0
        self._replied_until_ns = 0
        self._unread: deque[bytes | None] = deque()
        """Bytes that have arrived at a client that has stopped reading. None is the end of the
        stream."""
        self._partial = bytearray()

    # -- the client's calls

    def send(self, data: bytes) -> None:
        """Sends ``data`` to the broker. The bytes may arrive in several pieces."""
        assert not self.closed
        chance, network = self.network.chance, self.network
        at_ns = max(self._sent_until_ns, self._now_ns() + network.latency_ns())
        if chance.random() < network.torn:
            for _ in range(chance.randint(1, 3)):
                cut = chance.randint(0, len(data))
                network.carry(self, at_ns, self.arrives, data[:cut])
                data = data[cut:]
                at_ns += chance.choice(TORN_NS)
        network.carry(self, at_ns, self.arrives, data)
        self._sent_until_ns = at_ns

    def _now_ns(self) -> int:
        """Returns the time of the simulation in ns. The work of a client takes no time."""
        return self.network.agenda.now_ns

    def close(self, reset: bool = False) -> None:
        """Closes the connection at the client. The client receives no more data."""
        if self.closed:
            return
        self.closed = True
        self._unread.clear()
        at_ns = self._now_ns() + self.network.latency_ns()
        if not reset:
            at_ns = max(at_ns, self._sent_until_ns)
        self.network.carry(self, at_ns, self._ends, "reset" if reset else "closed")

    def vanish(self) -> None:
        """Disconnects the machine of the client from the network without closing the connection."""
        self.closed = True
        self._unread.clear()
        self._sent_until_ns = -1

    def read(self, on: bool) -> None:
        """Starts reading if ``on`` is True, and stops reading otherwise."""
        self.reading = on
        while self.reading and self._unread:
            self._take(self._unread.popleft())

    # -- arrivals at the broker

    def arrives(self, data: bytes) -> None:
        if self._sent_until_ns < 0 or self.end is not None or self.transport.gone:
            return
        if data:
            if not self.arrived:
                self.arrived_ns = self.network.agenda.now_ns
            self.arrived.append(data)
        self.has_news()

    def _ends(self, how: str) -> None:
        if self.transport.gone:
            return
        self.end = how
        if how == "reset":
            self.arrived.clear()
        self.has_news()

    def has_news(self) -> None:
        self.network.news[self.transport] = None

    # -- arrivals at the client

    def write(self, data: bytes) -> int:
        """Passes bytes of the broker to the kernel. Returns the number of bytes that the kernel
        accepted."""
        taken = data[: max(0, WINDOW_BYTES - self.unread_bytes)]
        if taken:
            self.unread_bytes += len(taken)
            self._later(bytes(taken))
        return len(taken)

    def finish(self) -> None:
        """Closes the connection at the broker. The client reads the end of the stream after the
        written bytes."""
        self._later(None)

    def _later(self, data: bytes | None) -> None:
        now_ns = max(self.network.agenda.now_ns, self.transport.loop.now_ns)
        self._replied_until_ns = max(self._replied_until_ns, now_ns + self.network.latency_ns())
        self.network.carry(self, self._replied_until_ns, self._hears, data)

    def _hears(self, data: bytes | None) -> None:
        if self.closed:
            return
        if self.reading:
            self._take(data)
        else:
            self._unread.append(data)

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self.closed = True
            self.on_lost()
            return
        self.unread_bytes -= len(data)
        if self.transport.waits_for_room:
            self.has_news()
        partial = self._partial
        partial += data
        while len(partial) >= 4 and not self.closed:
            size = 4 + _LENGTH.unpack_from(partial)[0]
            if len(partial) < size:
                break
            frame = bytes(partial[4:size])
            del partial[:size]
            self.on_frame(frame)


class Transport(Protocol):
    """The connection as a process uses it: the methods that the event loop of the process calls."""

    loop: VirtualLoop

    def ready(self) -> None:
        """Handles an event: bytes have arrived, or the window has free space."""


class SimulatedTransport(asyncio.Transport):
    """The broker's end of a connection. It behaves like a socket transport of asyncio."""

    def __init__(self, wire: Wire, listening: ListeningSocket) -> None:
        super().__init__({"peername": wire.address, "sockname": listening.address})
        assert listening.factory is not None
        assert listening.loop is not None
        self.wire = wire
        self.loop = listening.loop
        self.gone = False
        """True if `connection_lost` was called, or if the protocol object no longer exists."""
        self._factory = listening.factory
        self._protocol: asyncio.Protocol
        self._reading = True
        self._closing = False
        self._buffer = bytearray()
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._paused = False
        self._framed = bytearray()
        """Bytes that the broker has written after the end of the last complete frame."""

    # -- calls of the loop

    def ready(self) -> None:
        wire = self.wire
        if self.gone:
            return
        if not wire.connected:
            wire.connected = True
            self._protocol = self._factory()
            self._protected(self._protocol.connection_made, self)
        if wire.end == "reset":
            self._lose(ConnectionResetError("reset by the peer"))
            return
        if self._buffer:
            self._flush()
        if self._reading and not self._closing and wire.arrived:
            data = self._received()
            if wire.arrived:
                wire.has_news()
            self._protected(self._protocol.data_received, data)
        elif wire.end == "closed" and self._reading and not self._closing:
            keeps_open = self._protected(self._protocol.eof_received)
            if not keeps_open:
                self.close()

    def _received(self) -> bytes:
        arrived = self.wire.arrived
        if len(arrived) == 1:
            data = arrived.popleft()
        else:
            data = b"".join(arrived)
            arrived.clear()
        if len(data) > READ_BYTES_MAX:
            arrived.append(data[READ_BYTES_MAX:])
            data = data[:READ_BYTES_MAX]
        return data

    def _protected(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001 - as a real loop: it ends the connection
            self.loop.call_exception_handler(
                {"message": f"{call.__name__} failed", "exception": error, "transport": self}
            )
            self._lose(error)
            return None

    def vanish(self) -> None:
        """Ends the connection of a dead process. The kernel still sends the bytes that it has
        accepted."""
        self.gone = True
        self.wire.network.wires.pop(self.wire, None)
        self.wire.finish()

    def _lose(self, error: Exception | None) -> None:
        if self.gone:
            return
        self.gone = self._closing = True
        self._buffer.clear()
        self.wire.network.wires.pop(self.wire, None)
        self.wire.network.news.pop(self, None)
        if self.wire.end is None and not self.wire.closed:
            self.wire.network.on_closed(self.wire)
        self.wire.finish()
        self.loop.call_soon(self._protocol.connection_lost, error)

    # -- asyncio.Transport

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self.wire.arrived or self.wire.end is not None:
            self.wire.has_news()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    @property
    def waits_for_room(self) -> bool:
        """Returns True if written bytes wait because the window is full."""
        return bool(self._buffer) and not self.gone

    def write(self, data: Any) -> None:
        if self.gone or self._closing or not data:
            return
        self._note_frames(data)
        taken = 0 if self._buffer else self.wire.write(bytes(data))
        if taken < len(data):
            self._buffer += data[taken:]
            self._pause_if_full()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _note_frames(self, data: Any) -> None:
        framed = self._framed
        framed += data
        while len(framed) >= 4:
            size = 4 + _LENGTH.unpack_from(framed)[0]
            if len(framed) < size:
                return
            self.wire.network.on_written(self.wire, bytes(framed[4:size]))
            del framed[:size]

    def _flush(self) -> None:
        taken = self.wire.write(bytes(self._buffer))
        del self._buffer[:taken]
        if self._paused and len(self._buffer) <= self._low:
            self._paused = False
            self._protected(self._protocol.resume_writing)
        if not self._buffer and self._closing:
            self._lose(None)

    def _pause_if_full(self) -> None:
        if not self._paused and len(self._buffer) > self._high:
            self._paused = True
            self._protected(self._protocol.pause_writing)

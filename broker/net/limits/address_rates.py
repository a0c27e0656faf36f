"""The connection rate of an address, ``connection_creation_rate``: a connection above the rate is
delayed and then closed.

The broker does not read, answer or count a delayed connection, and does not include it in the rate.
An accepted connection is passed to the protocol of its listener as if it had just been opened.
Source: KIP-612, Kafka 3.9 ``ConnectionQuotas``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from broker.net.peer import java_address
from broker.quotas.client_quotas import ClientQuotas, Kind
from security.quotas.entities import address_of

HELD_MAX: Final = 1000
"""The maximum number of connections that are delayed at the same time; further connections are
closed immediately."""
Made = Callable[[], asyncio.BaseProtocol]


class AddressRates:
    """The connection rates of addresses in one broker; only the event loop's thread may use
    them."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self.held = 0

    def protocol(self, make: Made) -> asyncio.Protocol:
        """Returns the asyncio protocol for a new socket. If the socket is accepted, the protocol
        that ``make`` creates takes over."""
        return _Entering(self, make)

    def wait_ms(self, host: str) -> int:
        """Returns the number of milliseconds for which a new connection is kept open before it is
        closed; 0 if the connection is accepted."""
        try:
            share = self._quotas.share_of_address(address_of(java_address(host).removeprefix("/")))
        except ValueError:  # not an IP address, such as a local socket's
            return 0
        if share is None:
            return 0
        now_ms = self._quotas.time.now().mono_ms
        wait_ms = share.use(1, now_ms)
        if wait_ms:
            share.take_back(1, now_ms)
            self._quotas.count(Kind.CONNECTION, wait_ms)
        return wait_ms

    def hold(self, transport: asyncio.Transport, wait_ms: int) -> None:
        """Keeps a socket open for ``wait_ms`` without reading, then closes it."""
        if self.held >= HELD_MAX:
            transport.abort()
            return
        self.held += 1
        transport.pause_reading()
        self._quotas.time.call_later(wait_ms / 1000, self._close, transport)

    def _close(self, transport: asyncio.Transport) -> None:
        self.held -= 1
        transport.abort()


class _Entering(asyncio.Protocol):
    """A new socket that has not been passed to its listener's protocol."""

    def __init__(self, rates: AddressRates, make: Made) -> None:
        self._rates = rates
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        entering = cast(asyncio.Transport, transport)
        host, *_ = entering.get_extra_info("peername") or ("",)
        wait_ms = self._rates.wait_ms(str(host))
        if wait_ms:
            self._rates.hold(entering, wait_ms)
            return
        protocol = self._make()
        entering.set_protocol(protocol)
        protocol.connection_made(entering)

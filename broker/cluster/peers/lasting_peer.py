"""A connection to another broker that is opened at the first request, and again after a loss.

Each attempt looks up the address again, since a broker may restart at another address.
``inter.broker.protocol.version`` determines the versions of most requests. For a few APIs, Kafka's
brokers negotiate the version; only for these APIs, this broker sends ApiVersions first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.cluster.peers.fitting import Value
from broker.cluster.peers.peer import Address, Connect, Peer, PeerLost, connect
from broker.time import Time
from protocol.errors import NAMES, NONE
from protocol.messages import api_versions
from protocol.schema import Api


class PeerSettings(NamedTuple):
    """The settings of connections to other brokers."""

    node_id: int
    """The broker id of this broker, which is also the client id in its requests."""
    listener: str
    """The name of the inter-broker listener."""
    connect_timeout_ms: int
    request_timeout_ms: int
    connect: Connect = connect


class NotServed(PeerLost):
    """Raised if this broker and the other broker have no common version of a request."""


class LastingPeer:
    """A connection to another broker, for one request at a time. Only the event loop's thread may
    use this class."""

    def __init__(
        self, address_of: Callable[[], Address], settings: PeerSettings, time: Time
    ) -> None:
        """``address_of`` returns the address of the other broker, or raises PeerLost."""
        self._address_of = address_of
        self._settings = settings
        self._time = time
        self._peer: Peer | None = None
        self._versions: dict[int, range] = {}
        """The versions that the other broker supports, by API key. Empty until the other broker has
        answered ApiVersions."""

    async def version_of(self, api: Api) -> int:
        """Returns the newest version of an API that both brokers support. Raises PeerLost and
        NotServed."""
        peer = await self._connected()
        if not self._versions:
            timeout_ms = self._settings.request_timeout_ms
            answer = await peer.call(api_versions.API, 0, {}, timeout_ms)
            error_code = answer["error_code"]
            if error_code != NONE:
                raise PeerLost(
                    f"{peer.address} returned an error for ApiVersions:"
                    f" {NAMES.get(error_code, error_code)}"
                )
            self._versions = {
                each["api_key"]: range(each["min_version"], each["max_version"] + 1)
                for each in answer["api_keys"]
            }
        both = self._versions.get(api.key, range(0))
        newest = min(both.stop, api.versions.stop) - 1
        if newest < max(both.start, api.versions.start):
            raise NotServed(
                f"{peer.address} supports no version of {api.name} that this broker supports"
            )
        return newest

    async def call(
        self, api: Api, version: int, value: Value, timeout_ms: int | None = None
    ) -> Value:
        """Sends a request and returns its response. Raises PeerLost."""
        peer = await self._connected()
        return await peer.call(api, version, value, timeout_ms or self._settings.request_timeout_ms)

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
            self._versions = {}

    async def _connected(self) -> Peer:
        address = self._address_of()
        if self._peer is not None and self._peer.lost is None and self._peer.address == address:
            return self._peer
        self.close()
        settings = self._settings
        self._peer = await settings.connect(
            address, str(settings.node_id), self._time, settings.connect_timeout_ms
        )
        return self._peer

"""A connection to the controller, wherever it is: the metadata cache says which broker that is.

Brokers ask it ApiVersions, unlike other brokers: a controller of another version is known by what
it serves.
"""

from __future__ import annotations

from broker.cluster.fitting import Value
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer import Address, Peer, PeerLost, connect
from broker.time import Time
from protocol.errors import NONE
from protocol.messages import api_versions
from protocol.schema import Api


class ControllerPeer:
    """See the module; use from the event loop's thread alone, one request at a time."""

    def __init__(
        self, node_id: int, listener: str, cache: MetadataCache, time: Time, timeout_ms: int
    ) -> None:
        self._node_id = node_id
        self._listener = listener
        self._cache = cache
        self._time = time
        self._timeout_ms = timeout_ms
        self._peer: Peer | None = None
        self._versions: dict[int, range] = {}

    async def version_of(self, api: Api) -> int:
        """The newest version of an API that both know. Raises PeerLost where there is none."""
        await self._connected()
        both = self._versions.get(api.key, range(0))
        newest = min(both.stop, api.versions.stop) - 1
        if newest < max(both.start, api.versions.start):
            raise PeerLost(f"the controller serves no version of {api.name} that is known here")
        return newest

    async def call(self, api: Api, version: int, value: Value, timeout_ms: int) -> Value:
        """One request; its answer. Raises PeerLost."""
        peer = await self._connected()
        return await peer.call(api, version, value, timeout_ms)

    def look_again(self) -> None:
        """It said that it is not the controller: the connection is given up."""
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _connected(self) -> Peer:
        address = self._address()
        if self._peer is not None and self._peer.lost is None and self._peer.address == address:
            return self._peer
        self.close()
        peer = await connect(address, str(self._node_id), self._time, self._timeout_ms)
        answer = await peer.call(api_versions.API, 0, {}, self._timeout_ms)
        if answer["error_code"] != NONE:
            peer.close()
            raise PeerLost(f"{address} answers ApiVersions with error {answer['error_code']}")
        self._versions = {
            each["api_key"]: range(each["min_version"], each["max_version"] + 1)
            for each in answer["api_keys"]
        }
        self._peer = peer
        return peer

    def _address(self) -> Address:
        node = self._cache.node(self._cache.controller_id, self._listener)
        if node is None:
            raise PeerLost("nobody is known to be the controller")
        return Address(node.host, node.port)

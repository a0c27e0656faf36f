"""A connection to the controller, whose broker id is in the metadata cache."""

from __future__ import annotations

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.lasting_peer import LastingPeer, PeerSettings
from broker.cluster.peers.peer import Address, Connect, PeerLost, connect
from broker.time import Time


class ControllerPeer(LastingPeer):
    """A connection to the controller, for one request at a time. Only the event loop's thread may
    use this class."""

    def __init__(
        self,
        node_id: int,
        listener: str,
        cache: MetadataCache,
        time: Time,
        timeout_ms: int,
        connect: Connect = connect,
    ) -> None:
        settings = PeerSettings(node_id, listener, timeout_ms, timeout_ms, connect)
        super().__init__(self._address, settings, time)
        self._listener = listener
        self._cache = cache

    def look_again(self) -> None:
        """Closes the connection. Called when the other broker has replied that it is not the
        controller."""
        self.close()

    def _address(self) -> Address:
        node = self._cache.node(self._cache.controller_id, self._listener)
        if node is None:
            raise PeerLost("the controller is unknown")
        return Address(node.host, node.port)

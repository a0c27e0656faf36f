"""Makes the clients with which this broker's coordinators send requests to other brokers.

The requests are about transaction markers, partitions of transactions, and the states of share
partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.cluster.coordinators.remote_add_partitions import RemoteEnlisting
from broker.cluster.coordinators.remote_markers import Destinations, RemoteMarkers
from broker.cluster.coordinators.remote_share_states import RemoteShareStates
from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.peers.lasting_peer import PeerSettings
from broker.cluster.zookeeper.zookeeper import ZooKeeper
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.sending import Destination
from broker.share.coordinator import ShareCoordinator
from broker.topics.cluster_view import ClusterView
from broker.topics.logs import LogManager
from broker.topics.startup_parts import StartupParts


class CoordinatorClients:
    """Makes the clients with which this broker's coordinators send requests to other brokers, each
    client at most once. Stops these clients."""

    def __init__(
        self,
        startup: StartupParts,
        cluster: ClusterView,
        settings: PeerSettings,
        spoken: InterBroker,
        zookeeper: ZooKeeper,
    ) -> None:
        self._startup = startup
        self._cluster = cluster
        self._settings = settings
        self._spoken = spoken
        self._zookeeper = zookeeper
        self._stops: list[Callable[[], None]] = []

    def enlisting(self, partition_count: Callable[[], int]) -> RemoteEnlisting:
        """Makes the client that adds partitions to transactions which other brokers coordinate.

        ``partition_count`` returns the number of partitions of ``__transaction_state``, because the
        metadata may not list all of them yet.
        """
        startup = self._startup
        enlisting = RemoteEnlisting(
            self._cluster, self._settings, partition_count, startup.time, startup.background.spawn
        )
        self._stops.append(enlisting.stop)
        return enlisting

    def marker_destinations(
        self, logs: LogManager, local: LocalMarkers
    ) -> Callable[[str, int], Destination]:
        """Returns a function from a topic and partition to the object that writes the markers of
        this partition. If this broker leads the partition, the object writes to its log; otherwise
        it sends requests to the leader."""
        startup = self._startup
        remote = RemoteMarkers(
            self._cluster,
            self._settings,
            self._spoken,
            self._zookeeper,
            startup.time,
            startup.background.spawn,
        )
        self._stops.append(remote.stop)
        return Destinations(logs, local, remote).of

    def share_states(self, local: ShareCoordinator) -> RemoteShareStates:
        """Makes the client of the share coordinators on all brokers; ``local`` is the share
        coordinator of this broker."""
        startup = self._startup
        states = RemoteShareStates(
            local, self._cluster, self._settings, startup.time, startup.background.spawn
        )
        self._stops.append(states.stop)
        return states

    def stop(self) -> None:
        for stop in self._stops:
            stop()

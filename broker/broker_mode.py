"""The mode of a broker: standalone (`standalone.py`) or in a cluster (`in_cluster.py`).

`Broker` makes a `StartupParts`, opens its standing on it, makes the coordinators over the
standing's logs, and has the standing make what changes topics. From there on it does not ask which
one it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from broker.config.listeners import Endpoint
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.runtime import TransactionRuntime
from broker.cores.transactions.sending import Destination
from broker.net.advertised import Advertised
from broker.net.request import ServedApi
from broker.topics.cleaner.cleaning import Cleaning
from broker.topics.cluster_view import ClusterView
from broker.topics.config_changes import SettingsStore
from broker.topics.logs import LogManager
from broker.topics.producer_ids import ProducerIdPool
from broker.topics.registry import OldOffsets, Registry
from broker.topics.topic_changes import TopicChanges
from protocol.slotted import slotted

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker
    from broker.cluster.controller.controller_host import ControllerHost
    from broker.cluster.coordinators.remote_add_partitions import RemoteEnlisting
    from broker.cluster.membership.registration_fence import RegistrationFence
    from broker.cluster.replicas.replicas import ReplicaManager
    from broker.cluster.topics.remote_end_offsets import RemoteEndOffsets
    from broker.cluster_stores import ClusterStores

Stop = Callable[[], Awaitable[None] | None]
"""Stops a part."""


@slotted(frozen=True)
class Coordination:
    """What stands on the logs, and is told when topics change."""

    groups: GroupRuntime
    transactions: TransactionRuntime
    producer_ids: ProducerIdPool
    cleaning: Cleaning
    settings_changed: Callable[[], None]
    """Gives those who keep copies of settings the ones that hold now."""


class BrokerMode(Protocol):
    """See the module."""

    registry: Registry
    """Which topics there are."""
    logs: LogManager
    """The partitions that are here; open."""
    duties: type[TransactionDuties]
    """What the coordinator of transactions does besides."""
    marker_wait_ms: int
    """How long the marker of a partition here may wait to be stable, or NEVER."""
    served: Mapping[int, ServedApi]
    """What requests are answered, by API key."""
    replicas: ReplicaManager | None
    controller: ControllerHost | None
    enlisting: RemoteEnlisting | None
    registration_fence: RegistrationFence | None
    member: ClusterBroker | None
    stores: ClusterStores | None
    """What protects the broker."""
    remote_end_offsets: RemoteEndOffsets | None
    """Where the logs end that others lead; this and the six above are a cluster's."""

    # Since `make`:
    topics: TopicChanges
    """Creates, grows and deletes topics."""
    settings_store: SettingsStore
    """Where the settings of topics and brokers are kept."""
    old_offsets: OldOffsets

    def group_settings(
        self, settings: RuntimeSettings, topic: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        """Those of the coordinator of groups; ``topic`` are its topic's, once they are known."""

    def marker_destinations(self, local: LocalMarkers) -> Callable[[str, int], Destination]:
        """Who is asked for the marker of a partition; ``local`` writes those of this broker."""

    def make(self, coordination: Coordination) -> None:
        """Makes what changes topics, and files beside them."""

    def view(self, advertised: Advertised) -> ClusterView:
        """Makes what clients are told of the cluster."""

    async def reserve_producer_ids(self) -> range:
        """A block of producer ids that nobody else has."""

    def offsets_dropped(self, name: str) -> None:
        """The groups of this broker have dropped the offsets of a deleted topic."""

    async def may_listen(self) -> None:
        """Waits for what takes longer than a client may be kept waiting; raises as `start`.

        One that can connect and gets no answer to ApiVersions takes the broker for a very old one.
        """

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """The sockets listen at ``endpoints``; nobody is answered before this is done.

        Raises CannotJoin where the cluster has another broker of this id.
        """

    def first_stops(self) -> Sequence[Stop]:
        """What is stopped before anything else, in order."""

    def last_stops(self) -> Sequence[Stop]:
        """What is stopped after everything else, in order; the logs are open still."""

    async def leave(self) -> None:
        """The logs are closed: nothing is left to give up but the cluster."""

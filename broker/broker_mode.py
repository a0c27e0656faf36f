"""The mode of a broker: standalone (`standalone.py`) or in a cluster (`in_cluster.py`).

`Broker` makes a `StartupParts`, opens its mode with these parts, makes the coordinators over the
mode's logs, and calls the mode to make the parts that change topics. After that `Broker` does not
check which mode it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from broker.config.listeners import Endpoint
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.share_state.pruning import Pruning
from broker.cores.share_state.runtime import ShareStateRuntime
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.runtime import TransactionRuntime
from broker.cores.transactions.sending import Destination
from broker.net.advertised import Advertised
from broker.net.request import ServedApi
from broker.share.coordinator import ShareCoordinator, ShareCoordinators
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
    from broker.share.partitions import SharePartitions

Stop = Callable[[], Awaitable[None] | None]


@slotted(frozen=True)
class Coordination:
    """The parts that use the logs, and are notified when topics change."""

    groups: GroupRuntime
    transactions: TransactionRuntime
    share_states: ShareStateRuntime
    share_pruning: Pruning
    producer_ids: ProducerIdPool
    cleaning: Cleaning
    share_partitions: Callable[[], SharePartitions]
    """Returns the share partitions, which are made after the mode."""
    topics_received: Callable[[], None]
    """Called after each change of the topics that a controller has sent."""
    settings_changed: Callable[[], None]
    """Passes the current settings to the parts that have copies of settings."""


class BrokerMode(Protocol):
    """The parts of a broker that depend on its mode."""

    registry: Registry
    logs: LogManager
    """The open logs of this broker's partitions."""
    duties: type[TransactionDuties]
    """The class that implements the duties of transaction shards in this mode."""
    marker_wait_ms: int
    """The most milliseconds for which the marker of a local partition may wait to be stable; NEVER
    without a limit."""
    others_coordinate: bool
    """True if other brokers may be coordinators too."""
    share_state_retries: int
    """The number of times that a call of a share coordinator is repeated."""
    served: Mapping[int, ServedApi]
    """The handlers of requests, by API key."""
    replicas: ReplicaManager | None
    controller: ControllerHost | None
    enlisting: RemoteEnlisting | None
    registration_fence: RegistrationFence | None
    member: ClusterBroker | None
    stores: ClusterStores | None
    """The stores of ACLs, users, quotas and tokens in ZooKeeper."""
    remote_end_offsets: RemoteEndOffsets | None
    """The end offsets of logs that other brokers lead.

    This attribute and the six attributes before it are None in a standalone broker.
    """

    # The attributes from here on are set by `make`:
    topics: TopicChanges
    """Creates, grows and deletes topics."""
    settings_store: SettingsStore
    old_offsets: OldOffsets

    def group_settings(
        self, settings: RuntimeSettings, topic: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        """Returns the settings of the group coordinator. ``topic`` has the settings of
        ``__consumer_offsets``; None if these settings are unknown."""

    def marker_destinations(self, local: LocalMarkers) -> Callable[[str, int], Destination]:
        """Returns a function that returns the writer of a partition's markers; ``local`` writes
        markers to this broker's partitions."""

    def share_coordinators(self, local: ShareCoordinator) -> ShareCoordinators:
        """Returns the object that passes calls to share coordinators; ``local`` is the share
        coordinator of this broker."""

    def lacks_topics(self) -> bool:
        """Returns True while this broker has not received all topics of its cluster."""

    def make(self, coordination: Coordination) -> None:
        """Makes the parts that change topics, and opens their files."""

    def view(self, advertised: Advertised) -> ClusterView:
        """Makes the view of the cluster that clients receive."""

    async def reserve_producer_ids(self) -> range:
        """Reserves a block of producer ids that no other broker has."""

    def offsets_dropped(self, name: str) -> None:
        """Handles that the groups of this broker have dropped the offsets of a deleted topic."""

    async def may_listen(self) -> None:
        """Waits for work that would take too long if a client waited for it. Raises the exceptions
        of `start`.

        A client that can connect but gets no ApiVersions response treats the broker as a very old
        release.
        """

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Completes the start when the sockets listen at ``endpoints``; no request is answered
        before this method returns.

        Raises CannotJoin if the cluster has another broker with this id.
        """

    def first_stops(self) -> Sequence[Stop]:
        """Returns the parts to stop before all other parts, in order."""

    def last_stops(self) -> Sequence[Stop]:
        """Returns the parts to stop after all other parts, in order; the logs are still open."""

    async def leave(self) -> None:
        """Leaves the cluster; called after the logs are closed."""

"""The mode of a broker: standalone (`standalone.py`) or in a cluster (`in_cluster.py`).

`Broker` makes a `StartupParts` for its mode, which opens the `BrokerMode`. Then it makes the
coordinators, which use the logs of the `BrokerMode`, and calls `BrokerMode.make` to make the parts
that change topics. Apart from this, the code of `Broker` is the same in both modes.
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
    """The parts of the broker that use the logs. The `BrokerMode` notifies these parts when topics
    change."""

    groups: GroupRuntime
    transactions: TransactionRuntime
    share_states: ShareStateRuntime
    share_pruning: Pruning
    producer_ids: ProducerIdPool
    cleaning: Cleaning
    share_partitions: Callable[[], SharePartitions]
    """A function that returns the share partitions. They do not exist yet when the `BrokerMode` is
    created."""
    topics_received: Callable[[], None]
    """A function that `BrokerMode` calls after each metadata update that a controller has sent."""
    settings_changed: Callable[[], None]
    """A function that passes the current settings to parts that keep copies of them."""


class BrokerMode(Protocol):
    """The parts of a broker that differ between a standalone broker and a broker in a cluster."""

    registry: Registry
    logs: LogManager
    """The open logs of this broker's partitions."""
    duties: type[TransactionDuties]
    """The class that does the work that transaction shards request. It depends on the mode."""
    marker_wait_ms: int
    """A marker that was appended to a local partition must become stable within this time in ms.
    NEVER means no limit."""
    others_coordinate: bool
    """True if other brokers can be coordinators too."""
    share_state_retries: int
    """The number of times that a failed call to a share coordinator is repeated."""
    served: Mapping[int, ServedApi]
    """The table of served APIs, by API key."""
    replicas: ReplicaManager | None
    controller: ControllerHost | None
    enlisting: RemoteEnlisting | None
    registration_fence: RegistrationFence | None
    member: ClusterBroker | None
    stores: ClusterStores | None
    """The stores of ACLs, users, quotas and tokens in ZooKeeper; None in a standalone broker."""
    remote_end_offsets: RemoteEndOffsets | None
    """The end offsets of logs that other brokers lead; None in a standalone broker.

    In a standalone broker, ``replicas``, ``controller``, ``enlisting``, ``registration_fence`` and
    ``member`` are None too.
    """

    # The attributes from here on are set by `make`:
    topics: TopicChanges
    """Creates and deletes topics, and adds partitions."""
    settings_store: SettingsStore
    old_offsets: OldOffsets

    def group_settings(
        self, settings: RuntimeSettings, topic: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        """Returns ``settings`` of the group coordinator, adapted to this mode. ``topic`` has the
        settings of ``__consumer_offsets``; None if they are unknown."""

    def marker_destinations(self, local: LocalMarkers) -> Callable[[str, int], Destination]:
        """Returns a function that gets a topic and a partition, and returns the object that writes
        transaction markers to this partition. ``local`` writes the markers of the partitions that
        this broker leads."""

    def share_coordinators(self, local: ShareCoordinator) -> ShareCoordinators:
        """Returns the object that passes calls to the share coordinators of all brokers. ``local``
        is the share coordinator of this broker."""

    def lacks_topics(self) -> bool:
        """Returns True until this broker has received all topics of its cluster."""

    def make(self, coordination: Coordination) -> None:
        """Makes the parts of the broker that create, change and delete topics, and opens the files
        of these parts."""

    def view(self, advertised: Advertised) -> ClusterView:
        """Returns the view of the cluster that clients get in responses."""

    async def reserve_producer_ids(self) -> range:
        """Reserves a block of producer ids that no other broker has."""

    def offsets_dropped(self, name: str) -> None:
        """Called when the groups of this broker have dropped the offsets of the deleted topic
        ``name``."""

    async def may_listen(self) -> None:
        """Does slow work that must end before clients can connect, and returns when the sockets may
        listen. Raises the exceptions of `start`.

        The sockets must not listen earlier: a client that can connect, but gets no ApiVersions
        response, concludes that the broker is very old.
        """

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Completes the start when the sockets listen at ``endpoints``. No request is answered
        before this method returns.

        Raises CannotJoin if the cluster has another broker with this id.
        """

    def first_stops(self) -> Sequence[Stop]:
        """Returns functions that stop parts of this mode. A stopping broker calls them, in this
        order, before it stops its other parts."""

    def last_stops(self) -> Sequence[Stop]:
        """Returns functions that stop parts of the mode, in the order in which the broker must call
        them. The broker calls them after all other parts are stopped, while the logs are still
        open."""

    async def leave(self) -> None:
        """Leaves the cluster; called after the logs are closed."""

"""Services: the parts of the broker that a handler may use.

Every handler gets the same one. The composition root makes it; `broker/net/` hands it on and does
not look into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.apis.fetch.sessions import FetchSessions
from broker.authorizer.authorizer import AllowsAll, Authorizer
from broker.authorizer.quota_changes import QuotaChanges
from broker.config.config import Config
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.markers import MarkerSender
from broker.cores.transactions.runtime import TransactionRuntime
from broker.loop.disk_reads import DiskReads
from broker.loop.slices import Slicer
from broker.loop.worker import Worker
from broker.metrics.totals import Metrics
from broker.net.advertised import Advertised
from broker.net.clients.stuck_clients import StuckClients
from broker.net.clients.unsupported import Unsupported
from broker.net.request import ServedApi
from broker.time import Time
from broker.topics.cluster_view import ClusterView
from broker.topics.config_changes import ConfigChanges
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.maintenance import Maintenance
from broker.topics.producer_ids import ProducerIdPool
from broker.topics.registry import OldOffsets, Registry
from broker.topics.topic_changes import TopicChanges
from protocol.slotted import slotted

if TYPE_CHECKING:
    from broker.authentication.tokens import Tokens
    from broker.authentication.users import Users
    from broker.authorizer.acl_changes import AclChanges
    from broker.authorizer.audit import Audit
    from broker.cluster.controller.controller_host import ControllerHost
    from broker.cluster.coordinators.remote_add_partitions import RemoteEnlisting
    from broker.cluster.membership.registration_fence import RegistrationFence
    from broker.cluster.replicas.replicas import ReplicaManager


ALLOWS_ALL: Final = AllowsAll()


@slotted(frozen=True)
class Services:
    """See the module."""

    config: Config
    time: Time
    served: Mapping[int, ServedApi]
    """What requests are answered, by API key."""
    advertised: Advertised
    """Where clients reach this broker."""
    cluster: ClusterView
    """Who is in the cluster and who leads what."""
    groups: GroupRuntime
    """The coordinator of groups."""
    transactions: TransactionRuntime
    """The coordinator of transactions."""
    markers: MarkerSender
    """Has the markers written of transactions that end."""
    local_markers: LocalMarkers
    """Writes markers in the partitions of this broker."""
    producer_ids: ProducerIdPool
    registry: Registry
    """Which topics there are."""
    logs: LogManager
    topics: TopicChanges
    """Creates, grows and deletes topics."""
    config_changes: ConfigChanges
    long_polls: LongPolls
    maintenance: Maintenance
    old_offsets: OldOffsets
    fetch_sessions: FetchSessions
    metrics: Metrics
    slicer: Slicer
    """Whose slice of long work is next."""
    worker: Worker
    """The thread for pure work that takes long."""
    disk_reads: DiskReads
    """Threads for reads of what the page cache has not."""
    unsupported: Unsupported
    """What clients ask for in vain."""
    stuck_clients: StuckClients
    """Clients that may get nowhere with their group."""
    quotas: QuotaChanges
    """What is set for clients, and who changes it."""
    replicas: ReplicaManager | None = None
    """What the controller tells of this broker's replicas; a broker alone has none."""
    controller: ControllerHost | None = None
    """Takes calls to the controller; a broker alone has none."""
    enlisting: RemoteEnlisting | None = None
    """Asks the coordinators of transactions that are other brokers; a broker alone has none."""
    registration_fence: RegistrationFence | None = None
    """Whether this broker is still what the controller made it; a broker alone is its own."""
    authorizer: Authorizer = ALLOWS_ALL
    """Decides what clients may do; `broker/apis/shared/authorization.py` asks it."""
    acls: AclChanges | None = None
    """The access control entries; None where no authorizer goes by them."""
    audit: Audit | None = None
    """What is told of changes of what protects."""
    users: Users | None = None
    """Who has a password for SCRAM."""
    tokens: Tokens | None = None
    """Delegation tokens; None where there is no secret key for them."""

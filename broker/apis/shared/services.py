"""Services: the parts of the broker that a request handler may use.

`broker/broker.py` makes one instance of `Services` and connects its parts; every handler gets this
instance. The code in `broker/net/` passes the instance on, but reads none of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.apis.fetch.sessions import FetchSessions
from broker.authorizer.authorizer import AllowsAll, Authorizer
from broker.authorizer.quota_changes import QuotaChanges
from broker.config.config import Config
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.groups.share_offsets import ShareOffsets
from broker.cores.groups.topic_regexes import TopicRegexes
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
from broker.share.coordinator import ShareCoordinator
from broker.share.partitions import SharePartitions
from broker.share.persister import SharePersister
from broker.share.sessions import ShareSessions
from broker.time import Time
from broker.topics.cluster_view import ClusterView
from broker.topics.config_changes import ConfigChanges
from broker.topics.internal_topics import InternalTopics
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
    from broker.cluster.topics.remote_end_offsets import RemoteEndOffsets


ALLOWS_ALL: Final = AllowsAll()


@slotted(frozen=True)
class Services:
    """The parts of one broker. They do not change while the broker runs, and only the event loop's
    thread uses them."""

    config: Config
    """The current settings of the broker. A change of a dynamic setting changes the value in place.
    """
    time: Time
    """The wall clock in Unix milliseconds and the monotonic clock; both are virtual in tests."""
    served: Mapping[int, ServedApi]
    """The APIs that this broker serves, with their versions, by API key."""
    advertised: Advertised
    """The advertised host and port of each listener."""
    cluster: ClusterView
    """The live brokers, the controller, and each partition's leader, epoch, replicas and ISR."""
    groups: GroupRuntime
    """The group coordinator: the shards of the partitions of `__consumer_offsets` that this broker
    leads.
    """
    topic_regexes: TopicRegexes
    """Compiles the regexes by which members of consumer groups subscribe (KIP-848)."""
    transactions: TransactionRuntime
    """The transaction coordinator: the shards of the partitions of `__transaction_state` that this
    broker leads.
    """
    share_persister: SharePersister
    """Stores and reads the state of share partitions through their share coordinators
    (KIP-932)."""
    share_coordinator: ShareCoordinator
    """The share coordinator: the states of share partitions whose partition of
    ``__share_group_state`` this broker leads."""
    markers: MarkerSender
    """Sends the markers of ending transactions to the leaders of their partitions
    (WriteTxnMarkers).
    """
    local_markers: LocalMarkers
    """Writes transaction markers to partitions that this broker leads."""
    producer_ids: ProducerIdPool
    """Producer ids from reserved blocks, each issued once in the cluster (InitProducerId,
    KIP-98).
    """
    registry: Registry
    """The topics: names, ids, settings and partition counts."""
    logs: LogManager
    """The partition logs on this broker's disk, by topic and partition."""
    topics: TopicChanges
    """Creates and deletes topics and adds partitions; in a cluster through ZooKeeper."""
    config_changes: ConfigChanges
    """Changes settings of topics and brokers (AlterConfigs, IncrementalAlterConfigs, KIP-339)."""
    long_polls: LongPolls
    """Fetch requests that wait for fetch.min.bytes or until fetch.max.wait.ms."""
    maintenance: Maintenance
    """Runs retention, log cleaning and flushes."""
    old_offsets: OldOffsets
    """The offsets that OffsetCommit version 0 stored. In Kafka, they were ZooKeeper nodes."""
    fetch_sessions: FetchSessions
    """Incremental fetch sessions (KIP-227), in a cache of bounded size."""
    metrics: Metrics
    slicer: Slicer
    """Divides long work into slices of at most 10 ms and runs one slice in each turn."""
    worker: Worker
    """One thread for pure computations that would block the event loop."""
    disk_reads: DiskReads
    """Threads that read records from disk if the page cache does not have the records."""
    unsupported: Unsupported
    """Counts, by client, the requests for APIs, versions and protocols that this broker does not
    serve."""
    stuck_clients: StuckClients
    """Finds clients that repeatedly fail to find or join their group."""
    quotas: QuotaChanges
    """Reads and changes client quotas (AlterClientQuotas, KIP-546)."""
    replicas: ReplicaManager | None = None
    """Applies LeaderAndIsr, StopReplica and UpdateMetadata to this broker's replicas; None in a
    standalone broker.
    """
    controller: ControllerHost | None = None
    """Accepts calls to the controller, and replies NOT_CONTROLLER while another broker is the
    controller. None in a standalone broker."""
    enlisting: RemoteEnlisting | None = None
    """Sends AddPartitionsToTxn to coordinators on other brokers (KIP-890); None in a standalone
    broker.
    """
    registration_fence: RegistrationFence | None = None
    """Checks that this broker's registration in ZooKeeper still has its broker epoch; None in a
    standalone broker, which is never fenced."""
    remote_end_offsets: RemoteEndOffsets | None = None
    """Reads the end offsets of logs that other brokers lead; None in a standalone broker."""
    share_partitions: SharePartitions | None = None
    """The share partitions of the partitions that this broker leads; None without share groups."""
    share_sessions: ShareSessions | None = None
    """The share sessions that members have with this broker; None without share groups."""
    share_offsets: ShareOffsets | None = None
    """Reads and changes the start offsets of share groups; None without share groups."""
    internal_topics: InternalTopics | None = None
    """Creates the internal topics of streams groups; None without streams groups."""
    authorizer: Authorizer = ALLOWS_ALL
    """Decides what a principal may do; handlers call it through
    `broker/apis/shared/authorization.py`.
    """
    acls: AclChanges | None = None
    """Adds, removes and lists ACLs; None if the authorizer does not use ACLs."""
    audit: Audit | None = None
    """The audit log: denials, and changes to ACLs, users, tokens and quotas."""
    users: Users | None = None
    """The SCRAM credentials (KIP-554)."""
    tokens: Tokens | None = None
    """Delegation tokens (KIP-48); None without `delegation.token.secret.key`."""

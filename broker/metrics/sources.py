"""Lists the parts of the broker that `/metrics`, `/api` and the web page read. Reads never change
these parts.

Broker start-up creates one `Sources`. Request handlers have a similar list, `Services`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.authentication.logins import Logins
from broker.authorizer.audit import Audit
from broker.config.config import Config
from broker.cores.groups.runtime import GroupRuntime
from broker.cores.share_state.runtime import ShareStateRuntime
from broker.cores.transactions.markers import MarkerSender
from broker.cores.transactions.runtime import TransactionRuntime
from broker.loop.disk_reads import DiskReads
from broker.loop.internal_errors import InternalErrors
from broker.loop.pause_detector import PauseDetector
from broker.loop.slices import Slicer
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.metrics.lag import Lags
from broker.metrics.lso_blockers import LsoBlockers
from broker.metrics.totals import Metrics
from broker.metrics.trends import Trends
from broker.metrics.verdicts import Verdicts
from broker.net.advertised import Advertised
from broker.net.server import Server
from broker.net.tls.certificates import Certificates
from broker.quotas.client_quotas import ClientQuotas
from broker.share.partitions import SharePartitions
from broker.time import Time
from broker.topics.cleaner.cleaning import Cleaning
from broker.topics.cluster_view import ClusterView
from broker.topics.logs import LogManager
from broker.topics.registry import Registry
from coordinator.journal import Journal
from protocol.slotted import slotted
from transactions.journal import Journal as TransactionJournal

if TYPE_CHECKING:
    from broker.authorizer.acl_changes import AclChanges
    from broker.cluster.cluster_broker import ClusterBroker


@slotted(frozen=True)
class Sources:
    """The parts of the broker that `/metrics`, `/api` and the web page read."""

    config: Config
    time: Time
    registry: Registry
    advertised: Advertised
    """The addresses at which clients reach this broker."""
    cluster: ClusterView
    """The brokers of the cluster, and the leaders of its partitions."""
    member: ClusterBroker | None
    """The part of this broker that belongs to a cluster; None for a standalone broker."""
    groups: GroupRuntime
    """The group coordinator: the runtime of the shards of groups."""
    transactions: TransactionRuntime
    """The transaction coordinator: the runtime of the shards of transactional ids."""
    share_states: ShareStateRuntime
    """The share coordinator: the runtime of the shards of share state."""
    share_partitions: SharePartitions
    """The share partitions whose leader is this broker."""
    markers: MarkerSender
    """Sends transaction markers, and knows which markers are being sent."""
    logs: LogManager
    server: Server
    audit: Audit
    """Counts the denied operations."""
    acls: AclChanges | None
    """The changes of ACLs; None if the broker has no authorizer with ACLs."""
    totals: Metrics
    """The totals of groups, transactions and conversions."""
    journal: Journal
    """The journal of groups: their rebalances, with causes."""
    transaction_journal: TransactionJournal
    """The journal of transactions: their clients, their outcomes, and the groups that waited for
    the end of a transaction."""
    lso_blockers: LsoBlockers
    """Finds the transactions that hold back the last stable offset of partitions."""
    lags: Lags
    trends: Trends
    verdicts: Verdicts
    fatal: Callable[[], str | None]
    """A function that returns the reason why the broker must stop; None if it can continue."""
    cleaning: Cleaning
    pause_detector: PauseDetector
    watchdog: Watchdog
    internal_errors: InternalErrors
    slicer: Slicer
    """Runs long work in slices of the event loop's time."""
    worker: Worker
    """Runs long computations in one thread."""
    logins: Logins
    """The totals of authentications."""
    quotas: ClientQuotas
    """The quotas, and the clients that were throttled."""
    certificates: Certificates
    disk_reads: DiskReads
    """The threads that read from the disk."""

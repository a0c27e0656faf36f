"""Sources: the parts of the broker that `/metrics`, `/api` and the page read without changing them.

`Sources` corresponds to `Services`, which request handlers use: the composition root creates it
once.
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
    """The parts of the broker that `/metrics`, `/api` and the page read."""

    config: Config
    time: Time
    registry: Registry
    advertised: Advertised
    """The addresses at which clients reach this broker."""
    cluster: ClusterView
    """The cluster's brokers and the leaders of its partitions; see also ``member``."""
    member: ClusterBroker | None
    """The `ClusterBroker` of this broker; None for a standalone broker."""
    groups: GroupRuntime
    """The group coordinator."""
    transactions: TransactionRuntime
    """The transaction coordinator."""
    share_states: ShareStateRuntime
    """The share coordinator."""
    share_partitions: SharePartitions
    """The share partitions of the logs that this broker leads."""
    markers: MarkerSender
    """The markers that are being sent."""
    logs: LogManager
    server: Server
    audit: Audit
    """The denied operations."""
    acls: AclChanges | None
    """The changes of ACLs; None without an ACL authorizer."""
    totals: Metrics
    """The totals of groups and of conversions."""
    journal: Journal
    """The journal of rebalances and their causes."""
    transaction_journal: TransactionJournal
    """The journal of transactions: their clients, outcomes and blocked groups."""
    lso_blockers: LsoBlockers
    """Finds the transactions that hold back the last stable offset of partitions."""
    lags: Lags
    trends: Trends
    verdicts: Verdicts
    fatal: Callable[[], str | None]
    """Returns the reason why the broker must stop; None if the broker can continue."""
    cleaning: Cleaning
    pause_detector: PauseDetector
    watchdog: Watchdog
    internal_errors: InternalErrors
    slicer: Slicer
    """Decides which long work runs in the next slice."""
    worker: Worker
    """Runs long pure work in one thread."""
    logins: Logins
    """The totals of logins."""
    quotas: ClientQuotas
    """The quotas, and the clients that the quotas throttled."""
    certificates: Certificates
    """The certificates of listeners with TLS."""
    disk_reads: DiskReads
    """The threads for reads that wait for the disk."""

"""Sources: the parts that `/metrics`, `/api` and the page read, and that nothing here changes.

What `Services` is to handlers of requests: made once by the composition root, one for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.authentication.logins import Logins
from broker.authorizer.audit import Audit
from broker.config.config import Config
from broker.cores.groups.runtime import GroupRuntime
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
    """See the module."""

    config: Config
    time: Time
    registry: Registry
    advertised: Advertised
    """Where clients reach this broker."""
    cluster: ClusterView
    """Who is in the cluster and who leads what; see ``member``."""
    member: ClusterBroker | None
    """This broker as a member of its cluster; None: it is the whole cluster."""
    groups: GroupRuntime
    """The coordinator of groups."""
    transactions: TransactionRuntime
    """The coordinator of transactions."""
    markers: MarkerSender
    """The markers that are on their way."""
    logs: LogManager
    server: Server
    audit: Audit
    """What clients were denied."""
    acls: AclChanges | None
    """The access control entries; None where no authorizer goes by them."""
    totals: Metrics
    """What has been counted of groups and conversions."""
    journal: Journal
    """Why groups rebalanced."""
    transaction_journal: TransactionJournal
    """Who opened which transaction, how it ended and who waited for that."""
    lso_blockers: LsoBlockers
    """Which transaction each partition's readers wait for."""
    lags: Lags
    trends: Trends
    verdicts: Verdicts
    """What is wrong with groups."""
    fatal: Callable[[], str | None]
    """Why the broker can't go on, None while it can."""
    cleaning: Cleaning
    pause_detector: PauseDetector
    watchdog: Watchdog
    internal_errors: InternalErrors
    slicer: Slicer
    """Whose slice of long work is next."""
    worker: Worker
    """The thread for pure work that takes long."""
    logins: Logins
    """What has been counted of logins."""
    quotas: ClientQuotas
    """Who had to wait."""
    certificates: Certificates
    """What the listeners with TLS show."""
    disk_reads: DiskReads
    """The threads for reads that wait for the disk."""

"""The broker: makes its parts, starts them and stops them in order.

The start has this order: addresses, lock, identity, topics, logs, shards. Then every socket
listens, and only then the HTTP stack is imported. At the stop, the broker first accepts no more
connections, and the turn ends. Then everything is flushed and stored, and lock and addresses are
released.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.shared.services import Services
from broker.broker_mode import BrokerMode, Coordination, Stop
from broker.config.config import Config
from broker.config.listeners import parse_host_and_port
from broker.cores.groups.log_lines import observe as write_line
from broker.cores.groups.runtime import TopicsOfGroups, group_runtime
from broker.cores.groups.settings import runtime_settings
from broker.cores.groups.share_offsets import ShareOffsets
from broker.cores.groups.share_states import ShareStates
from broker.cores.groups.topic_regexes import RegexResolver, TopicRegexes
from broker.cores.hooks import Hooks
from broker.cores.journal_keeper import JournalKeeper
from broker.cores.observer import Observer, at_any_time
from broker.cores.share_state.log_lines import observe as write_share_state_line
from broker.cores.share_state.pruning import Pruning
from broker.cores.share_state.runtime import share_state_runtime
from broker.cores.share_state.settings import runtime_settings as share_state_settings
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.log_lines import observe as write_transaction_line
from broker.cores.transactions.markers import MarkerSender
from broker.cores.transactions.runtime import transaction_runtime
from broker.cores.transactions.settings import runtime_settings as transaction_settings
from broker.loop.background import Background
from broker.loop.disk_reads import DiskReads
from broker.loop.internal_errors import InternalErrors
from broker.loop.pause_detector import PauseDetector
from broker.loop.slices import Slicer, run_stepwise
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.metrics.hanging_commits import HangingCommits
from broker.metrics.lag import Lags
from broker.metrics.lso_blockers import BlockedGroups, LsoBlockers
from broker.metrics.sources import Sources
from broker.metrics.totals import Metrics
from broker.metrics.trends import Trends
from broker.metrics.verdicts import Verdicts
from broker.net.advertised import Advertised
from broker.net.clients.failure_lines import RefusedJoinLines
from broker.net.clients.stuck_clients import API as NEW_PROTOCOLS_API
from broker.net.clients.stuck_clients import StuckClients
from broker.net.clients.unsupported import Unsupported
from broker.net.connection import Connection, TurnWrites
from broker.net.interpose import Interpose
from broker.net.limits.connections import Limits, limits_of
from broker.net.long_requests import LongRequests
from broker.net.server import Server
from broker.net.sockets import Bind, CannotListen, Sockets, bind
from broker.secured import Secured
from broker.share.coordinator import ShareCoordinator
from broker.share.group_settings import DeliverySettingsOfGroups
from broker.share.partitions import SharePartitions
from broker.share.persister import SharePersister
from broker.share.sessions import ShareSessions
from broker.standalone import Standalone
from broker.time import Time
from broker.topics.cleaner.cleaner_checkpoint import CleanerCheckpoint
from broker.topics.cleaner.cleaner_worker import CleanerWorker
from broker.topics.cleaner.cleaning import Cleaner, Cleaning
from broker.topics.config_changes import ConfigChanges
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.internal_topics import InternalTopics
from broker.topics.long_poll import LongPolls
from broker.topics.maintenance import Maintenance
from broker.topics.owned_topics import OWNED
from broker.topics.partition_services import PartitionServices
from broker.topics.producer_ids import ProducerIdPool
from broker.topics.registry import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    BadDirectory,
)
from broker.topics.startup_parts import CannotJoin, StartupParts
from broker.web.health import health, is_loading
from broker.web.http_side import HttpSide
from coordinator.consumer.events import RegexesWanted
from coordinator.events import JoinRefused
from coordinator.journal import Journal as GroupsJournal
from coordinator.share.events import ShareMemberRemoved, ShareStateDeletion, ShareStateWanted
from log.errors import CorruptLog, DirectoryLocked
from log.files.filesystem import FileSystem, Lock, OsFileSystem, open_files_max
from protocol.errors import UNSUPPORTED_VERSION
from security.acls.model import Operation, ResourceType
from transactions.journal import Journal as TransactionsJournal
from verdicts.refused_words import NEW_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.cluster.zookeeper.zookeeper import Connect
    from broker.cores.runtime_settings import RuntimeSettings
    from broker.share.live_partition import LivePartition
    from broker.web.site import Pages
    from share.partition.values import Outcome

logger = structlog.get_logger(__name__)


class Broker:
    """A broker with one data directory. Call `start`, then `stop`, in the same event loop."""

    def __init__(
        self,
        config: Config,
        *,
        fs: FileSystem | None = None,
        time: Time | None = None,
        bind: Bind = bind,
        zookeeper: Connect | None = None,
        interpose: Interpose | None = None,
        new_cleaner: Callable[[], Cleaner] | None = None,
    ) -> None:
        """``interpose`` intercepts requests between the sockets and the APIs
        (`broker/net/interpose.py`).

        ``new_cleaner`` makes the cleaner if ``fs`` is a file system that other processes can't
        read.
        """
        self.config = config
        self._interpose = interpose
        self._zookeeper = zookeeper
        self.fs: FileSystem = fs or OsFileSystem(open_files_max())
        self.time = time or Time()
        self.sockets = Sockets(config, bind)
        self.pause_detector = PauseDetector(self.time.real)
        """Detects pauses of this process, and subtracts them from the broker's clock."""
        self._new_cleaner = new_cleaner or partial(CleanerWorker, self.time.real)
        self.directory = os.path.abspath(config.directories[0])
        self.metrics = Metrics()
        self.internal_errors = InternalErrors()
        """Counts the exceptions from bugs. The broker catches such an exception and continues its
        other work."""
        self.watchdog = Watchdog(self.time)
        self.background = Background(self.time, self.watchdog)
        self.spawn = self.background.spawn
        self.slicer = Slicer(self.time.real, self.watchdog)
        """Runs long work in slices, and chooses the next slice."""
        self.worker = Worker(self.time)
        kept = (self.time, self.spawn, self.fs, self.directory)
        groups_bytes = config["group.journal.file.max.bytes"]
        self.keeper = JournalKeeper(GroupsJournal, *kept, groups_bytes, self.internal_errors)
        """Keeps the journal of rebalances and their causes, and stores it in a file across
        restarts."""
        transactions_bytes = config["transaction.journal.file.max.bytes"]
        self.transaction_keeper = JournalKeeper(
            TransactionsJournal, *kept, transactions_bytes, self.internal_errors
        )
        """Keeps the journal of transactions, and stores it in a file across restarts."""
        self.http: HttpSide | None = None
        self.pages: Pages | None = None
        """The HTTP pages, served by `http` or by another HTTP server; None until they are opened.
        """
        self._viewers: list[Callable[[], None]] = []
        """Callbacks that run when groups change. The HTTP pages add their callbacks when they are
        opened."""
        self.stopped = asyncio.Event()
        """An event that is set when the broker can't continue, or when a stop was requested."""
        self.fatal: str | None = None
        """The reason why the broker can't continue; None if it can continue."""
        self._lock: Lock | None = None
        self.long_polls = LongPolls(self.time.real, self.internal_errors, self.watchdog)
        self.disk_changes = DiskChanges(self.time, self.fail)
        self.secured = Secured(config, self.time, self.internal_errors)
        """Authentication, authorization, TLS and quotas."""
        self.listeners = self.secured.listeners
        self.mode: BrokerMode
        """The mode: standalone, which `open` sets, or in a cluster, which `join` sets."""

    # -- life

    def open(self) -> None:
        """Binds the addresses, locks the data directory, and opens its contents.

        Call this before `join` and `start`, in any thread. Raises CannotListen, DirectoryLocked,
        BadConfig, BadDirectory, CorruptLog and OSError, each with a message. After an exception,
        the addresses are not bound and the directory is not locked.
        """
        try:
            self.secured.certificates.open()
            self.secured.overrides.open()
            self.sockets.bind()
            self.fs.make_directory(self.directory)
            self._lock = self.fs.lock(self.directory)
            if not self.config.is_in_cluster:
                self._set_mode(Standalone(self._startup()))
        except BaseException:
            self.release()
            raise

    async def join(self) -> None:
        """Joins the cluster and opens the broker's logs; does nothing on a standalone broker. Call
        this before `start`.

        Raises BadConfig, BadDirectory, CannotJoin, CorruptLog and OSError, each with a message.
        """
        if not self.config.is_in_cluster:
            return
        from broker.cluster.zookeeper.kazoo_zookeeper import connect
        from broker.in_cluster import join

        self._set_mode(await join(self._startup(), self._zookeeper or connect))

    def _startup(self) -> StartupParts:
        metrics = self.metrics
        return StartupParts(
            self.config,
            self.fs,
            self.directory,
            self.time,
            self.background,
            self.slicer,
            self.internal_errors,
            self.long_polls,
            self.disk_changes,
            PartitionServices(
                self.time,
                self.spawn,
                self.internal_errors,
                self.long_polls,
                self.fail,
                metrics.writes,
                {
                    OFFSETS_TOPIC: metrics.offsets_writes,
                    TRANSACTION_TOPIC: metrics.transaction_writes,
                    SHARE_STATE_TOPIC: metrics.share_state_writes,
                },
            ),
            self.fail,
        )

    def _set_mode(self, mode: BrokerMode) -> None:
        """Stores ``mode``, and makes all parts of the broker that need it. ``mode`` must have
        opened the logs already."""
        self.mode = mode
        self.registry, self.logs = mode.registry, mode.logs
        if mode.stores is None:
            self.secured.open(self.fs, self.directory, self.disk_changes.run, self.slicer)
        else:
            self.secured.open_in_cluster(mode.stores)
        self._make_parts()
        self.keeper.read()
        self.transaction_keeper.read()

    def _make_parts(self) -> None:
        """Makes the parts that use the logs, each with its dependencies.

        Two pairs of parts need each other. First pair: the deletion of topics makes the shards drop
        offsets, and the shards report to it when the offsets are dropped. Second pair: a request
        can change a setting of the server, and the server handles requests. The part that is made
        first gets a function that returns the other part.
        """
        config = self.config
        self.writes = TurnWrites(self.time, self.watchdog, self.internal_errors)
        cleaned = CleanerCheckpoint(self.logs)
        self._make_groups(cleaned)
        self._make_transactions()
        self._make_share_states()
        self.cleaning = Cleaning(
            config,
            self.logs,
            cleaned,
            {OFFSETS_TOPIC: self.groups.life, TRANSACTION_TOPIC: self.transactions.life},
            self.time,
            self.background,
            self._new_cleaner,
        )
        self.maintenance = Maintenance(config, self.logs, self.time, self.slicer, self.background)
        self.lags = Lags(self.groups, self.logs, self.time, self.mode.remote_end_offsets)
        self.mode.make(
            Coordination(
                self.groups,
                self.transactions,
                self.share_states,
                self.share_pruning,
                self.producer_ids,
                self.cleaning,
                lambda: self.share_partitions,
                self.topics_of_groups.received,
                self._settings_changed,
            )
        )
        self.topics = self.mode.topics
        self.share_persister = SharePersister(
            self.mode.share_coordinators(self.share_coordinator),
            self.registry,
            self.topics,
            self.time.real,
            self.background.spawn,
            self.mode.share_state_retries,
        )
        self._make_share_partitions()
        self._make_server()
        self._make_sources()

    def _make_groups(self, cleaned: CleanerCheckpoint) -> None:
        """Makes the group coordinator, and the parts that resolve topics and regexes for consumer
        groups."""
        topics = self.topics_of_groups = TopicsOfGroups(self.registry, self.mode.lacks_topics)
        self.topic_regexes = TopicRegexes()
        resolver = RegexResolver(
            self.topic_regexes,
            topics.image,
            self.secured.authorizer,
            self.slicer,
            self.spawn,
            self.internal_errors,
        )
        self.share_state_requests = ShareStates(
            self.spawn, self.internal_errors, lambda: self.share_partitions
        )
        self.groups = group_runtime(
            self._group_settings(),
            self.time,
            self.slicer,
            self.internal_errors,
            Hooks(
                Observer(
                    self.time,
                    self.internal_errors,
                    [
                        self.metrics.observe,
                        self.keeper.journal.observe,
                        at_any_time(write_line),
                        at_any_time(RefusedJoinLines(self.time).observe, JoinRefused),
                        at_any_time(resolver.observe, RegexesWanted),
                        at_any_time(self.share_state_requests.initialize, ShareStateWanted),
                        at_any_time(self.share_state_requests.delete, ShareStateDeletion),
                        at_any_time(self._share_member_removed, ShareMemberRemoved),
                    ],
                    self._viewers,
                ),
                before_replies=self.writes.hold,
                after_replies=self.writes.flush,
                cleaned_to=partial(cleaned.cleaned_to, OFFSETS_TOPIC),
            ),
            on_dropped=self.mode.offsets_dropped,
            topics=topics.image,
        )
        topics.follow(self.groups)
        resolver.follow(self.groups)
        self.share_state_requests.follow(self.groups)

    def _make_transactions(self) -> None:
        """Makes the transaction coordinator and the sender of markers.

        The coordinator and the sender call each other, so the sender gets a function that returns
        the coordinator.
        """
        self.producer_ids = ProducerIdPool(
            self.mode.reserve_producer_ids, self.time.real, self.background.spawn
        )
        self.local_markers = LocalMarkers(
            self.registry,
            self.logs,
            self.groups,
            self.time,
            self.internal_errors,
            self.mode.marker_wait_ms,
        )
        self.markers = MarkerSender(
            lambda: self.transactions,
            self.mode.marker_destinations(self.local_markers),
            self.slicer,
            self.time.real,
            self.background.spawn,
        )
        self.transactions = transaction_runtime(
            self._transaction_settings(),
            self.time,
            self.slicer,
            self.internal_errors,
            Hooks(
                Observer(
                    self.time,
                    self.internal_errors,
                    [
                        at_any_time(self.metrics.transactions.observe),
                        self.transaction_keeper.journal.observe,
                        at_any_time(write_transaction_line),
                    ],
                    (self.producer_ids.refill,),
                ),
                before_replies=self.writes.hold,
                after_replies=self._answered,
            ),
            self.mode.duties,
        )

    def _make_share_states(self) -> None:
        self.share_states = share_state_runtime(
            self._share_state_settings(),
            self.time,
            self.slicer,
            self.internal_errors,
            Hooks(
                Observer(self.time, self.internal_errors, [at_any_time(write_share_state_line)]),
                before_replies=self.writes.hold,
                after_replies=self.writes.flush,
            ),
        )
        self.share_coordinator = ShareCoordinator(
            self.share_states, self.registry, self.mode.lacks_topics
        )
        self.share_pruning = Pruning(
            self.share_states,
            lambda: self.config["share.coordinator.state.topic.prune.interval.ms"],
            lambda topic_id: (
                self.mode.lacks_topics() or self.registry.topic_by_id(topic_id) is not None
            ),
            self.slicer,
            self.background,
        )

    def _make_share_partitions(self) -> None:
        self.share_partitions = SharePartitions(
            self.share_persister,
            self.registry,
            self.logs,
            self.long_polls,
            DeliverySettingsOfGroups(self.config, lambda: self.registry.group_configs).of,
            self.time,
            self.slicer,
            self.background,
            self.internal_errors,
            self._records_archived,
        )
        self.share_sessions = ShareSessions(
            lambda: int(self.config["group.share.max.share.sessions"]),
            self.share_partitions.release_member,
            self._first_share_session,
            partial(run_stepwise, self.slicer, self.background.spawn, "share release"),
        )

    def _records_archived(self, live: LivePartition, outcomes: Sequence[Outcome]) -> None:
        """Reports archived records to the journal of their group. Exceptions are caught, because a
        failure to report must not affect the records (ARCHITECTURE.md, law 10)."""
        from broker.share.archived import archived_events  # most brokers have no share groups

        try:
            for event in archived_events(live, outcomes, self.groups):
                self.keeper.observe(event)
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self.internal_errors.caught("observer", error, partition=live.partition.name)

    def _first_share_session(self, group_id: str) -> None:
        """Called before the first share session of a group opens. In a cluster, drops the idle
        share partitions of the group, so that they are loaded again: another broker may have
        changed their states."""
        if self.mode.others_coordinate:
            self.share_partitions.forget_idle(group_id)

    def _share_member_removed(self, event: ShareMemberRemoved) -> None:
        """Ends the share session of a removed member. This releases the records that the member has
        acquired."""
        self.share_partitions.counts.member_removed(event.group_id, event.member_id)
        self.share_sessions.member_removed(event.group_id, event.member_id)

    def _make_server(self) -> None:
        config = self.config
        self.disk_reads = DiskReads(self.time)
        unsupported = Unsupported(self.time)
        stuck_clients = StuckClients(unsupported, self._has_member, self._uses_new_protocol)
        self.advertised = Advertised(config, self.registry.node_id)
        mode = self.mode
        self.cluster = mode.view(self.advertised)
        self.config_changes = ConfigChanges(
            config,
            self.registry,
            self.logs,
            mode.settings_store,
            self._settings_changed,
            (self.secured.certificates, self.secured.overrides),
        )
        services = self._make_services(unsupported, stuck_clients)
        served = mode.served
        if self._interpose is not None:
            served = self._interpose.served(served)
        self.server = Server(
            services,
            served,
            self._limits(),
            writes=self.writes,
            long=LongRequests(self.slicer, self.worker, self.spawn),
            disk_reads=self.disk_reads,
            unsupported=unsupported,
            stuck_clients=stuck_clients,
            time=self.time.real,
            watchdog=self.watchdog,
            internal_errors=self.internal_errors,
        )
        self.secured.apply_quotas(self.server, services.fetch_sessions)

    def _make_services(self, unsupported: Unsupported, stuck_clients: StuckClients) -> Services:
        config, mode = self.config, self.mode
        return Services(
            config=config,
            time=self.time,
            served=mode.served,
            advertised=self.advertised,
            cluster=self.cluster,
            groups=self.groups,
            topic_regexes=self.topic_regexes,
            transactions=self.transactions,
            share_persister=self.share_persister,
            share_coordinator=self.share_coordinator,
            markers=self.markers,
            local_markers=self.local_markers,
            producer_ids=self.producer_ids,
            registry=self.registry,
            logs=self.logs,
            topics=self.topics,
            config_changes=self.config_changes,
            long_polls=self.long_polls,
            maintenance=self.maintenance,
            old_offsets=mode.old_offsets,
            fetch_sessions=FetchSessions(
                config["max.incremental.fetch.session.cache.slots"], self.time.chance
            ),
            metrics=self.metrics,
            slicer=self.slicer,
            worker=self.worker,
            disk_reads=self.disk_reads,
            unsupported=unsupported,
            stuck_clients=stuck_clients,
            quotas=self.secured.quotas,
            share_partitions=self.share_partitions,
            share_sessions=self.share_sessions,
            share_offsets=ShareOffsets(self.share_partitions, self.groups),
            internal_topics=InternalTopics(
                self.registry,
                self.topics,
                lambda: int(config["default.replication.factor"]),
                self.background.spawn,
            ),
            replicas=mode.replicas,
            controller=mode.controller,
            enlisting=mode.enlisting,
            remote_end_offsets=mode.remote_end_offsets,
            registration_fence=mode.registration_fence,
            authorizer=self.secured.authorizer,
            acls=self.secured.acls,
            audit=self.secured.audit,
            users=self.secured.users,
            tokens=self.secured.tokens,
        )

    def _make_holders(self) -> None:
        """Makes `lso_blockers`, which finds open transactions that block consumers, and
        `hanging_commits`, which finds pending offset commits of transactions that have ended."""
        counts = self.registry.partition_counts
        self.lso_blockers = LsoBlockers(
            self.transactions, lambda: counts.get(TRANSACTION_TOPIC, 0), self.time
        )
        self.hanging_commits = HangingCommits(
            self.groups, self.lso_blockers, self.slicer, self.internal_errors, self.background
        )

    def _make_sources(self) -> None:
        """Makes the parts from which `/metrics`, `/api` and the HTTP page read."""
        self._make_holders()
        self.trends = Trends(
            self.groups,
            self.lags,
            self.server,
            self.slicer,
            self.internal_errors,
            self.time.real,
            self.background,
        )
        self.verdicts = Verdicts(
            self.config,
            self.groups,
            self.lags,
            self.keeper.journal,
            self.lso_blockers,
            self.share_partitions,
            BlockedGroups(self.transactions, self.transaction_keeper.journal, self.time).see,
            self.slicer,
            self.internal_errors,
            self.time,
            self.background,
        )
        self.sources = Sources(
            config=self.config,
            time=self.time,
            registry=self.registry,
            advertised=self.advertised,
            cluster=self.cluster,
            member=self.mode.member,
            groups=self.groups,
            transactions=self.transactions,
            share_states=self.share_states,
            share_partitions=self.share_partitions,
            markers=self.markers,
            logs=self.logs,
            server=self.server,
            audit=self.secured.audit,
            acls=self.secured.acls,
            totals=self.metrics,
            journal=self.keeper.journal,
            transaction_journal=self.transaction_keeper.journal,
            lso_blockers=self.lso_blockers,
            lags=self.lags,
            trends=self.trends,
            verdicts=self.verdicts,
            fatal=lambda: self.fatal,
            cleaning=self.cleaning,
            pause_detector=self.pause_detector,
            watchdog=self.watchdog,
            internal_errors=self.internal_errors,
            slicer=self.slicer,
            worker=self.worker,
            logins=self.secured.logins,
            quotas=self.secured.quotas.quotas,
            disk_reads=self.disk_reads,
            certificates=self.secured.certificates,
        )

    async def start(self) -> None:
        """Starts to listen; HTTP connections wait until `start_http`.

        Raises CannotListen. Raises CannotJoin if the cluster has another broker with this id.
        """
        self.pause_detector.start()
        for owned in OWNED.values():
            if owned.name in self.logs.topics:
                there = len(self.logs.topics[owned.name].partitions)
                owned.warn_about_partitions(self.config, there)
        await self.mode.may_listen()
        self.advertised.listening([port for _, port in self.sockets.addresses()])
        self.sockets.listen()
        self.advertised.serving_http(self.sockets.http_address())
        await self.mode.start(self.advertised.endpoints)
        connection = Connection if self._interpose is None else self._interpose.connection
        await self.secured.start(self.background)
        for bound, listener in zip(self.sockets.listeners, self.listeners, strict=True):
            self.secured.protect(listener)
            await self.server.accept(bound, listener, connection)
        self.maintenance.start()
        self.cleaning.start()
        self.hanging_commits.start()
        self.share_pruning.start()

    def start_http(self) -> None:
        """Serves the HTTP page, /metrics, /healthz and /api, unless ``http.listener`` is off."""
        if self.sockets.http is None:
            return
        host, _ = parse_host_and_port(self.config["http.listener"])
        self.http = HttpSide(self.sockets.http, host, self.sources, self.secured, self._opened)
        self.http.start()

    def serve_pages(self, address: str) -> Pages:
        """Returns the HTTP pages for another HTTP server, which serves them at ``address``
        (HOST:PORT). `stop` also stops these pages."""
        from broker.web.site import Pages

        self.advertised.serving_http(address)
        self.trends.start()
        self.verdicts.start()
        pages = Pages(self.sources)
        self._opened(pages)
        return pages

    async def stop(self) -> None:
        """Ends the turn, answers waiting requests, stores the state, closes all parts, and unlocks
        the data directory.

        If one part fails to stop, all others are stopped nevertheless, so the logs are always
        closed.
        """
        parts: list[Stop] = [
            *self.mode.first_stops(),
            self.maintenance.stop,
            self.cleaning.stop,
            self.hanging_commits.stop,
            self.share_pruning.stop,
            self.long_polls.stop,
            self.lags.times.stop,
            self.groups.life.save,
            self.keeper.stop,
            self.transaction_keeper.stop,
            self.producer_ids.stop,
            self.share_partitions.stop,
            self.markers.stop,
            self.transactions.stop,
            self.share_persister.stop,
            self.share_states.stop,
            self.groups.stop,
            self.server.close,
            self.secured.stop,
        ]
        if self.pages is not None:
            parts.append(self.pages.stop)
        if self.http is not None:
            parts.append(self.http.stop)
        parts += [self.trends.stop, self.verdicts.stop]
        parts += [self.background.stop, self.worker.stop, *self.mode.last_stops()]
        for end in parts:
            try:
                ending = end()
                if ending is not None:
                    await ending
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self.internal_errors.caught("stop", error)
        try:
            await self.time.in_thread(self.logs.close_all)
            await self.mode.leave()
        finally:
            self.pause_detector.stop()
            self.release()

    def release(self) -> None:
        """Releases the addresses and the data directory."""
        self.sockets.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, reason: str) -> None:
        """Stops the broker for ``reason``, because it can no longer acknowledge requests."""
        self.fatal = self.fatal or reason
        self.stopped.set()

    async def reload(self, fresh: Config) -> None:
        """Applies the reloaded settings that can change while the broker runs."""
        await self.config_changes.reload(fresh)

    @property
    def loading(self) -> bool:
        """True while groups, transactional ids or share partitions are being loaded."""
        return is_loading(self.sources)

    def health(self) -> dict[str, Any]:
        return health(self.sources)

    # -- dependencies of the parts

    def _limits(self) -> Limits:
        return limits_of(self.config, self.secured.overrides.by_address)

    def _group_settings(self) -> RuntimeSettings:
        topic = self.logs.settings(OFFSETS_TOPIC)
        return self.mode.group_settings(
            runtime_settings(self.config, topic, self.registry.group_configs), topic
        )

    def _transaction_settings(self) -> RuntimeSettings:
        topic = self.logs.settings(TRANSACTION_TOPIC)
        return transaction_settings(self.config, self.markers, self.producer_ids.ids, topic)

    def _share_state_settings(self) -> RuntimeSettings:
        return share_state_settings(self.config, self.logs.settings(SHARE_STATE_TOPIC))

    def _answered(self) -> None:
        """Ends a turn of the transaction coordinator: sends its responses, and then the markers."""
        self.writes.flush()
        self.markers.ask_due()

    def _settings_changed(self) -> None:
        """Passes the current settings to parts that keep copies of them."""
        self.secured.overrides.follow(self.background)
        self.server.configure(self._limits())
        self.groups.configure(self._group_settings())
        self.transactions.configure(self._transaction_settings())
        self.share_states.configure(self._share_state_settings())

    def _has_member(self, group_id: str, client_id: str, host: str) -> bool:
        view = self.groups.view_of(group_id)
        if view is None:
            return True  # unknown: its groups are not loaded
        client = client_id, host
        if group_id in view.consumer_groups:
            consumers = view.consumer_groups[group_id].members.values()
            metadata = [each.metadata for each in consumers]
            return any((each.client_id, each.client_host) == client for each in metadata)
        group = view.groups.get(group_id)
        members = () if group is None else group.members.values()
        return any((each.client_id, each.client_host) == client for each in members)

    def _uses_new_protocol(self, connection: Connection, group_id: str) -> None:
        """Adds an entry to the group's journal: a client uses a group protocol that this broker
        does not support. Adds no entry if the client has no DESCRIBE permission on the group."""
        authorizer, group = self.secured.authorizer, ResourceType.GROUP
        if not authorizer.allows(
            connection, Operation.DESCRIBE, group, group_id, api=NEW_PROTOCOLS_API, is_logged=False
        ):
            return
        client = connection.client_id, connection.client_host
        event = JoinRefused(group_id, "", UNSUPPORTED_VERSION, *client, NEW_PROTOCOL)
        self.keeper.observe(event)
        for show in self._viewers:
            show()

    def _opened(self, pages: Pages) -> None:
        self.pages = pages
        self._viewers.append(pages.live.happened)


__all__ = ["BadDirectory", "Broker", "CannotJoin", "CannotListen", "CorruptLog", "DirectoryLocked"]
# Exceptions of `open` and `start`, exported so that the command line imports no other room.

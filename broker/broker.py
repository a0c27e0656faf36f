"""The broker: made of its parts, started and stopped in order.

Owns the order of things. Start: addresses, lock, identity, topics, logs, shards; then every socket
listens, and only then the HTTP stack is imported. Stop: no more connections, the turn ends,
everything is flushed and written down, lock and addresses are given up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.services import Services
from broker.apis.table import SERVED
from broker.cluster.membership.cannot_join import CannotJoin
from broker.config.config import DEFAULT_BROKER_ID, Config
from broker.config.config_table import TRANSACTION_VERSION
from broker.config.listeners import parse_host_and_port
from broker.cores.groups.journal_keeper import group_journal_keeper
from broker.cores.groups.log_lines import observe as write_line
from broker.cores.groups.runtime import group_runtime
from broker.cores.groups.settings import runtime_settings
from broker.cores.hooks import Hooks
from broker.cores.transactions.cluster_duties import ClusterTransactionDuties
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.journal_keeper import transaction_journal_keeper
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.log_lines import observe as write_transaction_line
from broker.cores.transactions.markers import MarkerSender
from broker.cores.transactions.records import highest_producer_id
from broker.cores.transactions.runtime import transaction_runtime
from broker.cores.transactions.sending import Destination
from broker.cores.transactions.settings import runtime_settings as transaction_settings
from broker.loop.background import Background
from broker.loop.disk_reads import DiskReads
from broker.loop.internal_errors import InternalErrors
from broker.loop.pulse import Pulse
from broker.loop.slices import Slicer
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.metrics.held_readers import HeldReaders
from broker.metrics.holders import Holders
from broker.metrics.lag import Lags
from broker.metrics.sources import Sources
from broker.metrics.totals import Metrics
from broker.metrics.trends import Trends
from broker.metrics.verdicts import Verdicts
from broker.net.advertised import Advertised
from broker.net.limits import limits_of
from broker.net.long_requests import LongRequests
from broker.net.seekers import Seekers
from broker.net.server import Server
from broker.net.sockets import Bind, CannotListen, Sockets, bind
from broker.net.turn_writes import TurnWrites
from broker.net.unsupported import Unsupported
from broker.time import Time
from broker.topics.cleaner_checkpoint import CleanerCheckpoint
from broker.topics.cleaning import Cleaning
from broker.topics.cluster_view import AloneView, ClusterView
from broker.topics.config_changes import ConfigChanges, SettingsStore, restore
from broker.topics.deletions import Deletions, remove_leftovers
from broker.topics.disk_changes import DiskChanges
from broker.topics.embedded_registry import EmbeddedRegistry
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.maintenance import Maintenance
from broker.topics.old_commits import OldCommits
from broker.topics.owned_topics import OWNED
from broker.topics.partition import NEVER
from broker.topics.partition_services import PartitionServices
from broker.topics.producer_ids import BLOCK, ProducerIdPool
from broker.topics.registry import (
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    BadDirectory,
    OldOffsets,
    Registry,
)
from broker.topics.topic_admin import TopicAdmin
from broker.topics.topic_changes import TopicChanges
from broker.topics.topic_logs import TopicLogs
from broker.web.health import health, is_loading
from log.errors import CorruptLog, DirectoryLocked
from log.filesystem import FileSystem, Lock, OsFileSystem, open_files_max

if TYPE_CHECKING:
    from broker.cluster.member import Member
    from broker.cluster.metadata_cache import Learnt
    from broker.cluster.zookeeper.zookeeper import Connect
    from broker.cores.runtime_settings import RuntimeSettings
    from broker.net.request import ServedApi
    from broker.web.site import Site
    from coordinator.events import Event

logger = structlog.get_logger(__name__)


class Broker:
    """One broker over one data directory; `start`, then `stop`, in one event loop."""

    def __init__(
        self,
        config: Config,
        *,
        fs: FileSystem | None = None,
        time: Time | None = None,
        bind: Bind = bind,
        zookeeper: Connect | None = None,
    ) -> None:
        self.config = config
        self._zookeeper = zookeeper
        self.fs: FileSystem = fs or OsFileSystem(open_files_max())
        self.time = time or Time()
        self.sockets = Sockets(config, bind)
        """Where it listens."""
        self.pulse = Pulse(self.time)
        """What keeps the broker's own pauses out of the clock."""
        self.directory = os.path.abspath(config.directories[0])
        self.metrics = Metrics()
        self.internal_errors = InternalErrors()
        """Bugs of ours that were caught before they harmed others."""
        self.watchdog = Watchdog(self.time)
        self.background = Background(self.time, self.watchdog)
        self.spawn = self.background.spawn
        self.slicer = Slicer(self.time, self.watchdog)
        """Whose slice of long work is next."""
        self.worker = Worker(self.time)
        """The thread for pure work that takes long."""
        self.keeper = group_journal_keeper(
            self.time,
            self.spawn,
            self.fs,
            self.directory,
            config["group.journal.file.max.bytes"],
        )
        """Why groups rebalanced, and the file that says so to the next run."""
        self.transaction_keeper = transaction_journal_keeper(
            self.time,
            self.spawn,
            self.fs,
            self.directory,
            config["transaction.journal.file.max.bytes"],
        )
        """What became of transactions, and its file."""
        self.http: Site | None = None
        self.stopped = asyncio.Event()
        """Set when the broker cannot go on, or was asked to stop."""
        self.fatal: str | None = None
        """Why it cannot go on."""
        self._lock: Lock | None = None
        self.registry: Registry
        self.topics: TopicChanges
        self.old_offsets: OldOffsets
        self.settings_store: SettingsStore
        self.member: Member | None = None
        """This broker's part in its cluster; None where it is alone."""

    # -- life

    def open(self) -> None:
        """Takes the addresses, then the data directory, and opens what is in it.

        Called before `join` and `start`, in any thread. Raises CannotListen, DirectoryLocked,
        BadDirectory, CorruptLog and OSError, each with its sentence; then nothing is held any more.
        """
        try:
            self.sockets.bind()
            self.fs.make_directory(self.directory)
            self._lock = self.fs.lock(self.directory)
            if not self.config.is_in_cluster:
                self._open_alone()
        except BaseException:
            self.release()
            raise

    async def join(self) -> None:
        """Comes into the cluster, where there is one, and opens its logs; before `start`.

        Raises BadConfig, BadDirectory, CannotJoin, CorruptLog and OSError, each with its sentence.
        """
        if not self.config.is_in_cluster:
            return
        from broker.cluster.member import MemberServices, join_cluster
        from broker.cluster.zookeeper.kazoo_zookeeper import connect

        self.member = member = await join_cluster(
            MemberServices(
                self.config,
                self.fs,
                self.directory,
                self.time,
                self.background,
                self.slicer,
                self.internal_errors,
                self.fail,
                self._zookeeper or connect,
            )
        )
        self.registry = member.registry
        self.long_polls = LongPolls(self.time, self.internal_errors, self.watchdog)
        common = self._partition_services()
        services = member.partition_services(common, lambda name: self.logs.settings(name))  # noqa: PLW0108
        self.logs = LogManager(self.fs, self.directory, self.config, services)
        try:
            open_logs = partial(self.logs.open_all, member.joined.topics, in_cluster=True)
            await self.time.in_thread(open_logs)
        except BaseException:
            await member.leave()
            raise
        self._make_parts()
        member.keeper.read()
        self.keeper.read()
        self.transaction_keeper.read()

    def _partition_services(self) -> PartitionServices:
        """What every partition uses."""
        return PartitionServices(
            self.time,
            self.spawn,
            self.internal_errors,
            self.long_polls,
            self.fail,
            self.metrics.writes,
            {
                OFFSETS_TOPIC: self.metrics.offsets_writes,
                TRANSACTION_TOPIC: self.metrics.transaction_writes,
            },
        )

    def _open_alone(self) -> None:
        config = self.config
        self.registry = self.stored = EmbeddedRegistry(
            self.fs,
            self.directory,
            config.configured_id,
            DEFAULT_BROKER_ID,
            self.time.fresh_id,
            {owned.name: owned.created_with(config) for owned in OWNED.values()},
            config["log.recovery.missing"],
        )
        restore(config, self.stored, self.directory)
        self.long_polls = LongPolls(self.time, self.internal_errors, self.watchdog)
        self.logs = LogManager(self.fs, self.directory, config, self._partition_services())
        remove_leftovers(self.stored, self.logs, self.time)
        self.logs.open_all(self.stored.topics.values())
        self.stored.finalize({TRANSACTION_VERSION: config[TRANSACTION_VERSION]})
        self.stored.note_files()
        if found := self.stored.adopted:
            self.stored.raise_producer_ids(self._highest_producer_id())
            logger.info("topics found on disk were adopted", topics=len(found))
        self._make_parts()
        self.keeper.read()
        self.transaction_keeper.read()

    def _highest_producer_id(self) -> int:
        """The highest that the logs know: producers have it, and transactional ids may."""
        named = [each.log.producers.highest_id for each in self.logs.all()]
        state = self.logs.topics.get(TRANSACTION_TOPIC)
        if state is not None:
            named += [highest_producer_id(each.log) for each in state.partitions]
        return max(named, default=-1)

    def _make_parts(self) -> None:
        """Makes the parts that stand on the logs, each with all that it uses.

        Two loops are true ones: whoever deletes topics has the shards drop their offsets, and the
        shards say when that is done; a setting that a request changes bears on the server. One of
        each pair is made first, with a function that finds the other when it is called.
        """
        config = self.config
        self.writes = TurnWrites(self.time, self.watchdog, self.internal_errors)
        cleaned = CleanerCheckpoint(self.logs)
        self.groups = group_runtime(
            self._group_settings(),
            self.time,
            self.slicer,
            self.internal_errors,
            Hooks(
                observers=[
                    lambda event: self.metrics.observe(event, self.time.now()),
                    self.keeper.observe,
                    write_line,
                    self._show,
                ],
                before_replies=self.writes.hold,
                after_replies=self.writes.flush,
                cleaned_to=partial(cleaned.cleaned_to, OFFSETS_TOPIC),
            ),
            on_dropped=self._offsets_dropped,
        )
        self.disk_changes = DiskChanges(self.time, self.fail)
        self._make_transactions()
        self.cleaning = Cleaning(
            config,
            self.logs,
            cleaned,
            {OFFSETS_TOPIC: self.groups.life, TRANSACTION_TOPIC: self.transactions.life},
            self.time,
            self.background,
        )
        self.maintenance = Maintenance(config, self.logs, self.time, self.slicer, self.background)
        elsewhere = None if self.member is None else self.member.ends_elsewhere(self.logs)
        self.lags = Lags(self.groups, self.logs, self.time, elsewhere)
        self._make_topics()
        self._make_server()
        self._make_sources()

    def _make_transactions(self) -> None:
        """Makes the coordinator of transactions.

        Its cores and the sender of markers call each other: the sender is made first.
        """
        self.producer_ids = ProducerIdPool(
            self._reserve_producer_ids, self.time, self.background.spawn
        )
        self.local_markers = LocalMarkers(
            self.registry,
            self.logs,
            self.groups,
            self.time,
            self.internal_errors,
            NEVER if self.member is None else self.config["request.timeout.ms"],
        )
        self.markers = MarkerSender(
            lambda: self.transactions,
            self._marker_destinations(),
            self.slicer,
            self.time,
            self.background.spawn,
        )
        self.transactions = transaction_runtime(
            self._transaction_settings(),
            self.time,
            self.slicer,
            self.internal_errors,
            Hooks(
                observers=[
                    lambda _: self.producer_ids.refill(),
                    self.metrics.transactions.observe,
                    self.transaction_keeper.observe,
                    write_transaction_line,
                ],
                before_replies=self.writes.hold,
                after_replies=self._answered,
            ),
            TransactionDuties if self.member is None else ClusterTransactionDuties,
        )

    def _marker_destinations(self) -> Callable[[str, int], Destination]:
        """Who is asked for the marker of a partition."""
        if self.member is None:
            return lambda *_: self.local_markers
        return self.member.marker_destinations(self.logs, self.local_markers)

    def _make_topics(self) -> None:
        """Makes what changes topics and files beside them."""
        if self.member is not None:
            self._make_topics_of_cluster(self.member)
        else:
            self._make_topics_alone()

    def _make_topics_of_cluster(self, member: Member) -> None:
        from broker.cluster.coordinators.coordinators import Coordinators
        from broker.cluster.replicas.replicas import ReplicaHooks

        self.coordinators = Coordinators(
            self.groups,
            self.transactions,
            member.joined.zookeeper,
            self.slicer,
            self.spawn,
            self._settings_changed,
        )
        hooks = ReplicaHooks(
            on_leader=self.coordinators.on_leader,
            on_follower=self.coordinators.on_follower,
            on_deleted=self.coordinators.on_deleted,
            on_learnt=self._learnt,
        )
        member.make(self.logs, self.disk_changes, hooks, self._settings_changed)
        self.topics = member.topics
        self.old_offsets = member.old_offsets
        self.settings_store = member.configs

    def _make_topics_alone(self) -> None:
        config = self.config
        self.deletions = Deletions(
            self.stored,
            self.logs,
            self.groups.duties,
            self.disk_changes,
            self.time,
            self.slicer,
            self.background,
        )
        self.topics = self.settings_store = TopicAdmin(
            config,
            self.stored,
            self.logs,
            self.time,
            self.disk_changes,
            self.deletions,
            serve={
                OFFSETS_TOPIC: self._serve_offsets,
                TRANSACTION_TOPIC: self._serve_transactions,
            },
            on_deleted=[
                lambda topic: self.long_polls.wake_topic(topic.name),
                self.cleaning.topic_deleted,
            ],
            internal_errors=self.internal_errors,
        )
        self.old_offsets = self.old_commits = OldCommits(
            self.time,
            self.stored.consumer_paths,
            lambda work: self.spawn(work, "old offsets"),
            self._offsets_flush_messages,
            lambda: self.disk_changes.run(self.stored.note_files),
        )

    def _make_server(self) -> None:
        """Makes what answers requests."""
        config = self.config
        self.disk_reads = DiskReads(self.time)
        """The threads for reads that wait for the disk."""
        unsupported = Unsupported(self.time)
        seekers = Seekers(unsupported, self._has_member)
        self.advertised = Advertised(config, self.registry.node_id)
        served = self._view_cluster()
        self.config_changes = ConfigChanges(
            config, self.registry, self.logs, self.settings_store, self._settings_changed
        )
        services = Services(
            config=config,
            time=self.time,
            served=served,
            advertised=self.advertised,
            cluster=self.cluster,
            groups=self.groups,
            transactions=self.transactions,
            markers=self.markers,
            local_markers=self.local_markers,
            producer_ids=self.producer_ids,
            registry=self.registry,
            logs=self.logs,
            topics=self.topics,
            config_changes=self.config_changes,
            long_polls=self.long_polls,
            maintenance=self.maintenance,
            old_offsets=self.old_offsets,
            fetch_sessions=FetchSessions(
                config["max.incremental.fetch.session.cache.slots"], self.time.chance
            ),
            metrics=self.metrics,
            slicer=self.slicer,
            worker=self.worker,
            disk_reads=self.disk_reads,
            unsupported=unsupported,
            seekers=seekers,
            replicas=None if self.member is None else self.member.replicas,
            controller=None if self.member is None else self.member.host,
            enlisting=None if self.member is None else self.member.enlisting,
        )
        self.server = Server(
            services,
            served,
            limits_of(config),
            writes=self.writes,
            long=LongRequests(self.slicer, self.worker, self.spawn),
            disk_reads=self.disk_reads,
            unsupported=unsupported,
            seekers=seekers,
            time=self.time,
            watchdog=self.watchdog,
            internal_errors=self.internal_errors,
        )

    def _view_cluster(self) -> Mapping[int, ServedApi]:
        """Makes what clients are told of the cluster; the APIs that are served in it."""
        self.cluster: ClusterView
        if self.member is None:
            self.cluster = AloneView(self.registry.node_id, self.logs, self.advertised.node)
            return SERVED
        from broker.apis.cluster_table import SERVED_IN_CLUSTER

        self.cluster = self.member.cache
        return SERVED_IN_CLUSTER

    def _make_sources(self) -> None:
        """Gathers what is read of all the rest."""
        self.holders = Holders(self.transactions, self.time)
        self.trends = Trends(
            self.groups,
            self.lags,
            self.server,
            self.slicer,
            self.internal_errors,
            self.time,
            self.background,
        )
        self.verdicts = Verdicts(
            self.config,
            self.groups,
            self.lags,
            self.keeper.journal,
            self.holders,
            HeldReaders(self.transactions, self.transaction_keeper, self.time).see,
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
            member=self.member,
            groups=self.groups,
            transactions=self.transactions,
            markers=self.markers,
            logs=self.logs,
            server=self.server,
            totals=self.metrics,
            journal=self.keeper.journal,
            transaction_journal=self.transaction_keeper.journal,
            holders=self.holders,
            lags=self.lags,
            trends=self.trends,
            verdicts=self.verdicts,
            fatal=lambda: self.fatal,
            cleaning=self.cleaning,
            pulse=self.pulse,
            watchdog=self.watchdog,
            internal_errors=self.internal_errors,
            slicer=self.slicer,
            worker=self.worker,
            disk_reads=self.disk_reads,
        )

    async def start(self) -> None:
        """Listens, HTTP too, where connections wait until `start_http`.

        Raises CannotListen; CannotJoin where the cluster has another broker of this id.
        """
        self.pulse.start()
        for owned in OWNED.values():
            if owned.name in self.logs.topics:
                there = len(self.logs.topics[owned.name].partitions)
                owned.warn_about_partitions(self.config, there)
        if self.member is None:
            self._serve_alone()
        self.advertised.listening([port for _, port in self.sockets.addresses()])
        self.sockets.listen()
        self.advertised.serving_http(self.sockets.http_address())
        if self.member is not None:  # who asks from here on waits until it is registered
            await self.member.start(self.advertised.endpoints)
        for bound in self.sockets.listeners:
            await self.server.accept(bound)
        self.maintenance.start()
        self.cleaning.start()

    def _serve_alone(self) -> None:
        """Loads what the coordinators' topics have, and goes on with deletions."""
        offsets = self.logs.topics.get(OFFSETS_TOPIC)
        if offsets is not None:
            deleted = {name: each.offsets_below for name, each in self.stored.dying.items()}
            self.groups.start(offsets.partitions, offsets.topic.topic_id, deleted)
        transactions = self.logs.topics.get(TRANSACTION_TOPIC)
        if transactions is not None:
            self.transactions.start(transactions.partitions)
            self.producer_ids.refill()
        self.deletions.resume()

    async def start_http(self) -> None:
        """Serves the page, /metrics, /healthz and /api, unless ``http.listener`` is off."""
        if self.sockets.http is None:
            return
        from broker.web.site import Site

        host, _ = parse_host_and_port(self.config["http.listener"])
        self.http = Site(self.sockets.http, host, self.sources)
        self.http.start()

    async def stop(self) -> None:
        """Ends the turn, answers who waits, closes all, writes everything down, unlocks.

        What one part can't do keeps no other from its own: the logs are closed in any case.
        """
        parts: list[Callable[[], Awaitable[None] | None]] = [
            *([] if self.member is None else [self.member.hand_over, self.member.stop]),
            self.maintenance.stop,
            self.cleaning.stop,
            *([self.deletions.stop] if self.member is None else []),
            self.long_polls.stop,
            self.lags.times.stop,
            self.groups.life.save,
            self.keeper.stop,
            self.transaction_keeper.stop,
            self.producer_ids.stop,
            self.markers.stop,
            self.transactions.stop,
            self.groups.stop,
            self.server.close,
        ]
        if self.http is not None:
            parts.append(self.http.stop)
        parts += [self.background.stop, self.worker.stop]
        if self.member is None:
            parts.append(self.old_commits.stop)
        for end in parts:
            try:
                ending = end()
                if ending is not None:
                    await ending
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self.internal_errors.caught("stop", error)
        try:
            await self.time.in_thread(self.logs.close_all)
            if self.member is not None:
                await self.member.leave()
        finally:
            self.pulse.stop()
            self.release()

    def release(self) -> None:
        """Gives the addresses and the data directory up."""
        self.sockets.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, reason: str) -> None:
        """The broker cannot go on: nothing more can be acknowledged."""
        self.fatal = self.fatal or reason
        self.stopped.set()

    async def reload(self, fresh: Config) -> None:
        """Takes over what may change at run time of properties that were read again."""
        await self.config_changes.reload(fresh)

    @property
    def loading(self) -> bool:
        """Whether groups or transactional ids are still being loaded."""
        return is_loading(self.sources)

    def health(self) -> dict[str, Any]:
        """What /healthz says."""
        return health(self.sources)

    # -- what the parts are given

    def _serve_offsets(self, offsets: TopicLogs) -> None:
        """``__consumer_offsets`` has been made, or has more partitions."""
        if not self.groups.is_started:
            self._settings_changed()
            self.groups.start(offsets.partitions, offsets.topic.topic_id)

    def _offsets_dropped(self, name: str) -> None:
        """The shards have dropped the offsets of a deleted topic; in a cluster nobody waits."""
        if self.member is None:
            self.deletions.dropped(name)

    def _serve_transactions(self, topic: TopicLogs) -> None:
        """``__transaction_state`` has been made."""
        if not self.transactions.is_started:
            self._settings_changed()
            self.transactions.start(topic.partitions)

    async def _reserve_producer_ids(self) -> range:
        if self.member is not None:
            return await self.member.producer_ids.reserve(BLOCK)
        return await self.disk_changes.run(self.stored.reserve_producer_ids, BLOCK)

    def _learnt(self, learnt: Learnt) -> None:
        """The controller has told of topics, partitions and brokers."""
        assert self.member is not None
        for topic in self.member.learnt(learnt):
            self.long_polls.wake_topic(topic.name)
            self.cleaning.topic_deleted(topic)
        self.coordinators.on_learnt(learnt)

    def _group_settings(self) -> RuntimeSettings:
        topic = self.logs.settings(OFFSETS_TOPIC)
        settings = runtime_settings(self.config, topic)
        return settings if self.member is None else self.member.group_settings(settings, topic)

    def _transaction_settings(self) -> RuntimeSettings:
        topic = self.logs.settings(TRANSACTION_TOPIC)
        return transaction_settings(self.config, self.markers, self.producer_ids.ids, topic)

    def _answered(self) -> None:
        """A turn of the transaction coordinator ends: its answers leave, and then its markers."""
        self.writes.flush()
        self.markers.ask_due()

    def _settings_changed(self) -> None:
        """Gives those who keep copies of settings the ones that hold now."""
        self.server.configure(limits_of(self.config))
        self.groups.configure(self._group_settings())
        self.transactions.configure(self._transaction_settings())

    def _has_member(self, group_id: str, client_id: str, host: str) -> bool:
        view = self.groups.view_of(group_id)
        if view is None:
            return True  # it may have: its groups are not loaded
        group = view.groups.get(group_id)
        members = () if group is None else group.members.values()
        return any((each.client_id, each.client_host) == (client_id, host) for each in members)

    def _offsets_flush_messages(self) -> int:
        settings = self.logs.settings(OFFSETS_TOPIC) or self.config.topic_defaults
        return int(settings["flush.messages"])

    def _show(self, _: Event) -> None:
        if self.http is not None:
            self.http.live.happened()


__all__ = ["BadDirectory", "Broker", "CannotJoin", "CannotListen", "CorruptLog", "DirectoryLocked"]
# What `open` and `start` raise can be had here, so that the command line needs no other room.

"""The parts of a broker in a cluster that a standalone broker does not have.

The parts are made in three steps. `join` reads ZooKeeper, the ids and the topics, before any log is
opened. `make` makes the parts that need the logs. `start` starts all parts before the broker serves
requests. An old controller may still send requests that were meant for this broker's previous
process; the broker rejects them by their broker epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any

from broker.cluster.controller.controller_figures import ControllerFigures
from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.controller.controller_lines import ControllerLines
from broker.cluster.controller.controller_term import HostServices
from broker.cluster.controller.controller_totals import ControllerTotals
from broker.cluster.controller.election import last_epoch
from broker.cluster.coordinators.coordinator_clients import CoordinatorClients
from broker.cluster.coordinators.old_forms import for_fellows
from broker.cluster.coordinators.producer_id_blocks import ProducerIdBlocks
from broker.cluster.journal import ClusterJournal
from broker.cluster.journal_recorder import JournalRecorder
from broker.cluster.membership.controlled_shutdown import hand_over, shutdown_settings
from broker.cluster.membership.joining import Joined
from broker.cluster.membership.registration import UNSEEN_MS, BrokerRegistration
from broker.cluster.membership.settings import (
    ClusterSettings,
    channel_settings,
    controller_config,
)
from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.cluster.peers.controller_peer import ControllerPeer
from broker.cluster.peers.lasting_peer import PeerSettings
from broker.cluster.replicas.fetchers import Fetchers
from broker.cluster.replicas.isr_writer import make_isr_writer
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.replicas.replicas import ReplicaManager
from broker.cluster.replicas.replication_settings import replication_settings
from broker.cluster.topics.client_configs import ClientConfigs
from broker.cluster.topics.cluster_configs import ClusterConfigs
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.cluster.topics.cluster_topics import ClusterTopics
from broker.cluster.topics.config_nodes import ConfigNodes
from broker.cluster.topics.consumer_paths import ZooKeeperOffsets
from broker.cluster.topics.missed_topic_deletions import MissedTopicDeletions
from broker.cluster.topics.remote_end_offsets import RemoteEndOffsets
from broker.cluster.zookeeper.session_totals import SessionTotals
from broker.cluster.zookeeper.zookeeper import Closed, SessionExpired
from broker.config.listeners import Endpoint
from broker.cores.journal_keeper import JournalKeeper
from broker.cores.observer import Observer, at_any_time
from broker.cores.runtime_settings import RuntimeSettings
from broker.quotas.replication_quota import replication_quotas
from broker.topics.directory.strays import strays_among
from broker.topics.logs import LogManager
from broker.topics.registry import Topic
from broker.topics.replica_logs import ReplicaLogs
from broker.topics.replicas.replica_services import ReplicaServices
from broker.topics.replicas.replication_totals import ReplicationTotals
from broker.topics.startup_parts import StartupParts
from protocol.znodes import brokers, notices, topics
from protocol.znodes.fields import BadNode
from replication.values import Rules

AGAIN_S = 0.1
"""The delay in seconds before ZooKeeper is read again, after a read failed because the session
expired."""


class ClusterBroker:
    """The parts of a broker in a cluster. Only the event loop's thread may use this class."""

    def __init__(self, startup: StartupParts, settings: ClusterSettings, joined: Joined) -> None:
        config, time, real = startup.config, startup.time, startup.time.real
        background = startup.background
        self.joined = joined
        self.settings = settings
        self.cache = MetadataCache(joined.node_id)
        self.registry = ClusterRegistry(joined.node_id, joined.cluster_id, self.cache)
        for topic in joined.topics:
            self.registry.configured(topic.name, topic.configs)
        self.clients = ClientConfigs(joined.zookeeper, ConfigNodes(joined.zookeeper, config), real)
        self.old_offsets = ZooKeeperOffsets(joined.zookeeper, background.spawn)
        self._startup = startup
        self._endpoints: Sequence[Endpoint] = ()
        journal_bytes, errors = config["cluster.journal.file.max.bytes"], startup.errors
        kept = (time, background.spawn, startup.fs, startup.directory, journal_bytes, errors)
        self.keeper = JournalKeeper(partial(ClusterJournal, joined.node_id), *kept)
        """Keeps the journal of cluster events that this broker observed, in memory and on disk."""
        self._journal_recorder = JournalRecorder(joined.node_id, self.keeper, self.cache, errors)
        self.replication = replication_settings(
            config, joined.node_id, settings.spoken, settings.listener, settings.connect
        )
        self.registration = self._registration()
        self.replication_totals = ReplicationTotals()
        self.sessions = SessionTotals(joined.zookeeper, time)
        self.controller_totals = ControllerTotals(time)
        self.host = self._host()
        self.controller_figures = ControllerFigures(self.host, time)
        self.controller = ControllerPeer(
            joined.node_id,
            settings.listener,
            self.cache,
            time,
            config["controller.socket.timeout.ms"],
            settings.connect,
        )
        self.isr_writer = make_isr_writer(
            self.replication,
            self.cache,
            self.controller,
            joined.zookeeper,
            self.broker_epoch,
            real,
            background.spawn,
        )
        self.coordinator_clients = CoordinatorClients(
            startup, self.cache, self._peers, settings.spoken, joined.zookeeper
        )
        self.producer_ids = ProducerIdBlocks(joined.zookeeper, joined.node_id)
        self.topics = ClusterTopics(
            config,
            self.registry,
            self.cache,
            joined.zookeeper,
            self.host,
            real,
            self.topic_version,
        )
        self.fetchers = Fetchers(
            self.replication, self.cache, self.broker_epoch, real, startup.slicer, background.spawn
        )

    @property
    def topic_version(self) -> int:
        """The version of the format in which nodes of topics are written to ZooKeeper."""
        has_ids = self.settings.spoken.has_topic_ids
        return topics.VERSION if has_ids else topics.VERSION_BEFORE_IDS

    def _registration(self) -> BrokerRegistration:
        startup, settings = self._startup, self.settings
        return BrokerRegistration(
            self.joined.zookeeper,
            self._registered,
            brokers.VERSION if settings.spoken.has_features else brokers.VERSION_BEFORE_FEATURES,
            settings.zookeeper.session_ms,
            0 if settings.spoken.has_broker_epochs else UNSEEN_MS,
            startup.time,
            startup.background.spawn,
            startup.fail,
        )

    def _host(self) -> ControllerHost:
        startup, settings, joined = self._startup, self.settings, self.joined
        config = startup.config
        return ControllerHost(
            HostServices(
                joined.zookeeper,
                channel_settings(config, settings, joined.node_id),
                lambda: controller_config(config, settings.spoken, joined.node_id),
                self.topic_version,
                self.cache.id_of,
                startup.time,
                startup.background.spawn,
                startup.errors,
            ),
            Observer(
                startup.time,
                startup.errors,
                [
                    at_any_time(ControllerLines(startup.time).observe),
                    self.keeper.journal.observe,
                    at_any_time(self.controller_totals.observe),
                ],
            ).observe,
        )

    def learnt(self, learnt: Learnt) -> Sequence[Topic]:
        """Applies a change of the metadata cache. Returns the deleted topics."""
        changed = self.registry.learnt(learnt)
        self.configs.learnt(changed.shown)
        return changed.gone

    @property
    def _peers(self) -> PeerSettings:
        """The settings of connections on which this broker sends requests of coordinators to other
        brokers."""
        config = self._startup.config
        return PeerSettings(
            self.joined.node_id,
            self.settings.listener,
            config["controller.socket.timeout.ms"],
            config["request.timeout.ms"],
            self.settings.connect,
        )

    def broker_epoch(self) -> int:
        """Returns the epoch of this broker's registration; -1 if this broker is not registered."""
        return self.registration.epoch

    async def strays(self) -> list[str]:
        """Returns the partition directories on disk whose partitions have no replica on this
        broker. Raises OSError."""
        startup, node_id = self._startup, self.joined.node_id

        def is_here(topic: str, index: int) -> bool:
            known = self.cache.partition(topic, index)
            return known is not None and node_id in known.replicas

        if self.cache.controller_id < 0:
            return []  # no metadata has arrived yet
        names = await startup.time.in_thread(partial(startup.fs.list, startup.directory))
        return strays_among(names, is_here)

    # -- making the parts

    def partition_services(
        self,
        settings_of: Callable[[str], Mapping[str, Any] | None],
    ) -> ReplicaServices:
        """Returns the services that replicas use. ``settings_of`` returns the settings of a topic,
        or None if the topic is unknown."""
        common = self._startup.partition_services
        known = {each.name: getattr(common, each.name) for each in fields(common)}

        config, node_id = self._startup.config, self.joined.node_id

        def settings(topic: str) -> Mapping[str, Any]:
            return settings_of(topic) or config.topic_defaults

        def rules(topic: str) -> Rules:
            minimum = settings(topic)["min.insync.replicas"]
            return Rules(self.replication.lag_time_max_ms, minimum, self.cache.is_alive)

        self.quotas = replication_quotas(node_id, config, settings, self._startup.time)
        return ReplicaServices(
            **known,
            node_id=node_id,
            rules=rules,
            isr_writer=self.isr_writer,
            quotas=self.quotas,
            observe=self._journal_recorder.observe,
            totals=self.replication_totals,
        )

    def make(
        self,
        logs: LogManager,
        hooks: ReplicaHooks,
        settings_changed: Callable[[], None],
    ) -> ReplicaManager:
        """Makes the parts that need the logs. ``settings_changed`` is called after each change of
        settings."""
        startup, journal_recorder = self._startup, self._journal_recorder
        self.configs = ClusterConfigs(
            startup.config,
            self.registry,
            logs,
            self.joined.zookeeper,
            startup.time,
            startup.background.spawn,
            startup.errors,
            applied=settings_changed,
            unclean_changed=self.host.settings_changed,
            clients=self.clients,
        )
        self.replicas = ReplicaManager(
            self.replication,
            ReplicaLogs(logs, startup.disk_changes, startup.time, startup.background),
            self.cache,
            self.fetchers,
            self._topic_settings,
            self._directory_changed,
            lambda: self.registration.last_epoch,
            journal_recorder.beside(hooks),
            startup.errors,
            startup.slicer,
            startup.background,
        )
        spawn = startup.background.spawn
        self._unheard = MissedTopicDeletions(
            self.joined.zookeeper, self.cache, self.replicas.forget, startup.time.real, spawn
        )
        return self.replicas

    def group_settings(
        self, settings: RuntimeSettings, topic: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        """Returns ``settings`` with record formats that all brokers of the cluster can read.

        ``topic`` has the settings of ``__consumer_offsets``; None if they are unknown.
        """
        known = self._startup.config.topic_defaults if topic is None else topic
        return for_fellows(settings, self.settings.spoken, known["message.format.version"])

    def remote_end_offsets(self, logs: LogManager) -> RemoteEndOffsets:
        """Creates the object that reads the log end offsets of partitions that other brokers lead.
        The lag of groups is computed from these offsets."""
        startup = self._startup
        self.elsewhere = RemoteEndOffsets(
            self.cache, logs, self._peers, startup.time, startup.background
        )
        return self.elsewhere

    async def _topic_settings(self, name: str) -> Mapping[str, str]:
        """Reads the topic's own settings from ZooKeeper; repeats the read if the ZooKeeper session
        expires."""
        while True:
            try:
                return await self.configs.nodes.topic(name)
            except SessionExpired:  # retry, since the controller does not repeat its request
                await self._startup.time.sleep(AGAIN_S)

    async def _directory_changed(self) -> None:
        """Writes a log directory notification to ZooKeeper. The controller then sends the roles of
        all replicas of this broker."""
        notice = notices.encode_log_dir_event(self.joined.node_id)
        with suppress(SessionExpired, Closed):  # the next registration has the same effect
            await self.joined.zookeeper.create(notices.LOG_DIR_EVENT, notice, sequence=True)

    # -- start and stop

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Registers the broker with ``endpoints`` and starts all parts. Raises
        AlreadyRegistered."""
        self._endpoints = endpoints
        self._journal_recorder.start(self.joined.zookeeper, self.registration)
        self.registration.when_registered(self._unheard.registered)
        self.replicas.start()
        self.isr_writer.start()
        self.configs.start()
        self.elsewhere.start()
        await self.registration.start()
        with suppress(SessionExpired, BadNode):
            self.replicas.know_controller(await last_epoch(self.joined.zookeeper))
        self.host.start()

    async def hand_over(self) -> None:
        """Asks the controller to move this broker's leaderships to other brokers. Called before
        `stop`."""
        await hand_over(
            shutdown_settings(self._startup.config),
            self.joined.node_id,
            self.broker_epoch,
            self.controller,
            self.joined.zookeeper,
            self._startup.time.real,
        )

    async def stop(self) -> None:
        """Stops all parts; the ZooKeeper session stays open until `leave`."""
        self.host.stop()
        self._unheard.stop()
        self.configs.stop()
        self.elsewhere.stop()
        self.isr_writer.stop()
        self.coordinator_clients.stop()
        await self.replicas.stop()
        self.controller.close()
        await self.keeper.stop()

    async def leave(self) -> None:
        """Ends the ZooKeeper session, so that ZooKeeper deletes the registration immediately."""
        await self.joined.zookeeper.close()

    def _registered(self) -> brokers.Registration:
        rack, wall_ms = self._startup.config["broker.rack"], self._startup.time.now().wall_ms
        endpoints = tuple(brokers.Endpoint(*each) for each in self._endpoints)
        features = self.settings.features
        return brokers.Registration(
            self.joined.node_id, endpoints, rack, wall_ms, features=features
        )

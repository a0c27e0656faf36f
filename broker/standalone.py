"""A standalone broker. Its data directory contains the topics, the settings, and the offsets of old
consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from broker.apis.tables.standalone import served_with
from broker.broker_mode import BrokerMode, Coordination, Stop
from broker.config.config import DEFAULT_BROKER_ID
from broker.config.config_table import (
    GROUP_VERSION,
    GROUP_VERSION_MAX,
    SHARE_VERSION,
    SHARE_VERSION_MAX,
    STREAMS_VERSION,
    STREAMS_VERSION_MAX,
    TRANSACTION_VERSION,
)
from broker.config.group_rules import (
    serves_consumer_groups,
    serves_share_groups,
    serves_streams_groups,
)
from broker.config.listeners import Endpoint
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.records import highest_producer_id
from broker.cores.transactions.sending import Destination
from broker.net.advertised import Advertised
from broker.share.coordinator import ShareCoordinator
from broker.share.persister import RETRIES
from broker.topics.cluster_view import AloneView
from broker.topics.config_changes import restore
from broker.topics.deletions import Deletions, remove_leftovers
from broker.topics.directory.consumer_paths import OldCommits
from broker.topics.directory.embedded_registry import EmbeddedRegistry
from broker.topics.logs import LogManager
from broker.topics.owned_topics import OWNED
from broker.topics.partition import NEVER
from broker.topics.producer_ids import BLOCK
from broker.topics.registry import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC, Topic
from broker.topics.startup_parts import StartupParts
from broker.topics.topic_admin import TopicAdmin
from broker.topics.topic_logs import TopicLogs

logger = structlog.get_logger(__name__)


class Standalone(BrokerMode):
    """The mode of a broker without a cluster. Implements `BrokerMode`."""

    duties = TransactionDuties
    marker_wait_ms = NEVER
    others_coordinate = False
    share_state_retries = RETRIES
    replicas = None
    controller = None
    enlisting = None
    registration_fence = None
    member = None
    stores = None
    remote_end_offsets = None

    def __init__(self, startup: StartupParts) -> None:
        """Opens the registry and the logs. Raises BadDirectory, CorruptLog and OSError."""
        config, time = startup.config, startup.time
        self._startup = startup
        self.registry = registry = EmbeddedRegistry(
            startup.fs,
            startup.directory,
            config.configured_id,
            DEFAULT_BROKER_ID,
            time.fresh_id,
            {owned.name: owned.created_with(config) for owned in OWNED.values()},
            config["log.recovery.missing"],
        )
        restore(config, registry, startup.directory)
        self.logs = LogManager(startup.fs, startup.directory, config, startup.partition_services)
        remove_leftovers(registry, self.logs, time)
        self.logs.open_all(registry.topics.values())
        levels = {
            GROUP_VERSION: GROUP_VERSION_MAX if serves_consumer_groups(config) else 0,
            SHARE_VERSION: SHARE_VERSION_MAX if serves_share_groups(config) else 0,
            STREAMS_VERSION: STREAMS_VERSION_MAX if serves_streams_groups(config) else 0,
            TRANSACTION_VERSION: config[TRANSACTION_VERSION],
        }
        registry.finalize(levels)
        finalized = registry.features.levels
        self.served = served_with(
            consumer_groups=finalized.get(GROUP_VERSION, 0) > 0,
            share_groups=finalized.get(SHARE_VERSION, 0) > 0,
            streams_groups=finalized.get(STREAMS_VERSION, 0) > 0,
        )
        registry.note_files()
        if found := registry.adopted:
            registry.raise_producer_ids(self._highest_producer_id())
            logger.info("topics from the data directory added to the topic list", topics=len(found))

    def _highest_producer_id(self) -> int:
        """Returns the highest producer id, in the logs of all partitions and in the records of
        ``__transaction_state``."""
        named = [each.log.producers.highest_id for each in self.logs.all()]
        state = self.logs.topics.get(TRANSACTION_TOPIC)
        if state is not None:
            named += [highest_producer_id(each.log) for each in state.partitions]
        return max(named, default=-1)

    def group_settings(
        self, settings: RuntimeSettings, _: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        return settings

    def marker_destinations(self, local: LocalMarkers) -> Callable[[str, int], Destination]:
        return lambda *_: local

    def share_coordinators(self, local: ShareCoordinator) -> ShareCoordinator:
        return local

    def lacks_topics(self) -> bool:
        return False

    def make(self, coordination: Coordination) -> None:
        startup, registry = self._startup, self.registry
        self._coordination = coordination
        self.deletions = Deletions(
            registry,
            self.logs,
            coordination.groups.duties,
            startup.disk_changes,
            startup.time,
            startup.slicer,
            startup.background,
        )
        self.topics = self.settings_store = TopicAdmin(
            startup.config,
            registry,
            self.logs,
            startup.time,
            startup.disk_changes,
            self.deletions,
            serve={
                OFFSETS_TOPIC: self._serve_offsets,
                TRANSACTION_TOPIC: self._serve_transactions,
                SHARE_STATE_TOPIC: self._serve_share_states,
            },
            on_deleted=[
                lambda topic: startup.long_polls.wake_topic(topic.name),
                coordination.cleaning.topic_deleted,
                self._delete_share_states,
            ],
            internal_errors=startup.errors,
        )
        self.old_offsets = OldCommits(
            startup.time,
            registry.consumer_paths,
            lambda work: startup.background.spawn(work, "old offsets"),
            self._offsets_flush_messages,
            lambda: startup.disk_changes.run(registry.note_files),
        )

    def view(self, advertised: Advertised) -> AloneView:
        return AloneView(self.registry.node_id, self.logs, advertised.node)

    async def reserve_producer_ids(self) -> range:
        return await self._startup.disk_changes.run(self.registry.reserve_producer_ids, BLOCK)

    def offsets_dropped(self, name: str) -> None:
        self.deletions.dropped(name)

    async def may_listen(self) -> None: ...

    async def start(self, _: Sequence[Endpoint]) -> None:
        """Loads the topics of the coordinators, and continues unfinished deletions."""
        groups, transactions = self._coordination.groups, self._coordination.transactions
        offsets = self.logs.topics.get(OFFSETS_TOPIC)
        if offsets is not None:
            deleted = {name: each.offsets_below for name, each in self.registry.dying.items()}
            groups.start(offsets.partitions, offsets.topic.topic_id, deleted)
        state = self.logs.topics.get(TRANSACTION_TOPIC)
        if state is not None:
            transactions.start(state.partitions)
            self._coordination.producer_ids.refill()
        share_states = self.logs.topics.get(SHARE_STATE_TOPIC)
        if share_states is not None:
            self._coordination.share_states.start(share_states.partitions)
        self.deletions.resume()

    def first_stops(self) -> Sequence[Stop]:
        return (self.deletions.stop,)

    def last_stops(self) -> Sequence[Stop]:
        return (self.old_offsets.stop,)

    async def leave(self) -> None: ...

    # -- callbacks of the parts

    def _serve_offsets(self, offsets: TopicLogs) -> None:
        """Called when ``__consumer_offsets`` was created or got more partitions. Starts the group
        coordinator."""
        if not self._coordination.groups.is_started:
            self._coordination.settings_changed()
            self._coordination.groups.start(offsets.partitions, offsets.topic.topic_id)

    def _serve_transactions(self, topic: TopicLogs) -> None:
        """Called when ``__transaction_state`` was created. Starts the transaction coordinator."""
        if not self._coordination.transactions.is_started:
            self._coordination.settings_changed()
            self._coordination.transactions.start(topic.partitions)

    def _serve_share_states(self, topic: TopicLogs) -> None:
        """Called when ``__share_group_state`` was created. Starts the share coordinator."""
        if not self._coordination.share_states.is_started:
            self._coordination.settings_changed()
            self._coordination.share_states.start(topic.partitions)

    def _delete_share_states(self, _: Topic) -> None:
        if self._coordination.share_states.is_started:
            work = self._coordination.share_pruning.delete_states_of_deleted_topics()
            self._startup.background.spawn(work, "share pruning")

    def _offsets_flush_messages(self) -> int:
        settings = self.logs.settings(OFFSETS_TOPIC) or self._startup.config.topic_defaults
        return int(settings["flush.messages"])

"""The mode of a broker in a cluster: combines `ClusterBroker`, the logs of this broker's replicas,
and the coordinators, whose shards move between brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from broker.apis.tables.cluster import SERVED_IN_CLUSTER, served_with
from broker.apis.tables.without_transactions import SERVED_WITHOUT_TRANSACTIONS
from broker.broker_mode import BrokerMode, Coordination, Stop
from broker.cluster.cluster_broker import ClusterBroker
from broker.cluster.coordinators.coordinators import Coordinators
from broker.cluster.membership.feature_levels import FeatureLevels
from broker.cluster.membership.joining import join as join_cluster
from broker.cluster.membership.registration_fence import RegistrationFence
from broker.cluster.membership.settings import cluster_settings
from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.topics.missed_topic_deletions import expect_topics
from broker.cluster.zookeeper.zookeeper import Connect
from broker.cluster_connections import reaching_brokers
from broker.cluster_stores import ClusterStores, open_stores
from broker.config.config_table import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from broker.config.listeners import Endpoint
from broker.cores.duties import Superseded
from broker.cores.hosted_shard import HostedShard, Phase
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.transactions.duties import TransactionDuties
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.sending import Destination
from broker.net.advertised import Advertised
from broker.share.coordinator import ShareCoordinator, ShareCoordinators
from broker.share.persister import RETRIES_IN_CLUSTER
from broker.topics.directory.missing import KnownMissing
from broker.topics.logs import LogManager
from broker.topics.producer_ids import BLOCK
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import NotLeader
from broker.topics.startup_parts import StartupParts
from broker.topics.ticket import Awaited
from protocol.znodes import brokers


class ClusterTransactionDuties(TransactionDuties):
    """Implements `Duties` for the shards of transactional ids in a cluster, where several brokers
    are coordinators.

    Only the controller raises the leader epoch of a partition of ``__transaction_state``. If a
    partition has a marker with a later coordinator epoch, another coordinator has written the
    marker and has replaced this coordinator.

    A shard does not answer requests until the in-sync replicas have all records that the shard has
    loaded. Otherwise the shard could check a producer against records that are lost when the leader
    changes.
    """

    others_coordinate = True

    async def before_serving(self, hosted: HostedShard[Any]) -> None:
        """Waits until all records that the load has read are stable. Raises Superseded."""
        core = hosted.core
        stable = Awaited[Exception | None]()
        hosted.partition.when_stable(
            hosted.log.log_end_offset, [(stable, None)], lambda _, error: error
        )
        lost = isinstance(await stable.reply, NotLeader)
        if lost or hosted.core is not core or hosted.phase is Phase.UNLOADED:
            raise Superseded

    def outranks(self, hosted: HostedShard[Any], coordinator_epoch: int) -> bool:  # noqa: ARG002
        """Returns False, so that the shard does not begin a higher epoch: the broker that has the
        later coordinator epoch ends the transaction."""
        return False


class InCluster(BrokerMode):
    """The mode of a broker in a cluster."""

    duties = ClusterTransactionDuties
    others_coordinate = True
    share_state_retries = RETRIES_IN_CLUSTER

    def __init__(self, startup: StartupParts, member: ClusterBroker, stores: ClusterStores) -> None:
        """Makes the parts that need no open logs. `join` opens the logs afterwards."""
        self.stores = stores
        self._startup = startup
        self.member = member
        self.marker_wait_ms: int = startup.config["request.timeout.ms"]
        self.registry = member.registry
        self.controller = member.host
        self.topics = member.topics
        features = member.settings.features
        if features:
            self.served = served_with(
                consumer_groups=GROUP_VERSION in features,
                share_groups=SHARE_VERSION in features,
                streams_groups=STREAMS_VERSION in features,
            )
        elif member.settings.spoken.has_magic_2:
            self.served = SERVED_IN_CLUSTER
        else:
            self.served = SERVED_WITHOUT_TRANSACTIONS
        self.old_offsets = member.old_offsets
        self.registration_fence = RegistrationFence(
            member.joined.zookeeper,
            member.registration,
            brokers.path(member.joined.node_id),
            member.settings.zookeeper.session_ms,
            startup.time,
        )
        services = member.partition_services(
            lambda name: self.logs.settings(name),  # noqa: PLW0108 - `logs` is set after it
        )
        self.feature_levels = FeatureLevels(
            member.joined.zookeeper,
            member.registry,
            member.settings.features,
            startup.time,
            startup.background.spawn,
            startup.errors,
        )
        self.logs = LogManager(startup.fs, startup.directory, startup.config, services)
        self.remote_end_offsets = member.remote_end_offsets(self.logs)

    def group_settings(
        self, settings: RuntimeSettings, topic: Mapping[str, Any] | None
    ) -> RuntimeSettings:
        return self.member.group_settings(settings, topic)

    def marker_destinations(self, local: LocalMarkers) -> Callable[[str, int], Destination]:
        return self.member.coordinator_clients.marker_destinations(self.logs, local)

    def share_coordinators(self, local: ShareCoordinator) -> ShareCoordinators:
        return self.member.coordinator_clients.share_states(local)

    def lacks_topics(self) -> bool:
        return self.member.cache.lacks_topics

    def make(self, coordination: Coordination) -> None:
        startup, member = self._startup, self.member
        self._coordination = coordination
        transactions = coordination.transactions
        self.enlisting = member.coordinator_clients.enlisting(lambda: transactions.life.partitions)
        self.coordinators = Coordinators(
            coordination.groups,
            transactions,
            coordination.share_states,
            member.joined.zookeeper,
            startup.slicer,
            startup.background.spawn,
            coordination.settings_changed,
        )
        hooks = ReplicaHooks(
            on_leader=self._on_leader,
            on_follower=self._on_follower,
            on_deleted=self.coordinators.on_deleted,
            on_learnt=self._learnt,
        )
        settings_changed = coordination.settings_changed
        self.replicas = member.make(self.logs, hooks, settings_changed)
        self.settings_store = member.configs
        member.keeper.read()

    def view(self, _: Advertised) -> MetadataCache:
        return self.member.cache

    async def reserve_producer_ids(self) -> range:
        return await self.member.producer_ids.reserve(BLOCK)

    def offsets_dropped(self, name: str) -> None:
        """Does nothing. In a cluster the controller deletes topics, and does not wait for committed
        offsets to be dropped."""

    async def may_listen(self) -> None:
        """Waits until the ZooKeeper session of the broker's previous process has ended."""
        await self.member.registration.until_free()

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Registers the broker in the cluster. No request is answered before this method
        returns."""
        await self.feature_levels.open()
        await expect_topics(self.member.joined.zookeeper, self.member.cache)
        await self.member.start(endpoints)

    def first_stops(self) -> Sequence[Stop]:
        """Returns the first functions of a broker's stop, in the order of their calls. They move
        the leaderships to other brokers, and then end the broker's work in the cluster. The broker
        still serves its partitions while they run."""
        return (self.member.hand_over, self.member.stop, self.stores.stop, self.feature_levels.stop)

    def last_stops(self) -> Sequence[Stop]:
        return ()

    async def leave(self) -> None:
        await self.member.leave()

    def _learnt(self, learnt: Learnt) -> None:
        """Applies changes of topics, partitions and brokers that the controller has sent to this
        broker."""
        coordination = self._coordination
        deleted = self.member.learnt(learnt)
        for topic in deleted:
            self._startup.long_polls.wake_topic(topic.name)
            coordination.cleaning.topic_deleted(topic)
        if deleted and coordination.share_states.is_started:
            pruning = coordination.share_pruning.delete_states_of_deleted_topics()
            self._startup.background.spawn(pruning, "share pruning")
        coordination.topics_received()
        self.coordinators.on_learnt(learnt)

    def _on_leader(self, replica: Replica, leader_epoch: int) -> None:
        self._coordination.share_partitions().leadership_changed(replica.topic, replica.index)
        self.coordinators.on_leader(replica, leader_epoch)

    def _on_follower(self, replica: Replica, leader_epoch: int) -> None:
        self._coordination.share_partitions().leadership_changed(replica.topic, replica.index)
        self.coordinators.on_follower(replica, leader_epoch)


async def join(startup: StartupParts, connect: Connect) -> InCluster:
    """Joins the cluster through ZooKeeper, and opens the logs of this broker's replicas.

    Raises BadConfig, BadDirectory, CannotJoin, CorruptLog or OSError. The text of each is a message
    for the operator.
    """
    reach = await startup.time.in_thread(reaching_brokers, startup.config)
    settings = cluster_settings(startup.config, reach)
    missing = KnownMissing(startup.config["log.recovery.missing"])
    joined = await join_cluster(
        settings, startup.config, connect, startup.fs, startup.directory, missing, startup.time
    )
    member = ClusterBroker(startup, settings, joined)
    try:
        mode = InCluster(startup, member, await open_stores(startup, member))
        open_logs = partial(mode.logs.open_all, member.joined.topics, in_cluster=True)
        await startup.time.in_thread(open_logs)
    except BaseException:
        await member.leave()
        raise
    return mode

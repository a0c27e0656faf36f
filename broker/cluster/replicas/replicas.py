"""Executes the controller's requests on this broker's replicas.

| request | effect on a replica of this broker |
|---|---|
| LeaderAndIsr | creates a missing log; makes the replica leader or follower |
| StopReplica | ends the replica's role; schedules the deletion of the log if requested |
| UpdateMetadata | ends the role of a replica that has moved; updates the metadata cache |

Requests of an older controller are rejected, and so are requests for an earlier registration of
this broker (KIP-380). Requests for a later registration are accepted, since the controller may know
the registration before this broker does. One request at a time changes replicas. The leader epoch
shows whether a request is late: a request with the current epoch or a lower one is late. Source:
Kafka 3.9 ``ReplicaManager``, ``KafkaApis``.
"""

from __future__ import annotations

from asyncio import Lock, Task
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

import structlog

from broker.cluster.lines import PartitionLines
from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.cluster.replicas.fetchers import Fetchers
from broker.cluster.replicas.lag_checks import LagChecks
from broker.cluster.replicas.missing_logs import MissingLogs, differ
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.replicas.replication_settings import ReplicationSettings
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.topics.registry import named
from broker.topics.replica_logs import ReplicaLogs
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import Role
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    StoppedPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import LEADER_OF_DELETED
from log.errors import LogPoisoned
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.schema import ZERO_UUID
from replication.values import PartitionState

logger = structlog.get_logger(__name__)

UNCONDITIONAL = frozenset((-1, -2))
"""Leader epochs in StopReplica that match a replica of any epoch: -1 for an unknown epoch, -2 for
the deletion of a topic."""

Place = tuple[str, int]


class LeaderAndIsrResult(NamedTuple):
    """The result of a LeaderAndIsr or StopReplica request."""

    error_code: int
    partitions: Mapping[Place, int]
    """The error code of each partition; empty if the whole request is rejected."""


class ReplicaManager:
    """Executes the controller's requests. Only the event loop's thread may use this class."""

    def __init__(
        self,
        settings: ReplicationSettings,
        logs: ReplicaLogs,
        cache: MetadataCache,
        fetchers: Fetchers,
        configs: Callable[[str], Awaitable[Mapping[str, str]]],
        notify: Callable[[], Awaitable[None]],
        broker_epoch: Callable[[], int],
        hooks: ReplicaHooks,
        errors: InternalErrors,
        slicer: Slicer,
        background: Background,
    ) -> None:
        """``configs`` and ``notify`` are passed to `MissingLogs`."""
        self._settings = settings
        self._logs = logs
        self._cache = cache
        self._fetchers = fetchers
        self._broker_epoch = broker_epoch
        self._hooks = hooks
        self._errors = errors
        self._slicer = slicer
        self._background = background
        self._controller_epoch = -1
        """The highest controller epoch that this broker knows."""
        self._changing = Lock()
        self.missing = MissingLogs(settings.node_id, logs, cache, configs, self._changing, notify)
        self._tasks: list[Task[None]] = []
        self._checkpoints = self._retries = False
        self._lines = PartitionLines()
        self._lag_checks = LagChecks(logs.all, slicer)

    @property
    def listener(self) -> str:
        """The name of the inter-broker listener."""
        return self._settings.listener

    # -- start and stop

    def start(self) -> None:
        """Starts the periodic checks for followers that lag."""
        pause_s, checks = self._settings.lag_time_max_ms / 2000, self._lag_checks
        self._repeat("in-sync replicas", lambda: pause_s, checks.run, checks.idle_ms)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._fetchers.stop()

    def _repeat(
        self,
        name: str,
        pause_s: Callable[[], float],
        work: Callable[[], Awaitable[object]],
        idle_ms: Callable[[], int | None] | None = None,
    ) -> None:
        def failed(error: Exception) -> None:
            logger.error("background work of replicas failed", work=name, error=repr(error))

        self._tasks.append(self._background.every(name, pause_s, work, failed, idle_ms))

    def _begin_checkpoints(self) -> None:
        """Starts to write high watermarks periodically. Called after a LeaderAndIsr."""
        if not self._checkpoints:
            self._checkpoints = True
            pause_s = self._settings.checkpoint_ms / 1000
            self._repeat("high watermarks", lambda: pause_s, self._logs.write_high_watermarks)

    def _begin_retries(self) -> None:
        """If a replica could not start, begins to call `MissingLogs.make_again` repeatedly."""
        if self.missing.is_needed and not self._retries:
            self._retries = True
            self._repeat("missing logs", lambda: self.missing.pause_s, self.missing.make_again)

    # -- fencing of controllers

    def know_controller(self, epoch: int) -> None:
        """Stores the controller epoch from ZooKeeper. Requests with a lower epoch are rejected."""
        self._controller_epoch = max(self._controller_epoch, epoch)

    def _refusal(self, request: Send) -> int:
        """Checks a controller request. Returns an error code if an older controller sent it, or if
        it is meant for an earlier registration of this broker. Otherwise stores the controller
        epoch of the request, and returns NONE."""
        if request.broker_epoch != -1 and request.broker_epoch < self._broker_epoch():
            why, error_code = "meant for an earlier registration of this broker", STALE_BROKER_EPOCH
        elif request.controller_epoch < self._controller_epoch:
            why, error_code = "from an older controller", STALE_CONTROLLER_EPOCH
        else:
            self._controller_epoch = request.controller_epoch
            return NONE
        logger.warning(
            f"controller request rejected: the request is {why}",
            request=type(request).__name__,
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
        )
        return error_code

    # -- UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest) -> int:
        """Applies an UpdateMetadata request. Returns an error code."""
        if refusal := self._refusal(request):
            return refusal
        learnt = self._cache.update(request)
        if learnt.lost_brokers:  # records that waited for these brokers may be committed now
            self._background.spawn(self._lag_checks.run(), "in-sync replicas")
        for name in learnt.topics:
            known = self._cache.topics.get(name)
            if known is not None:
                self._logs.counted(name, max(known.partitions) + 1)
        self._pass_on(learnt)
        for shown in request.topics:
            for each in shown.partitions:
                if self._settings.node_id not in each.replicas:
                    self._stop_where_moved(shown.name, each)
        return NONE

    def _pass_on(self, learnt: Learnt) -> None:
        for topic, index in learnt.deleted:
            self._call(self._hooks.on_deleted, topic, index)
        self._call(self._hooks.on_learnt, learnt)

    def forget(self, names: Collection[str]) -> None:
        """Ends roles of replicas whose topics were deleted while the broker was unregistered."""
        learnt = self._cache.forget(names)
        self._pass_on(learnt)
        for topic, index in learnt.deleted:
            replica = self._logs.get(topic, index)
            if replica is not None and replica.role in (Role.LEADER, Role.FOLLOWER):
                self._stand_by(replica, LEADER_OF_DELETED)

    def _stop_where_moved(self, topic: str, shown: ShownPartition) -> None:
        """Ends the role of a replica whose partition was reassigned to other brokers.

        Usually StopReplica does this. But this broker does not get the StopReplica if its ZooKeeper
        session had expired at that time. After it has registered again, it would continue to lead
        the partition, and clients with old metadata would continue to use it.
        """
        replica = self._logs.get(topic, shown.partition)
        if replica is None or replica.state is None:
            return
        is_late = shown.leader_epoch <= replica.leader_epoch
        if is_late and shown.leader != LEADER_OF_DELETED:
            return
        if replica.role in (Role.LEADER, Role.FOLLOWER):
            logger.info(
                "replica reassigned to other brokers, files kept until the controller deletes"
                " the replica",
                partition=replica.name,
                replicas=list(shown.replicas),
            )
            self._stand_by(replica, shown.leader_epoch)

    # -- LeaderAndIsr

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResult:
        """Makes replicas leaders or followers, as requested."""
        async with self._changing:
            refusal = self._refusal(request)
            if refusal:
                return LeaderAndIsrResult(refusal, {})
            slices = self._slicer.work("LeaderAndIsr")
            errors: dict[Place, int] = {}
            node_id = self._settings.node_id
            for topic in request.topics:
                here = [each.partition for each in topic.partitions if node_id in each.replicas]
                await slices.beside(self.missing.make(topic.name, topic.topic_id, here))
                # Leaders are first, because clients wait for them.
                for sent in sorted(topic.partitions, key=lambda each: each.leader != node_id):
                    place = (topic.name, sent.partition)
                    error_code = self._refused(topic, sent)
                    errors[place] = error_code or self._change(topic.name, sent)
                    if slices.over:
                        await slices.pause()
                await slices.beside(self._identify(topic))
            self._fetchers.close_idle()
            self._lines.write()
            slices.end()
            self._begin_checkpoints()
            self._begin_retries()
            return LeaderAndIsrResult(NONE, errors)

    async def _identify(self, topic: LeaderAndIsrTopic) -> None:
        """Writes the topic id of a topic that had no id before."""
        known = self._logs.topic(topic.name)
        if known is not None and topic.topic_id is not None and known.topic_id == ZERO_UUID:
            try:
                await self._logs.identify(topic.name, topic.topic_id)
            except OSError as error:
                logger.error("topic id can't be written", topic=topic.name, error=str(error))

    def _refused(self, topic: LeaderAndIsrTopic, sent: LeaderAndIsrPartition) -> int:
        """Returns the error code of a partition state that is rejected; NONE if it is accepted."""
        known = self._logs.topic(topic.name)
        replica = self._logs.get(topic.name, sent.partition)
        if replica is not None and replica.role is Role.OFFLINE:
            return KAFKA_STORAGE_ERROR
        if known is not None and differ(known.topic_id, topic.topic_id):
            return INCONSISTENT_TOPIC_ID
        if replica is not None and sent.leader_epoch <= replica.leader_epoch:
            gives_id = known is not None and known.topic_id == ZERO_UUID and topic.topic_id
            is_late = sent.leader_epoch < replica.leader_epoch or not gives_id
            return STALE_CONTROLLER_EPOCH if is_late else NONE
        if self._settings.node_id not in sent.replicas:
            return UNKNOWN_TOPIC_OR_PARTITION
        return KAFKA_STORAGE_ERROR if replica is None else NONE

    def _change(self, topic: str, sent: LeaderAndIsrPartition) -> int:
        """Makes a replica leader or follower. Returns an error code."""
        replica = self._logs.get(topic, sent.partition)
        assert replica is not None
        if sent.leader_epoch == replica.leader_epoch:
            return NONE  # only the topic's id is new
        state = PartitionState(
            sent.controller_epoch,
            sent.leader,
            sent.leader_epoch,
            sent.isr,
            sent.partition_epoch,
            sent.replicas,
            sent.adding,
            sent.removing,
            sent.recovering,
        )
        if sent.leader == self._settings.node_id:
            return self._lead(replica, state)
        self._follow(replica, state)
        return NONE

    def _lead(self, replica: Replica, state: PartitionState) -> int:
        self._fetchers.forget(replica.topic, replica.index)
        try:
            replica.lead(state)
        except LogPoisoned:
            self.missing.could_not_lead(replica.topic, replica.index)
            return KAFKA_STORAGE_ERROR
        self._lines.add(
            "became leader",
            replica.name,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            end_offset=replica.log.log_end_offset,
        )
        self._call(self._hooks.on_leader, replica, state.leader_epoch)
        return NONE

    def _follow(self, replica: Replica, state: PartitionState) -> None:
        """Makes a replica a follower. Fetching starts only if the leader is known to be alive."""
        replica.follow(state)
        if state.leader >= 0:
            self._fetchers.follow(replica)
        else:
            self._fetchers.forget(replica.topic, replica.index)
        self._lines.add(
            "became follower",
            replica.name,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            end_offset=replica.log.log_end_offset,
        )
        self._call(self._hooks.on_follower, replica, state.leader_epoch)

    # -- StopReplica

    async def stop_replica(self, request: StopReplicaRequest) -> LeaderAndIsrResult:
        """Ends the roles of the named replicas, and deletes those that the request marks for
        deletion."""
        async with self._changing:
            refusal = self._refusal(request)
            if refusal:
                return LeaderAndIsrResult(refusal, {})
            slices = self._slicer.work("StopReplica")
            errors: dict[Place, int] = {}
            deleted: list[Place] = []
            for topic in request.topics:
                for sent in topic.partitions:
                    place = (topic.name, sent.partition)
                    errors[place] = self._stop(topic.name, sent)
                    if sent.delete and not errors[place]:
                        deleted.append(place)
                    if slices.over:
                        await slices.pause()
            self._fetchers.close_idle()
            if deleted:
                left = await slices.beside(self._logs.drop(deleted))
                errors |= dict.fromkeys(left, KAFKA_STORAGE_ERROR)
                logger.info("replicas deleted", partitions=named(deleted))
            slices.end()
            return LeaderAndIsrResult(NONE, errors)

    def _stop(self, topic: str, sent: StoppedPartition) -> int:
        """Ends the role of one replica as leader or follower. Returns an error code. An offline
        replica, or a replica with a later leader epoch than ``sent``, keeps its role."""
        replica = self._logs.get(topic, sent.partition)
        if replica is None:
            if sent.delete:
                self.missing.forget(topic, sent.partition)
            return NONE
        if replica.role is Role.OFFLINE:
            return KAFKA_STORAGE_ERROR
        if sent.leader_epoch not in UNCONDITIONAL and sent.leader_epoch < replica.leader_epoch:
            return FENCED_LEADER_EPOCH
        self._stand_by(replica, sent.leader_epoch)
        return NONE

    def _stand_by(self, replica: Replica, leader_epoch: int) -> None:
        self._fetchers.forget(replica.topic, replica.index)
        replica.stand_by()
        self._call(self._hooks.on_follower, replica, leader_epoch)

    def _call(self, hook: Callable[..., None], *args: object) -> None:
        try:
            hook(*args)
        except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
            self._errors.caught("observer", error)

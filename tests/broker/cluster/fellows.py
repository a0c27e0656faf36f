"""Several brokers of one cluster in one process. Logs, fetchers, sockets and APIs are real.

The test defines the controller's requests. A leader writes an ISR change immediately, unless the
test delays the writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.shared.services import ALLOWS_ALL, Services
from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.cluster.controller.control_requests import Message, encode
from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.cluster.peers.inter_broker import parse
from broker.cluster.replicas.fetchers import Fetchers
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.replicas.replicas import LeaderAndIsrResult, ReplicaManager
from broker.cluster.replicas.replication_settings import ReplicationSettings
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.config.config import Config
from broker.config.listeners import Endpoint
from broker.loop.background import Background
from broker.loop.disk_reads import DiskReads
from broker.loop.histogram import Writes
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.metrics.totals import Metrics
from broker.net.advertised import Advertised
from broker.net.clients.stuck_clients import StuckClients
from broker.net.clients.unsupported import Unsupported
from broker.net.connection import TurnWrites
from broker.net.limits.connections import Limits
from broker.net.listener import Listener
from broker.net.long_requests import LongRequests
from broker.net.server import Server
from broker.net.sockets import bind
from broker.quotas.replication_quota import replication_quotas
from broker.time import Time
from broker.topics.checkpoints import FILES
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.registry import Topic
from broker.topics.replica_logs import ReplicaLogs
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.replica_services import LedPartition, ReplicaServices
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import BrokerFact
from log.checkpoint import HIGH_WATERMARK, read_offsets
from log.files.filesystem import FileSystem
from protocol.znodes import brokers
from replication.values import PartitionState, Rules
from tests.broker.edge import eventually
from tests.log.log_tools import NOW_MS, batch
from tests.simulated_files import SimulatedFiles

LISTENER = "PLAINTEXT"
TOPIC_ID = bytes(range(1, 17))
CONTROLLER = 1


class FakeIsrWriter:
    """A fake ISR writer that writes immediately, or when the test calls `_write`."""

    def __init__(self) -> None:
        self.is_held = False
        self.asked: list[tuple[LedPartition, tuple[int, ...], int]] = []

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        self.asked.append((partition, isr, expected_epoch))
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self._write, partition, expected_epoch)

    def _write(self, partition: LedPartition, expected_epoch: int) -> None:
        state = partition.state
        if state is not None and state.partition_epoch == expected_epoch:
            partition.isr_written(expected_epoch + 1)


@dataclass
class FakeGroupCoordinator:
    """A fake group coordinator that has no groups, but knows the partition count of the offsets
    topic."""

    partitions: int = 0
    """The partition count of the offsets topic; 0 if it is unknown."""
    hosted_shards: tuple[()] = ()
    errors: InternalErrors = field(default_factory=InternalErrors)

    def emit(self, events: Iterable[object]) -> None:
        assert not list(events)

    @property
    def is_started(self) -> bool:
        return self.partitions > 0

    @property
    def life(self) -> FakeGroupCoordinator:
        return self


class Fellow:
    """The parts of one broker that replicate logs."""

    def __init__(
        self,
        node_id: int,
        spoken: str = "3.9",
        *,
        fs: FileSystem | None = None,
        time: Time | None = None,
        host: Any = None,
        topics: Callable[[Fellow], Any] | None = None,
        config: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """``host`` receives calls to the controller. ``topics`` creates the object that changes
        topics."""
        self.node_id = node_id
        self._host = host
        self.spoken = parse(spoken)
        self.fs: FileSystem = fs or SimulatedFiles()
        self.time = time or Time()
        self.epoch = 100 + node_id
        self.errors = InternalErrors()
        self.watchdog = Watchdog(self.time)
        self.background = Background(self.time, self.watchdog)
        self.slicer = Slicer(self.time, self.watchdog)
        self.worker = Worker(self.time)
        self.disk_reads = DiskReads(self.time)
        self.config = Config({"listeners": f"{LISTENER}://127.0.0.1:0", **(config or {})})
        self.cache = MetadataCache(node_id)
        self.registry = ClusterRegistry(node_id, "c" * 22, self.cache)
        self.isr = FakeIsrWriter()
        self.topic_configs: dict[str, str] = {}
        """The settings of the topics that this broker creates."""
        self.sessions = FetchSessions(1000, self.time.chance)
        self.fatal: list[str] = []
        self.said: list[tuple[Any, ...]] = []
        """The calls of the broker's callbacks (directory changed, leader, follower, deleted), each
        with its arguments, in order."""
        known = {"listener": LISTENER, "wait_max_ms": 100, "backoff_ms": 20, **settings}
        self.settings = ReplicationSettings(node_id, self.spoken, **known)
        self.long_polls = LongPolls(self.time)
        self.logs = LogManager(self.fs, f"/broker-{node_id}", self.config, self._for_replicas())
        self.replica_logs = ReplicaLogs(
            self.logs, DiskChanges(self.time, self.fatal.append), self.time, self.background
        )
        self.fetchers = Fetchers(
            self.settings,
            self.cache,
            lambda: self.epoch,
            self.time,
            self.slicer,
            self.background.spawn,
        )
        self.manager = ReplicaManager(
            self.settings,
            self.replica_logs,
            self.cache,
            self.fetchers,
            self._configs,
            self._notify,
            lambda: self.epoch,
            self._hooks(),
            self.errors,
            self.slicer,
            self.background,
        )
        self.advertised = Advertised(self.config, node_id)
        self.groups = FakeGroupCoordinator()
        self.topics = None if topics is None else topics(self)
        self.server = self._server()
        self.port = 0
        self.listener = LISTENER

    def _for_replicas(self) -> ReplicaServices:
        return ReplicaServices(
            time=self.time,
            spawn=self.background.spawn,
            errors=self.errors,
            long_polls=self.long_polls,
            fail=self.fatal.append,
            writes=Writes(),
            owned_writes={},
            node_id=self.node_id,
            rules=lambda _: Rules(self.settings.lag_time_max_ms, 1, self.cache.is_alive),
            isr_writer=self.isr,
            quotas=replication_quotas(self.node_id, self.config, self._settings, self.time),
        )

    async def _configs(self, topic: str) -> Mapping[str, str]:
        return {"segment.bytes": "1048576", **self.topic_configs}

    async def _notify(self) -> None:
        self.said.append(("directory changed",))

    def _settings(self, topic: str) -> Mapping[str, Any]:
        return self.logs.settings(topic) or self.config.topic_defaults

    def _hooks(self) -> ReplicaHooks:
        return ReplicaHooks(
            lambda replica, epoch: self.said.append(("leader", replica.name, epoch)),
            lambda replica, epoch: self.said.append(("follower", replica.name, epoch)),
            lambda topic, index: self.said.append(("deleted", topic, index)),
            self._learnt,
        )

    def _learnt(self, learnt: Learnt) -> None:
        self.registry.learnt(learnt)

    def _server(self) -> Server:
        unsupported = Unsupported(self.time)
        stuck_clients = StuckClients(unsupported, lambda *_: False, lambda *_: None)
        return Server(
            self._services(unsupported, stuck_clients),
            SERVED_IN_CLUSTER,
            Limits(),
            writes=TurnWrites(self.time, self.watchdog, self.errors),
            long=LongRequests(self.slicer, self.worker, self.background.spawn),
            disk_reads=self.disk_reads,
            unsupported=unsupported,
            stuck_clients=stuck_clients,
            time=self.time,
            watchdog=self.watchdog,
            internal_errors=self.errors,
        )

    def _services(self, unsupported: Unsupported, stuck_clients: StuckClients) -> Services:
        known: dict[str, Any] = dict.fromkeys(Services.__dataclass_fields__)
        known |= {
            "config": self.config,
            "time": self.time,
            "served": SERVED_IN_CLUSTER,
            "advertised": self.advertised,
            "cluster": self.cache,
            "registry": self.registry,
            "logs": self.logs,
            "long_polls": self.long_polls,
            "fetch_sessions": self.sessions,
            "metrics": Metrics(),
            "slicer": self.slicer,
            "worker": self.worker,
            "disk_reads": self.disk_reads,
            "unsupported": unsupported,
            "stuck_clients": stuck_clients,
            "replicas": self.manager,
            "controller": self._host,
            "topics": self.topics,
            "groups": self.groups,
            "authorizer": ALLOWS_ALL,
        }
        return Services(**known)

    # -- start and stop

    async def start(self) -> None:
        self.open()
        await self.listen()
        self.manager.start()

    def open(self, *topics: Topic) -> None:
        self.fs.make_directory(self.logs.directory)
        self.logs.open_all(topics, in_cluster=True)

    async def listen(self) -> None:
        bound = bind("127.0.0.1", 0, Limits())
        self.port = bound.getsockname()[1]
        self.advertised.listening([self.port])
        await self.server.accept(bound, Listener(Endpoint(self.listener, "127.0.0.1", self.port)))

    @property
    def session_id(self) -> int:
        (session_id,) = self.sessions._sessions
        return session_id

    def checkpoints(self) -> set[tuple[str, int]]:
        paths = [f"{self.logs.directory}/{name}" for name in FILES]
        return {place for path in paths for place in read_offsets(self.fs, path)}

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return read_offsets(self.fs, f"{self.logs.directory}/{HIGH_WATERMARK}")

    async def stop(self) -> None:
        await self.manager.stop()
        await self.server.close()
        self.long_polls.stop()
        await self.background.stop()
        self.worker.stop()

    @property
    def fact(self) -> BrokerFact:
        return BrokerFact(
            self.node_id, self.epoch, (brokers.Endpoint(self.listener, "127.0.0.1", self.port),)
        )

    # -- replicas of the broker

    def replica(self, topic: str = "t", index: int = 0) -> Replica:
        found = self.replica_logs.get(topic, index)
        assert found is not None
        return found

    def end_offset(self, topic: str = "t", index: int = 0) -> int:
        return self.replica(topic, index).log.log_end_offset

    def bytes_of(self, topic: str = "t", index: int = 0) -> bytes:
        """Returns all batches in the files of the log."""
        log = self.replica(topic, index).log
        info = log.read(log.log_start_offset, 1 << 30, True, log.log_end_offset)
        return b"".join(each.file.read(each.position, each.length) for each in info.slices)

    def append(self, count: int = 1, value: bytes = b"v", topic: str = "t", index: int = 0) -> int:
        """Appends ``count`` batches of one record, as a producer would. Returns the log end
        offset."""
        replica = self.replica(topic, index)
        for _ in range(count):
            replica.append(batch(0, value), NOW_MS)
        return replica.log.log_end_offset


@asynccontextmanager
async def cluster(
    *fellows: Fellow, topic_id: bytes | None = TOPIC_ID, shown: bool = True
) -> AsyncIterator[Controller]:
    """Starts the brokers, and stops them at the end of the block. If ``shown`` is True, sends
    metadata to the brokers before the block begins."""
    for each in fellows:
        await each.start()
    controller = Controller(fellows, topic_id)
    if shown:
        controller.show()
    try:
        yield controller
    finally:
        for each in fellows:
            await each.manager.stop()
        for each in fellows:
            await each.stop()
        assert not any(each.errors.counts.total() for each in fellows)


class Controller:
    """A controller whose requests the test defines."""

    def __init__(self, fellows: Iterable[Fellow], topic_id: bytes | None) -> None:
        self.fellows = list(fellows)
        self.epoch = 1
        self.topic_id = topic_id
        self.leader_epoch = -1

    def show(self, *topics: ShownTopic) -> None:
        """Sends UpdateMetadata to every broker. The request contains all brokers, and the topics
        ``topics``."""
        for each in self.fellows:
            self.update(each, *topics)

    def update(self, fellow: Fellow, *topics: ShownTopic) -> int:
        """Sends UpdateMetadata to one broker. Returns the error code."""
        return fellow.manager.update_metadata(self._update(fellow, topics))

    def update_message(self, fellow: Fellow, *topics: ShownTopic, version: int) -> Message:
        return _message(self._update(fellow, topics), version)

    def _update(self, fellow: Fellow, topics: Sequence[ShownTopic]) -> UpdateMetadataRequest:
        facts = [each.fact for each in self.fellows]
        head = (fellow.node_id, fellow.epoch, CONTROLLER, self.epoch)
        return UpdateMetadataRequest(*head, facts, topics)

    def tell_message(self, fellow: Fellow, *topics: LeaderAndIsrTopic, version: int) -> Message:
        return _message(self._tell(fellow, fellow.epoch, topics), version)

    def _tell(
        self, fellow: Fellow, broker_epoch: int, topics: Sequence[LeaderAndIsrTopic]
    ) -> LeaderAndIsrRequest:
        head = (fellow.node_id, broker_epoch, CONTROLLER, self.epoch)
        return LeaderAndIsrRequest(*head, topics, ())

    async def lead(
        self,
        leader: int,
        *,
        isr: Sequence[int] | None = None,
        replicas: Sequence[int] | None = None,
        topic: str = "t",
        partitions: Sequence[int] = (0,),
        to: Iterable[Fellow] | None = None,
        partition_epoch: int = 0,
    ) -> dict[int, LeaderAndIsrResult]:
        """Makes ``leader`` the leader with a new leader epoch. Returns the LeaderAndIsr results by
        broker."""
        self.leader_epoch += 1
        ids = tuple(each.node_id for each in self.fellows) if replicas is None else tuple(replicas)
        state = PartitionState(
            self.epoch,
            leader,
            self.leader_epoch,
            tuple(ids if isr is None else isr),
            partition_epoch,
            ids,
        )
        receivers = self.fellows if to is None else list(to)
        told = self.told(topic, state, partitions)
        answers = {each.node_id: await self.tell(each, told) for each in receivers}
        self.show(self.shown(topic, state, partitions))
        return answers

    def told(
        self, topic: str, state: PartitionState, partitions: Sequence[int] = (0,)
    ) -> LeaderAndIsrTopic:
        return LeaderAndIsrTopic(
            topic,
            self.topic_id,
            [LeaderAndIsrPartition(index, *state, is_new=False) for index in partitions],
        )

    def shown(
        self, topic: str, state: PartitionState, partitions: Sequence[int] = (0,)
    ) -> ShownTopic:
        return ShownTopic(
            topic,
            self.topic_id,
            [
                ShownPartition(
                    index,
                    state.controller_epoch,
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    state.partition_epoch,
                    state.replicas,
                    (),
                )
                for index in partitions
            ],
        )

    async def tell(
        self, fellow: Fellow, *topics: LeaderAndIsrTopic, broker_epoch: int | None = None
    ) -> LeaderAndIsrResult:
        """Sends LeaderAndIsr to one broker. Returns the result."""
        epoch = fellow.epoch if broker_epoch is None else broker_epoch
        return await fellow.manager.leader_and_isr(self._tell(fellow, epoch, topics))

    async def stop(
        self, fellow: Fellow, leader_epoch: int, *, delete: bool, topic: str = "t", index: int = 0
    ) -> LeaderAndIsrResult:
        """Sends StopReplica for one partition. Returns the result."""
        told = [StoppedPartition(index, leader_epoch, delete)]
        return await self.stop_all(fellow, StoppedTopic(topic, told))

    async def stop_all(self, fellow: Fellow, stopped: StoppedTopic) -> LeaderAndIsrResult:
        return await fellow.manager.stop_replica(
            StopReplicaRequest(fellow.node_id, fellow.epoch, CONTROLLER, self.epoch, [stopped])
        )


def _message(request: Send, version: int) -> Message:
    (message,) = encode(request, lambda _: version, LISTENER)
    return message


async def identical_logs(*fellows: Fellow, topic: str = "t", index: int = 0) -> bytes:
    """Waits until the logs of all brokers are byte-identical. Returns their bytes."""
    await eventually(lambda: len({each.end_offset(topic, index) for each in fellows}) == 1)
    found = {each.bytes_of(topic, index) for each in fellows}
    assert len(found) == 1
    return found.pop()

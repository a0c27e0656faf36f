"""A broker of a cluster that coordinates groups and transactions.

Requests, runtimes and logs are real. The test defines the replicas and the controller's requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.cluster.coordinators.coordinators import Coordinators
from broker.cluster.metadata_cache import Learnt
from broker.cluster.zookeeper.zookeeper import NoNode, Stat
from broker.cores.hooks import Hooks
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.share_state.runtime import share_state_runtime
from broker.cores.transactions.markers import MarkerSender
from broker.cores.transactions.runtime import TransactionRuntime, transaction_runtime
from broker.in_cluster import ClusterTransactionDuties
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC, uuid_text
from broker.topics.replicas.replica import Replica
from broker.topics.ticket import Ticket
from log.partition_log import PartitionLog
from log.values import Marker
from protocol.znodes.topics import TopicNode, encode_topic, topic_path
from replication.values import Rules
from share.persister.config import ShareStateConfig
from tests.broker.edge import EdgeBroker, eventually
from tests.broker.partitions import replica_for, state
from transactions.config import TransactionConfig
from transactions.producer_ids import ProducerIds

TOPIC_ID = bytes([9] * 16)


class Nodes:
    """A fake ZooKeeper that contains the nodes of topics."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.reads = 0

    async def get(self, path: str) -> tuple[bytes, Stat]:
        self.reads += 1
        for topic, count in self.counts.items():
            if topic_path(topic) == path:
                assignment = dict.fromkeys(range(count), (1, 2))
                node = TopicNode(assignment, uuid_text(TOPIC_ID))
                return encode_topic(node), Stat(0, 1, 1, 0, 0, 0)
        raise NoNode(path)


class Leaders:
    """Fake partition leaders, which store each marker with the ticket for its response."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, Marker, Ticket]] = []

    def write(self, topic: str, partition: int, marker: Marker, ticket: Ticket) -> None:
        self.asked.append((topic, partition, marker, ticket))

    def coordinator_epoch(self, topic: str, partition: int, producer_id: int) -> int:
        return -1


class CoordinatingBroker(EdgeBroker):
    """Broker 1 with replicas of the coordinator topics. The test sets the leader of each
    replica."""

    def __init__(
        self,
        directory: Path,
        *,
        partitions: int = 2,
        rules: Rules | None = None,
        settings: RuntimeSettings | None = None,
    ) -> None:
        super().__init__(directory, partitions=partitions, settings=settings)
        self.rules = rules
        self.nodes = Nodes({OFFSETS_TOPIC: partitions, TRANSACTION_TOPIC: partitions})
        self.leaders = Leaders()
        self.markers = MarkerSender(
            lambda: self.transactions,
            lambda *_: self.leaders,
            self.slicer,
            self.time,
            self.spawn_task,
        )
        self.producer_ids = ProducerIds()
        self.producer_ids.add(range(1000, 2000))
        core = TransactionConfig(marker_sender=self.markers, producer_ids=self.producer_ids)
        self.transactions: TransactionRuntime = transaction_runtime(
            RuntimeSettings(core), self.time, self.slicer, None, Hooks(), ClusterTransactionDuties
        )
        self.replicas: dict[tuple[str, int], Replica] = {}
        zookeeper: Any = self.nodes
        self.coordinators = Coordinators(
            self.groups,
            self.transactions,
            share_state_runtime(RuntimeSettings(ShareStateConfig()), self.time, self.slicer),
            zookeeper,
            self.slicer,
            self.spawn_task,
            lambda: None,
        )

    async def __aexit__(self, *args: object) -> None:
        self.markers.stop()
        await self.transactions.stop()
        await super().__aexit__(*args)

    @property
    def log_exists(self) -> bool:
        return False

    def spawn_task(self, work: Any, name: str) -> Any:
        task = self.watchdog.task(name, work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def replica(self, index: int = 0, topic: str = OFFSETS_TOPIC) -> Replica:
        """Returns a replica. The first call opens its log from disk."""
        known = self.replicas.get((topic, index))
        if known is None:
            path = str(self.directory / f"{topic}-{index}")
            log = PartitionLog.open(self.fs, path, topic, index, self.log_config)
            self.logs.append(log)
            known = replica_for(log, rules=self.rules, time=self.time)
            self.replicas[topic, index] = known
            self.served_partitions.append(known)
        return known

    # -- requests of the controller

    def lead(
        self,
        index: int = 0,
        epoch: int = 1,
        isr: tuple[int, ...] = (1,),
        topic: str = OFFSETS_TOPIC,
    ) -> Replica:
        """Makes broker 1 the leader of a partition with the ISR ``isr``."""
        replica = self.replica(index, topic)
        replica.lead(state(1, epoch, isr, epoch, (1, 2)))
        self.coordinators.on_leader(replica, epoch)
        return replica

    def follow(self, index: int = 0, epoch: int = 2, topic: str = OFFSETS_TOPIC) -> None:
        """Makes broker 2 the leader of a partition."""
        replica = self.replica(index, topic)
        replica.follow(state(2, epoch, (1, 2), epoch, (1, 2)))
        self.coordinators.on_follower(replica, epoch)

    def learnt(self, *topics: str) -> None:
        """Notifies the coordinators that the topics have new metadata."""
        self.coordinators.on_learnt(Learnt((), topics))

    def deleted(self, *topics: str) -> None:
        """Notifies the coordinators that the topics were deleted. Each deleted topic had one
        partition."""
        for topic in topics:
            self.coordinators.on_deleted(topic, 0)
        self.coordinators.on_learnt(Learnt(tuple((topic, 0) for topic in topics), topics))

    async def serves(self, index: int = 0, topic: str = OFFSETS_TOPIC) -> None:
        """Waits until the shard of the partition is loaded."""
        await eventually(lambda: self.phase(index, topic) == "active")

    def phase(self, index: int = 0, topic: str = OFFSETS_TOPIC) -> str:
        """Returns the phase of the partition's shard; "" if the partition has no shard."""
        runtime: Runtime[Any, Any] = self.groups if topic == OFFSETS_TOPIC else self.transactions
        hosted = runtime.life.by_partition.get(index)
        return "" if hosted is None else hosted.phase.value

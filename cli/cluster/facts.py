"""Reads the facts of a cluster: its brokers, leaders and in-sync replicas. Most facts come from the
controller's Metadata response, because the controller knows changes first. If the controller does
not answer, any other broker is used. `read_views` reads the metadata of each broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cli import output
from cli.client.cluster import Cluster
from cli.client.configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
    describe,
    describe_each,
)
from cli.client.offsets_at import Partition
from cli.errors import CommandError, check
from client.connection import Value, name_of

_MIN_ISR = "min.insync.replicas"
_ZOOKEEPER = "zookeeper.connect"
_SESSIONS = {
    "ZooKeeper": "zookeeper.session.timeout.ms",
    "the controller": "broker.session.timeout.ms",
}
"""The name of the setting with the session timeout of brokers, by the owner of the session:
ZooKeeper or the controller. A dead broker is unregistered after this timeout."""
_TOPICS_AT_ONCE = 500


class Broker(NamedTuple):
    """A registered broker."""

    node_id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        return name_of((self.host, self.port))


class Replicas(NamedTuple):
    """The replicas of one partition, as broker ids."""

    topic: str
    partition: int
    leader: int
    """The leader's broker id; -1 without a leader."""
    assigned: tuple[int, ...]
    """All replicas. The first is the preferred leader."""
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds. They do not need to be in sync yet."""
    moving: bool = False
    min_isr: int | None = None
    """The topic's min.insync.replicas; None if unknown."""

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def has_leader(self) -> bool:
        """True if the partition has a leader, so that clients can read and write it."""
        return self.leader >= 0

    @property
    def lagging(self) -> tuple[int, ...]:
        """Returns the replicas that are not in the ISR, except replicas that a reassignment
        adds."""
        in_sync = {*self.in_sync, *self.adding}
        return tuple(each for each in self.assigned if each not in in_sync)

    @property
    def under_min_isr(self) -> bool:
        """True if the partition has too few in-sync replicas for writes with acks=all. The required
        number is min.insync.replicas, or the number of replicas if that is lower."""
        least = min(self.min_isr or 0, len(self.assigned))
        return self.has_leader and len(self.in_sync) < least


class Facts(NamedTuple):
    """A cluster as one broker sees it."""

    cluster_id: str | None
    controller: int
    """The controller's broker id; -1 without a controller."""
    topics: int
    brokers: Mapping[int, Broker]
    partitions: Mapping[Partition, Replicas]
    moves_known: bool = True
    """True if the brokers list reassignments, which they do since Kafka 2.4."""

    @property
    def down(self) -> list[int]:
        """The brokers that have replicas but are not registered."""
        assigned = {node for each in self.partitions.values() for node in each.assigned}
        return sorted(assigned - self.brokers.keys())


class Session(NamedTuple):
    """The session that keeps a broker registered. ``keeper`` is ZooKeeper or the controller."""

    keeper: str
    setting: str
    timeout_ms: int


Moves = Mapping[Partition, tuple[int, ...]]
"""The partitions that are being reassigned, each with the replicas that its reassignment adds."""


def facts_of(answer: Value, moves: Moves | None, min_isr: Mapping[str, int]) -> Facts:
    """Returns the facts from a Metadata response, reassignments, and the min.insync.replicas of
    each topic."""
    brokers = [
        Broker(each["node_id"], each["host"], each["port"], each["rack"])
        for each in answer["brokers"]
    ]
    partitions = [
        Replicas(
            topic["name"],
            each["partition_index"],
            each["leader_id"],
            tuple(each["replica_nodes"]),
            tuple(each["isr_nodes"]),
            (moves or {}).get((topic["name"], each["partition_index"]), ()),
            (topic["name"], each["partition_index"]) in (moves or {}),
            min_isr.get(topic["name"]),
        )
        for topic in answer["topics"]
        for each in topic["partitions"]
    ]
    return Facts(
        answer["cluster_id"],
        answer["controller_id"],
        len(answer["topics"]),
        {each.node_id: each for each in sorted(brokers)},
        {each.key: each for each in sorted(partitions)},
        moves is not None,
    )


def read_facts(cluster: Cluster) -> Facts:
    """Returns the facts of a cluster. Facts that could not be read are omitted, with a warning."""
    try:
        answer = cluster.metadata(None, broker=cluster.controller())
    except CommandError:  # the controller has just gone down
        answer = cluster.metadata(None)
    short = [
        topic["name"]
        for topic in answer["topics"]
        if any(len(p["isr_nodes"]) < len(p["replica_nodes"]) for p in topic["partitions"])
    ]
    return facts_of(answer, _moves(cluster), _min_isr(cluster, short))


def _moves(cluster: Cluster) -> Moves | None:
    """Returns the reassignments in progress; None if the controller does not list them."""
    try:
        broker = cluster.controller()
        if not broker.supports("ListPartitionReassignments", 0):
            return None
        asked = {"timeout_ms": int(cluster.timeout_s * 1000), "topics": None}
        answer = broker.call("ListPartitionReassignments", asked)
        check("reassignments", answer)
    except CommandError as error:
        output.warn(f"reassignments are unknown: {error.why}")
        return None
    return {
        (topic["name"], each["partition_index"]): tuple(each["adding_replicas"])
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def _min_isr(cluster: Cluster, topics: list[str]) -> dict[str, int]:
    """Returns min.insync.replicas by topic. Topics whose settings can't be read are omitted, with a
    warning."""
    found: dict[str, int] = {}
    for start in range(0, len(topics), _TOPICS_AT_ONCE):
        asked = [Resource(TOPIC_RESOURCE, name) for name in topics[start : start + _TOPICS_AT_ONCE]]
        try:
            described = describe_each(cluster.any, asked, [_MIN_ISR], explained=False)
        except CommandError as error:
            output.warn(f"{_MIN_ISR} of some topics is unknown: {error.why}")
            continue
        for topic, entries in described.items():
            value = entries.get(_MIN_ISR, {}).get("value")
            if value is not None:
                found[topic.name] = int(value)
    return found


def read_session(cluster: Cluster, broker: Broker) -> Session | None:
    """Returns the session settings of the cluster; None if ``broker`` does not return its
    settings."""
    resource = Resource(BROKER_RESOURCE, str(broker.node_id))
    names = [_ZOOKEEPER, *_SESSIONS.values()]
    try:
        settings = describe(cluster.connect(broker.host, broker.port), resource, names)
    except CommandError:
        return None
    has_zookeeper = bool(settings.get(_ZOOKEEPER, {}).get("value"))
    keeper = "ZooKeeper" if has_zookeeper else "the controller"
    value = settings.get(_SESSIONS[keeper], {}).get("value")
    return None if value is None else Session(keeper, _SESSIONS[keeper], int(value))


def read_views(cluster: Cluster, brokers: Iterable[Broker]) -> dict[int, Facts | str]:
    """Returns the metadata of each broker by broker id, or the reason why the broker did not
    answer."""
    found: dict[int, Facts | str] = {}
    for broker in output.progress(list(brokers), "querying brokers"):
        try:
            connection = cluster.connect(broker.host, broker.port)
            answer = cluster.metadata(None, broker=connection)
        except CommandError as error:
            found[broker.node_id] = error.why
        else:
            found[broker.node_id] = facts_of(answer, None, {})
    return found

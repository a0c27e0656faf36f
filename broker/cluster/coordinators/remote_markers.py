"""Writes transaction markers to partitions that other brokers lead. A WriteTxnMarkers request
contains the waiting markers for one broker.

`MarkerSender` handles the error codes: it repeats requests, with pauses, until each partition has
its marker. If a partition's leader is unknown or can't be reached, the error code is
NOT_LEADER_OR_FOLLOWER or NETWORK_EXCEPTION; the metadata may name another leader before the next
attempt. It is possible that the metadata does not list a new partition yet. Therefore a partition
that is not listed counts as deleted only if its topic's node does not exist in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.cluster.peers.fitting import Value, fitting
from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.peers.lasting_peer import LastingPeer, PeerSettings
from broker.cluster.peers.outboxes import Outboxes, Spawn
from broker.cluster.peers.peer import PeerLost
from broker.cluster.zookeeper.zookeeper import ZooKeeper, ZooKeeperError
from broker.cores.transactions.local_markers import LocalMarkers
from broker.cores.transactions.sending import Destination
from broker.time import Time
from broker.topics.cluster_view import NO_LEADER, ClusterView
from broker.topics.logs import LogManager
from broker.topics.ticket import Ticket
from log.values import Marker
from protocol.errors import (
    NETWORK_EXCEPTION,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
)
from protocol.messages.write_txn_markers import API
from protocol.znodes.topics import topic_path

PARTITIONS_AT_ONCE = 1000
"""The maximum number of partitions in one request. Encoding such a request takes about 3 ms."""
_AS_TAKEN = {
    UNKNOWN_TOPIC_OR_PARTITION: NOT_LEADER_OR_FOLLOWER,
    UNSUPPORTED_FOR_MESSAGE_FORMAT: NONE,
}
"""Replaces some error codes in a leader's response to a marker before the ticket gets them. A newly
elected leader may not know the partition yet. A partition with an old message format has no
transactions, so it needs no marker."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """A marker that has to be written to one partition."""

    topic: str
    partition: int
    marker: Marker
    ticket: Ticket
    weight = 1

    @property
    def key(self) -> tuple[str, int, int]:
        """The topic, partition and producer id, which identify the marker's result in the
        response."""
        return self.topic, self.partition, self.marker.producer_id

    def lost(self, _: PeerLost) -> None:
        self.ticket.take(NETWORK_EXCEPTION)


class RemoteMarkers:
    """Implements `Destination` for partitions that other brokers lead. Only the event loop's thread
    may use this class."""

    def __init__(
        self,
        cluster: ClusterView,
        settings: PeerSettings,
        spoken: InterBroker,
        zookeeper: ZooKeeper,
        time: Time,
        spawn: Spawn,
    ) -> None:
        self._cluster = cluster
        self._node_id = settings.node_id
        self._version = spoken.version_of("WriteTxnMarkers")
        self._zookeeper = zookeeper
        self._spawn = spawn
        self._outboxes = Outboxes(
            "markers", cluster, settings, self._ask, PARTITIONS_AT_ONCE, time, spawn
        )
        self._unknown: dict[str, list[Ticket]] = {}
        """The tickets of markers for topics that this broker's metadata does not list, by topic.
        They wait until ZooKeeper shows whether the topic exists."""

    def write(self, topic: str, partition: int, marker: Marker, ticket: Ticket) -> None:
        found = self._cluster.partition(topic, partition)
        if self._version is None:
            ticket.take(UNSUPPORTED_VERSION)
        elif found is None:
            self._look_for(topic, ticket)
        elif found.leader in (NO_LEADER, self._node_id):
            ticket.take(NOT_LEADER_OR_FOLLOWER)
        else:
            self._outboxes.put(found.leader, _Wanted(topic, partition, marker, ticket))

    def coordinator_epoch(self, topic: str, partition: int, producer_id: int) -> int:  # noqa: ARG002
        """Returns -1, because only the partition's leader knows the coordinator epoch."""
        return -1

    def stop(self) -> None:
        self._outboxes.stop()

    # -- topics missing from metadata

    def _look_for(self, topic: str, ticket: Ticket) -> None:
        waiting = self._unknown.get(topic)
        if waiting is None:
            self._unknown[topic] = [ticket]
            self._spawn(self._look(topic), "markers")
        else:
            waiting.append(ticket)

    async def _look(self, topic: str) -> None:
        error_code = NOT_LEADER_OR_FOLLOWER
        try:
            if await self._zookeeper.exists(topic_path(topic)) is None:
                error_code = UNKNOWN_TOPIC_OR_PARTITION
        except ZooKeeperError:
            pass  # the sender repeats the request
        for ticket in self._unknown.pop(topic):
            ticket.take(error_code)

    # -- a request

    async def _ask(self, peer: LastingPeer, batch: list[_Wanted]) -> None:
        version = self._version
        assert version is not None
        request = fitting(API.request, version, {"markers": _markers(batch)})
        answer = await peer.call(API, version, request)
        errors = _errors(answer)
        for wanted in batch:
            error_code = errors.get(wanted.key, NETWORK_EXCEPTION)
            wanted.ticket.take(_AS_TAKEN.get(error_code, error_code))


def _markers(batch: Sequence[_Wanted]) -> list[Value]:
    """Returns the field ``markers`` of a request: each marker with its partitions, grouped by
    topic."""
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for wanted in batch:
        topics = by_marker.setdefault(wanted.marker, {})
        topics.setdefault(wanted.topic, []).append(wanted.partition)
    return [
        {
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "transaction_result": marker.committed,
            "topics": [
                {"name": name, "partition_indexes": indexes} for name, indexes in topics.items()
            ],
            "coordinator_epoch": marker.coordinator_epoch,
            "transaction_version": marker.rules,
        }
        for marker, topics in by_marker.items()
    ]


def _errors(answer: dict[str, Any]) -> dict[tuple[str, int, int], int]:
    return {
        (topic["name"], each["partition_index"], marker["producer_id"]): each["error_code"]
        for marker in answer["markers"]
        for topic in marker["topics"]
        for each in topic["partitions"]
    }


class Destinations:
    """Chooses the object that writes the markers of a partition: `LocalMarkers` if this broker
    leads the partition, otherwise `RemoteMarkers`."""

    def __init__(self, logs: LogManager, local: LocalMarkers, remote: RemoteMarkers) -> None:
        self._logs = logs
        self._local = local
        self._remote = remote

    def of(self, topic: str, partition: int) -> Destination:
        """Returns the local or remote destination for a partition. The role that LeaderAndIsr
        assigned decides, not the metadata."""
        found = self._logs.get(topic, partition)
        led = found is not None and found.serving_error(-1) == NONE
        return self._local if led else self._remote

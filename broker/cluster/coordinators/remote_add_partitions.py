"""For partitions that this broker leads, asks coordinators on other brokers to add the partitions
to a transaction, or to verify that they were added.

The requests are AddPartitionsToTxn v4 and later (KIP-890), batched by coordinator. If the producer
adds its partitions itself, a request only verifies them. A coordinator of an older release does not
support these versions. In this case, a request to verify counts as successful, since brokers of
that release do not verify either. A request to add partitions fails with INVALID_TXN_STATE.

If two requests for the same transactional id are queued, the request with the lower producer epoch
is rejected. If their epochs are equal, the later request waits for the next batch.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.cluster.peers.fitting import Value
from broker.cluster.peers.lasting_peer import LastingPeer, NotServed, PeerSettings
from broker.cluster.peers.outboxes import Outboxes, Spawn
from broker.cluster.peers.peer import PeerLost
from broker.time import Time
from broker.topics.cluster_view import NO_LEADER, ClusterView
from broker.topics.registry import TRANSACTION_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    PRODUCER_FENCED,
)
from protocol.messages.add_partitions_to_txn import API
from transactions.calls import Partitions

PARTITIONS_AT_ONCE = 1000
"""The maximum number of partitions in one request. Encoding such a request takes about 3 ms."""
FIRST_FROM_BROKERS = 4
_AS_TAKEN = {
    PRODUCER_FENCED: INVALID_PRODUCER_EPOCH,
    CLUSTER_AUTHORIZATION_FAILED: INVALID_TXN_STATE,
}
"""Error codes of the coordinator, each with the error code that the producer gets instead."""

Errors = Mapping[tuple[str, int], int]
"""The error code of each topic and partition; NONE if the partition is in the transaction."""


@dataclass(slots=True, eq=False)
class _Asking:
    """Partitions to add to a producer's transaction, which wait for the coordinator's answer."""

    key: str
    """The transactional id, which identifies the entry in the batched request."""
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    verify_only: bool
    answer: Future[Errors]

    @property
    def weight(self) -> int:
        return sum(len(ids) for _, ids in self.partitions)

    def lost(self, _: PeerLost) -> None:
        self.take_all(NETWORK_EXCEPTION)

    def take_all(self, error_code: int) -> None:
        self.take(dict.fromkeys(self.places(), error_code))

    def take(self, errors: Errors) -> None:
        """Passes the result to the caller, unless the caller has stopped waiting."""
        if not self.answer.done():
            self.answer.set_result(errors)

    def places(self) -> list[tuple[str, int]]:
        return [(topic, index) for topic, indexes in self.partitions for index in indexes]

    def value(self) -> Value:
        """Returns the fields of the transaction's entry in AddPartitionsToTxn."""
        return {
            "transactional_id": self.key,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "verify_only": self.verify_only,
            "topics": [
                {"name": topic, "partitions": list(indexes)} for topic, indexes in self.partitions
            ],
        }


class RemoteEnlisting:
    """Sends AddPartitionsToTxn to the coordinators on other brokers. Only the event loop's thread
    may use this class."""

    def __init__(
        self,
        cluster: ClusterView,
        settings: PeerSettings,
        partition_count: Callable[[], int],
        time: Time,
        spawn: Spawn,
    ) -> None:
        """``partition_count`` returns the number of partitions of ``__transaction_state``; 0 before
        the topic exists."""
        self._cluster = cluster
        self._node_id = settings.node_id
        self._partition_count = partition_count
        self._outboxes: Outboxes[_Asking] = Outboxes(
            "enlisting", cluster, settings, self._ask, PARTITIONS_AT_ONCE, time, spawn
        )

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        *,
        verify_only: bool,
    ) -> Errors:
        """Sends partitions to the coordinator of a transactional id. Returns an error code for each
        partition.

        The error is COORDINATOR_NOT_AVAILABLE if the coordinator's partition has no leader, and
        NETWORK_EXCEPTION if the connection to the coordinator was lost.
        """
        answer: Future[Errors] = get_running_loop().create_future()
        asking = _Asking(
            transactional_id, producer_id, producer_epoch, partitions, verify_only, answer
        )
        coordinator = self._coordinator(transactional_id)
        if coordinator == NO_LEADER:
            asking.take_all(COORDINATOR_NOT_AVAILABLE)
        elif coordinator == self._node_id:
            asking.take_all(NOT_COORDINATOR)  # LeaderAndIsr has not arrived yet
        elif not self._is_outdated(coordinator, asking):
            self._outboxes.put(coordinator, asking)
        return await answer

    def stop(self) -> None:
        self._outboxes.stop()

    def _coordinator(self, transactional_id: str) -> int:
        count = self._partition_count()
        if not count:
            return NO_LEADER
        found = self._cluster.partition(TRANSACTION_TOPIC, partition_for(transactional_id, count))
        return NO_LEADER if found is None else found.leader

    def _is_outdated(self, coordinator: int, asking: _Asking) -> bool:
        """Compares the producer epoch of ``asking`` with the epochs of the queued requests for the
        same transactional id. Queued requests with a lower epoch end with INVALID_PRODUCER_EPOCH.
        If a queued request has a higher epoch, ``asking`` ends with this error, and the method
        returns True."""
        queued = self._outboxes.queued(coordinator)
        for other in [each for each in queued if each.key == asking.key]:
            if other.producer_epoch > asking.producer_epoch:
                asking.take_all(INVALID_PRODUCER_EPOCH)
                return True
            if other.producer_epoch < asking.producer_epoch:
                queued.remove(other)
                other.take_all(INVALID_PRODUCER_EPOCH)
        return False

    async def _ask(self, peer: LastingPeer, batch: list[_Asking]) -> None:
        try:
            version = await peer.version_of(API)
            if version < FIRST_FROM_BROKERS:
                raise NotServed(f"the coordinator does not support {API.name} from brokers")
        except NotServed:
            for asking in batch:
                asking.take_all(NONE if asking.verify_only else INVALID_TXN_STATE)
            return
        request = {"transactions": [asking.value() for asking in batch]}
        answer = await peer.call(API, version, request)
        of_all: int = answer["error_code"]
        by_id = {
            each["transactional_id"]: each["topic_results"]
            for each in answer["results_by_transaction"]
        }
        for asking in batch:
            if of_all:
                asking.take_all(_AS_TAKEN.get(of_all, of_all))
            else:
                asking.take(_errors(asking, by_id.get(asking.key, ())))


def _errors(asking: _Asking, topics: Any) -> Errors:
    """Returns the error code of each partition of one transaction.

    A partition that the response omits gets NETWORK_EXCEPTION, so that it is requested again.
    """
    errors = dict.fromkeys(asking.places(), NETWORK_EXCEPTION)
    for topic in topics:
        for each in topic["results_by_partition"]:
            place = topic["name"], each["partition_index"]
            if place in errors:
                error_code = each["partition_error_code"]
                errors[place] = _AS_TAKEN.get(error_code, error_code)
    return errors

"""Transactional producers and readers in a cluster, which connect to each broker that they need.

`tests/simulation/transactions` decides their requests and checks. Its module `truth.py` reads the
logs when the cluster is at rest. In a cluster, the transaction coordinator, the group coordinator
and the partition leaders are different brokers. Each of these roles may move during the
transaction.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import TYPE_CHECKING, Any

from offsets.partitioner import partition_for
from protocol.errors import CONCURRENT_TRANSACTIONS, NONE
from tests.simulation.cluster.client import (
    ClusterClient,
    coordinator_in,
    coordinator_request,
    leader_in,
    metadata_request,
)
from tests.simulation.cluster.clients import OFFSETS_PARTITIONS
from tests.simulation.transactions.ledger import Deed, Place
from tests.simulation.transactions.producer import TransactionalProducer
from tests.simulation.transactions.readers import CommittedReader, OffsetsReader
from tests.simulation.whole.client import Sent, WireRequest
from tests.simulation.whole.disk_log import OFFSETS_TOPIC

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

TRANSACTION_TOPIC = "__transaction_state"
STATE_PARTITIONS = 2
_OF_GROUP, _OF_ID = "group", "transactional id"


class Transactor(ClusterClient, TransactionalProducer):
    """A transactional producer. When the faults have ended, it ends its open transaction and makes
    one more transaction."""

    def __init__(self, cluster: ClusterWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(cluster, name, host, chance, rules=1)
        self._done_in_calm = False

    @property
    def errand(self) -> Hashable:
        """Returns the target of the next request: a partition, or the key of a coordinator."""
        steps = self.state.steps
        name = steps[0].request.name if steps else ""
        if name == "Produce":
            topic = steps[0].request.value["topic_data"][0]
            return topic["name"], topic["partition_data"][0]["index"]
        return _OF_GROUP if name == "TxnOffsetCommit" else _OF_ID

    def look(self) -> WireRequest:
        match self.errand:
            case (str(topic), int()):
                return metadata_request([topic])
            case "group":
                return coordinator_request(self.group_id, 0)
        return coordinator_request(self.transactional_id, 1)

    def found(self, answer: dict[str, Any]) -> int:
        match self.errand:
            case (str(topic), int(partition)):
                return leader_in(answer, topic, partition)
        return coordinator_in(answer)

    @property
    def _is_at_the_one(self) -> bool:
        """Returns True if the broker to which the producer is connected must handle the producer's
        next request. It must be the leader or coordinator both according to ZooKeeper and according
        to itself."""
        match self.errand:
            case (str(topic), int(partition)):
                return self.cluster.leads(self._at, topic, partition)
            case "group":
                partition = partition_for(self.group_id, OFFSETS_PARTITIONS)
                return self.cluster.leads(self._at, OFFSETS_TOPIC, partition)
        partition = partition_for(self.transactional_id, STATE_PARTITIONS)
        return self.cluster.leads(self._at, TRANSACTION_TOPIC, partition)

    def excused(self, deed: Deed) -> bool:
        return super().excused(deed) or not self._is_at_the_one

    @property
    def has_done_enough(self) -> bool:
        return self.calm and self._done_in_calm

    def lost(self) -> None:
        ClusterClient.lost(self)
        TransactionalProducer.lost(self)

    def work(self) -> None:
        TransactionalProducer.act(self)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        errand = self.errand
        code = self.take(sent, answer)
        if code not in (NONE, CONCURRENT_TRANSACTIONS):
            self._found.pop(errand, None)
        elif sent.request.name == "EndTxn" and code == NONE:
            self.served += 1
            self._done_in_calm = self.calm


class ReaderOfCommitted(ClusterClient, CommittedReader):
    """Reads the committed records of one partition from its leader."""

    writes = False

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, place: Place
    ) -> None:
        super().__init__(cluster, name, host, chance, place=place)

    def look(self) -> WireRequest:
        return metadata_request([self.place[0]])

    def found(self, answer: dict[str, Any]) -> int:
        return leader_in(answer, *self.place)

    @property
    def surely(self) -> bool:
        return self.cluster.leads(self._at, *self.place)

    def work(self) -> None:
        CommittedReader.act(self)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        if self.take(sent, answer) == NONE:
            self.served += 1
        else:
            self.go_elsewhere()


class ReaderOfOffsets(ClusterClient, OffsetsReader):
    """Fetches the committed offsets of a producer's group from the group coordinator."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, of: Transactor
    ) -> None:
        super().__init__(cluster, name, host, chance, of=of)

    def look(self) -> WireRequest:
        return coordinator_request(self.of.group_id, 0)

    def found(self, answer: dict[str, Any]) -> int:
        return coordinator_in(answer)

    @property
    def surely(self) -> bool:
        partition = partition_for(self.of.group_id, OFFSETS_PARTITIONS)
        return self.cluster.leads(self._at, OFFSETS_TOPIC, partition)

    def work(self) -> None:
        OffsetsReader.act(self)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        if self.take(answer) == NONE:
            self.served += 1
        else:
            self.go_elsewhere()

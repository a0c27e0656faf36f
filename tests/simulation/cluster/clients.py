"""Clients of a simulated cluster: producers, consumers, and clients that commit offsets."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from offsets.partitioner import partition_for
from protocol.errors import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_PRODUCER_ID,
)
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.simulation.cluster.client import (
    ClusterClient,
    coordinator_in,
    coordinator_request,
    leader_in,
    metadata_request,
)
from tests.simulation.transactions import truth as transactions
from tests.simulation.transactions.ledger import Place
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.client import Sent, WireRequest
from tests.simulation.whole.disk_log import OFFSETS_TOPIC

if TYPE_CHECKING:
    from tests.simulation.cluster.truth import PartitionTruth
    from tests.simulation.cluster.world import ClusterWorld

_BEGIN_ANEW = (OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID)
OFFSETS_PARTITIONS = 2
THINKS_MS = (1, 20, 100, 500)


class PartitionClient(ClusterClient):
    """A client of the leader of one partition."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, truth: PartitionTruth
    ) -> None:
        super().__init__(cluster, name, host, chance)
        self.truth = truth

    def look(self) -> WireRequest:
        return metadata_request([self.truth.topic])

    def found(self, answer: dict[str, Any]) -> int:
        return leader_in(answer, self.truth.topic, self.truth.partition)

    @property
    def is_at_leader(self) -> bool:
        """Returns True if the connected broker is the leader according to ZooKeeper and also
        according to itself."""
        return self.cluster.leads(self._at, self.truth.topic, self.truth.partition)


class Producer(PartitionClient):
    """Produces with acks=all. Some producers are idempotent."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        truth: PartitionTruth,
        *,
        once: bool,
    ) -> None:
        super().__init__(cluster, name, host, chance, truth)
        self.once = once
        self._producer = (-1, -1)
        self._sequence = 0
        self._values: list[bytes] = []
        """The values of the batch in flight, which are kept for a retry."""
        self._made = 0

    def work(self) -> None:
        if self.once and self._producer[0] < 0:
            value = {"transactional_id": None, "transaction_timeout_ms": 60_000}
            self.send(WireRequest("InitProducerId", 4, value))
            return
        if not self._values:
            kind = b"once" if self.once else b"some"
            for _ in range(self.chance.choice((1, 1, 3, 20))):
                self._made += 1
                self._values.append(b"%b %b %d" % (kind, self.name.encode(), self._made))
        batch = encode_batch(
            [Record(i, 1_000, None, value) for i, value in enumerate(self._values)],
            base_offset=0,
            compression=self.chance.choice((0, 0, 1, 3)),
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequence if self.once else -1,
        )
        partition = {"index": self.truth.partition, "records": batch}
        topic = {"name": self.truth.topic, "partition_data": [partition]}
        value = {"acks": -1, "timeout_ms": 5_000, "topic_data": [topic]}
        self.send(WireRequest("Produce", self.chance.randint(3, 9), value), list(self._values))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        if sent.request.name == "InitProducerId":
            if answer["error_code"] == NONE:
                self._producer = (answer["producer_id"], answer["producer_epoch"])
                self._sequence = 0
                self.think_after(0)
            else:
                self.go_elsewhere()
            return
        produced = answer["responses"][0]["partition_responses"][0]
        code = produced["error_code"]
        self.cluster.happened[f"produce {code}"] += 1
        if code == NONE:
            for i, value in enumerate(sent.about):
                self.truth.learn(produced["base_offset"] + i, value)
            self.served += 1
            self.cluster.happened["records acknowledged"] += len(sent.about)
            self._sequence += len(sent.about)
            self._values.clear()
        elif code in _BEGIN_ANEW:
            # A deposed leader that does not know of its successor lacks the successor's records.
            assert not self.is_at_leader, f"{self.name} gets {code} for {self._sequence}"
        if code == NONE:
            self.think_after(self.chance.choice(THINKS_MS) * MS)
            return
        if not self.once:
            self._values.clear()
        self.go_elsewhere()


class Consumer(PartitionClient):
    """Reads a partition from its start to its end, and then starts again."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, truth: PartitionTruth
    ) -> None:
        super().__init__(cluster, name, host, chance, truth)
        self._position = 0

    def work(self) -> None:
        if not self.calm and self.chance.random() < 0.03:
            self._position = 0
        partition = {
            "partition": self.truth.partition,
            "fetch_offset": self._position,
            "partition_max_bytes": self.chance.choice((1, 500, 1 << 20)),
        }
        value = {
            "max_wait_ms": self.chance.choice((0, 500, 5_000)),
            "min_bytes": 1,
            "max_bytes": 1 << 22,
            "isolation_level": self.chance.randint(0, 1),
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.truth.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        self.send(WireRequest("Fetch", self.chance.randint(4, 12), value), self._position)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        fetched = answer["responses"][0]["partitions"][0]
        code = fetched["error_code"]
        self.cluster.happened[f"fetch {code}"] += 1
        if code != NONE:
            # A deposed leader that does not know of its successor may have fewer records.
            assert code != OFFSET_OUT_OF_RANGE or not self.is_at_leader, (
                f"{self.name} was told of {self._position}"
            )
            self.go_elsewhere()
            return
        position = sent.about
        data = fetched["records"] or b""
        for header, _ in iter_stored(data, partial=True):
            for record in records_of(data, header):
                if record.offset >= position:
                    assert record.offset == position, (
                        f"{self.name} misses {position}: next is {record.offset}"
                    )
                    position += 1
                self.truth.learn(record.offset, record.value or b"")
        assert position <= max(fetched["high_watermark"], sent.about)
        self.served += 1
        self.cluster.happened["records read"] += position - sent.about
        self._position = position
        self.think_after(self.chance.choice(THINKS_MS) * MS)


class RisingOffset:
    """A series of increasing offsets that one client commits for one partition.

    A fetched offset is normally the offset that the client committed last. It may also be lower: if
    the client gives up a commit and sends a higher offset on another connection, a broker may
    execute the first commit after the second.
    """

    def __init__(self) -> None:
        self._tried = 0
        self._last = -1
        """The last offset that the client knows to be committed, from an acknowledgement or a
        fetch."""
        self._unheard: set[int] = set()
        """The offsets of commits that were sent and neither acknowledged nor returned by an
        OffsetFetch."""

    def next(self) -> int:
        self._tried += 1
        self._unheard.add(self._tried)
        return self._tried

    def acknowledged(self, offset: int) -> None:
        self._last = offset
        self._unheard.discard(offset)

    def taken_over(self) -> None:
        """Forgets the unacknowledged commits of the previous client, because the coordinator
        refuses them from now on."""
        self._unheard.clear()

    def told(self, name: str, offset: int, log: Callable[[], list[int]]) -> None:
        """Checks the committed offset that a coordinator has returned. ``log`` returns the commits
        in the coordinator's log, in order."""
        if offset == self._last:
            return
        told = f"{name} has committed {self._last}, and is told {offset}"
        assert offset in self._unheard, told
        found = [-1, *log()]
        assert self._last in found, f"{told}; the log has {found}"
        behind = found[found.index(self._last) + 1 :]
        assert offset in behind, f"{told}; the log has {found}"
        self.acknowledged(offset)


class CoordinatorClient(ClusterClient):
    """A client of the coordinator of one group."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        group_id: str,
        **more: Any,
    ) -> None:
        super().__init__(cluster, name, host, chance, **more)
        self.group_id = group_id

    def look(self) -> WireRequest:
        return coordinator_request(self.group_id, 0)

    def found(self, answer: dict[str, Any]) -> int:
        return coordinator_in(answer)

    @property
    def is_at_coordinator(self) -> bool:
        """Returns True if the connected broker leads the group's partition of __consumer_offsets,
        according to ZooKeeper and to itself."""
        return self.cluster.leads(self._at, *self._place)

    @property
    def _place(self) -> Place:
        return OFFSETS_TOPIC, partition_for(self.group_id, OFFSETS_PARTITIONS)

    def told(self, rising: RisingOffset, partition: int, offset: int) -> None:
        """Checks a committed offset that the connected broker has returned, if this broker is the
        coordinator."""
        # A deposed coordinator that does not know of its successor may have fewer commits.
        if self.is_at_coordinator:
            rising.told(self.name, offset, lambda: self._in_log(partition))

    def _in_log(self, partition: int) -> list[int]:
        """Returns the group's commits for a partition, in the order of the log on the connected
        broker."""
        found = transactions.read(self.cluster.by_id[self._at].files, self._place)
        return [
            commit.offset
            for _, commit in sorted(found.offsets.items())
            if (commit.group_id, commit.partition) == (self.group_id, partition)
        ]


class OffsetsKeeper(CoordinatorClient):
    """Commits increasing offsets for a group without members, and fetches the committed offsets."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, topic: str
    ) -> None:
        super().__init__(cluster, name, host, chance, name)
        self.topic = topic
        self._offset = RisingOffset()

    def work(self) -> None:
        if self.chance.random() < 0.5:
            topic = {"name": self.topic, "partition_indexes": [0]}
            value: dict[str, Any] = {
                "group_id": self.name,
                "topics": [topic],
                "require_stable": False,
            }
            self.send(WireRequest("OffsetFetch", self.chance.randint(2, 7), value))
            return
        offset = self._offset.next()
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        value = {
            "group_id": self.name,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "retention_time_ms": -1,
            "topics": [{"name": self.topic, "partitions": [partition]}],
        }
        self.send(WireRequest("OffsetCommit", self.chance.randint(2, 8), value), offset)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer.get("error_code", NONE)
        found = answer["topics"][0]["partitions"][0] if code == NONE else {}
        code = code or found["error_code"]
        self.cluster.happened[f"{sent.request.name} {code}"] += 1
        if code != NONE:
            self.go_elsewhere()
            return
        self.served += 1
        if sent.request.name == "OffsetCommit":
            self._offset.acknowledged(sent.about)
        else:
            self.told(self._offset, 0, found["committed_offset"])
        self.think_after(self.chance.choice(THINKS_MS) * MS)

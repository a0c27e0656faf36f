"""Who uses a simulated cluster: producers, consumers, keepers of offsets."""

from __future__ import annotations

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
    """A client of one partition, at its leader."""

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
        """Whether the broker that answers is the leader that ZooKeeper names, and knows it."""
        return self.cluster.leads(self._at, self.truth.topic, self.truth.partition)


class Producer(PartitionClient):
    """Produces with acks=all; idempotent, or not."""

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
        """Of the batch that is being sent, perhaps again."""
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
            # A leader that does not know yet that it is none has not what its successor took.
            assert not self.is_at_leader, f"{self.name} gets {code} for {self._sequence}"
        if code == NONE:
            self.think_after(self.chance.choice(THINKS_MS) * MS)
            return
        if not self.once:
            self._values.clear()
        self.go_elsewhere()


class Consumer(PartitionClient):
    """Reads a partition from its beginning on, again and again."""

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
            # A leader that does not know yet that it is none may have less.
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
    """What one client commits for one partition, ever higher: what it is told never goes back."""

    def __init__(self) -> None:
        self.tried = 0
        self.committed = -1
        """The highest that was acknowledged, or read."""

    def next(self) -> int:
        """The offset to commit now."""
        self.tried += 1
        return self.tried

    def acknowledged(self, offset: int) -> None:
        """A commit of it was."""
        self.committed = max(self.committed, offset)

    def told(self, name: str, offset: int, *, surely: bool) -> None:
        """It was read; ``surely``: from a coordinator that is the one, and knows it."""
        # A coordinator that does not know yet that it is none may have less.
        if surely:
            assert self.committed <= offset, (
                f"{name} has committed {self.committed}, and is told {offset}"
            )
        assert offset <= self.tried, f"{name} has tried {self.tried}, is told {offset}"
        self.acknowledged(offset)


class CoordinatorClient(ClusterClient):
    """A client of one group, at its coordinator."""

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
        """Whether the broker that answers leads the group's partition, and knows it."""
        return self.cluster.leads(
            self._at, OFFSETS_TOPIC, partition_for(self.group_id, OFFSETS_PARTITIONS)
        )


class OffsetsKeeper(CoordinatorClient):
    """Commits ever higher offsets of a group without members, and asks for what is committed."""

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
            offset = found["committed_offset"]
            self._offset.told(self.name, offset, surely=self.is_at_coordinator)
        self.think_after(self.chance.choice(THINKS_MS) * MS)

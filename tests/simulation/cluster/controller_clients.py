"""Clients of the controller, which create topics, add partitions, and reassign replicas."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.simulation.cluster.client import (
    ANYBODY,
    ClusterClient,
    controller_in,
    leader_in,
    metadata_request,
)
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld


class ControllerClient(ClusterClient):
    """A client of the controller of the cluster."""

    copies = 3
    """The number of brokers that a Metadata response must list before the client sends a
    request."""

    def look(self) -> WireRequest:
        return metadata_request([])

    def found(self, answer: dict[str, Any]) -> int:
        return controller_in(answer, self.copies)


class LevelRaiser(ControllerClient):
    """Raises the level of a feature of the cluster to 1."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, feature: str
    ) -> None:
        super().__init__(cluster, name, host, chance)
        self._feature = feature
        self._is_raised = False

    def work(self) -> None:
        if self._is_raised:
            self.served += 1
            self.think_after(1 * S)
            return
        update = {"feature": self._feature, "max_version_level": 1, "upgrade_type": 1}
        value = {"timeout_ms": 5_000, "feature_updates": [update], "validate_only": False}
        self.send(WireRequest("UpdateFeatures", 2, value))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer["error_code"]
        self.cluster.happened[f"UpdateFeatures {code}"] += 1
        self._is_raised = code == NONE
        self.go_elsewhere()


def created(name: str, partitions: int, copies: int) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": copies,
        "assignments": [],
        "configs": [],
    }


class TopicMaker(ControllerClient):
    """Creates the topics of the simulated cluster."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, topics: dict[str, int]
    ) -> None:
        super().__init__(cluster, name, host, chance)
        self.topics = topics
        self.made = False

    def work(self) -> None:
        if self.made:
            self.served += 1
            self.think_after(1_000 * MS)
            return
        topics = [created(name, count, self.copies) for name, count in self.topics.items()]
        value = {"topics": topics, "timeout_ms": 5_000, "validate_only": False}
        self.send(WireRequest("CreateTopics", 5, value))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        codes = {topic["error_code"] for topic in answer["topics"]}
        self.made = codes <= {NONE, TOPIC_ALREADY_EXISTS}
        self.served += self.made
        self.go_elsewhere()


class Mover(ControllerClient):
    """Reassigns partitions, cancels reassignments, and adds partitions to a topic."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        topics: dict[str, int],
        grows: str,
    ) -> None:
        super().__init__(cluster, name, host, chance)
        self.topics = topics
        self.grows = grows
        self.partitions = 0
        """The number of partitions of the growing topic that the controller has acknowledged."""

    def work(self) -> None:
        dice = self.chance.random()
        if self.calm or dice < 0.3:
            value: dict[str, Any] = {"timeout_ms": 5_000, "topics": None}
            self.send(WireRequest("ListPartitionReassignments", 0, value))
        elif dice < 0.4:
            count = max(self.partitions, self.topics[self.grows]) + 1
            topic = {"name": self.grows, "count": count, "assignments": None}
            value = {"topics": [topic], "timeout_ms": 5_000, "validate_only": False}
            self.send(WireRequest("CreatePartitions", self.chance.randint(0, 3), value), count)
        else:
            name = self.chance.choice(list(self.topics))
            index = self.chance.randrange(self.topics[name])
            partition = {"partition_index": index, "replicas": self._replicas()}
            value = {"timeout_ms": 5_000, "topics": [{"name": name, "partitions": [partition]}]}
            self.send(WireRequest("AlterPartitionReassignments", 0, value))

    def _replicas(self) -> list[int] | None:
        """Returns two or three random brokers, or None to cancel a reassignment."""
        if self.chance.random() < 0.1:
            return None
        brokers = sorted(self.cluster.by_id)
        return self.chance.sample(brokers, self.chance.choice((2, 3, 3, 3)))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        name = sent.request.name
        code = answer.get("error_code", NONE)
        if name == "AlterPartitionReassignments" and code == NONE:
            code = answer["responses"][0]["partitions"][0]["error_code"]
        elif name == "CreatePartitions":
            code = answer["results"][0]["error_code"]
            if code == NONE:
                self.partitions = max(self.partitions, sent.about)
        self.served += code == NONE
        self.cluster.happened[f"{name} {code}"] += 1
        if code == NONE:
            self.think_after(self.chance.choice((100, 1_000, 4_000)) * MS)
        else:
            self.go_elsewhere()


class FleetingTopic(ControllerClient):
    """Creates, writes, reads and deletes one topic repeatedly. Each record that it reads must have
    been written since the last creation."""

    def __init__(self, cluster: ClusterWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(cluster, name, host, chance)
        self.life = 1
        self._stage: Callable[[], None] = self._create
        self._made = 0
        self._surely_made = False
        """True if the last CreateTopics of this client created the topic. False if the topic
        existed already: it may be an older topic whose deletion is in progress."""
        self._known: dict[int, bytes] = {}
        """The values acknowledged since the last creation of the topic, by offset."""

    @property
    def errand(self) -> Hashable:
        return self._stage in (self._write, self._read)

    def look(self) -> WireRequest:
        return metadata_request([self.name])

    def found(self, answer: dict[str, Any]) -> int:
        if not self.errand:
            return controller_in(answer, self.copies)
        codes = {topic["error_code"] for topic in answer["topics"]}
        if UNKNOWN_TOPIC_OR_PARTITION in codes and not self._surely_made:
            self._begin_anew()
            return ANYBODY
        return leader_in(answer, self.name, 0)

    def work(self) -> None:
        self._stage()

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = sent.about(answer)
        self.cluster.happened[f"{self.name} {sent.request.name} {code}"] += 1
        if code == NONE:
            self.served += 1
            self.think_after(self.chance.choice((10, 100, 1_000)) * MS)
        else:
            self.go_elsewhere()

    # -- one life of the topic

    def _create(self) -> None:
        value = {
            "topics": [created(self.name, 2, self.copies)],
            "timeout_ms": 5_000,
            "validate_only": False,
        }
        self.send(WireRequest("CreateTopics", self.chance.randint(2, 5), value), self._created)

    def _created(self, answer: dict[str, Any]) -> int:
        code = int(answer["topics"][0]["error_code"])
        if code in (NONE, TOPIC_ALREADY_EXISTS):
            self._surely_made = code == NONE
            self._stage = self._write
        return code

    def _write(self) -> None:
        self._made += 1
        value = b"%d/%d" % (self.life, self._made)
        batch = encode_batch([Record(0, 1_000, None, value)], base_offset=0)
        partition = {"index": 0, "records": batch}
        topic = {"name": self.name, "partition_data": [partition]}
        wanted = {"acks": -1, "timeout_ms": 5_000, "topic_data": [topic]}

        def written(answer: dict[str, Any]) -> int:
            found = answer["responses"][0]["partition_responses"][0]
            if found["error_code"] == NONE:
                self._known[found["base_offset"]] = value
                self._stage = self.chance.choice((self._write, self._write, self._read))
            return int(found["error_code"])

        self.send(WireRequest("Produce", self.chance.randint(3, 9), wanted), written)

    def _read(self) -> None:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        value = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 22,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.name, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        self.send(WireRequest("Fetch", self.chance.randint(4, 12), value), self._was_read)

    def _was_read(self, answer: dict[str, Any]) -> int:
        fetched = answer["responses"][0]["partitions"][0]
        code = int(fetched["error_code"])
        if code != NONE:
            return code
        data = fetched["records"] or b""
        found = {
            record.offset: record.value or b""
            for header, _ in iter_stored(data, partial=True)
            for record in records_of(data, header)
        }
        end = fetched["high_watermark"] if self.cluster.leads(self._at, self.name, 0) else 0
        self._check(found, end)
        self._stage = self.chance.choice((self._write, self._read, self._delete))
        return code

    def _check(self, found: dict[int, bytes], end: int) -> None:
        """Asserts that all records in ``found`` were written after the last creation of the topic,
        and that ``found`` has each acknowledged record below ``end``."""
        for offset, value in found.items():
            life, _, _ = value.partition(b"/")
            assert int(life) == self.life or not self._surely_made, (
                f"{self.name} has {value!r} at {offset} in life {self.life}"
            )
        for offset, value in self._known.items() if self._surely_made else ():
            assert offset >= end or found.get(offset) == value, (
                f"{self.name}: {value!r} at {offset} is {found.get(offset)!r}"
            )

    def _delete(self) -> None:
        value = {"topic_names": [self.name], "timeout_ms": 5_000}
        self.send(WireRequest("DeleteTopics", self.chance.randint(1, 5), value), self._deleted)

    def _deleted(self, answer: dict[str, Any]) -> int:
        """Returns the error code of a deletion. UNKNOWN_TOPIC_OR_PARTITION counts as success,
        because an earlier request may have deleted the topic before its response was lost."""
        code = int(answer["responses"][0]["error_code"])
        if code in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
            self._begin_anew()
            self.cluster.happened["lives of a topic"] += 1
        return code

    def _begin_anew(self) -> None:
        """Forgets all values when the topic is deleted, because the next topic with this name must
        start empty."""
        self.life += 1
        self._known, self._stage, self._surely_made = {}, self._create, False

"""Members of a share group (KIP-932) in a simulated cluster.

One member only sends heartbeats, so that the group exists and the group coordinator initializes the
share partitions. Readers fetch from the leader of a partition, and accept, reject or release the
records that they acquire. Leaders, share coordinators and the group coordinator fail over.

The checks:

- An accepted or rejected record is never delivered again: `ShareTruth.delivered`.
- Within a bounded time, each record is accepted, rejected or archived: `ShareTruth.unrest`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.simulation.cluster.client import ClusterClient, leader_in, metadata_request
from tests.simulation.cluster.clients import THINKS_MS, CoordinatorClient
from tests.simulation.cluster.controller_clients import ControllerClient
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

GROUP = "shared"
DELIVERIES_MAX = 10
"""group.share.delivery.count.limit. A record is archived after this number of deliveries."""
ACCEPT, RELEASE, REJECT = 1, 2, 3
_REMOVED = (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND)


class ShareTruth:
    """The expected state of one share partition: its records, and the acknowledgements by
    members."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.produced: set[int] = set()
        """Offsets of records whose produce request was acknowledged."""
        self.final: dict[int, int] = {}
        """By offset: the time in ns at which a member received the response to its acceptance or
        rejection of the record."""
        self.unheard: set[int] = set()
        """The offsets of records that a member accepted or rejected without receiving the response
        to its request."""
        self.archived: set[int] = set()
        """Offsets that may be archived, because they may have reached the limit of deliveries."""

    def delivered(self, name: str, offset: int, count: int, asked_ns: int) -> None:
        """Checks a record that the member ``name`` has received. Asserts that no member had
        accepted or rejected this record before ``asked_ns``, the time at which ``name`` sent its
        ShareFetch."""
        at_ns = self.final.get(offset)
        assert at_ns is None or at_ns > asked_ns, (
            f"{name} gets {self.topic}-{self.partition} offset {offset} again, delivery {count}"
        )
        if count >= DELIVERIES_MAX:
            self.archived.add(offset)

    def unrest(self) -> list[str]:
        """Returns the reasons why the share partition is not yet at rest."""
        missing = self.produced - self.final.keys() - self.unheard - self.archived
        if not missing:
            return []
        return [f"{self.topic}-{self.partition}: {len(missing)} not accepted, {min(missing)} first"]


class ShareStarter(ControllerClient):
    """Raises the feature level share.version to 1, and sets share.auto.offset.reset of the group to
    earliest."""

    def __init__(self, cluster: ClusterWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(cluster, name, host, chance)
        self._is_raised = False
        self.ready_ns: int | None = None
        """The time in ns at which the feature level and the setting of the share group had been
        changed; None before."""

    def work(self) -> None:
        if not self._is_raised:
            update = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
            value = {"timeout_ms": 5_000, "feature_updates": [update], "validate_only": False}
            self.send(WireRequest("UpdateFeatures", 2, value))
        elif self.ready_ns is None:
            setting = {
                "name": "share.auto.offset.reset",
                "config_operation": 0,
                "value": "earliest",
            }
            resource = {"resource_type": 32, "resource_name": GROUP, "configs": [setting]}
            value = {"resources": [resource], "validate_only": False}
            self.send(WireRequest("IncrementalAlterConfigs", 1, value))
        else:
            self.served += 1
            self.think_after(1 * S)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        if sent.request.name == "UpdateFeatures":
            self._is_raised = answer["error_code"] == NONE
        elif answer["responses"][0]["error_code"] == NONE:
            self.ready_ns = self.cluster.agenda.now_ns
        self.go_elsewhere()


class ShareHeartbeater(CoordinatorClient):
    """A member of the share group. It subscribes to the topic and sends only heartbeats."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        starter: ShareStarter,
        topic: str,
    ) -> None:
        super().__init__(cluster, name, host, chance, GROUP)
        self._starter = starter
        self._topic = topic
        self._epoch = 0

    def work(self) -> None:
        ready_ns = self._starter.ready_ns
        if ready_ns is None or self.cluster.agenda.now_ns < ready_ns + 3 * S:
            self.think_after(200 * MS)  # all brokers get the settings of the group first
            return
        value = {
            "group_id": GROUP,
            "member_id": self.name,
            "member_epoch": self._epoch,
            "rack_id": None,
            "subscribed_topic_names": None if self._epoch else [self._topic],
        }
        self.send(WireRequest("ShareGroupHeartbeat", 1, value))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer["error_code"]
        self.cluster.happened[f"ShareGroupHeartbeat {code}"] += 1
        if code == NONE:
            self._epoch = answer["member_epoch"]
            self.served += 1
            self.think_after(self.chance.choice((100, 500, 1000)) * MS)
            return
        if code in _REMOVED:
            self._epoch = 0
        self.go_elsewhere()


class _LeaderClient(ClusterClient):
    """A client of the leader of one topic partition that a share group reads."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, truth: ShareTruth
    ) -> None:
        super().__init__(cluster, name, host, chance)
        self.truth = truth
        self.topic_id = bytes(16)

    def look(self) -> WireRequest:
        asked = metadata_request([self.truth.topic])
        topics = [{"topic_id": bytes(16), "name": self.truth.topic}]
        value = {**asked.value, "topics": topics}
        value.pop("include_cluster_authorized_operations")
        return WireRequest("Metadata", 12, value)

    def found(self, answer: dict[str, Any]) -> int:
        for topic in answer["topics"]:
            self.topic_id = topic["topic_id"]
        return leader_in(answer, self.truth.topic, self.truth.partition)


class ShareProducer(_LeaderClient):
    """Produces records with acks=all."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, truth: ShareTruth
    ) -> None:
        super().__init__(cluster, name, host, chance, truth)
        self._made = 0

    def work(self) -> None:
        if self.calm:
            self.served += 1
            self.think_after(1 * S)
            return
        count = self.chance.choice((1, 1, 3, 10))
        records = [Record(each, 1_000, None, b"%d" % (self._made + each)) for each in range(count)]
        self._made += count
        partition = {
            "index": self.truth.partition,
            "records": encode_batch(records, base_offset=0, compression=0),
        }
        topic = {"name": self.truth.topic, "partition_data": [partition]}
        value = {"acks": -1, "timeout_ms": 5_000, "topic_data": [topic]}
        self.send(WireRequest("Produce", 9, value), count)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        found = answer["responses"][0]["partition_responses"][0]
        code = found["error_code"]
        self.cluster.happened[f"produce {code}"] += 1
        if code != NONE:
            self.go_elsewhere()
            return
        first = found["base_offset"]
        self.truth.produced |= set(range(first, first + sent.about))
        self.served += 1
        self.think_after(self.chance.choice((20, 100, 500)) * MS)


class ShareReader(_LeaderClient):
    """A member of a share group that fetches and acknowledges records of one share partition."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, truth: ShareTruth
    ) -> None:
        super().__init__(cluster, name, host, chance, truth)
        self._epoch = 0
        self._acquired: list[int] = []
        self._sent: set[int] = set()
        """Offsets whose acceptance or rejection is in flight."""

    def work(self) -> None:
        if not self.calm and self.chance.random() < 0.02:
            self.drop_connection()
            self.think_after(self.chance.choice((100 * MS, 2 * S)))
        elif self._acquired and self._epoch:
            self._acknowledge()
        else:
            self._fetch()

    def _fetch(self) -> None:
        entry = {"partition_index": self.truth.partition, "acknowledgement_batches": []}
        value = {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": self._epoch,
            "max_wait_ms": self.chance.choice((0, 500)),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": self.chance.choice((1, 10, 500)),
            "batch_size": 500,
            "topics": [] if self._epoch else [{"topic_id": self.topic_id, "partitions": [entry]}],
            "forgotten_topics_data": [],
        }
        self.send(WireRequest("ShareFetch", 1, value))

    def _acknowledge(self) -> None:
        count = len(self._acquired) if self.calm else self.chance.randint(1, len(self._acquired))
        offsets, self._acquired = self._acquired[:count], self._acquired[count:]
        kinds = {offset: self._kind() for offset in offsets}
        self._sent = {offset for offset, kind in kinds.items() if kind != RELEASE}
        batches = [
            {"first_offset": offset, "last_offset": offset, "acknowledge_types": [kind]}
            for offset, kind in kinds.items()
        ]
        entry = {"partition_index": self.truth.partition, "acknowledgement_batches": batches}
        value = {
            "group_id": GROUP,
            "member_id": self.name,
            "share_session_epoch": self._epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [entry]}],
        }
        self.send(WireRequest("ShareAcknowledge", 1, value))

    def _kind(self) -> int:
        if self.calm:
            return ACCEPT
        return self.chance.choices((ACCEPT, RELEASE, REJECT), (8, 1, 1))[0]

    def lost(self) -> None:
        super().lost()
        self._forget_session()

    def _forget_session(self) -> None:
        self.truth.unheard |= self._sent
        self._sent = set()
        self._acquired = []
        self._epoch = 0

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        name, code = sent.request.name, answer["error_code"]
        entries = [each for topic in answer["responses"] for each in topic["partitions"]]
        partition_code = entries[0]["error_code"] if entries else NONE
        self.cluster.happened[f"{name} {code or partition_code}"] += 1
        if code != NONE:
            self._forget_session()
            self.go_elsewhere()
            return
        self._epoch += 1
        if name == "ShareAcknowledge":
            self._hear_acknowledged(partition_code)
        elif entries:
            self._hear_records(sent, entries[0])
        if partition_code == NONE:
            self.served += 1
            self.think_after(self.chance.choice(THINKS_MS) * MS)
        else:
            self._forget_session()
            self.go_elsewhere()

    def _hear_acknowledged(self, code: int) -> None:
        if code == NONE:
            now_ns = self.cluster.agenda.now_ns
            self.truth.final.update(dict.fromkeys(self._sent, now_ns))
            self.truth.unheard -= self._sent
            self.cluster.happened["records accepted"] += len(self._sent)
            self._sent = set()

    def _hear_records(self, sent: Sent, entry: dict[str, Any]) -> None:
        # A deposed leader that does not know of its successor may deliver what was accepted there.
        surely = self.cluster.leads(self._at, self.truth.topic, self.truth.partition)
        for each in entry["acquired_records"]:
            for offset in range(each["first_offset"], each["last_offset"] + 1):
                if surely:
                    count = each["delivery_count"]
                    self.truth.delivered(self.name, offset, count, sent.at_ns)
                self._acquired.append(offset)
                self.cluster.happened["records delivered"] += 1
                self.cluster.happened["records delivered again"] += each["delivery_count"] > 1

"""Members of consumer groups (KIP-848) in a simulated cluster.

A member sends heartbeats to the coordinator of its group, gives up partitions before it confirms
the revocation, and commits increasing offsets of its partitions. The faults of the cluster lose,
repeat and delay its requests, and the coordinator fails over.

The checks:

- No member owns a partition that another member has not given up: `ConsumerGroupTruth.owned`.
- An acknowledged commit survives a fail-over: `RisingOffset`.
- The coordinator refuses commits for partitions that the member has given up: `ConsumerMember`.
- A member that sends heartbeats is not removed: `ConsumerMember`.
- Within a bounded time, each partition has an owner: `ConsumerGroupTruth.unrest`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
)
from tests.simulation.cluster.clients import CoordinatorClient, RisingOffset
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

SESSION_S = 15
_REMOVED = (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND)
_ALIVE_S = 8
"""If the last answered heartbeat of a member is at most this number of seconds old, the coordinator
must not remove the member."""
_THINKS_MS = (1, 20, 100, 500)


class ConsumerGroupTruth:
    """The expected state of one group: its members, and the committed offset of each partition of
    its topic."""

    def __init__(self, group_id: str, topic: str, partitions: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.offsets = [RisingOffset() for _ in range(partitions)]
        self.members: list[ConsumerMember] = []

    def owned(self, owner: ConsumerMember, partitions: set[int]) -> None:
        """Asserts that ``partitions``, which ``owner`` has received, are owned by no other member.

        The check ignores a member that got no response within its session timeout: the coordinator
        may have removed it, and it may not know this yet.
        """
        for other in self.members:
            both = set() if other is owner else other.holds & partitions
            silent_s = (owner.cluster.agenda.now_ns - other.heard_ns) / S
            assert not both or silent_s > SESSION_S, (
                f"{self.group_id}: {owner.name} receives {sorted(both)}, which {other.name} has not"
                f" given up; it was answered {silent_s:.3f} s ago"
            )

    def unrest(self) -> list[str]:
        """Returns the reasons why the group is not yet at rest."""
        owned = sorted(each for member in self.members for each in member.holds)
        if owned == list(range(len(self.offsets))):
            return []
        return [f"{self.group_id}: the members own {owned} of {len(self.offsets)} partitions"]


class ConsumerMember(CoordinatorClient):
    """A member with group.protocol=consumer. It may crash or leave, and return with another member
    id. A static member may leave temporarily."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        group: ConsumerGroupTruth,
        instance_id: str | None,
    ) -> None:
        super().__init__(cluster, name, host, chance, group.group_id)
        self.group = group
        self.instance_id = instance_id
        self.heard_ns = 0
        """The send time in ns of the last heartbeat that was answered."""
        self._processes = 0
        self._topic_id = bytes(16)
        group.members.append(self)
        self._begin()

    def _begin(self) -> None:
        self._processes += 1
        self.member_id = f"{self.name}.{self._processes}"
        self._lose_all()

    def _lose_all(self) -> None:
        self.epoch = 0
        self.assigned: set[int] = set()
        self.revoking: set[int] = set()
        self._read: set[int] = set()
        """The assigned partitions whose committed offset the member has already fetched."""
        self._gave_up: dict[int, int] = {}
        """The member epoch at which the member gave up each partition."""
        self._unanswered = 0
        """The number of heartbeats since the last reply. After an unanswered heartbeat, the member
        sends all fields again."""

    @property
    def holds(self) -> set[int]:
        """The partitions that the member owns according to its own state."""
        return self.assigned | self.revoking

    # -- requests

    def work(self) -> None:
        if not self.calm and self.chance.random() < 0.01:
            self.cluster.happened["member restarts"] += 1
            self.drop_connection()
            self._begin()
            self.think_after(self.chance.choice((100 * MS, 3 * S)))
            return
        dice = self.chance.random()
        if self.epoch == 0 or dice < 0.5:
            self._heartbeat()
        elif self.assigned - self._read:
            self._fetch(self.chance.choice(sorted(self.assigned - self._read)))
        elif self._gave_up and dice < 0.6:
            partition = self.chance.choice(sorted(self._gave_up))
            self._commit(partition, self._gave_up[partition])
        elif self._read and dice < 0.8:
            self._commit(self.chance.choice(sorted(self._read)), self.epoch)
        elif self._read and dice < 0.99:
            self._fetch(self.chance.choice(sorted(self._read)))
        elif self.calm:
            self._heartbeat()
        else:
            self._heartbeat(leaves=True)

    def _heartbeat(self, *, leaves: bool = False) -> None:
        if self.revoking and (self.calm or self.chance.random() < 0.5):
            for partition in self.revoking:
                self._gave_up[partition] = self.epoch
            self.revoking = set()
            self._unanswered = max(self._unanswered, 1)
        is_full = self.epoch == 0 or self._unanswered > 0
        leave_epoch = -1 if self.instance_id is None else -2
        value: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": leave_epoch if leaves else self.epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": -1,
            "subscribed_topic_names": None,
            "topic_partitions": None,
        }
        if is_full and not leaves:
            value["rebalance_timeout_ms"] = 60_000
            value["subscribed_topic_names"] = [self.group.topic]
            value["topic_partitions"] = self._owned()
        unanswered, self._unanswered = self._unanswered, self._unanswered + 1
        about = self.epoch, leaves, unanswered
        if leaves:
            self._begin()  # before the reply, which may be lost
        self.send(WireRequest("ConsumerGroupHeartbeat", 1, value), about)

    def _owned(self) -> list[dict[str, Any]]:
        if not self.holds:
            return []
        return [{"topic_id": self._topic_id, "partitions": sorted(self.holds)}]

    def _commit(self, partition: int, epoch: int) -> None:
        offset = self.group.offsets[partition].next() if epoch == self.epoch else 0
        found = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        value = {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": epoch,
            "member_id": self.member_id,
            "group_instance_id": None,
            "topics": [{"name": self.group.topic, "partitions": [found]}],
        }
        self.send(WireRequest("OffsetCommit", 9, value), (partition, epoch, offset))

    def _fetch(self, partition: int) -> None:
        topic = {"name": self.group.topic, "partition_indexes": [partition]}
        value = {"group_id": self.group_id, "topics": [topic], "require_stable": False}
        self.send(WireRequest("OffsetFetch", 7, value), partition)

    # -- responses

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        name, surely = sent.request.name, self.is_at_coordinator
        if name == "ConsumerGroupHeartbeat":
            code = answer["error_code"]
        elif name == "OffsetCommit":
            code = answer["topics"][0]["partitions"][0]["error_code"]
        else:
            code = answer["error_code"] or answer["topics"][0]["partitions"][0]["error_code"]
        self.cluster.happened[f"{name} {code}"] += 1
        if not surely:
            # A deposed coordinator does not know of its successor's members. The client can not
            # notice this; here it ignores the reply, so that the checks are exact.
            self.go_elsewhere()
            return
        if name == "ConsumerGroupHeartbeat":
            self._hear_heartbeat(sent, code, answer)
        elif name == "OffsetCommit":
            self._hear_commit(sent, code)
        elif code == NONE:
            offset = answer["topics"][0]["partitions"][0]["committed_offset"]
            rising = self.group.offsets[sent.about]
            self.told(rising, sent.about, offset)
            if sent.about in self.assigned:
                if sent.about not in self._read:
                    rising.taken_over()
                    self._read.add(sent.about)
                self.served += 1
        if code in (NONE, *_REMOVED, STALE_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID):
            self.think_after(self.chance.choice(_THINKS_MS) * MS)
        else:
            self.go_elsewhere()

    def _hear_heartbeat(self, sent: Sent, code: int, answer: dict[str, Any]) -> None:
        epoch, leaves, unanswered = sent.about
        if leaves:
            return
        if code in _REMOVED:
            silent_s = (self.cluster.agenda.now_ns - self.heard_ns) / S
            # Two lost replies may hide two new epochs.
            assert epoch == 0 or unanswered > 1 or silent_s > _ALIVE_S, (
                f"{self.name} is refused with {code} in epoch {epoch}; it was answered"
                f" {silent_s:.3f} s ago"
            )
            self._lose_all()
            return
        if code != NONE:
            return
        self.served += 1
        self._unanswered = 0
        assert answer["member_epoch"] >= epoch
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            topics = answer["assignment"]["topic_partitions"]
            assigned = {number for topic in topics for number in topic["partitions"]}
            for topic in topics:
                self._topic_id = topic["topic_id"]
            self.group.owned(self, assigned - self.holds)
            self.cluster.happened["partitions received"] += len(assigned - self.holds)
            self.cluster.happened["partitions revoked"] += len(self.assigned - assigned)
            self.revoking = (self.revoking | self.assigned) - assigned
            self._gave_up = {k: v for k, v in self._gave_up.items() if k not in assigned}
            self.assigned = assigned
            self._read &= assigned
        self.heard_ns = sent.at_ns

    def _hear_commit(self, sent: Sent, code: int) -> None:
        partition, epoch, offset = sent.about
        if not offset:
            assert code != NONE or epoch == self.epoch, (
                f"{self.name} committed {partition} in epoch {epoch}, and has given it up"
            )
            self.cluster.happened["stale commit refused"] += code == STALE_MEMBER_EPOCH
        elif code == NONE:
            self.group.offsets[partition].acknowledged(offset)
            self.served += 1

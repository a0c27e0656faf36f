"""Members of streams groups (KIP-1071) in a simulated cluster.

A member sends heartbeats to the coordinator of its group. It gives up a task first, and then
confirms this in a heartbeat. The coordinator creates the internal topics of the application and
fails over.

| law | where |
|---|---|
| no member gets a task that another member has not given up | `StreamsGroupTruth.owned` |
| a member that sends heartbeats is not removed | `StreamsMember` |
| a topic that the coordinator has seen is never reported as missing | `StreamsMember` |
| within a bounded time, each task has an owner | `StreamsGroupTruth.unrest` |
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from tests.simulation.cluster.clients import THINKS_MS, CoordinatorClient
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

SESSION_S = 15
REPARTITIONS = 3
"""The number of partitions of the repartition topic, and of the changelog."""
_REMOVED = (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND)
_ALIVE_S = 8
"""A member must not be removed if its coordinator answered it within this time in seconds."""
_NOT_READY = (1, 2, 3)
"""The status codes which mean that a topic is missing or has a wrong number of partitions."""
Task = tuple[str, int]


class StreamsGroupTruth:
    """One application: its topology and its members."""

    def __init__(self, group_id: str, topic: str, partitions: int) -> None:
        self.group_id = group_id
        self.internal_topics = f"{group_id}-words-repartition", f"{group_id}-store-changelog"
        repartition, changelog = self.internal_topics
        first = {
            "subtopology_id": "0",
            "source_topics": [topic],
            "repartition_sink_topics": [repartition],
        }
        counted = {"name": repartition, "partitions": REPARTITIONS, "replication_factor": -1}
        second = {
            "subtopology_id": "1",
            "repartition_source_topics": [counted],
            "state_changelog_topics": [{"name": changelog, "replication_factor": -1}],
        }
        self.topology = {"epoch": 0, "subtopologies": [first, second]}
        self.tasks = {
            *(("0", number) for number in range(partitions)),
            *(("1", number) for number in range(REPARTITIONS)),
        }
        self.is_ready = False
        """True after a member has received a task: from then on, all topics of the group exist."""
        self.members: list[StreamsMember] = []

    def owned(self, owner: StreamsMember, tasks: set[Task]) -> None:
        """Called when ``owner`` receives ``tasks``. Asserts that no other member holds one of these
        tasks. A member that got no response within its session timeout is not checked, because the
        coordinator may have removed it."""
        for other in self.members:
            both = set() if other is owner else other.holds & tasks
            silent_s = (owner.cluster.agenda.now_ns - other.heard_ns) / S
            assert not both or silent_s > SESSION_S, (
                f"{self.group_id}: {owner.name} receives {sorted(both)}, which {other.name} has not"
                f" given up; it was answered {silent_s:.3f} s ago"
            )
        self.is_ready = self.is_ready or bool(tasks)

    def unrest(self) -> list[str]:
        """Returns the reasons why the group is not at rest."""
        owned = sorted(each for member in self.members for each in member.holds)
        if owned == sorted(self.tasks):
            return []
        return [f"{self.group_id}: the members own {owned} of {len(self.tasks)} tasks"]


class StreamsMember(CoordinatorClient):
    """An instance of the application with one thread; it may crash or leave, and return under
    another member id."""

    def __init__(
        self,
        cluster: ClusterWorld,
        name: str,
        host: str,
        chance: Random,
        group: StreamsGroupTruth,
    ) -> None:
        super().__init__(cluster, name, host, chance, group.group_id)
        self.group = group
        self.heard_ns = 0
        """The time in ns at which the member sent the last heartbeat that the coordinator has
        answered."""
        self._processes = 0
        group.members.append(self)
        self._begin()

    def _begin(self) -> None:
        self._processes += 1
        self.member_id = f"{self.name}.{self._processes}"
        self._lose_all()

    def _lose_all(self) -> None:
        self.epoch = 0
        self.assigned: set[Task] = set()
        self.revoking: set[Task] = set()
        self._unreported = False
        """True if the member has received or given up tasks since its last full heartbeat."""
        self._unanswered = 0
        """The number of heartbeats since the last reply. If it is not 0, the member repeats all
        fields in its next heartbeat."""

    @property
    def holds(self) -> set[Task]:
        """The tasks that the member runs."""
        return self.assigned | self.revoking

    # -- requests

    def work(self) -> None:
        dice = self.chance.random()
        if self.calm or dice >= 0.015:
            self._heartbeat()
        elif dice < 0.01:
            self.cluster.happened["member restarts"] += 1
            self.drop_connection()
            self._begin()
            self.think_after(self.chance.choice((100 * MS, 3 * S)))
        else:
            self._leave()

    def _heartbeat(self) -> None:
        if self.revoking and (self.calm or self.chance.random() < 0.5):
            self.revoking = set()
            self._unreported = True
        value: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
        }
        if self.epoch == 0 or self._unanswered or self._unreported:
            value["active_tasks"] = _fields(self.holds)
            value["standby_tasks"] = value["warmup_tasks"] = []
        if self.epoch == 0 or self._unanswered:
            value["rebalance_timeout_ms"] = 60_000
            value["process_id"] = self.member_id
        if self.epoch == 0:
            value["topology"] = self.group.topology
        about = self.epoch, self._unanswered, "active_tasks" in value, self.group.is_ready
        self._unanswered += 1
        self.send(WireRequest("StreamsGroupHeartbeat", 0, value), about)

    def _leave(self) -> None:
        value = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": -1}
        self._begin()  # before the reply, which may be lost
        self.send(WireRequest("StreamsGroupHeartbeat", 0, value))

    # -- responses

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer["error_code"]
        self.cluster.happened[f"StreamsGroupHeartbeat {code}"] += 1
        if not self.is_at_coordinator:
            # A deposed coordinator does not know of its successor's members. The client can not
            # notice this; here it ignores the reply, so that the checks are exact.
            self.go_elsewhere()
            return
        if sent.about is not None:
            self._hear_heartbeat(sent, code, answer)
        if code in (NONE, *_REMOVED):
            self.think_after(self.chance.choice(THINKS_MS) * MS)
        else:
            self.go_elsewhere()

    def _hear_heartbeat(self, sent: Sent, code: int, answer: dict[str, Any]) -> None:
        epoch, unanswered, is_full, was_ready = sent.about
        assert code != INVALID_REQUEST, answer["error_message"]
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
        for status in answer["status"]:
            self.cluster.happened[f"status {status['status_code']}"] += 1
            assert not was_ready or status["status_code"] not in _NOT_READY, (
                f"{self.name}: {status['status_detail']}, although members have had tasks"
            )
        self._unanswered = 0
        self._unreported = self._unreported and not is_full
        assert answer["member_epoch"] >= epoch
        self.epoch = answer["member_epoch"]
        if answer["active_tasks"] is not None:
            self._hear_tasks(_tasks(answer["active_tasks"]))
        self.heard_ns = sent.at_ns

    def _hear_tasks(self, tasks: set[Task]) -> None:
        self.group.owned(self, tasks - self.holds)
        self.cluster.happened["tasks received"] += len(tasks - self.holds)
        self.cluster.happened["tasks revoked"] += len(self.assigned - tasks)
        self._unreported = self._unreported or tasks != self.assigned
        self.revoking = (self.revoking | self.assigned) - tasks
        self.assigned = tasks


def _tasks(fields: list[dict[str, Any]]) -> set[Task]:
    return {(each["subtopology_id"], number) for each in fields for number in each["partitions"]}


def _fields(tasks: set[Task]) -> list[dict[str, Any]]:
    return [
        {
            "subtopology_id": name,
            "partitions": sorted(number for each, number in tasks if each == name),
        }
        for name in sorted({name for name, _ in tasks})
    ]

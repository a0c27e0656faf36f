"""Streams groups (KIP-1071) whose members join and leave at random, on one broker. Each stable
assignment must obey the rules of the sticky assignor.

If several members have the same load, the rules do not say which of them gets a task. So Kafka and
Muster, which choose differently, both obey the rules.
"""

from __future__ import annotations

from collections import Counter
from math import ceil
from random import Random
from typing import Any

from tests.interop.streams_group_calls import ROLES, Value, task_ids, tasks
from tests.interop.streams_group_side import JOINING, StreamsSide, heartbeat
from tests.interop.streams_topologies import shapes

PROCESSES = {f"m{number}": f"p{number // 2}" for number in range(2, 8)}
"""The process id of each member. Each process has two members."""
STATEFUL = {"stored": {"0"}, "repartitioned": {"1"}, "joined": {"0"}, "fixed": {"1"}}
"""For each topology, the subtopologies that have a state store."""
TASKS = {
    "stored": {"0": 4},
    "repartitioned": {"0": 4, "1": 4},
    "joined": {"0": 4, "1": 2},
    "fixed": {"0": 2, "1": 6},
}
"""For each topology, the number of tasks of each subtopology."""
ROUNDS_UNTIL_STABLE = 12


class Churn:
    """A streams group on one broker, and the epochs of its members."""

    def __init__(self, seed: int, side: StreamsSide) -> None:
        self.random = Random(seed)
        self.side = side
        self.shape_name = list(TASKS)[seed % len(TASKS)]
        self.shape = shapes(side.group)[self.shape_name]
        self.replicas = seed // len(TASKS) % 3
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Value] = {}

    def start(self) -> None:
        """Creates the source topics and the internal topics, and configures the group."""
        self.side.create_topics()
        self._join("m2")
        for part in self.shape["subtopologies"]:
            for each in (*part["state_changelog_topics"], *part["repartition_source_topics"]):
                self.side.until_seen(each["name"])
        config = {
            "name": "streams.num.standby.replicas",
            "config_operation": 0,
            "value": str(self.replicas),
        }
        resource = {"resource_type": 32, "resource_name": self.side.group, "configs": [config]}
        value = {"resources": [resource], "validate_only": False}
        (altered,) = self.side.call("IncrementalAlterConfigs", 1, value)["responses"]
        assert altered["error_code"] == 0

    def step(self) -> None:
        """Lets a random member join, leave or send a heartbeat."""
        member = self.random.choice(list(PROCESSES))
        if member not in self.epochs:
            self._join(member)
        elif len(self.epochs) > 1 and self.random.random() < 0.5:
            assert not self._send(member, -1)["error_code"]
            del self.epochs[member], self.owned[member]
        else:
            self._beat(member)

    def _join(self, member: str) -> None:
        fields = {**JOINING, "process_id": PROCESSES[member], "topology": self.shape}
        self._take(member, self._send(member, 0, **fields))

    def _beat(self, member: str) -> None:
        self._take(member, self._send(member, self.epochs[member], **self.owned[member]))

    def _send(self, member: str, epoch: int, **fields: Any) -> Value:
        value = heartbeat(self.side.group, member, epoch, **fields)
        return self.side.call("StreamsGroupHeartbeat", 0, value)

    def _take(self, member: str, reply: Value) -> None:
        assert reply["error_code"] == 0, reply
        self.epochs[member] = reply["member_epoch"]
        if reply["active_tasks"] is not None:
            self.owned[member] = {role: task_ids(tasks(reply[role]) or []) for role in ROLES}
        self._check_exclusive()

    def _check_exclusive(self) -> None:
        """Checks that no active task is owned by two members. A member owns a task until it sends a
        heartbeat without the task."""
        active = Counter(
            (each["subtopology_id"], partition)
            for owned in self.owned.values()
            for each in owned["active_tasks"]
            for partition in each["partitions"]
        )
        assert not [task for task, count in active.items() if count > 1], active

    def settle(self) -> int:
        """Sends heartbeats until the group is stable, and returns the group epoch. Raises
        AssertionError if the assignment violates a rule."""
        for _ in range(ROUNDS_UNTIL_STABLE):
            for member in sorted(self.epochs):
                self._beat(member)
            described = self._described()
            if described["group_state"] == "Stable":
                break
        else:
            raise AssertionError(f"not stable: {described}")
        assert {each["member_epoch"] for each in described["members"]} == {described["group_epoch"]}
        self._check(described["members"])
        return int(described["group_epoch"])

    def _described(self) -> Value:
        value = {"group_ids": [self.side.group], "include_authorized_operations": False}
        (group,) = self.side.call("StreamsGroupDescribe", 0, value)["groups"]
        return dict(group)

    def _check(self, members: list[Value]) -> None:
        all_tasks = {
            (name, partition)
            for name, count in TASKS[self.shape_name].items()
            for partition in range(count)
        }
        stateful = {task for task in all_tasks if task[0] in STATEFUL[self.shape_name]}
        active: Counter[Any] = Counter()
        standby: Counter[Any] = Counter()
        in_process: Counter[Any] = Counter()
        loads = []
        for each in members:
            assert each["assignment"] == each["target_assignment"] or _same(each), each
            own = _tasks_of(each["assignment"]["active_tasks"])
            spare = _tasks_of(each["assignment"]["standby_tasks"])
            active.update(own)
            standby.update(spare)
            in_process.update((each["process_id"], task) for task in own + spare)
            loads.append(len(own))
        assert dict(active) == dict.fromkeys(all_tasks, 1)
        assert max(in_process.values()) == 1
        processes = len({each["process_id"] for each in members})
        replicas = min(self.replicas, processes - 1)
        assert dict(standby) == (dict.fromkeys(stateful, replicas) if replicas else {})
        assert max(loads) <= ceil(len(all_tasks) / len(members))


def _tasks_of(given: list[Value]) -> list[tuple[str, int]]:
    return [(each["subtopology_id"], number) for each in given for number in each["partitions"]]


def _same(member: Value) -> bool:
    return all(
        tasks(member["assignment"][role]) == tasks(member["target_assignment"][role])
        for role in ROLES
    )

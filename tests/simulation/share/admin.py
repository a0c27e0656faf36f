"""The administrator of a simulation of share groups, who creates topics, configures groups, and
deletes records and a topic."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from protocol.errors import NONE, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION
from tests.simulation.share.places import (
    COMMITTED,
    FLEETING,
    GROUPS,
    KEPT,
    PARTITIONS,
    STABLE,
)
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.share.world import ShareWorld

_GROUP_RESOURCE = 32


class Admin(Client):
    """Creates the topics and configures the groups. Later deletes records and a topic."""

    world: ShareWorld

    def __init__(self, world: ShareWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(world, name, host, chance)
        self._configured = False
        self._made: set[int] = set()
        """Key types for which FindCoordinator has succeeded, so that the coordinator's internal
        topic exists."""

    def act(self) -> None:
        dice = self.chance.random()
        if not self._configured:
            self._configure()
        elif not self.world.topics_made or dice < 0.2:
            self._create()
        elif self.calm or dice < 0.25 or len(self._made) < 2:
            key_type = self.chance.randint(0, 1)
            value = {"key": "anything", "key_type": key_type}
            self.send(WireRequest("FindCoordinator", 2, value), key_type)
        elif dice < 0.4:
            value = {
                "topics": [{"name": FLEETING, "topic_id": bytes(16)}],
                "timeout_ms": 30_000,
            }
            self.send(WireRequest("DeleteTopics", 6, value))
        else:
            self._delete_records()

    def _configure(self) -> None:
        """Sets the configurations of the groups before the groups exist."""
        resources = [
            {
                "resource_type": _GROUP_RESOURCE,
                "resource_name": group,
                "configs": [
                    {"name": name, "config_operation": 0, "value": value}
                    for name, value in (
                        ("share.auto.offset.reset", "earliest"),
                        (
                            "share.isolation.level",
                            "read_committed" if group == COMMITTED else "read_uncommitted",
                        ),
                    )
                ],
            }
            for group in GROUPS
        ]
        value = {"resources": resources, "validate_only": False}
        self.send(WireRequest("IncrementalAlterConfigs", 1, value))

    def _create(self) -> None:
        small = [{"name": "segment.bytes", "value": "3000"}]
        topics = [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [*small, {"name": "retention.bytes", "value": "9000"}]
                if name == KEPT
                else [],
            }
            for name, partitions in PARTITIONS.items()
        ]
        value = {"topics": topics, "timeout_ms": 30_000, "validate_only": False}
        self.send(WireRequest("CreateTopics", 4, value))

    def _delete_records(self) -> None:
        process = self.world.process
        topic, index = self.chance.choice(STABLE)
        partition = None if process is None else process.broker.logs.get(topic, index)
        end = 0 if partition is None else partition.high_watermark
        start = 0 if partition is None else partition.log.log_start_offset
        offset = min(end, start + self.chance.randint(1, 60))
        partitions = [{"partition_index": index, "offset": offset}]
        value = {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 30_000}
        self.send(WireRequest("DeleteRecords", 1, value))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        api = sent.request.name
        self.world.happened[f"admin {api}"] += 1
        if api == "IncrementalAlterConfigs":
            self._configured = {each["error_code"] for each in answer["responses"]} == {NONE}
            assert self._configured or self.world.faults.disk_in_trouble, answer
        elif api == "CreateTopics":
            codes = {topic["error_code"] for topic in answer["topics"]}
            self.world.topics_made = codes <= {NONE, TOPIC_ALREADY_EXISTS}
        elif api == "DeleteTopics":
            code = answer["responses"][0]["error_code"]
            assert code in (NONE, UNKNOWN_TOPIC_OR_PARTITION) or self.world.faults.disk_in_trouble
        elif api == "FindCoordinator" and answer["error_code"] == NONE:
            self._made.add(sent.about)
        fast = len(self._made) < 2
        self.think_after(100 * MS if fast else self.chance.choice((1, 3, 6)) * S)

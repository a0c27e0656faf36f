"""A streams group (KIP-1071) on one broker: its topics, its tasks, and its records, decoded with
Kafka's schemas."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

from protocol import log_records
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.broker.topic_calls import create_topic
from tests.interop.consumer_group_walks import OFFSETS_TOPIC
from tests.interop.streams_group_calls import Tasks, Value
from tests.interop.streams_topologies import source_topics, subtopology, topology
from tests.waiting import until
from tests.wire import Wire

MISSING_SOURCE_TOPICS = 1
TOPIC_CONFIG = 1
"""In DescribeConfigs, the config source of a value that was set for the topic itself."""
RECORD_NAMES = {
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}


class StreamsSide:
    """One of the two brokers that are compared, and the tasks of the members of one group on this
    broker."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group
        self.owned: dict[str, dict[str, Tasks]] = {}
        self.given: dict[str, Any] = {}
        """For each member, the tasks in the last response that contained tasks. It is possible that
        the member has not received this response."""
        """The tasks in the last assignment that each member received, by role."""

    def call(self, api: str, version: int, value: Value) -> Value:
        return self.wire.call(api, version, value)

    def create_topics(self) -> None:
        for name, partitions in source_topics(self.group).items():
            self.create_topic(name, partitions)

    def create_topic(self, name: str, partitions: int) -> None:
        create_topic(self.wire, name, partitions)
        self.until_seen(name)

    def delete_topic(self, name: str) -> None:
        topic = {"name": name, "topic_id": bytes(16)}
        self.call("DeleteTopics", 6, {"topics": [topic], "timeout_ms": 10_000})
        self.until_seen(name, exists=False)

    def until_seen(self, topic: str, *, exists: bool = True) -> None:
        """Waits until the coordinator knows that a topic exists, or that it does not exist if
        ``exists`` is false.

        Kafka responds to the creation or deletion of a topic before its coordinator knows the
        change. To find out, this method creates a streams group with the topic as its source. The
        group has the status MISSING_SOURCE_TOPICS while the coordinator does not know the topic.
        """
        shape = topology(subtopology("0", topic))
        value = heartbeat(f"see-{topic}", "m1", 0, topology=shape, **JOINING)

        def is_seen() -> bool:
            reply = self.call("StreamsGroupHeartbeat", 0, value)
            assert reply["error_code"] == 0, reply
            codes = [each["status_code"] for each in reply["status"] or ()]
            return (MISSING_SOURCE_TOPICS not in codes) is exists

        until(f"the coordinator sees {topic}", is_seen, tolerate=())

    def topics(self, *names: str) -> list[Any]:
        """Returns the number of partitions and the configuration of the topics that exist."""
        found: list[Any] = []
        for name in sorted(names):
            resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
            value = {
                "resources": [resource],
                "include_synonyms": False,
                "include_documentation": False,
            }
            (described,) = self.call("DescribeConfigs", 4, value)["results"]
            own = {
                each["name"]: each["value"]
                for each in described["configs"]
                if each["config_source"] == TOPIC_CONFIG
            }
            asked = {"topics": [{"topic_id": bytes(16), "name": name}]}
            (topic,) = self.call("Metadata", 12, asked)["topics"]
            found.append((name, topic["error_code"], len(topic["partitions"]), own))
        return found

    def records(self) -> list[Any]:
        """Returns the records of the streams group in the offsets topic."""
        found: list[Any] = []
        offset = 0
        while True:
            part = {
                "partition": 0,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": 1 << 20,
            }
            value = {
                "replica_id": -1,
                "max_wait_ms": 0,
                "min_bytes": 0,
                "max_bytes": 1 << 20,
                "isolation_level": 0,
                "session_id": 0,
                "session_epoch": -1,
                "topics": [{"topic": OFFSETS_TOPIC, "partitions": [part]}],
                "forgotten_topics_data": [],
                "rack_id": "",
            }
            reply = self.call("Fetch", 12, value)
            data = bytes(reply["responses"][0]["partitions"][0]["records"] or b"")
            headers = [header for header, _ in iter_stored(data, partial=True)]
            if not headers:
                return _ordered(_without_last_targets(found))
            for header in headers:
                for record in records_of(data, header):
                    decoded = _decode(record.key or b"", record.value)
                    if decoded is not None and decoded[1] == self.group:
                        found.append(decoded)
                offset = header.last_offset + 1


JOINING: Value = {
    "rebalance_timeout_ms": 300_000,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "process_id": "p1",
}


def heartbeat(group: str, member: str, epoch: int, **fields: Any) -> Value:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": -1,
        "shutdown_application": False,
        **fields,
    }


def _decode(key: bytes, value: bytes | None) -> tuple[str, str, str, Any] | None:
    """Returns type, group id, member id and value of a record, or None if the record does not
    belong to a streams group."""
    name = RECORD_NAMES.get(int.from_bytes(key[:2], "big"))
    if name is None:
        return None
    fields = log_records.decode(f"{name}Key", 0, key, 2)
    content = None
    if value is not None:
        assert value[:2] == b"\0\0"
        content = log_records.decode(f"{name}Value", 0, value, 2)
        content.pop("metadata_hash", None)  # topic ids are part of the hash
        content.pop("assignment_timestamp", None)
        for each in content:
            if each.endswith(("tasks", "tasks_pending_revocation")):
                content[each].sort(key=itemgetter("subtopology_id"))
    return name, fields["group_id"], fields.get("member_id", ""), content


def _without_last_targets(records: list[Any]) -> list[Any]:
    """Returns the records without a tombstone that only Kafka 4.4 writes: when Kafka 4.4 removes
    the last member, it writes a tombstone of the target epoch directly after the tombstone of the
    group epoch."""
    kept: list[Any] = []
    for each in records:
        names = [name for name, _, _, _ in kept[-2:]] + [each[0]]
        if names[1:] == [RECORD_NAMES[17], RECORD_NAMES[20]] and kept[-2][3] is None:
            continue
        kept.append(each)
    return kept


def _ordered(records: list[Any]) -> list[Any]:
    """Returns the records, with adjacent target assignments sorted by member id. Kafka writes such
    assignments in hash order."""
    ordered: list[Any] = []
    for name, neighbours in groupby(records, itemgetter(0)):
        some = list(neighbours)
        is_target = name == "StreamsGroupTargetAssignmentMember"
        ordered += sorted(some, key=itemgetter(2)) if is_target else some
    return ordered

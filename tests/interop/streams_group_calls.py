"""Random requests about a streams group (KIP-1071) other than heartbeats of its members: offsets,
descriptions, deletion, and requests of other group protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from tests.waiting import until

GROUP_RESOURCE = 32
Value = dict[str, Any]
Tasks = list[tuple[str, tuple[int, ...]]]
ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")


class CallingSide(Protocol):
    """The interface of one of the two brokers that are compared."""

    def call(self, api: str, version: int, value: Value) -> Value: ...


Step = tuple[str, Callable[[CallingSide], Any]]


def tasks(given: list[Value] | None) -> Tasks | None:
    """Returns the tasks in a response, sorted for comparison, or None for null."""
    if given is None:
        return None
    return sorted((each["subtopology_id"], tuple(sorted(each["partitions"]))) for each in given)


def task_ids(owned: Tasks) -> list[Value]:
    """Returns tasks in the form in which a heartbeat lists them."""
    return [{"subtopology_id": name, "partitions": list(numbers)} for name, numbers in owned]


class GroupCalls:
    """Random requests to one group. ``epochs`` contains the member epoch of each member."""

    def __init__(self, random: Random, group: str, topic: str, epochs: Mapping[str, int]) -> None:
        self.random = random
        self.group = group
        self.topic = topic
        self.epochs = epochs

    def _member(self) -> str:
        return self.random.choice(list(self.epochs) or ["m1"])

    def commit(self) -> Step:
        member = self.random.choice([self._member(), self._member(), "m9", ""])
        epoch = self.epochs.get(member, 1) + self.random.choice([-1, 0, 0, 0, 1])
        if not member:
            epoch = -1
        version = self.random.choice([8, 9, 9, 9])
        entry = {
            "partition_index": self.random.randrange(3),
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        value = {
            "group_id": self.group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": self.topic, "partitions": [entry]}],
        }

        def step(side: CallingSide) -> Any:
            if self.is_absent(side):
                return "no streams group"  # the request would create a group of another kind
            reply = side.call("OffsetCommit", version, value)
            return reply["topics"][0]["partitions"][0]["error_code"]

        return f"commit v{version} {member!r} {epoch}", step

    def fetch(self) -> Step:
        member = self.random.choice([self._member(), None, ""])
        epoch = -1 if member is None else self.random.choice([-1, self.epochs.get(member, 1)])
        group = {
            "group_id": self.group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": self.topic, "partition_indexes": [0, 1, 2, 3]}],
        }

        def step(side: CallingSide) -> Any:
            value = {"groups": [group], "require_stable": False}
            (found,) = side.call("OffsetFetch", 9, value)["groups"]
            offsets = [
                (part["partition_index"], part["committed_offset"])
                for topic in found["topics"]
                for part in topic["partitions"]
            ]
            return found["error_code"], sorted(offsets)

        return f"fetch {member!r} {epoch}", step

    def is_absent(self, side: CallingSide) -> bool:
        return bool(self._described(side, "StreamsGroupDescribe", 0)["error_code"])

    def _described(self, side: CallingSide, api: str, version: int) -> Value:
        value = {"group_ids": [self.group], "include_authorized_operations": False}
        (group,) = side.call(api, version, value)["groups"]
        return dict(group)

    def describe(self) -> Step:
        return "describe", self.described

    def described(self, side: CallingSide) -> Any:
        """Returns the group as StreamsGroupDescribe, ConsumerGroupDescribe and DescribeGroups
        return it."""
        group = self._described(side, "StreamsGroupDescribe", 0)
        consumer = self._described(side, "ConsumerGroupDescribe", 1)
        old = {"groups": [self.group], "include_authorized_operations": False}
        (classic,) = side.call("DescribeGroups", 6, old)["groups"]
        return (
            group["error_code"],
            group["error_message"],
            group["group_state"],
            group["group_epoch"],
            # 4.4 raises the epoch of the target when the last member leaves, 4.3.1 does not.
            group["assignment_epoch"] if group["members"] else None,
            _topology(group["topology"]),
            sorted(map(_member, group["members"]), key=str),
            (consumer["error_code"], consumer["error_message"]),
            (classic["error_code"], classic["error_message"], classic["group_state"]),
        )

    def list(self) -> Step:
        types = self.random.choice([[], ["streams"], ["classic"], ["Streams", "x"]])
        states = self.random.choice([[], ["stable"], ["Empty", "not_ready"], ["reconciling"]])

        def step(side: CallingSide) -> Any:
            value = {"states_filter": states, "types_filter": types}
            return sorted(
                (each["group_id"], each["protocol_type"], each["group_state"], each["group_type"])
                for each in side.call("ListGroups", 5, value)["groups"]
                if each["group_id"] == self.group
            )

        return f"list {types} {states}", step

    def delete(self) -> Step:
        def step(side: CallingSide) -> Any:
            reply = side.call("DeleteGroups", 2, {"groups_names": [self.group]})
            return [each["error_code"] for each in reply["results"]]

        return "delete", step

    def other(self) -> Step:
        """Returns a step with a request that is not of the streams protocol. The request is sent
        only if the group exists, because otherwise it could create the group."""
        member = self.random.choice(["", "m1"])
        join = {
            "group_id": self.group,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "member_id": member,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}],
            "reason": None,
        }
        beat = {"group_id": self.group, "member_id": "m1", "member_epoch": 0}
        consumer = {
            **beat,
            "rebalance_timeout_ms": 1_000,
            "topic_partitions": [],
            "subscribed_topic_names": [self.topic],
        }
        share = {**beat, "subscribed_topic_names": [self.topic]}
        leaver = {"member_id": "m1", "group_instance_id": None, "reason": None}
        classic = {"group_id": self.group, "generation_id": 1, "member_id": "m1"}
        sync = {
            **classic,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        }
        partitions = {"name": self.topic, "partitions": [{"partition_index": 0}]}
        requests: list[tuple[str, int, Value]] = [
            ("OffsetDelete", 0, {"group_id": self.group, "topics": [partitions]}),
            ("JoinGroup", 9, join),
            ("SyncGroup", 5, sync),
            ("ConsumerGroupHeartbeat", 1, consumer),
            ("ShareGroupHeartbeat", 1, share),
            ("LeaveGroup", 5, {"group_id": self.group, "members": [leaver]}),
            ("Heartbeat", 4, {**classic, "group_instance_id": None}),
        ]
        api, version, value = self.random.choice(requests)

        def step(side: CallingSide) -> Any:
            if self.is_absent(side):
                return "no streams group"
            if (
                api == "JoinGroup"
                and not self._described(side, "StreamsGroupDescribe", 0)["members"]
            ):
                return "the JoinGroup would replace the empty group"
            return side.call(api, version, value)

        return f"{api} v{version} {member!r}", step

    def configure(self) -> Step:
        count = str(self.random.randrange(3))
        name = "streams.num.standby.replicas"
        config = {"name": name, "config_operation": 0, "value": count}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group}
        asked = {
            "resources": [{**resource, "configuration_keys": [name]}],
            "include_synonyms": False,
            "include_documentation": False,
        }

        def replicas(side: CallingSide) -> str:
            (found,) = side.call("DescribeConfigs", 4, asked)["results"]
            return str(found["configs"][0]["value"])

        def step(side: CallingSide) -> Any:
            value = {"resources": [{**resource, "configs": [config]}], "validate_only": False}
            (reply,) = side.call("IncrementalAlterConfigs", 1, value)["responses"]
            until("the configuration is in force", lambda: replicas(side) == count)
            return reply["error_code"]

        return f"configure {count}", step


def _member(each: Value) -> Any:
    return (
        each["member_id"],
        each["member_epoch"],
        each["instance_id"],
        each["rack_id"],
        each["client_id"],
        each["client_host"],
        each["topology_epoch"],
        each["process_id"],
        each["user_endpoint"],
        sorted((tag["key"], tag["value"]) for tag in each["client_tags"]),
        each["task_offsets"],
        each["task_end_offsets"],
        [tasks(each["assignment"][role]) for role in ROLES],
        [tasks(each["target_assignment"][role]) for role in ROLES],
        each["is_classic"],
    )


def _topology(given: Value | None) -> Any:
    """Returns a topology whose lists are sorted for comparison."""
    if given is None or given["subtopologies"] is None:
        return given
    return given["epoch"], sorted(
        (
            each["subtopology_id"],
            sorted(each["source_topics"]),
            sorted(each["repartition_sink_topics"]),
            sorted(map(_topic, each["state_changelog_topics"])),
            sorted(map(_topic, each["repartition_source_topics"])),
        )
        for each in given["subtopologies"]
    )


def _topic(each: Value) -> Any:
    """Returns an internal topic without its partition count, because Kafka returns the count only
    after the second heartbeat."""
    configs = sorted((pair["key"], pair["value"]) for pair in each["topic_configs"])
    return each["name"], each["replication_factor"], configs

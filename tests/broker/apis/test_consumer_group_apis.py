"""Tests ConsumerGroupHeartbeat and ConsumerGroupDescribe, and the responses of other APIs for
consumer groups (KIP-848)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    INVALID_CONFIG,
    INVALID_GROUP_ID,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)
from tests.broker.serving import asked, serving
from tests.broker.transactional_calls import GROUP, find
from tests.waiting import until
from tests.wire import Wire

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.rebalance.heartbeat.interval.ms": "0",
}


class Member:
    """A member of group g with its own connection."""

    def __init__(self, wire: Wire, member_id: str = "", version: int = 1) -> None:
        self.wire = wire
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def beat(self, **fields: Any) -> dict[str, Any]:
        request = {"group_id": "g", "member_id": self.member_id, "member_epoch": self.epoch}
        reply = self.wire.call("ConsumerGroupHeartbeat", self.version, {**request, **fields})
        if not reply["error_code"]:
            self.member_id, self.epoch = reply["member_id"], reply["member_epoch"]
        return reply

    def join(self, *topics: str, **fields: Any) -> dict[str, Any]:
        self.epoch = 0
        sets = {"rebalance_timeout_ms": 300_000, "topic_partitions": []}
        return self.beat(**{**sets, "subscribed_topic_names": list(topics), **fields})


def create(wire: Wire, name: str, partitions: int) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    wire.call("CreateTopics", 5, {"topics": [topic], "timeout_ms": 5000, "validate_only": False})


def owned(reply: dict[str, Any]) -> list[int]:
    """Returns the numbers of all partitions that a response assigns."""
    given = reply["assignment"]["topic_partitions"]
    return sorted(each for topic in given for each in topic["partitions"])


def assigned(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the response if it has an assignment, otherwise None."""
    return reply if reply["assignment"] is not None else None


async def on_broker(directory: Path, work: Any, **settings: str) -> None:
    async with serving(directory, {**SETTINGS, **settings}) as broker:
        await asked(broker, lambda wire: _prepared(wire, broker, work))


def _prepared(wire: Wire, broker: Broker, work: Any) -> None:
    create(wire, "t", 2)
    find(wire, "g", GROUP)
    work(wire)


async def test_consumer_group_member_joins_with_every_heartbeat_version(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        old = Member(wire, "", 0)
        reply = old.join("t")
        assert (reply["error_code"], reply["member_epoch"]) == (NONE, 2)
        assert len(reply["member_id"]) == 22
        assert owned(reply) == [0, 1]
        assert reply["heartbeat_interval_ms"] == 5000
        new = Member(wire, "mine")
        reply = new.join("t")
        assert (reply["member_id"], owned(reply)) == ("mine", [])
        assert old.beat()["assignment"] is not None

    await on_broker(tmp_path, work)


async def test_heartbeats_of_two_members_on_one_connection_get_their_own_member_ids_and_epochs(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        a, b = Member(wire, "a"), Member(wire, "b")
        a.join("t")
        b.join("t")
        assert a.beat()["assignment"] is not None  # it has to give up a partition
        topic_id = wire.call("Metadata", 12, {"topics": [{"name": "t"}]})["topics"][0]["topic_id"]
        kept = {"topic_id": topic_id, "partitions": [0]}
        assert a.beat(topic_partitions=[kept])["member_epoch"] == 3
        until("an assignment", lambda: assigned(b.beat()))
        for _ in range(3):
            for member in (a, b):
                reply = member.beat()
                assert (reply["error_code"], reply["assignment"]) == (NONE, None)
                assert (reply["member_id"], reply["member_epoch"]) == (member.member_id, 3)
        assert b.beat(member_epoch=-1)["error_code"] == NONE
        b.epoch = 3
        assert b.beat()["error_code"] == UNKNOWN_MEMBER_ID
        assert (a.beat()["member_epoch"], a.beat()["assignment"]) == (4, None)

    await on_broker(tmp_path, work)


async def test_new_topic_and_new_partitions_are_assigned_to_consumer_groups(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "m")
        assert owned(member.join("t", "later")) == [0, 1]
        create(wire, "later", 1)
        assert owned(member.beat()) == [0, 0, 1]
        grown = {"name": "t", "count": 3, "assignments": None}
        wire.call(
            "CreatePartitions", 3, {"topics": [grown], "timeout_ms": 5000, "validate_only": False}
        )
        assert owned(member.beat()) == [0, 0, 1, 2]
        wire.call("DeleteTopics", 5, {"topic_names": ["later"], "timeout_ms": 5000})
        reply = member.beat(topic_partitions=[])
        assert owned(reply) == [0, 1, 2]

    await on_broker(tmp_path, work)


async def test_subscribed_regex_is_resolved_after_the_heartbeat_response(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        create(wire, "other", 1)
        member = Member(wire, "m")
        reply = member.join(subscribed_topic_names=None, subscribed_topic_regex="t.?")
        assert (reply["error_code"], owned(reply)) == (NONE, [])
        reply = until("an assignment", lambda: assigned(member.beat()))
        assert owned(reply) == [0, 1]
        bad = Member(wire, "n").join(subscribed_topic_names=None, subscribed_topic_regex="(")
        assert bad["error_code"] == INVALID_REGULAR_EXPRESSION
        assert "missing )" in bad["error_message"]

    await on_broker(tmp_path, work)


async def test_consumer_group_describe_returns_epochs_and_assignments(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        Member(wire, "m").join("t", instance_id="i")
        ask = {"group_ids": ["g", "x", ""], "include_authorized_operations": False}
        g, x, blank = wire.call("ConsumerGroupDescribe", 1, ask)["groups"]
        assert (g["group_state"], g["group_epoch"], g["assignment_epoch"]) == ("Stable", 2, 2)
        assert g["assignor_name"] == "uniform"
        (member,) = g["members"]
        assert (member["member_id"], member["instance_id"], member["member_type"]) == ("m", "i", 1)
        assert member["subscribed_topic_names"] == ["t"]
        (topic,) = member["assignment"]["topic_partitions"]
        assert (topic["topic_name"], list(topic["partitions"])) == ("t", [0, 1])
        assert member["target_assignment"] == member["assignment"]
        assert (x["error_code"], blank["error_code"]) == (GROUP_ID_NOT_FOUND, INVALID_GROUP_ID)
        assert x["error_message"] == "Group x not found."

    await on_broker(tmp_path, work)


async def test_list_and_describe_groups_distinguish_consumer_groups(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        Member(wire, "m").join("t")
        listed = wire.call("ListGroups", 5, {"states_filter": [], "types_filter": ["Consumer"]})
        assert [(g["group_id"], g["group_type"]) for g in listed["groups"]] == [("g", "consumer")]
        ask = {"groups": ["g"], "include_authorized_operations": False}
        (old,) = wire.call("DescribeGroups", 5, ask)["groups"]
        assert (old["error_code"], old["group_state"]) == (NONE, "Dead")
        (new,) = wire.call("DescribeGroups", 6, ask)["groups"]
        assert new["error_code"] == GROUP_ID_NOT_FOUND
        assert new["error_message"] == "Group g is not a classic group."

    await on_broker(tmp_path, work)


def commit(wire: Wire, version: int, epoch: int, member_id: str = "m") -> int:
    offsets = [
        {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
    ]
    value = {
        "group_id": "g",
        "generation_id_or_member_epoch": epoch,
        "member_id": member_id,
        "group_instance_id": None,
        "topics": [{"name": "t", "partitions": offsets}],
    }
    reply = wire.call("OffsetCommit", version, value)
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


async def test_offset_commit_and_offset_fetch_check_the_member_epoch(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        Member(wire, "m").join("t")
        assert commit(wire, 9, 2) == NONE
        assert commit(wire, 9, 3) == STALE_MEMBER_EPOCH
        assert commit(wire, 9, 2, "x") == UNKNOWN_MEMBER_ID
        assert commit(wire, 8, 2) == UNSUPPORTED_VERSION
        topics = [{"name": "t", "partition_indexes": [0]}]
        for epoch, error in ((2, NONE), (1, STALE_MEMBER_EPOCH)):
            group = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "topics": topics}
            reply = wire.call("OffsetFetch", 9, {"groups": [group], "require_stable": False})
            assert reply["groups"][0]["error_code"] == error

    await on_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("setting", "offered", "level"), [("classic", False, 0), ("classic,consumer", True, 1)]
)
async def test_consumer_group_apis_are_offered_only_when_protocol_is_enabled(
    tmp_path: Path, setting: str, offered: bool, level: int
) -> None:
    def work(wire: Wire) -> None:
        software = {"client_software_name": "x", "client_software_version": "1"}
        reply = wire.call("ApiVersions", 4, software)
        keys = {each["api_key"] for each in reply["api_keys"]}
        assert ({68, 69} <= keys) is offered
        levels = {f["name"]: f["max_version_level"] for f in reply["finalized_features"]}
        assert levels.get("group.version", 0) == level

    await on_broker(tmp_path, work, **{"group.coordinator.rebalance.protocols": setting})


GROUP_TYPE = 32
SET, DELETE = 0, 1


def alter(wire: Wire, operation: int, name: str, value: str | None, group: str = "g") -> int:
    config = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": GROUP_TYPE, "resource_name": group, "configs": [config]}
    request = {"resources": [resource], "validate_only": False}
    code: int = wire.call("IncrementalAlterConfigs", 1, request)["responses"][0]["error_code"]
    return code


def described(wire: Wire, name: str) -> tuple[str, int, list[tuple[str, str, int]]]:
    """Returns value, source and synonyms of a setting of group g."""
    resource = {"resource_type": GROUP_TYPE, "resource_name": "g", "configuration_keys": [name]}
    request = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
    (found,) = wire.call("DescribeConfigs", 4, request)["results"][0]["configs"]
    synonyms = [(each["name"], each["value"], each["source"]) for each in found["synonyms"]]
    return found["value"], found["config_source"], synonyms


def listed(wire: Wire) -> list[str]:
    """Returns the groups that have dynamic settings."""
    reply = wire.call("ListConfigResources", 1, {"resource_types": [GROUP_TYPE]})
    return [each["resource_name"] for each in reply["config_resources"]]


async def test_altered_group_settings_apply_to_the_next_heartbeat(tmp_path: Path) -> None:
    name, broker_name = "consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"
    default = (broker_name, "5000", 5)

    def work(wire: Wire) -> None:
        member = Member(wire, "m")
        assert member.join("t")["heartbeat_interval_ms"] == 5000
        assert described(wire, name) == ("5000", 5, [default])
        assert alter(wire, SET, name, "7000") == NONE
        assert member.beat()["heartbeat_interval_ms"] == 7000
        assert described(wire, name) == ("7000", 8, [(name, "7000", 8), default])
        assert listed(wire) == ["g"]
        assert alter(wire, DELETE, name, None) == NONE
        assert member.beat()["heartbeat_interval_ms"] == 5000
        assert listed(wire) == []

    await on_broker(tmp_path, work)


async def test_altered_group_settings_survive_a_restart(tmp_path: Path) -> None:
    name = "consumer.session.timeout.ms"
    await on_broker(tmp_path, lambda wire: alter(wire, SET, name, "50000"))
    async with serving(tmp_path, SETTINGS) as broker:
        assert broker.registry.group_configs == {"g": {name: "50000"}}
        settings = broker.groups.settings.core
        assert settings.of_group("g").session_timeout_ms == 50_000
        assert settings.of_group("h").session_timeout_ms == 45_000


@pytest.mark.parametrize(
    ("name", "value", "group", "error"),
    [
        ("consumer.session.timeout.ms", "44999", "g", INVALID_CONFIG),
        ("consumer.session.timeout.ms", "x", "g", INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", "15001", "g", INVALID_CONFIG),
        ("consumer.unknown", "1", "g", INVALID_CONFIG),
        ("consumer.session.timeout.ms", "50000", "", INVALID_REQUEST),
    ],
)
async def test_invalid_group_setting_is_refused(
    tmp_path: Path, name: str, value: str, group: str, error: int
) -> None:
    def work(wire: Wire) -> None:
        assert alter(wire, SET, name, value, group) == error
        assert listed(wire) == []

    await on_broker(tmp_path, work)


async def test_consumer_group_describe_yields_to_the_loop_after_each_unknown_group(
    tmp_path: Path,
) -> None:
    groups = [f"group-{number}" for number in range(50)]
    async with serving(tmp_path, {"offsets.topic.num.partitions": "1"}) as broker:
        await asked(
            broker, lambda wire: wire.call("FindCoordinator", 4, {"coordinator_keys": groups})
        )
        broker.slicer.slice_ns = 0
        turn, turns = broker.slicer.turn, Counter[str]()

        async def slices_of(name: str, field: str) -> int:
            async def counted() -> None:
                turns[name] += 1
                await turn()

            broker.slicer.turn = counted  # type: ignore[method-assign]
            await asked(broker, lambda wire: wire.call(name, 0, {field: groups}))
            return turns[name]

        assert await slices_of("ConsumerGroupDescribe", "group_ids") >= await slices_of(
            "DescribeGroups", "groups"
        )

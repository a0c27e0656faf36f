"""Tests ShareGroupHeartbeat and ShareGroupDescribe, and the responses of other APIs for share
groups (KIP-932)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.broker import Broker
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    INVALID_CONFIG,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from tests.broker.apis.test_consumer_group_apis import assigned, create, owned
from tests.broker.serving import asked, serving
from tests.broker.transactional_calls import GROUP, find
from tests.waiting import until
from tests.wire import Wire

SETTINGS = {"group.share.assignment.interval.ms": "0"}
GROUP_RESOURCE = 32


class Member:
    """A member of share group g with its own connection."""

    def __init__(self, wire: Wire, member_id: str) -> None:
        self.wire = wire
        self.member_id = member_id
        self.epoch = 0

    def beat(self, **fields: Any) -> dict[str, Any]:
        request = {"group_id": "g", "member_id": self.member_id, "member_epoch": self.epoch}
        reply = self.wire.call("ShareGroupHeartbeat", 1, {**request, **fields})
        if not reply["error_code"]:
            self.epoch = reply["member_epoch"]
        return reply

    def join(self, *topics: str) -> dict[str, Any]:
        self.epoch = 0
        return self.beat(subscribed_topic_names=list(topics))

    def joined(self, *topics: str) -> list[int]:
        """Joins, and returns the first partitions that the member gets."""
        self.join(*topics)
        return owned(until("an assignment", lambda: assigned(self.beat())))


def served(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the response, or None if it shows that the coordinator has not loaded the group
    yet."""
    return None if reply["error_code"] == COORDINATOR_LOAD_IN_PROGRESS else reply


async def on_broker(directory: Path, work: Any, **settings: str) -> None:
    async with serving(directory, {**SETTINGS, **settings}) as broker:
        await asked(broker, lambda wire: _prepared(wire, broker, work))


def _prepared(wire: Wire, broker: Broker, work: Any) -> None:
    create(wire, "t", 2)
    find(wire, "g", GROUP)
    work(wire)


async def test_share_group_member_joins_gets_partitions_and_leaves(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        reply = member.join("t")
        assert (reply["error_code"], reply["member_id"], reply["member_epoch"]) == (NONE, "a", 2)
        assert (owned(reply), reply["heartbeat_interval_ms"]) == ([], 5000)
        reply = until("an assignment", lambda: assigned(member.beat()))
        assert (reply["member_epoch"], owned(reply)) == (3, [0, 1])
        reply = member.beat()
        assert (reply["member_epoch"], reply["assignment"]) == (3, None)
        assert member.beat(member_epoch=-1)["member_epoch"] == -1
        member.epoch = 3
        assert member.beat()["error_code"] == UNKNOWN_MEMBER_ID

    await on_broker(tmp_path, work)


async def test_invalid_share_group_heartbeat_is_refused_with_the_message_of_kafka(
    tmp_path: Path,
) -> None:
    cases: list[tuple[dict[str, Any], int, str | None]] = [
        ({"member_id": ""}, INVALID_REQUEST, None),
        ({"member_id": "m" * 37}, INVALID_REQUEST, None),
        ({"member_id": " "}, INVALID_REQUEST, "MemberId can't be empty."),
        ({"rack_id": ""}, INVALID_REQUEST, "RackId can't be empty."),
        ({"member_epoch": 3}, GROUP_ID_NOT_FOUND, "Share group g not found."),
        ({"member_id": "m" * 36}, NONE, None),
    ]

    def work(wire: Wire) -> None:
        for fields, error, text in cases:
            reply = Member(wire, "a").beat(**{"subscribed_topic_names": ["t"], **fields})
            assert (reply["error_code"], reply["error_message"]) == (error, text)

    await on_broker(tmp_path, work)


async def test_share_group_is_described_listed_and_deleted(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        assert member.joined("t") == [0, 1]
        request = {"group_ids": ["g", "no", ""], "include_authorized_operations": True}
        known, unknown, unnamed = wire.call("ShareGroupDescribe", 1, request)["groups"]
        assert (known["group_state"], known["group_epoch"], known["assignment_epoch"]) == (
            "Stable",
            3,
            3,
        )
        assert known["assignor_name"] == "simple"
        assert known["authorized_operations"] > 0
        [described] = known["members"]
        assert (described["member_id"], described["member_epoch"]) == ("a", 3)
        assert described["subscribed_topic_names"] == ["t"]
        [topic] = described["assignment"]["topic_partitions"]
        assert (topic["topic_name"], topic["partitions"]) == ("t", [0, 1])
        assert (unknown["error_code"], unknown["error_message"]) == (
            GROUP_ID_NOT_FOUND,
            "Group no not found.",
        )
        assert unnamed["error_code"] == INVALID_GROUP_ID

        filters = {"states_filter": [], "types_filter": ["share"]}
        [listed] = wire.call("ListGroups", 5, filters)["groups"]
        assert (listed["group_type"], listed["protocol_type"]) == ("share", "share")
        [classic] = wire.call("DescribeGroups", 6, {"groups": ["g"]})["groups"]
        assert (classic["error_code"], classic["group_state"]) == (GROUP_ID_NOT_FOUND, "Dead")
        assert classic["error_message"] == "Group g is not a classic group."
        [consumer] = wire.call("ConsumerGroupDescribe", 1, request)["groups"][:1]
        assert consumer["error_code"] == GROUP_ID_NOT_FOUND

        delete = {"groups_names": ["g"]}
        assert wire.call("DeleteGroups", 2, delete)["results"][0]["error_code"] == NON_EMPTY_GROUP
        member.beat(member_epoch=-1)
        assert wire.call("DeleteGroups", 2, delete)["results"][0]["error_code"] == NONE
        assert wire.call("ListGroups", 5, filters)["groups"] == []

    await on_broker(tmp_path, work)


async def test_share_group_member_keeps_its_epoch_and_partitions_after_a_restart(
    tmp_path: Path,
) -> None:
    def before(wire: Wire) -> None:
        assert Member(wire, "a").joined("t") == [0, 1]

    def after(wire: Wire) -> None:
        find(wire, "g", GROUP)
        member = Member(wire, "a")
        member.epoch = 3
        reply = until("a loaded group", lambda: served(member.beat()))
        assert (reply["error_code"], reply["member_epoch"], reply["assignment"]) == (NONE, 3, None)

    await on_broker(tmp_path, before)
    async with serving(tmp_path, SETTINGS) as broker:
        await asked(broker, after)


async def test_share_group_drops_a_deleted_topic_and_assigns_the_recreated_topic(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        assert member.joined("t") == [0, 1]
        wire.call("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 5000})
        assert owned(until("no assignment", lambda: assigned(member.beat()))) == []
        create(wire, "t", 1)
        replies = iter(lambda: owned(until("a change", lambda: assigned(member.beat()))), None)
        until("the new topic", lambda: next(replies) == [0])

    await on_broker(tmp_path, work)


async def test_api_versions_lists_share_apis_and_feature_only_when_protocol_is_enabled(
    tmp_path: Path,
) -> None:
    name = {"client_software_name": "x", "client_software_version": "1"}

    def on(wire: Wire) -> None:
        reply = wire.call("ApiVersions", 4, name)
        assert {"name": "share.version", "min_version": 0, "max_version": 1} in (
            reply["supported_features"]
        )
        finalized = {"name": "share.version", "max_version_level": 1, "min_version_level": 1}
        assert finalized in reply["finalized_features"]
        rows = {row["api_key"]: row for row in reply["api_keys"]}
        assert [(rows[key]["min_version"], rows[key]["max_version"]) for key in (76, 77)] == [
            (1, 1),
            (1, 1),
        ]

    def off(wire: Wire) -> None:
        reply = wire.call("ApiVersions", 4, name)
        assert "share.version" not in {each["name"] for each in reply["finalized_features"]}
        assert not {76, 77} & {row["api_key"] for row in reply["api_keys"]}
        assert 68 in {row["api_key"] for row in reply["api_keys"]}

    await on_broker(tmp_path / "on", on)
    protocols = {"group.coordinator.rebalance.protocols": "classic,consumer"}
    async with serving(tmp_path / "off", protocols) as broker:
        await asked(broker, off)


def alter(wire: Wire, name: str, value: str) -> int:
    config = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": [config]}
    request = {"resources": [resource], "validate_only": False}
    [result] = wire.call("IncrementalAlterConfigs", 1, request)["responses"]
    error: int = result["error_code"]
    return error


OWN_SETTINGS = [
    ("share.session.timeout.ms", "50000", "44999"),
    ("share.heartbeat.interval.ms", "6000", "15001"),
    ("share.assignment.interval.ms", "0", "15001"),
    ("share.record.lock.duration.ms", "15000", "14999"),
    ("share.delivery.count.limit", "10", "11"),
    ("share.partition.max.record.locks", "100", "4001"),
    ("share.auto.offset.reset", "earliest", "none"),
    ("share.auto.offset.reset", "by_duration:P1DT2H3.5S", "by_duration:1h"),
    ("share.auto.offset.reset", "by_duration:PT1H", "by_duration:-PT1H"),
    ("share.isolation.level", "read_committed", "serializable"),
    ("share.renew.acknowledge.enable", "false", "maybe"),
]
"""For each setting of a share group, a valid and an invalid value."""


async def test_settings_of_a_single_share_group_are_validated_and_described(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        for name, valid, invalid in OWN_SETTINGS:
            assert alter(wire, name, invalid) == INVALID_CONFIG
            assert alter(wire, name, valid) == NONE
            resource = {
                "resource_type": GROUP_RESOURCE,
                "resource_name": "g",
                "configuration_keys": [name],
            }
            request = {"resources": [resource], "include_synonyms": True}
            [result] = wire.call("DescribeConfigs", 4, request)["results"]
            [config] = result["configs"]
            assert (config["value"], config["config_source"]) == (valid, 8)
            assert config["synonyms"][1]["source"] in (4, 5)

    await on_broker(tmp_path, work)


async def test_altered_heartbeat_interval_is_in_the_next_share_group_heartbeat(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        member.joined("t")
        assert alter(wire, "share.heartbeat.interval.ms", "7000") == NONE
        assert member.beat()["heartbeat_interval_ms"] == 7000
        assert alter(wire, "consumer.heartbeat.interval.ms", "8000") == NONE
        assert member.beat()["heartbeat_interval_ms"] == 7000

    await on_broker(tmp_path, work)

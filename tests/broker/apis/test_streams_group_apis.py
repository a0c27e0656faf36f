"""Tests StreamsGroupHeartbeat and StreamsGroupDescribe, and the responses of other APIs for streams
groups (KIP-1071)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.broker import Broker
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    INVALID_CONFIG,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NONE,
    STREAMS_INVALID_TOPOLOGY,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)
from security.acls.model import Operation, ResourceType
from tests.broker.apis.authorization.filled import (
    ADMIN,
    LOOKER,
    NAMED,
    STRANGER,
    acl_for_owner,
    fill,
    protected_broker,
    talk,
)
from tests.broker.apis.test_consumer_group_apis import create
from tests.broker.serving import asked, serving
from tests.broker.transactional_calls import GROUP, find
from tests.waiting import until
from tests.wire import Wire

SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "1",
}
GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
STATELESS = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]}
STORE = {
    "name": "g-store-changelog",
    "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
}
STATEFUL = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": "0",
            "source_topics": ["t"],
            "repartition_sink_topics": ["g-by-key-repartition"],
        },
        {
            "subtopology_id": "1",
            "repartition_source_topics": [{"name": "g-by-key-repartition", "partitions": 3}],
            "state_changelog_topics": [STORE],
        },
    ],
}


class Member:
    """A member of streams group g with its own connection."""

    def __init__(self, wire: Wire, member_id: str, version: int = 0) -> None:
        self.wire = wire
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def beat(self, **fields: Any) -> dict[str, Any]:
        request = {"group_id": "g", "member_id": self.member_id, "member_epoch": self.epoch}
        reply = self.wire.call("StreamsGroupHeartbeat", self.version, {**request, **fields})
        if not reply["error_code"]:
            self.epoch = reply["member_epoch"]
        return reply

    def join(self, topology: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Joins as soon as the coordinator has loaded its groups."""
        self.epoch = 0
        lists = {f"{role}_tasks": [] for role in ("active", "standby", "warmup")}
        joining = {
            "rebalance_timeout_ms": 60_000,
            "topology": topology,
            "process_id": f"process-{self.member_id}",
            **lists,
            **fields,
        }
        return until("a loaded group", lambda: served(self.beat(**joining)))

    def joined(self, topology: dict[str, Any]) -> dict[str, list[int]]:
        """Joins, and returns the first active tasks that the member gets."""
        reply = self.join(topology)
        if not active(reply):
            reply = until("tasks", lambda: (found := self.beat()) and active(found) and found)
        return active(reply)


def served(reply: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the response, or None if it shows that the coordinator has not loaded the group
    yet."""
    return None if reply["error_code"] == COORDINATOR_LOAD_IN_PROGRESS else reply


def active(reply: dict[str, Any]) -> dict[str, list[int]]:
    return {each["subtopology_id"]: each["partitions"] for each in reply["active_tasks"] or ()}


async def on_broker(directory: Path, work: Any, **settings: str) -> None:
    async with serving(directory, {**SETTINGS, **settings}) as broker:
        await asked(broker, lambda wire: _prepared(wire, broker, work))


def _prepared(wire: Wire, broker: Broker, work: Any) -> None:
    create(wire, "t", 2)
    find(wire, "g", GROUP)
    work(wire)


async def test_streams_group_member_joins_gets_tasks_and_leaves(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        for version in (0, 1):
            member = Member(wire, "a", version)
            reply = member.join(STATELESS, user_endpoint={"host": "here", "port": 80})
            assert (reply["error_code"], reply["member_id"], reply["status"]) == (NONE, "a", [])
            assert (active(reply), reply["standby_tasks"]) == ({"0": [0, 1]}, [])
            [endpoint] = reply["partitions_by_user_endpoint"]
            assert endpoint["user_endpoint"] == {"host": "here", "port": 80}
            assert endpoint["active_partitions"] == [{"topic": "t", "partitions": [0, 1]}]
            reply = member.beat(endpoint_information_epoch=reply["endpoint_information_epoch"])
            assert reply["active_tasks"] is reply["partitions_by_user_endpoint"] is None
            epoch = member.epoch
            assert member.beat(member_epoch=-1)["member_epoch"] == -1
            member.epoch = epoch
            assert member.beat()["error_code"] == UNKNOWN_MEMBER_ID

    await on_broker(tmp_path, work)


async def test_missing_internal_topics_of_a_streams_group_are_created_with_their_settings(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        reply = member.join(STATEFUL)
        [status] = reply["status"]
        assert status["status_code"] == 3
        assert "g-store-changelog" in status["status_detail"]
        reply = until("tasks", lambda: (found := member.beat()) and active(found) and found)
        assert active(reply) == {"0": [0, 1], "1": [0, 1, 2]}
        assert reply["status"] == []
        names = ["g-by-key-repartition", "g-store-changelog"]
        asked_for = {"topics": [{"name": name} for name in names]}
        topics = wire.call("Metadata", 9, asked_for)["topics"]
        counts = {each["name"]: len(each["partitions"]) for each in topics}
        assert counts == {"g-by-key-repartition": 3, "g-store-changelog": 3}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": "g-store-changelog"}
        asked_for = {"resources": [{**resource, "configuration_keys": ["cleanup.policy"]}]}
        [described] = wire.call("DescribeConfigs", 4, asked_for)["results"]
        assert described["configs"][0]["value"] == "compact"

    await on_broker(tmp_path, work)


async def test_status_of_a_streams_member_says_why_an_internal_topic_was_not_created(
    tmp_path: Path,
) -> None:
    broken = {**STORE, "topic_configs": [{"key": "cleanup.policy", "value": "never"}]}
    subtopology = {
        "subtopology_id": "0",
        "source_topics": ["t"],
        "state_changelog_topics": [broken],
    }

    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        member.join({"epoch": 0, "subtopologies": [subtopology]})

        def reason() -> str | None:
            detail: str = member.beat()["status"][0]["status_detail"]
            return detail if "Creation failed" in detail else None

        text = until("a reason", reason)
        assert text.startswith("Internal topics are missing: g-store-changelog; Creation failed:")
        assert "cleanup.policy" in text

    await on_broker(tmp_path, work)


async def test_invalid_streams_group_heartbeat_is_refused_with_the_message_of_kafka(
    tmp_path: Path,
) -> None:
    inner = {"epoch": 0, "subtopologies": [{"source_topics": ["__consumer_offsets"]}]}
    illegal = {"epoch": 0, "subtopologies": [{"source_topics": ["a/b"]}]}
    task = [{"subtopology_id": "0", "partitions": [0]}]
    cases: list[tuple[dict[str, Any], int, str | None]] = [
        (
            {"topology": inner, "member_id": ""},
            STREAMS_INVALID_TOPOLOGY,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is"
            " prohibited.",
        ),
        (
            {"topology": illegal},
            STREAMS_INVALID_TOPOLOGY,
            "Topic names a/b are not valid topic names.",
        ),
        ({"member_id": " "}, INVALID_REQUEST, "MemberId can't be empty."),
        ({"instance_id": "i"}, INVALID_REQUEST, "Static membership is not yet supported."),
        ({"task_offsets": []}, INVALID_REQUEST, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, INVALID_REQUEST, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": task}, INVALID_REQUEST, "WarmupTasks are not supported yet."),
        (
            {"member_epoch": 3, "active_tasks": task},
            INVALID_REQUEST,
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 3}, GROUP_ID_NOT_FOUND, "Streams group g not found."),
    ]

    def work(wire: Wire) -> None:
        for fields, error, text in cases:
            reply = Member(wire, "a").beat(**fields)
            assert (reply["error_code"], reply["error_message"]) == (error, text)
            assert (reply["status"], reply["active_tasks"]) == ([], None)

    await on_broker(tmp_path, work)


async def test_streams_group_is_described_listed_and_deleted(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        assert member.joined(STATEFUL) == {"0": [0, 1], "1": [0, 1, 2]}
        request = {"group_ids": ["g", "no", ""], "include_authorized_operations": True}
        known, unknown, unnamed = wire.call("StreamsGroupDescribe", 0, request)["groups"]
        assert known["group_state"] == "Stable"
        assert known["group_epoch"] == known["assignment_epoch"] == member.epoch
        assert known["authorized_operations"] > 0
        first, second = known["topology"]["subtopologies"]
        assert first["repartition_sink_topics"] == ["g-by-key-repartition"]
        [changelog] = second["state_changelog_topics"]
        assert (changelog["name"], changelog["partitions"]) == ("g-store-changelog", 3)
        [described] = known["members"]
        assert (described["member_id"], described["process_id"]) == ("a", "process-a")
        for name in ("assignment", "target_assignment"):
            assert described[name]["active_tasks"] == [
                {"subtopology_id": "0", "partitions": [0, 1]},
                {"subtopology_id": "1", "partitions": [0, 1, 2]},
            ]
        assert (unknown["error_code"], unknown["error_message"]) == (
            GROUP_ID_NOT_FOUND,
            "Group no not found.",
        )
        assert unnamed["error_code"] == INVALID_GROUP_ID
        newer = wire.call("StreamsGroupDescribe", 1, request)["groups"][0]
        assert (newer["topology_description"], newer["assignor_name"]) == (None, "sticky")

        filters = {"states_filter": [], "types_filter": ["streams"]}
        [listed] = wire.call("ListGroups", 5, filters)["groups"]
        assert (listed["group_type"], listed["protocol_type"]) == ("streams", "streams")
        [classic] = wire.call("DescribeGroups", 6, {"groups": ["g"]})["groups"]
        assert (classic["error_code"], classic["group_state"]) == (GROUP_ID_NOT_FOUND, "Dead")
        delete = {"groups_names": ["g"]}
        assert wire.call("DeleteGroups", 2, delete)["results"][0]["error_code"] == NON_EMPTY_GROUP
        member.beat(member_epoch=-1)
        assert wire.call("DeleteGroups", 2, delete)["results"][0]["error_code"] == NONE
        assert wire.call("ListGroups", 5, filters)["groups"] == []

    await on_broker(tmp_path, work)


async def test_streams_group_is_unchanged_after_a_restart(tmp_path: Path) -> None:
    def before(wire: Wire) -> None:
        assert Member(wire, "a").joined(STATELESS) == {"0": [0, 1]}

    def after(wire: Wire) -> None:
        member = Member(wire, "a")
        member.epoch = 2
        reply = until("a loaded group", lambda: served(member.beat()))
        assert (reply["error_code"], reply["member_epoch"]) == (NONE, 2)
        assert (reply["active_tasks"], reply["status"]) == (None, [])

    await on_broker(tmp_path, before)
    async with serving(tmp_path, SETTINGS) as broker:
        await asked(broker, after)


async def test_altered_streams_group_settings_apply_to_the_next_heartbeat(tmp_path: Path) -> None:
    def work(wire: Wire) -> None:
        member = Member(wire, "a")
        member.joined(STATELESS)

        def alter(name: str, value: str) -> int:
            change = {"name": name, "config_operation": 0, "value": value}
            resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": [change]}
            reply = wire.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
            code: int = reply["responses"][0]["error_code"]
            return code

        assert alter("streams.heartbeat.interval.ms", "7000") == NONE
        assert member.beat()["heartbeat_interval_ms"] == 7000
        assert alter("streams.num.standby.replicas", "3") == INVALID_CONFIG
        epoch = member.epoch
        assert alter("streams.num.standby.replicas", "2") == NONE
        assert member.beat()["member_epoch"] == epoch + 1
        assert alter("streams.initial.rebalance.delay.ms", "0") == NONE

    await on_broker(tmp_path, work)


async def test_api_versions_omits_streams_apis_and_feature_when_protocol_is_disabled(
    tmp_path: Path,
) -> None:
    def work(wire: Wire) -> None:
        reply = wire.call(
            "ApiVersions", 4, {"client_software_name": "a", "client_software_version": "1"}
        )
        keys = {each["api_key"] for each in reply["api_keys"]}
        assert not keys & {88, 89}
        finalized = {each["name"] for each in reply["finalized_features"]}
        assert "streams.version" not in finalized

    protocols = {"group.coordinator.rebalance.protocols": "classic,consumer,share"}
    async with serving(tmp_path, protocols) as broker:
        await asked(broker, work)


def joining(group_id: str, *changelogs: str) -> dict[str, Any]:
    subtopology = {
        "subtopology_id": "0",
        "source_topics": [NAMED],
        "state_changelog_topics": [{"name": name} for name in changelogs],
    }
    return {
        "group_id": group_id, "member_id": "a", "member_epoch": 0, "rebalance_timeout_ms": 60_000,
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }  # fmt: skip


async def test_streams_heartbeat_needs_rights_on_the_group_and_on_existing_and_missing_topics(
    tmp_path: Path,
) -> None:
    replies: dict[str, dict[str, Any]] = {}

    def allow(wire: Wire) -> None:
        for principal in (LOOKER, STRANGER):
            reading = {
                **acl_for_owner("g"),
                "resource_type": ResourceType.GROUP,
                "principal": f"User:{principal}",
                "operation": Operation.READ,
            }
            wire.call("CreateAcls", 3, {"creations": [reading]})

    def beat(name: str, group_id: str, *changelogs: str) -> Any:
        def work(wire: Wire) -> None:
            request = joining(group_id, *changelogs)
            call = lambda: served(wire.call("StreamsGroupHeartbeat", 0, request))  # noqa: E731
            replies[name] = until("a loaded group", call)

        return work

    async with protected_broker(tmp_path) as broker:
        await fill(broker)
        await talk(broker, ADMIN, allow)
        await talk(broker, LOOKER, beat("other group", "other"))
        await talk(broker, STRANGER, beat("hidden topic", "g"))
        await talk(broker, LOOKER, beat("new topic", "g", "g-changelog"))
    assert replies["other group"]["error_code"] == GROUP_AUTHORIZATION_FAILED
    assert replies["hidden topic"]["error_code"] == TOPIC_AUTHORIZATION_FAILED
    [status] = [each for each in replies["new topic"]["status"] if each["status_code"] == 3]
    assert status["status_detail"].endswith("; Unauthorized to CREATE on topics g-changelog.")

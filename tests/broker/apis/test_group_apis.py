from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.cores.runtime_settings import RuntimeSettings
from coordinator.classic.states import State
from coordinator.config import GroupConfig
from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.edge import Client, EdgeBroker, eventually

COMMIT, FETCH, FIND, JOIN, BEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
DESCRIBE, LIST, DELETE, OFFSET_DELETE = 15, 16, 42, 47
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    structlog.reset_defaults()
    with capture_logs():
        yield


def orders(broker: EdgeBroker, version: int) -> dict[str, Any]:
    """Returns the field that identifies the topic orders in OffsetCommit and OffsetFetch of this
    version: its name or its topic id."""
    return {"topic_id": topic_id(broker)} if version >= 10 else {"name": "orders"}


def topic_id(broker: EdgeBroker) -> bytes:
    topic = broker.registry.topic("orders")
    assert topic is not None
    return topic.topic_id


def joining(group_id: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 40_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        "reason": "a test",
        **more,
    }


async def join(client: Client, version: int, group_id: str, **more: Any) -> dict[str, Any]:
    request = joining(group_id, **more)
    reply = await client.call(JOIN, version, **request)
    if reply["error_code"] == MEMBER_ID_REQUIRED:
        reply = await client.call(JOIN, version, **{**request, "member_id": reply["member_id"]})
    return reply


async def sync(client: Client, version: int, group_id: str, joined: dict[str, Any]) -> None:
    member_id = joined["member_id"]
    reply = await client.call(
        SYNC,
        version,
        group_id=group_id,
        generation_id=joined["generation_id"],
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": b"mine"}],
    )
    assert (reply["error_code"], reply["assignment"]) == (NONE, b"mine")
    if version >= 5:
        assert (reply["protocol_type"], reply["protocol_name"]) == ("consumer", "range")


@pytest.mark.parametrize("version", range(10))
async def test_member_joins_syncs_commits_and_leaves_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        joined = await join(client, version, "g")
        assert joined["error_code"] == NONE
        assert joined["leader"] == joined["member_id"]
        assert joined["protocol_name"] == "range"
        assert joined["protocol_type"] == ("consumer" if version >= 7 else None)
        assert [m["metadata"] for m in joined["members"]] == [SUBSCRIPTION]
        member = {"member_id": joined["member_id"]}
        await sync(client, min(version, 5), "g", joined)
        epoch = {"generation_id": joined["generation_id"]}
        beat = await client.call(BEAT, min(version, 4), group_id="g", **member, **epoch)
        assert beat["error_code"] == NONE

        commit_version = version + 1
        partitions = [
            {"partition_index": p, "committed_offset": 10 + p, "committed_metadata": "note"}
            for p in range(3)
        ]
        committed = await client.call(
            COMMIT,
            commit_version,
            group_id="g",
            **member,
            generation_id_or_member_epoch=joined["generation_id"],
            topics=[{**orders(broker, commit_version), "partitions": partitions}],
        )
        assert [p["error_code"] for p in committed["topics"][0]["partitions"]] == [NONE] * 3
        assert await fetched(client, broker, commit_version, "g") == [(10, "note"), (12, "note")]
        if version < 3:
            left = await client.call(LEAVE, version, group_id="g", **member)
        else:
            leaver = {**member, "group_instance_id": None, "reason": "done"}
            left = await client.call(LEAVE, min(version, 5), group_id="g", members=[leaver])
            assert [m["error_code"] for m in left["members"]] == [NONE]
        assert left["error_code"] == NONE
        assert (await join(client, version, "g"))["generation_id"] == joined["generation_id"] + 2


async def fetched(
    client: Client, broker: EdgeBroker, version: int, group_id: str
) -> list[tuple[int, str]]:
    """Returns offset and metadata of partitions 0 and 2 of orders from an OffsetFetch response of
    this version."""
    topics = [{**orders(broker, version), "partition_indexes": [0, 2]}]
    if version < 8:
        reply = await client.call(FETCH, version, group_id=group_id, topics=topics)
        group = reply
    else:
        groups = [{"group_id": group_id, "member_id": None, "topics": topics}]
        reply = await client.call(FETCH, version, groups=groups)
        (group,) = reply["groups"]
        assert group["group_id"] == group_id
    assert group["error_code"] == NONE
    (topic,) = group["topics"]
    return [(p["committed_offset"], p["metadata"]) for p in topic["partitions"]]


async def test_empty_group_id_is_refused_by_the_same_apis_as_in_kafka(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()

        assert (await join(client, 4, ""))["error_code"] == INVALID_GROUP_ID
        for key, version in ((SYNC, 0), (BEAT, 0), (LEAVE, 0), (LEAVE, 3), (OFFSET_DELETE, 0)):
            reply = await client.call(key, version, group_id="")
            assert reply["error_code"] == INVALID_GROUP_ID, key
        assert await client.commit("", 5) == NONE
        assert await client.fetch("") == 5
        described = await client.call(DESCRIBE, 0, groups=[""])
        assert described["groups"][0]["group_state"] == "Empty"
        assert (await client.call(DELETE, 0, groups_names=[""]))["results"][0]["error_code"] == NONE


async def test_empty_group_id_is_refused_before_the_coordinator_is_checked(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()

        assert (await join(client, 4, ""))["error_code"] == INVALID_GROUP_ID
        for key, version in ((SYNC, 0), (BEAT, 0), (LEAVE, 0), (LEAVE, 3), (OFFSET_DELETE, 0)):
            reply = await client.call(key, version, group_id="")
            assert reply["error_code"] == INVALID_GROUP_ID, key
        assert await client.commit("", 5) == NOT_COORDINATOR


async def test_join_group_v0_uses_session_timeout_as_rebalance_timeout(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for version, expected in ((0, 30_000), (1, 40_000)):
            group_id = f"g{version}"
            await join(client, version, group_id)
            shard = broker.groups.hosted_for(group_id).core
            (member,) = shard.view.groups[group_id].members.values()
            assert member.rebalance_timeout_ms == expected


async def test_join_group_error_has_the_same_empty_fields_as_in_kafka(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for version in range(10):
            reply = await join(client, version, "g", session_timeout_ms=1)
            assert reply["error_code"] == INVALID_SESSION_TIMEOUT
            assert reply["generation_id"] == -1
            assert reply["protocol_name"] == (None if version >= 7 else "")
            assert (reply["leader"], reply["members"]) == ("", [])


async def test_dynamic_member_gets_member_id_required_from_version_4(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for version in range(4, 10):
            request = {
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            }
            first = await client.call(JOIN, version, group_id=f"g{version}", **request)
            assert first["error_code"] == MEMBER_ID_REQUIRED
            assert first["member_id"].startswith("tester-")
            if version >= 5:
                static = {**request, "group_instance_id": "here"}
                second = await client.call(JOIN, version, group_id=f"s{version}", **static)
                assert second["error_code"] == NONE
                assert second["member_id"].startswith("here-")


async def test_returning_static_leader_gets_skip_assignment(tmp_path: Path) -> None:
    """JoinGroup version 9 behaves as KIP-814 defines. The member's old member id is fenced."""
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        first = await join(client, 9, "g", group_instance_id="here")
        await sync(client, 5, "g", first)
        again = await join(client, 9, "g", group_instance_id="here")

        assert again["skip_assignment"]
        assert again["leader"] == again["member_id"] != first["member_id"]
        assert again["generation_id"] == first["generation_id"]
        fenced = await client.call(
            BEAT,
            3,
            group_id="g",
            generation_id=first["generation_id"],
            member_id=first["member_id"],
            group_instance_id="here",
        )
        assert fenced["error_code"] == FENCED_INSTANCE_ID


async def test_leave_group_of_several_members_returns_an_error_for_each_member(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        joined = await join(client, 5, "g", group_instance_id="here")
        await sync(client, 3, "g", joined)
        members = [
            {"member_id": "nobody", "group_instance_id": None},
            {"member_id": "", "group_instance_id": "there"},
            {"member_id": "wrong", "group_instance_id": "here"},
            {"member_id": "", "group_instance_id": "here"},
        ]
        left = await client.call(LEAVE, 4, group_id="g", members=members)

        assert left["error_code"] == NONE
        assert [m["error_code"] for m in left["members"]] == [
            UNKNOWN_MEMBER_ID,
            UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID,
            NONE,
        ]
        assert [m["group_instance_id"] for m in left["members"]] == [None, "there", "here", "here"]
        one = await client.call(LEAVE, 2, group_id="g", member_id="nobody")
        assert one["error_code"] == UNKNOWN_MEMBER_ID, "below v3 the one error is the request's"


async def test_member_that_leaves_and_disconnects_during_its_join_is_removed(
    tmp_path: Path,
) -> None:
    """The member sends LeaveGroup while its JoinGroup is parked. Muster handles the LeaveGroup at
    once, and Kafka only after the JoinGroup. The member must be removed in both cases."""
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client, leaver = await broker.client(), await broker.client()
        first = await join(client, 9, "g")
        await sync(client, 5, "g", first)
        request = joining("g")
        member_id = (await leaver.call(JOIN, 9, **request))["member_id"]
        leaver.send(JOIN, 9, **{**request, "member_id": member_id})
        member = {"member_id": member_id, "group_instance_id": None, "reason": None}
        leaver.send(LEAVE, 5, group_id="g", members=[member])
        leaver.close()
        hosted = broker.groups.hosted_for("g")
        assert hosted is not None
        group = hosted.core.view.groups["g"]
        await eventually(lambda: group.state is State.PREPARING_REBALANCE)
        await eventually(lambda: list(group.members) == [first["member_id"]])


async def test_offset_commit_refuses_unknown_partitions_and_commits_the_known_partitions(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()

        def entry(partition: int, note: str = "") -> dict[str, Any]:
            return {
                "partition_index": partition,
                "committed_offset": 100 + partition,
                "committed_metadata": note,
            }

        reply = await client.call(
            COMMIT,
            8,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {"name": "nowhere", "partitions": [entry(0), entry(1)]},
                {
                    "name": "orders",
                    "partitions": [entry(3), entry(0), entry(-1), entry(2, "x" * 5000)],
                },
                {"name": "payments", "partitions": [entry(7)]},
                {"name": "orders", "partitions": []},
            ],
        )

        codes = [[p["error_code"] for p in topic["partitions"]] for topic in reply["topics"]]
        assert codes == [
            [UNKNOWN_TOPIC_OR_PARTITION] * 2,
            [
                UNKNOWN_TOPIC_OR_PARTITION,
                NONE,
                UNKNOWN_TOPIC_OR_PARTITION,
                OFFSET_METADATA_TOO_LARGE,
            ],
            [NONE],
            [],
        ]
        assert [t["name"] for t in reply["topics"]] == ["nowhere", "orders", "payments", "orders"]
        assert [p["partition_index"] for p in reply["topics"][1]["partitions"]] == [3, 0, -1, 2]
        assert await fetched(client, broker, 8, "g") == [(100, ""), (-1, "")]
        assert await client.fetch("g", "payments") == -1


async def test_offset_commit_with_only_unknown_partitions_does_not_check_the_group(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("g", 5, topic="nowhere", generation_id=7) == 3
        reply = await client.call(
            COMMIT, 8, group_id="g", generation_id_or_member_epoch=7, member_id="m", topics=[]
        )
        assert reply["topics"] == []
        shard = broker.groups.hosted_for("g").core
        assert not shard.view.groups


async def test_offset_commit_to_unknown_group_gets_the_error_of_its_version(tmp_path: Path) -> None:
    """The error is ILLEGAL_GENERATION below version 9, and GROUP_ID_NOT_FOUND from version 9
    (KIP-848)."""
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for version in range(1, 11):
            topic = {
                **orders(broker, version),
                "partitions": [{"partition_index": 0, "committed_offset": 1}],
            }
            reply = await client.call(
                COMMIT,
                version,
                group_id="nobody",
                generation_id_or_member_epoch=3,
                member_id="m",
                topics=[topic],
            )
            code = reply["topics"][0]["partitions"][0]["error_code"]
            assert code == (GROUP_ID_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION)


async def test_unknown_topic_id_is_an_error_in_offset_commit_and_offset_fetch(
    tmp_path: Path,
) -> None:
    stranger = b"\x55" * 16
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        entry = {"partition_index": 0, "committed_offset": 1}
        reply = await client.call(
            COMMIT,
            10,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {"topic_id": stranger, "partitions": [entry]},
                {
                    "topic_id": topic_id(broker),
                    "partitions": [entry, {**entry, "partition_index": 9}],
                },
            ],
        )
        assert [t["topic_id"] for t in reply["topics"]] == [stranger, topic_id(broker)]
        assert [[p["error_code"] for p in t["partitions"]] for t in reply["topics"]] == [
            [UNKNOWN_TOPIC_ID],
            [NONE, UNKNOWN_TOPIC_OR_PARTITION],
        ]

        asked = [
            {"topic_id": stranger, "partition_indexes": [0, 1]},
            {"topic_id": topic_id(broker), "partition_indexes": [0]},
        ]
        reply = await client.call(
            FETCH,
            10,
            groups=[{"group_id": "g", "topics": asked}, {"group_id": "g", "topics": None}],
        )
        some, everything = reply["groups"]
        found = {
            t["topic_id"]: [(p["committed_offset"], p["error_code"]) for p in t["partitions"]]
            for t in some["topics"]
        }
        assert found == {
            stranger: [(-1, UNKNOWN_TOPIC_ID)] * 2,
            topic_id(broker): [(1, NONE)],
        }
        assert [t["topic_id"] for t in everything["topics"]] == [topic_id(broker)]


async def test_timestamp_of_offset_commit_v1_and_retention_time_of_v2_to_v4_are_stored(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        simple = {"generation_id_or_member_epoch": -1, "member_id": ""}
        old = {"partition_index": 0, "committed_offset": 1, "commit_timestamp": 12345}
        new = {"partition_index": 1, "committed_offset": 2, "commit_timestamp": -1}
        topics = [{"name": "orders", "partitions": [old, new]}]
        await client.call(COMMIT, 1, group_id="v1", **simple, topics=topics)
        kept = {"partition_index": 0, "committed_offset": 3}
        topics = [{"name": "orders", "partitions": [kept]}]
        for version in (2, 3, 4):
            await client.call(
                COMMIT,
                version,
                group_id=f"v{version}",
                **simple,
                retention_time_ms=5000,
                topics=topics,
            )
        now_ms = broker.time.now().wall_ms

        def cached(group_id: str, partition: int) -> Any:
            shard = broker.groups.hosted_for(group_id).core
            return shard.view.offsets.get(group_id, "orders", partition)

        assert cached("v1", 0).commit_timestamp_ms == 12345
        assert abs(cached("v1", 1).commit_timestamp_ms - now_ms) < 60_000
        assert cached("v1", 0).expire_timestamp_ms == -1
        for version in (2, 3, 4):
            entry = cached(f"v{version}", 0)
            assert entry.expire_timestamp_ms == entry.commit_timestamp_ms + 5000


async def test_offset_fetch_returns_all_offsets_of_several_groups(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("one", 1) == NONE
        assert await client.commit("two", 2, topic="payments") == NONE
        for version in (8, 9):
            groups = [{"group_id": g, "topics": None} for g in ("two", "one", "none")]
            reply = await client.call(FETCH, version, groups=groups, require_stable=True)

            found = [
                (g["group_id"], g["error_code"], [t["name"] for t in g["topics"]])
                for g in reply["groups"]
            ]
            assert found == [
                ("two", NONE, ["payments"]),
                ("one", NONE, ["orders"]),
                ("none", NONE, []),
            ]
        for version in range(2, 8):
            reply = await client.call(FETCH, version, group_id="one", topics=None)
            assert [t["name"] for t in reply["topics"]] == ["orders"]


async def test_offset_fetch_v1_returns_a_group_error_in_each_partition(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()  # without an offsets topic: NOT_COORDINATOR
        topics = [{"name": "orders", "partition_indexes": [0, 1]}]
        reply = await client.call(FETCH, 1, group_id="g", topics=topics)
        codes = [
            (p["committed_offset"], p["error_code"])
            for t in reply["topics"]
            for p in t["partitions"]
        ]
        assert codes == [(-1, 16), (-1, 16)]


async def test_find_coordinator_returns_this_broker_in_every_version(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        for version in range(4):
            reply = await client.call(FIND, version, key="g", key_type=0)
            assert (reply["error_code"], reply["host"], reply["port"], reply["node_id"]) == (
                NONE,
                "127.0.0.1",
                broker.port,
                1,
            )
        for version in range(4, 7):
            reply = await client.call(FIND, version, key_type=0, coordinator_keys=["a", "b"])
            assert [(c["key"], c["error_code"], c["port"]) for c in reply["coordinators"]] == [
                ("a", NONE, broker.port),
                ("b", NONE, broker.port),
            ]
        assert broker.log_exists, "the first to ask has the offsets topic made"


async def test_find_coordinator_of_share_groups_returns_invalid_request(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        for key_type in (2, 3):
            reply = await client.call(FIND, 1, key="t", key_type=key_type)
            assert (reply["error_code"], reply["node_id"]) == (INVALID_REQUEST, -1)
            assert "does not coordinate" in reply["error_message"]
            reply = await client.call(FIND, 6, key_type=key_type, coordinator_keys=["t"])
            assert reply["coordinators"][0]["error_code"] == INVALID_REQUEST
        assert not broker.log_exists


@pytest.mark.parametrize("version", range(7))
async def test_describe_groups_returns_member_and_state_in_every_version(
    tmp_path: Path, version: int
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        joined = await join(client, 5, "g", group_instance_id="here")
        await sync(client, 3, "g", joined)
        reply = await client.call(
            DESCRIBE, version, groups=["g", "absent"], include_authorized_operations=True
        )

        here, absent = reply["groups"]
        (member,) = here["members"]
        assert (here["group_state"], here["protocol_type"], here["protocol_data"]) == (
            "Stable",
            "consumer",
            "range",
        )
        assert (member["client_id"], member["client_host"]) == ("tester", "/127.0.0.1")
        assert (member["member_metadata"], member["member_assignment"]) == (SUBSCRIPTION, b"mine")
        assert member["group_instance_id"] == ("here" if version >= 4 else None)
        all_operations = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        asked = all_operations if version >= 3 else -(2**31)
        assert here["authorized_operations"] == asked
        assert absent["group_state"] == "Dead"
        if version >= 6:
            assert absent["error_code"] == GROUP_ID_NOT_FOUND
            assert absent["error_message"] == "Group absent not found."
        else:
            assert absent["error_code"] == NONE
        plain = await client.call(DESCRIBE, version, groups=["g"])
        assert plain["groups"][0]["authorized_operations"] == -(2**31)


async def test_list_groups_filters_by_state_and_type(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        joined = await join(client, 3, "busy")
        assert joined["error_code"] == NONE
        await client.commit("simple", 1)
        await join(client, 3, "calm")

        async def listed(version: int, **filters: list[str]) -> list[str]:
            reply = await client.call(LIST, version, **filters)
            assert reply["error_code"] == NONE
            return sorted(group["group_id"] for group in reply["groups"])

        for version in range(6):
            assert await listed(version) == ["busy", "calm", "simple"]
        for version in (4, 5):
            assert await listed(version, states_filter=["Empty"]) == ["simple"]
            for name in ("CompletingRebalance", "completingrebalance", "AwaitingSync"):
                assert await listed(version, states_filter=[name]) == ["busy", "calm"]
            assert await listed(version, states_filter=["Stable", "Dead"]) == []
        assert await listed(5, types_filter=["classic"]) == ["busy", "calm", "simple"]
        assert await listed(5, types_filter=["Classic"], states_filter=["empty"]) == ["simple"]
        assert await listed(5, types_filter=["consumer"]) == []
        reply = await client.call(LIST, 5, states_filter=[], types_filter=[])
        rows = {g["group_id"]: g for g in reply["groups"]}
        assert rows["busy"]["group_state"] == "CompletingRebalance"
        assert (rows["simple"]["protocol_type"], rows["simple"]["group_type"]) == ("", "classic")


async def test_list_groups_is_empty_without_an_offsets_topic(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        reply = await (await broker.client()).call(LIST, 4)
        assert (reply["error_code"], reply["groups"]) == (NONE, [])


async def test_delete_groups_answers_each_group_once(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        await join(client, 3, "busy")
        await client.commit("done", 1)
        for version, code in ((0, NONE), *((version, GROUP_ID_NOT_FOUND) for version in (1, 2, 3))):
            reply = await client.call(DELETE, version, groups_names=["done", "busy", "done"])
            assert [(r["group_id"], r["error_code"]) for r in reply["results"]] == [
                ("done", code),
                ("busy", NON_EMPTY_GROUP),
            ]
            messages = {result.get("error_message") for result in reply["results"]}
            assert messages == {None}, "as in Kafka 4.4.0, for groups of these types"
        assert await client.fetch("done") == -1


async def test_offset_delete_refuses_subscribed_and_unknown_topics(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        joined = await join(client, 3, "g")
        await sync(client, 3, "g", joined)
        member = {"member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        await client.commit("g", 1, **member)
        await client.commit("g", 2, topic="payments", **member)

        def topic(name: str, *partitions: int) -> dict[str, Any]:
            return {"name": name, "partitions": [{"partition_index": p} for p in partitions]}

        reply = await client.call(
            OFFSET_DELETE,
            0,
            group_id="g",
            topics=[topic("orders", 0), topic("payments", 0, 500), topic("nowhere", 0)],
        )
        assert reply["error_code"] == NONE
        assert [[p["error_code"] for p in t["partitions"]] for t in reply["topics"]] == [
            [GROUP_SUBSCRIBED_TO_TOPIC],
            [NONE, UNKNOWN_TOPIC_OR_PARTITION],
            [UNKNOWN_TOPIC_OR_PARTITION],
        ]
        assert await client.fetch("g", "payments") == -1
        assert await client.fetch("g") == 1
        absent = await client.call(OFFSET_DELETE, 0, group_id="none", topics=[topic("orders", 0)])
        assert (absent["error_code"], absent["topics"]) == (GROUP_ID_NOT_FOUND, [])


async def test_first_joins_form_one_generation_during_initial_rebalance_delay(
    tmp_path: Path,
) -> None:
    settings = RuntimeSettings(
        GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=100)
    )
    async with EdgeBroker(tmp_path, settings=settings) as broker:
        await broker.ensure_offsets_topic()
        clients = [await broker.client() for _ in range(3)]
        handles = [
            client.send(
                JOIN,
                3,
                group_id="g",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id="",
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
            for client in clients
        ]
        replies = [await c.receive(h) for c, h in zip(clients, handles, strict=True)]

        assert {reply["generation_id"] for reply in replies} == {1}
        assert sorted(len(reply["members"]) for reply in replies) == [0, 0, 3]


async def test_requests_are_counted_by_api_and_error(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        await client.heartbeat("g", "m", 1)
        await client.commit("g", 1)
        await client.commit("g", 1, topic="nowhere")

        assert dict(broker.server.errors[BEAT]) == {UNKNOWN_MEMBER_ID: 1}
        assert dict(broker.server.errors[COMMIT]) == {NONE: 1, UNKNOWN_TOPIC_OR_PARTITION: 1}
        assert broker.server.served[COMMIT].api.name == "OffsetCommit"

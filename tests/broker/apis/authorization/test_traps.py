"""Tests of details of authorization that are easy to get wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.topics.registry import OFFSETS_TOPIC
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.schema import ZERO_UUID
from security.acls.model import Operation
from tests.broker.apis.authorization.asking import (
    GROUP,
    TOPICS,
    Asking,
    by_name,
    codes,
    fetch,
    guarded_broker,
    join,
    list_offsets,
    metadata,
    produce,
)
from tests.broker.apis.authorization.rules import ADMIN
from tests.wire import Wire

UNKNOWN_ID = bytes(range(16))
DENIED = {TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.proves("security 11")
async def test_allow_acl_for_read_implies_describe_but_deny_acl_for_read_does_not(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path,
        "reader: READ TOPIC orders",
        "looker: DESCRIBE TOPIC orders",
        "looker: deny READ TOPIC orders",
    ) as asking:
        for user in ("reader", "looker"):
            assert codes(await asking.ask(user, "ListOffsets", 5, list_offsets("orders"))) == {NONE}
        assert codes(await asking.ask("reader", "Fetch", 11, fetch("orders"))) == {NONE}
        assert codes(await asking.ask("looker", "Fetch", 11, fetch("orders"))) == DENIED


@pytest.mark.proves("security 11")
async def test_deny_of_all_denies_every_operation_except_to_super_users(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path,
        "alice: ALL TOPIC *",
        "alice: deny ALL TOPIC orders",
        f"{ADMIN}: deny ALL TOPIC orders",
    ) as asking:
        for api, version, value in (
            ("ListOffsets", 5, list_offsets("orders")),
            ("Fetch", 11, fetch("orders")),
            ("Produce", 7, produce("orders")),
        ):
            assert codes(await asking.ask("alice", api, version, value)) == DENIED
            assert codes(await asking.ask(ADMIN, api, version, value)) == {NONE}


@pytest.mark.proves("security 12")
async def test_allow_everyone_does_not_apply_to_a_topic_that_has_an_acl(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path, allow_everyone=True) as asking:
        both = produce(*TOPICS)
        assert codes(await asking.ask("alice", "Produce", 7, both)) == {NONE}
        asking.rules.add("bob: WRITE TOPIC orders")
        answer = await asking.ask("alice", "Produce", 7, both)
        assert by_name(answer, "responses") == {"orders": DENIED, "payments": {NONE}}
        asking.rules.add("bob: WRITE TOPIC pay*")
        assert codes(await asking.ask("alice", "Produce", 7, both)) == DENIED
        assert codes(await asking.ask("bob", "Produce", 7, both)) == {NONE}


@pytest.mark.proves("security 14")
async def test_metadata_omits_denied_topics_unless_the_request_names_them(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "alice: DESCRIBE TOPIC orders") as asking:
        for version in (0, 1, 9, 12):
            everything = {"topics": None if version else [], "allow_auto_topic_creation": True}
            answer = await asking.ask("alice", "Metadata", version, everything)
            assert by_name(answer) == {"orders": {NONE}}
        answer = await asking.ask("alice", "Metadata", 9, metadata("orders", "payments", "absent"))
        assert by_name(answer) == {"orders": {NONE}, "payments": DENIED, "absent": DENIED}
        assert [each["partitions"] for each in answer["topics"][1:]] == [[], []]
        answer = await asking.ask("bob", "Metadata", 0, metadata("orders"))
        assert by_name(answer) == {"orders": DENIED}, "named in vain is not all"


@pytest.mark.proves("security 14")
async def test_describe_topic_partitions_and_its_cursor_omit_denied_topics(
    tmp_path: Path,
) -> None:
    names = ("a", "b", "c", "d")
    async with guarded_broker(
        tmp_path, "alice: DESCRIBE TOPIC a", "alice: DESCRIBE TOPIC d", topics=names
    ) as asking:
        first = {"topics": [], "response_partition_limit": 1, "cursor": None}
        answer = await asking.ask("alice", "DescribeTopicPartitions", 0, first)
        assert by_name(answer) == {"a": {NONE}}
        cursor = answer["next_cursor"]
        assert cursor["topic_name"] == "d"
        answer = await asking.ask(
            "alice", "DescribeTopicPartitions", 0, {**first, "cursor": cursor}
        )
        assert by_name(answer) == {"d": {NONE}}
        asking.rules.remove_all_of("alice")
        answer = await asking.ask(
            "alice", "DescribeTopicPartitions", 0, {**first, "cursor": cursor}
        )
        assert (answer["topics"], answer["next_cursor"]) == ([], None)


@pytest.mark.proves("security 14")
async def test_describe_topic_partitions_accepts_cursor_at_denied_topic(
    tmp_path: Path,
) -> None:
    names = ("a", "b", "c")
    async with guarded_broker(tmp_path, "alice: DESCRIBE TOPIC b", topics=names) as asking:

        async def described(topic: str, index: int = 0, *, named: tuple[str, ...] = names) -> Any:
            asking.rules.asked.clear()
            value = {
                "topics": [{"name": name} for name in named],
                "response_partition_limit": 10,
                "cursor": {"topic_name": topic, "partition_index": index},
            }
            answer = await asking.ask("alice", "DescribeTopicPartitions", 0, value)
            return by_name(answer), {each.name for each in asking.rules.asked}

        everything = {"a": DENIED, "b": {NONE}, "c": DENIED}
        assert await described("a") == (everything, {*names})
        assert await described("c") == ({"c": DENIED}, {"c"}), "those before it were told already"
        refused = ({name: {INVALID_REQUEST} for name in names}, set())
        assert await described("other") == refused
        assert await described("a", -1) == refused
        assert await described("a", -1, named=()) == ({}, set())


async def test_offset_fetch_of_an_empty_group_list_returns_no_groups(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as asking:
        answer = await asking.ask("alice", "OffsetFetch", 8, {"groups": []})
        assert answer["groups"] == []


async def test_offset_delete_of_an_unknown_group_returns_no_topics(tmp_path: Path) -> None:
    async with guarded_broker(
        tmp_path, "alice: DELETE GROUP *", "alice: READ TOPIC orders"
    ) as asking:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in TOPICS]
        asked = {"group_id": "nobodys", "topics": topics}
        answer = await asking.ask("alice", "OffsetDelete", 0, asked)
        assert (answer["error_code"], answer["topics"]) == (GROUP_ID_NOT_FOUND, [])


@pytest.mark.proves("security 14")
async def test_offset_fetch_of_all_topics_omits_the_denied_topics(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path, f"alice: DESCRIBE GROUP {GROUP}", "alice: DESCRIBE TOPIC orders"
    ) as asking:
        for version in (2, 7):
            answer = await asking.ask(
                "alice", "OffsetFetch", version, {"group_id": GROUP, "topics": None}
            )
            assert by_name(answer) == {"orders": {NONE}}
            named = [{"name": name, "partition_indexes": [0]} for name in (*TOPICS, "absent")]
            answer = await asking.ask(
                "alice", "OffsetFetch", version, {"group_id": GROUP, "topics": named}
            )
            assert by_name(answer) == {"orders": {NONE}, "payments": DENIED, "absent": DENIED}
        groups = [{"group_id": GROUP, "topics": None}, {"group_id": "other", "topics": None}]
        answer = await asking.ask("alice", "OffsetFetch", 8, {"groups": groups})
        assert by_name(answer["groups"][0]) == {"orders": {NONE}}
        assert answer["groups"][1]["error_code"] == GROUP_AUTHORIZATION_FAILED


@pytest.mark.proves("security 15")
async def test_fetch_by_id_distinguishes_unknown_and_denied_topics(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path, "alice: READ TOPIC orders") as asking:
        orders, payments = asking.id("orders"), asking.id("payments")
        by_id = fetch(orders, payments, UNKNOWN_ID, key="topic_id")
        answer = await asking.ask("alice", "Fetch", 13, by_id)
        assert by_name(answer, "responses") == {
            orders: {NONE},
            payments: DENIED,
            UNKNOWN_ID: {UNKNOWN_TOPIC_ID},
        }


@pytest.mark.proves("security 15")
async def test_fetch_session_denies_a_topic_when_its_acl_was_removed(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path, "alice: READ TOPIC orders") as asking:

        def talk(wire: Wire) -> None:
            opened = wire.call("Fetch", 11, fetch("orders", session_epoch=0))
            assert codes(opened) == {NONE}
            goes_on = {"session_id": opened["session_id"]}
            quiet = wire.call("Fetch", 11, fetch(**goes_on, session_epoch=1))
            assert codes(quiet) == {NONE}
            asking.rules.remove_all_of("alice")
            answer = wire.call("Fetch", 11, fetch(**goes_on, session_epoch=2))
            assert by_name(answer, "responses") == {"orders": DENIED}
            assert not answer["responses"][0]["partitions"][0]["records"]
            asking.rules.add("alice: READ TOPIC orders")
            answer = wire.call("Fetch", 11, fetch(**goes_on, session_epoch=3))
            assert by_name(answer, "responses") == {"orders": {NONE}}

        await asking.talk("alice", talk)


@pytest.mark.proves("security 15")
async def test_fetch_as_a_replica_needs_cluster_action(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "alice: READ TOPIC *") as asking:
        as_replica = fetch(*TOPICS, replica_id=2, session_epoch=0)
        assert codes(await asking.ask("alice", "Fetch", 11, as_replica)) == DENIED


@pytest.mark.proves("security 16")
async def test_idempotent_producer_needs_the_right_write_on_at_least_one_topic(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path, "alice: WRITE TOPIC nobody-has-it", "bob: READ TOPIC *"
    ) as asking:
        begin = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        assert (await asking.ask("alice", "InitProducerId", 4, begin))["error_code"] == NONE
        denied = await asking.ask("bob", "InitProducerId", 4, begin)
        assert denied["error_code"] == CLUSTER_AUTHORIZATION_FAILED
        assert denied["producer_id"] == -1


@pytest.mark.proves("security 16")
async def test_add_partitions_adds_no_partition_when_a_topic_is_denied(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path,
        "alice: WRITE TRANSACTIONAL_ID pay",
        "alice: WRITE TOPIC orders",
        "alice: WRITE TOPIC absent",
    ) as asking:

        def talk(wire: Wire) -> None:
            begin = {"transactional_id": "pay", "transaction_timeout_ms": 60_000}
            producer = wire.call("InitProducerId", 4, begin)
            names = (*TOPICS, "absent", OFFSETS_TOPIC)
            adding = {
                "v3_and_below_transactional_id": "pay",
                "v3_and_below_producer_id": producer["producer_id"],
                "v3_and_below_producer_epoch": producer["producer_epoch"],
                "v3_and_below_topics": [{"name": each, "partitions": [0]} for each in names],
            }
            answer = wire.call("AddPartitionsToTxn", 3, adding)
            assert by_name(answer, "results_by_topic_v3_and_below") == {
                "orders": {OPERATION_NOT_ATTEMPTED},
                "payments": DENIED,
                "absent": {UNKNOWN_TOPIC_OR_PARTITION},
                OFFSETS_TOPIC: DENIED,
            }

        await asking.talk("alice", talk)
        ids = {"transactional_ids": ["pay"]}
        state = await asking.ask(ADMIN, "DescribeTransactions", 0, ids)
        assert state["transaction_states"][0]["topics"] == []


@pytest.mark.proves("security 16")
async def test_delete_topics_by_id_without_describe_returns_no_name(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "bob: DESCRIBE TOPIC orders") as asking:
        orders = asking.id("orders")
        by_id = {"topics": [{"name": None, "topic_id": orders}], "timeout_ms": 10_000}
        for user, name in (("alice", None), ("bob", "orders")):
            [answer] = (await asking.ask(user, "DeleteTopics", 6, by_id))["responses"]
            assert (answer["name"], answer["topic_id"]) == (name, orders)
            assert answer["error_code"] == TOPIC_AUTHORIZATION_FAILED
        named = {"topics": [{"name": name, "topic_id": ZERO_UUID} for name in ("orders", "absent")]}
        asked = {**named, "timeout_ms": 10_000}
        answer = await asking.ask("bob", "DeleteTopics", 6, asked)
        assert by_name(answer, "responses") == {"orders": DENIED, "absent": DENIED}
        assert asking.broker.registry.topic("orders") is not None


@pytest.mark.proves("security 19")
async def test_empty_group_id_is_authorized_before_it_is_validated(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path, "bob: READ GROUP *") as asking:
        assert (await _joined(asking, "alice", ""))["error_code"] == GROUP_AUTHORIZATION_FAILED
        assert (await _joined(asking, "bob", ""))["error_code"] == INVALID_GROUP_ID


async def _joined(asking: Asking, user: str, group: str) -> dict[str, object]:
    return await asking.ask(user, "JoinGroup", 5, join(group))


@pytest.mark.proves("security 19")
async def test_denied_join_creates_no_group_metric_or_record(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "bob: READ GROUP new") as asking:
        runtime = asking.broker.groups
        before = _recorded_state(asking)
        answer = await _joined(asking, "alice", "new")
        assert answer["error_code"] == GROUP_AUTHORIZATION_FAILED
        assert (answer["member_id"], answer["generation_id"]) == ("", -1)
        view = runtime.view_of("new")
        assert view is not None
        assert "new" not in view.groups
        assert _recorded_state(asking) == before
        assert (await _joined(asking, "bob", "new"))["error_code"] == NONE
        assert "new" in view.groups
        assert _recorded_state(asking) != before


def _recorded_state(asking: Asking) -> tuple[int, int, dict[str, int]]:
    """Returns the log end offset of the offsets topic, the number of groups, and the counters of
    rebalances."""
    broker = asking.broker
    log, view = broker.logs.get(OFFSETS_TOPIC, 0), broker.groups.view_of("new")
    assert log is not None
    assert view is not None
    return log.log.log_end_offset, len(view.groups), dict(broker.metrics.rebalances)


@pytest.mark.proves("security 19")
async def test_list_groups_does_not_audit_hidden_groups_as_denials(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path, "bob: DESCRIBE GROUP bil*", "carol: DESCRIBE CLUSTER"
    ) as asking:
        seen = {}
        for user in ("alice", "bob", "carol"):
            answer = await asking.ask(user, "ListGroups", 4, {"states_filter": []})
            assert answer["error_code"] == NONE
            seen[user] = [group["group_id"] for group in answer["groups"]]
        assert seen == {"alice": [], "bob": [GROUP], "carol": [GROUP]}
        assert any(not each.is_allowed for each in asking.rules.asked)
        assert asking.rules.denials == []
        await asking.ask("alice", "Metadata", 9, {"topics": None})
        assert asking.rules.denials == []
        await asking.ask("alice", "Metadata", 9, metadata("orders"))
        assert [each.operation for each in asking.rules.denials] == [Operation.DESCRIBE]

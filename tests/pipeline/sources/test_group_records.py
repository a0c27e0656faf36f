"""Tests that records of KIP-848, KIP-932 and KIP-1071 groups are decoded to rows of the history."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pipeline.model.events import RECORD_KINDS
from pipeline.sources.event_rows import EventRows
from protocol.consumer_protocol import encode_subscription
from protocol.log_records import BY_NAME, encode
from tests.coordinator.share.groups import ShareGroups, T
from tests.coordinator.streams.groups import StreamsGroups
from tests.pipeline.small_logs import NOON, events_of, write_runs

ORDERS = bytes(range(16))
ORDERS_ID = "AAECAwQFBgcICQoLDA0ODw"
KEYS = {
    record.record_type: record.name
    for record in BY_NAME.values()
    if record.name.endswith("Key") and record.record_type in RECORD_KINDS
}


def row_of(
    record_type: int, value: dict[str, Any] | None, names: dict[str, str] | None = None, **key: str
) -> dict[str, Any]:
    """Returns the row of one record, without null columns. The group is g by default."""
    key_name = KEYS[record_type]
    encoded = encode(key_name, 0, {"group_id": "g", **key})
    body = None if value is None else encode(key_name[:-3] + "Value", 0, value)
    rows = EventRows(3, names)
    rows.add_record(
        7,
        NOON,
        struct.pack(">h", record_type) + encoded,
        None if body is None else b"\0\0" + body,
    )
    [row] = rows.take().to_pylist()
    assert (row.pop("log_partition"), row.pop("log_offset")) == (3, 7)
    del row["written_at"]
    found = {name: each for name, each in row.items() if each is not None}
    if "details" in found:
        found["details"] = json.loads(found["details"])
    return found


def test_group_epoch_is_decoded_to_one_row() -> None:
    assert row_of(3, {"epoch": 5, "metadata_hash": 99}) == {
        "kind": "consumer_group_epoch",
        "value_version": 0,
        "group_id": "g",
        "protocol_type": "consumer",
        "generation": 5,
        "details": {"epoch": 5, "metadata_hash": 99},
    }


def test_member_with_the_classic_protocol_is_decoded_to_one_row() -> None:
    subscription = encode_subscription(["orders"])
    row = row_of(
        5,
        {
            "instance_id": "static-1",
            "rack_id": None,
            "client_id": "app",
            "client_host": "/10.0.0.1",
            "subscribed_topic_names": ["orders", "payments"],
            "subscribed_topic_regex": "",
            "rebalance_timeout_ms": 300_000,
            "server_assignor": "uniform",
            "classic_member_metadata": {
                "session_timeout_ms": 45_000,
                "supported_protocols": [{"name": "range", "metadata": subscription}],
            },
        },
        member_id="m-1",
    )
    details = row.pop("details")
    assert row == {
        "kind": "consumer_group_member",
        "value_version": 0,
        "group_id": "g",
        "protocol_type": "consumer",
        "protocol": "uniform",
        "member_id": "m-1",
        "members": [
            {
                "member_id": "m-1",
                "group_instance_id": "static-1",
                "client_id": "app",
                "client_host": "/10.0.0.1",
                "rebalance_timeout_ms": 300_000,
                "session_timeout_ms": 45_000,
                "subscription": ["orders", "payments"],
                "assignment": None,
            }
        ],
    }
    [protocol] = details["classic_member_metadata"]["supported_protocols"]
    assert protocol == {"name": "range", "metadata": base64.b64encode(subscription).decode()}
    assert details["rack_id"] is None


@pytest.mark.parametrize(("names", "topic"), [({ORDERS_ID: "orders"}, "orders"), ({}, None)])
@pytest.mark.parametrize("record_type", [7, 8, 13, 14])
def test_assignment_is_decoded_to_a_row_with_partitions(
    record_type: int, names: dict[str, str], topic: str | None
) -> None:
    held = [{"topic_id": ORDERS, "partitions": [0, 2]}]
    value: dict[str, Any] = {"topic_partitions": held}
    epoch = None
    if record_type in (8, 14):
        epoch = 6
        value = {
            "member_epoch": epoch,
            "previous_member_epoch": 5,
            "state": 0,
            "assigned_partitions": held,
        }
    if record_type == 8:
        value["partitions_pending_revocation"] = [{"topic_id": ORDERS, "partitions": [9]}]
    row = row_of(record_type, value, names, member_id="m")
    assert row["member_id"] == "m"
    assert row.get("generation") == epoch
    [member] = row["members"]
    assert member["assignment"] == [{"topic": topic, "topic_id": ORDERS_ID, "partitions": [0, 2]}]
    assert (member["client_id"], member["subscription"]) == (None, None)
    if record_type == 8:
        [pending] = row["details"]["partitions_pending_revocation"]
        assert (pending["topic_id"], pending["partitions"]) == (ORDERS_ID, [9])
        assert pending.get("topic") == topic


def test_target_epoch_and_pattern_are_decoded_to_rows() -> None:
    target = row_of(6, {"assignment_epoch": 4, "assignment_timestamp": NOON})
    assert (target["kind"], target["generation"]) == ("consumer_group_target", 4)
    assert target["details"]["assignment_timestamp"] == NOON
    pattern = row_of(
        16, {"topics": ["a1"], "version": 3, "timestamp": NOON}, regular_expression="a.*"
    )
    assert pattern["kind"] == "consumer_group_pattern"
    assert pattern["details"] == {
        "regular_expression": "a.*", "topics": ["a1"], "version": 3, "timestamp": NOON
    }  # fmt: skip
    gone = row_of(16, None, regular_expression="a.*")
    assert (gone["kind"], gone["details"]) == (
        "consumer_group_pattern_tombstone", {"regular_expression": "a.*"}
    )  # fmt: skip


def test_streams_group_has_tasks_and_a_topology_epoch() -> None:
    tasks = [{"subtopology_id": "0", "partitions": [1]}]
    row = row_of(
        21, {"active_tasks": tasks, "standby_tasks": [], "warmup_tasks": []}, member_id="m"
    )
    assert row["protocol_type"] == "streams"
    assert row["members"][0]["assignment"] is None
    assert row["details"]["active_tasks"] == tasks
    topology = row_of(23, {"epoch": 2, "subtopologies": []})
    assert "generation" not in topology
    assert topology["details"]["epoch"] == 2
    assert row_of(17, {"epoch": 8, "metadata_hash": 0})["generation"] == 8


@pytest.mark.parametrize("record_type", RECORD_KINDS)
def test_row_of_a_tombstone_of_each_kind_contains_the_group_and_the_member(
    record_type: int,
) -> None:
    fields = {field.name for field in BY_NAME[KEYS[record_type]].fields}
    more = dict.fromkeys(fields - {"group_id"}, "m")
    row = row_of(record_type, None, **more)
    assert row["kind"] == RECORD_KINDS[record_type] + "_tombstone"
    assert row["kind"].startswith(row["protocol_type"])
    assert row["group_id"] == "g"
    assert row.get("member_id") == ("m" if "member_id" in fields else None)
    assert "members" not in row


def outline(data: Path) -> list[tuple[Any, ...]]:
    """Returns a summary of each event: its kind without the group type, the epoch, the member, and
    the assigned partitions or active tasks."""
    found = []
    for row in events_of(data):
        assert row["group_id"] == "g"
        kind = row["kind"].removeprefix(f"{row['protocol_type']}_group_")
        details = json.loads(row["details"] or "{}")
        held = {
            each["subtopology_id"]: each["partitions"] for each in details.get("active_tasks", ())
        }
        for one in row["members"] or ():
            held |= {each["topic"]: each["partitions"] for each in one["assignment"] or ()}
        found.append((kind, row["generation"], row["member_id"], held))
    return found


def test_records_of_the_coordinator_of_a_share_group_are_decoded_to_rows(tmp_path: Path) -> None:
    """The coordinator writes the current assignment twice, because a member gets its partitions
    only when the share coordinator has stored their state."""
    groups = ShareGroups()
    groups.stable("x")
    groups.send("x", -1)

    assert outline(write_runs(tmp_path, enumerate(groups.log), [("t", T)])) == [
        ("member", None, "x", {}),
        ("epoch", 2, None, {}),
        ("target_member", None, "x", {}),
        ("target", 2, None, {}),
        ("current_member", 2, "x", {}),
        ("topics", None, None, {}),
        ("topics", None, None, {}),
        ("epoch", 3, None, {}),
        ("target_member", None, "x", {"t": [0, 1]}),
        ("target", 3, None, {}),
        ("current_member", 3, "x", {"t": [0, 1]}),
        ("current_member_tombstone", None, "x", {}),
        ("target_member_tombstone", None, "x", {}),
        ("member_tombstone", None, "x", {}),
        ("epoch", 4, None, {}),
    ]


def test_records_of_the_coordinator_of_a_streams_group_are_decoded_to_rows(tmp_path: Path) -> None:
    groups = StreamsGroups()
    groups.stable("x")
    groups.send("x", -1)

    assert outline(write_runs(tmp_path, enumerate(groups.log))) == [
        ("member", None, "x", {}),
        ("topology", None, None, {}),
        ("epoch", 2, None, {}),
        ("target_member", None, "x", {"0": [0, 1]}),
        ("target", 2, None, {}),
        ("current_member", 2, "x", {"0": [0, 1]}),
        ("current_member_tombstone", None, "x", {}),
        ("target_member_tombstone", None, "x", {}),
        ("member_tombstone", None, "x", {}),
        ("epoch", 3, None, {}),
    ]

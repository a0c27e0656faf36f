"""Tests of offset expiry by Kafka's rules, of dead groups, and of the bytes that compaction would
save."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.model.events import ABORTED, DAMAGED, TORN
from tests.pipeline.conftest import at
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations

pytestmark = pytest.mark.pipeline

RETENTION = timedelta(seconds=1000)


def expiring(folder: Path, history: History, as_of: float = 1012) -> list[tuple[Any, ...]]:
    made = Relations(folder, history.rows, as_of=as_of, retention=RETENTION)
    columns = ("group_id", "topic", "partition", "since", "expires_at", "expired", "rule")
    return made.rows("expiring_offsets", *columns, by="group_id, topic, partition")


def dead(folder: Path, history: History, as_of: float = 5000) -> list[tuple[Any, ...]]:
    made = Relations(folder, history.rows, as_of=as_of, retention=RETENTION)
    columns = ("group_id", "group_type", "reason", "generation", "kept_offsets", "last_commit_at")
    return made.rows("dead_groups", *columns, "last_at", by="group_id")


def test_offsets_of_classic_groups_expire_as_in_kafka(tmp_path: Path) -> None:
    history = History().commit(1, "assigns", 5).commit(3, "assigns", 6)
    history.generation(0, "empty", 1, member("x-1", 0)).commit(10, "empty", 5)
    history.generation(70, "empty", 2, state_at=at(60))
    history.commit(20, "no-time", 5).generation(80, "no-time", 2, state_at=None)
    history.generation(0, "lives", 1, member("x-1", 0)).commit(10, "lives", 5)
    history.commit(12, "lives", 5, topic="dropped")
    history.commit(13, "lives", 5, topic="dropped", partition=1, expire_at=at(40))
    history.commit(14, "lives", 5, topic="forgotten").forget(15, "lives", topic="forgotten")
    history.generation(0, "blind", 1, member("x-1", 0, subscription=None)).commit(10, "blind", 5)
    history.generation(0, "connect", 1, member("x-1"), protocol_type="connect")
    history.commit(10, "connect", 5)
    history.generation(0, "deleted", 1, member("x-1", 0)).delete(5, "deleted")
    history.commit(30, "deleted", 1, expire_at=at(2000))

    assert expiring(tmp_path, history) == [
        ("assigns", "orders", 0, 3, 1003, True, "its group has no members of its own"),
        ("blind", "orders", 0, None, None, False, "kept: its group has members"),
        ("connect", "orders", 0, None, None, False, "kept: its group has members"),
        ("deleted", "orders", 0, 30, 2000, False, "named by the client"),
        ("empty", "orders", 0, 60, 1060, False, "its group is empty"),
        ("lives", "dropped", 0, 12, 1012, True, "no member subscribes to the topic"),
        ("lives", "dropped", 1, 13, 40, True, "named by the client"),
        ("lives", "orders", 0, None, None, False, "kept: a member subscribes to the topic"),
        ("no-time", "orders", 0, 20, 1020, False, "its group is empty"),
    ]


def test_offset_of_a_kip_848_group_expires_when_no_member_subscribes_to_the_topic(
    tmp_path: Path,
) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1", regex="ord.*", subscription=["named"])
    group.epoch(0, 2)
    group.pattern(1, "ord.*", "orders-eu", "orders")
    group.pattern(1, "other.*", "others")  # the pattern of a member that left
    for topic in ("named", "orders", "others"):
        history.commit(10, "a", 5, topic=topic)
    empty = ModernGroup(history, "empty")
    empty.epoch(5, 7)
    history.commit(1, "empty", 5)
    nameless = ModernGroup(history, "nameless")
    nameless.current(6, "x-1", 0)
    history.commit(8, "nameless", 5)

    assert expiring(tmp_path, history) == [
        ("a", "named", 0, None, None, False, "kept: a member subscribes to the topic"),
        ("a", "orders", 0, None, None, False, "kept: a member subscribes to the topic"),
        ("a", "others", 0, 10, 1010, True, "no member subscribes to the topic"),
        ("empty", "orders", 0, 1, 1001, True, "its group is empty"),
        ("nameless", "orders", 0, None, None, None, "not known: the subscriptions of its members"),
    ]


def test_offsets_of_a_streams_group_are_kept_for_topics_of_its_topology(tmp_path: Path) -> None:
    history = History()
    for name in ("a", "b"):
        group = ModernGroup(history, name, "streams")
        group.member(0, "x-1", subscription=None)
        group.epoch(0, 2)
        history.commit(1, name, 5).commit(1, name, 5, topic="other")
    sources = {"subtopologies": [{"subtopology_id": "0", "source_topics": ["orders"]}]}
    ModernGroup(history, "a", "streams").add(2, "topology", details=json.dumps(sources))

    assert [(row[0], row[1], row[5], row[6]) for row in expiring(tmp_path, history)] == [
        ("a", "orders", False, "kept: a member subscribes to the topic"),
        ("a", "other", True, "no member subscribes to the topic"),
        ("b", "orders", None, "not known: the subscriptions of its members"),
        ("b", "other", None, "not known: the subscriptions of its members"),
    ]


def test_open_transaction_keeps_the_offset_from_expiring(tmp_path: Path) -> None:
    history = History().commit(0, "a", 5).commit(1, "a", 7, producer_id=1)
    history.commit(2, "b", 5).commit(3, "b", 7, producer_id=2).marker(4, 2, ABORTED)
    history.commit(5, "pending-only", 7, producer_id=1)

    assert [(row[0], *row[3:]) for row in expiring(tmp_path / "e", history, 5000)] == [
        ("a", None, None, False, "kept: an open transaction has a pending commit for it"),
        ("b", 2, 1002, True, "its group has no members of its own"),
    ]
    assert [row[0] for row in dead(tmp_path / "d", history)] == ["b"]


def test_tombstone_removes_the_pending_offset_of_an_open_transaction(tmp_path: Path) -> None:
    history = History().commit(0, "a", 7, producer_id=1).forget(1, "a").commit(2, "a", 5)

    assert expiring(tmp_path, history)[0][5] is True


def test_group_with_undecodable_records_is_neither_expired_nor_dead(tmp_path: Path) -> None:
    history = History().commit(0, "a", 5).unknown(1, "a").generation(2, "b", 7).unknown(3, "b")
    history.generation(4, "c", 1).unknown(5, "c").generation(6, "c", 2)

    assert expiring(tmp_path / "e", history, 5000) == [
        ("a", "orders", 0, None, None, None,
         "not known: records of its group were not understood"),
    ]  # fmt: skip
    assert [row[0] for row in dead(tmp_path / "d", history)] == ["c"]


def test_group_is_not_dead_when_a_later_record_of_its_log_is_damaged(tmp_path: Path) -> None:
    history = History().commit(0, "a", 5).generation(1, "b", 7).damaged(2).generation(3, "c", 4)
    history.add(4, TORN, None)  # a kill cut off these records, which were never acknowledged

    assert [row[5] for row in expiring(tmp_path / "e", history, 5000)] == [None]
    assert [row[0] for row in dead(tmp_path / "d", history)] == ["c"]


def test_damaged_record_affects_only_one_group_when_its_group_id_is_readable(
    tmp_path: Path,
) -> None:
    history = History().generation(0, "a", 7).generation(1, "b", 7).add(2, DAMAGED, "a")

    assert [row[0] for row in dead(tmp_path, history)] == ["b"]


def test_commit_with_a_far_future_timestamp_does_not_expire(tmp_path: Path) -> None:
    # µs: near the maximum
    history = History().commit(0, "a", 5, commit_at=9_200_000_000_000_000_000)

    made = Relations(tmp_path, history.rows)

    assert made.rows("expiring_offsets", "expired") == [(False,)]


def test_dead_groups_have_a_reason(tmp_path: Path) -> None:
    history = History().generation(0, "deleted", 1, member("x-1", 0)).commit(1, "deleted", 1)
    history.forget(2, "deleted").delete(3, "deleted")
    history.commit(4, "offsets-gone", 1).forget(5, "offsets-gone")
    history.generation(6, "abandoned", 4).generation(7, "alive", 1, member("x-1", 0))
    history.generation(8, "expired", 2).commit(9, "expired", 1)
    history.commit(4500, "assigns", 1)

    assert dead(tmp_path, history) == [
        ("abandoned", "classic", "empty and has no committed offsets", 4, 0, None, 6),
        ("deleted", "classic", "deleted", None, 0, 1, 3),
        ("expired", "classic", "empty and all its offsets have expired", 2, 1, 9, 9),
        ("offsets-gone", "classic", "deleted", None, 0, 4, 5),
    ]


def test_consumer_share_and_streams_groups_are_alive_while_they_have_members(
    tmp_path: Path,
) -> None:
    history = History()
    for name, kind in (("a", "consumer"), ("b", "share"), ("c", "streams")):
        lives, empty = ModernGroup(history, name, kind), ModernGroup(history, f"{name}0", kind)
        gone = ModernGroup(history, f"{name}-gone", kind)
        lives.member(0, "x-1")
        lives.epoch(0, 2)
        history.commit(0, name, 5, topic="unread")
        empty.epoch(1, 3)
        gone.epoch(2, 3)
        gone.deleted(3)

    assert [row[:3] for row in dead(tmp_path, history)] == [
        ("a-gone", "consumer", "deleted"),
        ("a0", "consumer", "empty and has no committed offsets"),
        ("b-gone", "share", "deleted"),
        ("c-gone", "streams", "deleted"),
        ("c0", "streams", "empty and has no committed offsets"),
    ]


def test_table_named_compaction_counts_removable_records_and_bytes(tmp_path: Path) -> None:
    history = History()
    for second in range(10):
        history.commit(second, "shop", 5)
    history.forget(11, "gone").generation(12, "shop", 1, member("c-1", 0))
    history.generation(13, "shop", 2, member("c-1", 0)).damaged(14).add(15, TORN, None)
    other = History()
    for key in (b"\0\5a", b"\0\5a", b"\0\5b", None, None):
        other.unknown(0, None, key)

    made = Relations(
        tmp_path, [*history.rows, *({**row, "log_partition": 1} for row in other.rows)]
    )

    rows = made.rows(
        "compaction", "log_partition", "records", "superseded_records", "tombstones",
        "superseded_bytes_estimate", by="log_partition",
    )  # fmt: skip
    commit_bytes = 9 + 20 + 24  # the example of docs/formats/consumer-offsets.md with its lengths
    group_bytes = rows[0][4] - 9 * commit_bytes
    assert rows == [
        (0, 13, 10, 1, 9 * commit_bytes + group_bytes),
        (1, 5, 1, 0, 9 + 3 + 4),
    ]
    assert 100 < group_bytes < 180


def test_table_named_compaction_counts_records_of_transactions_and_of_kip_848_groups(
    tmp_path: Path,
) -> None:
    history = History().commit(0, "a", 5).commit(1, "a", 6, producer_id=1).marker(2, 1, ABORTED)
    history.commit(3, "b", 5, producer_id=1).marker(4, 1, ABORTED)
    group = ModernGroup(history, "c")
    for name in ("x-1", "y-1"):
        group.member(5, name)
        group.current(5, name, 0)
        group.current(6, name, 1)
    group.gone(7, "y-1")
    group.pattern(8, "a.*", "a")
    group.pattern(8, "b.*", "b")
    group.pattern(9, "b.*", "b", "bb")

    made = Relations(tmp_path, history.rows)

    assert made.rows(
        "compaction", "records", "superseded_records", "aborted_records", "tombstones",
        "transaction_markers", by="log_partition",
    ) == [(15, 2 + 2 + 2 + 1, 2, 3, 2)]  # fmt: skip

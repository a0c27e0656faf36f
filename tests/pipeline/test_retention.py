"""Offsets expire by Kafka's rules; groups are dead when nobody wants them; compaction saves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pipeline.contract import UNKNOWN
from pipeline.tables.retention import compaction, dead_groups, expiring_offsets
from pipeline.tables.schemas import COMPACTION, DEAD_GROUPS, EXPIRING_OFFSETS
from tests.pipeline.conftest import Frame, at
from tests.pipeline.history import History, member, shape, told

pytestmark = pytest.mark.pipeline

RETENTION = timedelta(seconds=1000)


def test_when_each_offset_expires(frame: Frame) -> None:
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

    table = expiring_offsets(frame(history.rows), at(1012), RETENTION)

    assert shape(table.schema) == shape(EXPIRING_OFFSETS)
    assert sorted(
        told(table, "group_id", "topic", "partition", "since", "expires_at", "expired", "rule")
    ) == [
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


def test_which_groups_are_dead(frame: Frame) -> None:
    history = History().generation(0, "deleted", 1, member("x-1", 0)).commit(1, "deleted", 1)
    history.forget(2, "deleted").delete(3, "deleted")
    history.commit(4, "offsets-gone", 1).forget(5, "offsets-gone")
    history.generation(6, "abandoned", 4).generation(7, "alive", 1, member("x-1", 0))
    history.generation(8, "expired", 2).commit(9, "expired", 1)
    history.commit(5000, "assigns", 1)

    events = frame(history.rows)
    table = dead_groups(events, expiring_offsets(events, at(5000), RETENTION))

    assert shape(table.schema) == shape(DEAD_GROUPS)
    assert told(
        table, "group_id", "reason", "generation", "kept_offsets", "last_commit_at", "last_at",
        order_by="group_id",
    ) == [
        ("abandoned", "empty and nothing kept", 4, 0, None, 6),
        ("deleted", "deleted", None, 0, 1, 3),
        ("expired", "empty and all its offsets have expired", 2, 1, 9, 9),
        ("offsets-gone", "deleted", None, 0, 4, 5),
    ]  # fmt: skip


def test_what_compaction_would_save(frame: Frame) -> None:
    history = History()
    for second in range(10):
        history.commit(second, "shop", 5)
    history.forget(11, "gone").generation(12, "shop", 1, member("c-1", 0))
    history.generation(13, "shop", 2, member("c-1", 0))
    for offset, key in enumerate((b"\0\5a", b"\0\5a", b"\0\5b", None, None)):
        history.rows.append({"log_partition": 1, "log_offset": offset, "kind": UNKNOWN,
                             "raw_key": key, "raw_value": b"four"})  # fmt: skip

    table = compaction(frame(history.rows))

    assert shape(table.schema) == shape(COMPACTION)
    rows = told(
        table, "log_partition", "records", "superseded_records", "tombstones",
        "superseded_bytes_estimate", order_by="log_partition",
    )  # fmt: skip
    commit_bytes = 9 + 20 + 24  # as in the example of docs/consumer-offsets.md, with its lengths
    group_bytes = rows[0][4] - 9 * commit_bytes
    assert rows == [
        (0, 13, 10, 1, 9 * commit_bytes + group_bytes),
        (1, 5, 1, 0, 9 + 3 + 4),
    ]
    assert 100 < group_bytes < 180

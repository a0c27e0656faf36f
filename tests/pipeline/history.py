"""Small histories as dicts of EVENTS and BATCHES, and tables read back with times in seconds."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.types import StructType

from pipeline.contract import COMMIT, COMMIT_TOMBSTONE, GROUP, GROUP_TOMBSTONE
from tests.pipeline.conftest import at

EPOCH_S = at(0).timestamp()


class History:
    """Events in the order of their log; times in seconds after 2026-01-01 00:00 UTC."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def _add(self, seconds: float, kind: str, group: str, **columns: Any) -> History:
        row = {"log_partition": 0, "log_offset": len(self.rows), "written_at": at(seconds)}
        self.rows.append({**row, "kind": kind, "group_id": group, **columns})
        return self

    def commit(self, seconds: float, group: str, offset: int, **columns: Any) -> History:
        place = {"topic": "orders", "partition": 0, "committed_offset": offset, "metadata": ""}
        return self._add(seconds, COMMIT, group, commit_at=at(seconds), **{**place, **columns})

    def forget(self, seconds: float, group: str, **columns: Any) -> History:
        """A tombstone of one offset."""
        place = {"topic": "orders", "partition": 0}
        return self._add(seconds, COMMIT_TOMBSTONE, group, **{**place, **columns})

    def generation(
        self, seconds: float, group: str, number: int, *members: dict[str, Any], **columns: Any
    ) -> History:
        row = {
            "generation": number,
            "members": list(members),
            "protocol_type": "consumer",
            "protocol": "range" if members else None,
            "leader": members[0]["member_id"] if members else None,
            "state_at": at(seconds),
        }
        return self._add(seconds, GROUP, group, **{**row, **columns})

    def delete(self, seconds: float, group: str) -> History:
        """A tombstone of the group."""
        return self._add(seconds, GROUP_TOMBSTONE, group)


def member(name: str, *partitions: int, topic: str = "orders", **columns: Any) -> dict[str, Any]:
    """A member whose client id is the part of its name before the last dash."""
    return {
        "member_id": name,
        "client_id": name.rpartition("-")[0] or name,
        "client_host": "/10.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "subscription": [topic],
        "assignment": [{"topic": topic, "partitions": list(partitions)}],
        **columns,
    }


def batch(seconds: float, base: int, last: int, **columns: Any) -> dict[str, Any]:
    """A batch of orders, partition 0, all of whose records have one time."""
    row = {"topic": "orders", "partition": 0, "base_offset": base, "last_offset": last}
    when = {"first_at": at(seconds), "max_at": at(columns.pop("max_s", seconds))}
    return {**row, **when, "size_bytes": 100 * (last - base + 1), **columns}


def told(frame: DataFrame, *columns: str, order_by: str = "log_offset") -> list[tuple[Any, ...]]:
    """Rows in order, these columns of them; times as seconds after 2026-01-01, rows as tuples."""
    return [
        tuple(_plain(row[name]) for name in columns) for row in frame.orderBy(order_by).collect()
    ]


def shape(schema: StructType) -> list[tuple[str, str]]:
    """Names and types, whatever may be null: a table read back may be null everywhere."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() - EPOCH_S, 3)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Row):
        return tuple(_plain(each) for each in value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value

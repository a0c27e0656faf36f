"""Rows for archives, and what an archive has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.model.events import DAMAGED, EVENTS, STRETCHES
from pipeline.sources.open import open_source
from pipeline.storage.manifest import load
from tests.brokers import Broker

Row = dict[str, Any]
DAY_MS = 86_400_000
START_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""


def commits(partition: int, offsets: Iterable[int], at_ms: int = START_MS) -> pa.RecordBatch:
    """Commits with these log offsets."""
    rows = [
        {"log_partition": partition, "log_offset": offset, "written_at": at_ms * 1000,
         "kind": "commit", "group_id": "billing", "topic": "orders", "partition": 0,
         "committed_offset": offset, "metadata": ""}
        for offset in offsets
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, EVENTS)


def damage(partition: int, offset: int, at_ms: int = START_MS) -> pa.RecordBatch:
    """A row of what could not be read."""
    row = {
        "log_partition": partition,
        "log_offset": offset,
        "written_at": at_ms * 1000,
        "kind": DAMAGED,
        "damage": {"file": "0.log", "position": 7, "reason": "cut"},
    }
    return pa.RecordBatch.from_pylist([row], EVENTS)


def stretch(base: int, last: int, at_ms: int = START_MS, topic: str = "orders") -> pa.Table:
    """What a topic's partition 0 grew by."""
    row = {"topic": topic, "partition": 0, "base_offset": base, "last_offset": last,
           "first_at": at_ms * 1000, "last_at": at_ms * 1000}  # fmt: skip
    return pa.Table.from_pylist([row], STRETCHES)


def rows_of(folder: Path, table: str) -> list[Row]:
    """What the manifest's files have."""
    manifest = load(folder)
    assert manifest is not None
    return [
        row
        for file in manifest.files.get(table, ())
        for row in pq.read_table(folder / file.path, partitioning=None).to_pylist()
    ]


def places(folder: Path) -> list[tuple[int, int]]:
    """Where in the log the events come from, sorted, each as often as it is there."""
    return sorted((row["log_partition"], row["log_offset"]) for row in rows_of(folder, "events"))


def logged(broker: Broker) -> list[Row]:
    """What the log has, over the wire."""
    parts = open_source(broker.bootstrap).event_parts(None) or ()
    rows = [row for part in parts for batch in part.read() for row in batch.to_pylist()]
    return sorted(rows, key=place)


def place(row: Row) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


def is_the_log(broker: Broker, out: Path) -> None:
    """Assert that the archive is the log: every record once."""
    assert sorted(rows_of(out, "events"), key=place) == logged(broker)
    manifest = load(out)
    assert manifest is not None
    found = {
        str(path.relative_to(out))
        for table in ("events", "stretches", "quarantine")
        for path in (out / table).rglob("*.parquet")
    }
    assert found == manifest.live(), "any reader of Parquet finds each record once"

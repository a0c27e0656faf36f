"""Rows to write into archives, and checks of the content of archives."""

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


def commits(partition: int, offsets: Iterable[int], at_ms: int = START_MS) -> pa.RecordBatch:
    """Returns event rows of commits whose records have the log offsets ``offsets``."""
    rows = [
        {"log_partition": partition, "log_offset": offset, "written_at": at_ms * 1000,
         "kind": "commit", "group_id": "billing", "topic": "orders", "partition": 0,
         "committed_offset": offset, "metadata": ""}
        for offset in offsets
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, EVENTS)


def damage(partition: int, offset: int, at_ms: int = START_MS) -> pa.RecordBatch:
    """Returns an event row for a damaged record."""
    row = {
        "log_partition": partition,
        "log_offset": offset,
        "written_at": at_ms * 1000,
        "kind": DAMAGED,
        "damage": {"file": "0.log", "position": 7, "reason": "cut"},
    }
    return pa.RecordBatch.from_pylist([row], EVENTS)


def stretch(base: int, last: int, at_ms: int = START_MS, topic: str = "orders") -> pa.Table:
    """Returns a table with one stretch: the records from offset ``base`` to ``last`` of partition 0
    of a topic."""
    row = {"topic": topic, "partition": 0, "base_offset": base, "last_offset": last,
           "first_at": at_ms * 1000, "last_at": at_ms * 1000}  # fmt: skip
    return pa.Table.from_pylist([row], STRETCHES)


def rows_of(folder: Path, table: str) -> list[Row]:
    """Returns the rows of a table, read from the files in the archive's manifest."""
    manifest = load(folder)
    assert manifest is not None
    return [
        row
        for file in manifest.files.get(table, ())
        for row in pq.read_table(folder / file.path, partitioning=None).to_pylist()
    ]


def places(folder: Path) -> list[tuple[int, int]]:
    """Returns the sorted (partition, offset) pairs of the archive's events, including
    duplicates."""
    return sorted((row["log_partition"], row["log_offset"]) for row in rows_of(folder, "events"))


def logged(broker: Broker) -> list[Row]:
    """Returns the broker's events as rows, read over the Kafka protocol."""
    parts = open_source(broker.bootstrap).event_parts(None) or ()
    rows = [row for part in parts for batch in part.read() for row in batch.to_pylist()]
    return sorted(rows, key=place)


def place(row: Row) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


def is_the_log(broker: Broker, out: Path) -> None:
    """Asserts that the archive contains every record of the broker's log exactly once."""
    assert sorted(rows_of(out, "events"), key=place) == logged(broker)
    manifest = load(out)
    assert manifest is not None
    found = {
        str(path.relative_to(out))
        for table in ("events", "stretches", "quarantine")
        for path in (out / table).rglob("*.parquet")
    }
    assert found == manifest.live(), "any reader of Parquet finds each record once"

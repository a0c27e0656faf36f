"""Tests of reads from Apache Kafka 0.10.2.2, which has messages of magic 1 and ListOffsets version
1."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.model.events import EVENTS, STRETCHES
from pipeline.sources.open import open_source
from pipeline.sources.source import TimesAsked
from protocol.records.compression import GZIP
from protocol.records.message_set import encode
from protocol.records.section import Record
from tests import waiting
from tests.old_kafka import old_kafka
from tests.pipeline.committing import commit
from tests.raw_connection import RawConnection

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC, EVERY_MS = "orders", 100
RECORDS, BATCH = 5_000, 1_000
HELD = (0, 1_234, 4_999)


def _produce(port: int, first: int, began_ms: int) -> bool:
    """Produces records as one compressed wrapper message. Returns True if the broker accepted the
    message."""
    records = [Record(n, began_ms + EVERY_MS * (first + n), None, bytes(100)) for n in range(BATCH)]
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": encode(records, 1, GZIP)}]}]
    with RawConnection(port) as connection:
        connection.call("Metadata", 1, topics=[{"name": TOPIC}])  # the request creates the topic
        answer = connection.call("Produce", 2, acks=1, timeout_ms=10_000, topic_data=data)
    return bool(answer["responses"][0]["partition_responses"][0]["error_code"] == 0)


def test_history_and_times_are_read_from_kafka_0_10_2(tmp_path: Path) -> None:
    began_ms = time.time_ns() // 1_000_000 - 600_000
    with old_kafka(tmp_path) as where:
        port = int(where.rpartition(":")[2])
        for first in range(0, RECORDS, BATCH):
            waiting.until(
                "the topic takes records",
                lambda first=first: _produce(port, first, began_ms),
                tolerate=(),
            )
        for number, offset in enumerate(HELD):
            commit({"bootstrap.servers": where}, f"group-{number}", [(TOPIC, 0, offset)])

        source = open_source(where)
        wire = [each for part in source.event_parts(None) or () for each in part.read()]
        files = open_source(str(tmp_path / "data"))
        there = [each for part in files.event_parts(None) or () for each in part.read()]
        asked = TimesAsked([TOPIC], time.time_ns() // 1_000_000, None, {(TOPIC, 0): HELD})
        parts = source.stretch_parts(asked) or ()
        stretches = pa.Table.from_batches([b for part in parts for b in part.read()], STRETCHES)

    by_place = [("log_partition", "ascending"), ("log_offset", "ascending")]
    rows = pa.Table.from_batches(wire, EVENTS).sort_by(by_place).to_pylist()
    assert rows == pa.Table.from_batches(there, EVENTS).sort_by(by_place).to_pylist()
    assert sorted(row["committed_offset"] for row in rows) == list(HELD)
    for row in stretches.to_pylist():
        if row["last_offset"] >= row["base_offset"]:
            assert round(row["first_at"].timestamp() * 1000) == (
                began_ms + EVERY_MS * row["base_offset"]
            )
    assert set(HELD) <= {row["base_offset"] for row in stretches.to_pylist()}

"""Writes small logs of known content, and unpacks data folders that Apache Kafka wrote."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from offsets.record_codec import run_records
from offsets.runs import GroupMember, GroupRun, GroupValue, OffsetRun, Run
from pipeline.sources.open import open_source
from pipeline.sources.segments import SegmentsReader
from protocol.consumer_protocol import encode_assignment, encode_subscription
from protocol.records.batch import assemble_batch

KAFKA_DIRS = Path(__file__).parent.parent / "data" / "kafka-dirs"
KAFKA_DIR_NAMES = (
    "kafka-0.10.2.2-clean",
    "kafka-0.10.2.2-killed",
    "kafka-4.3.1-clean",
    "kafka-4.3.1-killed",
)
NOON = 1_767_268_800_000
"""2026-01-01 12:00 UTC in milliseconds since 1970."""


def batch_of(base_offset: int, *runs: Run, at_ms: int = NOON, compression: int = 0) -> bytes:
    """Returns one batch with the records of all runs, as a coordinator writes it."""
    section, count = b"", 0
    for run in runs:
        section += run_records(run, count)
        count += len(run)
    return assemble_batch(section, count, base_offset, at_ms, at_ms, compression=compression)


def write_runs(
    data: Path, runs: Iterable[tuple[int, Run]], topics: Iterable[tuple[str, bytes]] = ()
) -> Path:
    """Writes a data folder and returns its path. Each run has its own batch, whose time is the
    given number of seconds after `NOON`.

    ``topics`` are (name, topic id) pairs; each topic gets an empty partition 0.
    """
    log, offset = b"", 0
    for seconds, run in runs:
        log += batch_of(offset, run, at_ms=NOON + 1000 * seconds)
        offset += len(run)
    write_segment(data, 0, log)
    for topic, topic_id in topics:
        write_segment(data, 0, topic=topic)
        text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
        metadata = data / f"{topic}-0" / "partition.metadata"
        metadata.write_text(f"version: 0\ntopic_id: {text}\n")
    return data


def commit(
    group: str, topic: str, offsets: Iterable[int], at_ms: int = NOON, **more: Any
) -> OffsetRun:
    """Returns a commit of partitions 0, 1, 2 and so on, with ``offsets`` in this order."""
    values = list(offsets)
    epochs = more.pop("epochs", [0] * len(values))
    metadata = more.pop("metadata", None)
    expire = more.pop("expire_ms", -1)
    return OffsetRun(
        group, topic, list(range(len(values))), values, epochs, metadata, at_ms, expire
    )


def generation(group: str, number: int, members: dict[str, dict[str, list[int]]]) -> GroupRun:
    """Returns the record of a classic group's generation. ``members`` maps member id and topic to
    partitions."""
    listed = [
        GroupMember(
            member,
            None,
            f"client-{member}",
            "/127.0.0.1",
            300_000,
            30_000,
            encode_subscription(sorted(assigned)),
            encode_assignment(assigned),
        )
        for member, assigned in members.items()
    ]
    value = GroupValue("consumer", number, "range", next(iter(members), None), NOON, listed)
    return GroupRun(group, value)


def write_segment(
    data: Path, base_offset: int, *batches: bytes, partition: int = 0, topic: str = ""
) -> Path:
    """Writes ``batches`` as a segment file of one partition below ``data``, and returns its
    path."""
    folder = data / f"{topic or '__consumer_offsets'}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{base_offset:020d}.log"
    file.write_bytes(b"".join(batches))
    return file


def rows_of(data: Path, what: str = "offsets", **options: str) -> list[dict[str, Any]]:
    """Returns the rows that the Spark data source makes of the segment files in ``data``. The rows
    are read in this process, without Spark."""
    reader = SegmentsReader({"path": str(data), "as": what, **options})
    return [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def events_of(data: Path) -> list[dict[str, Any]]:
    """Returns the event rows of a data folder. Topic ids are resolved to names."""
    parts = open_source(str(data)).event_parts(None)
    return [row for part in parts for batch in part.read() for row in batch.to_pylist()]


def unpacked(name: str, into: Path) -> Path:
    """Unpacks a recorded data folder of Apache Kafka, and returns its path. ``name`` is the Kafka
    version."""
    with tarfile.open(KAFKA_DIRS / name / "data.tar.xz") as archive:
        archive.extractall(into, filter="data")
    [partition] = into.rglob("__consumer_offsets-0")
    return partition.parent


def expected(name: str) -> dict[str, Any]:
    """Returns the results that the clients recorded when Apache Kafka ``name`` wrote its data
    folder."""
    found: dict[str, Any] = json.loads((KAFKA_DIRS / name / "expect.json").read_text())
    return found


def small_history(data: Path) -> Path:
    """Writes a data folder in which one group commits offset 10, and offset 40 one minute later."""
    write_segment(
        data,
        0,
        batch_of(0, commit("billing", "orders", [10])),
        batch_of(1, commit("billing", "orders", [40], NOON + 60_000), at_ms=NOON + 60_000),
    )
    (data / "meta.properties").write_text("version=1\ncluster.id=one\n")
    return data

"""Apache's DumpLogSegments accepts each batch and each index of cleaned segments. One test cleans a
topic while real clients write and read it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from tests import java
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster
from tests.log.cleaning_tools import SETTINGS, RandomLog, clean_log
from tests.waiting import until

pytestmark = pytest.mark.interop

RELEASES = [java.KAFKA_NEW, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS]


def dump(release: str, files: list[Path], *arguments: str) -> str:
    main_class = (
        "org.apache.kafka.tools.DumpLogSegments"
        if release == java.KAFKA_NEW
        else "kafka.tools.DumpLogSegments"
    )
    done = java.run(release, main_class, "--files", ",".join(map(str, files)), *arguments)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "isvalid: false" not in done.stdout
    return done.stdout


@pytest.mark.parametrize("release", RELEASES)
def test_dump_log_segments_accepts_cleaned_segments_and_indexes(
    release: str, tmp_path: Path
) -> None:
    config = LogConfig(**{**SETTINGS, "segment_bytes": 20_000})  # type: ignore[arg-type]
    log = PartitionLog.open(OsFileSystem(), str(tmp_path / "t-0"), "t", 0, config)
    writer = RandomLog(log, random.Random(7), keys=80)
    first_dirty = 0
    for _ in range(4):
        writer.append(150)
        writer.end_all()
        log.roll()
        writer.now_ms += 300
        first_dirty = clean_log(log, first_dirty, writer.now_ms).end_offset
    log.close()
    ours = [header for _, header in log.scan()]
    assert any(header.record_count == 0 for header in ours), "empty batches are among them"
    assert any(header.delete_horizon_ms for header in ours), "and delete horizons"
    assert any(header.is_control for header in ours), "and markers"
    assert {header.compression for header in ours} == {0, 1, 2, 3, 4}

    logs = sorted((tmp_path / "t-0").glob("*.log"))
    printed = dump(release, logs, "--deep-iteration", "--print-data-log")
    found = [
        (int(base), int(last), int(count))
        for base, last, count in re.findall(
            r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+)", printed, re.MULTILINE
        )
    ]
    assert found == [(h.base_offset, h.last_offset, h.record_count) for h in ours]
    horizons = re.findall(r"deleteHorizonMs: OptionalLong\[(\d+)", printed)
    assert {int(horizon) for horizon in horizons} == {
        header.delete_horizon_ms for header in ours if header.delete_horizon_ms
    }
    indexes = [
        file.with_suffix(suffix) for file in logs[:-1] for suffix in (".index", ".timeindex")
    ]
    checked = dump(release, indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(indexes)
    entries = dump(release, [*logs[:-1], *indexes])
    for complaint in ("mismatches", "Found", "errors", "Corrupt"):
        assert complaint not in entries, entries[-2000:]


@pytest.mark.skipif(KIND != "muster", reason="the broker's own cleaning is looked at")
def test_topic_is_cleaned_while_clients_write_and_read_it(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers({"log.cleaner.backoff.ms": "50"})
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": "100000",
        "min.cleanable.dirty.ratio": "0.3",
    }
    Cluster(broker.bootstrap).create_topic(name, 1, **settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": name,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
        }
    )
    reader.assign([TopicPartition(name, 0, 0)])
    last: dict[bytes, bytes] = {}
    seen: dict[bytes | None, bytes | None] = {}
    chance = random.Random(8)
    folder = broker.partition_folder(name, 0)

    def read() -> bool:
        for message in reader.consume(500, 0.1):
            assert message.error() is None
            seen[message.key()] = message.value()
        return seen == last

    for _ in range(30):
        for _ in range(200):
            key, value = b"k%d" % chance.randrange(40), chance.randbytes(100)
            last[key] = value
            producer.produce(name, value, key)
        assert producer.flush(20) == 0
        read()
    until("the reader has the last of every key", read)
    until(
        "it was cleaned",
        lambda: sum(file.stat().st_size for file in folder.glob("*.log")) < 300_000,
    )
    second = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "error"}
    )
    second.assign([TopicPartition(name, 0, 0)])
    again: dict[bytes | None, bytes | None] = {}
    count = 0

    def reread() -> bool:
        nonlocal count
        for message in second.consume(500, 0.1):
            assert message.error() is None
            count += 1
            again[message.key()] = message.value()
        return again == last

    until("a new reader finds the same", reread)
    assert count < 6000, "most records were gone"
    reader.close()
    second.close()
    broker.stop()
    printed = dump(java.KAFKA_NEW, sorted(folder.glob("*.log")), "--deep-iteration")
    offsets = [int(found) for found in re.findall(r"^\|? ?offset: (\d+)", printed, re.MULTILINE)]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 5999

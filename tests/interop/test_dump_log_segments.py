"""Apache's DumpLogSegments reads segments, indexes and committed offsets that the broker has
written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests import java
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.interop.producers import produce

pytestmark = pytest.mark.interop

# 3.9.2 cannot decode the offset values of the version that Kafka 4.3.1 writes.
RELEASES = [java.KAFKA_NEW] + ([java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS] if KIND == "muster" else [])


def dump(release: str, files: list[Path], *arguments: str) -> str:
    main_class = (
        "org.apache.kafka.tools.DumpLogSegments"
        if release == java.KAFKA_NEW
        else "kafka.tools.DumpLogSegments"
    )
    done = java.run(
        release, main_class, "--deep-iteration", "--files", ",".join(map(str, files)), *arguments
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "isvalid: false" not in done.stdout
    return done.stdout


@pytest.mark.parametrize("release", RELEASES)
def test_dump_log_segments_reads_every_codec_and_index(
    broker: Broker, release: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 1, **{"segment.bytes": str(1 << 20), "index.interval.bytes": "4096"})
    codecs = ("gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        produce("confluent", broker.bootstrap, name, [f"{codec}-{n}" for n in range(20)], codec)
    large = [f"large-{number}-" + "x" * 10000 for number in range(250)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1})
    for value in large:
        producer.produce(name, value.encode())
    assert producer.flush(20) == 0

    folder = broker.partition_folder(name, 0)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) >= 3, "the segments were rolled"
    dumped = dump(release, logs, "--print-data-log")
    assert set(re.findall(r"compresscodec: (\w+)", dumped)) == {"none", *codecs}
    offsets = [int(found) for found in re.findall(r"^\|? ?offset: (\d+)", dumped, re.MULTILINE)]
    assert offsets == list(range(20 * len(codecs) + len(large)))
    values = re.findall(r"payload: (\S+)", dumped)
    assert values == [f"{codec}-{n}" for codec in codecs for n in range(20)] + large

    # Only closed segments: the indexes of the active segment are preallocated with zeros, in Kafka
    # too.
    rolled = [file.with_suffix(end) for file in logs[:-1] for end in (".index", ".timeindex")]
    checked = dump(release, rolled, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(rolled)
    entries = dump(release, [*logs[:-1], *rolled])
    assert re.search(r"^offset: \d+ position: [1-9]", entries, re.MULTILINE), "an index has entries"
    assert re.search(r"^timestamp: [1-9]\d* offset: [1-9]", entries, re.MULTILINE)
    for complaint in ("mismatches", "Found", "errors", "Corrupt"):
        assert complaint not in entries, entries[-2000:]


def test_dump_log_segments_reads_the_log_of_a_killed_broker(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers({"offsets.topic.num.partitions": "1"})
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 1, **{"index.interval.bytes": "100"})
    feed = Feed(broker.bootstrap, name, 1)
    with Group("confluent", broker.bootstrap, f"{name}-group", topics=[name]) as group:
        member = group.start("a", session_timeout_ms=20000)
        for _ in range(3):
            with feed.flow():
                group.until_seen(feed.send(50))
                member.commit()
                broker.kill()
                broker.start()
        group.until_seen(list(feed.sent))
        member.commit()
        member.leave()
    broker.stop()
    logs = [broker.partition_folder(n, 0) / f"{0:020}.log" for n in (name, "__consumer_offsets")]
    indexes = [file.with_suffix(end) for file in logs for end in (".index", ".timeindex")]
    dumped = dump(java.KAFKA_NEW, [*logs, *indexes])
    for complaint in ("mismatches", "Found", "errors", "Corrupt"):
        assert complaint not in dumped, dumped[-2000:]
    last = dump(java.KAFKA_NEW, logs[1:], "--offsets-decoder").splitlines()
    [*_, offset] = [line for line in last if f'"topic":"{name}"' in line]
    assert f'"offset":{len(feed.sent)},' in offset


@pytest.mark.parametrize("release", RELEASES)
def test_dump_log_segments_decodes_offsets_and_groups(
    broker: Broker, release: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 2)
    feed = Feed(broker.bootstrap, name, 2)
    group_id = f"{name}-group"
    with Group("confluent", broker.bootstrap, group_id, topics=[name]) as group:
        member = group.start("a")
        group.balanced(cluster, 2)
        group.until_seen(feed.send(10))
        member.commit()
        member.leave()
    logs = [
        file
        for file in sorted(broker.data.glob("__consumer_offsets-*/*.log"))
        if group_id.encode() in file.read_bytes()
    ]
    assert len({file.parent for file in logs}) == 1, (
        "a group has one partition of the offsets topic"
    )
    lines = [
        line
        for line in dump(release, logs, "--offsets-decoder").splitlines()
        if f'"group":"{group_id}"' in line
    ]
    for partition in range(2):
        [*_, last] = [line for line in lines if f'"topic":"{name}","partition":{partition}' in line]
        assert '"offset":5,' in last
    groups = [line for line in lines if '"protocolType":"consumer"' in line]
    assert any(
        '"protocol":"range"' in line and '"clientId":"a"' in line and f'"topics":["{name}"]' in line
        for line in groups
    ), lines
    assert '"members":[]' in groups[-1], "the last record of the group tells that it is empty"

"""Tests that Muster reads every acknowledged commit from the offsets topic of Apache Kafka 4.3.1.

Kafka 4.3.1 writes offset values of version 4, which is flexible and has a tagged topic id. Muster
reads this version but writes older versions.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from offsets.cache import OffsetCache
from offsets.partitioner import partition_for
from offsets.record_reader import runs_of_records
from offsets.runs import GroupRun
from offsets.section_reader import runs_of_section
from protocol.records.batch import records_of, section_of
from protocol.records.stored import iter_stored

DIRECTORIES = Path(__file__).parent.parent / "data" / "kafka-dirs"


def logs_of_offsets(directory: Path) -> dict[int, bytes]:
    """Returns the concatenated segments of each partition of __consumer_offsets, by partition
    number."""
    logs: dict[int, bytes] = {}
    with tarfile.open(directory / "data.tar.xz") as archive:
        for name in sorted(archive.getnames()):
            folder, file = Path(name).parent.name, Path(name)
            if folder.startswith("__consumer_offsets-") and file.suffix == ".log":
                member = archive.extractfile(name)
                assert member is not None
                partition = int(folder.rpartition("-")[2])
                logs[partition] = logs.get(partition, b"") + member.read()
    return logs


@pytest.mark.parametrize("name", ["kafka-4.3.1-clean", "kafka-4.3.1-killed"])
def test_every_commit_acknowledged_by_kafka_is_read_from_its_files(name: str) -> None:
    directory = DIRECTORIES / name
    expected = json.loads((directory / "expect.json").read_text())["groups"]
    caches = {partition: OffsetCache() for partition in range(4)}
    skipped: Counter[int] = Counter()
    groups = set()
    for partition, data in logs_of_offsets(directory).items():
        for header, _ in iter_stored(data, partial=True):
            if header.is_control:
                continue
            section = section_of(data, header)
            runs = runs_of_section(section, header.base_offset, header.record_count, skipped)
            assert runs == list(runs_of_records(records_of(data, header)))
            for base_offset, run in runs:
                caches[partition].replay(run, base_offset)
                if isinstance(run, GroupRun):
                    groups.add(run.group_id)
    assert len(expected) >= 10
    for group_id, offsets in expected.items():
        cache = caches[partition_for(group_id, 4)]
        found = {
            f"{topic}/{partition}": [entry.offset, entry.metadata]
            for topic, partition, entry in cache.entries(group_id)
        }
        assert found.items() >= offsets.items()
    assert "live-group" in groups | {g for cache in caches.values() for g in cache.groups()}

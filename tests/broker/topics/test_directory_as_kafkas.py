"""A start and a stop of Muster do not change the files of an Apache Kafka directory."""

from __future__ import annotations

import json
from pathlib import Path

from tests.broker.serving import serving
from tests.log.log_tools import unpack_kafka_directory

SETTINGS = {"log.cleaner.enable": "false", "log.retention.ms": "-1"}
OFFSETS = ("recovery-point", "replication", "log-start")


def files(data: Path) -> dict[str, bytes]:
    """Returns the content of every file in a directory, by relative path."""
    return {
        str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()
    }


def entries(checkpoint: bytes) -> tuple[list[str], set[str]]:
    """Returns the first two lines of a checkpoint (version and count), and the set of its
    entries."""
    lines = checkpoint.decode().splitlines(keepends=True)
    return lines[:2], set(lines[2:])


def properties(text: bytes) -> set[str]:
    return {line for line in text.decode().splitlines() if line and not line.startswith("#")}


async def test_start_and_stop_delete_no_file_of_a_kafka_data_directory(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    before = files(data)

    async with serving(data, SETTINGS):
        assert not (data / ".kafka_cleanshutdown").exists()

    after = files(data)
    for name in OFFSETS:
        path = f"{name}-offset-checkpoint"
        assert entries(after.pop(path)) == entries(before.pop(path)), path
    assert json.loads(after.pop(".kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": -1}
    assert json.loads(before.pop(".kafka_cleanshutdown")).keys() == {"version", "brokerEpoch"}
    path = "meta.properties"
    assert properties(after.pop(path)) == properties(before.pop(path))
    assert {path: after.get(path) for path in before} == before
    own = {Path(path).name for path in after.keys() - before.keys()}
    ours = {".lock", "topics.json", "topics.json.spare", "groups.image"}
    assert own <= ours, own

"""The log manager opens the logs of its topics in any number of threads, and refuses a log with
another topic id."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.config.config import Config, topic_settings
from broker.topics.directory.partition_mark import partition_metadata
from broker.topics.logs import LogManager
from broker.topics.produce_rules import produce_rules
from broker.topics.registry import BadDirectory, Topic
from log.files.filesystem import OsFileSystem
from protocol.errors import KAFKA_STORAGE_ERROR, NONE
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import partition_in, services_with
from tests.broker.serving import asked, serving
from tests.broker.topic_calls import create_topic, metadata, produce

TOPIC = Topic("t", b"1" * 16, 8)


def managed(directory: Path, **settings: str) -> LogManager:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return LogManager(OsFileSystem(), str(directory), Config(named), services_with())


@pytest.mark.parametrize("threads", ["1", "4"])
def test_partitions_are_in_order_after_a_start_with_any_number_of_recovery_threads(
    tmp_path: Path, threads: str
) -> None:
    first = managed(tmp_path)
    first.open_all([])
    first.show(first.make(TOPIC))
    for number, partition in enumerate(first.topics["t"].partitions):
        for _ in range(number):
            partition.append(encode_batch([Record(0, 1, None, b"v")]), 1)
    first.close_all()

    again = managed(tmp_path, num_recovery_threads_per_data_dir=threads)
    again.open_all([TOPIC])

    assert again.was_clean
    partitions = again.topics["t"].partitions
    assert [each.index for each in partitions] == list(range(8))
    assert [each.log.log_end_offset for each in partitions] == list(range(8))
    assert [each.high_watermark for each in partitions] == list(range(8))


def test_clean_shutdown_marker_applies_only_to_the_next_start(tmp_path: Path) -> None:
    logs = managed(tmp_path)
    logs.open_all([])
    logs.close_all()

    crashed = managed(tmp_path)
    crashed.open_all([])
    next_start = managed(tmp_path)
    next_start.open_all([])

    assert (logs.was_clean, crashed.was_clean, next_start.was_clean) == (False, True, False)


def test_partition_directory_with_another_topic_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "partition.metadata").write_bytes(partition_metadata(b"2" * 16))

    with pytest.raises(BadDirectory, match=r"t-0 has the topic id .* but topic t has"):
        managed(tmp_path).open_all([Topic("t", b"1" * 16, 1)])


@pytest.mark.parametrize("left", [0, 1, 30, 46])
def test_torn_partition_metadata_is_written_again(tmp_path: Path, left: int) -> None:
    topic = Topic("t", b"1" * 16, 1)
    path = tmp_path / "t-0" / "partition.metadata"
    path.parent.mkdir()
    path.write_bytes(partition_metadata(topic.topic_id)[:left])

    managed(tmp_path).open_all([topic])

    assert path.read_bytes() == partition_metadata(topic.topic_id)


def test_partition_gets_an_empty_log_when_its_directory_does_not_exist(tmp_path: Path) -> None:
    logs = managed(tmp_path)

    logs.open_all([Topic("t", b"1" * 16, 1)])

    assert (tmp_path / "t-0" / "partition.metadata").read_bytes() == partition_metadata(b"1" * 16)
    assert partition_in(logs, "t").log.log_end_offset == 0
    assert logs.get("t", 1) is None
    assert logs.get("t", -1) is None
    assert logs.get("u", 0) is None


@pytest.mark.parametrize(
    ("codec", "number"),
    [("producer", None), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_compression_type_sets_the_codec_of_produced_records(
    codec: str, number: int | None
) -> None:
    settings = topic_settings(Config({}), {"compression.type": codec})

    assert produce_rules(settings).compression == number


class FullFiles(OsFileSystem):
    """A file system on which the directory of one partition cannot be created."""

    refused: str | None = None

    def make_directory(self, path: str) -> None:
        if self.refused and path.endswith(self.refused):
            raise OSError(errno.ENOSPC, "no space left", path)
        super().make_directory(path)


def names(broker: Broker) -> list[str]:
    return sorted(path.name for path in Path(broker.directory).iterdir() if path.is_dir())


async def test_topic_is_not_created_when_a_partition_directory_cannot_be_created(
    tmp_path: Path,
) -> None:
    fs = FullFiles()
    async with serving(tmp_path, fs=fs) as broker:
        fs.refused = "t-2"
        refused = await asked(broker, lambda wire: create_topic(wire, "t", 3))
        assert refused["error_code"] == KAFKA_STORAGE_ERROR
        assert names(broker) == []

        fs.refused = None
        made = await asked(broker, lambda wire: create_topic(wire, "t", 2))
        assert made["error_code"] == NONE

    async with serving(tmp_path) as broker:
        (topic,) = (await asked(broker, lambda wire: metadata(wire, "t", create=False)))["topics"]
        assert len(topic["partitions"]) == 2


async def test_create_partitions_adds_no_partition_when_a_directory_cannot_be_created(
    tmp_path: Path,
) -> None:
    fs = FullFiles()
    async with serving(tmp_path, fs=fs) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), produce(wire, "t")))
        fs.refused = "t-2"

        wanted = {"name": "t", "count": 3, "assignments": None}
        request = {"topics": [wanted], "timeout_ms": 1000, "validate_only": False}
        answer = await asked(broker, lambda wire: wire.call("CreatePartitions", 3, request))

        assert answer["results"][0]["error_code"] == KAFKA_STORAGE_ERROR
        assert names(broker) == ["t-0"]

    async with serving(tmp_path) as broker:
        assert broker.registry.partition_counts == {"t": 1}
        assert (await asked(broker, lambda wire: produce(wire, "t")))["base_offset"] == 1

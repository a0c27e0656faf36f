"""The files of the log manager after a topic deletion, after a failed close of a log, and after
damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.config import Config
from broker.topics.logs import LogManager
from broker.topics.registry import Topic
from log.checkpoint import RECOVERY_POINT, read_offsets
from log.errors import CorruptLog
from log.files.filesystem import OsFileSystem
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import partition_in, services_with
from tests.simulated_files import SimulatedFiles


def test_checkpoints_have_no_entry_of_a_deleted_topic(tmp_path: Path) -> None:
    fs = OsFileSystem()
    config = Config({})
    logs = LogManager(fs, str(tmp_path), config, services_with())
    topic, other = Topic("t", b"1" * 16, 1), Topic("other", b"2" * 16, 1)
    for made in (topic, other):
        logs.show(logs.make(made))
        log = partition_in(logs, made.name).log
        for _ in range(5):
            log.append(encode_batch([Record(0, 1, None, b"v")]), 0, 1)
        log.flush()
        log.delete_records(4)
    logs.write_checkpoints()
    entry = logs.topics.pop("t")
    logs.remove(logs.retire(topic, entry.partitions, "0" * 32))
    assert read_offsets(fs, str(tmp_path / RECOVERY_POINT)) == {("other", 0): 5}

    again = replace(topic, topic_id=b"3" * 16)
    logs.show(logs.make(again))
    log = partition_in(logs, "t").log
    log.append(encode_batch([Record(0, 1, None, b"new")]), 0, 1)
    restarted = LogManager(fs, str(tmp_path), config, services_with())
    restarted.open_all([again, other])

    log = partition_in(restarted, "t").log
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    assert log.recovery.cuts == []


def test_clean_shutdown_marker_is_omitted_when_a_log_cannot_be_closed() -> None:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    logs = LogManager(fs, "/data", Config({}), services_with())
    topic = Topic("t", b"1" * 16, 3)
    logs.show(logs.make(topic))
    for partition in logs.all():
        partition.append(encode_batch([Record(0, 1, None, b"v")]), 1)
    fs.fail("fsync", "t-1/00000000000000000000.log")

    logs.close_all()

    assert read_offsets(fs, f"/data/{RECOVERY_POINT}") == {("t", 0): 1, ("t", 1): 0, ("t", 2): 1}
    again = LogManager(fs, "/data", Config({}), services_with())
    again.open_all([topic])
    assert not again.was_clean
    assert [each.log.log_end_offset for each in again.all()] == [1, 1, 1]
    again.close_all()
    last = LogManager(fs, "/data", Config({}), services_with())
    last.open_all([topic])
    assert last.was_clean


def test_error_about_a_damaged_log_names_the_truncate_setting() -> None:
    fs = SimulatedFiles()
    fs.make_directory("/data")
    topic = Topic("t", b"1" * 16, 2)

    def opened(**properties: str) -> LogManager:
        fs.kill()
        logs = LogManager(fs, "/data", Config(properties), services_with())
        logs.open_all([topic])
        return logs

    logs = LogManager(fs, "/data", Config({}), services_with())
    logs.show(logs.make(topic))
    for partition in logs.all():
        for _ in range(3):
            partition.append(encode_batch([Record(0, 1, None, b"v")]), 1)
        partition.log.flush()
    logs.write_checkpoints()
    path = "/data/t-1/00000000000000000000.log"
    fs.names[path].data[69 + 65] ^= 1

    with pytest.raises(CorruptLog) as refused:
        opened()
    assert (refused.value.file, refused.value.position) == (path, 69)
    assert "log.recovery.truncate=t-1 " in str(refused.value)
    with pytest.raises(CorruptLog):
        opened(**{"log.recovery.truncate": "t-0"})

    started = opened(**{"log.recovery.truncate": "t-1, gone-0"})
    assert [each.log.log_end_offset for each in started.all()] == [3, 1]
    assert read_offsets(fs, f"/data/{RECOVERY_POINT}") == {("t", 0): 3, ("t", 1): 1}
    assert [each.log.log_end_offset for each in opened().all()] == [3, 1]

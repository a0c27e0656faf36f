"""Stray partitions: partitions of a topic that was deleted and recreated while the broker was
down."""

from __future__ import annotations

from broker.config.config import Config
from broker.topics.logs import LogManager
from broker.topics.registry import Topic
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.partitions import partition_in, services_with
from tests.simulated_files import SimulatedFiles

OLD, NEW = Topic("t", b"1" * 16, 2), Topic("t", b"2" * 16, 2)
OTHER = Topic("other", b"3" * 16, 1)


def _written(fs: SimulatedFiles) -> None:
    """Writes the partitions of the topics OLD and OTHER, and closes their logs."""
    fs.make_directory("/data")
    logs = LogManager(fs, "/data", Config({}), services_with())
    for topic in (OLD, OTHER):
        logs.show(logs.make(topic))
    for each in logs.all():
        each.append(encode_batch([Record(0, 1, None, b"old")]), 1)
    logs.close_all()


def test_stray_partitions_are_renamed_and_other_partitions_are_opened() -> None:
    fs = SimulatedFiles()
    _written(fs)
    logs = LogManager(fs, "/data", Config({}), services_with())
    logs.open_all([NEW, OTHER], in_cluster=True)
    assert logs.get("t", 0) is None
    assert partition_in(logs, "other").log.log_end_offset == 1
    aside = sorted(name for name in fs.list("/data") if name.endswith("-stray"))
    assert aside == [f"t-{index}.{OLD.topic_id.hex()}-stray" for index in range(2)]


def test_recreated_topic_keeps_its_new_log_when_stray_directories_exist() -> None:
    fs = SimulatedFiles()
    _written(fs)
    logs = LogManager(fs, "/data", Config({}), services_with())
    logs.open_all([NEW, OTHER], in_cluster=True)
    logs.show(logs.make(NEW))
    logs.close_all()
    again = LogManager(fs, "/data", Config({}), services_with())
    again.open_all([NEW, OTHER], in_cluster=True)
    assert partition_in(again, "t").log.log_end_offset == 0

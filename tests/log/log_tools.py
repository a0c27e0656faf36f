"""Helpers for tests of logs: batches with known bytes, and a log on simulated files."""

from __future__ import annotations

import dataclasses
import random
import tarfile
from pathlib import Path

from log.config import LogConfig
from log.missed import Expected
from log.partition_log import PartitionLog
from log.producers.producer_state import ProducerStates
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from protocol.records.stored import stored_records
from tests.simulated_files import SimulatedFiles

DIRECTORY = "/data/t-0"
NOW_MS = 1_700_000_000_000
KAFKA_DIRECTORIES = Path(__file__).parents[1] / "data" / "kafka-dirs"


def batch(
    base_offset: int = 0,
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
    transactional: bool = False,
) -> bytes:
    """Returns a batch with one record for each value, all with the same timestamp. Without
    ``values`` it has the record ``b"v"``. ``producer`` is producer id, epoch and base sequence."""
    records = [
        Record(base_offset + index, timestamp_ms, None, value)
        for index, value in enumerate(values or (b"v",))
    ]
    producer_id, producer_epoch, base_sequence = producer
    return encode_batch(
        records,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=transactional,
    )


def open_log(
    fs: SimulatedFiles,
    *,
    recovery_point: int = 0,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    cleaned_to: int = 0,
    clean: bool = False,
    truncate: bool = False,
    missing: bool = False,
    **settings: int | str,
) -> PartitionLog:
    """Opens the log of partition 0 of topic ``t`` with these topic settings."""
    config = dataclasses.replace(LogConfig(), **settings)  # type: ignore[arg-type]
    return PartitionLog.open(
        fs,
        DIRECTORY,
        "t",
        0,
        config,
        expected=Expected(recovery_point, high_watermark, log_start_offset, cleaned_to),
        clean=clean,
        truncate=truncate,
        missing=missing,
        chance=random.randrange,
    )


def append_values(log: PartitionLog, *values: bytes, timestamp_ms: int = NOW_MS) -> None:
    for value in values:
        log.append(batch(0, value, timestamp_ms=timestamp_ms), 0, timestamp_ms)


def forget_producers(log: PartitionLog) -> None:
    """Expires all producers that have no open transaction."""
    for _ in log.producers.expire(1 << 62):
        pass


def last_batches(log: PartitionLog) -> dict[int, tuple[int, int]]:
    """Returns by producer id: the offset of the producer's last data record, and the producer's
    epoch."""
    return {key: last for piece in log.producers.last_batches() for key, last in piece.items()}


def snapshot_of(producers: ProducerStates) -> bytes:
    image = producers.freeze(1)
    for _ in image.pack():
        pass
    return bytes(image.data())


def values(log: PartitionLog, from_offset: int | None = None) -> list[tuple[int, bytes | None]]:
    """Returns offset and value of every record, in log order."""
    return [
        (record.offset, record.value)
        for buffer, header in log.scan(from_offset)
        for record in stored_records(buffer, header)
    ]


def unpack_kafka_directory(name: str, target: Path) -> Path:
    """Unpacks the archive ``name`` of tests/data/kafka-dirs. Returns the path of the Kafka data
    directory."""
    with tarfile.open(KAFKA_DIRECTORIES / name / "data.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target / "data"

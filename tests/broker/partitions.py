"""Partitions for tests: those of a broker, and those of a log alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker.loop.histogram import Writes
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.partition import Partition, PartitionServices
from log.config import LogConfig
from log.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record


def partition_of(broker: Any, topic: str, index: int = 0) -> Partition:
    """A partition that ``broker`` serves."""
    return partition_in(broker.logs, topic, index)


def log_of(broker: Any, topic: str, index: int = 0) -> PartitionLog:
    """The log of a partition that ``broker`` serves."""
    return partition_in(broker.logs, topic, index).log


def partition_in(logs: LogManager, topic: str, index: int = 0) -> Partition:
    """A partition that is there."""
    partition = logs.get(topic, index)
    assert partition is not None
    return partition


def services_with(
    *,
    fatal: list[str] | None = None,
    time: Time | None = None,
    errors: InternalErrors | None = None,
) -> PartitionServices:
    """What partitions use where there is no broker; ``fatal`` gets why it would stop."""
    reasons: list[str] = [] if fatal is None else fatal
    return PartitionServices(
        time=time or Time(),
        spawn=lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
        errors=errors or InternalErrors(),
        long_polls=LongPolls(time or Time()),
        fail=reasons.append,
        writes=Writes(),
        owned_writes={},
    )


def partition_for(log: PartitionLog, services: PartitionServices | None = None) -> Partition:
    """A partition that nobody but its log knows."""
    return Partition(log, services or services_with(), Writes(), lambda _: True)


def write_records(
    directory: Path, topic: str, index: int, *pairs: tuple[bytes | None, bytes | None]
) -> None:
    """Appends a batch of keys and values behind the broker's back, as another version would."""
    log = PartitionLog.open(
        OsFileSystem(),
        str(directory / f"{topic}-{index}"),
        topic,
        index,
        LogConfig(cleanup_policy="compact"),
        clean=True,
    )
    first = log.log_end_offset
    records = [Record(first + i, 1, key, value) for i, (key, value) in enumerate(pairs)]
    log.append_encoded(encode_batch(records), first, first + len(pairs) - 1, 1)
    log.close()

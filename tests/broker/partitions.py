"""Partitions for tests: partitions of a broker, and partitions that have only a log."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.config.config import Config
from broker.loop.histogram import Writes
from broker.loop.internal_errors import InternalErrors
from broker.quotas.replication_quota import ReplicationQuotas, replication_quotas
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.partition import Partition
from broker.topics.partition_services import PartitionServices
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.replica_services import LedPartition, ReplicaServices
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from replication.values import PartitionState, Rules


def partition_of(broker: Any, topic: str, index: int = 0) -> Partition:
    return partition_in(broker.logs, topic, index)


def log_of(broker: Any, topic: str, index: int = 0) -> PartitionLog:
    return partition_in(broker.logs, topic, index).log


def partition_in(logs: LogManager, topic: str, index: int = 0) -> Partition:
    partition = logs.get(topic, index)
    assert partition is not None
    return partition


def services_with(
    *,
    fatal: list[str] | None = None,
    time: Time | None = None,
    errors: InternalErrors | None = None,
) -> PartitionServices:
    """Returns partition services without a broker. Each reason for which a broker would stop is
    appended to ``fatal``."""
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


class Isr:
    """A fake ISR writer that records the requested changes."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], int]] = []

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        self.asked.append((isr, expected_epoch))


def replica_for(
    log: PartitionLog,
    *,
    high_watermark: int = 0,
    isr: Isr | None = None,
    rules: Rules | None = None,
    time: Time | None = None,
    spawn: Callable[[Coroutine[Any, Any, None], str], Any] | None = None,
    lower: Callable[[tuple[str, int], int], None] | None = None,
) -> Replica:
    """Returns a replica on broker id 1 that has a log, but no broker object."""
    alone = services_with(time=time)
    known = {field.name: getattr(alone, field.name) for field in dataclasses.fields(alone)}
    if spawn is not None:
        known["spawn"] = spawn
    services = ReplicaServices(
        **known,
        node_id=1,
        rules=lambda _: rules or Rules(),
        isr_writer=isr or Isr(),
        quotas=no_quotas(),
    )
    return Replica(log, services, Writes(), lambda _: True, high_watermark, lower or _ignore)


def no_quotas() -> ReplicationQuotas:
    config = Config({})
    return replication_quotas(1, config, lambda _: config.topic_defaults, Time())


def _ignore(key: tuple[str, int], recovery_point: int) -> None:
    """Does nothing: no checkpoint contains this log, so no recovery point needs to be lowered."""


def state(
    leader: int = 1,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionState:
    """Returns the partition state that the controller would send, with leader, ISR and replicas."""
    return PartitionState(1, leader, leader_epoch, isr, partition_epoch, replicas)


def partition_for(log: PartitionLog, services: PartitionServices | None = None) -> Partition:
    """Returns a partition that has a log, but no broker object."""
    return Partition(log, services or services_with(), Writes(), lambda _: True)


def write_records(
    directory: Path, topic: str, index: int, *pairs: tuple[bytes | None, bytes | None]
) -> None:
    """Appends one batch of keys and values to the files of a partition, without a broker."""
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

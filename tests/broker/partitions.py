"""Partitions for tests: those of a broker, and those of a log alone."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.loop.histogram import Writes
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.partition import Partition
from broker.topics.partition_services import PartitionServices
from log.partition_log import PartitionLog


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

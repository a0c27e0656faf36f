"""The services that all partitions of a broker use."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from broker.loop.histogram import Writes
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.long_poll import LongPolls


@dataclass(frozen=True, slots=True)
class PartitionServices:
    """The services that all partitions of a broker use."""

    in_cluster: ClassVar[bool] = False
    """True in a cluster, where the services are `ReplicaServices`."""
    time: Time
    spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]]
    """Starts a background task with a name. The task must handle its own errors."""
    errors: InternalErrors
    long_polls: LongPolls
    fail: Callable[[str], None]
    """Stops the broker; the argument is the reason."""
    writes: Writes
    """Counts the durations and sizes of writes to topics that no coordinator owns."""
    owned_writes: Mapping[str, Writes]
    """For each internal topic of a coordinator, by name: the durations and sizes of writes to its
    partitions."""

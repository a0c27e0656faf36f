"""The state of a partition from the controller, and the changes that its leader requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

NO_LEADER = -1


class PartitionState(NamedTuple):
    """The state of a partition in a LeaderAndIsr request."""

    controller_epoch: int
    leader: int
    """The broker id of the leader, or NO_LEADER."""
    leader_epoch: int
    """The leader epoch, which the controller increases with each change."""
    isr: tuple[int, ...]
    """The in-sync replicas in ZooKeeper. They have all committed records."""
    partition_epoch: int
    """The version of the `state` znode. Each change of the znode increases it."""
    replicas: tuple[int, ...]
    """The assigned replicas. The first one is the preferred leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """True if the current leader was elected although it was not in sync (unclean election)."""


class WantedIsr(NamedTuple):
    """The in-sync replicas that a leader requests. They may be written only if the `state` znode
    has the expected version."""

    isr: tuple[int, ...]
    expected_partition_epoch: int


class Step(NamedTuple):
    """The result of handling an event on the leader of a partition."""

    high_watermark: int
    """The high watermark. It never decreases while the broker stays leader."""
    wanted_isr: WantedIsr | None = None
    """The change of the in-sync replicas that the leader must request now, or None."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a partition on its leader. They may change at any time."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: the time for which an in-sync replica may lag."""
    min_isr: int = 1
    """`min.insync.replicas`. A value above the number of replicas means all replicas."""
    is_alive: Callable[[int], bool] = lambda _: True
    """Returns True if a broker is alive. Only a live broker may join the in-sync replicas."""

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
    """A broker id, or NO_LEADER."""
    leader_epoch: int
    """The leader epoch; the controller raises it in each of its changes."""
    isr: tuple[int, ...]
    """The in-sync replicas in ZooKeeper, which have all committed records."""
    partition_epoch: int
    """The version of the `state` znode, which each change raises."""
    replicas: tuple[int, ...]
    """The assigned replicas; the first one is the preferred leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """Whether the leader was elected from replicas that were not in sync."""


class WantedIsr(NamedTuple):
    """The in-sync replicas that a leader requests; they may be written only over the expected
    version of `state`."""

    isr: tuple[int, ...]
    expected_partition_epoch: int


class Step(NamedTuple):
    """The result of an event on the leader."""

    high_watermark: int
    """The high watermark, which never falls while the leader leads."""
    wanted_isr: WantedIsr | None = None
    """The change to request now, or None."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a led partition; they may change at any time."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: the time for which an in-sync replica may lag."""
    min_isr: int = 1
    """`min.insync.replicas`; a value above the number of replicas means all replicas."""
    is_alive: Callable[[int], bool] = lambda _: True
    """A function that returns whether a broker is alive: only a live broker may join the in-sync
    replicas."""

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
    """Only the controller raises it, with each of its changes."""
    isr: tuple[int, ...]
    """The in-sync replicas in ZooKeeper; they have all committed records."""
    partition_epoch: int
    """The version of the `state` znode, which each change raises."""
    replicas: tuple[int, ...]
    """The assignment; the first is the preferred leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """Its leader was elected from replicas that were not in sync."""


class WantedIsr(NamedTuple):
    """The in-sync replicas that a leader requests; to be written only over the expected version of
    `state`."""

    isr: tuple[int, ...]
    expected_partition_epoch: int


class Step(NamedTuple):
    """The result of an event at the leader."""

    high_watermark: int
    """It never falls while the leader leads."""
    wanted_isr: WantedIsr | None = None
    """The change to request now; None for none."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a led partition; they may change at any time."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: how long an in-sync replica may lag."""
    min_isr: int = 1
    """`min.insync.replicas`; a number above that of the replicas means all of them."""
    is_alive: Callable[[int], bool] = lambda _: True
    """Whether a broker is alive, and so may join the in-sync replicas."""

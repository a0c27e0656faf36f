"""What the controller says of a partition, and what its leader wants to be written of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

NO_LEADER = -1


class PartitionState(NamedTuple):
    """A partition as a LeaderAndIsr request has it."""

    controller_epoch: int
    leader: int
    """A broker id, or NO_LEADER."""
    leader_epoch: int
    """Raised by the controller with each of its changes, and by nobody else."""
    isr: tuple[int, ...]
    """The replicas that have all that is committed, as ZooKeeper has them."""
    partition_epoch: int
    """The version of the `state` znode, which each change raises."""
    replicas: tuple[int, ...]
    """The assignment; the first is the preferred leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """Its leader was elected out of those that had fallen behind."""


class WantedIsr(NamedTuple):
    """In-sync replicas that a leader asks for; to be written over one version of `state` alone."""

    isr: tuple[int, ...]
    expected_partition_epoch: int


class Step(NamedTuple):
    """What follows from something that a leader learnt."""

    high_watermark: int
    """It never falls while the leader leads."""
    wanted_isr: WantedIsr | None = None
    """None: no change is asked for now."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for a led partition; it may change at any time."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: a member may be behind for so long."""
    min_isr: int = 1
    """`min.insync.replicas`; more than there are replicas means all of them."""
    is_alive: Callable[[int], bool] = lambda _: True
    """Whether a broker may join the in-sync replicas."""

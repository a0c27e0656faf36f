"""Facts about the replicas of a broker, reported once each, for its journal."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Session(Enum):
    """What became of the session with ZooKeeper."""

    BEGUN = "begun"
    LOST = "lost"
    """The connection is; the session may live on."""
    BACK = "back"
    EXPIRED = "expired"


class Behind(NamedTuple):
    """How far a replica is behind its leader."""

    records: int
    """-1: it has not fetched since this broker leads."""
    fetched_ago_ms: int
    """When it fetched last; -1: it has not."""
    caught_up_ago_ms: int
    """When it had all that the leader had; -1: never since this broker leads."""


class LeaderTold(NamedTuple):
    """The controller says that a partition with a replica here has another leader."""

    topic: str
    partition: int
    leader: int
    leader_before: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    before_lives: bool
    """Whether the leader before is known to live."""


class ReplicaOut(NamedTuple):
    """A replica of a partition that is led here is no longer in sync."""

    topic: str
    partition: int
    replica: int
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    leader: int
    leader_epoch: int
    by_controller: bool
    """The controller took it out, and not its leader."""
    is_alive: bool
    """Whether its broker is known to live."""
    is_assigned: bool
    behind: Behind
    lag_time_max_ms: int


class ReplicaIn(NamedTuple):
    """A replica of a partition that is led here is in sync."""

    topic: str
    partition: int
    replica: int
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    leader: int
    leader_epoch: int
    by_controller: bool


class ControllerTold(NamedTuple):
    """Another controller than before tells this broker what to do."""

    controller: int
    epoch: int


class SessionChanged(NamedTuple):
    """The session with ZooKeeper has changed."""

    session: Session


class Registered(NamedTuple):
    """This broker is registered, with that epoch."""

    broker: int
    epoch: int


Event = LeaderTold | ReplicaOut | ReplicaIn | ControllerTold | SessionChanged | Registered

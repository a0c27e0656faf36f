"""Events about the replicas of a broker, for its journal."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Session(Enum):
    """The state of the broker's session with ZooKeeper."""

    BEGUN = "begun"
    LOST = "lost"
    """The connection to ZooKeeper is lost. The session may still be valid."""
    BACK = "back"
    EXPIRED = "expired"


class Behind(NamedTuple):
    """How far a replica is behind its leader."""

    records: int
    """The number of records that the replica lacks; -1 if it has not fetched since this broker
    became leader."""
    fetched_ago_ms: int
    """The time in ms since the replica's last fetch; -1 if it has not fetched since this broker
    became leader."""
    caught_up_ago_ms: int
    """The time in ms since the replica was last fully caught up. The value is -1 if the replica has
    not caught up since this broker became leader."""


class LeaderReported(NamedTuple):
    """The controller reports a new leader of a partition that has a replica on this broker."""

    topic: str
    partition: int
    leader: int
    leader_before: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    before_lives: bool
    """True if the previous leader is known to be alive."""


class ReplicaOut(NamedTuple):
    """A replica of a partition that this broker leads is no longer in sync."""

    topic: str
    partition: int
    replica: int
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    leader: int
    leader_epoch: int
    by_controller: bool
    """True if the controller removed the replica from the ISR, False if the leader did."""
    is_alive: bool
    """True if the broker of the replica is known to be alive."""
    is_assigned: bool
    behind: Behind
    lag_time_max_ms: int


class ReplicaIn(NamedTuple):
    """A replica of a partition that this broker leads is in sync again."""

    topic: str
    partition: int
    replica: int
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    leader: int
    leader_epoch: int
    by_controller: bool


class ControllerChanged(NamedTuple):
    """This broker received a request from a new controller."""

    controller: int
    epoch: int


class SessionChanged(NamedTuple):
    """The state of the broker's session with ZooKeeper has changed."""

    session: Session


class Registered(NamedTuple):
    """This broker is registered in ZooKeeper, with the broker epoch in this event."""

    broker: int
    epoch: int


Event = LeaderReported | ReplicaOut | ReplicaIn | ControllerChanged | SessionChanged | Registered

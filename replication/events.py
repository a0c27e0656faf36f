"""The events of a broker's replicas, for its journal."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Session(Enum):
    """The state of the session with ZooKeeper."""

    BEGUN = "begun"
    LOST = "lost"
    """The connection is lost; the session may still be valid."""
    BACK = "back"
    EXPIRED = "expired"


class Behind(NamedTuple):
    """How far a replica is behind its leader."""

    records: int
    """-1 if it has not fetched since this broker became leader."""
    fetched_ago_ms: int
    """The time since its last fetch; -1 without one."""
    caught_up_ago_ms: int
    """The time since it was last fully caught up; -1 if never since this broker became leader."""


class LeaderReported(NamedTuple):
    """The controller reports another leader of a partition that has a replica here."""

    topic: str
    partition: int
    leader: int
    leader_before: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    before_lives: bool
    """Whether the previous leader is known to be alive."""


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
    """The controller removed it, rather than its leader."""
    is_alive: bool
    """Whether its broker is known to be alive."""
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
    """This broker has received a request from a new controller."""

    controller: int
    epoch: int


class SessionChanged(NamedTuple):
    """The session with ZooKeeper has changed."""

    session: Session


class Registered(NamedTuple):
    """This broker is registered, with this broker epoch."""

    broker: int
    epoch: int


Event = LeaderReported | ReplicaOut | ReplicaIn | ControllerChanged | SessionChanged | Registered

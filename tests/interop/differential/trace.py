"""Traces: steps of several clients of one group, with placeholders for the values of each broker.

A step contains no generated member id and no generation: it contains "self", "the stale one" or
"one too many", and `knowledge.py` replaces these words by the client's values on that broker. A
trace therefore depends only on its seed, and can be printed and run again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

PARKABLE = frozenset({"JoinGroup", "SyncGroup"})
"""The APIs whose response may depend on other clients."""

CHANGING = frozenset(
    {"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "DeleteGroups", "OffsetDelete"}
)
"""The APIs after which two brokers may be in different states if their responses differ."""

APART = frozenset({("OffsetCommit", 0), ("OffsetFetch", 0)})
"""Versions that store offsets in ZooKeeper's consumer paths. No other version is equivalent, so a
broker that does not serve these versions is omitted."""

MAX_SIZE = 4
"""The setting group.max.size of the brokers."""

TOPICS = {"t0": 3, "t1": 2}
"""The existing topics with their partition counts; "nope" does not exist."""


@dataclass(frozen=True)
class Actor:
    """One client: a dynamic member, a static member (with an instance id), or a consumer without a
    group."""

    index: int
    client_id: str
    instance_id: str | None = None
    simple: bool = False


@dataclass(frozen=True)
class Step:
    """One request of one actor.

    `when` is a condition on a state in which all brokers agree. "always": no condition. "free": no
    earlier request of this actor is parked. "preparing" and "completing": the actor is free and the
    group is in that state. A step whose condition is false is skipped on all brokers.
    """

    actor: int
    api: str
    version: int
    says: dict[str, Any] = field(default_factory=dict)
    when: str = "always"

    def __str__(self) -> str:
        said = " ".join(f"{key}={value}" for key, value in self.says.items())
        guard = "" if self.when == "always" else f" when={self.when}"
        return f"c{self.actor} {self.api} v{self.version} {said}{guard}"


@dataclass(frozen=True)
class Trace:
    """The actors and steps of one seed."""

    seed: int
    actors: tuple[Actor, ...]
    steps: tuple[Step, ...]

    def with_steps(self, steps: list[Step]) -> Trace:
        """Returns the same actors with other steps."""
        return replace(self, steps=tuple(steps))

"""Traces: what several clients of one group do, in words that mean the same to every broker.

A step never holds a made-up member id or a generation: it says "self", "the stale one", "one too
many", and `knowledge.py` puts in what that client knows on that broker. So a trace is a value, a
pure function of its seed, and is printed and run again as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

PARKABLE = frozenset({"JoinGroup", "SyncGroup"})
"""The APIs whose answer may wait for what other clients do."""

CHANGING = frozenset(
    {"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "DeleteGroups", "OffsetDelete"}
)
"""The APIs after which two brokers that answered differently may be in different states."""

APART = frozenset({("OffsetCommit", 0), ("OffsetFetch", 0)})
"""Versions that keep their offsets in ZooKeeper's consumer paths: for a broker that does not serve
them no other version is the same, so that it is not asked."""

MAX_SIZE = 4
"""group.max.size of the brokers."""

TOPICS = {"t0": 3, "t1": 2}
"""The topics that exist, with their partitions; "nope" does not."""


@dataclass(frozen=True)
class Actor:
    """One client: a dynamic member, a static one (with an instance id), or a simple consumer."""

    index: int
    client_id: str
    instance_id: str | None = None
    simple: bool = False


@dataclass(frozen=True)
class Step:
    """One request of one actor.

    `when` is a guard over what all brokers agree on: "always"; "free", only if no earlier request
    of this actor is parked; "preparing" and "completing", if it is free and the group's state is
    that. A step that its guard stops is left out on every broker.
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
    """All that one seed says."""

    seed: int
    actors: tuple[Actor, ...]
    steps: tuple[Step, ...]

    def with_steps(self, steps: list[Step]) -> Trace:
        """The same clients, other steps."""
        return replace(self, steps=tuple(steps))

"""Traces: the steps of several clients of one group, with placeholders for values that differ
between brokers.

A step contains no generated member id and no generation, but words such as "self", "the stale one"
or "one too many". `knowledge.py` replaces these words by the values of the client on the broker. A
trace therefore depends only on its seed, and can be printed and run again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

PARKABLE = frozenset({"JoinGroup", "SyncGroup"})
"""The APIs whose responses may wait for other clients."""

CHANGING = frozenset(
    {"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "DeleteGroups", "OffsetDelete"}
)
"""The APIs that can change the state of a group. If two brokers respond differently to a request of
such an API, the states of the group on these brokers may differ."""

APART = frozenset({("OffsetCommit", 0), ("OffsetFetch", 0)})
"""The versions of OffsetCommit and OffsetFetch that store offsets in ZooKeeper's consumer paths.
The responses of a trace with such a version are compared only between brokers that serve the
version."""

MAX_SIZE = 4
"""The value of group.max.size on all brokers."""

TOPICS = {"t0": 3, "t1": 2}
"""The existing topics with their numbers of partitions. The topic "nope" does not exist."""


@dataclass(frozen=True)
class Actor:
    """One client: a dynamic member, a static member, or a consumer that only commits and fetches
    offsets."""

    index: int
    client_id: str
    instance_id: str | None = None
    simple: bool = False


@dataclass(frozen=True)
class Step:
    """One request of one actor.

    ``when`` is the condition for sending the request. "always" means without a condition. "free"
    means that no earlier request of this actor is parked. "preparing" and "completing" also mean
    that the group is in this state. If the condition is false, the step is skipped on all brokers.
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
        return replace(self, steps=tuple(steps))

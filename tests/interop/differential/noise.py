"""Random single requests, valid or invalid, in any state of the group. `generator.py` adds them
between the requests that change the state."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from protocol.messages import BY_NAME
from tests.interop.differential.trace import TOPICS, Actor, Step
from tests.java import KAFKA_NEW

NOISE = {
    "JoinGroup": 6,
    "SyncGroup": 7,
    "Heartbeat": 11,
    "LeaveGroup": 4,
    "OffsetCommit": 16,
    "OffsetFetch": 17,
    "DescribeGroups": 9,
    "ListGroups": 8,
    "DeleteGroups": 5,
    "OffsetDelete": 5,
    "FindCoordinator": 9,
}
FIRST_WITH_INSTANCE = {
    "JoinGroup": 5,
    "SyncGroup": 3,
    "Heartbeat": 3,
    "LeaveGroup": 3,
    "OffsetCommit": 7,
}
PROTOCOLS = (
    [["range", "t0"]],
    [["range", "t0"], ["roundrobin", "t0"]],
    [["roundrobin", "t0,t1"], ["range", "t0,t1"]],
    [["range", "t1"], ["sticky", "t1"]],
    [["range", ""], ["roundrobin", ""]],
)
STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead", "stable", "Odd")


_FIRST_OF_4_4 = {"DeleteGroups": 3}
"""By API, the first version that Kafka 4.4 serves but Kafka 4.3 does not."""


def versions(api: str) -> list[int]:
    """Returns the versions of an API that traces use, in ascending order."""
    first = _FIRST_OF_4_4.get(api) if KAFKA_NEW == "kafka-4.3.1" else None
    return [each for each in BY_NAME[api].versions if first is None or each < first]


class Noise:
    """Collects the steps of the trace with one seed. Each method adds one step."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.steps: list[Step] = []
        self.used: Counter[tuple[str, int]] = Counter()
        self.protocol_type = self.rng.choices(("consumer", "connect"), (9, 1))[0]
        self.actors = self._make_actors()
        self.inside: list[int] = []
        self.has_id: set[int] = set()
        self.lists = {actor.index: self._protocols() for actor in self.actors}

    def _make_actors(self) -> tuple[Actor, ...]:
        made = []
        for index in range(self.rng.randint(3, 6)):
            kind = self.rng.choices(("dynamic", "static", "simple"), (5, 3, 1))[0]
            instance = f"i{index}" if kind == "static" else None
            made.append(Actor(index, f"c{index}", instance, kind == "simple"))
        return tuple(made)

    # ------------------------------------------------------------------------------- choices

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def version(self, api: str, least: int = 0, most: int = 99) -> int:
        """Returns a version of an API: the version that this trace has used least often. If several
        versions were used equally often, the seed decides."""
        known = [v for v in versions(api) if least <= v <= most]
        turned = self.seed % len(known)
        chosen = min(known[turned:] + known[:turned], key=lambda v: self.used[api, v])
        self.used[api, chosen] += 1
        return chosen

    def version_for(self, api: str, actor: int) -> int:
        static = self.actors[actor].instance_id is not None and self.maybe(0.9)
        return self.version(api, FIRST_WITH_INSTANCE.get(api, 0) if static else 0)

    def members(self) -> list[int]:
        return [a.index for a in self.actors if not a.simple] or [0]

    def anyone(self) -> int:
        if self.inside and self.maybe(0.7):
            return self.rng.choice(self.inside)
        return self.rng.randrange(len(self.actors))

    def _protocols(self) -> list[list[str]]:
        return list(self.rng.choice(PROTOCOLS))

    def add(self, actor: int, api: str, version: int, when: str = "always", **says: Any) -> None:
        self.steps.append(Step(actor, api, version, says, when))

    # ------------------------------------------------------------------------------- requests

    def noise(self, steps: int) -> None:
        for _ in range(steps):
            api = self.rng.choices(list(NOISE), list(NOISE.values()))[0]
            getattr(self, "noise_" + api)()

    def some(self) -> None:
        self.noise(self.rng.choices((0, 1, 2), (5, 4, 2))[0])

    def _who(self) -> str:
        other = self.rng.randrange(len(self.actors))
        return self.rng.choices(
            ("self", "none", "stranger", "stale", f"c{other}"), (12, 1, 1, 1, 1)
        )[0]

    def _generation(self) -> str:
        return self.rng.choices(("own", "next", "previous", "none"), (12, 1, 1, 1))[0]

    def _instance(self) -> str:
        other = self.rng.randrange(len(self.actors))
        return self.rng.choices(("own", "none", "stranger", f"c{other}"), (12, 1, 1, 1))[0]

    def _group(self) -> str:
        return self.rng.choices(("main", "ghost", "empty"), (24, 1, 1))[0]

    def noise_JoinGroup(self, actor: int | None = None, member: str | None = None) -> None:
        actor = self.anyone() if actor is None else actor
        says: dict[str, Any] = {
            "group": self._group(),
            "member": member or self._who(),
            "instance": self._instance(),
            "session_ms": self.rng.choices((60000, 500, 99999999), (12, 1, 1))[0],
            "rebalance_ms": 300000,
            "type": self.rng.choices((self.protocol_type, "other", ""), (14, 1, 1))[0],
            "protocols": self.rng.choices(
                (self.lists[actor], self._protocols(), [["odd", "t0"]], []), (10, 4, 1, 1)
            )[0],
            "reason": None,
        }
        if says["member"] in ("none", "stranger", "stale") and says["group"] == "ghost":
            says["group"] = "main"  # otherwise "ghost" would become a group
        if says["group"] == "ghost":
            says["member"] = "stranger"
        when = "always" if self.maybe(0.15) else "free"
        self.add(actor, "JoinGroup", self.version_for("JoinGroup", actor), when, **says)

    def noise_SyncGroup(self, actor: int | None = None, member: str | None = None) -> None:
        actor = self.anyone() if actor is None else actor
        wrong = self.rng.choices(("own", "wrong", "null"), (12, 1, 2))
        self.add(
            actor,
            "SyncGroup",
            self.version_for("SyncGroup", actor),
            "always" if self.maybe(0.15) else "free",
            group=self._group(),
            member=member or self._who(),
            generation=self._generation(),
            instance=self._instance(),
            type=wrong[0],
            name=self.rng.choices(("own", "wrong", "null"), (12, 1, 2))[0],
            assign=self.rng.choice(("all", "all", "none")),
        )

    def noise_Heartbeat(self, actor: int | None = None, member: str | None = None) -> None:
        actor = self.anyone() if actor is None else actor
        self.add(
            actor,
            "Heartbeat",
            self.version_for("Heartbeat", actor),
            group=self._group(),
            member=member or self._who(),
            generation=self._generation(),
            instance=self._instance(),
        )

    def noise_LeaveGroup(self, actor: int | None = None, member: str | None = None) -> None:
        """Adds a LeaveGroup request that mostly fails. The generator adds the LeaveGroup requests
        that succeed."""
        actor = self.anyone() if actor is None else actor
        member = member or self.rng.choice(("stranger", "stale", "none", "self"))
        instance = self.rng.choice(("stranger", "none")) if member == "self" else self._instance()
        gone = [[actor, member, instance]]
        if self.maybe(0.3):
            gone.append([actor, "stranger", self._instance()])
        self.add(
            actor,
            "LeaveGroup",
            self.version_for("LeaveGroup", actor),
            group=self._group(),
            members=gone,
            reason=self.rng.choice((None, "bye")),
        )

    def noise_OffsetCommit(
        self, actor: int | None = None, member: str | None = None, generation: str | None = None
    ) -> None:
        actor = self.anyone() if actor is None else actor
        nobody = self.actors[actor].simple or self.maybe(0.12)
        version = self.version_for("OffsetCommit", actor)
        group = self._group() if version else "main"
        generation = generation or ("none" if nobody else self._generation())
        if group != "main" and generation != "next":
            group = "main"  # otherwise the commit would create the group
        self.add(
            actor,
            "OffsetCommit",
            version,
            group=group,
            member=member or ("none" if nobody else self._who()),
            generation=generation,
            instance="none" if nobody else self._instance(),
            retention_ms=self.rng.choice((-1, -1, 86400000)),
            topics=self._positions(),
        )

    def _positions(self) -> list[Any]:
        """Returns the offsets of a commit: [topic, [[partition, offset, leader epoch, metadata],
        ...]]. Some values are invalid."""
        named = self.rng.choices(
            (["t0"], ["t1"], ["t0", "t1"], ["t0", "nope"], []), (6, 4, 4, 2, 1)
        )[0]
        found = []
        for topic in named:
            partitions = list(range(TOPICS.get(topic, 1)))
            self.rng.shuffle(partitions)
            chosen = partitions[: self.rng.randint(1, len(partitions))]
            if self.maybe(0.08):
                chosen.append(17)
            found.append([topic, [self._position(partition) for partition in chosen]])
        return found

    def _position(self, partition: int) -> list[Any]:
        text = self.rng.choices((None, "", "note", "long"), (3, 3, 5, 1))[0]
        epoch = self.rng.choice((-1, 0, 7))
        return [partition, self.rng.randrange(1000), epoch, text]

    def _keys(self) -> list[Any]:
        named = self.rng.choices((["t0"], ["t1"], ["t0", "t1"], ["t0", "nope"]), (6, 4, 4, 2))[0]
        return [
            [
                topic,
                list(range(self.rng.randint(1, TOPICS.get(topic, 1)))) + [17] * self.maybe(0.08),
            ]
            for topic in named
        ]

    def noise_OffsetFetch(self) -> None:
        version = self.version("OffsetFetch")
        groups = ["main"]
        if version >= 8 and self.maybe(0.3):
            groups = self.rng.sample(["main", "ghost", "empty"], 2)
        elif version and self.maybe(0.06):
            groups = [self.rng.choice(("ghost", "empty"))]
        everything = version >= 2 and self.maybe(0.35)
        self.add(
            self.anyone(),
            "OffsetFetch",
            version,
            groups=groups,
            topics=None if everything else self._keys(),
            stable=self.maybe(0.5),
        )

    def noise_DescribeGroups(self) -> None:
        groups = self.rng.choices((["main"], ["main", "ghost"], ["empty"]), (12, 3, 1))[0]
        version = self.version("DescribeGroups")
        self.add(self.anyone(), "DescribeGroups", version, groups=groups, ops=self.maybe(0.3))

    def noise_ListGroups(self) -> None:
        states = self.rng.sample(STATES, self.rng.randint(1, 3)) if self.maybe(0.5) else []
        types = self.rng.choices(
            ([], ["classic"], ["Classic", "share"], ["consumer"]), (6, 2, 1, 1)
        )[0]
        self.add(
            self.anyone(), "ListGroups", self.version("ListGroups"), states=states, types=types
        )

    def noise_DeleteGroups(self) -> None:
        groups = self.rng.choices(
            (["main"], ["main", "ghost"], ["ghost"], ["empty"]), (12, 3, 1, 1)
        )[0]
        self.add(self.anyone(), "DeleteGroups", self.version("DeleteGroups"), groups=groups)

    def noise_OffsetDelete(self) -> None:
        version = self.version("OffsetDelete")
        self.add(self.anyone(), "OffsetDelete", version, group=self._group(), topics=self._keys())

    def noise_FindCoordinator(self) -> None:
        version = self.version("FindCoordinator")
        groups = self.rng.choices((["main"], ["main", "ghost"], ["empty"]), (8, 3, 1))[0]
        self.add(self.anyone(), "FindCoordinator", version, groups=groups)

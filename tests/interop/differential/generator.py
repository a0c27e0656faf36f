"""Seeded traces: goals that walk a group through its states, and noise on the way.

`trace_of(seed)` reads nothing but its seed. It keeps only a guess of who is in the group; guards on
the steps (`Step.when`) do the rest, so that a wrong guess costs a step and no more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from protocol.messages import BY_NAME
from tests.interop.differential.trace import TOPICS, Actor, Step, Trace

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
FIRST_SERVED = {"OffsetCommit": 1, "OffsetFetch": 1}
"""Version 0 of these keeps offsets in ZooKeeper; see docs/differences.md."""
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
LONGEST_STEPS = 60


def versions(api: str) -> list[int]:
    """The versions that traces use, oldest first."""
    known = BY_NAME[api].versions
    return list(range(max(known.start, FIRST_SERVED.get(api, 0)), known.stop))


class _Script:
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

    def run(self) -> Trace:
        goals: dict[Callable[[], None], int] = {
            self.grow: 8,
            self.settle: 4,
            self.leave_one: 3,
            self.leave_all: 3,
            self.delete: 2,
            self.restart_static: 4,
            self.rejoin: 3,
            self.commit_as_nobody: 2,
            self.janitor: 1,
        }
        self.noise(self.rng.randint(0, 3))
        if self.maybe(0.1):
            self._noise_JoinGroup(member="stranger")
        while len(self.steps) < LONGEST_STEPS - 15:
            self.rng.choices(list(goals), list(goals.values()))[0]()
            self.noise(self.rng.choice((0, 1, 1, 2, 4)))
        return Trace(self.seed, self.actors, tuple(self.steps[:LONGEST_STEPS]))

    # ------------------------------------------------------------------------------- choices

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def version(self, api: str, least: int = 0, most: int = 99) -> int:
        """The version that this trace has used least, of equals another first with each seed."""
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

    # --------------------------------------------------------------------------------- goals

    def noise(self, steps: int) -> None:
        for _ in range(steps):
            api = self.rng.choices(list(NOISE), list(NOISE.values()))[0]
            getattr(self, "_noise_" + api)()

    def some(self) -> None:
        self.noise(self.rng.choices((0, 1, 2), (5, 4, 2))[0])

    def join(self, actor: int, when: str = "free", member: str = "self") -> None:
        version = self.version_for("JoinGroup", actor)
        says = {
            "member": member,
            "instance": "own",
            "session_ms": self.rng.choice((60000, 90000)),
            "rebalance_ms": self.rng.choice((120000, 300000)),
            "type": self.protocol_type,
            "protocols": self.lists[actor],
            "reason": self.rng.choice((None, "because")),
        }
        self.add(actor, "JoinGroup", version, when, **says)

    def grow(self) -> None:
        outside = [a for a in self.members() if a not in self.inside]
        if not outside:
            self.settle()
            return
        actor = self.rng.choice(outside)
        self.join(actor)
        if self.maybe(0.2):
            self.some()
        if actor not in self.has_id:
            self.join(actor, "preparing" if self.inside else "free")
        self.has_id.add(actor)
        self.inside.append(actor)
        self.some()
        self.gather()

    def gather(self) -> None:
        """Those who are in join again, then synchronise; or stop half way."""
        everyone = self.rng.sample(self.inside, len(self.inside))
        for actor in everyone:
            self.join(actor, "preparing")
            if self.maybe(0.3):
                self.some()
        if self.maybe(0.1):
            return
        self.some()
        for actor in self.rng.sample(everyone, len(everyone)):
            self.sync(actor)
            if self.maybe(0.3):
                self.some()

    def sync(self, actor: int, when: str = "completing") -> None:
        assign = self.rng.choices(("all", "partial", "extra", "none"), (12, 1, 1, 1))[0]
        self.add(
            actor,
            "SyncGroup",
            self.version_for("SyncGroup", actor),
            when,
            member="self",
            generation="own",
            instance="own",
            type="own",
            name="own",
            assign=assign,
        )

    def settle(self) -> None:
        if not self.inside:
            self.grow()
            return
        self.join(self.rng.choice(self.inside))
        self.some()
        self.gather()

    def rejoin(self) -> None:
        """A member joins again where nobody asked it to: with what it said before, or changed."""
        actor = self.anyone()
        if self.maybe(0.5):
            self.lists[actor] = self._protocols()
        self.join(actor)
        self.some()
        if self.inside and self.maybe(0.7):
            self.gather()

    def restart_static(self) -> None:
        static = [a.index for a in self.actors if a.instance_id and a.index in self.inside]
        if not static:
            self.grow()
            return
        actor = self.rng.choice(static)
        if self.maybe(0.3):
            self.lists[actor] = self._protocols()
        self.join(actor, self.rng.choice(("free", "free", "always")), member="none")
        if self.maybe(0.5):
            self._with_stale(actor)
        self.some()
        if self.maybe(0.6):
            self.gather()

    def _with_stale(self, actor: int) -> None:
        api = self.rng.choice(("Heartbeat", "SyncGroup", "OffsetCommit", "JoinGroup", "LeaveGroup"))
        getattr(self, "_noise_" + api)(actor, "stale")

    def leave_one(self) -> None:
        if not self.inside:
            self.grow()
            return
        actor = self.rng.choice(self.inside)
        self._leave(actor)
        self.some()
        if self.inside and self.maybe(0.7):
            self.gather()

    def _leave(self, actor: int) -> None:
        version = self.version_for("LeaveGroup", actor)
        self.add(actor, "LeaveGroup", version, members=[[actor, "self", "own"]], reason=None)
        self.inside.remove(actor)
        self.has_id.discard(actor)

    def leave_all(self) -> None:
        if self.inside and self.maybe(0.5):
            gone = [[actor, "self", "own"] for actor in self.inside]
            version = self.version("LeaveGroup", 3)
            self.add(self.anyone(), "LeaveGroup", version, members=gone, reason="all of us")
            self.inside.clear()
            self.has_id.clear()
        for actor in list(self.inside):
            self._leave(actor)
        self.janitor()
        self.some()
        if self.maybe(0.4):
            self.commit_as_nobody()

    def delete(self) -> None:
        self._noise_DeleteGroups()

    def janitor(self) -> None:
        """Whoever learnt more ids than one lets the others go."""
        gone = [[actor.index, "all stale", "none"] for actor in self.actors]
        self.add(0, "LeaveGroup", self.version("LeaveGroup", 3), members=gone, reason="tidy")

    def commit_as_nobody(self) -> None:
        actor = self.rng.randrange(len(self.actors))
        self._noise_OffsetCommit(actor, "none", "none")
        self.some()

    # --------------------------------------------------------------------------------- noise

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

    def _noise_JoinGroup(self, actor: int | None = None, member: str | None = None) -> None:
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
            says["group"] = "main"  # or the ghost would be a group
        if says["group"] == "ghost":
            says["member"] = "stranger"
        when = "always" if self.maybe(0.15) else "free"
        self.add(actor, "JoinGroup", self.version_for("JoinGroup", actor), when, **says)

    def _noise_SyncGroup(self, actor: int | None = None, member: str | None = None) -> None:
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

    def _noise_Heartbeat(self, actor: int | None = None, member: str | None = None) -> None:
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

    def _noise_LeaveGroup(self, actor: int | None = None, member: str | None = None) -> None:
        """Leaves that mostly do not succeed: the goals have the others."""
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

    def _noise_OffsetCommit(
        self, actor: int | None = None, member: str | None = None, generation: str | None = None
    ) -> None:
        actor = self.anyone() if actor is None else actor
        nobody = self.actors[actor].simple or self.maybe(0.12)
        group = self._group()
        generation = generation or ("none" if nobody else self._generation())
        if group != "main" and generation != "next":
            group = "main"  # or there would be such a group
        self.add(
            actor,
            "OffsetCommit",
            self.version_for("OffsetCommit", actor),
            group=group,
            member=member or ("none" if nobody else self._who()),
            generation=generation,
            instance="none" if nobody else self._instance(),
            retention_ms=self.rng.choice((-1, -1, 86400000)),
            topics=self._positions(),
        )

    def _positions(self) -> list[Any]:
        """[topic, [[partition, offset, leader epoch, metadata], ...]], a few to be refused."""
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

    def _noise_OffsetFetch(self) -> None:
        version = self.version("OffsetFetch")
        groups = ["main"]
        if version >= 8 and self.maybe(0.3):
            groups = self.rng.sample(["main", "ghost", "empty"], 2)
        elif self.maybe(0.06):
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

    def _noise_DescribeGroups(self) -> None:
        groups = self.rng.choices((["main"], ["main", "ghost"], ["empty"]), (12, 3, 1))[0]
        version = self.version("DescribeGroups")
        self.add(self.anyone(), "DescribeGroups", version, groups=groups, ops=self.maybe(0.3))

    def _noise_ListGroups(self) -> None:
        states = self.rng.sample(STATES, self.rng.randint(1, 3)) if self.maybe(0.5) else []
        types = self.rng.choices(
            ([], ["classic"], ["Classic", "share"], ["consumer"]), (6, 2, 1, 1)
        )[0]
        self.add(
            self.anyone(), "ListGroups", self.version("ListGroups"), states=states, types=types
        )

    def _noise_DeleteGroups(self) -> None:
        groups = self.rng.choices(
            (["main"], ["main", "ghost"], ["ghost"], ["empty"]), (12, 3, 1, 1)
        )[0]
        self.add(self.anyone(), "DeleteGroups", self.version("DeleteGroups"), groups=groups)

    def _noise_OffsetDelete(self) -> None:
        version = self.version("OffsetDelete")
        self.add(self.anyone(), "OffsetDelete", version, group=self._group(), topics=self._keys())

    def _noise_FindCoordinator(self) -> None:
        version = self.version("FindCoordinator")
        groups = self.rng.choices((["main"], ["main", "ghost"], ["empty"]), (8, 3, 1))[0]
        self.add(self.anyone(), "FindCoordinator", version, groups=groups)


def trace_of(seed: int) -> Trace:
    """The trace of a seed: always the same."""
    return _Script(seed).run()

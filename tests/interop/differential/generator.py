"""Creates traces from seeds. A trace leads a group through its states, with random requests in
between.

`trace_of(seed)` depends only on the seed. Therefore the generator can only guess who is a member of
the group. If the condition of a step (`Step.when`) shows that the guess is wrong, the step is
skipped when the trace runs.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.differential.noise import Noise
from tests.interop.differential.trace import Trace

LONGEST_STEPS = 60


class _Script(Noise):
    """Makes the random choices for one seed."""

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
            self.noise_JoinGroup(member="stranger")
        while len(self.steps) < LONGEST_STEPS - 15:
            self.rng.choices(list(goals), list(goals.values()))[0]()
            self.noise(self.rng.choice((0, 1, 1, 2, 4)))
        return Trace(self.seed, self.actors, tuple(self.steps[:LONGEST_STEPS]))

    # --------------------------------------------------------------------------------- goals

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
        """Lets all members join again and then sync. Sometimes ends before the members sync."""
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
        """Lets a member rejoin, either with unchanged metadata, which causes no rebalance, or with
        changed metadata."""
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
        getattr(self, "noise_" + api)(actor, "stale")

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
        self.noise_DeleteGroups()

    def janitor(self) -> None:
        """Sends one LeaveGroup for all member ids that clients no longer use."""
        gone = [[actor.index, "all stale", "none"] for actor in self.actors]
        self.add(0, "LeaveGroup", self.version("LeaveGroup", 3), members=gone, reason="tidy")

    def commit_as_nobody(self) -> None:
        actor = self.rng.randrange(len(self.actors))
        self.noise_OffsetCommit(actor, "none", "none")
        self.some()


def trace_of(seed: int) -> Trace:
    return _Script(seed).run()

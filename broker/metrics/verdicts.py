"""Judges each group regularly, and stores its last verdict.

Every group is judged every five seconds. If there are so many groups that this would use more than
two per cent of one core, they are judged less often. Between two judgements, readers get the stored
verdict. `Verdicts.judged` judges one group immediately. A restart of the broker loses the
remembered progress of the groups. So the first scans after a start use the timestamps of the
commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import NamedTuple

from broker.config.config import Config
from broker.cores.groups.runtime import GroupRuntime, HostedGroups
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer, Slices
from broker.metrics.group_facts import GroupLooks
from broker.metrics.lag import Lags, readable
from broker.metrics.lso_blockers import LsoBlockers
from broker.share.partitions import SharePartitions
from broker.time import Time
from coordinator.journal import Journal
from coordinator.read_only import GroupView
from verdicts.facts import DEAD, GroupFacts
from verdicts.judge import Judgement, judge
from verdicts.names import Verdict
from verdicts.thresholds import OLD_SETTINGS, SETTINGS, Thresholds

EVERY_S = 5.0
_IDLE_PER_BUSY = 50
"""The minimum pause after a computation of all verdicts, as a multiple of the time for which the
computation blocked the event loop."""
PARTITIONS_AT_ONCE = 500
"""The maximum number of partitions of a group whose verdict is computed in the event loop's thread.

The verdicts of larger groups are computed in another thread, and never by `Verdicts.of`.
"""


class Held(NamedTuple):
    """The last verdict of a group."""

    verdict: Verdict
    since_ms: int
    """The wall time in ms at which this verdict began: the start time in the finding of the verdict
    or, if the finding has none, the time at which the broker first computed the verdict."""
    sentence: str
    reads_nothing_since_ms: int | None = None
    """The wall time since which unread records exist and no member has read a record; None if a
    member reads records."""


class Verdicts:
    """Judges the groups of one broker, from `start` until `stop`. Only the event loop's thread may
    use this class."""

    def __init__(
        self,
        config: Config,
        groups: GroupRuntime,
        lags: Lags,
        journal: Journal,
        lso_blockers: LsoBlockers,
        share_partitions: SharePartitions,
        seen: Callable[[GroupFacts], None],
        slicer: Slicer,
        internal_errors: InternalErrors,
        time: Time,
        background: Background,
    ) -> None:
        self._config = config
        self._groups = groups
        self._slicer = slicer
        self._internal_errors = internal_errors
        self._time = time
        self._background = background
        self.looks = GroupLooks(lags, journal, lso_blockers, share_partitions)
        self._lso_blockers = lso_blockers
        self._seen = seen
        """A function that is called with the facts about each judged group."""
        self._held: dict[str, Held] = {}
        """The last verdict of each group."""
        self._pause_s = 0.0
        """The pause in seconds before the next round, in which all groups are judged; 0 before the
        first round."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._background.every(
            "verdicts", lambda: self._pause_s, self._round, self._failed
        )

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _round(self) -> None:
        self._pause_s = EVERY_S
        self._pause_s = max(EVERY_S, _IDLE_PER_BUSY * await self.judge_all())

    def _failed(self, error: Exception) -> None:
        self._internal_errors.caught("observer", error)

    # -- judging

    async def judge_all(self) -> float:
        """Judges every group. Returns the time in seconds for which the slices blocked the event
        loop."""
        slices = self._slicer.work("verdicts")
        await slices.through(self._lso_blockers.refresh())
        thresholds = self.thresholds()
        seen: set[str] = set()
        for hosted in readable(self._groups):
            for group in list(hosted.core.view.groups.values()):
                await self._judged(hosted, group, slices, thresholds)
                seen.add(group.group_id)
                if slices.over:
                    await slices.pause()
        for group_id in [each for each in self._held if each not in seen]:
            del self._held[group_id]
            self.looks.progress.forget(group_id)
            self.looks.share.forget(group_id)
        self.looks.arrivals.forget_unused()
        return slices.end()

    async def judged(self, hosted: HostedGroups, group: GroupView, slices: Slices) -> Judgement:
        """Judges one group at once, and returns the judgement."""
        return await self._judged(hosted, group, slices, self.thresholds())

    async def _judged(
        self, hosted: HostedGroups, group: GroupView, slices: Slices, thresholds: Thresholds
    ) -> Judgement:
        steps = self.looks.facts(hosted, group, thresholds.lagging_ms)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                facts: GroupFacts = end.value
                break
            if slices.over:
                await slices.pause()
        self._seen(facts)
        now_ms = self._time.now().wall_ms
        if len(facts.partitions) <= PARTITIONS_AT_ONCE:
            judgement = judge(facts, thresholds, now_ms)
        else:
            work = self._time.in_thread(_judged_whole, facts, thresholds, now_ms)
            judgement = await slices.beside(work)
        self._hold(judgement, now_ms)
        return judgement

    def judged_without_group(self, group_id: str) -> Judgement:
        """Returns the judgement of a group that does not exist. Clients may have tried to join it,
        and failed."""
        facts = GroupFacts(group_id, DEAD, refused=self.looks.refused(group_id))
        return judge(facts, self.thresholds(), self._time.now().wall_ms)

    def thresholds(self) -> Thresholds:
        """Returns the thresholds of the rules, from the current settings."""
        return Thresholds.of({name: self._config[name] for name in (*SETTINGS, *OLD_SETTINGS)})

    def _hold(self, judgement: Judgement, now_ms: int) -> Held:
        group_id = judgement.facts.group
        before = self._held.get(group_id)
        worst = judgement.worst
        since_ms = now_ms if worst.since_ms is None else worst.since_ms
        if before is not None and before.verdict is worst.verdict:
            since_ms = before.since_ms
        held = self._held[group_id] = Held(
            worst.verdict,
            min(since_ms, now_ms),
            worst.sentence,
            judgement.facts.reads_nothing_since_ms,
        )
        return held

    # -- queries

    def of(self, hosted: HostedGroups, group: GroupView) -> Held:
        """Returns the last verdict of a group.

        A group without a verdict is judged immediately, if it has at most PARTITIONS_AT_ONCE
        partitions. The result for a larger group without a verdict says that the group has not been
        checked.
        """
        held = self._held.get(group.group_id)
        if held is not None:
            return held
        now_ms = self._time.now().wall_ms
        if hosted.core.view.offsets.has_more_than(group.group_id, PARTITIONS_AT_ONCE):
            return Held(Verdict.OK, now_ms, "the group has not been checked yet")
        thresholds = self.thresholds()
        facts = _at_once(self.looks.facts(hosted, group, thresholds.lagging_ms))
        return self._hold(judge(facts, thresholds, now_ms), now_ms)


def _at_once(steps: Generator[int, None, GroupFacts]) -> GroupFacts:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            facts: GroupFacts = end.value
            return facts


def _judged_whole(facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> Judgement:
    """Judges a group. Computes the lazy parts of the judgement too, so that they are not computed
    in the event loop's thread."""
    judgement = judge(facts, thresholds, now_ms)
    judgement.worst  # noqa: B018 - computed here
    judgement.of_partition("", 0)
    return judgement

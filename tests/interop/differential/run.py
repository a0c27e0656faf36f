"""Runs a trace on several brokers at once, and compares their responses step by step.

One broker is the *subject*. The other brokers are Apache Kafkas and are called *references*. The
subject's response to a step must equal that of a reference that serves the same version of the
request. A reference that does not serve this version gets the nearest version, so that its group
reaches the same state. Its response is not compared. A reference with an allowed difference is
removed from the rest of the trace if its group may be in another state.

To detect parked requests, each broker must describe the group after each step. A coordinator
answers the description after it has handled the step. A request that is then unanswered on all
brokers is parked. If only some brokers have answered, the run waits until they agree.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.interop.differential import rules
from tests.interop.differential.coverage import Coverage
from tests.interop.differential.knowledge import Knowledge
from tests.interop.differential.normal import difference, errors, normal
from tests.interop.differential.side import Side, Ticket, known_view
from tests.interop.differential.trace import CHANGING, PARKABLE, Step, Trace
from tests.interop.differential.wire import Target

AGREE_WITHIN_S = 5.0
"""The maximum time in seconds that a run waits until all brokers have answered the request, or all
have parked it. A difference that still exists then is reported, unless it is allowed."""
JUDGED_AFTER_S = 0.4
"""The time in seconds after which a run stops waiting for brokers that answer or park differently,
if at least one Kafka broker agrees with the broker under test, or if all differences are allowed.
Otherwise a run waits for AGREE_WITHIN_S."""


VIEWS = frozenset({"DescribeGroups"})
"""The APIs whose responses are always compared, even if two brokers got the request in different
versions."""


@dataclass
class Outcome:
    """The result of a trace: its steps as text, and the differences in the last step."""

    trace: Trace
    differences: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    done: list[Step] = field(default_factory=list)
    ended: str = "whole"


class Run:
    """One execution of a trace on the brokers ``targets``. ``subject`` is the first of them."""

    def __init__(
        self,
        trace: Trace,
        targets: list[Target],
        group: str,
        coverage: Coverage,
        legal: Counter[str],
    ) -> None:
        self.trace = trace
        self.targets = targets
        self.group = group
        self.coverage = coverage
        self.legal = legal
        self.sides: list[Side] = []
        self.outcome = Outcome(trace)
        self.parked: set[int] = set()
        self.current: Ticket | None = None
        """The ticket of the current request at the broker under test, while the responses of all
        brokers to this request are compared. The broker under test gets each request first."""

    @property
    def subject(self) -> Side:
        return self.sides[0]

    async def run(self) -> Outcome:
        """Runs the trace to its end, or to the first step with a difference."""
        opened: list[Side] = []
        try:
            for target in self.targets:
                control = await target.open("differential")
                opened.append(
                    Side(target, Knowledge(self.trace, self.group, target.topic_ids), control)
                )
            self.sides = list(opened)
            await self._settle(-1, frozenset())
            for number, step in enumerate(self.trace.steps):
                await self._step(number, step)
                if self.outcome.differences:
                    break
                if len(self.sides) == 1:
                    self.outcome.ended = f"at step {number}: no reference left"
                    break
        finally:
            for side in opened:
                side.close()
        self.coverage.traces += 1
        return self.outcome

    def _stopped(self, step: Step) -> bool:
        if step.when == "always":
            return False
        if any(t.step.actor == step.actor for t in self.subject.open.values()):
            return True
        state = self.subject.glimpse["group_state"]
        wanted = {"preparing": "PreparingRebalance", "completing": "CompletingRebalance"}
        return step.when in wanted and state != wanted[step.when]

    async def _step(self, number: int, step: Step) -> None:
        if self._stopped(step):
            self.coverage.skipped += 1
            return
        self.outcome.done.append(step)
        state = self.subject.glimpse["group_state"]
        for side in self.sides:
            await side.ask(number, step, state)
        displaced = self._displaced(number)
        await self._settle(number, displaced)
        self.outcome.story.append(f"[{state}] {step}")
        await self._compare(number, displaced)

    def _displaced(self, number: int) -> frozenset[int]:
        """Returns parked requests that Muster answers when request ``number`` arrives, and that
        Kafka may never answer.

        A LeaveGroup displaces the SyncGroup of the member that leaves. A JoinGroup or SyncGroup
        displaces an older request of the same API and the same member.
        """
        new = self.subject.open[number]
        if new.step.api == "LeaveGroup":
            gone = {
                new.sent.get("member_id"),
                *(m["member_id"] for m in new.sent.get("members", ())),
            }
            about = [t for t in self.subject.open.values() if t.step.api == "SyncGroup"]
            static = {m["group_instance_id"] for m in new.sent.get("members", ())} - {None}
            return frozenset(
                t.number
                for t in about
                if t.sent["member_id"] in gone or t.sent.get("group_instance_id") in static
            )
        if new.step.api not in PARKABLE or not new.sent["member_id"]:
            return frozenset()
        return frozenset(
            other.number
            for other in self.subject.open.values()
            if other.number != number
            and other.step.api == new.step.api
            and other.sent["member_id"] == new.sent["member_id"]
        )

    def _forget_displaced(self, displaced: frozenset[int]) -> None:
        """Stops waiting for the requests ``displaced`` if Muster has answered them but one of the
        brokers has not. ``displaced`` has the numbers of parked requests that Kafka may never
        answer (see `_displaced`)."""
        for number in displaced:
            mine = self.subject.open[number].future.done()
            if mine and not all(side.open[number].future.done() for side in self.sides):
                self.legal[rules.ANSWERED.text] += 1
                for side in self.sides:
                    del side.open[number]

    async def _settle(self, number: int, displaced: frozenset[int]) -> None:
        """Requests the description of the group repeatedly, until the brokers agree or the time
        limit is reached."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await asyncio.gather(*(side.settle(number) for side in self.sides))
            apart = [
                s for s in self.sides[1:] if self._shown(s, displaced) != self._mine(displaced)
            ]
            if not apart:
                return
            judged = len(apart) < len(self.sides) - 1 or all(
                self._why_apart(number, side) for side in apart
            )
            if loop.time() - began > (JUDGED_AFTER_S if judged else AGREE_WITHIN_S):
                return
            await asyncio.sleep(0.01)

    def _shown(self, side: Side, displaced: frozenset[int]) -> tuple[Any, ...]:
        return (side.answered() - displaced, *known_view(side))

    def _mine(self, displaced: frozenset[int]) -> tuple[Any, ...]:
        return self._shown(self.subject, displaced)

    def _why_apart(self, number: int, side: Side) -> rules.Reason | None:
        ticket = self.subject.open.get(number) or self.current
        if ticket is None:
            return None
        views = known_view(self.subject), known_view(side)
        return rules.of_group(
            ticket.step, ticket.sent, ticket.state, *views, self.subject.knowledge
        )

    async def _compare(self, number: int, displaced: frozenset[int]) -> None:
        subject = self.subject
        self.current = subject.open[number]
        self._forget_displaced(displaced)
        answered = subject.answered()
        await self._part(
            number,
            "parked or answered otherwise",
            [s for s in self.sides[1:] if s.answered() != answered],
            lambda side: f"{sorted(side.answered())} are answered",
        )
        if self.outcome.differences:
            return
        tickets = {n: [(side, side.open.pop(n)) for side in self.sides] for n in sorted(answered)}
        for index, side in enumerate(self.sides):
            joins = []
            for pairs in tickets.values():
                ticket = pairs[index][1]
                answer = ticket.future.result()
                if "closed" in answer:
                    continue
                side.knowledge.learn(ticket.step, ticket.sent, answer)
                if ticket.step.api == "JoinGroup" and not answer["error_code"]:
                    joins.append(answer)
            side.knowledge.learn_generation(joins)
        for pairs in tickets.values():
            await self._compare_answers([(s, t) for s, t in pairs if s in self.sides])
            if self.outcome.differences:
                return
        self.parked = set(subject.open)
        mine = known_view(subject)
        await self._part(
            number,
            "another group",
            [s for s in self.sides[1:] if known_view(s) != mine],
            lambda side: str(known_view(side)),
        )

    async def _compare_answers(self, pairs: list[tuple[Side, Ticket]]) -> None:
        subject, ticket = pairs[0]
        step = ticket.step
        assert self.current is not None
        during = self.current.step
        answers = [(side, normal(step, t.future.result(), side.knowledge)) for side, t in pairs]
        mine = answers[0][1]
        if ticket.number in self.parked:
            self.coverage.parked += 1
        self.outcome.story.append(f"    {subject.target.name}: {mine}")
        judges = [
            (s, a)
            for s, a in answers[1:]
            if s.target.serves(step.api, step.version) or (step.api in VIEWS and a == mine)
        ]
        if not subject.target.serves(step.api, step.version):
            judges = []
        others = [(s, a) for s, a in judges if a != mine]
        if judges:
            self.coverage.add(step, ticket.sent, ticket.state, errors(mine))
        self.outcome.story += [f"    {side.target.name}: {answer}" for side, answer in others]
        if len(others) < len(judges):
            for side, answer in others:
                reason = rules.of_answer(step, mine, answer, subject.knowledge, during)
                what = f"{step.api} in {ticket.state}: {side.target.name} alone"
                self.legal[f"{what}: {reason.text if reason else difference(mine, answer)}"] += 1
                if step.api in CHANGING:
                    self.sides.remove(side)
            return
        for side, answer in others:
            reason = rules.of_answer(step, mine, answer, subject.knowledge, during)
            if reason:
                await self._excuse(side, reason)
            else:
                self.outcome.differences.append(
                    f"{step} in {ticket.state}: {subject.target.name} differs from "
                    f"{side.target.name}: {difference(mine, answer)}"
                )

    async def _excuse(self, side: Side, reason: rules.Reason) -> None:
        """Counts a difference between a broker and the reference that ``reason`` allows. If
        ``reason`` requires it, then deletes the group at the reference, or continues the trace
        without the reference."""
        self.legal[reason.text] += 1
        if reason.then == "part":
            self.sides.remove(side)
        elif reason.then == "delete":
            await side.control.send("DeleteGroups", 1, {"groups_names": [self.group]})
            asked = {"groups": [self.group]}
            [side.glimpse] = (await side.control.send("DescribeGroups", 4, asked))["groups"]

    async def _has_offsets(self, side: Side) -> bool:
        """Returns True if the reference broker ``side`` has committed offsets of the group."""
        asked = {"group_id": self.group, "topics": None}
        return bool((await side.control.send("OffsetFetch", 5, asked))["topics"])

    async def _part(self, number: int, what: str, others: list[Side], show: Any) -> None:
        """Handles the reference brokers ``others``, whose results differ from the result of the
        broker under test. Accepts a difference if its reason is allowed, or if one of the remaining
        reference brokers has the same result as the broker under test. Records all other
        differences."""
        excused = len(others) < len(self.sides) - 1
        step = self.trace.steps[number]
        for side in others:
            reason = self._why_apart(number, side)
            shown = f"{what} after {step.api} v{step.version}: {side.target.name}: {show(side)}"
            if reason and not (reason.then == "delete" and await self._has_offsets(side)):
                await self._excuse(side, reason)
            elif excused:
                self.legal[f"{shown}, not {show(self.subject)}"] += 1
                self.sides.remove(side)
            else:
                self.outcome.differences.append(
                    f"{shown}, but {self.subject.target.name}: {show(self.subject)}"
                )

"""Runs many traces on the same brokers, and compares each response and each state of a
transactional id."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import NONE
from tests.interop.differential.normal import difference
from tests.interop.differential.wire import Target
from tests.interop.transaction_traces.normal import codes, normal, of_trace
from tests.interop.transaction_traces.rules import NEVER_COMPLETE, Reason, reason_of
from tests.interop.transaction_traces.side import UNSETTLED, Side
from tests.interop.transaction_traces.trace import (
    AWAIT_ABORT,
    PARTITIONS,
    TV1,
    TV2,
    Step,
    common_ranges,
    trace_of,
)

TOGETHER = 8
"""The number of traces that run concurrently. Each trace has its own transactional ids, topics and
group."""
PREPARED_AT_ONCE = 40
"""The number of traces whose topics are created at the same time."""
ENOUGH = 20
"""The number of comparisons that a run of the campaign must make for each version of each API."""
COLUMNS = ("Dead", "Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
"""The states that DescribeTransactions returns. "Dead" means that the id is unknown. PrepareCommit
and PrepareAbort are omitted, because a step waits until the markers are written."""
_STATE_ROWS = {
    TV1: (
        "InitProducerId none",
        "InitProducerId own",
        "AddPartitionsToTxn own",
        "AddPartitionsToTxn before",
        "AddOffsetsToTxn own",
        "TxnOffsetCommit own",
        "Produce own",
        "EndTxn TV1 commit own",
        "EndTxn TV1 abort own",
        "EndTxn TV1 commit before",
        "EndTxn TV1 abort before",
    ),
}
_STATE_ROWS[TV2] = (
    *_STATE_ROWS[TV1],
    "EndTxn TV2 commit own",
    "EndTxn TV2 abort own",
    "EndTxn TV2 commit before",
    "EndTxn TV2 abort before",
)


@dataclass
class Failure:
    """A trace in which the responses of the compared brokers differ."""

    seed: int
    story: list[str]
    difference: str

    def __str__(self) -> str:
        lines = [f"SEED={self.seed}:", *self.story, self.difference]
        return "\n  ".join(lines)


@dataclass
class Campaign:
    """Runs traces with consecutive seeds from ``first_seed`` on, until ``steps`` responses have
    been compared."""

    targets: list[Target]
    """The broker under test, and then the brokers with which it is compared."""
    rules: str
    first_seed: int
    steps: int
    seeds: int = 1 << 30
    whole: bool = False
    """True if the campaign may continue after ``steps`` steps until its coverage is complete. It
    then executes at most ``steps`` / 2 additional steps."""
    stop_after: int = 6
    compared: Counter[tuple[str, int]] = field(default_factory=Counter)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, int]] = field(default_factory=Counter)
    legal: Counter[str] = field(default_factory=Counter)
    failed: list[Failure] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A client holds this lock during a request that Kafka's coordinator might answer together with
    requests of other clients. Kafka would use the error codes of one client's request version for
    all of these requests."""

    async def run(self) -> None:
        """Runs the traces. Stores those with differences in ``failed``."""
        last = self.first_seed + self.seeds
        for first in range(self.first_seed, last, PREPARED_AT_ONCE):
            if self._over:
                return
            seeds = range(first, min(first + PREPARED_AT_ONCE, last))
            topics = {f"d{s}-{t}": n for s in seeds for t, n in PARTITIONS.items()}
            await asyncio.gather(*(_prepare(target, topics) for target in self.targets))
            self.ranges = common_ranges([target.ranges for target in self.targets])
            todo = iter(seeds)
            await asyncio.gather(*(self._worker(todo) for _ in range(TOGETHER)))

    @property
    def _over(self) -> bool:
        compared = self.compared.total()
        if len(self.failed) >= self.stop_after or compared >= 3 * self.steps // 2:
            return True
        return compared >= self.steps and not (self.whole and self.missing())

    async def _worker(self, seeds: Iterator[int]) -> None:
        for seed in seeds:
            if self._over:
                return
            wires = [await target.open(f"d{seed}") for target in self.targets]
            sides = [
                Side(target, f"d{seed}", wire)
                for target, wire in zip(self.targets, wires, strict=True)
            ]
            try:
                await self._trace(seed, sides)
            finally:
                for wire in wires:
                    wire.close()

    async def _trace(self, seed: int, sides: list[Side]) -> None:
        story: list[str] = []
        for step in trace_of(seed, self.rules, self.ranges):
            before = await sides[0].state(step.actor)
            async with self.alone if step.api in ("Produce", "TxnOffsetCommit") else _nobody():
                answers = await asyncio.gather(*(self._answer(side, step) for side in sides))
            story.append(f"{step}   [{before}] {codes(answers[0][0])}")
            verdict = self._compare(step, before, answers, sides)
            if isinstance(verdict, Reason) and verdict.nothing_appended:
                ends = [await side.end_offset(step.says["partition"]) for side in sides]
                verdict = verdict if len(set(ends)) == 1 else f"{verdict.text}, to {ends}"
            if isinstance(verdict, str):
                self.failed.append(Failure(seed, story, verdict))
            if verdict is not None:
                return

    async def _answer(self, side: Side, step: Step) -> tuple[dict[str, Any], str]:
        """Returns the normalized response to a step, and the state of the transactional id
        afterwards."""
        answer = of_trace(side, step.api, await side.ask(step))
        return normal(side, answer), await side.settle(step.actor)

    def _compare(
        self,
        step: Step,
        before: str,
        answers: list[tuple[dict[str, Any], str]],
        sides: list[Side],
    ) -> str | Reason | None:
        """Compares the brokers' responses to one step. Returns None if the trace continues: the
        responses are equal, or an allowed difference does not matter. Returns a Reason if an
        allowed difference ends the trace, and a text for a difference that is not allowed."""
        mine, state = answers[0]
        for (other, other_state), side in zip(answers[1:], sides[1:], strict=True):
            if mine != other:
                reason = reason_of(step, before, mine, other)
                if reason is None:
                    return f"{side.target.name}: {difference(mine, other)}"
                self.legal[reason.text] += 1
                if not reason.goes_on:
                    return reason
            if state in COLUMNS and other_state in UNSETTLED:
                self.legal[NEVER_COMPLETE.text] += 1
                return NEVER_COMPLETE
            if state != other_state and "last" not in step.says:  # a sweep may happen at any time
                return f"{side.target.name}: the id is {state} against {other_state}"
        if step.api != AWAIT_ABORT:
            self.compared[step.api, step.version] += 1
            self.cells[row_of(step), before] += 1
            for code in codes(mine):
                self.errors[step.api, code] += 1
        return None

    def missing(self) -> list[str]:
        lines = [
            f"{api} v{version} was compared {self.compared[api, version]} times, not {ENOUGH}"
            for api, (first, last) in self.ranges.items()
            for version in range(first, self._last(api, last) + 1)
            if self.compared[api, version] < ENOUGH
        ]
        rows = _STATE_ROWS[self.rules]
        lines += [
            f"no {row} while {state}"
            for row in rows
            for state in COLUMNS
            if not self.cells[row, state]
        ]
        return lines

    def _last(self, api: str, last: int) -> int:
        last_of_tv1 = {"EndTxn": 4, "TxnOffsetCommit": 4, "Produce": 11}
        return min(last, last_of_tv1.get(api, last)) if self.rules == TV1 else last

    def report(self) -> str:
        errors: dict[str, list[str]] = {}
        for (api, code), count in sorted(self.errors.items()):
            errors.setdefault(api, []).append(f"{code}: {count}")
        lines = [f"{self.compared.total()} answers compared, by {self.rules}"]
        lines += [f"  {api:22} {', '.join(counts)}" for api, counts in errors.items()]
        lines += [f"  {count} times: {reason}" for reason, count in self.legal.items()]
        return "\n".join(lines)


@asynccontextmanager
async def _nobody() -> AsyncIterator[None]:
    yield


async def _prepare(target: Target, topics: dict[str, int]) -> None:
    """Creates topics. Waits until the partitions and the transaction coordinator can serve
    requests."""
    await target.prepare(topics)
    wire = await target.open("differential")
    places = [
        {"name": name, "partitions": [{"partition_index": i, "timestamp": -1} for i in range(n)]}
        for name, n in topics.items()
    ]
    asked = [
        ("FindCoordinator", 1, {"key": "x", "key_type": 1}),
        ("ListOffsets", 2, {"replica_id": -1, "isolation_level": 0, "topics": places}),
    ]
    async with asyncio.timeout(60):
        for request in asked:
            while codes(await wire.send(*request)) != [NONE]:
                await asyncio.sleep(0.05)
    wire.close()


def row_of(step: Step) -> str:
    """Returns the row of the coverage table to which a step belongs."""
    who = step.says.get("who", "")
    if step.api == "EndTxn":
        rules = TV2 if step.version >= 5 else TV1
        end = "commit" if step.says["committed"] else "abort"
        return f"EndTxn {rules} {end} {who}"
    return f"{step.api} {who}".strip()

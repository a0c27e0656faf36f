"""Runs many traces on the same brokers, and shortens the traces that fail."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.interop.differential.coverage import Coverage
from tests.interop.differential.generator import trace_of
from tests.interop.differential.run import Outcome, Run
from tests.interop.differential.trace import TOPICS, Trace
from tests.interop.differential.wire import Target

TOGETHER = 6
"""The number of traces that run concurrently. Each trace has its own group."""
SHRINK_FOR_S = 30.0


@dataclass
class Campaign:
    """Runs traces with consecutive seeds from ``first_seed`` on, until ``steps`` responses have
    been compared."""

    targets: list[Target]
    first_seed: int
    steps: int
    seeds: int = 1 << 30
    stop_after: int = 3
    """After this number of failing traces, no further trace starts."""
    coverage: Coverage = field(default_factory=Coverage)
    legal: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    async def run(self) -> None:
        """Runs the traces. Stores the failing traces, shortened, in ``failed``."""
        for target in self.targets:
            await target.prepare(TOPICS)
        seeds = iter(range(self.first_seed, self.first_seed + self.seeds))
        await asyncio.gather(*(self._worker(seeds) for _ in range(TOGETHER)))
        self.failed = [await self._shrunk(each) for each in self.failed[: self.stop_after]]

    async def _worker(self, seeds: Iterator[int]) -> None:
        for seed in seeds:
            if self.coverage.steps >= self.steps or len(self.failed) >= self.stop_after:
                return
            outcome = await self._run(trace_of(seed), self.coverage, self.legal)
            self.ends[outcome.ended.partition(":")[2] or outcome.ended] += 1
            if outcome.differences:
                self.failed.append(outcome)

    async def _run(self, trace: Trace, coverage: Coverage, legal: Counter[str]) -> Outcome:
        group = f"g{trace.seed}-{uuid.uuid4().hex[:6]}"
        return await Run(trace, self.targets, group, coverage, legal).run()

    async def _shrunk(self, failed: Outcome) -> Outcome:
        """Returns a failing trace with fewer steps. Removes chunks of steps while the trace still
        fails."""
        ends = time.monotonic() + SHRINK_FOR_S
        best = failed
        size = max(1, len(best.done) // 2)
        while size and time.monotonic() < ends:
            begin = 0
            while begin < len(best.done) - 1 and time.monotonic() < ends:
                kept = best.done[:begin] + best.done[begin + size :]
                again = await self._run(failed.trace.with_steps(kept), Coverage(), Counter())
                if again.differences:
                    best = again
                else:
                    begin += size
            size //= 2
        return best

    def differences(self) -> str:
        """Returns the failing traces as text, each with its seed."""
        lines = []
        for each in self.failed:
            lines += ["", f"SEED={each.trace.seed} differs (shrunk to {len(each.done)} steps):"]
            lines += [f"  {line}" for line in each.story]
            lines += [f"  {line}" for line in each.differences]
        return "\n".join(lines)

    def report(self) -> str:
        lines = [self.coverage.summary(), "", "where the two Kafkas differ, or a reason is known:"]
        lines += [f"  {count:5} {what}" for what, count in self.legal.most_common(40)]
        lines += ["", f"how traces ended: {dict(self.ends)}"]
        return "\n".join(lines)

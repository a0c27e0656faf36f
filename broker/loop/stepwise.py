"""Runs the steps of work that is usually short: immediately, or in slices if it takes longer."""

from __future__ import annotations

from collections.abc import Iterator

from broker.loop.background import Background
from broker.loop.slices import Slicer


def run_stepwise(slicer: Slicer, background: Background, name: str, steps: Iterator[None]) -> None:
    """Runs immediately what the time of the turn permits, and the remaining steps in slices.
    ``name`` is the name of the slices in the watchdog."""
    ticks_ns, until_ns = slicer.time.ticks_ns, slicer.direct_until_ns()
    while ticks_ns() < until_ns:
        try:
            next(steps)
        except StopIteration:
            return
    background.spawn(_run_later(slicer, name, steps), name)


async def _run_later(slicer: Slicer, name: str, steps: Iterator[None]) -> None:
    slices = slicer.work(name)
    await slices.pause()
    await slices.through(steps)
    slices.end()

"""The verbs of the broker's life: reset, stop, kill, start, and its last lines."""

from __future__ import annotations

from broker.tested.arguments import POSITIVE, Argument
from broker.tested.tested_broker import TestedBroker
from broker.tested.verbs.verb import Answer, Verb


async def reset(tested: TestedBroker) -> Answer:
    """An empty broker."""
    return {"took_ms": await tested.reset()}


async def lines(tested: TestedBroker, limit: int) -> Answer:
    """What the broker wrote last on standard error."""
    kept = list(tested.lines.last)
    shown = kept[-limit:]
    return {"lines": shown, "dropped": tested.lines.count - len(shown)}


VERBS = (
    Verb("POST", "/reset", "an empty broker at the same addresses, no faults, real time", reset),
    Verb(
        "GET",
        "/lines",
        "the last lines of the broker's log",
        lines,
        (Argument("limit", POSITIVE, "at most so many", default=200),),
    ),
)

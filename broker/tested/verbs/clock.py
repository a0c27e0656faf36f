"""The verbs of time."""

from __future__ import annotations

from broker.tested.tested_broker import TestedBroker
from broker.tested.verbs.verb import Answer, Verb


async def look(tested: TestedBroker) -> Answer:
    """Where both clocks stand."""
    now = tested.time.now()
    return {"mono_ms": now.mono_ms, "wall_ms": now.wall_ms, "is_frozen": False, "ahead_ms": 0}


VERBS = (Verb("GET", "/time", "both clocks of the broker", look),)

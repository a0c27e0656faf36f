"""The verbs for the broker's process: reset, stop, kill and start. One more verb returns the last
log lines."""

from __future__ import annotations

from typing import Protocol

from broker.test_mode.arguments import POSITIVE, Argument
from broker.test_mode.lines import KeptLines
from broker.test_mode.refusals import NotNow
from broker.test_mode.tested_broker import CANNOT_START, TestedBroker
from broker.test_mode.verbs.verb import Answer, Verb


async def reset(tested: TestedBroker) -> Answer:
    """Replaces the broker by a new broker without data."""
    try:
        return {"took_ms": round(await tested.reset(), 3)}
    except (*CANNOT_START, OSError) as error:
        raise NotNow(f"POST /test/reset: {error}") from None


async def stop(tested: TestedBroker) -> Answer:
    await tested.stop()
    return {"is_running": tested.is_running}


async def kill(tested: TestedBroker) -> Answer:
    await tested.kill()
    return {"is_running": tested.is_running}


async def start(tested: TestedBroker) -> Answer:
    try:
        await tested.start()
    except (*CANNOT_START, OSError) as error:
        raise NotNow(f"POST /test/start: {error}") from None
    return {"is_running": tested.is_running}


class Logged(Protocol):
    """A tested broker or a tested cluster, for verbs that read its log lines."""

    @property
    def lines(self) -> KeptLines: ...


async def lines(tested: Logged, limit: int) -> Answer:
    kept = list(tested.lines.last)
    shown = kept[-limit:]
    return {"lines": shown, "dropped": tested.lines.count - len(shown)}


LINES = Verb(
    "GET",
    "/lines",
    "returns the last lines of the broker's log",
    lines,
    (Argument("limit", POSITIVE, "the maximum number of log lines", default=200),),
)

VERBS = (
    Verb(
        "POST",
        "/reset",
        "empties the broker, ends all faults and returns to real time; the addresses stay the same",
        reset,
    ),
    Verb("POST", "/stop", "stops the broker as SIGTERM does; its port refuses connections", stop),
    Verb("POST", "/kill", "kills the broker as SIGKILL does, without a flush", kill),
    Verb("POST", "/start", "starts a stopped broker with its data", start),
    LINES,
)

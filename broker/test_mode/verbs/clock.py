"""The verbs that read and change the clocks. While the clocks advance, the broker handles no client
requests: all timers fire before the next request is handled."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Protocol

from broker.test_mode.arguments import COUNT, WHOLE, Argument
from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.refusals import WrongArgument
from broker.test_mode.verbs.verb import Answer, Verb
from broker.time import Time


class Clocked(Protocol):
    """A tested broker, or a tested cluster whose brokers share one clock."""

    @property
    def time(self) -> MockTime: ...

    @property
    def system(self) -> Time: ...

    @property
    def is_loading(self) -> bool:
        """True while groups or transactional ids are being loaded."""

    def holding_clients(self) -> AbstractContextManager[None]:
        """Returns a context in which arriving requests of clients are delayed."""


async def look(tested: Clocked) -> Answer:
    time = tested.time
    now = time.now()
    return {
        "mono_ms": now.mono_ms,
        "wall_ms": now.wall_ms,
        "is_frozen": time.is_frozen,
        "ahead_ms": time.ahead_ms,
    }


LOADED_WITHIN_S = 2.0
"""The maximum number of seconds to wait until groups and transactional ids are loaded."""


async def _loaded(tested: Clocked) -> None:
    """Waits until groups and transactional ids are loaded, since loading sets deadlines that depend
    on the clock."""
    with suppress(TimeoutError):
        async with tested.system.within(LOADED_WITHIN_S):
            while tested.is_loading:
                await tested.system.sleep(0.001)


async def advance(tested: Clocked, ms: int) -> Answer:
    """Advances the monotonic clock and the wall clock by ``ms``, and runs the timers whose
    deadlines are reached."""
    await _loaded(tested)
    try:
        with tested.holding_clients():
            fired = await tested.time.advance(ms)
    except ValueError as error:
        raise WrongArgument(f"POST /test/time/advance: {error}") from None
    return {**await look(tested), "fired": fired}


async def freeze(tested: Clocked) -> Answer:
    tested.time.freeze()
    return await look(tested)


async def run(tested: Clocked) -> Answer:
    tested.time.run()
    return await look(tested)


async def set_wall(tested: Clocked, wall_ms: int) -> Answer:
    """Sets the wall clock. A later time than the present one also advances the monotonic clock."""
    await _loaded(tested)
    try:
        with tested.holding_clients():
            fired = await tested.time.set_wall(wall_ms)
    except ValueError as error:
        raise WrongArgument(f"POST /test/time/set: {error}") from None
    return {**await look(tested), "fired": fired}


VERBS = (
    Verb(
        "GET",
        "/time",
        "returns both clocks of the broker, and how far they are ahead of real time",
        look,
    ),
    Verb(
        "POST",
        "/time/advance",
        "advances both clocks; returns when all timers that expired have run",
        advance,
        (Argument("ms", COUNT, "milliseconds to advance, up to ten years", required=True),),
    ),
    Verb("POST", "/time/freeze", "freezes both clocks; only other /time verbs move them", freeze),
    Verb("POST", "/time/run", "lets both clocks run from their current time", run),
    Verb(
        "POST",
        "/time/set",
        "sets the wall clock; a later time advances both clocks, an earlier time sets back only the"
        " wall clock",
        set_wall,
        (Argument("wall_ms", WHOLE, "the new time, in milliseconds since 1970", required=True),),
    ),
)

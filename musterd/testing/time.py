"""The broker's time, in the test's hand: moved, stopped, or led by the test's own clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from musterd.testing import clock
from musterd.testing.errors import MusterError
from musterd.testing.http import Gone
from musterd.testing.lasting import Lasting
from musterd.testing.views import utc

Json = dict[str, Any]
Ask = Callable[..., Json]

_LOOKS_EACH_S = 0.01
_TOLERATED_MS = 50
"""How far two running clocks may be apart: a request takes some of it."""


class BrokerTime:
    """The broker's clocks, both of them: the wall clock, and the one by which it waits.

    What falls due happens before the call returns, in the order in which it would have happened:
    sessions end, rebalances time out, offsets and records pass their retention.

    >>> with Muster() as broker:
    ...     before = broker.time.now()
    ...     _ = broker.time.freeze()
    ...     _ = broker.time.advance(days=8)
    ...     (broker.time.now() - before).days
    8
    """

    def __init__(self, ask: Ask, look: Callable[[], clock.Look]) -> None:
        self._ask = ask
        self._look = look
        self._follower: Follower | None = None

    def now(self) -> datetime:
        """The broker's wall clock, in UTC."""
        self._keep_up()
        return utc(self._ask("GET", "/test/time")["wall_ms"])

    def advance(
        self, by: timedelta | None = None, *, weeks: float = 0, days: float = 0, hours: float = 0,
        minutes: float = 0, seconds: float = 0, milliseconds: float = 0,
    ) -> datetime:  # fmt: skip
        """Move both clocks forward, and return what the wall clock shows then.

        Clients are real: they notice what happened to them as they would in production.
        """
        length = (by or timedelta()) + timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds,
            milliseconds=milliseconds,
        )  # fmt: skip
        if length < timedelta():
            raise MusterError(f"the broker's time can't go back by {-length}: it goes forward only")
        return self._move("advance", ms=length // timedelta(milliseconds=1))

    def freeze(self) -> Held:
        """Stop both clocks until `run`, or until the end of the block when used with `with`."""
        self._move("freeze")
        return Held(self.run)

    def run(self) -> None:
        """Let both clocks go on, from where they stand."""
        self._move("run")

    def follow(self) -> Held:
        """Lead the broker's clocks by the test's own, which freezegun or time-machine moves.

        Wherever `time.time()` stands, the broker's clocks stand; where it is moved forward, they
        are advanced. The test's clock is looked at before each call to the broker, and 100 times a
        second besides. It ends with the block when used with `with`, with `run`, and with `reset`;
        then the clocks go on from where they are.
        """
        self._end_following()
        follower = self._follower = Follower(self._ask)
        try:
            follower.start(self._look())
        except BaseException:
            self._end_following()
            raise
        return Held(self.run)

    def _keep_up(self) -> None:
        """Come to where the test's clock is now, if it is followed."""
        if self._follower is not None:
            self._follower.keep_up(self._look())

    def _end_following(self) -> None:
        """Look at the test's clock no more."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.end()

    def _look_again(self) -> None:
        """What the broker's clocks show is no longer known: it was started again."""
        if self._follower is not None:
            self._follower.told = None

    def _move(self, verb: str, **arguments: object) -> datetime:
        if self._follower is not None:
            if verb != "run":
                raise MusterError(
                    "the broker's time follows the test's clock: move that one, or end follow()"
                )
            self._end_following()
        return utc(self._ask("POST", f"/test/time/{verb}", **arguments)["wall_ms"])


class Held(Lasting):
    """What lasts until it is ended: by the end of a `with` block, or by `end`."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """End it, once."""
        end, self._end = self._end, None
        if end is not None:
            end()


class Follower:
    """Tells the broker what the test's clock shows, whenever that is not what it knows."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.told: clock.Look | None = None
        """What the broker's clocks show, or showed when they ran; None if that is not known."""
        self._seen_at_s = 0.0

    def start(self, seen: clock.Look) -> None:
        """Bring the broker to where the test is, and keep it there."""
        self.keep_up(seen)
        clock.in_bare_thread(self._run)

    def end(self) -> None:
        """Tell nothing more."""
        self._ended.set()
        with self._lock:
            pass  # what was being told is told

    def keep_up(self, seen: clock.Look) -> None:
        """Tell the broker what the test's clock showed."""
        with self._lock:
            if self._ended.is_set() or seen.at_s < self._seen_at_s:
                return  # another thread was quicker, and saw more
            self._seen_at_s = seen.at_s
            if self.told is None:
                told = self._ask("GET", "/test/time")
                self.told = clock.Look(told["wall_ms"], told["is_frozen"], clock.real_s())
            if seen.stands and not self.told.stands:
                self._tell("freeze")
            if self._is_apart(self.told, seen):
                self._tell("set", wall_ms=seen.wall_ms)
            if self.told.stands and not seen.stands:
                self._tell("run")

    def _is_apart(self, told: clock.Look, seen: clock.Look) -> bool:
        if seen.stands:
            return told.wall_ms != seen.wall_ms
        passed_ms = 0 if told.stands else (seen.at_s - told.at_s) * 1000
        return abs(told.wall_ms + passed_ms - seen.wall_ms) > _TOLERATED_MS

    def _tell(self, verb: str, **arguments: object) -> None:
        told = self._ask("POST", f"/test/time/{verb}", **arguments)
        self.told = clock.Look(told["wall_ms"], told["is_frozen"], clock.real_s())

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(MusterError, Gone):  # the next call of the test will meet it too
                seen = clock.try_to_look()
                if seen is not None:
                    self.keep_up(seen)
            clock.pause(_LOOKS_EACH_S)

"""The broker's time, controlled by the test: advanced, frozen, or following the test's clock."""

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
"""Two running clocks that differ by at most this number of ms count as equal, because the request
that reads a clock takes time."""


class BrokerTime:
    """The broker's two clocks: the wall clock, and the monotonic clock of its timeouts.

    Before a call returns, everything that expires has happened, in order of time: sessions expire,
    rebalances time out, retention removes offsets and records.

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
        """Return the time of the broker's wall clock, in UTC."""
        self._keep_up()
        return utc(self._ask("GET", "/test/time")["wall_ms"])

    def advance(
        self, by: timedelta | None = None, *, weeks: float = 0, days: float = 0, hours: float = 0,
        minutes: float = 0, seconds: float = 0, milliseconds: float = 0,
    ) -> datetime:  # fmt: skip
        """Advance both clocks. Return the new time of the wall clock, in UTC. Clients have their
        own clocks: they observe the effects as they would in production."""
        length = (by or timedelta()) + timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds,
            milliseconds=milliseconds,
        )  # fmt: skip
        if length < timedelta():
            raise MusterError(f"can't set the broker's time back by {-length}: it only advances")
        return self._move("advance", ms=length // timedelta(milliseconds=1))

    def freeze(self) -> Held:
        """Freeze both clocks, until `run` or the end of the `with` block."""
        self._move("freeze")
        return Held(self.run)

    def run(self) -> None:
        """Let both clocks run from their current time."""
        self._move("run")

    def follow(self) -> Held:
        """Let the broker's clocks follow the test's clock, which freezegun or time-machine moves.

        While `time.time()` is frozen, the broker's clocks are frozen. When the test's clock moves
        forward, the broker's clocks advance. The test's clock is read before each call to the
        broker and 100 times a second. The broker's clocks follow until the `with` block ends, or
        until `run` or `reset` is called. Afterwards they run.
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
        """Set the broker's clocks to the test's clock, if they follow it."""
        if self._follower is not None:
            self._follower.keep_up(self._look())

    def _end_following(self) -> None:
        """Stop following the test's clock."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.end()

    def _look_again(self) -> None:
        """Read the broker's clocks again at the next use, because the broker was restarted."""
        if self._follower is not None:
            self._follower.reported = None

    def _move(self, verb: str, **arguments: object) -> datetime:
        if self._follower is not None:
            if verb != "run":
                raise MusterError(
                    "the broker's time follows the test's clock: move that clock, or end follow()"
                )
            self._end_following()
        return utc(self._ask("POST", f"/test/time/{verb}", **arguments)["wall_ms"])


class Held(Lasting):
    """A frozen or followed clock. It lasts until `end` is called or its `with` block ends."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """Let the clocks run again. Do nothing if this was already done."""
        end, self._end = self._end, None
        if end is not None:
            end()


class Follower:
    """Keeps the broker's clocks equal to the test's clock."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.reported: clock.Look | None = None
        """The time to which the broker's clocks were last set; None if it is unknown."""
        self._seen_at_s = 0.0

    def start(self, seen: clock.Look) -> None:
        """Set the broker's clocks to the test's clock, and begin to keep them equal."""
        self.keep_up(seen)
        clock.in_bare_thread(self._run)

    def end(self) -> None:
        """Stop following. If a request is in progress, wait until it is completed."""
        self._ended.set()
        with self._lock:
            pass  # waits for a running request

    def keep_up(self, seen: clock.Look) -> None:
        """Set the broker's clocks to the test's clock, as it was read in `seen`."""
        with self._lock:
            if self._ended.is_set() or seen.at_s < self._seen_at_s:
                return  # another thread has read the clock later
            self._seen_at_s = seen.at_s
            if self.reported is None:
                reported = self._ask("GET", "/test/time")
                self.reported = clock.Look(
                    reported["wall_ms"], reported["is_frozen"], clock.real_s()
                )
            if seen.stands and not self.reported.stands:
                self._tell("freeze")
            if self._is_apart(self.reported, seen):
                self._tell("set", wall_ms=seen.wall_ms)
            if self.reported.stands and not seen.stands:
                self._tell("run")

    def _is_apart(self, reported: clock.Look, seen: clock.Look) -> bool:
        if seen.stands:
            return reported.wall_ms != seen.wall_ms
        passed_ms = 0 if reported.stands else (seen.at_s - reported.at_s) * 1000
        return abs(reported.wall_ms + passed_ms - seen.wall_ms) > _TOLERATED_MS

    def _tell(self, verb: str, **arguments: object) -> None:
        reported = self._ask("POST", f"/test/time/{verb}", **arguments)
        self.reported = clock.Look(reported["wall_ms"], reported["is_frozen"], clock.real_s())

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(MusterError, Gone):  # the test's next call raises it
                seen = clock.try_to_look()
                if seen is not None:
                    self.keep_up(seen)
            clock.pause(_LOOKS_EACH_S)

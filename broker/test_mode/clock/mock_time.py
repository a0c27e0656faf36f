"""The clock of a broker in test mode. It follows the system's clock, is frozen, or is advanced.

Sessions, joins, transactions, offset expiry, retention and the cleaner's lags follow this clock.
Long polls, closing connections, retried writes, snapshots and HTTP use `Time.real`, which a test
can't change. The broker therefore serves clients even while its clock is frozen.

An advance runs the timers in the order of their deadlines. After each timer, the advance waits
until the work that the timer started is done (`clock/idle.py`). Rounds of repeated work without
effect are skipped (`clock/pauses.py`).

After `EXACT_STEPS` timers or `EXACT_S` seconds, the remaining time is advanced in `LONG_STEPS`
equal steps. The timers of one step still run in order, but all of them read the time at the end of
the step.

The pause detector does not count an advance as a pause of the broker, since it measures real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

from broker.test_mode.clock.idle import IdleWatch, NotedThreads
from broker.test_mode.clock.pauses import Pause, Pauses
from broker.test_mode.clock.timers import MockTimeout, MockTimer, Timers
from broker.time import ALTERED_S_MAX, Args, Result, Threads, Time
from protocol.now import Now

YEAR_MS = 365 * 24 * 3_600_000
MOVED_MS_MAX = 10 * YEAR_MS
EXACT_STEPS = 10_000
EXACT_S = 2.0
LONG_STEPS = 250
_HELD_NS_MAX = 2_000_000
"""The maximum time in nanoseconds for which an advance of the clock may block the event loop while
it skips rounds of periodic work."""


class MockTime(Time):
    """The clock of one process. Only the event loop's thread may use this class. Methods that only
    read the time, such as ``wall_s``, are thread-safe."""

    __slots__ = (
        "_ahead_ms",
        "_armed",
        "_armed_ms",
        "_frozen",
        "_idle_watch",
        "_look",
        "_moves",
        "_moving",
        "_of",
        "_pauses",
        "_real",
        "_shown",
        "_sleepers",
        "_stands",
        "_timers",
        "_wall_ahead_ms",
    )  # fmt: skip

    def __init__(self, real: Time | None = None) -> None:
        self._real = real = real or Time()
        super().__init__(
            monotonic_s=self._monotonic_s,
            wall_s=self._wall_s,
            ticks_ns=real.ticks_ns,
            cpu_s=real.cpu_s,
            chance=real.chance,
        )
        self._timers = Timers()
        self._pauses = Pauses(self._timers)
        self._idle_watch = IdleWatch(real)
        self._sleepers: set[asyncio.Future[None]] = set()
        self._ahead_ms = self._wall_ahead_ms = 0
        """``_ahead_ms`` is the time in ms by which the mock monotonic clock is ahead of the
        system's monotonic clock. ``_wall_ahead_ms`` is the same for the wall clocks."""
        self._stands: Now | None = None
        """The time of both clocks while they are frozen or being advanced; None while they run."""
        self._frozen = False
        self._moving = False
        self._moves = asyncio.Lock()
        self._of: Now | None = None
        """The time of the system's clocks from which ``_shown`` was computed. None if ``_shown``
        must be computed again."""
        self._shown = Now(0, 0)
        self._armed: asyncio.TimerHandle | None = None
        """The only real timer. It is set for the earliest deadline of all mock timers."""
        self._armed_ms = 0
        self._look: asyncio.TimerHandle | None = None
        """A timer of the real clock. When it fires, the mock clock checks whether a changed setting
        has shortened an interval of periodic work."""

    # -- the clocks

    @property
    def real(self) -> Time:
        return self._real

    @property
    def is_frozen(self) -> bool:
        """True if the clocks are frozen. Frozen clocks change only by advances, until `run` is
        called."""
        return self._frozen

    @property
    def ahead_ms(self) -> int:
        """The difference in ms between this wall clock and the system's wall clock; negative if
        this clock is behind."""
        if self._stands is None:
            return self._wall_ahead_ms
        return self._stands.wall_ms - self._real.now().wall_ms

    def now(self) -> Now:
        if self._stands is not None:
            return self._stands
        real = self._real.now()
        if real is not self._of:
            self._of = real
            self._shown = Now(real.mono_ms + self._ahead_ms, real.wall_ms + self._wall_ahead_ms)
        return self._shown

    def _wall_s(self) -> float:
        stands = self._stands
        if stands is not None:
            return stands.wall_ms / 1000
        return self._real.wall_s() + self._wall_ahead_ms / 1000

    def _monotonic_s(self) -> float:
        stands = self._stands
        if stands is not None:
            return stands.mono_ms / 1000
        return self._real.monotonic_s() + self._ahead_ms / 1000

    def loop_lives(self) -> None:
        self._real.loop_lives()

    def run_free(self) -> None:
        self._real.run_free()

    # -- controlled by a test

    def freeze(self) -> None:
        """Freezes the monotonic clock and the wall clock; then only `advance` and `set_wall` change
        them."""
        self._frozen = True
        if not self._moving:
            self._stands = self.now()
            self._arm()

    def run(self) -> None:
        self._frozen = False
        if not self._moving:
            self._go_on()

    async def advance(self, ms: int) -> int:
        """Advances both clocks by ``ms``, and waits until the work of the fired timers is done.
        Returns the number of timers that fired. Raises ValueError unless ``ms`` is between 0 and
        ten years."""
        if not 0 <= ms <= MOVED_MS_MAX:
            raise ValueError(
                f"can't advance the clock by {ms} ms; choose 0 to {MOVED_MS_MAX} (ten years)"
            )
        async with self._moves:
            return await self._advance(ms)

    async def set_wall(self, wall_ms: int) -> int:
        """Sets the wall clock; returns the number of timers that fired. A later time advances both
        clocks. An earlier time changes only the wall clock, so that timers keep their remaining
        time. Raises ValueError for a time before 1970 or more than ten years in the future."""
        if wall_ms < 0:
            raise ValueError(f"can't set the wall clock to {wall_ms} ms: before 1970")
        async with self._moves:
            now = self.now()
            if wall_ms - now.wall_ms > MOVED_MS_MAX:
                raise ValueError(
                    f"can't set the wall clock to {wall_ms} ms, {wall_ms - now.wall_ms} ms ahead:"
                    f" at most {MOVED_MS_MAX} ms (ten years) are possible"
                )
            if wall_ms >= now.wall_ms:
                return await self._advance(wall_ms - now.wall_ms)
            self._wall_ahead_ms += wall_ms - now.wall_ms
            self._of = None
            if self._stands is not None:
                self._stands = Now(now.mono_ms, wall_ms)
            self._pauses.ask_again(now.mono_ms)
            return 0

    def abandon(self) -> None:
        """Cancels all waits on the clock. Called after a broker has ended, to end the tasks of this
        broker that still wait."""
        self._timers.clear()
        self._pauses.clear()
        self._idle_watch.forget()
        for sleeper in list(self._sleepers):
            sleeper.cancel()
        self._sleepers.clear()
        for each in (self._armed, self._look):
            if each is not None:
                each.cancel()
        self._armed = self._look = None

    def reset(self) -> None:
        """Sets both clocks to the system's time and makes them run. Called between two runs of a
        broker, since a reset may set the monotonic clock back."""
        self.abandon()
        self._stands = self._of = None
        self._ahead_ms = self._wall_ahead_ms = 0
        self._frozen = self._moving = False

    def _go_on(self) -> None:
        stands = self._stands
        if stands is not None:
            real = self._real.now()
            self._ahead_ms = stands.mono_ms - real.mono_ms
            self._wall_ahead_ms = stands.wall_ms - real.wall_ms
            self._of = None
            self._stands = None
        self._arm()

    # -- an advance

    async def _advance(self, ms: int) -> int:
        start = self.now()
        self._stands, self._moving = start, True
        self._arm()
        try:
            await self._idle_watch.settle()  # finishes the work that began before the move
            return await self._move_to(start.mono_ms + ms)
        finally:
            if self._moving:
                self._moving = False
                self._pauses.ask_again(self.now().mono_ms)
                if self._frozen:
                    self._arm()
                else:
                    self._go_on()

    async def _move_to(self, end_ms: int) -> int:
        fired = long_ms = 0
        exact_until_ns = self.ticks_ns() + int(EXACT_S * 1e9)
        since_ns = self.ticks_ns()
        while self._moving:  # ends at a reset
            due_ms = self._timers.next_ms()
            if due_ms is None or due_ms > end_ms:
                self._stand_at(end_ms)
                return fired
            if due_ms > self.now().mono_ms:
                if not long_ms and (fired >= EXACT_STEPS or self.ticks_ns() > exact_until_ns):
                    long_ms = (end_ms - due_ms) // LONG_STEPS + 1
                self._stand_at(min(end_ms, due_ms + long_ms))
            timer = self._timers.take(self.now().mono_ms)
            assert timer is not None
            pause = self._pauses.of(timer)
            if pause is not None and self._pauses.puts_off(pause, self.now().mono_ms):
                if self.ticks_ns() - since_ns > _HELD_NS_MAX:
                    await self._real.sleep(0)
                    since_ns = self.ticks_ns()
                continue
            fired += 1
            timer.fire()
            await self._idle_watch.settle()
            since_ns = self.ticks_ns()
            self._pauses.ask_again(self.now().mono_ms)
        return fired

    def _stand_at(self, mono_ms: int) -> None:
        now = self.now()
        if mono_ms > now.mono_ms:
            self._stands = Now(mono_ms, now.wall_ms + mono_ms - now.mono_ms)

    # -- waiting

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            self._idle_watch.stirred()
            await self._real.sleep(0)
            return
        over = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _end, over)
        self._sleepers.add(over)
        try:
            await over
        finally:
            self._sleepers.discard(over)
            timer.cancel()

    def call_later(
        self, seconds: float, callback: Callable[[*Args], object], *args: *Args
    ) -> asyncio.TimerHandle:
        due_ms = self.now().mono_ms + max(0, ceil(seconds * 1000 - 1e-6))
        timer = self._timers.add(due_ms, callback, args, asyncio.get_running_loop())
        self._arm()
        return timer

    def within(self, seconds: float) -> asyncio.Timeout:
        return MockTimeout(seconds, self.call_later)

    async def pause(
        self, pause_s: Callable[[], float], idle_ms: Callable[[], int | None] | None = None
    ) -> None:
        """Implements `Time.pause`. `clock/pauses.py` describes ``idle_ms``."""
        if idle_ms is None:
            await super().pause(pause_s)
            return
        self._idle_watch.round_ends()
        pause = Pause(self.now().mono_ms, pause_s, idle_ms)
        self._pauses.begin(pause)
        self._arm()
        if self._look is None:
            self._look = self._real.call_later(ALTERED_S_MAX, self._look_at_pauses)
        try:
            await pause.over
        finally:
            self._pauses.finish(pause)
        self._idle_watch.round_begins()

    def _look_at_pauses(self) -> None:
        self._look = None
        if self._pauses:
            self._look = self._real.call_later(ALTERED_S_MAX, self._look_at_pauses)
            if self._pauses.altered():
                self._arm()

    # -- the one real timer

    def _arm(self) -> None:
        """Sets the real timer for the earliest mock timer, unless the clock is frozen."""
        due_ms = None if self._moving else self._timers.next_ms()
        now_ms = self.now().mono_ms
        if due_ms is not None and self._stands is not None and due_ms > now_ms:
            due_ms = None
        if self._armed is not None:
            if due_ms == self._armed_ms:
                return
            self._armed.cancel()
            self._armed = None
        if due_ms is not None:
            self._armed_ms = due_ms
            self._armed = self._real.call_later(max(0, due_ms - now_ms) / 1000, self._ring)

    def _ring(self) -> None:
        self._armed = None
        made = self._timers.made
        while (timer := self._timers.take(self.now().mono_ms, made)) is not None:
            timer.fire()
        self._arm()

    # -- work elsewhere

    async def in_thread(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        done = asyncio.get_running_loop().create_future()
        self._idle_watch.begins(done)
        try:
            return await self._real.in_thread(work, *args)
        finally:
            if not done.done():
                done.set_result(None)

    def threads(self, count: int, name: str) -> Threads:
        return NotedThreads(count, name, self._idle_watch)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


__all__ = ["MockTime", "MockTimer"]

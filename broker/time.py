"""Time: the one place of the product that reads a clock, waits, makes timers, threads, processes,
ids and random numbers.

Every part of the broker that does one of these has a `Time` and asks it; a test that reads the
syntax trees holds that. So one subclass, on an event loop of virtual time, makes a whole broker
that does the same again from the same seed.

There are two reasons to wait, and `broker/test_mode/clock/mock_time.py` separates them. What
expires by the clock (sessions, joins, transactions, offsets, records) asks the `Time` itself. What
waits for a peer, a disk or an operator asks `Time.real`, which follows the system's clock: a
client's long poll, a connection that closes, a write that is retried.

Everything that waits here waits for somebody else: a session for its member's heartbeat, a join for
those who have still to join. While the event loop stands (the process was stopped, the machine
gives it no time, a piece of our own work is long) nobody's request is read, so that this time must
count against nobody (law 9). The monotonic clock of `Time.now` leaves it out: with it all deadlines
move at once, and nobody who keeps one has to know. `broker/loop/pause_detector.py` is what proves
that the loop goes round.
"""

from __future__ import annotations

import asyncio
import os
import random
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Thread
from time import monotonic, perf_counter_ns, process_time, time
from typing import TypeVar, TypeVarTuple

from protocol.now import Now

Args = TypeVarTuple("Args")
Item = TypeVar("Item")
Result = TypeVar("Result")

TRUSTED_MS = 200
"""So long after a sign of life of the loop the clock goes on without another one."""
ALTERED_S_MAX = 1.0
"""How long it takes at most until an altered pause is seen."""
_ALWAYS = 1 << 62


class Time:
    """The system's time; a test gives the broker one of its own."""

    __slots__ = (
        "_last", "_system_ms", "_trusted_until_ms",
        "chance", "cpu_s", "left_out_ms", "monotonic_s", "ticks_ns", "wall_s",
    )  # fmt: skip

    def __init__(
        self,
        *,
        monotonic_s: Callable[[], float] = monotonic,
        wall_s: Callable[[], float] = time,
        ticks_ns: Callable[[], int] = perf_counter_ns,
        cpu_s: Callable[[], float] = process_time,
        chance: random.Random | None = None,
    ) -> None:
        self.monotonic_s = monotonic_s
        """The system's monotonic clock as it is, pauses counted; of the event loop too."""
        self.wall_s = wall_s
        """The wall clock, in seconds since 1970; from any thread."""
        self.ticks_ns = ticks_ns
        """The performance counter: what a piece of work took. From any thread."""
        self.cpu_s = cpu_s
        """The CPU time that the process has used."""
        self.chance = chance or random.Random()
        """Random numbers, none of which has to be a secret."""
        self.left_out_ms = 0
        """How much of the system's monotonic time is not in `Now.mono_ms`."""
        self._system_ms = -1
        """The system's monotonic clock at the last reading."""
        self._last = Now(-1, -1)
        self._trusted_until_ms = _ALWAYS

    @property
    def real(self) -> Time:
        """The time of whoever waits for a peer, a disk or an operator.

        It is this one, but where a test has the broker's clock in its hand.
        """
        return self

    # -- the clocks by which the broker waits and stores

    def now(self) -> Now:
        """Both clocks in milliseconds: monotonic for what waits, wall for what is stored.

        Within one millisecond the same reading serves again.
        """
        system_ms = int(self.monotonic_s() * 1000)
        if system_ms != self._system_ms:
            if system_ms > self._trusted_until_ms:
                # Whoever reads first after a pause, a timer or a socket, finds it left out. Until
                # the next sign of life the clock stands at its last reading: it never goes back.
                self.left_out_ms = system_ms - self._last.mono_ms
            self._system_ms = system_ms
            self._last = Now(system_ms - self.left_out_ms, int(self.wall_s() * 1000))
        return self._last

    def loop_lives(self) -> None:
        """The event loop has just looked at its sockets; call it at least every `TRUSTED_MS`."""
        self.now()  # what has passed until now is left out, if it has to be
        self._trusted_until_ms = int(self.monotonic_s() * 1000) + TRUSTED_MS

    def run_free(self) -> None:
        """Nobody calls `loop_lives` any more: no time is left out from now on."""
        self.now()
        self._trusted_until_ms = _ALWAYS

    # -- waiting, on the event loop

    async def sleep(self, seconds: float) -> None:
        """Let others run for so long; 0 is one iteration of the loop."""
        await asyncio.sleep(seconds)

    def call_later(
        self, seconds: float, callback: Callable[[*Args], object], *args: *Args
    ) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` after so long, unless the handle is cancelled."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    async def pause(
        self,
        pause_s: Callable[[], float],
        idle_ms: Callable[[], int | None] | None = None,  # noqa: ARG002
    ) -> None:
        """Wait between two rounds of work that is done again and again.

        ``pause_s`` is asked again while the pause lasts: it may be altered meanwhile. ``idle_ms``
        is for a time that is moved by hand: see `broker/test_mode/clock/mock_time.py`.
        """
        paused_s = 0.0
        while (left_s := pause_s() - paused_s) > ALTERED_S_MAX:
            await self.sleep(ALTERED_S_MAX)
            paused_s += ALTERED_S_MAX
        await self.sleep(max(left_s, 0.0))

    def within(self, seconds: float) -> asyncio.Timeout:
        """``async with`` this: TimeoutError for a block that takes longer."""
        return asyncio.timeout(seconds)

    # -- work elsewhere

    async def in_thread(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        """What ``work(*args)`` returns or raises, run in one of the threads that all share."""
        return await asyncio.to_thread(work, *args)

    def threads(self, count: int, name: str) -> Threads:
        """At most ``count`` threads of their own, for work that must not wait behind others'."""
        return Threads(count, name)

    def start_thread(self, work: Callable[[], None], name: str) -> None:
        """Run ``work`` in a thread that ends with the process at the latest."""
        Thread(target=work, name=name, daemon=True).start()

    def wait_in_thread(
        self, condition: Condition, until: Callable[[], bool], seconds: float
    ) -> bool:
        """Wait for others to make ``until`` true, not for longer; in a thread that may stand."""
        return condition.wait_for(until, seconds)

    async def start_process(
        self, command: Sequence[str], env: Mapping[str, str], line_bytes_max: int
    ) -> Process:
        """A process with pipes for stdin and stdout, whose answers are lines of at most so many
        bytes. Ctrl-C is for the broker, which ends the process.
        """
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            limit=line_bytes_max,
            env=dict(env),
            start_new_session=True,
        )

    # -- ids

    def fresh_id(self) -> bytes:
        """16 bytes that nobody else has: those of a random UUID (RFC 9562, version 4).

        Two microseconds less than `uuid.uuid4`, of each member's first JoinGroup.
        """
        id_bytes = bytearray(os.urandom(16))
        id_bytes[6] = id_bytes[6] & 0x0F | 0x40
        id_bytes[8] = id_bytes[8] & 0x3F | 0x80
        return bytes(id_bytes)


class Threads:
    """A bounded number of threads, which begin with their first work; use from one thread."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """What ``work()`` returns or raises; on the event loop."""
        return asyncio.get_running_loop().run_in_executor(self._started(), work)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What ``work`` makes of each item, in their order, once all are done; never on the loop.

        Raises what the first of those raised that failed. The threads have ended then.
        """
        with self._started() as executor:
            self._executor = None
            return list(executor.map(work, items))

    def stop(self) -> None:
        """Let the threads end after the work that they are at; what waits for one is cancelled."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def _started(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        return self._executor

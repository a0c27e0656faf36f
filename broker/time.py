"""Time: the only module that reads a clock, waits, or makes timers, threads, processes, ids and
random numbers.

Every part of the broker uses its `Time` for these purposes; a test that reads the syntax trees
enforces this. Therefore one subclass of `Time`, on an event loop with virtual time, makes a whole
broker deterministic: the same seed repeats the same run.

There are two kinds of waits. Work that lets something expire (sessions, joins, transactions,
offsets, records) uses the `Time` itself. Work that waits for a peer, a disk or an operator (a
client's long poll, a connection that closes, a write that is retried) uses `Time.real`, which
follows the system's clock. `broker/test_mode/clock/mock_time.py` controls only the first kind.

The event loop may be unable to run: the process was stopped, the machine is overloaded, or the
loop's own work is long. The broker reads no request during such a pause, so a pause must not let a
member's session or a join expire. Therefore the monotonic clock of `Time.now` excludes pauses,
which moves all deadlines at once. `broker/loop/pause_detector.py` confirms that the loop runs.
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
"""If the event loop does not call `loop_lives` for this number of ms, it counts as paused, and the
monotonic clock stops."""
ALTERED_S_MAX = 1.0
"""The maximum time in seconds until a sleeping task follows a setting that changes the length of
its pause."""
_ALWAYS = 1 << 62


class Time:
    """The system's time. A test passes its own subclass of `Time` to the broker."""

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
        """A function that returns the system's monotonic clock in seconds, including pauses. The
        event loop uses the same clock."""
        self.wall_s = wall_s
        """A function that returns the wall clock in seconds since 1970. Callable in any thread."""
        self.ticks_ns = ticks_ns
        """A function that returns the performance counter in nanoseconds, to measure durations.
        Callable in any thread."""
        self.cpu_s = cpu_s
        self.chance = chance or random.Random()
        """The generator of random numbers that do not need to be secret."""
        self.left_out_ms = 0
        """The sum of the pauses, in ms, that `Now.mono_ms` excludes from the system's monotonic
        time."""
        self._system_ms = -1
        """The value of the system's monotonic clock in ms at its last reading."""
        self._last = Now(-1, -1)
        self._trusted_until_ms = _ALWAYS

    @property
    def real(self) -> Time:
        """Returns the `Time` object for waits that a test does not control: waits for a peer, a
        disk or an operator. It is this object itself, except in test mode."""
        return self

    # -- the clocks for waiting and for stored times

    def now(self) -> Now:
        """Returns both clocks in milliseconds: the monotonic clock for waits, the wall clock for
        stored times. Calls within one millisecond return the same object."""
        system_ms = int(self.monotonic_s() * 1000)
        if system_ms != self._system_ms:
            if system_ms > self._trusted_until_ms:
                # The first reader after a pause, a timer or a socket, leaves the pause out. Until
                # the next call of `loop_lives` the clock remains at its last reading: it never
                # moves back.
                self.left_out_ms = system_ms - self._last.mono_ms
            self._system_ms = system_ms
            self._last = Now(system_ms - self.left_out_ms, int(self.wall_s() * 1000))
        return self._last

    def loop_lives(self) -> None:
        """Confirms that the event loop runs. Called at least every `TRUSTED_MS`, after the loop has
        read its sockets."""
        self.now()  # leaves out the time until now, if the loop was paused
        self._trusted_until_ms = int(self.monotonic_s() * 1000) + TRUSTED_MS

    def run_free(self) -> None:
        """The caller must call this when it will not call `loop_lives` again. From then on, the
        monotonic clock also counts the time in which the process is paused."""
        self.now()
        self._trusted_until_ms = _ALWAYS

    # -- waiting, on the event loop

    async def sleep(self, seconds: float) -> None:
        """Waits for ``seconds`` and lets other tasks run; 0 waits for one iteration of the loop."""
        await asyncio.sleep(seconds)

    def call_later(
        self, seconds: float, callback: Callable[[*Args], object], *args: *Args
    ) -> asyncio.TimerHandle:
        """Calls ``callback(*args)`` after ``seconds``, unless the returned handle is cancelled."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    async def pause(
        self,
        pause_s: Callable[[], float],
        idle_ms: Callable[[], int | None] | None = None,  # noqa: ARG002
    ) -> None:
        """Waits between two rounds of repeated work.

        ``pause_s`` returns the length in seconds; it is called again during the pause, since the
        length may change. ``idle_ms`` is used only if a test controls the clock; see
        `broker/test_mode/clock/mock_time.py`.
        """
        paused_s = 0.0
        while (left_s := pause_s() - paused_s) > ALTERED_S_MAX:
            await self.sleep(ALTERED_S_MAX)
            paused_s += ALTERED_S_MAX
        await self.sleep(max(left_s, 0.0))

    def within(self, seconds: float) -> asyncio.Timeout:
        """Returns an ``async with`` block that raises TimeoutError if the block takes longer than
        ``seconds``."""
        return asyncio.timeout(seconds)

    # -- work in threads and processes

    async def in_thread(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        """Runs ``work(*args)`` in a shared thread. Returns its result or raises its exception."""
        return await asyncio.to_thread(work, *args)

    def threads(self, count: int, name: str) -> Threads:
        """Creates at most ``count`` separate threads, for work that must not wait for other
        work."""
        return Threads(count, name)

    def start_thread(self, work: Callable[[], None], name: str) -> None:
        """Runs ``work`` in a daemon thread: if ``work`` still runs when the process exits, the
        process does not wait for it."""
        Thread(target=work, name=name, daemon=True).start()

    def wait_in_thread(
        self, condition: Condition, until: Callable[[], bool], seconds: float
    ) -> bool:
        """Waits in a thread until ``until`` returns True, for at most ``seconds``. Returns the last
        result of ``until``."""
        return condition.wait_for(until, seconds)

    async def start_process(
        self, command: Sequence[str], env: Mapping[str, str], line_bytes_max: int
    ) -> Process:
        """Starts a process with pipes for stdin and stdout. ``line_bytes_max`` limits the length of
        its output lines. Ctrl-C does not reach the process; the broker ends it."""
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
        """Returns a unique id: the 16 bytes of a random UUID (RFC 9562, version 4). This is two
        microseconds faster than `uuid.uuid4`, which matters for the member ids of JoinGroup."""
        id_bytes = bytearray(os.urandom(16))
        id_bytes[6] = id_bytes[6] & 0x0F | 0x40
        id_bytes[8] = id_bytes[8] & 0x3F | 0x80
        return bytes(id_bytes)


class Threads:
    """A bounded number of threads, each started when it is first needed. Only one thread may use
    this object."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Runs ``work`` in a thread. Returns a future with its result or exception. Called on the
        event loop."""
        return asyncio.get_running_loop().run_in_executor(self._started(), work)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Calls ``work`` with each item in the threads, waits, and returns the results in the order
        of the items. Raises the exception of the first failed item, after all threads have ended.
        Must not be called on the event loop."""
        with self._started() as executor:
            self._executor = None
            return list(executor.map(work, items))

    def stop(self) -> None:
        """Makes the threads end after their current work. Queued work is cancelled."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def _started(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        return self._executor

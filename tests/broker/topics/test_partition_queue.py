"""Each request that waits for stable records gets one reply, in order of the offsets, also when the
disk blocks or fails. The test controls the disk and the clock."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import pytest

from broker.loop.internal_errors import InternalErrors
from broker.topics.long_poll import Waiter
from broker.topics.partition import StableTooLate
from log.errors import LogPoisoned
from tests.broker.mock_time import MockTime
from tests.broker.partitions import partition_for, services_with
from tests.log.log_tools import NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


class StandingTimer(asyncio.TimerHandle):
    """A timer without an event loop. `StandingTime.ring` runs its callback."""

    def cancel(self) -> None:
        asyncio.Handle.cancel(self)


class StandingTime(MockTime):
    """A `Time` whose timers, sleeps and threads continue only when the test calls a method."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = asyncio.Event()
        """While this event is set, work in threads runs. Otherwise the work waits."""
        self.disk.set()
        self.timers: list[asyncio.TimerHandle] = []
        self.slept_ms: list[int] = []
        self._waiter: asyncio.Timeout | None = None

    def call_later(
        self, seconds: float, callback: Callable[[*Args], object], *args: *Args
    ) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        due_ms = self.mono_ms + round(seconds * 1000)
        timer = StandingTimer(due_ms, callback, args, loop)
        self.timers.append(timer)
        return timer

    def within(self, seconds: float) -> asyncio.Timeout:
        self.slept_ms.append(round(seconds * 1000))
        self._waiter = asyncio.timeout(None)
        return self._waiter

    async def in_thread(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        await self.disk.wait()
        return work(*args)

    async def wake(self) -> None:
        assert self._waiter is not None
        self._waiter.reschedule(asyncio.get_running_loop().time())
        await settled()

    def ring(self) -> None:
        """Runs the timers whose deadlines the mock clock has reached."""
        due = [timer for timer in self.timers if timer.when() <= self.mono_ms]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.cancelled():
                timer._run()


async def settled() -> None:
    """Runs the event loop until no task can continue."""
    for _ in range(20):
        await asyncio.sleep(0)


class House:
    """One partition with a simulated disk and a mock clock. ``answers`` lists the replies in the
    order in which they were delivered."""

    def __init__(self, **settings: Any) -> None:
        self.fs = SimulatedFiles()
        self.time = StandingTime()
        self.errors = InternalErrors()
        self.fatal: list[str] = []
        services = services_with(fatal=self.fatal, time=self.time, errors=self.errors)
        self.long_polls = services.long_polls
        self.partition = partition_for(open_log(self.fs, **settings), services)
        self.answers: list[tuple[str, object]] = []

    def append(self, count: int = 1) -> int:
        for _ in range(count):
            self.partition.append(batch(0, b"v"), NOW_MS)
        return self.partition.log.log_end_offset

    def wait(self, offset: int, *names: str, **deadline: int) -> None:
        """Registers one ticket for each name. When ``offset`` is stable, each ticket gets the reply
        0 and records it."""
        replies = [(Named(self, name), 0) for name in names]
        self.partition.when_stable(offset, replies, lambda _, error: type(error), **deadline)

    def set(self, **settings: Any) -> None:
        log = self.partition.log
        log.config = dataclasses.replace(log.config, **settings)

    def fsyncs(self) -> int:
        return sum(call == "fsync" and path.endswith(".log") for call, path in self.fs.calls)


class Named:
    """A ticket that records its reply."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name

    def take(self, reply: Any) -> None:
        self.house.answers.append((self.name, reply))
        if self.name == "breaks":
            raise RuntimeError("a bug")


async def test_replies_to_waiting_requests_are_sent_once_and_in_offset_order() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    first = house.append()
    house.wait(first, "a", "b")
    second = house.append()
    house.wait(second, "c")
    house.wait(second + 1, "not appended")
    await settled()
    assert (house.answers, house.partition.waiting) == ([], 4)

    house.time.disk.set()
    await settled()

    assert house.answers == [("a", 0), ("b", 0), ("c", 0)]
    assert house.partition.waiting == 1
    house.append()
    await settled()
    assert house.answers[3:] == [("not appended", 0)]


async def test_request_for_an_already_stable_offset_is_answered_in_the_next_loop_iteration() -> (
    None
):
    house = House()
    house.wait(house.append(), "a")
    assert house.answers == []
    await settled()
    assert house.answers == [("a", 0)]


async def test_append_answers_a_waiting_request_when_no_flush_is_due() -> None:
    house = House()
    house.wait(1, "a")
    house.wait(2, "b")
    await settled()
    assert house.answers == []
    house.append()
    assert house.answers == [("a", 0)]


async def test_waiting_request_fails_once_at_its_deadline() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    end, now_ms = house.append(), house.time.mono_ms
    house.wait(end, "soon", deadline_ms=now_ms + 100)
    house.wait(end, "later", deadline_ms=now_ms + 300)
    house.wait(end, "patient")
    for by_ms, expected in ((99, []), (1, ["soon"]), (199, ["soon"]), (1, ["soon", "later"])):
        house.time.move(by_ms)
        house.time.ring()
        assert house.answers == [(name, StableTooLate) for name in expected]

    house.time.disk.set()
    await settled()

    assert house.answers[2:] == [("patient", 0)]


async def test_wait_for_an_offset_above_the_log_end_fails_at_the_deadline_of_the_request() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    house.wait(1, "a", deadline_ms=house.time.mono_ms + 100)
    house.append()
    house.time.move(100)
    house.time.ring()
    assert house.answers == [("a", StableTooLate)]


async def test_failed_append_fails_only_requests_that_wait_for_unwritten_offsets() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    house.wait(1, "written")
    house.wait(2, "lost")
    house.partition.log.append(
        batch(0, b"v"), 0, NOW_MS
    )  # only the first of two records is written
    error = OSError(errno.ENOSPC, "full")

    house.partition.append_failed(error)

    assert house.answers == [("lost", OSError)]
    house.time.disk.set()
    await settled()
    assert house.answers[1:] == [("written", 0)]
    assert house.partition.is_probing
    assert not house.fatal
    house.partition.stop()
    await settled()


class FailureRecorder:
    """The owner of a log. When it is notified that the log failed, it records how many replies have
    been sent so far."""

    def __init__(self, said: list[int], answers: list[Any]) -> None:
        self._said = said
        self._answers = answers

    def log_failed(self) -> None:
        self._said.append(len(self._answers))

    def in_sync_changed(self) -> None:
        raise AssertionError("it is alone")


async def test_waiting_requests_fail_before_the_log_owner_is_notified_of_a_failed_flush() -> None:
    house = House(flush_messages=1)
    said: list[int] = []
    house.partition.owner = FailureRecorder(said, house.answers)
    house.fs.fail("fsync", ".log")
    end = house.append()
    house.wait(end, "a")
    house.wait(end + 1, "b")
    await settled()

    assert house.answers == [("a", LogPoisoned), ("b", LogPoisoned)]
    assert said == [2], "once, behind the answers"
    assert len(house.fatal) == 1
    assert not house.partition.is_probing
    assert house.partition.high_watermark == 0


async def test_requests_that_arrive_during_a_flush_share_the_next_flush() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    before = house.fsyncs()
    for name in ("a", "b", "c"):
        house.wait(house.append(), name)
    house.time.disk.set()
    await settled()
    assert [name for name, _ in house.answers] == ["a", "b", "c"]
    assert house.fsyncs() == before + 1

    flush = house.partition.log.flush

    def with_more_behind_it() -> int:
        house.partition.log.flush = flush  # type: ignore[method-assign]
        end = flush()
        for name in ("e", "f"):
            house.wait(house.append(), name)
        return end

    house.partition.log.flush = with_more_behind_it  # type: ignore[method-assign]
    house.wait(house.append(), "d")
    await settled()
    assert [name for name, _ in house.answers][3:] == ["d", "e", "f"]
    assert house.fsyncs() == before + 3
    assert not house.partition.is_flushing


async def test_request_waits_for_its_flush_when_flush_messages_is_raised() -> None:
    house = House(flush_messages=1)
    house.time.disk.clear()
    house.wait(house.append(), "promised")
    house.set(flush_messages=1000)
    house.append()
    await settled()
    assert house.answers == []
    house.time.disk.set()
    await settled()
    assert house.answers == [("promised", 0)]
    assert house.fsyncs() > 0


async def test_poisoned_log_is_probed_with_growing_intervals_until_it_recovers() -> None:
    house = House()
    house.fs.fail("write", ".log", count=1 << 20, code=errno.ENOSPC)
    for _ in range(2):
        with pytest.raises(LogPoisoned):
            house.append()
    writable = asyncio.ensure_future(house.partition.writable())
    await settled()
    for _ in range(5):
        assert house.partition.is_probing
        await house.time.wake()
    assert house.time.slept_ms == [200, 400, 800, 1_600, 2_000, 2_000]
    assert not writable.done()

    house.fs.heal()
    await house.time.wake()

    assert await writable
    assert not house.partition.is_probing
    assert not house.fatal
    house.wait(house.append(), "a")
    await settled()
    assert house.answers == [("a", 0)]


async def test_poisoned_log_is_not_probed_when_the_broker_does_not_serve_the_partition() -> None:
    house = House()
    house.fs.fail("write", ".log", count=1 << 20, code=errno.ENOSPC)
    with pytest.raises(LogPoisoned):
        house.append()
    await settled()
    house.partition._is_served = lambda _: False
    house.fs.heal()
    house.fs.calls.clear()
    await house.time.wake()
    assert not house.partition.is_probing
    assert house.fs.calls == []
    assert not await house.partition.writable()


@pytest.mark.parametrize("flushes", [False, True])
async def test_long_poll_is_woken_when_the_records_are_visible(
    flushes: bool,
) -> None:
    house = House(**({"flush_messages": 1} if flushes else {}))
    seen: list[int] = []
    house.time.disk.clear()
    deadline_ms = house.time.mono_ms + 1000
    waiter = Waiter(
        [("t", 0)], deadline_ms, 1, lambda _: seen.append(house.partition.high_watermark)
    )
    house.long_polls.wait(waiter)
    house.append()
    await settled()
    assert seen == ([] if flushes else [1])
    house.time.disk.set()
    await settled()
    assert seen == [1]
    house.long_polls.forget(waiter)


async def test_exception_of_one_waiting_reply_does_not_affect_the_other_replies() -> None:
    house = House(flush_messages=1)
    house.wait(1, "a", "breaks", "b")
    house.wait(1, "c")
    house.append()
    await settled()
    assert [name for name, _ in house.answers] == ["a", "breaks", "b", "c"]
    assert house.errors.counts["reply"] == 1

    house.wait(3, "breaks", "d")
    house.wait(3, "e")
    house.partition.fail_unwritten(OSError())
    assert house.answers[4:] == [(name, OSError) for name in ("breaks", "d", "e")]
    assert house.errors.counts["reply"] == 2
    assert house.partition.waiting == 0

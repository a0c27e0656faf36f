"""Tests of the mock clocks of test mode: how they advance, the order of timers, and the operations
that use real time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from random import Random

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from broker.loop.background import repeat
from broker.test_mode.clock import mock_time
from broker.test_mode.clock.mock_time import (
    EXACT_STEPS,
    LONG_STEPS,
    MOVED_MS_MAX,
    YEAR_MS,
    MockTime,
)
from broker.time import Time
from tests.broker.edge import eventually

WEEK_MS = 7 * 24 * 3_600_000


def frozen() -> MockTime:
    time = MockTime()
    time.freeze()
    return time


def in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    uvloop.run(run())


# -- the clocks


async def test_advance_moves_both_frozen_clocks_by_the_given_time() -> None:
    time = frozen()
    before = time.now()
    assert await time.advance(90_000) == 0

    assert time.now() == (before.mono_ms + 90_000, before.wall_ms + 90_000)
    assert time.wall_s() == (before.wall_ms + 90_000) / 1000
    assert time.monotonic_s() == (before.mono_ms + 90_000) / 1000
    await eventually(lambda: time.real.now().mono_ms > before.mono_ms + 20)
    assert time.now().mono_ms == before.mono_ms + 90_000


async def test_method_run_lets_frozen_clocks_continue_from_the_time_that_they_show() -> None:
    time = frozen()
    await time.advance(3_600_000)
    stood = time.now()
    time.run()

    assert 0 <= time.now().mono_ms - stood.mono_ms < 60_000
    assert 3_500_000 < time.ahead_ms <= 3_600_000
    await eventually(lambda: time.now().mono_ms > stood.mono_ms + 5)
    assert time.now().wall_ms > stood.wall_ms
    assert abs(time.wall_s() - time.now().wall_ms / 1000) < 10
    assert abs(time.monotonic_s() - time.now().mono_ms / 1000) < 10


def test_new_mock_time_equals_system_time_even_if_its_first_two_clock_reads_differ() -> None:
    seconds = iter(range(1_000, 2_000))
    time = MockTime(Time(monotonic_s=lambda: next(seconds), wall_s=lambda: next(seconds)))
    assert time.ahead_ms == 0


async def test_method_set_wall_does_not_move_the_monotonic_clock_back() -> None:
    time = frozen()
    before, heard = time.now(), list[str]()
    time.call_later(60, heard.append, "due")
    assert await time.set_wall(before.wall_ms - 86_400_000) == 0

    assert time.now() == (before.mono_ms, before.wall_ms - 86_400_000)
    assert abs(time.ahead_ms + 86_400_000) < 60_000
    assert await time.set_wall(before.wall_ms) == 1, "forward is an advance"
    assert time.now() == (before.mono_ms + 86_400_000, before.wall_ms)
    assert heard == ["due"]
    time.run()
    assert abs(time.now().wall_ms - before.wall_ms) < 60_000


@pytest.mark.parametrize("ms", [-1, MOVED_MS_MAX + 1])
async def test_advance_is_refused_when_negative_or_above_ten_years(ms: int) -> None:
    time = MockTime()
    with pytest.raises(
        ValueError, match=r"can't advance the clock by .* ms; choose 0 to \d+ \(ten years\)"
    ):
        await time.advance(ms)
    with pytest.raises(ValueError, match="can't set the wall clock to"):
        await time.set_wall(-1 if ms < 0 else time.now().wall_ms + ms + 60_000)
    assert time.ahead_ms == 0


async def test_mock_clock_excludes_process_pauses_and_includes_advances() -> None:
    seconds = 1000.0
    real = Time(monotonic_s=lambda: seconds, wall_s=lambda: seconds)
    time = MockTime(real)
    time.loop_lives()
    await time.advance(60_000)
    assert time.now() == (1_060_000, 1_060_000)
    assert real.left_out_ms == 0

    seconds += 30  # The process was paused for 30 s.
    assert time.now() == (1_060_000, 1_090_000), "it counts against nobody"
    time.loop_lives()
    seconds += 0.125
    assert time.now() == (1_060_125, 1_090_125)


# -- the order of timers


class Played:
    """Timers that set further timers. The seed determines the delays and the number of further
    timers."""

    def __init__(
        self, seed: int, now_ms: Callable[[], int], call_later: Callable[..., object]
    ) -> None:
        self.seen: list[tuple[str, int]] = []
        self._seed = seed
        self._now_ms = now_ms
        self._call_later = call_later

    def begin(self, count: int) -> None:
        for number in range(count):
            self._set(str(number))

    def _set(self, name: str) -> None:
        delay_ms = Random(f"{self._seed} {name}").choice([0, 1, 1, 7, 100, 999, 60_000, 3_600_000])
        self._call_later(delay_ms / 1000, self._fire, name)

    def _fire(self, name: str) -> None:
        self.seen.append((name, self._now_ms()))
        if len(name) < 8:
            for child in range(Random(f"{self._seed} {name} children").choice([0, 0, 1, 1, 2])):
                self._set(f"{name}.{child}")


class PlainHeap:
    """A simple model of the clock: a heap of timers, and a time that jumps to the next timer."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._heap: list[tuple[int, int, Callable[..., object], tuple[object, ...]]] = []
        self._made = 0

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self._made += 1
        due_ms = self.now_ms + round(seconds * 1000)
        heappush(self._heap, (due_ms, self._made, callback, args))

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, callback, args = heappop(self._heap)
            callback(*args)
        self.now_ms = end_ms


@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 12),
    moves=st.lists(st.sampled_from([0, 1, 50, 1_000, 61_000, 4_000_000, 100_000_000]), max_size=5),
)
def test_timers_fire_in_deadline_order_during_an_advance(
    seed: int, count: int, moves: list[int]
) -> None:
    async def play() -> None:
        time = frozen()
        heap = PlainHeap(time.now().mono_ms)
        ours = Played(seed, lambda: time.now().mono_ms, time.call_later)
        plain = Played(seed, lambda: heap.now_ms, heap.call_later)
        time._moving = True  # No timer fires before the first move, even if it is due immediately.
        ours.begin(count)
        time._moving = False
        plain.begin(count)
        for ms in moves:
            fired = len(ours.seen)
            assert await time.advance(ms) == len(ours.seen) - fired
            heap.advance(ms)
            assert ours.seen == plain.seen

    in_a_loop(play)


async def test_work_that_a_timer_starts_completes_before_the_next_timer_fires() -> None:
    time = frozen()
    done: list[tuple[str, int]] = []
    start_ms = time.now().mono_ms

    def note(what: str) -> None:
        done.append((what, time.now().mono_ms - start_ms))

    async def chain(name: str) -> None:
        for _ in range(6):
            await asyncio.sleep(0)
        note(f"{name} turns")
        await time.in_thread(lambda: None)
        for _ in range(20):
            await time.sleep(0)
        await time.threads(1, "own").run(threading.Event().is_set)
        note(f"{name} threads")

    tasks = []
    for seconds, name in ((10, "a"), (20, "b"), (20, "c")):
        time.call_later(seconds, lambda name=name: tasks.append(asyncio.ensure_future(chain(name))))
    assert await time.advance(30_000) == 3

    assert done == [
        ("a turns", 10_000), ("a threads", 10_000),
        ("b turns", 20_000), ("b threads", 20_000),
        ("c turns", 20_000), ("c threads", 20_000),
    ]  # fmt: skip


async def test_exception_of_a_timer_does_not_stop_other_timers() -> None:
    time = frozen()
    heard, caught = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: caught.append(what))
    time.call_later(1, lambda: 1 / 0)
    time.call_later(2, heard.append, "still")
    assert await time.advance(5_000) == 2
    assert heard == ["still"]
    assert [type(each["exception"]) for each in caught] == [ZeroDivisionError]


async def test_cancelled_timers_do_not_fire_and_are_removed() -> None:
    time = frozen()
    heard: list[int] = []
    handles = [time.call_later(60, heard.append, number) for number in range(1_000)]
    for handle in handles[:999]:
        handle.cancel()
        handle.cancel()
    assert len(time._timers) == 1
    assert len(time._timers._heap) < 200
    assert await time.advance(60_000) == 1
    assert heard == [999]


# -- long advances


async def test_ten_year_advance_fires_a_bounded_number_of_timers() -> None:
    time = frozen()
    start_ms = time.now().mono_ms
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(time.now().mono_ms - start_ms)
        time.call_later(1, tick)

    tick()
    assert await time.advance(60_000) == 60
    assert ticks == [second * 1000 for second in range(61)]
    late: list[str] = []
    for hours in (5_000, 4_000, 6_000):
        time.call_later(hours * 3600, late.append, f"{hours} h")
    fired = await time.advance(10 * YEAR_MS)
    assert fired <= EXACT_STEPS + 2 * LONG_STEPS
    assert late == ["4000 h", "5000 h", "6000 h"]
    assert time.now().mono_ms == start_ms + 60_000 + 10 * YEAR_MS
    assert ticks[-1] - ticks[-2] <= 10 * YEAR_MS / LONG_STEPS + 1000
    assert ticks[-1] > 10 * YEAR_MS - 10 * YEAR_MS / LONG_STEPS


async def test_advance_uses_longer_steps_when_a_stop_at_each_timer_deadline_would_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mock_time, "EXACT_S", 0.0)
    time = frozen()
    start_ms = time.now().mono_ms
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(time.now().mono_ms - start_ms)
        time.call_later(600, tick)

    tick()
    assert LONG_STEPS // 2 < await time.advance(WEEK_MS) <= LONG_STEPS + 2
    assert ticks[-1] == WEEK_MS, "the last step ends where the move does"


async def test_loop_runs_other_tasks_during_an_advance() -> None:
    time = frozen()

    def tick() -> None:
        time.call_later(0.1, tick)

    tick()
    moving = asyncio.ensure_future(time.advance(WEEK_MS))
    turns = 0
    while not moving.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > await moving


# -- repeated work


@pytest.mark.campaign
@given(
    seed=st.integers(0, 1 << 32),
    pauses=st.lists(st.sampled_from([100, 1_000, 15_000, 300_000]), min_size=1, max_size=4),
    moves=st.lists(
        st.sampled_from([50, 1_000, 60_000, 3_600_000, 40_000_000]), min_size=1, max_size=3
    ),
)
def test_clock_advance_runs_all_periodic_work_that_becomes_due(
    seed: int, pauses: list[int], moves: list[int]
) -> None:
    """The test compares the result with a model that checks every round. A seed chooses when work
    is due."""
    chance = Random(seed)
    begin = [[chance.randrange(80_000_000) for _ in range(3)] for _ in pauses]
    brought = [
        (chance.randrange(50_000_000), chance.randrange(len(pauses)), chance.randrange(9_000_000))
        for _ in range(4)
    ]

    def expected(end_ms: int) -> list[tuple[int, int]]:
        done = []
        for index, pause_ms in enumerate(pauses):
            dues = [(due, 0) for due in begin[index]]
            dues += [(at + more, at) for at, whose, more in brought if whose == index]
            for due, since in dues:
                round_ms = -(-max(due, since) // pause_ms) * pause_ms or pause_ms
                if round_ms <= end_ms:
                    done.append((round_ms, index))
        return sorted(done)

    async def play() -> None:
        time = frozen()
        start_ms = time.now().mono_ms
        due = [list(each) for each in begin]
        done: list[tuple[int, int]] = []

        def now_ms() -> int:
            return time.now().mono_ms - start_ms

        def work_of(index: int) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                await time.in_thread(lambda: None)
                for each in [each for each in due[index] if each <= now_ms()]:
                    due[index].remove(each)
                    done.append((now_ms(), index))

            return work

        def idle_of(index: int) -> Callable[[], int | None]:
            return lambda: min((max(0, each - now_ms()) for each in due[index]), default=None)

        def bring(whose: int, due_ms: int) -> None:
            due[whose].append(due_ms)

        tasks = [
            asyncio.ensure_future(
                repeat(time, lambda s=ms / 1000: s, work_of(index), failures.append, idle_of(index))
            )
            for index, ms in enumerate(pauses)
        ]
        for at_ms, whose, more_ms in brought:
            time.call_later(at_ms / 1000, bring, whose, at_ms + more_ms)
        for ms in moves:
            await time.advance(ms)
            assert sorted(done) == [each for each in expected(sum(moves)) if each[0] <= now_ms()]
            assert done == sorted(done, key=lambda each: each[0]), "in their order"
        for task in tasks:
            task.cancel()

    failures: list[Exception] = []
    in_a_loop(play)
    assert not failures


async def test_advance_skips_rounds_of_periodic_work_in_which_no_work_is_due() -> None:
    time = frozen()
    rounds: list[int] = []
    asked: list[None] = []

    async def work() -> None:
        rounds.append(time.now().mono_ms)

    def idle_ms() -> None:
        asked.append(None)

    task = asyncio.ensure_future(repeat(time, lambda: 0.1, work, lambda _: None, idle_ms))
    await asyncio.sleep(0)
    assert await time.advance(WEEK_MS) == 0
    assert not rounds
    assert len(asked) <= 2
    task.cancel()


async def test_clock_advance_waits_until_slow_periodic_work_ends() -> None:
    time = MockTime()
    pause_s, gate, ended = 3600.0, asyncio.Event(), list[int]()

    async def work() -> None:
        await gate.wait()
        ended.append(time.now().mono_ms)

    task = asyncio.ensure_future(repeat(time, lambda: pause_s, work, lambda _: None, lambda: 0))
    await asyncio.sleep(0)
    moving = asyncio.ensure_future(time.advance(3_600_000))
    await eventually(lambda: len(time._pauses) == 0)
    asyncio.get_running_loop().call_later(0.05, gate.set)
    assert await moving == 1
    assert len(ended) == 1

    pause_s = 0.0
    await eventually(lambda: len(ended) > 1)
    task.cancel()


# -- waiting


async def test_sleep_and_timeout_follow_the_mock_clock() -> None:
    time = frozen()
    heard: list[str] = []

    async def sleeps() -> None:
        await time.sleep(60)
        heard.append("slept")

    async def hurries() -> None:
        with pytest.raises(TimeoutError):
            async with time.within(30):
                await asyncio.Event().wait()
        heard.append("ended")
        async with time.within(30):
            heard.append("in time")

    tasks = [asyncio.ensure_future(each()) for each in (sleeps, hurries)]
    await asyncio.sleep(0)
    await time.advance(29_999)
    assert heard == []
    await time.advance(30_001)
    assert heard == ["ended", "in time", "slept"]
    await asyncio.gather(*tasks)
    assert len(time._timers) == 0


async def test_only_timers_with_delay_0_fire_under_a_frozen_clock() -> None:
    time = frozen()
    heard: list[str] = []
    time.call_later(0.001, heard.append, "later")
    time.call_later(0, heard.append, "at once")
    await eventually(lambda: heard)
    start_ms = time.real.now().mono_ms
    await eventually(lambda: time.real.now().mono_ms > start_ms + 30)
    assert heard == ["at once"]
    time.run()
    await eventually(lambda: heard == ["at once", "later"])


async def test_real_timers_fire_under_a_frozen_clock() -> None:
    time = frozen()
    heard: list[str] = []
    time.real.call_later(0.01, heard.append, "real")
    await eventually(lambda: heard)
    with pytest.raises(TimeoutError):
        async with time.real.within(0.01):
            await time.sleep(0.001)


async def test_timers_of_a_mock_clock_that_is_not_frozen_fire_when_due() -> None:
    time = MockTime()
    heard: list[int] = []

    def again(number: int) -> None:
        heard.append(number)
        if number < 5:
            time.call_later(0, again, number + 1)

    time.call_later(0.02, heard.append, 100)
    time.call_later(0.01, again, 0)
    await eventually(lambda: 100 in heard and 5 in heard)
    assert [each for each in heard if each != 100] == [0, 1, 2, 3, 4, 5]


async def test_concurrent_advances_run_in_sequence_and_keep_the_clock_frozen() -> None:
    time = MockTime()
    start_ms = time.now().mono_ms
    seen: list[int] = []
    time.call_later(30, time.freeze)
    time.call_later(90, lambda: seen.append(time.now().mono_ms))
    await asyncio.gather(time.advance(60_000), time.advance(60_000))
    assert len(seen) == 1
    assert time.is_frozen
    assert 120_000 <= time.now().mono_ms - start_ms < 150_000
    stood = time.now()
    await eventually(lambda: time.real.now().mono_ms - start_ms > 20)
    assert time.now() == stood


async def test_reset_cancels_timers_and_sleeps_and_restores_the_clock() -> None:
    time = frozen()
    heard: list[str] = []
    sleeping = asyncio.ensure_future(time.sleep(5))
    repeating = asyncio.ensure_future(
        repeat(time, lambda: 5.0, lambda: time.sleep(0), lambda _: None, lambda: 0)
    )
    await asyncio.sleep(0)
    time.call_later(5, heard.append, "of the past")
    await time.advance(1_000)
    await time.set_wall(time.now().wall_ms - 5_000)
    time.reset()

    assert not time.is_frozen
    assert time.ahead_ms == 0
    assert abs(time.now().mono_ms - Time().now().mono_ms) < 1_000
    assert abs(time.wall_s() - Time().wall_s()) < 1
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    with pytest.raises(asyncio.CancelledError):
        await repeating
    assert (len(time._timers), len(time._pauses), len(time._sleepers)) == (0, 0, 0)
    assert await time.advance(10_000) == 0
    assert heard == []


async def test_reset_of_the_clock_ends_an_advance() -> None:
    time = MockTime()
    time.call_later(10, time.reset)
    time.call_later(20, lambda: pytest.fail("of the past"))
    assert await time.advance(60_000) == 1
    assert time.ahead_ms == 0

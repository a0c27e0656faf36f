"""The clock for waiting excludes the broker's own pauses (law 9)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from broker.loop.pause_detector import PauseDetector
from broker.time import TRUSTED_MS, Time

pytestmark = pytest.mark.proves("faults 3")


class SystemTime:
    """A monotonic clock of the system that the test advances."""

    def __init__(self) -> None:
        self.ms = 5_000_000

    def __call__(self) -> float:
        return self.ms / 1000


@pytest.fixture
def system() -> SystemTime:
    return SystemTime()


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


def mono_ms(time: Time) -> int:
    return time.now().mono_ms


def test_clock_without_a_heartbeat_of_the_loop_is_the_systems(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    assert mono_ms(time) == 5_000_000
    system.ms += 3_600_000
    assert mono_ms(time) == 8_600_000


def test_clock_excludes_the_time_in_which_the_loop_was_paused(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    time.loop_lives()
    system.ms += 100
    time.loop_lives()
    assert mono_ms(time) == 5_000_100

    system.ms += 8_000
    assert mono_ms(time) == 5_000_100, "whoever reads first finds the pause left out"
    system.ms += 30
    assert mono_ms(time) == 5_000_100, "and the clock stands until the loop is seen to live"
    time.loop_lives()
    system.ms += 50
    assert mono_ms(time) == 5_000_150
    assert time.left_out_ms == 8_030


def test_long_work_that_reads_the_clock_advances_it_by_trusted_ms_at_most(
    system: SystemTime,
) -> None:
    time = Time(monotonic_s=system)
    time.loop_lives()
    seen = []
    for _ in range(3_000):
        system.ms += 1
        seen.append(mono_ms(time))
    assert seen == sorted(seen), "it never goes back"
    assert seen[-1] == 5_000_000 + TRUSTED_MS


def test_clock_excludes_repeated_pauses(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    time.loop_lives()
    for _ in range(20):
        system.ms += 1_000  # stopped
        time.loop_lives()
        system.ms += 100  # running
        time.loop_lives()
    assert mono_ms(time) == 5_000_000 + 20 * 100


def test_clock_advances_when_the_loop_is_always_late(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    time.loop_lives()
    for _ in range(100):
        for _ in range(3):  # a turn of 300 ms of work for 150 ms of the clock at least
            system.ms += 100
            time.now()
        time.loop_lives()
    assert mono_ms(time) >= 5_000_000 + 100 * 150


def run_in(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_requests_received_during_a_pause_are_read_before_deadlines_expire(
    loop: str, system: SystemTime, lines: list[Any]
) -> None:
    """A member's heartbeat is in the socket; its deadline is 1 ms after the last reading."""

    async def main() -> None:
        time = Time(monotonic_s=system)
        pause_detector = PauseDetector(time)
        pause_detector.start()
        deadline_ms = mono_ms(time) + 1
        told: list[str] = []
        ours, peers = socket.socketpair()
        ours.setblocking(False)
        running = asyncio.get_running_loop()

        def look() -> None:
            """Reads the clock over and over, as a timer of the runtime does."""
            system.ms += 1
            if mono_ms(time) >= deadline_ms:
                told.append("expired")
                ended.set()
            else:
                running.call_soon(look)

        def read() -> None:
            told.append(f"heartbeat {ours.recv(10)!r}")
            running.remove_reader(ours)

        ended = asyncio.Event()
        running.add_reader(ours, read)
        beat = pause_detector._beat

        def late_beat() -> None:
            """Simulates a process that was stopped for 8 s and continues with the timer that is
            due."""
            system.ms += 8_000
            peers.send(b"beat")
            beat()
            look()

        pause_detector._beat = late_beat  # type: ignore[method-assign]
        pause_detector._timer.cancel()  # type: ignore[union-attr]
        pause_detector._arm()
        await asyncio.wait_for(ended.wait(), 30)

        pause_detector._beat = beat  # type: ignore[method-assign]
        pause_detector.stop()
        ours.close()
        peers.close()
        assert told == ["heartbeat b'beat'", "expired"]
        assert pause_detector.pauses == 1
        assert 8.0 <= pause_detector.paused_s < 8.2
        (line,) = lines
        assert line["log_level"] == "warning"
        assert 8_000 <= line["paused_ms"] < 8_200

    run_in(loop, main)


def test_clock_is_the_systems_after_the_pause_detector_stopped(system: SystemTime) -> None:
    async def main() -> None:
        time = Time(monotonic_s=system)
        pause_detector = PauseDetector(time)
        pause_detector.start()
        pause_detector.stop()
        before = mono_ms(time)
        system.ms += 60_000
        assert mono_ms(time) == before + 60_000

    asyncio.run(main())

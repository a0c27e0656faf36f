"""Tests that the broker's clock for timeouts excludes the time in which the broker process was
paused."""

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
    """A monotonic system clock that the test advances."""

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


def test_clock_equals_system_clock_when_pause_detector_is_not_running(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    assert mono_ms(time) == 5_000_000
    system.ms += 3_600_000
    assert mono_ms(time) == 8_600_000


def test_clock_excludes_a_pause_of_the_loop(system: SystemTime) -> None:
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


def test_clock_advances_by_at_most_trusted_ms_while_the_event_loop_is_blocked(
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
        system.ms += 1_000  # The process is stopped.
        time.loop_lives()
        system.ms += 100  # The process runs.
        time.loop_lives()
    assert mono_ms(time) == 5_000_000 + 20 * 100


def test_clock_advances_when_every_event_loop_iteration_is_long(system: SystemTime) -> None:
    time = Time(monotonic_s=system)
    time.loop_lives()
    for _ in range(100):
        for _ in range(3):  # An iteration of 300 ms advances the clock by at least 150 ms.
            system.ms += 100
            time.now()
        time.loop_lives()
    assert mono_ms(time) >= 5_000_000 + 100 * 150


def run_in(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_requests_that_arrive_in_a_pause_are_read_before_deadlines_expire(
    loop: str, system: SystemTime, lines: list[Any]
) -> None:

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
            """Reads the clock repeatedly, as a timer of the group runtime does."""
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
            """Simulates a pause of the process for 8 s, after which an expired timer runs first."""
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


def test_clock_equals_system_clock_after_the_pause_detector_stopped(system: SystemTime) -> None:
    async def main() -> None:
        time = Time(monotonic_s=system)
        pause_detector = PauseDetector(time)
        pause_detector.start()
        pause_detector.stop()
        before = mono_ms(time)
        system.ms += 60_000
        assert mono_ms(time) == before + 60_000

    asyncio.run(main())

"""The `Time` of one broker run follows the clock of the process, until the run is paused or
ends."""

from __future__ import annotations

import asyncio
import inspect

from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.run_time import RunTime
from broker.time import Time


def test_class_run_time_overrides_every_public_method_of_class_time() -> None:
    asked = {name for name, each in vars(Time).items() if inspect.isfunction(each)}
    own = set(vars(RunTime))

    assert {name for name in asked if not name.startswith("_")} - own == set()


async def test_timers_of_an_ended_broker_run_do_not_fire() -> None:
    called = []
    time = RunTime(Time())
    time.call_later(0.01, called.append, "before")
    await asyncio.sleep(0.05)
    time.call_later(0.01, called.append, "behind")

    time.end()
    time.call_later(0.01, called.append, "after")
    await asyncio.sleep(0.1)

    assert called == ["before"]


async def test_threads_and_processes_end_when_their_broker_run_ends() -> None:
    time = RunTime(Time())
    threads = time.threads(1, "one")
    await threads.run(lambda: None)
    process = await time.start_process(["sleep", "60"], {}, 1024)

    time.end()

    assert await process.wait() == -9
    assert threads._executor is None


async def test_timers_due_while_a_broker_is_paused_fire_when_the_broker_continues() -> None:
    whole = MockTime()
    whole.freeze()
    time, fired = RunTime(whole), list[str]()
    time.call_later(2, fired.append, "second")
    time.call_later(1, fired.append, "first")
    waiting = asyncio.create_task(time.sleep(1))
    await asyncio.sleep(0)

    time.hold()
    await whole.advance(3000)
    assert fired == []
    assert not waiting.done()
    time.go_on()

    assert fired == ["first", "second"]
    await waiting


async def test_delayed_timers_of_a_test_broker_do_not_fire_after_the_broker_has_ended() -> None:
    whole = MockTime()
    whole.freeze()
    time, fired = RunTime(whole), list[str]()
    time.call_later(1, fired.append, "held")
    time.hold()
    await whole.advance(1000)

    time.end()
    time.go_on()

    assert fired == []

"""Scenarios in which members of a group restart or lose their connections."""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.churn.world import Process, World

LASTS_MS = 240_000


def _crash_loop(process: Process, up_ms: int, down_ms: int, first_ms: int) -> None:
    """Makes a process crash repeatedly: it is killed ``up_ms`` after each start, and started again
    ``down_ms`` after each kill."""
    world = process.world

    def die() -> None:
        process.kill()
        world.at(down_ms, live)

    def live() -> None:
        process.start()
        world.at(up_ms, die)

    world.at(first_ms, live)


def _healthy(world: World, count: int, static: bool = False) -> list[Process]:
    made = [
        world.process(f"healthy-{number}", instance=f"s{number}" if static else None)
        for number in range(count)
    ]
    for number, process in enumerate(made):
        world.at(1 + 200 * number, process.start)
    return made


def crash_loop_of_one(world: World) -> None:
    """One of two members is killed 7 s after each start and started again 2 s later."""
    _healthy(world, 1)
    _crash_loop(world.process("b"), 7_000, 2_000, 5_000)


def crash_loop_of_three(world: World) -> None:
    """Three of five members are killed repeatedly."""
    _healthy(world, 2)
    for number in range(3):
        process = world.process(f"b{number}")
        _crash_loop(process, 7_000, 2_000, 5_000 + round(process.chance.uniform(0, 9_000)))


def crash_loop_of_all(world: World) -> None:
    """Each of four members is killed 17 to 26 s after each start. The leader can be killed in the
    join phase."""
    for number in range(4):
        process = world.process(f"b{number}")
        first_ms = 1 + round(process.chance.uniform(0, 9_000))
        _crash_loop(process, 17_000 + 3_000 * number, 2_000, first_ms)


def all_restart_at_once(world: World) -> None:
    """Six members are killed at the same time every 40 s, and all are started again within one
    second."""
    made = _healthy(world, 6)
    for at_ms in range(30_000, LASTS_MS, 40_000):
        for process in made:
            world.at(at_ms, process.kill)
            world.at(at_ms + process.chance.uniform(500, 1_500), process.start)


def rolling_restart_of_20(world: World) -> None:
    """Twenty members are stopped or killed one after another, every 8 s, and started 3 s later."""
    for number, process in enumerate(_healthy(world, 20)):
        at_ms = 30_000 + 8_000 * number
        world.at(at_ms, process.kill if number % 4 == 0 else process.stop)
        world.at(at_ms + 3_000, process.start)


def connections_are_cut(world: World) -> None:
    """A proxy closes all connections of six members every 10 s. The members reconnect within 3
    s."""
    made = _healthy(world, 6)
    for at_ms in range(10_000, LASTS_MS, 10_000):
        for process in made:
            world.at(at_ms, lambda it=process: it.cut(it.chance.uniform(100, 3_000)))


def static_crash_loop(world: World) -> None:
    """One of two static members is killed 7 s after each start and started again 2 s later."""
    _healthy(world, 1, static=True)
    _crash_loop(world.process("b", instance="b"), 7_000, 2_000, 5_000)


def slow_static_crash_loop(world: World) -> None:
    """One of two static members is killed, and is started again only after its session has
    expired."""
    _healthy(world, 1, static=True)
    _crash_loop(world.process("b", instance="b"), 7_000, 12_000, 5_000)


def long_back_offs(world: World) -> None:
    """Closes the connections of healthy members at random times, possibly while a request is
    parked. The client reconnects 10 s later.

    One member is static, one member joins without an assigned member id, and one further process
    crashes repeatedly.
    """
    made = _healthy(world, 2)
    made += [world.process("static", instance="s"), world.process("old", has_ids=False)]
    for process in made:
        process.session_ms = 15_000
        if process.instance or not process.has_ids:
            world.at(500, process.start)
        for at_ms in range(10_000, LASTS_MS, 20_000):  # it heartbeats between two closes
            after_ms = at_ms + process.chance.uniform(0, 5_000)
            world.at(after_ms, lambda it=process: it.cut(10_000))
    _crash_loop(world.process("b"), 7_000, 2_000, 5_000)


SCENARIOS: tuple[Callable[[World], None], ...] = (
    crash_loop_of_one,
    crash_loop_of_three,
    crash_loop_of_all,
    all_restart_at_once,
    rolling_restart_of_20,
    connections_are_cut,
    static_crash_loop,
    slow_static_crash_loop,
)

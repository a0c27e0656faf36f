"""Tests of the heap of deadlines, which removes outdated entries lazily."""

from __future__ import annotations

import random

import pytest

from protocol.deadlines import NEVER, Deadlines, Timer


class Named(Timer):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def timer(name: str = "") -> Named:
    return Named(name)


def fired(deadlines: Deadlines[Named], now_ms: int) -> list[str]:
    names = []
    while (next_ms := deadlines.next_ms) is not None and next_ms <= now_ms:
        due = deadlines.pop(now_ms)
        if due is not None:
            names.append(due.name)
    return names


def test_timers_with_the_same_deadline_fire_in_the_order_in_which_they_were_set() -> None:
    deadlines: Deadlines[Named] = Deadlines()
    for name, due_ms in [("c", 30), ("a", 10), ("b", 10)]:
        deadlines.arm(timer(name), due_ms)
    assert deadlines.next_ms == 10
    assert fired(deadlines, 9) == []
    assert fired(deadlines, 30) == ["a", "b", "c"]
    assert deadlines.next_ms is None


def test_postponed_timer_fires_only_at_its_later_deadline() -> None:
    deadlines: Deadlines[Named] = Deadlines()
    session = timer("a")
    deadlines.arm(session, 10)
    session.due_ms = 25  # as a heartbeat does
    assert fired(deadlines, 20) == []
    assert deadlines.next_ms == 25, "the heap was put right when the old entry fell due"
    assert fired(deadlines, 25) == ["a"]


def test_timer_moved_earlier_fires_once_at_its_earlier_deadline() -> None:
    deadlines: Deadlines[Named] = Deadlines()
    session = timer("a")
    deadlines.arm(session, 300)
    deadlines.arm(session, 10)
    assert fired(deadlines, 10) == ["a"]
    assert fired(deadlines, 300) == []


def test_disarmed_timer_does_not_fire_until_it_is_armed_again() -> None:
    deadlines: Deadlines[Named] = Deadlines()
    session = timer("a")
    deadlines.arm(session, 10)
    session.disarm()
    assert fired(deadlines, 100) == []
    deadlines.arm(session, 110)
    assert fired(deadlines, 110) == ["a"]
    assert session.due_ms == NEVER, "who fired is armed no more"


@pytest.mark.parametrize(("slack", "entries"), [(1024, 3000), (32, 40)])
def test_heap_entries_of_disarmed_timers_are_removed(slack: int, entries: int) -> None:
    deadlines: Deadlines[Named] = Deadlines(slack)
    live = timer("live")
    deadlines.arm(live, 10**9)
    for _ in range(20_000):  # members that join and leave, with session timeouts of half an hour
        gone = timer("gone")
        deadlines.arm(gone, 1_800_000)
        gone.disarm()
    assert len(deadlines) < entries
    assert fired(deadlines, 10**9) == ["live"]


@pytest.mark.parametrize("seed", range(5))
def test_random_timers_fire_in_the_order_of_a_sorted_list(seed: int) -> None:
    chance = random.Random(seed)
    deadlines: Deadlines[Named] = Deadlines()
    timers = [timer(str(i)) for i in range(20)]
    now_ms = 0
    for _ in range(2000):
        each = chance.choice(timers)
        match chance.randrange(4):
            case 0:
                deadlines.arm(each, now_ms + chance.randrange(100))
            case 1 if each.due_ms != NEVER:
                each.due_ms += chance.randrange(50)
            case 2:
                each.disarm()
            case _:
                now_ms += chance.randrange(20)
                due = sorted(t.name for t in timers if t.due_ms <= now_ms)
                assert sorted(fired(deadlines, now_ms)) == due
        armed = [t.due_ms for t in timers if t.due_ms != NEVER]
        if armed:
            next_ms = deadlines.next_ms
            assert next_ms is not None
            assert next_ms <= min(armed)

"""Long polls: an append wakes each waiting fetch once per turn, and removed long polls leave no
index entries."""

from __future__ import annotations

import asyncio

from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.long_poll import LongPolls, Waiter
from tests.broker.serving import eventually


class Woken:
    """A long poll that records each wake, and that removes itself at its first wake."""

    def __init__(self, polls: LongPolls, *partitions: tuple[str, int], **fields: int) -> None:
        self.calls: list[bool] = []
        wait_ms = fields.get("wait_ms", 60_000)
        self.waiter = Waiter(
            partitions,
            Time().now().mono_ms + wait_ms,
            fields.get("missing_bytes", 1),
            self._wake,
        )
        self.polls = polls
        polls.wait(self.waiter)

    def _wake(self, due: bool) -> None:
        self.calls.append(due)
        self.polls.forget(self.waiter)


async def test_two_appends_in_one_turn_wake_a_waiting_fetch_once() -> None:
    polls = LongPolls(Time())
    woken, other = Woken(polls, ("t", 0)), Woken(polls, ("t", 1))

    polls.appended("t", 0, 10)
    polls.appended("t", 0, 10)
    assert woken.calls == []
    await eventually("the wake", lambda: woken.calls)

    assert woken.calls == [False]
    assert other.calls == []
    assert len(polls) == 1


async def test_waiting_fetch_is_woken_when_min_bytes_have_arrived() -> None:
    polls = LongPolls(Time())
    woken = Woken(polls, ("t", 0), missing_bytes=100)
    witness = Woken(polls, ("t", 0))

    polls.appended("t", 0, 99)
    await eventually("the other's wake", lambda: witness.calls)
    assert woken.calls == []
    polls.appended("t", 0, 1)

    await eventually("the wake", lambda: woken.calls)


async def test_waiting_fetch_is_woken_at_its_deadline() -> None:
    polls = LongPolls(Time())
    late = Woken(polls, ("t", 0), wait_ms=60_000)
    soon = Woken(polls, ("t", 0), wait_ms=20)

    await eventually("the deadline", lambda: soon.calls)

    assert soon.calls == [True]
    assert late.calls == []


async def test_function_wake_topic_wakes_the_waiting_fetches_of_all_partitions() -> None:
    polls = LongPolls(Time())
    first, second, other = (
        Woken(polls, ("t", 0)),
        Woken(polls, ("t", 5)),
        Woken(polls, ("u", 0)),
    )

    polls.wake_topic("t")
    await eventually("both", lambda: first.calls and second.calls)

    assert other.calls == []


async def test_stop_wakes_every_waiting_fetch() -> None:
    polls = LongPolls(Time())
    waiting = [Woken(polls, ("t", n)) for n in range(5)]

    polls.stop()

    assert [woken.calls for woken in waiting] == [[True]] * 5


async def test_removed_long_polls_leave_no_entries_in_the_indexes_of_waiting_fetches() -> None:
    polls = LongPolls(Time())
    for _ in range(1000):
        woken = Woken(polls, ("t", 0))
        polls.forget(woken.waiter)

    assert len(polls) == 0
    assert len(polls._heap) < 200
    assert polls._by_partition == {}
    assert not polls.by_topic


async def test_long_poll_is_woken_by_an_append_and_again_at_its_deadline() -> None:
    polls = LongPolls(Time())
    calls: list[bool] = []
    waiter = Waiter([("t", 0)], Time().now().mono_ms + 50, 1, calls.append)
    polls.wait(waiter)

    polls.appended("t", 0, 1)
    await eventually("the first wake", lambda: calls == [False])
    await eventually("the deadline", lambda: calls == [False, True])
    polls.forget(waiter)
    await asyncio.sleep(0)
    assert len(polls) == 0


async def test_exception_of_a_waiting_fetch_does_not_delay_other_fetches() -> None:
    errors = InternalErrors()
    polls = LongPolls(Time(), errors)

    def fail(due: bool) -> None:
        raise RuntimeError(due)

    now_ms = Time().now().mono_ms
    polls.wait(Waiter([("t", 0)], now_ms + 60_000, 1, fail))
    woken = Woken(polls, ("t", 0))
    polls.appended("t", 0, 10)
    await eventually("the wake", lambda: woken.calls == [False])

    polls.wait(Waiter([("t", 0)], now_ms + 20, 1, fail))
    late = Woken(polls, ("t", 0), wait_ms=30)
    await eventually("the deadline", lambda: late.calls == [True])
    assert errors.counts["waiter"] == 2
    assert not len(polls), "none of them waits on"

"""Tests of the broker's clock. A test sets this clock, or makes it follow the test's own patched
clock."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from freezegun import freeze_time

from musterd.testing import AsyncMuster, Muster, MusterError
from tests.musterd.testing.clients import consuming
from tests.waiting import until

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


def real_now() -> datetime:
    return datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), UTC)


def asked(broker: Muster) -> dict[str, object]:
    """Returns the clocks of the broker, read over HTTP without the class `Muster`."""
    with urllib.request.urlopen(f"{broker.http}/test/time") as answer:
        told: dict[str, object] = json.load(answer)
        return told


# The test sets the clock


def test_broker_clock_follows_the_system_clock_until_advance_is_called(muster: Muster) -> None:
    assert abs(muster.time.now() - real_now()) < timedelta(seconds=5)

    muster.time.advance(days=8, hours=1)

    assert abs(muster.time.now() - real_now() - timedelta(days=8, hours=1)) < timedelta(seconds=5)


def test_advance_accepts_a_timedelta_and_returns_the_time(muster: Muster) -> None:
    muster.time.freeze()
    before = muster.time.now()

    assert muster.time.advance(timedelta(minutes=1), milliseconds=5) == before + timedelta(
        minutes=1, milliseconds=5
    )
    assert muster.time.now() == before + timedelta(minutes=1, milliseconds=5)


def test_advance_rejects_a_negative_duration(muster: Muster) -> None:
    with pytest.raises(
        MusterError, match="can't set the broker's time back by 0:01:00: it only advances"
    ):
        muster.time.advance(minutes=-1)


def test_frozen_broker_clock_does_not_advance(muster: Muster) -> None:
    with muster.time.freeze():
        first, began = muster.time.now(), real_now()
        until("some time has passed", lambda: real_now() - began > timedelta(milliseconds=20))
        assert muster.time.now() == first

    until("it runs", lambda: muster.time.now() > first)
    assert not asked(muster)["is_frozen"]


def test_advance_expires_sessions_before_it_returns(muster: Muster) -> None:
    muster.create_topic("orders")
    with consuming(muster, "billing", session_timeout_ms=45000, heartbeat_interval_ms=20000):
        muster.wait_for("billing").stable(members=1)

        muster.time.advance(seconds=46)

        assert any("expired" in event.sentence for event in muster.journal("billing"))


# The broker follows the test's clock


def test_broker_clock_follows_freezegun(muster: Muster) -> None:
    with freeze_time(NEW_YEAR) as frozen, muster.time.follow():
        assert muster.time.now() == NEW_YEAR
        assert muster.time.now() == NEW_YEAR

        frozen.tick(timedelta(minutes=10))
        assert muster.time.now() == NEW_YEAR + timedelta(minutes=10)

        frozen.move_to(NEW_YEAR + timedelta(days=3))
        assert muster.time.now() == NEW_YEAR + timedelta(days=3)

        frozen.move_to(NEW_YEAR)  # the broker's monotonic clock does not go back
        assert muster.time.now() == NEW_YEAR

    assert not asked(muster)["is_frozen"]


def test_broker_clock_follows_time_machine(muster: Muster) -> None:
    with time_machine.travel(NEW_YEAR, tick=False) as traveller, muster.time.follow():
        assert muster.time.now() == NEW_YEAR

        traveller.shift(timedelta(minutes=10))
        assert muster.time.now() == NEW_YEAR + timedelta(minutes=10)

        traveller.move_to(NEW_YEAR + timedelta(days=3))
        assert muster.time.now() == NEW_YEAR + timedelta(days=3)

    assert not asked(muster)["is_frozen"]


@pytest.mark.parametrize("library", ["freezegun", "time-machine"])
def test_broker_clock_follows_a_mocked_test_clock_that_is_not_frozen(
    muster: Muster, library: str
) -> None:
    moved = (
        freeze_time(NEW_YEAR, tick=True)
        if library == "freezegun"
        else time_machine.travel(NEW_YEAR, tick=True)
    )
    with moved, muster.time.follow():
        first = muster.time.now()
        assert NEW_YEAR <= first < NEW_YEAR + timedelta(seconds=5)
        until("it goes on", lambda: muster.time.now() > first + timedelta(milliseconds=20))
        assert not asked(muster)["is_frozen"]


def test_broker_clock_has_the_real_time_until_the_test_freezes_time(muster: Muster) -> None:
    with muster.time.follow():
        assert abs(muster.time.now() - real_now()) < timedelta(seconds=5)
        assert asked(muster)["ahead_ms"] == 0
        with freeze_time(NEW_YEAR):
            assert muster.time.now() == NEW_YEAR


def test_broker_clock_follows_the_test_clock_without_a_call_of_a_muster_method(
    muster: Muster,
) -> None:
    with freeze_time(NEW_YEAR) as frozen, muster.time.follow():
        frozen.tick(timedelta(hours=1))
        later = int((NEW_YEAR + timedelta(hours=1)).timestamp() * 1000)

        until("it was told", lambda: asked(muster)["wall_ms"] == later)


def test_session_expires_when_the_followed_test_clock_passes_its_timeout(muster: Muster) -> None:
    muster.create_topic("orders")
    with (
        freeze_time(NEW_YEAR) as frozen,
        muster.time.follow(),
        consuming(muster, "billing", session_timeout_ms=45000, heartbeat_interval_ms=20000),
    ):
        muster.wait_for("billing").stable(members=1)
        frozen.tick(timedelta(seconds=46))

        assert any("expired" in event.sentence for event in muster.journal("billing"))


def test_advance_is_rejected_while_the_broker_follows_the_test_clock(muster: Muster) -> None:
    with muster.time.follow():
        with pytest.raises(MusterError, match=r"follows the test's clock"):
            muster.time.advance(minutes=1)
        muster.time.run()  # the broker stops following the test's clock
        muster.time.advance(minutes=1)


def test_reset_makes_the_broker_stop_following_the_test_clock(muster: Muster) -> None:
    with freeze_time(NEW_YEAR), muster.time.follow():
        muster.reset()
        assert abs(muster.time.now() - real_now()) < timedelta(seconds=5)


def test_method_wait_for_times_out_while_freezegun_or_time_machine_freezes_the_clock(
    muster: Muster,
) -> None:
    with freeze_time(NEW_YEAR), pytest.raises(AssertionError, match=r"timeout after 0\.1 s"):
        muster.wait_for("billing", timeout_s=0.1).stable()
    with (
        time_machine.travel(NEW_YEAR, tick=False),
        pytest.raises(AssertionError, match=r"timeout after 0\.1 s"),
    ):
        muster.wait_for("billing", timeout_s=0.1).stable()


def test_broker_starts_and_ends_while_the_test_clock_is_frozen() -> None:
    with freeze_time(NEW_YEAR), Muster() as broker, broker.time.follow():
        assert broker.time.now() == NEW_YEAR


@pytest.mark.parametrize("real_asyncio", [False, True])
def test_async_muster_follows_the_test_clock(real_asyncio: bool) -> None:
    async def story() -> None:
        async with AsyncMuster() as broker:
            with freeze_time(NEW_YEAR, real_asyncio=real_asyncio) as frozen:
                async with broker.time.follow():
                    assert await broker.time.now() == NEW_YEAR
                    frozen.tick(timedelta(minutes=10))
                    assert await broker.time.now() == NEW_YEAR + timedelta(minutes=10)
                with pytest.raises(AssertionError, match=r"timeout after 0\.1 s"):
                    await broker.wait_for("billing", timeout_s=0.1).stable()

    asyncio.run(story())

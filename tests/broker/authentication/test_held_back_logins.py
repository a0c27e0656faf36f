"""Tests delayed logins in virtual time, together with failing logins from the same address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.authentication.guesses import FAILURES_AT_ONCE, NAMES_MAX, TURN_MS
from protocol.errors import NONE, SASL_AUTHENTICATION_FAILED
from tests.broker.authentication.letting_in import LISTENER
from tests.broker.authentication.virtual import LoginWorld
from tests.simulation.whole.agenda import MS

AT_ONCE_S = 0.05
"""The maximum duration in seconds of a login that the broker does not delay. The network is
simulated."""
HELD_BACK = 30


@pytest.fixture
def world() -> Iterator[LoginWorld]:
    made = LoginWorld()
    yield made
    made.end()


def failures(world: LoginWorld) -> int:
    return world.logins.counts[LISTENER, "PLAIN", "failure"]  # type: ignore[index]


def test_login_is_not_delayed_when_30_failed_logins_of_another_user_wait(
    world: LoginWorld,
) -> None:
    bad = [world.log_in("alice", "wrong") for _ in range(FAILURES_AT_ONCE + 1 + HELD_BACK)]
    world.run(0.4)
    assert sum(each.took_s is None for each in bad) >= HELD_BACK - 2

    good = [world.log_in("bob", "bob-secret") for _ in range(5)]
    same_user = world.log_in("alice", "alice-secret")
    world.run(0.4)

    assert [each.code for each in good] == [NONE] * 5
    assert max(each.took_s or 9 for each in good) < AT_ONCE_S
    assert same_user.took_s is None, "the name that is being guessed waits, right or wrong"
    world.run(20)
    assert {each.code for each in bad} == {SASL_AUTHENTICATION_FAILED}
    assert same_user.code == NONE
    assert world.logins.strangers == 0


@pytest.mark.parametrize("names", [HELD_BACK, 200])
def test_login_of_a_known_user_is_not_delayed_when_logins_of_many_names_fail(
    world: LoginWorld, names: int
) -> None:
    world.log_in("bob", "bob-secret")
    world.run(0.4)
    for number in range(names):
        world.log_in(f"name-{number}", "wrong")
    world.run(0.4)

    good = [world.log_in("bob", "bob-secret") for _ in range(5)]
    new_user = world.log_in("alice", "alice-secret")
    world.run(0.4)

    assert max(each.took_s or 9 for each in good) < AT_ONCE_S
    if names == HELD_BACK:
        assert new_user.code == NONE


@pytest.mark.parametrize("closes", [False, True], ids=["stays", "closes_early"])
@pytest.mark.parametrize("names", [1, 10_000], ids=["one_name", "a_name_a_login"])
def test_number_of_password_guesses_in_4_s_is_bounded_per_address(
    world: LoginWorld, names: int, closes: bool
) -> None:
    """The client guesses 250 passwords per second for 4 s, each on a new connection."""
    tried = 0
    for _ in range(100):
        for _ in range(10):
            login = world.log_in(f"name-{tried % names}", f"guess-{tried}")
            if closes:
                world.agenda.after(5 * MS, login.wire.close)
            tried += 1
        world.run(0.04)

    own_rows = 0 if names == 1 else NAMES_MAX
    by_turns = 4000 // TURN_MS
    assert failures(world) <= own_rows + FAILURES_AT_ONCE + 1 + by_turns
    assert failures(world) >= FAILURES_AT_ONCE


def test_victim_of_password_guesses_logs_in_without_delay_from_another_address(
    world: LoginWorld,
) -> None:
    for _ in range(FAILURES_AT_ONCE + HELD_BACK):
        world.log_in("bob", "wrong", "10.0.0.9")
    world.run(0.1)
    there, elsewhere = (world.log_in("bob", "bob-secret", f"10.0.0.{each}") for each in (9, 10))
    world.run(0.15)
    assert (there.took_s, elsewhere.code) == (None, NONE)

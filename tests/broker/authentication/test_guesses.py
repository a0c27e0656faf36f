"""Tests the delay of logins after failed logins with the same user name and address."""

from __future__ import annotations

from broker.authentication.guesses import (
    ADDRESSES_MAX,
    FAILURES_AT_ONCE,
    LET_IN_MAX,
    NAME_KEPT_MS,
    NAMES_MAX,
    TURN_MS,
    WAIT_MS_MAX,
    Guesses,
)

HOST, ALICE = "10.0.0.9", "alice"
LATEST_MS = (FAILURES_AT_ONCE + 1) * TURN_MS + WAIT_MS_MAX


def fail(guesses: Guesses, name: str, times: int, host: str = HOST, now_ms: int = 0) -> None:
    for _ in range(times):
        guesses.judged(host, name, now_ms, is_right=False)


def spray(guesses: Guesses, names: int, now_ms: int = 0) -> None:
    for number in range(names):
        fail(guesses, f"name-{number}", 1, now_ms=now_ms)


def test_logins_of_a_user_name_are_checked_one_by_one_after_failed_logins() -> None:
    guesses = Guesses()
    for _ in range(FAILURES_AT_ONCE):
        assert guesses.wait_ms(HOST, ALICE, 0) == 0
        fail(guesses, ALICE, 1)
    assert guesses.wait_ms(HOST, ALICE, 0) == 0
    fail(guesses, ALICE, 1)
    assert guesses.wait_ms(HOST, ALICE, 0, may_wait=False) is None
    assert [guesses.wait_ms(HOST, ALICE, 0) for _ in range(3)] == [200, 400, 600]
    assert guesses.wait_ms("10.0.0.10", ALICE, 0) == 0
    assert guesses.wait_ms(HOST, "bob", 0) == 0


def test_login_delay_ends_within_seconds_after_any_number_of_failures() -> None:
    guesses = Guesses()
    fail(guesses, ALICE, 100_000)
    assert guesses.wait_ms(HOST, ALICE, 0) is None
    assert guesses.wait_ms(HOST, ALICE, TURN_MS) == WAIT_MS_MAX
    assert guesses.wait_ms(HOST, ALICE, TURN_MS) is None, "the last turn is taken"
    assert guesses.wait_ms(HOST, ALICE, LATEST_MS + TURN_MS) == 0


def test_user_names_beyond_the_maximum_per_address_share_one_login_queue() -> None:
    guesses = Guesses()
    spray(guesses, NAMES_MAX + FAILURES_AT_ONCE)
    assert guesses.wait_ms(HOST, "another", 0) == 0
    spray(guesses, NAMES_MAX + 2)
    assert [guesses.wait_ms(HOST, name, 0) for name in ("another", "third")] == [400, 600]
    assert guesses.wait_ms(HOST, "name-0", 0) == 0, "it has a row of its own, with two failures"
    spray(guesses, 10_000)
    assert len(guesses._clear_ms[HOST]) == NAMES_MAX + 1


def test_expired_login_failures_are_removed_only_when_the_next_failure_is_added() -> None:
    """If the failures were removed earlier, a client that tries each name once would never exceed
    the maximum number of names."""
    guesses = Guesses()
    spray(guesses, NAMES_MAX)
    later_ms = NAME_KEPT_MS
    fail(guesses, "x", 1, now_ms=later_ms)
    assert len(guesses._clear_ms[HOST]) == NAMES_MAX + 1
    fail(guesses, "x", 1, now_ms=later_ms + TURN_MS)
    assert len(guesses._clear_ms[HOST]) == 2, "the shared row, and x"


def test_logged_in_user_keeps_its_own_login_queue_when_logins_of_other_names_fail() -> None:
    guesses = Guesses()
    guesses.judged(HOST, ALICE, 0, is_right=True)
    spray(guesses, 1000)
    assert guesses.wait_ms(HOST, "another", 0) is None
    assert guesses.wait_ms(HOST, ALICE, 0) == 0
    assert guesses.wait_ms("10.0.0.10", ALICE, 0) == 0
    fail(guesses, ALICE, FAILURES_AT_ONCE + 1)
    assert guesses.wait_ms(HOST, ALICE, 0) == TURN_MS, "it is not guessed faster than others"


def test_number_of_stored_login_failures_is_bounded_over_all_addresses() -> None:
    guesses = Guesses()
    for number in range(ADDRESSES_MAX + 1):
        fail(guesses, ALICE, 1, f"host-{number}")
    assert len(guesses) == ADDRESSES_MAX
    for number in range(LET_IN_MAX + 1):
        guesses.judged(HOST, f"user-{number}", 0, is_right=True)
    assert len(guesses._let_in) == LET_IN_MAX
    fail(guesses, "n" * 10_000_000, 1)
    assert max(map(len, guesses._clear_ms[HOST])) == 16, "a name's digest, not the name"

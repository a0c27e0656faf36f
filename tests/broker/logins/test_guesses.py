"""How long tries from an address wait: pure arithmetic on its failures."""

from __future__ import annotations

from broker.logins.guesses import (
    ADDRESSES_MAX,
    FAILURES_AT_ONCE,
    TURN_MS,
    WAIT_MS_MAX,
    Guesses,
    network_of,
)

HOST = "10.0.0.9"
LATEST_MS = (FAILURES_AT_ONCE + 1) * TURN_MS + WAIT_MS_MAX


def test_beyond_a_few_failures_each_try_has_a_turn_of_its_own() -> None:
    guesses = Guesses()
    for _ in range(FAILURES_AT_ONCE):
        assert guesses.wait_ms(HOST, 0) == 0
        guesses.failed(HOST, 0)
    assert guesses.wait_ms(HOST, 0) == 0
    guesses.failed(HOST, 0)
    assert [guesses.wait_ms(HOST, 0) for _ in range(3)] == [200, 400, 600]
    assert guesses.wait_ms("10.0.0.10", 0) == 0


def test_however_many_fail_together_they_are_forgotten_in_seconds() -> None:
    guesses = Guesses()
    for _ in range(100_000):
        guesses.failed(HOST, 0)
    assert guesses.wait_ms(HOST, 0) is None
    assert guesses.wait_ms(HOST, TURN_MS) == WAIT_MS_MAX
    assert guesses.wait_ms(HOST, TURN_MS) is None, "the last turn is taken"
    assert guesses.wait_ms(HOST, LATEST_MS + TURN_MS) == 0


def test_the_addresses_that_failed_longest_ago_are_forgotten() -> None:
    guesses = Guesses()
    for number in range(ADDRESSES_MAX + 1):
        guesses.failed(f"host-{number}", 0)
    assert len(guesses) == ADDRESSES_MAX


def test_addresses_of_one_network_of_ipv6_are_one() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2:9:9:9:9")
    assert network_of("10.0.0.9") == "10.0.0.9"

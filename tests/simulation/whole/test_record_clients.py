"""Tests of the checker `Records` with responses that were sent before a power failure and arrive
after it."""

import pytest

from tests.simulation.whole.agenda import S
from tests.simulation.whole.record_clients import LEDGER, STREAM, Records
from tests.simulation.whole.world import World


def records_after_a_power_failure(topic: str) -> Records:
    """Returns the `Records` of a topic after a power failure at 10 s. No record was fsynced before
    the power failure."""
    world = World(0)
    world.agenda.now_ns = 10 * S
    records = Records(world, topic, 0)
    records.power_fails()
    return records


def test_checker_allows_loss_of_an_unflushed_record_fetched_before_a_power_failure() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=9 * S)
    records.heard(3, b"once 1", asked_ns=11 * S)

    assert records.known == {3: b"once 1"}


def test_checker_detects_the_loss_of_a_record_that_was_produced_after_a_power_failure() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=11 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()


def test_checker_detects_that_a_power_failure_lost_a_fetched_record_of_a_flushed_topic() -> None:
    records = records_after_a_power_failure(LEDGER)

    records.heard(7, b"once 1", asked_ns=9 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()

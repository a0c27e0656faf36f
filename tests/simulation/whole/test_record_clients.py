"""What the checker of records believes of answers that are heard late."""

import pytest

from tests.simulation.whole.agenda import S
from tests.simulation.whole.record_clients import LEDGER, STREAM, Records
from tests.simulation.whole.world import World


def records_after_a_power_failure(topic: str) -> Records:
    """Nothing of the topic was flushed when the power failed, at 10 s."""
    world = World(0)
    world.agenda.now_ns = 10 * S
    records = Records(world, topic, 0)
    records.power_fails()
    return records


def test_an_answer_of_before_the_power_failed_tells_nothing_of_what_was_not_flushed() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=9 * S)
    records.heard(3, b"once 1", asked_ns=11 * S)

    assert records.known == {3: b"once 1"}


def test_what_is_asked_after_the_power_failed_must_stay() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=11 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()


def test_an_answer_that_says_what_is_flushed_is_believed_however_late() -> None:
    records = records_after_a_power_failure(LEDGER)

    records.heard(7, b"once 1", asked_ns=9 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()

"""The checker of records treats late responses correctly."""

import pytest

from tests.simulation.whole.agenda import S
from tests.simulation.whole.record_clients import LEDGER, STREAM, Records
from tests.simulation.whole.world import World


def records_after_a_power_failure(topic: str) -> Records:
    """Returns records of a topic of which nothing was flushed before a power failure at 10 s."""
    world = World(0)
    world.agenda.now_ns = 10 * S
    records = Records(world, topic, 0)
    records.power_fails()
    return records


def test_response_from_before_a_power_failure_proves_only_flushed_records() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=9 * S)
    records.heard(3, b"once 1", asked_ns=11 * S)

    assert records.known == {3: b"once 1"}


def test_record_read_after_a_power_failure_must_not_be_lost() -> None:
    records = records_after_a_power_failure(STREAM)

    records.heard(7, b"once 1", asked_ns=11 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()


def test_late_response_of_a_flushed_topic_proves_its_record() -> None:
    records = records_after_a_power_failure(LEDGER)

    records.heard(7, b"once 1", asked_ns=9 * S)

    with pytest.raises(AssertionError, match="b'once 1' at 7 is None"):
        records.check()

"""A transaction ends while its offset commits are in flight on other connections, in Muster and in
Kafka. Each commit belongs to its transaction or is rejected, and aborted offsets stay aborted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Broker, KafkaBroker, make_broker, running
from tests.interop.overlapping import LATE, STREAMS, Overlapped, overlap

ROUNDS = 40
"""The number of rounds. Six rounds are enough to detect a coordinator that stores a commit after
the marker of its transaction."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Yields the broker under test, and Apache Kafka 4.3.1."""
    folder = tmp_path_factory.mktemp("overlapping")
    tested, kafka = make_broker(folder / "tested" / "data"), KafkaBroker(folder / "kafka" / "data")
    with running(tested, kafka):
        yield tested, kafka


@pytest.mark.interop
@pytest.mark.parametrize("rules", [1, 2])
def test_commits_during_an_abort_are_rejected_as_in_kafka(
    both: tuple[Broker, Broker], name: str, rules: int
) -> None:
    refused = Overlapped(ROUNDS)
    refused.late[LATE[rules]] = ROUNDS * STREAMS

    found = [overlap(broker.port, name, rules, ROUNDS) for broker in both]

    assert found == [refused, refused]

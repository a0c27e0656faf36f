"""Muster returns the same responses about share groups (KIP-932) as Apache Kafka 4.3.1, and writes
the same records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.topic_calls import create_topic
from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.interop.consumer_group_walks import OFFSETS_TOPIC, OTHER, PARTITIONS, TOPIC, Side
from tests.interop.share_group_walks import share_differences
from tests.interop.test_consumer_groups_as_kafka import serves_groups
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
OF_KAFKA = {
    "group.coordinator.append.linger.ms": "0",
    "share.coordinator.append.linger.ms": "0",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}
STEPS = 150


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Yields Muster and Kafka, which have the same topics."""
    folder = tmp_path_factory.mktemp("share-groups")
    muster = Broker(folder / "muster" / "data", SETTINGS)
    kafka = KafkaBroker(folder / "kafka" / "data", {**SETTINGS, **OF_KAFKA})
    with running(muster, kafka):
        both = Side(muster.port), Side(kafka.port)
        for side in both:
            create_topic(side.wire, TOPIC, PARTITIONS)
            create_topic(side.wire, OTHER, 7)
            until("the coordinator serves groups", lambda side=side: serves_groups(side))
            side.learn(TOPIC, OTHER, OFFSETS_TOPIC)
        yield both


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.proves("share 9")
def test_random_share_group_requests_have_the_same_responses_and_records_as_in_kafka(
    sides: tuple[Side, Side], seed: int
) -> None:
    found = share_differences(seed, *sides, STEPS)
    assert not found, "\n".join(found)

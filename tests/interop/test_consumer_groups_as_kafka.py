"""Muster returns the same responses about consumer groups (KIP-848) as Apache Kafka 4.3.1, and
writes the same records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.topic_calls import create_topic
from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.interop.consumer_group_walks import (
    OFFSETS_TOPIC,
    OTHER,
    PARTITIONS,
    TOPIC,
    Side,
    differences,
)
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
STEPS = 200


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Yields Muster and Kafka, which have the same topic."""
    folder = tmp_path_factory.mktemp("consumer-groups")
    muster = Broker(folder / "muster" / "data", SETTINGS)
    linger = {"group.coordinator.append.linger.ms": "0"}
    kafka = KafkaBroker(folder / "kafka" / "data", {**SETTINGS, **linger})
    with running(muster, kafka):
        both = Side(muster.port), Side(kafka.port)
        for side in both:
            create_topic(side.wire, TOPIC, PARTITIONS)
            create_topic(side.wire, OTHER, 3)
            until("the coordinator serves groups", lambda side=side: serves_groups(side))
            side.learn(TOPIC, OTHER, OFFSETS_TOPIC)
        yield both


def serves_groups(side: Side) -> bool:
    value = {"key": "", "key_type": 0, "coordinator_keys": ["g"]}
    found = side.wire.call("FindCoordinator", 4, value)
    groups = {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}
    read = side.wire.call("OffsetFetch", 8, groups)
    return not (found["coordinators"][0]["error_code"] or read["groups"][0]["error_code"])


@pytest.mark.parametrize("seed", range(20))
def test_random_group_gets_the_same_responses_and_records_as_in_kafka(
    sides: tuple[Side, Side], seed: int
) -> None:
    assert differences(seed, *sides, STEPS) == []

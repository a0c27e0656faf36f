"""Muster returns the same responses about streams groups (KIP-1071) as Apache Kafka 4.3.1, and
writes the same records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.interop.consumer_group_walks import Side
from tests.interop.streams_churn import Churn
from tests.interop.streams_group_side import JOINING, StreamsSide, heartbeat
from tests.interop.streams_group_walks import IS_NEWER, comparable, streams_differences
from tests.interop.streams_topologies import source_topics, subtopology, topology
from tests.interop.test_consumer_groups_as_kafka import serves_groups
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
STEPS = 150
DELAY_MS = 1_000


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("streams-groups")
    muster = Broker(folder / "muster" / "data", SETTINGS)
    linger = {"group.coordinator.append.linger.ms": "0"}
    kafka = KafkaBroker(folder / "kafka" / "data", {**SETTINGS, **linger})
    with running(muster, kafka):
        both = Side(muster.port), Side(kafka.port)
        for side in both:
            until("the coordinator serves groups", lambda side=side: serves_groups(side))
        yield both


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.proves("streams 1")
def test_random_streams_group_requests_have_the_same_responses_and_records_as_in_kafka(
    sides: tuple[Side, Side], seed: int
) -> None:
    muster, kafka = sides
    found = streams_differences(seed, muster.wire, kafka.wire, STEPS)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.proves("streams 3")
def test_task_assignment_obeys_the_rules_in_muster_and_kafka_after_any_change(
    sides: tuple[Side, Side], seed: int
) -> None:
    churns = [Churn(seed, StreamsSide(side.wire, f"churn-{seed}")) for side in sides]
    for churn in churns:
        churn.start()
    for _ in range(8):
        found = []
        for churn in churns:
            for _ in range(6):
                churn.step()
            found.append(churn.settle())
        assert found[0] == found[1]  # the epoch of the group


def _delayed(side: StreamsSide) -> list[Any]:
    """Creates a group with an initial rebalance delay. Returns the responses to the group's
    members, from the first join until each member has tasks."""
    side.create_topics()
    setting = {
        "name": "streams.initial.rebalance.delay.ms",
        "config_operation": 0,
        "value": str(DELAY_MS),
    }
    resource = {"resource_type": 32, "resource_name": side.group, "configs": [setting]}
    value = {"resources": [resource], "validate_only": False}
    (altered,) = side.call("IncrementalAlterConfigs", 1, value)["responses"]
    assert altered["error_code"] == 0
    shape = topology(subtopology("0", next(iter(source_topics(side.group)))))
    members = {"m1": "p1"} if IS_NEWER else {"m1": "p1", "m3": "p2"}
    seen = [
        side.call(
            "StreamsGroupHeartbeat",
            0,
            heartbeat(
                side.group, member, 0, **{**JOINING, "process_id": process, "topology": shape}
            ),
        )
        for member, process in members.items()
    ]
    assert {each["member_epoch"] for each in seen} == {1}

    def assigned(member: str) -> Any:
        value = heartbeat(side.group, member, 1)
        reply = side.call("StreamsGroupHeartbeat", 0, value)
        return reply if reply["active_tasks"] else None

    seen += [until("tasks", lambda member=member: assigned(member)) for member in members]
    return [comparable(each) for each in seen]


@pytest.mark.proves("streams 2")
def test_first_assignment_of_a_group_is_delayed_as_in_kafka(sides: tuple[Side, Side]) -> None:
    muster, kafka = (StreamsSide(side.wire, "delayed") for side in sides)
    assert _delayed(muster) == _delayed(kafka)
    assert muster.records() == kafka.records()

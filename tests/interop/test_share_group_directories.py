"""Muster and Apache Kafka 4.3.1 open each other's directories with share groups (KIP-932), and the
members continue.

Kafka creates the topic, so that both brokers use the same topic id. Then one broker writes the
groups, the other broker opens the directory and continues, and the first broker opens it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import KIND, Broker, KafkaBroker
from tests.interop.cluster import Cluster
from tests.interop.test_consumer_group_directories import serves_groups
from tests.interop.test_share_groups_as_kafka import OF_KAFKA, SETTINGS
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="both brokers take part in any case"),
]
TOPIC, PARTITIONS = "apples", 4
KINDS = ("muster", "kafka")
UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND = 25, 69


class Client:
    """Sends requests of group members to the broker that currently runs."""

    def __init__(self, broker: Broker) -> None:
        self.cluster = Cluster(broker.bootstrap)

    def beat(self, group: str, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
        value = {"group_id": group, "member_id": member, "member_epoch": epoch, **fields}
        return self.cluster.call("ShareGroupHeartbeat", 1, **value)

    def joined(self, group: str, member: str) -> int:
        """Lets a member join. Returns the member epoch at which it has partitions."""
        epoch = self.beat(group, member, 0, subscribed_topic_names=[TOPIC])["member_epoch"]

        def has_partitions() -> int:
            nonlocal epoch
            reply = self.beat(group, member, epoch, subscribed_topic_names=[TOPIC])
            assert reply["error_code"] == 0, reply
            epoch = reply["member_epoch"]
            return epoch if partitions(reply["assignment"]) else 0

        return until("an assignment", has_partitions)

    def described(self, group: str) -> dict[str, Any]:
        asked = {"group_ids": [group], "include_authorized_operations": False}
        [found] = self.cluster.call("ShareGroupDescribe", 1, **asked)["groups"]
        return {
            "error": found["error_code"],
            "state": found["group_state"],
            "epochs": (found["group_epoch"], found["assignment_epoch"]),
            "members": sorted(
                (
                    each["member_id"],
                    each["member_epoch"],
                    each["subscribed_topic_names"],
                    partitions(each["assignment"]),
                )
                for each in found["members"]
            ),
        }


def partitions(assignment: Any) -> list[int]:
    topics = assignment["topic_partitions"] if assignment else ()
    return sorted(number for topic in topics for number in topic["partitions"])


@pytest.fixture
def kinds(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    """Yields Muster and Kafka with the same data directory, in which Kafka has created the
    topic."""
    kafka = KafkaBroker(tmp_path / "data", {**SETTINGS, **OF_KAFKA, "log.cleaner.enable": "false"})
    muster = Broker(tmp_path / "data", SETTINGS)
    kafka.start()
    Cluster(kafka.bootstrap).create_topic(TOPIC, PARTITIONS)
    until("Kafka serves groups", lambda: serves_groups(kafka))
    yield {"kafka": kafka, "muster": muster}
    muster.kill()
    kafka.kill()


def started(broker: Broker) -> Client:
    """Starts a broker. Returns a client when the broker has loaded the groups."""
    broker.start()
    until("groups are served", lambda: serves_groups(broker))
    return Client(broker)


def write(client: Client) -> None:
    """Creates a group with two members, an empty group, and a group that is then deleted."""
    client.joined("two", "m1")
    client.joined("two", "m2")
    for group in ("empty", "deleted"):
        client.joined(group, "m1")
        assert client.beat(group, "m1", -1)["error_code"] == 0
    deleted = client.cluster.call("DeleteGroups", 2, groups_names=["deleted"])
    assert deleted["results"][0]["error_code"] == 0


@pytest.mark.parametrize("writer", KINDS)
@pytest.mark.proves("share 10")
def test_share_groups_continue_when_muster_and_kafka_take_turns(
    kinds: dict[str, Broker], writer: str
) -> None:
    other = next(kind for kind in KINDS if kind != writer)
    if writer == "muster":
        kinds["kafka"].stop()
        client = started(kinds["muster"])
    else:
        client = Client(kinds["kafka"])
    write(client)
    groups = ("two", "empty", "deleted")
    before = {group: client.described(group) for group in groups}
    assert before["deleted"]["error"] == GROUP_ID_NOT_FOUND
    assert before["empty"]["state"] == "Empty"
    kinds[writer].stop()

    client = started(kinds[other])
    assert {group: client.described(group) for group in groups} == before
    for member, epoch, _, _ in before["two"]["members"]:
        assert client.beat("two", member, epoch)["error_code"] == 0
    assert client.beat("empty", "m1", 2)["error_code"] == UNKNOWN_MEMBER_ID
    client.beat("two", "m2", -1)
    client.joined("empty", "m3")
    after = {group: client.described(group) for group in groups}
    kinds[other].stop()

    client = started(kinds[writer])
    assert {group: client.described(group) for group in groups} == after
    [(member, epoch, _, _)] = after["two"]["members"]
    reply = client.beat("two", member, epoch)
    assert (reply["error_code"], len(partitions(reply["assignment"]))) == (0, PARTITIONS)

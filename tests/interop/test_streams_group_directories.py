"""Muster and Apache Kafka 4.3.1 open each other's directories with streams groups (KIP-1071), and
the members continue.

Kafka creates the topics, so that both brokers use the same topic ids. Then one broker writes the
groups, the other broker opens the directory and continues, and the first broker opens it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.brokers import KIND, Broker, KafkaBroker
from tests.interop.cluster import Cluster
from tests.interop.streams_group_calls import ROLES, GroupCalls, task_ids, tasks
from tests.interop.streams_group_side import JOINING, heartbeat
from tests.interop.streams_topologies import internal_topic, subtopology, topology
from tests.interop.test_consumer_group_directories import serves_groups
from tests.interop.test_streams_groups_as_kafka import SETTINGS
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="both brokers take part in any case"),
]
KINDS = ("muster", "kafka")
SOURCE, BETWEEN, STORE = "lines", "app-words-repartition", "app-counts-changelog"
PARTITIONS = 4
TOPOLOGY = topology(
    subtopology("0", SOURCE, sinks=(BETWEEN,)),
    subtopology("1", changelogs=(STORE,), repartitioned=(internal_topic(BETWEEN),)),
)
GROUPS = ("two", "revoking", "empty", "deleted")
TOPOLOGY_AT = 5
"""The index of the topology in the result of `Client.described`."""
UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND = 25, 69


class Client:
    """Sends requests of group members to the broker that currently runs."""

    def __init__(self, broker: Broker) -> None:
        self.cluster = Cluster(broker.bootstrap)

    def call(self, api: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
        return self.cluster.call(api, version, **value)

    def beat(self, group: str, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
        return self.call("StreamsGroupHeartbeat", 0, heartbeat(group, member, epoch, **fields))

    def join(self, group: str, member: str, process: str) -> dict[str, Any]:
        fields = {**JOINING, "process_id": process, "topology": TOPOLOGY}
        reply = self.beat(group, member, 0, **fields)
        assert (reply["error_code"], reply["status"]) == (0, []), reply
        return reply

    def acknowledge(self, group: str, member: str, reply: dict[str, Any]) -> dict[str, Any]:
        """Sends a heartbeat in which a member lists exactly the tasks of ``reply``."""
        owned = {role: task_ids(tasks(reply[role]) or []) for role in ROLES}
        found = self.beat(group, member, reply["member_epoch"], **owned)
        assert found["error_code"] == 0, found
        return found

    def shared(self, group: str) -> None:
        """Makes two members join. The first one gives up tasks, so that both then have their target
        tasks."""
        first = self.join(group, "m1", "p1")
        self.join(group, "m3", "p2")
        given_up = self.acknowledge(group, "m1", first)
        self.acknowledge(group, "m1", given_up)
        second = self.beat(group, "m3", 3)
        self.acknowledge(group, "m3", second)

    def described(self, group: str) -> Any:
        """Returns the description of the group without the partition counts of the topology. Kafka
        computes the counts only at the first heartbeat after its start."""
        found = list(GroupCalls(Random(), group, SOURCE, {}).described(self))
        if found[TOPOLOGY_AT] is not None:
            epoch, subtopologies = found[TOPOLOGY_AT]
            found[TOPOLOGY_AT] = epoch, [each[:3] for each in subtopologies]
        return found


@pytest.fixture
def kinds(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    """Yields Muster and Kafka with the same data directory, in which Kafka has created the
    topics."""
    settings = {**SETTINGS, "group.coordinator.append.linger.ms": "0"}
    kafka = KafkaBroker(tmp_path / "data", {**settings, "log.cleaner.enable": "false"})
    muster = Broker(tmp_path / "data", SETTINGS)
    kafka.start()
    cluster = Cluster(kafka.bootstrap)
    for topic in (SOURCE, BETWEEN, STORE):
        cluster.create_topic(topic, PARTITIONS)
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
    """Creates a group with two members, a group with a member that must give up tasks, an empty
    group, and a group that is then deleted."""
    client.shared("two")
    first = client.join("revoking", "m1", "p1")
    client.join("revoking", "m3", "p2")
    client.acknowledge("revoking", "m1", first)
    for group in ("empty", "deleted"):
        client.join(group, "m1", "p1")
        assert client.beat(group, "m1", -1)["error_code"] == 0
    deleted = client.cluster.call("DeleteGroups", 2, groups_names=["deleted"])
    assert deleted["results"][0]["error_code"] == 0


def state(described: Any) -> str:
    return str(described[2])


@pytest.mark.parametrize("writer", KINDS)
@pytest.mark.proves("streams 7")
def test_streams_groups_continue_when_muster_and_kafka_take_turns(
    kinds: dict[str, Broker], writer: str
) -> None:
    other = next(kind for kind in KINDS if kind != writer)
    if writer == "muster":
        kinds["kafka"].stop()
        client = started(kinds["muster"])
    else:
        client = Client(kinds["kafka"])
    write(client)
    before = {group: client.described(group) for group in GROUPS}
    assert [state(before[group]) for group in GROUPS[:3]] == ["Stable", "Reconciling", "Empty"]
    assert before["deleted"][0] == GROUP_ID_NOT_FOUND
    kinds[writer].stop()

    client = started(kinds[other])
    assert {group: client.described(group) for group in GROUPS} == before
    for member in ("m1", "m3"):
        reply = client.beat("two", member, 3)
        assert (reply["error_code"], reply["member_epoch"]) == (0, 3), reply
    assert client.beat("empty", "m1", 2)["error_code"] == UNKNOWN_MEMBER_ID
    kept = {"active_tasks": [("0", (0, 1)), ("1", (0, 1))]}
    given_up = client.beat(
        "revoking", "m1", 2, **{role: task_ids(kept.get(role, [])) for role in ROLES}
    )
    assert given_up["member_epoch"] == 3, given_up
    assert tasks(client.beat("revoking", "m3", 3)["active_tasks"]) == [
        ("0", (2, 3)),
        ("1", (2, 3)),
    ]
    client.beat("two", "m3", -1)
    client.join("empty", "m3", "p2")
    after = {group: client.described(group) for group in GROUPS}
    kinds[other].stop()

    client = started(kinds[writer])
    assert {group: client.described(group) for group in GROUPS} == after
    reply = client.beat("two", "m1", 3)
    assert tasks(reply["active_tasks"]) == [("0", (0, 1, 2, 3)), ("1", (0, 1, 2, 3))]

"""Muster and Apache Kafka 4.3.1 open each other's directories with consumer groups (KIP-848), and
the members continue.

Kafka creates the topics, so that both brokers use the same topic ids. Then one broker writes the
groups, the other broker opens the directory and continues, and the first broker opens it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    encode_subscription,
)
from tests.brokers import KIND, Broker, KafkaBroker
from tests.interop.cluster import Cluster, Key
from tests.interop.verifiable_consumers import described
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="both brokers take part in any case"),
]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
TOPICS = {"apples": 4, "pears": 2, "peaches": 1}
GROUPS = ("moving", "away", "matched", "left", "upgraded", "downgraded", "simple")
"""The groups that `write` creates and does not delete."""
KINDS = ("muster", "kafka")
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH = 25, 27, 113
SESSION_MS = 45_000
CLEANED_AT_BYTES = 9 * 1024 * 1024
"""The size in bytes at which Muster cleans a partition of the offsets topic immediately."""


class Client:
    """Sends requests of group members to the broker that currently runs."""

    def __init__(self, broker: Broker) -> None:
        self.cluster = Cluster(broker.bootstrap)
        asked = [{"topic_id": bytes(16), "name": name} for name in TOPICS]
        found = self.cluster.call("Metadata", 12, topics=asked)["topics"]
        self.ids = {topic["name"]: topic["topic_id"] for topic in found}
        self.names = {topic_id: name for name, topic_id in self.ids.items()}

    def beat(
        self, group: str, member: str, epoch: int, owned: set[Key] | None = None, **fields: Any
    ) -> tuple[int, set[Key] | None]:
        """Sends a heartbeat. Returns the member epoch, and the assignment or None."""
        reply = self.beat_reply(group, member, epoch, owned, **fields)
        assert reply["error_code"] == 0, reply
        assignment = reply["assignment"]
        if assignment is None:
            return reply["member_epoch"], None
        return reply["member_epoch"], {
            (self.names[topic["topic_id"]], partition)
            for topic in assignment["topic_partitions"]
            for partition in topic["partitions"]
        }

    def beat_reply(
        self, group: str, member: str, epoch: int, owned: set[Key] | None = None, **fields: Any
    ) -> dict[str, Any]:
        partitions = None
        if owned is not None:
            topics = sorted({topic for topic, _ in owned})
            partitions = [
                {
                    "topic_id": self.ids[name],
                    "partitions": sorted(number for topic, number in owned if topic == name),
                }
                for name in topics
            ]
        value = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "topic_partitions": partitions,
            **fields,
        }
        return self.cluster.call("ConsumerGroupHeartbeat", 1, **value)

    def join(
        self, group: str, member: str, *topics: str, **fields: Any
    ) -> tuple[int, set[Key] | None]:
        named = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": list(topics)}
        return self.beat(group, member, 0, set(), **{**named, **fields})

    def commit(
        self, group: str, member: str, epoch: int, offsets: dict[Key, tuple[int, str]]
    ) -> list[int]:
        """Commits offsets with metadata. Returns the error codes."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": 0,
                        "committed_metadata": metadata,
                    }
                ],
            }
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        reply = self.cluster.call(
            "OffsetCommit",
            9,
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=None,
            topics=topics,
        )
        return [each["partitions"][0]["error_code"] for each in reply["topics"]]

    def offsets(self, group: str) -> dict[Key, tuple[int, int, str]]:
        """Returns the committed offsets of a group, with leader epochs and metadata."""
        asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
        reply = self.cluster.call("OffsetFetch", 9, groups=[asked], require_stable=False)
        [found] = reply["groups"]
        assert found["error_code"] == 0, found
        return {
            (topic["name"], each["partition_index"]): (
                each["committed_offset"],
                each["committed_leader_epoch"],
                each["metadata"],
            )
            for topic in found["topics"]
            for each in topic["partitions"]
        }

    def state(self) -> dict[str, Any]:
        """Returns everything that clients can read about the groups."""
        listed = self.cluster.call("ListGroups", 5, states_filter=[], types_filter=[])["groups"]
        found: dict[str, Any] = {
            "listed": sorted(tuple(sorted(each.items())) for each in listed),
        }
        for group in (*GROUPS, "deleted"):
            asked = {"include_authorized_operations": False}
            [new] = self.cluster.call("ConsumerGroupDescribe", 1, group_ids=[group], **asked)[
                "groups"
            ]
            [old] = self.cluster.call("DescribeGroups", 6, groups=[group], **asked)["groups"]
            for each in (new, old):
                each.pop("error_message")  # in each broker's own words
                each["members"].sort(key=lambda member: member["member_id"])
            for member in new["members"]:
                member["subscribed_topic_names"] = sorted(member["subscribed_topic_names"])
                for held in (member["assignment"], member["target_assignment"]):
                    held["topic_partitions"] = sorted(
                        (each["topic_name"], each["topic_id"], sorted(each["partitions"]))
                        for each in held["topic_partitions"]
                    )
            found[group] = {"consumer": new, "classic": old, "offsets": self.offsets(group)}
        return found


def classic_join(cluster: Cluster, group: str, member: str) -> dict[str, Any]:
    """Sends JoinGroup of a classic member that subscribes to topic `apples`. Returns the
    response."""
    return cluster.call(
        "JoinGroup",
        9,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=300_000,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": encode_subscription(["apples"])}],
        reason=None,
    )


def write(client: Client) -> dict[str, Any]:
    """Creates groups of every kind. Returns the ids and epochs with which the members must
    continue."""
    told: dict[str, Any] = {}
    # One member must give up partitions for which another waits.
    client.join("moving", "a", "apples")
    client.join("moving", "b", "apples", server_assignor="range")
    offsets = {("apples", 0): (7, "of a"), ("apples", 3): (8, "")}
    assert client.commit("moving", "a", 2, offsets) == [0, 0]
    epoch, told["kept"] = client.beat("moving", "a", 2)
    assert (epoch, len(told["kept"] or ())) == (2, 2)
    assert described(client.cluster, "moving").state == "Reconciling"

    # A static member has left for a while.
    instance = {"instance_id": "first", "rack_id": "r1"}
    _, told["away"] = client.join("away", "s", "apples", "pears", **instance)
    assert client.commit("away", "s", 2, {("pears", 1): (3, "static")}) == [0]
    client.beat("away", "s", -2, instance_id="first")

    regex = {"subscribed_topic_regex": "pea.*", "subscribed_topic_names": None}
    client.join("matched", "r", **regex)
    epoch, told["matched"] = until(
        "the regex is resolved",
        lambda: found if (found := client.beat("matched", "r", 1))[1] else None,
        10,
        (),
    ) or (0, None)
    assert len(told["matched"] or ()) == 3

    for group in ("left", "deleted"):
        client.join(group, "l", "pears")
        assert client.commit(group, "l", 2, {("pears", 0): (5, f"of {group}")}) == [0]
        client.beat(group, "l", -1)
    client.join("deleted", "l2", "pears")
    client.beat("deleted", "l2", -1)
    deleted = client.cluster.call("DeleteGroups", 2, groups_names=["deleted"])
    assert deleted["results"][0]["error_code"] == 0

    told["upgraded"] = upgrade(client, "upgraded")
    told["downgraded"] = upgrade(client, "downgraded")
    client.beat("downgraded", "new", -1)
    told["generation"] = classic_member(client, "downgraded", told["downgraded"])
    assert client.commit("simple", "", -1, {("pears", 0): (9, "without members")}) == [0]
    return told


def classic_member(client: Client, group: str, member: str) -> int:
    """Lets the only member of a classic group join and get all partitions. Returns the
    generation."""
    joined = classic_join(client.cluster, group, member)
    assert joined["error_code"] == 0
    generation: int = joined["generation_id"]
    assignment = {member: {"apples": list(range(4))}}
    sync(client.cluster, group, member, generation, assignment)
    return generation


def sync(
    cluster: Cluster,
    group: str,
    member: str,
    generation: int,
    assignment: dict[str, dict[str, list[int]]],
) -> set[Key]:
    """Sends SyncGroup. Returns the partitions that the member gets."""
    reply = cluster.call(
        "SyncGroup",
        5,
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            {"member_id": name, "assignment": encode_assignment(held)}
            for name, held in assignment.items()
        ],
    )
    assert reply["error_code"] == 0
    held = assigned_partitions(reply["assignment"])
    return {(topic, number) for topic, numbers in held.items() for number in numbers}


def upgrade(client: Client, group: str) -> str:
    """Makes a consumer member join the classic group, which upgrades the group. Returns the id of
    the classic member."""
    member = str(classic_join(client.cluster, group, "")["member_id"])
    classic_member(client, group, member)
    client.join(group, "new", "apples")
    types = sorted(m.member_type for m in described(client.cluster, group).members.values())
    assert types == [0, 1]
    return member


def go_on(client: Client, told: dict[str, Any]) -> None:
    """Lets each member continue on the present broker, with the member epoch that the previous
    broker of the data directory has assigned."""
    cluster = client.cluster
    moving = described(cluster, "moving")
    kept = told["kept"]
    assert client.beat("moving", "b", 3) == (3, None)
    assert client.beat("moving", "a", 2, kept) == (3, None)
    every = {("apples", number) for number in range(4)}
    assert client.beat("moving", "b", 3) == (3, every - kept)
    assert client.commit("moving", "a", 2, {min(kept): (20, "late")}) == [0]
    other = min(every - kept)
    assert client.commit("moving", "a", 2, {other: (20, "")}) == [STALE_MEMBER_EPOCH]
    assert client.commit("moving", "b", 3, {other: (21, "of b")}) == [0]
    after = described(cluster, "moving")
    assert (after.state, after.epoch, after.assignor) == ("Stable", moving.epoch, moving.assignor)

    epoch = described(cluster, "away").epoch
    joined = client.join("away", "s2", "apples", "pears", instance_id="first", rack_id="r1")
    assert joined == (epoch, told["away"])
    assert client.beat_reply("away", "s", epoch)["error_code"] == UNKNOWN_MEMBER_ID

    epoch = described(cluster, "matched").epoch
    assert client.beat("matched", "r", epoch) == (epoch, None)
    assert client.beat("matched", "r", epoch, told["matched"]) == (epoch, None)
    assert described(cluster, "matched").epoch == epoch

    epoch = described(cluster, "left").epoch
    joined = client.join("left", "back", "pears")
    assert joined == (epoch + 1, {("pears", 0), ("pears", 1)})

    rejoin(client, told["upgraded"])
    identity = {"member_id": told["downgraded"], "generation_id": told["generation"]}
    beat = cluster.call("Heartbeat", 4, group_id="downgraded", group_instance_id=None, **identity)
    assert beat["error_code"] == 0
    client.join("downgraded", "again", "apples")
    assert len(described(cluster, "downgraded").members) == 2


def rejoin(client: Client, member: str) -> None:
    """Lets the classic member of consumer group `upgraded` rejoin, so that it gives up half of its
    partitions."""
    cluster = client.cluster
    group = described(cluster, "upgraded")
    identity = {"group_id": "upgraded", "member_id": member, "group_instance_id": None}
    epoch = group.members[member].epoch
    assert epoch == group.epoch - 1
    assert client.beat("upgraded", "new", group.epoch) == (group.epoch, None)
    beat = cluster.call("Heartbeat", 4, generation_id=epoch, **identity)
    assert beat["error_code"] == REBALANCE_IN_PROGRESS
    joined = classic_join(cluster, "upgraded", member)
    assert (joined["error_code"], joined["generation_id"]) == (0, group.epoch)
    assert (joined["leader"], joined["members"]) == ("", [])
    own = sync(cluster, "upgraded", member, group.epoch, {})
    assert len(own) == 2
    every = {("apples", number) for number in range(4)}
    assert client.beat("upgraded", "new", group.epoch) == (group.epoch, every - own)
    assert described(cluster, "upgraded").state == "Stable"


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for group, state in wanted.items():
        assert found[group] == state, group


@pytest.fixture
def kinds(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    """Yields Muster and Kafka with the same data directory, in which Kafka has created the
    topics."""
    linger = {"group.coordinator.append.linger.ms": "0", "log.cleaner.enable": "false"}
    kafka = KafkaBroker(tmp_path / "data", {**SETTINGS, **linger})
    muster = Broker(tmp_path / "data", SETTINGS)
    kafka.start()
    cluster = Cluster(kafka.bootstrap)
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions)
    until("Kafka serves groups", lambda: serves_groups(kafka))
    yield {"kafka": kafka, "muster": muster}
    muster.kill()
    kafka.kill()


def serves_groups(broker: Broker) -> bool:
    cluster = Cluster(broker.bootstrap)
    asked = {"key": "", "key_type": 0, "coordinator_keys": ["g"]}
    [found] = cluster.call("FindCoordinator", 4, **asked)["coordinators"]
    groups = [{"group_id": "g", "topics": None}]
    [read] = cluster.call("OffsetFetch", 8, groups=groups, require_stable=False)["groups"]
    return not (found["error_code"] or read["error_code"])


def started(broker: Broker) -> Client:
    """Starts a broker. Returns a client when the broker has loaded the groups."""
    broker.start()
    until("groups are served", lambda: serves_groups(broker))
    return Client(broker)


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("writer", KINDS)
def test_consumer_group_members_continue_when_muster_and_kafka_swap_the_data_directory(
    kinds: dict[str, Broker], writer: str, end: str
) -> None:
    first = kinds.pop(writer)
    [second] = kinds.values()
    kinds[writer] = first
    if writer == "muster":
        second.stop()
        client = started(first)
    else:
        client = Client(first)
    told = write(client)
    wanted = client.state()
    getattr(first, end)()

    client = started(second)
    assert_same(client.state(), wanted)
    go_on(client, told)
    wanted = client.state()
    getattr(second, end)()

    client = started(first)
    assert_same(client.state(), wanted)
    assert client.beat("moving", "a", 3, told["kept"]) == (3, None)
    assert client.beat("left", "back", described(client.cluster, "left").epoch)[1] is None


def test_members_continue_in_kafka_after_muster_has_cleaned_the_offsets_topic(
    kinds: dict[str, Broker],
) -> None:
    muster, kafka = kinds["muster"], kinds["kafka"]
    kafka.stop()
    client = started(muster)
    told = write(client)
    for _ in range(10):  # tombstones of members, and epochs that later epochs replace
        client.join("left", "passing", "pears")
        client.beat("left", "passing", -1)
    every = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
    folder = muster.partition_folder("__consumer_offsets", 0)
    for number in range(CLEANED_AT_BYTES // (4000 * len(every))):
        assert not any(client.commit("simple", "", -1, dict.fromkeys(every, (number, "." * 4000))))
    until("the records are cleaned", lambda: size_of(folder) < CLEANED_AT_BYTES // 4, 30)
    wanted = client.state()
    muster.stop()

    client = started(kafka)
    assert_same(client.state(), wanted)
    go_on(client, told)
    wanted = client.state()
    kafka.stop()

    assert_same(started(muster).state(), wanted)


def size_of(folder: Path) -> int:
    """Returns the total size of the segments of a partition in bytes."""
    return sum(file.stat().st_size for file in folder.glob("*.log"))

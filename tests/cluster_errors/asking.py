"""Prepares a cluster, sends the request of each `Cell` to it, and collects the error codes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from protocol.errors import NOT_CONTROLLER
from protocol.schema import ZERO_UUID
from tests import waiting
from tests.cluster_errors import (
    of_controller,
    of_coordinators,
    of_partitions,
    of_settings,
    of_troubles,
)
from tests.cluster_errors.cell import (
    ASSIGNED,
    DIRECTORY,
    GROUP,
    LOST,
    TOPIC,
    TOPIC_ID,
    TRANSACTION,
    Cell,
    Cluster,
    Codes,
    Value,
    codes_of,
)
from tests.wire import Wire

OF_KAFKA = Path(__file__).parents[1] / "data" / "cluster" / "errors_of_kafka_3_9_2.json"
"""The file with the error codes that a cluster of Apache Kafka 3.9.2 returned."""
NOBODY = b'{"version":1,"brokerid":9,"timestamp":"1"}'
"""Content for the ZooKeeper node `/controller`. It names a broker that does not exist."""

CELLS = [
    *of_partitions.cells(),
    *of_coordinators.cells(),
    *of_controller.cells(),
    *of_settings.cells(),
]
LEADERLESS = [*of_troubles.leaderless()]
WITHOUT_CONTROLLER = [*of_troubles.without_controller()]

NEVER_READ_FROM_FOLLOWERS = "consumers are not served by followers (KIP-392)"
DIFFERS = {
    **{
        f"Fetch {what} at a follower": NEVER_READ_FROM_FOLLOWERS
        for what in ("in epoch -1", "in epoch 0", "beyond the end")
    },
    "Fetch of partition 2 by its topic's id": NEVER_READ_FROM_FOLLOWERS,
    "CreateTopics of replicas on no broker at the controller": "Kafka makes such a partition",
    "ControlledShutdown of a strange broker at the controller": "Kafka says UNKNOWN_SERVER_ERROR",
    "DescribeTopicPartitions": "Kafka has it in KRaft clusters alone",
    **{
        f"ElectLeaders, strange, of {place} {where}": "Kafka says UNKNOWN_SERVER_ERROR"
        for place in (f"{TOPIC}-0", f"{TOPIC}-9", "nowhere-0")
        for where in ("at the controller", "at another broker", "without a controller")
    },
    **{
        f"IncrementalAlterConfigs of {who} broker, a strange setting": (
            "Kafka keeps settings that nobody reads"
        )
        for who in ("this", "every")
    },
    **{
        cell.name: "the name is bad before its topic is missing, as in KRaft clusters of Kafka"
        for cell in CELLS
        if "AlterConfigs of a bad topic's name" in cell.name and "a null" not in cell.name
    },
    "IncrementalAlterConfigs of no such topic, an operation of lists": (
        "the topic is looked for first"
    ),
}
"""The requests for which Muster returns another error than Kafka, each with the reason."""


def written() -> dict[str, Codes]:
    """Returns Kafka's recorded error codes, by the name of the `Cell` (a request and the situation
    in which it is sent)."""
    found: dict[str, Codes] = json.loads(OF_KAFKA.read_text())
    return found


def ask(cluster: Cluster, cells: Iterable[Cell]) -> dict[str, Codes]:
    """Sends the request of each cell and returns the error codes, by the name of the cell. Blocks
    until all responses have arrived."""
    return {cell.name: cell.ask(cluster) for cell in cells}


def make_lost(cluster: Cluster) -> None:
    """Creates the topic LOST, which has no leader when broker 3 is down."""
    placed = [{"partition_index": 0, "broker_ids": [3]}]
    counts = {"num_partitions": -1, "replication_factor": -1}
    topic = {"name": LOST, **counts, "assignments": placed, "configs": []}
    with Wire(cluster.ports[cluster.controller]) as wire:
        made = wire.call("CreateTopics", 7, {"topics": [topic], "timeout_ms": 30_000})
    assert made["topics"][0]["error_code"] == 0, made
    _until_led_by(cluster, 3)


def until_lost(cluster: Cluster) -> None:
    """Waits until broker 1 knows that the topic LOST has no leader."""
    _until_led_by(cluster, -1)


def _until_led_by(cluster: Cluster, leader: int) -> None:
    def known() -> bool:
        with Wire(cluster.ports[1]) as wire:
            (topic,) = wire.call("Metadata", 8, {"topics": [{"name": LOST}]})["topics"]
        assert [each["leader_id"] for each in topic["partitions"]] == [leader], topic
        return True

    waiting.until(f"{LOST} is led by {leader}", known, 60)


def until_nobody_is_controller(cluster: Cluster) -> None:
    """Waits until brokers 1 and 2 both return errors that say that they are not the controller."""

    def is_so() -> bool:
        asked = {"topics": None, "timeout_ms": 1000}
        for broker in (1, 2):
            with Wire(cluster.ports[broker]) as wire:
                answer = wire.call("ListPartitionReassignments", 0, asked)
            assert answer["error_code"] == NOT_CONTROLLER, (broker, answer)
        return True

    waiting.until("nobody is the controller", is_so, 60)


def prepared(ports: Mapping[int, int]) -> Cluster:
    """Creates a topic, a group and the topics of the coordinators. Waits until all of them can
    serve requests."""

    def at(broker: int, api: str, version: int, value: Value) -> Value:
        with Wire(ports[broker]) as wire:
            return wire.call(api, version, value)

    def controller() -> int:
        answer = at(1, "DescribeCluster", 0, {})
        assert len(answer["brokers"]) == len(ports)
        return max(0, int(answer["controller_id"]))

    def topic_id() -> bytes:
        ids = set()
        for broker in ports:
            wanted = {"topics": [{"topic_id": ZERO_UUID, "name": TOPIC}]}
            (known,) = at(broker, "Metadata", 12, wanted)["topics"]
            led = {each["partition_index"]: each["leader_id"] for each in known["partitions"]}
            assert led == {index: brokers[0] for index, brokers in ASSIGNED.items()}, led
            ids.add(bytes(known["topic_id"]))
        (one,) = ids
        return one

    def coordinator(key: str, kind: int, api: str, version: int, value: Value) -> int:
        asked = {"key_type": kind, "coordinator_keys": [key]}
        (found,) = at(1, "FindCoordinator", 4, asked)["coordinators"]
        assert found["error_code"] == 0, found
        codes = {code for _, code in codes_of(at(found["node_id"], api, version, value))}
        assert codes <= {0, _TRANSACTIONAL_ID_NOT_FOUND}, codes
        return int(found["node_id"])

    leads = waiting.until("there is a controller", controller)
    placed = [{"partition_index": p, "broker_ids": brokers} for p, brokers in ASSIGNED.items()]
    one = [{"name": "min.insync.replicas", "value": "1"}]
    counts = {"num_partitions": -1, "replication_factor": -1}
    topic = {"name": TOPIC, **counts, "assignments": placed, "configs": one}
    made = at(leads, "CreateTopics", 7, {"topics": [topic], "timeout_ms": 30_000})
    assert made["topics"][0]["error_code"] == 0, made
    offsets = [{"partition_index": 1, "committed_offset": 1}]
    commit = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": TOPIC, "partitions": offsets}],
    }
    described = {"transactional_ids": [TRANSACTION]}
    (directory,) = at(1, "DescribeLogDirs", 4, {"topics": None})["results"]
    return Cluster(
        ports,
        leads,
        stands_for={
            TOPIC_ID: waiting.until("the topic is led", topic_id),
            DIRECTORY: directory["log_dir"],
        },
        of_group=waiting.until(
            "offsets are committed", lambda: coordinator(GROUP, 0, "OffsetCommit", 8, commit), 60
        ),
        of_transaction=waiting.until(
            "transactions are described",
            lambda: coordinator(TRANSACTION, 1, "DescribeTransactions", 0, described),
            60,
        ),
    )


_TRANSACTIONAL_ID_NOT_FOUND = 105

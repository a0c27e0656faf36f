"""Measures the fail-over of the controller in a cluster of 5,000 partitions.

The measurement deletes `/controller`, as an operator would do. All measured times start at this
deletion. The first time ends when every broker names the new controller. The second time ends when
every broker knows a topic that the new controller created. A controller's updates to a broker
arrive in order, so every broker has then processed all initial updates of the new controller.
"""

from __future__ import annotations

import time
import uuid

from kazoo.client import KazooClient

from bench.cluster.running import BROKERS, MeasuredCluster
from bench.cluster.watching import Bystander, controller_of, long_pieces, until, zookeeper
from tests.raw_connection import RawConnection

PARTITIONS, TOPICS, REPLICAS = 5000, 10, 2
SPAN = (
    "from the deletion of /controller until every broker's Metadata names the new controller,"
    " and then a topic that the new controller created"
)
_TIME_LIMIT_S = 120


def prepare(cluster: MeasuredCluster, _: float) -> None:
    """Creates the topics, and moves the controller once."""
    for number in range(TOPICS):
        cluster.create(f"many-{number}", PARTITIONS // TOPICS, REPLICAS)
    measure(cluster, 0)


def measure(cluster: MeasuredCluster, _: float) -> dict[str, float]:
    held = sum(long_pieces(cluster).values())
    cpu = cluster.cpu_s()
    with zookeeper(cluster) as client, Bystander(cluster) as bystander:
        connections = [cluster.connect(broker) for broker in BROKERS]
        began, elected, new = _other_elected(cluster, client, connections)
        until(lambda: all(_controller_id(each) == new for each in connections) or None)
        named = time.perf_counter()
        _until_updated(cluster, new, connections)
        done = time.perf_counter()
    for each in connections:
        each.close()
    figures = {
        "elected ms": (elected - began) * 1000,
        "known to all brokers ms": (named - began) * 1000,
        "all updates sent ms": (done - began) * 1000,
        "CPU ms": (cluster.cpu_s() - cpu) * 1000,
        "another client's longest wait ms": bystander.longest_s * 1000,
    }
    if cluster.http:
        figures["event loop pauses > 20 ms"] = sum(long_pieces(cluster).values()) - held
    return figures


def _other_elected(
    cluster: MeasuredCluster, client: KazooClient, connections: list[RawConnection]
) -> tuple[float, float, int]:
    """Deletes `/controller` until another broker becomes the controller.

    Returns the time of the last deletion, the time of the election, and the id of the new
    controller. If the old controller wins the election, the function waits until that controller
    has sent all its updates, and deletes `/controller` again.
    """
    old = controller_of(client)
    while True:
        began = time.perf_counter()
        client.delete("/controller")
        until(lambda: controller_of(client) >= 0 or None)
        elected, new = time.perf_counter(), controller_of(client)
        if new != old:
            return began, elected, new
        _until_updated(cluster, new, connections)


def _until_updated(
    cluster: MeasuredCluster, controller: int, connections: list[RawConnection]
) -> None:
    """Creates a topic on the controller, and waits until every broker knows the topic."""
    topic = f"after-{uuid.uuid4()}"
    until(lambda: _created(cluster, controller, topic) or None)
    until(lambda: all(_is_led(each, topic) for each in connections) or None)


def _controller_id(connection: RawConnection) -> int:
    return int(connection.call("Metadata", 4, topics=[])["controller_id"])


def _created(cluster: MeasuredCluster, controller: int, topic: str) -> bool:
    with cluster.connect(controller) as connection:
        answer = connection.call(
            "CreateTopics",
            2,
            topics=[
                {
                    "name": topic,
                    "num_partitions": 1,
                    "replication_factor": 3,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout_ms=_TIME_LIMIT_S * 1000,
            validate_only=False,
        )
    return [each["error_code"] for each in answer["topics"]] in ([0], [36])


def _is_led(connection: RawConnection, topic: str) -> bool:
    [found] = connection.call(
        "Metadata", 4, topics=[{"name": topic}], allow_auto_topic_creation=False
    )["topics"]
    return not found["error_code"] and all(p["leader_id"] >= 0 for p in found["partitions"])

"""``/admin``: requests to the controller that old tools send by creating nodes.

The node ``delete_topics/<topic>`` has no data. The controller removes completed partitions from the
node ``reassign_partitions``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.znodes.fields import Fields, encode, is_int32, partition_list

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN = "/admin/reassign_partitions"
PREFERRED = "/admin/preferred_replica_election"

Place = tuple[str, int]
"""Topic and partition number."""


def delete_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def encode_reassignments(targets: Mapping[Place, Sequence[int]]) -> bytes:
    """Returns the data of a request that assigns the given replicas to partitions."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in targets.items()
    ]
    return encode({"version": 1, "partitions": partitions})


def decode_reassignments(data: bytes) -> dict[Place, tuple[int, ...]]:
    """Returns the requested replicas by partition. Raises BadNode."""
    fields = Fields(REASSIGN, data)
    targets: dict[Place, tuple[int, ...]] = {}
    for each in fields.partitions("partitions"):
        replicas = each.get("replicas")
        if not isinstance(replicas, list) or not all(map(is_int32, replicas)):
            raise fields.bad("partitions", "an object with the replicas of each partition")
        targets[each["topic"], each["partition"]] = tuple(replicas)
    return targets


def encode_preferred(places: Sequence[Place]) -> bytes:
    """Returns the data of a request to elect the preferred replica of each partition."""
    return encode({"version": 1, "partitions": partition_list(places)})


def decode_preferred(data: bytes) -> list[Place]:
    """Returns the partitions whose preferred replica must be elected as leader. Raises BadNode."""
    there = Fields(PREFERRED, data).partitions("partitions")
    return [(each["topic"], each["partition"]) for each in there]

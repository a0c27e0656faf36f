"""Sends one Fetch request for many partitions of one leader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from cli.client.cluster import Connection
from cli.client.offsets_at import READ_UNCOMMITTED, Partition
from cli.errors import CommandError, refused
from client.connection import Value
from protocol.errors import OFFSET_OUT_OF_RANGE


def fetch(
    leader: Connection,
    keys: Iterable[Partition],
    positions: Mapping[Partition, int],
    *,
    partition_max_bytes: int,
    max_bytes: int,
    min_bytes: int,
    max_wait_ms: int,
    isolation: int = READ_UNCOMMITTED,
    fine: Collection[int] = (OFFSET_OUT_OF_RANGE,),
) -> Iterator[tuple[Partition, Value]]:
    """Sends one Fetch request for the partitions ``keys`` from ``positions``, and yields the
    response of each partition. Raises CommandError for an error code that is not in ``fine``."""
    if leader.version_of("Fetch") < 4:
        raise CommandError("this broker does not send record batches: use Kafka 0.11 or later")
    topics: dict[str, list[Value]] = {}
    for topic, partition in keys:
        entry = {
            "partition": partition,
            "fetch_offset": positions[topic, partition],
            "partition_max_bytes": partition_max_bytes,
        }
        topics.setdefault(topic, []).append(entry)
    request = {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "topics": [{"topic": topic, "partitions": parts} for topic, parts in topics.items()],
    }
    for response in leader.call("Fetch", request)["responses"]:
        for answer in response["partitions"]:
            key = response["topic"], answer["partition_index"]
            if answer["error_code"] and answer["error_code"] not in fine:
                raise refused(f"{key[0]}:{key[1]}", answer["error_code"])
            yield key, answer

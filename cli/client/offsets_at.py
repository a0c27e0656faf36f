"""Where partitions begin and end, and which offset has a timestamp: ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cli import clock
from cli.client.at_once import Call, at_once
from cli.client.cluster import RETRY_S, Cluster, Connection
from cli.errors import refused
from client.connection import Value
from protocol import errors

EARLIEST = -2
LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels (KIP-98): READ_COMMITTED shows nothing of a transaction before its commit."""
SERVED_WITHIN_S = 1.0
"""How long a leader may take to serve a partition that it was given."""
CHUNK = 2000
"""Partitions of one request."""

Partition = tuple[str, int]
Timestamps = int | Mapping[Partition, int]
"""A timestamp in ms, EARLIEST or LATEST; or one for each partition."""


class Bounds(NamedTuple):
    """The first offset of a log and the one after its last."""

    start: int
    end: int


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[Partition],
    timestamp: Timestamps,
    isolation: int = READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """Return partition -> offset at a timestamp. A time after the last record gives -1.

    With READ_COMMITTED the latest offset is the last stable one, where open transactions begin.
    CommandError names the partition that is refused.
    """
    wanted = list(dict.fromkeys(partitions))
    deadline_s = clock.monotonic_s() + cluster.timeout_s
    found: dict[Partition, int] = {}
    while wanted:
        leaders = cluster.leaders(sorted({topic for topic, _ in wanted}))
        asked = {key: leaders[key] for key in wanted if key in leaders}
        later = []
        for answer in at_once(cluster, _calls(asked, timestamp, isolation)):
            for key, code, offset in _answered(answer):
                if code == errors.NOT_LEADER_OR_FOLLOWER and clock.monotonic_s() < deadline_s:
                    later.append(key)  # a leader that is so new that it does not know it yet
                elif code:
                    raise refused(f"offsets of {key[0]}:{key[1]}", code)
                else:
                    found[key] = offset
        wanted = later
        if wanted:
            clock.sleep(RETRY_S)
    return found


def bounds_of(cluster: Cluster, leaders: Mapping[Partition, Connection]) -> dict[Partition, Bounds]:
    """Start and end of partitions; nothing for one that its leader does not serve now.

    Kafka's refuses a partition for a moment after it was made, so it is asked again for a second.
    """
    deadline_s = clock.monotonic_s() + SERVED_WITHIN_S
    starts: dict[Partition, int] = {}
    ends: dict[Partition, int] = {}
    asked = dict(leaders)
    while asked:
        first, last = _calls(asked, EARLIEST), _calls(asked, LATEST)
        later: dict[Partition, Connection] = {}
        for number, answer in enumerate(at_once(cluster, [*first, *last])):
            for key, code, offset in _answered(answer):
                if not code:
                    (starts if number < len(first) else ends)[key] = offset
                elif code in errors.RETRIABLE:
                    later[key] = asked[key]
        if not later or clock.monotonic_s() > deadline_s:
            break
        asked = later
        clock.sleep(RETRY_S)
    return {key: Bounds(starts[key], ends[key]) for key in leaders if key in starts and key in ends}


def _calls(
    leaders: Mapping[Partition, Connection],
    timestamp: Timestamps,
    isolation: int = READ_UNCOMMITTED,
) -> list[Call]:
    by_leader: dict[Connection, list[Partition]] = {}
    for key, leader in leaders.items():
        by_leader.setdefault(leader, []).append(key)
    return [
        Call(leader, "ListOffsets", _request(keys[start : start + CHUNK], timestamp, isolation))
        for leader, keys in by_leader.items()
        for start in range(0, len(keys), CHUNK)
    ]


def _request(keys: Iterable[Partition], timestamp: Timestamps, isolation: int) -> Value:
    topics: dict[str, list[Value]] = {}
    for key in keys:
        at = timestamp if isinstance(timestamp, int) else timestamp[key]
        entry = {"partition_index": key[1], "timestamp": at, "max_num_offsets": 1}
        topics.setdefault(key[0], []).append(entry)
    listed = [{"name": topic, "partitions": entries} for topic, entries in topics.items()]
    return {"replica_id": -1, "isolation_level": isolation, "topics": listed}


def _answered(answer: Value) -> Iterator[tuple[Partition, int, int]]:
    """What one answer says: partition, error code, offset."""
    for topic in answer["topics"]:
        for entry in topic["partitions"]:
            old_style = entry.get("old_style_offsets")  # version 0 lists segments' offsets
            offset = old_style[0] if old_style else entry["offset"]
            yield (topic["name"], entry["partition_index"]), entry["error_code"], offset

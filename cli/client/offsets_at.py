"""Reads log start and end offsets, and offsets for timestamps, with ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""The isolation levels (KIP-98). READ_COMMITTED hides records of open and aborted transactions."""
SERVED_WITHIN_S = 1.0
"""The maximum number of seconds that a new leader needs before it serves a partition."""
CHUNK = 2000
"""The maximum number of partitions in one request."""

Partition = tuple[str, int]
Timestamps = int | Mapping[Partition, int]
"""A timestamp in ms, EARLIEST or LATEST: one value for all partitions, or one value for each
partition."""


class Bounds(NamedTuple):
    """The log start offset and the log end offset of a partition."""

    start: int
    end: int


class StableEnd(NamedTuple):
    """The last stable offset and the log end offset of a partition."""

    stable: int
    end: int

    @property
    def lag(self) -> int:
        """The number of offsets from the last stable offset to the log end offset."""
        return max(0, self.end - self.stable)


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[Partition],
    timestamp: Timestamps,
    isolation: int = READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """Returns the offset for a timestamp in each partition; -1 if all records are older. With
    READ_COMMITTED, LATEST means the last stable offset. Raises CommandError for a partition that
    the leader rejects."""
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
                    later.append(key)  # the new leader does not know of its election yet
                elif code:
                    raise refused(f"offsets of {key[0]}:{key[1]}", code)
                else:
                    found[key] = offset
        wanted = later
        if wanted:
            clock.sleep(RETRY_S)
    return found


def bounds_of(cluster: Cluster, leaders: Mapping[Partition, Connection]) -> dict[Partition, Bounds]:
    """Returns the log start offset and log end offset of partitions. Partitions that are not served
    now are omitted."""
    places = [(EARLIEST, READ_UNCOMMITTED), (LATEST, READ_UNCOMMITTED)]
    return {key: Bounds(*found) for key, found in _places(cluster, leaders, places).items()}


def stable_ends_of(
    cluster: Cluster, leaders: Mapping[Partition, Connection]
) -> dict[Partition, StableEnd]:
    """Returns the last stable offset and log end offset of partitions. Partitions that are not
    served now are omitted."""
    places = [(LATEST, READ_COMMITTED), (LATEST, READ_UNCOMMITTED)]
    return {key: StableEnd(*found) for key, found in _places(cluster, leaders, places).items()}


def _places(
    cluster: Cluster,
    leaders: Mapping[Partition, Connection],
    places: Sequence[tuple[int, int]],
) -> dict[Partition, list[int]]:
    """Returns the offsets of partitions for each pair of timestamp and isolation level in
    ``places``. Requests are retried for a second, because Kafka briefly rejects a new partition."""
    deadline_s = clock.monotonic_s() + SERVED_WITHIN_S
    found: list[dict[Partition, int]] = [{} for _ in places]
    asked = dict(leaders)
    while asked:
        calls = [(at, call) for at, place in enumerate(places) for call in _calls(asked, *place)]
        later: dict[Partition, Connection] = {}
        answers = at_once(cluster, [call for _, call in calls])
        for (at, _), answer in zip(calls, answers, strict=True):
            for key, code, offset in _answered(answer):
                if not code:
                    found[at][key] = offset
                elif code in errors.RETRIABLE:
                    later[key] = asked[key]
        if not later or clock.monotonic_s() > deadline_s:
            break
        asked = later
        clock.sleep(RETRY_S)
    whole = [key for key in leaders if all(key in each for each in found)]
    return {key: [each[key] for each in found] for key in whole}


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
    """Yields partition, error code and offset of each entry in a response."""
    for topic in answer["topics"]:
        for entry in topic["partitions"]:
            old_style = entry.get("old_style_offsets")  # version 0 lists segments' offsets
            offset = old_style[0] if old_style else entry["offset"]
            yield (topic["name"], entry["partition_index"]), entry["error_code"], offset

"""For each of many partitions, reads the first record at or after an offset, with its timestamp."""

from __future__ import annotations

from collections.abc import Mapping

from cli.client.cluster import Cluster, Connection
from cli.client.fetch import fetch
from cli.client.offsets_at import Partition
from client.connection import Value
from protocol.records.stored import iter_stored, stored_records

MAX_BYTES = 64 << 10
"""The maximum number of bytes of one partition in a response. A broker returns a larger first batch
whole."""
TOGETHER = 200
"""The maximum number of partitions in one request."""


def records_at(
    cluster: Cluster, offsets: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """Returns offset and timestamp (ms) of the first record at or after the given offset of each
    partition. Partitions without such a record, or with an offset out of range, are omitted.
    Control records are skipped."""
    leaders = cluster.leaders(sorted({topic for topic, _ in offsets}))
    positions = {key: offset for key, offset in offsets.items() if key in leaders}
    found: dict[Partition, tuple[int, int]] = {}
    while positions:
        by_leader: dict[Connection, list[Partition]] = {}
        for key in sorted(positions):
            by_leader.setdefault(leaders[key], []).append(key)
        for leader, keys in by_leader.items():
            _fetch(leader, keys[:TOGETHER], positions, found)
    return found


def _fetch(
    leader: Connection,
    keys: list[Partition],
    positions: dict[Partition, int],
    found: dict[Partition, tuple[int, int]],
) -> None:
    """Sends one Fetch request. Adds records to ``found``, and updates ``positions`` for the next
    request."""
    answers = fetch(
        leader,
        keys,
        positions,
        partition_max_bytes=MAX_BYTES,
        max_bytes=MAX_BYTES * len(keys),
        min_bytes=0,
        max_wait_ms=0,
    )
    for key, answer in answers:
        _take(key, bytes(answer["records"] or b""), answer, positions, found)


def _take(
    key: Partition,
    data: bytes,
    answer: Value,
    positions: dict[Partition, int],
    found: dict[Partition, tuple[int, int]],
) -> None:
    position = positions.pop(key)
    further = position
    for header, _ in iter_stored(data, partial=True):
        further = max(further, header.last_offset + 1)
        if header.is_control or header.last_offset < position:
            continue
        for record in stored_records(data, header):
            if record.offset >= position:
                found[key] = (record.offset, record.timestamp)
                return
    if further > position or (not answer["error_code"] and position < answer["high_watermark"]):
        positions[key] = further  # only control records so far, or the response was full

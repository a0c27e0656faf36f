"""How far committed offsets are from the ends of their logs, and which lie outside of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cli import output
from cli.client.cluster import Cluster
from cli.client.group_reads import Committed
from cli.client.offsets_at import EARLIEST, LATEST, Partition, offsets_at

OUT_OF_RANGE = "OUT_OF_RANGE"


class Bounds(NamedTuple):
    """The first offset of a log and the one after its last."""

    start: int
    end: int


class Lag(NamedTuple):
    """What is between a committed offset and its log."""

    records: int | None
    """Records that can still be read; negative above the log's end; None for not known."""
    lost: int = 0
    """Records below the log's start that were never read."""

    @property
    def out_of_range(self) -> bool:
        """Whether the committed offset lies outside its log."""
        return self.lost > 0 or (self.records is not None and self.records < 0)


def bounds_of(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
    """Start and end of those of these partitions whose topic is there."""
    known = {topic["name"] for topic in cluster.metadata(None)["topics"]}
    live = sorted({key for key in partitions if key[0] in known})
    first, end = offsets_at(cluster, live, EARLIEST), offsets_at(cluster, live, LATEST)
    return {key: Bounds(first[key], end[key]) for key in live if key in first and key in end}


def lag_of(committed: int | None, bounds: Bounds | None) -> Lag:
    """The lag of one partition. In an empty log nothing is unread, committed or not."""
    if bounds is None:
        return Lag(None)
    start, end = bounds
    if committed is None:
        return Lag(0 if start == end else None)
    return Lag(end - max(committed, start), max(0, start - committed))


def offset_rows(
    cluster: Cluster, committed: Mapping[Partition, Committed], owners: Mapping[Partition, str]
) -> list[output.Row]:
    """A row for each partition that has an offset or an owner, with its bounds and its lag."""
    keys = sorted({*committed, *owners})
    bounds = bounds_of(cluster, keys)
    rows = []
    for key in keys:
        found, log = committed.get(key), bounds.get(key)
        lag = lag_of(None if found is None else found.offset, log)
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed": None if found is None else found.offset,
                "start_offset": None if log is None else log.start,
                "end_offset": None if log is None else log.end,
                "lag": lag.records,
                "lost_records": lag.lost,
                "verdict": OUT_OF_RANGE if lag.out_of_range else None,
                "member": owners.get(key),
                "metadata": (found.metadata or None) if found is not None else None,
            }
        )
    return rows

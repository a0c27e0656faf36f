"""Computes the lag of committed offsets, and finds offsets outside the partition's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cli.client.cluster import Cluster
from cli.client.group_reads import Known
from cli.client.offsets_at import Bounds, Partition, bounds_of


class Lag(NamedTuple):
    """The lag of a committed offset."""

    records: int | None
    """The number of records that the group can still read. Negative for an offset above the log end
    offset; None if unknown."""
    lost: int = 0
    """The number of unread records below the log start offset."""

    @property
    def out_of_range(self) -> bool:
        """True if the committed offset is outside the log."""
        return self.lost > 0 or (self.records is not None and self.records < 0)


def partitions_of(known: Mapping[str, Known]) -> set[Partition]:
    """Returns the partitions in which a group has a committed offset, and the partitions that a
    member of a group owns."""
    return {key for group, committed in known.values() for key in (*committed, *group.owners)}


def logs_of(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
    """Returns the log start offset and log end offset of each partition. Partitions that no leader
    serves are omitted."""
    wanted = set(partitions)
    if not wanted:
        return {}
    leaders = cluster.leaders(None)
    return bounds_of(cluster, {key: leaders[key] for key in sorted(wanted) if key in leaders})


def lag_of(committed: int | None, bounds: Bounds | None) -> Lag:
    """Returns the lag of one partition. The lag is 0 for an empty log without a committed
    offset."""
    if bounds is None:
        return Lag(None)
    start, end = bounds
    if committed is None:
        return Lag(0 if start == end else None)
    return Lag(end - max(committed, start), max(0, start - committed))

"""Reads the state of groups for display: offsets, lag and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cli import clock, output
from cli.client.cluster import Cluster
from cli.client.group_reads import Group, Known
from cli.client.lag import lag_of, logs_of, partitions_of
from cli.groups.judging import GroupHealth, Judged, Logs, Manner, judged
from cli.layout import Column, Columns
from cli.names import numbered
from cli.times import span
from verdicts.facts import EMPTY, STABLE
from verdicts.names import Verdict

OFFSETS: Columns = [
    "topic",
    "partition",
    "verdict",
    Column("lag", always=True),
    "behind",
    Column("committed", always=True),
    Column("end_offset", "END"),
    Column("lost", "LOST"),
    "last_commit",
    "member",
    "client",
    "host",
    Column("start_offset", "START"),
]
"""The columns of the table of a group's offsets, most important first."""

SORTED_BY: Columns = [
    *("topic", "partition", "verdict", "lag", "committed", "member"),
    Column("lag_seconds", "BEHIND"),
    Column("end_offset", "END"),
    Column("lost_records", "LOST"),
    Column("committed_ms", "LAST-COMMIT"),
    Column("start_offset", "START"),
]
"""The columns that --sort accepts, by field name or by header."""


class Look(NamedTuple):
    """The state of one group, for display."""

    group: Group
    offsets: list[output.Row]
    health: GroupHealth

    @property
    def lag(self) -> int | None:
        """The total lag of the group. None if the lag of a partition is unknown, or if the group
        has no partitions: such a group may have read nothing."""
        lags = [row["lag"] for row in self.offsets]
        return sum(max(0, lag) for lag in lags) if lags and None not in lags else None

    @property
    def known_lag(self) -> int | None:
        """The sum of all known lags; None if no lag is known."""
        lags = [max(0, row["lag"]) for row in self.offsets if row["lag"] is not None]
        return sum(lags) if lags else None

    @property
    def rebalances(self) -> bool:
        """True if the group is rebalancing. Its assignment is then unknown."""
        return self.group.exists and self.group.state not in (STABLE, EMPTY)


def looks(cluster: Cluster, known: Mapping[str, Known], manner: Manner) -> list[Look]:
    """Returns for each group its offsets and its health."""
    logs = logs_of(cluster, partitions_of(known))
    health = judged(cluster, known, logs, manner)
    return [
        Look(each.group, _offsets(each, logs, health[group_id]), health[group_id])
        for group_id, each in known.items()
    ]


def _offsets(known: Known, logs: Logs, health: GroupHealth) -> list[output.Row]:
    """Returns a row for each partition that has a committed offset or an owner."""
    unasked = Judged(Verdict.OK) if health.verdict == Verdict.OK else Judged()
    return [
        _offset(known, key[0], key[1], logs, health.partitions.get(key, unasked))
        for key in sorted({*known.committed, *known.group.owners})
    ]


def _offset(known: Known, topic: str, partition: int, logs: Logs, said: Judged) -> output.Row:
    key = topic, partition
    found, log = known.committed.get(key), logs.get(key)
    lag = lag_of(None if found is None else found.offset, log)
    verdict, seconds, committed_ms = said
    return {
        "topic": topic,
        "partition": partition,
        "committed": None if found is None else found.offset,
        "start_offset": None if log is None else log.start,
        "end_offset": None if log is None else log.end,
        "lag": lag.records,
        "lag_seconds": seconds,
        "lost_records": lag.lost,
        "committed_ms": committed_ms,
        "verdict": Verdict.OUT_OF_RANGE if lag.out_of_range else verdict,
        "member": known.group.owners.get(key),
        "metadata": (found.metadata or None) if found is not None else None,
    }


def for_people(
    rows: Sequence[output.Row], members: Sequence[output.Row], wide: bool
) -> list[output.Row]:
    """Returns the rows for a table. Durations are texts. Numbers replace the member ids unless
    ``wide`` is set."""
    now_ms = clock.now_ms()
    shown = [
        {
            **row,
            "behind": span(round(row["lag_seconds"] * 1000)) if row["lag_seconds"] else None,
            "lost": row["lost_records"] or None,
            "last_commit": None
            if row["committed_ms"] is None
            else f"{span(max(0, now_ms - row['committed_ms']))} ago",
        }
        for row in rows
    ]
    return shown if wide else numbered(shown, members)

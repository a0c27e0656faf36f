"""Computes figures of each table for the summary: the number of rows, and a few other values.

One query per table returns its figures. A figure is a value with a unit. Only `Figure.words`
formats figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from pipeline.engines.engine import Engine
from pipeline.sql.lag import FALLING_BEHIND, NOBODY, STOPPED
from pipeline.sql.offsets import OPEN, ROLLED_BACK, SUPERSEDED, TAKEN
from pipeline.sql.sums import whole_sum
from pipeline.times import instant

SHARE: Final = "share"
TIME: Final = "time"


@dataclass(frozen=True)
class Figure:
    """A value with its label and unit."""

    label: str
    value: int | float | str
    unit: str
    """A plural noun for counted things, `s` for seconds, `share` for a fraction from 0 to 1, or
    `time` for a time in ISO 8601."""
    of: str | None = None
    """The object, such as a group, to which this figure belongs if the figure is a maximum over
    several objects. None for any other figure."""
    part: bool = False
    """True if this figure counts a part of another figure in the same list: for example, stopped
    groups are a part of all groups. The other figure is the nearest earlier one with ``part``
    False."""

    @property
    def words(self) -> str:
        """The figure as text, such as ``most 48 records (billing)``, ``3 groups`` or ``1 offset
        will expire``. A figure that counts a part of another figure has only number and label: ``3
        stopped``."""
        if self.part:
            return f"{self.value:,} {self.label}"
        if self.label == self.unit:
            return self._shown
        if self.label.startswith("will "):
            return f"{self._shown} {self.label}"
        whose = "" if self.of is None else f" ({self.of})"
        return f"{self.label} {self._shown}{whose}"

    @property
    def _shown(self) -> str:
        if isinstance(self.value, str):
            return self.value
        if self.unit == SHARE:
            return f"{self.value:.0%}"
        unit = self.unit.removesuffix("s") if self.value == 1 and len(self.unit) > 1 else self.unit
        return f"{self.value:,.0f} {unit}"


def words_of(figures: Iterable[Figure]) -> str:
    """Returns the text of a table's figures. A figure is followed by the figures that count parts
    of it, except those with the value 0."""
    said: list[list[str]] = []
    for figure in figures:
        if not figure.part:
            said.append([figure.words])
        elif figure.value:
            said[-1].append(figure.words)
    return ", ".join(f"{whole}: {', '.join(parts)}" if parts else whole for whole, *parts in said)


class Column(NamedTuple):
    """One figure in the summary of a table, and the SQL that computes it."""

    label: str
    unit: str
    sql: str
    """The SQL expression of the figure. If ``of`` is None, the expression is an aggregate over all
    rows. Otherwise it is a value of each row, and the figure is the highest of these values."""
    of: str | None = None
    """Only for a figure that is a maximum: an SQL expression, such as the group id. Its value in
    the row with the maximum is shown next to the figure."""
    part: bool = False


class Query(NamedTuple):
    """The query that computes the figures of a table."""

    columns: tuple[Column, ...] = ()
    over: str = "SELECT *, 1 AS _rows FROM {table}"
    """An SQL query whose rows are the input of the figures. The column `_rows` is the number of
    table rows that one row of the query represents."""


def figures_of(engine: Engine, name: str, relation: str = "") -> tuple[int, tuple[Figure, ...]]:
    """Returns the number of rows of a table, and the table's figures. The query reads the relation
    ``relation``, or by default the relation that has the table's name."""
    columns, over = FIGURES.get(name, Query())
    asked = ["CAST(coalesce(sum(_rows), 0) AS BIGINT) AS _rows"]
    for nth, column in enumerate(columns):
        if column.of is None:
            asked.append(f"{column.sql} AS value_{nth}")
            continue
        first = engine.dialect.struct(most=f"-coalesce({column.sql}, -9e18)", who=column.of)
        asked.append(f"max({column.sql}) AS value_{nth}, min_by({column.of}, {first}) AS of_{nth}")
    rows = over.format(table=relation or name)
    [row] = engine.ask(f"SELECT {', '.join(asked)} FROM ({rows}) AS counted")
    figures = (
        Figure(label, _json_value(row[f"value_{nth}"]), unit, row.get(f"of_{nth}"), part)
        for nth, (label, unit, _, _, part) in enumerate(columns)
        if row["_rows"] and row[f"value_{nth}"] is not None
    )
    return row["_rows"], tuple(figures)


def _json_value(value: int | float | datetime) -> int | float | str:
    if isinstance(value, datetime):
        return instant(round(value.timestamp() * 1000))
    return value


def _count(label: str, unit: str, condition: str, *, part: bool = False) -> Column:
    return Column(label, unit, f"count(CASE WHEN {condition} THEN 1 END)", part=part)


def _not_known(unit: str, condition: str) -> Column:
    """Returns the column "not known", which shows for how many rows ``condition`` is true. If the
    number is 0, the value is null, and the column is not shown."""
    return Column("not known", unit, f"nullif(count(CASE WHEN {condition} THEN 1 END), 0)")


def _distinct(column: str, label: str) -> Column:
    return Column(label, label, f"count(DISTINCT {column})")


_MEMBER: Final = "concat(client_id, ' at ', client_host, ' of ', group_id)"

FIGURES: Final[dict[str, Query]] = {
    "commits": Query(
        (
            _distinct("group_id", "groups"),
            _distinct("topic", "topics"),
            Column("from", TIME, "min(first_at)"),
            Column("to", TIME, "max(last_at)"),
        ),
        "SELECT group_id, topic, count(*) AS _rows, min(committed_at) AS first_at,"
        " max(committed_at) AS last_at"
        " FROM {table} GROUP BY group_id, topic",
    ),  # distinct counts over the table itself would multiply its rows
    "transactional_commits": Query(
        tuple(
            _count(each, "commits", f"outcome = '{each}'")
            for each in (TAKEN, SUPERSEDED, ROLLED_BACK, OPEN)
        )
    ),
    "rewinds": Query(
        (
            _distinct("group_id", "groups"),
            Column("farthest", "records", "rewound_records", of="group_id"),
        )
    ),
    "rates": Query(
        (
            Column("most in a minute", "commits", "commits", of="group_id"),
            Column("read", "records", whole_sum("advanced_records")),
        )
    ),
    "generations": Query(
        (_distinct("group_id", "groups"), _not_known("generations", "NOT known")),
    ),
    "assignments": Query(
        (_distinct("group_id", "groups"), _not_known("states", "NOT known")),
    ),
    "moves": Query(
        (
            _distinct("group_id", "groups"),
            Column("longest without an owner", "s", "unowned_s", of="group_id"),
        )
    ),
    "churn": Query((Column("most", "rebalances", "rebalances", of="group_id"),)),
    "restless_members": Query((Column("most", "rebalances", "rebalances", of=_MEMBER),)),
    "lag": Query(
        (
            Column("most", "records", "lag_records", of="group_id"),
            Column("oldest unread", "s", "lag_s", of="group_id"),
            Column("lost", "records", "nullif(lost_records, 0)", of="group_id"),
        )
    ),
    "catch_up": Query(
        (
            _count("will never catch up", "partitions", "never"),
            *(
                _count(label, "partitions", f"verdict = '{verdict}'", part=True)
                for label, verdict in (
                    (FALLING_BEHIND, FALLING_BEHIND),
                    (STOPPED, STOPPED),
                    ("without members", NOBODY),
                )
            ),
        )
    ),
    "expiring_offsets": Query(
        (
            _count("expired", "offsets", "expired"),
            _count("will expire", "offsets", "NOT expired AND expires_at IS NOT NULL"),
            _not_known("offsets", "expired IS NULL"),
        )
    ),
    "dead_groups": Query((Column("still committed", "offsets", whole_sum("kept_offsets")),)),
    "compaction": Query(
        (
            Column("superseded", "records", whole_sum("superseded_records")),
            Column("saves about", "bytes", whole_sum("superseded_bytes_estimate")),
            Column(
                "share of the log",
                SHARE,
                "try_divide(sum(superseded_bytes_estimate), sum(bytes_estimate))",
            ),
        )
    ),
}

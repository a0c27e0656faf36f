"""Determines when the records at committed offsets were written, and when they arrived."""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT
from pipeline.model.params import Params

_IN_STRETCHES: Final = """
    SELECT topic, partition, position,
        timestamp_millis(first_ms + CAST(floor(span_ms * share) AS BIGINT)) AS at,
        CASE WHEN first_ms IS NOT NULL THEN CASE WHEN share > 0
            THEN span_ms * greatest(share, 1 - share) ELSE 0 END / 1e3 END AS precision_s,
        arrived_ms - arrived_span_ms + CAST(floor(arrived_span_ms * share) AS BIGINT) AS arrived_ms,
        CASE WHEN arrived_ms IS NOT NULL THEN early_ms + arrived_span_ms * share END AS early_ms,
        CASE WHEN arrived_ms IS NOT NULL THEN late_ms + CASE WHEN share > 0
            THEN arrived_span_ms * (1 - share) ELSE 0 END END AS late_ms
    FROM parts
"""
"""SQL that reads the CTE `parts` and returns the time of each position, which is an offset. The
time is interpolated within the stretch that contains the position."""


def offset_times(d: Dialect, p: Params) -> str:
    """Returns the query of `offset_times`, from `arrivals` and `offset_changes`: the times of each
    `position`, which is an offset that a group committed.

    The times are those of the first record at or after the position, interpolated between the first
    and the last record of its stretch. A position without such a record has no row.

    `at` is the record's own timestamp; null if it has none. `precision_s` is the maximum error of
    `at`: the distance to the farther end of the stretch, or 0 if the timestamp of exactly this
    record is known.

    `arrived_ms` is the arrival of the record; null if unknown. The true arrival is at most
    `early_ms` before and `late_ms` after `arrived_ms`. Null if the earliest arrival is unknown.
    """
    columns = (
        "base_offset", "last_offset", "first_ms", "last_ms", "began_ms", "arrived_ms", "latest_ms",
        "early_ms", "late_ms", "loose_ms",
    )  # fmt: skip
    stretch = d.struct(**{name: name for name in columns})
    nothing = ", ".join(f"CAST(NULL AS BIGINT) AS {name}" for name in columns)
    behind = (
        "PARTITION BY topic, partition ORDER BY place DESC, asked"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    return f"""
    WITH asked AS (
        SELECT DISTINCT topic, partition, committed_offset AS position FROM offset_changes
        WHERE kind = '{COMMIT}'
    ),
    placed AS (
        SELECT topic, partition, position, true AS asked, position AS place,
            {nothing}
        FROM asked
        UNION ALL
        SELECT topic, partition, NULL, false, last_offset, base_offset, last_offset,
            unix_millis(first_at), unix_millis(last_at), began_ms, arrived_ms,
            latest_ms, early_ms, late_ms, loose_ms
        FROM arrivals WHERE NOT seen
    ),
    found AS (
        SELECT topic, partition, position, asked,
            {d.last(f"CASE WHEN NOT asked THEN {stretch} END", behind)} AS s
        FROM placed
    ),
    parts AS (
        SELECT topic, partition, position, s.first_ms AS first_ms, s.began_ms AS began_ms,
            CASE WHEN s.last_offset > s.base_offset AND position > s.base_offset
                THEN (position - s.base_offset) / (s.last_offset - s.base_offset)
                ELSE 0e0 END AS share,
            greatest(s.last_ms - s.first_ms, 0) AS span_ms,
            CASE WHEN s.latest_ms IS NOT NULL THEN s.latest_ms
                WHEN s.arrived_ms > 0 THEN s.arrived_ms END AS arrived_ms,
            CASE WHEN s.latest_ms IS NOT NULL THEN 0 ELSE s.arrived_ms - s.began_ms END
                AS arrived_span_ms,
            s.early_ms AS early_ms,
            s.late_ms + CASE WHEN position > s.base_offset THEN s.loose_ms ELSE 0 END AS late_ms
        FROM found WHERE asked AND s IS NOT NULL
    )
    {_IN_STRETCHES}
    """

"""When the records of topics were written, by their offsets."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT
from pipeline.model.params import Params


def offset_times(d: Dialect, p: Params) -> str:
    """STRETCHES and `offset_changes` to the time `at` of each `position` that a group committed.

    It is the time of the first record at or after the position, interpolated in its stretch between
    first and last; `precision_s` says how far off it may be, 0 where it is a record's own. No row
    where no such record is known.
    """
    return f"""
    WITH asked AS (
        SELECT DISTINCT topic, partition, committed_offset AS position FROM offset_changes
        WHERE kind = '{COMMIT}'
    ),
    placed AS (
        SELECT topic, partition, position, true AS asked, position AS place,
            CAST(NULL AS BIGINT) AS base_offset, CAST(NULL AS BIGINT) AS last_offset,
            CAST(NULL AS TIMESTAMP) AS first_at, CAST(NULL AS TIMESTAMP) AS last_at
        FROM asked
        UNION ALL
        SELECT topic, partition, NULL, false, last_offset, base_offset, last_offset, first_at,
            last_at
        FROM stretches WHERE last_offset >= base_offset
    ),
    found AS (
        SELECT topic, partition, position, asked,
            {
        d.last(
            "CASE WHEN NOT asked THEN "
            + d.struct(
                base_offset="base_offset",
                last_offset="last_offset",
                first_at="first_at",
                last_at="last_at",
            )
            + " END",
            "PARTITION BY topic, partition"
            " ORDER BY place DESC, asked ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        )
    }
            AS stretch
        FROM placed
    ),
    parts AS (
        SELECT topic, partition, position, stretch.first_at AS first_at,
            greatest(position - stretch.base_offset, 0) AS steps,
            stretch.last_offset - stretch.base_offset AS length,
            unix_millis(stretch.last_at) - unix_millis(stretch.first_at) AS span_ms
        FROM found WHERE asked AND stretch IS NOT NULL
    )
    SELECT topic, partition, position,
        CASE WHEN steps = 0 OR span_ms <= 0 THEN first_at
            ELSE timestamp_millis(unix_millis(first_at)
                + CAST(floor(span_ms * (CAST(steps AS DOUBLE) / length)) AS BIGINT)) END AS at,
        CASE WHEN steps = 0 OR span_ms <= 0 THEN 0e0 ELSE span_ms / 1e3 END AS precision_s
    FROM parts WHERE first_at IS NOT NULL
    """

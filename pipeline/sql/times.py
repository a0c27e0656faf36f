"""When the records of topics were written, by their offsets.

A record's own date may be false: a producer's clock goes wrong, or a producer copies old records.
A log is written in order, so that dates which go back contradict each other. `arrivals` believes as
many as it can.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT
from pipeline.model.params import Params

_PLACE: Final = "PARTITION BY topic, partition ORDER BY base_offset, last_offset"
_BEFORE: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_UP_TO: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_FROM_HERE: Final = f"{_PLACE} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
_BEHIND: Final = f"{_PLACE} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"
SKEW_MS: Final = 60_000
"""A date that is no further off than this from where it can be is a clock's small error."""


def arrivals(d: Dialect, p: Params) -> str:
    """STRETCHES to the same with when they arrived: `began_ms` to `arrived_ms`, never going back.

    Bounds that hold for sure: the ends that were seen (`seen`: a row without records), and the time
    of reading. Within them dates are believed, but where they contradict each other: each part of
    the log whose dates do so is taken with those behind it (a date ahead of them is false) or
    with those before it (a date behind them is false), whichever leaves fewer disbelieved. What is
    disbelieved, or has no date, arrived between its neighbours that are believed: at the nearer one
    where its date is almost there, else about the middle; by the as-of if it may be, for a broker
    is asked a moment after it. `doubt_ms` says how far off that may be, null where nothing before
    it is known: what has no date, or one ahead of the reading, was there ever since then (0).
    """
    return f"""
    WITH {_bounded(p)},
    {_believed()},
    neighboured AS (
        SELECT *, greatest(after_ms, max(CASE WHEN sure_ms IS NOT NULL
                THEN least(sure_ms, first_ms) END) OVER ({_BEFORE})) AS low_ms,
            least(min(sure_ms) OVER ({_BEHIND}), by_ms) AS high_ms
        FROM believed
    ),
    bordered AS (
        SELECT *, CASE WHEN first_ms BETWEEN coalesce(low_ms, 0) AND high_ms THEN first_ms
            ELSE low_ms END AS from_ms
        FROM neighboured
    ),
    placed AS (
        SELECT *,
            CASE WHEN sure_ms IS NOT NULL THEN sure_ms
                WHEN from_ms IS NULL
                    THEN CASE WHEN last_ms <= high_ms + {SKEW_MS} THEN high_ms ELSE 0 END
                WHEN last_ms BETWEEN from_ms - {SKEW_MS} AND high_ms + {SKEW_MS}
                    THEN least(greatest(last_ms, from_ms), high_ms)
                ELSE from_ms + CAST(floor((high_ms - from_ms) / 2) AS BIGINT) END AS likely_ms,
            last_ms BETWEEN from_ms - {SKEW_MS} AND high_ms + {SKEW_MS} AS almost
        FROM bordered
    ),
    by_then AS (
        SELECT *, CASE WHEN sure_ms IS NULL AND from_ms <= {p.as_of_ms}
            THEN least(likely_ms, {p.as_of_ms}) ELSE likely_ms END AS then_ms
        FROM placed
    ),
    ascending AS (
        SELECT *, max(then_ms) OVER ({_UP_TO}) AS arrived_ms,
            coalesce(max(then_ms) OVER ({_BEFORE}), 0) AS previous_ms
        FROM by_then
    )
    SELECT topic, partition, base_offset, last_offset, seen, first_at, last_at, arrived_ms,
        CASE WHEN sure_ms IS NOT NULL THEN 0
            WHEN from_ms IS NULL THEN NULL
            WHEN almost THEN abs(last_ms - arrived_ms)
            ELSE greatest(arrived_ms - from_ms, high_ms - arrived_ms) END AS doubt_ms,
        CASE WHEN sure_ms IS NULL THEN arrived_ms
            ELSE least(greatest(coalesce(first_ms, arrived_ms), previous_ms), arrived_ms)
            END AS began_ms
    FROM ascending
    """


def _bounded(p: Params) -> str:
    """The CTE `told`: each stretch with the bounds of its arrival, and its date within them."""
    return f"""
    numbered AS (
        SELECT topic, partition, base_offset, last_offset, last_offset < base_offset AS seen,
            first_at, last_at, unix_millis(first_at) AS first_ms, unix_millis(last_at) AS last_ms
        FROM stretches WHERE last_offset >= base_offset OR last_at IS NOT NULL
    ),
    bounded AS (
        SELECT *,
            max(CASE WHEN seen THEN last_ms END) OVER up_to AS after_ms,
            least({p.written_by_ms}, min(CASE WHEN seen THEN last_ms END) OVER by_end) AS by_ms
        FROM numbered
        WINDOW up_to AS ({_UP_TO}),
            by_end AS (PARTITION BY topic, partition ORDER BY last_offset, seen
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ),
    told AS (
        SELECT *, CASE WHEN last_ms IS NOT NULL
            THEN least(greatest(last_ms, after_ms), by_ms) END AS told_ms
        FROM bounded
    )"""


def _believed() -> str:
    """The CTE `believed`: `sure_ms` is a date that stands, null for one that does not."""
    return f"""
    compared AS (
        SELECT *, max(told_ms) OVER ({_BEFORE}) AS before_ms,
            max(told_ms) OVER ({_UP_TO}) AS most_ms,
            min(told_ms) OVER ({_FROM_HERE}) AS least_ms
        FROM told
    ),
    parted AS (
        SELECT *, sum(CASE WHEN before_ms > least_ms THEN 0 ELSE 1 END) OVER ({_UP_TO}) AS part
        FROM compared
    ),
    voted AS (
        SELECT *, sum(CASE WHEN told_ms > least_ms THEN 1 ELSE 0 END) OVER (
                PARTITION BY topic, partition, part
            ) <= sum(CASE WHEN told_ms < most_ms THEN 1 ELSE 0 END) OVER (
                PARTITION BY topic, partition, part
            ) AS ahead
        FROM parted
    ),
    believed AS (
        SELECT *, CASE WHEN last_ms = CASE WHEN ahead THEN least_ms ELSE most_ms END
            THEN last_ms END AS sure_ms
        FROM voted
    )"""


def offset_times(d: Dialect, p: Params) -> str:
    """`arrivals` and `offset_changes` to the times of each `position` that a group committed.

    They are those of the first record at or after the position, interpolated in its stretch between
    first and last; no row where no such record is known. `at` is the record's own date, null where
    it has none; `precision_s` says how far off it may be, 0 where it was told for this very record.
    `arrived_ms` is when it arrived, null where that is not known, by `arrived_precision_s`; null
    for not known.
    """
    columns = ("base_offset", "last_offset", "first_ms", "last_ms", "began_ms", "arrived_ms")
    stretch = d.struct(**{name: name for name in columns}, doubt_ms="doubt_ms")
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
            {nothing},
            CAST(NULL AS BIGINT) AS doubt_ms
        FROM asked
        UNION ALL
        SELECT topic, partition, NULL, false, last_offset, base_offset, last_offset,
            unix_millis(first_at), unix_millis(last_at), began_ms, arrived_ms, doubt_ms
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
            CASE WHEN s.arrived_ms > 0 THEN s.arrived_ms END AS arrived_ms,
            s.arrived_ms - s.began_ms AS arrived_span_ms, s.doubt_ms AS doubt_ms
        FROM found WHERE asked AND s IS NOT NULL
    )
    SELECT topic, partition, position,
        timestamp_millis(first_ms + CAST(floor(span_ms * share) AS BIGINT)) AS at,
        CASE WHEN first_ms IS NOT NULL THEN {_off("span_ms")} / 1e3 END AS precision_s,
        arrived_ms - arrived_span_ms + CAST(floor(arrived_span_ms * share) AS BIGINT) AS arrived_ms,
        CASE WHEN arrived_ms IS NOT NULL THEN
            (doubt_ms + {_off("arrived_span_ms")}) / 1e3 END AS arrived_precision_s
    FROM parts
    """


def _off(span: str) -> str:
    """How far off a time is that was interpolated: as far as the farther end of the span."""
    return f"CASE WHEN share > 0 THEN {span} * greatest(share, 1 - share) ELSE 0 END"

"""Computes the figures of each group in a window of time, for the comparison of two windows."""

from __future__ import annotations

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params
from pipeline.sql.sums import whole_sum


def window(d: Dialect, p: Params, *, by_topic: bool) -> str:
    """Returns the query that has one row for each group in the window, or for each topic of each
    group.

    The window is from `since_ms` to the as-of time. The tables `commits`, `lag` and `churn` must
    cover this window. The lag of a group in a time step is the sum of the lags of its partitions.
    The row has the largest lag of all time steps of the window.
    """
    assert p.since_ms is not None
    key = "group_id, topic" if by_topic else "group_id"
    seconds = (p.as_of_ms - p.since_ms) / 1000
    same = " AND ".join(f"{{0}}.{name} = {{1}}.{name}" for name in key.split(", "))
    forward, back = (
        f"CASE WHEN advanced_records {sign} 0 THEN {by} ELSE 0 END"
        for sign, by in ((">", "advanced_records"), ("<", "try_subtract(0, advanced_records)"))
    )
    read = "CASE WHEN m.commits IS NULL THEN 0 ELSE m.read_records END"
    groups = "" if by_topic else "UNION SELECT group_id FROM churn"
    rebalances = "CAST(NULL AS BIGINT)" if by_topic else "coalesce(c.rebalances, 0)"
    return f"""
    WITH moved AS (
        SELECT {key}, count(*) AS commits, {whole_sum(forward)} AS read_records,
            count(CASE WHEN advanced_records < 0 THEN 1 END) AS rewinds,
            {whole_sum(back)} AS rewound_records
        FROM commits GROUP BY {key}
    ),
    stepped AS (
        SELECT {key}, minute, sum(CAST(greatest(lag_records, 0) AS DOUBLE)) AS lag_records,
            max(lag_s) AS lag_s
        FROM lag WHERE lag_records IS NOT NULL GROUP BY {key}, minute
    ),
    behind AS (
        SELECT {key}, max(lag_records) AS most_lag_records, max(lag_s) AS most_lag_s
        FROM stepped GROUP BY {key}
    ),
    there AS (SELECT {key} FROM commits UNION SELECT {key} FROM lag {groups})
    SELECT {", ".join(f"t.{name}" for name in key.split(", "))},
        coalesce(m.commits, 0) AS commits, {read} AS read_records,
        CAST({read} / {seconds}e0 AS DOUBLE) AS read_per_s,
        coalesce(m.rewinds, 0) AS rewinds,
        CASE WHEN m.commits IS NULL THEN 0 ELSE m.rewound_records END AS rewound_records,
        CAST({rebalances} AS BIGINT) AS rebalances,
        CAST(b.most_lag_records AS BIGINT) AS most_lag_records, b.most_lag_s
    FROM there t
    LEFT JOIN moved m ON {same.format("m", "t")}
    LEFT JOIN behind b ON {same.format("b", "t")}
    LEFT JOIN churn c ON c.group_id = t.group_id
    """

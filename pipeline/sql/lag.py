"""The lag of groups over time, and whether they will catch up.

A group's offset at the end of a time step is the last offset that the group had committed by then.
In time steps without commits, this offset is repeated until the as-of time, because the lag of a
stopped group grows too. Log end offsets and ages of records are computed from the times at which
the records arrived (`arrivals.arrivals`), not from their timestamps.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params
from pipeline.sql.arrivals import SKEW_MS
from pipeline.sql.groups import OF_MEMBERS

MOST_ROWS: Final = 10_000_000
"""The maximum number of rows of a lag table. If time steps of a minute would lead to more rows,
longer steps are used."""
STEPS_MS: Final = tuple(60_000 * n for n in (1, 5, 15, 60, 360, 1440))
RECENT_MINUTES: Final = 10
"""The current rates are computed over this number of minutes before the as-of time."""
_KEY: Final = "group_id, topic, partition"

CAUGHT_UP, CATCHING_UP, LEVEL = "caught up", "catching up", "level"
FALLING_BEHIND, STOPPED, UNKNOWN_RATE = "falling behind", "stopped", "not known"
NOBODY = "nobody runs it"
OUT_OF_RANGE = "out of range"

_VERDICT: Final = f"""
    CASE WHEN lag_records = 0 THEN '{CAUGHT_UP}'
        WHEN lag_records < 0 THEN '{OUT_OF_RANGE}'
        WHEN member_count = 0 AND NOT coalesce(reads_alone, false) THEN '{NOBODY}'
        WHEN consumed_per_s IS NULL OR grown_records IS NULL THEN '{UNKNOWN_RATE}'
        WHEN consumed_per_s <= 0 THEN '{STOPPED}'
        WHEN grown_records > 0 THEN '{FALLING_BEHIND}'
        WHEN grown_records < 0 THEN '{CATCHING_UP}'
        ELSE '{LEVEL}' END
"""


def lag_steps(d: Dialect, p: Params) -> str:
    """Returns a query with one row, which describes the time steps of LAG: the length of a step
    (`step_ms`), and the starts of the first (`first_ms`) and of the last step (`last_ms`)."""
    steps = " UNION ALL ".join(f"SELECT CAST({each} AS BIGINT) AS step_ms" for each in STEPS_MS)
    span_ms = p.as_of_ms - p.lag_since_ms
    return f"""
    WITH series AS (SELECT count(*) AS found FROM (SELECT DISTINCT {_KEY} FROM offset_changes)
        AS keys),
    chosen AS (
        SELECT coalesce(min(CASE WHEN found * ({span_ms} / step_ms + 1) <= {MOST_ROWS}
            THEN step_ms END), max(step_ms)) AS step_ms
        FROM ({steps}) AS steps CROSS JOIN series
    )
    SELECT step_ms, {_begin(str(p.lag_since_ms))} AS first_ms, {_begin(str(p.as_of_ms - 1))}
        AS last_ms
    FROM chosen
    """


def recent_steps(d: Dialect, p: Params) -> str:
    """Returns the query of the time steps in the last RECENT_MINUTES, from which the current rates
    are computed."""
    first_ms = p.as_of_ms - RECENT_MINUTES * STEPS_MS[0] - 1
    return f"""
    SELECT step_ms, {_begin(str(first_ms))} AS first_ms, {_begin(str(p.as_of_ms - 1))} AS last_ms
    FROM (SELECT CAST({STEPS_MS[0]} AS BIGINT) AS step_ms) AS steps
    """


def lag(d: Dialect, p: Params) -> str:
    """Returns the query of LAG: the lag of each group at the end of each time step of the window.

    The lag in seconds is the age of the first unread record. If this age is only known to be at
    least a certain time, the lag is that time and its precision is null. If nothing is known about
    the records of the topic, the lag in seconds and its precision are both null. The true age is
    never below 0, so an estimated age of x seconds is too high by at most x seconds.
    """
    return _lag(d, p, "lag_steps")


def recent_lag(d: Dialect, p: Params) -> str:
    """Returns the query of LAG for the last RECENT_MINUTES minutes before the as-of time, even if
    the window of the run does not include all of these minutes."""
    return _lag(d, p, "recent_steps")


def _lag(d: Dialect, p: Params, steps: str) -> str:
    first = "greatest(committed_offset, coalesce(start_offset, committed_offset))"
    return f"""
    WITH {_held(d, p, steps)},
    {_ends(d, p)},
    met AS (
        SELECT h.*, CASE WHEN h.committed_offset <= e.known_end
                THEN greatest(e.end_offset, h.committed_offset) ELSE e.end_offset END AS end_offset,
            e.end_doubt_ms, e.start_offset,
            CASE WHEN h.committed_offset >= e.known_start THEN 0
                ELSE greatest(e.start_offset - h.committed_offset, 0) END AS lost,
            e.start_offset IS NOT NULL OR h.committed_offset >= e.known_start AS start_known,
            t.arrived_ms, t.early_ms, t.late_ms
        FROM held h
        LEFT JOIN ends e ON e.topic = h.topic AND e.partition = h.partition
            AND e.as_of_ms = h.as_of_ms
        LEFT JOIN offset_times t ON t.topic = h.topic AND t.partition = h.partition
            AND t.position = h.committed_offset
    ),
    counted AS (
        SELECT *, try_subtract(end_offset, {first}) AS lag_records,
            CASE WHEN early_ms IS NOT NULL OR arrived_ms < as_of_ms
                THEN least(arrived_ms, as_of_ms) END AS unread_ms
        FROM met
    )
    SELECT {_KEY}, timestamp_millis(begin_ms) AS minute, step_ms / 1e3 AS step_s,
        timestamp_millis(as_of_ms) AS as_of, committed_at, committed_offset, end_offset,
        lag_records, CASE WHEN start_known THEN lost END AS lost_records,
        CASE WHEN lag_records > 0 THEN timestamp_millis(unread_ms) END AS unread_at,
        CASE WHEN lag_records = 0 THEN 0e0
            WHEN lag_records > 0 THEN (as_of_ms - unread_ms) / 1e3 END AS lag_s,
        CASE WHEN lag_records = 0 THEN end_doubt_ms / 1e3
            WHEN lag_records > 0 AND early_ms IS NOT NULL
                THEN greatest(early_ms, least(late_ms, as_of_ms - arrived_ms),
                    arrived_ms - as_of_ms) / 1e3 END AS lag_precision_s,
        {d.day("timestamp_millis(begin_ms)")} AS day
    FROM counted
    """


def _held(d: Dialect, p: Params, steps: str) -> str:
    """Returns the CTE `held`: each group's committed offset at the end of each time step."""
    steps_held = d.numbers("CAST(0 AS BIGINT)", "CAST((until_ms - begin_ms) / step_ms AS BIGINT)")
    return f"""
    dated AS (
        SELECT {_KEY}, committed_offset, "at", effect_offset,
            max(unix_millis("at")) OVER (PARTITION BY {_KEY} ORDER BY effect_offset, log_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS at_ms
        FROM offset_changes
    ),
    stepped AS (
        SELECT {_KEY}, s.step_ms, s.last_ms, effect_offset,
            least(greatest(at_ms - at_ms % s.step_ms, s.first_ms), s.last_ms) AS begin_ms,
            {d.struct(committed_offset="committed_offset", committed_at='"at"')} AS held
        FROM dated CROSS JOIN {steps} s WHERE at_ms <= {p.as_of_ms}
    ),
    last_held AS (
        SELECT {_KEY}, step_ms, last_ms, begin_ms, max_by(held, effect_offset) AS held
        FROM stepped GROUP BY {_KEY}, step_ms, last_ms, begin_ms
    ),
    lasting AS (
        SELECT {_KEY}, step_ms, begin_ms, held, coalesce(lead(begin_ms) OVER (
                PARTITION BY {_KEY} ORDER BY begin_ms) - step_ms, last_ms) AS until_ms
        FROM last_held
    ),
    held AS (
        SELECT {_KEY}, step_ms, begin_ms + n.step * step_ms AS begin_ms,
            least(begin_ms + (n.step + 1) * step_ms, {p.as_of_ms}) AS as_of_ms,
            held.committed_offset AS committed_offset, held.committed_at AS committed_at
        FROM (SELECT {_KEY}, step_ms, begin_ms, held, {steps_held} AS steps FROM lasting
            WHERE held.committed_offset IS NOT NULL) AS lasting
            {d.unnest("steps", "n", "step")}
    )"""


def _ends(d: Dialect, p: Params) -> str:
    """Returns the CTE `ends`: for each partition, the log start offset and the log end offset at
    the end of each time step.

    A run can read the log start offset only after the as-of time, so the query uses this offset
    also for the minute before the read. `known_start` and `known_end` are upper bounds of the two
    offsets at the as-of time, because they also count records that arrived later. A group can't
    read more records than the log has. Therefore the log end offset is at least each offset up to
    which a group has read, even if the timestamps contradict this.
    """
    stretch = d.struct(
        base_offset="base_offset",
        last_offset="last_offset",
        began_ms="at_ms",
        arrived_ms="arrived_ms",
    )
    so_far = (
        "PARTITION BY topic, partition ORDER BY at_ms, asked, base_offset, last_offset"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    may_begin = "least(began_ms, arrived_ms - coalesce(early_ms, arrived_ms))"
    by_then = "as_of_ms >= s.arrived_ms OR s.last_offset <= s.base_offset"
    share = "(as_of_ms - s.began_ms) / (s.arrived_ms - s.began_ms)"
    return f"""
    points AS (
        SELECT DISTINCT topic, partition, as_of_ms AS at_ms, true AS asked,
            CAST(NULL AS BIGINT) AS base_offset, CAST(NULL AS BIGINT) AS last_offset,
            CAST(NULL AS BIGINT) AS arrived_ms, CAST(NULL AS BIGINT) AS start_offset,
            CAST(NULL AS BIGINT) AS reach
        FROM held
        UNION ALL
        SELECT topic, partition, began_ms, false, base_offset, last_offset, arrived_ms, NULL,
            CASE WHEN {may_begin} <= {p.as_of_ms} THEN last_offset + 1 END
        FROM arrivals
        UNION ALL
        SELECT topic, partition,
            least(coalesce(unix_millis(first_at) - {SKEW_MS}, {p.written_by_ms}),
                {p.written_by_ms}), false, NULL, NULL, NULL, base_offset, NULL
        FROM stretches WHERE last_offset < base_offset AND last_at IS NULL
    ),
    at_points AS (
        SELECT topic, partition, at_ms AS as_of_ms, asked,
            {d.last(f"CASE WHEN base_offset IS NOT NULL THEN {stretch} END", so_far)} AS s,
            max(start_offset) OVER (PARTITION BY topic, partition) AS known_start,
            max(reach) OVER (PARTITION BY topic, partition) AS known_end,
            max(start_offset) OVER ({so_far}) AS start_offset
        FROM points
    ),
    ends AS (
        SELECT topic, partition, as_of_ms, known_start, known_end, start_offset,
            CASE WHEN s IS NULL THEN start_offset WHEN {by_then} THEN s.last_offset + 1
                ELSE s.base_offset + 1 + CAST(floor((s.last_offset - s.base_offset)
                    * {share}) AS BIGINT) END AS end_offset,
            CASE WHEN s IS NULL OR {by_then} THEN 0e0 ELSE as_of_ms - s.began_ms END
                AS end_doubt_ms
        FROM at_points WHERE asked
    )"""


def catch_up(d: Dialect, p: Params) -> str:
    """Returns the query of CATCH_UP: whether each group will catch up in each partition.

    The verdict follows from the rates of the last RECENT_MINUTES. `never` is true if the group
    falls behind, or has stopped with unread records. A partition has no row if its committed offset
    was deleted before the as-of time, or if its lag is unknown.

    A group without members usually has the verdict `nobody runs it`. If its offset has advanced
    after its members left, a standalone consumer reads: it commits without being a member. In this
    case the verdict follows from the rates. The member count is null for a group that was deleted
    or never had members.
    """
    columns = ("as_of", "committed_at", "committed_offset", "end_offset", "lag_records",
               "lost_records", "lag_s", "lag_precision_s")  # fmt: skip
    point = d.struct(**{name: name for name in columns})
    state = d.struct(
        members=f"CASE WHEN known AND {OF_MEMBERS} THEN {d.size('members')} END",
        since_ms='unix_millis("at")',
    )
    return f"""
    WITH ended AS (
        SELECT {_KEY}, min_by({point}, minute) AS a, max_by({point}, minute) AS b
        FROM recent_lag WHERE end_offset IS NOT NULL GROUP BY {_KEY}
    ),
    observed AS (
        SELECT {_KEY}, a, b, (unix_millis(b.as_of) - unix_millis(a.as_of)) / 1e3 AS observed_s,
            try_subtract(b.committed_offset, a.committed_offset) AS consumed,
            try_subtract(b.end_offset, a.end_offset) AS produced
        FROM ended WHERE unix_millis(b.as_of) = {p.as_of_ms}
    ),
    rated AS (
        SELECT {_KEY}, b.as_of AS as_of, b.lag_records AS lag_records,
            b.lost_records AS lost_records, b.lag_s AS lag_s, b.lag_precision_s AS lag_precision_s,
            b.committed_at AS committed_at, observed_s,
            try_divide(consumed, observed_s) AS consumed_per_s,
            try_divide(produced, observed_s) AS produced_per_s,
            try_subtract(produced, consumed) AS grown_records
        FROM observed
    ),
    peopled AS (
        SELECT group_id, max_by({state}, log_offset) AS state FROM group_states GROUP BY group_id
    ),
    joined AS (
        SELECT r.*, g.state.members AS member_count,
            consumed_per_s > 0 AND max(unix_millis(r.committed_at)) OVER (PARTITION BY r.group_id)
                > g.state.since_ms AS reads_alone
        FROM rated r LEFT JOIN peopled g ON g.group_id = r.group_id
    ),
    judged AS (SELECT *, {_VERDICT} AS verdict FROM joined)
    SELECT *, verdict IN ('{FALLING_BEHIND}', '{STOPPED}', '{NOBODY}') AS never,
        CASE WHEN verdict = '{CAUGHT_UP}' THEN 0e0
            WHEN verdict = '{CATCHING_UP}'
                THEN try_divide(lag_records, consumed_per_s - produced_per_s) END AS catch_up_s
    FROM judged
    """


def _begin(ms: str) -> str:
    return f"{ms} - {ms} % step_ms"

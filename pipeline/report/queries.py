"""SQL queries of a report over the tables, for every engine.

The relation `GROUPS` is computed first and kept. It has a row for each group, and its column
`place` is 1 for the worst group. The other queries return rows only for the groups whose `place` is
at most `Window.parts`, so their results do not grow with the history.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.report.head import Thresholds
from pipeline.report.labels import as_shown
from pipeline.report.states import (
    BEHIND,
    DEAD,
    DELETED,
    DROWNING,
    EMPTY,
    KEEPS_UP,
    NOBODY,
    OUT_OF_RANGE,
    STATES,
    STUCK,
    UNKNOWN,
)
from pipeline.report.window import GROUPS, Window
from pipeline.sql.lag import FALLING_BEHIND, STOPPED
from pipeline.sql.lag import NOBODY as ALONE
from pipeline.sql.lag import OUT_OF_RANGE as BEYOND
from pipeline.sql.offsets import OPEN, ROLLED_BACK, SUPERSEDED, TAKEN
from pipeline.sql.retention import DELETED as GONE

MOMENTS: Final = "report_moments"
ROWS: Final = 8
"""The maximum number of rows of each list in a group's section."""


def span() -> str:
    """Returns the query of two time spans: the span of the history, and the span of the minutes in
    the table `lag`."""
    return """
    SELECT unix_millis(min(seen_at)) AS began_ms, unix_millis(max(seen_at)) AS ended_ms,
        unix_millis(min(minute)) AS lag_from_ms, unix_millis(max(as_of)) AS lag_until_ms
    FROM (
        SELECT committed_at AS seen_at, CAST(NULL AS TIMESTAMP) AS minute,
            CAST(NULL AS TIMESTAMP) AS as_of FROM commits
        UNION ALL SELECT began_at, NULL, NULL FROM generations
        UNION ALL SELECT NULL, minute, as_of FROM lag
    ) AS dated
    """


_UNREAD: Final = "CASE WHEN lag_records < 0 THEN 0 ELSE lag_records END"
"""SQL: the unread records of a partition; 0 for an offset above the log end offset."""

_IS_LEAST: Final = "max(CASE WHEN lag_s > 0 AND lag_precision_s IS NULL THEN 1 ELSE 0 END)"
"""SQL aggregate over partitions: 1 if `lag_s` of at least one partition is only a lower bound,
because the oldest unread record of the partition may be older; otherwise 0."""

_COUNTED: Final = f"""
    named AS (
        SELECT group_id FROM commits UNION SELECT group_id FROM generations
        UNION SELECT group_id FROM transactional_commits
        UNION SELECT group_id FROM expiring_offsets UNION SELECT group_id FROM dead_groups
    ),
    committed AS (
        SELECT group_id, count(*) AS commits, unix_millis(max(committed_at)) AS last_commit_ms,
            unix_millis(min(coalesce(previous_at, committed_at))) AS first_commit_ms
        FROM commits GROUP BY group_id
    ),
    rewound AS (SELECT group_id, count(*) AS rewinds FROM rewinds GROUP BY group_id),
    numbered AS (
        SELECT group_id, group_type, protocol_type, member_count, ended_at,
            coalesce(known, true) AS known, row_number() OVER (
                PARTITION BY group_id ORDER BY life DESC, log_offset DESC) AS nth
        FROM generations
    ),
    latest AS (
        SELECT group_id, group_type, known, CASE WHEN known AND ended_at IS NULL
            AND coalesce(protocol_type, '') <> '' THEN member_count END AS members
        FROM numbered WHERE nth = 1
    ),
    behind AS (
        SELECT group_id, sum({_UNREAD}) AS lag_records, max(lag_s) AS lag_s,
            max(lag_precision_s) AS lag_precision_s, sum(lost_records) AS lost_records,
            {_IS_LEAST} AS lag_is_least
        FROM lag WHERE minute = (SELECT max(minute) FROM lag) GROUP BY group_id
    ),
    verdicts AS (
        SELECT group_id, max(member_count) AS members,
            sum(CASE WHEN verdict = '{ALONE}' THEN 1 ELSE 0 END) AS left_alone,
            sum(CASE WHEN verdict = '{FALLING_BEHIND}' THEN 1 ELSE 0 END) AS falling,
            sum(CASE WHEN verdict = '{STOPPED}' THEN 1 ELSE 0 END) AS stopped,
            sum(CASE WHEN verdict = '{BEYOND}' THEN 1 ELSE 0 END) AS beyond
        FROM catch_up GROUP BY group_id
    ),
    transacted AS (
        SELECT group_id, sum(CASE WHEN outcome = '{TAKEN}' THEN 1 ELSE 0 END) AS tx_committed,
            sum(CASE WHEN outcome = '{SUPERSEDED}' THEN 1 ELSE 0 END) AS tx_superseded,
            sum(CASE WHEN outcome = '{ROLLED_BACK}' THEN 1 ELSE 0 END) AS tx_aborted,
            sum(CASE WHEN outcome = '{OPEN}' THEN 1 ELSE 0 END) AS tx_open
        FROM transactional_commits GROUP BY group_id
    ),
    expiring AS (
        SELECT group_id, count(*) AS offsets, sum(CASE WHEN expired THEN 1 ELSE 0 END) AS expired,
            unix_millis(min(CASE WHEN expired THEN NULL ELSE expires_at END)) AS expires_ms
        FROM expiring_offsets GROUP BY group_id
    ),
    gone AS (SELECT group_id, max(reason) AS reason FROM dead_groups GROUP BY group_id)"""
"""The CTEs that `figures` joins, and further CTEs from which these are computed. `named` has one
row for every group. Each other CTE that `figures` joins has at most one row for each group."""

_FIGURES: Final = f"""
    figures AS (
        SELECT n.group_id, l.group_type, l.group_id IS NOT NULL AS seen,
            CASE WHEN v.group_id IS NOT NULL THEN v.members ELSE l.members END AS members,
            coalesce(l.known, true) AS understood,
            coalesce(gone.reason = '{GONE}', false) AS deleted,
            gone.reason AS dead_reason, b.lag_records, b.lag_s, b.lag_precision_s, b.lost_records,
            coalesce(b.lag_is_least = 1, false) AS lag_is_least,
            coalesce(v.left_alone, 0) AS left_alone, coalesce(v.falling, 0) AS falling,
            coalesce(v.stopped, 0) AS stopped, coalesce(v.beyond, 0) AS beyond,
            coalesce(c.commits, 0) AS commits, c.last_commit_ms, c.first_commit_ms,
            coalesce(r.rewinds, 0) AS rewinds, coalesce(h.rebalances, 0) AS rebalances,
            coalesce(h.generations, 0) AS generations, h.rebalances_per_hour, h.median_generation_s,
            h.partitions_moved, coalesce(t.tx_committed, 0) AS tx_committed,
            coalesce(t.tx_superseded, 0) AS tx_superseded,
            coalesce(t.tx_aborted, 0) AS tx_aborted, coalesce(t.tx_open, 0) AS tx_open,
            coalesce(e.offsets, 0) AS offsets, coalesce(e.expired, 0) AS expired, e.expires_ms
        FROM named n
        LEFT JOIN committed c ON c.group_id = n.group_id
        LEFT JOIN rewound r ON r.group_id = n.group_id
        LEFT JOIN latest l ON l.group_id = n.group_id
        LEFT JOIN behind b ON b.group_id = n.group_id
        LEFT JOIN verdicts v ON v.group_id = n.group_id
        LEFT JOIN transacted t ON t.group_id = n.group_id
        LEFT JOIN expiring e ON e.group_id = n.group_id
        LEFT JOIN gone ON gone.group_id = n.group_id
        LEFT JOIN churn h ON h.group_id = n.group_id
    )"""
"""The CTE `figures`, which joins the CTEs of `_COUNTED` into one row for each group."""


def groups(d: Dialect, limits: Thresholds) -> str:
    """Returns the query of `GROUPS`: each group with its figures, its state and its rank."""
    above = _above(limits)
    gone = f"state IN ({d.text(DEAD.name)}, {d.text(DELETED.name)})"
    return f"""
    WITH {_COUNTED}, {_FIGURES},
    judged AS (
        SELECT *, CASE
            WHEN deleted THEN {d.text(DELETED.name)}
            WHEN falling > 0 THEN {d.text(DROWNING.name)}
            WHEN dead_reason IS NOT NULL THEN {d.text(DEAD.name)}
            WHEN left_alone > 0 THEN {d.text(NOBODY.name)}
            WHEN stopped > 0 THEN {d.text(STUCK.name)}
            WHEN beyond > 0 THEN {d.text(OUT_OF_RANGE.name)}
            WHEN {above} THEN {d.text(BEHIND.name)}
            WHEN lag_records IS NULL THEN {d.text(UNKNOWN.name)}
            WHEN members = 0 AND lag_records = 0 THEN {d.text(EMPTY.name)}
            ELSE {d.text(KEEPS_UP.name)} END AS state
        FROM figures
    ),
    ranked AS (
        SELECT *, {above} AND NOT {gone} AS above, CASE {_severities(d)} END AS severity
        FROM judged
    )
    SELECT *, CAST(row_number() OVER (
        ORDER BY severity, coalesce({as_shown("lag_s")}, -1e0) DESC,
            coalesce(lag_records, -1) DESC, rewinds DESC, rebalances DESC, group_id
    ) AS INT) AS place
    FROM ranked
    """


def _above(limits: Thresholds) -> str:
    """Return the SQL condition that `lag_s` or `lag_records` is above its threshold."""
    above = f"coalesce(lag_s > {limits.lag_s:.17e}, false)"
    if limits.lag_records is not None:
        above += f" OR coalesce(lag_records > {limits.lag_records}, false)"
    return f"({above})"


def _severities(d: Dialect) -> str:
    """Returns SQL: the WHEN branches that map each state to its rank."""
    return " ".join(f"WHEN state = {d.text(name)} THEN {nth}" for nth, name in enumerate(STATES))


COUNTS: Final = f"SELECT state, count(*) AS groups FROM {GROUPS} GROUP BY state"


def totals() -> str:
    """Returns the query of one row with the sums over all groups."""
    summed = "commits rewinds rebalances expired tx_committed tx_superseded tx_aborted tx_open"
    sums = ", ".join(f"sum({name}) AS {name}" for name in summed.split())
    return f"""
    SELECT count(*) AS all_groups, sum(CASE WHEN above THEN 1 ELSE 0 END) AS all_above, {sums}
    FROM {GROUPS}
    """


def lag(w: Window) -> str:
    """Returns the query for the lag plots of all groups. Each column of a plot is a span of time:
    the query returns the maximum lag in the span, and the end of the span."""
    return f"""
    SELECT g.place, c.col, unix_millis(max(c.as_of)) AS ms, max(c.records) AS records,
        max(c.seconds) AS seconds, max(c.step_s) AS step_s, max(c.is_least) = 1 AS is_least
    FROM (
        SELECT group_id, as_of, {w.column_of_end("as_of")} AS col,
            sum({_UNREAD}) AS records, max(lag_s) AS seconds, max(step_s) AS step_s,
            {_IS_LEAST} AS is_least
        FROM lag WHERE {w.holds("as_of")} GROUP BY group_id, as_of
    ) AS c {w.of("c")}
    GROUP BY g.place, c.col ORDER BY g.place, c.col
    """


def peaks(w: Window) -> str:
    """Returns the query of each group's peak: the largest number of unread records, and the end of
    the last time step that had this number."""
    return f"""
    SELECT place, ms, records FROM (
        SELECT g.place, unix_millis(c.as_of) AS ms, c.records, row_number() OVER (
            PARTITION BY g.place ORDER BY c.records DESC, c.as_of DESC) AS nth
        FROM (
            SELECT group_id, as_of, sum({_UNREAD}) AS records
            FROM lag WHERE {w.holds("as_of")} GROUP BY group_id, as_of
        ) AS c {w.of("c")} WHERE c.records > 0
    ) AS ordered WHERE nth = 1
    """


def since(w: Window, limits: Thresholds) -> str:
    """Returns a query with one row for each group whose lag is above a threshold. A row has two
    times: when the lag rose above the threshold, and since when the group has unread records.

    The first time is exact if the threshold is in seconds. If the threshold is in records, it is
    the end of a time step, because the lag in records is known only then.
    """
    crossed = f"unix_millis(as_of) - greatest(lag_s - {limits.lag_s:.17e}, 0e0) * 1e3"
    return f"""
    SELECT place,
        min_by(greatest(CAST(floor({crossed}) AS BIGINT), begin_ms), as_of) AS ms,
        max_by(unix_millis(as_of) - CAST(floor(lag_s * 1e3) AS BIGINT), as_of) AS unread_ms,
        max_by(lag_is_least, as_of) = 1 AS is_least,
        min_by(lag_is_least, as_of) = 1 AS crossed_at_least
    FROM (
        SELECT g.place, greatest(unix_millis(c.minute), g.first_commit_ms) AS begin_ms, c.as_of,
            c.is_above, c.lag_s, c.lag_is_least,
            max(CASE WHEN NOT c.is_above THEN c.as_of END) OVER (PARTITION BY g.place) AS last_below
        FROM (
            SELECT *, {_above(limits)} AS is_above
            FROM (
                SELECT group_id, minute, as_of, sum({_UNREAD}) AS lag_records, max(lag_s) AS lag_s,
                    {_IS_LEAST} AS lag_is_least
                FROM lag WHERE {w.holds("as_of")} GROUP BY group_id, minute, as_of
            ) AS minutes
        ) AS c {w.of("c")} WHERE g.above
    ) AS dated
    WHERE is_above AND (last_below IS NULL OR as_of > last_below) GROUP BY place
    """


def commits(w: Window) -> str:
    """Returns a query that counts the commits of each group in each time column of the report's
    plot."""
    return f"""
    SELECT g.place, c.col, sum(c.commits) AS commits
    FROM (
        SELECT group_id, {w.column("minute")} AS col, commits FROM rates WHERE {w.holds("minute")}
    ) AS c {w.of("c")}
    GROUP BY g.place, c.col ORDER BY g.place, c.col
    """


def rewind_columns(w: Window) -> str:
    """Returns the query for the number of rewinds of each group, per column of the time axis in the
    group's plot."""
    return f"""
    SELECT g.place, c.col, count(*) AS rewinds
    FROM (
        SELECT group_id, {w.column("rewound_at")} AS col FROM rewinds WHERE {w.holds("rewound_at")}
    ) AS c {w.of("c")}
    GROUP BY g.place, c.col ORDER BY g.place, c.col
    """


def rewinds(w: Window) -> str:
    return f"""
    SELECT * FROM (
        SELECT g.place, unix_millis(c.rewound_at) AS ms, c.topic, c.partition, c.previous_offset,
            c.committed_offset, c.rewound_records, c.rewound_s, c.owner.client_id AS client_id,
            c.owner.client_host AS client_host, c.members IS NOT NULL AS known,
            try_element_at(c.members, 1) IS NOT NULL AS peopled, row_number() OVER (
                PARTITION BY g.place ORDER BY c.rewound_at DESC, c.log_offset DESC) AS nth
        FROM rewinds c {w.of("c")}
    ) AS ordered WHERE nth <= {ROWS} ORDER BY place, nth
    """


def moments(w: Window) -> str:
    """Returns the query of `MOMENTS`: for each group, the times of its rewinds, and the time at
    which it had the most unread records. The report lists the generations that were current at
    these times."""
    return f"""
    SELECT place, ms FROM ({rewinds(w)}) AS back
    UNION SELECT place, ms FROM ({peaks(w)}) AS peak
    """


def partitions(w: Window) -> str:
    return f"""
    SELECT * FROM (
        SELECT g.place, c.topic, c.partition, c.verdict, c.lag_records, c.lag_s, c.consumed_per_s,
            c.lag_precision_s, c.produced_per_s, c.catch_up_s,
            count(*) OVER (PARTITION BY g.place) AS of, row_number()
                OVER (PARTITION BY g.place ORDER BY c.lag_records DESC, c.topic, c.partition) AS nth
        FROM catch_up c {w.of("c")} WHERE c.lag_records > 0
    ) AS ordered WHERE nth <= {ROWS} ORDER BY place, nth
    """

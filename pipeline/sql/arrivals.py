"""Determines when the records of topics arrived in their logs, even if their timestamps are false.

A record's timestamp may be false because a producer copies old records, or because the clock of the
producer is wrong. A log is written in order, so each record arrived no earlier than every record
before it.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT
from pipeline.model.params import Params

SKEW_MS: Final = 60_000
"""A timestamp may be this number of ms earlier or later than the known bounds of the record's
arrival time. The difference then counts as a small error of a clock."""
HOUR_MS: Final = 3_600_000
"""One hour in ms. Kafka 4 rejects a timestamp that is more than this time after the broker's clock
(`message.timestamp.after.max.ms`).

Kafka 4 accepts all timestamps in the past. Therefore a record counts as a copy, written by a
mirror, if its timestamp is more than an hour before the timestamp of an earlier record.
"""
_BUCKET_MS: Final = 600_000
"""The length in ms of the time spans into which the commits of a group are divided. Only the
highest committed offset of each time span is used."""

_KEY: Final = "topic, partition"
_PLACE: Final = f"PARTITION BY {_KEY} ORDER BY base_offset, last_offset, seen, last_ms"
"""SQL of a window: the rows of a partition, in the order of the log. Rows with equal offsets are
ordered by time: they show that the log end offset did not change between these times."""
_BEFORE: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_UP_TO: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_FROM_HERE: Final = f"{_PLACE} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
_AFTER: Final = f"{_PLACE} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"

_FIRST_SURE: Final = "CASE WHEN sure_ms IS NOT NULL THEN least(sure_ms, first_ms) END"
"""SQL of the time at which the first record of a stretch arrived. Null if the pipeline does not
trust the timestamps of the stretch."""


def arrivals(d: Dialect, p: Params) -> str:
    """Returns the query of `arrivals`: STRETCHES, with the time span from `began_ms` to
    `arrived_ms` in which the records of each stretch arrived.

    `arrived_ms` never decreases along a log. Two kinds of times bound arrivals with certainty. When
    a log end offset was seen (rows with `seen`, which have no records), exactly the records before
    it had arrived. When the log was read, all records had arrived. A timestamp within the bounds is
    believed unless another timestamp contradicts it (`_believed`).

    A record without a believed timestamp must have arrived between the arrivals of its neighbours
    in the log. If its timestamp almost equals the arrival of a neighbour, the query uses this
    arrival. Otherwise the query uses the middle between the two arrivals. It prefers an arrival
    before the as-of time, because the broker returned the log end offset shortly after the as-of
    time.

    The true arrival is at most `early_ms` before and `late_ms` after `arrived_ms`. Both are null if
    the arrival has no lower bound. `latest_ms` is set for records that may be copies (`_proven`):
    they had arrived by this time. `loose_ms` is added to `late_ms` for all records of a stretch but
    the first, because ListOffsets by time skips records that are older than a record before them.
    """
    early = "least(least_from_ms, coalesce(sure_ms, from_ms))"
    late = "greatest(most_by_ms, coalesce(sure_ms, high_ms))"
    return f"""
    WITH {_observed(p)},
    {_believed()},
    {_proven(p)},
    {_placed(p)},
    ascending AS (
        SELECT *, max(then_ms) OVER ({_UP_TO}) AS arrived_ms,
            coalesce(max(then_ms) OVER ({_BEFORE}), 0) AS previous_ms
        FROM by_then
    )
    SELECT {_KEY}, base_offset, last_offset, seen, first_at, last_at, arrived_ms, latest_ms,
        {_off(f"arrived_ms - {early}", "arrived_ms - from_ms")} AS early_ms,
        {_off(f"{late} - arrived_ms", "high_ms - arrived_ms")} AS late_ms,
        CASE WHEN whole OR sure_ms IS NULL THEN 0
            ELSE greatest(high_ms - arrived_ms, 0) END AS loose_ms,
        CASE WHEN sure_ms IS NULL THEN arrived_ms
            ELSE least(greatest(coalesce(first_ms, arrived_ms), previous_ms), arrived_ms)
            END AS began_ms
    FROM ascending
    """


def _off(disputed: str, between: str) -> str:
    """Returns SQL for the maximum error of a stretch's `arrived_ms`; null if the error has no
    limit. ``disputed`` is SQL for the error if the stretch is `disputed`. ``between`` is SQL for
    the error if no timestamp of the stretch can be believed."""
    return f"""CASE WHEN latest_ms IS NOT NULL OR coalesce(sure_ms, from_ms) IS NULL THEN NULL
            WHEN disputed THEN CASE WHEN least_from_ms IS NOT NULL THEN greatest({disputed}, 0) END
            WHEN sure_ms IS NOT NULL THEN 0
            WHEN almost THEN abs(last_ms - arrived_ms)
            ELSE greatest({between}, 0) END"""


def _placed(p: Params) -> str:
    """Returns the CTE `by_then`. It adds to each stretch the time `then_ms` at which the stretch
    probably arrived, and the earliest and latest possible time of its arrival."""
    return f"""
    neighboured AS (
        SELECT *, greatest(after_ms, max({_FIRST_SURE}) OVER ({_BEFORE})) AS low_ms,
            least(min(CASE WHEN whole THEN sure_ms ELSE {_FIRST_SURE} END)
                OVER ({_AFTER}), by_ms) AS high_ms
        FROM proven WHERE read_ms IS NULL
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
    )"""


def _observed(p: Params) -> str:
    """Returns the SQL of the relation `arrival_rows`. It has a row for each stretch, with the
    bounds of its arrival time, and with its timestamp if the timestamp is within these bounds.

    All records of one batch arrived at the same time (`whole`). If the timestamps of a batch are
    more than an hour apart, the batch arrived at its last timestamp, because no producer buffers
    records for an hour. The relation also has rows of commits. Such a row shows that the log had
    reached `base_offset` at `read_ms`, the time of the commit.
    """
    return f"""
    numbered AS (
        SELECT {_KEY}, base_offset, last_offset, last_offset < base_offset AS seen,
            size_bytes IS NOT NULL AND last_offset >= base_offset AS whole,
            first_at, last_at, unix_millis(last_at) AS last_ms,
            CASE WHEN size_bytes IS NOT NULL
                    AND unix_millis(last_at) - unix_millis(first_at) > {HOUR_MS}
                THEN unix_millis(last_at) ELSE unix_millis(first_at) END AS first_ms,
            CAST(NULL AS BIGINT) AS read_ms
        FROM stretches WHERE last_offset >= base_offset OR last_at IS NOT NULL
        UNION ALL
        SELECT {_KEY}, max(committed_offset), max(committed_offset) - 1, false, false,
            NULL, NULL, NULL, NULL, max(unix_millis("at"))
        FROM offset_changes WHERE kind = '{COMMIT}' AND "at" IS NOT NULL
        GROUP BY {_KEY}, group_id, CAST(floor(unix_millis("at") / {_BUCKET_MS}) AS BIGINT)
    ),
    bounded AS (
        SELECT *,
            max(CASE WHEN seen THEN last_ms END) OVER up_to AS after_ms,
            least({p.written_by_ms}, min(CASE WHEN seen THEN last_ms END) OVER by_end) AS by_ms
        FROM numbered
        WINDOW up_to AS ({_UP_TO}),
            by_end AS (PARTITION BY {_KEY} ORDER BY last_offset, seen, last_ms
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
    ),
    arrival_rows AS (
        SELECT *, CASE WHEN last_ms <= by_ms + {SKEW_MS}
            THEN least(greatest(last_ms, after_ms), by_ms) END AS observed_ms
        FROM bounded
    )"""


def _believed() -> str:
    """Returns the CTE `believed`. Its column `sure_ms` is the timestamp of a stretch, or null if
    the query does not trust the timestamp.

    A timestamp that is more than an hour before the timestamp of an earlier record is not trusted:
    the record was copied from another log.

    The remaining timestamps of a log should increase. Where they do not, a part of the log has
    timestamps that contradict each other: either the higher or the lower ones are false. The query
    assumes that the false timestamps are those that are fewer in number.

    A stretch is `disputed` if the opposite assumption is possible too, or if its own timestamp
    can't be true. The stretch arrived at `least_from_ms` or later if the higher timestamps are
    false, and at `most_by_ms` or earlier if the lower timestamps are false.
    """
    return f"""
    kept AS (
        SELECT *, CASE WHEN seen
            OR observed_ms >= coalesce(max(observed_ms) OVER ({_BEFORE}), observed_ms)
            - {HOUR_MS} THEN observed_ms END AS kept_ms
        FROM arrival_rows
    ),
    compared AS (
        SELECT *, max(kept_ms) OVER ({_BEFORE}) AS before_ms,
            max(kept_ms) OVER ({_UP_TO}) AS most_ms,
            min(kept_ms) OVER ({_FROM_HERE}) AS least_ms
        FROM kept
    ),
    parted AS (
        SELECT *, sum(CASE WHEN before_ms > least_ms THEN 0 ELSE 1 END) OVER ({_UP_TO}) AS part
        FROM compared
    ),
    voted AS (
        SELECT *, sum(CASE WHEN kept_ms > least_ms THEN 1 ELSE 0 END) OVER (
                PARTITION BY {_KEY}, part
            ) <= sum(CASE WHEN kept_ms < most_ms THEN 1 ELSE 0 END) OVER (
                PARTITION BY {_KEY}, part
            ) AS ahead
        FROM parted
    ),
    believed AS (
        SELECT {_KEY}, base_offset, last_offset, seen, whole, first_at, last_at, first_ms, last_ms,
            after_ms, by_ms, read_ms,
            CASE WHEN last_ms = kept_ms AND kept_ms = CASE WHEN ahead THEN least_ms ELSE most_ms END
                THEN kept_ms END AS sure_ms,
            NOT seen AND coalesce(most_ms - least_ms > {SKEW_MS} OR kept_ms IS NULL, false)
                AS disputed,
            CASE WHEN kept_ms = least_ms THEN least(kept_ms, first_ms)
                ELSE max(CASE WHEN kept_ms = least_ms THEN least(kept_ms, first_ms) END)
                    OVER ({_BEFORE}) END AS least_from_ms,
            CASE WHEN kept_ms = most_ms THEN kept_ms
                ELSE least(min(CASE WHEN kept_ms = most_ms THEN kept_ms END) OVER ({_AFTER}), by_ms)
                END AS most_by_ms
        FROM voted
    )"""


def _proven(p: Params) -> str:
    """Returns the CTE `proven`. It adds the column `latest_ms`, which has a value for the first
    records of a log if these records may be copies.

    The timestamps of the first records can't be compared with earlier records. If the timestamp of
    the next record is more than an hour later, the first records may be copies that arrived in this
    gap. They are proven not to be copies if the log end offset was observed at the time of their
    timestamps, or if a group read one of the records and committed the next offset within an hour
    of the record's timestamp. If no record follows the possible copies, their age is unknown.

    Copies after proven records need no `latest_ms`: the records before a copy contradict its
    timestamp.
    """
    no_age_ms = max(p.written_by_ms, p.as_of_ms)
    here = f"PARTITION BY {_KEY}"
    never = (
        f"max(proof) OVER ({here}) = 0"
        f" AND {p.written_by_ms} - max(sure_ms) OVER ({here}) > {HOUR_MS}"
    )
    return f"""
    rested AS (
        SELECT *,
            coalesce({_FIRST_SURE} - max(sure_ms) OVER ({_BEFORE}) > {HOUR_MS}, false) AS rests,
            CASE WHEN seen OR abs(read_ms - max(CASE WHEN whole THEN sure_ms ELSE {_FIRST_SURE} END)
                OVER ({_BEFORE})) <= {HOUR_MS} THEN 1 ELSE 0 END AS proof
        FROM believed
    ),
    opened AS (
        SELECT *, CASE WHEN rests AND coalesce(max(proof) OVER ({_BEFORE}), 0) = 0
            THEN {_FIRST_SURE} END AS open_ms
        FROM rested
    ),
    proven AS (
        SELECT *, CASE WHEN seen THEN NULL WHEN {never} THEN {no_age_ms}
            ELSE max(open_ms) OVER ({_AFTER}) END AS latest_ms
        FROM opened
    )"""

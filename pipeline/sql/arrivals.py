"""Determines when the records of topics arrived in their logs, independently of their timestamps.

A record's own timestamp may be false: a producer copies old records, or its clock is wrong. A log
is written in order, so each record arrived no earlier than every record before it.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT
from pipeline.model.params import Params

SKEW_MS: Final = 60_000
"""The maximum distance of a timestamp from its bounds that counts as the small error of a clock."""
HOUR_MS: Final = 3_600_000
"""An hour in ms: Kafka 4 rejects timestamps further in the future
(`message.timestamp.after.max.ms`).

Kafka 4 accepts all past timestamps. So a timestamp that is more than an hour before the timestamp
of an earlier record is the timestamp of a copy.
"""
_BUCKET_MS: Final = 600_000
"""The length in ms of the spans of time in which only the highest committed offset of each group is
used."""

_KEY: Final = "topic, partition"
_PLACE: Final = f"PARTITION BY {_KEY} ORDER BY base_offset, last_offset, seen, last_ms"
"""SQL: the order of a log. The same log end offset may have been seen at several times."""
_BEFORE: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_UP_TO: Final = f"{_PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_FROM_HERE: Final = f"{_PLACE} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
_AFTER: Final = f"{_PLACE} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"

_FIRST_SURE: Final = "CASE WHEN sure_ms IS NOT NULL THEN least(sure_ms, first_ms) END"
"""SQL: the arrival of the first record of a stretch; null if the stretch's timestamp is not
believed."""


def arrivals(d: Dialect, p: Params) -> str:
    """Return the query of `arrivals`: STRETCHES with their arrivals, from `began_ms` to
    `arrived_ms`.

    `arrived_ms` never decreases along a log. Log end offsets that were seen (`seen`: a row without
    records) and the time of the read are certain bounds. A timestamp within these bounds is
    believed if no other timestamp contradicts it (`_believed`). A record whose timestamp is not
    believed arrived between its neighbours: at the nearer neighbour if the timestamp is almost
    equal to the neighbour's time, else about the middle. If possible, the record arrived before the
    as-of, because the broker returned its log end offset a moment after the as-of.

    The records may have arrived up to `early_ms` before `arrived_ms` and up to `late_ms` after
    `arrived_ms`; both are null if the arrival has no lower bound. `latest_ms` is set where copies
    may end (`_proven`): the records had arrived by that time. `loose_ms` is added to `late_ms` of
    the records after the first record of a stretch: ListOffsets by time does not return records
    between two known records that are older than the first known record.
    """
    early = "least(least_from_ms, coalesce(sure_ms, from_ms))"
    late = "greatest(most_by_ms, coalesce(sure_ms, high_ms))"
    return f"""
    WITH {_told(p)},
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
    """Return SQL for the maximum difference between `arrived_ms` and the arrival of a stretch; null
    if unlimited."""
    return f"""CASE WHEN latest_ms IS NOT NULL OR coalesce(sure_ms, from_ms) IS NULL THEN NULL
            WHEN disputed THEN CASE WHEN least_from_ms IS NOT NULL THEN greatest({disputed}, 0) END
            WHEN sure_ms IS NOT NULL THEN 0
            WHEN almost THEN abs(last_ms - arrived_ms)
            ELSE greatest({between}, 0) END"""


def _placed(p: Params) -> str:
    """Return the CTE `by_then`: each stretch with its own arrival (`then_ms`) and the arrival's
    bounds.
    """
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


def _told(p: Params) -> str:
    """Return the CTE `arrival_rows`: each stretch with the bounds of its arrival.

    A row also contains the stretch's timestamp if the timestamp is within the bounds. A batch of a
    file arrives at once (`whole`). A producer buffers no record for an hour, so a batch whose
    timestamps are further apart arrived at the time of its last timestamp. Commits are rows too: at
    `read_ms`, the log had reached `base_offset`.
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
            THEN least(greatest(last_ms, after_ms), by_ms) END AS told_ms
        FROM bounded
    )"""


def _believed() -> str:
    """Return the CTE `believed`: `sure_ms` is the timestamp of a stretch, or null if the timestamp
    is not believed.

    A timestamp more than an hour before the timestamp of an earlier record belongs to a copy. The
    other timestamps form parts of the log in which they contradict each other: either the higher
    timestamps or the lower timestamps of a part are false. The query chooses the assumption that
    leaves fewer timestamps disbelieved. Both assumptions remain possible for a stretch that is
    `disputed`, which includes a record whose timestamp can't be true. The stretch arrived at
    `least_from_ms` or later if the high timestamps are false, and at `most_by_ms` or earlier if the
    low timestamps are false.
    """
    return f"""
    kept AS (
        SELECT *, CASE WHEN seen OR told_ms >= coalesce(max(told_ms) OVER ({_BEFORE}), told_ms)
            - {HOUR_MS} THEN told_ms END AS kept_ms
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
    """Return the CTE `proven`, which adds `latest_ms` where the first records of a log may be
    copies.

    No earlier record contradicts old timestamps at the start of a log. The first records may be
    copies if the log, by its timestamps, then rests (has no new record) for more than an hour: the
    copies arrived during that rest. The first records are not copies if there is evidence that the
    log was written at those times: a group committed an offset within an hour after the record
    before the offset, or the log end offset was seen. After such evidence, copies contradict the
    records before them. If nothing follows possible copies, their age is unknown for every as-of.
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

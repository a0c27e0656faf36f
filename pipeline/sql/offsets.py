"""The committed offsets of groups as the coordinator had them, and the rates of commits.

A commit outside a transaction takes effect at its own record. The commits of a transaction take
effect at the transaction's COMMIT marker. Kafka's coordinator then compares log offsets: a commit
of the transaction takes effect only if its record is newer than the record of the current offset.
Therefore a commit outside a transaction, or a tombstone, wins if it was written between the
transaction's commit and its marker.

If a commit has a lower producer epoch than an earlier marker of the producer, the commit was
written after the end of its transaction. Such a commit never takes effect: the broker ignores it
when it loads the log, and so do these tables (docs/internals/transactions.md).
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT, COMMIT_TOMBSTONE, COMMITTED, MARKER
from pipeline.model.params import Params

KEY: Final = "log_partition, group_id, topic, partition"
"""The columns that identify a committed offset: the partition of `__consumer_offsets` that contains
the group's records, the group, and the partition for which the group committed."""

TAKEN, SUPERSEDED, ROLLED_BACK, OPEN = "committed", "superseded", "aborted", "open"
"""Outcomes of a commit in a transaction. `SUPERSEDED` means that the transaction was committed, but
the partition already had a newer committed offset."""


def offset_records(d: Dialect, p: Params) -> str:
    """Returns the query of `offset_records`, from EVENTS: a row for each commit and each tombstone.
    The column `outcome` says whether the record took effect. If it did, the columns `effect_offset`
    and `effect_at` have the log offset and the time at which it took effect."""
    return f"""
    WITH marked AS (
        SELECT log_partition, log_offset, producer_id, written_at, marker,
            min(CASE WHEN kind = '{MARKER}' THEN log_offset END) OVER (
                PARTITION BY log_partition, producer_id ORDER BY log_offset
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ) AS marker_offset,
            producer_epoch < max(CASE WHEN kind = '{MARKER}' THEN producer_epoch END) OVER (
                PARTITION BY log_partition, producer_id ORDER BY log_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS is_late
        FROM events WHERE producer_id IS NOT NULL
    ),
    ended AS (
        SELECT m.log_partition, m.log_offset, m.is_late, e.log_offset AS marker_offset, e.marker,
            e.written_at AS ended_at
        FROM marked m LEFT JOIN marked e
            ON e.log_partition = m.log_partition AND e.log_offset = m.marker_offset
            AND NOT coalesce(m.is_late, false)
        WHERE m.marker IS NULL
    ),
    records AS (
        SELECT e.log_partition, e.log_offset, e.kind, e.group_id, e.topic, e.partition,
            e.committed_offset, e.leader_epoch, e.metadata, e.commit_at, e.expire_at,
            e.producer_id, e.producer_epoch, coalesce(e.written_at, e.commit_at) AS written_at,
            t.marker_offset, t.marker, t.ended_at, t.is_late
        FROM events e LEFT JOIN ended t
            ON t.log_partition = e.log_partition AND t.log_offset = e.log_offset
        WHERE e.kind IN ('{COMMIT}', '{COMMIT_TOMBSTONE}')
    ),
    effective AS (
        SELECT *,
            CASE WHEN producer_id IS NULL THEN log_offset
                WHEN marker = '{COMMITTED}' THEN marker_offset END AS effect_offset,
            CASE WHEN producer_id IS NULL THEN written_at ELSE ended_at END AS effect_at
        FROM records
    )
    SELECT *,
        CASE WHEN is_late THEN '{ROLLED_BACK}'
            WHEN effect_offset IS NULL AND marker_offset IS NULL THEN '{OPEN}'
            WHEN effect_offset IS NULL THEN '{ROLLED_BACK}'
            WHEN max(CASE WHEN effect_offset IS NOT NULL THEN log_offset END) OVER (
                PARTITION BY {KEY} ORDER BY coalesce(effect_offset, log_offset)
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) = log_offset THEN '{TAKEN}'
            ELSE '{SUPERSEDED}' END AS outcome
    FROM effective
    """


def offset_changes(d: Dialect, p: Params) -> str:
    """Returns the query of `offset_changes`: the commits and tombstones that took effect, each with
    the previous offset."""
    return f"""
    SELECT {KEY}, kind, log_offset, effect_offset, effect_at AS at, committed_offset, leader_epoch,
        metadata, commit_at, expire_at, producer_id, marker_offset,
        lag(committed_offset) OVER held AS previous_offset,
        lag(CASE WHEN kind = '{COMMIT}' THEN effect_at END) OVER held AS previous_at
    FROM offset_records WHERE outcome = '{TAKEN}'
    WINDOW held AS (PARTITION BY {KEY} ORDER BY effect_offset, log_offset)
    """


def held_at(at_ms: int) -> str:
    """Returns the query of the offsets that groups had committed by the time ``at_ms``, by topic
    and partition."""
    return f"""
    SELECT DISTINCT topic, partition, committed_offset FROM (
        SELECT topic, partition, committed_offset, kind,
            row_number() OVER (PARTITION BY {KEY} ORDER BY effect_offset DESC, log_offset DESC)
                AS place
        FROM offset_changes WHERE coalesce("at" <= timestamp_millis({at_ms}), true)
    ) AS ordered
    WHERE place = 1 AND kind = '{COMMIT}'
    """


def commits(d: Dialect, p: Params) -> str:
    """Returns the query of COMMITS: each commit that took effect, with the previous commit of the
    group in this partition."""
    return f"""
    SELECT c.*, c.at AS committed_at, t.at AS record_at, t.precision_s AS record_at_precision_s,
        (unix_millis(c.at) - unix_millis(c.previous_at)) / 1e3 AS since_previous_s,
        try_subtract(c.committed_offset, c.previous_offset) AS advanced_records,
        (unix_millis(t.at) - unix_millis(b.at)) / 1e3 AS advanced_s,
        {d.day("c.at")} AS day
    FROM offset_changes c
    LEFT JOIN offset_times t ON t.topic = c.topic AND t.partition = c.partition
        AND t.position = c.committed_offset
    LEFT JOIN offset_times b ON b.topic = c.topic AND b.partition = c.partition
        AND b.position = c.previous_offset
    WHERE c.kind = '{COMMIT}' AND {p.in_window("c.at")}
    """


def transactional_commits(d: Dialect, p: Params) -> str:
    """Returns the query of TRANSACTIONAL_COMMITS: the commits in transactions, and their
    outcomes."""
    return f"""
    SELECT group_id, topic, partition, written_at, committed_offset, metadata, producer_id,
        producer_epoch, outcome, ended_at, log_partition, log_offset, marker_offset
    FROM offset_records WHERE producer_id IS NOT NULL AND {p.in_window("written_at")}
    """


def rates(d: Dialect, p: Params) -> str:
    """Returns the query of RATES, from COMMITS: one row for each group, topic and minute in which
    the group committed."""
    return f"""
    SELECT group_id, topic, minute, count(DISTINCT partition) AS partitions, count(*) AS commits,
        sum(CASE WHEN advanced_records > 0 THEN advanced_records ELSE 0 END) AS advanced_records,
        sum(CASE WHEN advanced_records < 0 THEN try_subtract(0, advanced_records) ELSE 0 END)
            AS rewound_records,
        sum(advanced_s) AS advanced_s, {d.day("minute")} AS day
    FROM (SELECT *, date_trunc('minute', committed_at) AS minute FROM commits) AS dated
    GROUP BY group_id, topic, minute
    """

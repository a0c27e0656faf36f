"""Estimates the records and bytes that log compaction would remove."""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import (
    COMMIT,
    COMMIT_TOMBSTONE,
    DAMAGED,
    GROUP,
    GROUP_TOMBSTONE,
    MARKER,
    TOMBSTONE,
    TORN,
    UNKNOWN,
)
from pipeline.model.params import Params
from pipeline.sql.groups import PERSON_FIELDS
from pipeline.sql.offsets import ROLLED_BACK

_RECORD_BYTES: Final = 9
"""The size in bytes of a small record of magic 2 whose key and value are empty: the fields for
lengths, deltas and counts."""
_KEY: Final = "log_partition, of, group_id, topic, partition, member_id, pattern, raw_key"


def compaction(d: Dialect, p: Params) -> str:
    """Returns the query of COMPACTION, from EVENTS and `offset_records`: the records of each
    partition that the log cleaner would remove.

    A record is superseded if a later record has the same key, or if its transaction was aborted. A
    tombstone that is the last record of its key is removed later, after `delete.retention.ms`. A
    transaction marker is removed once no record of its transaction is left. Bytes are estimated
    from the content of records without compression.
    """
    no_key = f"(of = '{UNKNOWN}' AND raw_key IS NULL)"
    last = d.struct(log_offset="log_offset", gone="gone", bytes="bytes")
    return f"""
    WITH sized AS (
        SELECT e.log_partition, e.log_offset, e.group_id, e.topic, e.partition, e.member_id,
            e.raw_key, replace(e.kind, '{TOMBSTONE}', '') AS of,
            e.kind LIKE '%{TOMBSTONE}' AS gone, e.kind = '{MARKER}' AS marker,
            get_json_object(CASE WHEN e.kind LIKE '%pattern%' THEN e.details END,
                '$.regular_expression') AS pattern,
            a.log_offset IS NOT NULL AS aborted, CAST({_bytes(d)} AS BIGINT) AS bytes
        FROM events e LEFT JOIN (
            SELECT log_partition, log_offset FROM offset_records WHERE outcome = '{ROLLED_BACK}'
        ) AS a ON a.log_partition = e.log_partition AND a.log_offset = e.log_offset
        WHERE e.kind NOT IN ('{DAMAGED}', '{TORN}')
    ),
    keyed AS (
        SELECT log_partition, of, raw_key, count(*) AS records, sum(bytes) AS bytes,
            count(CASE WHEN aborted THEN 1 END) AS aborted_records,
            max(CASE WHEN NOT aborted THEN {last} END) AS last
        FROM sized WHERE NOT marker GROUP BY {_KEY}
    ),
    living AS (
        SELECT *, CASE WHEN {no_key} THEN records WHEN last IS NULL THEN 0 ELSE 1 END AS live,
            CASE WHEN {no_key} THEN bytes ELSE coalesce(last.bytes, 0) END AS live_bytes
        FROM keyed
        UNION ALL
        SELECT log_partition, '{MARKER}', NULL, 0, 0, 0, NULL, 0, 0 FROM sized WHERE marker
    ),
    summed AS (
        SELECT log_partition, sum(records) AS records, sum(records - live) AS superseded_records,
            sum(aborted_records) AS aborted_records,
            count(CASE WHEN last.gone THEN 1 END) AS tombstones,
            count(CASE WHEN of = '{MARKER}' THEN 1 END) AS transaction_markers,
            sum(bytes) AS bytes_estimate, sum(bytes - live_bytes) AS superseded_bytes_estimate
        FROM living GROUP BY log_partition
    )
    SELECT *, try_divide(superseded_bytes_estimate, bytes_estimate) AS saved_share FROM summed
    """


def _bytes(d: Dialect) -> str:
    """Returns SQL for the size of a record in bytes, according to docs/formats/consumer-offsets.md.
    The length of a string takes two bytes."""

    def size(column: str) -> str:
        return f"coalesce({d.bytes(column)}, 0)"

    offset = f"10 + {size('e.group_id')} + {size('e.topic')}"
    group = f"4 + {size('e.group_id')}"
    held = d.transform(
        "m.assignment",
        "h",
        f"CAST(6 + {size('h.topic')} + {size('h.topic_id')} + 4 * {d.size('h.partitions')}"
        " AS BIGINT)",
    )
    topics = d.transform("m.subscription", "s", f"CAST(2 + {size('s')} AS BIGINT)")
    names = " + ".join(size(f"m.{name}") for name in PERSON_FIELDS)
    member = (
        f"CAST(44 + {names} + coalesce({d.total(topics)}, 0) + coalesce({d.total(held)}, 0)"
        " AS BIGINT)"
    )
    members = f"coalesce({d.total(d.transform('e.members', 'm', member))}, 0)"
    texts = " + ".join(size(f"e.{name}") for name in ("protocol_type", "protocol", "leader"))
    raw = "coalesce(octet_length(e.raw_key), 0) + coalesce(octet_length(e.raw_value), 0)"
    return f"""{_RECORD_BYTES} + CASE e.kind
        WHEN '{COMMIT}' THEN {offset} + 24 + {size("e.metadata")}
        WHEN '{COMMIT_TOMBSTONE}' THEN {offset}
        WHEN '{GROUP_TOMBSTONE}' THEN {group}
        WHEN '{GROUP}' THEN {group} + 24 + {texts} + {members}
        WHEN '{UNKNOWN}' THEN {raw}
        ELSE {group} + 2 + {size("e.member_id")} + {members} END"""

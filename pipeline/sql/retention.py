"""The effects of retention: offsets that expire, and groups that are dead.

The rules are Kafka's since KIP-211, as in offsets/expiry.py. If a client set an expire timestamp,
the offset expires at this time. Otherwise its retention begins

- when a classic group becomes empty;
- at the commit, in a group that never had members;
- at the commit, for a topic to which no member of a live consumer group subscribes.

All other offsets are kept. An offset of a KIP-848 or KIP-1071 group expires after its commit if no
member subscribes to the topic, even if the group is empty. A pending commit of an open transaction
keeps the offset. If some records could not be decoded, the result is unknown.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import COMMIT, COMMIT_TOMBSTONE
from pipeline.model.params import Params
from pipeline.sql.groups import CLASSIC, GROUP_KEY, OF_MEMBERS
from pipeline.sql.offsets import KEY, OPEN

NAMED_BY_CLIENT: Final = "named by the client"
GROUP_EMPTY: Final = "its group is empty"
NO_MEMBERS_EVER: Final = "its group has no members of its own"
NOT_SUBSCRIBED: Final = "no member subscribes to the topic"
SUBSCRIBED: Final = "kept: a member subscribes to the topic"
HAS_MEMBERS: Final = "kept: its group has members"
PENDING: Final = "kept: an open transaction has a pending commit for it"
GROUP_NOT_KNOWN: Final = "not known: records of its group were not understood"
TOPICS_NOT_KNOWN: Final = "not known: the subscriptions of its members"

DELETED: Final = "deleted"
NOTHING_KEPT: Final = "empty and has no committed offsets"
ALL_EXPIRED: Final = "empty and all its offsets have expired"

_FAR_MS: Final = 9_000_000_000_000_000
"""A retention is added only to times below this number of ms, because a larger sum would not fit a
timestamp."""


def expiring_offsets(d: Dialect, p: Params) -> str:
    """Returns the query of EXPIRING_OFFSETS, from `offset_changes`, `group_states` and EVENTS:
    every offset that exists at the time of --as-of, and its expiry.

    The column `expires_at` is null if the offset does not expire while its group stays in its
    present state. The column `expired` is true if the coordinator will remove the offset at its
    next check, and null if this is unknown.
    """
    later = f"timestamp_millis(unix_millis(since) + {p.offsets_retention_ms})"
    return f"""
    WITH {_held(d)}, {_last_states(d)}, {_subscribed(d)},
    joined AS (
        SELECT h.*, s.alive, s.known, s.group_type, s.protocol_type, s.state_at, s.member_count,
            CASE WHEN s.group_type = 'streams' THEN y.details IS NULL ELSE s.blind END AS blind,
            o.log_partition IS NOT NULL AS pending,
            t.log_partition IS NOT NULL OR coalesce(contains(y.details, '"' || h.topic || '"'),
                false) AS subscribed
        FROM held h
        LEFT JOIN last_states s ON s.log_partition = h.log_partition AND s.group_id = h.group_id
        LEFT JOIN pending o ON o.log_partition = h.log_partition AND o.group_id = h.group_id
            AND o.topic = h.topic AND o.partition = h.partition
        LEFT JOIN subscribed t ON t.log_partition = h.log_partition AND t.group_id = h.group_id
            AND t.topic = h.topic
        LEFT JOIN topologies y ON y.log_partition = h.log_partition AND y.group_id = h.group_id
    ),
    ruled AS (
        SELECT *, {_rule()} AS case_rule FROM joined
    ),
    dated AS (
        SELECT *, CASE WHEN case_rule LIKE 'kept%' OR case_rule LIKE 'not known%' THEN NULL
            WHEN case_rule = '{GROUP_EMPTY}' AND group_type = '{CLASSIC}'
            THEN coalesce(state_at, committed_at) ELSE committed_at END AS since
        FROM ruled
    ),
    ending AS (
        SELECT *, CASE WHEN since IS NULL THEN NULL ELSE coalesce(expire_at,
            CASE WHEN unix_millis(since) < {_FAR_MS} THEN {later} ELSE since END) END AS expires_at
        FROM dated
    )
    SELECT group_id, group_type, topic, partition, committed_offset, committed_at,
        CASE WHEN since IS NOT NULL AND expire_at IS NOT NULL THEN '{NAMED_BY_CLIENT}'
            ELSE case_rule END AS rule,
        since, expires_at,
        CASE WHEN case_rule LIKE 'not known%' THEN NULL
            ELSE coalesce(expires_at <= {p.as_of}, false) END AS expired,
        log_partition, log_offset
    FROM ending
    """


def dead_groups(d: Dialect, p: Params) -> str:
    """Returns the query of DEAD_GROUPS, from `group_states`, `offset_changes` and EXPIRING_OFFSETS:
    the groups that are deleted or abandoned at the as-of time.

    A share group keeps its offsets in another topic, so it is dead only after its deletion.
    """
    return f"""
    WITH {_last_states(d)}, {_pending()},
    waiting AS (SELECT DISTINCT {GROUP_KEY} FROM pending),
    kept AS (
        SELECT {GROUP_KEY}, count(*) AS kept_offsets,
            count(CASE WHEN NOT coalesce(expired, false) THEN 1 END) AS lasting
        FROM expiring_offsets GROUP BY {GROUP_KEY}
    ),
    changes AS (
        SELECT {GROUP_KEY}, max(CASE WHEN kind = '{COMMIT}' THEN "at" END) AS last_commit_at,
            max("at") AS offsets_at
        FROM offset_changes GROUP BY {GROUP_KEY}
    ),
    named AS (
        SELECT {GROUP_KEY} FROM changes UNION SELECT {GROUP_KEY} FROM last_states
    )
    SELECT n.group_id, coalesce(s.group_type, '{CLASSIC}') AS group_type,
        CASE WHEN k.kept_offsets > 0 THEN '{ALL_EXPIRED}' WHEN s.alive THEN '{NOTHING_KEPT}'
            ELSE '{DELETED}' END AS reason,
        s.protocol_type, s.generation, coalesce(k.kept_offsets, 0) AS kept_offsets,
        c.last_commit_at, greatest(s.at, c.offsets_at) AS last_at, n.log_partition
    FROM named n
    LEFT JOIN last_states s ON s.log_partition = n.log_partition AND s.group_id = n.group_id
    LEFT JOIN changes c ON c.log_partition = n.log_partition AND c.group_id = n.group_id
    LEFT JOIN kept k ON k.log_partition = n.log_partition AND k.group_id = n.group_id
    LEFT JOIN waiting w ON w.log_partition = n.log_partition AND w.group_id = n.group_id
    WHERE coalesce(s.known, true) AND coalesce(s.member_count, 0) = 0
        AND NOT (coalesce(s.alive, false) AND s.group_type = 'share')
        AND coalesce(k.lasting, 0) = 0 AND w.log_partition IS NULL
    """


def _rule() -> str:
    """Returns SQL that computes the retention rule of an offset, such as "the group has members".
    An expire timestamp that a client set has no effect on the rule; a later query applies the
    timestamp."""
    return f"""
    CASE WHEN NOT coalesce(known, true) THEN '{GROUP_NOT_KNOWN}'
        WHEN pending THEN '{PENDING}'
        WHEN NOT {OF_MEMBERS} THEN '{NO_MEMBERS_EVER}'
        WHEN member_count = 0 THEN '{GROUP_EMPTY}'
        WHEN group_type IN ('consumer', 'streams') AND blind THEN '{TOPICS_NOT_KNOWN}'
        WHEN protocol_type NOT IN ('consumer', 'streams') OR blind THEN '{HAS_MEMBERS}'
        WHEN subscribed THEN '{SUBSCRIBED}'
        ELSE '{NOT_SUBSCRIBED}' END"""


def _held(d: Dialect) -> str:
    """Returns two CTEs. `held` has the last commit of each group in each partition. `pending` has
    the partitions whose offset an open transaction may change."""
    names = ("kind", "committed_offset", "expire_at", "log_offset")
    value = d.struct(**{name: name for name in names}, committed_at='coalesce(commit_at, "at")')
    return f"""
    latest AS (
        SELECT {KEY}, max_by({value}, effect_offset) AS last FROM offset_changes GROUP BY {KEY}
    ),
    held AS (
        SELECT {KEY}, last.committed_offset AS committed_offset, last.expire_at AS expire_at,
            last.committed_at AS committed_at, last.log_offset AS log_offset
        FROM latest WHERE last.kind = '{COMMIT}'
    ), {_pending()}"""


def _pending() -> str:
    """Returns the CTE `pending`: the group's partitions for which an open transaction has written
    an offset that may still be committed. Partitions with a tombstone after this offset are
    omitted, because the tombstone cancels it."""
    return f"""
    pending AS (
        SELECT {KEY} FROM offset_records GROUP BY {KEY}
        HAVING max(CASE WHEN outcome = '{OPEN}' THEN log_offset END)
            > coalesce(max(CASE WHEN kind = '{COMMIT_TOMBSTONE}' THEN log_offset END), -1)
    )"""


def _last_states(d: Dialect) -> str:
    """Returns the CTE `last_states`: the last state of each group. The column `blind` is true if
    the subscription of at least one member is unknown."""
    fields = (
        "alive", "known", "group_type", "protocol_type", "generation", "state_at", "members",
    )  # fmt: skip
    state = d.struct(**{name: name for name in fields}, at='"at"')
    names = ", ".join(f"last.{name} AS {name}" for name in (*fields, "at"))
    unread = d.filter("last.members", "m", "m.subscription IS NULL")
    return f"""
    last_states AS (
        SELECT {GROUP_KEY}, {names}, {d.size("last.members")} AS member_count,
            {d.size(unread)} > 0 AS blind
        FROM (
            SELECT {GROUP_KEY}, max_by({state}, log_offset) AS last FROM group_states
            GROUP BY {GROUP_KEY}
        ) AS l
    )"""


def _subscribed(d: Dialect) -> str:
    """Returns two CTEs.

    `subscribed` has the topics to which members of a group subscribe by name or by pattern.
    `topologies` has the topology records of streams groups; their text contains the name of each
    topic that the group reads or writes.
    """
    regex = "get_json_object(details, '$.regular_expression')"
    topics = d.texts("get_json_object(last.details, '$.topics')")
    value = d.struct(kind="kind", details="details")
    return f"""
    readers AS (
        SELECT {GROUP_KEY}, m.pattern AS pattern, m.subscription AS subscription
        FROM last_states {d.unnest("members", "e", "m")}
    ),
    patterns AS (
        SELECT {GROUP_KEY}, {regex} AS pattern, max_by({value}, log_offset) AS last
        FROM events WHERE kind LIKE 'consumer_group_pattern%' GROUP BY {GROUP_KEY}, {regex}
    ),
    matches AS (
        SELECT {GROUP_KEY}, pattern, x.topic AS topic
        FROM (SELECT * FROM patterns WHERE last.kind = 'consumer_group_pattern') AS q
            {d.unnest(topics, "x", "topic")}
    ),
    subscribed AS (
        SELECT {GROUP_KEY}, x.topic AS topic FROM readers {d.unnest("subscription", "x", "topic")}
        UNION
        SELECT r.log_partition, r.group_id, m.topic FROM readers r JOIN matches m
            ON m.log_partition = r.log_partition AND m.group_id = r.group_id
            AND m.pattern = r.pattern
    ),
    topologies AS (
        SELECT {GROUP_KEY}, last.details AS details FROM (
            SELECT {GROUP_KEY}, max_by({value}, log_offset) AS last FROM events
            WHERE kind LIKE 'streams_group_topology%' GROUP BY {GROUP_KEY}
        ) AS t
    )"""

"""Ready-made queries over the tables, in DuckDB's SQL. Each query becomes a view in `views.sql`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ReadyQuery:
    """A ready-made query. `views.sql` has a view with the name of the query."""

    name: str
    what: str
    tables: tuple[str, ...]
    """The tables that the query reads. If one of them does not exist, `views.sql` has no view for
    this query."""
    sql: str


QUERIES: Final = (
    ReadyQuery(
        "who_is_behind",
        "Lag of each group and topic at the end of the history, largest first.",
        ("catch_up",),
        """
SELECT group_id, topic, sum(lag_records)::BIGINT AS lag_records, max(lag_s) AS lag_s,
    count(*) FILTER (never) AS partitions_that_never_catch_up, max(as_of) AS as_of
FROM catch_up
GROUP BY group_id, topic
HAVING sum(lag_records) > 0
ORDER BY lag_records DESC""",
    ),
    ReadyQuery(
        "who_never_catches_up",
        "Partitions that never catch up: the group reads too slowly, or does not read.",
        ("catch_up",),
        """
SELECT group_id, topic, "partition", verdict, member_count, lag_records, lag_s,
    consumed_per_s, produced_per_s, grown_records, observed_s
FROM catch_up
WHERE never
ORDER BY lag_records DESC""",
    ),
    ReadyQuery(
        "worst_lag_by_hour",
        "The greatest lag of each group and topic in each hour.",
        ("lag",),
        """
SELECT date_trunc('hour', minute) AS hour, group_id, topic,
    max(lag_records) AS lag_records, max(lag_s) AS lag_s
FROM (
    SELECT minute, group_id, topic, sum(lag_records)::BIGINT AS lag_records, max(lag_s) AS lag_s
    FROM lag
    GROUP BY ALL
) AS minutes
GROUP BY ALL
ORDER BY hour, group_id, topic""",
    ),
    ReadyQuery(
        "who_rewound",
        "Commits that moved an offset back, with the member that owned the partition.",
        ("rewinds",),
        """
SELECT rewound_at, group_id, topic, "partition", previous_offset, committed_offset, rewound_records,
    owner.client_id AS owner_client_id, owner.client_host AS owner_host,
    owner.member_id AS owner_member_id
FROM rewinds
ORDER BY rewound_at DESC""",
    ),
    ReadyQuery(
        "who_held",
        "The owners of each partition over time; ended_at is null for the current owner.",
        ("generations",),
        """
SELECT group_id, held.topic AS topic, held.number AS "partition", began_at, ended_at, generation,
    held.client_id AS client_id, held.client_host AS client_host, held.member_id AS member_id
FROM (
    SELECT group_id, began_at, ended_at, generation, unnest(holdings) AS held
    FROM (
        SELECT group_id, began_at, ended_at, generation, flatten(flatten([
            [
                [
                    {
                        'topic': each.topic, 'number': number, 'client_id': person.client_id,
                        'client_host': person.client_host, 'member_id': person.member_id
                    }
                    for number in each.partitions
                ]
                for each in person.assignment
            ]
            for person in members
        ])) AS holdings
        FROM generations
    ) AS listed
) AS owned
ORDER BY group_id, topic, "partition", began_at""",
    ),
    ReadyQuery(
        "members_by_epoch",
        "The members of each epoch of a group, with their last state in this epoch.",
        ("assignments",),
        """
SELECT group_id, generation AS epoch, client_id, client_host, member_id, member_epoch, state,
    assigned, revoking, began_at, ended_at
FROM assignments
QUALIFY row_number() OVER (
    PARTITION BY log_partition, group_id, life, generation, member_id
    ORDER BY log_offset DESC) = 1
ORDER BY group_id, life, epoch, client_id, member_id""",
    ),
    ReadyQuery(
        "what_moved",
        "Partitions and tasks that moved between members of a group, latest first.",
        ("moves",),
        """
SELECT acquired_at, group_id, generation AS epoch, topic, "partition",
    from_client_id, from_client_host, to_client_id, to_client_host, revoking_s, unowned_s
FROM moves
ORDER BY acquired_at DESC, group_id, topic""",
    ),
    ReadyQuery(
        "busiest_hours",
        "The commits in each hour, busiest hour first.",
        ("rates",),
        """
SELECT date_trunc('hour', minute) AS hour, sum(commits)::BIGINT AS commits,
    sum(advanced_records)::BIGINT AS advanced_records, count(DISTINCT group_id) AS groups
FROM rates
GROUP BY hour
ORDER BY commits DESC""",
    ),
    ReadyQuery(
        "busiest_groups",
        "Groups by their commits, busiest first.",
        ("rates",),
        """
SELECT group_id, sum(commits)::BIGINT AS commits, count(DISTINCT topic) AS topics,
    sum(advanced_records)::BIGINT AS advanced_records,
    sum(rewound_records)::BIGINT AS rewound_records
FROM rates
GROUP BY group_id
ORDER BY commits DESC""",
    ),
    ReadyQuery(
        "rebalances_by_hour",
        "The number of generations of each group in each hour.",
        ("generations",),
        """
SELECT date_trunc('hour', began_at) AS hour, group_id, count(*) AS generations,
    sum(len(joined))::BIGINT AS joined, sum(len(members_left))::BIGINT AS members_left,
    sum(len(moved))::BIGINT AS moved_partitions
FROM generations
GROUP BY hour, group_id
ORDER BY hour, generations DESC""",
    ),
    ReadyQuery(
        "who_unsettles_groups",
        "The members whose joins and leaves caused the most rebalances.",
        ("restless_members",),
        """
SELECT group_id, client_id, client_host, rebalances, share, joins, leaves, member_ids
FROM restless_members
ORDER BY rebalances DESC""",
    ),
    ReadyQuery(
        "what_expires_next",
        "Committed offsets that Kafka will delete, soonest first.",
        ("expiring_offsets",),
        """
SELECT expires_at, group_id, topic, "partition", committed_offset, committed_at, rule, expired
FROM expiring_offsets
ORDER BY expires_at""",
    ),
    ReadyQuery(
        "transactions_that_failed",
        "Offsets of transactions that were aborted or are still open.",
        ("transactional_commits",),
        """
SELECT outcome, group_id, topic, "partition", committed_offset, written_at, ended_at,
    producer_id, producer_epoch
FROM transactional_commits
WHERE outcome IN ('aborted', 'open')
ORDER BY written_at DESC""",
    ),
)

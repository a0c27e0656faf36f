"""The generations of groups with their members, changes and durations, and the members that caused
the most generations.

In consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071), a generation is
an epoch. A log may contain several records of one generation: Kafka writes the group again when a
static member returns under a new member id. The row of a generation has the time of its first
record and the values of its last record. `life` counts how often the group was deleted before.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.params import Params
from pipeline.sql.groups import CLASSIC, FIRST_EPOCH, GROUP_KEY, PERSON_FIELDS

FIRST, FIRST_SEEN, EMPTIED = "first", "first seen", "emptied"
JOINED, LEFT, JOINED_AND_LEFT = "joined", "left", "joined and left"
SAME_MEMBERS: Final = "same members"
"""The reason of a generation whose members did not change: a member changed its subscription, the
leader rejoined, or a topic changed."""
CONVERTED: Final = "converted to "
"""The beginning of the reason "converted to another group type". The name of the type follows."""

RATE_FROM_S: Final = 600
"""The minimum observed time in seconds for a rate of rebalances per hour. The rate is null for a
shorter time."""

INT_MAX: Final = 2**31 - 1
_LIFE: Final = f"{GROUP_KEY}, life"


def generations(d: Dialect, p: Params) -> str:
    """Returns the query of GENERATIONS, which reads `group_states`. The result has one row for each
    generation in each life of a group. (A new life begins when a deleted group is created again.)
    The query adds the list of members last, because a window function would copy the list into
    every row."""
    topics = d.struct(topic="coalesce(h.topic, h.topic_id)", partitions="h.partitions")
    whole = d.struct(
        **{name: f"m.{name}" for name in PERSON_FIELDS},
        assignment=d.transform("m.assignment", "h", topics),
    )
    hosts = d.filter(d.transform("n.members", "m", "m.client_host"), "host", "host IS NOT NULL")
    held = d.transform("m.assignment", "h", f"CAST({d.size('h.partitions')} AS BIGINT)")
    total = d.total(d.transform("n.members", "m", d.total(held)))
    empty = d.empty()
    return f"""
    WITH {folded(d)}, {_numbered()}, {_changed(d)}, {_moved(d)}
    SELECT n.group_id, n.life, n.generation, n.began_at, n.ended_at, n.unseen, n.known,
        n.group_type, n.protocol_type, n.protocol, n.protocol_changed, n.leader, n.leader_changed,
        n.member_count, n.records, n.log_partition, n.log_offset,
        {d.transform("n.members", "m", whole)} AS members, {d.distinct(hosts)} AS hosts,
        (unix_millis(n.ended_at) - unix_millis(n.began_at)) / 1e3 AS duration_s,
        coalesce({total}, 0) AS assigned_partitions,
        coalesce(c.joined, {empty}) AS joined, coalesce(c.gone, {empty}) AS members_left,
        coalesce(v.moved, {empty}) AS moved, {_change(d)} AS change
    FROM (SELECT * FROM peopled WHERE {p.in_window("ended_at")}) AS n
    LEFT JOIN changed c ON c.log_partition = n.log_partition AND c.group_id = n.group_id
        AND c.life = n.life AND c.nth = n.nth
    LEFT JOIN moved v ON v.log_partition = n.log_partition AND v.group_id = n.group_id
        AND v.life = n.life AND v.nth = n.nth
    """


def churn(d: Dialect, p: Params) -> str:
    """Returns the query that computes the table CHURN from the table GENERATIONS: how often each
    group rebalanced. The column `rebalances` also counts generations that are missing in the log.
    Their number follows from gaps in the generation numbers."""
    latest = d.struct(life="life", log_offset="log_offset")
    watched = "(unix_millis(until) - unix_millis(first_at)) / 1e3"
    return f"""
    WITH {_counted(p)},
    summed AS (
        SELECT group_id, count(DISTINCT CASE WHEN counts THEN life END) AS lives,
            count(CASE WHEN counts THEN 1 END) AS generations,
            sum(CASE WHEN counts AND nth > 1 THEN unseen + 1 ELSE 0 END) AS rebalances,
            sum(CASE WHEN counts THEN {d.size("joined")} ELSE 0 END) AS members_joined,
            sum(CASE WHEN counts THEN {d.size("members_left")} ELSE 0 END) AS members_left,
            sum(CASE WHEN counts THEN {d.size("moved")} ELSE 0 END) AS partitions_moved,
            median(unix_millis(ended_at) - unix_millis(began_at)) / 1e3 AS median_generation_s,
            max_by({d.struct(n="member_count", type="group_type", change="change", at="ended_at")},
                {latest}) AS last,
            {p.from_since("min(began_at)")} AS first_at, max(began_at) AS last_at
        FROM counted GROUP BY group_id
    ),
    watched AS (
        SELECT *, coalesce(last.at, {p.as_of}) AS until FROM summed
    )
    SELECT group_id, last.type AS group_type, lives, generations, rebalances,
        CASE WHEN {watched} >= {RATE_FROM_S} THEN rebalances * 3600e0 / ({watched}) END
            AS rebalances_per_hour,
        greatest({watched}, 0e0) AS observed_s, members_joined, members_left, partitions_moved,
        median_generation_s, last.n AS member_count, last.change AS last_change, first_at, last_at
    FROM watched
    """


def restless_members(d: Dialect, p: Params) -> str:
    """Returns the query of RESTLESS_MEMBERS, from GENERATIONS: the members that caused the most
    generations.

    A member is identified by client id, host and instance id, because each join may give it a new
    member id. `share` is the member's share of all generations of the group.
    """
    names = ", ".join(f"who.{name} AS {name}" for name in PERSON_FIELDS)
    return f"""
    WITH {_counted(p)},
    whole AS (SELECT group_id, count(*) AS generations FROM counted WHERE counts GROUP BY group_id),
    changed AS (
        SELECT group_id, log_partition, log_offset, began_at, true AS came, {names}
        FROM (SELECT * FROM counted WHERE counts) AS a {d.unnest("joined", "j", "who")}
        UNION ALL
        SELECT group_id, log_partition, log_offset, began_at, false, {names}
        FROM (SELECT * FROM counted WHERE counts) AS a {d.unnest("members_left", "l", "who")}
    )
    SELECT c.group_id, client_id, client_host, group_instance_id,
        count(DISTINCT log_offset) AS rebalances,
        count(DISTINCT log_offset) / CAST(max(w.generations) AS DOUBLE) AS share,
        count(CASE WHEN came THEN 1 END) AS joins, count(CASE WHEN NOT came THEN 1 END) AS leaves,
        count(DISTINCT member_id) AS member_ids, min(began_at) AS first_at,
        max(began_at) AS last_at
    FROM changed c JOIN whole w ON w.group_id = c.group_id
    GROUP BY c.group_id, client_id, client_host, group_instance_id
    """


def _counted(p: Params) -> str:
    """Returns the CTE `counted`: the generations of each group, numbered by `nth` from 1. If a
    group was deleted and created again, the numbers begin again at 1. `counts` is true for
    generations that began in the time window.

    Generation 0 is left out, because Kafka 4 writes it when it creates a group, before any member
    joins.
    """
    return f"""
    counted AS (
        SELECT *, {p.in_window("began_at")} AS counts, row_number() OVER (
            PARTITION BY {_LIFE} ORDER BY log_offset) AS nth
        FROM generations WHERE generation > 0
    )"""


def folded(d: Dialect) -> str:
    """Returns the CTE `generation_rows`: one row for each generation in `group_states`. The column
    `nth` is the number of the generation in this life of the group, from 1."""
    chain = f"PARTITION BY {_LIFE} ORDER BY log_offset"
    fields = ("protocol_type", "protocol", "leader", "leader_is", "member_count")
    last = d.struct(**{name: name for name in fields})
    leader = f"try_element_at({d.filter('members', 'm', 'm.member_id = leader')}, 1)"
    return f"""
    lived AS (
        SELECT {GROUP_KEY}, log_offset, "at", own, alive, known, group_type, generation,
            protocol_type, protocol, leader, {_identity(leader)} AS leader_is,
            {d.size("members")} AS member_count,
            count(CASE WHEN own AND NOT alive THEN 1 END) OVER (
                PARTITION BY {GROUP_KEY} ORDER BY log_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life
        FROM group_states
    ),
    ended AS (
        SELECT *, min(CASE WHEN own AND NOT alive THEN "at" END) OVER (PARTITION BY {_LIFE})
            AS deleted_at
        FROM lived
    ),
    begun AS (
        SELECT *, coalesce(lag(generation) OVER ({chain}) = generation
            AND lag(group_type) OVER ({chain}) = group_type, false) AS again
        FROM ended WHERE alive AND generation IS NOT NULL
    ),
    runs AS (
        SELECT *, count(CASE WHEN NOT again THEN 1 END) OVER (
            {chain} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS nth
        FROM begun
    ),
    folded AS (
        SELECT {_LIFE}, nth, generation, group_type, min(log_offset) AS log_offset,
            max(log_offset) AS last_offset,
            min_by({d.struct(at='"at"')}, log_offset).at AS began_at,
            count(CASE WHEN own THEN 1 END) AS records,
            min(CASE WHEN known THEN 1 ELSE 0 END) = 1 AS known, min(deleted_at) AS deleted_at,
            max_by({last}, log_offset) AS last
        FROM runs GROUP BY {_LIFE}, nth, generation, group_type
    ),
    generation_rows AS (
        SELECT *, {", ".join(f"last.{name} AS {name}" for name in fields)},
            coalesce(lead(began_at) OVER ({chain}), deleted_at) AS ended_at
        FROM folded
    )"""


def _numbered() -> str:
    """Returns two CTEs. `numbered` compares each generation with the previous one, and `peopled`
    adds the members."""
    chain = f"PARTITION BY {_LIFE} ORDER BY log_offset"
    return f"""
    numbered AS (
        SELECT *, lag(group_type) OVER ({chain}) AS type_before,
            coalesce(lag(leader_is) OVER ({chain}) <> leader_is, false) AS leader_changed,
            coalesce(lag(protocol) OVER ({chain}) <> protocol, false) AS protocol_changed,
            least(greatest(coalesce(CAST(generation AS BIGINT)
                - lag(generation) OVER ({chain}) - 1, 0), 0), {INT_MAX}) AS unseen,
            nth > 1 OR generation <= CASE WHEN group_type = '{CLASSIC}' THEN 1
                ELSE {FIRST_EPOCH} END AS known_before
        FROM generation_rows
    ),
    peopled AS (
        SELECT n.*, g.members FROM numbered n JOIN group_states g
            ON g.log_partition = n.log_partition AND g.group_id = n.group_id
            AND g.log_offset = n.last_offset
    )"""


def _changed(d: Dialect) -> str:
    """Returns the CTE `changed`: for each generation, the members that joined or left since the
    previous one.

    The members of the earliest generation in the log count as joined only if this generation is the
    first of the group.
    """
    stay = f"PARTITION BY {_LIFE}, who ORDER BY nth"
    person = d.struct(**{name: f"m.{name}" for name in PERSON_FIELDS})
    return f"""
    stays AS (
        SELECT {_LIFE}, nth, known_before, person, lag(nth) OVER ({stay}) AS before,
            lead(nth) OVER ({stay}) AS after
        FROM (
            SELECT {_LIFE}, nth, known_before, {_identity("m")} AS who, {person} AS person
            FROM peopled {d.unnest("members", "e", "m")}
        ) AS present
    ),
    changes AS (
        SELECT {_LIFE}, nth, person AS joined, NULL AS gone
        FROM stays WHERE known_before AND coalesce(before <> nth - 1, true)
        UNION ALL
        SELECT {_LIFE}, nth + 1, NULL, person
        FROM stays WHERE coalesce(after <> nth + 1, true)
    ),
    changed AS (
        SELECT {_LIFE}, nth, {d.collect("joined")} AS joined, {d.collect("gone")} AS gone
        FROM changes GROUP BY {_LIFE}, nth
    )"""


def _moved(d: Dialect) -> str:
    """Returns the CTE `moved`: for each generation, the partitions whose owner in the previous
    generation was another member. Share groups are left out, because several members may own the
    same partition."""
    hands = f"PARTITION BY {_LIFE}, topic, partition ORDER BY nth"
    move = d.struct(
        topic="topic", partition="partition", from_member="from_member", to_member="member_id"
    )
    return f"""
    assigned AS (
        SELECT {_LIFE}, nth, who, member_id, coalesce(h.topic, h.topic_id) AS topic,
            h.partitions AS partitions
        FROM (
            SELECT {_LIFE}, nth, {_identity("m")} AS who, m.member_id AS member_id,
                m.assignment AS assignment
            FROM (SELECT * FROM peopled WHERE group_type <> 'share') AS p
                {d.unnest("members", "e", "m")}
        ) AS present {d.unnest("assignment", "e", "h")}
    ),
    handed AS (
        SELECT *, lag(nth) OVER ({hands}) AS nth_before, lag(who) OVER ({hands}) AS who_before,
            lag(member_id) OVER ({hands}) AS from_member
        FROM (
            SELECT {_LIFE}, nth, who, member_id, topic, e.partition AS partition
            FROM assigned {d.unnest("partitions", "e", "partition")}
        ) AS held
    ),
    moved AS (
        SELECT {_LIFE}, nth, {d.collect(move)} AS moved FROM handed
        WHERE nth_before = nth - 1 AND who_before <> who GROUP BY {_LIFE}, nth
    )"""


def _change(d: Dialect) -> str:
    """Returns SQL for the reason of a generation. The SQL compares the members of the generation
    with those of the previous one."""
    came, went = (f"coalesce({d.size(f'c.{name}')}, 0) > 0" for name in ("joined", "gone"))
    return f"""
    CASE WHEN n.nth = 1 AND n.known_before THEN '{FIRST}' WHEN n.nth = 1 THEN '{FIRST_SEEN}'
        WHEN n.type_before <> n.group_type THEN '{CONVERTED}' || n.group_type
        WHEN n.member_count = 0 THEN '{EMPTIED}'
        WHEN {came} AND {went} THEN '{JOINED_AND_LEFT}'
        WHEN {came} THEN '{JOINED}' WHEN {went} THEN '{LEFT}' ELSE '{SAME_MEMBERS}' END"""


def _identity(member: str) -> str:
    """Returns SQL that identifies a member across joins: the instance id of a static member,
    otherwise the member id."""
    instance = f"({member}).group_instance_id"
    return f"coalesce('i:' || {instance}, 'm:' || ({member}).member_id)"

"""The members of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071)
over time, and the partitions that moved between members.

In a streams group, the active tasks count as partitions, and subtopologies as topics. The epoch
record of a group shows that its members must change their assignments. The record of a member's
current assignment shows that this member has changed its own assignment. Therefore a member's
epoch, state and partitions change only at the member's own records. When a new epoch of the group
begins, its members still have the partitions of the previous epoch.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import GROUP_TYPES, TOMBSTONE
from pipeline.model.params import Params
from pipeline.sql.generations import folded
from pipeline.sql.groups import (
    CLASSIC,
    GROUP_KEY,
    PERSON_FIELDS,
    assigned,
    kinds_of,
    member_kinds,
    quoted,
)

STATES: Final = ("STABLE", "UNREVOKED", "UNRELEASED")
"""The names of a member's states; `coordinator/consumer/states.py` explains them. Any other number
in a record is `UNKNOWN`, as in Kafka."""
_FIRST_STATE: Final = {"consumer": 0, "share": 0, "streams": 1}
"""By type of group: the number of the first state of `STATES` in a member's record."""

_EPOCH, _END, _MEMBER, _CURRENT, _GONE = "epoch", "end", "member", "current", "gone"
"""The roles of records. `_END` is the deletion of a group, `_GONE` a tombstone of a member."""
_KINDS: Final = {
    f"{group_type}_group_{kind}": role
    for group_type in GROUP_TYPES
    for kind, role in (
        ("member", _MEMBER),
        ("current_member", _CURRENT),
        (f"member{TOMBSTONE}", _GONE),
        (f"current_member{TOMBSTONE}", _GONE),
        (f"epoch{TOMBSTONE}", _END),
    )
}
_CURRENTS: Final = kinds_of("_current_member")
_NAMING: Final = [*kinds_of("_target_member"), *_CURRENTS]
_SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_ERA: Final = f"{GROUP_KEY}, era"


def member_states(d: Dialect, p: Params) -> str:
    """Returns the query of the relation `member_states`, from `group_states` and EVENTS. Its rows
    are those of the table ASSIGNMENTS for the whole history, not only for the selected time. The
    column `era` is the number of times that the group had been deleted before.

    If a state of a member lasts for several epochs, the relation has a row for each of these
    epochs. If the log has no current assignment of a member, the state in its row is null. The
    query adds the column of partitions last, because a window function would copy the partitions
    into every row.
    """
    names = PERSON_FIELDS[1:]
    return f"""
    WITH {folded(d)}, {_spans()}, {_held(d)},
    listed AS (
        SELECT {GROUP_KEY}, member_id, role, log_offset, era, own_at, next_nth, next_at,
            n.nth AS nth
        FROM spans {d.unnest(d.numbers("own_nth", "until_nth"), "n", "nth")}
    ),
    timed AS (
        SELECT l.log_partition, l.group_id, l.member_id, l.role, l.log_offset, l.era, g.life,
            g.generation, g.known, g.group_type, l.log_offset > g.log_offset AS own,
            CASE WHEN l.log_offset > g.log_offset THEN l.own_at ELSE g.began_at END AS began_at,
            CASE WHEN l.nth = l.next_nth THEN l.next_at ELSE g.ended_at END AS ended_at
        FROM listed l JOIN epochs g ON g.log_partition = l.log_partition
            AND g.group_id = l.group_id AND g.era = l.era AND g.nth = l.nth
    ),
    persons AS (
        SELECT {GROUP_KEY}, member_id, max_by(try_element_at(members, 1), log_offset) AS person
        FROM events WHERE kind IN {quoted(member_kinds())} GROUP BY {GROUP_KEY}, member_id
    )
    SELECT t.group_id, t.era, t.life, t.generation, t.member_id,
        {", ".join(f"w.person.{name} AS {name}" for name in names)}, t.began_at, t.ended_at,
        h.member_epoch, CAST(h.previous AS INT) AS previous_member_epoch, h.state,
        coalesce(h.assigned, {d.empty()}) AS assigned,
        coalesce(h.revoking, {d.empty()}) AS revoking, t.known, t.group_type, t.log_partition,
        t.log_offset
    FROM timed t
    LEFT JOIN held h ON h.log_partition = t.log_partition AND h.log_offset = t.log_offset
    LEFT JOIN persons w ON w.log_partition = t.log_partition AND w.group_id = t.group_id
        AND w.member_id = t.member_id
    WHERE (t.own AND t.role = '{_CURRENT}') OR coalesce(t.ended_at > t.began_at, true)
    """


def assignments(d: Dialect, p: Params) -> str:
    """Returns the query of the table ASSIGNMENTS, which has a row for each state of a member in
    each epoch of its group. The query reads the relation `member_states`."""
    return f"""
    SELECT *, (unix_millis(ended_at) - unix_millis(began_at)) / 1e3 AS duration_s
    FROM member_states WHERE {p.in_window("ended_at")}
    """


def _spans() -> str:
    """Returns the CTEs `epochs` and `spans`. `epochs` has the epochs of each group, numbered by
    `nth`. `spans` has a row for each record about a member: the first and the last epoch for which
    the content of the record was valid.

    The deletion of a group ends the validity of all records about its members. The metadata record
    of a member is valid until the log has a record with the current assignment of this member.
    """
    roles = " ".join(f"WHEN '{kind}' THEN '{role}'" for kind, role in _KINDS.items())
    chain = f"PARTITION BY {GROUP_KEY} ORDER BY log_offset {_SO_FAR}"
    whole = f"PARTITION BY {GROUP_KEY}, era"
    own = f"{whole}, member_id ORDER BY log_offset"
    return f"""
    mixed AS (
        SELECT {GROUP_KEY}, log_offset, CAST(NULL AS STRING) AS member_id, began_at AS own_at,
            '{_EPOCH}' AS role, life, generation, known, group_type, ended_at
        FROM generation_rows WHERE group_type <> '{CLASSIC}'
        UNION ALL
        SELECT {GROUP_KEY}, log_offset, member_id, written_at, CASE kind {roles} END,
            NULL, NULL, NULL, NULL, NULL
        FROM events WHERE kind IN {quoted(_KINDS)} AND group_id IS NOT NULL
    ),
    counted AS (
        SELECT *, count(CASE WHEN role = '{_EPOCH}' THEN 1 END) OVER ({chain}) AS nth,
            count(CASE WHEN role = '{_END}' THEN 1 END) OVER ({chain}) AS era
        FROM mixed
    ),
    bounded AS (
        SELECT *, max(nth) OVER ({whole}) AS era_last FROM counted
    ),
    epochs AS (
        SELECT {GROUP_KEY}, era, nth, log_offset, life, generation, own_at AS began_at, ended_at,
            known, group_type
        FROM counted WHERE role = '{_EPOCH}'
    ),
    owned AS (
        SELECT *, coalesce(lag(role) OVER ({own}), '{_GONE}') AS role_before
        FROM bounded WHERE role IN {quoted((_MEMBER, _CURRENT, _GONE))}
    ),
    followed AS (
        SELECT *, lead(nth) OVER ({own}) AS next_nth, lead(own_at) OVER ({own}) AS next_at
        FROM owned WHERE role <> '{_MEMBER}' OR role_before = '{_GONE}'
    ),
    spans AS (
        SELECT *, nth AS own_nth, coalesce(next_nth, era_last) AS until_nth
        FROM followed WHERE role <> '{_GONE}'
    )"""


def _held(d: Dialect) -> str:
    """Returns the CTE `held`: the values of the records of current assignments.

    These records contain topic ids, but no topic names. If another record of an assignment in the
    history has both the id and the name of a topic, its name is used. Otherwise the id is used as
    the name.
    """
    states = " ".join(
        f"WHEN '{group_type}_group_current_member {first + nth}' THEN '{name}'"
        for group_type, first in _FIRST_STATE.items()
        for nth, name in enumerate(STATES)
    )
    hold = d.struct(topic="coalesce(p.topic, n.topic, p.topic_id)", partitions="p.partitions")
    waits = d.topics("get_json_object(details, '$.partitions_pending_revocation')")
    tasks = d.tasks("get_json_object(details, '$.active_tasks_pending_revocation')")
    piece = "h.topic AS topic, h.topic_id AS topic_id, h.partitions AS partitions"
    return f"""
    stored AS (
        SELECT log_partition, log_offset, kind, generation, details,
            get_json_object(details, '$.state') AS number,
            {assigned(d, "try_element_at(members, 1)")} AS assigned,
            coalesce({waits}, {tasks}) AS revoking
        FROM events WHERE kind IN {quoted(_NAMING)}
    ),
    pieces AS (
        SELECT log_partition, log_offset, kind, false AS is_revoking, {piece}
        FROM stored {d.unnest("assigned", "e", "h")}
        UNION ALL
        SELECT log_partition, log_offset, kind, true, {piece}
        FROM stored {d.unnest("revoking", "e", "h")}
    ),
    topic_names AS (
        SELECT topic_id, max(topic) AS topic FROM pieces
        WHERE topic IS NOT NULL AND topic_id IS NOT NULL GROUP BY topic_id
    ),
    grouped AS (
        SELECT p.log_partition, p.log_offset, {d.collect(hold, "NOT p.is_revoking")} AS assigned,
            {d.collect(hold, "p.is_revoking")} AS revoking
        FROM pieces p LEFT JOIN topic_names n ON n.topic_id = p.topic_id
        WHERE p.kind IN {quoted(_CURRENTS)} GROUP BY p.log_partition, p.log_offset
    ),
    held AS (
        SELECT t.log_partition, t.log_offset, t.generation AS member_epoch,
            get_json_object(t.details, '$.previous_member_epoch') AS previous,
            CASE WHEN t.number IS NOT NULL
                THEN CASE t.kind || ' ' || t.number {states} ELSE 'UNKNOWN' END END AS state,
            g.assigned, g.revoking
        FROM stored t LEFT JOIN grouped g
            ON g.log_partition = t.log_partition AND g.log_offset = t.log_offset
        WHERE t.kind IN {quoted(_CURRENTS)}
    )"""


def moves(d: Dialect, p: Params) -> str:
    """Returns the query of PARTITION_MOVES, from `member_states`: one row for each time that a
    member received a partition which another member had before.

    A member has a partition from the record that assigns it until the first record without it, or
    until the member is removed. A partition that the member must revoke still belongs to it. A
    static member stays the same member under a new member id. After a deletion of the group, or its
    conversion to a classic group, partitions have no previous owner. Share groups are left out,
    because several members may own the same partition.
    """
    columns = {"member_id": "member", "taken": "taken", "revoking_at": "revoking_at",
               "released_at": "released_at"}  # fmt: skip
    chain = f"PARTITION BY {_ERA}, topic, partition ORDER BY log_offset"
    before = ", ".join(f"lag({one}) OVER ({chain}) AS from_{to}" for one, to in columns.items())
    return f"""
    WITH {_stints(d)},
    handed AS (
        SELECT *, {before} FROM stints
    )
    SELECT group_id, taken.life AS life, taken.generation AS generation, topic, partition,
        from_member, from_taken.client_id AS from_client_id,
        from_taken.client_host AS from_client_host, member_id AS to_member,
        taken.client_id AS to_client_id, taken.client_host AS to_client_host,
        from_revoking_at AS revoking_at, from_released_at AS released_at,
        taken.began_at AS acquired_at,
        (unix_millis(from_released_at) - unix_millis(from_revoking_at)) / 1e3 AS revoking_s,
        (unix_millis(taken.began_at) - unix_millis(from_released_at)) / 1e3 AS unowned_s,
        log_partition, log_offset
    FROM handed
    WHERE {_identity("from_taken", "from_member")} <> {_identity("taken", "member_id")}
        AND {p.in_window("taken.began_at")}
    """


def _stints(d: Dialect) -> str:
    """Returns the CTE `stints`: the time spans in which a member had a partition without a break.
    If a member leaves the group and joins again with the same id, a new `stay` begins; stays are
    numbered."""
    rows = f"PARTITION BY {_ERA}, member_id"
    own = f"{_ERA}, member_id, stay, topic, partition"
    fields = ("life", "generation", "group_instance_id", "client_id", "client_host", "began_at")
    keys = f"{_ERA}, member_id, stay, nth, log_offset, ended_at, {', '.join(fields)}"
    holds = "h.topic AS topic, h.partitions AS partitions"
    return f"""
    numbered AS (
        SELECT *, row_number() OVER ({rows} ORDER BY log_offset, generation) AS nth,
            coalesce(lag(ended_at) OVER ({rows} ORDER BY log_offset, generation) = began_at, false)
                AS continues
        FROM member_states WHERE group_type <> 'share'
    ),
    stays AS (
        SELECT *, count(CASE WHEN NOT continues THEN 1 END) OVER ({rows} ORDER BY nth {_SO_FAR})
            AS stay
        FROM numbered
    ),
    owned AS (
        SELECT *, nth - row_number() OVER (PARTITION BY {own} ORDER BY nth) AS island
        FROM (
            SELECT {keys}, topic, is_revoking, e.partition AS partition
            FROM (
                SELECT {keys}, false AS is_revoking, {holds}
                FROM stays {d.unnest("assigned", "a", "h")}
                UNION ALL
                SELECT {keys}, true, {holds} FROM stays {d.unnest("revoking", "a", "h")}
            ) AS holdings {d.unnest("partitions", "e", "partition")}
        ) AS single
    ),
    stints AS (
        SELECT {own}, min(log_offset) AS log_offset,
            min_by({d.struct(**{name: name for name in fields})}, nth) AS taken,
            max_by({d.struct(ended_at="ended_at")}, nth).ended_at AS released_at,
            min(CASE WHEN is_revoking THEN began_at END) AS revoking_at
        FROM owned GROUP BY {own}, island
    )"""


def _identity(person: str, member_id: str) -> str:
    return f"coalesce('i:' || {person}.group_instance_id, 'm:' || {member_id})"

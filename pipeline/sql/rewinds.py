"""The table of rewinds: commits of an offset below the previously committed offset, with the
members that the group had at the time of the commit."""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import TOMBSTONE
from pipeline.model.params import Params
from pipeline.sql.groups import CLASSIC, GROUP_KEY, PERSON_FIELDS, kinds_of, member_kinds, quoted
from pipeline.sql.offsets import KEY

_SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_GIVES_UP: Final = "1"
"""The state of a member of a consumer group (KIP-848) that must revoke partitions. The member owns
them until it confirms the revocation."""


def rewinds(d: Dialect, p: Params) -> str:
    """Returns the query of REWINDS, from COMMITS, EVENTS and `group_states`.

    `owner` is the member that owned the partition when the commit was written. In a consumer group
    (KIP-848) it is the current owner, which may differ from the target owner. `owner` is null if no
    member owned the partition, as when an administrator sets the offset. It is also null in a
    streams group, which assigns tasks instead of partitions. `members` is empty if the group had no
    members, and null if records of the group were not understood.
    """
    person = d.struct(**{name: f"m.{name}" for name in PERSON_FIELDS})
    persons = d.transform("state.members", "m", person)
    return f"""
    WITH {_asked(d)}, {_had(d)}
    SELECT c.group_id, c.topic, c.partition, c.committed_at AS rewound_at, c.previous_offset,
        c.committed_offset,
        try_subtract(0, c.advanced_records) AS rewound_records, -c.advanced_s AS rewound_s,
        c.since_previous_s, state.generation AS generation,
        CASE WHEN coalesce(state.known, true) THEN coalesce({persons}, {d.empty()}) END AS members,
        CASE WHEN NOT coalesce(state.alive, false) OR state.group_type = 'streams' THEN NULL
            WHEN state.group_type = '{CLASSIC}' OR had IS NULL
            THEN try_element_at({_assigned(d, person)}, 1)
            WHEN coalesce(had.until_offset > c.log_offset, true) THEN had.person END AS owner,
        c.log_partition, c.log_offset
    FROM back c
    LEFT JOIN then_in i ON i.log_partition = c.log_partition AND i.log_offset = c.log_offset
    LEFT JOIN then_had t ON t.log_partition = c.log_partition AND t.log_offset = c.log_offset
    """


def _assigned(d: Dialect, person: str) -> str:
    """Returns SQL for a list of the members to which the partition of the commit was assigned. The
    SQL expression ``person`` gives the list's element for a member."""
    here = d.filter(
        "m.assignment", "h", f"h.topic = c.topic AND {d.contains('h.partitions', 'c.partition')}"
    )
    return d.transform(d.filter("state.members", "m", f"{d.size(here)} > 0"), "m", person)


def _asked(d: Dialect) -> str:
    """Returns the CTEs `back` and `then_in`. `back` has the commits that moved a committed offset
    back. For each of these commits, `then_in` has the state of the group at this time."""
    names = ("generation", "group_type", "alive", "known", "members")
    state = d.struct(**{name: f"g.{name}" for name in names})
    return f"""
    back AS (
        SELECT * FROM commits WHERE committed_offset < previous_offset
    ),
    concerned AS (
        SELECT DISTINCT {GROUP_KEY} FROM back
    ),
    mixed AS (
        SELECT g.log_partition, g.group_id, g.log_offset, {state} AS state, false AS asked
        FROM group_states g JOIN concerned o
            ON o.log_partition = g.log_partition AND o.group_id = g.group_id
        UNION ALL
        SELECT {GROUP_KEY}, log_offset, NULL, true FROM back
    ),
    then_in AS (
        SELECT log_partition, log_offset, state FROM (
            SELECT log_partition, log_offset, asked,
                {d.last("state", f"PARTITION BY {GROUP_KEY} ORDER BY log_offset, asked {_SO_FAR}")}
                    AS state
            FROM mixed
        ) AS known WHERE asked
    )"""


def _had(d: Dialect) -> str:
    """Returns the CTE `then_had`. It has a row for each commit in `back`, an earlier CTE of the
    query: the member that last owned the partition before this commit, and the log offset at which
    its ownership ended."""
    members, currents = member_kinds(), kinds_of("_current_member")
    dropped = quoted(kind + TOMBSTONE for kind in currents)
    ends = (
        f"e.kind IN {dropped} OR (e.kind IN {quoted(currents)}"
        f" AND coalesce(get_json_object(e.details, '$.state'), '') <> '{_GIVES_UP}')"
    )
    by_member = "PARTITION BY e.log_partition, e.group_id, e.member_id ORDER BY e.log_offset"
    named = d.struct(**{name: f"try_element_at(e.members, 1).{name}" for name in PERSON_FIELDS})
    names = d.last(
        f"CASE WHEN e.kind IN {quoted(members)} THEN {named} END", f"{by_member} {_SO_FAR}"
    )
    nobody = dict.fromkeys(PERSON_FIELDS, "CAST(NULL AS STRING)")
    stranger = d.struct(**{**nobody, "member_id": "member_id"})
    had = d.struct(person=f"coalesce(names, {stranger})", until_offset="until_offset")
    return f"""
    movements AS (
        SELECT e.log_partition, e.group_id, e.log_offset, e.member_id, e.kind,
            try_element_at(e.members, 1).assignment AS assignment, {names} AS names,
            min(CASE WHEN {ends} THEN e.log_offset END) OVER (
                {by_member} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until_offset
        FROM events e JOIN concerned o
            ON o.log_partition = e.log_partition AND o.group_id = e.group_id
        WHERE e.kind IN {quoted([*members, *currents])} OR e.kind IN {dropped}
    ),
    topics AS (
        SELECT {GROUP_KEY}, log_offset, {had} AS had, h.topic AS topic, h.partitions AS partitions
        FROM (SELECT * FROM movements WHERE kind IN {quoted(currents)}) AS given
            {d.unnest("assignment", "a", "h")}
    ),
    got AS (
        SELECT {GROUP_KEY}, topic, x.partition AS partition, log_offset, had, false AS asked
        FROM topics {d.unnest("partitions", "x", "partition")}
        UNION ALL
        SELECT {KEY}, log_offset, NULL, true FROM back
    ),
    then_had AS (
        SELECT log_partition, log_offset, had FROM (
            SELECT log_partition, log_offset, asked,
                {d.last("had", f"PARTITION BY {KEY} ORDER BY log_offset, asked {_SO_FAR}")} AS had
            FROM got
        ) AS known WHERE asked
    )"""

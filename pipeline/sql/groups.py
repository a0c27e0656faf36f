"""Groups of every kind as one relation: each state of a group, with its members.

A classic group writes its whole state in one record. A KIP-848, KIP-932 or KIP-1071 group writes an
epoch record and member records. The records of members that joined or left precede the epoch
record; the records of target and current assignments follow it. So a member's subscription counts
from the next epoch record on, and its assignment from the epoch record before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.model.events import (
    DAMAGED,
    GROUP,
    GROUP_TOMBSTONE,
    GROUP_TYPES,
    RECORD_KINDS,
    TOMBSTONE,
    UNKNOWN,
)
from pipeline.model.params import Params

GROUP_KEY: Final = "log_partition, group_id"
CLASSIC: Final = "classic"
PERSON_FIELDS: Final = ("member_id", "group_instance_id", "client_id", "client_host")
MEMBER_FIELDS: Final = (*PERSON_FIELDS, "subscription", "pattern", "assignment")
FIRST_EPOCH: Final = 2
"""The highest first epoch of a KIP-848, KIP-932 or KIP-1071 group: 1 until Kafka 4.2, 2 since 4.3.
"""

OF_MEMBERS: Final = "(coalesce(alive, false) AND coalesce(protocol_type, '') <> '')"
"""SQL condition on a state: the group has or had members, though it may be empty now.

The condition is false for a group in which only standalone consumers commit: a group that never had
members (Kafka 4 writes such a group without a protocol type), or a deleted group.
"""

_STATE, _END, _MEMBER, _TARGET, _CURRENT = "state", "end", "member", "target", "current"
_DOUBT, _DAMAGE = "doubt", "damage"
"""The roles of records that could not be understood: `_DOUBT` is a record of one group; `_DAMAGE`
may have been a record of any group."""
_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def group_states(d: Dialect, p: Params) -> str:
    """Return the query of `group_states`, from EVENTS: each state of a group, in the order of the
    log.

    A row with `own` true is a record of the group itself: a generation or an epoch, or, with
    `alive` false, the deletion of the group. A conversion to another kind is not a deletion. A
    group may have one more row after the last row with `own` true, for members that changed later
    or for records that were not understood. `known` is false if such records may have changed the
    members.

    Members have PERSON, `subscription`, `pattern` (a regular expression) and `assignment`, the
    target assignment; see `assigned` for the tasks of a streams group. Records of the kinds
    `_current_member` have the current assignment.
    """
    return f"""
    WITH {_records()}, {_turns()}, {_numbered()}, {_stays(d)}, {_memberships(d)},
        {_stated(d)}
    SELECT s.log_partition, s.group_id, s.log_offset, s.at, s.turn AS own, s.alive, s.known,
        s.group_type,
        CASE WHEN s.alive THEN coalesce(s.state.protocol_type, s.own_protocol_type) END
            AS protocol_type,
        CASE WHEN s.alive THEN s.state.generation END AS generation,
        CASE WHEN NOT s.alive THEN NULL WHEN s.group_type = '{CLASSIC}' THEN s.state.protocol
            ELSE m.protocol END AS protocol,
        CASE WHEN s.alive THEN s.state.leader END AS leader,
        CASE WHEN s.alive THEN s.state.state_at END AS state_at,
        coalesce(CASE WHEN NOT s.alive THEN {d.empty()}
            WHEN s.group_type = '{CLASSIC}' THEN {_classic_members(d)}
            ELSE m.members END, {d.empty()}) AS members
    FROM stated s
    LEFT JOIN (
        SELECT log_partition, log_offset, members FROM events WHERE kind = '{GROUP}'
    ) AS c ON c.log_partition = s.log_partition AND c.log_offset = s.state.log_offset
    LEFT JOIN memberships m ON m.log_partition = s.log_partition AND m.group_id = s.group_id
        AND m.nth = s.nth
    """


def _stated(d: Dialect) -> str:
    """Return the CTE `stated`: the states, each with the values of the group's own last record."""
    names = ("log_offset", "protocol_type", "generation", "protocol", "leader", "state_at")
    whole = d.struct(
        alive=f"role = '{_STATE}'", group_type="own_type", **{name: name for name in names}
    )
    over = f"PARTITION BY {GROUP_KEY} ORDER BY log_offset {_SO_FAR}"
    return f"""
    stated AS (
        SELECT *, coalesce(own_type, state.group_type, '{CLASSIC}') AS group_type,
            coalesce(state.alive, false)
                OR (role IN ('{_MEMBER}', '{_CURRENT}') AND NOT gone) AS alive
        FROM (
            SELECT {GROUP_KEY}, log_offset, "at", turn, nth, known, own_type, role, gone,
                protocol_type AS own_protocol_type,
                {d.last(f"CASE WHEN turn THEN {whole} END", over)} AS state
            FROM numbered WHERE point
        ) AS s
    )"""


def _classic_members(d: Dialect) -> str:
    fields = {name: f"m.{name}" for name in MEMBER_FIELDS}
    return d.transform("c.members", "m", d.struct(**{**fields, "pattern": "CAST(NULL AS STRING)"}))


def kinds_of(*ends: str) -> list[str]:
    """Return the kinds of group records with these endings, in KIP-848, KIP-932 and KIP-1071
    groups.

    ``kinds_of("_epoch")`` returns the kinds of epoch records.
    """
    return [kind for kind in RECORD_KINDS.values() if kind.endswith(ends)]


def assigned(d: Dialect, member: str) -> str:
    """Return SQL for the assignment in a record of a member's target or current assignment.

    The record has the columns of EVENTS, and ``member`` is the only element of `members`. The
    active tasks of a streams group are only in `details`; the id of a subtopology is the topic.
    """
    tasks = d.tasks("get_json_object(details, '$.active_tasks')")
    return f"coalesce(({member}).assignment, {tasks})"


def quoted(texts: Iterable[str]) -> str:
    """Return texts as a list of SQL literals for `IN`."""
    return "(" + ", ".join(f"'{text}'" for text in texts) + ")"


def _records() -> str:
    """Return the CTE `records`: the records of groups, each with its role for its group.

    Damage has one row in each group that the log of its partition names, at the offset of the last
    damage.
    """
    roles = {
        _STATE: [GROUP, *kinds_of("_epoch")],
        _END: [kind + TOMBSTONE for kind in (GROUP, *kinds_of("_epoch"))],
        _MEMBER: _with_tombstones(member_kinds()),
        _TARGET: _with_tombstones(kinds_of("_target_member")),
        _CURRENT: _with_tombstones(kinds_of("_current_member")),
    }
    role = "\n".join(f"WHEN kind IN {quoted(kinds)} THEN '{name}'" for name, kinds in roles.items())
    types = "\n".join(f"WHEN kind LIKE '{name}_group_%' THEN '{name}'" for name in GROUP_TYPES)
    known = quoted(kind for kinds in roles.values() for kind in kinds)
    return f"""
    typed AS (
        SELECT {GROUP_KEY}, log_offset, coalesce(written_at, state_at) AS at, kind,
            CASE {role} WHEN group_id IS NOT NULL THEN '{_DOUBT}' ELSE '{_DAMAGE}' END AS role,
            kind LIKE '%{TOMBSTONE}' AS gone,
            CASE WHEN kind IN {quoted((GROUP, GROUP_TOMBSTONE))} THEN '{CLASSIC}' {types} END
                AS own_type,
            generation, protocol_type, protocol, leader, state_at, member_id
        FROM events
        WHERE kind IN ('{UNKNOWN}', '{DAMAGED}') OR (kind IN {known} AND group_id IS NOT NULL)
    ),
    shared AS (
        SELECT *, max(CASE WHEN role = '{_DAMAGE}' THEN log_offset END) OVER (
            PARTITION BY log_partition ORDER BY log_offset {_SO_FAR}) AS damaged_offset
        FROM typed
    ),
    lost AS (
        SELECT log_partition, max(log_offset) AS log_offset, max("at") AS at
        FROM typed WHERE role = '{_DAMAGE}' GROUP BY log_partition
    ),
    records AS (
        SELECT * FROM shared WHERE role <> '{_DAMAGE}'
        UNION ALL
        SELECT l.log_partition, g.group_id, l.log_offset, l.at, '{DAMAGED}', '{_DAMAGE}', false,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, l.log_offset
        FROM lost l JOIN (
            SELECT DISTINCT {GROUP_KEY} FROM events WHERE group_id IS NOT NULL
        ) AS g ON g.log_partition = l.log_partition
    )"""


def member_kinds() -> list[str]:
    """Return the kinds of records that describe a member."""
    return [f"{group_type}_group_member" for group_type in GROUP_TYPES]


def _with_tombstones(kinds: Iterable[str]) -> list[str]:
    return [kind + end for kind in kinds for end in ("", TOMBSTONE)]


def _turns() -> str:
    """Return the CTE `turns`: the records, with a mark on the records that make a state.

    The marked records are the group's own records (turns), and at most one record after the last
    turn. If a record of another kind follows a group's tombstone in the same batch, the two records
    are a conversion: the coordinator writes both records at the same time.
    """
    chain = f"PARTITION BY {GROUP_KEY} ORDER BY log_offset"
    whole = f"role = '{_END}' OR kind = '{GROUP}'"
    return f"""
    followed AS (
        SELECT *,
            role = '{_STATE}' OR (role = '{_END}' AND NOT coalesce(
                lead(own_type) OVER ({chain}) <> own_type AND lead("at") OVER ({chain}) = "at"
                AND NOT lead(gone) OVER ({chain}), false)) AS turn,
            count(CASE WHEN role = '{_END}' THEN 1 END) OVER (
                {chain} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS era,
            coalesce(max(CASE WHEN role = '{_DOUBT}' THEN log_offset END) OVER ({chain} {_SO_FAR}),
                -1) AS doubted,
            coalesce(max(CASE WHEN {whole} THEN log_offset END) OVER ({chain} {_SO_FAR}), -1)
                AS described,
            coalesce(max(CASE WHEN {whole} OR (role = '{_STATE}' AND generation <= {FIRST_EPOCH})
                THEN log_offset END) OVER ({chain} {_SO_FAR}), -1) AS begun
        FROM records
    ),
    turns AS (
        SELECT *, doubted <= described AND coalesce(damaged_offset, -1) <= begun AS known,
            max(CASE WHEN turn THEN log_offset END) OVER (PARTITION BY {GROUP_KEY}) AS last_turn
        FROM followed
    )"""


def _numbered() -> str:
    """Return the CTE `numbered`: the turns, with the number of each state and its era.

    States of the same era have members in common. A tombstone of the group ends an era.
    """
    later = (
        f"log_offset > coalesce(last_turn, -1) AND (role IN {quoted((_MEMBER, _DOUBT, _DAMAGE))}"
        f" OR (role = '{_CURRENT}' AND last_turn IS NULL AND NOT gone))"
    )
    return f"""
    pointed AS (
        SELECT *, turn OR coalesce(log_offset = max(CASE WHEN {later} THEN log_offset END) OVER (
            PARTITION BY {GROUP_KEY}), false) AS point
        FROM turns
    ),
    counted AS (
        SELECT *, count(CASE WHEN point THEN 1 END) OVER (
            PARTITION BY {GROUP_KEY} ORDER BY log_offset {_SO_FAR}) AS nth
        FROM pointed
    ),
    numbered AS (
        SELECT *,
            min(CASE WHEN point AND role <> '{_END}' THEN nth END) OVER (
                PARTITION BY {GROUP_KEY}, era) AS era_first,
            max(CASE WHEN point AND role <> '{_END}' THEN nth END) OVER (
                PARTITION BY {GROUP_KEY}, era) AS era_last
        FROM counted
    )"""


def _stays(d: Dialect) -> str:
    """Return the CTE `staying`: the first and last state in which each member was in its group.

    The CTE covers KIP-848, KIP-932 and KIP-1071 groups. A member has its target assignment, or its
    current assignment if compaction removed the target assignment. Both assignments count only
    after the member joined.
    """
    chain = f"PARTITION BY {GROUP_KEY}, era, member_id ORDER BY since_nth, log_offset"

    def last(role: str, value: str) -> str:
        return d.last(f"CASE WHEN role = '{role}' THEN {value} END", f"{chain} {_SO_FAR}")

    names = ("group_instance_id", "client_id", "client_host", "subscription")
    person = d.struct(
        gone="gone",
        protocol="protocol",
        pattern="nullif(get_json_object(details, '$.subscribed_topic_regex'), '')",
        **{name: f"one.{name}" for name in names},
    )
    one = "try_element_at(members, 1)"
    held = d.struct(gone="gone", assignment="assignment")
    came = "n.nth + CASE WHEN n.point THEN 0 ELSE 1 END"
    assignment = f"coalesce(target.assignment, had.assignment, {d.empty()})"
    member = {**{name: f"person.{name}" for name in MEMBER_FIELDS}, "assignment": assignment}
    return f"""
    effects AS (
        SELECT n.log_partition, n.group_id, n.era, n.member_id, n.log_offset, n.role, n.gone,
            n.protocol, n.era_last, e.details, e.one, e.assignment,
            CASE WHEN n.role = '{_MEMBER}' OR n.gone THEN {came}
                ELSE greatest(n.nth, n.era_first, max(
                    CASE WHEN n.role = '{_MEMBER}' THEN {came} END
                ) OVER (PARTITION BY n.log_partition, n.group_id, n.era, n.member_id
                    ORDER BY n.log_offset {_SO_FAR})) END AS since_nth
        FROM numbered n
        JOIN (
            SELECT log_partition, log_offset, details, {one} AS one,
                {assigned(d, one)} AS assignment FROM events
            WHERE kind LIKE '%_member%'
        ) AS e ON e.log_partition = n.log_partition AND e.log_offset = n.log_offset
        WHERE n.role IN {quoted((_MEMBER, _TARGET, _CURRENT))}
    ),
    spans AS (
        SELECT {GROUP_KEY}, member_id, since_nth,
            coalesce(lead(since_nth) OVER ({chain}) - 1, era_last) AS until_nth,
            {last(_MEMBER, person)} AS person, {last(_TARGET, held)} AS target,
            {last(_CURRENT, held)} AS had
        FROM effects
    ),
    staying AS (
        SELECT {GROUP_KEY}, since_nth, until_nth, person.protocol AS protocol,
            {d.struct(**{**member, "member_id": "member_id"})} AS member
        FROM spans WHERE since_nth <= until_nth
            AND CASE WHEN person IS NOT NULL THEN NOT person.gone
            ELSE coalesce(NOT had.gone, false) END
    )"""


def _memberships(d: Dialect) -> str:
    """Return the CTE `memberships`: the members of each state, and the assignor that most of them
    prefer.
    """
    return f"""
    present AS (
        SELECT {GROUP_KEY}, n.nth AS nth, member, protocol
        FROM staying {d.unnest(d.numbers("since_nth", "until_nth"), "n", "nth")}
    ),
    named AS (
        SELECT {GROUP_KEY}, nth, protocol, count(*) AS members FROM present
        WHERE protocol IS NOT NULL GROUP BY {GROUP_KEY}, nth, protocol
    ),
    most AS (
        SELECT {GROUP_KEY}, nth, max({d.struct(members="members", name="protocol")}) AS choice
        FROM named GROUP BY {GROUP_KEY}, nth
    ),
    memberships AS (
        SELECT a.*, most.choice.name AS protocol
        FROM (
            SELECT {GROUP_KEY}, nth, {d.collect("member")} AS members FROM present
            GROUP BY {GROUP_KEY}, nth
        ) AS a
        LEFT JOIN most ON most.log_partition = a.log_partition AND most.group_id = a.group_id
            AND most.nth = a.nth
    )"""

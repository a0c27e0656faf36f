"""The states of groups of every type in one relation, with the members of each state.

A classic group writes its whole state in one record. Consumer groups (KIP-848), share groups
(KIP-932) and streams groups (KIP-1071) write one epoch record and several member records for each
change. The log contains the records of joined and left members first, then the epoch record, and
then the records of target and current assignments. So a member's subscription belongs to the next
epoch record in the log, and its assignment to the previous epoch record.
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
"""The highest epoch that can be the first epoch of a consumer, share or streams group: 2 since
Kafka 4.3, and 1 in earlier versions."""

OF_MEMBERS: Final = "(coalesce(alive, false) AND coalesce(protocol_type, '') <> '')"
"""An SQL condition on a group state. It is true for a group that has members, or that had members
earlier and is empty now. It is false for a deleted group, and for a group without members in which
only standalone consumers commit. Kafka 4 writes no protocol type in the records of such a group."""

_STATE, _END, _MEMBER, _TARGET, _CURRENT = "state", "end", "member", "target", "current"
_DOUBT, _DAMAGE = "doubt", "damage"
"""The roles of records that can't be decoded. A `_DOUBT` record names its group. A `_DAMAGE` record
does not, so it may be a record of any group."""
_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def group_states(d: Dialect, p: Params) -> str:
    """Returns the query of `group_states`, from EVENTS: a row for each state of a group, in the
    order of the log.

    `own` is true if the row comes from a record of the group itself: a generation, an epoch, or a
    deletion. After a deletion, `alive` is false; a conversion to another group type is not a
    deletion. `own` is false in a row that comes from records of members, or from records that were
    not understood. Only the last row of a group can be such a row. `known` is false if records that
    were not understood may have changed the members.

    A member has the fields of PERSON, `subscription`, `pattern` (a regular expression) and
    `assignment`, which is the target assignment; `assigned` explains the tasks of a streams group.
    Current assignments are not in this relation, but in the EVENTS of the kinds `_current_member`.
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
    """Returns the SQL of the relation `stated`, which adds the state of the group to each record of
    a group. The state is in the last record that describes the whole group: this is the record
    itself or an earlier one."""
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
    """Returns the kinds of group records that end with one of ``ends``, for consumer, share and
    streams groups. ``kinds_of("_epoch")`` returns the kinds of epoch records."""
    return [kind for kind in RECORD_KINDS.values() if kind.endswith(ends)]


def assigned(d: Dialect, member: str) -> str:
    """Returns the SQL expression for the partitions of a member, in a row of EVENTS about a target
    or current assignment. The array `members` of such a row has one element, and ``member`` is the
    SQL expression for this element.

    For a streams group, the partitions are the active tasks in the column `details`, with the id of
    the subtopology in place of the topic.
    """
    tasks = d.tasks("get_json_object(details, '$.active_tasks')")
    return f"coalesce(({member}).assignment, {tasks})"


def quoted(texts: Iterable[str]) -> str:
    """Returns the texts as a list of SQL literals for `IN`."""
    return "(" + ", ".join(f"'{text}'" for text in texts) + ")"


def _records() -> str:
    """Returns the CTE `records`: the records of groups, each with its role.

    A damaged record may belong to any group of its partition. Therefore each group in the partition
    has a row in `records` about the last damaged record of the partition.
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
    """Returns the kinds of the records that contain a member's metadata."""
    return [f"{group_type}_group_member" for group_type in GROUP_TYPES]


def _with_tombstones(kinds: Iterable[str]) -> list[str]:
    return [kind + end for kind in kinds for end in ("", TOMBSTONE)]


def _turns() -> str:
    """Returns the SQL of the relation `turns`: all records of groups, with a column `turn`. The
    column is true if the record describes the group as a whole: its epoch, its generation or its
    deletion.

    The column is false for the tombstone of a group if a record of another group type follows it in
    the same batch. Such a pair is a conversion of the group, because the coordinator writes both
    records at the same time.
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
    """Returns the CTE `numbered`. The states of a group have ascending numbers. The CTE has all
    records, each with the number of the group's state at this record, and with the first and the
    last number in the same era. An era ends with a tombstone of the group; the next era begins
    without members."""
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
    """Returns the CTE `staying`, for consumer, share and streams groups. It has a row for each
    member and each range of group states in which the member's properties and assignment did not
    change. `since_nth` and `until_nth` are the numbers of the first and the last state of the
    range.

    The assignment is the member's target assignment, or its current assignment if compaction
    removed the target. The assignment applies only to states after the member joined.
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
    """Returns the CTE `memberships`: for each state of a group, the members in this state, and the
    assignor that most of them prefer."""
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

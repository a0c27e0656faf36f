"""The journal entries of rebalances, including entries that are created from the log of
`__consumer_offsets`.

The log has the last generations of each group, but not their causes. A generation without a journal
entry becomes a rebalance with an unknown cause.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from coordinator.classic.member_restarts import SameClient
from coordinator.events import (
    LOADED_ID_CHARACTERS,
    AssignedMember,
    Cause,
    LoadedGeneration,
    MemberJoined,
    MemberLeft,
)
from journal.entry import Fields
from journal.texts import (
    ID_CHARACTERS,
    USUAL_TEXT_BYTES,
    Source,
    cut,
    kept_id,
    kept_sentence,
    long_bytes,
)
from protocol.now import Now
from protocol.slotted import slotted

WHY_OF_THE_LOG = "loaded from __consumer_offsets, which does not hold the cause of a rebalance"
CLASSIC = "classic"
"""The type of classic groups. Rebalances of classic groups have generations; rebalances of all
other groups have epochs."""
LINE_BYTES_MAX = 256 << 10
"""Maximum size of a rebalance's line in the journal's file. The assignments use at most half of
this size; further assignments are omitted."""
_NAMES_MAX = 100
"""Maximum number of awaited members in the line of a rebalance in the journal's file."""
_REBALANCE_BYTES = 950
_CHANGE_BYTES = 400
_SAME_CLIENT_BYTES = 200
_ASSIGNED_BYTES = 350
_NAME_BYTES = 60
_AS_THEY_ARE = (
    "number", "began_ms", "detail", "member_id", "generation_before", "until_ms", "from_empty",
    "phase", "outcome", "ended_ms", "join_ms", "join_ended_by", "sync_ms", "last_member",
    "last_wait_ms", "last_heard_ms", "generation_id", "protocol_name", "protocol_type", "leader",
    "members", "more_changes",
)  # fmt: skip
"""The fields of a `Rebalance` that a journal line contains under the same name."""


def kept_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Truncates each id to the length that the journal keeps."""
    return (
        tuple([kept_id(each) for each in ids])
        if max(map(len, ids), default=0) > ID_CHARACTERS
        else ids
    )


def kept_assigned(members: tuple[AssignedMember, ...]) -> tuple[AssignedMember, ...]:
    """Returns the members' assignments, with ids truncated to the length that the journal keeps."""
    return tuple(
        [
            each._replace(
                member_id=kept_id(each.member_id),
                group_instance_id=each.group_instance_id and kept_id(each.group_instance_id),
                client_id=kept_id(each.client_id),
            )
            if len(each.member_id) + len(each.group_instance_id or "") + len(each.client_id)
            > ID_CHARACTERS
            else each
            for each in members
        ]
    )


class Change(NamedTuple):
    """A member that joined or was removed."""

    at_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    text: str
    silent_ms: int
    """Milliseconds since the member's last request if its session expired; otherwise -1."""
    same_client: SameClient | None = None
    """The other member id of the same client, if the client has returned under a new member id."""

    @classmethod
    def of(
        cls, event: MemberJoined | MemberLeft, now: Now, text: str, silent_ms: int = -1
    ) -> Change:
        return cls(
            now.wall_ms,
            kept_id(event.member_id),
            event.group_instance_id and kept_id(event.group_instance_id),
            kept_id(event.client_id),
            event.client_host,
            kept_sentence(text),
            silent_ms,
        )

    @classmethod
    def read(cls, row: list[Any]) -> Change:
        at_ms, member_id, instance, client_id, host, text, silent_ms, same = row
        client = None if same is None else SameClient(*same)
        return cls(at_ms, member_id, instance, client_id, host, text, silent_ms, client)

    def size(self) -> int:
        ids = long_bytes(self.member_id, self.group_instance_id, self.client_id, self.client_host)
        size = _CHANGE_BYTES + ids + long_bytes(self.text)
        if self.same_client is not None:
            size += _SAME_CLIENT_BYTES + long_bytes(self.same_client.words)
        return size


@slotted
class Rebalance:
    """One rebalance, from the move to PreparingRebalance until the move to Stable or Empty, or
    until the next rebalance."""

    number: int
    began_ms: int
    began_mono_ms: int
    cause: Cause
    detail: str
    """The cause of the rebalance, as text."""
    member_id: str
    """The member that caused the rebalance; "" if no single member did."""
    generation_before: int
    awaited: tuple[str, ...]
    """The members for which the rebalance waited when its phase began: its current phase or, if the
    rebalance was interrupted, its last phase. Empty after the rebalance has completed."""
    until_ms: int
    """The deadline that the current or last phase had when the phase began, in wall ms."""
    from_empty: bool = False
    phase: str = "join"
    """The current phase. It is "join", "sync" or "ended" in a classic group, and "assign", "revoke"
    or "ended" in groups of other types."""
    outcome: str = ""
    """How the rebalance ended; "" while it is in progress.

    - ``assigned``: the members have their assignments.
    - ``nobody left``: the group has no members.
    - ``interrupted``: the next rebalance has begun.
    - ``unloaded``: the shard was unloaded.
    - ``stopped``: the broker has stopped.
    """
    ended_ms: int = 0
    join_ms: int = -1
    """The length of the join phase in ms; -1 until the phase ends."""
    join_ended_by: str = ""
    """The `Cause` that ended the join phase: all_joined, join_timed_out, initial_delay_ended or
    nobody_left."""
    sync_began_mono_ms: int = 0
    sync_ms: int = -1
    last_member: str = ""
    last_wait_ms: int = 0
    """The time in ms for which the rebalance waited only for ``last_member``, because all other
    members had joined."""
    last_heard_ms: int = 0
    """Wall time in ms of the last request of the member whose expired session caused the rebalance;
    0 if the rebalance has another cause."""
    generation_id: int = -1
    protocol_name: str | None = None
    protocol_type: str | None = None
    leader: str | None = None
    members: int = 0
    assigned: tuple[AssignedMember, ...] = ()
    changes: list[Change] = field(default_factory=list)
    """Members that joined or were removed; the members that caused the rebalance come first."""
    more_changes: int = 0
    """The number of changes that are not in ``changes``, because it is full."""
    source: Source = Source.SEEN
    type: str = CLASSIC
    """The type of the group, as in ListGroups. The rebalances of a classic group have generations;
    the rebalances of other types have epochs (KIP-848, KIP-932)."""
    moved: str = ""
    """The partitions that a new target moved, as text; "" in a classic group."""

    @classmethod
    def read(cls, fields: Fields) -> Rebalance:
        return cls(
            type=fields.get("type", "consumer" if "is_consumer" in fields else CLASSIC),
            moved=fields.get("moved", ""),
            **{name: fields[name] for name in _AS_THEY_ARE},
            began_mono_ms=0,
            cause=Cause(fields["cause"]),
            awaited=tuple(fields["awaited"]),
            changes=[Change.read(row) for row in fields["changes"]],
            assigned=tuple([_assigned_member(*row) for row in fields["assigned"]]),
        )

    def fields(self) -> Fields:
        return {
            "kind": "rebalance",
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            "cause": str(self.cause),
            "awaited": self.awaited[:_NAMES_MAX],
            "changes": self.changes,
            "assigned": _assigned_rows(self.assigned),
            **({} if self.type == CLASSIC else {"type": self.type, "moved": self.moved}),
        }

    def copied(self) -> Rebalance:
        return replace(self, changes=list(self.changes))

    def size(self) -> int:
        size = _REBALANCE_BYTES + _NAME_BYTES * len(self.awaited)
        size += long_bytes(self.detail, self.member_id, self.last_member, self.leader)
        size += long_bytes(self.protocol_name, self.protocol_type, self.moved)
        if max(map(len, self.awaited), default=0) > USUAL_TEXT_BYTES:
            size += long_bytes(*self.awaited)
        size += sum([change.size() for change in self.changes])
        return size + sum([_assigned_size(each) for each in self.assigned])

    def keep(self) -> None:
        """Marks this entry as one that was read from the journal's file. If the rebalance was in
        progress, its outcome becomes ``stopped``."""
        self.source = Source.KEPT
        if self.phase != "ended":
            self.phase, self.outcome = "ended", "stopped"


def _assigned_size(each: AssignedMember) -> int:
    size = _ASSIGNED_BYTES + len(each.assignment)
    if len(each.member_id) + len(each.client_id) > USUAL_TEXT_BYTES or each.group_instance_id:
        size += long_bytes(each.member_id, each.group_instance_id, each.client_id, each.client_host)
    return size


def _assigned_rows(members: tuple[AssignedMember, ...]) -> list[list[str | None]]:
    rows: list[list[str | None]] = []
    room = LINE_BYTES_MAX // 2
    for member_id, instance, client_id, host, assignment in members:
        content = b64encode(assignment).decode()
        room -= (
            len(member_id) + len(instance or "") + len(client_id) + len(host) + len(content) + 32
        )
        if room < 0:
            break
        rows.append([member_id, instance, client_id, host, content])
    return rows


def _assigned_member(
    member_id: str, instance: str | None, client_id: str, host: str, content: str
) -> AssignedMember:
    return AssignedMember(member_id, instance, client_id, host, b64decode(content))


# ----------------------------------------------------------------------------------------- the log


def with_generations(
    known: list[Rebalance], generations: Sequence[LoadedGeneration], loaded_ms: int
) -> list[Rebalance]:
    """Returns all rebalances, sorted by time: the rebalances in ``known``, and a new rebalance for
    each generation in ``generations`` that no rebalance in ``known`` has.

    A rebalance in ``known`` may have been saved while it was in progress. It is completed if the
    log has its generation.
    """
    there = {(each.generation_id, _cut(each.leader)) for each in known}
    missing = [each for each in generations if (each.generation_id, each.leader) not in there]
    made = [_of_the_log(each, loaded_ms) for each in missing if not _ends(known, each)]
    if not made:
        return known
    return _numbered(sorted([*known, *made], key=_place))


def _place(entry: Rebalance) -> tuple[int, int]:
    generation_id = max(entry.generation_id, entry.generation_before)
    return entry.ended_ms or entry.began_ms, generation_id


def _ends(known: list[Rebalance], generation: LoadedGeneration) -> bool:
    """Completes the entry in ``known`` of the rebalance that formed ``generation``, if the broker
    stopped before the entry was complete. Returns False if ``known`` has no such entry."""
    for each in known:
        if (
            each.source is Source.KEPT
            and each.outcome == "stopped"
            and each.generation_before == generation.generation_id - 1
        ):
            made = _of_the_log(generation, each.began_ms)
            each.outcome, each.ended_ms = made.outcome, made.ended_ms
            each.generation_id, each.members = made.generation_id, made.members
            each.protocol_name, each.leader = made.protocol_name, made.leader
            return True
    return False


def _cut(leader: str | None) -> str | None:
    """Truncates a leader's member id to LOADED_ID_CHARACTERS, as the load of a shard does."""
    return leader and cut(leader, LOADED_ID_CHARACTERS)


def _of_the_log(generation: LoadedGeneration, loaded_ms: int) -> Rebalance:
    at_ms = generation.state_timestamp_ms
    if at_ms < 0:
        at_ms = loaded_ms
    entry = Rebalance(
        0, at_ms, 0, Cause.UNKNOWN, WHY_OF_THE_LOG, "", generation.generation_id - 1, (), at_ms
    )
    entry.phase, entry.ended_ms = "ended", at_ms
    entry.outcome = "assigned" if generation.members else "nobody left"
    entry.generation_id = generation.generation_id
    entry.protocol_name, entry.leader = generation.protocol_name, generation.leader
    entry.members = generation.members
    entry.source = Source.LOG
    return entry


def _numbered(merged: list[Rebalance]) -> list[Rebalance]:
    """Changes the numbers of the entries so that they ascend: an entry whose number is not above
    the number of the entry before it gets the next number. Returns the entries."""
    number = 0
    for each in merged:
        number = each.number = max(each.number, number + 1)
    return merged

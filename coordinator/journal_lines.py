"""The lines in which entries of the journal are written down: docs/groups-journal.md.

The first line of a file has the version under `NAME`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from coordinator.events import (
    AssignedMember,
    Cause,
    CommitRejected,
    JoinRefused,
    Loss,
    LostByAdmin,
    MovedOffset,
    OffsetsMovedBack,
)
from coordinator.journal_entries import (
    Change,
    Entry,
    Flapping,
    Lost,
    MovedBack,
    Note,
    Rebalance,
    Rejections,
)
from coordinator.returns import Returning, SameClient, Streak
from journal.lines import Fields, NotALine, fields_of
from journal.lines import line_of as checked_line

NAME = "muster_journal"
VERSION = 1
LINE_BYTES_MAX = 256 << 10
"""What the members of a rebalance got is written down as far as it fits in such a line."""
_NAMES_MAX = 100
"""Of the members that a rebalance awaited when it was interrupted."""

Kept = tuple[str, Entry]
"""An entry with its group."""

_REBALANCE = (
    "number", "began_ms", "detail", "member_id", "generation_before", "until_ms", "from_empty",
    "phase", "outcome", "ended_ms", "join_ms", "join_ended_by", "sync_ms", "last_member",
    "last_wait_ms", "last_heard_ms", "generation_id", "protocol_name", "protocol_type", "leader",
    "members", "more_changes",
)  # fmt: skip
"""The fields of a `Rebalance` that are written as they are."""
_RETURNING = (
    "client_id", "client_host", "times", "last_ms", "member_id", "before", "away_ms", "recent_ms",
)  # fmt: skip
_FLAPPING = ("member_id", "client_id", "client_host", "changes", "last_ms", "detail", "flaps")
_REJECTED = ("member_id", "error_code", "client_id", "client_host", "detail")
_LOST = ("principal", "client_id", "client_host", "offsets", "examples")
_IN_A_ROW = ("since_ms", "times", "is_over")


def line_of(group_id: str, entry: Entry) -> bytes:
    """An entry as a line."""
    return checked_line({"group": group_id, **_written(entry)})


def entry_of(line: bytes) -> Kept:
    """What a line, without its line feed, says. Raises NotALine."""
    fields = fields_of(line)
    try:
        return fields["group"], _read(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotALine(f"it is no entry: {error!r}") from None


def group_of(line: bytes) -> tuple[str, bool]:
    """Of which group a line is, and whether it says that the group is gone. Raises NotALine."""
    fields = fields_of(line)
    is_gone = fields.get("kind") == "note" and fields.get("what") == "group_removed"
    return str(fields.get("group")), is_gone


# ----------------------------------------------------------------------------------------- writing


def _written(entry: Entry) -> Fields:
    if isinstance(entry, Rebalance):
        return {
            "kind": "rebalance",
            **{name: getattr(entry, name) for name in _REBALANCE},
            "cause": str(entry.cause),
            "awaited": entry.awaited[:_NAMES_MAX],
            "changes": entry.changes,
            "assigned": _assigned(entry),
        }
    if isinstance(entry, Note):
        note = {"kind": "note", "at_ms": entry.at_ms, "what": entry.kind, "text": entry.text}
        again = {"times": entry.times, "since_ms": entry.since_ms} if entry.times > 1 else {}
        return note | ({"instance": entry.instance} if entry.instance else {}) | again
    if isinstance(entry, MovedBack):
        event = entry.event
        return {
            "kind": "moved_back",
            "number": entry.number,
            "at_ms": entry.at_ms,
            "member_id": event.member_id,
            "client_id": event.client_id,
            "client_host": event.client_host,
            "offsets": event.offsets,
            "examples": event.examples,
            **({"principal": event.principal} if event.principal else {}),
        }
    if isinstance(entry, Lost):
        lost = {name: getattr(entry.event, name) for name in _LOST}
        head = {"number": entry.number, "at_ms": entry.at_ms, "times": entry.times}
        return {"kind": "lost", **head, "what": entry.event.loss.value, **lost}
    if isinstance(entry, Rejections):
        last = {name: getattr(entry.last, name) for name in _REJECTED}
        last |= {"count": entry.count, "last_ms": entry.last_ms}
        if isinstance(entry.last, JoinRefused):
            row = {name: getattr(entry, name) for name in _IN_A_ROW}
            return {"kind": "refused_join", **last, **row}
        return {"kind": "rejected", **last}
    if isinstance(entry, Flapping):
        return {"kind": "flapping", **{name: getattr(entry, name) for name in _FLAPPING}}
    streak = [entry.streak.count, entry.streak.since_ms, entry.streak.last_ms]
    fields = {name: getattr(entry, name) for name in _RETURNING}
    return {
        "kind": "returning",
        **fields,
        "streak": streak,
        "ways": entry.ways,
        "instance": entry.instance,
        "first": entry.first,
    }


def _assigned(entry: Rebalance) -> list[list[str | None]]:
    rows: list[list[str | None]] = []
    room = LINE_BYTES_MAX // 2
    for member_id, instance, client_id, host, assignment in entry.assigned:
        content = b64encode(assignment).decode()
        room -= (
            len(member_id) + len(instance or "") + len(client_id) + len(host) + len(content) + 32
        )
        if room < 0:
            break
        rows.append([member_id, instance, client_id, host, content])
    return rows


# ----------------------------------------------------------------------------------------- reading


def _read(fields: Fields) -> Entry:
    kind = fields["kind"]
    if kind == "rebalance":
        return _rebalance(fields)
    if kind == "note":
        note = Note(fields["at_ms"], fields["what"], fields["text"])
        again = (fields.get("instance", ""), fields.get("times", 1), fields.get("since_ms", 0))
        return note._replace(instance=again[0], times=again[1], since_ms=again[2])
    if kind == "moved_back":
        who = (fields["member_id"], fields["client_id"], fields["client_host"])
        examples = tuple([MovedOffset(*each) for each in fields["examples"]])
        more = (fields["offsets"], examples, fields.get("principal", ""))
        event = OffsetsMovedBack(fields["group"], *who, *more)
        return MovedBack(fields["at_ms"], event, fields["number"])
    if kind == "lost":
        lost = {name: fields[name] for name in _LOST}
        lost["examples"] = tuple([MovedOffset(*each) for each in lost["examples"]])
        about = LostByAdmin(fields["group"], Loss(fields["what"]), **lost)
        return Lost(fields["at_ms"], about, fields["number"], fields["times"])
    if kind == "rejected":
        last = CommitRejected(fields["group"], **{name: fields[name] for name in _REJECTED})
        return Rejections(fields["last_ms"], last, count=fields["count"])
    if kind == "refused_join":
        join = JoinRefused(fields["group"], **{name: fields[name] for name in _REJECTED})
        row = {name: fields[name] for name in _IN_A_ROW}
        return Rejections(fields["last_ms"], join, count=fields["count"], **row)
    if kind == "flapping":
        return Flapping(**{name: fields[name] for name in _FLAPPING})
    if kind == "returning":
        made = Returning(**{name: fields[name] for name in _RETURNING})
        made.streak = Streak(*fields.get("streak", ()))  # older files have none of these
        made.ways = dict(fields.get("ways", {}))
        made.instance, made.first = fields.get("instance"), fields.get("first", "")
        return made
    raise NotALine(f"its kind is {kind}")


def _rebalance(fields: Fields) -> Rebalance:
    return Rebalance(
        **{name: fields[name] for name in _REBALANCE},
        began_mono_ms=0,
        cause=Cause(fields["cause"]),
        awaited=tuple(fields["awaited"]),
        changes=[_change(row) for row in fields["changes"]],
        assigned=tuple([_assigned_member(*row) for row in fields["assigned"]]),
    )


def _assigned_member(
    member_id: str, instance: str | None, client_id: str, host: str, content: str
) -> AssignedMember:
    return AssignedMember(member_id, instance, client_id, host, b64decode(content))


def _change(row: list[Any]) -> Change:
    at_ms, member_id, instance, client_id, host, text, silent_ms, same = row
    client = None if same is None else SameClient(*same)
    return Change(at_ms, member_id, instance, client_id, host, text, silent_ms, client)

"""The types of journal entries of a group, except rebalances. The method ``size`` estimates the
memory of an entry in bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from coordinator.classic.member_restarts import TIMES_KEPT, Streak
from coordinator.events import (
    CommitRejected,
    JoinRefused,
    Loss,
    LostByAdmin,
    MemberChanged,
    MovedOffset,
    OffsetsMovedBack,
)
from journal.entry import Fields, Recurring
from journal.texts import Source, kept_id, kept_sentence, long_bytes
from protocol.now import Now
from protocol.slotted import slotted

FLAPPING_CHANGES = 3
FLAPPING_WITHIN_MS = 600_000
"""A member flaps if it changes its topics or protocols FLAPPING_CHANGES times within this number of
milliseconds."""
IN_A_ROW_MS = 600_000
"""Rejections of the same client with pauses of at most this number of milliseconds are merged into
one entry."""
GROUP_REMOVED = "group_removed"
"""The kind of the note that a group was removed. This note makes all earlier lines of the group in
the journal's file obsolete."""
_FENCING_BYTES = 700
_NOTE_BYTES = 330
_MOVED_BACK_BYTES = 1800
_FLAPPER_BYTES = 1850
_REJECTION_BYTES = 450
_LOST = ("principal", "client_id", "client_host", "offsets", "examples")
_REJECTED = ("member_id", "error_code", "client_id", "client_host", "detail")
_IN_A_ROW = ("since_ms", "times", "is_over")
_FLAPPING = ("member_id", "client_id", "client_host", "changes", "last_ms", "detail", "flaps")
"""The fields of a `Flapping` that have the same names in a line of the journal's file."""


class Note(NamedTuple):
    """An event that is neither a rebalance nor a rejected request: a static member was replaced,
    offsets were dropped, or a group was removed."""

    at_ms: int
    kind: str
    text: str
    source: Source = Source.SEEN
    instance: str = ""
    """The instance id of a static member that was replaced; "" for other events."""
    times: int = 1
    """The number of occurrences of the event. An occurrence counts only if the previous one was at
    most STREAK_PAUSE_MS before. ``text`` describes the last occurrence."""
    since_ms: int = 0
    """Wall time in ms of the first occurrence; 0 if the event occurred once."""

    @classmethod
    def read(cls, fields: Fields) -> Note:
        again = (fields.get("instance", ""), fields.get("times", 1), fields.get("since_ms", 0))
        return cls(fields["at_ms"], fields["what"], fields["text"], Source.SEEN, *again)

    def fields(self) -> Fields:
        note = {"kind": "note", "at_ms": self.at_ms, "what": self.kind, "text": self.text}
        again = {"times": self.times, "since_ms": self.since_ms} if self.times > 1 else {}
        return note | ({"instance": self.instance} if self.instance else {}) | again

    def copied(self) -> Note:
        return self

    def size(self) -> int:
        return _NOTE_BYTES + long_bytes(self.text, self.instance)


class MovedBack(NamedTuple):
    """A commit that lowered offsets."""

    at_ms: int
    event: OffsetsMovedBack
    number: int = 0
    source: Source = Source.SEEN

    @classmethod
    def of(cls, event: OffsetsMovedBack, group_id: str, number: int, now: Now) -> MovedBack:
        """Creates the journal entry for ``event``. ``group_id`` must be the string object that the
        journal page already has, so that memory contains this id only once."""
        kept = replace(
            event,
            group_id=group_id,
            member_id=kept_id(event.member_id),
            client_id=kept_id(event.client_id),
        )
        return cls(now.wall_ms, kept, number)

    @classmethod
    def read(cls, fields: Fields) -> MovedBack:
        who = (fields["member_id"], fields["client_id"], fields["client_host"])
        more = (fields["offsets"], _examples(fields), fields.get("principal", ""))
        return cls(
            fields["at_ms"], OffsetsMovedBack(fields["group"], *who, *more), fields["number"]
        )

    def fields(self) -> Fields:
        event = self.event
        return {
            "kind": "moved_back",
            "number": self.number,
            "at_ms": self.at_ms,
            "member_id": event.member_id,
            "client_id": event.client_id,
            "client_host": event.client_host,
            "offsets": event.offsets,
            "examples": event.examples,
            **({"principal": event.principal} if event.principal else {}),
        }

    def copied(self) -> MovedBack:
        return self

    def size(self) -> int:
        event = self.event
        topics = long_bytes(*(each.topic for each in event.examples))
        return _MOVED_BACK_BYTES + long_bytes(event.member_id, event.client_id) + topics


def _examples(fields: Fields) -> tuple[MovedOffset, ...]:
    return tuple([MovedOffset(*each) for each in fields["examples"]])


class Lost(NamedTuple):
    """An admin action that makes the group miss records."""

    at_ms: int
    event: LostByAdmin
    number: int = 0
    times: int = 1
    """The number of consecutive actions of the same client that are merged in this entry. Each
    action starts at the offsets at which the previous one ended."""
    source: Source = Source.SEEN

    @classmethod
    def of(cls, event: LostByAdmin, group_id: str, number: int, now: Now) -> Lost:
        """Creates the entry of an event. ``group_id`` must be the string object of the journal
        page, so that no copy of the id is stored."""
        kept = replace(
            event,
            group_id=group_id,
            principal=kept_id(event.principal),
            client_id=kept_id(event.client_id),
        )
        return cls(now.wall_ms, kept, number)

    @classmethod
    def read(cls, fields: Fields) -> Lost:
        lost = {name: fields[name] for name in _LOST} | {"examples": _examples(fields)}
        event = LostByAdmin(fields["group"], Loss(fields["what"]), **lost)
        return cls(fields["at_ms"], event, fields["number"], fields["times"])

    def fields(self) -> Fields:
        head = {"number": self.number, "at_ms": self.at_ms, "times": self.times}
        lost = {name: getattr(self.event, name) for name in _LOST}
        return {"kind": "lost", **head, "what": self.event.loss.value, **lost}

    def copied(self) -> Lost:
        return self

    def followed_by(self, later: Lost) -> Lost | None:
        """Returns one entry in place of this entry and ``later``, if ``later`` continues this
        entry: the same client skipped records again, beginning at the offsets at which this entry
        ends. Otherwise returns None."""
        mine, other = self.event, later.event
        if replace(mine, offsets=0, examples=()) != replace(other, offsets=0, examples=()):
            return None
        if mine.loss is not Loss.SKIPPED or len(mine.examples) != len(other.examples):
            return None
        pairs = list(zip(mine.examples, other.examples, strict=True))
        if any(
            (was.topic, was.partition, was.offset) != (now.topic, now.partition, now.offset_before)
            for was, now in pairs
        ):
            return None
        examples = tuple([was._replace(offset=now.offset) for was, now in pairs])
        event = replace(other, examples=examples)
        return Lost(later.at_ms, event, self.number, self.times + later.times, later.source)

    def size(self) -> int:
        event = self.event
        topics = long_bytes(*(each.topic for each in event.examples))
        return _MOVED_BACK_BYTES + long_bytes(event.principal, event.client_id) + topics


class Refused(NamedTuple):
    """The key by which rejected requests are merged into one entry."""

    is_join: bool
    """True for a rejected JoinGroup, False for a rejected commit."""
    error_code: int
    client_id: str
    client_host: str


@dataclass(slots=True)
class Rejections(Recurring):
    """Commits or joins of one client that were rejected with one error code."""

    last_ms: int = 0
    last: CommitRejected | JoinRefused | None = None
    source: Source = Source.SEEN
    """SEEN if this broker process rejected at least one of the requests. Otherwise the entry is
    from before the broker's start."""
    since_ms: int = 0
    """The wall time in ms of the first rejection in the current series (see `IN_A_ROW_MS`)."""
    times: int = 0
    is_over: bool = False
    """True if the client has joined successfully since its last rejection."""

    @property
    def key(self) -> Refused:
        last = self.last
        assert last is not None
        is_join = isinstance(last, JoinRefused)
        return Refused(is_join, last.error_code, last.client_id, last.client_host)

    @classmethod
    def read_commits(cls, fields: Fields) -> Rejections:
        last = CommitRejected(fields["group"], **{name: fields[name] for name in _REJECTED})
        return cls(fields["last_ms"], last, count=fields["count"])

    @classmethod
    def read_joins(cls, fields: Fields) -> Rejections:
        last = JoinRefused(fields["group"], **{name: fields[name] for name in _REJECTED})
        row = {name: fields[name] for name in _IN_A_ROW}
        return cls(fields["last_ms"], last, count=fields["count"], **row)

    def fields(self) -> Fields:
        last = {name: getattr(self.last, name) for name in _REJECTED}
        last |= {"count": self.count, "last_ms": self.last_ms}
        if not isinstance(self.last, JoinRefused):
            return {"kind": "rejected", **last}
        return {"kind": "refused_join", **last, **{name: getattr(self, name) for name in _IN_A_ROW}}

    def copied(self) -> Rejections:
        return replace(self)

    def take(self, event: CommitRejected | JoinRefused, group_id: str, now: Now) -> None:
        """Adds a rejection to the entry. ``group_id`` must be the string object of the journal
        page, so that no copy of the id is stored."""
        if self.is_over or not self.times or now.wall_ms - self.last_ms > IN_A_ROW_MS:
            self.is_over, self.since_ms, self.times = False, now.wall_ms, 0
        self.count += 1
        self.times += 1
        self.last_ms = now.wall_ms
        self.source = Source.SEEN
        self.last = replace(
            event,
            group_id=group_id,
            member_id=kept_id(event.member_id),
            client_id=kept_id(event.client_id),
            detail=kept_sentence(event.detail),
        )

    def size(self) -> int:
        last = self.last
        if last is None:
            return _REJECTION_BYTES
        return _REJECTION_BYTES + long_bytes(last.member_id, last.client_id, last.detail)


@slotted
class Flapping:
    """Describes a member that rejoined with other topics or protocols, and counts these changes."""

    member_id: str
    client_id: str
    client_host: str
    changes: int = 0
    last_ms: int = 0
    detail: str = ""
    """The last change of the member's topics or protocols, as text."""
    flaps: bool = False
    """True if the member made FLAPPING_CHANGES changes within FLAPPING_WITHIN_MS."""
    recent_mono_ms: deque[int] = field(default_factory=lambda: deque(maxlen=8))
    recent_ms: deque[int] = field(default_factory=lambda: deque(maxlen=8))
    """The wall times in ms at which the member last rejoined with other topics or protocols.
    ``recent_mono_ms`` has the monotonic times of these changes: the monotonic clock stops while the
    broker is suspended, the wall clock does not."""
    streak: Streak = field(default_factory=Streak)
    """The last series of the member's changes: each change followed the previous one within
    STREAK_PAUSE_MS."""
    source: Source = Source.SEEN
    """SEEN if at least one of the member's changes happened in this broker process. Otherwise the
    entry is from before the broker's start."""

    @classmethod
    def read(cls, fields: Fields) -> Flapping:
        return cls(**{name: fields[name] for name in _FLAPPING})

    def fields(self) -> Fields:
        return {"kind": "flapping", **{name: getattr(self, name) for name in _FLAPPING}}

    def copied(self) -> Flapping:
        return replace(self)

    def take(self, event: MemberChanged, now: Now) -> None:
        self.changes += 1
        self.last_ms = now.wall_ms
        self.detail = kept_sentence(event.detail)
        self.source = Source.SEEN
        self.streak.note(now.wall_ms)
        self.recent_ms.append(now.wall_ms)
        recent = self.recent_mono_ms
        recent.append(now.mono_ms)
        self.flaps = (
            len(recent) >= FLAPPING_CHANGES
            and now.mono_ms - recent[-FLAPPING_CHANGES] <= FLAPPING_WITHIN_MS
        )

    def size(self) -> int:
        return _FLAPPER_BYTES + long_bytes(self.member_id, self.client_id, self.detail)


@slotted
class Fencing:
    """An instance id that two live processes use, and the two processes that fenced each other
    last.

    Each process fences the other when it joins. The fenced process restarts and then fences the
    first process. A process that merely restarts fences no other process, because its old
    connection has closed.
    """

    instance: str
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    other_client_id: str = ""
    other_client_host: str = ""
    recent_ms: list[int] = field(default_factory=list)
    """Wall times in ms of the last fencings, oldest first."""
    streak: Streak = field(default_factory=Streak)
    """Consecutive fencings, up to the last one. A fencing more than STREAK_PAUSE_MS after the
    previous one begins a new streak."""

    def note(
        self, member_id: str, client: tuple[str, str], other: tuple[str, str], now: Now
    ) -> None:
        """Records that a process has joined and has thereby fenced another process."""
        self.member_id = member_id
        self.client_id, self.client_host = client
        self.other_client_id, self.other_client_host = other
        self.recent_ms = [*self.recent_ms[1 - TIMES_KEPT :], now.wall_ms]
        self.streak.note(now.wall_ms)

    def size(self) -> int:
        clients = long_bytes(self.client_id, self.other_client_id)
        return _FENCING_BYTES + long_bytes(self.instance, self.member_id) + clients

"""What the journal keeps: rebalances, notes, refused commits, offsets moved back; and their sizes.

Sizes are estimates: of the objects that an entry has for itself and of the texts that it holds.
Texts come from clients, and ids may be 32 kB long: what is kept of each is its two ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import NamedTuple

from coordinator.calls import Now
from coordinator.events import (
    AssignedMember,
    Cause,
    CommitRejected,
    MemberJoined,
    MemberLeft,
    OffsetsMovedBack,
    cut,
)

_NOTES_KEPT = 64
_MOVED_BACK_KEPT = 64
_PENDING_KEPT = 32
_ID_CHARACTERS = 512
_WORDS_CHARACTERS = 2048
"""What is kept of an id and of a sentence."""
_GROUP_BYTES = 1500
_REBALANCE_BYTES = 900
_CHANGE_BYTES = 250
_NOTE_BYTES = 150
_MOVED_BACK_BYTES = 1800
_FLAPPER_BYTES = 700
_ASSIGNED_BYTES = 350
_NAME_BYTES = 60
_REJECTION_BYTES = 400
_USUAL_TEXT_BYTES = 100
"""Of each id; these are in the sizes above, and only what is longer is counted by itself."""


def kept_id(text: str) -> str:
    """What is kept of an id, of a client's name or the like."""
    return cut(text, _ID_CHARACTERS)


def kept_words(text: str) -> str:
    """What is kept of a sentence."""
    return cut(text, _WORDS_CHARACTERS)


def kept_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """`kept_id` of each."""
    return tuple([kept_id(each) for each in ids]) if _longest(ids) > _ID_CHARACTERS else ids


def kept_assigned(members: tuple[AssignedMember, ...]) -> tuple[AssignedMember, ...]:
    """What members got, with what is kept of their ids."""
    return tuple(
        [
            each._replace(
                member_id=kept_id(each.member_id),
                group_instance_id=each.group_instance_id and kept_id(each.group_instance_id),
                client_id=kept_id(each.client_id),
            )
            if len(each.member_id) + len(each.group_instance_id or "") + len(each.client_id)
            > _ID_CHARACTERS
            else each
            for each in members
        ]
    )


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _long(*texts: str | None) -> int:
    """Bytes of texts beyond the usual."""
    size = 0
    for text in texts:
        if text is not None and (taken := getsizeof(text)) > _USUAL_TEXT_BYTES:
            size += taken - _USUAL_TEXT_BYTES
    return size


def _words(text: str) -> int:
    """Bytes of a sentence."""
    return getsizeof(text) - _EMPTY_BYTES


_EMPTY_BYTES = getsizeof("")


class Change(NamedTuple):
    """A member came or went."""

    at_ms: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    text: str
    silent_ms: int
    """How long nothing had been heard of it, where that is why it is out; else -1."""

    @classmethod
    def of(
        cls, event: MemberJoined | MemberLeft, now: Now, text: str, silent_ms: int = -1
    ) -> Change:
        """The change that an event tells of."""
        return cls(
            now.wall_ms,
            kept_id(event.member_id),
            event.group_instance_id and kept_id(event.group_instance_id),
            kept_id(event.client_id),
            event.client_host,
            kept_words(text),
            silent_ms,
        )

    def size(self) -> int:
        """Estimated bytes."""
        ids = _long(self.member_id, self.group_instance_id, self.client_id, self.client_host)
        return _CHANGE_BYTES + ids + _words(self.text)


@dataclass(slots=True)
class Rebalance:
    """One rebalance: from the move to PreparingRebalance to Stable, Empty or the next one."""

    number: int
    """Counted per group since the broker started, from 1."""
    began_ms: int
    began_mono_ms: int
    cause: Cause
    detail: str
    """The cause in words."""
    member_id: str
    """Who caused it, "" where nobody in particular did."""
    generation_before: int
    awaited: tuple[str, ...]
    """Whom the running phase waits, or waited, for when it began; () once all came."""
    until_ms: int
    """The deadline of the running, or of the last, phase as it was when that began."""
    from_empty: bool = False
    """The group had no members before."""
    phase: str = "join"
    """"join", "sync" or "ended"."""
    outcome: str = ""
    """"assigned", "nobody left", "interrupted" by the next rebalance, "unloaded"; "" before."""
    ended_ms: int = 0
    join_ms: int = -1
    """Time in the join phase; -1 before its end."""
    join_ended_by: str = ""
    """A `Cause`: all_joined, join_timed_out, initial_delay_ended, nobody_left."""
    sync_began_mono_ms: int = 0
    sync_ms: int = -1
    last_member: str = ""
    """Who joined last."""
    last_wait_ms: int = 0
    """How long all others waited for it alone."""
    last_heard_ms: int = 0
    """Of the member whose session expired; 0 where none did."""
    generation_id: int = -1
    protocol_name: str | None = None
    protocol_type: str | None = None
    leader: str | None = None
    members: int = 0
    assigned: tuple[AssignedMember, ...] = ()
    changes: list[Change] = field(default_factory=list)
    """Members that came and went, those that caused it first."""
    more_changes: int = 0
    """How many more there were than are kept."""

    def size(self) -> int:
        """Estimated bytes."""
        size = _REBALANCE_BYTES + _words(self.detail) + _NAME_BYTES * len(self.awaited)
        size += _long(self.member_id, self.last_member, self.leader)
        size += _long(self.protocol_name, self.protocol_type)
        if _longest(self.awaited) > _USUAL_TEXT_BYTES:
            size += _long(*self.awaited)
        size += sum([change.size() for change in self.changes])
        return size + sum([_assigned_size(each) for each in self.assigned])


def _assigned_size(each: AssignedMember) -> int:
    size = _ASSIGNED_BYTES + len(each.assignment)
    if len(each.member_id) + len(each.client_id) > _USUAL_TEXT_BYTES or each.group_instance_id:
        size += _long(each.member_id, each.group_instance_id, each.client_id, each.client_host)
    return size


class Note(NamedTuple):
    """Something that is no rebalance: a static member replaced, offsets dropped, a group ended."""

    at_ms: int
    kind: str
    text: str

    def size(self) -> int:
        """Estimated bytes."""
        return _NOTE_BYTES + _words(self.text)


class MovedBack(NamedTuple):
    """A commit that set offsets lower."""

    at_ms: int
    event: OffsetsMovedBack

    @classmethod
    def of(cls, event: OffsetsMovedBack, group_id: str, now: Now) -> MovedBack:
        """The entry of an event; ``group_id`` is the journal's own."""
        kept = replace(
            event,
            group_id=group_id,
            member_id=kept_id(event.member_id),
            client_id=kept_id(event.client_id),
        )
        return cls(now.wall_ms, kept)

    def size(self) -> int:
        """Estimated bytes."""
        event = self.event
        topics = _long(*(each.topic for each in event.examples))
        return _MOVED_BACK_BYTES + _long(event.member_id, event.client_id) + topics


@dataclass(slots=True)
class Rejections:
    """Commits refused with one error code."""

    count: int = 0
    last_ms: int = 0
    last: CommitRejected | None = None

    def take(self, event: CommitRejected, group_id: str, now: Now) -> None:
        """One more; ``group_id`` is the journal's own."""
        self.count += 1
        self.last_ms = now.wall_ms
        self.last = replace(
            event,
            group_id=group_id,
            member_id=kept_id(event.member_id),
            client_id=kept_id(event.client_id),
            detail=kept_words(event.detail),
        )

    def size(self) -> int:
        """Estimated bytes."""
        last = self.last
        if last is None:
            return _REJECTION_BYTES
        return _REJECTION_BYTES + _long(last.member_id, last.client_id) + _words(last.detail)


@dataclass(slots=True)
class Flapping:
    """A member that rejoined with other topics or protocols."""

    member_id: str
    client_id: str
    client_host: str
    changes: int = 0
    last_ms: int = 0
    detail: str = ""
    """What the last change was."""
    flaps: bool = False
    """It did so again and again."""
    recent_mono_ms: deque[int] = field(default_factory=lambda: deque(maxlen=8))

    def size(self) -> int:
        """Estimated bytes."""
        return _FLAPPER_BYTES + _long(self.member_id, self.client_id) + _words(self.detail)


class GroupJournal:
    """The rings of one group."""

    __slots__ = (
        "_last_size",
        "_pending",
        "bytes",
        "changed",
        "count",
        "group_id",
        "moved_back",
        "moved_back_count",
        "notes",
        "open_rebalance",
        "rebalances",
        "rejected",
    )

    def __init__(self, group_id: str, rebalances_kept: int) -> None:
        self.group_id = group_id
        self.bytes = _GROUP_BYTES + _long(group_id)
        """Estimated."""
        self.count = 1
        """The number of the next rebalance."""
        self.rebalances: deque[Rebalance] = deque(maxlen=rebalances_kept)
        self.open_rebalance: Rebalance | None = None
        """The last of ``rebalances``, while it has not ended."""
        self.notes: deque[Note] = deque(maxlen=_NOTES_KEPT)
        self.rejected: dict[int, Rejections] = {}
        """By error code."""
        self.moved_back: deque[MovedBack] = deque(maxlen=_MOVED_BACK_KEPT)
        self.moved_back_count = 0
        """Commits that moved offsets back, the forgotten ones included."""
        self.changed: dict[str, Flapping] = {}
        """By member id: who has changed its topics or protocols, the latest last."""
        self._pending: list[Change] = []
        """Changes that a rebalance is about to follow."""
        self._last_size = 0

    def grow(self, size: int) -> None:
        """Count bytes that an entry has more."""
        self.bytes += size

    def grow_last(self, size: int) -> None:
        """Count bytes that the last rebalance has more."""
        self.bytes += size
        self._last_size += size

    def open(self, rebalance: Rebalance) -> None:
        """A rebalance begins; it stays the last one."""
        if len(self.rebalances) == self.rebalances.maxlen:
            self.drop_oldest()
        self.rebalances.append(rebalance)
        self.open_rebalance = rebalance
        self.count += 1
        self._last_size = rebalance.size()
        self.bytes += self._last_size

    def close(self) -> None:
        """The running rebalance has ended."""
        self.measure_last()
        self.open_rebalance = None

    def measure_last(self) -> None:
        """Measure the last rebalance anew."""
        size = self.rebalances[-1].size()
        self.bytes += size - self._last_size
        self._last_size = size

    def drop_oldest(self) -> None:
        """Forget the oldest rebalance."""
        oldest = self.rebalances.popleft()
        self.bytes -= oldest.size() if self.rebalances else self._last_size
        if oldest is self.open_rebalance:
            self.open_rebalance = None

    def keep_change(self, change: Change) -> None:
        """Keep what may be about to cause a rebalance."""
        if len(self._pending) < _PENDING_KEPT:
            self._pending.append(change)
            self.bytes += change.size()

    def taken_changes(self) -> list[Change]:
        """What has just come or gone."""
        taken, self._pending = self._pending, []
        self.bytes -= sum([change.size() for change in taken])
        return taken

    def add_note(self, note: Note) -> None:
        """Keep a note."""
        if len(self.notes) == self.notes.maxlen:
            self.bytes -= self.notes[0].size()
        self.notes.append(note)
        self.bytes += note.size()

    def add_moved_back(self, moved: MovedBack) -> None:
        """Keep a commit that moved offsets back."""
        self.moved_back_count += 1
        if len(self.moved_back) == self.moved_back.maxlen:
            self.bytes -= self.moved_back[0].size()
        self.moved_back.append(moved)
        self.bytes += moved.size()

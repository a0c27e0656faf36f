"""What the journal keeps: rebalances with who came and went, notes, refused and strange commits.

Sizes are estimates of an entry's own objects and of its texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from coordinator.events import (
    AssignedMember,
    Cause,
    CommitRejected,
    JoinRefused,
    Loss,
    LostByAdmin,
    MemberJoined,
    MemberLeft,
    OffsetsMovedBack,
)
from coordinator.returns import Returning, SameClient, Streak
from journal.texts import (
    ID_CHARACTERS,
    USUAL_TEXT_BYTES,
    Source,
    kept_id,
    kept_sentence,
    long_bytes,
    sentence_bytes,
)
from journal.unsaved import Recurring
from protocol.now import Now
from protocol.slotted import slotted

_REBALANCE_BYTES = 900
_CHANGE_BYTES = 350
_SAME_CLIENT_BYTES = 150
_NOTE_BYTES = 280
_MOVED_BACK_BYTES = 1800
_FLAPPER_BYTES = 1800
_ASSIGNED_BYTES = 350
_NAME_BYTES = 60
_REJECTION_BYTES = 400


def kept_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """`kept_id` of each."""
    return tuple([kept_id(each) for each in ids]) if _longest(ids) > ID_CHARACTERS else ids


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
            > ID_CHARACTERS
            else each
            for each in members
        ]
    )


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


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
    same_client: SameClient | None = None
    """The other id of a client that came back."""

    @classmethod
    def of(
        cls, event: MemberJoined | MemberLeft, now: Now, text: str, silent_ms: int = -1
    ) -> Change:
        """The change that an event is about."""
        return cls(
            now.wall_ms,
            kept_id(event.member_id),
            event.group_instance_id and kept_id(event.group_instance_id),
            kept_id(event.client_id),
            event.client_host,
            kept_sentence(text),
            silent_ms,
        )

    def size(self) -> int:
        """Estimated bytes."""
        ids = long_bytes(self.member_id, self.group_instance_id, self.client_id, self.client_host)
        size = _CHANGE_BYTES + ids + sentence_bytes(self.text)
        if self.same_client is not None:
            size += _SAME_CLIENT_BYTES + sentence_bytes(self.same_client.words)
        return size


@slotted
class Rebalance:
    """One rebalance: from the move to PreparingRebalance to Stable, Empty or the next one."""

    number: int
    """Counted per group, from 1."""
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
    """"assigned", "nobody left", "interrupted" by the next rebalance, "unloaded", "stopped" with
    the broker; "" before."""
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
    source: Source = Source.SEEN

    def size(self) -> int:
        """Estimated bytes."""
        size = _REBALANCE_BYTES + sentence_bytes(self.detail) + _NAME_BYTES * len(self.awaited)
        size += long_bytes(self.member_id, self.last_member, self.leader)
        size += long_bytes(self.protocol_name, self.protocol_type)
        if _longest(self.awaited) > USUAL_TEXT_BYTES:
            size += long_bytes(*self.awaited)
        size += sum([change.size() for change in self.changes])
        return size + sum([_assigned_size(each) for each in self.assigned])


def _assigned_size(each: AssignedMember) -> int:
    size = _ASSIGNED_BYTES + len(each.assignment)
    if len(each.member_id) + len(each.client_id) > USUAL_TEXT_BYTES or each.group_instance_id:
        size += long_bytes(each.member_id, each.group_instance_id, each.client_id, each.client_host)
    return size


class Note(NamedTuple):
    """Something that is no rebalance: a static member replaced, offsets dropped, a group ended."""

    at_ms: int
    kind: str
    text: str
    source: Source = Source.SEEN
    instance: str = ""
    """Of a static member that was replaced; "" else."""
    times: int = 1
    """How often that happened without a long pause; ``text`` is about the last time."""
    since_ms: int = 0
    """When it happened first; 0: once."""

    def size(self) -> int:
        """Estimated bytes."""
        return _NOTE_BYTES + sentence_bytes(self.text) + long_bytes(self.instance)


class MovedBack(NamedTuple):
    """A commit that set offsets lower."""

    at_ms: int
    event: OffsetsMovedBack
    number: int = 0
    """Counted per group, from 1."""
    source: Source = Source.SEEN

    @classmethod
    def of(cls, event: OffsetsMovedBack, group_id: str, number: int, now: Now) -> MovedBack:
        """The entry of an event; ``group_id`` is the journal's own."""
        kept = replace(
            event,
            group_id=group_id,
            member_id=kept_id(event.member_id),
            client_id=kept_id(event.client_id),
        )
        return cls(now.wall_ms, kept, number)

    def size(self) -> int:
        """Estimated bytes."""
        event = self.event
        topics = long_bytes(*(each.topic for each in event.examples))
        return _MOVED_BACK_BYTES + long_bytes(event.member_id, event.client_id) + topics


class Lost(NamedTuple):
    """What an admin did that makes the group miss records."""

    at_ms: int
    event: LostByAdmin
    number: int = 0
    """Counted per group, from 1."""
    times: int = 1
    """How often the same client did so in a row, each time from where it had left off."""
    source: Source = Source.SEEN

    @classmethod
    def of(cls, event: LostByAdmin, group_id: str, number: int, now: Now) -> Lost:
        """The entry of an event; ``group_id`` is the journal's own."""
        kept = replace(
            event,
            group_id=group_id,
            principal=kept_id(event.principal),
            client_id=kept_id(event.client_id),
        )
        return cls(now.wall_ms, kept, number)

    def followed_by(self, later: Lost) -> Lost | None:
        """Both as one entry, where the later one only goes on; else None."""
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
        """Estimated bytes."""
        event = self.event
        topics = long_bytes(*(each.topic for each in event.examples))
        return _MOVED_BACK_BYTES + long_bytes(event.principal, event.client_id) + topics


IN_A_ROW_MS = 600_000
"""Refusals of one client that are no further apart belong together."""


class Refused(NamedTuple):
    """By what refused requests are told apart."""

    is_join: bool
    """Else it is a commit."""
    error_code: int
    client_id: str
    client_host: str


@dataclass(slots=True)
class Rejections(Recurring):
    """Commits or joins of one client that were refused with one error code."""

    last_ms: int = 0
    last: CommitRejected | JoinRefused | None = None
    source: Source = Source.SEEN
    """SEEN as soon as one of them was."""
    since_ms: int = 0
    """When the first of the last row of them was: see `IN_A_ROW_MS`."""
    times: int = 0
    """How many there were since then."""
    is_over: bool = False
    """The client has joined since the last one."""

    @property
    def key(self) -> Refused:
        """By what it is told apart from others."""
        last = self.last
        assert last is not None
        is_join = isinstance(last, JoinRefused)
        return Refused(is_join, last.error_code, last.client_id, last.client_host)

    def take(self, event: CommitRejected | JoinRefused, group_id: str, now: Now) -> None:
        """One more; ``group_id`` is the journal's own."""
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
        """Estimated bytes."""
        last = self.last
        if last is None:
            return _REJECTION_BYTES
        return (
            _REJECTION_BYTES
            + long_bytes(last.member_id, last.client_id)
            + sentence_bytes(last.detail)
        )


@slotted
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
    recent_ms: deque[int] = field(default_factory=lambda: deque(maxlen=8))
    """The same by the wall clock, which counts pauses of the broker."""
    streak: Streak = field(default_factory=Streak)
    """The last changes without a long pause between them."""
    source: Source = Source.SEEN
    """SEEN as soon as one of the changes was."""

    def size(self) -> int:
        """Estimated bytes."""
        return (
            _FLAPPER_BYTES
            + long_bytes(self.member_id, self.client_id)
            + sentence_bytes(self.detail)
        )


Entry = Rebalance | Note | MovedBack | Lost | Rejections | Flapping | Returning
"""What is written down for the next run."""


def copied(entry: Entry) -> Entry:
    """The entry for another thread, while the original goes on changing."""
    if isinstance(entry, Note | MovedBack | Lost):
        return entry
    if isinstance(entry, Rebalance):
        return replace(entry, changes=list(entry.changes))
    if isinstance(entry, Returning):
        return replace(entry, ways=dict(entry.ways))
    return replace(entry)

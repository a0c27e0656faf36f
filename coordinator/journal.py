"""Why groups rebalanced: a fold of the core's events into bounded rings, one set per group.

``observe`` takes the events in order, each with the time at which it was emitted. Texts are the
core's own; times are wall milliseconds where they are shown and monotonic where they are
subtracted. Bounds: 64 rebalances a group and about 64 MiB for all; the group that has been quiet
for longest is forgotten first. A group without events has no entry.

Sizes are estimates of an entry's own objects and of its texts. Texts come from clients, and ids
may be 32 kB long: the journal keeps the two ends of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any, NamedTuple

from coordinator.calls import Now
from coordinator.events import (
    Assigned,
    AssignedMember,
    Cause,
    CommitRejected,
    Event,
    GenerationFormed,
    GroupRemoved,
    LoadedGeneration,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    OffsetsExpired,
    OffsetsExpiring,
    OffsetsMovedBack,
    ShardLoaded,
    Transition,
    cut,
)
from coordinator.returns import Returning, Returns, SameClient
from coordinator.states import State

REBALANCES_KEPT = 64
BYTES_KEPT = 64 << 20
FLAPPING_CHANGES = 3
FLAPPING_WITHIN_MS = 600_000
"""A member flaps that has changed its topics or protocols so often within so long."""

_CHANGES_KEPT = 32
"""Of one rebalance; more are counted."""
_FLAPPERS_KEPT = 64
_HISTORIES_KEPT = 200
_GENERATION_BYTES = 300
_RESTORED_GROUP_BYTES = 200
_SEPARATE = (Cause.STATIC_MEMBER_REPLACED,)
_PREPARING = State.PREPARING_REBALANCE.value
_AWAITING_SYNC = State.AWAITING_SYNC.value
_NOTES_KEPT = 64
_MOVED_BACK_KEPT = 64
_PENDING_KEPT = 32
_ID_CHARACTERS = 512
_SENTENCE_CHARACTERS = 2048
"""What is kept of an id and of a sentence."""
_GROUP_BYTES = 1500
_REBALANCE_BYTES = 900
_CHANGE_BYTES = 250
_SAME_CLIENT_BYTES = 150
_NOTE_BYTES = 150
_MOVED_BACK_BYTES = 1800
_FLAPPER_BYTES = 700
_ASSIGNED_BYTES = 350
_NAME_BYTES = 60
_REJECTION_BYTES = 400
_USUAL_TEXT_BYTES = 100
"""Of each id; these are in the sizes above, and only what is longer is counted by itself."""


# ------------------------------------------------------------------------------------- what is kept


def _kept_id(text: str) -> str:
    """What is kept of an id, of a client's name or the like."""
    return cut(text, _ID_CHARACTERS)


def _kept_sentence(text: str) -> str:
    """What is kept of a sentence."""
    return cut(text, _SENTENCE_CHARACTERS)


def _kept_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """`_kept_id` of each."""
    return tuple([_kept_id(each) for each in ids]) if _longest(ids) > _ID_CHARACTERS else ids


def _kept_assigned(members: tuple[AssignedMember, ...]) -> tuple[AssignedMember, ...]:
    """What members got, with what is kept of their ids."""
    return tuple(
        [
            each._replace(
                member_id=_kept_id(each.member_id),
                group_instance_id=each.group_instance_id and _kept_id(each.group_instance_id),
                client_id=_kept_id(each.client_id),
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
    same_client: SameClient | None = None
    """The other id of a client that came back."""

    @classmethod
    def of(
        cls, event: MemberJoined | MemberLeft, now: Now, text: str, silent_ms: int = -1
    ) -> Change:
        """The change that an event is about."""
        return cls(
            now.wall_ms,
            _kept_id(event.member_id),
            event.group_instance_id and _kept_id(event.group_instance_id),
            _kept_id(event.client_id),
            event.client_host,
            _kept_sentence(text),
            silent_ms,
        )

    def size(self) -> int:
        """Estimated bytes."""
        ids = _long(self.member_id, self.group_instance_id, self.client_id, self.client_host)
        size = _CHANGE_BYTES + ids + _words(self.text)
        if self.same_client is not None:
            size += _SAME_CLIENT_BYTES + _words(self.same_client.words)
        return size


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
            member_id=_kept_id(event.member_id),
            client_id=_kept_id(event.client_id),
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
            member_id=_kept_id(event.member_id),
            client_id=_kept_id(event.client_id),
            detail=_kept_sentence(event.detail),
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
        "returns",
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
        self.returns = Returns()
        """Which clients came back under new ids."""
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


# ------------------------------------------------------------------------------------ of all groups


class Restored(NamedTuple):
    """What the log still held of a group when its partition was loaded."""

    at_ms: int
    generations: Sequence[LoadedGeneration]
    """Oldest first; the last one is what the group was restored to."""


class Journal:
    """The journals of all groups of one broker."""

    def __init__(
        self, rebalances_kept: int = REBALANCES_KEPT, bytes_kept: int = BYTES_KEPT
    ) -> None:
        self.bytes = 0
        """Estimated, all groups together."""
        self._rebalances_kept = rebalances_kept
        self._bytes_kept = bytes_kept
        self._groups: dict[str, GroupJournal] = {}
        """The one whose last event is longest ago first."""
        self._histories: deque[tuple[Now, Mapping[str, Sequence[LoadedGeneration]], int]] = deque()
        """Of each load: when, what, and its estimated size."""

    # ---------------------------------------------------------------------------------- reading

    def group(self, group_id: str) -> GroupJournal | None:
        """What is kept of a group; None where nothing happened, or it was too long ago."""
        return self._groups.get(group_id)

    def restored(self, group_id: str) -> Restored | None:
        """What the last load made of a group; None if it was not there, or it is forgotten."""
        for now, generations, _ in reversed(self._histories):
            if group_id in generations:
                return Restored(now.wall_ms, generations[group_id])
        return None

    def flapping(self, group_id: str) -> list[Flapping]:
        """The members that change their topics or protocols again and again."""
        journal = self._groups.get(group_id)
        return [] if journal is None else [each for each in journal.changed.values() if each.flaps]

    def returning(self, group_id: str) -> list[Returning]:
        """The clients that came back to a group under new ids, the latest last."""
        journal = self._groups.get(group_id)
        return [] if journal is None else list(journal.returns.clients.values())

    def groups(self) -> list[str]:
        """The groups with a journal, the one that has been quiet for longest first."""
        return list(self._groups)

    # ---------------------------------------------------------------------------------- the fold

    def observe(self, event: Event, now: Now) -> None:
        """Take in one fact."""
        if isinstance(event, ShardLoaded):
            self._loaded(event, now)
            return
        fold = _FOLDS.get(type(event))
        if fold is None:
            return
        group_id = event.group_id
        journal = self._groups.pop(group_id, None)
        if journal is None:
            journal = GroupJournal(group_id, self._rebalances_kept)
            self.bytes += journal.bytes
        self._groups[group_id] = journal
        before = journal.bytes
        fold(journal, event, now)
        self.bytes += journal.bytes - before
        if self.bytes > self._bytes_kept:
            self._shrink()

    def _loaded(self, event: ShardLoaded, now: Now) -> None:
        size = _GENERATION_BYTES * sum(map(len, event.generations.values()))
        size += _RESTORED_GROUP_BYTES * len(event.generations) + sum(map(len, event.generations))
        self._histories.append((now, event.generations, size))
        self.bytes += size
        if len(self._histories) > _HISTORIES_KEPT:
            self.bytes -= self._histories.popleft()[2]
        if self.bytes > self._bytes_kept:
            self._shrink()

    def _shrink(self) -> None:
        """Forget the oldest: what was loaded, then quiet groups, then rebalances of the last."""
        while self.bytes > self._bytes_kept and self._histories:
            self.bytes -= self._histories.popleft()[2]
        while self.bytes > self._bytes_kept and len(self._groups) > 1:
            self.bytes -= self._groups.pop(next(iter(self._groups))).bytes
        for journal in self._groups.values():
            before = journal.bytes
            while self.bytes + journal.bytes - before > self._bytes_kept and journal.rebalances:
                journal.drop_oldest()
            self.bytes += journal.bytes - before


# ------------------------------------------------------------------------------------ rebalances


def _transition(journal: GroupJournal, event: Transition, now: Now) -> None:
    current = journal.open_rebalance
    if event.new_state == _PREPARING:
        if current is not None:
            _end(journal, current, "interrupted", now)
        _begin(journal, event, now)
        return
    if current is None:
        if event.cause in (Cause.DELETED, Cause.EXPIRED, Cause.UNLOADED):
            text = _kept_sentence(f"the group ended: {event.detail}")
            journal.add_note(Note(now.wall_ms, str(event.cause), text))
        return
    if event.new_state == _AWAITING_SYNC:
        current.phase = "sync"
        current.join_ended_by = str(event.cause)
        current.join_ms = now.mono_ms - current.began_mono_ms
        current.sync_began_mono_ms = now.mono_ms
        current.awaited = _kept_ids(event.awaited)
        current.until_ms = now.wall_ms + event.wait_ms
    elif event.new_state == State.STABLE.value:
        current.sync_ms = now.mono_ms - current.sync_began_mono_ms
        _end(journal, current, "assigned", now)
    elif event.new_state == State.EMPTY.value:
        current.join_ended_by = str(event.cause)
        current.join_ms = now.mono_ms - current.began_mono_ms
        current.generation_id = event.generation_id
        _end(journal, current, "nobody left", now)
    else:
        _end(journal, current, "unloaded", now)
        text = _kept_sentence(f"the group ended: {event.detail}")
        journal.add_note(Note(now.wall_ms, str(event.cause), text))


def _begin(journal: GroupJournal, event: Transition, now: Now) -> None:
    rebalance = Rebalance(
        journal.count,
        now.wall_ms,
        now.mono_ms,
        event.cause,
        _kept_sentence(event.detail),
        _kept_id(event.member_id),
        event.generation_id,
        _kept_ids(event.awaited),
        now.wall_ms + event.wait_ms,
    )
    rebalance.from_empty = event.old_state == State.EMPTY.value
    for change in journal.taken_changes():
        if change.silent_ms >= 0 and change.member_id == rebalance.member_id:
            rebalance.last_heard_ms = change.at_ms - change.silent_ms
        rebalance.changes.append(change)
    journal.open(rebalance)


def _end(journal: GroupJournal, rebalance: Rebalance, outcome: str, now: Now) -> None:
    rebalance.phase = "ended"
    rebalance.outcome = outcome
    rebalance.ended_ms = now.wall_ms
    rebalance.awaited = () if outcome in ("assigned", "nobody left") else rebalance.awaited
    journal.close()


def _formed(journal: GroupJournal, event: GenerationFormed, now: Now) -> None:  # noqa: ARG001
    current = journal.open_rebalance
    if current is None:
        return
    current.generation_id = event.generation_id
    current.protocol_name = event.protocol_name and _kept_id(event.protocol_name)
    current.leader = event.leader and _kept_id(event.leader)
    current.members = event.members
    current.last_member = _kept_id(event.last_member)
    current.last_wait_ms = event.last_wait_ms


def _assigned(journal: GroupJournal, event: Assigned, now: Now) -> None:  # noqa: ARG001
    # Emitted right after the move to Stable, which ended the rebalance.
    if journal.rebalances:
        last = journal.rebalances[-1]
        last.protocol_type = event.protocol_type and _kept_id(event.protocol_type)
        last.assigned = _kept_assigned(event.members)
        journal.measure_last()


# --------------------------------------------------------------------------------------- members


def _joined(journal: GroupJournal, event: MemberJoined, now: Now) -> None:
    if event.replaces:
        return  # the member that it replaces says so
    text = f"joined: {event.reason}" if event.reason else "joined"
    _change(journal, Change.of(event, now, text), now)


def _left(journal: GroupJournal, event: MemberLeft, now: Now) -> None:
    if event.cause in _SEPARATE:
        journal.add_note(Note(now.wall_ms, str(event.cause), _kept_sentence(event.detail)))
        return
    _change(journal, Change.of(event, now, event.detail, event.silent_ms), now, is_out=True)


def _change(journal: GroupJournal, change: Change, now: Now, *, is_out: bool = False) -> None:
    if change.group_instance_id is None:
        returns, who = journal.returns, (change.client_id, change.client_host, change.member_id)
        before = returns.bytes
        same = returns.left(*who, change.silent_ms, now) if is_out else returns.joined(*who, now)
        journal.grow(returns.bytes - before)
        if same is not None:
            change = change._replace(same_client=same)
    current = journal.open_rebalance
    if current is None or current.phase != "join":
        journal.keep_change(change)
    elif len(current.changes) < _CHANGES_KEPT:
        current.changes.append(change)
        journal.grow_last(change.size())
    else:
        current.more_changes += 1


def _changed(journal: GroupJournal, event: MemberChanged, now: Now) -> None:
    member_id = _kept_id(event.member_id)
    flapper = journal.changed.pop(member_id, None)
    if flapper is None:
        flapper = Flapping(member_id, _kept_id(event.client_id), event.client_host)
        if len(journal.changed) >= _FLAPPERS_KEPT:
            journal.grow(-journal.changed.pop(next(iter(journal.changed))).size())
    else:
        journal.grow(-flapper.size())
    journal.changed[member_id] = flapper
    flapper.changes += 1
    flapper.last_ms = now.wall_ms
    flapper.detail = _kept_sentence(event.detail)
    journal.grow(flapper.size())
    flapper.recent_mono_ms.append(now.mono_ms)
    recent = flapper.recent_mono_ms
    flapper.flaps = (
        len(recent) >= FLAPPING_CHANGES
        and now.mono_ms - recent[-FLAPPING_CHANGES] <= FLAPPING_WITHIN_MS
    )


# --------------------------------------------------------------------------------------- offsets


def _rejected(journal: GroupJournal, event: CommitRejected, now: Now) -> None:
    known = journal.rejected.get(event.error_code)
    if known is None:
        known = journal.rejected[event.error_code] = Rejections()
    else:
        journal.grow(-known.size())
    known.take(event, journal.group_id, now)
    journal.grow(known.size())


def _moved_back(journal: GroupJournal, event: OffsetsMovedBack, now: Now) -> None:
    journal.add_moved_back(MovedBack.of(event, journal.group_id, now))


def _expired(journal: GroupJournal, event: OffsetsExpired, now: Now) -> None:
    text = f"{event.offsets} offsets were dropped: {event.cause}"
    journal.add_note(Note(now.wall_ms, "offsets_dropped", text))


def _expiring(journal: GroupJournal, event: OffsetsExpiring, now: Now) -> None:
    hours = event.within_ms // 3_600_000
    text = f"{event.offsets} offsets will expire within {hours} h: {event.detail}"
    journal.add_note(Note(now.wall_ms, "offsets_expiring", text))


def _removed(journal: GroupJournal, event: GroupRemoved, now: Now) -> None:
    journal.add_note(Note(now.wall_ms, "group_removed", f"the group was forgotten: {event.cause}"))


_FOLDS: dict[type, Callable[[GroupJournal, Any, Now], None]] = {
    Transition: _transition,
    GenerationFormed: _formed,
    Assigned: _assigned,
    MemberJoined: _joined,
    MemberLeft: _left,
    MemberChanged: _changed,
    CommitRejected: _rejected,
    OffsetsMovedBack: _moved_back,
    OffsetsExpired: _expired,
    OffsetsExpiring: _expiring,
    GroupRemoved: _removed,
}

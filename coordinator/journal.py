"""Why groups rebalanced: a fold of the core's events into bounded rings, one set per group.

``observe`` takes the events in order, each with the time at which it was emitted. Texts are the
core's own; times are wall milliseconds where they are shown and monotonic where they are
subtracted. Bounds: 64 rebalances a group and about 64 MiB for all; the group that has been quiet
for longest is forgotten first. A group without events has no entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.calls import Now
from coordinator.events import (
    Assigned,
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
)
from coordinator.group_journal import GroupJournal
from coordinator.journal_entries import (
    Change,
    Flapping,
    MovedBack,
    Note,
    Rebalance,
    Rejections,
    kept_assigned,
    kept_id,
    kept_ids,
    kept_sentence,
)
from coordinator.returns import Returning
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
            text = kept_sentence(f"the group ended: {event.detail}")
            journal.add_note(Note(now.wall_ms, str(event.cause), text))
        return
    if event.new_state == _AWAITING_SYNC:
        current.phase = "sync"
        current.join_ended_by = str(event.cause)
        current.join_ms = now.mono_ms - current.began_mono_ms
        current.sync_began_mono_ms = now.mono_ms
        current.awaited = kept_ids(event.awaited)
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
        text = kept_sentence(f"the group ended: {event.detail}")
        journal.add_note(Note(now.wall_ms, str(event.cause), text))


def _begin(journal: GroupJournal, event: Transition, now: Now) -> None:
    rebalance = Rebalance(
        journal.count,
        now.wall_ms,
        now.mono_ms,
        event.cause,
        kept_sentence(event.detail),
        kept_id(event.member_id),
        event.generation_id,
        kept_ids(event.awaited),
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
    current.protocol_name = event.protocol_name and kept_id(event.protocol_name)
    current.leader = event.leader and kept_id(event.leader)
    current.members = event.members
    current.last_member = kept_id(event.last_member)
    current.last_wait_ms = event.last_wait_ms


def _assigned(journal: GroupJournal, event: Assigned, now: Now) -> None:  # noqa: ARG001
    # Emitted right after the move to Stable, which ended the rebalance.
    if journal.rebalances:
        last = journal.rebalances[-1]
        last.protocol_type = event.protocol_type and kept_id(event.protocol_type)
        last.assigned = kept_assigned(event.members)
        journal.measure_last()


# --------------------------------------------------------------------------------------- members


def _joined(journal: GroupJournal, event: MemberJoined, now: Now) -> None:
    if event.replaces:
        return  # the member that it replaces says so
    text = f"joined: {event.reason}" if event.reason else "joined"
    _change(journal, Change.of(event, now, text), now)


def _left(journal: GroupJournal, event: MemberLeft, now: Now) -> None:
    if event.cause in _SEPARATE:
        journal.add_note(Note(now.wall_ms, str(event.cause), kept_sentence(event.detail)))
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
    member_id = kept_id(event.member_id)
    flapper = journal.changed.pop(member_id, None)
    if flapper is None:
        flapper = Flapping(member_id, kept_id(event.client_id), event.client_host)
        if len(journal.changed) >= _FLAPPERS_KEPT:
            journal.grow(-journal.changed.pop(next(iter(journal.changed))).size())
    else:
        journal.grow(-flapper.size())
    journal.changed[member_id] = flapper
    flapper.changes += 1
    flapper.last_ms = now.wall_ms
    flapper.detail = kept_sentence(event.detail)
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

"""How each fact of the core changes the journal of its group.

Texts are the core's own; times are wall milliseconds where they are shown and monotonic where they
are subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.events import (
    Assigned,
    Cause,
    CommitRejected,
    GenerationFormed,
    GroupRemoved,
    JoinRefused,
    LostByAdmin,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    OffsetsExpired,
    OffsetsExpiring,
    OffsetsMovedBack,
    TransactionalOffsets,
    Transition,
)
from coordinator.group_journal import GroupJournal
from coordinator.journal_entries import (
    Change,
    Flapping,
    Lost,
    MovedBack,
    Note,
    Rebalance,
    Refused,
    Rejections,
    kept_assigned,
    kept_ids,
)
from coordinator.returns import Client, Way
from coordinator.states import State
from journal.texts import Source, kept_id, kept_sentence
from protocol.now import Now

FLAPPING_CHANGES = 3
FLAPPING_WITHIN_MS = 600_000
"""A member flaps that has changed its topics or protocols so often within so long."""

_CHANGES_KEPT = 32
"""Of one rebalance; more are counted."""
_FLAPPERS_KEPT = 64
_SEPARATE = (Cause.STATIC_MEMBER_REPLACED,)
_PREPARING = State.PREPARING_REBALANCE.value
_AWAITING_SYNC = State.AWAITING_SYNC.value


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
    if journal.rejected:
        _let_in(journal, event)
    if event.replaces:  # the member that it replaces has the note
        if event.fences is not None:
            _fenced(journal, event, event.fences, now)
        if event.away_ms >= 0:
            _took_over(journal, event, now)
        return
    text = f"joined: {event.reason}" if event.reason else "joined"
    _change(journal, Change.of(event, now, text), now)


def _fenced(journal: GroupJournal, event: MemberJoined, fences: tuple[str, str], now: Now) -> None:
    fencing = journal.take_fencing(kept_id(event.group_instance_id or ""))
    client = (kept_id(event.client_id), event.client_host)
    fencing.note(kept_id(event.member_id), client, (kept_id(fences[0]), fences[1]), now)
    journal.keep_fencing(fencing)


def _took_over(journal: GroupJournal, event: MemberJoined, now: Now) -> None:
    returns = journal.returns
    instance = kept_id(event.group_instance_id or "")
    client = Client(kept_id(event.client_id), event.client_host, instance)
    ids = (kept_id(event.member_id), kept_id(event.replaces))
    before = returns.bytes
    returned = returns.took_over(client, *ids, event.away_ms, now)
    journal.grow(returns.bytes - before)
    journal.save(("returning", returned.first), returned)


def _let_in(journal: GroupJournal, event: MemberJoined) -> None:
    """The joins of this client are refused no more."""
    who = (kept_id(event.client_id), event.client_host)
    for key, kept in journal.rejected.items():
        if key.is_join and not kept.is_over and (key.client_id, key.client_host) == who:
            kept.is_over = True
            journal.save(key, kept)


def _left(journal: GroupJournal, event: MemberLeft, now: Now) -> None:
    if event.cause in _SEPARATE:
        note = Note(now.wall_ms, str(event.cause), kept_sentence(event.detail))
        journal.add_note(note._replace(instance=kept_id(event.group_instance_id or "")))
        return
    change = Change.of(event, now, event.detail, event.silent_ms)
    _change(journal, change, now, Way.of(event))


def _change(journal: GroupJournal, change: Change, now: Now, way: Way | None = None) -> None:
    """A member came, or went in a way."""
    returns = journal.returns
    client = Client(change.client_id, change.client_host, change.group_instance_id)
    before = returns.bytes
    if way is None:
        same = returns.joined(client, change.member_id, now)
    else:
        same = returns.left(client, change.member_id, change.silent_ms, way, now)
    journal.grow(returns.bytes - before)
    if same is not None:
        change = change._replace(same_client=same)
        returned = returns.clients[change.member_id if way is None else same.member_id]
        journal.save(("returning", returned.first), returned)
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
    flapper.source = Source.SEEN
    journal.grow(flapper.size())
    journal.save(member_id, flapper)
    flapper.streak.note(now.wall_ms)
    flapper.recent_mono_ms.append(now.mono_ms)
    flapper.recent_ms.append(now.wall_ms)
    recent = flapper.recent_mono_ms
    flapper.flaps = (
        len(recent) >= FLAPPING_CHANGES
        and now.mono_ms - recent[-FLAPPING_CHANGES] <= FLAPPING_WITHIN_MS
    )


# --------------------------------------------------------------------------------------- offsets


def _rejected(journal: GroupJournal, event: CommitRejected | JoinRefused, now: Now) -> None:
    is_join = isinstance(event, JoinRefused)
    key = Refused(is_join, event.error_code, kept_id(event.client_id), event.client_host)
    known = journal.take_rejections(key) or Rejections()
    known.take(event, journal.group_id, now)
    journal.keep_rejections(known)
    if known.is_due(now):
        known.saved(now.wall_ms)
        journal.save(key, known)


def _moved_back(journal: GroupJournal, event: OffsetsMovedBack, now: Now) -> None:
    number = journal.moved_back_count + 1
    journal.add_moved_back(MovedBack.of(event, journal.group_id, number, now))


def _lost(journal: GroupJournal, event: LostByAdmin, now: Now) -> None:
    journal.add_loss(Lost.of(event, journal.group_id, journal.losses_count + 1, now))


def _expired(journal: GroupJournal, event: OffsetsExpired, now: Now) -> None:
    text = f"{event.offsets} offsets were dropped: {event.cause}"
    journal.add_note(Note(now.wall_ms, "offsets_dropped", text))


def _transactional(journal: GroupJournal, event: TransactionalOffsets, now: Now) -> None:
    if event.committed:
        return  # as ordinary as a commit, which has no line either
    dropped = "1 offset was" if event.offsets == 1 else f"{event.offsets} offsets were"
    text = f"{dropped} dropped: the transaction of producer {event.producer_id} was aborted"
    journal.add_note(Note(now.wall_ms, "offsets_aborted", text))


def _expiring(journal: GroupJournal, event: OffsetsExpiring, now: Now) -> None:
    hours = event.within_ms // 3_600_000
    text = f"{event.offsets} offsets will expire within {hours} h: {event.detail}"
    journal.add_note(Note(now.wall_ms, "offsets_expiring", text))


def _removed(journal: GroupJournal, event: GroupRemoved, now: Now) -> None:
    journal.add_note(Note(now.wall_ms, "group_removed", f"the group was forgotten: {event.cause}"))


FOLDS: dict[type, Callable[[GroupJournal, Any, Now], None]] = {
    Transition: _transition,
    GenerationFormed: _formed,
    Assigned: _assigned,
    MemberJoined: _joined,
    MemberLeft: _left,
    MemberChanged: _changed,
    CommitRejected: _rejected,
    JoinRefused: _rejected,
    OffsetsMovedBack: _moved_back,
    LostByAdmin: _lost,
    TransactionalOffsets: _transactional,
    OffsetsExpired: _expired,
    OffsetsExpiring: _expiring,
    GroupRemoved: _removed,
}

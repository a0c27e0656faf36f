"""The functions that apply each event to the journal of its group.

The group coordinator has written the texts of the events. Times in entries are wall milliseconds;
durations are differences between monotonic times.
"""

from __future__ import annotations

from coordinator.classic.member_restarts import Client, Way
from coordinator.classic.states import State
from coordinator.consumer.events import EpochBumped, GroupReconciled, TargetComputed
from coordinator.events import (
    Assigned,
    Cause,
    CommitRejected,
    GenerationFormed,
    GroupConverted,
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
    GROUP_REMOVED,
    Fencing,
    Flapping,
    Lost,
    MovedBack,
    Note,
    Refused,
    Rejections,
)
from coordinator.journal_rebalance import Change, Rebalance, kept_assigned, kept_ids
from coordinator.share.archived import RecordsArchived, fold_archived
from coordinator.streams.events import FirstTargetDelayed, ShutdownRequested, TopologyChecked
from coordinator.wording import seconds
from journal.pages import Fold
from journal.texts import kept_id, kept_sentence
from protocol.consumer_protocol import CONSUMER
from protocol.now import Now

_CHANGES_KEPT = 32
"""The maximum number of changes of members that a rebalance stores. Further changes are only
counted."""
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
            _group_ended(journal, event, now)
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
        _group_ended(journal, event, now)


def _begin(journal: GroupJournal, event: Transition, now: Now) -> None:
    before = event.generation_id
    rebalance = _new(
        journal, event.cause, event.detail, event.member_id, before, event.awaited, now
    )
    rebalance.until_ms = now.wall_ms + event.wait_ms
    rebalance.from_empty = event.old_state == State.EMPTY.value
    journal.open(rebalance)


def _new(
    journal: GroupJournal,
    cause: Cause,
    detail: str,
    member_id: str,
    generation_before: int,
    awaited: tuple[str, ...],
    now: Now,
) -> Rebalance:
    """Returns a rebalance that begins now. The changes of members that preceded it are added to the
    rebalance."""
    rebalance = Rebalance(
        journal.rebalances.number + 1,
        now.wall_ms,
        now.mono_ms,
        cause,
        kept_sentence(detail),
        kept_id(member_id),
        generation_before,
        kept_ids(awaited),
        0,
    )
    for change in journal.pending.take_all():
        if change.silent_ms >= 0 and change.member_id == rebalance.member_id:
            rebalance.last_heard_ms = change.at_ms - change.silent_ms
        rebalance.changes.append(change)
    return rebalance


def _end(journal: GroupJournal, rebalance: Rebalance, outcome: str, now: Now) -> None:
    rebalance.phase, rebalance.outcome, rebalance.ended_ms = "ended", outcome, now.wall_ms
    if outcome in ("assigned", "nobody left"):
        rebalance.awaited = ()
    journal.changed_last(rebalance)
    journal.open_rebalance = None


def _group_ended(journal: GroupJournal, event: Transition, now: Now) -> None:
    text = kept_sentence(f"the group ended: {event.detail}")
    journal.add_note(Note(now.wall_ms, str(event.cause), text))


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
    # The event is emitted right after the move to Stable, which ended the rebalance.
    last = journal.rebalances.last
    if last is not None:
        last.protocol_type = event.protocol_type and kept_id(event.protocol_type)
        last.assigned = kept_assigned(event.members)
        journal.changed_last(last)


# ----------------------------------------------------------------------- consumer and share groups


def _epoch_bumped(journal: GroupJournal, event: EpochBumped, now: Now) -> None:
    """Begins the rebalance of a new epoch. A rebalance of the previous epoch that is still in
    progress becomes interrupted."""
    if journal.open_rebalance is not None:
        _end(journal, journal.open_rebalance, "interrupted", now)
    cause, before = Cause(event.cause.value), event.epoch - 1
    rebalance = _new(journal, cause, event.detail, event.member_id, before, event.awaited, now)
    rebalance.type, rebalance.phase = event.type, "assign"
    rebalance.generation_id, rebalance.protocol_type = event.epoch, event.type
    rebalance.until_ms = 0
    journal.open(rebalance)
    if not event.awaited and cause is not Cause.MEMBER_JOINED:
        _end(journal, rebalance, "nobody left", now)


def _target_computed(journal: GroupJournal, event: TargetComputed, now: Now) -> None:
    current = journal.open_rebalance
    if current is None or current.generation_id > event.epoch:
        return
    current.phase, current.protocol_name = "revoke", kept_id(event.assignor)
    current.members, current.moved = event.members, kept_sentence(event.moved)
    current.join_ms = now.mono_ms - current.began_mono_ms
    current.sync_began_mono_ms = now.mono_ms
    journal.changed_last(current)


def _converted(journal: GroupJournal, event: GroupConverted, now: Now) -> None:
    number = "epoch" if event.type == CONSUMER else "generation"
    text = f"became a {event.type} group at {number} {event.generation_id}: {event.detail}"
    journal.add_note(Note(now.wall_ms, "group_converted", kept_sentence(text)))


def _reconciled(journal: GroupJournal, event: GroupReconciled, now: Now) -> None:
    current = journal.open_rebalance
    if current is None or current.generation_id > event.epoch:
        return
    current.members = event.members
    current.sync_ms = now.mono_ms - current.sync_began_mono_ms
    _end(journal, current, "assigned", now)


# -------------------------------------------------------------------------------- streams groups


def _checked(journal: GroupJournal, event: TopologyChecked, now: Now) -> None:
    if event.code:
        kind, text = "topology_not_ready", f"no task can be assigned: {event.detail}"
    else:
        kind, text = "topology_ready", "all topics of the topology exist: tasks can be assigned"
    journal.add_note(Note(now.wall_ms, kind, kept_sentence(text)))


def _delayed(journal: GroupJournal, event: FirstTargetDelayed, now: Now) -> None:
    text = (
        f"the first assignment waits {seconds(event.delay_ms)} for further members"
        " (streams.initial.rebalance.delay.ms)"
    )
    journal.add_note(Note(now.wall_ms, "assignment_delayed", text))


def _shutdown(journal: GroupJournal, event: ShutdownRequested, now: Now) -> None:
    text = f"{event.who} requested the shutdown of the application: every instance must end"
    journal.add_note(Note(now.wall_ms, "shutdown_requested", kept_sentence(text)))


# --------------------------------------------------------------------------------------- members


def _joined(journal: GroupJournal, event: MemberJoined, now: Now) -> None:
    if journal.rejected:
        _let_in(journal, event)
    if event.replaces:  # the replaced member's MemberLeft adds the note
        if event.fences is not None:
            _fenced(journal, event, event.fences, now)
        if event.away_ms >= 0:
            _took_over(journal, event, now)
        return
    text = f"joined: {event.reason}" if event.reason else "joined"
    _change(journal, Change.of(event, now, text), now)


def _fenced(journal: GroupJournal, event: MemberJoined, fences: tuple[str, str], now: Now) -> None:
    instance = kept_id(event.group_instance_id or "")
    fencing = journal.fencings.get(instance) or Fencing(instance)
    client = (kept_id(event.client_id), event.client_host)
    fencing.note(kept_id(event.member_id), client, (kept_id(fences[0]), fences[1]), now)
    journal.fencings.put(instance, fencing)


def _took_over(journal: GroupJournal, event: MemberJoined, now: Now) -> None:
    instance = kept_id(event.group_instance_id or "")
    client = Client(kept_id(event.client_id), event.client_host, instance)
    ids = (kept_id(event.member_id), kept_id(event.replaces))
    journal.returns.took_over(client, *ids, event.away_ms, now)
    journal.save_return()


def _let_in(journal: GroupJournal, event: MemberJoined) -> None:
    """Marks this client's earlier rejected joins as over, because the client has now joined the
    group."""
    who = (kept_id(event.client_id), event.client_host)
    for kept in journal.rejected:
        key = kept.key
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
    """Records that a member joined (``way`` is None) or lost its member id (``way`` says how)."""
    returns = journal.returns
    client = Client(change.client_id, change.client_host, change.group_instance_id)
    if way is None:
        same = returns.joined(client, change.member_id, now)
    else:
        same = returns.left(client, change.member_id, change.silent_ms, way, now)
    if same is not None:
        change = change._replace(same_client=same)
        journal.save_return()
    current = journal.open_rebalance
    if current is None or current.phase != "join":
        journal.keep_change(change)
    elif len(current.changes) < _CHANGES_KEPT:
        current.changes.append(change)
        journal.rebalances.grow(current.number, change.size())
    else:
        current.more_changes += 1


def _changed(journal: GroupJournal, event: MemberChanged, now: Now) -> None:
    member_id = kept_id(event.member_id)
    flapper = journal.changed.get(member_id)
    if flapper is None:
        flapper = Flapping(member_id, kept_id(event.client_id), event.client_host)
    flapper.take(event, now)
    journal.changed.put(member_id, flapper)
    journal.save(member_id, flapper)


# --------------------------------------------------------------------------------------- offsets


def _rejected(journal: GroupJournal, event: CommitRejected | JoinRefused, now: Now) -> None:
    is_join = isinstance(event, JoinRefused)
    key = Refused(is_join, event.error_code, kept_id(event.client_id), event.client_host)
    known = journal.rejected.get(key) or Rejections()
    known.take(event, journal.name, now)
    journal.rejected.put(key, known)
    if known.is_due(now):
        known.saved(now.wall_ms)
        journal.save(key, known)


def _moved_back(journal: GroupJournal, event: OffsetsMovedBack, now: Now) -> None:
    number = journal.moved_back.number + 1
    journal.add_moved_back(MovedBack.of(event, journal.name, number, now))


def _lost(journal: GroupJournal, event: LostByAdmin, now: Now) -> None:
    journal.add_loss(Lost.of(event, journal.name, journal.losses.number + 1, now))


def _expired(journal: GroupJournal, event: OffsetsExpired, now: Now) -> None:
    offsets = "1 offset" if event.offsets == 1 else f"{event.offsets} offsets"
    text = f"{offsets} removed: {event.cause}"
    journal.add_note(Note(now.wall_ms, "offsets_dropped", text))


def _transactional(journal: GroupJournal, event: TransactionalOffsets, now: Now) -> None:
    if event.committed:
        return  # other commits have no entry either
    offsets = "1 pending offset" if event.offsets == 1 else f"{event.offsets} pending offsets"
    text = f"{offsets} dropped: the transaction of producer {event.producer_id} was aborted"
    journal.add_note(Note(now.wall_ms, "offsets_aborted", text))


def _expiring(journal: GroupJournal, event: OffsetsExpiring, now: Now) -> None:
    hours = event.within_ms // 3_600_000
    offsets = "1 offset" if event.offsets == 1 else f"{event.offsets} offsets"
    text = f"{offsets} will expire within {hours} h: {event.detail}"
    journal.add_note(Note(now.wall_ms, "offsets_expiring", text))


def _removed(journal: GroupJournal, event: GroupRemoved, now: Now) -> None:
    journal.archived.take_all()  # another group may get the same id
    journal.add_note(Note(now.wall_ms, GROUP_REMOVED, f"the group was removed: {event.cause}"))


FOLDS: dict[type, Fold[GroupJournal]] = {
    Transition: _transition,
    GenerationFormed: _formed,
    Assigned: _assigned,
    EpochBumped: _epoch_bumped,
    TargetComputed: _target_computed,
    GroupReconciled: _reconciled,
    GroupConverted: _converted,
    TopologyChecked: _checked,
    FirstTargetDelayed: _delayed,
    ShutdownRequested: _shutdown,
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
    RecordsArchived: fold_archived,
}

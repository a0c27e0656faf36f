"""The journal of one group: its entries, and the rules by which entries are saved to the journal's
file."""

from __future__ import annotations

from collections.abc import Hashable

from coordinator.classic.member_restarts import (
    STREAK_PAUSE_MS,
    MemberRestarts,
    RestartingMember,
    Streak,
)
from coordinator.events import Cause
from coordinator.journal_entries import Fencing, Flapping, Lost, MovedBack, Note, Rejections
from coordinator.journal_rebalance import Change, Rebalance
from coordinator.share.archived import Archived
from journal.entry import SAVED_AGAIN_MS
from journal.pages import Page, Ring
from journal.texts import Source
from journal.unsaved import Unsaved

FLAPPING_CAUSES = frozenset(
    {Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMED_OUT, Cause.JOIN_TIMED_OUT}
)
"""The causes of rebalances that count as flapping of the group. Joins and changed metadata do not
count: they occur in a growing group, and cooperative assignors revoke partitions in a separate
rebalance."""
REBALANCES_KEPT = 64
_NOTES_KEPT = 64
_MOVED_BACK_KEPT = 64
_LOSSES_KEPT = 64
ARCHIVED_KEPT = 128
_PENDING_KEPT = 32
_FLAPPERS_KEPT = 64
_REJECTED_KEPT = 128
"""The maximum number of entries for rejected requests. Each combination of client and error has one
entry."""
INSTANCES_KEPT = 64
_GROUP_BYTES = 1500

Kept = Rebalance | Note | MovedBack | Lost | Rejections | Flapping | RestartingMember | Archived
"""The types of entries that are saved to the journal's file, so that they exist after a restart of
the broker."""


class GroupJournal(Page):
    """The journal page of one group."""

    __slots__ = (
        "_moved_back_saved_ms",
        "archived",
        "changed",
        "fencings",
        "flapping",
        "losses",
        "moved_back",
        "notes",
        "open_rebalance",
        "pending",
        "rebalances",
        "rejected",
        "returns",
        "seen",
    )

    def __init__(
        self,
        group_id: str,
        unsaved: Unsaved | None = None,
        rebalances_kept: int = REBALANCES_KEPT,
    ) -> None:
        super().__init__(group_id, unsaved, _GROUP_BYTES)
        self.rebalances: Ring[Rebalance] = self.ring(rebalances_kept)
        self.open_rebalance: Rebalance | None = None
        self.seen = 0
        """The number of rebalances that began since the broker's start."""
        self.flapping = Streak()
        """Counts the latest rebalances with a cause in FLAPPING_CAUSES. The count starts again
        after a pause longer than STREAK_PAUSE_MS between two such rebalances."""
        self.notes: Ring[Note] = self.ring(_NOTES_KEPT)
        self.rejected: Ring[Rejections] = self.ring(_REJECTED_KEPT)
        """Rejected commits and joins, by client and error (see `Refused`)."""
        self.moved_back: Ring[MovedBack] = self.ring(_MOVED_BACK_KEPT)
        self.losses: Ring[Lost] = self.ring(_LOSSES_KEPT)
        self.archived: Ring[Archived] = self.ring(ARCHIVED_KEPT)
        self.changed: Ring[Flapping] = self.ring(_FLAPPERS_KEPT)
        """Members that changed their topics or protocols, by member id."""
        self.fencings: Ring[Fencing] = self.ring(INSTANCES_KEPT)
        """Pairs of processes that fence each other, by the instance id that they share."""
        self.returns = MemberRestarts(self.ring)
        self.pending: Ring[Change] = self.ring(_PENDING_KEPT)
        """Changes of members that will be added to the entry of the next rebalance."""
        self._moved_back_saved_ms = 0

    def restore(self, entry: Kept) -> None:
        if isinstance(entry, Rebalance):
            entry.keep()
            self._restore_rebalance(entry)
        elif isinstance(entry, Note):
            self.add_note(entry._replace(source=Source.KEPT))
        elif isinstance(entry, MovedBack):
            self.add_moved_back(entry._replace(source=Source.KEPT))
        elif isinstance(entry, Lost):
            self.losses.put(entry.number, entry._replace(source=Source.KEPT))
        elif isinstance(entry, Rejections):
            entry.source = Source.KEPT
            self.rejected.put(entry.key, entry)
        elif isinstance(entry, Flapping):
            entry.source = Source.KEPT
            self.changed.put(entry.member_id, entry)
        elif isinstance(entry, RestartingMember):
            entry.is_kept = True
            self.returns.restore(entry)
        else:
            self.archived.put(entry.number, entry.kept())

    # -- rebalances

    def open(self, rebalance: Rebalance) -> None:
        if rebalance.cause in FLAPPING_CAUSES:
            self.flapping.note(rebalance.began_ms)
        self.open_rebalance = rebalance
        self.seen += 1
        self.rebalances.put(rebalance.number, rebalance)
        self.save(rebalance.number, rebalance)

    def changed_last(self, rebalance: Rebalance) -> None:
        """Saves the journal entry of a rebalance again, because the rebalance has ended or its
        assignment has become known."""
        self.rebalances.measure(rebalance.number)
        self.save(rebalance.number, rebalance)

    def replace_rebalances(self, rebalances: list[Rebalance]) -> None:
        self.rebalances.take_all()
        for each in rebalances:
            self.rebalances.put(each.number, each)

    def _restore_rebalance(self, entry: Rebalance) -> None:
        if entry.number >= self.rebalances.number:
            self.rebalances.put(entry.number, entry)
        else:
            others = [each for each in self.rebalances if each.number != entry.number]
            self.replace_rebalances(sorted([*others, entry], key=lambda each: each.number))

    def keep_change(self, change: Change) -> None:
        """Stores a change of a member until the next rebalance begins."""
        if len(self.pending) < _PENDING_KEPT:
            self.pending.put(self.pending.number + 1, change)

    # -- the others

    def save_return(self) -> None:
        returned = self.returns.clients.last
        if returned is not None:
            self.save(returned.first, returned)

    def add_note(self, note: Note) -> None:
        """Adds a note. If the same static member is replaced repeatedly, the notes are merged into
        one."""
        key: Hashable = self.notes.number + 1
        if note.instance:
            if note.times == 1:  # else the note was merged before and read from the file
                note = self._again(note)
            key = (note.kind, note.instance, note.since_ms or note.at_ms)
        self.notes.put(key, note)
        if note.source is Source.SEEN:
            self.save(key, note)

    def _again(self, note: Note) -> Note:
        """Searches for an earlier note of the same kind and instance id that is at most
        STREAK_PAUSE_MS old. If it exists, returns ``note`` as its repetition: with the earlier
        note's start time, and its count plus 1. Otherwise returns ``note`` unchanged."""
        for earlier in self.notes:
            is_same = (earlier.kind, earlier.instance) == (note.kind, note.instance)
            if is_same and 0 <= note.at_ms - earlier.at_ms <= STREAK_PAUSE_MS:
                since_ms = earlier.since_ms or earlier.at_ms
                return note._replace(times=earlier.times + 1, since_ms=since_ms)
        return note

    def add_loss(self, lost: Lost) -> None:
        """Adds the loss of offsets or records by an admin request. If this loss continues the
        previous loss (see `Lost.followed_by`), both share an entry."""
        last = self.losses.last
        lost = (None if last is None else last.followed_by(lost)) or lost
        self.losses.put(lost.number, lost)
        if lost.times & (lost.times - 1) == 0:
            self.save(lost.number, lost)

    def add_moved_back(self, moved: MovedBack) -> None:
        self.moved_back.put(moved.number, moved)
        if moved.source is Source.SEEN and (
            moved.number <= _MOVED_BACK_KEPT
            or moved.at_ms - self._moved_back_saved_ms >= SAVED_AGAIN_MS
        ):
            self._moved_back_saved_ms = moved.at_ms
            self.save(moved.number, moved)

"""The journal of one group: bounded rings of entries, and how many bytes they take."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from coordinator.events import Cause
from coordinator.fencings import INSTANCES_KEPT, Fencing
from coordinator.journal_entries import (
    Change,
    Entry,
    Flapping,
    Lost,
    MovedBack,
    Note,
    Rebalance,
    Refused,
    Rejections,
)
from coordinator.returns import STREAK_PAUSE_MS, Returns, Streak
from journal.texts import Source, long_bytes
from journal.unsaved import SAVED_AGAIN_MS, Unsaved

FLAPPING_CAUSES = frozenset(
    {Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.SYNC_TIMED_OUT, Cause.JOIN_TIMED_OUT}
)
"""Rebalances that count for FLAPPING. A group that grows has others: new members join, and
cooperative assignors give partitions up in a rebalance of their own."""
_NOTES_KEPT = 64
_MOVED_BACK_KEPT = 64
_LOSSES_KEPT = 64
_PENDING_KEPT = 32
_REJECTED_KEPT = 128
"""Clients whose refused requests are told apart, once for each error."""
_GROUP_BYTES = 1500


class GroupJournal:
    """The rings of one group."""

    __slots__ = (
        "_last_size",
        "_moved_back_saved_ms",
        "_noted",
        "_pending",
        "_unsaved",
        "bytes",
        "changed",
        "count",
        "fencings",
        "flapping",
        "group_id",
        "loads",
        "losses",
        "losses_count",
        "moved_back",
        "moved_back_count",
        "notes",
        "open_rebalance",
        "rebalances",
        "rejected",
        "returns",
        "seen",
    )

    def __init__(
        self, group_id: str, rebalances_kept: int, unsaved: Unsaved[Entry] | None = None
    ) -> None:
        self.group_id = group_id
        self.bytes = _GROUP_BYTES + long_bytes(group_id)
        """Estimated."""
        self.count = 1
        """The number of the next rebalance."""
        self.seen = 0
        """How many began in this run of the broker."""
        self.loads = 0
        """The number of the last load whose generations are among the rebalances."""
        self.rebalances: deque[Rebalance] = deque(maxlen=rebalances_kept)
        self.flapping = Streak()
        """The last rebalances with one of FLAPPING_CAUSES."""
        self.open_rebalance: Rebalance | None = None
        """The last of ``rebalances``, while it has not ended."""
        self.notes: deque[Note] = deque(maxlen=_NOTES_KEPT)
        self.rejected: dict[Refused, Rejections] = {}
        """Refused commits and joins; the one with the latest last."""
        self.moved_back: deque[MovedBack] = deque(maxlen=_MOVED_BACK_KEPT)
        self.moved_back_count = 0
        """Commits that moved offsets back, the forgotten ones included."""
        self.losses: deque[Lost] = deque(maxlen=_LOSSES_KEPT)
        self.losses_count = 0
        """What admins did that makes the group miss records, the forgotten ones included."""
        self.changed: dict[str, Flapping] = {}
        """By member id: who has changed its topics or protocols, the latest last."""
        self.fencings: dict[str, Fencing] = {}
        """By instance id: which processes fence each other, the latest last."""
        self.returns = Returns()
        """Which clients came back under new ids."""
        self._pending: list[Change] = []
        """Changes that a rebalance is about to follow."""
        self._last_size = 0
        self._unsaved = unsaved
        self._noted = 0
        self._moved_back_saved_ms = 0

    def save(self, key: Hashable, entry: Entry) -> None:
        """Have an entry written down that is new or has changed."""
        if self._unsaved is not None:
            self._unsaved.mark(self.group_id, key, entry)

    def grow(self, size: int) -> None:
        """Count bytes that an entry has more."""
        self.bytes += size

    def grow_last(self, size: int) -> None:
        """Count bytes that the last rebalance has more."""
        self.bytes += size
        self._last_size += size

    def open(self, rebalance: Rebalance) -> None:
        """A rebalance begins; it stays the last one."""
        self.append(rebalance)
        if rebalance.cause in FLAPPING_CAUSES:
            self.flapping.note(rebalance.began_ms)
        self.open_rebalance = rebalance
        self.seen += 1
        self.save(rebalance.number, rebalance)

    def append(self, rebalance: Rebalance) -> None:
        """Keep a rebalance behind the others."""
        if len(self.rebalances) == self.rebalances.maxlen:
            self.drop_oldest()
        self.rebalances.append(rebalance)
        self.count = rebalance.number + 1
        self._last_size = rebalance.size()
        self.bytes += self._last_size

    def replace_rebalances(self, rebalances: list[Rebalance]) -> None:
        """Keep these in place of those that there are, the oldest first."""
        running = self.open_rebalance
        while self.rebalances:
            self.drop_oldest()
        for each in rebalances:
            self.append(each)
        self.open_rebalance = running

    def close(self) -> None:
        """The running rebalance has ended."""
        self.measure_last()
        self.open_rebalance = None

    def measure_last(self) -> None:
        """Measure the last rebalance anew."""
        size = self.rebalances[-1].size()
        self.bytes += size - self._last_size
        self._last_size = size
        self.save(self.rebalances[-1].number, self.rebalances[-1])

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
        """Keep a note; those of a static member that is replaced again and again are one."""
        for earlier in self.notes if note.instance else ():
            if (earlier.kind, earlier.instance) != (note.kind, note.instance):
                continue
            since_ms = earlier.since_ms or earlier.at_ms
            if note.times > 1:  # it was written down again
                is_later = note.since_ms == since_ms
            else:
                is_later = 0 <= note.at_ms - earlier.at_ms <= STREAK_PAUSE_MS
                if is_later:
                    note = note._replace(times=earlier.times + 1, since_ms=since_ms)
            if is_later:
                self.notes.remove(earlier)
                self.bytes -= earlier.size()
                break
        if len(self.notes) == self.notes.maxlen:
            self.bytes -= self.notes[0].size()
        self.notes.append(note)
        self.bytes += note.size()
        if note.source is Source.SEEN:
            self._noted += 1
            first_ms = note.since_ms or note.at_ms
            key = (note.kind, note.instance, first_ms) if note.instance else self._noted
            self.save(key, note)

    def take_fencing(self, instance: str) -> Fencing:
        """Take out what is kept of an instance id, for ``keep_fencing``."""
        kept = self.fencings.pop(instance, None)
        if kept is None:
            return Fencing(instance)
        self.bytes -= kept.size()
        return kept

    def keep_fencing(self, fencing: Fencing) -> None:
        """Keep what ``take_fencing`` gave as the latest."""
        if len(self.fencings) >= INSTANCES_KEPT:
            self.bytes -= self.fencings.pop(next(iter(self.fencings))).size()
        self.fencings[fencing.instance] = fencing
        self.bytes += fencing.size()

    def add_loss(self, lost: Lost) -> None:
        """Keep what an admin did; a client that goes on and on has one entry."""
        together = self.losses[-1].followed_by(lost) if self.losses else None
        if together is not None:
            lost = together
            self.bytes -= self.losses.pop().size()
        elif len(self.losses) == self.losses.maxlen:
            self.bytes -= self.losses[0].size()
        self.losses_count = lost.number
        self.losses.append(lost)
        self.bytes += lost.size()
        if lost.source is Source.SEEN and lost.times & (lost.times - 1) == 0:
            self.save(lost.number, lost)

    def keep_rejections(self, kept: Rejections) -> None:
        """Keep refused requests of a client in place of the entry that ``take_rejections`` gave."""
        if len(self.rejected) >= _REJECTED_KEPT:
            self.bytes -= self.rejected.pop(next(iter(self.rejected))).size()
        self.rejected[kept.key] = kept
        self.bytes += kept.size()

    def take_rejections(self, key: Refused) -> Rejections | None:
        """Take out what is kept of refused requests of a client."""
        kept = self.rejected.pop(key, None)
        if kept is not None:
            self.bytes -= kept.size()
        return kept

    def add_moved_back(self, moved: MovedBack) -> None:
        """Keep a commit that moved offsets back."""
        self.moved_back_count = moved.number
        if len(self.moved_back) == self.moved_back.maxlen:
            self.bytes -= self.moved_back[0].size()
        self.moved_back.append(moved)
        self.bytes += moved.size()
        if moved.source is Source.SEEN and (
            moved.number <= _MOVED_BACK_KEPT
            or moved.at_ms - self._moved_back_saved_ms >= SAVED_AGAIN_MS
        ):
            self._moved_back_saved_ms = moved.at_ms
            self.save(moved.number, moved)

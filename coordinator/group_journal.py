"""The journal of one group: bounded rings of entries, and how many bytes they take."""

from __future__ import annotations

from collections import deque

from coordinator.journal_entries import (
    Change,
    Flapping,
    MovedBack,
    Note,
    Rebalance,
    Rejections,
    long_bytes,
)
from coordinator.returns import Returns

_NOTES_KEPT = 64
_MOVED_BACK_KEPT = 64
_PENDING_KEPT = 32
_GROUP_BYTES = 1500


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
        self.bytes = _GROUP_BYTES + long_bytes(group_id)
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

"""Why groups rebalanced: a fold of the core's events into bounded rings, one set per group.

``observe`` takes the events in order, each with the time at which it was emitted. Bounds: 64
rebalances a group and about 64 MiB for all; the group that has been quiet for longest is forgotten
first. A group without events has no entry. What is new goes to an `Unsaved`, from which it is
written down, and ``restore`` takes over what an earlier run wrote.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.events import (
    Event,
    LoadedGeneration,
    ShardLoaded,
)
from coordinator.group_journal import GroupJournal
from coordinator.journal_entries import (
    Entry,
    Flapping,
    Rebalance,
)
from coordinator.journal_folds import FOLDS
from coordinator.restored import restore, with_generations
from coordinator.returns import Returning
from journal.unsaved import Unsaved
from protocol.now import Now

REBALANCES_KEPT = 64
BYTES_KEPT = 64 << 20
_HISTORIES_KEPT = 200
_GENERATION_BYTES = 300
_RESTORED_GROUP_BYTES = 200


class Restored(NamedTuple):
    """What the log still held of a group when its partition was loaded."""

    load: int
    """The number of that load, from 1."""
    at_ms: int
    generations: Sequence[LoadedGeneration]
    """Oldest first; the last one is what the group was restored to."""


class _History(NamedTuple):
    """What one load found, and its estimated size."""

    load: int
    at: Now
    generations: Mapping[str, Sequence[LoadedGeneration]]
    size: int


class Journal:
    """The journals of all groups of one broker."""

    def __init__(
        self,
        rebalances_kept: int = REBALANCES_KEPT,
        bytes_kept: int = BYTES_KEPT,
        unsaved: Unsaved[Entry] | None = None,
    ) -> None:
        self.bytes = 0
        """Estimated, all groups together."""
        self._rebalances_kept = rebalances_kept
        self._bytes_kept = bytes_kept
        self._unsaved = unsaved
        """Takes what is to be written down; None where nothing is."""
        self._loads = 0
        self._groups: dict[str, GroupJournal] = {}
        """The one whose last event is longest ago first."""
        self._histories: deque[_History] = deque()

    # ---------------------------------------------------------------------------------- reading

    def group(self, group_id: str) -> GroupJournal | None:
        """What is kept of a group; None where nothing happened, or it was too long ago."""
        journal = self._groups.get(group_id)
        if journal is not None and journal.loads != self._loads:
            self._take_generations(journal)
        return journal

    def rebalances(self, group_id: str) -> list[Rebalance]:
        """The rebalances of a group, those that only the log knows of among them."""
        journal = self.group(group_id)
        if journal is not None:
            return list(journal.rebalances)
        restored = self.restored(group_id)
        if restored is None:
            return []
        return with_generations([], restored.generations, restored.at_ms)

    def restored(self, group_id: str) -> Restored | None:
        """What the last load made of a group; None if it was not there, or it is forgotten."""
        for load, now, generations, _ in reversed(self._histories):
            if group_id in generations:
                return Restored(load, now.wall_ms, generations[group_id])
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
        fold = FOLDS.get(type(event))
        if fold is None:
            return
        group_id = event.group_id
        journal = self._latest(group_id)
        if journal.loads != self._loads:
            self._take_generations(journal)
        before = journal.bytes
        fold(journal, event, now)
        self.bytes += journal.bytes - before
        if self.bytes > self._bytes_kept:
            self._shrink()

    def restore(self, group_id: str, entry: Entry) -> None:
        """Take over an entry that an earlier run wrote down; the oldest first."""
        journal = self._latest(group_id)
        before = journal.bytes
        restore(journal, entry)
        self.bytes += journal.bytes - before
        if self.bytes > self._bytes_kept:
            self._shrink()

    @property
    def ripens(self) -> bool:
        """Nothing does: all of it is written down when it happens."""
        return False

    def ripen(self, now: Now) -> None:
        """Nothing."""

    def save_counts(self) -> None:
        """Have what is counted written down as it is; for a stop."""
        for journal in self._groups.values():
            for key, rejections in journal.rejected.items():
                if rejections.count > rejections.saved_count:
                    rejections.saved(rejections.last_ms)
                    journal.save(key, rejections)

    def _latest(self, group_id: str) -> GroupJournal:
        """The journal of a group to which something happens."""
        journal = self._groups.pop(group_id, None)
        if journal is None:
            journal = GroupJournal(group_id, self._rebalances_kept, self._unsaved)
            self.bytes += journal.bytes
        self._groups[group_id] = journal
        return journal

    def _take_generations(self, journal: GroupJournal) -> None:
        """Put what only the log knows of a group among its rebalances."""
        before_loads, journal.loads = journal.loads, self._loads
        restored = self.restored(journal.group_id)
        if restored is not None and restored.load > before_loads:
            known = list(journal.rebalances)
            merged = with_generations(known, restored.generations, restored.at_ms)
            if len(merged) > len(known):
                before = journal.bytes
                journal.replace_rebalances(merged)
                self.bytes += journal.bytes - before

    def _loaded(self, event: ShardLoaded, now: Now) -> None:
        size = _GENERATION_BYTES * sum(map(len, event.generations.values()))
        size += _RESTORED_GROUP_BYTES * len(event.generations) + sum(map(len, event.generations))
        self._loads += 1
        self._histories.append(_History(self._loads, now, event.generations, size))
        self.bytes += size
        if len(self._histories) > _HISTORIES_KEPT:
            self.bytes -= self._histories.popleft().size
        if self.bytes > self._bytes_kept:
            self._shrink()

    def _shrink(self) -> None:
        """Forget the oldest: what was loaded, then quiet groups, then rebalances of the last."""
        while self.bytes > self._bytes_kept and self._histories:
            self.bytes -= self._histories.popleft().size
        while self.bytes > self._bytes_kept and len(self._groups) > 1:
            self.bytes -= self._groups.pop(next(iter(self._groups))).bytes
        for journal in self._groups.values():
            before = journal.bytes
            while self.bytes + journal.bytes - before > self._bytes_kept and journal.rebalances:
                journal.drop_oldest()
            self.bytes += journal.bytes - before

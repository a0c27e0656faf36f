"""The journal of a broker's groups: one page per group. Events update the pages.

`Journal.observe` accepts the events in order, each with the time at which it was emitted. A group
gets its page with its first event. The journal has at most 64 rebalances per group and about 64 MiB
in total. The page whose last event is the oldest is dropped first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from coordinator.classic.member_restarts import RestartingMember
from coordinator.events import Event, LoadedGeneration, ShardLoaded
from coordinator.group_journal import REBALANCES_KEPT, GroupJournal
from coordinator.journal_entries import GROUP_REMOVED, Flapping, Lost, MovedBack, Note, Rejections
from coordinator.journal_folds import FOLDS
from coordinator.journal_rebalance import Rebalance, with_generations
from coordinator.share.archived import Archived
from journal.lines import Form
from journal.pages import Page, Pages, Ring
from journal.unsaved import Unsaved
from protocol.now import Now

BYTES_KEPT = 64 << 20
_LOADS_KEPT = 200
_GENERATION_BYTES = 300
_RESTORED_GROUP_BYTES = 200

FORM = Form(
    "groups.journal",
    "muster_journal",
    1,
    "group",
    {
        "rebalance": Rebalance.read,
        "note": Note.read,
        "moved_back": MovedBack.read,
        "lost": Lost.read,
        "rejected": Rejections.read_commits,
        "refused_join": Rejections.read_joins,
        "flapping": Flapping.read,
        "returning": RestartingMember.read,
        "archived": Archived.read,
    },
    lambda fields: fields.get("kind") == "note" and fields.get("what") == GROUP_REMOVED,
)


class Restored(NamedTuple):
    """The generations of a group that the shard's log contained when the shard was loaded."""

    load: int
    """The number of the load; the first load since the broker's start is 1."""
    at_ms: int
    generations: Sequence[LoadedGeneration]
    """The generations in the log, the oldest first. The load gave the group the last generation."""


class _Load(NamedTuple):
    """The groups and generations that one load of a shard found in the log."""

    number: int
    at_ms: int
    generations: Mapping[str, Sequence[LoadedGeneration]]

    def size(self) -> int:
        groups = self.generations
        size = _RESTORED_GROUP_BYTES * len(groups) + sum(map(len, groups))
        return size + _GENERATION_BYTES * sum(map(len, groups.values()))


class Journal(Pages[GroupJournal]):
    """The journal pages of a broker's groups."""

    form = FORM
    folds = FOLDS

    def __init__(
        self,
        unsaved: Unsaved | None = None,
        *,
        rebalances_kept: int = REBALANCES_KEPT,
        bytes_kept: int = BYTES_KEPT,
    ) -> None:
        new_page = partial(GroupJournal, rebalances_kept=rebalances_kept)
        super().__init__(new_page, bytes_kept, unsaved, attrgetter("group_id"))
        self._log = Page("", None, 0)
        self._loads: Ring[_Load] = self._log.ring(_LOADS_KEPT)
        """The last loads of shards, with the generations that they found."""

    def rebalances(self, group_id: str) -> list[Rebalance]:
        """Returns the rebalances of a group, including rebalances that are known only from the log
        of `__consumer_offsets`."""
        page = self.get(group_id)
        if page is not None:
            return list(page.rebalances)
        restored = self.restored(group_id)
        if restored is None:
            return []
        return with_generations([], restored.generations, restored.at_ms)

    def restored(self, group_id: str) -> Restored | None:
        """Returns the generations of the group that were in the log at the last load of the group's
        shard. Returns None if the log did not contain the group, or if the journal has dropped
        these generations."""
        self.fold_observed()
        return self._restored(group_id)

    def _restored(self, group_id: str) -> Restored | None:
        for load in reversed(list(self._loads)):
            if group_id in load.generations:
                return Restored(load.number, load.at_ms, load.generations[group_id])
        return None

    def flapping(self, group_id: str) -> list[Flapping]:
        """Returns the members of a group that changed their topics or protocols too often (see
        `FLAPPING_CHANGES`)."""
        self.fold_observed()
        page = self._pages.get(group_id)
        return [] if page is None else [each for each in page.changed if each.flaps]

    def returning(self, group_id: str) -> list[RestartingMember]:
        """Returns the clients that returned to a group under new member ids, the latest last."""
        self.fold_observed()
        page = self._pages.get(group_id)
        return [] if page is None else list(page.returns.clients)

    def fold_other(self, event: Event, now: Now) -> None:
        if isinstance(event, ShardLoaded):
            self.loads += 1
            self._loads.put(self.loads, _Load(self.loads, now.wall_ms, event.generations))
            self.count(self._log)

    def forget_oldest(self) -> bool:
        """Implements Pages.forget_oldest. As long as generations exist that were read from a
        shard's log, drops these: first the generations of the oldest load. After that, drops the
        oldest page."""
        return self.drop_oldest(self._log) or super().forget_oldest()

    def catch_up(self, page: GroupJournal) -> None:
        before, page.loads = page.loads, self.loads
        restored = self._restored(page.name)
        if restored is not None and restored.load > before:
            known = list(page.rebalances)
            merged = with_generations(known, restored.generations, restored.at_ms)
            if len(merged) > len(known):
                page.replace_rebalances(merged)

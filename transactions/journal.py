"""The journal of transactions. It has one page for each transactional id. The events about an id
change the page of this id.

`Journal.observe` accepts the events in order, each with its time. `Journal.wait` accepts the groups
that wait for a transaction, because the core does not know them.

The journal keeps the last transactions of each id. It keeps a transaction longer if it is notable:
if its client did not end it as intended, if it was open for long, or if it blocked readers. All
pages together take about 32 MiB. When this limit is exceeded, the page with the oldest last event
is dropped first.

Notable transactions are written to disk, and open transactions after SAVED_OPEN_MS. Short
transactions that end normally are not written.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

from journal.lines import Form
from journal.pages import Fold, Page, Pages, Ring
from journal.texts import Source
from journal.unsaved import Unsaved
from protocol.now import Now
from transactions.calls import BROKER
from transactions.events import (
    Cause,
    EndedPastCoordinator,
    PartitionsAdded,
    TransactionRefused,
    Transition,
)
from transactions.journal_entries import (
    PARTITION_BYTES,
    STORY_BYTES,
    WAIT_BYTES,
    Gone,
    Kept,
    Outcome,
    Reader,
    Refusals,
    Story,
)
from transactions.states import State

NOTABLE_KEPT = 32
"""Maximum number of notable transactions (see the top of this module) that are kept per
transactional id."""
RECENT_KEPT = 4
"""Maximum number of transactions that are kept per transactional id in addition to the notable
transactions."""
BYTES_KEPT = 32 << 20
SAVED_OPEN_MS = 3_000
"""The time in ms after which the journal entry of an open transaction is written to disk."""
HUNG = "an operator ended the hanging transaction with WriteTxnMarkers, bypassing the coordinator"
_REFUSED_KEPT = 128
_ID_BYTES = 900

FORM = Form(
    "transactions.journal",
    "muster_transactions_journal",
    1,
    "id",
    {"transaction": Story.read, "refused": Refusals.read, "gone": Gone.read},
    lambda fields: fields.get("kind") == "gone",
)
_PREPARES = {State.PREPARE_COMMIT: True, State.PREPARE_ABORT: False}
_ENDS = {
    State.COMPLETE_COMMIT: Outcome.COMMITTED,
    State.COMPLETE_ABORT: Outcome.ABORTED,
}


class IdJournal(Page):
    """The page of one transactional id. Its transactions are numbered from 1."""

    __slots__ = ("_notable", "_open", "_recent", "ended", "open", "refused")

    def __init__(self, transactional_id: str, unsaved: Unsaved | None = None) -> None:
        super().__init__(transactional_id, unsaved, _ID_BYTES)
        self._recent: Ring[Story] = self.ring(RECENT_KEPT)
        """The last ended transactions that are not notable; the module's docstring defines notable
        transactions."""
        self._notable: Ring[Story] = self.ring(NOTABLE_KEPT)
        self.refused: Ring[Refusals] = self.ring(_REFUSED_KEPT)
        """Rejected calls, by error code."""
        self._open: Ring[Story] = self.ring(1)
        self.open: Story | None = None
        self.ended: Counter[tuple[Outcome, Cause | None]] = Counter()
        """Number of transactions that have ended since the broker's start, by outcome and cause."""

    def stories(self) -> list[Story]:
        """Returns all kept transactions, oldest first. An open transaction is the last one."""
        ended = sorted([*self._notable, *self._recent], key=lambda each: each.number)
        return [*ended, *self._open]

    @property
    def is_young(self) -> bool:
        """True if the open transaction has not yet been written to disk."""
        return self._unsaved is not None and self.name in self._unsaved.young

    def begin(self, story: Story) -> Story:
        """Adds a new transaction. If the previous transaction is still open, its outcome becomes
        UNKNOWN."""
        if self.open is not None:
            self.end(self.open, Outcome.UNKNOWN)
        story.number = self._open.number + 1
        self._open.put(story.number, story, STORY_BYTES)
        self.open = story
        if self._unsaved is not None:
            old_ms = story.began_mono_ms + SAVED_OPEN_MS
            self._unsaved.mark_old(self.name, story.number, story, old_ms)
        return story

    def changed(self, story: Story, size: int) -> None:
        """Records that the entry of the open transaction has grown by ``size`` bytes, not counting
        the texts of the entry."""
        self._open.grow(story.number, size)
        if not self.is_young:
            self.save_story(story)

    def end(self, story: Story, outcome: Outcome, now: Now | None = None) -> None:
        """Ends the open transaction. ``now`` is None if the journal received no event about the end
        of the transaction."""
        if now is None:
            story.outcome = outcome
        else:
            story.end(outcome, now)
        self.ended[outcome, story.cause] += 1
        if story.is_notable or not self.is_young:
            self.save_story(story)
        elif self._unsaved is not None:
            del self._unsaved.young[self.name]
        self._open.take(story.number)
        self.open = None
        self._keep(story)

    def save_story(self, story: Story) -> None:
        """Saves a transaction to disk soon, even if it has been open for a shorter time than
        SAVED_OPEN_MS."""
        if self._unsaved is not None:
            self._unsaved.young.pop(self.name, None)
            self.save(story.number, story)

    def save_counts(self) -> None:
        """Implements Page.save_counts. Also saves an open transaction for which readers wait."""
        if self.open is not None and self.open.waits:
            self.save_story(self.open)
        super().save_counts()

    def restore(self, entry: Kept) -> None:
        """Implements Page.restore. If a transaction has several lines, the last line is valid."""
        if isinstance(entry, Gone):
            self.clear()
            return
        entry.source = Source.KEPT
        if isinstance(entry, Refusals):
            self.refused.put(entry.error_code, entry)
            return
        before = self.open
        if before is not None:
            self._open.take(before.number)
            self.open = None
            if before.number != entry.number:
                before.outcome = Outcome.UNKNOWN
                self._keep(before)
        number = max(self._open.number, entry.number)
        if entry.outcome.is_over:
            self._keep(entry)
        else:
            self._open.put(entry.number, entry)
            self.open = entry
        self._open.number = number

    def _keep(self, story: Story) -> None:
        ring = self._notable if story.is_notable else self._recent
        ring.put(story.number, story)


# ----------------------------------------------------------------------------------------- events


def _moved(page: IdJournal, event: Transition, now: Now) -> None:
    new = event.new
    if new is State.ONGOING:
        page.begin(_begun(event, now))
    elif new in _PREPARES and event.old is State.ONGOING:
        story = page.open or page.begin(_unseen(event, now))
        story.prepare(_PREPARES[new], event.cause, event.detail, event.client, now)
        if story.is_notable or not page.is_young:
            page.save_story(story)
    elif new in _ENDS and page.open is not None:
        page.end(page.open, _ENDS[new], now)
    elif new is State.DEAD:
        page.clear()
        page.save(0, Gone(now.wall_ms))


def _touched(page: IdJournal, event: PartitionsAdded, now: Now) -> None:
    story = page.open or page.begin(_begun(event, now))
    before = len(story.partitions) + len(story.groups)
    story.touch(event.partitions, event.group_id)
    page.changed(story, PARTITION_BYTES * (len(story.partitions) + len(story.groups) - before))


def _refused(page: IdJournal, event: TransactionRefused, now: Now) -> None:
    known = page.refused.get(event.error_code) or Refusals(event.error_code)
    known.take(event, now)
    page.refused.put(event.error_code, known)
    if known.is_due(now):
        known.saved(now.wall_ms)
        page.save(event.error_code, known)


def _ended_past(page: IdJournal, event: EndedPastCoordinator, now: Now) -> None:
    """Records that an operator's markers ended a transaction without its coordinator. Adds the
    transaction if the journal does not have it."""
    if not page.name:
        return  # its producer has no transactional id
    if page.open is not None:
        page.open.end_past(event)
        page.save_story(page.open)
        return
    story = Story(0, event.producer_id, event.producer_epoch, BROKER, event.since_ms)
    story.touch(event.partitions, "")
    page.begin(story)
    story.prepare(event.committed, Cause.ADMIN, HUNG, event.client, now)
    page.end(story, Outcome.COMMITTED if event.committed else Outcome.ABORTED, now)


def _begun(event: Transition | PartitionsAdded, now: Now) -> Story:
    return Story(0, event.producer_id, event.producer_epoch, event.client, now.wall_ms, now.mono_ms)


def _unseen(event: Transition, now: Now) -> Story:
    """Returns an entry for a transaction that began before the broker's start and is not in the
    journal."""
    began_ms = now.wall_ms - max(0, event.open_ms)
    story = Story(0, event.producer_id, event.producer_epoch, BROKER, began_ms)
    story.touched = event.partitions
    story.source = Source.LOG
    return story


FOLDS: dict[type, Fold[IdJournal]] = {
    Transition: _moved,
    PartitionsAdded: _touched,
    TransactionRefused: _refused,
    EndedPastCoordinator: _ended_past,
}


class Journal(Pages[IdJournal]):
    """The journal pages of all transactional ids of a broker."""

    form = FORM
    folds = FOLDS

    def __init__(self, unsaved: Unsaved | None = None, *, bytes_kept: int = BYTES_KEPT) -> None:
        super().__init__(IdJournal, bytes_kept, unsaved, attrgetter("transactional_id"))

    def wait(self, transactional_id: str, opened: Story, reader: Reader, now: Now) -> None:
        """Records that ``reader`` waits for the end of a transactional id's open transaction.

        ``opened`` describes this transaction. It is added to the journal if the journal does not
        have it, because the transaction began before the broker's start.
        """
        self.fold_observed()
        page = self.turn_to(transactional_id)
        story = page.open
        if story is None or story.began_ms < opened.began_ms:
            story = page.begin(opened)
        before = len(story.waits)
        story.wait(reader, now)
        if len(story.waits) > before:
            page.changed(story, WAIT_BYTES)
        self.count(page)

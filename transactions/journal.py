"""What became of transactions: a fold of the core's events into bounded rings, by transactional id.

``observe`` takes the events in order, each with the time at which it was emitted; `wait` takes who
was seen waiting for one, which the core can't know. Of each id the last few transactions are kept,
and longer those that are worth telling of: that did not end as their client wanted, that were open
for long, or that held readers back. All ids together take about 32 MiB; the one that has been quiet
for longest is forgotten first.

What is worth telling goes to an `Unsaved`, from which it is written down, and ``restore`` takes
over what an earlier run wrote. A transaction that is open is written down once it is some seconds
old: so a healthy load, whose transactions are short, writes nothing.
"""

from __future__ import annotations

from collections import Counter, deque

from journal.lines import Form
from journal.texts import Source, long_bytes
from journal.unsaved import Unsaved
from protocol.now import Now
from transactions.calls import BROKER
from transactions.events import (
    Cause,
    EndedPastCoordinator,
    Event,
    PartitionsAdded,
    TransactionRefused,
    Transition,
)
from transactions.journal_entries import (
    Gone,
    Kept,
    Outcome,
    Reader,
    Refusals,
    Story,
    client_kept,
)
from transactions.states import State

TOLD_KEPT = 32
"""Of one id: transactions that are worth telling of."""
RECENT_KEPT = 4
"""Of one id: the last of the others."""
BYTES_KEPT = 32 << 20
SAVED_OPEN_MS = 3_000
"""An open transaction is written down once it is so old."""
_ID_BYTES = 900
HUNG = "it hung, and an operator's request ended it past its coordinator"

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


class IdJournal:
    """The rings of one transactional id."""

    __slots__ = ("_open_bytes", "bytes", "count", "ended", "open", "recent", "refused", "told")

    def __init__(self, transactional_id: str) -> None:
        self.bytes = _ID_BYTES + long_bytes(transactional_id)
        """Estimated."""
        self._open_bytes = 0
        """Of the open one."""
        self.count = 1
        """The number of the next transaction."""
        self.open: Story | None = None
        self.told: deque[Story] = deque()
        """Those that are worth telling of, the oldest first."""
        self.recent: deque[Story] = deque()
        """The last of the others."""
        self.refused: dict[int, Refusals] = {}
        """By error code."""
        self.ended: Counter[tuple[Outcome, Cause | None]] = Counter()
        """How many ended how in this run."""

    def stories(self) -> list[Story]:
        """All that is kept, the oldest first; the open one is the last."""
        found = sorted([*self.told, *self.recent], key=lambda each: each.number)
        return found if self.open is None else [*found, self.open]

    def measure(self) -> int:
        """Count the open one anew, without its texts; how many bytes it has more."""
        grown = (0 if self.open is None else self.open.rough_size()) - self._open_bytes
        self._open_bytes += grown
        self.bytes += grown
        return grown

    def keep(self, story: Story) -> None:
        """A transaction that has ended."""
        ring, most = (
            (self.told, TOLD_KEPT) if story.is_worth_telling else (self.recent, RECENT_KEPT)
        )
        if len(ring) >= most:
            self.bytes -= ring.popleft().size()
        ring.append(story)
        self.bytes += story.size()

    def drop_oldest(self) -> bool:
        """Forget the oldest transaction; whether there was one."""
        ring = self.recent or self.told
        if ring:
            self.bytes -= ring.popleft().size()
        return bool(ring)


class Journal:
    """The journals of all transactional ids of one broker."""

    def __init__(self, bytes_kept: int = BYTES_KEPT, unsaved: Unsaved | None = None) -> None:
        self.bytes = 0
        """Estimated, all ids together."""
        self._bytes_kept = bytes_kept
        self._unsaved = unsaved
        """Takes what is to be written down; None where nothing is."""
        self._ids: dict[str, IdJournal] = {}
        """The one whose last event is longest ago first."""
        self._young: dict[str, Story] = {}
        """Open ones that are not written down yet, the oldest first."""

    # ---------------------------------------------------------------------------------- reading

    def of(self, transactional_id: str) -> IdJournal | None:
        """What is kept of an id; None where nothing happened, or it was too long ago."""
        return self._ids.get(transactional_id)

    def ids(self) -> list[str]:
        """The ids with a journal, the one that has been quiet for longest first."""
        return list(self._ids)

    # --------------------------------------------------------------------------------- the fold

    def observe(self, event: Event, now: Now) -> None:
        """Take in one fact."""
        if isinstance(event, Transition):
            self._moved(event, now)
        elif isinstance(event, PartitionsAdded):
            self._touched(event, now)
        elif isinstance(event, TransactionRefused):
            self._refused(event, now)
        elif isinstance(event, EndedPastCoordinator):
            self._ended_past(event, now)

    def wait(self, transactional_id: str, opened: Story, reader: Reader, now: Now) -> None:
        """A reader was seen waiting for the open transaction of an id.

        ``opened`` is what the core knows of that transaction; it is taken where the journal has
        none, since that began in an earlier run.
        """
        journal = self._latest(transactional_id)
        story = journal.open
        if story is None or story.began_ms < opened.began_ms:
            story = self._begin(transactional_id, journal, opened)
        before = len(story.waits)
        story.wait(reader, now)
        if len(story.waits) > before:
            self._grow(journal.measure())
            if story.is_saved:
                self._save(transactional_id, story)

    def _moved(self, event: Transition, now: Now) -> None:
        name, new = event.transactional_id, event.new
        if new is State.ONGOING:
            story = Story(
                0,
                event.producer_id,
                event.producer_epoch,
                client_kept(event.client),
                now.wall_ms,
                now.mono_ms,
            )
            self._begin(name, self._latest(name), story)
        elif new in _PREPARES:
            journal = self._ids.get(name)
            if event.old is State.ONGOING:
                journal = self._latest(name)
                story = journal.open or self._unseen(name, journal, event, now)
                story.prepare(_PREPARES[new], event.cause, event.detail, event.client, now)
                if story.is_saved or story.is_worth_telling:
                    self._save(name, story)
        elif new in _ENDS:
            journal = self._ids.get(name)
            if journal is not None and journal.open is not None:
                self._end(name, journal, journal.open, _ENDS[new], now)
        elif new is State.DEAD:
            self._forget(name)
            if self._unsaved is not None:
                self._unsaved.mark(name, 0, Gone(now.wall_ms))

    def _ended_past(self, event: EndedPastCoordinator, now: Now) -> None:
        """What hung is a story of its own; where the id has one open it is told in that."""
        name = event.transactional_id
        if not name:
            return
        journal = self._latest(name)
        if journal.open is not None:
            journal.open.end_past(event)
            self._save(name, journal.open)
            return
        story = Story(0, event.producer_id, event.producer_epoch, BROKER, event.since_ms)
        story.touch(event.partitions, "")
        self._begin(name, journal, story)
        story.prepare(event.committed, Cause.ADMIN, HUNG, event.client, now)
        outcome = Outcome.COMMITTED if event.committed else Outcome.ABORTED
        self._end(name, journal, story, outcome, now)

    def _begin(self, name: str, journal: IdJournal, story: Story) -> Story:
        if journal.open is not None:
            # A line that tells of its end was never written.
            self._end(name, journal, journal.open, Outcome.UNKNOWN, None)
        story.number = journal.count
        journal.count += 1
        journal.open = story
        if self._unsaved is not None:
            self._young[name] = story
        self._grow(journal.measure())
        return story

    def _unseen(self, name: str, journal: IdJournal, event: Transition, now: Now) -> Story:
        """A transaction that was open before this run, and of which no line tells."""
        began_ms = now.wall_ms - max(0, event.open_ms)
        story = Story(0, event.producer_id, event.producer_epoch, BROKER, began_ms)
        story.touched = event.partitions
        story.source = Source.LOG
        return self._begin(name, journal, story)

    def _end(
        self, name: str, journal: IdJournal, story: Story, outcome: Outcome, now: Now | None
    ) -> None:
        if now is None:
            story.outcome = outcome
        else:
            story.end(outcome, now)
        journal.open = None
        journal.ended[outcome, story.cause] += 1
        self._young.pop(name, None)
        if story.is_saved or story.is_worth_telling:
            self._save(name, story)
        before = journal.bytes
        journal.measure()
        journal.keep(story)
        self._grow(journal.bytes - before)

    def _touched(self, event: PartitionsAdded, now: Now) -> None:
        journal = self._latest(event.transactional_id)
        story = journal.open
        if story is None:
            client = client_kept(event.client)
            story = Story(
                0, event.producer_id, event.producer_epoch, client, now.wall_ms, now.mono_ms
            )
            self._begin(event.transactional_id, journal, story)
        story.touch(event.partitions, event.group_id)
        self._grow(journal.measure())
        if story.is_saved:
            self._save(event.transactional_id, story)

    def _refused(self, event: TransactionRefused, now: Now) -> None:
        journal = self._latest(event.transactional_id)
        known = journal.refused.get(event.error_code)
        before = 0 if known is None else known.size()
        if known is None:
            known = journal.refused[event.error_code] = Refusals(event.error_code)
        known.take(event, now)
        journal.bytes += known.size() - before
        self._grow(known.size() - before)
        if self._unsaved is not None and known.is_due(now):
            known.saved(now.wall_ms)
            self._unsaved.mark(event.transactional_id, event.error_code, known)

    # ------------------------------------------------------------------------------- for the file

    @property
    def ripens(self) -> bool:
        """Whether there are open transactions that are not written down yet."""
        return bool(self._young)

    def ripen(self, now: Now) -> None:
        """Have those written down that have become old enough."""
        while self._young:
            name, story = next(iter(self._young.items()))
            if now.mono_ms - story.began_mono_ms < SAVED_OPEN_MS:
                return
            self._save(name, story)

    def save_counts(self) -> None:
        """Have what is counted, and what is open, written down as it is; for a stop."""
        for name, story in list(self._young.items()):
            self._save(name, story)
        for name, journal in self._ids.items():
            if journal.open is not None and journal.open.waits:
                self._save(name, journal.open)
            for code, each in journal.refused.items():
                if self._unsaved is not None and each.count > each.saved_count:
                    self._unsaved.mark(name, code, each)

    def restore(self, name: str, entry: Kept) -> None:
        """Take over an entry that an earlier run wrote down; the oldest first."""
        if isinstance(entry, Gone):
            self._forget(name)
            return
        journal = self._latest(name)
        before = journal.bytes
        entry.source = Source.KEPT
        if isinstance(entry, Refusals):
            if (old := journal.refused.get(entry.error_code)) is not None:
                journal.bytes -= old.size()
            journal.refused[entry.error_code] = entry
            journal.bytes += entry.size()
        else:
            self._restore(journal, entry)
        self._grow(journal.bytes - before)

    def _restore(self, journal: IdJournal, story: Story) -> None:
        """The lines of one transaction come one after another; the last one holds."""
        story.is_saved = True
        open_before = journal.open
        if open_before is not None:
            journal.open = None
            if open_before.number != story.number:
                open_before.outcome = Outcome.UNKNOWN
                journal.keep(open_before)
        journal.count = max(journal.count, story.number + 1)
        if story.outcome.is_over:
            journal.keep(story)
        else:
            journal.open = story
        journal.measure()

    def _save(self, name: str, story: Story) -> None:
        self._young.pop(name, None)
        story.is_saved = True
        if self._unsaved is not None:
            self._unsaved.mark(name, story.number, story)

    # ------------------------------------------------------------------------------------ bounds

    def _latest(self, name: str) -> IdJournal:
        """The journal of an id to which something happens."""
        journal = self._ids.pop(name, None)
        if journal is None:
            journal = IdJournal(name)
            self.bytes += journal.bytes
        self._ids[name] = journal
        return journal

    def _forget(self, name: str) -> None:
        journal = self._ids.pop(name, None)
        self._young.pop(name, None)
        if journal is not None:
            self.bytes -= journal.bytes

    def _grow(self, size: int) -> None:
        self.bytes += size
        while self.bytes > self._bytes_kept and len(self._ids) > 1:
            self._forget(next(iter(self._ids)))
        if self.bytes > self._bytes_kept and self._ids:
            [journal] = self._ids.values()
            before = journal.bytes
            while self.bytes + journal.bytes - before > self._bytes_kept and journal.drop_oldest():
                pass
            self.bytes += journal.bytes - before

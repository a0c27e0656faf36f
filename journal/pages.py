"""The pages of a journal, one for each name (`Pages`). A page stores its entries in rings of
limited length (`Ring`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from journal.entry import Entry, Recurring
from journal.lines import Form
from journal.texts import long_bytes
from journal.unsaved import Unsaved
from protocol.now import Now


class Sized(Protocol):
    """An entry in a ring of a journal page. Its size counts against the memory limit of the
    journal."""

    def size(self) -> int:
        """Returns the estimated memory of the element in bytes, including its texts."""


KeptT = TypeVar("KeptT", bound=Sized)


class Bytes:
    """A counter of the estimated memory of several rings, in bytes."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Ring(Generic[KeptT]):
    """Up to ``most`` entries in the order in which they were added, the newest last. A ring stores
    the size of each entry; an entry that grows must be measured or added again."""

    __slots__ = ("_bytes", "_kept", "_most", "number")

    def __init__(self, most: int, counted: Bytes | None = None) -> None:
        """``counted`` counts the bytes of this ring and of all other rings of the same page."""
        self.number = 0
        """The last number that was the key of an entry; 0 if no entry had a number as key. Numbers
        begin at 1."""
        self._most = most
        self._bytes = Bytes() if counted is None else counted
        self._kept: dict[Hashable, tuple[KeptT, int]] = {}

    def __iter__(self) -> Iterator[KeptT]:
        return iter([entry for entry, _ in self._kept.values()])

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> KeptT | None:
        known = self._kept.get(key)
        return None if known is None else known[0]

    @property
    def last(self) -> KeptT | None:
        return self._kept[next(reversed(self._kept))][0] if self._kept else None

    def put(self, key: Hashable, entry: KeptT, size: int = -1) -> None:
        """Adds an entry as the newest one. The new entry replaces an entry with the same key. With
        ``size`` -1 the entry is measured now. Another ``size`` is an estimate; the caller measures
        the entry later."""
        kept = self._kept
        if isinstance(key, int):
            self.number = key
        if key in kept:
            self._bytes.count -= kept.pop(key)[1]
        elif len(kept) >= self._most:
            self.drop_oldest()
        if size < 0:
            size = entry.size()
        kept[key] = entry, size
        self._bytes.count += size

    def measure(self, key: Hashable) -> None:
        """Updates the stored size of an entry, if the entry is still in the ring."""
        known = self._kept.get(key)
        if known is not None:
            entry, before = known
            size = entry.size()
            self._kept[key] = entry, size
            self._bytes.count += size - before

    def grow(self, key: Hashable, size: int) -> None:
        """Increases the stored size of an entry by ``size``, if the entry is still in the ring."""
        known = self._kept.get(key)
        if known is not None:
            self._kept[key] = known[0], known[1] + size
            self._bytes.count += size

    def take(self, key: Hashable) -> KeptT | None:
        """Removes an entry and returns it; None if the ring does not have the key."""
        known = self._kept.pop(key, None)
        if known is None:
            return None
        self._bytes.count -= known[1]
        return known[0]

    def take_all(self) -> list[KeptT]:
        if not self._kept:
            return []
        taken = list(self)
        self._bytes.count -= sum([size for _, size in self._kept.values()])
        self._kept.clear()
        return taken

    def drop_oldest(self) -> bool:
        return bool(self._kept) and self.take(next(iter(self._kept))) is not None


class Page:
    """The entries of one name, in several rings. Each subclass defines its rings. When the journal
    is too large, the page drops entries from the ring that was created first."""

    __slots__ = ("_unsaved", "counted", "entry_bytes", "loads", "name", "own_bytes", "rings")

    def __init__(self, name: str, unsaved: Unsaved | None, own_bytes: int) -> None:
        """``own_bytes`` is the estimated memory of a page without entries."""
        self.name = name
        self.own_bytes = own_bytes + long_bytes(name)
        self.entry_bytes = Bytes()
        self.counted = 0
        self.rings: list[Ring[Any]] = []
        self.loads = 0
        """The number (see `Pages.loads`) of the last load of a log that added facts to this page; 0
        if no load added facts."""
        self._unsaved = unsaved

    def ring(self, most: int) -> Ring[Any]:
        ring: Ring[Any] = Ring(most, self.entry_bytes)
        self.rings.append(ring)
        return ring

    @property
    def bytes(self) -> int:
        """The estimated memory of the page in bytes."""
        return self.own_bytes + self.entry_bytes.count

    def drop_oldest(self) -> bool:
        return any(ring.drop_oldest() for ring in self.rings)

    def clear(self) -> None:
        for ring in self.rings:
            ring.take_all()

    def restore(self, entry: Any) -> None:
        """Loads an entry that an earlier run of the broker saved. The loaded entry replaces an
        earlier version of the same entry."""
        raise NotImplementedError

    def save(self, key: Hashable, entry: Entry) -> None:
        if self._unsaved is not None:
            self._unsaved.mark(self.name, key, entry)

    def save_counts(self) -> None:
        """Called before the broker stops. Makes the journal save the entries whose counts are not
        saved yet."""
        for ring in self.rings:
            for entry in ring:
                counted = entry if isinstance(entry, Recurring) else None
                if counted is not None and counted.count > counted.saved_count:
                    self.save(counted.key, entry)


PageT = TypeVar("PageT", bound=Page)
Fold = Callable[[PageT, Any, Now], None]


OBSERVED_MAX = 64
"""The maximum number of queued events. Each of them needs at most the memory of one record."""


class Pages(Generic[PageT]):
    """A journal: one page for each name. A page without entries is removed. An event is added to
    its page only when the journal is read or saved, not in the turn in which a core emits the
    event."""

    form: Form
    folds: Mapping[type, Fold[PageT]]
    """For each type of event, the function that applies an event to its page. An event of another
    type changes no page."""

    def __init__(
        self,
        new_page: Callable[[str, Unsaved | None], PageT],
        bytes_kept: int,
        unsaved: Unsaved | None,
        name_of: Callable[[Any], str] = str,
    ) -> None:
        """``unsaved`` collects the entries that must be saved; None if the journal is not saved.
        ``name_of`` returns the name of the page to which an event belongs."""
        self.observed: deque[tuple[Any, Now]] = deque()
        self.unsaved = unsaved
        self.bytes_kept = bytes_kept
        self.loads = 0
        """The number of loads of shards from their logs so far. After each load, `catch_up` may add
        facts from the log to a page."""
        self._bytes = 0
        self._new_page = new_page
        self._name_of = name_of
        self._pages: dict[str, PageT] = {}
        """The pages by name, ordered by their last event, oldest first."""

    @property
    def bytes(self) -> int:
        """The estimated memory of all pages in bytes."""
        self.fold_observed()
        return self._bytes

    def get(self, name: str) -> PageT | None:
        """Returns the page of a name; None if the page does not exist or was dropped."""
        self.fold_observed()
        page = self._pages.get(name)
        if page is not None and page.loads != self.loads:
            self.catch_up(page)
            self.count(page)
        return page

    def names(self) -> list[str]:
        """Returns the names that have a page, ordered by the last event of the page, the oldest
        first."""
        self.fold_observed()
        return list(self._pages)

    def observe(self, event: Any, now: Now) -> None:
        """Queues an event. ``now`` is the time at which the event was emitted; the caller passes
        events in the order of these times. If the type of the event is not in ``folds``, the event
        may be large: all queued events are then applied to the pages immediately."""
        self.observed.append((event, now))
        if len(self.observed) >= OBSERVED_MAX or type(event) not in self.folds:
            self.fold_observed()
        elif self.unsaved is not None and len(self.observed) == 1:
            self.unsaved.wake()

    def fold_observed(self) -> None:
        """Applies the queued events to their pages. If the application of an event raises an
        exception, the event is dropped, and the next call applies the events after it."""
        while self.observed:
            self.fold(*self.observed.popleft())

    def fold(self, event: Any, now: Now) -> None:
        fold = self.folds.get(type(event))
        if fold is None:
            self.fold_other(event, now)
            return
        page = self.turn_to(self._name_of(event))
        fold(page, event, now)
        self.count(page)

    def fold_other(self, event: Any, now: Now) -> None:
        """Applies an event of a type that has no function in ``folds``. By default nothing
        happens."""

    def restore(self, name: str, entry: Any) -> None:
        """Loads an entry that an earlier run of the broker saved. Callers pass the oldest entry
        first."""
        page = self.turn_to(name)
        page.restore(entry)
        self.count(page)

    def save_counts(self) -> None:
        """Called before the broker stops. Marks each entry that has changed since its last save, so
        that it is saved. A different count in an entry is also a change."""
        self.fold_observed()
        if self.unsaved is not None:
            self.unsaved.ripen(None)
            for page in self._pages.values():
                page.save_counts()

    def turn_to(self, name: str) -> PageT:
        """Returns the page of ``name``, and creates it if necessary. A page has the past events of
        one name, such as a group id. The caller may change the page, and must then call `count`."""
        page = self._pages.pop(name, None)
        if page is None:
            page = self._new_page(name, self.unsaved)
        self._pages[name] = page
        if page.loads != self.loads:
            self.catch_up(page)
        return page

    def catch_up(self, page: PageT) -> None:
        """Adds past events to a page: events that a load found in the log of the coordinator, and
        that the journal's file does not have. This base class adds none."""
        page.loads = self.loads

    def count(self, page: Page) -> None:
        """Updates the total size of the journal after a page has changed. Drops entries if the
        journal is too large."""
        entries = page.entry_bytes.count
        size = page.own_bytes + entries
        self._bytes += size - page.counted
        page.counted = size
        if not entries and self._pages.get(page.name) is page:
            self.forget(page.name)
        while self._bytes > self.bytes_kept and self.forget_oldest():
            pass

    def forget(self, name: str) -> None:
        page = self._pages.pop(name, None)
        if page is not None:
            self._bytes -= page.counted
            if self.unsaved is not None:
                self.unsaved.young.pop(name, None)

    def forget_oldest(self) -> bool:
        """Drops the page whose last event is the oldest. If only one page exists, drops the oldest
        entry of this page. Returns whether a page or an entry was dropped."""
        page = next(iter(self._pages.values()), None)
        if page is None:
            return False
        if len(self._pages) > 1:
            self.forget(page.name)
            return True
        return self.drop_oldest(page)

    def drop_oldest(self, page: Page) -> bool:
        dropped = page.drop_oldest()
        self._bytes += page.bytes - page.counted
        page.counted = page.bytes
        return dropped

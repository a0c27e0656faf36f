"""The pages of a journal, one for each name: the order in which entries are dropped, the size of
the pages, and the entries to save."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, cast

import pytest

from journal.entry import Fields, Recurring
from journal.pages import OBSERVED_MAX, Page, Pages, Ring
from journal.unsaved import UNSAVED_MAX, Unsaved
from protocol.now import Now


class Said(NamedTuple):
    text: str

    def size(self) -> int:
        return len(self.text)

    def fields(self) -> Fields:
        return {"kind": "said", "text": self.text}

    def copied(self) -> Said:
        return self


class Often(Recurring):
    @property
    def key(self) -> str:
        return "often"

    def size(self) -> int:
        return 1

    def fields(self) -> Fields:
        return {"kind": "often", "count": self.count}

    def copied(self) -> Often:
        return Often(count=self.count)


class TwoRings(Page):
    def __init__(self, name: str, unsaved: Unsaved | None) -> None:
        super().__init__(name, unsaved, 100)
        self.first: Ring[Said] = self.ring(8)
        self.second: Ring[Any] = self.ring(8)

    def restore(self, entry: Any) -> None:
        self.first.put(self.first.number + 1, entry)

    def say(self, text: str) -> None:
        number = self.first.number + 1
        self.first.put(number, Said(text))
        self.save(number, Said(text))


class Saying(Pages[TwoRings]):
    folds: ClassVar = {
        Said: lambda page, event, _: page.say(event.text),
        Often: lambda page, *_: page.clear(),
    }

    def __init__(self, bytes_kept: int, unsaved: Unsaved | None) -> None:
        super().__init__(TwoRings, bytes_kept, unsaved, lambda event: "said")


def pages(bytes_kept: int = 1 << 20, unsaved: Unsaved | None = None) -> Pages[TwoRings]:
    return Saying(bytes_kept, unsaved)


def say(journal: Pages[TwoRings], name: str, text: str) -> None:
    page = journal.turn_to(name)
    page.say(text)
    journal.count(page)


def counted(journal: Pages[TwoRings]) -> int:
    found = [journal.get(name) for name in journal.names()]
    return sum(page.bytes for page in found if page is not None)


def test_full_journal_drops_the_page_whose_newest_entry_is_the_oldest() -> None:
    journal = pages(bytes_kept=350)
    for name in ("a", "b", "a", "c", "d"):
        say(journal, name, "x")
    assert journal.names() == ["a", "c", "d"]
    assert journal.get("b") is None
    assert journal.bytes == counted(journal) <= 350


def test_oldest_entries_are_dropped_when_the_journal_has_only_one_page() -> None:
    journal = pages(bytes_kept=150)
    page = journal.turn_to("a")
    page.second.put("kept", Said("x" * 20))
    for number in range(9):
        say(journal, "a", str(number) * 10)
    assert [each.text[0] for each in page.first] == ["6", "7", "8"]
    assert [each.text for each in page.second] == ["x" * 20]
    assert journal.bytes == page.bytes == 150


def test_added_journal_entries_count_as_unsaved_and_restored_entries_as_saved() -> None:
    unsaved = Unsaved()
    journal = pages(unsaved=unsaved)
    journal.restore("a", Said("read"))
    say(journal, "a", "new")
    assert unsaved.take(9) == [("a", Said("new"))]
    assert journal.bytes == counted(journal)


def test_journal_page_without_entries_is_removed() -> None:
    journal = pages()
    journal.observe(Often(), Now(0, 0))
    assert journal.names() == []
    journal.observe(Said("x"), Now(0, 0))
    assert journal.names() == ["said"]
    journal.observe(Often(), Now(0, 0))
    assert (journal.names(), journal.bytes) == ([], 0)


def test_event_of_unknown_type_changes_no_journal_page() -> None:
    journal = pages()
    journal.observe("nothing", Now(0, 0))
    assert journal.names() == []


def test_pending_event_is_added_to_its_page_when_the_journal_is_read() -> None:
    journal = pages()
    page = journal.turn_to("said")
    journal.observe(Said("x"), Now(0, 0))
    assert (len(page.first), len(journal.observed)) == (0, 1)
    assert journal.get("said") is page
    assert (len(page.first), len(journal.observed)) == (1, 0)


def test_pending_events_are_bounded_when_the_journal_is_not_read() -> None:
    journal = pages()
    page = journal.turn_to("said")
    for number in range(OBSERVED_MAX + 3):
        journal.observe(Said(str(number)), Now(0, 0))
    assert len(journal.observed) == 3
    assert page.first.number == OBSERVED_MAX


def test_writer_of_the_journal_is_woken_once_for_several_observed_events() -> None:
    woken: list[None] = []
    journal = pages(unsaved=Unsaved(lambda: woken.append(None)))
    for text in ("x", "y", "z"):
        journal.observe(Said(text), Now(0, 0))
    assert len(woken) == 1


def test_later_events_are_added_to_pages_when_an_earlier_event_causes_an_exception() -> None:
    journal = pages()
    page = journal.turn_to("said")
    journal.observe(Said("x" * 200), Now(0, 0))
    journal.observe(Said(cast("Any", None)), Now(0, 0))
    journal.observe(Said("z"), Now(0, 0))
    with pytest.raises(TypeError):
        journal.fold_observed()
    assert journal.get("said") is page
    assert [each.text[:1] for each in page.first] == ["x", "z"]


def test_size_of_a_journal_includes_the_names_of_its_pages() -> None:
    journal = pages()
    say(journal, "n" * 1000, "x")
    assert journal.bytes > 1000


def test_save_counts_marks_recent_entries_and_entries_with_changed_counts_for_saving() -> None:
    unsaved = Unsaved()
    journal = pages(unsaved=unsaved)
    page = journal.turn_to("a")
    page.second.put("often", Often(count=3, saved_count=2))
    page.second.put("saved", Often(count=3, saved_count=3))
    unsaved.mark_old("a", 1, Said("young"), 5000)
    journal.save_counts()
    assert [entry.fields() for _, entry in unsaved.take(9)] == [
        {"kind": "said", "text": "young"},
        {"kind": "often", "count": 3},
    ]


@pytest.mark.parametrize(("ms", "ripe"), [(1999, []), (2000, ["a"]), (3000, ["a", "b"])])
def test_journal_entry_is_saved_when_it_reaches_its_minimum_age(ms: int, ripe: list[str]) -> None:
    unsaved = Unsaved()
    unsaved.mark_old("a", 1, Said("a"), 2000)
    unsaved.mark_old("b", 1, Said("b"), 3000)
    unsaved.ripen(Now(ms, 0))
    assert [name for name, _ in unsaved.take(9)] == ripe
    assert [*ripe, *unsaved.young] == ["a", "b"]


def test_young_journal_entry_is_never_saved_when_its_page_is_removed() -> None:
    unsaved = Unsaved()
    journal = pages(unsaved=unsaved)
    journal.turn_to("a")
    unsaved.mark_old("a", 1, Said("a"), 2000)
    journal.forget("a")
    assert not unsaved.young
    assert (journal.bytes, journal.names()) == (0, [])


def test_only_the_last_version_of_a_changed_journal_entry_is_saved() -> None:
    unsaved = Unsaved()
    for text in ("a", "b"):
        unsaved.mark("g", 1, Said(text))
    assert unsaved.take(9) == [("g", Said("b"))]


def test_unsaved_journal_entries_wake_the_journal_writer_only_once() -> None:
    woken: list[int] = []
    unsaved = Unsaved(lambda: woken.append(len(unsaved)))
    for _ in range(2):
        unsaved.mark("a", 1, Said("x"))
        unsaved.mark("a", 2, Said("x"))
        unsaved.take(9)
    assert woken == [1, 1]
    unsaved.mark_old("b", 1, Said("x"), 2000)
    unsaved.mark_old("c", 1, Said("x"), 2000)
    assert woken == [1, 1, 0]


def test_number_of_unsaved_entries_is_bounded_and_lost_entries_are_counted() -> None:
    unsaved = Unsaved()
    for number in range(UNSAVED_MAX + 7):
        unsaved.mark("g", number, Said("x"))
    assert (len(unsaved), unsaved.lost) == (UNSAVED_MAX, 7)
    unsaved.mark("g", 0, Said("x"))
    assert unsaved.lost == 7, "it was there already"

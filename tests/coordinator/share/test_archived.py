"""Journal entries about archived records of share groups."""

from __future__ import annotations

from dataclasses import replace

from coordinator.events import Cause, GroupRemoved
from coordinator.group_journal import ARCHIVED_KEPT
from coordinator.journal import FORM, Journal
from coordinator.share.archived import TOGETHER_MS, Archived, RecordsArchived
from journal.texts import Source
from journal.unsaved import Unsaved
from protocol.now import Now

EVENT = RecordsArchived(
    "g", b"\1" * 16, 3, 2, 7, 7, 5, "m-1", "app", "/10.0.0.7", 1_000, "lock expired"
)


def at(ms: int) -> Now:
    return Now(ms, 1_700_000_000_000 + ms)


def entries(journal: Journal) -> list[Archived]:
    page = journal.get("g")
    return [] if page is None else list(page.archived)


def test_adjacent_records_that_are_archived_together_are_one_journal_entry() -> None:
    journal = Journal()
    journal.observe(EVENT, at(0))
    journal.observe(replace(EVENT, first_offset=8, last_offset=9, began_ms=1_001), at(5))
    journal.observe(replace(EVENT, first_offset=10, last_offset=10, member_id="m-2"), at(6))
    journal.observe(replace(EVENT, first_offset=12, last_offset=12, member_id="m-2"), at(7))
    later = replace(EVENT, first_offset=13, last_offset=13, member_id="m-2")
    journal.observe(later, at(8 + TOGETHER_MS))
    found = [(each.first_offset, each.last_offset, each.member_id) for each in entries(journal)]
    assert found == [
        (7, 9, "m-1"),
        (10, 10, "m-2"),
        (12, 12, "m-2"),
        (13, 13, "m-2"),
    ]
    assert entries(journal)[0].at_ms == at(5).wall_ms


def test_journal_entry_about_archived_records_is_unchanged_after_it_is_written_and_read() -> None:
    unsaved = Unsaved()
    journal = Journal(unsaved)
    journal.observe(EVENT, at(0))
    journal.observe(replace(EVENT, first_offset=8, last_offset=8), at(1))
    journal.fold_observed()
    [(name, saved)] = unsaved.take(9)
    again = Journal()
    again.restore(*FORM.entry_of(FORM.line_of(name, saved).rstrip(b"\n")))
    [entry] = entries(again)
    assert entry.source is Source.KEPT
    assert replace(entry, source=Source.SEEN) == entries(journal)[0]
    assert (entry.first_offset, entry.last_offset, entry.deliveries) == (7, 8, 5)


def test_journal_entries_about_archived_records_are_bounded_and_removed_with_the_group() -> None:
    journal = Journal()
    for number in range(ARCHIVED_KEPT + 3):
        offset = 2 * number
        journal.observe(replace(EVENT, first_offset=offset, last_offset=offset), at(number))
    assert [each.first_offset for each in entries(journal)][:1] == [6]
    assert len(entries(journal)) == ARCHIVED_KEPT
    journal.observe(GroupRemoved("g", Cause.DELETED), at(999))
    assert entries(journal) == []

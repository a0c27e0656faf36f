"""Tests of the journal of transactions: its entries, its bounds, and its state after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from journal.lines import NotALine, fields_of
from journal.lines import line_of as checked_line
from journal.texts import Source
from journal.unsaved import Unsaved
from protocol.now import Now
from transactions.calls import BROKER, Client
from transactions.events import (
    Cause,
    EndedPastCoordinator,
    Event,
    PartitionsAdded,
    TransactionRefused,
    Transition,
)
from transactions.journal import (
    BYTES_KEPT,
    FORM,
    NOTABLE_KEPT,
    RECENT_KEPT,
    SAVED_OPEN_MS,
    Journal,
)
from transactions.journal_entries import LONG_MS, Outcome, Reader, Story
from transactions.states import State

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "journals.md"
NOON = 1_700_000_000_000
APP, OTHER = Client("billing", "10.0.0.7"), Client("billing", "10.0.0.8")
INVOICES = Reader("invoices", "orders", 0, "invoices-app", "10.0.0.9", NOON)


class JournalRun:
    """A journal of transactions with a clock. It collects the written lines."""

    def __init__(self, bytes_kept: int = BYTES_KEPT) -> None:
        self.unsaved = Unsaved()
        self.journal = Journal(self.unsaved, bytes_kept=bytes_kept)
        self.ms = 0
        self.lines: list[bytes] = []

    @property
    def now(self) -> Now:
        return Now(1000 + self.ms, NOON + self.ms)

    def see(self, *events: Event) -> None:
        for event in events:
            self.journal.observe(event, self.now)
        self.journal.fold_observed()

    def move(
        self,
        old: State | None,
        new: State,
        cause: Cause = Cause.CLIENT,
        name: str = "id",
        **more: Any,
    ) -> None:
        event = Transition(name, old, new, 7, 3, cause, f"{new.wire_name} it is")
        self.see(replace(event, **{"client": APP, **more}))

    def begin(self, name: str = "id", topic: str = "orders", group: str = "") -> None:
        self.move(State.EMPTY, State.ONGOING, name=name)
        self.see(PartitionsAdded(name, 7, 3, [(topic, [0, 1])], APP, group))

    def finish(
        self, committed: bool, cause: Cause = Cause.CLIENT, name: str = "id", **more: Any
    ) -> None:
        prepare = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
        complete = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
        self.move(State.ONGOING, prepare, cause, name, **more)
        self.ms += 5
        self.move(prepare, complete, Cause.MARKERS, name)

    def write(self) -> int:
        taken = self.unsaved.take(10_000)
        self.lines += [FORM.line_of(name, entry) for name, entry in taken]
        return len(taken)

    def next_run(self) -> JournalRun:
        again = JournalRun()
        for line in self.lines:
            again.journal.restore(*FORM.entry_of(line[:-1]))
        again.ms = self.ms + 60_000
        return again

    def stories(self, name: str = "id") -> list[Story]:
        journal = self.journal.get(name)
        return [] if journal is None else journal.stories()


def test_journal_entry_of_a_transaction_has_client_partitions_and_outcome() -> None:
    told = JournalRun()
    told.begin(group="shop")
    [story] = told.stories()
    assert story.outcome is Outcome.OPEN
    told.ms += 42_000
    told.finish(False, Cause.FENCED, client=OTHER, detail="a newer producer took the id over")
    [story] = told.stories()
    assert (story.client, story.ended_by) == (APP, OTHER)
    assert story.partitions == [("orders", 0), ("orders", 1)]
    assert (story.touched, story.groups) == (2, ["shop"])
    assert (story.outcome, story.cause) == (Outcome.ABORTED, Cause.FENCED)
    assert story.detail == "a newer producer took the id over"
    assert (story.began_ms, story.prepared_ms, story.ended_ms) == (
        NOON,
        NOON + 42_000,
        NOON + 42_005,
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_journal_entry_of_a_transaction_names_the_operator_who_wrote_its_marker(
    is_open: bool,
) -> None:
    told = JournalRun()
    told.begin()
    if not is_open:
        told.finish(True)
    told.see(EndedPastCoordinator("id", 7, 3, False, [("orders", [1]), ("more", [0])], NOON, OTHER))
    if is_open:
        told.finish(True)
    told.write()
    for stories in (told.stories(), told.next_run().stories()):
        if is_open:
            [story] = stories
            assert story.outcome is Outcome.COMMITTED
            assert story.past == (
                "an operator, client 'billing' on 10.0.0.8, aborted it in orders-1"
                " and 1 more partition"
            )
        else:
            assert (stories[-1].outcome, stories[-1].cause) == (Outcome.ABORTED, Cause.ADMIN)


def test_wait_of_a_group_for_a_transaction_is_recorded_until_the_last_marker() -> None:
    told = JournalRun()
    told.begin()
    for _ in range(3):
        told.ms += 5_000
        told.journal.wait("id", told.stories()[0], INVOICES, told.now)
    told.finish(True)
    [wait] = told.stories()[0].waits.values()
    assert (wait.reader, wait.seen_ms, wait.over) == (INVOICES, NOON + 15_005, True)


def test_wait_of_a_group_ends_at_its_last_report_when_no_report_arrives_for_5_minutes() -> None:
    told = JournalRun()
    told.begin()
    told.ms += 5_000
    told.journal.wait("id", told.stories()[0], INVOICES, told.now)
    told.ms += 300_000
    told.finish(True)
    [wait] = told.stories()[0].waits.values()
    assert wait.seen_ms == NOON + 5_000


def test_aborted_transactions_are_kept_longer_in_the_journal_than_short_commits() -> None:
    told = JournalRun()
    told.begin()
    told.finish(False, Cause.TIMEOUT)
    for _ in range(50):
        told.begin()
        told.finish(True)
    stories = told.stories()
    assert [each.number for each in stories] == [1, 48, 49, 50, 51]
    assert stories[0].cause is Cause.TIMEOUT
    assert len(stories) == RECENT_KEPT + 1
    for _ in range(2 * NOTABLE_KEPT):
        told.begin()
        told.finish(False, Cause.ADMIN)
    assert len(told.stories()) == RECENT_KEPT + NOTABLE_KEPT
    journal = told.journal.get("id")
    assert journal is not None
    assert journal.ended[Outcome.COMMITTED, Cause.CLIENT] == 50


def test_long_committed_transaction_is_kept_longer_in_the_journal_than_a_short_one() -> None:
    told = JournalRun()
    told.begin()
    told.ms += LONG_MS
    told.finish(True)
    for _ in range(9):
        told.begin()
        told.finish(True)
    assert told.stories()[0].number == 1


def test_short_committed_transactions_are_not_written_to_the_journal() -> None:
    told = JournalRun()
    for _ in range(100):
        told.begin()
        told.ms += 100
        told.unsaved.ripen(told.now)
        told.finish(True)
    assert told.write() == 0
    assert not told.unsaved.young


def test_transaction_that_is_open_for_long_is_written_to_the_journal_and_restored() -> None:
    told = JournalRun()
    told.begin(group="shop")
    assert told.unsaved.young
    told.ms += SAVED_OPEN_MS
    told.unsaved.ripen(told.now)
    assert not told.unsaved.young
    assert told.write() == 1
    told.see(PartitionsAdded("id", 7, 3, [("more", [4])], APP, ""))
    told.journal.wait("id", told.stories()[0], INVOICES, told.now)
    assert told.write() == 1

    again = told.next_run()
    [story] = again.stories()
    assert (story.source, story.outcome, story.client) == (Source.KEPT, Outcome.OPEN, APP)
    assert story.partitions[-1] == ("more", 4)
    assert [each.reader for each in story.waits.values()] == [INVOICES]
    again.finish(False, Cause.TIMEOUT)
    [story] = again.stories()
    assert (story.outcome, story.cause, story.began_ms) == (Outcome.ABORTED, Cause.TIMEOUT, NOON)
    assert again.write() == 1


def test_every_open_transaction_is_written_when_the_journal_stops() -> None:
    told = JournalRun()
    told.begin()
    told.journal.save_counts()
    told.write()
    assert [each.outcome for each in told.next_run().stories()] == [Outcome.OPEN]


def test_outcome_of_a_restored_open_transaction_is_unknown_when_the_next_transaction_begins() -> (
    None
):
    """The previous process died before it wrote the journal line about the end of the
    transaction."""
    told = JournalRun()
    told.begin()
    told.journal.save_counts()
    told.write()
    again = told.next_run()
    again.begin()
    assert [each.outcome for each in again.stories()] == [Outcome.UNKNOWN, Outcome.OPEN]
    assert [each.number for each in again.stories()] == [1, 2]


def test_open_transaction_missing_in_the_journal_is_restored_from_the_log() -> None:
    told = JournalRun()
    told.finish(False, Cause.TIMEOUT, open_ms=70_000, partitions=3)
    [story] = told.stories()
    assert (story.source, story.client, story.touched) == (Source.LOG, BROKER, 3)
    assert story.began_ms == NOON - 70_000


def test_abort_without_a_transaction_adds_no_journal_entry() -> None:
    told = JournalRun()
    told.move(State.EMPTY, State.PREPARE_ABORT)
    told.move(State.PREPARE_ABORT, State.COMPLETE_ABORT)
    assert told.stories() == []


def test_refused_calls_are_counted_by_error_and_written_at_growing_intervals() -> None:
    told = JournalRun()
    for number in range(100):
        told.see(TransactionRefused("id", 90, f"number {number}", 7, 2, OTHER))
    told.see(TransactionRefused("id", 48, "another", 7, 2, OTHER))
    journal = told.journal.get("id")
    assert journal is not None
    assert {each.error_code: each.count for each in journal.refused} == {90: 100, 48: 1}
    refused = journal.refused.get(90)
    assert refused is not None
    assert refused.detail == "number 99"
    told.write()
    told.journal.save_counts()
    told.write()
    assert 2 <= len(told.lines) <= 4
    again = told.next_run().journal.get("id")
    assert again is not None
    assert [each.count for each in again.refused if each.error_code == 90] == [100]


def test_expired_transactional_id_is_removed_from_the_journal() -> None:
    told = JournalRun()
    told.begin()
    told.finish(False, Cause.TIMEOUT)
    told.write()
    told.move(State.COMPLETE_ABORT, State.DEAD, Cause.EXPIRED)
    told.write()
    assert told.stories() == told.next_run().stories() == []
    assert FORM.name_of(told.lines[-1][:-1]) == ("id", True)


def test_full_journal_drops_transactional_ids_with_the_oldest_events_first() -> None:
    told = JournalRun(bytes_kept=200_000)
    for number in range(2_000):
        told.begin(f"id-{number}", topic="t" * 5_000)
        told.finish(False, Cause.TIMEOUT, name=f"id-{number}")
    assert told.journal.bytes <= 200_000
    ids = told.journal.names()
    assert ids[-1] == "id-1999"
    assert 10 < len(ids) < 200


def test_journal_entry_of_a_transaction_with_many_partitions_is_bounded() -> None:
    told = JournalRun()
    told.begin()
    told.see(PartitionsAdded("id", 7, 3, [("wide", range(10_000))], APP, ""))
    for number in range(10_000):
        reader = INVOICES._replace(group_id=f"g{number}", client_id="c" * 9_000)
        told.journal.wait("id", told.stories()[0], reader, told.now)
    [story] = told.stories()
    assert story.touched == 10_002
    assert len(story.partitions) == len(story.waits) == 64
    assert story.more_waits == 10_000 - 64
    assert len(FORM.line_of("id", story)) < 100_000


def test_later_events_do_not_change_a_journal_entry_that_is_being_written() -> None:
    told = JournalRun()
    told.begin()
    told.journal.save_counts()
    [(_, taken)] = told.unsaved.take(1)
    told.see(PartitionsAdded("id", 7, 3, [("more", [4])], APP, ""))
    told.journal.wait("id", told.stories()[0], INVOICES, told.now)
    assert isinstance(taken, Story)
    assert (len(taken.partitions), taken.waits) == (2, {})


def test_transaction_example_on_the_journal_page_is_decoded_and_encoded() -> None:
    section = PAGE.read_text().split("\n## Transactions\n")[1]
    text = section.split("```text\n")[1].split("```")[0].encode()
    first, second = text.splitlines(keepends=True)
    assert first == FORM.first_line
    name, story = FORM.entry_of(second[:-1])
    assert isinstance(story, Story)
    assert (name, story.number, story.cause) == ("billing-1", 12, Cause.TIMEOUT)
    assert [each.reader.group_id for each in story.waits.values()] == ["invoices"]
    assert FORM.line_of(name, story) == second
    for kind in ("transaction", "refused", "gone"):
        assert f"| `{kind}` |" in PAGE.read_text()


@pytest.mark.parametrize("kind", ["transaction", "refused", "gone"])
def test_journal_line_with_missing_or_wrong_fields_is_refused(kind: str) -> None:
    told = JournalRun()
    told.begin()
    told.see(TransactionRefused("id", 90, "x", 7, 2, OTHER))
    told.finish(False, Cause.TIMEOUT)
    told.write()
    told.move(State.COMPLETE_ABORT, State.DEAD, Cause.EXPIRED)
    told.write()
    [line] = [each for each in told.lines if fields_of(each[:-1])["kind"] == kind]
    fields = fields_of(line[:-1])
    FORM.entry_of(line[:-1])
    for name in fields:
        rest = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(NotALine):
            FORM.entry_of(checked_line(rest)[:-1])
        with pytest.raises(NotALine):
            FORM.entry_of(checked_line({**fields, name: {"no": "such"}})[:-1])

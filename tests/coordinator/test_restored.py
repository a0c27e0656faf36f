"""A journal is restored from the lines that an earlier process wrote, and from the log."""

from __future__ import annotations

from typing import Any

from coordinator.events import Cause, LoadedGeneration, OffsetsMovedBack, ShardLoaded, Transition
from coordinator.group_journal import GroupJournal
from coordinator.journal import FORM, Journal
from coordinator.journal_entries import Flapping
from coordinator.journal_rebalance import Rebalance
from journal.texts import Source
from journal.unsaved import Unsaved
from protocol.now import Now
from tests.coordinator.calls_for_tests import commit, heartbeat, join, leave
from tests.coordinator.test_journal import JournaledShard, flap, flapper, offsets, reloaded, size_of

DAY_MS = 86_400_000


class Writing(JournaledShard):
    """A shard whose journal writes its entries as lines."""

    def __init__(self, **settings: int) -> None:
        self.unsaved = Unsaved()
        self.lines: list[bytes] = []
        super().__init__(Journal(unsaved=self.unsaved), **settings)

    def write(self) -> None:
        """Writes the pending entries as lines, as the broker does 0.1 s after an event."""
        self.journal.fold_observed()
        for group_id, entry in self.unsaved.take(1000):
            self.lines.append(FORM.line_of(group_id, entry)[:-1])

    def take(self, outcome: Any) -> Any:
        super_outcome = super().take(outcome)
        self.write()
        return super_outcome

    def next_run(self) -> Journal:
        """Returns the journal that the next process would restore from the written lines."""
        journal = Journal(unsaved=Unsaved())
        for line in self.lines:
            journal.restore(*FORM.entry_of(line))
        return journal


def told_of(journal: Journal) -> GroupJournal:
    entry = journal.get("g")
    assert entry is not None
    return entry


def loaded(*generations: LoadedGeneration, at_ms: int = DAY_MS) -> tuple[ShardLoaded, Now]:
    return ShardLoaded(1, {"g": generations}), Now(0, at_ms)


def generation(number: int, leader: str | None, at_ms: int, members: int = 1) -> LoadedGeneration:
    protocol = "range" if members else None
    return LoadedGeneration(number, number, protocol, leader, members, at_ms)


def test_restored_journal_equals_the_saved_journal_except_for_source_and_monotonic_times() -> None:
    told = Writing()
    a, b = told.form("a", "b")
    told.handle(leave("bye", b))
    told.handle(join("again", a))
    told.handle(commit(1, a, 7))
    told.handle(commit(2, a, 8))
    told.handle(leave("bye a", a))
    told.handle(commit(3, topics=offsets((0, 50))))
    told.handle(commit(4, topics=offsets((0, 40))))
    before, after = told.entry, told_of(told.next_run())

    assert [each.number for each in after.rebalances] == [1, 2, 3, 4]
    for was, now in zip(before.rebalances, after.rebalances, strict=True):
        assert now.source is Source.KEPT
        now.source, now.began_mono_ms = was.source, was.began_mono_ms
        now.sync_began_mono_ms = was.sync_began_mono_ms
        assert now == was
    assert [each._replace(source=Source.SEEN) for each in after.moved_back] == list(
        before.moved_back
    )
    assert [(each.key.error_code, each.count) for each in after.rejected] == [(22, 2)]
    assert (after.rebalances.number, after.seen) == (before.rebalances.number, 0)
    assert after.moved_back.number == 1


def test_rebalance_interrupted_by_a_crash_is_restored_from_the_journal_with_outcome_stopped() -> (
    None
):
    told = Writing()
    told.form("a", "b")
    told.handle(join("n", fresh_id="n"))
    after = told_of(told.next_run())
    last = after.rebalances.last
    assert last is not None
    assert (last.phase, last.outcome, last.source) == ("ended", "stopped", Source.KEPT)
    assert after.open_rebalance is None


def test_rebalance_numbers_continue_after_a_restart() -> None:
    told = Writing()
    told.form("a")
    journal = told.next_run()
    event = Transition("g", "Stable", "PreparingRebalance", 1, Cause.MEMBER_LEFT, "x")
    journal.observe(event, Now(0, DAY_MS))
    numbers = [(each.number, each.source) for each in told_of(journal).rebalances]
    assert numbers == [(1, Source.KEPT), (2, Source.SEEN)]
    assert told_of(journal).seen == 1


def test_flapping_and_restarted_clients_survive_a_broker_restart() -> None:
    told = Writing()
    told.shard, told.log = flapper().shard, flapper().log
    for number in range(3):
        flap(told, ["u", "t"] if number % 2 == 0 else ["t", "u"], number)
    told.handle(leave("bye", "c-b"))
    told.handle(join("back", client_id="c", fresh_id="again"))
    journal = told.next_run()
    (flapping,) = journal.flapping("g")
    assert (flapping.member_id, flapping.changes, flapping.source) == ("c-b", 3, Source.KEPT)
    (returning,) = journal.returning("g")
    assert (returning.times, returning.before, returning.is_kept) == (1, "c-b", True)


def test_journal_restores_a_bounded_number_of_flapping_members() -> None:
    journal = Journal()
    for number in range(200):
        journal.restore("g", Flapping(f"m-{number}", "app", "/h", 3, DAY_MS, "other topics", True))
    assert [each.member_id for each in told_of(journal).changed] == [
        f"m-{number}" for number in range(136, 200)
    ]


def test_repeated_takeovers_of_a_static_member_are_one_journal_note() -> None:
    told = Writing()
    began_ms = told.now.wall_ms
    for number in range(60):
        for instance in ("i", "k"):
            told.handle(join(f"{instance}{number}", group_instance_id=instance))
        told.mono_ms += 1000
    last_ms = told.now.wall_ms - 1000
    kept = [(each.instance, each.times, each.since_ms) for each in told.entry.notes]
    assert kept == [("i", 59, began_ms + 1000), ("k", 59, began_ms + 1000)]
    assert {each.at_ms for each in told.entry.notes} == {last_ms}
    restored = told_of(told.next_run()).notes
    assert [(each.instance, each.times, each.since_ms) for each in restored] == kept
    told.mono_ms += 400_000
    told.handle(join("late", group_instance_id="i"))
    assert [(each.instance, each.times) for each in told.entry.notes][-1] == ("i", 1)


def test_count_of_refused_joins_continues_after_a_restart() -> None:
    told = Writing()
    (a,) = told.form("a")
    for number in range(8):
        told.handle(commit(number, a, 7))
    journal = told.next_run()
    (kept,) = told_of(journal).rejected
    assert kept.source is Source.KEPT
    event = kept.last
    assert event is not None
    journal.observe(event, Now(0, DAY_MS))
    (seen,) = told_of(journal).rejected
    assert (seen.count, seen.source) == (9, Source.SEEN)


# ------------------------------------------------------------------------- when lines are written


def test_repeated_journal_entry_is_written_only_at_its_1st_2nd_4th_and_8th_repetition() -> None:
    told = Writing()
    (a,) = told.form("a")
    lines = len(told.lines)
    for number in range(1000):
        told.mono_ms += 10
        told.handle(commit(number, a, 7))
        told.handle(heartbeat(f"h{number}", a))
    assert len(told.lines) - lines == 10, "the 1st, 2nd, 4th ... 512th"
    told.mono_ms += 60_000
    told.handle(commit("later", a, 7))
    assert len(told.lines) - lines <= 15
    told.handle(commit("one more", a, 7))
    told.journal.save_counts()
    told.write()
    kept = told_of(told.next_run()).rejected
    counts = [(each.key, each.count) for each in told.entry.rejected]
    assert [(each.key, each.count) for each in kept] == counts


def test_journal_entry_about_lowered_offsets_is_written_once_a_minute_after_64_writes() -> None:
    unsaved = Unsaved()
    journal = Journal(unsaved=unsaved)
    for number in range(200):
        event = OffsetsMovedBack("g", "", "c", "/h", 1, ())
        journal.observe(event, Now(number * 1000, DAY_MS + number * 1000))
    assert len(unsaved) == 64 + 2
    assert told_of(journal).moved_back.number == 200


def test_changed_journal_entry_is_written_once_with_its_latest_state() -> None:
    unsaved = Unsaved()
    told = JournaledShard(Journal(unsaved=unsaved))
    told.form("a")
    told.journal.fold_observed()
    ((group_id, entry),) = unsaved.take(10)
    assert isinstance(entry, Rebalance)
    assert (group_id, entry.outcome, entry.generation_id) == ("g", "assigned", 1)
    assert entry is not told.last
    assert not unsaved.take(10)


# ----------------------------------------------------------------------------------------- the log


def test_journal_without_a_file_has_the_generations_of_the_log() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    told.handle(join("again", a))
    told.handle(leave("bye", a))
    journal = reloaded(told).journal
    entries = journal.rebalances("g")
    assert [(each.number, each.generation_id, each.source) for each in entries] == [
        (1, 1, Source.LOG),
        (2, 3, Source.LOG),
    ]
    assert {each.cause for each in entries} == {Cause.UNKNOWN}
    assert (entries[0].leader, entries[0].members, entries[0].outcome) == (a, 1, "assigned")
    assert (entries[-1].members, entries[-1].outcome) == (0, "nobody left")
    assert journal.get("g") is None, "to read is to change nothing"
    journal.observe(
        Transition("g", "Empty", "PreparingRebalance", 3, Cause.MEMBER_JOINED, "x"), Now(0, DAY_MS)
    )
    numbers = [each.number for each in journal.rebalances("g")]
    assert numbers == list(range(1, len(entries) + 2))
    assert journal.rebalances("g")[-1].source is Source.SEEN


def test_generation_in_both_the_journal_file_and_the_log_is_restored_once() -> None:
    told = Writing()
    a, _ = told.form("a", "b")
    told.handle(join("again", a))
    journal = told.next_run()
    again = reloaded(told)
    for event in [ShardLoaded(1, {"g": again.journal.restored("g").generations})]:  # type: ignore[union-attr]
        journal.observe(event, again.now)
    sources = {each.source for each in journal.rebalances("g")}
    assert sources == {Source.KEPT}


def test_generations_missing_in_the_journal_file_are_restored_from_the_log() -> None:
    journal = Journal()
    kept = Rebalance(5, 3000, 0, Cause.MEMBER_LEFT, "b left", "b", 2, (), 3000)
    kept.phase, kept.outcome, kept.ended_ms, kept.generation_id = "ended", "assigned", 3100, 3
    kept.leader = "a"
    journal.restore("g", kept)
    journal.observe(
        *loaded(
            generation(2, "a", 2000), generation(3, "a", 3100), generation(4, "a", 4000),
        )
    )  # fmt: skip
    entries = journal.rebalances("g")
    assert [(each.generation_id, each.source) for each in entries] == [
        (2, Source.LOG),
        (3, Source.KEPT),
        (4, Source.LOG),
    ]
    numbers = [each.number for each in entries]
    assert numbers == sorted(set(numbers))
    assert told_of(journal).rebalances.number == numbers[-1]


def test_unfinished_rebalance_in_the_journal_file_is_completed_from_the_log() -> None:
    journal = Journal()
    running = Rebalance(5, 3000, 0, Cause.MEMBER_LEFT, "b left", "b", 2, ("a",), 9000)
    journal.restore("g", running)
    journal.observe(*loaded(generation(3, "a", 3200)))
    (entry,) = journal.rebalances("g")
    assert (entry.outcome, entry.generation_id, entry.leader) == ("assigned", 3, "a")
    assert (entry.detail, entry.ended_ms, entry.source) == ("b left", 3200, Source.KEPT)


def test_load_of_another_group_does_not_end_a_rebalance_in_progress() -> None:
    journal = Journal(rebalances_kept=2)
    journal.observe(*loaded(generation(1, "a", 1000)))
    for number in range(1, 4):
        before = Transition("g", "Stable", "PreparingRebalance", number, Cause.MEMBER_LEFT, "x")
        journal.observe(before, Now(number, DAY_MS + number))
    running = told_of(journal).open_rebalance
    assert running is not None
    journal.observe(ShardLoaded(1, {"other": [generation(1, "z", 5)]}), Now(9, DAY_MS + 9))
    assert told_of(journal).open_rebalance is running
    assert [each.source for each in told_of(journal).rebalances] == [Source.SEEN] * 2


def test_size_of_a_restored_journal_is_the_sum_of_its_entries() -> None:
    told = Writing()
    told.form("a", "b", "c")
    for number in range(5):
        told.handle(join(f"n{number}", fresh_id=f"n{number}"))
        told.handle(leave(f"l{number}", f"c-n{number}"))
    journal = told.next_run()
    journal.observe(*loaded(generation(77, "z", 5)))
    entry = told_of(journal)
    rebalances = sum(each.size() for each in entry.rebalances)
    returns = size_of(entry.returns)
    assert entry.bytes == GroupJournal("g").own_bytes + rebalances + returns
    assert journal.bytes > entry.bytes, "and the load"

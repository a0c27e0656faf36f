"""Journal entries about losses: administrative actions by which a group skips records."""

from __future__ import annotations

import pytest

from coordinator.calls import DeleteGroup, OffsetDelete, Sender
from coordinator.events import Loss, LostByAdmin, MovedOffset
from coordinator.journal import Journal
from coordinator.journal_entries import Lost
from journal.texts import Source
from protocol.now import Now
from tests.coordinator.calls_for_tests import commit, leave
from tests.coordinator.test_journal import JournaledShard, measured, offsets
from tests.coordinator.test_restored import Writing, told_of

OPS = Sender("User:ops", "cli", "/10.0.0.9")


def used(told: JournaledShard | None = None) -> JournaledShard:
    """Returns a shard with an empty group that has had a member, and whose committed offsets are 5
    and 7."""
    told = told or JournaledShard()
    (a,) = told.form("a")
    told.handle(commit(1, a, 1, topics=offsets((0, 5), (1, 7))))
    told.handle(leave("bye", a))
    return told


def reset(told: JournaledShard, *pairs: tuple[int, int]) -> None:
    who = {"client_id": "cli", "client_host": "/10.0.0.9", "principal": "User:ops"}
    told.handle(commit(("reset", pairs), topics=offsets(*pairs), **who))


def test_forward_offset_reset_is_recorded_as_a_loss_with_principal_client_and_offsets() -> None:
    told = used()
    reset(told, (0, 20), (1, 7))
    (lost,) = told.entry.losses
    assert lost.event == LostByAdmin(
        "g", Loss.SKIPPED, "User:ops", "cli", "/10.0.0.9", 1, (MovedOffset("t", 0, 5, 20),)
    )
    assert (lost.at_ms, lost.number, lost.times) == (told.now.wall_ms, 1, 1)


def test_backward_offset_reset_is_recorded_with_its_principal_but_not_as_a_loss() -> None:
    told = used()
    reset(told, (0, 1))
    (moved,) = told.entry.moved_back
    assert moved.event.principal == "User:ops"
    assert not told.entry.losses


def test_commits_of_members_and_of_simple_groups_are_not_recorded_as_losses() -> None:
    told = JournaledShard()
    (a,) = told.form("a")
    told.handle(commit(1, a, 1, topics=offsets((0, 5))))
    told.handle(commit(2, a, 1, topics=offsets((0, 50))))
    assert not told.entry.losses
    simple = JournaledShard()
    for number in range(3):
        reset(simple, (0, number))
    assert simple.journal.get("g") is None


def test_repeated_commits_without_a_member_are_one_loss_entry_in_the_journal() -> None:
    """The commits come from a consumer that uses manual assignment, in a group that had members
    before."""
    told = used()
    for number in range(10, 500):
        reset(told, (0, number), (1, number))
    (lost,) = told.entry.losses
    assert lost.times == 490
    assert lost.event.examples == (MovedOffset("t", 0, 5, 499), MovedOffset("t", 1, 7, 499))
    assert told.journal.bytes == told.entry.bytes


def test_consecutive_offset_resets_of_a_partition_are_one_loss_entry() -> None:
    told = used()
    reset(told, (0, 20))
    reset(told, (1, 20))
    reset(told, (1, 30))
    first, second = told.entry.losses
    assert first.event.examples == (MovedOffset("t", 0, 5, 20),)
    assert second.event.examples == (MovedOffset("t", 1, 7, 30),)


def test_deletions_of_offsets_and_groups_are_recorded_with_the_principal() -> None:
    told = used()
    told.handle(OffsetDelete("o", "g", [("t", [1, 9])], OPS))
    told.handle(DeleteGroup("d", "g", OPS))
    deleted, group = [each.event for each in told.entry.losses]
    assert deleted == LostByAdmin("g", Loss.OFFSETS_DELETED, *OPS, 1, (MovedOffset("t", 1, 7, -1),))
    assert group == LostByAdmin("g", Loss.GROUP_DELETED, *OPS, 1, (MovedOffset("t", 0, 5, -1),))


def test_journal_entries_about_losses_are_restored_after_a_restart() -> None:
    told = used(Writing())
    assert isinstance(told, Writing)
    reset(told, (0, 20))
    for number in (30, 40, 50):
        reset(told, (1, number))
    before = list(told.entry.losses)
    after = told_of(told.next_run())
    assert next(each._replace(source=Source.SEEN) for each in after.losses) == before[0]
    assert [each.number for each in after.losses] == [1, 2]
    assert after.losses.number == 2
    assert {each.source for each in after.losses} == {Source.KEPT}


@pytest.mark.parametrize("length", [30, 32_000])
def test_estimated_size_of_journal_entries_about_losses_is_within_a_factor_of_two(
    length: int,
) -> None:
    def build() -> Journal:
        journal = Journal()
        for number in range(100):
            for group in range(5):
                text = "x" * length + str(number)
                moved = tuple(
                    MovedOffset(f"{number}-{i}" + "t" * min(length, 200), i, 5, 10**6 + number)
                    for i in range(8)
                )
                event = LostByAdmin(f"g{group}", Loss.TRIMMED, text, text + "c", "/h", 8, moved)
                journal.observe(event, Now(number, number))
        assert journal.bytes == sum(journal.get(name).bytes for name in journal.names())
        return journal

    said, taken = measured(build)
    assert taken / 2 < said < 2 * taken


def test_number_of_journal_entries_about_missed_records_of_a_group_is_bounded() -> None:
    journal = Journal()
    for number in range(200):
        event = LostByAdmin("g", Loss.TRIMMED, "p", "c", "/h", 1, (MovedOffset("t", number, 1, 2),))
        journal.observe(event, Now(number, number))
    kept = journal.get("g")
    assert kept is not None
    assert (len(kept.losses), kept.losses.number) == (64, 200)
    assert isinstance(kept.losses.last, Lost)

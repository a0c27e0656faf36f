"""Deletion and expiry of many offsets are divided into slices of bounded size. A crash between two
slices leaves a valid group."""

from __future__ import annotations

import pytest

from coordinator.calls import DeleteGroup, OffsetFetch, TopicOffsets
from coordinator.classic.states import State
from coordinator.classic.sweeps import EVERY_LOG_OFFSET
from coordinator.outcome import CommitReply, FetchReply, Outcome
from offsets.runs import OffsetTombstones
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    NONE,
    NOT_COORDINATOR,
)
from tests.coordinator.calls_for_tests import Driver, commit, join
from tests.coordinator.invariants import check_against_log, reloaded

TOPICS, PARTITIONS = 5, 1000
TOMBSTONES_MAX = 500
"""The maximum number of tombstones that one piece of a sweep writes. Such a piece takes about 5 ms,
including the append to the log."""


def filled(**settings: int) -> Driver:
    """Returns a shard with a small group and a large group. Both groups have no members."""
    driver = Driver(**settings)
    driver.handle(commit("small", group_id="small"))
    columns = list(range(PARTITIONS))
    for number in range(TOPICS):
        topic = f"t{number or ''}"
        offsets = TopicOffsets(topic, columns, columns, [-1] * PARTITIONS, None, None)
        driver.handle(commit(topic, topics=[offsets]))
    return driver


def dropped(outcome: Outcome) -> int:
    return sum(len(run) for run in outcome.records if isinstance(run, OffsetTombstones))


def work_off(driver: Driver, pieces: list[Outcome]) -> None:
    """Runs all pending slices of work one by one. Appends the outcome of each slice to ``pieces``,
    and compares the shard with its log."""
    while (due_ms := driver.shard.next_deadline()) is not None and due_ms <= driver.mono_ms:
        pieces.append(driver.take(driver.shard.expire(driver.now, 100)))
        check_against_log(driver.shard, driver.config, driver.log, driver.now)


def test_delete_group_of_a_large_group_is_answered_after_the_last_slice() -> None:
    driver = filled()
    pieces = [driver.handle(DeleteGroup("ticket", "g"))]
    assert not pieces[0].replies
    assert set(driver.shard.view.parked()) == {"ticket"}
    assert driver.shard.view.groups["g"].state is State.DEAD
    # as documented, a group in deletion is DEAD: clients retry, and no offsets are listed
    assert driver.answer(commit("c")) == CommitReply(COORDINATOR_NOT_AVAILABLE)
    assert driver.error(join("j")) == COORDINATOR_NOT_AVAILABLE
    assert driver.answer(DeleteGroup("again", "g")) == GROUP_ID_NOT_FOUND
    fetched = driver.answer(OffsetFetch("f", "g", None))
    assert isinstance(fetched, FetchReply)
    assert not fetched.topics

    work_off(driver, pieces)

    assert [reply for piece in pieces for reply in piece.replies] == [("ticket", NONE)]
    assert pieces[-1].replies
    assert sum(map(dropped, pieces)) == TOPICS * PARTITIONS
    assert max(map(dropped, pieces)) <= TOMBSTONES_MAX
    assert list(driver.shard.view.groups) == ["small"]
    assert driver.shard.view.offsets.count() == 1
    told = [type(event).__name__ for piece in pieces for event in piece.events]
    assert told == ["LostByAdmin", "Transition", "OffsetsExpired", "GroupRemoved"]


def test_interrupted_deletion_of_a_group_removes_some_offsets_and_keeps_the_group() -> None:
    driver = filled()
    driver.handle(DeleteGroup("lost", "g"))
    driver.take(driver.shard.expire(driver.now, 100))

    driver.shard = reloaded(driver.config, driver.log, driver.now)

    left = driver.shard.view.offsets.count() - 1
    assert 0 < left < TOPICS * PARTITIONS
    assert driver.shard.view.groups["g"].state is State.EMPTY
    pieces = [driver.handle(DeleteGroup("again", "g"))]
    work_off(driver, pieces)
    assert pieces[-1].replies == [("again", NONE)]
    assert driver.shard.view.offsets.count() == 1


def test_unload_answers_a_parked_delete_group() -> None:
    driver = filled()
    driver.handle(DeleteGroup("ticket", "g"))

    assert driver.shard.unload(NOT_COORDINATOR).replies == [("ticket", NOT_COORDINATOR)]
    assert not driver.shard.view.parked()


def test_offsets_of_a_deleted_topic_are_removed_in_slices() -> None:
    driver = filled()
    topics = {"t": EVERY_LOG_OFFSET, "t2": EVERY_LOG_OFFSET}
    pieces = [driver.take(driver.shard.topics_deleted(topics, driver.now, "ticket"))]
    work_off(driver, pieces)

    assert [reply for piece in pieces for reply in piece.replies] == [("ticket", NONE)]
    assert max(map(dropped, pieces)) <= TOMBSTONES_MAX
    assert sum(map(dropped, pieces)) == 2 * PARTITIONS + 1
    assert set(driver.shard.view.offsets.topics("g")) == {"t1", "t3", "t4"}
    assert not driver.shard.view.offsets.has_offsets("small")


def test_offsets_of_a_recreated_topic_are_kept_when_offsets_of_the_deleted_topic_are_removed() -> (
    None
):
    driver = filled()
    bound = sum(len(run) for _, run in driver.log)
    new = [TopicOffsets("t", [7, 2000], [70, 71], [-1, -1], None, None)]
    driver.handle(commit("new", topics=new))
    pieces = [driver.take(driver.shard.topics_deleted({"t": bound}, driver.now, "ticket"))]
    later = [TopicOffsets("t", [999], [72], [-1], None, None)]
    driver.handle(commit("between two pieces", topics=later))
    work_off(driver, pieces)

    assert driver.shard.view.offsets.partitions("g", "t") == [7, 999, 2000]
    assert driver.shard.view.offsets.partitions("small", "t") == []


@pytest.mark.parametrize("budget", [1, 100])
def test_offsets_of_a_large_group_expire_in_slices(budget: int) -> None:
    driver = filled(offsets_retention_ms=1000, offsets_retention_check_interval_ms=5000)
    driver.mono_ms = 5000
    pieces = []
    while (due_ms := driver.shard.next_deadline()) is not None and due_ms <= driver.mono_ms:
        pieces.append(driver.take(driver.shard.expire(driver.now, budget)))

    assert max(map(dropped, pieces)) <= TOMBSTONES_MAX
    assert sum(map(dropped, pieces)) == TOPICS * PARTITIONS + 1
    assert not driver.shard.view.groups
    assert driver.shard.view.offsets.count() == 0


def test_group_that_gets_a_member_during_expiry_keeps_its_remaining_offsets() -> None:
    driver = filled(offsets_retention_ms=1000, offsets_retention_check_interval_ms=5000)
    driver.mono_ms = 5000
    driver.take(driver.shard.expire(driver.now, 100))
    left = driver.shard.view.offsets.count()
    assert 0 < left < TOPICS * PARTITIONS
    driver.handle(join("j", supports_skip_assignment=False))
    pieces: list[Outcome] = []
    while driver.shard.is_sweeping:
        pieces.append(driver.take(driver.shard.expire(driver.now, 100)))

    assert driver.shard.view.offsets.count() == left
    assert "g" in driver.shard.view.groups

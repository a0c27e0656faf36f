"""Tests of the decisions of a follower: where it truncates its log, which offset it fetches next,
and how it handles errors."""

from __future__ import annotations

import pytest

from protocol.errors import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from replication.follower import (
    Begin,
    Cut,
    OnError,
    Reset,
    Way,
    begin,
    cut_to,
    follower_high_watermark,
    on_error,
    reset,
)
from tests.replication.world import Node


@pytest.mark.parametrize(
    ("way", "latest_epoch", "expected"),
    [
        (Way.BY_FETCH, 3, Begin.FETCH),
        (Way.BY_FETCH, -1, Begin.CUT),
        (Way.BY_EPOCH, 3, Begin.ASK),
        (Way.BY_EPOCH, -1, Begin.CUT),
        (Way.BY_HIGH_WATERMARK, 3, Begin.CUT),
        (Way.BY_HIGH_WATERMARK, -1, Begin.CUT),
    ],
)
def test_first_step_of_a_follower_depends_on_its_truncation_method_and_epoch(
    way: Way, latest_epoch: int, expected: Begin
) -> None:
    assert begin(way, latest_epoch) is expected


@pytest.mark.parametrize(
    ("epoch", "end", "expected", "why"),
    [
        (-1, -1, Cut(5, done=True), "the leader knows nothing: to the high watermark"),
        (7, -1, Cut(5, done=True), "nor an end"),
        (-1, 8, Cut(8, done=True), "a leader of version 0: no epoch"),
        (-1, 30, Cut(12, done=True), "never behind one's own end"),
        (4, 8, Cut(8, done=True), "the leader's end of that epoch is before one's own"),
        (4, 30, Cut(12, done=True), "one's own is before the leader's"),
        (2, 9, Cut(9, done=True), "an older epoch that is known here"),
        (2, 30, Cut(10, done=True), "where it ended here"),
        (3, 9, Cut(10, done=False), "known there alone: to the end of the one before, ask again"),
        (1, 4, Cut(0, done=True), "older than all here: nothing of it is left"),
        (9, 30, Cut(12, done=True), "newer than all here"),
    ],
)
def test_follower_truncates_its_log_at_the_leaders_end_offset_of_the_epoch(
    epoch: int, end: int, expected: Cut, why: str
) -> None:
    own = Node(2, log=[(2, "")] * 10 + [(4, "")] * 2, epochs=[(2, 0), (4, 10)])
    assert cut_to(epoch, end, own.end_of, own.end, 5) == expected, why


@pytest.mark.parametrize(
    ("leader_start", "leader_end", "expected"),
    [
        (0, 7, Reset(7)),
        (0, 10, Reset(10)),
        (0, 15, Reset(10)),
        (10, 15, Reset(10)),
        (11, 15, Reset(11, drop_all=True)),
        (3, 3, Reset(3)),
    ],
)
def test_reset_follower_begins_at_an_offset_in_the_log_of_the_leader(
    leader_start: int, leader_end: int, expected: Reset
) -> None:
    assert reset(leader_start, leader_end, 10) == expected


@pytest.mark.parametrize(
    ("leader", "end", "start", "expected"),
    [(7, 10, 0, 7), (12, 10, 0, 10), (0, 10, 4, 4), (12, 10, 10, 10)],
)
def test_high_watermark_of_a_follower_stays_within_its_log(
    leader: int, end: int, start: int, expected: int
) -> None:
    assert follower_high_watermark(leader, end, start) == expected


@pytest.mark.parametrize(
    ("error_code", "asked_epoch", "expected"),
    [
        (OFFSET_OUT_OF_RANGE, 5, OnError.RESET),
        (FENCED_LEADER_EPOCH, 5, OnError.WAIT),
        (FENCED_LEADER_EPOCH, 4, OnError.AGAIN),
        (UNKNOWN_LEADER_EPOCH, 5, OnError.RETRY),
        (NOT_LEADER_OR_FOLLOWER, 5, OnError.RETRY),
        (UNKNOWN_TOPIC_OR_PARTITION, 5, OnError.RETRY),
        (UNKNOWN_TOPIC_ID, 5, OnError.RETRY),
        (INCONSISTENT_TOPIC_ID, 5, OnError.RETRY),
        (CORRUPT_MESSAGE, 5, OnError.RETRY),
        (KAFKA_STORAGE_ERROR, 5, OnError.RETRY),
        (UNKNOWN_SERVER_ERROR, 5, OnError.RETRY),
    ],
)
def test_follower_reacts_to_each_error_code(
    error_code: int, asked_epoch: int, expected: OnError
) -> None:
    assert on_error(error_code, asked_epoch, 5) is expected

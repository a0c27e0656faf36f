"""Tests of how deliveries of records end: acknowledgements, expired locks and closed sessions.
Source: Kafka 4.3.1; KIP-932."""

from __future__ import annotations

import pytest

from protocol import errors
from share.partition.share_partition import SharePartition
from share.partition.values import AckBatch, Acknowledged
from share.values import DeliveryState, StateBatch
from tests.share.partition.share_partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    LOCK_MS,
    REJECT,
    RELEASE,
    RENEW,
    acknowledge,
    acquire,
    at,
    fetched,
    partition,
    states,
    stored,
)

# --- transitions: the start offset stays at 0, because record 0 stays acquired

ENDINGS = [
    pytest.param(GAP, 1, ARCHIVED, id="gap"),
    pytest.param(ACCEPT, 1, ACKNOWLEDGED, id="accepted"),
    pytest.param(ACCEPT, 5, ACKNOWLEDGED, id="accepted at the limit"),
    pytest.param(REJECT, 1, ARCHIVED, id="rejected"),
    pytest.param(RELEASE, 4, AVAILABLE, id="released"),
    pytest.param(RELEASE, 5, ARCHIVED, id="released at the limit"),
]


def delivered(count: int) -> SharePartition:
    """Returns a share partition in which member a has acquired record 0 for the first time, and
    record 1 for the ``count``-th time."""
    share = partition((0, 0, AVAILABLE, 0), (1, 1, AVAILABLE, count - 1))
    acquire(share, fetched((0, 0)))
    acquire(share, fetched((1, 1), at=1))
    assert share.in_flight_count() == 2
    return share


@pytest.mark.parametrize(("type_", "count", "after"), ENDINGS)
@pytest.mark.proves("share 4")
def test_state_of_an_acknowledged_record_changes_when_the_change_is_stored(
    type_: int, count: int, after: DeliveryState
) -> None:
    share = delivered(count)
    change = acknowledge(share, (1, 1, [type_])).change
    assert change is not None
    assert change.batches == (StateBatch(1, 1, after, count),)
    assert states(share)[-1] == (1, 1, ACQUIRED, count)
    assert acquire(share, fetched((0, 1))) == []
    share.written(change, at(0))
    assert states(share)[-1] == (1, 1, after, count)


@pytest.mark.parametrize(("count", "after"), [(1, AVAILABLE), (4, AVAILABLE), (5, ARCHIVED)])
def test_record_is_released_when_its_lock_expires(count: int, after: DeliveryState) -> None:
    share = delivered(count)
    assert share.next_deadline() == LOCK_MS
    assert share.expire(LOCK_MS - 1) is None
    stored(share, share.expire(LOCK_MS))
    assert states(share)[-1] == (1 if count > 1 else 0, 1, after, count)
    assert share.expire(LOCK_MS) is None


@pytest.mark.parametrize(("count", "after"), [(1, AVAILABLE), (4, AVAILABLE), (5, ARCHIVED)])
@pytest.mark.proves("share 5")
def test_record_keeps_its_delivery_count_when_the_session_closes(
    count: int, after: DeliveryState
) -> None:
    share = delivered(count)
    assert share.release_member("b") is None
    stored(share, share.release_member("a"))
    assert states(share)[-1] == (1 if count > 1 else 0, 1, after, count)
    assert share.next_deadline() is None or share.expire(LOCK_MS) is None


def test_delivery_that_ends_with_a_closed_session_is_counted() -> None:
    share = partition()
    for count in (1, 2, 3):
        assert acquire(share, fetched((0, 0))) == [(0, 0, count)]
        stored(share, share.release_member("a"))


def test_renew_restarts_the_acquisition_lock_and_stores_no_change() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    batch = AckBatch(2, 3, [RENEW])
    assert share.acknowledge("a", [batch], at(20_000)).error_code == errors.INVALID_REQUEST
    assert share.acknowledge("a", [batch], at(20_000), is_renew=True) == Acknowledged(errors.NONE)
    stored(share, share.expire(LOCK_MS))
    assert states(share) == [(0, 1, AVAILABLE, 1), (2, 3, ACQUIRED, 1), (4, 9, AVAILABLE, 1)]
    assert share.expire(20_000 + LOCK_MS - 1) is None
    stored(share, share.expire(20_000 + LOCK_MS))
    assert states(share) == [(0, 9, AVAILABLE, 1)]


def test_one_request_can_renew_and_accept_records() -> None:
    share = partition()
    acquire(share, fetched((0, 3)))
    answer = share.acknowledge("a", [AckBatch(0, 3, [1, 4, 4, 1])], at(5), is_renew=True)
    assert stored(share, answer.change).batches == (
        StateBatch(0, 0, ACKNOWLEDGED, 1),
        StateBatch(3, 3, ACKNOWLEDGED, 1),
    )
    assert [(each.first_offset, each.lock_ends_ms) for each in share.in_flight()] == [
        (1, LOCK_MS + 5),
        (3, -1),
    ]


@pytest.mark.parametrize("held", [True, False])
def test_records_below_a_new_log_start_offset_are_dropped(held: bool) -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    if not held:
        stored(share, share.release_member("a"))
    share.log_start_moved(6)
    assert (share.start_offset, share.end_offset) == (6, 9)
    assert share.next_fetch_offset() == (10 if held else 6)
    answer = acknowledge(share, (0, 5, [ACCEPT]))
    assert answer == Acknowledged(errors.NONE)
    share.log_start_moved(20)
    assert (share.start_offset, share.next_fetch_offset(), states(share)) == (20, 20, [])
    share.log_start_moved(10)
    assert share.start_offset == 20


def test_stored_release_omits_records_that_are_now_before_the_log_start_offset() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    change = acknowledge(share, (0, 6, [RELEASE])).change
    share.log_start_moved(5)
    stored(share, change)
    assert states(share) == [(5, 6, AVAILABLE, 1), (7, 9, ACQUIRED, 1)]


# --- pending changes


def test_records_with_an_unstored_change_are_not_acquired_or_acknowledged() -> None:
    share = partition()
    acquire(share, fetched((0, 3)))
    change = acknowledge(share, (0, 3, [RELEASE])).change
    assert share.next_fetch_offset() == 4
    assert acquire(share, fetched((0, 3)), member_id="b") == []
    assert acknowledge(share, (2, 2, [ACCEPT])).error_code == errors.INVALID_RECORD_STATE
    assert share.expire(LOCK_MS) is None
    assert share.release_member("a") is None
    stored(share, change)
    assert share.next_fetch_offset() == 0


@pytest.mark.proves("share 4")
def test_records_stay_acquired_by_their_member_when_storing_a_change_fails() -> None:
    share = partition()
    acquire(share, fetched((0, 3)))
    change = acknowledge(share, (0, 1, [ACCEPT]), (2, 3, [RELEASE])).change
    assert change is not None
    share.failed(change, at(100))
    assert states(share) == [(0, 3, ACQUIRED, 1)]
    answer = acknowledge(share, (0, 3, [ACCEPT]))
    assert stored(share, answer.change).delivery_complete_count == 4
    assert share.start_offset == 4


@pytest.mark.parametrize(("count", "after"), [(1, AVAILABLE), (5, ARCHIVED)])
def test_record_is_released_when_its_lock_expired_and_its_acknowledgement_was_not_stored(
    count: int, after: DeliveryState
) -> None:
    share = delivered(count)
    change = acknowledge(share, (1, 1, [ACCEPT])).change
    assert change is not None
    share.expire(LOCK_MS)
    share.failed(change, at(LOCK_MS))
    assert states(share)[-1] == (1, 1, after, count)


def test_records_with_an_expired_lock_are_released_even_when_storing_fails() -> None:
    share = partition()
    acquire(share, fetched((0, 3)))
    change = share.expire(LOCK_MS)
    assert change is not None
    share.failed(change, at(LOCK_MS))
    assert states(share) == [(0, 3, AVAILABLE, 1)]
    assert acquire(share, fetched((0, 3)), member_id="b") == [(0, 3, 2)]


def test_acknowledgement_moves_the_start_offset_only_after_its_change_is_stored() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    first = stored(share, acknowledge(share, (0, 4, [ACCEPT])).change)
    assert (first.start_offset, first.delivery_complete_count) == (0, 5)
    second = stored(share, acknowledge(share, (5, 9, [ACCEPT])).change)
    assert (second.start_offset, second.delivery_complete_count) == (5, 5)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (10, 9, 10)


def test_method_refresh_updates_the_start_offset_of_an_unstored_change() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    late = acknowledge(share, (5, 5, [ACCEPT])).change
    assert late is not None
    stored(share, acknowledge(share, (0, 4, [ACCEPT])).change)
    assert (late.start_offset, late.delivery_complete_count) == (0, 1)
    share.refresh(late)
    assert (late.start_offset, late.delivery_complete_count) == (5, 1)


def test_share_state_change_combines_adjacent_records_of_equal_state_and_delivery_count() -> None:
    share = partition((0, 1, AVAILABLE, 0), (2, 2, AVAILABLE, 1))
    acquire(share, fetched((0, 5)))
    answer = acknowledge(share, (0, 0, [ACCEPT]), (1, 2, [GAP, REJECT]), (3, 5, [ACCEPT]))
    assert stored(share, answer.change).batches == (
        StateBatch(0, 0, ACKNOWLEDGED, 1),
        StateBatch(1, 1, ARCHIVED, 1),
        StateBatch(2, 2, ARCHIVED, 2),
        StateBatch(3, 5, ACKNOWLEDGED, 1),
    )


# --- refusals: member a holds 10 to 14, member b 15 to 19; 20 is released; 21 to 24 are a's

REFUSALS = [
    ("first offset after the last", [(12, 11, [1])], errors.INVALID_REQUEST),
    ("batches not ascending", [(12, 14, [1]), (10, 11, [1])], errors.INVALID_REQUEST),
    ("batch begins within the one before", [(10, 13, [1]), (12, 14, [1])], errors.INVALID_REQUEST),
    ("no types", [(10, 11, [])], errors.INVALID_REQUEST),
    ("too few types", [(10, 12, [1, 1])], errors.INVALID_REQUEST),
    ("too many types", [(10, 11, [1, 1, 1])], errors.INVALID_REQUEST),
    ("negative type", [(10, 10, [-1])], errors.INVALID_REQUEST),
    ("unknown type", [(10, 11, [1, 5])], errors.INVALID_REQUEST),
    ("renew without is_renew_ack", [(10, 10, [4])], errors.INVALID_REQUEST),
    ("wrong types before the start offset", [(1, 2, [9])], errors.INVALID_REQUEST),
    ("after the end offset", [(25, 25, [1])], errors.INVALID_REQUEST),
    ("reaches beyond the end offset", [(23, 25, [1])], errors.INVALID_REQUEST),
    ("second batch after the end offset", [(10, 10, [1]), (30, 30, [1])], errors.INVALID_REQUEST),
    ("wrong batch after a foreign one", [(15, 15, [1]), (21, 21, [])], errors.INVALID_REQUEST),
    ("batches share an offset", [(10, 12, [1]), (12, 14, [1])], errors.INVALID_RECORD_STATE),
    ("held by another member", [(15, 15, [1])], errors.INVALID_RECORD_STATE),
    ("in part held by another member", [(10, 15, [1])], errors.INVALID_RECORD_STATE),
    ("second batch foreign", [(10, 10, [1]), (19, 19, [1])], errors.INVALID_RECORD_STATE),
    ("released", [(20, 20, [1])], errors.INVALID_RECORD_STATE),
    ("released among own", [(20, 24, [1])], errors.INVALID_RECORD_STATE),
    ("before the start offset", [(0, 9, [1])], errors.NONE),
    ("reaches below the start offset", [(8, 12, [1, 1, 1, 2, 1])], errors.NONE),
    ("below the start offset and own", [(0, 3, [1]), (14, 14, [2])], errors.NONE),
    ("gap of records", [(10, 14, [0])], errors.NONE),
    ("nothing", [], errors.NONE),
]


@pytest.mark.parametrize(
    ("batches", "code"), [each[1:] for each in REFUSALS], ids=[each[0] for each in REFUSALS]
)
@pytest.mark.proves("share 3")
def test_acknowledgement_with_one_invalid_batch_changes_no_record(
    batches: list[tuple[int, int, list[int]]], code: int
) -> None:
    share = partition(start_offset=10)
    acquire(share, fetched((10, 14), at=10))
    acquire(share, fetched((15, 19), at=15), member_id="b")
    acquire(share, fetched((20, 24), at=20))
    stored(share, acknowledge(share, (20, 20, [RELEASE])).change)
    before = list(share.in_flight())
    answer = acknowledge(share, *batches)
    assert answer.error_code == code, answer.error_message
    if code:
        assert answer.error_message is not None
        assert answer.change is None
        assert list(share.in_flight()) == before


def test_acknowledgement_is_refused_when_no_record_is_in_flight() -> None:
    share = partition(start_offset=10)
    assert acknowledge(share, (10, 10, [ACCEPT])).error_code == errors.INVALID_RECORD_STATE


def test_repeated_acknowledgement_below_the_start_offset_succeeds() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    stored(share, acknowledge(share, (0, 4, [ACCEPT])).change)
    assert acknowledge(share, (0, 4, [ACCEPT])) == Acknowledged(errors.NONE)


def test_acknowledgement_does_not_apply_to_offsets_below_the_start_offset() -> None:
    share = partition()
    acquire(share, fetched((0, 9)))
    share.log_start_moved(2)
    answer = acknowledge(share, (0, 4, [ACCEPT, ACCEPT, REJECT, RELEASE, ACCEPT]))
    assert stored(share, answer.change).batches == (
        StateBatch(2, 2, ARCHIVED, 1),
        StateBatch(3, 3, AVAILABLE, 1),
        StateBatch(4, 4, ACKNOWLEDGED, 1),
    )

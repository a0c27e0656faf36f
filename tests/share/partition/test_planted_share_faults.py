"""Tests that random histories find each fault that is planted into a share partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from protocol.now import Now
from share.partition import acquisition, share_partition
from share.partition.acknowledgement import AckRun, refusal_of_member
from share.partition.acquisition import Acquisition
from share.partition.changes import Transitions
from share.partition.locks import Lock, Locks
from share.partition.ranges import ACQUIRED, AVAILABLE, Range, Ranges, is_final
from share.partition.share_partition import SharePartition
from share.partition.values import AckBatch, AcquireMode, Change
from share.values import DeliveryState, StoredState
from tests.share.partition.test_share_partition_model import SEEDS, numbers_of, play

Plant = Callable[[pytest.MonkeyPatch], None]


def released_records_are_available_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    def is_available(self: Range) -> bool:
        pending = self.transition is not None and self.transition.state == AVAILABLE
        return self.state == AVAILABLE or pending

    patch.setattr(Range, "is_available", is_available)


def start_offset_passes_records_that_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    real = Ranges.move_start

    def move_start(self: Ranges) -> None:
        for each in self:
            if not each.is_complete():
                break
            if each.transition is not None:
                self.settle(each, each.transition.state)
        real(self)

    patch.setattr(Ranges, "move_start", move_start)


def another_member_may_acknowledge(patch: pytest.MonkeyPatch) -> None:
    real = refusal_of_member

    def refusal(ranges: Ranges, _: str, batches: Sequence[AckBatch]) -> Any:
        for member_id in ("a", "b", "c"):
            if (found := real(ranges, member_id, batches)) is None:
                return None
        return found

    patch.setattr(share_partition, "refusal_of_member", refusal)


def part_of_a_refused_acknowledgement_is_applied(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.acknowledge

    def acknowledge(self: Any, member_id: str, batches: Sequence[AckBatch], *rest: Any) -> Any:
        answer = real(self, member_id, batches, *rest)
        if answer.error_code and len(batches) > 1:
            real(self, member_id, batches[:1], *rest)
        return answer

    patch.setattr(SharePartition, "acknowledge", acknowledge)


def delivery_count_has_no_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_limited", lambda _self, state, _delivered: state)


def poisonous_records_are_delivered_with_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acquisition, "poisonous_from", lambda _: 1 << 30)


def ranges_of_two_delivery_counts_are_joined(patch: pytest.MonkeyPatch) -> None:
    def continues(self: Range, before: Range) -> bool:
        return (
            self.state == before.state
            and self.lock is before.lock
            and self.transition is before.transition
        )

    patch.setattr(Range, "continues", continues)


def equal_neighbours_are_not_joined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranges, "_join", lambda *_: None)


def released_records_are_not_fetched_again(patch: pytest.MonkeyPatch) -> None:
    def settle(self: Ranges, settled: Range, state: DeliveryState) -> None:
        available_from = self._available_from
        real(self, settled, state)
        self._available_from = available_from

    real = Ranges.settle
    patch.setattr(Ranges, "settle", settle)


def records_of_a_failed_write_stay_acquired_after_their_lock(patch: pytest.MonkeyPatch) -> None:
    def failed(self: SharePartition, change: Change, now: Now) -> None:
        del now
        for each in self._pending(change):
            self._ranges.settle(each, ACQUIRED)
        self._settled(change)

    patch.setattr(SharePartition, "failed", failed)


def failed_write_settles_other_changes(patch: pytest.MonkeyPatch) -> None:
    def pending(self: SharePartition, change: Change) -> Iterator[Range]:
        for batch in change.batches:
            first = max(batch.first_offset, self.start_offset)
            for each in self._ranges.overlapping(
                first, min(batch.last_offset + 1, self.end_offset)
            ):
                if each.transition is not None:
                    yield each

    patch.setattr(SharePartition, "_pending", pending)


def renewing_does_not_extend_the_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranges, "lock_again", lambda *_: None)


def lock_of_scattered_records_expires_in_part(patch: pytest.MonkeyPatch) -> None:
    def hold(self: Locks, lock: Lock, first_offset: int, last_offset: int) -> None:
        before = lock.last_offset
        real(self, lock, first_offset, last_offset)
        if before >= 0:
            lock.last_offset = before

    real = Locks.hold
    patch.setattr(Locks, "hold", hold)


def lock_without_records_is_kept(patch: pytest.MonkeyPatch) -> None:
    def drop(self: Locks, lock: Lock, records: int) -> None:
        del self
        lock.records -= records

    patch.setattr(Locks, "drop", drop)


def aborted_records_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acquisition, "_segments", lambda _, first, last: iter([(first, last, False)]))


def record_limit_is_ignored(patch: pytest.MonkeyPatch) -> None:
    real = Acquisition._last_wanted

    def last_wanted(self: Acquisition, first: int) -> int:
        self._mode = AcquireMode.BATCH_OPTIMIZED
        return real(self, first)

    patch.setattr(Acquisition, "_last_wanted", last_wanted)


def compacted_records_stay_available(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranges, "archive_available", lambda *_: None)


def completed_records_are_counted_twice_when_the_log_start_moves(
    patch: pytest.MonkeyPatch,
) -> None:
    def drop_before(self: Ranges, offset: int) -> None:
        final = [each for each in self if is_final(each.state) and each.last < offset]
        real(self, offset)
        self.complete_count += sum(len(each) for each in final)

    real = Ranges.drop_before
    patch.setattr(Ranges, "drop_before", drop_before)


def types_are_shifted_when_the_start_offset_has_moved(patch: pytest.MonkeyPatch) -> None:
    def runs(batches: Sequence[AckBatch], start_offset: int) -> Iterator[AckRun]:
        for first, last, types in batches:
            begin = max(first, start_offset)
            for index, offset in enumerate(range(begin, last + 1)):
                yield AckRun(offset, offset, types[index % len(types)])

    patch.setattr(share_partition, "runs", runs)


def gaps_of_the_stored_state_are_final(patch: pytest.MonkeyPatch) -> None:
    def loaded(state: StoredState) -> Ranges:
        found = Ranges(state.start_offset)
        for first, last, number, count in state.batches:
            if first > found.end_offset + 1:
                found.put(found.end_offset + 1, first - 1, DeliveryState.ARCHIVED, 0)
            found.put(first, last, DeliveryState(number), count)
        found.move_start()
        return found

    patch.setattr(share_partition, "loaded", loaded)


def in_flight_limit_ignores_final_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Ranges,
        "window",
        lambda self: self.end_offset - self.start_offset + 1 - self.complete_count,
    )


def change_has_the_start_offset_after_it(patch: pytest.MonkeyPatch) -> None:
    def change(self: Any) -> Change | None:
        made = real(self)
        if made is not None:
            first, last, state, _ = made.batches[0]
            if first == made.start_offset and is_final(DeliveryState(state)):
                made.start_offset = last + 1
        return made

    real = Transitions.change
    patch.setattr(Transitions, "change", change)


@pytest.mark.planted("model of share partitions")
@pytest.mark.parametrize(
    "plant",
    [
        released_records_are_available_before_they_are_stored,
        start_offset_passes_records_that_are_not_stored,
        another_member_may_acknowledge,
        part_of_a_refused_acknowledgement_is_applied,
        delivery_count_has_no_limit,
        poisonous_records_are_delivered_with_others,
        ranges_of_two_delivery_counts_are_joined,
        equal_neighbours_are_not_joined,
        released_records_are_not_fetched_again,
        records_of_a_failed_write_stay_acquired_after_their_lock,
        failed_write_settles_other_changes,
        renewing_does_not_extend_the_lock,
        lock_of_scattered_records_expires_in_part,
        lock_without_records_is_kept,
        aborted_records_are_delivered,
        record_limit_is_ignored,
        compacted_records_stay_available,
        completed_records_are_counted_twice_when_the_log_start_moves,
        types_are_shifted_when_the_start_offset_has_moved,
        gaps_of_the_stored_state_are_final,
        in_flight_limit_ignores_final_records,
        change_has_the_start_offset_after_it,
    ],
    ids=lambda plant: plant.__name__,
)
@pytest.mark.proves("share 1")
def test_planted_fault_of_a_share_partition_is_found_by_a_random_history(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            play(numbers_of(seed))
        except AssertionError:
            return
    pytest.fail(f"{SEEDS} histories found nothing wrong")

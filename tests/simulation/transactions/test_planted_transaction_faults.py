"""Tests of the checkers: each fault that is planted into the broker's transactions must be detected
by the simulation.

A function named after the fault replaces correct code with `monkeypatch`. The test then runs
`MOST_SEEDS` simulations, and fails if none of them detects the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.apis.shared.add_partitions_on_write import Enlisted
from broker.cores.transactions.duties import TransactionDuties
from broker.topics.last_stable import LastStable
from broker.topics.partition import Partition
from coordinator.shard import GroupShard
from log.errors import AppendRefused
from log.partition_log import PartitionLog
from log.producers.producer_state import ProducerStates
from log.producers.producer_table import FIRST_BATCH
from log.values import Marker, ReadInfo
from offsets.cache import OffsetCache
from offsets.pending import PendingOffsets
from offsets.runs import TransactionalRun
from protocol.errors import INVALID_PRODUCER_EPOCH
from protocol.now import Now
from protocol.records.batch import BatchHeader
from tests.simulation.transactions.world import TransactionWorld
from tests.simulation.whole.runs import PLAYED_S_MAX, find_fault
from tests.tiers import sampled
from transactions import add_partitions
from transactions.outcome import Outcome, SendMarkers
from transactions.shard import TransactionShard

MOST_SEEDS = 50
SECONDS = 100

Plant = Callable[[pytest.MonkeyPatch], None]


def markers_are_written_before_their_prepare_record(patch: pytest.MonkeyPatch) -> None:
    real = TransactionShard.handle

    def handle(self: TransactionShard, call: Any, now: Now) -> Outcome:
        records, replies, events = real(self, call, now)
        for ticket, reply in replies:
            if isinstance(reply, SendMarkers):
                ticket.take(reply)
                ticket.ask_due()
        kept = [each for each in replies if not isinstance(each[1], SendMarkers)]
        return Outcome(records, kept, events)

    patch.setattr(TransactionShard, "handle", handle)


def markers_are_not_sent_again_after_a_load(patch: pytest.MonkeyPatch) -> None:
    real = TransactionShard.loaded

    def loaded(self: TransactionShard, now: Now) -> Outcome:
        records, replies, events = real(self, now)
        kept = [each for each in replies if not isinstance(each[1], SendMarkers)]
        return Outcome(records, kept, events)

    patch.setattr(TransactionShard, "loaded", loaded)


def one_partition_gets_no_marker(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog.append_marker

    def append_marker(self: PartitionLog, marker: Marker, *args: Any) -> Any:
        if (self.topic, self.partition) == ("more", 0):
            marker = marker._replace(committed=False)
        return real(self, marker, *args)

    patch.setattr(PartitionLog, "append_marker", append_marker)


def readers_are_let_past_a_transaction_that_has_no_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LastStable, "offset", lambda self, high_watermark: high_watermark)


def the_last_stable_offset_is_one_too_high(patch: pytest.MonkeyPatch) -> None:
    real = LastStable.offset

    def offset(self: LastStable, high_watermark: int) -> int:
        return min(high_watermark, real(self, high_watermark) + 1)

    patch.setattr(LastStable, "offset", offset)


def what_was_aborted_begins_one_too_late(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog.aborted_in

    def aborted_in(
        self: PartitionLog, info: ReadInfo, offset: int, limit: int
    ) -> list[tuple[int, int]]:
        return [(producer, first + 1) for producer, first in real(self, info, offset, limit)]

    patch.setattr(PartitionLog, "aborted_in", aborted_in)


def what_was_aborted_is_not_known_after_a_start(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog._fold

    def fold(self: PartitionLog) -> None:
        real(self)
        for segment in self.segments:
            segment.transactions.truncate_to(0)

    patch.setattr(PartitionLog, "_fold", fold)


def the_image_loses_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupShard, "restore_pending", lambda *_: None)


def pending_offsets_are_forgotten_by_their_marker(patch: pytest.MonkeyPatch) -> None:
    real = PendingOffsets.end

    def end(self: PendingOffsets, producer_id: int) -> Any:
        real(self, producer_id)
        return ()

    patch.setattr(PendingOffsets, "end", end)


def offsets_count_before_their_transaction_commits(patch: pytest.MonkeyPatch) -> None:
    real = OffsetCache.replay

    def replay(self: OffsetCache, run: Any, base_offset: int) -> Any:
        if isinstance(run, TransactionalRun):
            for part in run.runs:
                real(self, part, base_offset)
                base_offset += len(part)
            return None
        return real(self, run, base_offset)

    patch.setattr(OffsetCache, "replay", replay)


def epochs_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.check

    def check(self: ProducerStates, batch: BatchHeader, *args: Any) -> None:
        try:
            real(self, batch, *args)
        except AppendRefused as refused:
            if refused.error_code != INVALID_PRODUCER_EPOCH:
                raise

    patch.setattr(ProducerStates, "check", check)
    patch.setattr(add_partitions, "_owner_error", lambda *_: 0)


def sequences_are_restored_one_too_high(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog._fold

    def fold(self: PartitionLog) -> None:
        real(self)
        table = self.producers._table
        for piece in table.pieces():
            for producer_id, state in piece:
                if len(state) > FIRST_BATCH:
                    *others, sequence, delta, first_offset, timestamp_ms = state
                    table.put(
                        producer_id, (*others, sequence + 1, delta, first_offset, timestamp_ms)
                    )

    patch.setattr(PartitionLog, "_fold", fold)


def what_is_sent_again_is_written_again(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.check

    def check(self: ProducerStates, batch: BatchHeader, *args: Any) -> None:
        producer = self.get(batch.producer_id)
        if producer is None or producer.last_sequence != batch.last_sequence:
            real(self, batch, *args)

    patch.setattr(ProducerStates, "duplicate_of", lambda *_: None)
    patch.setattr(ProducerStates, "check", check)


def nobody_ends_what_has_timed_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "expire", lambda *_: Outcome())
    patch.setattr(TransactionShard, "next_deadline", lambda _: None)


def a_partition_need_not_be_added(patch: pytest.MonkeyPatch) -> None:
    async def add(self: Enlisted, services: Any, partitions: Sequence[Any]) -> int:
        return 0

    patch.setattr(Enlisted, "error", lambda *_: 0)
    patch.setattr(Enlisted, "add", add)


def a_later_coordinator_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionDuties, "outranks", lambda *_: False)


def commits_are_judged_by_what_is_appended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "producers_of", lambda self, _: self.log.producers)


PLANTS = [
    markers_are_written_before_their_prepare_record,
    markers_are_not_sent_again_after_a_load,
    one_partition_gets_no_marker,
    readers_are_let_past_a_transaction_that_has_no_marker,
    the_last_stable_offset_is_one_too_high,
    what_was_aborted_begins_one_too_late,
    what_was_aborted_is_not_known_after_a_start,
    the_image_loses_what_is_pending,
    pending_offsets_are_forgotten_by_their_marker,
    offsets_count_before_their_transaction_commits,
    epochs_are_not_looked_at,
    sequences_are_restored_one_too_high,
    what_is_sent_again_is_written_again,
    nobody_ends_what_has_timed_out,
    a_partition_need_not_be_added,
    a_later_coordinator_is_believed,
    commits_are_judged_by_what_is_appended,
]


FOUND_SOON = set(PLANTS) - {
    markers_are_written_before_their_prepare_record,
    the_image_loses_what_is_pending,
    a_later_coordinator_is_believed,
}
"""Planted faults that are detected within a second. The other planted faults are tested only by
`make campaign`."""


@pytest.mark.planted("simulated transactions")
@pytest.mark.parametrize("plant", sampled(PLANTS, FOUND_SOON), ids=lambda plant: plant.__name__)
@pytest.mark.timeout(PLAYED_S_MAX)
def test_simulation_of_transactions_detects_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    find_fault(TransactionWorld, range(MOST_SEEDS), SECONDS)

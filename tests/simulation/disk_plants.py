"""Planted faults of the simulated disk, of turns and of snapshots. Each function is named after its
fault. test_planted_faults.py requires that the simulation detects each fault."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.shard import GroupShard
from tests.simulation import simulated_log
from tests.simulation.simulated_log import Batch, SimulatedLog
from tests.simulation.world import World


def replies_leave_before_the_append(patch: pytest.MonkeyPatch) -> None:
    real = World._release

    def release(self: World) -> None:
        for each in self.held:
            self.checkers.leaves(each.log_offset)
        real(self)

    patch.setattr(World, "_release", release)
    patch.setattr(World, "client_disconnects", World._release)


def a_flush_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedLog, "stable", property(lambda self: self.end))


def the_log_is_cleaned_before_it_is_flushed(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the cleaner removes a superseded record before the newer record is fsynced. A
    power failure then loses both records."""
    real = SimulatedLog.clean

    def clean(self: SimulatedLog, *args: Any) -> None:
        flushed = self.batches[len(self.batches) // 2].first_offset if self.batches else 0
        real(self, *args)
        self.flushed = min(self.flushed, flushed)

    patch.setattr(SimulatedLog, "clean", clean)


def a_start_cuts_off_a_whole_batch(patch: pytest.MonkeyPatch) -> None:
    real = SimulatedLog.opened

    def opened(self: SimulatedLog) -> None:
        if self.batches:
            self.end = self.batches.pop().first_offset
        real(self)

    patch.setattr(SimulatedLog, "opened", opened)


def a_cleaned_batch_is_read_as_a_whole_one(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the reader numbers the records of a cleaned batch consecutively, as if no
    record had been removed."""
    real = Batch.read

    def read(self: Batch) -> list[tuple[int, Any]]:
        found, offset = [], self.first_offset
        for _, run in real(self):
            found.append((offset, run))
            offset += len(run)
        return found

    patch.setattr(Batch, "read", read)


def a_snapshot_leaves_a_group_out(patch: pytest.MonkeyPatch) -> None:
    real = simulated_log.blocks_of

    def blocks_of(shard: GroupShard, *more: Any) -> Iterator[bytes]:
        recorded = dict(list(shard.view.recorded.items())[:-1])
        return real(_seen_as(shard, recorded=recorded), *more)

    patch.setattr(simulated_log, "blocks_of", blocks_of)


def _seen_as(shard: GroupShard, **other: Any) -> Any:
    """Returns an object to which a snapshot is written in place of ``shard``, so that the snapshot
    has false content. Its ``view`` has the values of ``shard.view``, except for the values that
    ``other`` replaces."""
    view = shard.view
    parts = {
        "offsets": view.offsets,
        "recorded": view.recorded,
        "consumer_groups": view.consumer_groups,
        "share_groups": view.share_groups,
        "streams_groups": view.streams_groups,
        "all_pending": view.all_pending,
    }
    return SimpleNamespace(view=SimpleNamespace(**(parts | other)))


def a_snapshot_leaves_out_what_is_pending(patch: pytest.MonkeyPatch) -> None:
    real = simulated_log.blocks_of

    def blocks_of(shard: GroupShard, *more: Any) -> Iterator[bytes]:
        return real(_seen_as(shard, all_pending=lambda: iter(())), *more)

    patch.setattr(simulated_log, "blocks_of", blocks_of)


def a_snapshot_leaves_out_consumer_groups(patch: pytest.MonkeyPatch) -> None:
    real = simulated_log.blocks_of

    def blocks_of(shard: GroupShard, *more: Any) -> Iterator[bytes]:
        return real(_seen_as(shard, consumer_groups={}), *more)

    patch.setattr(simulated_log, "blocks_of", blocks_of)


def a_snapshot_ahead_of_the_log_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedLog, "opened", lambda _: None)


def the_cleaner_takes_tombstones_that_a_snapshot_needs(patch: pytest.MonkeyPatch) -> None:
    real = SimulatedLog.clean

    def clean(self: SimulatedLog, cut: int, _: bool) -> None:
        snapshot, self.snapshot = self.snapshot, None
        real(self, cut, True)
        self.snapshot = snapshot

    patch.setattr(SimulatedLog, "clean", clean)

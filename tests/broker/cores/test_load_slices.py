"""Tests that no slice of a load blocks the event loop for long.

The test counts the work of each slice instead of measuring time. The loader's clock advances only
with work: 1 us for each decoded, replayed or restored record, and 5 us for each created group.
These are the costs on a slow machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cores import snapshots
from broker.cores.groups import records
from broker.loop.slices import Slices
from broker.time import Time
from coordinator.shard import GroupShard
from offsets.record_codec import run_records
from offsets.runs import OffsetRun
from protocol.records.batch import assemble_batch
from tests.broker.edge import EdgeBroker, eventually

GROUPS = 10_000
RECORDS_A_BATCH = 1000
TURN_MAX_NS = 20_000_000


class SavingBroker(EdgeBroker):
    """A broker whose offsets topic has a topic id, and which therefore writes snapshots."""

    async def ensure_offsets_topic(self) -> bool:
        if not self.groups.hosted_shards:
            self.groups.start(self.open_partitions(), bytes([9]) * 16)
        return True


class WorkClock:
    """A fake clock that advances only when the load does work. ``longest_ns`` is the longest time
    in ns between two consecutive pauses of the load."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.longest_ns = 0
        self._paused_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def paused(self) -> None:
        self.longest_ns = max(self.longest_ns, self.now_ns - self._paused_ns)
        self._paused_ns = self.now_ns

    def counts(self, work: Callable[..., Any], cost_us: Callable[..., int]) -> Callable[..., Any]:
        """Returns a wrapper of ``work`` that advances the clock. ``cost_us`` computes the cost from
        the arguments and the result."""

        def counted(*arguments: Any) -> Any:
            result = work(*arguments)
            self.now_ns += 1000 * cost_us(result, *arguments)
            return result

        return counted


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    clock = WorkClock()
    pause = Slices.pause

    async def counted_pause(slices: Any) -> None:
        clock.paused()
        await pause(slices)

    monkeypatch.setattr(snapshots, "BYTES_DUE", 1 << 40)  # Only the requested snapshot is written.
    monkeypatch.setattr(Slices, "pause", counted_pause)
    decode = clock.counts(records.iter_runs_of_section, lambda _, *given: given[2])
    monkeypatch.setattr(records, "iter_runs_of_section", decode)
    costs_us: dict[str, Callable[..., int]] = {
        "replay": lambda _, *given: len(given[1]),
        "restore": lambda _, *given: given[3].count,
        "wake": lambda awake, *_: 5 * awake,
    }
    for name, cost_us in costs_us.items():
        monkeypatch.setattr(GroupShard, name, clock.counts(getattr(GroupShard, name), cost_us))
    return clock


def fill(broker: EdgeBroker) -> None:
    """Commits one offset for each of many groups, all in one partition."""
    log = broker.open_partitions()[0].log
    for start in range(0, GROUPS, RECORDS_A_BATCH):
        section = b"".join(
            run_records(OffsetRun(f"g{start + n}", "orders", [0], [n], [-1], None, 1), n)
            for n in range(RECORDS_A_BATCH)
        )
        batch = assemble_batch(section, RECORDS_A_BATCH, start, 1, 1)
        log.append_encoded(batch, start, start + RECORDS_A_BATCH - 1, 1)


async def load(directory: Path, clock: WorkClock) -> int:
    """Loads the shard, and then writes a snapshot. Returns the log offset from which the load
    replayed the log after it had read a snapshot; -1 if the load read no snapshot.

    Afterwards ``clock.longest_ns`` is the longest time in ns for which the load ran without a
    pause.
    """
    broker = SavingBroker(directory, partitions=1, time=Time(ticks_ns=clock))
    clock.paused()
    clock.longest_ns = 0
    async with broker:
        await eventually(lambda: not broker.groups.life.loading)
        clock.paused()
        (hosted,) = broker.groups.hosted_shards
        assert len(hosted.core.view.groups) == GROUPS
        assert broker.groups.life.snapshots is not None
        assert await broker.groups.life.snapshots.write(hosted)
        return hosted.loaded_from


async def test_each_slice_of_a_shard_load_does_a_bounded_amount_of_work(
    tmp_path: Path, clock: WorkClock
) -> None:
    """The shard has many groups, which are created at the end of the load. The test loads the shard
    once from its log, and once from a snapshot."""
    fill(EdgeBroker(tmp_path, partitions=1))
    for from_snapshot in (False, True):
        began = await load(tmp_path, clock)
        assert (began >= 0) is from_snapshot
        assert 0 < clock.longest_ns <= TURN_MAX_NS

"""No slice of a load holds the loop for long: the work of each is counted, not timed.

The clock that the loader looks at is driven by the work alone: a microsecond for each record that
is decoded and for each that is replayed or restored, and five for each group that comes to be.
That is what they cost on a slow machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cores import loading, snapshots
from coordinator.shard import GroupShard
from offsets.record_codec import run_records
from offsets.runs import OffsetRun
from protocol.records.batch import assemble_batch
from tests.broker.edge import EdgeBroker, eventually

GROUPS = 10_000
RECORDS_A_BATCH = 1000
TURN_MAX_S = 0.020


class SavingBroker(EdgeBroker):
    """An edge whose offsets topic has an id, and so snapshots."""

    async def ensure_offsets_topic(self) -> bool:
        if not self.runtime.hosted_shards:
            self.runtime.start(self.open_logs(), bytes([9]) * 16)
        return True


class WorkClock:
    """Seconds of work so far, and the longest stretch of it between two pauses of the loader."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.longest_s = 0.0
        self._paused_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def paused(self) -> None:
        self.longest_s = max(self.longest_s, self.now_s - self._paused_s)
        self._paused_s = self.now_s

    def counts(self, work: Callable[..., Any], cost_s: Callable[..., float]) -> Callable[..., Any]:
        """``work`` that moves the clock by the cost of its result and arguments."""

        def counted(*arguments: Any) -> Any:
            result = work(*arguments)
            self.now_s += cost_s(result, *arguments)
            return result

        return counted


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    clock = WorkClock()
    pause = loading._Slices.pause

    async def counted_pause(slices: Any) -> None:
        clock.paused()
        await pause(slices)

    monkeypatch.setattr(snapshots, "BYTES_DUE", 1 << 40)  # none is written but the one asked for
    monkeypatch.setattr(loading, "perf_counter", clock)
    monkeypatch.setattr(loading._Slices, "pause", counted_pause)
    decode = clock.counts(loading.runs_of_section, lambda _, *given: 1e-6 * given[2])
    monkeypatch.setattr(loading, "runs_of_section", decode)
    costs: dict[str, Callable[..., float]] = {
        "replay": lambda _, *given: 1e-6 * len(given[1]),
        "restore": lambda _, *given: 1e-6 * given[3].count,
        "wake": lambda awake, *_: 5e-6 * awake,
    }
    for name, cost_s in costs.items():
        monkeypatch.setattr(GroupShard, name, clock.counts(getattr(GroupShard, name), cost_s))
    return clock


def fill(broker: EdgeBroker) -> None:
    """A commit of one offset by each of many groups, all in one partition."""
    (log,) = broker.open_logs()
    for start in range(0, GROUPS, RECORDS_A_BATCH):
        section = b"".join(
            run_records(OffsetRun(f"g{start + n}", "orders", [0], [n], [-1], None, 1), n)
            for n in range(RECORDS_A_BATCH)
        )
        batch = assemble_batch(section, RECORDS_A_BATCH, start, 1, 1)
        log.append_encoded(batch, start, start + RECORDS_A_BATCH - 1, 1)


async def load(directory: Path, clock: WorkClock) -> int:
    """Loads, and writes a snapshot; where the one before began, -1 without.

    ``clock.longest_s`` then is that of the load.
    """
    broker = SavingBroker(directory, partitions=1)
    clock.paused()
    clock.longest_s = 0.0
    async with broker:
        await eventually(lambda: not broker.runtime.loading)
        clock.paused()
        (hosted,) = broker.runtime.hosted_shards
        assert len(hosted.core.view.groups) == GROUPS
        assert broker.runtime.snapshots is not None
        assert await broker.runtime.snapshots.write(hosted)
        return hosted.loaded_from


async def test_no_slice_of_a_load_holds_the_loop(tmp_path: Path, clock: WorkClock) -> None:
    """Neither from the log nor from a snapshot, many groups coming to be at its end included."""
    fill(EdgeBroker(tmp_path, partitions=1))
    for from_snapshot in (False, True):
        began = await load(tmp_path, clock)
        assert (began >= 0) is from_snapshot
        assert 0 < clock.longest_s <= TURN_MAX_S

"""Tests the load of a log that contains an offset commit after the end of its transaction.

Earlier versions of Muster checked a commit only against appended records, and could therefore write
such logs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from offsets.runs import MarkerRun, OffsetRun, TransactionalRun
from tests.broker.cores.test_own_batches import Calls
from tests.broker.edge import EdgeBroker, eventually

LEFT_OUT = "offset commit after the end of its transaction ignored"
PRODUCER = 7


def offset_run(offset: int) -> OffsetRun:
    return OffsetRun("g", "orders", [0], [offset], [-1], None, 1_000)


async def write_log(folder: Path, *runs: TransactionalRun | MarkerRun) -> None:
    """Writes a log with a non-transactional commit of offset 1 for the group, and then ``runs``."""
    async with EdgeBroker(folder, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        calls = Calls(broker)
        calls.plain(1)
        await calls.answered(1)
        [hosted] = broker.groups.hosted_shards
        for run in runs:
            hosted.accept([run])
        calls.plain(1, partition=1)  # This plain commit ends the turn.
        await calls.answered(2)


@pytest.mark.parametrize("ended", [True, False])
async def test_load_omits_a_commit_after_a_marker_of_a_higher_epoch(
    tmp_path: Path, ended: bool
) -> None:
    """A coordinator writes a marker of a higher epoch under TV2, after a timeout, or when a newer
    producer fences the old producer."""
    next_one = (MarkerRun(PRODUCER, 5, 0, True),) if ended else ()
    await write_log(
        tmp_path,
        TransactionalRun(PRODUCER, 3, [offset_run(10)]),
        MarkerRun(PRODUCER, 4, 0, False),
        TransactionalRun(PRODUCER, 3, [offset_run(11)]),
        *next_one,
    )
    with capture_logs() as lines:
        async with EdgeBroker(tmp_path, partitions=1) as broker:
            await eventually(lambda: not broker.groups.life.loading)
            assert await (await broker.client()).fetch("g") == 1
            [hosted] = broker.groups.hosted_shards
            assert not list(hosted.core.view.all_pending())
            assert (hosted.log.first_unstable_offset == 3) == (not ended), "a marker ends it"
    [line] = [each for each in lines if each["event"] == LEFT_OUT]
    assert (line["producer_id"], line["producer_epoch"], line["log_offset"]) == (PRODUCER, 3, 3)


async def test_load_keeps_a_transactional_commit_after_a_marker_of_the_same_producer_epoch(
    tmp_path: Path,
) -> None:
    """Under TV1, the next transaction of a producer has the same epoch."""
    await write_log(
        tmp_path,
        TransactionalRun(PRODUCER, 3, [offset_run(10)]),
        MarkerRun(PRODUCER, 3, 0, False),
        TransactionalRun(PRODUCER, 3, [offset_run(11)]),
    )
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        [hosted] = broker.groups.hosted_shards
        assert hosted.core.view.pending("g") == [(PRODUCER, 3, 1)]

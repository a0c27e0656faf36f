"""A broker reserves producer ids on disk before it assigns them. Only the first request waits for
the disk."""

from __future__ import annotations

import asyncio
import errno

import pytest

from broker.topics.producer_ids import BLOCK
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE
from tests.broker.serving import asked, eventually, serving
from tests.simulated_files import SimulatedFiles
from tests.wire import Wire
from transactions.producer_ids import REFILL_BELOW

DATA = "/data"


def init(wire: Wire) -> tuple[int, int]:
    answer = wire.call(
        "InitProducerId",
        4,
        {
            "transactional_id": None,
            "transaction_timeout_ms": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    )
    return answer["error_code"], answer["producer_id"]


async def test_producer_ids_after_a_kill_differ_from_those_before_the_kill() -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        pool = broker.producer_ids
        given = await asyncio.gather(*(pool.take() for _ in range(3 * BLOCK)))
        assert None not in given
        assert len(set(given)) == 3 * BLOCK
        killed = fs.as_killed()
    async with serving(DATA, fs=killed) as broker:
        again = await broker.producer_ids.take()
        assert again is not None
        assert again > max(each for each in given if each is not None)


async def test_next_block_of_producer_ids_is_reserved_in_advance() -> None:
    async with serving(DATA, fs=SimulatedFiles()) as broker:
        pool = broker.producer_ids
        assert await pool.take() == 0
        for expected in range(1, BLOCK - REFILL_BELOW + 1):
            assert pool.ids.take() == expected, "from memory"
        assert pool.ids.left == REFILL_BELOW - 1
        pool.refill()
        await eventually("another block", lambda: pool.ids.left == BLOCK + REFILL_BELOW - 1)
        pool.refill()
        await asyncio.sleep(0)
        assert pool.ids.left == BLOCK + REFILL_BELOW - 1, "one is enough"


@pytest.mark.proves("transactions 6")
@pytest.mark.parametrize("operation", ["write", "fsync", "rename"])
async def test_init_producer_id_returns_load_in_progress_when_ids_cannot_be_reserved(
    operation: str,
) -> None:
    fs = SimulatedFiles()
    async with serving(DATA, fs=fs) as broker:
        fs.fail(operation, "", count=1 << 30, code=errno.ENOSPC)
        assert await asked(broker, init) == (COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert not await broker.producer_ids.ready()
        fs.heal()
        await eventually("ids", lambda: broker.producer_ids.ids.left)
        assert await asked(broker, init) == (NONE, 0)

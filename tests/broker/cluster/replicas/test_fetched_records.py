"""Records on their way from a leader's log into a follower's: many at once, and flushed first."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

from log.replicated import AT_ONCE
from tests.broker.cluster.fellows import Fellow, alike, cluster, eventually


async def test_many_small_batches_of_one_answer_are_appended_piece_by_piece() -> None:
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1, to=[one])
        one.append(2 * AT_ONCE + 10)
        await controller.lead(1)
        await alike(one, two)
        await eventually(lambda: one.replica().high_watermark == 2 * AT_ONCE + 10)


async def test_a_follower_says_that_it_has_records_when_they_are_flushed_where_that_is_due() -> (
    None
):
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        log, disk, flushing = two.replica().log, threading.Event(), threading.Event()
        log.config = dataclasses.replace(log.config, flush_messages=1)
        flush = log.flush

        def slowly() -> int:
            flushing.set()
            disk.wait(10)
            return flush()

        log.flush = slowly  # type: ignore[method-assign]
        led = one.replica().led
        assert led is not None
        await eventually(lambda: led.followers[2].end_offset == 0)
        one.append()
        await eventually(flushing.is_set)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (two.end_offset(), led.followers[2].end_offset) == (1, 0)
        disk.set()
        await eventually(lambda: one.replica().high_watermark == 1)
        assert log.recovery_point == 1

"""Tests the records that a follower fetches: many small batches, and a flush before the next
fetch."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

from log.replicated import AT_ONCE
from tests.broker.cluster.fellows import Fellow, cluster, eventually, identical_logs


async def test_follower_appends_many_small_batches_of_one_response() -> None:
    one, two = fellows = [Fellow(1), Fellow(2)]
    async with cluster(*fellows) as controller:
        await controller.lead(1, to=[one])
        one.append(2 * AT_ONCE + 10)
        await controller.lead(1)
        await identical_logs(one, two)
        await eventually(lambda: one.replica().high_watermark == 2 * AT_ONCE + 10)


async def test_next_fetch_of_a_follower_reports_records_only_after_their_flush() -> None:
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

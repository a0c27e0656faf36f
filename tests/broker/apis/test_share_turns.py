"""Tests that thousands of scattered records do not block the event loop when they are acknowledged,
delivered again, released or expire."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import NONE
from tests.broker.loop_work import CALLS_IN_10_MS, counting
from tests.broker.mock_time import MockTime
from tests.broker.share_calls import ACCEPT, RELEASE, ShareMember, acquired
from tests.broker.share_scene import Scene, on_scene
from tests.waiting import until

SCATTERED = 4_000
"""The number of available records. An accepted record follows each of them."""


def fetch_all(member: ShareMember) -> None:
    """Fetches all `SCATTERED` records. Sends several requests, because one response contains only
    some of the records."""
    member.open(max_records=0, max_wait_ms=0)
    left = SCATTERED
    while left:
        got = acquired(member.fetch(max_records=SCATTERED, max_wait_ms=5_000))
        left -= sum([last - first + 1 for first, last, _ in got])


@pytest.mark.campaign  # the profiler makes it slow
async def test_thousands_of_alternately_released_and_accepted_share_records_do_not_block_the_loop(
    tmp_path: Path,
) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        records = 2 * SCATTERED
        scene.produce(*[b"v"] * records)
        member = scene.member("m")
        assert acquired(member.open(max_records=records)) == [(0, records - 1, 1)]
        counter = counting()
        loop = scene.in_loop(counter.__enter__)
        try:
            types = [RELEASE, ACCEPT] * SCATTERED
            assert member.acknowledge((0, records - 1, types)) == NONE
            fetch_all(member)
            assert member.close()["error_code"] == NONE
            fetch_all(scene.member("other"))
            scene.move(time, 31_000)
            (live,) = scene.in_loop(lambda: list(scene.broker.share_partitions.of_group("g")))
            until("all locks have ended", lambda: scene.in_loop(live.share.next_deadline) is None)
        finally:
            scene.in_loop(lambda: counter.__exit__(None, None, None))
        print("longest turn:", loop.longest, "calls")
        assert loop.longest < CALLS_IN_10_MS

    await on_scene(tmp_path, work, time=time)

"""The verdicts of a share group in a broker, after known deliveries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.broker.seen import Seen, seeing
from tests.broker.share_calls import ACCEPT
from tests.broker.share_stories import PAYMENTS, SETTINGS, pass_locks, two_sharers


async def findings(seen: Seen) -> list[Any]:
    """Judges all groups, and returns the findings of the share group."""
    await seen.broker.verdicts.judge_all()
    answer = await seen.get(f"/api/groups/{PAYMENTS}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["findings"])


async def test_share_group_whose_members_accept_nothing_is_stalled(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen, 5)
        assert await one.fetch(2) == [(0, 1, 1)]
        assert await findings(seen) == []
        seen.pass_ms(29_000)
        assert await findings(seen) == []
        seen.pass_ms(1_000)
        [found] = await findings(seen)
        assert found["verdict"] == "STALLED"
        assert found["sentence"].startswith("3 records wait and members hold 2 records; no record")
        await one.acknowledge((0, 0, [ACCEPT]))
        assert await findings(seen) == []


async def test_record_that_is_delivered_again_and_again_is_a_stuck_record(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, two = await two_sharers(seen, 2)
        for delivery in (1, 2, 3):
            for each in (one, two):
                await each.heartbeat()
            assert await one.fetch(1) == [(0, 0, delivery)]
            if delivery < 3:
                assert [each["verdict"] for each in await findings(seen)][:1] in ([], ["STALLED"])
                await pass_locks(seen)
        stuck = [each for each in await findings(seen) if each["verdict"] == "STUCK_RECORD"]
    [found] = stuck
    assert (found["topic"], found["partition"], found["client"]) == ("orders", 0, "payments-1")
    assert found["sentence"] == (
        "orders:0 offset 0 was delivered 3 times since 2023-11-14T22:13:20Z; the last delivery to"
        " payments-1-aaaa on 10.0.0.7 ended with: lock expired"
    )
    assert found["command"] == "muster share why payments orders:0@0"

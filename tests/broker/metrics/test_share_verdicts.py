"""The verdicts of a share group in a broker, after known deliveries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.broker.seen import Seen, seeing
from tests.broker.share_calls import ACCEPT
from tests.broker.share_stories import PAYMENTS, SETTINGS, pass_locks, two_sharers


async def findings(seen: Seen) -> list[Any]:
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


async def test_verdict_is_stuck_record_when_a_record_is_delivered_repeatedly(
    tmp_path: Path,
) -> None:
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


async def test_verdict_names_a_member_whose_acquisition_locks_expire_repeatedly(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, two = await two_sharers(seen, 9)
        for number in range(3):
            for each in (one, two):
                await each.heartbeat()
            taken = await one.fetch(2)
            assert (await two.fetch(1))[0][2] == 1
            await two.acknowledge((2 + number, 2 + number, [ACCEPT]))
            assert taken == [(0, 1, number + 1)]
            if number < 2:
                assert "LOCKS_EXPIRE" not in [each["verdict"] for each in await findings(seen)]
            await pass_locks(seen)
        found = await findings(seen)
        for each in (one, two):
            await each.heartbeat()
        await one.heartbeat(-1)
        later = await findings(seen)
        counts = seen.broker.share_partitions.counts.of(PAYMENTS)
        assert [member for member, _ in counts.expiries] == []
    [expire] = [each for each in found if each["verdict"] == "LOCKS_EXPIRE"]
    assert (expire["client"], expire["host"]) == ("payments-1", "10.0.0.7")
    assert expire["sentence"] == (
        "the locks of payments-1-aaaa on 10.0.0.7 have expired 3 times since 2023-11-14T22:13:50Z,"
        " the last time at 2023-11-14T22:14:50Z: the member did not acknowledge 6 records within"
        " 30.0 s, and they were delivered again or archived"
    )
    assert "LOCKS_EXPIRE" not in [each["verdict"] for each in later]

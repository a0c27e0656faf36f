"""Tests that throttled replicas outside the ISR fetch at the configured rate, and other replicas
without delay."""

from __future__ import annotations

import pytest

from tests.broker.cluster.fellows import Fellow, cluster, eventually, identical_logs

LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"
SIZE = 100_000


def fellows_of(side: str, replicas: str, rate: int, spoken: str = "3.9") -> list[Fellow]:
    """Returns two brokers that throttle replication. ``side`` is the prefix of the throttle
    settings, for leaders or for followers. ``replicas`` lists the throttled replicas of topic
    ``t``."""
    config = {
        f"{side}.rate": str(rate),
        "replication.quota.window.num": "2",
        "replica.fetch.max.bytes": str(SIZE),
    }
    found = [Fellow(each, spoken, config=config, partition_max_bytes=SIZE) for each in (1, 2)]
    for each in found:
        each.topic_configs = {f"{side}.replicas": replicas}
    return found


@pytest.mark.parametrize("spoken", ["1.0", "2.6", "3.9"])
@pytest.mark.parametrize(("side", "broker"), [(LEADER, 1), (FOLLOWER, 2)])
async def test_replication_throttle_delays_only_a_replica_that_is_not_in_sync(
    side: str, broker: int, spoken: str
) -> None:
    one, two = fellows = fellows_of(side, f"0:{broker}", 1, spoken)
    async with cluster(*fellows) as controller:
        await controller.lead(1, isr=[1], partitions=[0, 1], to=[one])
        for index in (0, 1):
            one.append(10, b"v" * (SIZE // 2), index=index)
        await controller.lead(1, isr=[1], partitions=[0, 1])
        await identical_logs(*fellows, index=1)
        quotas = fellows[broker - 1].replica().quotas
        quota = quotas.leader if side == LEADER else quotas.follower
        await eventually(lambda: quota.holds_back("t", 0))
        reached = two.end_offset()
        assert 0 < reached < 10
        one.append(5, b"more", index=1)
        await identical_logs(*fellows, index=1)
        assert two.end_offset() == reached
        assert reached * SIZE / 2 <= quota.throttled_bytes <= (reached + 1) * SIZE
        fellows[broker - 1].config.adopt(
            fellows[broker - 1].config.with_dynamic({}, {f"{side}.rate": str(1 << 40)})
        )
        await identical_logs(*fellows)


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
async def test_fetches_of_a_throttled_in_sync_replica_are_counted_but_not_delayed(
    side: str,
) -> None:
    one, two = fellows = fellows_of(side, "*", 1)
    async with cluster(*fellows) as controller:
        await controller.lead(1)
        for number in range(1, 8):
            one.append(1, b"v" * 1000)
            await eventually(lambda number=number: two.replica().high_watermark == number)
        leads, follows = one.replica().quotas.leader, two.replica().quotas.follower
        quota = leads if side == LEADER else follows
        assert quota.holds_back("t", 0), "one that is not in sync would wait"
        assert quota.throttled_bytes == len(one.bytes_of())
        assert one.replica().state.isr == (1, 2)


async def test_fetch_of_only_throttled_partitions_is_answered_after_max_wait() -> None:
    one, two = fellows = fellows_of(LEADER, "*", 0)
    async with cluster(*fellows) as controller:
        await controller.lead(1, isr=[1], to=[one])
        one.append(10, b"v" * (SIZE // 2))
        await controller.lead(1, isr=[1])
        await eventually(lambda: one.replica().quotas.leader.holds_back("t", 0))
        await eventually(two.end_offset)
        reached = two.end_offset()
        fetched = one.replica().led.followers[2].fetched_ms
        await eventually(lambda: one.replica().led.followers[2].fetched_ms > fetched)
        assert two.end_offset() == reached
        assert one.replica().led.followers[2].end_offset == reached

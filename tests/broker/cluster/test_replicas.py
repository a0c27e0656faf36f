"""What LeaderAndIsr, StopReplica and UpdateMetadata do to a broker's replicas."""

from __future__ import annotations

from tests.broker.cluster.fellows import Fellow, alike, cluster, eventually


async def test_followers_have_what_the_leader_has_to_the_byte() -> None:
    one, two, three = fellows = [Fellow(each) for each in (1, 2, 3)]
    async with cluster(*fellows) as controller:
        answers = await controller.lead(1)
        assert [each.partitions for each in answers.values()] == [{("t", 0): 0}] * 3
        one.append(5)
        assert len(await alike(one, two, three)) > 0
        await eventually(lambda: one.replica().high_watermark == 5)
        one.append()
        await alike(one, two, three)
        await eventually(lambda: two.replica().high_watermark == 6)
    assert one.said == [("leader", "t-0", 0)]
    assert two.said == [("follower", "t-0", 0)]

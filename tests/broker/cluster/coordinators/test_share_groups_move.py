"""Share groups of KIP-932 on three whole brokers: share.version, and the moves of leaders and
coordinators."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.topics.registry import SHARE_STATE_TOPIC
from protocol.errors import NONE
from tests.broker.cluster.members import GROUP, members
from tests.broker.cluster.share_members import (
    SETTINGS,
    TOPIC,
    consumed,
    joined,
    produced,
    read_from_the_start,
    set_level,
    share_coordinator,
)
from tests.broker.share_calls import ACCEPT


@pytest.mark.parametrize("failing", ["leader", "share coordinator", "group coordinator"])
async def test_accepted_records_do_not_return_when_a_broker_stops(
    tmp_path: Path, failing: str
) -> None:
    async with members(tmp_path, SETTINGS) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, 1)
        await read_from_the_start(cluster)
        await joined(cluster, 1)
        topic = cluster.brokers[1].registry.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        assert topic.partitions == 4
        await produced(cluster, b"0", b"1", b"2", b"3")
        found, error = await consumed(cluster, (0, 1, [ACCEPT]))
        assert (found, error) == ([(0, 3, 1)], NONE)
        stopped = {
            "leader": lambda: cluster.leader(TOPIC, 0),
            "share coordinator": lambda: share_coordinator(cluster),
            "group coordinator": lambda: cluster.coordinator("g", GROUP),
        }[failing]
        await cluster.stop((await stopped()).registry.node_id)
        found, error = await consumed(cluster, (2, 3, [ACCEPT]))
        assert error == NONE
        assert [each[:2] for each in found] == [(2, 3)]
        await joined(cluster, 1)
        await produced(cluster, b"4")
        assert await consumed(cluster, (4, 4, [ACCEPT])) == ([(4, 4, 1)], NONE)

"""Tests that a follower with a full disk leaves the ISR, logs the reason, and later returns with
every record.

A replica whose log could not be created on the full disk is created when the disk has free space.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.cluster.replicas import missing_logs
from protocol.znodes import notices, topics
from tests.broker.cluster.members import Members, members
from tests.broker.filling_disk import FillingFiles
from tests.broker.serving import asked, eventually
from tests.broker.topic_calls import produce
from tests.wire import batch

SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "50",
    "auto.leader.rebalance.enable": "false",
}
FOLLOWER = 3


def in_sync(there: Members) -> set[int]:
    node = there.ensemble.nodes[topics.state_path("t", 0)]
    return set(topics.decode_state("t", 0, node.data or b"").isr)


async def write(leader: Broker, value: bytes) -> int:
    """Produces a record with acks=all. Returns the error code."""
    answer = await asked(leader, lambda wire: produce(wire, "t", batch(value)))
    error_code: int = answer["error_code"]
    return error_code


@pytest.mark.campaign
@pytest.mark.parametrize("version", ["3.9-IV0", "2.6-IV0"])
async def test_follower_with_a_full_disk_leaves_the_isr_and_returns(
    version: str, tmp_path: Path
) -> None:
    disk = FillingFiles()
    settings = {**SETTINGS, "inter.broker.protocol.version": version}
    async with members(tmp_path, settings, {FOLLOWER: disk}) as there:
        await there.create("t", 1)
        leader = await there.leader("t", 0)
        if leader is there.brokers[FOLLOWER]:
            await there.stop(FOLLOWER)
            await there.start(FOLLOWER)
            await eventually("it follows", lambda: in_sync(there) == {1, 2, 3})
            leader = await there.leader("t", 0)
        assert await write(leader, b"before") == 0
        with capture_logs() as lines:
            disk.full = range(1 << 40)
            assert await write(leader, b"meanwhile") == 0
            await eventually("it is out", lambda: in_sync(there) == {1, 2})
            told = [each["event"] for each in lines if each.get("partition") == "t-0"]
            assert told.count("log can't be written, retrying") == 1
            assert told.count("replica can't append, retrying") == 1
            assert await write(leader, b"more") == 0
            disk.full = range(0)
            await eventually("it is back", lambda: in_sync(there) == {1, 2, 3})
            assert await write(leader, b"after") == 0
        log = there.brokers[FOLLOWER].logs.topics["t"].partitions[0].log
        await eventually("it has all", lambda: log.log_end_offset == 4)


async def test_replica_is_created_when_the_full_disk_has_free_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_logs, "AGAIN_S", 0.05)
    disk = FillingFiles()
    async with members(tmp_path, SETTINGS, {FOLLOWER: disk}) as there:
        await there.settled()
        disk.full = range(1 << 40)
        await there.create("t", 1)
        await eventually("it is out", lambda: in_sync(there) == {1, 2})
        # The broker was elected before it could create its log; the controller must elect another
        # leader.
        await eventually("another leads", lambda: there.leaders_known("t", 0) <= {1, 2})
        leader = await there.leader("t", 0)
        assert await write(leader, b"meanwhile") == 0
        disk.full = range(0)
        await eventually("it is in", lambda: in_sync(there) == {1, 2, 3})
        log = there.brokers[FOLLOWER].logs.topics["t"].partitions[0].log
        await eventually("it has all", lambda: log.log_end_offset == 1)
    assert not there.ensemble.nodes[notices.LOG_DIR_EVENTS].children

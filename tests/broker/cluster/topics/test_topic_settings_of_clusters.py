"""Tests topic settings that have an effect only in a cluster, altered on three running brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.topics.replicas.replica import Replica
from protocol.errors import NONE, NOT_ENOUGH_REPLICAS
from tests.broker.cluster.members import Members, members
from tests.broker.config_calls import BROKER, DELETE, SET, alter
from tests.broker.serving import asked, eventually
from tests.broker.topic_calls import produce

TOPIC = "orders"
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


@asynccontextmanager
async def with_topic(folder: Path) -> AsyncIterator[Members]:
    async with members(folder, {"replica.lag.time.max.ms": "500"}) as cluster:
        await cluster.create(TOPIC, 1)
        yield cluster


async def _produced(leader: Broker) -> int:
    answer = await asked(leader, lambda wire: produce(wire, TOPIC))
    code: int = answer["error_code"]
    return code


async def test_altered_min_insync_replicas_takes_effect(
    tmp_path: Path,
) -> None:
    async with with_topic(tmp_path) as cluster:
        leader = await cluster.leader(TOPIC, 0)
        assert await _produced(leader) == NONE
        await asked(leader, lambda wire: alter(wire, TOPIC, (MIN_ISR, SET, "3")))
        other = next(each for each in cluster.brokers if cluster.brokers[each] is not leader)
        await cluster.stop(other)

        def in_sync() -> int:
            view = leader.cluster.partition(TOPIC, 0)
            return 0 if view is None else len(view.isr)

        await eventually("two are in sync", lambda: in_sync() == 2)
        assert await _produced(leader) == NOT_ENOUGH_REPLICAS
        await asked(leader, lambda wire: alter(wire, TOPIC, (MIN_ISR, DELETE, None)))
        assert await _produced(leader) == NONE


async def test_altered_unclean_leader_election_takes_effect_on_the_controller(
    tmp_path: Path,
) -> None:
    async with with_topic(tmp_path) as cluster:
        leader = await cluster.leader(TOPIC, 0)
        controller = cluster.brokers[leader.cluster.controller_id]
        await asked(leader, lambda wire: alter(wire, TOPIC, (UNCLEAN, SET, "true")))

        def allowed() -> bool:
            assert controller.mode.member is not None
            term = controller.mode.member.host.term
            assert term is not None
            known = term.core.cluster
            return known.allows_unclean(known.topics[TOPIC])

        await eventually("the controller knows", allowed)


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_altered_replication_throttles_take_effect_and_can_be_removed(
    side: str, tmp_path: Path
) -> None:
    async with with_topic(tmp_path) as cluster:
        leader = await cluster.leader(TOPIC, 0)
        replica = leader.logs.get(TOPIC, 0)
        assert isinstance(replica, Replica)
        quota = getattr(replica.quotas, side)
        node_id = str(leader.registry.node_id)
        replicas, rate = [f"{side}.replication.throttled.{each}" for each in ("replicas", "rate")]
        await asked(leader, lambda wire: alter(wire, TOPIC, (replicas, SET, f"0:{node_id}")))
        await eventually("it is throttled", lambda: quota.is_throttled(TOPIC, 0))
        quota.count(TOPIC, 0, 1000)
        assert not quota.holds_back(TOPIC, 0)
        set_to = (rate, SET, "1")
        assert await asked(leader, lambda wire: alter(wire, node_id, set_to, kind=BROKER)) == (
            NONE,
            None,
        )
        await eventually("it is held back", lambda: quota.holds_back(TOPIC, 0))
        await asked(leader, lambda wire: alter(wire, node_id, (rate, DELETE, None), kind=BROKER))
        await eventually("it is not held back", lambda: not quota.holds_back(TOPIC, 0))
        await asked(leader, lambda wire: alter(wire, TOPIC, (replicas, DELETE, None)))
        await eventually("it is not throttled", lambda: not quota.is_throttled(TOPIC, 0))

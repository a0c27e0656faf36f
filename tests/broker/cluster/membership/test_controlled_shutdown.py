"""Tests controlled shutdown: a stopping broker asks the controller to move its leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from broker.cluster.membership import controlled_shutdown
from broker.cluster.membership.controlled_shutdown import (
    ShutdownSettings,
    hand_over,
    shutdown_settings,
)
from broker.cluster.membership.registration import NO_EPOCH
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.controller_peer import ControllerPeer
from broker.cluster.zookeeper import zookeeper
from broker.config.config import Config
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from controller.requests import UpdateMetadataRequest
from controller.values import BrokerFact
from protocol.errors import NOT_CONTROLLER, STALE_BROKER_EPOCH
from protocol.messages.controlled_shutdown import API
from protocol.znodes.brokers import Endpoint
from tests.broker.cluster.other_broker import LISTENER, OtherBroker, Value, other_broker
from tests.broker.mock_time import NoWaiting

LEFT = {"topic_name": "t", "partition_index": 3}
Answer = Value | None | Callable[[], Value]
"""A response. None closes the connection. A function is called when the request arrives."""
SOON = ShutdownSettings(is_enabled=True, attempts=3, backoff_ms=1)


class Scene:
    """A controller with scripted responses, and a broker that requests its controlled shutdown."""

    def __init__(self, other: OtherBroker) -> None:
        self.other = other
        self.time: Time = Time()
        self.cache = MetadataCache(1)
        self.controller = ControllerPeer(1, LISTENER, self.cache, self.time, 60_000)
        self.zookeeper = MemoryZooKeeper(Ensemble())
        self.epoch = 77
        self.answers: list[Answer] = []
        other.serve(API.key, 0, 3, self._answer)
        self.show()

    def show(self) -> None:
        """Makes the controller known to the broker."""
        endpoint = Endpoint(LISTENER, "127.0.0.1", self.other.node.port)
        facts = [BrokerFact(2, 5, (endpoint,))]
        self.cache.update(UpdateMetadataRequest(1, self.epoch, 2, 1, facts, ()))

    async def _answer(self, version: int, value: Value) -> Value | None:
        found = self.answers.pop(0)
        return found() if callable(found) else found

    async def asks(self, *answers: Answer, settings: ShutdownSettings = SOON) -> bool:
        self.answers = [*answers]
        done = await self.hands_over(settings)
        assert not self.answers
        return done

    async def hands_over(self, settings: ShutdownSettings = SOON) -> bool:
        return await hand_over(
            settings, 1, lambda: self.epoch, self.controller, self.zookeeper, self.time
        )


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with other_broker() as other:
        found = Scene(other)
        yield found
        found.controller.close()


def answer(*left: Value, error: int = 0) -> Value:
    return {"error_code": error, "remaining_partitions": list(left)}


@pytest.mark.parametrize(("newest", "epoch"), [(1, -1), (3, 77)])
async def test_controlled_shutdown_is_requested_once_when_no_partition_remains(
    newest: int, epoch: int
) -> None:
    async with scene() as there:
        there.other.versions[API.key] = (0, newest)
        assert await there.asks(answer())
        asked = {"broker_id": 1, "broker_epoch": epoch}
        assert there.other.asked == [(API.key, newest, asked)]


async def test_controlled_shutdown_is_requested_again_while_partitions_remain() -> None:
    async with scene() as there:
        assert await there.asks(answer(LEFT), answer(LEFT), answer())


@pytest.mark.parametrize(
    "refusal", [answer(error=NOT_CONTROLLER), answer(error=STALE_BROKER_EPOCH), None]
)
async def test_refused_or_unanswered_shutdown_request_counts_as_one_attempt(
    refusal: Value | None,
) -> None:
    async with scene() as there:
        assert await there.asks(refusal, answer())
        assert not await there.asks(refusal, refusal, refusal)


@pytest.mark.proves("clusters 14")
async def test_each_controlled_shutdown_attempt_has_the_current_broker_epoch() -> None:
    """The broker may have a new session and a new broker epoch at the next attempt."""
    async with scene() as there:

        def renewed() -> Value:
            there.epoch = 99
            return answer(LEFT)

        await there.asks(renewed, answer())
        assert [value["broker_epoch"] for _, _, value in there.other.asked] == [77, 99]
        there.epoch = NO_EPOCH
        assert await there.asks(), "nobody believes that it leads anything"


async def test_shutdown_is_not_requested_when_disabled_or_without_a_controller() -> None:
    async with scene() as there:
        assert not await there.asks(settings=SOON._replace(is_enabled=False))
        there.cache.controller_id = -1
        assert not await there.asks()
        assert there.other.asked == []


async def test_controlled_shutdown_waits_before_its_next_attempt_but_not_after_its_last() -> None:
    async with scene() as there:
        there.time = time = NoWaiting()
        await there.asks(answer(LEFT), answer(LEFT), settings=ShutdownSettings(True, 2, 100))
        assert [each for each in time.slept_s if each == 0.1] == [0.1]


async def test_shutdown_is_abandoned_when_zookeeper_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller could not respond either, because it depends on ZooKeeper."""
    monkeypatch.setattr(controlled_shutdown, "LOOK_S", 0.01)
    monkeypatch.setattr(zookeeper, "ANSWERS_S", 0.05)
    async with scene() as there:
        silence = asyncio.Event()

        async def says_nothing(_version: int, _value: Value) -> None:
            await silence.wait()

        there.other.serve(API.key, 0, 3, says_nothing)
        there.zookeeper.suspend()
        with capture_logs() as lines:
            assert not await asyncio.wait_for(there.hands_over(), 20)
        [said] = [each["event"] for each in lines if "ZooKeeper" in each["event"]]
        assert said == "stopping without controlled shutdown: ZooKeeper does not answer"
        silence.set()


async def test_controlled_shutdown_continues_when_the_session_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controlled_shutdown, "LOOK_S", 0.001)
    async with scene() as there:
        many = SOON._replace(attempts=20, backoff_ms=5)
        there.answers = [answer(LEFT)] * 19 + [answer()]
        handing = asyncio.ensure_future(there.hands_over(many))
        for _ in range(5):
            await asyncio.sleep(0)
            there.zookeeper.expire()
        assert await handing


def test_controlled_shutdown_settings_have_the_defaults_of_kafka() -> None:
    assert shutdown_settings(Config({})) == (True, 3, 5000)

"""Tests the channels of the controller. A channel sends requests to one broker in order. A channel
sends the next request when the broker has answered or has failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from broker.cluster.controller.channels import Channels, ChannelSettings
from broker.cluster.peers.inter_broker import parse
from broker.loop.background import Background
from broker.loop.watchdog import Watchdog
from broker.time import Time
from controller.facts import Answered
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import BrokerFact
from protocol.messages import leader_and_isr, stop_replica, update_metadata
from protocol.znodes.brokers import Endpoint
from tests.broker.cluster.other_broker import LISTENER, OtherBroker, Value, other_broker
from tests.broker.edge import eventually

ID = bytes(range(16))


class Scene:
    """The channels of a controller, and broker 2 with scripted responses."""

    def __init__(self, other: OtherBroker, spoken: str) -> None:
        self.other = other
        self.answered: list[Answered] = []
        time = Time()
        self.background = Background(time, Watchdog(time))
        settings = ChannelSettings(1, parse(spoken), LISTENER, 2000, 2000)
        self.channels = Channels(settings, time, self.background.spawn, self.answered.append)
        self.answers: list[Value | None] = []
        self.open = asyncio.Event()
        self.open.set()
        for api in (leader_and_isr.API, update_metadata.API, stop_replica.API):
            other.answers[api.key] = self._answer

    async def _answer(self, version: int, value: Value) -> Value | None:
        await self.open.wait()
        return self.answers.pop(0) if self.answers else {"error_code": 0}

    def broker(self, epoch: int, port: int = 0, listener: str = LISTENER) -> BrokerFact:
        endpoint = Endpoint(listener, "127.0.0.1", port or self.other.node.port)
        return BrokerFact(2, epoch, (endpoint,))

    def epochs(self) -> list[int]:
        """Returns the controller epochs of the received requests. In these tests each request has a
        different controller epoch, so the epoch identifies the request."""
        return [value["controller_epoch"] for _, _, value in self.other.asked]


def update(broker_epoch: int, number: int) -> Send:
    return UpdateMetadataRequest(2, broker_epoch, 1, number, (), ())


@asynccontextmanager
async def scene(spoken: str = "3.9") -> AsyncIterator[Scene]:
    async with asyncio.timeout(120), other_broker() as other:
        found = Scene(other, spoken)
        yield found
        found.open.set()
        found.channels.close()
        await found.background.stop()


async def test_controller_channel_sends_requests_in_order_one_at_a_time() -> None:
    async with scene() as there:
        there.open.clear()
        there.channels.brokers_are([there.broker(5)])
        for number in (1, 2, 3):
            there.channels.send(update(5, number))
        await eventually(lambda: there.other.asked)
        assert there.epochs() == [1]
        assert there.channels.waiting() == {2: 3}
        there.open.set()
        await eventually(lambda: len(there.answered) == 3)
        assert there.epochs() == [1, 2, 3]
        assert [each.request.controller_epoch for each in there.answered] == [1, 2, 3]
        assert there.channels.waiting() == {2: 0}


async def test_controller_channel_repeats_an_unanswered_request_before_the_next_request() -> None:
    async with scene() as there:
        there.answers = [None, None]
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(update(5, 1))
        there.channels.send(update(5, 2))
        with capture_logs() as lines:
            await eventually(lambda: len(there.answered) == 2)
        assert there.epochs() == [1, 1, 1, 2]
        assert [each.get("attempts") for each in lines] == [1, None], "not a line for each"
        assert lines[1]["event"] == "broker answers the controller again"


async def test_controller_channel_retries_an_unreachable_broker() -> None:
    async with scene() as there:
        there.channels.brokers_are([there.broker(5, port=1)])
        there.channels.send(update(5, 1))
        with capture_logs() as lines:
            await eventually(lambda: lines)
        assert lines[0]["broker"] == 2
        there.channels.brokers_are([there.broker(5)])
        await eventually(lambda: there.answered)


@pytest.mark.proves("clusters 15")
async def test_controller_channel_drops_requests_for_a_previous_registration() -> None:
    async with scene() as there:
        there.open.clear()
        there.channels.brokers_are([there.broker(5)])
        for number in (1, 2):
            there.channels.send(update(5, number))
        await eventually(lambda: there.other.asked)
        there.channels.brokers_are([there.broker(6)])
        there.channels.send(update(5, 3))
        there.channels.send(update(6, 4))
        there.open.set()
        await eventually(lambda: there.answered)
        assert there.epochs() == [1, 4]
        assert [each.request.broker_epoch for each in there.answered] == [6]


async def test_controller_channel_drops_requests_for_a_removed_broker() -> None:
    async with scene() as there:
        there.channels.brokers_are([there.broker(5, port=1)])
        there.channels.send(update(5, 1))
        there.channels.brokers_are([])
        there.channels.send(update(5, 2))
        assert there.channels.waiting() == {}


@pytest.mark.proves("clusters 12")
async def test_controller_channel_logs_and_skips_broker_without_inter_broker_listener() -> None:
    async with scene() as there:
        odd = there.broker(9, listener="OTHER")._replace(broker_id=3)
        with capture_logs() as lines:
            there.channels.brokers_are([odd, there.broker(5)])
        assert [(each["broker"], each["listener"]) for each in lines] == [(3, LISTENER)]
        there.channels.send(update(5, 1))
        await eventually(lambda: there.answered)


def told_topic(*errors: int) -> list[LeaderAndIsrTopic]:
    parts = [
        LeaderAndIsrPartition(index, 1, 2, 0, (2,), 0, (2,), (), (), recovering=False, is_new=False)
        for index, _ in enumerate(errors)
    ]
    return [LeaderAndIsrTopic("t", ID, parts)]


async def test_controller_channel_finds_partition_errors_by_topic_id_or_name() -> None:
    request = LeaderAndIsrRequest(2, 5, 1, 1, told_topic(0, 56), ())
    wanted = {("t", 0): 0, ("t", 1): 56}
    async with scene() as there:
        errors = [
            {"partition_index": index, "error_code": code} for index, code in ((0, 0), (1, 56))
        ]
        unknown = {"topic_id": bytes(16), "partition_errors": errors}
        topics = [{"topic_id": ID, "partition_errors": errors}, unknown]
        there.answers = [{"error_code": 0, "topics": topics}]
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(request)
        await eventually(lambda: there.answered)
        assert there.answered[0].partitions == wanted
    async with scene("0.10.2") as there:
        errors = [{"topic_name": "t", **each} for each in errors]
        there.answers = [{"error_code": 0, "partition_errors": errors}]
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(request)
        await eventually(lambda: there.answered)
        assert there.answered[0].partitions == wanted


async def test_stop_replica_request_that_is_split_into_two_messages_has_one_result() -> None:
    """In old versions, a StopReplica request either deletes all of its partitions or none, so a
    request that deletes only some of its partitions needs two messages."""
    parts = [StoppedPartition(0, -1, delete=True), StoppedPartition(1, -1, delete=False)]
    request = StopReplicaRequest(2, 5, 1, 1, [StoppedTopic("t", parts)])
    async with scene("0.10.2") as there:
        there.answers = [
            {
                "error_code": code,
                "partition_errors": [
                    {"topic_name": "t", "partition_index": index, "error_code": code}
                ],
            }
            for index, code in ((0, 0), (1, 9))
        ]
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(request)
        await eventually(lambda: there.answered)
        (answer,) = there.answered
        assert len(there.other.asked) == 2
        assert (answer.request, answer.error) == (request, 9)
        assert len(answer.partitions) == 2


async def test_response_is_ignored_after_its_controller_channel_is_closed() -> None:
    async with scene() as there:
        there.open.clear()
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(update(5, 1))
        await eventually(lambda: there.other.asked)
        there.channels.close()
        there.open.set()
        await there.background.stop()
        assert there.answered == []


async def test_queue_of_requests_for_an_unresponsive_broker_is_bounded() -> None:
    """Each of 3,000 partitions changes 40 times. The broker accepts the connection but does not
    respond."""
    count, rounds = 3000, 40
    async with scene() as there:
        there.open.clear()
        there.channels.brokers_are([there.broker(5)])
        there.channels.send(update(5, 1))
        await eventually(lambda: there.other.asked)
        for epoch in range(rounds):
            for first in range(0, count, 100):
                parts = [
                    LeaderAndIsrPartition(
                        each, 1, 2, epoch, (2,), 0, (2,), (), (), False, epoch == 0
                    )
                    for each in range(first, first + 100)
                ]
                topics = [LeaderAndIsrTopic("t", ID, parts)]
                there.channels.send(LeaderAndIsrRequest(2, 5, 1, 1, topics, ()))
                there.channels.send(update(5, 1))
                await asyncio.sleep(0)
        assert there.channels.waiting()[2] < 300, "of 2,400"
        there.open.set()
        await eventually(lambda: there.channels.waiting() == {2: 0})
        heard = [
            each
            for key, _, value in there.other.asked
            if key == leader_and_isr.API.key
            for topic in value["topic_states"]
            for each in topic["partition_states"]
        ]
        last = {each["partition_index"]: each["leader_epoch"] for each in heard}
        assert last == dict.fromkeys(range(count), rounds - 1)
        at_first = {each["partition_index"]: each["is_new"] for each in reversed(heard)}
        assert at_first == dict.fromkeys(range(count), True)
        assert len(there.other.asked) < 300

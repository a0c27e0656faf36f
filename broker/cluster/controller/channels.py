"""The controller's channels, which send its requests to brokers in order.

Each registration of a broker has one channel. A channel sends one request at a time. It repeats the
request until the broker answers or the registration disappears from ZooKeeper. A request that waits
is left out only if newer requests supersede it. A broker that registers again has a new epoch and a
new channel; the requests in the old channel are dropped.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from broker.cluster.controller.control_requests import Message, encode
from broker.cluster.controller.superseded import load, without_superseded
from broker.cluster.lines import Trouble
from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.peers.peer import Address, Connect, Peer, PeerLost, connect
from broker.time import Time
from controller.facts import Answered
from controller.requests import LeaderAndIsrRequest, Send
from controller.values import BrokerFact, TopicPartition

logger = structlog.get_logger(__name__)

AGAIN_S = 0.1
"""The delay in seconds before a failed request is repeated."""
SLICE = 1000
"""The number of requests and partitions that `_tidy` reads in one slice of a few milliseconds."""
LOAD_MIN = 1000
"""The queue size, in requests and partitions, above which superseded requests are removed."""

Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """The settings of the controller's connections to brokers."""

    node_id: int
    spoken: InterBroker
    listener: str
    """The name of the inter-broker listener."""
    connect_timeout_ms: int
    """The value of ``controller.socket.timeout.ms``."""
    request_timeout_ms: int
    connect: Connect = connect


class Unanswered(NamedTuple):
    """The state of a broker's request queue, if the broker has not answered all requests of the
    controller."""

    broker_id: int
    requests: int
    """The number of requests in the queue, including the request that is in flight."""
    request: str
    """The type of the first request in the queue, such as ``LeaderAndIsr``."""
    since_ms: int
    """The wall time in ms of the first attempt to send the first request in the queue."""
    attempts: int
    """The number of attempts to send the first request in the queue that have failed."""
    reason: str
    """The reason why the last attempt failed."""


class Channels:
    """All channels of the controller. Only the event loop's thread may use this class."""

    def __init__(
        self,
        settings: ChannelSettings,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
        answered: Callable[[Answered], None],
    ) -> None:
        self._settings = settings
        self._time = time
        self._spawn = spawn
        self._answered = answered
        self._channels: dict[tuple[int, int], _Channel] = {}

    def brokers_are(self, brokers: Iterable[BrokerFact]) -> None:
        """Opens channels to newly registered brokers, and closes the channels to brokers that are
        not in ``brokers``."""
        there: dict[tuple[int, int], Address] = {}
        for each in brokers:
            address = self._address(each)
            if address is not None:
                there[each.broker_id, each.epoch] = address
        for key in self._channels.keys() - there.keys():
            self._channels.pop(key).close()
        for key, address in there.items():
            channel = self._channels.get(key)
            if channel is None:
                self._channels[key] = _Channel(
                    address, self._settings, self._time, self._spawn, self._answered
                )
            else:
                channel.address = address

    def send(self, request: Send) -> None:
        """Adds a request to the queue of its broker. Drops the request if the broker is not
        registered with the broker epoch in the request."""
        channel = self._channels.get((request.broker_id, request.broker_epoch))
        if channel is not None:
            channel.put(request)

    def waiting(self) -> Mapping[int, int]:
        """Returns the number of queued requests by broker id."""
        return {key[0]: len(each.queue) for key, each in self._channels.items()}

    def unanswered(self) -> list[Unanswered]:
        """Returns the queues of requests to brokers, one for each broker that has not answered all
        requests."""
        return [
            Unanswered(
                broker_id,
                len(each.queue),
                type(each.queue[0]).__name__.removesuffix("Request"),
                each.asked_ms,
                each.failures,
                each.reason,
            )
            for (broker_id, _), each in self._channels.items()
            if each.queue
        ]

    def close(self) -> None:
        """Closes all channels. Responses that arrive later are dropped."""
        for each in self._channels.values():
            each.close()
        self._channels.clear()

    def _address(self, broker: BrokerFact) -> Address | None:
        listener = self._settings.listener
        for each in broker.endpoints:
            if each.listener == listener:
                return Address(each.host, each.port)
        logger.error(
            "controller can't reach broker: the broker lacks the inter-broker listener",
            broker=broker.broker_id,
            listener=listener,
            endpoints=[each.text for each in broker.endpoints],
        )
        return None


class _Channel:
    """The connection to a broker, and the queue of requests for it. A broker that registers again
    gets a new channel."""

    def __init__(
        self,
        address: Address,
        settings: ChannelSettings,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None], str], Task[None]],
        answered: Callable[[Answered], None],
    ) -> None:
        self.address = address
        self.queue: deque[Send] = deque()
        self._load = 0
        """The total size of the queued requests. The size of a request is 1 plus the number of its
        partitions."""
        self._most = LOAD_MIN
        self._spawn = spawn
        self._tidying: Task[None] | None = None
        self._settings = settings
        self._time = time
        self._answered = answered
        self._news = Event()
        self._peer: Peer | None = None
        self.asked_ms = 0
        """The wall time in ms of the first attempt to send the request at the head of the queue."""
        self._trouble = Trouble(time)
        self.reason = ""
        """The reason of the last failed attempt; "" after a success."""
        self._worker = spawn(self._work(), "controller channel")

    @property
    def failures(self) -> int:
        """The number of consecutive failed attempts to send the request at the head of the
        queue."""
        return self._trouble.attempts

    def put(self, request: Send) -> None:
        """Adds a request to the queue. When the queue has become twice as long as it was after the
        last removal of superseded requests, starts another removal."""
        self.queue.append(request)
        self._load += load(request)
        if self._load > self._most and self._tidying is None:
            self._tidying = self._spawn(self._tidy(), "controller channel")
        self._news.set()

    async def _tidy(self) -> None:
        """Removes superseded requests from the queue, in slices. Leaves the queue unchanged if the
        broker answers the first request before the last slice."""
        first, *waiting = self.queue or (None,)  # the first request may be in flight
        tidy, done = without_superseded(waiting), 0
        try:
            while True:
                done += next(tidy)
                if done > SLICE:
                    done = 0
                    await self._time.sleep(0)
        except StopIteration as end:
            if self.queue and self.queue[0] is first:
                later = list(self.queue)[1 + len(waiting) :]
                self.queue = deque((self.queue[0], *end.value, *later))
                self._load = sum(map(load, self.queue))
            self._most = max(LOAD_MIN, 2 * self._load)
        except CancelledError:
            pass
        finally:
            self._tidying = None

    def close(self) -> None:
        self._worker.cancel()
        if self._tidying is not None:
            self._tidying.cancel()

    async def _work(self) -> None:
        try:
            while True:
                while self.queue:
                    if not self.failures:
                        self.asked_ms = self._time.now().wall_ms
                    answer = await self._ask(self.queue[0])
                    if answer is not None:
                        self._load -= load(self.queue.popleft())
                        self._answered(answer)
                self._news.clear()
                await self._news.wait()
        except CancelledError:
            pass
        finally:
            if self._peer is not None:
                self._peer.close()

    async def _ask(self, request: Send) -> Answered | None:
        """Sends a request once. Returns the broker's answer, or None if the request must be sent
        again."""
        settings = self._settings
        error, partitions = 0, dict[TopicPartition, int]()
        try:
            if self._peer is None or self._peer.lost is not None:
                client_id = str(settings.node_id)
                timeout_ms = settings.connect_timeout_ms
                self._peer = await settings.connect(self.address, client_id, self._time, timeout_ms)
            for message in encode(request, settings.spoken.version_of, settings.listener):
                answer = await self._call(self._peer, message)
                error = error or answer["error_code"]
                partitions.update(_partition_errors(request, answer))
        except PeerLost as lost:
            self.reason = str(lost)
            if self._trouble.is_news():
                logger.warning(
                    "broker does not answer the controller, retrying",
                    broker=request.broker_id,
                    attempts=self.failures,
                    reason=str(lost),
                )
            await self._time.real.sleep(AGAIN_S)
            return None
        except Exception as bug:  # a bug of ours: the request is repeated, to keep the order
            self.reason = repr(bug)
            if self._trouble.is_news():
                logger.exception(
                    "controller request failed: internal error", broker=request.broker_id
                )
            await self._time.real.sleep(AGAIN_S)
            return None
        if self._trouble.is_over():
            self.reason = ""
            logger.info("broker answers the controller again", broker=request.broker_id)
        return Answered(request, error, partitions)

    async def _call(self, peer: Peer, message: Message) -> Value:
        api, version, value = message
        return await peer.call(api, version, value, self._settings.request_timeout_ms)


def _partition_errors(request: Send, answer: Value) -> dict[TopicPartition, int]:
    """Returns the error codes by partition from a response of any version."""
    found = {
        (each["topic_name"], each["partition_index"]): each["error_code"]
        for each in answer.get("partition_errors", ())
    }
    if isinstance(request, LeaderAndIsrRequest) and answer.get("topics"):
        names = {topic.topic_id: topic.name for topic in request.topics}
        for topic in answer["topics"]:
            name = names.get(topic["topic_id"])
            if name is not None:
                for each in topic["partition_errors"]:
                    found[name, each["partition_index"]] = each["error_code"]
    return found

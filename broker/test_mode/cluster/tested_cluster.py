"""The brokers of a tested cluster, their registry and their clock.

All brokers run in one event loop and read one `MockTime`. Each run of a broker has its own tasks,
timers, files and connections (`run.py`), so that a kill ends only one broker. The registry is
authoritative for the state of the cluster. A change has settled when every broker that can reach
the registry knows it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import cast

from broker.broker import Broker
from broker.cluster.cluster_broker import ClusterBroker
from broker.cluster.zookeeper.zookeeper import Where, ZooKeeper
from broker.config.config import Config
from broker.test_mode.addresses import Addresses
from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.faults import Faults
from broker.test_mode.lines import KeptLines
from broker.test_mode.refusals import NotNow, UnknownVerb
from broker.test_mode.registry.registry import Registry
from broker.test_mode.registry.truth import Truth
from broker.test_mode.tested_broker import TestedBroker
from broker.time import Time
from broker.topics.owned_topics import OWNED
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.topics.replicas.replica import Replica
from broker.topics.topic_changes import BadFactor, CannotChange, TopicExists

CLIENTS, BROKERS, REGISTRY = "clients", "brokers", "registry"
"""The kinds of peers that a fault can cut off from a broker."""
PAUSE = "pause"
"""The kind of fault that suspends a broker as SIGSTOP does."""
SETTLES_WITHIN_S = 15.0
"""The maximum number of real seconds to wait until all brokers know the same cluster state."""
_LOOKS_EACH_S = 0.001


class TestedCluster:
    """The brokers of one process. Only the event loop's thread may use this class."""

    __test__ = False

    def __init__(
        self,
        configs: Mapping[int, Config],
        addresses: Mapping[int, Addresses],
        lines: KeptLines,
        time: MockTime | None = None,
    ) -> None:
        """Creates the cluster; ``configs`` and ``addresses`` have an entry for each broker id."""
        self.time = time or MockTime()
        """The clock of all brokers and of their sessions in the registry."""
        self.system = self.time.real
        self.lines = lines
        self.registry = Registry(self.time)
        self.brokers = {
            broker_id: TestedBroker(
                config,
                addresses[broker_id],
                None,
                lines,
                self.time,
                connect=partial(self._connect, broker_id),
            )
            for broker_id, config in configs.items()
        }
        self.faults = Faults()
        """The active faults of the cluster. Faults of requests to one broker are in that broker's
        `faults`."""
        self.ended = asyncio.Event()
        """An event that is set when the process is to end."""
        self._changing = asyncio.Lock()
        """The lock that must be held to start, stop or kill a broker."""

    async def _connect(self, broker_id: int, where: Where, time: Time) -> ZooKeeper:
        return await self.registry.connect(broker_id, where, time)

    # -- the state of the cluster

    @property
    def truth(self) -> Truth:
        return Truth(self.registry.ensemble)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, which clients use as bootstrap.servers."""
        return ",".join(each.addresses.bootstrap_servers for each in self.brokers.values())

    def named(self, broker_id: int) -> TestedBroker:
        """Returns a broker. Raises UnknownVerb if the cluster has no broker with this id."""
        if broker_id not in self.brokers:
            there = ", ".join(map(str, self.brokers))
            raise UnknownVerb(f"broker {broker_id} does not exist; the brokers are {there}")
        return self.brokers[broker_id]

    def running(self, broker_id: int) -> TestedBroker:
        """Returns a running broker. Raises NotNow if the broker does not run."""
        tested = self.named(broker_id)
        if not tested.is_running:
            raise NotNow(f"broker {broker_id} does not run: POST /test/start starts it")
        return tested

    @property
    def connected(self) -> dict[int, Broker]:
        """The running brokers that can reach the registry and the other brokers."""
        cut = {
            end
            for fault in self.faults
            if (others := set(fault.shown.get("from", ())) - {CLIENTS}) or fault.kind == PAUSE
            for end in (fault.shown["broker"], *others)
        }
        return {
            broker_id: each.broker
            for broker_id, each in self.brokers.items()
            if each.is_running and broker_id not in cut and self.registry.is_connected(broker_id)
        }

    @property
    def controller(self) -> TestedBroker:
        """The broker that is the controller. Raises NotNow if the cluster has no controller, or if
        the controller can't reach the registry."""
        controller_id = self.truth.controller_id or 0
        found = self.brokers.get(controller_id)
        if found is None or not found.is_running:
            raise NotNow("the cluster has no controller at the moment")
        if not self.registry.is_connected(controller_id):
            raise NotNow(
                f"the controller, broker {controller_id}, is paused or can't reach the registry:"
                " end the fault, or advance the clock until the broker's session has expired, so"
                " that another broker becomes the controller"
            )
        return found

    @property
    def is_settled(self) -> bool:
        """True if every broker that can reach the registry is registered and knows the cluster's
        state."""
        truth, connected = self.truth, self.connected
        if not connected.keys() <= set(truth.registered):
            return False
        caches = (member_of(each).cache for each in connected.values())
        return all(truth.is_known_to(each) for each in caches)

    async def settle(self) -> bool:
        """Waits until `is_settled` is True and the high watermarks have reached the current log end
        offsets of the leaders. Returns False after `SETTLES_WITHIN_S` seconds."""
        try:
            async with self.system.within(SETTLES_WITHIN_S):
                await self._until(lambda: self.is_settled)
                ends = [(each, each.log.log_end_offset) for each in self._led()]
                await self._until(lambda: all(each.high_watermark >= end for each, end in ends))
        except TimeoutError:
            return False
        return True

    def _led(self) -> Iterator[Replica]:
        """Yields the leader's replica of each partition whose high watermark can advance: at least
        ``min.insync.replicas`` replicas are in sync, and all in-sync replicas are connected."""
        truth, connected = self.truth, self.connected
        for name in truth.topics:
            for index, each in enumerate(truth.partitions(name)):
                state = each.state
                if state is None or state.leader < 0 or not connected.keys() >= set(state.isr):
                    continue
                # A broker whose disk is full has no log of a new partition.
                replica = cast("Replica | None", connected[state.leader].logs.get(name, index))
                if replica is None or replica.led is None:
                    continue
                if len(state.isr) >= replica.led.min_isr:
                    yield replica

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.system.sleep(_LOOKS_EACH_S)

    # -- the life of brokers

    async def start(self) -> None:
        """Starts all brokers and waits until they know each other. Raises OSError and the
        exceptions in CANNOT_START."""
        async with self._changing:
            await self._start()

    async def start_one(self, broker_id: int) -> None:
        """Starts a stopped or killed broker with its data. Does nothing for a running broker."""
        tested = self.named(broker_id)
        async with self._changing:
            await tested.start()
            await self.settle()

    async def stop(self, broker_id: int) -> None:
        """Stops a broker as SIGTERM does: the broker first transfers its leaderships."""
        tested = self.running(broker_id)
        async with self._changing:
            await self.before_losses()
            self._end_faults_of(broker_id)
            await tested.stop()
            await self.settle()

    async def kill(self, broker_id: int, expire: bool) -> None:
        """Kills a broker as SIGKILL does.

        With ``expire``, the broker's session in the registry ends immediately, and all other
        brokers know the new leaders when this method returns. Otherwise the session ends after its
        timeout.
        """
        self.running(broker_id)
        async with self._changing:
            await self.before_losses()
            await self._kill(broker_id)
            self._end_faults_of(broker_id)  # only now: links that are restored carry data
            if expire:
                self.registry.expire(broker_id)
            await self.settle()

    async def reset(self) -> float:
        """Replaces all brokers by new brokers without data. Returns the duration in ms. Raises
        OSError and the exceptions in CANNOT_START."""
        async with self._changing:
            began_ns = self.system.ticks_ns()
            self.faults.end_all()
            for broker_id in self.brokers:
                await self._kill(broker_id)
            self.time.reset()
            for tested in self.brokers.values():
                tested.empty()
            self.registry = Registry(self.time)
            gc.collect()
            await self._start()
            return (self.system.ticks_ns() - began_ns) / 1e6

    async def end(self) -> None:
        async with self._changing:
            for tested in self.brokers.values():
                await tested.end()

    async def _kill(self, broker_id: int) -> None:
        """Kills a broker. First ends its registry client, so that the registry no longer notifies
        this broker. Otherwise a killed controller could send requests to brokers that have
        restarted."""
        self.registry.vanish(broker_id)
        await self.brokers[broker_id].kill()

    async def _start(self) -> None:
        await asyncio.gather(*[each.start() for each in self.brokers.values()])
        await self.settle()

    async def before_losses(self) -> None:
        """Creates the internal topics of the coordinators before the first broker is lost. If a
        broker were already down, the topics could not get all replicas, and groups could not start,
        as in Kafka."""
        if len(self.connected) < len(self.brokers):
            return
        topics = self.controller.broker.topics
        for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            if name not in self.truth.topics:
                with suppress(TopicExists, CannotChange, BadFactor):
                    await topics.ensure_owned(OWNED[name])
        await self.settle()

    def _end_faults_of(self, broker_id: int) -> None:
        """Ends the faults that isolate or suspend a broker, before the broker ends."""
        for fault in list(self.faults):
            if fault.shown.get("broker") == broker_id:
                self.faults.end(fault.fault_id)

    # -- the clock

    @property
    def is_loading(self) -> bool:
        """True if any broker is loading groups or transactional ids."""
        return any(each.is_loading for each in self.brokers.values())

    @contextmanager
    def holding_clients(self) -> Iterator[None]:
        """Within this context, delays arriving requests of clients. Requests between brokers are
        handled."""
        with ExitStack() as stack:
            for each in self.brokers.values():
                stack.enter_context(each.holding_clients())
            yield


def member_of(broker: Broker) -> ClusterBroker:
    """Returns the parts of a broker that exist only in a cluster."""
    return cast(ClusterBroker, broker.mode.member)

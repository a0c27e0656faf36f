"""One term of this broker as controller, from the won election to the term's end.

The controller's core handles facts one after the other, and each outcome is executed at once.
Results of reads and writes that arrive after the term's end are dropped.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Task
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.cluster.controller.channels import Channels, ChannelSettings
from broker.cluster.controller.controller_reads import ControllerReads
from broker.cluster.controller.controller_writes import (
    STATES_AT_ONCE,
    ControllerWrites,
    StateWrite,
)
from broker.cluster.controller.election import Elected, write_feature
from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    Closed,
    SessionExpired,
    Watch,
    ZooKeeper,
    slices,
)
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.ticket import deliver
from controller.calls import Call
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.events import Event
from controller.facts import (
    BrokersSeen,
    DeletionsSeen,
    Fact,
    Ready,
    ReassignmentsSeen,
    Resigned,
    Result,
    Tick,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    WriteResult,
    Written,
)
from controller.outcome import (
    DeleteNodes,
    Outcome,
    Read,
    ReadProducerIds,
    ReadStates,
    ReadTopic,
    ReadUnclean,
    Write,
)
from controller.values import TopicPartition
from controller.view import Counts, Doing, Waits
from protocol.znodes import admin, topics
from protocol.znodes.fields import BadNode

if TYPE_CHECKING:
    from asyncio import TimerHandle

logger = structlog.get_logger(__name__)

NO_TICKET = -1
"""The ticket id of a write that the controller's core did not request."""

Spawn = Callable[[Coroutine[Any, Any, None], str], Task[None]]
Observe = Callable[[Sequence[Event]], None]


@dataclass(frozen=True, slots=True)
class HostServices:
    """The services that the `ControllerHost` and its terms use."""

    zookeeper: ZooKeeper
    channels: ChannelSettings
    config: Callable[[], ControllerConfig]
    """A function that returns the controller's settings; called at each election."""
    topic_version: int
    """The version of the format in which nodes of topics are written to ZooKeeper."""
    known_id: Callable[[str], bytes | None]
    """A function that returns the id of a topic in this broker's metadata, or None."""
    time: Time
    spawn: Spawn
    errors: InternalErrors


class Term:
    """This broker's term as controller, from the election to the term's end."""

    def __init__(
        self,
        services: HostServices,
        elected: Elected,
        observe: Observe,
        ended: Callable[[Term, str], None],
    ) -> None:
        self.core = Controller(services.config(), elected.epoch)
        self._services = services
        self._observe = observe
        self._ended = ended
        self._time = services.time
        zookeeper = services.zookeeper
        self._reads = ControllerReads(zookeeper, self._spare_id)
        self.writes = ControllerWrites(zookeeper, elected.epoch_version, services.topic_version)
        self.channels = Channels(services.channels, self._time, services.spawn, self.handle)
        self._registrations = ANY_VERSION
        """The version of `/brokers/ids` at the core's last read of the registrations."""
        self._results: list[WriteResult] = []
        self._timer: TimerHandle | None = None
        self._working = False
        self._over = False
        self._reading: dict[str, bool] = {}
        """The parts of the controller's state that are being read. The value is True if a part
        changes during its read, so that it must be read again."""

    def _spare_id(self, name: str) -> bytes:
        """Returns an id for a topic whose node lost its id to an old tool (KAFKA-14190): the id in
        this broker's metadata, or else a new id."""
        return self._services.known_id(name) or self._time.fresh_id()

    async def begin(self) -> None:
        """Reads the cluster's state, sets watches for later reads, and starts the core."""
        reads = self._reads
        await write_feature(self._services.zookeeper, self._services.channels.spoken)
        await self._read("brokers", self._reader("brokers"))
        names = await reads.names(topics.TOPICS, partial(self._watched, "topics"))
        self.handle(TopicsSeen(names))
        places: list[TopicPartition] = []
        for some in slices(names):
            places += await self._begin_topics(some)
        for several in slices(places):
            self.handle(await reads.states(several))
        for each in ("deletions", "reassignments", "preferred"):
            await self._read(each, self._reader(each))
        self.handle(Ready())
        for each in ("isr notices", "log dir notices"):
            await self._read(each, self._reader(each))

    async def _begin_topics(self, names: Sequence[str]) -> list[TopicPartition]:
        """Passes the state and settings of topics to the core, each topic in its own turn. Returns
        the topics' partitions."""
        reads, places = self._reads, list[TopicPartition]()
        seen = await asyncio.gather(
            *[reads.topic(name, partial(self._watched_topic, name)) for name in names]
        )
        for fact in seen:
            self._take(fact)
            if isinstance(fact, TopicSeen):
                places += [(fact.topic.name, index) for index in fact.topic.partitions]
            await self._time.sleep(0)
        for own in await asyncio.gather(*[reads.unclean(name) for name in names]):
            if own.allowed is not None:
                self.handle(own)
        return places

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self.core.epoch

    def doing(self) -> Doing:
        return self.core.doing()

    def waits(self, only: str | None = None) -> Iterator[list[Waits]]:
        """Yields the operations for which the controller waits, each with the reason, in one list
        for each topic. ``only`` selects one topic; None selects all topics."""
        return self.core.waits(only)

    def counts(self) -> Iterator[Counts]:
        """Counts topics, partitions and replicas. Yields the counts so far after each topic."""
        return self.core.counts()

    def end(self) -> None:
        """Answers the waiting calls with an error, and drops the state of the term."""
        self.channels.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._over:
            return
        self._over = True
        try:
            answers = self.core.handle(Resigned(), self._time.now())
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._services.errors.caught("controller", error)
            return
        for ticket, reply in answers.replies:
            deliver(ticket, reply, self._services.errors)
        self._observe(answers.events)

    def settings_changed(self, topic: str) -> None:
        """Reads again whether unclean leader elections are enabled for a topic. If ``topic`` is "",
        reads this broker's setting."""
        if topic:
            self._spawn(self._give(self._reads.unclean(topic)))
        else:
            self.handle(UncleanSeen("", self._services.config().unclean_leader_election_enable))

    # -- events and outcomes

    def handle(self, event: Fact | Call) -> None:
        """Passes an event to the core and executes the outcome."""
        if self._over:
            return
        try:
            if isinstance(event, BrokersSeen):
                self.channels.brokers_are(event.brokers)
                self._registrations = event.registrations
            self._do(self.core.handle(event, self._time.now()))
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._failed(error)

    def _work(self) -> None:
        self._working = False
        if self._over:
            return
        try:
            self._do(self.core.work(self._time.now()))
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Ends the term after an exception in the core. The next term reads ZooKeeper again."""
        self._services.errors.caught("controller", error)
        if not self._over:
            self._ended(self, f"internal error: {error!r}")

    def _do(self, outcome: Outcome) -> None:
        states: list[StateWrite] = []
        for write in outcome.writes:
            if isinstance(write, StateWrite):
                states.append(write)
            else:
                self._spawn(self._write(write))
        for at in range(0, len(states), STATES_AT_ONCE):
            some = states[at : at + STATES_AT_ONCE]
            self._spawn(self._write_states(some, self._registrations))
        for send in outcome.sends:
            self.channels.send(send)
        for read in outcome.reads:
            self._spawn(self._read_asked(read))
        for ticket, reply in outcome.replies:
            deliver(ticket, reply, self._services.errors)
        self._observe(outcome.events)
        if outcome.resign:
            self._over = True
            self._ended(self, outcome.resign)
            return
        if outcome.more and not self._working:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)
        self._arm()

    def _arm(self) -> None:
        due_ms = self.core.next_deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            delay_ms = max(0, due_ms - self._time.now().mono_ms)
            self._timer = self._time.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.handle(Tick())

    # -- ZooKeeper

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._services.spawn(self._guarded(work), "controller")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (SessionExpired, Closed, CancelledError):
            pass  # the session has ended, and with it the term
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._failed(error)

    async def _write(self, write: Write) -> None:
        self._done([await self.writes.do(write)])

    async def _write_states(self, writes: Sequence[StateWrite], registrations: int) -> None:
        results = await self.writes.do_states(writes, registrations)
        if any(each.result is Result.OUTDATED for each in results):
            self._watched("brokers")
        self._done(results)

    def _done(self, results: Sequence[WriteResult]) -> None:
        """Collects the results of writes until the end of the turn. Then the core gets all of them
        as one fact."""
        if not self._results:
            asyncio.get_running_loop().call_soon(self._written)
        self._results += results

    def _written(self) -> None:
        results, self._results = self._results, []
        self.handle(Written(results))

    async def _read_asked(self, read: Read) -> None:
        reads = self._reads
        match read:
            case ReadTopic(name):
                await self._give(reads.unclean(name))
                await self._give(reads.topic(name, partial(self._watched_topic, name)))
            case ReadStates(partitions):
                for some in slices(partitions):
                    await self._give(reads.states(some))
            case ReadUnclean(topic):
                await self._give(reads.unclean(topic))
            case ReadProducerIds():
                await self._give(reads.producer_ids())

    async def _give(self, fact: Awaitable[Fact | None]) -> None:
        self._take(await fact)

    def _take(self, fact: Fact | None) -> None:
        if fact is not None:
            self.handle(fact)

    async def _asked_for(
        self,
        path: str,
        read: Callable[[Watch], Awaitable[Fact | None]],
        nothing: Fact | None,
        watch: Watch,
    ) -> Fact | None:
        """Returns the request that an old tool has written into a node under /admin.

        If the node can't be parsed, deletes the node, so that tools can write another request, and
        returns ``nothing``.
        """
        try:
            return await read(watch)
        except BadNode as error:
            logger.error("deleting a ZooKeeper node that can't be parsed", reason=str(error))
        done = await self.writes.do(DeleteNodes(NO_TICKET, [path]))
        if done.result is Result.FENCED and not self._over:
            self._ended(self, "another broker has been elected controller")
        return nothing

    def _reader(self, what: str) -> Callable[[], Awaitable[Fact | None]]:
        reads, watch = self._reads, partial(self._watched, what)

        async def deletions() -> Fact:
            return DeletionsSeen(await reads.names(admin.DELETE_TOPICS, watch))

        async def seen_topics() -> Fact:
            return TopicsSeen(await reads.names(topics.TOPICS, watch))

        readers: dict[str, Callable[[], Awaitable[Fact | None]]] = {
            "brokers": lambda: reads.brokers(watch),
            "topics": seen_topics,
            "deletions": deletions,
            "reassignments": lambda: self._asked_for(
                admin.REASSIGN, reads.reassignments, ReassignmentsSeen({}), watch
            ),
            "preferred": lambda: self._asked_for(admin.PREFERRED, reads.preferred, None, watch),
            "isr notices": lambda: reads.isr_notices(watch),
            "log dir notices": lambda: reads.log_dir_notices(watch),
        }
        return readers[what]

    def _watched(self, what: str) -> None:
        """Called by the watch of ``what``: reads ``what`` again. If a read is in progress, another
        read follows it."""
        self._read_again(what, self._reader(what))

    def _watched_topic(self, name: str) -> None:
        watch = partial(self._watched_topic, name)
        self._read_again(f"topic {name}", lambda: self._reads.topic(name, watch))

    def _read_again(self, what: str, read: Callable[[], Awaitable[Fact | None]]) -> None:
        if not self._over:
            is_read = what in self._reading
            self._reading[what] = True
            if not is_read:
                self._spawn(self._read(what, read))

    async def _read(self, what: str, read: Callable[[], Awaitable[Fact | None]]) -> None:
        """Passes the result of ``read`` to the core. Reads again after each `_read_again(what)`."""
        self._reading[what] = True
        try:
            while self._reading[what] and not self._over:
                self._reading[what] = False
                self._take(await read())
        finally:
            del self._reading[what]

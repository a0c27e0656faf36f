"""A simulated cluster for tests of the controller's core: ZooKeeper, brokers, and hosts of
controllers.

Nothing happens without a call of the test. A `Host` executes the outcomes of its controller.
Writes, reads and requests wait in queues, and the test completes them in any order that ZooKeeper
and the network allow. `Nodes` and `SimulatedBroker` check the invariants, and raise `Broken` when
one fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.calls import AlterPartition, Call, IsrChange
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.events import Event
from controller.facts import (
    Answered,
    BrokersSeen,
    DeletionsSeen,
    Fact,
    IsrNotified,
    PreferredSeen,
    ProducerIdsRead,
    Ready,
    ReassignmentsSeen,
    Result,
    StatesRead,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    WriteResult,
    Written,
)
from controller.outcome import (
    CreateState,
    DeleteNodes,
    DeleteTopic,
    Outcome,
    Read,
    ReadProducerIds,
    ReadStates,
    ReadTopic,
    ReadUnclean,
    Reply,
    RewriteTopic,
    SetProducerIds,
    SetReassignments,
    SetState,
    Write,
)
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Send,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import (
    LEADER_OF_DELETED,
    NO_LEADER,
    Assignment,
    BrokerFact,
    LeaderAndIsr,
    Replicas,
    TopicFact,
    TopicPartition,
)
from protocol import errors
from protocol.now import Now
from protocol.znodes.admin import PREFERRED, delete_path
from protocol.znodes.brokers import Endpoint


class Broken(AssertionError):
    """Raised when an invariant does not hold."""


def require(holds: bool, text: str) -> None:
    if not holds:
        raise Broken(text)


@dataclass
class Nodes:
    """The nodes of a cluster in ZooKeeper. Checks the invariants at each write."""

    brokers: dict[int, BrokerFact] = field(default_factory=dict)
    topics: dict[str, TopicFact] = field(default_factory=dict)
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)
    moves: dict[TopicPartition, Replicas] = field(default_factory=dict)
    preferred: list[TopicPartition] = field(default_factory=list)
    notices: dict[str, list[TopicPartition]] = field(default_factory=dict)
    unclean: dict[str, bool] = field(default_factory=dict)
    unclean_asked: set[str] = field(default_factory=set)
    """Topics for which an ElectLeaders request has allowed an unclean election."""
    producer_ids: tuple[int, int] = (-1, -1)
    """The last allocated producer id, and the version of the ZooKeeper node."""
    epoch: int = 0
    """The epoch of the newest controller. It is also the version of the ZooKeeper node that fences
    earlier controllers."""
    zxid: int = 0
    ids: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """Topic ids, by name and by the zxid at which the topic was created."""
    strays: set[tuple[int, TopicPartition]] = field(default_factory=set)
    """Replicas that a reassignment removed. The broker of such a replica may have been down at that
    time, and may still have the replica."""
    led: dict[tuple[TopicPartition, int, int], tuple[int, int]] = field(default_factory=dict)
    """By partition, creation zxid of the topic, and leader epoch: the broker id of the leader, and
    the epoch of its registration."""
    on_state: Callable[[TopicPartition, LeaderAndIsr | None, LeaderAndIsr], None] | None = None

    def next_zxid(self) -> int:
        self.zxid += 1
        return self.zxid

    def write(self, write: Write, epoch: int) -> WriteResult:
        """Checks the controller epoch and performs the write, in one multi request."""
        if epoch != self.epoch:
            return WriteResult(write.ticket, Result.FENCED)
        result, version = self._write(write, epoch)
        return WriteResult(write.ticket, result, version)

    def _write(self, write: Write, epoch: int) -> tuple[Result, int]:
        match write:
            case CreateState() | SetState():
                return self._write_state(write, epoch)
            case RewriteTopic():
                topic = self.topics.get(write.name)
                if topic is None:
                    return Result.NO_NODE, -1
                if topic.znode_version != write.znode_version:
                    return Result.BAD_VERSION, -1
                for index, before in topic.partitions.items():
                    after = write.partitions.get(index, before)
                    gone = set(before.replicas) - set(after.replicas)
                    self.strays |= {(each, (write.name, index)) for each in gone}
                if write.topic_id is not None:
                    known = self.ids.setdefault((write.name, topic.created), write.topic_id)
                    require(known == write.topic_id, f"topic {write.name} gets another id")
                self.topics[write.name] = topic._replace(
                    topic_id=write.topic_id,
                    partitions=dict(write.partitions),
                    znode_version=topic.znode_version + 1,
                )
                return Result.OK, topic.znode_version + 1
            case DeleteTopic():
                self.topics.pop(write.name, None)
                for key in [each for each in self.states if each[0] == write.name]:
                    del self.states[key]
                self.unclean.pop(write.name, None)
                self.deletions.discard(write.name)
            case DeleteNodes():
                for path in write.paths:
                    self.notices.pop(path, None)
                    if path == PREFERRED:
                        self.preferred = []
                    for name in [each for each in self.deletions if delete_path(each) == path]:
                        self.deletions.discard(name)
            case SetReassignments():
                self.moves = dict(write.targets)
            case SetProducerIds():
                if write.znode_version != self.producer_ids[1]:
                    return Result.BAD_VERSION, -1
                fresh = write.block_start > self.producer_ids[0]
                require(fresh and write.block_end - write.block_start == 999, f"{write}")
                self.producer_ids = write.block_end, write.znode_version + 1
                return Result.OK, write.znode_version + 1
        return Result.OK, 0

    def _write_state(self, write: CreateState | SetState, epoch: int) -> tuple[Result, int]:
        key = write.topic, write.partition
        before = self.states.get(key)
        topic = self.topics.get(write.topic)
        if topic is None:
            return Result.NO_NODE, -1
        version = 0
        if isinstance(write, CreateState):
            if before is not None:
                return Result.NODE_EXISTS, -1
        elif before is None:
            return Result.NO_NODE, -1
        elif before.partition_epoch != write.state.partition_epoch:
            return Result.BAD_VERSION, -1
        else:
            version = before.partition_epoch + 1
        state = write.state._replace(partition_epoch=version, written=self.zxid)
        self._check(key, before, state, topic.partitions[write.partition], epoch)
        self.states[key] = state
        if self.on_state is not None:
            self.on_state(key, before, state)
        return Result.OK, version

    def _check(
        self,
        key: TopicPartition,
        before: LeaderAndIsr | None,
        state: LeaderAndIsr,
        assignment: Assignment,
        epoch: int,
    ) -> None:
        text = f"{key}: {before} -> {state}, {assignment}"
        require(state.controller_epoch == epoch, f"the epoch is not the controller's: {text}")
        require(state.leader in (*state.isr, NO_LEADER), f"the leader is not in the ISR: {text}")
        require(bool(state.isr), f"the ISR is empty: {text}")
        require(len(set(state.isr)) == len(state.isr), f"the ISR has one twice: {text}")
        if before is None:
            require(set(state.isr) <= set(assignment.replicas), f"the ISR has others: {text}")
            return
        raised = state.leader_epoch - before.leader_epoch
        same_leader = state.leader == before.leader and raised == 0
        require(raised == 1 or same_leader, f"the leader epoch is not raised: {text}")
        if raised:
            clean = set(state.isr) <= set(before.isr)
            allowed = self.unclean.get(key[0], False) or key[0] in self.unclean_asked
            unclean = allowed and len(state.isr) == 1
            require(clean or unclean, f"the ISR gained a member: {text}")

    def read(self, read: Read, spare_id: bytes) -> list[Fact]:
        """Performs a read, and returns the facts for the controller."""
        match read:
            case ReadTopic(name):
                topic = self.topics.get(name)
                return [TopicGone(name) if topic is None else TopicSeen(topic, spare_id)]
            case ReadStates(partitions):
                return [StatesRead([(each, self.states.get(each)) for each in partitions])]
            case ReadUnclean(name):
                return [UncleanSeen(name, self.unclean.get(name))]
            case ReadProducerIds():
                return [ProducerIdsRead(*self.producer_ids)]

    # -------------------------------------------------------------------- what others write

    def create_topic(
        self, name: str, partitions: dict[int, Assignment], topic_id: bytes | None
    ) -> None:
        """Creates a topic node as a broker does, or as an old tool does if ``topic_id`` is None."""
        topic = self.topics[name] = TopicFact(name, topic_id, partitions, 0, self.next_zxid())
        if topic_id is not None:
            self.ids[name, topic.created] = topic_id

    def rewrite_topic(self, name: str, **changes: object) -> None:
        """Changes a topic node as a broker does, or as an old tool does when it adds partitions."""
        topic = self.topics[name]
        changed = topic._replace(znode_version=topic.znode_version + 1, **changes)  # type: ignore[arg-type]
        self.topics[name] = changed

    def leader_writes_isr(self, key: TopicPartition, state: LeaderAndIsr) -> bool:
        """Writes an ISR to ZooKeeper, as the leader of a partition does in Kafka before 2.7.
        Returns False without a write if the node has another version than ``state``."""
        before = self.states.get(key)
        if before is None or before.partition_epoch != state.partition_epoch:
            return False
        version = before.partition_epoch + 1
        self.states[key] = state._replace(partition_epoch=version, written=self.zxid)
        self.notices[f"/isr_change_notification/isr_change_{self.next_zxid():010}"] = [key]
        return True


class SimulatedBroker:
    """A broker that answers the controller's requests, and has the state that these requests
    describe."""

    def __init__(self, broker_id: int, nodes: Nodes) -> None:
        self.broker_id = broker_id
        self.nodes = nodes
        self.epoch = -1
        """The czxid of the broker's registration, or -1 if the broker is down."""
        self.controller_epoch = 0
        self.replicas: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """The partitions in the LeaderAndIsr requests that this process of the broker has received.
        """
        self.directories: dict[TopicPartition, bytes | None] = {}
        """The topic id of each replica on the disk. A restart of the broker keeps the replicas."""
        self.shown: dict[TopicPartition, int] = {}
        """The leader of each partition, from UpdateMetadata requests."""
        self.knows: set[int] = set()
        """The live brokers, from UpdateMetadata requests."""
        self.failed: set[TopicPartition] = set()
        """Replicas whose disk has failed."""

    def start(self, epoch: int) -> None:
        self.epoch = epoch
        self.controller_epoch = 0
        self.replicas, self.shown, self.knows = {}, {}, set()
        self.failed = set()

    def stop(self) -> None:
        self.epoch = -1
        self.replicas = {}

    def take(self, request: Send) -> Answered:
        if request.broker_epoch < self.epoch:
            return Answered(request, errors.STALE_BROKER_EPOCH, {})
        if request.controller_epoch < self.controller_epoch:
            return Answered(request, errors.STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                return Answered(request, errors.NONE, self._led(request))
            case UpdateMetadataRequest():
                self._show(request)
                return Answered(request, errors.NONE, {})
            case StopReplicaRequest():
                return Answered(request, errors.NONE, self._stop(request))

    def _led(self, request: LeaderAndIsrRequest) -> dict[TopicPartition, int]:
        answers = {}
        for topic in request.topics:
            for told in topic.partitions:
                answers[topic.name, told.partition] = self._lead(topic.name, topic.topic_id, told)
        return answers

    def _lead(self, topic: str, topic_id: bytes | None, told: LeaderAndIsrPartition) -> int:
        key = topic, told.partition
        if key in self.failed:
            return errors.KAFKA_STORAGE_ERROR
        if (self.broker_id, key) in self.nodes.strays and key not in self.replicas:
            self.directories.pop(key, None)
        if self.directories.get(key, topic_id) != topic_id:
            return errors.INCONSISTENT_TOPIC_ID
        before = self.replicas.get(key)
        if before is not None and told.leader_epoch <= before.leader_epoch:
            return errors.STALE_CONTROLLER_EPOCH
        require(
            before is None or told.partition_epoch >= before.partition_epoch,
            f"broker {self.broker_id} hears of an older partition epoch: {before} -> {told}",
        )
        require(
            told.leader == NO_LEADER or told.leader in self.knows,
            f"broker {self.broker_id} is to follow {told.leader}, of which it never heard",
        )
        require(
            self.broker_id in told.replicas,
            f"broker {self.broker_id} is told of a replica of others: {told}",
        )
        self.directories[key] = topic_id
        self.replicas[key] = told
        if told.leader == self.broker_id:
            self._leads(key, told)
        return errors.NONE

    def _leads(self, key: TopicPartition, told: LeaderAndIsrPartition) -> None:
        """Checks that at most one broker leads the partition in each leader epoch. A broker that
        has restarted counts as another broker, because the restart can shorten its log.

        A partition state that was written after the restart is accepted: the previous controller
        may have chosen the leader before it noticed the restart.
        """
        topic, state = self.nodes.topics.get(key[0]), self.nodes.states.get(key)
        if topic is None or state is None:
            return
        who = self.broker_id, self.epoch
        led = self.nodes.led.setdefault((key, topic.created, told.leader_epoch), who)
        text = f"{led}, then {who} lead {key} in one leader epoch: {told}"
        require(led == who or state.written >= self.epoch, text)

    def _show(self, request: UpdateMetadataRequest) -> None:
        self.knows = {each.broker_id for each in request.brokers}
        for topic in request.topics:
            for shown in topic.partitions:
                key = topic.name, shown.partition
                if shown.leader == LEADER_OF_DELETED:
                    self.shown.pop(key, None)
                else:
                    self.shown[key] = shown.leader

    def _stop(self, request: StopReplicaRequest) -> dict[TopicPartition, int]:
        answers = {}
        for topic in request.topics:
            for stopped in topic.partitions:
                key = topic.name, stopped.partition
                if key in self.failed:
                    answers[key] = errors.KAFKA_STORAGE_ERROR
                    continue
                if stopped.delete:
                    self.replicas.pop(key, None)
                    self.directories.pop(key, None)
                answers[key] = errors.NONE
        return answers

    def led(self) -> list[tuple[TopicPartition, LeaderAndIsrPartition]]:
        """Returns the partitions that the broker leads, from the requests it received last."""
        return [each for each in self.replicas.items() if each[1].leader == self.broker_id]


class Host:
    """A controller, and the queues of its pending writes, reads and requests."""

    def __init__(self, world: World, config: ControllerConfig, epoch: int) -> None:
        self.world = world
        self.epoch = epoch
        self.controller = Controller(config, epoch)
        self.writes: deque[Write] = deque()
        self.reads: deque[Read] = deque()
        self.channels: dict[tuple[int, int], deque[Send]] = {}
        self.replies: dict[object, Reply] = {}
        self.events: list[Event] = []
        self.more = False
        self.resigned = ""
        self.now_ms = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def give(self, event: Fact | Call) -> Outcome:
        """Passes an event to the controller, and queues the outcome."""
        return self.take(self.controller.handle(event, self.now))

    def work(self) -> Outcome:
        return self.take(self.controller.work(self.now))

    def take(self, outcome: Outcome) -> Outcome:
        """Adds the writes, reads and requests of the outcome to the queues."""
        self.writes += outcome.writes
        self.reads += outcome.reads
        for send in outcome.sends:
            self.channels.setdefault((send.broker_id, send.broker_epoch), deque()).append(send)
        for ticket, reply in outcome.replies:
            require(ticket not in self.replies, f"{ticket} is answered twice")
            self.replies[ticket] = reply
        self.events += outcome.events
        self.more = outcome.more
        self.resigned = self.resigned or outcome.resign
        return outcome

    def load(self) -> None:
        """Passes the content of all nodes to the controller, as after its election."""
        nodes = self.world.nodes
        nodes.notices.clear()
        self.give(BrokersSeen([*nodes.brokers.values()]))
        self.give(TopicsSeen([*nodes.topics]))
        for topic in nodes.topics.values():
            self.give(TopicSeen(topic, self.world.spare_id(topic.name)))
        self.give(StatesRead([*nodes.states.items()]))
        self.give(DeletionsSeen([*nodes.deletions]))
        self.give(ReassignmentsSeen(dict(nodes.moves)))
        if nodes.preferred:
            self.give(PreferredSeen([*nodes.preferred]))
        self.give(Ready())

    # ---------------------------------------------------------------------- single steps

    def write_one(self) -> WriteResult:
        return self.world.nodes.write(self.writes.popleft(), self.epoch)

    def read_one(self) -> None:
        read = self.reads.popleft()
        spare_id = self.world.spare_id(read.name if isinstance(read, ReadTopic) else "")
        for fact in self.world.nodes.read(read, spare_id):
            self.give(fact)

    def send_one(self, channel: tuple[int, int]) -> Answered | None:
        """Delivers the first request of a channel and returns the response, or None if the broker
        is down."""
        requests = self.channels[channel]
        broker = self.world.brokers[channel[0]]
        registered = self.world.nodes.brokers.get(channel[0])
        if registered is None or registered.epoch != channel[1]:
            del self.channels[channel]
            return None
        if broker.epoch < 0:
            return None
        answer = broker.take(requests.popleft())
        if not requests:
            del self.channels[channel]
        return answer

    def settle(self, *, answers: bool = True) -> None:
        for _ in range(100_000):
            if self.resigned:
                return
            if self.more:
                self.work()
            elif self.writes:
                results = [self.write_one() for _ in range(len(self.writes))]
                self.give(Written(results))
            elif self.reads:
                self.read_one()
            elif answers and (ready := self._channels_ready()):
                answer = self.send_one(ready[0])
                if answer is not None:
                    self.give(answer)
            else:
                return
        raise AssertionError("the controller does not come to rest")

    def _channels_ready(self) -> list[tuple[int, int]]:
        registered = self.world.nodes.brokers
        for broker_id, epoch in [*self.channels]:
            if broker_id not in registered or registered[broker_id].epoch != epoch:
                del self.channels[broker_id, epoch]
        return [each for each in self.channels if self.world.brokers[each[0]].epoch >= 0]


class World:
    """A simulated cluster: its nodes, its brokers, and the hosts of one or more controllers."""

    def __init__(self, brokers: int = 3, **config: object) -> None:
        self.nodes = Nodes()
        self.config = ControllerConfig(1, **config)  # type: ignore[arg-type]
        self.brokers = {each: SimulatedBroker(each, self.nodes) for each in range(1, brokers + 1)}
        self.hosts: list[Host] = []
        self.nodes.on_state = self._check_who_joins
        self._spares = 0

    def _check_who_joins(
        self, key: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr
    ) -> None:
        """Checks that each broker that joins an ISR follows in the current leader epoch. Ignores
        brokers that are down or have restarted."""
        if before is None or before.leader_epoch != state.leader_epoch:
            return
        for broker_id in set(state.isr) - set(before.isr):
            told = self.brokers[broker_id].replicas.get(key)
            require(
                told is None or told.leader_epoch == state.leader_epoch,
                f"{broker_id} joins the ISR of {key} in another epoch: {told}, {state}",
            )

    def spare_id(self, name: str = "") -> bytes:
        """Returns the id of the topic ``name``, if this topic exists and has an id. Otherwise
        returns a new topic id."""
        if name in self.nodes.topics:
            known = self.nodes.ids.get((name, self.nodes.topics[name].created))
            if known is not None:
                return known
        self._spares += 1
        return self._spares.to_bytes(16, "big")

    def register(self, broker_id: int, host: str = "127.0.0.1") -> None:
        zxid = self.nodes.next_zxid()
        endpoint = Endpoint("PLAINTEXT", host, 9090 + broker_id)
        self.nodes.brokers[broker_id] = BrokerFact(broker_id, zxid, (endpoint,))
        self.brokers[broker_id].start(zxid)

    def unregister(self, broker_id: int) -> None:
        self.nodes.brokers.pop(broker_id, None)
        self.brokers[broker_id].stop()

    def elect(self, broker_id: int = 1) -> Host:
        """Elects a new controller and fences the earlier ones."""
        self.nodes.epoch += 1
        config = ControllerConfig(
            broker_id, **{k: getattr(self.config, k) for k in CONFIG if k != "broker_id"}
        )
        host = Host(self, config, self.nodes.epoch)
        self.hosts.append(host)
        host.load()
        return host

    def see_brokers(self) -> BrokersSeen:
        return BrokersSeen([*self.nodes.brokers.values()])

    def isr_asked(
        self, ticket: object, broker_id: int, wanted: dict[TopicPartition, Replicas], **but: object
    ) -> AlterPartition:
        """Returns an AlterPartition request of a leader, with the leader epochs that this leader
        knows."""
        broker = self.brokers[broker_id]
        changes = []
        for key, isr in wanted.items():
            told = broker.replicas[key]
            change = IsrChange(
                key[0], None, key[1], told.leader_epoch, self.nodes.states[key].partition_epoch, isr
            )
            changes.append(change._replace(**but))  # type: ignore[arg-type]
        return AlterPartition(ticket, broker_id, broker.epoch, changes)

    def notified(self) -> IsrNotified:
        partitions = [key for keys in self.nodes.notices.values() for key in keys]
        return IsrNotified([*self.nodes.notices], partitions)


CONFIG = tuple(ControllerConfig.__dataclass_fields__)


def replicas(*broker_ids: int) -> Assignment:
    """Returns an assignment to these brokers that has no reassignment in progress."""
    return Assignment(broker_ids)

"""A random simulation of one partition on three brokers. No committed record may be lost.

The leaders are `LedReplicas`, and the followers use `replication/follower.py`. Logs, epochs,
messages, ZooKeeper, the controller and elections are as simple as possible. A message can be late
or lost, and its sender or receiver can crash before its delivery. A disconnected broker can
continue to lead when another broker already leads. The checks:

- An offset below any announced high watermark has the same record on every later leader.
- Only one leader appends records in an epoch.
- The versions and epochs that a broker receives never decrease.
- All members of the ISR are assigned replicas.
- Two logs are equal up to the lower of their high watermarks.

``fault`` names a disabled rule. A test with a fault proves that the checks detect that the rule is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from protocol.errors import INVALID_UPDATE_VERSION, NONE, OPERATION_NOT_ATTEMPTED
from replication.follower import Begin, Way, begin, cut_to, follower_high_watermark, reset
from replication.leader import LedReplicas
from replication.values import NO_LEADER, PartitionState, Rules, Step, WantedIsr

IDS = (1, 2, 3)
LAG_MS = 1000

NO_EPOCH = "no epoch at the beginning"
FAULTS = (
    "cut to the high watermark",
    "shrink at once",
    "expand for nothing",
    "no election by the in-sync replicas",
    "any version is written",
    "consumers read to the end",
)


class Lost(AssertionError):
    """Raised when an invariant does not hold, such as a lost committed record."""


@dataclass
class Node:
    """A simulated broker with its replica of the partition."""

    node_id: int
    log: list[tuple[int, str]] = field(default_factory=list)
    """Leader epoch and value of each record, by offset."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    checkpoint: int = 0
    alive: bool = True
    connected: bool = True
    """True if the broker can reach the controller, ZooKeeper and the other brokers."""
    state: PartitionState | None = None
    led: LedReplicas | None = None
    step: Begin | None = None
    """The next step of this replica in its role as a follower."""
    life: int = 0

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def leader_epoch(self) -> int:
        return -1 if self.state is None else self.state.leader_epoch

    def note_epoch(self, epoch: int, offset: int) -> None:
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, offset))

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Returns epoch and end offset as in an OffsetForLeaderEpoch response. Returns (-1, -1) for
        an unknown epoch."""
        if not self.epochs or epoch > self.epochs[-1][0] or epoch < 0:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        later = [start for known, start in self.epochs if known > epoch]
        known = [each for each, _ in self.epochs if each <= epoch]
        return (known[-1] if known else epoch), later[0]

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def cut(self, offset: int) -> None:
        del self.log[offset:]
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
        self.high_watermark = min(self.high_watermark, self.end)


class World:
    """The simulated brokers, and the messages in transit between them."""

    def __init__(
        self, chance: Random, way: Way = Way.BY_FETCH, min_isr: int = 1, fault: str = ""
    ) -> None:
        self.chance = chance
        self.way = way
        self.min_isr = min_isr
        self.fault = fault
        self.now_ms = 1_000_000
        self.nodes = {node_id: Node(node_id) for node_id in IDS}
        self.zookeeper = PartitionState(1, 1, 0, IDS, 0, IDS)
        self.mail: list[Callable[[], None]] = []
        """The messages in transit. They are delivered in random order."""
        self.told: dict[int, str] = {}
        """By offset: the value of each committed record. A record is committed if a leader has
        announced a high watermark above its offset."""
        self.appended_by: dict[int, tuple[int, int]] = {}
        """By leader epoch: the broker that has appended records in this epoch, and how often this
        broker had restarted before its first append in the epoch."""
        self.values = 0
        self.moves = 0
        self._announce()

    # -- chance

    def step(self) -> None:
        self.chance.choices(
            (
                self.produce, self.fetch, self.deliver, self.pass_time, self.crash_or_restart,
                self.cut_off_or_reconnect, self.checkpoint, self.lose_mail,
            ),
            (8, 16, 16, 4, 2, 2, 2, 1),
        )[0]()  # fmt: skip
        self.check()

    def produce(self) -> None:
        node = self.chance.choice([*self.nodes.values()])
        if not node.alive or node.led is None:
            return
        epoch = node.leader_epoch
        writer = self.appended_by.setdefault(epoch, (node.node_id, node.life))
        if writer[0] != node.node_id:
            raise Lost(f"{writer[0]} and {node.node_id} both append in epoch {epoch}")
        self.values += 1
        node.note_epoch(epoch, node.end)
        node.log.append((epoch, f"v{self.values}"))
        self._take(node, node.led.appended(node.end, self.now_ms))

    def deliver(self) -> None:
        if self.mail:
            self.mail.pop(self.chance.randrange(len(self.mail)))()

    def lose_mail(self) -> None:
        if self.mail:
            self.mail.pop(self.chance.randrange(len(self.mail)))

    def pass_time(self) -> None:
        self.now_ms += self.chance.randrange(LAG_MS)
        for node in self.nodes.values():
            if node.alive and node.led is not None:
                self._take(node, node.led.tick(self.now_ms))

    def checkpoint(self) -> None:
        node = self.chance.choice([*self.nodes.values()])
        node.checkpoint = node.high_watermark

    def crash_or_restart(self) -> None:
        node = self.chance.choice([*self.nodes.values()])
        if node.alive:
            node.alive, node.state, node.led, node.step = False, None, None, None
        else:
            node.alive, node.connected = True, True
            node.life += 1
            node.high_watermark = min(node.checkpoint, node.end)
        self.elect()

    def cut_off_or_reconnect(self) -> None:
        node = self.chance.choice([*self.nodes.values()])
        if node.alive:
            node.connected = not node.connected
            self.elect()

    # -- the controller

    def elect(self) -> None:
        """Elects a reachable in-sync replica as leader and removes unreachable replicas from the
        ISR. Sends the new state to each broker."""
        live = [each for each in IDS if self.nodes[each].alive and self.nodes[each].connected]
        now = self.zookeeper
        eligible = live if self.fault == "no election by the in-sync replicas" else [
            each for each in live if each in now.isr
        ]  # fmt: skip
        isr = tuple(each for each in now.isr if each in live) or now.isr
        if self.fault == "no election by the in-sync replicas" and eligible:
            isr = isr if eligible[0] in isr else (eligible[0],)
        leader = now.leader if now.leader in eligible else (eligible[0] if eligible else NO_LEADER)
        self.zookeeper = now._replace(
            leader=leader,
            isr=isr,
            leader_epoch=now.leader_epoch + 1,
            partition_epoch=now.partition_epoch + 1,
        )
        self._announce()

    def _announce(self) -> None:
        state = self.zookeeper
        for node in self.nodes.values():
            life = node.life

            def heard(node: Node = node, life: int = life) -> None:
                if node.alive and node.connected and node.life == life:
                    self._heard(node, state)

            self.mail.append(heard)

    def _heard(self, node: Node, state: PartitionState) -> None:
        """Handles a LeaderAndIsr request at the broker ``node``."""
        if state.leader_epoch <= node.leader_epoch:
            return
        if state.leader == node.node_id:
            before, node.state, node.step = node.led, state, None
            if self.fault != NO_EPOCH:
                node.note_epoch(state.leader_epoch, node.end)
            if before is not None:
                self._take(node, before.new_state(state, node.end, self.now_ms))
                return
            for offset, value in self.told.items():
                if offset >= node.end or node.log[offset][1] != value:
                    raise Lost(f"{node.node_id} leads epoch {state.leader_epoch} without {value}")
            rules = Rules(LAG_MS, self.min_isr, lambda each: self.nodes[each].connected)
            node.led = LedReplicas(
                node.node_id, state, node.end, node.high_watermark, node.end, self.now_ms, rules
            )
            self._take(node, node.led.begun(self.now_ms))
            return
        node.state, node.led = state, None
        node.step = begin(self.way, node.latest_epoch)

    # -- a leader

    def _take(self, node: Node, step: Step) -> None:
        led = node.led
        assert led is not None
        node.high_watermark = max(node.high_watermark, step.high_watermark)
        if self.fault == "shrink at once" and led.pending is not None:
            led.maximal_isr = frozenset(led.pending.isr)
        if self.fault == "expand for nothing" and led.pending is not None:
            led.maximal_isr = frozenset(led.state.isr)
        shown = node.end if self.fault == "consumers read to the end" else node.high_watermark
        for offset in range(shown):
            value = node.log[offset][1]
            if self.told.setdefault(offset, value) != value:
                raise Lost(f"offset {offset} was {self.told[offset]}, {node.node_id} has {value}")
        if step.wanted_isr is not None:
            self._want(node, step.wanted_isr)

    def _want(self, node: Node, wanted: WantedIsr) -> None:
        life, epoch = node.life, node.leader_epoch

        def write() -> None:
            """Handles an AlterPartition request at the controller."""
            now, error_code = self.zookeeper, NONE
            if not node.connected:
                self.mail.append(write)
                return
            if not set(wanted.isr) <= {each for each in IDS if self.nodes[each].connected}:
                error_code = OPERATION_NOT_ATTEMPTED
            elif now.partition_epoch != wanted.expected_partition_epoch and (
                self.fault != "any version is written"
            ):
                error_code = INVALID_UPDATE_VERSION
            else:
                version = now.partition_epoch + 1
                self.zookeeper = now._replace(isr=wanted.isr, partition_epoch=version)
            version = self.zookeeper.partition_epoch

            def answered() -> None:
                led = node.led
                if led is None or (node.life, node.leader_epoch) != (life, epoch):
                    return
                if error_code == NONE:
                    self._take(node, led.isr_written(version, self.now_ms))
                else:
                    self._take(node, led.isr_refused(error_code, self.now_ms))

            self.mail.append(answered)

        self.mail.append(write)

    # -- a follower

    def fetch(self) -> None:
        """A random follower sends a request to its leader. The response arrives at a random later
        time."""
        node = self.chance.choice([*self.nodes.values()])
        state = node.state
        if not node.alive or state is None or node.led is not None or not node.connected:
            return
        leader = self.nodes.get(state.leader)
        if node.step is Begin.CUT:
            node.cut(node.high_watermark)
            node.step = Begin.FETCH
        if leader is None or not leader.alive or leader.led is None or not leader.connected:
            return
        if leader.leader_epoch != state.leader_epoch:
            return  # fenced, or unknown yet
        if node.step is Begin.ASK:
            self._answer_epoch(node, leader)
        else:
            self._answer_fetch(node, leader)

    def _later(self, node: Node, work: Callable[[], None]) -> None:
        """Sends a response to the follower ``node``; ``work`` applies it when it arrives. The
        follower ignores the response if the follower has restarted in between, or its epoch or log
        end has changed."""
        life, epoch, end = node.life, node.leader_epoch, node.end

        def come() -> None:
            same = (node.life, node.leader_epoch, node.end) == (life, epoch, end)
            if node.alive and node.connected and node.led is None and same:
                work()

        self.mail.append(come)

    def _answer_epoch(self, node: Node, leader: Node) -> None:
        answer = leader.end_of(node.latest_epoch)
        self._later(node, lambda: self._diverged(node, *answer))

    def _diverged(self, node: Node, epoch: int, end: int) -> None:
        cut = cut_to(epoch, end, node.end_of, node.end, node.high_watermark)
        node.cut(cut.offset)
        if self.way is Way.BY_EPOCH:
            node.step = Begin.FETCH if cut.done else Begin.ASK

    def _answer_fetch(self, node: Node, leader: Node) -> None:
        offset, led = node.end, leader.led
        assert led is not None
        if self.way is Way.BY_FETCH and node.latest_epoch >= 0:
            if self.fault == "cut to the high watermark":
                if leader.end_of(node.latest_epoch)[0] != node.latest_epoch:
                    self._later(node, lambda: node.cut(node.high_watermark))
                    return
            else:
                epoch, end = leader.end_of(node.latest_epoch)
                if epoch >= 0 and (epoch < node.latest_epoch or end < offset):
                    self._later(node, lambda: self._diverged(node, epoch, end))
                    return
        if offset > leader.end:
            to = reset(0, leader.end, node.end)
            self._later(node, lambda: node.cut(to.offset))
            return
        self._take(leader, led.follower_fetched(node.node_id, offset, leader.end, self.now_ms))
        count = self.chance.randrange(4)
        records, high_watermark = leader.log[offset : offset + count], leader.high_watermark

        def take() -> None:
            for epoch, value in records:
                if epoch < node.latest_epoch:
                    raise Lost(f"{node.node_id} is sent {epoch} behind {node.latest_epoch}")
                node.note_epoch(epoch, node.end)
                node.log.append((epoch, value))
            node.high_watermark = follower_high_watermark(high_watermark, node.end, 0)

        self._later(node, take)

    # -- checks

    def check(self) -> None:
        self.moves += 1
        if not set(self.zookeeper.isr) <= set(IDS):
            raise Lost(f"in sync: {self.zookeeper.isr}")
        for node in self.nodes.values():
            if node.led is not None and node.led.high_watermark > node.end:
                raise Lost(f"the high watermark of {node.node_id} is above its end")
        for one in self.nodes.values():
            for other in self.nodes.values():
                both = min(one.high_watermark, other.high_watermark)
                if one.log[:both] != other.log[:both]:
                    raise Lost(f"{one.node_id} and {other.node_id} differ below {both}")

    def heal(self) -> None:
        """Starts and connects all brokers, and runs steps until all replicas are equal and in the
        ISR."""
        for node in self.nodes.values():
            if not node.alive:
                node.alive = True
                node.life += 1
                node.high_watermark = min(node.checkpoint, node.end)
            node.connected = True
        self.elect()
        for _ in range(400):
            for _ in range(12):
                self.fetch()
            while self.mail:
                self.mail.pop(0)()
            self.now_ms += LAG_MS // 4
            for node in self.nodes.values():
                if node.led is not None:
                    self._take(node, node.led.tick(self.now_ms))
            self.check()
            if self.is_whole():
                return
        raise Lost(f"it does not heal: {self.zookeeper} {self.nodes}")

    def is_whole(self) -> bool:
        """True if all brokers have all records and are in the ISR, and all records are
        committed."""
        ends = {(node.end, node.high_watermark) for node in self.nodes.values()}
        is_same = len(ends) == 1 and len({tuple(n.log) for n in self.nodes.values()}) == 1
        ((end, high_watermark), *_) = ends
        return is_same and end == high_watermark and set(self.zookeeper.isr) == set(IDS)

"""Random histories of a cluster with the pure core of the controller, determined by a seed.

Brokers die and restart, disks fail, leaders change their ISRs, and tools and clients send every
permitted request. New controllers replace earlier ones. Results, reads, requests and facts arrive
late, twice or in another order. Writes fail in every possible way.

`Nodes` and `SimulatedBroker` check the invariants at each step. At the end of a history, all
brokers run and no operation fails. The controller must then complete all its work.
"""

from __future__ import annotations

from collections import deque
from random import Random

from controller.calls import (
    AllocateProducerIds,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
)
from controller.facts import (
    BrokersSeen,
    DeletionsSeen,
    LogDirsNotified,
    PreferredSeen,
    ReassignmentsSeen,
    Result,
    Tick,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    WriteResult,
    Written,
)
from controller.outcome import SetState
from controller.values import Assignment, LeaderAndIsr, Replicas, TopicPartition
from controller.work import RETRY_MS
from tests.controller.world import Host, World, replicas, require

BROKERS = 5
NAMES = ("a", "b", "c")
PARTITIONS_MAX = 4


class Simulation:
    """A random history of one cluster."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(
            BROKERS,
            leader_imbalance_check_interval_ms=20_000,
            unclean_leader_election_enable=False,
            topic_ids=self.random.random() < 0.8,
        )
        self.tickets = 0
        self.asked: dict[Host, list[int]] = {}
        self.pending: set[str] = set()
        """Watches that have fired, but that the controller has not handled yet."""
        self.steps = 0
        for broker_id in range(1, BROKERS + 1):
            self.world.register(broker_id)
        self.elect()
        self._moves = [
            (30, self._write), (20, self._send), (15, self._work), (10, self._read),
            (10, self._see), (10, self._change_isr), (3, self._kill), (5, self._restart),
            (2, self._bounce), (2, self._create), (1, self._grow), (1, self._delete),
            (2, self._shutdown), (2, self._reassign), (1, self._cancel), (1, self._elect_leaders),
            (1, self._ask_by_nodes), (1, self._producer_ids), (1, self._disk), (2, self._tick),
            (1, self._repeat_fact), (1, self._unclean), (0.4, self.elect),
        ]  # fmt: skip
        self._weights = [each[0] for each in self._moves]
        self._actions = [each[1] for each in self._moves]

    # ------------------------------------------------------------------------------ the parts

    @property
    def host(self) -> Host:
        return self.world.hosts[-1]

    def any_host(self) -> Host:
        """Returns one of the last three controllers at random: the current controller, or an
        earlier one that has not noticed yet that it is fenced."""
        hosts = [each for each in self.world.hosts[-3:] if not each.resigned]
        return self.random.choice([*hosts, self.host])

    def elect(self) -> None:
        live = [*self.world.nodes.brokers] or [1]
        host = self.world.elect(self.random.choice(live))
        self.asked[host] = []
        self.pending.clear()

    def ticket(self, host: Host) -> int:
        self.tickets += 1
        self.asked[host].append(self.tickets)
        return self.tickets

    def some(self, count: int) -> Replicas:
        return tuple(self.random.sample(range(1, BROKERS + 1), count))

    def topic(self) -> str | None:
        """Returns a random existing topic, or None if no topic exists."""
        return self.random.choice([*self.world.nodes.topics]) if self.world.nodes.topics else None

    def key(self) -> TopicPartition | None:
        """Returns a random partition, or None if the chosen topic has no partitions."""
        name = self.topic()
        if name is None or not self.world.nodes.topics[name].partitions:
            return None
        return name, self.random.choice([*self.world.nodes.topics[name].partitions])

    # ---------------------------------------------------------------------- the host's queues

    def _write(self) -> None:
        host = self.any_host()
        if not host.writes:
            return
        count = self.random.randint(1, min(8, len(host.writes)))
        writes = [host.writes.popleft() for _ in range(count)]
        self.random.shuffle(writes)
        results = []
        for write in writes:
            chance = self.random.random()
            if chance < 0.03:
                results.append(WriteResult(write.ticket, Result.FAILED))
                continue
            result = self.world.nodes.write(write, host.epoch)
            if result.result is Result.OK and chance < 0.06:
                result = WriteResult(write.ticket, Result.FAILED)
            elif result.result is Result.OK and chance < 0.1 and isinstance(write, SetState):
                result = WriteResult(write.ticket, Result.BAD_VERSION)
            results.append(result)
        host.give(Written(results))
        fenced = any(each.result is Result.FENCED for each in results)
        while host.more:
            host.work()
        require(not fenced or bool(host.resigned), "a controller goes on though it was fenced")

    def _send(self) -> None:
        host = self.any_host()
        if not host.channels:
            return
        channel = self.random.choice([*host.channels])
        waiting = host.channels[channel]
        again = waiting[0]
        answer = host.send_one(channel)
        if answer is not None and self.random.random() < 0.1:
            # The response was lost with its connection: the request is sent again.
            host.channels.setdefault(channel, deque()).appendleft(again)
        elif answer is not None:
            host.give(answer)

    def _work(self) -> None:
        host = self.any_host()
        if host.more:
            host.work()

    def _read(self) -> None:
        host = self.any_host()
        if host.reads:
            if self.random.random() < 0.3:
                host.reads.rotate(1)
            host.read_one()

    def _see(self) -> None:
        if self.pending:
            what = self.random.choice(sorted(self.pending))
            self.pending.discard(what)
            self._follow(self.host, what)

    def _follow(self, host: Host, what: str) -> None:
        nodes = self.world.nodes
        match what:
            case "brokers":
                host.give(self.world.see_brokers())
            case "topics":
                host.give(TopicsSeen([*nodes.topics]))
            case "deletions":
                host.give(DeletionsSeen([*nodes.deletions]))
            case "moves":
                host.give(ReassignmentsSeen(dict(nodes.moves)))
            case "preferred":
                host.give(PreferredSeen([*nodes.preferred]))
            case "notices":
                host.give(self.world.notified())
            case _:
                topic = nodes.topics.get(what[1:])
                spare = self.world.spare_id(what[1:])
                host.give(TopicSeen(topic, spare) if topic else TopicGone(what[1:]))

    def _tick(self) -> None:
        host = self.any_host()
        host.now_ms += self.random.choice((200, 1000, 5000))
        due = host.controller.next_deadline()
        if due is not None and due <= host.now_ms:
            host.give(Tick())

    def _repeat_fact(self) -> None:
        """Notifies the controller again of the registered brokers, or of the content of a topic's
        znode. The broker epochs or the znode version may be outdated."""
        host, nodes = self.host, self.world.nodes
        if self.random.random() < 0.5:
            brokers = [
                each._replace(epoch=each.epoch - self.random.choice((0, 1)))
                for each in nodes.brokers.values()
            ]
            host.give(BrokersSeen(brokers))
            self.pending.add("brokers")
        elif (name := self.topic()) is not None:
            topic = nodes.topics[name]
            version = max(0, topic.znode_version - 1)
            spare = self.world.spare_id(name)
            host.give(TopicSeen(topic._replace(znode_version=version), spare))
            self.pending.add("=" + name)

    # ----------------------------------------------------------------------------- the brokers

    def _kill(self) -> None:
        live = [*self.world.nodes.brokers]
        if len(live) > 1:
            self.world.unregister(self.random.choice(live))
            self.pending.add("brokers")

    def _restart(self) -> None:
        down = [each for each in self.world.brokers if each not in self.world.nodes.brokers]
        if down:
            self.world.register(self.random.choice(down))
            self.pending.add("brokers")

    def _bounce(self) -> None:
        live = [*self.world.nodes.brokers]
        if live:
            self.world.register(self.random.choice(live), self.random.choice("xy"))
            self.pending.add("brokers")

    def _disk(self) -> None:
        broker = self.world.brokers[self.random.randint(1, BROKERS)]
        if broker.epoch < 0:
            return
        if broker.directories:
            broker.failed.add(self.random.choice(sorted(broker.directories)))
        self.host.give(LogDirsNotified(["/log_dir_event_notification/x"], [broker.broker_id]))

    def _change_isr(self) -> None:
        broker = self.world.brokers[self.random.randint(1, BROKERS)]
        led = broker.led()
        if broker.epoch < 0 or not led:
            return
        self.random.shuffle(led)
        wanted = {}
        for key, _ in led[:3]:
            state = self.world.nodes.states.get(key)
            if state is not None and key not in broker.failed:
                wanted[key] = self._other_isr(broker.broker_id, key, state)
        if not wanted:
            return
        if self.random.random() < 0.2:
            for key, isr in wanted.items():
                state, told = self.world.nodes.states[key], broker.replicas[key]
                if state.leader_epoch == told.leader_epoch:
                    self.world.nodes.leader_writes_isr(key, state._replace(isr=isr))
                    self.pending.add("notices")
            return
        host = self.any_host()
        but = {}
        if self.random.random() < 0.1:
            but["partition_epoch"] = self.random.randint(0, 5)
        host.give(self.world.isr_asked(self.ticket(host), broker.broker_id, wanted, **but))

    def _other_isr(self, leader: int, key: TopicPartition, state: LeaderAndIsr) -> Replicas:
        """Returns a random change of the ISR: the ISR without one of its followers, or the ISR with
        all replicas that follow the leader in its current epoch."""
        told = self.world.brokers[leader].replicas[key]
        followers = self._followers(leader, key)
        if self.random.random() < 0.3 and len(state.isr) > 1:
            gone = self.random.choice([each for each in state.isr if each != leader] or [-1])
            return tuple(each for each in state.isr if each != gone)
        joins = [each for each in followers if each in told.replicas]
        return (*state.isr, *(each for each in joins if each not in state.isr))

    def _followers(self, leader: int, key: TopicPartition) -> list[int]:
        told = self.world.brokers[leader].replicas[key]
        return [
            each.broker_id
            for each in self.world.brokers.values()
            if each.epoch >= 0
            and key in each.replicas
            and key not in each.failed
            and each.replicas[key].leader_epoch == told.leader_epoch
        ]

    # ------------------------------------------------------------------------ tools and clients

    def _create(self) -> None:
        name = self.random.choice(NAMES)
        nodes = self.world.nodes
        if name in nodes.topics:
            return
        partitions = {
            index: replicas(*self.some(self.random.randint(1, 3)))
            for index in range(self.random.randint(0, PARTITIONS_MAX))
        }
        has_id = self.random.random() < 0.5 and self.world.config.topic_ids
        nodes.create_topic(name, partitions, self.world.spare_id() if has_id else None)
        nodes.unclean[name] = self.random.random() < 0.2
        self.pending.add("topics")

    def _grow(self) -> None:
        name = self.topic()
        if name is None:
            return
        topic = self.world.nodes.topics[name]
        partitions = dict(topic.partitions)
        if len(partitions) < PARTITIONS_MAX:
            partitions[len(partitions)] = replicas(*self.some(self.random.randint(1, 3)))
        moves = any(each.adding or each.removing for each in partitions.values())
        if not moves and self.random.random() < 0.5:
            # An old tool drops unknown fields.
            self.world.nodes.rewrite_topic(
                name,
                topic_id=None,
                partitions={i: Assignment(each.replicas) for i, each in partitions.items()},
            )
        else:
            self.world.nodes.rewrite_topic(name, partitions=partitions)
        self.pending.add("=" + name)

    def _delete(self) -> None:
        name = self.topic() if self.random.random() < 0.8 else self.random.choice(NAMES)
        if name is not None:
            self.world.nodes.deletions.add(name)
            self.pending.add("deletions")

    def _shutdown(self) -> None:
        host = self.any_host()
        broker = self.world.brokers[self.random.randint(1, BROKERS)]
        epoch = broker.epoch - self.random.choice((0, 0, 1))
        host.give(ControlledShutdown(self.ticket(host), broker.broker_id, epoch))

    def _reassign(self) -> None:
        key, host = self.key(), self.any_host()
        if key is not None:
            target = self.some(self.random.randint(1, 3))
            host.give(AlterReassignments(self.ticket(host), {key: target, ("no", 1): (1,)}))

    def _cancel(self) -> None:
        key, host = self.key(), self.any_host()
        if key is not None:
            host.give(AlterReassignments(self.ticket(host), {key: None}))
        host.give(ListReassignments(self.ticket(host), None))

    def _elect_leaders(self) -> None:
        key, host = self.key(), self.any_host()
        keys = None if key is None or self.random.random() < 0.3 else [key, ("no", 1)]
        host.give(ElectLeaders(self.ticket(host), False, keys))

    def _ask_by_nodes(self) -> None:
        key, nodes = self.key(), self.world.nodes
        if key is None:
            return
        if self.random.random() < 0.5 and not nodes.moves:
            nodes.moves = {key: self.some(self.random.randint(1, 3)), ("no", 1): (1,)}
            self.pending.add("moves")
        elif not nodes.preferred:
            nodes.preferred = [key, ("no", 1)]
            self.pending.add("preferred")

    def _producer_ids(self) -> None:
        host = self.any_host()
        broker = self.world.brokers[self.random.randint(1, BROKERS)]
        host.give(AllocateProducerIds(self.ticket(host), broker.broker_id, broker.epoch))

    def _unclean(self) -> None:
        name = self.topic()
        if name is not None:
            self.world.nodes.unclean[name] = True
            self.host.give(UncleanSeen(name, True))

    # ---------------------------------------------------------------------------- the history

    def run(self, steps: int) -> None:
        """Runs ``steps`` random steps, and then `Simulation.end`."""
        for action in self.random.choices(self._actions, self._weights, k=steps):
            self.steps += 1
            action()
        self.end()

    def end(self) -> None:
        """Starts all brokers and lets all operations succeed. Checks that the controller then
        completes all its work."""
        world, host = self.world, self.host
        for broker in world.brokers.values():
            if broker.failed or broker.epoch < 0 or broker.broker_id not in world.nodes.brokers:
                world.register(broker.broker_id)
        host.give(world.see_brokers())
        for what in sorted(self.pending):
            self._follow(host, what)
        self._rest()
        require(not self._unanswered(), f"tickets wait: {self._unanswered()}")
        for broker_id in host.controller.cluster.shutting_down:
            world.register(broker_id)
        self._rest()
        self._check_end()

    def _rest(self) -> None:
        """Runs steps until nothing changes. Leaders add followers to their ISRs."""
        world, host = self.world, self.host
        before: object = None
        for _ in range(60):
            host.settle()
            for each in (world.see_brokers(), TopicsSeen([*world.nodes.topics])):
                host.give(each)
            if world.nodes.notices:
                host.give(world.notified())
            host.now_ms += 1000
            host.give(Tick())
            host.settle()
            self._grow_isrs()
            now = (dict(world.nodes.states), dict(world.nodes.topics))
            due_ms = host.controller.next_deadline()
            if now == before and (due_ms is None or due_ms > host.now_ms + RETRY_MS):
                return
            before = now

    def _unanswered(self) -> list[int]:
        return [
            ticket
            for host, tickets in self.asked.items()
            for ticket in tickets
            if ticket not in host.replies and (host is self.host or host.resigned)
        ]

    def _grow_isrs(self) -> None:
        for broker in self.world.brokers.values():
            wanted = {}
            for key, told in broker.led():
                state = self.world.nodes.states.get(key)
                if state is None or state.leader_epoch != told.leader_epoch:
                    continue
                joins = [each for each in self._followers(broker.broker_id, key)
                         if each in told.replicas and each not in state.isr]  # fmt: skip
                if joins:
                    wanted[key] = (*state.isr, *joins)
            if wanted:
                self.tickets += 1
                self.host.give(self.world.isr_asked(self.tickets, broker.broker_id, wanted))
        self.host.settle()

    def _check_end(self) -> None:
        world, host = self.world, self.host
        nodes = world.nodes
        require(not host.resigned, f"the newest controller resigned: {host.resigned}")
        require(not nodes.deletions, f"deletions are left: {nodes.deletions}")
        require(not nodes.moves, f"the node of reassignments is left: {nodes.moves}")
        require(not nodes.preferred, f"the node of elections is left: {nodes.preferred}")
        require(not nodes.notices, "notices are left")
        for topic in nodes.topics.values():
            require(
                topic.topic_id is not None or not world.config.topic_ids,
                f"topic {topic.name} has no id",
            )
            for index, assignment in topic.partitions.items():
                self._check_partition((topic.name, index), assignment)
        for key in nodes.states:
            there = key[0] in nodes.topics and key[1] in nodes.topics[key[0]].partitions
            require(there, f"{key} has a state and is no partition")
        require(not self._unanswered(), f"tickets wait: {self._unanswered()}")
        for broker in world.brokers.values():
            for name, index in broker.directories:
                key = name, index
                there = name in nodes.topics and index in nodes.topics[name].partitions
                stray = (broker.broker_id, key) in nodes.strays
                require(there or stray, f"broker {broker.broker_id} has {key} of a deleted topic")

    def _check_partition(self, key: TopicPartition, assignment: Assignment) -> None:
        state = self.world.nodes.states.get(key)
        require(not assignment.adding and not assignment.removing, f"{key} moves: {assignment}")
        if state is None:
            require(False, f"{key} has no state: {assignment}")
            return
        require(set(state.isr) == set(assignment.replicas), f"{key}: {state}, {assignment}")
        for broker in self.world.brokers.values():
            if broker.broker_id in assignment.replicas:
                told = broker.replicas.get(key)
                require(
                    told is not None and told[2:4] == state[:2],
                    f"broker {broker.broker_id} believes {told} of {key}: {state}",
                )
            shown = broker.shown.get(key)
            require(shown == state.leader, f"broker {broker.broker_id} shows {shown} of {key}")

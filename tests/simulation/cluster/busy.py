"""A simulated cluster with topics of three replicas, all kinds of clients, and all kinds of
faults."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from tests.simulation.cluster.checkers import ClusterCheckers
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.clients import (
    OFFSETS_PARTITIONS,
    Consumer,
    OffsetsKeeper,
    Producer,
)
from tests.simulation.cluster.controller_clients import FleetingTopic, Mover, TopicMaker
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.groups import GroupMember, GroupTruth
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.transactions import ReaderOfCommitted, ReaderOfOffsets, Transactor
from tests.simulation.cluster.truth import PartitionTruth
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.transactions import truth as transactions
from tests.simulation.transactions.ledger import Ledger, Place
from tests.simulation.transactions.producer import OUT, TransactionalProducer
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.client import WireRequest
from tests.simulation.whole.disk_log import OFFSETS_TOPIC
from tests.simulation.whole.virtual_time import WALL_S

TOPIC, GROWING, FLEETING = "ledger", "growing", "fleeting"
PARTITIONS = 3
TOPICS = {TOPIC: PARTITIONS, GROWING: 1, "out": 3, "more": 1}
"""Partition counts of the topics that are created once, by topic."""

OFFSETS: tuple[Place, ...] = tuple((OFFSETS_TOPIC, index) for index in range(OFFSETS_PARTITIONS))


class BusyCluster(ClusterWorld):
    """A simulated cluster, whose clients and faults the seed determines."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.truths = [PartitionTruth(TOPIC, index) for index in range(PARTITIONS)]
        self.ledger = Ledger()
        self.faults = ClusterFaults(self, self.fork())
        self.flushes = self.chance.random() < 0.5
        """True if the brokers fsync each record before they acknowledge it. If it is False, the
        simulation must not cut the power of a machine."""
        if self.flushes:
            for machine in self.machines:
                machine.settings["log.flush.interval.messages"] = "1"
        else:
            self.faults.worth = {**self.faults.worth, "power": 0}
        self.checkers = ClusterCheckers(self)
        self._served: dict[str, int] = {}
        """By client name: the number of the client's requests that had been served when `rest`
        began. The simulation is at rest only after each client has been served again."""
        self.mover = Mover(self, "mover", "10.1.0.2", self.fork(), TOPICS, GROWING)
        self.transactors = [
            Transactor(self, f"transactor-{number}", f"10.4.0.{number}", self.fork())
            for number in range(2)
        ]
        self.readers = [
            ReaderOfCommitted(self, f"committed {place}", f"10.5.0.{number}", self.fork(), place)
            for number, place in enumerate(OUT)
        ]
        self.populate(self._clients())
        self.faults.begin()

    def _clients(self) -> list[ClusterClient]:
        clients: list[ClusterClient] = [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), TOPICS),
            FleetingTopic(self, FLEETING, "10.1.0.3", self.fork()),
            self.mover,
            *self.transactors,
            *self.readers,
        ]
        for number, truth in enumerate(self.truths):
            place, host = f"{truth.topic}-{truth.partition}", f"10.2.{number}."
            clients += [
                Producer(self, f"once to {place}", f"{host}1", self.fork(), truth, once=True),
                Producer(self, f"some to {place}", f"{host}2", self.fork(), truth, once=False),
                Consumer(self, f"reads {place}", f"{host}3", self.fork(), truth),
            ]
        for number, transactor in enumerate(self.transactors):
            name, host = f"offsets of {transactor.name}", f"10.4.1.{number}"
            clients.append(ReaderOfOffsets(self, name, host, self.fork(), transactor))
        clients += [
            OffsetsKeeper(self, f"keeper-{number}", f"10.3.0.{number}", self.fork(), TOPIC)
            for number in range(2)
        ]
        for number in range(2):
            group = GroupTruth(f"group-{number}", TOPIC)
            for each in range(2):
                name, host = f"{group.group_id}-{each}", f"10.3.{number + 1}.{each}"
                clients.append(GroupMember(self, name, host, self.fork(), group, each))
        return clients

    def watched(self) -> AbstractContextManager[None]:
        return self.checkers.watching()

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        return self.checkers.leads(node_id, topic, partition)

    def looked_at(self, machine: BrokerMachine) -> None:
        self.checkers.look(machine)

    # -- requests of transactional clients: see `Market`

    @property
    def wall_ms(self) -> int:
        return WALL_S * 1000 + self.agenda.now_ns // MS

    def ends(self) -> dict[Place, int]:
        """Returns the log end offset of each partition whose leader is running."""
        found = dict.fromkeys((*OUT, *OFFSETS), 0)
        there = {each.node_id: self.checkers.replicas(each) for each in self.machines}
        for place in found:
            state = self.checkers.states.now.get(place)
            if state is not None and place not in there.get(state.leader, ()):
                found[place] = sys.maxsize
                continue
            logs = [replicas[place].log for replicas in there.values() if place in replicas]
            found[place] = max((log.log_end_offset for log in logs), default=0)
        return found

    def may_be_doubled(self, producer: TransactionalProducer, request: WireRequest) -> None:
        """Does nothing, because connections of this cluster never deliver a request twice."""

    # -- rest

    def unrest(self) -> list[str]:
        unserved = [
            f"{client.name} is not served"
            for client in self.clients
            if client.served == self._served[client.name]
        ]
        busy = [f"{each.name} is at work" for each in self.transactors if each.state.deed]
        return self.checkers.unrest() + unserved + busy

    def unequal(self) -> list[str]:
        behind = [
            f"{each.name} is at {each.position}"
            for each in self.readers
            if each.position != self.checkers.end(each.place)
        ]
        return self.checkers.unequal() + behind

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()
        for truth in self.truths:
            for node_id in self.checkers.states.now[truth.topic, truth.partition].isr:
                truth.check(self.by_id[node_id].files)
        self._check_transactions()
        grown = len([place for place in self.checkers.states.now if place[0] == GROWING])
        assert grown >= self.mover.partitions, f"{GROWING} has {grown} partitions"

    def _check_transactions(self) -> None:
        """Asserts that the logs match the transactions that the clients know (`Ledger`). The caller
        must first check that the logs are equal on all replicas."""
        found = {}
        for place in (*OUT, *OFFSETS):
            state = self.checkers.states.now.get(place)
            if state is not None:
                found[place] = transactions.read(self.by_id[state.leader].files, place)
        transactions.check(self.ledger, found.values(), at_rest=True)
        for reader in self.readers:
            reader.check(found[reader.place].committed)
            end = found[reader.place].end
            assert reader.position == end, f"{reader.name} is at {reader.position} of {end}"

"""A cluster that elects leaders outside the ISR. Committed records may be lost, but the replicas
must agree afterwards.

Unclean elections are requested with ElectLeaders, or enabled by the topic setting. At the same time
partitions are reassigned, watches are late, sessions expire and the controller fails over. All
other invariants hold: one broker appends in a leader epoch, and epochs never decrease. At rest,
each partition has a leader, an ISR with all replicas, and the same batches on all replicas.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any

from protocol.errors import NONE, OFFSET_OUT_OF_RANGE
from protocol.znodes.topics import StateNode
from tests.simulation.cluster.checkers import ClusterCheckers, Place
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.clients import Consumer, Producer
from tests.simulation.cluster.committed import Committed
from tests.simulation.cluster.controller_clients import ControllerClient, Mover, TopicMaker
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.states import WrittenStates
from tests.simulation.cluster.truth import PartitionTruth
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.cluster.zookeeper import HOST
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Sent, WireRequest

TOPIC, GROWING = "unclean", "growing"
TOPICS = {TOPIC: 2, GROWING: 1}
UNCLEAN = 1
"""The code of an unclean election in ElectLeaders requests."""


class AnyRecords(PartitionTruth):
    """A `PartitionTruth` that expects no record, because an unclean election may lose or replace
    any record."""

    def learn(self, offset: int, value: bytes) -> None:
        """Does nothing, because an unclean election may remove any record that a client knows."""


class AnyEnd(Committed):
    """A check that accepts any high watermark of a leader, because after an unclean election the
    new leader may have a lower high watermark."""

    def in_sync(self, isr: Any) -> None: ...
    def shown(self, *_: Any) -> None: ...
    def cut(self, *_: Any) -> None: ...


class AnyLeader(WrittenStates):
    """A check of the states in ZooKeeper that permits unclean elections: a leader may come from
    outside the ISR if the new ISR contains only this leader."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world.zookeeper.ensemble)
        self._happened = world.happened

    def _check(self, place: Place, state: StateNode) -> None:
        before = self.now.get(place)
        if before is not None and state.leader not in (-1, *before.isr):
            assert state.isr == (state.leader,), f"{place}: {before}, then {state}"
            self.now[place] = replace(before, isr=state.isr)
            self._happened["unclean election"] += 1
        super()._check(place, state)


class LooseCheckers(ClusterCheckers):
    """All checks of a cluster, except those of committed records."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self.states = AnyLeader(world)

    def _of(self, place: Place) -> Committed:
        return AnyEnd(self.world.by_id, *place)


class Reader(Consumer):
    """A consumer that restarts at offset 0 when its position is after the log end."""

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        fetched = answer["responses"][0]["partitions"][0]
        ends_before = fetched["high_watermark"] < sent.about
        if fetched["error_code"] == OFFSET_OUT_OF_RANGE or ends_before:
            self.cluster.happened["the log ends before a reader"] += 1
            self._position = 0
            self.go_elsewhere()
            return
        super().heard(sent, answer)


class Elector(ControllerClient):
    """Sends requests for unclean and for preferred elections."""

    def work(self) -> None:
        partitions = [{"topic": TOPIC, "partitions": [0, 1]}]
        kind = UNCLEAN if not self.calm and self.chance.random() < 0.7 else 0
        value = {
            "election_type": kind,
            "topic_partitions": self.chance.choice((partitions, None)),
            "timeout_ms": 5_000,
        }
        self.send(WireRequest("ElectLeaders", self.chance.randint(1, 2), value))

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        code = answer["error_code"]
        self.served += code == NONE
        for topic in answer["replica_election_results"]:
            for each in topic["partition_result"]:
                self.cluster.happened[f"ElectLeaders {each['error_code']}"] += 1
        if code == NONE:
            self.think_after(self.chance.choice((100, 1_000, 4_000)) * MS)
        else:
            self.go_elsewhere()


class UncleanCluster(ClusterWorld):
    """A cluster with unclean elections. The seed determines whether the setting
    unclean.leader.election.enable is true."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.settings["unclean.leader.election.enable"] = self.chance.choice(("true", "false"))
        self.settings["min.insync.replicas"] = "1"
        self.faults = ClusterFaults(self, self.fork())
        self.faults.worth = {
            **self.faults.worth,
            "kill": 12,
            "power": 12,
            "long pause": 8,
            "kill the controller": 8,
            "full disk": 0,
        }
        self.checkers = LooseCheckers(self)
        self._served: dict[str, int] = {}
        """By client name: the number of the client's requests that had been served when `rest`
        began. The simulation is at rest only after each client has been served again."""
        self.populate(self._clients(self.fork()))
        self.faults.begin()
        self.agenda.after(8 * S, self._leave_a_leader_alone)
        self.agenda.after(6 * S, self._delay_watches)

    def _delay_watches(self) -> None:
        """Delays all data between a broker and ZooKeeper, by less than a session timeout.

        The controller is delayed more often than other brokers, so that it often acts on outdated
        state.
        """
        if self.calm:
            return
        self.agenda.after(self.chance.choice((4, 8, 16)) * S, self._delay_watches)
        machine = self.chance.choice(self.machines)
        if self.chance.random() < 0.5:
            machine = self.faults.controller() or machine
        self.happened["late watches"] += 1
        self.excuse(20 * S)
        self.internet.delay(machine.host, HOST, self.chance.choice((300, 2_000, 5_000)) * MS)
        self.agenda.after(8 * S, self.internet.delay, machine.host, HOST, 0)

    def _leave_a_leader_alone(self) -> None:
        """Shrinks the ISR of a partition to its leader, and then expires the leader's session or
        crashes the leader."""
        if self.calm:
            return
        self.agenda.after(self.chance.choice((10, 15, 25)) * S, self._leave_a_leader_alone)
        state = self.checkers.states.now.get((TOPIC, self.chance.randrange(TOPICS[TOPIC])))
        machine = None if state is None else self.by_id.get(state.leader)
        if machine is None or machine.process is None:
            return
        self.happened["leader left alone"] += 1
        self.excuse(40 * S)
        for each in self.machines:
            if each is not machine:
                self._cut(machine.host, each.host, 18)
        self.agenda.after(8 * S, self._lose, machine)

    def _lose(self, machine: BrokerMachine) -> None:
        if self.calm or machine.process is None:
            return
        if self.chance.random() < 0.6:
            self._cut(machine.host, HOST, 12)
        else:
            machine.kill(power_fails=self.chance.random() < 0.5)

    def _cut(self, one: str, other: str, seconds: int) -> None:
        self.internet.cut(one, other)
        self.agenda.after(seconds * S, self.internet.mend, one, other)

    def _clients(self, chance: Random) -> list[ClusterClient]:
        clients: list[ClusterClient] = [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), TOPICS),
            Mover(self, "mover", "10.1.0.2", self.fork(), TOPICS, GROWING),
            Elector(self, "elector", "10.1.0.3", self.fork()),
        ]
        for index in range(TOPICS[TOPIC]):
            truth, host = AnyRecords(TOPIC, index), f"10.2.{index}."
            clients += [
                Producer(self, f"to {index}", f"{host}1", self.fork(), truth, once=False),
                Reader(self, f"reads {index}", f"{host}2", self.fork(), truth),
            ]
        chance.shuffle(clients)
        return clients

    def watched(self) -> AbstractContextManager[None]:
        return self.checkers.watching()

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        return self.checkers.leads(node_id, topic, partition)

    def looked_at(self, machine: BrokerMachine) -> None:
        self.checkers.look(machine)

    def unrest(self) -> list[str]:
        unserved = [
            f"{client.name} is not served"
            for client in self.clients
            if client.served == self._served[client.name]
        ]
        return self.checkers.unrest() + unserved

    def unequal(self) -> list[str]:
        return self.checkers.unequal()

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()

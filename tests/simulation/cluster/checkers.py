"""Invariants of a cluster, which are checked under all faults.

After each turn of a process, its replicas and the new writes to ZooKeeper are checked:

- Records below a leader's high watermark have the same bytes on every later leader: `Committed`.
- Members of the ISR have all committed records: `Committed`.
- Committed records are never truncated: `Committed.cut`.
- Only one broker appends in a leader epoch: `ClusterCheckers.appended`.
- Epochs and versions never decrease at a broker: `ClusterCheckers._look_at`.
- Writes by a controller are those of the last elected controller, and raise the leader epoch:
  `states.py`.
- Within a bounded time, each partition has a leader, an ISR with all replicas, and equal logs:
  `unrest`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import Role
from protocol.znodes.admin import DELETE_TOPICS
from protocol.znodes.topics import TOPICS, decode_topic, topic_path
from replication.values import PartitionState
from tests.simulation.cluster.committed import Committed
from tests.simulation.cluster.states import WrittenStates
from tests.simulation.whole.disk_log import batches_of

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import BrokerMachine
    from tests.simulation.cluster.world import ClusterWorld

Place = tuple[str, int]
_PARTITION = re.compile(r"/data/(.+)-(\d+)")
_Known = tuple[int, int]
"""The leader epoch and the partition epoch of a replica."""
_Seen = dict[Replica, tuple[PartitionState | None, int]]
"""The partition state and the high watermark of each replica."""


class ClusterCheckers:
    """All checks of one simulated cluster, and the state of these checks."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.states = WrittenStates(world.zookeeper.ensemble)
        self.committed: dict[Place, Committed] = {}
        self._writers: dict[tuple[Place, int], int] = {}
        """The broker that has appended in each leader epoch of a partition.

        A broker may lead in the same epoch again if it restarted before a new controller noticed
        its failure.
        """
        self._known: dict[tuple[int, int, Place], _Known] = {}
        """The last known epochs of a replica, by broker, process number of the broker, and
        partition."""
        self._seen: dict[int, tuple[int, _Seen]] = {}
        """By broker id: the number of the broker's process, and the states of its replicas at the
        last check."""
        self._controller_epochs: dict[tuple[int, int], int] = {}

    # -- after a turn

    def look(self, machine: BrokerMachine) -> None:
        """Checks the replicas of a machine. Called after each turn of the machine's broker."""
        for place, written in self.states.look():
            if written is None:
                self._forget(place)
            elif place[0] not in self.states.going:
                self._of(place).in_sync(written.isr)
        life = (machine.node_id, machine.lives)
        seen = self._seen_in(life)
        for replica in self._logs(machine):
            now = (replica.state, replica.high_watermark)
            if seen.get(replica) != now:
                seen[replica] = now
                self._changed(machine, life, replica)
        broker = None if machine.process is None else machine.process.broker
        manager = getattr(getattr(broker, "mode", None), "replicas", None)
        if manager is not None:  # the broker has joined the cluster
            epoch = manager._controller_epoch
            before = self._controller_epochs.get(life, -1)
            assert epoch >= before, f"{life}: controller epoch {before}, then {epoch}"
            self._controller_epochs[life] = epoch

    def _seen_in(self, life: tuple[int, int]) -> _Seen:
        """Returns the replica states that the checker saw in one process of a broker. ``life`` is
        the broker id and the number of the process. Drops the states of earlier processes of this
        broker."""
        node_id, number = life
        known = self._seen.get(node_id)
        if known is None or known[0] != number:
            known = self._seen[node_id] = (number, {})
        return known[1]

    def _changed(self, machine: BrokerMachine, life: tuple[int, int], replica: Replica) -> None:
        """Checks a replica whose role or high watermark has changed since the last check."""
        place = (replica.topic, replica.index)
        if replica.state is not None:
            self._look_at(life, place, replica)
        if replica.led is not None and place[0] not in self.states.going:
            state = self.states.now.get(place)
            is_last = state is not None and state.leader_epoch == replica.leader_epoch
            isr = state.isr if state is not None and is_last else ()
            end = replica.high_watermark
            self._of(place).shown(machine, replica.leader_epoch, end, isr)

    def _look_at(self, life: tuple[int, int], place: Place, replica: Replica) -> None:
        assert replica.state is not None
        known = (replica.state.leader_epoch, replica.state.partition_epoch)
        before = self._known.get((*life, place))
        if known != before:
            assert before is None or known > before, (
                f"{place} at {life}: leader and partition epoch {before}, then {known}"
            )
            self._known[*life, place] = known

    def _of(self, place: Place) -> Committed:
        found = self.committed.get(place)
        if found is None:
            found = self.committed[place] = Committed(self.world.by_id, *place)
        return found

    def _forget(self, place: Place) -> None:
        """Drops the state of a deleted partition. A later topic with the same name starts empty.

        Empty logs may appear even before the deletion is complete. As in Kafka, a new controller
        may restore the topic, so that the replicas create empty logs, and then delete the topic
        again.
        """
        self.committed.pop(place, None)
        self._writers = {key: each for key, each in self._writers.items() if key[0] != place}
        self._known = {key: each for key, each in self._known.items() if key[2] != place}

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        """Returns True if the broker ``node_id`` is the leader according to ZooKeeper and also
        according to itself."""
        state = self.states.now.get((topic, partition))
        process = self.world.by_id[node_id].process
        logs = None if process is None else getattr(process.broker, "logs", None)
        replica = None if logs is None else logs.get(topic, partition)
        return (
            state is not None
            and isinstance(replica, Replica)
            and replica.role is Role.LEADER
            and (state.leader, state.leader_epoch) == (node_id, replica.leader_epoch)
        )

    # -- what replicas do

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Checks all appends and truncations of replicas while the block runs."""
        real_appended, real_cut = Replica.appended, Replica._cut

        def appended(replica: Replica, size_bytes: int) -> None:
            self.world.guarded(self.appended, replica)
            real_appended(replica, size_bytes)

        def cut(replica: Replica, offset: int, how: Any) -> int:
            self.world.guarded(self.cut, replica, offset)
            return real_cut(replica, offset, how)

        Replica.appended = appended  # type: ignore[method-assign]
        Replica._cut = cut  # type: ignore[method-assign]
        try:
            yield
        finally:
            Replica.appended = real_appended  # type: ignore[method-assign]
            Replica._cut = real_cut  # type: ignore[method-assign]

    def appended(self, replica: Replica) -> None:
        if replica.topic in self.states.going:
            return
        machine = self.world.running
        assert machine is not None
        key = ((replica.topic, replica.index), replica.leader_epoch)
        first = self._writers.setdefault(key, machine.node_id)
        assert first == machine.node_id, f"{key} is written by {first} and {machine.node_id}"

    def cut(self, replica: Replica, offset: int) -> None:
        machine = self.world.running
        assert machine is not None
        place = (replica.topic, replica.index)
        if offset < replica.log.log_end_offset and replica.topic not in self.states.going:
            self.world.happened["cut"] += 1
            self._of(place).cut(machine, offset, replica.log.log_end_offset)

    # -- at rest

    def _logs(self, machine: BrokerMachine) -> list[Replica]:
        process = machine.process
        logs = None if process is None else getattr(process.broker, "logs", None)
        return [] if logs is None else [each for each in logs.all() if isinstance(each, Replica)]

    def replicas(self, machine: BrokerMachine) -> dict[Place, Replica]:
        """Returns the replicas on the broker of ``machine``, by topic and partition."""
        return {(each.topic, each.index): each for each in self._logs(machine)}

    def unrest(self) -> list[str]:
        """Returns the reasons why the cluster is not yet at rest."""
        found: list[str] = []
        everywhere = {each.node_id: self.replicas(each) for each in self.world.machines}
        if not self.states.now:
            found.append("there is no partition")
        for machine in self.world.machines:
            if not machine.is_serving:
                found.append(f"broker {machine.node_id} does not serve")
        for place in sorted(self.states.now):
            found += self._unrest_of(place, everywhere)
        return found + self._moving() + self._strays()

    def _moving(self) -> list[str]:
        nodes = self.world.zookeeper.ensemble.nodes
        found = [f"{path} is left" for path in nodes if path.startswith(f"{DELETE_TOPICS}/")]
        for name in sorted(nodes[TOPICS].children):
            node = decode_topic(name, nodes[topic_path(name)].data or b"")
            if node.adding or node.removing:
                found.append(f"{name} is being moved: {node}")
        return found

    def _strays(self) -> list[str]:
        """Returns the directories of deleted topics that still exist on the brokers.

        The directories of partitions that were reassigned while the broker was down are not
        included. As in Kafka, the broker keeps such a directory, and uses it again when the
        partition is assigned to it again.
        """
        return [
            f"broker {machine.node_id} has {path}"
            for machine in self.world.machines
            for path in sorted(machine.files.directories)
            if (found := _PARTITION.fullmatch(path)) is not None
            and (found[1], int(found[2])) not in self.states.now
        ]

    def _unrest_of(self, place: Place, everywhere: dict[int, dict[Place, Replica]]) -> list[str]:
        name = f"{place[0]}-{place[1]}"
        copies = {node: there[place] for node, there in everywhere.items() if place in there}
        leaders = [node for node, each in copies.items() if each.led is not None]
        if len(leaders) != 1:
            return [f"{name} is led by {leaders}"]
        state = self.states.now[place]
        wanted = self._assigned(place)
        if set(state.isr) != set(wanted):
            return [f"{name}: {state.isr} of {wanted} are in sync"]
        return []

    def _assigned(self, place: Place) -> tuple[int, ...]:
        node = self.world.zookeeper.ensemble.nodes[topic_path(place[0])]
        return decode_topic(place[0], node.data or b"").partitions[place[1]]

    def end(self, place: Place) -> int:
        leader = self.world.by_id[self.states.now[place].leader]
        return self.replicas(leader)[place].log.log_end_offset

    def unequal(self) -> list[str]:
        """Returns the differences between replicas. The result is valid only while no client
        writes."""
        found = []
        for place in sorted(self.states.now):
            state = self.states.now[place]
            here = {node: self.replicas(self.world.by_id[node]) for node in state.isr}
            copies = {node: each[place] for node, each in here.items() if place in each}
            if len(copies) < len(here):
                found.append(f"{place}: in sync are {state.isr}, replicas are at {[*copies]}")
                continue
            leader = copies[state.leader]
            ends = {node: each.log.log_end_offset for node, each in copies.items()}
            if len({*ends.values(), leader.high_watermark, leader.last_stable_offset}) > 1:
                found.append(
                    f"{place}: ends {ends}, high watermark {leader.high_watermark},"
                    f" last stable offset {leader.last_stable_offset}"
                )
        return found

    def check_equal(self) -> None:
        """Asserts that all in-sync replicas of a partition have the same batches. Batches below the
        leader's log start offset may be missing on some replicas."""
        for place in sorted(self.states.now):
            logs = {
                node: batches_of(machine.files, *place, synced=False)
                for node, machine in self.world.by_id.items()
                if node in self.states.now[place].isr
            }
            leader = self.world.by_id[self.states.now[place].leader]
            start = self.replicas(leader)[place].log.log_start_offset
            kept = {node: [each for each in log if each[0] >= start] for node, log in logs.items()}
            first = next(iter(kept.values()))
            for node, log in kept.items():
                assert log == first, f"{place}: broker {node} has other batches"

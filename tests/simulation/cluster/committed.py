"""The committed records of a partition, and the check that brokers have them.

A record is committed when a leader's high watermark is above its offset. The check reads each
committed record once from the leader's disk. Each later leader and each in-sync replica must have
the same bytes, and no replica may truncate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from broker.topics.registry import SHARE_STATE_TOPIC
from tests.simulated_files import Inode
from tests.simulation.whole.disk_log import batches, directory_of, segments_of

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import BrokerMachine

Batch = tuple[int, int, bytes]


class Committed:
    """The committed records of one partition."""

    def __init__(self, machines: Mapping[int, BrokerMachine], topic: str, index: int) -> None:
        self.name = f"{topic}-{index}"
        self.end = 0
        self._is_pruned = topic == SHARE_STATE_TOPIC
        """True for __share_group_state, in which the coordinator deletes redundant committed
        records."""
        self._place = topic, index
        self._machines = machines
        self._directory = directory_of(topic, index)
        self._batches: list[Batch] = []
        self._seen: dict[tuple[int, int, int], int] = {}
        """The last seen high watermark, by broker, process number of the broker, and leader
        epoch."""
        self._shown: dict[int, int] = {}
        """By leader epoch: the last high watermark that the check has read from any broker."""
        self._at: dict[tuple[int, str], tuple[Inode, int, int]] = {}
        """The position at which the next read of a segment file begins, by broker and file name.
        The value is a tuple: the file, the base offset of the next batch, and this batch's position
        in the file."""

    def shown(self, leader: BrokerMachine, epoch: int, end: int, isr: Iterable[int]) -> None:
        """Checks the high watermark ``end`` that the broker ``leader`` has announced in the leader
        epoch ``epoch``: all replicas in ``isr`` must have all records below ``end``."""
        key = (leader.node_id, leader.lives, epoch)
        before = self._seen.get(key)
        if before == end:
            return
        assert before is None or before < end, f"{self.name} at {key}: {before}, then {end}"
        self._seen[key] = end
        if before is None:
            self._has_all(leader, epoch)
        if end <= self.end:
            return
        fresh = self._between(leader, self.end, end)
        assert fresh, f"{self.name}: {leader.node_id} shows {end}, and has nothing of it"
        assert fresh[-1][1] == end, f"{self.name}: {leader.node_id} shows {end}, has {fresh[-1][1]}"
        for node_id in isr:
            if node_id != leader.node_id:
                found = self._between(self._machines[node_id], self.end, end)
                assert found == fresh, (
                    f"{self.name}: {leader.node_id} shows {end} in epoch {epoch}, and {node_id},"
                    f" which is in sync, has {_told(found)} of {_told(fresh)}"
                )
        self._batches += fresh
        self.end = self._shown[epoch] = end

    def in_sync(self, isr: Iterable[int]) -> None:
        """Asserts that the replicas in a new ISR in ZooKeeper have all committed records."""
        for node_id in isr:
            end = self._end_of(self._machines[node_id])
            assert end >= self.end, (
                f"{self.name}: {node_id} is in sync with an end of {end}, and {self.end} is"
                " committed"
            )

    def cut(self, machine: BrokerMachine, offset: int, end: int) -> None:
        """Asserts that a truncation at ``offset`` removes no committed record."""
        lost = self._between(machine, offset, min(end, self.end))
        mine = set(lost) & set(self._batches)
        assert not mine, (
            f"{self.name}: {machine.node_id} cuts {_told(lost)}, and {self.end} is committed"
        )

    def _has_all(self, leader: BrokerMachine, epoch: int) -> None:
        """Asserts that a leader has all records that were committed in its leader epoch or
        earlier."""
        end = max((end for shown, end in self._shown.items() if shown <= epoch), default=0)
        wanted = [batch for batch in self._batches if batch[0] < end]
        found = self._between(leader, 0, end)
        if self._is_pruned:
            # Records below the log start offset are deleted, and a follower that has other ones
            # need not truncate them: the leader's first leader epoch begins at this offset.
            start = self._start_of(leader)
            wanted = [batch for batch in wanted if batch[0] >= start]
            found = [batch for batch in found if batch[0] >= start]
        told = f"{self.name}: {leader.node_id} leads in epoch {epoch}, and has"
        for one, other in zip(wanted, found, strict=False):
            assert one == other, f"{told} other bytes at {one[0]}"
        assert len(found) == len(wanted), f"{told} {_told(found)} of {end}"

    def _start_of(self, machine: BrokerMachine) -> int:
        process = machine.process
        replica = None if process is None else process.broker.logs.get(*self._place)
        return 0 if replica is None else replica.log.log_start_offset

    # -- records on a disk

    def _segments(self, machine: BrokerMachine) -> list[tuple[int, str]]:
        paths = segments_of(machine.files, self._directory)
        return [(int(path.rpartition("/")[2].removesuffix(".log")), path) for path in paths]

    def _between(self, machine: BrokerMachine, start: int, end: int) -> list[Batch]:
        found: list[Batch] = []
        segments = self._segments(machine)
        for number, (base, path) in enumerate(segments):
            behind = segments[number + 1][0] if number + 1 < len(segments) else end
            if behind <= start and number + 1 < len(segments):
                continue
            if base >= end:
                break
            key = (machine.node_id, path)
            inode = machine.files.names[path]
            file, offset, position = self._at.get(key, (inode, base, 0))
            if offset > start or file is not inode:
                offset, position = base, 0
            for batch in batches(bytes(inode.data[position:])):
                if batch[0] >= end:
                    break
                if batch[1] <= self.end:
                    position += len(batch[2])
                    offset = batch[1]
                if batch[0] >= start:
                    found.append(batch)
            self._at[key] = (inode, offset, position)
        return found

    def _end_of(self, machine: BrokerMachine) -> int:
        segments = self._segments(machine)
        if not segments:
            return 0
        base, _ = segments[-1]
        found = self._between(machine, min(base, self.end), 1 << 62)
        return found[-1][1] if found else base


def _told(found: list[Batch]) -> str:
    return f"{found[0][0]} to {found[-1][1]}" if found else "nothing"

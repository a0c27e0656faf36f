"""A change of the ISR that a leader has requested, and that is not in ZooKeeper yet."""

from __future__ import annotations

from dataclasses import dataclass

from broker.cluster.lines import PartitionLines
from broker.topics.replicas.replica_services import LedPartition
from protocol.errors import NONE

Place = tuple[str, int]
AGAIN_S = 0.05
"""The pause in seconds after a failed attempt to write an ISR change."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A requested change of the ISR. It is valid only while the partition's state has the partition
    epoch ``expected_epoch``."""

    partition: LedPartition
    isr: tuple[int, ...]
    expected_epoch: int
    leader_epoch: int

    @property
    def place(self) -> Place:
        return self.partition.topic, self.partition.index

    @property
    def holds(self) -> bool:
        """True if the change is still valid: this broker still leads the partition, and the leader
        epoch and the partition epoch have not changed since the request.

        A replica that was stopped does not lead. This check is necessary, since a topic that was
        deleted and created again may have the same epochs.
        """
        state = self.partition.state
        return (
            state is not None
            and self.partition.led is not None
            and state.leader_epoch == self.leader_epoch
            and state.partition_epoch == self.expected_epoch
        )

    def decided(self, lines: PartitionLines, error_code: int, partition_epoch: int = -1) -> None:
        """Reports the result to the leader's replica, and adds a log line. Does nothing if the
        change is no longer valid."""
        if not self.holds:
            return
        name, isr = f"{self.partition.topic}-{self.partition.index}", list(self.isr)
        if error_code == NONE:
            self.partition.isr_written(partition_epoch)
            lines.add("ISR changed", name, isr=isr)
        else:
            lines.add("ISR change rejected", name, wanted=isr, error_code=error_code)
            self.partition.isr_refused(error_code)


def wanted_change(partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> IsrChange:
    """Returns the ISR change that a leader requests with `IsrWriter.wanted`; the arguments are the
    same. The change gets the partition's current leader epoch."""
    assert partition.state is not None
    return IsrChange(partition, isr, expected_epoch, partition.state.leader_epoch)

"""A change of the ISR that a leader requests and that is not written to ZooKeeper yet."""

from __future__ import annotations

from dataclasses import dataclass

from broker.cluster.lines import PartitionLines
from broker.topics.replicas.replica_services import LedPartition
from protocol.errors import NONE

Place = tuple[str, int]
AGAIN_S = 0.05
"""The pause of a writer in seconds after an error."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A requested ISR, based on one version of the partition's state."""

    partition: LedPartition
    isr: tuple[int, ...]
    expected_epoch: int
    leader_epoch: int

    @property
    def place(self) -> Place:
        """Returns the topic and index of the partition."""
        return self.partition.topic, self.partition.index

    @property
    def holds(self) -> bool:
        """True if the change is still valid: the leader has the same leader epoch and partition
        epoch.

        A replica that was stopped must not write: a topic that was deleted and recreated has the
        same first epochs.
        """
        state = self.partition.state
        return (
            state is not None
            and self.partition.led is not None
            and state.leader_epoch == self.leader_epoch
            and state.partition_epoch == self.expected_epoch
        )

    def decided(self, lines: PartitionLines, error_code: int, partition_epoch: int = -1) -> None:
        """Reports the result to the leader and adds a log line, if the change is still valid."""
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
    """Makes an `IsrChange` from the arguments of `IsrWriter.wanted`."""
    assert partition.state is not None
    return IsrChange(partition, isr, expected_epoch, partition.state.leader_epoch)

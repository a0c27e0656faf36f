"""The services that all replicas of a broker in a cluster share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from broker.quotas.replication_quota import ReplicationQuotas
from broker.topics.partition_services import PartitionServices
from broker.topics.replicas.replication_totals import ReplicationTotals
from replication.events import Event
from replication.in_sync import isr_events
from replication.leader import LedReplicas
from replication.values import PartitionState, Rules


class LedPartition(Protocol):
    """A partition as the writer of its in-sync replicas sees it; `Replica` implements it."""

    topic: str
    index: int
    state: PartitionState | None
    """The controller's last state, updated by later ISR changes."""

    @property
    def led(self) -> object | None:
        """The leader's view of the other replicas; None if this broker does not lead it."""

    def isr_written(self, partition_epoch: int) -> None:
        """Called when ZooKeeper has the wanted ISR, as version ``partition_epoch``."""

    def isr_refused(self, error_code: int) -> None:
        """Called when the ISR change was rejected; the partition may request it again at once."""


class IsrWriter(Protocol):
    """Writes in-sync replicas to ZooKeeper for the leaders of partitions."""

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        """Starts a write of ``isr`` over version ``expected_epoch`` of the partition's state.

        The writer reports the result to the partition, which has at most one change in progress.
        """


@dataclass(frozen=True, slots=True)
class ReplicaServices(PartitionServices):
    """The services of partitions, and further services that only replicas need."""

    in_cluster: ClassVar[bool] = True
    node_id: int
    rules: Callable[[str], Rules]
    """Returns a topic's current rules."""
    isr_writer: IsrWriter
    quotas: ReplicationQuotas
    totals: ReplicationTotals = field(default_factory=ReplicationTotals)
    observe: Callable[[Event], None] = lambda _: None
    """Called with events of in-sync replicas."""

    def report_isr_change(
        self,
        partition: LedPartition,
        led: LedReplicas,
        now_ms: int,
        told: PartitionState | None = None,
    ) -> None:
        """Reports and counts replicas that are about to leave or join the ISR, while their lag is
        known.

        ``told`` is the controller's state; None: the ISR that the leader wanted was written.
        """
        after = told
        if after is None and led.pending is not None:
            after = led.state._replace(isr=led.pending.isr)
            self.totals.isr_changed(led.state.isr, after.isr)
        if after is not None:
            place = partition.topic, partition.index
            by_controller = told is not None
            for event in isr_events(led, *place, after, now_ms, by_controller=by_controller):
                self.observe(event)

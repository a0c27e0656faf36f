"""The services that the replicas of a broker in a cluster use."""

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
    """The methods of a partition that the ISR writer uses. `Replica` implements them."""

    topic: str
    index: int
    state: PartitionState | None
    """The leader, ISR and epochs: the state that the controller sent last, updated by later changes
    of the ISR."""

    @property
    def led(self) -> object | None:
        """The positions of the other replicas, as the leader knows them; None if this broker is not
        the leader."""

    def isr_written(self, partition_epoch: int) -> None:
        """Called when ZooKeeper contains the requested ISR as version ``partition_epoch``."""

    def isr_refused(self, error_code: int) -> None:
        """Called when the ISR change was rejected. The partition may request the change again
        immediately."""


class IsrWriter(Protocol):
    """Writes the ISRs of partitions to ZooKeeper for their leaders."""

    def wanted(self, partition: LedPartition, isr: tuple[int, ...], expected_epoch: int) -> None:
        """Starts to write a partition state with the ISR ``isr``, in place of the state with
        version ``expected_epoch``. Reports the result to the partition. The caller must not start
        another write for the partition before this result."""


@dataclass(frozen=True, slots=True)
class ReplicaServices(PartitionServices):
    """The services of partitions in a cluster: the common services, and those that only replicas
    need."""

    in_cluster: ClassVar[bool] = True
    node_id: int
    rules: Callable[[str], Rules]
    """A function that returns a topic's current replication rules."""
    isr_writer: IsrWriter
    quotas: ReplicationQuotas
    totals: ReplicationTotals = field(default_factory=ReplicationTotals)
    observe: Callable[[Event], None] = lambda _: None
    """A function that receives events about in-sync replicas."""

    def report_isr_change(
        self,
        partition: LedPartition,
        led: LedReplicas,
        now_ms: int,
        sent: PartitionState | None = None,
    ) -> None:
        """Logs and counts the replicas that leave or join the ISR. Called before the change is
        applied, while their lag is still known.

        ``sent`` is the new state if the controller has sent it. It is None if the new ISR is the
        one that this leader requested.
        """
        after = sent
        if after is None and led.pending is not None:
            after = led.state._replace(isr=led.pending.isr)
            self.totals.isr_changed(led.state.isr, after.isr)
        if after is not None:
            place = partition.topic, partition.index
            by_controller = sent is not None
            for event in isr_events(led, *place, after, now_ms, by_controller=by_controller):
                self.observe(event)

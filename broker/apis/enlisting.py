"""Whether a partition is in a producer's transaction, as its first records there must know.

Produce and TxnOffsetCommit ask alike (KIP-890). A client of TV1 has added the partition before, by
AddPartitionsToTxn or AddOffsetsToTxn, and that is looked up in the turn of the append; so nothing
is opened behind the transaction's end. For one of TV2 the broker adds it and, since it has waited
for that, looks it up likewise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.apis.transactional import told
from broker.cores.hosted_shard import Phase
from broker.topics.partition import Partition
from broker.topics.ticket import Awaited
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
)
from transactions.calls import TV2, AddPartitions, Client, Partitions

if TYPE_CHECKING:
    from broker.apis.services import Services


class Enlisted(NamedTuple):
    """A producer, its transaction, and by which rules it takes part."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    rules: int
    """TV1: it adds partitions itself; TV2: the broker does."""
    client: Client
    group_id: str = ""
    """Whose offsets these are, for the journal."""

    def is_open(self, partition: Partition) -> bool:
        """Whether its transaction has records in the partition already: nothing need be asked."""
        producers = partition.log.producers
        return producers.in_transaction(self.producer_id, self.producer_epoch)

    def error(self, services: Services, partition: Partition) -> int:
        """Why its first records in the partition can't be appended in this turn, 0 if they can.

        Kafka's codes: 14 and 16 where the coordinator is not there, INVALID_PRODUCER_EPOCH for a
        fenced producer, TRANSACTION_ABORTABLE where the partition was not added.
        """
        if self.rules != TV2 and not services.config["transaction.partition.verification.enable"]:
            return NONE
        if not self.transactional_id:
            return INVALID_REQUEST
        hosted = services.transactions.hosted_for(self.transactional_id)
        if hosted is None or hosted.phase is not Phase.ACTIVE:
            loading = hosted is not None and hosted.phase is Phase.LOADING
            return COORDINATOR_LOAD_IN_PROGRESS if loading else NOT_COORDINATOR
        error = hosted.core.view.verify(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            partition.topic,
            partition.index,
        )
        return told(error, knows_fenced=False)

    def refusal(self, services: Services, partition: Partition) -> int:
        """`error`, of records that are to be appended now: those that can't be are counted."""
        error = self.error(services, partition)
        if error:
            services.metrics.transactions.verification_failures[error] += 1
        return error

    def must_be_added(self, services: Services, partition: Partition) -> bool:
        """Whether the broker adds the partition, or waits until the record that did is stable.

        So long nothing may be written there: were the record lost nobody would end what it opens.
        """
        hosted = services.transactions.hosted_for(self.transactional_id)
        waits = hosted is not None and hosted.accepted > hosted.partition.high_watermark
        return waits or self.error(services, partition) != NONE

    async def add(self, services: Services, partitions: Partitions) -> int:
        """Adds partitions to the transaction; the error that all of them have.

        CONCURRENT_TRANSACTIONS passes by itself, soon: the transaction before is being completed,
        and is asked for again when it is. It is answered only when it has not passed after some
        time.
        """
        if not self.transactional_id:
            return INVALID_REQUEST
        config, time = services.config, services.time
        backoff_ms = config["add.partitions.to.txn.retry.backoff.ms"]
        until_ms = time.now().mono_ms + config["add.partitions.to.txn.retry.backoff.max.ms"]
        while True:
            ticket = Awaited[int]()
            call = AddPartitions(
                ticket,
                self.transactional_id,
                self.producer_id,
                self.producer_epoch,
                partitions,
                self.rules,
                self.client,
                self.group_id,
            )
            services.transactions.submit(self.transactional_id, call)
            error = await ticket.reply
            if error != CONCURRENT_TRANSACTIONS or time.now().mono_ms + backoff_ms > until_ms:
                return told(error, knows_fenced=False)
            await services.markers.wait(self.transactional_id, backoff_ms / 1000)

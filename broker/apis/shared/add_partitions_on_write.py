"""Checks that a producer's transaction contains a partition, before the transaction's first records
are appended to this partition.

Produce and TxnOffsetCommit make this check (KIP-890). A client with the rules TV1 adds the
partition itself, by AddPartitionsToTxn or AddOffsetsToTxn. For a client with TV2 the broker adds
the partition, and waits until the addition is stable. For both kinds of clients, the check runs in
the turn of the append, so that no records are appended to a transaction that has just ended.

If another broker coordinates the transaction, this broker asks that broker
(`broker/cluster/coordinators/remote_add_partitions.py`). The answer is valid until the partition
gets records or a marker of the producer: after that, the transaction may have ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.apis.shared.transactional import error_for_version
from broker.cores.hosted_shard import Phase
from broker.topics.partition import Partition
from broker.topics.ticket import Awaited
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_REQUEST,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
)
from transactions.calls import TV2, AddPartitions, Client, Partitions

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


Place = tuple[str, int]


class Answered(NamedTuple):
    """The replies of the coordinating broker about the partitions of one request."""

    errors: Mapping[Place, int]
    before: Mapping[Place, object]
    """The producer's state in each partition at the time when the request was sent to the
    coordinating broker."""

    def error(self, partition: Partition, producer_id: int) -> int | None:
        """Returns the error code in the coordinator's reply for an append to ``partition`` in this
        turn; None if the coordinator was not asked about the partition.

        If the state of the producer has changed since the request to the coordinator, the reply may
        be outdated. The method then returns NETWORK_EXCEPTION, after which a producer retries.
        """
        place = partition.topic, partition.index
        error = self.errors.get(place)
        if error == NONE:
            same = partition.producers_of(producer_id).state(producer_id) is self.before.get(place)
            return NONE if same else NETWORK_EXCEPTION
        return error


NOT_ASKED = Answered({}, {})


class Enlisted(NamedTuple):
    """A transactional producer, and the version of the protocol (TV1 or TV2) by which partitions
    are added to its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    rules: int
    """TV1 if the producer adds partitions itself; TV2 if the broker adds partitions."""
    client: Client
    group_id: str = ""
    """The id of the group for which the producer commits offsets; "" for a Produce request. Only
    the journal uses it."""

    def is_open(self, partition: Partition) -> bool:
        """Returns True if the transaction already has records in the partition, so that no check is
        needed."""
        producers = partition.producers_of(self.producer_id)
        return producers.in_transaction(self.producer_id, self.producer_epoch)

    def error(
        self, services: Services, partition: Partition, answered: Answered = NOT_ASKED
    ) -> int:
        """Returns the error code for an append of the transaction's first records in this turn, or
        NONE.

        The codes are Kafka's. COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR: this broker has no
        active coordinator of the transaction. INVALID_PRODUCER_EPOCH: the producer is fenced.
        TRANSACTION_ABORTABLE: the partition was not added to the transaction.
        """
        if not self._is_checked(services):
            return NONE
        if not self.transactional_id:
            return INVALID_REQUEST
        if answered is not NOT_ASKED:
            said = answered.error(partition, self.producer_id)
            if said is not None:
                return said
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
        return error_for_version(error, knows_fenced=False)

    def _is_checked(self, services: Services) -> bool:
        enabled: bool = services.config["transaction.partition.verification.enable"]
        return enabled or self.rules == TV2

    def is_elsewhere(self, services: Services) -> bool:
        """Returns True if another broker coordinates the transaction, so that this broker must send
        it a request."""
        return (
            services.enlisting is not None
            and bool(self.transactional_id)
            and self._is_checked(services)
            and services.transactions.hosted_for(self.transactional_id) is None
        )

    def refusal(
        self, services: Services, partition: Partition, answered: Answered = NOT_ASKED
    ) -> int:
        """Returns the error code that `error` returns, and counts it in the metrics unless it is
        NONE. Must be called just before an append."""
        error = self.error(services, partition, answered)
        if error:
            services.metrics.transactions.verification_failures[error] += 1
        return error

    def must_be_added(self, services: Services, partition: Partition) -> bool:
        """Returns True if the broker must add the partition, or must wait until the record that
        adds it is stable.

        Until that record is stable, the partition accepts no records of the transaction: if the
        record were lost, no coordinator would end the transaction in this partition.
        """
        hosted = services.transactions.hosted_for(self.transactional_id)
        waits = hosted is not None and hosted.accepted > hosted.partition.high_watermark
        return waits or self.error(services, partition) != NONE

    async def add(self, services: Services, partitions: Partitions) -> int:
        """Adds partitions to a transaction that this broker coordinates. Returns one error code for
        all partitions.

        While the producer's previous transaction is being completed, the coordinator replies
        CONCURRENT_TRANSACTIONS, and the call is repeated. CONCURRENT_TRANSACTIONS is returned only
        after a timeout.
        """
        if not self.transactional_id:
            return INVALID_REQUEST
        pauses = _Pauses(services)
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
            wait = partial(services.markers.wait, self.transactional_id)
            if error != CONCURRENT_TRANSACTIONS or not await pauses.next(wait):
                return error_for_version(error, knows_fenced=False)

    async def ask(self, services: Services, partitions: Partitions) -> Answered:
        """Asks the broker that coordinates the transaction about partitions. With TV2, the
        coordinator adds all of them to the transaction, or none. With TV1, it only checks that they
        were added."""
        enlisting = services.enlisting
        assert enlisting is not None
        adds = self.rules == TV2
        pauses = _Pauses(services)
        while True:
            before = {}
            for topic, indexes in partitions:
                for index in indexes:
                    found = services.logs.get(topic, index)
                    if found is not None:
                        producers = found.producers_of(self.producer_id)
                        before[topic, index] = producers.state(self.producer_id)
            errors = await enlisting.ask(
                self.transactional_id,
                self.producer_id,
                self.producer_epoch,
                partitions,
                verify_only=not adds,
            )
            waits = adds and CONCURRENT_TRANSACTIONS in errors.values()
            if not waits or not await pauses.next(services.time.sleep):
                return Answered(errors, before)


class _Pauses:
    """The pauses between attempts to add partitions, while the producer's previous transaction is
    being completed."""

    def __init__(self, services: Services) -> None:
        self._time = services.time
        self._pause_ms: int = services.config["add.partitions.to.txn.retry.backoff.ms"]
        at_most_ms = services.config["add.partitions.to.txn.retry.backoff.max.ms"]
        self._until_ms = self._time.now().mono_ms + at_most_ms

    async def next(self, wait: Callable[[float], Awaitable[None]]) -> bool:
        """Waits for the current pause: calls ``wait`` with the pause in seconds, and returns True.
        If the pause would end after the timeout, returns False without waiting."""
        if self._time.now().mono_ms + self._pause_ms > self._until_ms:
            return False
        await wait(self._pause_ms / 1000)
        return True

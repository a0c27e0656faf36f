"""The transaction of a Produce request: checks the whole request first, and then each partition.

As in Kafka, a request without a transactional batch has no transaction, even if the request has a
transactional id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker.apis.produce.response import Refused
from broker.apis.shared.add_partitions_on_write import NOT_ASKED, Answered, Enlisted
from broker.apis.shared.transactional import client_of
from broker.net.request import Request
from broker.topics.partition import Partition
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NAMES,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.records.batch import HEADER_BYTES, is_transactional, read_header
from protocol.records.corrupt import CorruptRecords
from protocol.records.produce_rules import Produced
from transactions.calls import TV1, TV2

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Topics = Iterable[tuple[Any, Iterable[tuple[int, bytes | None]]]]
"""The partitions and records of a decoded request, by topic name or id."""

FIRST_WITH_IDS = 13
_FIRST_WITH_ABORTABLE = 11
_FIRST_OF_TV2 = 12
_PRODUCER = struct.Struct(">qh")
_PRODUCER_POSITION = 43
_ANOTHER_COORDINATOR = (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NOT_COORDINATOR,
)
"""Errors that a producer expects from a coordinator, but not from the leader of a partition."""


class Transaction:
    """The transaction of a Produce request, and the rules (TV1 or TV2) of its producer."""

    def __init__(
        self,
        services: Services,
        request: Request,
        transactional_id: str | None,
        topics: Topics,
        may_write_internal: bool,
    ) -> None:
        """Raises Refused if the whole request is invalid; then no records are appended."""
        self.to_add: dict[str, list[int]] = {}
        """By topic: the partitions that the broker must add to the transaction, or must verify at
        the coordinating broker."""
        self._topics = topics
        self._may_write_internal = may_write_internal
        self._services = services
        self._version = request.api_version
        self._not_added = NONE
        """The error code with which the attempt to add the partitions in ``to_add`` failed; NONE if
        it has not failed."""
        self._answered: Answered = NOT_ASKED
        if transactional_id is None:
            raise Refused(
                TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "The request has a transactional batch but no transactional.id.",
            )
        producers = set(_producers(topics))
        if len(producers) > 1:
            raise Refused(
                INVALID_PRODUCER_ID_MAPPING,
                f"The request has transactional batches of {len(producers)} producers: all"
                " must have the same producer id and epoch.",
            )
        producer_id, epoch = producers.pop() if producers else (-1, -1)
        self._enlisted = Enlisted(
            transactional_id,
            producer_id,
            epoch,
            TV2 if self._version >= _FIRST_OF_TV2 else TV1,
            client_of(request),
        )
        self._is_elsewhere = self._enlisted.is_elsewhere(services)
        """True if another broker coordinates the transaction."""

    @property
    def adds(self) -> bool:
        """True if the broker adds missing partitions to the transaction (TV2); False if the client
        does (TV1)."""
        return self._enlisted.rules == TV2

    def look_what_to_add(self) -> Iterator[None]:
        """Fills ``to_add`` with the partitions that must be added to the transaction. Checks one
        partition in each step."""
        registry = self._services.registry
        for key, partitions in self._topics if self.adds or self._is_elsewhere else ():
            name = key if self._version < FIRST_WITH_IDS else registry.topic_name(key)
            entry = None if name is None else self._services.logs.topics.get(name)
            if entry is None or (entry.topic.is_internal and not self._may_write_internal):
                continue
            for index, data in partitions:
                partition = entry.partition(index)
                if partition is not None and self._must_add(partition, data):
                    self.to_add.setdefault(entry.topic.name, []).append(index)
                yield

    def _must_add(self, partition: Partition, data: bytes | None) -> bool:
        if not self._opens(partition, data):
            return False
        if self._is_elsewhere:
            return partition.serving_error(-1) == NONE
        return self._enlisted.must_be_added(self._services, partition)

    def _opens(self, partition: Partition, data: bytes | None) -> bool:
        """Returns True if the append of ``data`` would begin the transaction in this partition: the
        transaction is not open there yet, and ``data`` is not a duplicate."""
        if not is_transactional(data) or self._enlisted.is_open(partition):
            return False
        assert data is not None
        try:
            return partition.log.producers.duplicate_of(read_header(data)) is None
        except CorruptRecords:
            return False  # the append reports the error

    def check_unwritable(self, partition: Partition, data: bytes | None) -> None:
        """Raises Refused if the partition is not in the transaction. The caller calls this for a
        write that it rejects for another reason, because Kafka reports the error of the transaction
        first.

        Only TV1 requests, whose clients add partitions themselves, are checked.
        """
        if not self.adds and not self._is_elsewhere and self._opens(partition, data):
            error = self._enlisted.refusal(self._services, partition)
            if error:
                raise self._refused(error)

    async def add(self) -> None:
        """Adds either all partitions of ``to_add`` or none. Calls the transaction coordinator if it
        is on this broker; otherwise sends one request to the coordinator's broker."""
        partitions = list(self.to_add.items())
        if self._is_elsewhere:
            self._answered = await self._enlisted.ask(self._services, partitions)
        else:
            self._not_added = await self._enlisted.add(self._services, partitions)

    def check(self, partition: Partition, produced: Produced) -> None:
        """Raises Refused unless the transaction accepts the batches. The caller appends them in the
        same turn."""
        enlisted, answered = self._enlisted, self._answered
        if enlisted.is_open(partition) or not enlisted.error(self._services, partition, answered):
            return
        not_led = partition.serving_error(-1)
        if not_led:
            # no coordinator was asked, and the producer must find the leader
            raise Refused(not_led)
        producers = partition.log.producers
        for batch in produced.batches:
            if not batch.is_transactional or batch.producer_id < 0:
                continue
            if producers.duplicate_of(batch) is not None:
                # the duplicate gets the earlier response, whatever the state of its transaction
                continue
            error = enlisted.refusal(self._services, partition, answered)
            if error:
                raise self._refused(self._not_added or error)

    def _refused(self, error: int) -> Refused:
        """Returns the exception that refuses a partition because it is not in the transaction. The
        error code of the exception is one that the client knows."""
        if error == TRANSACTION_ABORTABLE and self._version < _FIRST_WITH_ABORTABLE:
            error = INVALID_TXN_STATE
        if error in _ANOTHER_COORDINATOR or (error == CONCURRENT_TRANSACTIONS and not self.adds):
            # The producer retries after this error, without refreshing its metadata.
            return Refused(
                NOT_ENOUGH_REPLICAS,
                f"The broker can't verify that the partition was added to the transaction:"
                f" {NAMES[error]}.",
            )
        if error in (INVALID_TXN_STATE, TRANSACTION_ABORTABLE):
            return Refused(error, "The partition was not added to the transaction.")
        return Refused(error)


def _producers(topics: Topics) -> Iterator[tuple[int, int]]:
    """Yields the producer id and epoch of each transactional batch."""
    for _, partitions in topics:
        for _, data in partitions:
            if data is not None and is_transactional(data) and len(data) >= HEADER_BYTES:
                producer: tuple[int, int] = _PRODUCER.unpack_from(data, _PRODUCER_POSITION)
                if producer[0] >= 0:
                    yield producer

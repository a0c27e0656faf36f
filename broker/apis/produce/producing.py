"""Checks and appends the records of one Produce request, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from broker.apis.produce.response import ALL, Answer, Refused, Unstable, answer, shown_start
from broker.apis.produce.transaction import FIRST_WITH_IDS, Topics, Transaction
from broker.apis.shared.authorization import is_allowed
from broker.cores.groups import foreign_records
from broker.cores.hosted_shard import NotActive
from broker.loop.slices import SLICE_NS, Slices
from broker.net.request import Request
from broker.net.required_acls import of_each
from broker.topics.partition import Partition
from broker.topics.registry import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    absent_error,
)
from broker.topics.topic_logs import TopicLogs
from log.errors import AppendRefused, LogPoisoned
from log.values import AppendInfo
from protocol.errors import (
    INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.generated.produce import Request as Decoded
from protocol.records.batch import is_transactional
from protocol.records.budget import Budget, OverBudget
from protocol.records.corrupt import CorruptRecords
from protocol.records.produce import SMALL_BUDGET, analyse, request_budget
from protocol.records.produce_rules import Produced
from protocol.slotted import slotted
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

WRITE = of_each(ResourceType.TOPIC, Operation.WRITE)
ADMIN_CLIENT_ID = "__admin_client"
"""The client id of the only client that Kafka allows to write to internal topics."""
_FIRST_WITH_ONE_BATCH = 3


def has_transactional(topics: Topics) -> bool:
    for _, partitions in topics:
        for _, data in partitions:
            if is_transactional(data):
                return True
    return False


@slotted
class Place:
    """A partition in a Produce request, with its records."""

    answers: list[Answer]
    """The list to which the result for this partition is appended."""
    entry: TopicLogs | None
    """The topic as it was when the request's first partition of this topic was handled; None if the
    topic is unknown."""
    partition: int
    data: bytes | None


class Producing:
    """Handles one Produce request, partition by partition.

    Small work is done at once. From the first larger partition on, or when the turn's time is used
    up, the request is parked. The remaining work is then done in slices, with long checks in the
    worker's thread. A topic is looked up again after each wait, because it may have changed.
    """

    def __init__(
        self,
        services: Services,
        request: Request,
        decoded: Decoded,
        denied: Set[str | bytes] = frozenset(),
    ) -> None:
        """The partitions of ``denied`` topics get TOPIC_AUTHORIZATION_FAILED. Raises Refused."""
        transactional_id, self.acks, self.timeout_ms, topics = decoded
        refused = [topic for topic in topics if topic[0] in denied] if denied else []
        if refused:
            topics = [topic for topic in topics if topic[0] not in denied]
        self.services = services
        self.request = request
        self.version = request.api_version
        self.may_write_internal = request.client_id == ADMIN_CLIENT_ID
        self.transaction: Transaction | None = None
        if has_transactional(topics):
            self.transaction = Transaction(
                services, request, transactional_id, topics, self.may_write_internal
            )
        self.now_ms = services.time.now().wall_ms
        self.answers: list[tuple[Any, list[Answer]]] = []
        """The results known so far, by topic. Topics that the client may not write come first, then
        the other topics in the order of the request."""
        self.unstable: list[Unstable] = []
        """The results that wait until their records are stable."""
        for key, partitions in refused:
            self.answers.append((key, [_denial(index) for index, _ in partitions]))
        self._unknown = (
            UNKNOWN_TOPIC_ID if self.version >= FIRST_WITH_IDS else UNKNOWN_TOPIC_OR_PARTITION
        )
        self._places = self._each(topics)
        self._next: Place | None = None
        """The partition with which a parked request continues. None if the request was not parked
        in the middle of a partition."""

    def _each(
        self, topics: list[tuple[Any, list[tuple[int, bytes | None]]]]
    ) -> Iterator[Place | None]:
        """Yields each partition with its records. Yields None in place of a partition that gets an
        error at once."""
        registry = self.services.registry
        judges = self.services.authorizer.judges
        by_id = self.version >= FIRST_WITH_IDS
        for key, partitions in topics:
            name = registry.topic_name(key) if by_id else key
            entry = None if name is None else self.services.logs.topics.get(name)
            answers: list[Answer] = []
            self.answers.append((key, answers))
            if judges and name is not None and not self._may_write(name, len(partitions)):
                for index, _ in partitions:
                    answers.append(_denial(index))
                    yield None
                continue
            for index, data in partitions:
                if entry is None and name is not None:
                    error_code = absent_error(registry, name, index)
                    answers.append(Answer(index, error_code))
                    yield None
                else:
                    yield Place(answers, entry, index, data)

    def _may_write(self, name: str, count: int) -> bool:
        return is_allowed(self.services, self.request, WRITE, name, count=count)

    # -- within the handling of the request

    def done_at_once(self) -> bool:
        """Appends the records of one partition after the other. Returns True if all partitions are
        done. Returns False if work remains that must be done in slices."""
        if self.transaction is not None and self.transaction.to_add:
            return False
        ticks_ns = self.services.time.ticks_ns
        since_ns = ticks_ns()
        budget = Budget(*SMALL_BUDGET)
        for place in self._places:
            if place is not None and not self._partition(place, place.entry, budget):
                self._next = place
                return False
            if ticks_ns() - since_ns > SLICE_NS:
                return False
        return True

    def _partition(self, place: Place, entry: TopicLogs | None, budget: Budget) -> bool:
        """Appends to one partition and adds its result. ``entry`` is the current state of the
        topic.

        Returns False, without an append, in two cases: the check of the records exceeds ``budget``,
        or the partition is the log of a shard. An append to a shard's log must wait for the end of
        the shard's turn.
        """
        try:
            partition = self._writable(entry, place.partition, place.data)
            assert entry is not None
            if partition.topic == OFFSETS_TOPIC:
                return False
            try:
                produced = analyse(place.data, self.version, self.now_ms, entry.rules, budget)
            except OverBudget:
                return False
            except CorruptRecords as error:
                raise _corrupt(error, partition) from None
            self._append(entry, partition, produced, place)
        except Refused as refused:
            place.answers.append(refused.answer(place.partition))
        return True

    # -- while the request is parked

    async def go_on(self) -> None:
        """Appends to the remaining partitions and sends the response.

        If the client disconnects before its response, no more records are appended, because the
        client may send them again. A client with acks=0 expects no response, so all its records are
        appended.
        """
        slices = self.services.slicer.work("Produce")
        budget = request_budget(len(self.request.buffer))
        if self.transaction is not None and self.transaction.to_add:
            await slices.beside(self.transaction.add())
            await slices.resume()
            self.now_ms = self.services.time.now().wall_ms
        else:
            await slices.pause()
        waiting = () if self._next is None else (self._next,)
        for place in chain(waiting, self._places):
            if self.acks and self.request.connection.closed:
                return
            if place is not None and not self._partition(
                place, self._as_it_is_now(place.entry), Budget(*SMALL_BUDGET)
            ):
                await self._in_worker(slices, place, budget)
            if slices.over:
                await slices.pause()
                self.now_ms = self.services.time.now().wall_ms
        answer(self.request, self.acks, self.answers, self.unstable, self.timeout_ms)

    async def _in_worker(self, slices: Slices, place: Place, budget: Budget) -> None:
        index, data = place.partition, place.data
        worker, client = self.services.worker, self.request.connection
        produced = rules = None
        try:
            while True:
                entry = self._as_it_is_now(place.entry)
                partition = self._writable(entry, index, data)
                assert entry is not None
                if produced is not None and entry.rules == rules:
                    break
                rules = entry.rules
                check = partial(analyse, data, self.version, self.now_ms, rules, budget)
                try:
                    produced = await slices.beside(worker.run(client, check))
                except CorruptRecords as error:
                    raise _corrupt(error, partition) from None
                self.now_ms = self.services.time.now().wall_ms
                if self.acks and client.closed:
                    return
            if partition.topic == OFFSETS_TOPIC and produced.batches:
                await self._append_foreign(slices, entry, partition, produced, place)
            else:
                self._append(entry, partition, produced, place)
        except Refused as refused:
            place.answers.append(refused.answer(index))

    async def _append_foreign(
        self,
        slices: Slices,
        entry: TopicLogs,
        partition: Partition,
        produced: Produced,
        place: Place,
    ) -> None:
        """Appends a client's records to the log of a shard. The records must first pass the checks
        that a load of the shard makes. After the append, the shard is loaded again."""
        groups, worker, client = self.services.groups, self.services.worker, self.request.connection
        error_code = partition.serving_error(-1)
        if error_code:
            raise Refused(error_code)
        self._check_transaction(partition, produced)
        check = partial(
            foreign_records.check,
            produced.data,
            partition.index,
            groups.life.partitions,
            groups.settings.core,
            self.services.time.now(),
        )
        append = partial(self._write, partition, produced)
        try:
            await slices.beside(worker.run(client, check))
            info = await slices.beside(groups.append_foreign(partition.index, append))
        except CorruptRecords as error:
            raise _corrupt(error, partition) from None
        except NotActive as error:
            raise Refused(KAFKA_STORAGE_ERROR, str(error)) from None
        self._appended(entry, partition, produced, place, info)

    def _as_it_is_now(self, entry: TopicLogs | None) -> TopicLogs | None:
        """Returns the current state of the topic, which may have got more partitions since
        ``entry`` was read. Returns None if the topic was deleted."""
        if entry is None:
            return None
        found = self.services.logs.topics.get(entry.topic.name)
        same = found is not None and found.topic.topic_id == entry.topic.topic_id
        return found if same else None

    # -- one partition

    def _writable(self, entry: TopicLogs | None, index: int, data: bytes | None) -> Partition:
        """Returns the partition to append to. Raises Refused."""
        if entry is None:
            raise Refused(self._unknown)
        partition = entry.partition(index)
        if partition is None:
            raise Refused(absent_error(self.services.registry, entry.topic.name, index))
        if self.acks not in (ALL, 0, 1):
            raise Refused(INVALID_REQUIRED_ACKS)
        name = entry.topic.name
        if name in INTERNAL_TOPICS and (not self.may_write_internal or name != OFFSETS_TOPIC):
            if self.transaction is not None:
                self.transaction.check_unwritable(partition, data)
            raise Refused(INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
        return partition

    def _check_transaction(self, partition: Partition, produced: Produced) -> None:
        """Checks that the transaction accepts the batches; called in the turn of the append. Raises
        Refused."""
        if self.transaction is not None:
            self.transaction.check(partition, produced)
        elif any(batch.is_transactional for batch in produced.batches):
            raise Refused(
                INVALID_TXN_STATE,
                "The request has a transactional batch after a non-transactional batch.",
            )

    def _append(
        self, entry: TopicLogs, partition: Partition, produced: Produced, place: Place
    ) -> None:
        if self.transaction is not None or self.version < _FIRST_WITH_ONE_BATCH:
            self._check_transaction(partition, produced)
        if produced.batches:
            info = self._write(partition, produced)
            self._appended(entry, partition, produced, place, info)
        else:
            start = partition.log.log_start_offset
            place.answers.append(Answer(partition.index, NONE, log_start_offset=start))

    def _appended(
        self,
        entry: TopicLogs,
        partition: Partition,
        produced: Produced,
        place: Place,
        info: AppendInfo,
    ) -> None:
        """Adds the result of an append. If the client waits until the records are stable and they
        do not become stable, an error replaces this result."""
        if not info.duplicate:
            entry.bytes_in += len(produced.data)
        if produced.converted:
            self.services.metrics.produce_conversions += produced.converted
        first, last, time_ms, start, _ = info
        answers = place.answers
        if last >= partition.high_watermark and (self.acks == ALL or not partition.keeps(last)):
            self.unstable.append(Unstable(answers, len(answers), partition, last + 1))
        answers.append(Answer(partition.index, NONE, first, time_ms, start))

    def _write(self, partition: Partition, produced: Produced) -> AppendInfo:
        try:
            append = partition.append_for_all if self.acks == ALL else partition.append
            return append(
                produced.data,
                self.now_ms,
                produced.batches,
                from_zero=self.transaction is not None and self.transaction.adds,
            )
        except AppendRefused as error:
            start = shown_start(error, partition)
            raise Refused(error.error_code, error.message, log_start_offset=start) from None
        except LogPoisoned as error:
            raise Refused(KAFKA_STORAGE_ERROR, str(error)) from None


def _denial(index: int) -> Answer:
    return Answer(index, TOPIC_AUTHORIZATION_FAILED)


def _corrupt(error: CorruptRecords, partition: Partition) -> Refused:
    start = shown_start(error, partition)
    return Refused(error.error_code, error.message, error.record_errors, start)

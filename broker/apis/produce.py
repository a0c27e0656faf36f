"""Produce (0): records to the end of partitions.

v0 and v1 carry message sets of magic 0, v2 of magic 1 too, from v3 on there is one batch of magic
2; v1 throttle time; v2 log append time; v3 transactional id; v5 log start offset; v7 zstd allowed;
v8 the records that are to blame; v9 flexible; v10 the leader where it is another broker (never
here); v13 topic ids in place of names. acks 0 has no answer: an error closes the connection, so
that the client looks for metadata anew, as in Kafka.

There are no transactions yet: a transactional batch gets INVALID_TXN_STATE, which no client
retries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from broker.logs import TopicLogs
from broker.produce_response import Appended, as_dict, produce_frame
from broker.request import Request, ServedApi
from broker.runtime import OFFSETS_TOPIC
from log.errors import AppendRefused, LogPoisoned
from log.partition_log import PartitionLog
from log.values import AppendInfo
from protocol.errors import (
    CORRUPT_MESSAGE,
    INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.generated.produce import DECODE_REQUEST
from protocol.messages.produce import API
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.records.produce import Produced, analyse

if TYPE_CHECKING:
    from broker.broker import Broker

ADMIN_CLIENT_ID = "__admin_client"
"""The one client that Kafka lets write internal topics."""
_FIRST_WITH_IDS = 13
_WITHOUT_START = frozenset((CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE))
"""Errors beside which Kafka does not tell where the log starts."""


class _Refused(Exception):
    """Nothing was appended to a partition."""

    def __init__(
        self,
        error_code: int,
        message: str | None = None,
        record_errors: tuple[RecordError, ...] = (),
        log_start_offset: int = -1,
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors
        self.log_start_offset = log_start_offset


@dataclass(slots=True)
class _Done:
    """One partition's answer, and the log that must first be on the disk, up to which offset."""

    answer: Appended | dict[str, Any]
    """Of the reference codec when nothing was appended."""
    log: PartitionLog | None = None
    end_offset: int = -1


def _handle(broker: Broker, request: Request) -> None:
    decode = DECODE_REQUEST[request.api_version]
    transactional_id, acks, _, topics = decode(request.buffer, request.position)
    registry = broker.registry
    by_id = request.api_version >= _FIRST_WITH_IDS
    producing = _Producing(broker, request, acks, transactional_id is not None)
    responses = []
    for key, partitions in topics:
        name = registry.topic_name(key) if by_id else key
        entry = None if name is None else broker.logs.topics.get(name)
        if entry is not None:
            done = [producing.partition(entry, index, data) for index, data in partitions]
        else:
            unknown = UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC_OR_PARTITION
            done = [_Done(_failed(index, _Refused(unknown))) for index, _ in partitions]
        responses.append((key, done))
    _finish(broker, request, acks, responses)


class _Producing:
    """One Produce request, partition by partition."""

    def __init__(self, broker: Broker, request: Request, acks: int, transactional: bool) -> None:
        self.broker = broker
        self.version = request.api_version
        self.acks = acks
        self.transactional = transactional
        self.may_write_internal = request.client_id == ADMIN_CLIENT_ID
        self.now_ms = broker.clock.now().wall_ms

    def partition(self, entry: TopicLogs, index: int, data: bytes | None) -> _Done:
        """Appends what came for one partition; its answer."""
        log = entry.log(index)
        try:
            if log is None:
                raise _Refused(UNKNOWN_TOPIC_OR_PARTITION)
            return self._append(entry, log, data)
        except _Refused as refused:
            return _Done(_failed(index, refused))

    def _append(self, entry: TopicLogs, log: PartitionLog, data: bytes | None) -> _Done:
        if self.acks not in (-1, 0, 1):
            raise _Refused(INVALID_REQUIRED_ACKS)
        if entry.topic.is_internal and not self.may_write_internal:
            raise _Refused(
                INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {entry.topic.name}"
            )
        try:
            produced = analyse(data, self.version, self.now_ms, entry.rules)
        except CorruptRecords as error:
            raise _Refused(
                error.error_code, error.message, error.record_errors, _start_told(error, log)
            ) from None
        if self.transactional or any(batch.is_transactional for batch in produced.batches):
            raise _Refused(INVALID_TXN_STATE, "This broker has no transactions.")
        if not produced.batches:
            return _Done(Appended(log.partition, NONE, -1, -1, log.log_start_offset))
        began_ns = perf_counter_ns()
        info = self._write(log, produced)
        writes = self.broker.metrics.writes
        writes.append.add(perf_counter_ns() - began_ns)
        if not info.duplicate:
            writes.records.add(info.last_offset - info.first_offset + 1)
            entry.bytes_in += len(produced.data)
        if produced.converted:
            self.broker.metrics.produce_conversions += produced.converted
        answer = Appended(
            log.partition, NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset
        )
        if info.last_offset >= log.high_watermark:  # nobody reads it before it is on the disk
            return _Done(answer, log, info.last_offset + 1)
        if not info.duplicate:
            self.broker.long_polls.appended(log.topic, log.partition, len(produced.data))
        return _Done(answer)

    def _write(self, log: PartitionLog, produced: Produced) -> AppendInfo:
        epoch = max(log.epochs.latest, 0)
        append = partial(log.append, produced.data, epoch, self.now_ms, produced.batches)
        try:
            if log.topic != OFFSETS_TOPIC or not self.broker.runtime.hosts:
                return append()
            info = self.broker.runtime.append_foreign(log.partition, append)
        except AppendRefused as error:
            raise _Refused(
                error.error_code, error.message, log_start_offset=_start_told(error, log)
            ) from None
        except LogPoisoned as error:
            self.broker.maintenance.poisoned(log, error)
            raise _Refused(KAFKA_STORAGE_ERROR, str(error)) from None
        if info is None:
            raise _Refused(KAFKA_STORAGE_ERROR, "The groups of this partition are being loaded.")
        return info


def _start_told(error: CorruptRecords | AppendRefused, log: PartitionLog) -> int:
    return -1 if error.error_code in _WITHOUT_START else log.log_start_offset


def _failed(index: int, refused: _Refused) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": refused.error_code,
        "base_offset": -1,
        "log_start_offset": refused.log_start_offset,
        "record_errors": [
            {"batch_index": error.batch_index, "batch_index_error_message": error.message}
            for error in refused.record_errors
        ],
        "error_message": refused.message,
    }


def _finish(
    broker: Broker, request: Request, acks: int, responses: list[tuple[Any, list[_Done]]]
) -> None:
    """Answers at once, or when all that must be on the disk first is."""
    flushing = [done for _, partitions in responses for done in partitions if done.log is not None]
    missing = len(flushing)
    if not missing:
        _answer(request, acks, responses)
        return

    def flushed(done: _Done, reason: str | None) -> None:
        nonlocal missing
        if reason is not None:
            assert isinstance(done.answer, Appended)
            done.answer = _failed(done.answer.partition, _Refused(KAFKA_STORAGE_ERROR, reason))
        missing -= 1
        if not missing:
            _answer(request, acks, responses)

    for done in flushing:
        assert done.log is not None
        broker.maintenance.when_flushed(done.log, done.end_offset, partial(flushed, done))


def _answer(request: Request, acks: int, responses: list[tuple[Any, list[_Done]]]) -> None:
    appended: list[tuple[Any, list[Appended]]] = []
    for key, done in responses:
        answers = [d.answer for d in done if isinstance(d.answer, Appended)]
        if len(answers) < len(done):
            _answer_with_errors(request, acks, responses)
            return
        appended.append((key, answers))
    if acks == 0:
        request.respond_nothing(NONE)
    else:
        request.complete(produce_frame(request.api_version, request.correlation_id, appended))


def _answer_with_errors(
    request: Request, acks: int, responses: list[tuple[Any, list[_Done]]]
) -> None:
    answers = [
        (key, [as_dict(d.answer) if isinstance(d.answer, Appended) else d.answer for d in done])
        for key, done in responses
    ]
    worst = next(
        a["error_code"] for _, partitions in answers for a in partitions if a["error_code"]
    )
    if acks == 0:
        request.respond_nothing(worst)
        request.connection.close()
        return
    key_name = "topic_id" if request.api_version >= _FIRST_WITH_IDS else "name"
    request.respond(
        {
            "responses": [
                {key_name: key, "partition_responses": partitions} for key, partitions in answers
            ]
        },
        worst,
    )


SERVED = ServedApi(API, 0, 13, _handle, elements_max=None)

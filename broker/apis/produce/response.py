"""The response to a Produce request, sent when the results of all partitions are known.

A result waits until its records are stable. `protocol/generated/produce.py` encodes the response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from broker.net.request import Request
from broker.topics.partition import Partition, StableTooLate
from broker.topics.replicas.roles import NotLeader
from log.errors import AppendRefused
from protocol.errors import (
    CORRUPT_MESSAGE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    RECORD_LIST_TOO_LARGE,
    REQUEST_TIMED_OUT,
)
from protocol.generated.produce import ENCODE_RESPONSE
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.slotted import slotted

ANSWERED_AT_ONCE = 256
"""The maximum number of partitions in a response that the event loop's thread encodes; this takes 2
ms if each partition has an error."""
ALL = -1
"""The value of acks for a producer that waits for all in-sync replicas."""
_WITHOUT_START = frozenset(
    (
        CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE,
        NOT_ENOUGH_REPLICAS,
        NOT_LEADER_OR_FOLLOWER,
        RECORD_LIST_TOO_LARGE,
    )
)
"""Errors for which Kafka omits the log start offset."""


class Answer(NamedTuple):
    """The result for one partition; the fields are in the order of the generated codec."""

    partition: int
    error_code: int
    """The error code; 0 if the records were appended."""
    base_offset: int = -1
    log_append_time_ms: int = -1
    """The append time in Unix ms if the topic uses LogAppendTime; otherwise -1."""
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    message: str | None = None


class Unstable(NamedTuple):
    """A result that waits until the records before ``end_offset`` are stable in its partition."""

    answers: list[Answer]
    """The list that has the results of all partitions of the topic."""
    place: int
    """The index of the result in ``answers``."""
    partition: Partition
    end_offset: int


class Refused(Exception):
    """The records of a partition were not appended."""

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

    def answer(self, partition: int) -> Answer:
        start, records = self.log_start_offset, self.record_errors
        return Answer(partition, self.error_code, -1, -1, start, records, self.message)


def shown_start(error: CorruptRecords | AppendRefused, partition: Partition) -> int:
    """Returns the log start offset for the response entry of a partition that failed with
    ``error``; -1 if Kafka omits the offset for this error."""
    return -1 if error.error_code in _WITHOUT_START else partition.log.log_start_offset


def answer(
    request: Request,
    acks: int,
    topics: Sequence[tuple[str | bytes, list[Answer]]],
    unstable: Sequence[Unstable] = (),
    timeout_ms: int = 0,
) -> None:
    """Sends the response to a Produce request. If ``unstable`` is not empty, the response waits
    until the results in ``unstable`` are stable.

    With acks=all in a cluster, ``timeout_ms`` limits this wait. The worker thread encodes large
    responses.
    """
    if unstable:
        waiting = _Waiting(len(unstable), partial(answer, request, acks, topics))
        for answers, place, partition, end_offset in unstable:
            reply = _Ticket(waiting, answers, place), answers[place]
            partition.when_acknowledged(
                end_offset, reply, _not_stable, timeout_ms, by_all=acks == ALL
            )
        return
    partitions, error_code = 0, NONE
    for _, answers in topics:
        partitions += len(answers)
        for each in answers:
            error_code = error_code or each.error_code  # the first error is counted
    if acks == 0:
        request.respond_nothing(error_code)
        if error_code:
            request.connection.close()
        return
    encode = ENCODE_RESPONSE[request.api_version]
    if partitions <= ANSWERED_AT_ONCE:
        request.complete(encode(request.correlation_id, topics, 0), error_code)
    else:
        request.complete_later(partial(encode, request.correlation_id, topics, 0), error_code)


@slotted
class _Waiting:
    """A Produce request that waits until the records of its last partitions are stable. ``missing``
    is the number of these partitions."""

    missing: int
    answer: Callable[[], None]


@slotted(eq=False)
class _Ticket:
    waiting: _Waiting
    answers: list[Answer]
    place: int

    def take(self, reply: Answer) -> None:
        self.answers[self.place] = reply
        self.waiting.missing -= 1
        if not self.waiting.missing:
            self.waiting.answer()


def _not_stable(reply: Answer, error: Exception) -> Answer:
    if isinstance(error, NotLeader):
        return Answer(reply.partition, NOT_LEADER_OR_FOLLOWER)
    if isinstance(error, StableTooLate):
        return Answer(reply.partition, REQUEST_TIMED_OUT)
    return Answer(reply.partition, KAFKA_STORAGE_ERROR, message=str(error))

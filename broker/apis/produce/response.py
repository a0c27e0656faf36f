"""The answer to a Produce: when it is sent, and its frame.

It is sent when all its records are stable. If every partition was appended to, the frame is made
here, partition by partition: the reference codec walks the schema field by field, which is a fifth
of the cost of a small request. An answer with an error is rare, may name records, and is left to
the reference codec. A test compares the two in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.net.request import Request
from broker.topics.partition import Partition, StableTooLate
from broker.topics.roles import NotLeader
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
from protocol.headers import response_header
from protocol.messages.produce import API
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.slotted import slotted
from protocol.wire import write_compact_string, write_string, write_varint

if TYPE_CHECKING:
    from broker.apis.services import Services

ANSWERED_AT_ONCE = 256
"""So many partitions are answered in 2 ms even if each has an error."""
ALL = -1
"""The acks of a producer that waits for all in-sync replicas."""
_INT32 = struct.Struct(">i")
_FLEXIBLE = 9
_WITH_IDS = 13
_WITHOUT_START = frozenset(
    (
        CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE,
        NOT_ENOUGH_REPLICAS,
        NOT_LEADER_OR_FOLLOWER,
        RECORD_LIST_TOO_LARGE,
    )
)
"""Errors beside which Kafka leaves out where the log starts."""


class Appended(NamedTuple):
    """What is answered for one partition whose records were appended."""

    partition: int
    error_code: int
    """Always 0."""
    base_offset: int
    log_append_time_ms: int
    """-1 unless the topic stamps its records."""
    log_start_offset: int


def as_dict(appended: Appended) -> dict[str, Any]:
    """The same for the reference codec."""
    _, error_code, base_offset, log_append_time_ms, log_start_offset = appended
    return {
        "index": appended.partition,
        "error_code": error_code,
        "base_offset": base_offset,
        "log_append_time_ms": log_append_time_ms,
        "log_start_offset": log_start_offset,
    }


Answer = Appended | dict[str, Any]
"""One partition's; a value of the reference codec when nothing was appended."""


def answer_frame(request: Request, topics: Sequence[tuple[str | bytes, Sequence[Answer]]]) -> bytes:
    """The whole answer to ``request``; one with an error is made by the reference codec.

    In any thread.
    """
    version = request.api_version
    appended: list[tuple[str | bytes, list[Appended]]] = []
    for key, answers in topics:
        good = [answer for answer in answers if isinstance(answer, Appended)]
        if len(good) < len(answers):
            break
        appended.append((key, good))
    else:
        return produce_frame(version, request.correlation_id, appended)
    key_name = "topic_id" if version >= _WITH_IDS else "name"
    responses = [
        {
            key_name: key,
            "partition_responses": [
                as_dict(answer) if isinstance(answer, Appended) else answer for answer in answers
            ],
        }
        for key, answers in topics
    ]
    return request.frame({"responses": responses})


@slotted
class Done:
    """One partition's answer; where there is a ``partition``, that must be stable before."""

    answer: Answer
    partition: Partition | None = None
    end_offset: int = -1
    """Up to which offset."""


def failed(
    partition: int,
    error_code: int,
    message: str | None = None,
    record_errors: Sequence[RecordError] = (),
    log_start_offset: int = -1,
) -> dict[str, Any]:
    """The answer for a partition to which nothing was appended."""
    return {
        "index": partition,
        "error_code": error_code,
        "base_offset": -1,
        "log_start_offset": log_start_offset,
        "record_errors": [
            {"batch_index": error.batch_index, "batch_index_error_message": error.message}
            for error in record_errors
        ],
        "error_message": message,
    }


class Refused(Exception):
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

    def done(self, partition: int) -> Done:
        """The answer for the partition."""
        return Done(
            failed(
                partition, self.error_code, self.message, self.record_errors, self.log_start_offset
            )
        )


def shown_start(error: CorruptRecords | AppendRefused, partition: Partition) -> int:
    """Where the log starts, as an answer with this error says it: -1 where it leaves it out."""
    return -1 if error.error_code in _WITHOUT_START else partition.log.log_start_offset


def finish(
    services: Services,
    request: Request,
    acks: int,
    responses: list[tuple[Any, list[Done]]],
    timeout_ms: int = 0,
) -> None:
    """Answers at once, or when all that was appended is stable.

    ``timeout_ms`` is how long other brokers may take for what ``acks`` asks of them.
    """
    unstable = [each for _, done in responses for each in done if each.partition is not None]
    if not unstable:
        _answer(services, request, acks, responses)
        return
    waiting = _Waiting(len(unstable), partial(_answer, services, request, acks, responses))
    for done in unstable:
        assert done.partition is not None
        ticket = _Ticket(waiting, done)
        done.partition.when_acknowledged(
            done.end_offset, (ticket, done.answer), _not_stable, timeout_ms, by_all=acks == ALL
        )


@slotted
class _Waiting:
    """A request some of whose partitions are not stable yet."""

    missing: int
    answer: Callable[[], None]


@slotted(eq=False)
class _Ticket:
    """One of these partitions."""

    waiting: _Waiting
    done: Done

    def take(self, answer: Answer) -> None:
        """See `Ticket`."""
        self.done.answer = answer
        self.waiting.missing -= 1
        if not self.waiting.missing:
            self.waiting.answer()


def _not_stable(answer: Appended, error: Exception) -> Answer:
    if isinstance(error, NotLeader):
        return failed(answer.partition, NOT_LEADER_OR_FOLLOWER)
    if isinstance(error, StableTooLate):
        return failed(answer.partition, REQUEST_TIMED_OUT)
    return failed(answer.partition, KAFKA_STORAGE_ERROR, str(error))


def _answer(
    services: Services, request: Request, acks: int, responses: list[tuple[Any, list[Done]]]
) -> None:
    """Answers; where there is much to say, once the worker has made a frame of it."""
    partitions = sum([len(done) for _, done in responses])
    if acks == 0:
        error_code = _worst(responses)
        request.respond_nothing(error_code)
        if error_code:
            request.connection.close()
    elif partitions <= ANSWERED_AT_ONCE:
        request.complete(_frame(request, responses), _worst(responses))
    else:

        async def encoded() -> None:
            make = partial(_frame, request, responses)
            frame = await services.worker.run(request.connection, make)
            request.complete(frame, _worst(responses))

        request.answer_later(encoded())


def _worst(responses: list[tuple[Any, list[Done]]]) -> int:
    """The first error, which the request is counted under."""
    for _, partitions in responses:
        for done in partitions:
            if type(done.answer) is dict:
                error_code: int = done.answer["error_code"]
                return error_code
    return NONE


def _frame(request: Request, responses: list[tuple[Any, list[Done]]]) -> bytes:
    answers = [(key, [done.answer for done in partitions]) for key, partitions in responses]
    return answer_frame(request, answers)


def _packers() -> list[struct.Struct]:
    """By version: how many fields of `Appended`, and the empty ones behind them."""
    found = []
    for version in range(API.versions.stop):
        layout = ">ihq"
        if version >= 2:
            layout += "q"
        if version >= 5:
            layout += "q"
        if version >= 8:  # no record errors, no message; flexible: no tagged fields either
            layout += "Bxx" if version >= _FLEXIBLE else "4xh"
        found.append(struct.Struct(layout))
    return found


_PARTITION = _packers()


def produce_frame(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[Appended]]],
) -> bytes:
    """A whole Produce answer of ``version``; topics are named, or by id from version 13 on."""
    flexible = version >= _FLEXIBLE
    out = bytearray(4)
    out += response_header(API.key, version, correlation_id)
    _count(out, len(topics), flexible)
    pack = _PARTITION[version].pack
    for key, partitions in topics:
        if isinstance(key, bytes):
            out += key
        elif flexible:
            write_compact_string(out, key)
        else:
            write_string(out, key)
        _count(out, len(partitions), flexible)
        for partition in partitions:
            if flexible:
                out += pack(*partition, 1)
            elif version == 8:
                out += pack(*partition, -1)
            elif version >= 5:
                out += pack(*partition)
            else:
                out += pack(*partition[: 4 if version >= 2 else 3])
        if flexible:
            out.append(0)
    if version >= 1:
        out += _INT32.pack(0)
    if flexible:
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_varint(out, count + 1)
    else:
        out += _INT32.pack(count)

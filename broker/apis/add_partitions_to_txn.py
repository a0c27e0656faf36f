"""AddPartitionsToTxn (24): partitions become part of a transaction, all of them or none.

v0 to v3 come from clients: one transaction; v2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH;
v3 flexible. v4 and v5 come from brokers that were asked to append (KIP-890): many transactions,
each added to or, with `verify_only`, looked up; v5 TRANSACTION_ABORTABLE is known.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from broker.apis.gather import Gather
from broker.apis.transactional import client_of, told
from broker.net.request import Request, ServedApi, Steps
from broker.topics.registry import INTERNAL_TOPICS
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    INVALID_REQUEST,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.add_partitions_to_txn import API
from transactions.calls import TV1, TV2, AddPartitions, Partitions, VerifyPartitions

if TYPE_CHECKING:
    from broker.apis.services import Services

_KNOWS_FENCED = 2
"""The first version with PRODUCER_FENCED."""
_FROM_BROKERS = 4
"""The first version that clients do not send."""

_Errors = dict[str, dict[int, int]]
"""By topic and partition; each is answered once, however often it was named."""


def _handle(services: Services, request: Request) -> Steps:
    if request.api_version >= _FROM_BROKERS:
        return _handle_of_broker(services, request)
    return _handle_of_client(services, request)


def _handle_of_client(services: Services, request: Request) -> Steps:
    value = request.value
    transactional_id = value["v3_and_below_transactional_id"]
    errors = yield from _looked_up(services, value["v3_and_below_topics"], from_client=True)
    if _any_bad(errors):
        _answer_client(request, _none_attempted(errors))
    elif not transactional_id:
        _answer_client(request, _all_with(errors, INVALID_REQUEST))
    else:
        request.context = errors
        request.encode = _answer_added
        services.transactions.submit(
            transactional_id,
            AddPartitions(
                request,
                transactional_id,
                value["v3_and_below_producer_id"],
                value["v3_and_below_producer_epoch"],
                _named(errors),
                TV1,
                client_of(request),
            ),
        )


def _answer_added(request: Request, error_code: int) -> None:
    known = told(error_code, request.api_version >= _KNOWS_FENCED)
    _answer_client(request, _all_with(request.context, known))


def _answer_client(request: Request, errors: _Errors) -> None:
    topics = [
        {"name": name, "results_by_partition": _partitions(of_topic)}
        for name, of_topic in errors.items()
    ]
    request.respond({"results_by_topic_v3_and_below": topics}, _worst(errors))


def _handle_of_broker(services: Services, request: Request) -> Steps:
    transactions = request.value["transactions"]
    gather: Gather[int | Sequence[int]] = Gather()
    answers: list[tuple[_Errors, bool]] = []
    """The errors of each transaction, and whether its reply is one of `gather`."""
    for transaction in transactions:
        errors = yield from _looked_up(services, transaction["topics"], from_client=False)
        asked = False
        if _any_bad(errors):
            errors = _none_attempted(errors)
        elif not transaction["transactional_id"]:
            errors = _all_with(errors, INVALID_REQUEST)
        else:
            asked = True
            _submit_of_broker(services, request, transaction, _named(errors), gather)
        answers.append((errors, asked))
        yield from gather.sent()
    yield from gather.rest()
    replies = iter(gather.replies)
    results = request.array("results_by_transaction")
    worst = NONE
    for transaction, (checked, asked) in zip(transactions, answers, strict=True):
        errors = _with_reply(checked, next(replies)) if asked else checked
        worst = worst or _worst(errors)
        topics = yield from _topic_results(request, errors)
        results.append(
            {"transactional_id": transaction["transactional_id"], "topic_results": topics}
        )
    request.respond({"results_by_transaction": results}, worst)


def _submit_of_broker(
    services: Services,
    request: Request,
    transaction: dict[str, Any],
    partitions: Partitions,
    gather: Gather[int | Sequence[int]],
) -> None:
    transactional_id = transaction["transactional_id"]
    whose = transaction["producer_id"], transaction["producer_epoch"]
    ticket = gather.ticket()
    services.transactions.submit(
        transactional_id,
        VerifyPartitions(ticket, transactional_id, *whose, partitions)
        if transaction["verify_only"]
        else AddPartitions(ticket, transactional_id, *whose, partitions, TV2, client_of(request)),
    )


def _topic_results(request: Request, errors: _Errors) -> Generator[None, None, EncodedArray]:
    topics = request.array("results_by_transaction", "topic_results")
    for name, of_topic in errors.items():
        topics.append({"name": name, "results_by_partition": _partitions(of_topic)})
        yield None
    return topics


# -- errors by topic and partition


def _looked_up(
    services: Services, topics: list[dict[str, Any]], *, from_client: bool
) -> Generator[None, None, _Errors]:
    """Which of the partitions can be written by whom this request is from."""
    errors: _Errors = {}
    for topic in topics:
        name = topic["name"]
        found = services.registry.topic(name)
        count = 0 if found is None else found.partitions
        internal = from_client and name in INTERNAL_TOPICS
        of_topic = errors.setdefault(name, {})
        for partition in topic["partitions"]:
            if internal:
                of_topic[partition] = TOPIC_AUTHORIZATION_FAILED
            else:
                there = 0 <= partition < count
                of_topic[partition] = NONE if there else UNKNOWN_TOPIC_OR_PARTITION
            yield None
    return errors


def _any_bad(errors: _Errors) -> bool:
    return any(any(of_topic.values()) for of_topic in errors.values())


def _none_attempted(errors: _Errors) -> _Errors:
    """One bad partition keeps all others out of the transaction."""
    return {
        name: {partition: code or OPERATION_NOT_ATTEMPTED for partition, code in of_topic.items()}
        for name, of_topic in errors.items()
    }


def _all_with(errors: _Errors, error_code: int) -> _Errors:
    return {name: dict.fromkeys(of_topic, error_code) for name, of_topic in errors.items()}


def _with_reply(errors: _Errors, reply: int | Sequence[int]) -> _Errors:
    """The errors as the coordinator tells them: one for all, or one for each partition."""
    codes = repeat(reply) if isinstance(reply, int) else iter(reply)
    return {
        name: {partition: next(codes) for partition in of_topic}
        for name, of_topic in errors.items()
    }


def _named(errors: _Errors) -> Partitions:
    return [(name, list(of_topic)) for name, of_topic in errors.items()]


def _partitions(of_topic: dict[int, int]) -> list[dict[str, int]]:
    return [
        {"partition_index": partition, "partition_error_code": code}
        for partition, code in of_topic.items()
    ]


def _worst(errors: _Errors) -> int:
    """One code to count the request under."""
    return max((max(of_topic.values(), default=NONE) for of_topic in errors.values()), default=NONE)


SERVED = ServedApi(API, 0, 5, _handle)

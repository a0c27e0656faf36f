"""AddPartitionsToTxn (24): adds to a transaction either all named partitions or none.

Clients send v0 to v3, which name one transaction; v2 returns PRODUCER_FENCED in place of
INVALID_PRODUCER_EPOCH, and v3 is flexible. Brokers that received a batch to append (KIP-890) send
v4 and v5, which name many transactions. With `verify_only`, the coordinator only verifies the
partitions of a transaction. Senders of v5 know TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Set
from itertools import repeat
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import denied, is_allowed, refuse
from broker.apis.shared.gather import Gather
from broker.apis.shared.transactional import client_of, error_for_version
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import HandlerAcl, Rights, cluster_action, of_each
from broker.topics.registry import INTERNAL_TOPICS
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.add_partitions_to_txn import API
from security.acls.model import Operation, ResourceType
from transactions.calls import TV1, TV2, AddPartitions, Partitions, VerifyPartitions

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_WRITE_ID = HandlerAcl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "the transactional id")
_WRITE_TOPIC = of_each(ResourceType.TOPIC, Operation.WRITE)
_OF_BROKER = cluster_action("from brokers")
_KNOWS_FENCED = 2
"""The first version of AddPartitionsToTxn whose response may contain PRODUCER_FENCED."""
FROM_BROKERS = 4
"""The first version that only brokers send."""

_FROM_CLIENTS = ("results_by_topic_v3_and_below",)
_OF_TRANSACTION = ("results_by_transaction", "topic_results")


class _Asked:
    """The partitions that a request names for one transaction, without duplicates."""

    __slots__ = ("any_bad", "errors")

    def __init__(self) -> None:
        self.errors: dict[str, dict[int, int]] = {}
        """The error code of each partition, by topic and partition index; NONE if the partition can
        be added."""
        self.any_bad = False
        """True if a partition has an error; then no partition is added."""


def _handle(services: Services, request: Request) -> Steps:
    if request.api_version >= FROM_BROKERS:
        return _handle_of_broker(services, request)
    return _handle_of_client(services, request)


def _handle_of_client(services: Services, request: Request) -> Steps:
    value = request.value
    transactional_id = value["v3_and_below_transactional_id"]
    topics = value["v3_and_below_topics"]
    if not is_allowed(services, request, _WRITE_ID, transactional_id):
        refuse(request, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _denied_id)
        return
    unwritable = yield from denied(
        services,
        request,
        _WRITE_TOPIC,
        (None if topic["name"] in INTERNAL_TOPICS else topic["name"] for topic in topics),
    )
    asked = yield from _looked_up(services, topics, INTERNAL_TOPICS | unwritable)
    if asked.any_bad:
        yield from _answer_client(request, asked, None)
    elif not transactional_id:
        yield from _answer_client(request, asked, INVALID_REQUEST)
    else:
        partitions = yield from _named(asked)
        request.context = asked
        request.encode = _answer_added
        services.transactions.submit(
            transactional_id,
            AddPartitions(
                request,
                transactional_id,
                value["v3_and_below_producer_id"],
                value["v3_and_below_producer_epoch"],
                partitions,
                TV1,
                client_of(request),
            ),
        )


def _answer_added(request: Request, error_code: int) -> None:
    known = error_for_version(error_code, request.api_version >= _KNOWS_FENCED)
    request.work_off(_answer_client(request, request.context, known))


def _answer_client(request: Request, asked: _Asked, error_code: int | None) -> Steps:
    topics = yield from _results(request, _FROM_CLIENTS, asked, error_code)
    request.respond({_FROM_CLIENTS[0]: topics}, _counted(error_code))


def _denied_id(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a client that has no WRITE permission on the transactional id."""
    code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    topics = [
        {
            "name": topic["name"],
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": code}
                for index in topic["partitions"]
            ],
        }
        for topic in value["v3_and_below_topics"]
    ]
    return {_FROM_CLIENTS[0]: topics}


def _handle_of_broker(services: Services, request: Request) -> Steps:
    if not is_allowed(services, request, _OF_BROKER):
        request.check()
        request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
        return
    transactions = request.value["transactions"]
    gather: Gather[int | Sequence[int]] = Gather()
    answers: list[tuple[_Asked, bool]] = []
    """For each transaction of the request: its partitions, and whether the coordinator was asked
    about it. `gather` has replies only for these transactions; all others were refused before."""
    for transaction in transactions:
        asked = yield from _looked_up(services, transaction["topics"])
        submitted = not asked.any_bad and bool(transaction["transactional_id"])
        if submitted:
            partitions = yield from _named(asked)
            _submit_of_broker(services, request, transaction, partitions, gather)
        answers.append((asked, submitted))
        yield from gather.sent()
    yield from gather.rest()
    replies = iter(gather.replies)
    results = request.array("results_by_transaction")
    worst = NONE
    for transaction, (asked, submitted) in zip(transactions, answers, strict=True):
        reply: int | Sequence[int] | None = None if asked.any_bad else INVALID_REQUEST
        if submitted:
            reply = next(replies)
        worst = worst or _counted(reply)
        topics = yield from _results(request, _OF_TRANSACTION, asked, reply)
        results.append(
            {"transactional_id": transaction["transactional_id"], "topic_results": topics}
        )
        yield None
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


def _looked_up(
    services: Services, topics: list[dict[str, Any]], unwritable: Set[str] = frozenset()
) -> Generator[None, None, _Asked]:
    """Looks up the partitions of one transaction. Returns each partition with an error code.
    Partitions of topics in ``unwritable`` get TOPIC_AUTHORIZATION_FAILED."""
    asked = _Asked()
    for topic in topics:
        name = topic["name"]
        found = services.registry.topic(name)
        count = 0 if found is None else found.partitions
        is_denied = name in unwritable
        of_topic = asked.errors.setdefault(name, {})
        for partition in topic["partitions"]:
            if is_denied:
                of_topic[partition] = TOPIC_AUTHORIZATION_FAILED
                asked.any_bad = True
            elif 0 <= partition < count:
                of_topic[partition] = NONE
            else:
                of_topic[partition] = UNKNOWN_TOPIC_OR_PARTITION
                asked.any_bad = True
            yield None
        yield None
    return asked


def _named(asked: _Asked) -> Generator[None, None, Partitions]:
    named = []
    for name, of_topic in asked.errors.items():
        named.append((name, list(of_topic)))
        yield None
    return named


def _results(
    request: Request, path: tuple[str, ...], asked: _Asked, reply: int | Sequence[int] | None
) -> Generator[None, None, EncodedArray]:
    """Returns the topics of the response.

    ``reply`` is one error code for all partitions, or one code per partition in order. It is None
    if the request was not executed, because ``asked`` has an error for a partition. All partitions
    without such an error then get OPERATION_NOT_ATTEMPTED.
    """
    codes: Iterator[int | None] = (
        repeat(reply) if reply is None or isinstance(reply, int) else iter(reply)
    )
    topics = request.array(*path)
    for name, of_topic in asked.errors.items():
        partitions = request.array(*path, "results_by_partition")
        for partition, bad in of_topic.items():
            code = next(codes)
            if code is None:
                code = bad or OPERATION_NOT_ATTEMPTED
            partitions.append({"partition_index": partition, "partition_error_code": code})
            yield None
        topics.append({"name": name, "results_by_partition": partitions})
        yield None
    return topics


def _counted(reply: int | Sequence[int] | None) -> int:
    """Returns the highest error code in ``reply``, or OPERATION_NOT_ATTEMPTED if ``reply`` is None.
    The metrics count the request under this code."""
    if reply is None:
        return OPERATION_NOT_ATTEMPTED
    return reply if isinstance(reply, int) else max(reply, default=NONE)


SERVED = ServedApi(
    API,
    0,
    5,
    _handle,
    rights=Rights(own=(_WRITE_ID, _WRITE_TOPIC, _OF_BROKER)),
)

"""DescribeTransactions (65): state, producer and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Hides, Rights
from protocol.encoded_array import EncodedArray
from protocol.errors import INVALID_REQUEST, NONE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from protocol.messages.describe_transactions import API
from security.acls.model import Operation, ResourceType
from transactions.calls import DescribeTransaction
from transactions.outcome import DescribeReply

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
_SHOWN = Hides(Operation.DESCRIBE, ResourceType.TOPIC)


def _handle(services: Services, request: Request) -> Steps:
    # An id that is named twice is described once, since a transaction may be large.
    allowed, denied = yield from split(
        services, request, _DESCRIBE, request.value["transactional_ids"], str
    )
    ids = list(dict.fromkeys(allowed))
    gather: Gather[DescribeReply] = Gather()
    for transactional_id in ids:
        ticket = gather.ticket()
        if transactional_id:
            services.transactions.submit(
                transactional_id, DescribeTransaction(ticket, transactional_id)
            )
        else:
            ticket.take(DescribeReply(INVALID_REQUEST, transactional_id))
        yield from gather.sent()
    yield from gather.rest()
    described = request.array("transaction_states")
    worst = NONE
    for reply in gather.replies:
        worst = worst or reply.error_code
        if reply.error_code:
            described.append(
                {"error_code": reply.error_code, "transactional_id": reply.transactional_id}
            )
            yield None
            continue
        topics = yield from _topics(services, request, reply)
        described.append(
            {
                "error_code": NONE,
                "transactional_id": reply.transactional_id,
                "transaction_state": reply.state,
                "transaction_timeout_ms": reply.timeout_ms,
                "transaction_start_time_ms": reply.start_ms,
                "producer_id": reply.producer_id,
                "producer_epoch": reply.producer_epoch,
                "topics": topics,
            }
        )
    for transactional_id in denied:
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        worst = worst or code
        described.append({"error_code": code, "transactional_id": transactional_id})
        yield None
    request.respond({"transaction_states": described}, worst)


def _topics(
    services: Services, request: Request, reply: DescribeReply
) -> Generator[None, None, EncodedArray]:
    """Returns those topics of a transaction that the client may describe."""
    topics = request.array("transaction_states", "topics")
    yield None
    for name, partitions in reply.partitions:
        if is_allowed(services, request, _SHOWN, name):
            topics.append({"topic": name, "partitions": partitions})
        yield None
    return topics


SERVED = ServedApi(
    API,
    0,
    0,
    _handle,
    rights=Rights(each=_DESCRIBE, hides=(_SHOWN,)),
)

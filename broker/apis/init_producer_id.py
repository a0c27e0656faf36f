"""InitProducerId (22): returns the producer id and epoch with which a producer starts to write.

Versions: v2 is flexible; v3 adds the producer's current id and epoch (KIP-360); v4 returns
PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; v5 is sent by clients that know
TRANSACTION_ABORTABLE. v6 adds two-phase commit (KIP-939), which Kafka also refuses unless
`transaction.two.phase.commit.enable` is set. As in Kafka, a request without a transactional id
always gets a new producer id with epoch 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.transactional import client_of, error_for_version
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import HandlerAcl, Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)
from protocol.messages.init_producer_id import API
from security.acls.model import Operation, ResourceType
from transactions.calls import InitProducerId
from transactions.outcome import InitReply
from transactions.values import NO_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_WRITE_ID = HandlerAcl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "the transactional id")
_IDEMPOTENT_WRITE = cluster(Operation.IDEMPOTENT_WRITE, is_logged=False)
_WRITE_ANY = HandlerAcl(
    Operation.WRITE,
    ResourceType.TOPIC,
    "any topic",
    "without a transactional id",
    unless=_IDEMPOTENT_WRITE,
)
_KNOWS_FENCED = 4
"""The first version of InitProducerId whose response may contain PRODUCER_FENCED."""


def _handle(services: Services, request: Request) -> Steps | None:
    transactional_id = request.value["transactional_id"]
    if transactional_id is not None:
        if not is_allowed(services, request, _WRITE_ID, transactional_id):
            _answer(request, InitReply(TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return None
    elif not is_allowed(services, request, _IDEMPOTENT_WRITE):
        return _begin_if_allowed(services, request)
    _begin(services, request)
    return None


def _begin_if_allowed(services: Services, request: Request) -> Steps:
    """Handles a request without a transactional id. The client needs WRITE permission on any one
    topic (KIP-679)."""
    is_writer = yield from services.authorizer.allows_somewhere(
        request.connection, _WRITE_ANY.operation, _WRITE_ANY.kind, api=API.name
    )
    if is_writer:
        _begin(services, request)
    else:
        _answer(request, InitReply(CLUSTER_AUTHORIZATION_FAILED))


def _begin(services: Services, request: Request) -> None:
    value = request.value
    transactional_id = value["transactional_id"]
    producer_id, producer_epoch = value["producer_id"], value["producer_epoch"]
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_EPOCH):
        _answer(request, InitReply(INVALID_REQUEST))
    elif transactional_id is None:
        request.answer_later(_answer_fresh(services, request))
    elif not transactional_id:
        _answer(request, InitReply(INVALID_REQUEST))
    elif value["enable2_pc"]:
        _answer(request, InitReply(TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    elif value["keep_prepared_txn"]:
        _answer(request, InitReply(UNSUPPORTED_VERSION))
    elif not 0 < value["transaction_timeout_ms"] <= services.config["transaction.max.timeout.ms"]:
        _answer(request, InitReply(INVALID_TRANSACTION_TIMEOUT))
    elif services.producer_ids.ids.left:
        _submit(services, request)
    else:  # this broker may have just become the coordinator
        request.answer_later(_submit_with_ids(services, request))


async def _submit_with_ids(services: Services, request: Request) -> None:
    await services.producer_ids.ready()
    _submit(services, request)


def _submit(services: Services, request: Request) -> None:
    value = request.value
    request.encode = _answer
    services.transactions.submit(
        value["transactional_id"],
        InitProducerId(
            request,
            value["transactional_id"],
            value["transaction_timeout_ms"],
            value["producer_id"],
            value["producer_epoch"],
            client_of(request),
        ),
    )


def _answer(request: Request, reply: InitReply) -> None:
    request.respond(
        {
            "error_code": error_for_version(reply.error_code, request.api_version >= _KNOWS_FENCED),
            "producer_id": reply.producer_id,
            "producer_epoch": reply.producer_epoch,
        }
    )


async def _answer_fresh(services: Services, request: Request) -> None:
    producer_id = await services.producer_ids.take()
    if producer_id is None:  # REQUEST_TIMED_OUT is fatal to older clients
        _answer(request, InitReply(COORDINATOR_LOAD_IN_PROGRESS))
    else:
        _answer(request, InitReply(NONE, producer_id, 0))


SERVED = ServedApi(API, 0, 6, _handle, rights=Rights(own=(_WRITE_ID, _WRITE_ANY)))

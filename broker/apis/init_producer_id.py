"""InitProducerId (22): a new id for an idempotent producer.

v2 flexible; v3 the producer's present id and epoch; v6 two-phase commit. Without a transactional id
every call gets a new id with epoch 0, whatever it had, as in Kafka. There are no transactions yet:
a transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which is final to every client,
librdkafka too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.request import Request, ServedApi
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.messages.init_producer_id import API

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> None:
    if request.value["transactional_id"] is not None:
        advice = "transactions are not served: leave transactional.id out"
        services.unsupported.asked(request.connection, API.name, advice)
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        request.respond({"error_code": code, "producer_id": -1, "producer_epoch": -1})
        return
    request.answer_later(_answer(services, request))


async def _answer(services: Services, request: Request) -> None:
    producer_id = await services.producer_ids.take()
    if producer_id is None:
        code = COORDINATOR_LOAD_IN_PROGRESS
        request.respond({"error_code": code, "producer_id": -1, "producer_epoch": -1})
        return
    request.respond({"error_code": NONE, "producer_id": producer_id, "producer_epoch": 0})


SERVED = ServedApi(API, 0, 6, _handle)

"""AllocateProducerIds (67): the controller reserves a block of producer ids for a broker (KIP-730).

Brokers of Kafka 3.0 and later send this request. Brokers of Muster reserve blocks in ZooKeeper
instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.to_controller import host_for
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from controller.calls import AllocateProducerIds
from controller.outcome import ProducerIdsReply
from protocol.messages.allocate_producer_ids import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    host = host_for(services, request)
    if host is not None:
        value = request.value
        request.encode = _answer
        host.submit(AllocateProducerIds(request, value["broker_id"], value["broker_epoch"]))


def _answer(request: Request, reply: ProducerIdsReply) -> None:
    request.respond(
        {
            "error_code": reply.error_code,
            "producer_id_start": reply.first,
            "producer_id_len": reply.length,
        }
    )


SERVED = ServedApi(API, 0, 0, _handle, rights=AMONG_BROKERS)

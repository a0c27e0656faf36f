"""ControlledShutdown (7): a broker that is about to stop hands over its leaderships.

Versions: v0 is not served: only brokers before 0.9 sent it, with another request header. v2 adds
the broker's epoch; v3 is flexible. The response lists the partitions that the sender still leads.
When the list is empty, the sender may stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.to_controller import host_for
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from controller.calls import ControlledShutdown
from controller.outcome import ControlledShutdownReply
from protocol.messages.controlled_shutdown import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_NO_EPOCH = -1


def _handle(services: Services, request: Request) -> None:
    host = host_for(services, request)
    if host is not None:
        value = request.value
        request.encode = _answer
        epoch = value.get("broker_epoch", _NO_EPOCH)
        host.submit(ControlledShutdown(request, value["broker_id"], epoch))


def _answer(request: Request, reply: ControlledShutdownReply) -> None:
    remaining = [
        {"topic_name": topic, "partition_index": index} for topic, index in reply.remaining
    ]
    request.respond({"error_code": reply.error_code, "remaining_partitions": remaining})


SERVED = ServedApi(API, 1, 3, _handle, rights=AMONG_BROKERS)

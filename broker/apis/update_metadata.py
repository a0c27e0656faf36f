"""UpdateMetadata (6): the controller sends the live brokers and the partitions' leaders.

Versions: v1 adds the brokers' listeners; v2 racks; v3 the names of listeners; v4 offline replicas;
v5 the broker's epoch, and groups partitions by topic; v6 is flexible; v7 adds topic ids; v8 a flag
of KRaft controllers, which Muster does not support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.from_controller import ELEMENTS_MAX, decoded_request, decoders, replicas_for
from broker.cluster.controller.control_requests import decode_update_metadata
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from protocol.messages.update_metadata import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    replicas = replicas_for(services, request)
    if replicas is not None:
        metadata = decoded_request(request, decode_update_metadata)
        request.respond({"error_code": replicas.update_metadata(metadata)})


SERVED = ServedApi(
    API,
    0,
    8,
    _handle,
    elements_max=ELEMENTS_MAX,
    decoders=decoders(API, decode_update_metadata),
    rights=AMONG_BROKERS,
)

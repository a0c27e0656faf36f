"""ListPartitionReassignments (46) of a standalone broker. The response is always empty, since a
standalone broker can't move a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import error_fields, is_allowed
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from protocol.messages.list_partition_reassignments import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


DESCRIBE = cluster(Operation.DESCRIBE)


def _handle(services: Services, request: Request) -> None:
    request.check()
    if not is_allowed(services, request, DESCRIBE):
        request.respond(DENIAL)
        return
    request.respond({"error_code": NONE, "error_message": None, "topics": []})


DENIAL = {**error_fields(CLUSTER_AUTHORIZATION_FAILED), "topics": []}
"""The response to a client without DESCRIBE permission on the cluster."""


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((DESCRIBE,)))

"""ListPartitionReassignments (46): always none, since a single broker can't move a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.needs import Rights, cluster
from broker.net.request import Request, ServedApi
from protocol.errors import NONE
from protocol.messages.list_partition_reassignments import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> None:  # noqa: ARG001
    request.check()
    request.respond({"error_code": NONE, "error_message": None, "topics": []})


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((cluster(Operation.DESCRIBE),)))

"""AlterPartitionReassignments (45) in a cluster: moves partitions to other replicas (KIP-455).

Null replicas cancel a reassignment in progress. If a request names a partition twice, the last
entry counts, as in Kafka. The response confirms that the reassignments have started;
ListPartitionReassignments shows their progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.alter_partition_reassignments import ALTER, denial
from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE
from broker.apis.shared.authorization import is_allowed, refuse
from broker.apis.shared.to_controller import by_topic, error_fields, host_of
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights
from controller.calls import AlterReassignments
from controller.outcome import ReassignmentsReply
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from protocol.messages.alter_partition_reassignments import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    if not is_allowed(services, request, ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, denial)
        return
    targets = {
        (topic["name"], each["partition_index"]): each["replicas"]
        for topic in request.value["topics"]
        for each in topic["partitions"]
    }
    request.encode = _answer
    host_of(services).submit(AlterReassignments(request, targets))


def _answer(request: Request, reply: ReassignmentsReply) -> None:
    results = {
        place: {"partition_index": place[1], **error_fields(error)}
        for place, error in reply.partitions.items()
    }
    request.respond(
        {
            "error_code": reply.error_code,
            "error_message": None if reply.error_code == NONE else NOT_CONTROLLER_MESSAGE,
            "responses": [
                {"name": name, "partitions": partitions}
                for name, partitions in by_topic(results).items()
            ],
        }
    )


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((ALTER,)))

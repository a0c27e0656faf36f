"""ListPartitionReassignments (46) in a cluster: the reassignments in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE
from broker.apis.list_partition_reassignments import DENIAL, DESCRIBE
from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.to_controller import by_topic, host_of, places
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights
from controller.calls import ListReassignments
from controller.outcome import ListedReassignments
from protocol.errors import NONE
from protocol.messages.list_partition_reassignments import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    topics = request.value["topics"]
    if not is_allowed(services, request, DESCRIBE):
        request.respond(DENIAL)
        return
    asked = None if topics is None else places(topics, "name", "partition_indexes")
    request.encode = _answer
    host_of(services).submit(ListReassignments(request, asked))


def _answer(request: Request, reply: ListedReassignments) -> None:
    listed = {
        place: {
            "partition_index": place[1],
            "replicas": list(assignment.replicas),
            "adding_replicas": list(assignment.adding),
            "removing_replicas": list(assignment.removing),
        }
        for place, assignment in reply.partitions.items()
    }
    request.respond(
        {
            "error_code": reply.error_code,
            "error_message": None if reply.error_code == NONE else NOT_CONTROLLER_MESSAGE,
            "topics": [
                {"name": name, "partitions": partitions}
                for name, partitions in by_topic(listed).items()
            ],
        }
    )


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((DESCRIBE,)))

"""AlterPartitionReassignments (45) of a standalone broker, which has the only replica of all
partitions.

Versions: v1 adds a flag that allows a change of the replication factor; on a standalone broker the
factor can't change. A reassignment to this broker alone changes nothing. Any other reassignment
gets the same error as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.alter_partition_reassignments import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ALTER = cluster(Operation.ALTER)


def _handle(services: Services, request: Request) -> Steps:
    if not is_allowed(services, request, ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, denial)
        return
    value = request.value
    responses = request.array("responses")
    worst = NONE
    for topic in value["topics"]:
        name = topic["name"]
        partitions = request.array("responses", "partitions")
        for wanted in topic["partitions"]:
            index = wanted["partition_index"]
            error_code, message = _error(services, name, index, wanted["replicas"])
            worst = worst or error_code
            partitions.append(
                {"partition_index": index, "error_code": error_code, "error_message": message}
            )
            yield None
        responses.append({"name": name, "partitions": partitions})
        yield None
    answer = {"error_code": NONE, "error_message": None, "responses": responses}
    allowed = value["allow_replication_factor_change"]
    request.respond({**answer, "allow_replication_factor_change": allowed}, worst)


def _error(
    services: Services, name: str, index: int, replicas: list[int] | None
) -> tuple[int, str | None]:
    """Returns the error code and message for a partition. The checks have the same order as in
    Kafka."""
    topic = services.registry.topic(name)
    if topic is None:
        return UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist."
    if not 0 <= index < topic.partitions:
        return UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if replicas is None:
        return NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned."
    if not replicas:
        return INVALID_REPLICA_ASSIGNMENT, "The list of replicas is empty."
    ours = services.cluster.controller_id
    unknown = next((each for each in replicas if each != ours), None)
    if unknown is not None:
        return INVALID_REPLICA_ASSIGNMENT, f"Broker {unknown} does not exist."
    if len(replicas) > 1:
        return INVALID_REPLICA_ASSIGNMENT, f"The list of replicas names broker {ours} twice."
    return NONE, None


def denial(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a client without ALTER permission on the cluster."""
    error = error_fields(CLUSTER_AUTHORIZATION_FAILED)
    responses = [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": each["partition_index"], **error}
                for each in topic["partitions"]
            ],
        }
        for topic in value["topics"]
    ]
    return {**error, "responses": responses}


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights((ALTER,)))

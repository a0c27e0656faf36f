"""ElectLeaders (43) of a standalone broker, which is leader and preferred leader of all partitions.

Versions: v1 adds unclean elections and a top-level error; v2 is flexible. As in Kafka, the response
to a request for all partitions lists only partitions that needed an election. On a standalone
broker the list is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.elect_leaders import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ALTER = cluster(Operation.ALTER)
PREFERRED, UNCLEAN = 0, 1


def _handle(services: Services, request: Request) -> Steps:
    if not is_allowed(services, request, ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, denial)
        return
    value = request.value
    if value["election_type"] not in (PREFERRED, UNCLEAN):
        request.respond({"error_code": INVALID_REQUEST, "replica_election_results": []})
        return
    results = request.array("replica_election_results")
    for topic in value["topic_partitions"] or ():
        partitions = request.array("replica_election_results", "partition_result")
        for partition in topic["partitions"]:
            partitions.append(_result(services, topic["topic"], partition))
            yield None
        results.append({"topic": topic["topic"], "partition_result": partitions})
        yield None
    request.respond({"error_code": NONE, "replica_election_results": results})


def _result(services: Services, name: str, partition: int) -> dict[str, Any]:
    if services.logs.get(name, partition) is None:
        error_code, message = UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    else:
        error_code, message = ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return {"partition_id": partition, "error_code": error_code, "error_message": message}


def denial(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a client without ALTER permission on the cluster."""
    error = error_fields(CLUSTER_AUTHORIZATION_FAILED)
    results = [
        {
            "topic": topic["topic"],
            "partition_result": [{"partition_id": index, **error} for index in topic["partitions"]],
        }
        for topic in value["topic_partitions"] or ()
    ]
    return {"error_code": CLUSTER_AUTHORIZATION_FAILED, "replica_election_results": results}


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights((ALTER,)))

"""ElectLeaders (43): this broker leads all partitions already, and is the preferred leader of all.

v1 unclean elections and a top-level error; v2 flexible. As in Kafka, a request for all partitions
gets only those that were elected: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.net.needs import Rights, cluster
from broker.net.request import Request, ServedApi, Steps
from protocol.errors import (
    ELECTION_NOT_NEEDED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.elect_leaders import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.services import Services

PREFERRED, UNCLEAN = 0, 1


def _handle(services: Services, request: Request) -> Steps:
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
        error_code, message = UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition."
    else:
        error_code, message = ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return {"partition_id": partition, "error_code": error_code, "error_message": message}


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights((cluster(Operation.ALTER),)))

"""AlterReplicaLogDirs (34): the broker has one log directory, so no replica can be moved.

Versions: v1 equals v0; v2 is flexible. A request for the broker's own directory succeeds without a
move. Any other directory gets LOG_DIR_NOT_FOUND before the replica is looked up, as in Kafka.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed, refuse
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from broker.topics.registry import absent_error
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    LOG_DIR_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    REPLICA_NOT_AVAILABLE,
)
from protocol.messages.alter_replica_log_dirs import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


_ALTER = cluster(Operation.ALTER)


def _handle(services: Services, request: Request) -> Steps:
    if not is_allowed(services, request, _ALTER):
        code = CLUSTER_AUTHORIZATION_FAILED
        refuse(request, code, partial(error_answer, error_code=code))
        return
    ours = os.path.abspath(services.logs.directory)
    codes: dict[str, dict[int, int]] = {}
    for wanted in request.value["dirs"]:
        is_ours = os.path.abspath(wanted["path"]) == ours
        for topic in wanted["topics"]:
            known = codes.setdefault(topic["name"], {})
            for index in topic["partitions"]:
                known[index] = LOG_DIR_NOT_FOUND
                if is_ours:
                    known[index] = _where_it_is(services, topic["name"], index)
                yield None
            yield None
        yield None
    worst = NONE
    results = request.array("results")
    for name, known in codes.items():
        partitions = request.array("results", "partitions")
        for index, error_code in known.items():
            partitions.append({"partition_index": index, "error_code": error_code})
            yield None
            worst = worst or error_code
        results.append({"topic_name": name, "partitions": partitions})
        yield None
    request.respond({"results": results}, worst)


def _where_it_is(services: Services, topic: str, index: int) -> int:
    if services.logs.get(topic, index) is not None:
        return NONE
    error_code = absent_error(services.registry, topic, index)
    return REPLICA_NOT_AVAILABLE if error_code == NOT_LEADER_OR_FOLLOWER else error_code


def error_answer(value: dict[str, Any], error_code: int) -> dict[str, Any]:
    """Returns the response with one error for all partitions. The request groups topics by
    directory; the response does not."""
    results = [
        {
            "topic_name": topic["name"],
            "partitions": [
                {"partition_index": index, "error_code": error_code}
                for index in topic["partitions"]
            ],
        }
        for directory in value["dirs"]
        for topic in directory["topics"]
    ]
    return {"results": results}


SERVED = ServedApi(
    API,
    0,
    2,
    _handle,
    "the broker has one log directory: a replica can't be moved to another directory",
    rights=Rights((_ALTER,)),
)

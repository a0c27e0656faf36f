"""DescribeLogDirs (35): the sizes of partitions, and the space of the log directory.

Versions: v1 is the same as v0; v2 is flexible; v3 adds a top-level error; v4 the directory's total
and usable bytes (KIP-827); v5 a flag for a cordoned directory. The broker has one directory, so no
replica is being moved to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from protocol.messages.describe_log_dirs import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = cluster(Operation.DESCRIBE)


def _handle(services: Services, request: Request) -> Steps:
    asked = request.value["topics"]
    if not is_allowed(services, request, _DESCRIBE):
        request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED, "results": []})
        return
    wanted: dict[str, set[int] | None] = dict.fromkeys(services.logs.topics)
    if asked is not None:
        wanted = {topic["topic"]: set(topic["partitions"]) for topic in asked}
    topics = request.array("results", "topics")
    for name, partitions in wanted.items():
        entry = services.logs.topics.get(name)
        described = request.array("results", "topics", "partitions")
        for each in () if entry is None else list(entry.partitions):
            if partitions is None or each.index in partitions:
                described.append(
                    {
                        "partition_index": each.index,
                        "partition_size": each.log.size_bytes,
                        "offset_lag": 0,
                        "is_future_key": False,
                    }
                )
            yield None
        if described.count:
            topics.append({"name": name, "partitions": described})
        yield None
    result: dict[str, Any] = {
        "error_code": NONE,
        "log_dir": services.logs.directory,
        "topics": topics,
        **_space(services),
        "is_cordoned": False,
    }
    request.respond({"error_code": NONE, "results": [result]})


def _space(services: Services) -> dict[str, int]:
    """Returns the fields for the directory's total and usable bytes. Returns an empty dict if they
    are unknown; the response then has -1."""
    try:
        found = services.logs.fs.space(services.logs.directory)
    except OSError:
        return {}
    return {} if found is None else found._asdict()


SERVED = ServedApi(API, 0, 5, _handle, rights=Rights((_DESCRIBE,)))

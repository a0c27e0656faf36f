"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, so that clients detect truncation
(KIP-101).

Versions: v1 adds the epoch to which the end offset belongs (KIP-279); v2 the client's current epoch
and the throttle time; v3 the replica id; v4 is flexible. Source: Kafka 3.9
``LeaderEpochFileCache.endOffsetFor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed, split
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights, cluster
from broker.topics.registry import absent_error
from protocol.errors import NONE, TOPIC_AUTHORIZATION_FAILED
from protocol.messages.offset_for_leader_epoch import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


_BROKER = cluster(Operation.CLUSTER_ACTION, is_logged=False)
_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.TOPIC, unless=_BROKER)


def _handle(services: Services, request: Request) -> Steps:
    topics: Sequence[dict[str, Any]] = request.value["topics"]
    denied: Sequence[dict[str, Any]] = ()
    if not is_allowed(services, request, _BROKER):
        topics, denied = yield from split(services, request, _DESCRIBE, topics, itemgetter("topic"))
    answers = request.array("topics")
    worst = NONE
    for topic in topics:
        partitions = request.array("topics", "partitions")
        for wanted in topic["partitions"]:
            entry = _end_offset(services, topic["topic"], wanted)
            worst = worst or entry["error_code"]
            partitions.append(entry)
            yield None
        answers.append({"topic": topic["topic"], "partitions": partitions})
        yield None
    for topic in denied:
        worst = worst or TOPIC_AUTHORIZATION_FAILED
        partitions = request.array("topics", "partitions")
        for wanted in topic["partitions"]:
            partitions.append(_entry(wanted, TOPIC_AUTHORIZATION_FAILED))
            yield None
        answers.append({"topic": topic["topic"], "partitions": partitions})
        yield None
    request.respond({"topics": answers}, worst)


def _end_offset(services: Services, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    partition = services.logs.get(name, wanted["partition"])
    if partition is None:
        error_code = absent_error(services.registry, name, wanted["partition"])
    else:
        error_code = partition.serving_error(wanted["current_leader_epoch"])
    epoch = end_offset = -1
    if partition is not None and not error_code:
        epoch, end_offset = partition.log.epochs.end_offset_for(
            wanted["leader_epoch"], partition.epoch_end
        )
    return _entry(wanted, error_code, epoch, end_offset)


def _entry(
    wanted: dict[str, Any], error_code: int, epoch: int = -1, end_offset: int = -1
) -> dict[str, Any]:
    return {
        "error_code": error_code,
        "partition": wanted["partition"],
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }


SERVED = ServedApi(API, 0, 4, _handle, rights=Rights(each=_DESCRIBE))

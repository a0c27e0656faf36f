"""DescribeTopicPartitions (75): topics in the order of their names, up to a limit of partitions
(KIP-966).

An empty list selects all topics. If a response reaches the limit, its cursor names the topic and
partition from which the next request continues.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import TYPE_CHECKING, Any

from broker.apis.metadata import described, missing, partition_entry
from broker.apis.shared.authorization import denied
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AuthorizedOperations, Rights, each_shown_topic
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.describe_topic_partitions import API
from protocol.topic_names import BadTopicName, check_topic_name
from security.acls.model import ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE, _TELLS = each_shown_topic(), AuthorizedOperations(ResourceType.TOPIC)
_AS_METADATA = 13
"""The version of Metadata whose partition entries this API returns."""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    cursor = value["cursor"]
    asked = yield from _asked(value["topics"])
    names = list(asked or services.registry.topics)
    if cursor is not None:
        absent = bool(asked) and cursor["topic_name"] not in asked
        if absent or cursor["partition_index"] < 0:
            refused = request.array("topics")
            for name in sorted(asked):
                refused.append(missing(INVALID_REQUEST, name))
                yield None
            request.respond({"topics": refused, "next_cursor": None}, INVALID_REQUEST)
            return
        names = [name for name in names if name >= cursor["topic_name"]]
    first_name = "" if cursor is None else cursor["topic_name"]
    hidden = yield from denied(
        services,
        request,
        _DESCRIBE,
        (topic["name"] for topic in value["topics"] if topic["name"] >= first_name)
        if asked
        else names,
        is_logged=bool(asked),
    )
    limit = services.config["max.request.partition.size.limit"]
    room = max(1, min(limit, value["response_partition_limit"]))
    topics = request.array("topics")
    brokers = services.cluster.brokers(services.advertised.listener(request))
    ids = {each.node_id for each in brokers}
    worst = NONE
    next_cursor = None
    for name in sorted(names):
        if name in hidden:
            yield None
            continue
        first = 0
        if cursor is not None and cursor["topic_name"] == name:
            first = cursor["partition_index"]
        if room <= 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        topic, count, left = yield from _topic(services, request, name, ids, first, room)
        worst = worst or topic["error_code"]
        topic["topic_authorized_operations"] = services.authorizer.operations(
            request.connection, _TELLS.kind, name
        )
        topics.append(topic)
        room -= count
        if left:
            next_cursor = {"topic_name": name, "partition_index": first + count}
            break
    for name in names if asked else ():
        if name in hidden:
            worst = worst or TOPIC_AUTHORIZATION_FAILED
            entry = missing(TOPIC_AUTHORIZATION_FAILED, name)
            topics.append({**entry, "is_internal": False})
        yield None
    request.respond({"topics": topics, "next_cursor": next_cursor}, worst)


def _asked(topics: list[dict[str, Any]]) -> Generator[None, None, dict[str, None]]:
    """Returns the topic names of a request, without duplicates and in order."""
    names: dict[str, None] = {}
    for topic in topics:
        names[topic["name"]] = None
        yield None
    return names


def _topic(
    services: Services, request: Request, name: str, brokers: Collection[int], first: int, room: int
) -> Generator[None, None, tuple[dict[str, Any], int, int]]:
    """Returns the entry of a topic, the number of its partitions in the entry, and the number of
    partitions left for the next response."""
    yield None
    topic = services.registry.topic(name)
    if topic is None:
        try:
            check_topic_name(name)
        except BadTopicName:
            return missing(INVALID_TOPIC_EXCEPTION, name), 0, 0
        return missing(UNKNOWN_TOPIC_OR_PARTITION, name), 0, 0
    partitions = request.array("topics", "partitions")
    left = range(first, topic.partitions)
    for index in left[:room]:
        entry = partition_entry(services, name, index, brokers, _AS_METADATA)
        entry["eligible_leader_replicas"] = entry["last_known_elr"] = []
        partitions.append(entry)
        yield None
    whole = {**described(topic), "partitions": partitions}
    return whole, partitions.count, len(left) - partitions.count


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights(own=(_DESCRIBE,), tells=(_TELLS,)))

"""CreatePartitions (37): more partitions for a topic.

v2 flexible; v3 a new error, of quotas, that is never sent here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.create_topics import Refused, check_replicas
from broker.net.request import Request, ServedApi
from broker.topics.owned_topics import OWNED
from broker.topics.topic_admin import PARTITIONS_MAX, NoSuchTopic
from protocol.errors import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.create_partitions import API

if TYPE_CHECKING:
    from broker.apis.services import Services

logger = structlog.get_logger(__name__)


def _handle(services: Services, request: Request) -> None:
    request.answer_later(_grow_all(services, request, request.value))


async def _grow_all(services: Services, request: Request, value: dict[str, Any]) -> None:
    times = Counter(topic["name"] for topic in value["topics"])
    topics = {topic["name"]: topic for topic in value["topics"]}
    results = request.array("results")
    worst = NONE
    slices = services.slicer.work(API.name)
    await slices.pause()
    for name, wanted in topics.items():
        error_code, message = NONE, None
        try:
            if times[name] > 1:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            check(services, wanted)
            if not value["validate_only"]:
                await slices.beside(_grow(services, name, wanted["count"]))
        except Refused as refused:
            error_code, message = refused.error_code, refused.message
        worst = worst or error_code
        results.append({"name": name, "error_code": error_code, "error_message": message})
        if slices.over:
            await slices.pause()
    slices.end()
    request.respond({"results": results}, worst)


def check(services: Services, wanted: dict[str, Any]) -> None:
    """Refused where the topic cannot grow as asked."""
    name, count = wanted["name"], wanted["count"]
    topic = services.registry.topic(name)
    if topic is None:
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if name in OWNED:
        keys = OWNED[name].keys
        raise Refused(
            INVALID_TOPIC_EXCEPTION,
            f"The number of partitions of {name} is fixed: it decides where {keys} are.",
        )
    if count == topic.partitions:
        raise Refused(INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if count < topic.partitions:
        raise Refused(
            INVALID_PARTITIONS,
            f"Topic currently has {topic.partitions} partition(s), which is higher than the"
            f" requested {count}.",
        )
    if count > PARTITIONS_MAX:
        raise Refused(INVALID_PARTITIONS, f"Number of partitions must be at most {PARTITIONS_MAX}.")
    if wanted["assignments"] is not None:
        more = count - topic.partitions
        if len(wanted["assignments"]) != more:
            raise Refused(
                INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only"
                f" {len(wanted['assignments'])} assignment(s) were specified.",
            )
        for index, assignment in enumerate(wanted["assignments"], topic.partitions):
            check_replicas(services, index, assignment["broker_ids"])


async def _grow(services: Services, name: str, count: int) -> None:
    try:
        await services.topics.add_partitions(name, count)
    except NoSuchTopic:
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, "The topic has just been deleted.") from None
    except OSError as error:
        logger.error("partitions can't be added", topic=name, error=str(error))
        raise Refused(KAFKA_STORAGE_ERROR, f"The disk says: {error.strerror}.") from None


SERVED = ServedApi(API, 0, 3, _handle)

"""CreatePartitions (37): adds partitions to topics.

Versions: v2 is flexible; from v3 on, requests beyond a quota are refused. In a cluster only the
controller adds partitions. It responds when the new partitions have leaders.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE, THROTTLED_MESSAGE, Refused
from broker.apis.shared.authorization import error_fields, named_once, split
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights
from broker.topics.owned_topics import OWNED
from broker.topics.topic_changes import (
    PARTITIONS_MAX,
    Assignment,
    BadAssignment,
    BadFactor,
    BeingReassigned,
    CannotChange,
    NoSuchTopic,
)
from protocol.errors import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_CONTROLLER,
    REASSIGNMENT_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.create_partitions import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ALTER = Each(Operation.ALTER, ResourceType.TOPIC)
FIRST_STRICT = 3
"""The first version in which a request beyond the client's quota is refused (KIP-599)."""

logger = structlog.get_logger(__name__)


def _handle(services: Services, request: Request) -> Steps:
    single = yield from named_once(request.value["topics"])
    allowed, denied = yield from split(
        services,
        request,
        _ALTER,
        request.value["topics"],
        lambda topic: topic["name"] if topic["name"] in single else None,
    )
    request.answer_later(_grow_all(services, request, allowed, single, denied))


async def _grow_all(
    services: Services,
    request: Request,
    allowed: Sequence[dict[str, Any]],
    single: Set[str],
    denied: Sequence[dict[str, Any]],
) -> None:
    value = request.value
    topics = {topic["name"]: topic for topic in allowed}
    done: dict[str, Refused | None] = {}
    mutations = request.mutations(FIRST_STRICT)
    slices = services.slicer.work(API.name)
    await slices.pause()
    for name, wanted in topics.items():
        done[name] = None
        try:
            if not services.topics.is_controller:
                raise Refused(NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
            if name not in single:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            assignment = check(services, wanted)
            if not value["validate_only"]:
                if not mutations.take(_more(services, wanted)):
                    raise Refused(THROTTLING_QUOTA_EXCEEDED, THROTTLED_MESSAGE)
                await slices.beside(_grow(services, name, wanted["count"], assignment))
        except Refused as refused:
            done[name] = refused
        if slices.over:
            await slices.pause()
    grown = {name: topics[name]["count"] for name, refused in done.items() if refused is None}
    if grown and not value["validate_only"]:
        for name in await slices.beside(services.topics.led(grown, value["timeout_ms"])):
            done[name] = Refused(
                REQUEST_TIMED_OUT, "The partitions were added, but some have no leader yet."
            )
    results = request.array("results")
    worst = NONE
    for name, refusal in done.items():
        error_code, message = (
            (NONE, None) if refusal is None else (refusal.error_code, refusal.message)
        )
        worst = worst or error_code
        results.append({"name": name, "error_code": error_code, "error_message": message})
        if slices.over:
            await slices.pause()
    for topic in denied:
        worst = worst or TOPIC_AUTHORIZATION_FAILED
        results.append({"name": topic["name"], **error_fields(TOPIC_AUTHORIZATION_FAILED)})
        if slices.over:
            await slices.pause()
    slices.end()
    request.respond({"results": results}, worst)


def _more(services: Services, wanted: dict[str, Any]) -> int:
    topic = services.registry.topic(wanted["name"])
    count: int = wanted["count"]
    return count if topic is None else count - topic.partitions


def check(services: Services, wanted: dict[str, Any]) -> Assignment | None:
    """Returns the replicas that the request names for the new partitions; None if the broker
    chooses the replicas. Raises Refused if the request is invalid for the topic."""
    name, count = wanted["name"], wanted["count"]
    topic = services.registry.topic(name)
    if topic is None:
        raise Refused(UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if name in OWNED:
        keys = OWNED[name].keys
        raise Refused(
            INVALID_TOPIC_EXCEPTION,
            f"Partitions can't be added to {name}: the partition count determines where"
            f" existing {keys} are stored.",
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
    if wanted["assignments"] is None:
        return None
    more = count - topic.partitions
    if len(wanted["assignments"]) != more:
        raise Refused(
            INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but only"
            f" {len(wanted['assignments'])} assignment(s) were specified.",
        )
    assignment = [each["broker_ids"] for each in wanted["assignments"]]
    try:
        services.topics.check_more(name, topic.partitions, assignment)
    except BadAssignment as error:
        raise Refused(INVALID_REPLICA_ASSIGNMENT, str(error)) from None
    return assignment


async def _grow(services: Services, name: str, count: int, assignment: Assignment | None) -> None:
    try:
        await services.topics.add_partitions(name, count, assignment)
    except NoSuchTopic:
        raise Refused(
            UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted before the partitions were added."
        ) from None
    except BadFactor as error:
        raise Refused(INVALID_REPLICATION_FACTOR, str(error)) from None
    except BeingReassigned as error:
        raise Refused(REASSIGNMENT_IN_PROGRESS, str(error)) from None
    except CannotChange as error:
        raise Refused(REQUEST_TIMED_OUT, str(error)) from None
    except OSError as error:
        logger.error("partitions can't be added", topic=name, error=str(error))
        raise Refused(KAFKA_STORAGE_ERROR, f"The disk reports: {error.strerror}.") from None


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights(each=_ALTER))

"""DeleteTopics (20): deletes topics by name, or from v6 on by id.

Versions: v1 adds the throttle time; v4 is flexible; v5 adds error messages; v6 adds topic ids.
Topics of coordinators, such as ``__consumer_offsets``, can't be deleted. In a cluster only the
controller deletes topics, and it responds when the topics are deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE, THROTTLED_MESSAGE
from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.apis.shared.losses import readers_of, report_deleted, sender_of
from broker.net.request import Request, ServedApi
from broker.net.required_acls import HandlerAcl, Rights, cluster, of_each
from broker.topics.owned_topics import OWNED
from broker.topics.topic_changes import CannotChange, NoSuchTopic
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_AUTHORIZATION_FAILED,
    TOPIC_DELETION_DISABLED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.delete_topics import API
from protocol.schema import ZERO_UUID
from security.acls.model import Operation, ResourceType
from security.quotas.mutations import Mutations

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.loop.slices import Slices

_DELETE_ANY = cluster(Operation.DELETE, is_logged=False)
_DELETE = of_each(ResourceType.TOPIC, Operation.DELETE, _DELETE_ANY)
_DESCRIBE = HandlerAcl(
    Operation.DESCRIBE, ResourceType.TOPIC, "each topic", "to see that a topic exists"
)
FIRST_STRICT = 5
"""The first version in which a request beyond the client's quota is refused (KIP-599)."""

logger = structlog.get_logger(__name__)

Target = tuple[str | None, bytes]
"""The name and the id of a topic; the name is None if unknown, the id is zero if unknown."""


def _handle(services: Services, request: Request) -> None:
    request.answer_later(_delete_all(services, request, request.value))


async def _delete_all(services: Services, request: Request, value: dict[str, Any]) -> None:
    mutations = request.mutations(FIRST_STRICT)
    slices = services.slicer.work(API.name)
    await slices.pause()
    allowed, refused = await slices.through(_judged(services, request))
    targets, times = await _counted(services, allowed, slices)
    answers = []
    there = (name for name in times if name and services.registry.topic(name) is not None)
    readers = await readers_of(services, there, slices)
    for target in targets:
        if slices.over:
            await slices.pause()
        name, topic_id = _resolved(services, target)
        if not services.topics.is_controller:
            answers.append(_answer(target, NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE))
        elif not services.config["delete.topic.enable"]:
            old = request.api_version < 3
            answers.append(
                _answer(
                    target,
                    INVALID_REQUEST if old else TOPIC_DELETION_DISABLED,
                    "Topics can't be deleted: delete.topic.enable is false.",
                )
            )
        elif target[0] is not None and target[1] != ZERO_UUID:
            message = "Topic name and topic ID can not both be specified."
            answers.append(_answer(target, INVALID_REQUEST, message))
        elif target == (None, ZERO_UUID):
            answers.append(
                _answer(target, INVALID_REQUEST, "Neither topic name nor id were specified.")
            )
        elif name is None:
            answers.append(
                _answer(target, UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            )
        elif times[name] > 1:
            answers.append(_answer(target, INVALID_REQUEST, "Duplicate topic name."))
        else:
            answers.append(await slices.beside(_delete(services, name, topic_id, mutations)))
    going = {each["name"]: each for each in answers if each["error_code"] == NONE}
    if going:
        for name in await slices.beside(services.topics.gone(going, value["timeout_ms"])):
            late = "The topic is marked for deletion, but some brokers still have its replicas."
            going[name] |= {"error_code": REQUEST_TIMED_OUT, "error_message": late}
    answers += refused
    slices.end()
    worst = next((answer["error_code"] for answer in answers if answer["error_code"]), NONE)
    request.respond({"responses": answers}, worst)
    gone = {name: readers[name] for name in going if name in readers}
    report_deleted(services, sender_of(request), gone)


def _judged(
    services: Services, request: Request
) -> Generator[None, None, tuple[list[Target], list[dict[str, Any]]]]:
    """Returns the requested topics that the client may delete, and the response entries of the
    denied topics.

    The rules are those of Kafka without ZooKeeper. If the request names a topic by id, the client
    needs DELETE; without DESCRIBE, the entry of a denied topic does not contain the topic's name.
    If the request names a topic by name, the client needs DESCRIBE, and for an existing topic also
    DELETE. A topic that the request contains twice, or by both name and id, is not denied: the
    handler returns another error for it.
    """
    judges = not is_allowed(services, request, _DELETE_ANY)
    judges = judges and services.config["delete.topic.enable"]
    targets: list[Target] = []
    names: list[str | None] = []
    times: Counter[str] = Counter()
    for name, topic_id in _asked(request):
        targets.append((name, topic_id))
        if judges:
            known = None
            if (name is None) != (topic_id == ZERO_UUID):
                known = services.registry.topic_name(topic_id) if name is None else name
            names.append(known)
            if known is not None:
                times[known] += 1
        yield None
    if not judges:
        return targets, []
    single: list[str | None] = []
    for each in names:
        single.append(each if each is not None and times[each] == 1 else None)
        yield None
    undescribed = yield from denied(services, request, _DESCRIBE, single)
    undeleted = yield from denied(services, request, _DELETE, single)
    allowed: list[Target] = []
    refused: list[dict[str, Any]] = []
    for target, each in zip(targets, single, strict=True):
        if target[0] is None:
            is_denied = each in undeleted
            shown = None if each in undescribed else each
        else:
            is_there = each is not None and services.registry.topic(each) is not None
            is_denied = each in undescribed or (is_there and each in undeleted)
            shown = each
        if is_denied:
            code = TOPIC_AUTHORIZATION_FAILED
            refused.append(_answer((shown, target[1]), code, TEXTS[code]))
        else:
            allowed.append(target)
        yield None
    return allowed, refused


def _asked(request: Request) -> Iterator[Target]:
    if request.api_version >= 6:
        return ((topic["name"], topic["topic_id"]) for topic in request.value["topics"])
    return ((name, ZERO_UUID) for name in request.value["topic_names"])


async def _counted(
    services: Services, asked: Iterable[Target], slices: Slices
) -> tuple[list[Target], Counter[str | None]]:
    """Returns the requested topics without repeats, and how often each name occurs."""
    targets: dict[Target, None] = {}
    times: Counter[str | None] = Counter()
    for target in asked:
        targets[target] = None
        times[_resolved(services, target)[0]] += 1
        if slices.over:
            await slices.pause()
    return list(targets), times


def _resolved(services: Services, target: Target) -> Target:
    """Returns the name and the id of a requested topic. The name is None if the broker does not
    know the requested id; the id is zero if the broker does not know the requested name."""
    name, topic_id = target
    if name is None and topic_id != ZERO_UUID:
        return services.registry.topic_name(topic_id), topic_id
    return name, topic_id if name is None else (services.registry.topic_id(name) or ZERO_UUID)


async def _delete(
    services: Services, name: str, topic_id: bytes, mutations: Mutations
) -> dict[str, Any]:
    if name in OWNED:
        message = f"{name} is an internal topic of {OWNED[name].owner} and can't be deleted."
        return _answer((name, topic_id), INVALID_TOPIC_EXCEPTION, message)
    topic = services.registry.topic(name)
    if topic is not None and not mutations.take(topic.partitions):
        return _answer((name, topic_id), THROTTLING_QUOTA_EXCEEDED, THROTTLED_MESSAGE)
    try:
        await services.topics.delete(name)
    except NoSuchTopic:
        return _answer(
            (name, ZERO_UUID),
            UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
    except CannotChange as error:
        return _answer((name, topic_id), REQUEST_TIMED_OUT, str(error))
    except OSError as error:
        logger.error("topic can't be deleted", topic=name, error=str(error))
        return _answer(
            (name, topic_id), KAFKA_STORAGE_ERROR, f"The disk reports: {error.strerror}."
        )
    return _answer((name, topic_id), NONE, None)


def _answer(target: Target, error_code: int, message: str | None) -> dict[str, Any]:
    name, topic_id = target
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": error_code,
        "error_message": message,
    }


SERVED = ServedApi(API, 0, 6, _handle, rights=Rights(own=(_DELETE, _DESCRIBE)))

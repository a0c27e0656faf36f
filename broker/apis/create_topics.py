"""CreateTopics (19): creates topics.

Versions: v1 adds validate_only and error messages; v2 the throttle time. From v4 on, -1 selects the
broker's default number of partitions or replication factor. v5 is flexible, and its response has
the partitions and settings; v7 adds the topic id. Topics of one request are created one after the
other; an error for one does not stop the others. In a cluster only the controller creates topics,
and it responds when all partitions have leaders.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from broker.apis.shared.authorization import denied, is_allowed, named_once
from broker.apis.shared.error_message import shortened
from broker.config.config import topic_settings
from broker.config.config_value import BadValue
from broker.config.described_configs import topic_entries
from broker.loop.slices import Slices
from broker.net.request import Request, ServedApi
from broker.net.required_acls import HandlerAcl, Rights, cluster, of_each
from broker.topics.registry import INTERNAL_TOPICS
from broker.topics.topic_changes import (
    LEFT_TO_BROKER,
    PARTITIONS_MAX,
    Assignment,
    BadAssignment,
    BadFactor,
    CannotChange,
    TopicExists,
)
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_ALREADY_EXISTS,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.create_topics import API
from protocol.schema import ZERO_UUID
from protocol.topic_names import BadTopicName
from security.acls.model import Operation, ResourceType
from security.quotas.mutations import UNBOUND, Mutations

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)

_CREATE_ANY = cluster(Operation.CREATE, is_logged=False)
_CREATE = of_each(ResourceType.TOPIC, Operation.CREATE, _CREATE_ANY)
_DESCRIBE_CONFIGS = HandlerAcl(
    Operation.DESCRIBE_CONFIGS,
    ResourceType.TOPIC,
    "each topic",
    "to see the settings of a topic",
    is_logged=False,
)
FIRST_STRICT = 6
"""The first version in which a request beyond the client's quota is refused (KIP-599)."""
THROTTLED_MESSAGE = "The throttling quota has been exceeded."
NOT_CONTROLLER_MESSAGE = "This is not the correct controller for this cluster."


class Made(NamedTuple):
    """A topic that was created or, with validate_only, that could be created."""

    topic_id: bytes
    assignment: Assignment
    configs: Mapping[str, str]


class Refused(Exception):
    """The topic can't be created."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = shortened(message)


def _handle(services: Services, request: Request) -> None:
    request.answer_later(_create_all(services, request, request.value))


async def _create_all(services: Services, request: Request, value: dict[str, Any]) -> None:
    done: dict[str, Made | Refused] = {}
    room = PARTITIONS_MAX
    mutations = request.mutations(FIRST_STRICT)
    slices = services.slicer.work(API.name)
    await slices.pause()
    topics: dict[str, dict[str, Any]] = {}
    for topic in value["topics"]:
        topics[topic["name"]] = topic
        if slices.over:
            await slices.pause()
    single = await slices.through(named_once(value["topics"]))
    forbidden, hidden = await slices.through(_judged(services, request, single))
    for name, wanted in topics.items():
        if slices.over:
            await slices.pause()
        if name in forbidden:
            continue
        try:
            if not services.topics.is_controller:
                raise Refused(NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
            if name not in single:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            made = await create(services, slices, wanted, value["validate_only"], room, mutations)
            room -= len(made.assignment)
            done[name] = made
        except Refused as refused:
            done[name] = refused
    new = {name: len(each.assignment) for name, each in done.items() if isinstance(each, Made)}
    if new and not value["validate_only"]:
        for name in await slices.beside(services.topics.led(new, value["timeout_ms"])):
            done[name] = Refused(
                REQUEST_TIMED_OUT, "The topic was created, but some partitions have no leader yet."
            )
    answers = request.array("topics")
    for name, each in done.items():
        answers.append(_answer(services, name, each, hides_settings=name in hidden))
        if slices.over:
            await slices.pause()
    refusal = Refused(TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    for name in topics if forbidden else ():
        if name in forbidden:
            answers.append(_answer(services, name, refusal))
        if slices.over:
            await slices.pause()
    slices.end()
    refusals = (each.error_code for each in done.values() if isinstance(each, Refused))
    request.respond({"topics": answers}, next(refusals, refusal.error_code if forbidden else NONE))


def _judged(
    services: Services, request: Request, single: Set[str]
) -> Generator[None, None, tuple[Set[str], Set[str]]]:
    """Returns the topics that the client may not create, and the topics whose settings the client
    may not see."""
    refused: Set[str] = frozenset()
    if not is_allowed(services, request, _CREATE_ANY):
        refused = yield from denied(services, request, _CREATE, single)
    hidden = yield from denied(services, request, _DESCRIBE_CONFIGS, single)
    return refused, hidden


def _answer(
    services: Services, name: str, made: Made | Refused, *, hides_settings: bool = False
) -> dict[str, Any]:
    if isinstance(made, Refused):
        return {
            "name": name,
            "topic_id": ZERO_UUID,
            "error_code": made.error_code,
            "error_message": made.message,
            "configs": [],
        }
    answer = {
        "name": name,
        "topic_id": made.topic_id,
        "error_code": NONE,
        "error_message": None,
    }
    if hides_settings:
        return {**answer, "topic_config_error_code": TOPIC_AUTHORIZATION_FAILED, "configs": []}
    return {
        **answer,
        "num_partitions": len(made.assignment),
        "replication_factor": len(made.assignment[0]),
        "configs": [
            {key: entry[key] for key in _ENTRY_FIELDS}
            for entry in topic_entries(services.config, made.configs)
        ],
    }


async def create(
    services: Services,
    slices: Slices,
    wanted: dict[str, Any],
    validate_only: bool,
    room: int,
    mutations: Mutations = UNBOUND,
) -> Made:
    """Creates one topic of a request, with at most ``room`` partitions. Raises Refused."""
    name = wanted["name"]
    try:
        services.topics.check_new(name)
    except BadTopicName as error:
        raise Refused(INVALID_TOPIC_EXCEPTION, str(error)) from None
    except TopicExists as error:
        raise Refused(TOPIC_ALREADY_EXISTS, str(error)) from None
    if name in INTERNAL_TOPICS:
        raise Refused(
            INVALID_TOPIC_EXCEPTION,
            f"Clients can't create the internal topic {name}: the broker creates it when needed.",
        )
    same = services.topics.collisions(name)
    if same:
        raise Refused(
            INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {', '.join(same)}",
        )
    configs = _configs(services, wanted["configs"])
    assignment = _assignment(services, wanted)
    count = len(assignment)
    if count > room:
        raise Refused(POLICY_VIOLATION, "Excessively large number of partitions per request.")
    topic_id = ZERO_UUID
    if not validate_only and not mutations.take(count):
        raise Refused(THROTTLING_QUOTA_EXCEEDED, THROTTLED_MESSAGE)
    if not validate_only:
        try:
            made = await slices.beside(services.topics.create(name, count, configs, assignment))
            topic_id = made.topic_id
        except TopicExists as error:
            raise Refused(TOPIC_ALREADY_EXISTS, str(error)) from None
        except BadValue as error:
            raise Refused(INVALID_CONFIG, str(error)) from None
        except CannotChange as error:
            raise Refused(REQUEST_TIMED_OUT, str(error)) from None
        except OSError as error:
            logger.error("topic can't be created", topic=name, error=str(error))
            raise Refused(KAFKA_STORAGE_ERROR, f"The disk reports: {error.strerror}.") from None
    return Made(topic_id, assignment, configs)


_ENTRY_FIELDS = ("name", "value", "read_only", "config_source", "is_sensitive")


def _configs(services: Services, given: list[dict[str, Any]]) -> Mapping[str, str]:
    nulls = [entry["name"] for entry in given if entry["value"] is None]
    if nulls:
        raise Refused(
            INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    configs = {entry["name"]: entry["value"] for entry in given}
    try:
        topic_settings(services.config, configs)
    except BadValue as error:
        raise Refused(INVALID_CONFIG, str(error)) from None
    return configs


def _assignment(services: Services, wanted: dict[str, Any]) -> Assignment:
    """Returns the replicas of the new topic. Raises Refused for invalid numbers or replicas."""
    count, factor = wanted["num_partitions"], wanted["replication_factor"]
    if wanted["assignments"]:
        if count != LEFT_TO_BROKER or factor != LEFT_TO_BROKER:
            raise Refused(
                INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set."
                " Both cannot be used at the same time.",
            )
        return _assigned(services, wanted["assignments"])
    if count == LEFT_TO_BROKER:
        count = services.config["num.partitions"]
    if count <= 0:
        raise Refused(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if count > PARTITIONS_MAX:
        raise Refused(INVALID_PARTITIONS, f"Number of partitions must be at most {PARTITIONS_MAX}.")
    try:
        return services.topics.placed(count, factor)
    except BadFactor as error:
        raise Refused(INVALID_REPLICATION_FACTOR, str(error)) from None


def _assigned(services: Services, assignments: list[dict[str, Any]]) -> Assignment:
    named = sorted(assignments, key=lambda entry: int(entry["partition_index"]))
    if [entry["partition_index"] for entry in named] != list(range(len(named))):
        raise Refused(
            INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    assignment = [entry["broker_ids"] for entry in named]
    try:
        services.topics.check_assignment(assignment)
    except BadAssignment as error:
        raise Refused(INVALID_REPLICA_ASSIGNMENT, str(error)) from None
    if len(assignment) > PARTITIONS_MAX:
        raise Refused(INVALID_PARTITIONS, f"Number of partitions must be at most {PARTITIONS_MAX}.")
    return assignment


SERVED = ServedApi(API, 0, 7, _handle, rights=Rights(own=(_CREATE, _DESCRIBE_CONFIGS)))

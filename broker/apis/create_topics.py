"""CreateTopics (19).

v1 validate_only and messages; v2 throttle time; v4 partitions and replication factor may be left to
the broker (-1); v5 flexible, and the answer has partitions and settings; v7 the topic id. Topics of
one request are created one after the other; an error of one does not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.error_message import shortened
from broker.config.config import topic_settings
from broker.config.config_value import BadValue
from broker.config.described_configs import topic_entries
from broker.loop.slices import Slices
from broker.net.request import Request, ServedApi
from broker.topics.registry import INTERNAL_TOPICS, BadTopicName
from broker.topics.topic_admin import PARTITIONS_MAX, TopicExists
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
)
from protocol.messages.create_topics import API
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker.apis.services import Services

logger = structlog.get_logger(__name__)

LEFT_TO_BROKER = -1


class Refused(Exception):
    """The topic cannot be made."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = shortened(message)


def _handle(services: Services, request: Request) -> None:
    request.answer_later(_create_all(services, request, request.value))


async def _create_all(services: Services, request: Request, value: dict[str, Any]) -> None:
    names = Counter(topic["name"] for topic in value["topics"])
    topics = {topic["name"]: topic for topic in value["topics"]}
    answers = request.array("topics")
    worst = NONE
    room = PARTITIONS_MAX
    slices = services.slicer.work(API.name)
    await slices.pause()
    for name, wanted in topics.items():
        try:
            if names[name] > 1:
                raise Refused(INVALID_REQUEST, "Duplicate topic name.")
            answer = await _create(services, slices, wanted, value["validate_only"], room)
            room -= answer["num_partitions"]
        except Refused as refused:
            worst = worst or refused.error_code
            answer = {
                "name": name,
                "topic_id": ZERO_UUID,
                "error_code": refused.error_code,
                "error_message": refused.message,
                "configs": [],
            }
        answers.append(answer)
        if slices.over:
            await slices.pause()
    slices.end()
    request.respond({"topics": answers}, worst)


async def _create(
    services: Services, slices: Slices, wanted: dict[str, Any], validate_only: bool, room: int
) -> dict[str, Any]:
    name = wanted["name"]
    try:
        services.topics.check_new(name)
    except BadTopicName as error:
        raise Refused(INVALID_TOPIC_EXCEPTION, str(error)) from None
    except TopicExists as error:
        raise Refused(TOPIC_ALREADY_EXISTS, str(error)) from None
    if name in INTERNAL_TOPICS:
        raise Refused(INVALID_TOPIC_EXCEPTION, f"The broker creates {name} when it is needed.")
    same = services.topics.collisions(name)
    if same:
        raise Refused(
            INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {', '.join(same)}",
        )
    configs = _configs(services, wanted["configs"])
    partitions = _partitions(services, wanted)
    if partitions > room:
        raise Refused(POLICY_VIOLATION, "Excessively large number of partitions per request.")
    topic_id = ZERO_UUID
    if not validate_only:
        try:
            made = await slices.beside(services.topics.create(name, partitions, configs))
            topic_id = made.topic_id
        except TopicExists as error:
            raise Refused(TOPIC_ALREADY_EXISTS, str(error)) from None
        except BadValue as error:
            raise Refused(INVALID_CONFIG, str(error)) from None
        except OSError as error:
            logger.error("a topic can't be created", topic=name, error=str(error))
            raise Refused(KAFKA_STORAGE_ERROR, f"The disk says: {error.strerror}.") from None
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": NONE,
        "error_message": None,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [
            {key: entry[key] for key in _ENTRY_FIELDS}
            for entry in topic_entries(services.config, configs)
        ],
    }


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


def _partitions(services: Services, wanted: dict[str, Any]) -> int:
    """How many partitions the topic gets; Refused where numbers or assignment make no sense."""
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
    if factor == LEFT_TO_BROKER:
        if services.config["default.replication.factor"] > 1:
            logger.info("default.replication.factor is lowered to 1, the number of brokers")
        factor = 1
    if factor <= 0:
        raise Refused(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > 1:
        raise Refused(
            INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of"
            f" {factor} cannot be reached because only 1 broker(s) are registered.",
        )
    return int(count)


def _assigned(services: Services, assignments: list[dict[str, Any]]) -> int:
    indexes = sorted(entry["partition_index"] for entry in assignments)
    if indexes != list(range(len(indexes))):
        raise Refused(
            INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    for entry in assignments:
        check_replicas(services, entry["partition_index"], entry["broker_ids"])
    if len(indexes) > PARTITIONS_MAX:
        raise Refused(INVALID_PARTITIONS, f"Number of partitions must be at most {PARTITIONS_MAX}.")
    return len(indexes)


def check_replicas(services: Services, partition: int, broker_ids: list[int]) -> None:
    """Refused unless this broker alone is named."""
    if not broker_ids:
        problem = f"Partition {partition} has no replicas."
    elif len(set(broker_ids)) < len(broker_ids):
        problem = f"Partition {partition} names a broker twice: {broker_ids}."
    elif broker_ids != [services.registry.node_id]:
        unknown = [other for other in broker_ids if other != services.registry.node_id]
        problem = f"Partition {partition} is given to unknown brokers: {unknown}."
    else:
        return
    raise Refused(INVALID_REPLICA_ASSIGNMENT, problem)


SERVED = ServedApi(API, 0, 7, _handle)

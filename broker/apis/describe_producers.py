"""DescribeProducers (61): the producers of partitions, each with its open transaction (KIP-664)."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, split
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights
from broker.topics.partition import Partition
from broker.topics.registry import absent_error
from broker.topics.replicas.replica_of import replica_of
from broker.topics.replicas.roles import Role
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.describe_producers import API
from protocol.topic_names import BadTopicName, check_topic_name
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


_READ = Each(Operation.READ, ResourceType.TOPIC)


def _handle(services: Services, request: Request) -> Steps:
    topics, denied = yield from split(services, request, _READ, request.value["topics"], _good_name)
    answers = request.array("topics")
    worst = NONE
    seen: set[tuple[str, int]] = set()
    for topic in topics:
        name = topic["name"]
        partitions = request.array("topics", "partitions")
        for partition in topic["partition_indexes"]:
            if (name, partition) in seen:
                entry = _failed(
                    partition, INVALID_REQUEST, "The partition is named twice in this request."
                )
            else:
                entry = yield from _described(services, request, name, partition)
            seen.add((name, partition))
            worst = worst or entry["error_code"]
            partitions.append(entry)
            yield None
        answers.append({"name": name, "partitions": partitions})
        yield None
    for topic in denied:
        code = TOPIC_AUTHORIZATION_FAILED
        worst = worst or code
        partitions = request.array("topics", "partitions")
        for partition in topic["partition_indexes"]:
            partitions.append(_failed(partition, code, TEXTS[code]))
            yield None
        answers.append({"name": topic["name"], "partitions": partitions})
        yield None
    request.respond({"topics": answers}, worst)


def _good_name(topic: dict[str, Any]) -> str | None:
    """Returns the name of a topic; None if the name is invalid, so that it is not authorized."""
    name: str = topic["name"]
    try:
        check_topic_name(name)
    except BadTopicName:
        return None
    return name


def _described(
    services: Services, request: Request, name: str, partition: int
) -> Generator[Future[str | None] | None, None, dict[str, Any]]:
    yield None
    try:
        check_topic_name(name)
    except BadTopicName as error:
        return _failed(partition, INVALID_TOPIC_EXCEPTION, str(error))
    there = services.logs.get(name, partition)
    if there is None:
        error_code = absent_error(services.registry, name, partition)
        return _failed(partition, error_code, "This server does not host this topic-partition.")
    error_code = there.serving_error(-1)
    if error_code and not _follows_and_is_stable(there):
        return _failed(
            partition, error_code, "This server is not the leader of this topic-partition."
        )
    log = there.log
    producers = request.array("topics", "partitions", "active_producers")
    for producer_id in log.producers.ids():
        yield None
        producer = log.producers.get(producer_id)
        if producer is None:  # it has expired
            continue
        producers.append(
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": log.producers.open_transactions.get(producer_id, -1),
            }
        )
    if there.high_watermark < log.log_end_offset:  # a batch becomes visible only when it is stable
        waiting = _Waiting()
        there.when_stable(log.log_end_offset, ((waiting, None),), _reason)
        yield waiting.answered
        if (reason := waiting.answered.result()) is not None:
            return _failed(partition, KAFKA_STORAGE_ERROR, reason)
    return {
        "partition_index": partition,
        "error_code": NONE,
        "error_message": None,
        "active_producers": producers,
    }


def _follows_and_is_stable(partition: Partition) -> bool:
    """Returns True if this broker is a follower whose log ends at the high watermark.

    Such a follower also answers DescribeProducers, because operators search individual replicas for
    hanging transactions.
    """
    replica = replica_of(partition)
    return (
        replica is not None
        and replica.role is Role.FOLLOWER
        and replica.high_watermark == replica.log.log_end_offset
    )


class _Waiting:
    """A ticket whose future completes when the records are stable (with None), or can't become
    stable (with the reason)."""

    __slots__ = ("answered",)

    def __init__(self) -> None:
        self.answered: Future[str | None] = get_running_loop().create_future()

    def take(self, reason: str | None) -> None:
        if not self.answered.done():
            self.answered.set_result(reason)


def _reason(_: None, error: Exception) -> str:
    return str(error)


def _failed(partition: int, error_code: int, message: str) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": error_code,
        "error_message": message,
        "active_producers": [],
    }


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights(each=_READ))

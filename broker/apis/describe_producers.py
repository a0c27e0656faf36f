"""DescribeProducers (61): the idempotent producers that partitions know (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.registry import BadTopicName, check_topic_name
from broker.request import Request, ServedApi
from protocol.errors import INVALID_TOPIC_EXCEPTION, NONE, UNKNOWN_TOPIC_OR_PARTITION
from protocol.messages.describe_producers import API

if TYPE_CHECKING:
    from broker.broker import Broker


def _handle(broker: Broker, request: Request) -> None:
    answers = [
        {
            "name": topic["name"],
            "partitions": [
                _described(broker, topic["name"], partition)
                for partition in topic["partition_indexes"]
            ],
        }
        for topic in request.value["topics"]
    ]
    codes = (entry["error_code"] for topic in answers for entry in topic["partitions"])
    request.respond({"topics": answers}, next(filter(None, codes), NONE))


def _described(broker: Broker, name: str, partition: int) -> dict[str, Any]:
    try:
        check_topic_name(name)
    except BadTopicName as error:
        return _failed(partition, INVALID_TOPIC_EXCEPTION, str(error))
    log = broker.logs.get(name, partition)
    if log is None:
        return _failed(
            partition,
            UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
    return {
        "partition_index": partition,
        "error_code": NONE,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": log.producers.open_transactions.get(producer_id, -1),
            }
            for producer_id, producer in log.producers.items()
        ],
    }


def _failed(partition: int, error_code: int, message: str) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": error_code,
        "error_message": message,
        "active_producers": [],
    }


SERVED = ServedApi(API, 0, 0, _handle)

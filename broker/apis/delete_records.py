"""DeleteRecords (21): raises the log start offset of partitions; earlier records are deleted.

Versions: v2 flexible. The next retention run deletes the segments before the new log start offset.
The new offset is stored before the response is sent, so that deleted records do not reappear after
a crash; Kafka stores the offset within a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import structlog

from broker.apis.shared.authorization import split
from broker.apis.shared.losses import report_trimmed, sender_of
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights
from broker.topics.registry import absent_error
from log.errors import OffsetOutOfRange
from protocol.errors import (
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.delete_records import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)

_DELETE = Each(Operation.DELETE, ResourceType.TOPIC)
_NO_LOW_WATERMARK = -1


def _handle(services: Services, request: Request) -> Steps:
    topics, denied = yield from split(
        services, request, _DELETE, request.value["topics"], itemgetter("name")
    )
    request.answer_later(_delete_all(services, request, topics, denied))


async def _delete_all(
    services: Services,
    request: Request,
    topics: Sequence[dict[str, Any]],
    denied: Sequence[dict[str, Any]],
) -> None:
    answers = []
    slices = services.slicer.work(API.name)
    await slices.pause()
    starts: dict[str, dict[int, int]] = {}
    for topic in topics:
        partitions = []
        for wanted in topic["partitions"]:
            name, index = topic["name"], wanted["partition_index"]
            before = _start(services, name, index)
            partitions.append(_delete(services, name, index, wanted["offset"]))
            if partitions[-1]["low_watermark"] > before:
                starts.setdefault(name, {})[index] = partitions[-1]["low_watermark"]
            if slices.over:
                await slices.pause()
        answers.append({"name": topic["name"], "partitions": partitions})
    for topic in denied:
        partitions = []
        for wanted in topic["partitions"]:
            partitions.append(_entry(wanted["partition_index"], TOPIC_AUTHORIZATION_FAILED))
            if slices.over:
                await slices.pause()
        answers.append({"name": topic["name"], "partitions": partitions})
    slices.end()
    entries = [entry for topic in answers for entry in topic["partitions"]]
    if any(entry["error_code"] == NONE for entry in entries):
        try:
            await services.maintenance.write_checkpoints()
        except OSError as error:
            logger.error("DeleteRecords failed: checkpoints can't be written", error=str(error))
            for entry in entries:
                if entry["error_code"] == NONE:
                    entry.update(error_code=KAFKA_STORAGE_ERROR, low_watermark=_NO_LOW_WATERMARK)
    worst = next((entry["error_code"] for entry in entries if entry["error_code"]), NONE)
    request.respond({"topics": answers}, worst)
    slices = services.slicer.work(API.name)
    await report_trimmed(services, sender_of(request), starts, slices)
    slices.end()


def _start(services: Services, name: str, index: int) -> int:
    entry = services.logs.topics.get(name)
    partition = None if entry is None else entry.partition(index)
    return _NO_LOW_WATERMARK if partition is None else partition.log.log_start_offset


def _delete(services: Services, name: str, index: int, offset: int) -> dict[str, Any]:
    error_code, low_watermark = NONE, _NO_LOW_WATERMARK
    entry = services.logs.topics.get(name)
    partition = None if entry is None else entry.partition(index)
    if entry is None or partition is None:
        error_code = absent_error(services.registry, name, index)
    elif entry.topic.is_internal:
        error_code = INVALID_TOPIC_EXCEPTION
    elif not partition.log.config.deletes:  # compaction must keep the last record of each key
        error_code = POLICY_VIOLATION
    elif partition.log.failed_for_good:
        error_code = KAFKA_STORAGE_ERROR
    elif (not_served := partition.serving_error(-1)) != NONE:
        error_code = not_served
    else:
        try:
            low_watermark = partition.delete_records(offset)
        except OffsetOutOfRange:
            error_code = OFFSET_OUT_OF_RANGE
        except OSError as error:
            logger.error("DeleteRecords failed", partition=partition.name, why=str(error))
            error_code = KAFKA_STORAGE_ERROR
    return _entry(index, error_code, low_watermark)


def _entry(index: int, error_code: int, low_watermark: int = _NO_LOW_WATERMARK) -> dict[str, Any]:
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error_code}


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights(each=_DELETE))

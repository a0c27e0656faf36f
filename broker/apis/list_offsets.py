"""ListOffsets (2): the offset at a timestamp, or at the start or end of partitions.

Versions: v0 lists the base offsets of segments; v1 returns one offset and its timestamp; v2 adds
the isolation level; v4 leader epochs; v6 is flexible. Special timestamps: v7 adds the maximum
timestamp (-3), v8 earliest local (-4), v9 latest tiered (-5), v11 earliest pending upload (-6). v10
adds a timeout for remote storage. Muster has no tiered storage: earliest local is the log start
offset, and no offset is tiered or pending upload. The end is the log end offset for a follower, and
the high watermark for a consumer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from broker.apis.shared.any_replica import error_at
from broker.apis.shared.authorization import split
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights
from broker.topics.partition import Partition
from broker.topics.registry import absent_error
from broker.topics.replicas.replica_of import replica_of
from log.errors import CorruptLog
from protocol.errors import (
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    OFFSET_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
)
from protocol.messages.list_offsets import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.TOPIC)
READ_COMMITTED = 1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_FIRST_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

_KNOWN = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
"""Special timestamps whose offsets are known without a read of the log's files."""

LOOKUPS_AT_ONCE = 50
"""The maximum number of partitions of a topic that one job in a thread looks up."""

_NOT_YET, _NOT_YET_BEFORE, _FIRST_WITH_NOT_YET = OFFSET_NOT_AVAILABLE, LEADER_NOT_AVAILABLE, 5
"""``_NOT_YET`` is the error code of a new leader that does not know its high watermark yet
(KIP-207). In versions before ``_FIRST_WITH_NOT_YET``, this leader returns ``_NOT_YET_BEFORE``
instead."""

Entry = dict[str, Any]


class Found(NamedTuple):
    """An offset, the timestamp of its record, and its leader epoch; each is -1 if no offset was
    found."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    topics, denied = yield from split(
        services, request, _DESCRIBE, value["topics"], itemgetter("name")
    )
    asked = Counter(
        (topic["name"], partition["partition_index"])
        for topic in topics
        for partition in topic["partitions"]
    )
    twice = frozenset(key for key, times in asked.items() if times > 1)
    replica_id = value["replica_id"]
    committed = value["isolation_level"] == READ_COMMITTED and replica_id < 0
    version = request.api_version
    answers = request.array("topics")
    worst = NONE
    for topic in topics:
        name = topic["name"]
        partitions = request.array("topics", "partitions")
        look = partial(_partition, services, version, twice, replica_id, committed, name)
        for first in range(0, len(topic["partitions"]), LOOKUPS_AT_ONCE):
            piece = topic["partitions"][first : first + LOOKUPS_AT_ONCE]
            if version and all(wanted["timestamp"] in _KNOWN for wanted in piece):
                found: Iterator[Entry] = map(look, piece)
            else:  # reads the log
                reading = asyncio.ensure_future(services.time.in_thread(_each, look, piece))
                yield reading
                found = iter(reading.result())
            for answer in found:
                worst = worst or answer["error_code"]
                partitions.append(answer)
                yield None
        answers.append({"name": name, "partitions": partitions})
        yield None
    for topic in denied:
        worst = worst or TOPIC_AUTHORIZATION_FAILED
        partitions = request.array("topics", "partitions")
        for wanted in topic["partitions"]:
            partitions.append(_error(wanted["partition_index"], TOPIC_AUTHORIZATION_FAILED))
            yield None
        answers.append({"name": topic["name"], "partitions": partitions})
        yield None
    request.respond({"topics": answers}, worst)


def _each(look: Callable[[Entry], Entry], wanted: Sequence[Entry]) -> list[Entry]:
    return [look(each) for each in wanted]


def _partition(
    services: Services,
    version: int,
    asked_twice: frozenset[tuple[str, int]],
    replica_id: int,
    committed: bool,
    topic: str,
    wanted: dict[str, Any],
) -> dict[str, Any]:
    index = wanted["partition_index"]
    partition = services.logs.get(topic, index)
    if version and (topic, index) in asked_twice:
        return _error(index, INVALID_REQUEST)
    if partition is None:
        return _error(index, absent_error(services.registry, topic, index))
    log = partition.log
    error_code = partition.serving_error(wanted["current_leader_epoch"])
    if error_code:
        error_code = error_at(partition, error_code, replica_id)
    if error_code:
        return _error(index, error_code)
    timestamp = wanted["timestamp"]
    if timestamp < 0 and version < _FIRST_VERSIONS.get(timestamp, version + 1):
        return _error(index, UNSUPPORTED_VERSION)
    if timestamp not in (LATEST, EARLIEST) and log.config.message_magic == 0 and version:
        return _error(index, UNSUPPORTED_FOR_MESSAGE_FORMAT)
    is_replica = replica_id >= 0
    end = log.log_end_offset if is_replica else partition.high_watermark
    try:
        if version == 0:
            now_ms = services.time.now().wall_ms
            offsets = log.segment_offsets_before(timestamp, wanted["max_num_offsets"], now_ms, end)
            return {
                "partition_index": index,
                "error_code": NONE,
                "old_style_offsets": offsets,
            }
        found = find(partition, timestamp, end)
        if not is_replica and _is_above(partition, timestamp, found):
            return _error(index, _NOT_YET if version >= _FIRST_WITH_NOT_YET else _NOT_YET_BEFORE)
        if committed:
            found = _stable(partition, timestamp, found)
    except CorruptLog as error:
        logger.error("log can't be read", partition=partition.name, error=str(error))
        return _error(index, KAFKA_STORAGE_ERROR)
    return {"partition_index": index, "error_code": NONE, **found._asdict()}


def find(partition: Partition, timestamp: int, end: int) -> Found:
    """Returns the offset for a timestamp or a special timestamp, in the records before ``end``.

    Raises CorruptLog.
    """
    log = partition.log
    if timestamp == LATEST:
        return Found(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(-1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found()
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp(end)
    else:
        found = log.offset_for_timestamp(timestamp, end)
    return Found() if found is None else Found(*found)


def _is_above(partition: Partition, timestamp: int, found: Found) -> bool:
    """Returns True if the result depends on the high watermark, and the replica is a new leader
    that does not know it yet.

    The new leader learns the high watermark from its followers. Until then, the offset that it
    would return could be before the position of the consumer.
    """
    if timestamp in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return False
    is_last = timestamp == LATEST or found.offset < 0
    replica = replica_of(partition)
    return is_last and replica is not None and replica.end_is_unknown


def _stable(partition: Partition, timestamp: int, found: Found) -> Found:
    """Converts the result ``found`` for a read_committed consumer: the latest offset becomes the
    last stable offset, and a record at or after the last stable offset is not found."""
    stable = partition.last_stable_offset
    if found.offset < stable or timestamp in (EARLIEST, EARLIEST_LOCAL):
        return found
    return found._replace(offset=stable) if timestamp == LATEST else Found()


def _error(index: int, error_code: int) -> dict[str, Any]:
    return {"partition_index": index, "error_code": error_code}


SERVED = ServedApi(API, 0, 11, _handle, rights=Rights(each=_DESCRIBE))

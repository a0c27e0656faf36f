"""DescribeShareGroupOffsets (90): the start offsets and the lag of share groups (KIP-932).

Versions: v1 adds the lag (KIP-1226). The start offset comes from the stored state, which can be one
change older than the state in memory. A partition of an unknown topic, or without a state, has
start offset -1 and no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, denied, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights, of_each
from coordinator.calls import ShareOffsetsDescribe
from coordinator.outcome import ShareOffsetsReply
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.describe_share_group_offsets import API
from security.acls.model import Operation, ResourceType
from share.persister.calls import StateReply
from share.values import UNINITIALIZED_OFFSET, SharePartitionKey, StoredState

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.topics.registry import Registry

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.GROUP)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_NO_ID = bytes(16)
_NO_LAG = -1
_UNKNOWN_COUNT = -1

Entry = dict[str, Any]
Place = tuple[str, int]
"""The name of a topic and the index of a partition."""


def _handle(services: Services, request: Request) -> Steps:
    asked = request.value["groups"]
    allowed, refused = yield from split(services, request, _DESCRIBE, asked, itemgetter("group_id"))
    groups = request.array("groups")
    worst = GROUP_AUTHORIZATION_FAILED if refused else NONE
    for group in refused:
        groups.append(_error(group["group_id"], GROUP_AUTHORIZATION_FAILED))
        yield None
    for group in allowed:
        described = yield from _group(services, request, group)
        worst = worst or described["error_code"]
        groups.append(described)
    request.respond({"throttle_time_ms": 0, "groups": groups}, worst)


def _group(
    services: Services, request: Request, group: Mapping[str, Any]
) -> Generator[Any, None, Entry]:
    group_id = group["group_id"]
    registry = services.registry
    if group["topics"] is None:
        gather: Gather[ShareOffsetsReply] = Gather()
        services.groups.submit(group_id, ShareOffsetsDescribe(gather.ticket(), group_id))
        yield from gather.rest()
        (reply,) = gather.replies
        if reply.error_code:
            return _error(group_id, reply.error_code, reply.error_message)
        wanted = [
            (name, list(partitions))
            for topic_id, partitions in reply.topics.items()
            if (name := registry.topic_name(topic_id)) is not None
        ]
    else:
        wanted = [(topic["topic_name"], topic["partitions"]) for topic in group["topics"]]
    hidden = yield from denied(services, request, _DESCRIBE_TOPIC, [name for name, _ in wanted])
    if group["topics"] is None:
        wanted = [(name, partitions) for name, partitions in wanted if name not in hidden]
    keys: dict[SharePartitionKey, None] = {}
    for name, partitions in wanted:
        if name not in hidden and (topic_id := registry.topic_id(name)) is not None:
            for partition in partitions:
                keys[SharePartitionKey(group_id, topic_id, partition)] = None
                yield None
        yield None
    assert services.share_offsets is not None
    reading = services.share_offsets.summarize(keys)
    yield reading
    states = reading.result()
    ends = yield from _high_watermarks(services, _places_of(registry, states))
    topics = request.array("groups", "topics")
    for name, partitions in wanted:
        topic_id = registry.topic_id(name)
        if name in hidden:
            entries = [_refused(partition) for partition in partitions]
        else:
            entries = yield from _partitions(group_id, name, topic_id, partitions, states, ends)
        shown_id = _NO_ID if topic_id is None or name in hidden else topic_id
        topics.append({"topic_name": name, "topic_id": shown_id, "partitions": entries})
        yield None
    return {"group_id": group_id, "topics": topics, "error_code": NONE, "error_message": None}


def _places_of(
    registry: Registry, states: Mapping[SharePartitionKey, StateReply]
) -> Iterator[Place]:
    """Yields the partitions whose lag can be computed from the stored state."""
    for key, reply in states.items():
        name = registry.topic_name(key.topic_id)
        if name is not None and _has_lag(reply.state):
            yield name, key.partition


def _high_watermarks(
    services: Services, places: Iterable[Place]
) -> Generator[Any, None, dict[Place, int]]:
    """Returns the high watermark of each partition.

    The high watermarks of partitions that other brokers lead come from ListOffsets requests. The
    result omits a partition whose leader does not respond.
    """
    found: dict[Place, int] = {}
    elsewhere: list[Place] = []
    for place in places:
        partition = services.logs.get(*place)
        if partition is not None and partition.serving_error(-1) == NONE:
            found[place] = partition.high_watermark
        else:
            elsewhere.append(place)
        yield None
    remote = services.remote_end_offsets
    if remote is not None and elsewhere:
        yield asyncio.ensure_future(remote.read(elsewhere))
        for place in elsewhere:
            ends = remote.ends(*place)
            if ends is not None:
                found[place] = ends.end
    return found


def _has_lag(state: StoredState | None) -> bool:
    """Returns True if the stored state has all values from which the lag is computed."""
    return (
        state is not None
        and state.start_offset != UNINITIALIZED_OFFSET
        and state.delivery_complete_count != _UNKNOWN_COUNT
    )


def _partitions(
    group_id: str,
    name: str,
    topic_id: bytes | None,
    partitions: Sequence[int],
    states: Mapping[SharePartitionKey, StateReply],
    ends: Mapping[Place, int],
) -> Generator[None, None, list[Entry]]:
    entries: list[Entry] = []
    for index in partitions:
        yield None
        reply = None
        if topic_id is not None:
            reply = states.get(SharePartitionKey(group_id, topic_id, index))
        state = None if reply is None else reply.state
        entry = {"partition_index": index, "error_code": NONE, "error_message": None}
        if state is None:
            entries.append(
                {**entry, "start_offset": UNINITIALIZED_OFFSET, "leader_epoch": 0, "lag": _NO_LAG}
            )
            continue
        lag = _NO_LAG
        end = ends.get((name, index))
        if end is not None and _has_lag(state):
            lag = end - state.start_offset - state.delivery_complete_count
        entries.append(
            {
                **entry,
                "start_offset": state.start_offset,
                "leader_epoch": state.leader_epoch,
                "lag": lag,
            }
        )
    return entries


def _refused(partition: int) -> Entry:
    return {
        "partition_index": partition,
        "start_offset": UNINITIALIZED_OFFSET,
        "leader_epoch": 0,
        "lag": _NO_LAG,
        "error_code": TOPIC_AUTHORIZATION_FAILED,
        "error_message": TEXTS[TOPIC_AUTHORIZATION_FAILED],
    }


def _error(group_id: str, error_code: int, message: str | None = None) -> Entry:
    return {
        "group_id": group_id,
        "topics": [],
        "error_code": error_code,
        "error_message": message or TEXTS.get(error_code),
    }


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights(each=_DESCRIBE, own=(_DESCRIBE_TOPIC,)))

"""OffsetFetch (9): the committed offsets of a group.

v0 reads ZooKeeper's consumer paths (`broker/apis/old_offsets.py`); v1 the log's offsets; v2 null
topics for all, and an error for the group; v3 throttle time; v5 leader epoch; v6 flexible; v7
require_stable (KIP-447); v8 many groups (KIP-709); v9 member id and epoch, which a classic group
ignores; v10 topic ids. With require_stable or without, an answer waits for every commit before it
(law 2).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis import old_offsets
from broker.apis.gather import Gather
from broker.net.needs import Rights, each_shown_topic, of_each
from broker.net.request import Request, ServedApi, Steps
from coordinator.calls import OffsetFetch
from coordinator.outcome import FetchReply
from protocol.errors import INVALID_REQUEST, UNKNOWN_TOPIC_ID
from protocol.generated.offset_fetch import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.offset_fetch import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services


OFFSETS_AT_ONCE = 2_500
"""Offsets of one call to a shard, which one topic may exceed: 1 ms. A topic counts as one more."""
ENCODED_AT_ONCE = 5_000
"""Offsets of an answer that is encoded in the loop's thread: 2 ms."""

Topics = Sequence[tuple[Any, Sequence[int]]]


def _handle(services: Services, request: Request) -> Steps | None:
    version = request.api_version
    if version == 0:
        return old_offsets.fetch(services, request)
    groups, require_stable = request.context or DECODE_REQUEST[version](
        request.buffer, request.position
    )
    if version < 10 and len(groups) == 1:
        group = groups[0]
        if _are_few(services, group[0], group[3]):
            request.context = group
            request.encode = _answer
            call = OffsetFetch(request, group[0], group[3], require_stable)
            services.groups.submit(group[0], call)
            return None
    return _in_pieces(services, request, groups, require_stable)


def _are_few(services: Services, group_id: str, topics: Topics | None) -> bool:
    """Whether one call may fetch so many offsets; all there are where no topics are named."""
    if topics is not None:
        return len(topics) + sum([len(topic[1]) for topic in topics]) <= OFFSETS_AT_ONCE
    view = services.groups.view_of(group_id)
    return view is None or not view.offsets.has_more_than(group_id, OFFSETS_AT_ONCE)


def _answer(request: Request, reply: FetchReply) -> None:
    group = request.context
    error_code = reply.error_code
    topics: Sequence[Any] = reply.topics
    if error_code and request.api_version < 2:
        # No place for a group's error: every partition says it.
        topics = [_no_offsets(topic, partitions, error_code) for topic, partitions in group[3]]
    frame = ENCODE_RESPONSE[request.api_version](
        request.correlation_id, 0, [(group[0], error_code, topics)]
    )
    request.complete(frame, error_code)


def _in_pieces(
    services: Services, request: Request, groups: list[Any], require_stable: bool
) -> Steps:
    """Many groups, or many topics, by calls of so many topics each."""
    gather: Gather[FetchReply] = Gather()
    calls: list[tuple[str, range, list[Any]]] = []
    seen: set[str] = set()
    twice: set[int] = set()
    for index, (group_id, _, _, asked) in enumerate(groups):
        if asked is None:
            if group_id in seen:  # Kafka repeats all of it, and no client asks so
                twice.add(index)
                calls.append((group_id, range(0), []))
                continue
            seen.add(group_id)
        topics: Topics | None = asked
        unknown: list[Any] = []
        if asked is not None and request.api_version >= 10:
            topics, unknown = yield from _named(services, asked)
        first = len(gather.replies)
        for piece in _pieces(services, group_id, topics):
            call = OffsetFetch(gather.ticket(), group_id, piece, require_stable)
            services.groups.submit(group_id, call)
            yield from gather.sent()
        calls.append((group_id, range(first, len(gather.replies)), unknown))
    yield from gather.rest()
    answered = []
    size = 0
    for number, (group_id, indexes, unknown) in enumerate(calls):
        replies = [gather.replies[index] for index in indexes]
        error_code = next((reply.error_code for reply in replies if reply.error_code), 0)
        if number in twice:
            error_code = INVALID_REQUEST
        found: list[Any] = []
        for reply in () if error_code else replies:
            found += _with_ids(services, request, reply.topics)
            size += sum([len(topic[1]) for topic in reply.topics])
            yield None
        answered.append((group_id, error_code, [] if error_code else found + unknown))
        size += 1 + len(unknown)
    request.complete_later(
        partial(ENCODE_RESPONSE[request.api_version], request.correlation_id, 0, answered),
        max((group[1] for group in answered), default=0),
        at_once=size <= ENCODED_AT_ONCE,
    )


def _pieces(services: Services, group_id: str, topics: Topics | None) -> Iterator[Topics | None]:
    """The topics of a call after the other; None for all, where these are not too many."""
    named: Iterator[tuple[Any, Sequence[int]]]
    if topics is not None:
        named = iter(topics)
    elif _are_few(services, group_id, None):
        yield None
        return
    else:
        named = _kept(services, group_id)
    piece: list[tuple[Any, Sequence[int]]] = []
    size = 0
    is_first = True
    for topic in named:
        more = 1 + len(topic[1])
        if piece and size + more > OFFSETS_AT_ONCE:
            yield piece
            piece, size, is_first = [], 0, False
        piece.append(topic)
        size += more
    if piece or is_first:
        yield piece


def _kept(services: Services, group_id: str) -> Iterator[tuple[str, Sequence[int]]]:
    """The topics and partitions in which a group has offsets, while its shard serves."""
    view = services.groups.view_of(group_id)
    for topic in () if view is None else list(view.offsets.topics(group_id)):
        yield topic, view.offsets.partitions(group_id, topic)


def _named(services: Services, topics: Topics) -> Generator[None, None, tuple[Topics, list[Any]]]:
    """v10: names for ids, and the answers to ids that are unknown: an error of each partition."""
    named: list[tuple[str, Sequence[int]]] = []
    unknown = []
    for topic_id, partitions in topics:
        topic = services.registry.topic_by_id(topic_id)
        if topic is None:
            unknown.append(_no_offsets(topic_id, partitions, UNKNOWN_TOPIC_ID))
        else:
            named.append((topic.name, partitions))
        yield None
    return named, unknown


def _with_ids(services: Services, request: Request, topics: Sequence[Any]) -> Sequence[Any]:
    """What was found as the encoder takes it; with ids from v10 on, where a topic without an id any
    more, whose offsets are still kept, is left out of "all topics", as in Kafka.
    """
    if request.api_version < 10:
        return topics
    registry = services.registry
    return [
        (known.topic_id, *topic[1:])
        for topic in topics
        if (known := registry.topic(topic[0])) is not None
    ]


def _no_offsets(topic: Any, partitions: Any, error_code: int) -> tuple[Any, ...]:
    nothing = [-1] * len(partitions)
    return (topic, partitions, nothing, nothing, None, error_code)


SERVED = ServedApi(
    API,
    0,
    10,
    _handle,
    decoders={version: DECODE_REQUEST[version] for version in range(1, 11)},
    rights=Rights(own=(of_each(ResourceType.GROUP, Operation.DESCRIBE), each_shown_topic())),
)

"""OffsetFetch (9): the committed offsets of a group.

v0 reads ZooKeeper's consumer paths (`shared/old_offsets.py`); v1 the log's offsets; v2 null topics
for all, and an error for the group; v3 throttle time; v5 leader epoch; v6 flexible; v7
require_stable (KIP-447); v8 many groups (KIP-709); v9 member id and epoch, which a consumer group
checks and a classic group ignores (KIP-848); v10 topic ids. With or without require_stable, a
response waits for every earlier commit (law 2).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence, Set
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared import old_offsets
from broker.apis.shared.authorization import are_known, denied, is_allowed
from broker.apis.shared.gather import Gather
from broker.apis.shared.old_offsets import DESCRIBE_GROUP, DESCRIBE_TOPIC
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights
from coordinator.calls import OffsetFetch
from coordinator.outcome import FetchReply
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)
from protocol.generated.offset_fetch import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.offset_fetch import API
from protocol.slotted import slotted

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


OFFSETS_AT_ONCE = 2_500
"""The most offsets that one call to a shard fetches, in 1 ms; each topic counts as one more offset.
A single topic may exceed the limit."""
ENCODED_AT_ONCE = 5_000
"""The most offsets of a response that the event loop's thread encodes, in 2 ms."""

Topics = Sequence[tuple[Any, Sequence[int]]]
_FIRST_WITH_GROUP_ERROR, _FIRST_WITH_IDS = 2, 10


@slotted(frozen=True)
class _Asked:
    """A group that a request names."""

    group_id: str
    topics: Topics | None
    """The topics as the request encodes them; None for all topics of the group."""
    replies: range = range(0)
    """The indexes of the replies that the coordinator sends for the group."""
    failed: Sequence[Any] = ()
    """The response entries for topics that no call fetches."""
    error_code: int = NONE
    """The error of a group that no call fetches."""


def _handle(services: Services, request: Request) -> Steps | None:
    version = request.api_version
    if version == 0:
        return old_offsets.fetch(services, request)
    groups, require_stable = request.context or DECODE_REQUEST[version](
        request.buffer, request.position
    )
    is_known = not services.authorizer.judges or _is_known(services, request, groups)
    if is_known and version < _FIRST_WITH_IDS and len(groups) == 1:
        group = groups[0]
        if _are_few(services, group[0], group[3]):
            request.context = group
            request.encode = _answer
            call = OffsetFetch(request, group[0], group[3], require_stable, *group[1:3])
            services.groups.submit(group[0], call)
            return None
    return _in_pieces(services, request, groups, require_stable)


def _is_known(services: Services, request: Request, groups: Sequence[Any]) -> bool:
    """True if the request has one group, and if the group and its topics are known to be
    allowed."""
    if len(groups) != 1 or request.api_version >= _FIRST_WITH_IDS:
        return False
    group_id, _, _, topics = groups[0]
    return (
        topics is not None
        and are_known(services, request, DESCRIBE_GROUP, (group_id,))
        and are_known(services, request, DESCRIBE_TOPIC, [topic[0] for topic in topics])
    )


def _are_few(services: Services, group_id: str, topics: Topics | None) -> bool:
    """True if one call may fetch the offsets of ``topics``; None means all topics of the group."""
    if topics is not None:
        return len(topics) + sum([len(topic[1]) for topic in topics]) <= OFFSETS_AT_ONCE
    view = services.groups.view_of(group_id)
    return view is None or not view.offsets.has_more_than(group_id, OFFSETS_AT_ONCE)


def _answer(request: Request, reply: FetchReply) -> None:
    group = request.context
    error_code = reply.error_code
    topics: Sequence[Any] = reply.topics
    if error_code and request.api_version < _FIRST_WITH_GROUP_ERROR:
        # The group's error has no field in this version, so every partition has it.
        topics = [_no_offsets(topic, partitions, error_code) for topic, partitions in group[3]]
    frame = ENCODE_RESPONSE[request.api_version](
        request.correlation_id, 0, [(group[0], error_code, topics)]
    )
    request.complete(frame, error_code)


def _in_pieces(
    services: Services, request: Request, groups: list[Any], require_stable: bool
) -> Steps:
    """Fetches many groups, or many topics, by calls of limited size.

    If a request selects all topics of a group, the response has only topics that the client may
    describe.
    """
    denied_groups = yield from denied(
        services, request, DESCRIBE_GROUP, (group[0] for group in groups)
    )
    denied_topics = yield from denied(
        services, request, DESCRIBE_TOPIC, _names(services, request, groups, denied_groups)
    )
    gather: Gather[FetchReply] = Gather()
    calls: list[_Asked] = []
    seen: set[str] = set()
    for group_id, member_id, member_epoch, asked in groups:
        if group_id in denied_groups:
            calls.append(_Asked(group_id, asked, error_code=GROUP_AUTHORIZATION_FAILED))
            yield None
            continue
        if asked is None:
            if group_id in seen:  # Kafka repeats the whole answer; no client names a group twice
                calls.append(_Asked(group_id, asked, error_code=INVALID_REQUEST))
                continue
            seen.add(group_id)
        topics: Topics | None = asked
        failed: list[Any] = []
        if asked is not None and (denied_topics or request.api_version >= _FIRST_WITH_IDS):
            topics, failed = yield from _named(services, request, asked, denied_topics)
        first = len(gather.replies)
        for piece in _pieces(services, group_id, topics):
            call = OffsetFetch(
                gather.ticket(), group_id, piece, require_stable, member_id, member_epoch
            )
            services.groups.submit(group_id, call)
            yield from gather.sent()
        calls.append(_Asked(group_id, asked, range(first, len(gather.replies)), failed))
    yield from gather.rest()
    answered = []
    size = 0
    for asked_group in calls:
        replies = [gather.replies[index] for index in asked_group.replies]
        answer = yield from _answered(services, request, asked_group, replies)
        answered.append(answer)
        size += 1 + sum(map(len, map(itemgetter(1), answer[2])))
    request.complete_later(
        partial(ENCODE_RESPONSE[request.api_version], request.correlation_id, 0, answered),
        max(map(itemgetter(1), answered), default=NONE),
        at_once=size <= ENCODED_AT_ONCE,
    )


def _answered(
    services: Services, request: Request, asked: _Asked, replies: Sequence[FetchReply]
) -> Generator[None, None, tuple[str, int, list[Any]]]:
    """Returns the group id, error code and topics of one group in the response."""
    yield None
    error_code = asked.error_code
    for reply in replies:
        error_code = error_code or reply.error_code
    found: list[Any] = []
    if error_code:
        if request.api_version < _FIRST_WITH_GROUP_ERROR:
            found = [_no_offsets(*topic, error_code) for topic in asked.topics or ()]
        return asked.group_id, error_code, found
    for reply in replies:
        shown = reply.topics
        if asked.topics is None and services.authorizer.judges:
            shown = yield from _shown(services, request, shown)
        found += _with_ids(services, request, shown)
        yield None
    return asked.group_id, error_code, [*found, *asked.failed]


def _pieces(services: Services, group_id: str, topics: Topics | None) -> Iterator[Topics | None]:
    """Yields the topics of each call; yields only None if one call may fetch all topics of the
    group."""
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
    """Yields the topics and partitions in which a group has offsets, if its shard is active."""
    view = services.groups.view_of(group_id)
    for topic in () if view is None else list(view.offsets.topics(group_id)):
        yield topic, view.offsets.partitions(group_id, topic)


def _name_of(services: Services, request: Request) -> Callable[[Any], str | None]:
    """Returns a function that finds the name of a topic from its name or id in the request; None
    for an unknown id."""
    return services.registry.topic_name if request.api_version >= _FIRST_WITH_IDS else str


def _names(
    services: Services, request: Request, groups: list[Any], denied_groups: Set[str]
) -> Iterator[str | None]:
    """Yields the named topics of groups that are not denied, and None where a step may end."""
    name_of = _name_of(services, request)
    for group_id, _, _, topics in groups:
        yield None
        if group_id not in denied_groups:
            for topic, _ in topics or ():
                yield name_of(topic)


def _named(
    services: Services, request: Request, topics: Topics, denied_topics: Set[str]
) -> Generator[None, None, tuple[Topics, list[Any]]]:
    """Returns the topics to fetch, by name, and the entries of unknown ids and denied topics."""
    name_of = _name_of(services, request)
    named: list[tuple[str, Sequence[int]]] = []
    unknown: list[Any] = []
    refused: list[Any] = []
    for key, partitions in topics:
        name = name_of(key)
        if name is None:
            unknown.append(_no_offsets(key, partitions, UNKNOWN_TOPIC_ID))
        elif name in denied_topics:
            refused.append(_no_offsets(key, partitions, TOPIC_AUTHORIZATION_FAILED))
        else:
            named.append((name, partitions))
        yield None
    return named, unknown + refused


def _shown(
    services: Services, request: Request, topics: Sequence[Any]
) -> Generator[None, None, Sequence[Any]]:
    """Returns the topics that the client may describe; the audit log omits other topics."""
    shown: list[Any] = []
    for topic in topics:
        if is_allowed(services, request, DESCRIBE_TOPIC, topic[0], is_logged=False):
            shown.append(topic)
        yield None
    return shown


def _with_ids(services: Services, request: Request, topics: Sequence[Any]) -> Sequence[Any]:
    """Returns the topics in the encoder's form: with ids from v10 on.

    As in Kafka, v10 omits a topic that no longer exists, and therefore has no id, even while its
    offsets still exist.
    """
    if request.api_version < _FIRST_WITH_IDS:
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
    rights=Rights(own=(DESCRIBE_GROUP, DESCRIBE_TOPIC)),
)

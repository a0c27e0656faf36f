"""OffsetFetch (9): the committed offsets of a group.

Versions: v0 reads the offsets that were committed with v0 (`shared/old_offsets.py`); later versions
read the offsets in the log. From v2 on, null selects all topics, and the response has an error code
for the group. v3 adds the throttle time; v5 adds the leader epoch; v6 is flexible; v7 adds
require_stable (KIP-447). From v8 on, a request names several groups (KIP-709). v9 adds member id
and epoch, which a consumer group checks and a classic group ignores (KIP-848). v10 has topic ids.

With or without require_stable, a response waits until every earlier commit is stable
(ARCHITECTURE.md, law 2).
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
"""The maximum number of offsets in one call to a shard, so that the call takes 1 ms. Each topic
counts like one offset. Only a call for a single topic may have more offsets."""
ENCODED_AT_ONCE = 5_000
"""The maximum number of offsets in a response that the event loop's thread encodes, in 2 ms.
Another thread encodes larger responses."""

Topics = Sequence[tuple[Any, Sequence[int]]]
_FIRST_WITH_GROUP_ERROR, _FIRST_WITH_IDS = 2, 10


@slotted(frozen=True)
class _Asked:
    """A group in the request, with the calls that fetch its offsets."""

    group_id: str
    topics: Topics | None
    """The requested topics as they are in the request; None for all topics of the group."""
    replies: range = range(0)
    """The positions of this group's replies in the list of the coordinator's replies for all
    groups."""
    failed: Sequence[Any] = ()
    """The response entries of topics that are not fetched: denied topics and unknown topic ids."""
    error_code: int = NONE
    """The error code of the group, if it is known without a call to the coordinator."""


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
    """Returns True if the request has one group, and the authorization cache allows the group and
    all its topics."""
    if len(groups) != 1 or request.api_version >= _FIRST_WITH_IDS:
        return False
    group_id, _, _, topics = groups[0]
    return (
        topics is not None
        and are_known(services, request, DESCRIBE_GROUP, (group_id,))
        and are_known(services, request, DESCRIBE_TOPIC, [topic[0] for topic in topics])
    )


def _are_few(services: Services, group_id: str, topics: Topics | None) -> bool:
    """Returns True if one call may fetch the offsets of ``topics``. None means all topics of the
    group."""
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
    """Fetches many groups, or many topics, by several calls of limited size.

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
    """Returns the response entry of one group: group id, error code and topics."""
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
    """Splits an OffsetFetch into calls to the coordinator, and yields the topics of each call.
    Yields None, which means all topics, if one call can fetch all topics of the group."""
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
    """Yields the topics, each with its partitions, for which a group has committed offsets. Yields
    nothing if the group's shard is not active."""
    view = services.groups.view_of(group_id)
    for topic in () if view is None else list(view.offsets.topics(group_id)):
        yield topic, view.offsets.partitions(group_id, topic)


def _name_of(services: Services, request: Request) -> Callable[[Any], str | None]:
    """Returns a function that converts a topic's key in the request (a name or an id) to the
    topic's name. The function returns None for an unknown id."""
    return services.registry.topic_name if request.api_version >= _FIRST_WITH_IDS else str


def _names(
    services: Services, request: Request, groups: list[Any], denied_groups: Set[str]
) -> Iterator[str | None]:
    """Yields each requested topic of the groups that are not denied, so that the caller can
    authorize the topics in slices. Also yields None before each group."""
    name_of = _name_of(services, request)
    for group_id, _, _, topics in groups:
        yield None
        if group_id not in denied_groups:
            for topic, _ in topics or ():
                yield name_of(topic)


def _named(
    services: Services, request: Request, topics: Topics, denied_topics: Set[str]
) -> Generator[None, None, tuple[Topics, list[Any]]]:
    """Returns the topics to fetch, by name, and the response entries of unknown topic ids and
    denied topics."""
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
    """Returns the topics that the client may describe. The audit log has no entries for the topics
    that the client may not describe."""
    shown: list[Any] = []
    for topic in topics:
        if is_allowed(services, request, DESCRIBE_TOPIC, topic[0], is_logged=False):
            shown.append(topic)
        yield None
    return shown


def _with_ids(services: Services, request: Request, topics: Sequence[Any]) -> Sequence[Any]:
    """Returns the topics in the form that the encoder needs: with ids in place of names from v10
    on.

    A deleted topic has no id. Therefore v10 omits it, as in Kafka, even while its offsets still
    exist.
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

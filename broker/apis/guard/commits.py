"""The topics of OffsetCommit and TxnOffsetCommit, from what the handler decodes anyway."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from broker.apis.guard.allowed_part import AllowedPart, DeniedElements
from broker.apis.guard.elements import with_elements
from broker.apis.guard.judging import BY_KEY, counted, denied_in_steps, permitted
from broker.net.needs import Each, EachCommitted
from broker.net.request import Handler, Request, Steps
from protocol.errors import TOPIC_AUTHORIZATION_FAILED
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from security.acls.model import ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer
    from security.acls.model import Operation

_TOPIC = ResourceType.TOPIC
_FIRST_WITH_IDS = 10
"""Of OffsetCommit."""


def with_commits(each: EachCommitted, inner: Handler, authorizer: Authorizer) -> Handler:
    """The handler, for the topics that the peer may have."""
    operation, by_key = each.operation, BY_KEY | each.operation
    old = with_elements(Each(operation, _TOPIC), inner, authorizer)

    def handle(services: Services, request: Request) -> Steps | None:
        decode = request.route.served.decoders.get(request.api_version)
        if decode is None:
            return old(services, request)
        decoded = request.context
        if decoded is None:
            decoded = request.context = decode(request.buffer, request.position)
        keys = [topic[0] for topic in decoded[-1]]
        known = permitted(authorizer, request.connection, by_key)
        if known.issuperset(keys):
            return inner(services, request)
        return _in_steps(services, request, keys, inner, authorizer, operation)

    return handle


def _names(services: Services, request: Request, topics: list[Any]) -> list[str | None]:
    """None for an id that no topic has: the handler says so."""
    if request.served.api.key == OFFSET_COMMIT.key and request.api_version >= _FIRST_WITH_IDS:
        return [services.registry.topic_name(topic[0]) for topic in topics]
    return [topic[0] for topic in topics]


def _in_steps(
    services: Services,
    request: Request,
    keys: list[Any],
    inner: Handler,
    authorizer: Authorizer,
    operation: Operation,
) -> Steps:
    names = _names(services, request, request.context[-1])
    wanted = yield from counted(names)
    denied = yield from denied_in_steps(authorizer, request, operation, _TOPIC, wanted)
    if not denied:
        known = permitted(authorizer, request.connection, BY_KEY | operation)
        for key, name in zip(keys, names, strict=True):
            if name is not None:
                known.keep(key)
    yield from inner(services, _part(services, request, names, denied) if denied else request) or ()


def _part(
    services: Services, request: Request, names: list[str | None], denied: Set[str]
) -> AllowedPart:
    decoded = request.context
    allowed: list[Any] = []
    refused: list[Any] = []
    key = "name"
    if request.served.api.key == OFFSET_COMMIT.key and request.api_version >= _FIRST_WITH_IDS:
        key = "topic_id"
    for topic, name in zip(decoded[-1], names, strict=True):
        (refused if name in denied else allowed).append(topic)
    return AllowedPart(
        services,
        request,
        context=(*decoded[:-1], allowed),
        denied=DeniedElements("topics", _Entries(key, refused), TOPIC_AUTHORIZATION_FAILED),
    )


class _Entries:
    """What the answer says of topics that were denied; made where they are encoded."""

    def __init__(self, key: str, topics: list[Any]) -> None:
        self._key = key
        self._topics = topics

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for topic in self._topics:
            partitions = [
                {"partition_index": index, "error_code": TOPIC_AUTHORIZATION_FAILED}
                for index in topic[1]
            ]
            yield {self._key: topic[0], "partitions": partitions}

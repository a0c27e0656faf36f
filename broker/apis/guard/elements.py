"""What a request needs of each of its elements: the allowed are handled, the denied refused."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.apis.guard.allowed_part import AllowedPart, DeniedElements
from broker.apis.guard.denials import denied_entries
from broker.apis.guard.judging import (
    counted,
    denied_in_steps,
    may,
    permitted,
    right_of,
)
from broker.net.needs import DENIED, Each, EachResource
from broker.net.request import Handler, Request, Steps
from broker.topics.registry import BadTopicName, check_topic_name
from security.acls.model import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

MADE_AT_ONCE_BYTES = 4096
"""Of a request up to this the entries of what is denied are made in the loop's thread."""

_BROKER = 4
_RESOURCES = {
    2: ResourceType.TOPIC,
    _BROKER: ResourceType.CLUSTER,
    8: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
"""The types of resources that have settings: topic, broker, its logger, client metrics, group."""


class Asked(NamedTuple):
    """The elements of a request as they are judged."""

    value: Mapping[str, Any]
    elements: str
    places: list[tuple[ResourceType, str] | None]
    """What each element is; None for one that is left to the handler."""
    by_kind: dict[ResourceType, dict[str, int]]
    """How often each resource is named."""


def with_elements(each: Each | EachResource, inner: Handler, authorizer: Authorizer) -> Handler:
    """The handler, for the elements that the peer may have."""

    plain = each if isinstance(each, Each) else None
    unless = None if plain is None else plain.unless
    of = right_of(each.operation, each.kind) if isinstance(each, Each) else -1

    def handle(services: Services, request: Request) -> Steps | None:
        if unless is not None and may(authorizer, request, unless):
            return inner(services, request)
        if plain is not None:
            known = permitted(authorizer, request.connection, of)
            if known.issuperset(_keys(plain, request.value[plain.elements])):
                return inner(services, request)
        return _in_steps(services, request, each, inner, authorizer)

    return handle


def _asked(each: Each | EachResource, request: Request) -> Generator[None, None, Asked]:
    """What is judged, and how often each is named; a pause after each element."""
    value = request.value
    elements = "resources" if isinstance(each, EachResource) else each.elements
    found = value[elements]
    times: Mapping[Any, int] = {}
    if each.skips_duplicates:
        times = yield from counted(_keys(each, found))
    asked = Asked(value, elements, [], {})
    for key, element in zip(_keys(each, found), found, strict=True):
        is_handlers = times.get(key, 1) > 1 or _is_public(each, element)
        place = None if is_handlers else _place(each, key)
        asked.places.append(place)
        if place is not None:
            names = asked.by_kind.setdefault(place[0], {})
            names[place[1]] = names.get(place[1], 0) + 1
        yield None
    return asked


def _keys(each: Each | EachResource, elements: list[Any]) -> Iterator[Any]:
    """The key of each element: its name, or resource type and name."""
    if isinstance(each, EachResource):
        return map(itemgetter("resource_type", "resource_name"), elements)
    return map(itemgetter(each.name), elements) if each.name else iter(elements)


def _is_public(each: Each | EachResource, element: Any) -> bool:
    """Whether nothing is asked for but settings of a broker that everybody may read."""
    if not isinstance(each, EachResource) or not each.public:
        return False
    if element["resource_type"] != _BROKER:
        return False
    names = element["configuration_keys"]
    return bool(names) and each.public.issuperset(names)


def _place(each: Each | EachResource, key: Any) -> tuple[ResourceType, str] | None:
    if isinstance(each, EachResource):
        kind, name = _RESOURCES.get(key[0]), key[1]
        if kind is None:
            return None
        return kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else name
    return None if each.skips_bad_names and _is_bad(key) else (each.kind, key)


def _is_bad(name: str) -> bool:
    try:
        check_topic_name(name)
    except BadTopicName:
        return True
    return False


def _in_steps(
    services: Services,
    request: Request,
    each: Each | EachResource,
    inner: Handler,
    authorizer: Authorizer,
) -> Steps:
    asked = yield from _asked(each, request)
    denied: dict[ResourceType, Set[str]] = {}
    for kind, names in asked.by_kind.items():
        denied[kind] = yield from denied_in_steps(authorizer, request, each.operation, kind, names)
    if any(denied.values()):
        yield from _partly(services, request, each, asked, denied, inner)
    else:
        yield from inner(services, request) or ()


def _partly(
    services: Services,
    request: Request,
    each: Each | EachResource,
    asked: Asked,
    denied: Mapping[ResourceType, Set[str]],
    inner: Handler,
) -> Steps:
    """Has the handler answer for what is allowed."""
    value, elements, places, _ = asked
    allowed: list[Any] = []
    refused: dict[int, list[Any]] = {}
    for element, place in zip(value[elements], places, strict=True):
        if place is not None and place[1] in denied[place[0]]:
            refused.setdefault(DENIED[place[0]], []).append(element)
        else:
            allowed.append(element)
        yield None
    entries = yield from entries_of(services, request, value, elements, refused)
    part = AllowedPart(
        services,
        request,
        value={**value, elements: allowed},
        denied=DeniedElements(
            each.answers or elements,
            entries,
            next(iter(refused)),
            is_first=isinstance(each, Each) and each.is_first,
        ),
    )
    yield from inner(services, part) or ()


def entries_of(
    services: Services,
    request: Request,
    value: Mapping[str, Any],
    elements: str,
    refused: Mapping[int, list[Any]],
) -> Generator[asyncio.Future[Any] | None, None, list[dict[str, Any]]]:
    """The entries of refused elements, by error code; those of a large request by the worker."""

    def made() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for error_code, each in refused.items():
            found += denied_entries(request, value, elements, each, error_code)
        return found

    if len(request.buffer) - request.position <= MADE_AT_ONCE_BYTES:
        return made()
    making = asyncio.ensure_future(services.worker.run(request.connection, made))
    yield making
    return making.result()

"""What a request needs of each of its elements: the allowed are handled, the denied refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.apis.guard.allowed_part import AllowedPart, DeniedElements
from broker.apis.guard.denials import denied_entries
from broker.apis.guard.judging import (
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

SORTED_AT_ONCE = 2000
"""Elements told apart by what was decided, in less than a millisecond."""

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


def with_elements(each: Each | EachResource, inner: Handler, authorizer: Authorizer) -> Handler:
    """The handler, for the elements that the peer may have."""

    plain = each if isinstance(each, Each) else None
    unless = None if plain is None else plain.unless
    of = right_of(each.operation, each.kind) if isinstance(each, Each) else -1

    def handle(services: Services, request: Request) -> Steps | None:
        if unless is not None and may(authorizer, request, unless):
            return inner(services, request)
        if plain is not None:
            found, field = request.value[plain.elements], plain.name
            names = [element[field] for element in found] if field else found
            if permitted(authorizer, request.connection, of).issuperset(names):
                return inner(services, request)
        return _in_steps(services, request, each, inner, authorizer)

    return handle


def _asked(each: Each | EachResource, request: Request) -> Asked:
    value = request.value
    if isinstance(each, EachResource):
        found = value["resources"]
        places: list[tuple[ResourceType, str] | None] = [
            None if _is_public(element, each.public) else _resource(element) for element in found
        ]
        keys = [(element["resource_type"], element["resource_name"]) for element in found]
        if each.skips_duplicates:
            _skip_duplicates(keys, places)
        return Asked(value, "resources", places)
    names = [element[each.name] if each.name else element for element in value[each.elements]]
    places = [(each.kind, name) for name in names]
    if each.skips_duplicates:
        _skip_duplicates(names, places)
    if each.skips_bad_names:
        places = [
            None if _is_bad(name) else place for name, place in zip(names, places, strict=True)
        ]
    return Asked(value, each.elements, places)


def _is_public(element: Mapping[str, Any], public: frozenset[str]) -> bool:
    """Whether nothing is asked for but settings of a broker that everybody may read."""
    if not public or element["resource_type"] != _BROKER:
        return False
    names = element["configuration_keys"]
    return bool(names) and public.issuperset(names)


def _resource(element: Mapping[str, Any]) -> tuple[ResourceType, str] | None:
    kind = _RESOURCES.get(element["resource_type"])
    if kind is None:
        return None
    return kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else element["resource_name"]


def _skip_duplicates(keys: list[Any], places: list[tuple[ResourceType, str] | None]) -> None:
    times = Counter(keys)
    for number, key in enumerate(keys):
        if times[key] > 1:
            places[number] = None


def _is_bad(name: str) -> bool:
    try:
        check_topic_name(name)
    except BadTopicName:
        return True
    return False


def _by_kind(asked: Asked) -> dict[ResourceType, Counter[str]]:
    found: dict[ResourceType, Counter[str]] = {}
    for place in asked.places:
        if place is not None:
            found.setdefault(place[0], Counter())[place[1]] += 1
    return found


def _in_steps(
    services: Services,
    request: Request,
    each: Each | EachResource,
    inner: Handler,
    authorizer: Authorizer,
) -> Steps:
    asked = _asked(each, request)
    yield None
    by_kind = _by_kind(asked)
    yield None
    denied = set()
    for kind, names in by_kind.items():
        found = yield from denied_in_steps(authorizer, request, each.operation, kind, names)
        denied |= {(kind, name) for name in found}
    if denied:
        yield from _partly(services, request, each, asked, denied, inner)
    else:
        steps = inner(services, request)
        if steps is not None:
            yield from steps


def _partly(
    services: Services,
    request: Request,
    each: Each | EachResource,
    asked: Asked,
    denied: set[tuple[ResourceType, str]],
    inner: Handler,
) -> Steps:
    """Has the handler answer for what is allowed."""
    value, elements, places = asked
    allowed: list[Any] = []
    refused: dict[int, list[Any]] = {}
    for number, (element, place) in enumerate(zip(value[elements], places, strict=True), 1):
        if place in denied:
            assert place is not None
            refused.setdefault(DENIED[place[0]], []).append(element)
        else:
            allowed.append(element)
        if number % SORTED_AT_ONCE == 0:
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
    steps = inner(services, part)
    if steps is not None:
        yield from steps


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

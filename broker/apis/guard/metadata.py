"""Metadata and DescribeTopicPartitions: topics by name, by id, or all that the peer may see.

Of all topics those are left out that the peer may not describe, and nobody hears of it. A topic
that was named gets TOPIC_AUTHORIZATION_FAILED whether or not it exists; so does one that would have
to be created by who may not.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.authorized import NOT_ASKED
from broker.apis.guard.allowed_part import AllowedPart, DeniedElements
from broker.apis.guard.judging import (
    counted,
    denied_in_steps,
    may,
    own_denied_in_steps,
    permitted,
    right_of,
)
from broker.apis.guard.shown import CLUSTER_BITS, cluster_bits, own_shows
from broker.net.needs import Rights, Tells
from broker.net.request import Handler, Request, Steps
from broker.topics.registry import INTERNAL_TOPICS
from protocol.errors import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_WANTS_CLUSTER_BITS = "include_cluster_authorized_operations"
_TOPIC_BITS = "topic_authorized_operations"
_FIRST_WITH_CLUSTER_BITS, _LAST_WITH_CLUSTER_BITS = 8, 10

Entry = dict[str, Any]


class _Guard:
    """Who decides, and what Metadata asks for."""

    __slots__ = (
        "authorizer",
        "create",
        "create_any",
        "describe",
        "of_cluster",
        "of_topic",
        "right",
    )

    def __init__(self, authorizer: Authorizer, rights: Rights) -> None:
        self.authorizer = authorizer
        self.describe, self.create = rights.own
        assert self.create.unless is not None
        self.create_any = self.create.unless
        self.right = right_of(self.describe.operation, self.describe.kind)
        self.of_topic, self.of_cluster = rights.tells


def metadata(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """See the module."""
    guard = _Guard(authorizer, rights)

    def handle(services: Services, request: Request) -> Steps | None:
        value, version = request.value, request.api_version
        asked = value["topics"]
        if asked is None or (version == 0 and not asked):
            shown = own_shows(authorizer, request, guard.describe, "name")
            return inner(services, _told(services, request, guard, keeps=shown))
        if 10 <= version < 12 and any(
            entry["name"] is None or entry["topic_id"] != ZERO_UUID for entry in asked
        ):
            return inner(services, request)  # every entry is refused
        if _is_known(services, request, guard):
            return inner(services, request)
        return _in_steps(services, request, inner, guard)

    return handle


def _is_known(services: Services, request: Request, guard: _Guard) -> bool:
    """Whether the request names topics that are there and were allowed before, and no more."""
    value = request.value
    if value["include_topic_authorized_operations"] or value[_WANTS_CLUSTER_BITS]:
        return False
    known = permitted(guard.authorizer, request.connection, guard.right)
    topics = services.registry.topics
    return all(
        (name := entry["name"]) in known and name in topics and entry["topic_id"] == ZERO_UUID
        for entry in value["topics"]
    )


def _in_steps(
    services: Services,
    request: Request,
    inner: Handler,
    guard: _Guard,
) -> Steps:
    ids = yield from counted(entry["topic_id"] for entry in request.value["topics"])
    judge = _judged_ids if ids.keys() - {ZERO_UUID} else _judged_names
    denied = yield from judge(services, request, guard)
    part = yield from _part(services, request, denied, guard)
    yield from inner(services, part) or ()


def _judged_ids(
    services: Services, request: Request, guard: _Guard
) -> Generator[None, None, list[Entry]]:
    """The entries of what is denied; ids that nobody has are left to the handler."""
    registry = services.registry
    names: dict[bytes, str] = {}
    for entry in request.value["topics"]:
        topic_id = entry["topic_id"]
        if topic_id != ZERO_UUID and (name := registry.topic_name(topic_id)) is not None:
            names[topic_id] = name
        yield None
    wanted = yield from counted(names.values())
    denied = yield from own_denied_in_steps(guard.authorizer, request, guard.describe, wanted)
    entries = []
    for topic_id, name in names.items():
        if name in denied:
            entries.append(_denied(None, topic_id))
        yield None
    return entries


def _judged_names(
    services: Services, request: Request, guard: _Guard
) -> Generator[None, None, list[Entry]]:
    """The entries of what may not be described, or may not be created."""
    value = request.value
    names = yield from counted(entry["name"] for entry in value["topics"])
    authorizer = guard.authorizer
    denied = yield from own_denied_in_steps(authorizer, request, guard.describe, names)
    entries = yield from _entries(names, denied)
    if value["allow_auto_topic_creation"] and services.config["auto.create.topics.enable"]:
        topics = services.registry.topics
        new: dict[str, int] = {}
        for name in names:
            if name not in denied and name not in topics:
                new[name] = 1
            yield None
        if new and not may(authorizer, request, guard.create_any):
            for name in (yield from own_denied_in_steps(authorizer, request, guard.create, new)):
                entries.append({**_denied(name), "is_internal": name in INTERNAL_TOPICS})
                yield None
    return entries


def _entries(names: Iterable[str], denied: Set[str]) -> Generator[None, None, list[Entry]]:
    """The entries of those names that are denied."""
    entries = []
    for name in names:
        if name in denied:
            entries.append(_denied(name))
        yield None
    return entries


def _denied(name: str | None, topic_id: bytes = ZERO_UUID) -> Entry:
    return {
        "error_code": TOPIC_AUTHORIZATION_FAILED,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        _TOPIC_BITS: NOT_ASKED,
    }


def _part(
    services: Services, request: Request, denied: Sequence[Entry], guard: _Guard
) -> Generator[None, None, Request]:
    """The request without what is denied."""
    if not denied:
        return _told(services, request, guard)
    names: set[str | None] = set()
    ids: set[bytes] = set()
    for entry in denied:
        names.add(entry["name"])
        ids.add(entry["topic_id"])
        yield None
    by_name = ids == {ZERO_UUID}
    asked = []
    for entry in request.value["topics"]:
        topic_id = entry["topic_id"]
        if topic_id not in ids if topic_id != ZERO_UUID else by_name and entry["name"] not in names:
            asked.append(entry)
        yield None
    return _told(services, request, guard, denied=denied, asked=asked)


def _told(
    services: Services,
    request: Request,
    guard: _Guard,
    *,
    keeps: Any = None,
    denied: Sequence[Entry] = (),
    asked: Any = None,
) -> Request:
    """The request as its handler gets it: itself, where its answer stays as it is."""
    value = request.value
    wants_bits = value["include_topic_authorized_operations"]
    wants_cluster_bits = (
        value[_WANTS_CLUSTER_BITS]
        and _FIRST_WITH_CLUSTER_BITS <= request.api_version <= _LAST_WITH_CLUSTER_BITS
    )
    if not (keeps or denied or wants_bits or wants_cluster_bits):
        return request
    none_left = denied and not asked  # to version 0 a request for nothing asks for all
    bits = NOT_ASKED
    if wants_cluster_bits:
        bits = cluster_bits(guard.authorizer, request, guard.of_cluster)

    def kept(entry: Entry) -> bool:
        if none_left or (keeps is not None and not keeps(entry)):
            return False
        if wants_bits and entry["name"] is not None and entry["error_code"] != UNKNOWN_TOPIC_ID:
            entry[_TOPIC_BITS] = _bits(guard.authorizer, request, guard.of_topic, entry["name"])
        return True

    def told(answer: dict[str, Any]) -> None:
        answer[CLUSTER_BITS] = bits

    return AllowedPart(
        services,
        request,
        value={**value, "topics": asked} if denied else None,
        denied=DeniedElements("topics", denied, TOPIC_AUTHORIZATION_FAILED) if denied else None,
        keeps=(("topics",), kept),
        finish=told,
    )


def _bits(authorizer: Authorizer, request: Request, tells: Tells, name: str) -> int:
    return authorizer.operations(request.connection, tells.kind, name)


def describe_topic_partitions(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """DescribeTopicPartitions; the answer to a request for all topics goes on behind a cursor,
    which must not name a topic that is hidden: such a request names what the peer may see."""
    (describe,), (tells,) = rights.own, rights.tells

    def handle(services: Services, request: Request) -> Steps:
        value = request.value
        names = list(map(itemgetter("name"), value["topics"]))
        is_all = not names
        cursor = value["cursor"]
        if cursor is not None and (
            cursor["partition_index"] < 0 or not (is_all or cursor["topic_name"] in names)
        ):
            yield from inner(services, request) or ()  # refused, whoever asks
            return
        if is_all:
            names = list(services.registry.topics)
        if cursor is not None:
            names = [name for name in names if name >= cursor["topic_name"]]
        denied = yield from denied_in_steps(
            authorizer,
            request,
            describe.operation,
            describe.kind,
            (yield from counted(names)),
            is_logged=not is_all,
        )
        seen = []
        for name in names:
            if name not in denied:
                seen.append({"name": name})
            yield None
        if cursor is not None and {"name": cursor["topic_name"]} not in seen:
            cursor = None
        entries: list[Entry] = []
        if not is_all:
            entries = yield from _entries(dict.fromkeys(names), denied)
        part = AllowedPart(
            services,
            request,
            value={**value, "topics": seen, "cursor": cursor},
            denied=DeniedElements("topics", entries, TOPIC_AUTHORIZATION_FAILED)
            if entries
            else None,
            keeps=(("topics",), _with_bits(authorizer, request, tells)),
        )
        if not seen:
            part.respond({"topics": part.array("topics"), "next_cursor": None})
            return
        yield from inner(services, part) or ()

    return handle


def _with_bits(authorizer: Authorizer, request: Request, tells: Tells) -> Any:
    def kept(entry: Entry) -> bool:
        entry[_TOPIC_BITS] = _bits(authorizer, request, tells, entry["name"])
        return True

    return kept

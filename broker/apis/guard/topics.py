"""CreateTopics and DeleteTopics: a right of the cluster or of each topic, and what is echoed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Set
from typing import TYPE_CHECKING, Any

from broker.apis.guard.allowed_part import AllowedPart, DeniedElements
from broker.apis.guard.judging import counted, may, own_denied_in_steps
from broker.net.needs import Rights
from broker.net.request import Handler, Request, Steps
from protocol.errors import NONE, TOPIC_AUTHORIZATION_FAILED
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_FIRST_WITH_IDS = 6
_MESSAGE = "Authorization failed."


def create_topics(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """CreateTopics: one that is named twice is told that first; the settings of a new topic are
    shown to who may describe them."""
    create, describe_configs = rights.own
    assert create.unless is not None
    create_any = create.unless

    def handle(services: Services, request: Request) -> Steps:
        value = request.value
        times = yield from counted(topic["name"] for topic in value["topics"])
        single: dict[str, int] = {}
        for name, count in times.items():
            if count == 1:
                single[name] = 1
            yield None
        denied: Set[str] = frozenset()
        if not may(authorizer, request, create_any):
            denied = yield from own_denied_in_steps(authorizer, request, create, single)
        hidden = yield from own_denied_in_steps(authorizer, request, describe_configs, single)
        if not denied and not hidden:
            part: Request = request
        else:
            part = yield from _created(services, request, denied, hidden)
        yield from inner(services, part) or ()

    return handle


def _created(
    services: Services, request: Request, denied: Set[str], hidden: Set[str]
) -> Generator[None, None, AllowedPart]:
    value = request.value
    asked: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for topic in value["topics"]:
        if topic["name"] in denied:
            entries.append(
                {
                    "name": topic["name"],
                    "topic_id": ZERO_UUID,
                    "error_code": TOPIC_AUTHORIZATION_FAILED,
                    "error_message": _MESSAGE,
                    "configs": [],
                }
            )
        else:
            asked.append(topic)
        yield None

    def echoed(entry: dict[str, Any]) -> bool:
        if entry["error_code"] == NONE and entry["name"] in hidden:
            entry |= {
                "topic_config_error_code": TOPIC_AUTHORIZATION_FAILED,
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        return True

    return AllowedPart(
        services,
        request,
        value={**value, "topics": asked},
        denied=DeniedElements("topics", entries, TOPIC_AUTHORIZATION_FAILED) if entries else None,
        keeps=(("topics",), echoed),
    )


def delete_topics(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """DeleteTopics, as Kafka without ZooKeeper judges it.

    By id: an unknown one is told so; without DESCRIBE the name is kept back. By name: without
    DESCRIBE nobody hears whether it exists; with it, a topic that is absent is told so before the
    lack of DELETE.
    """
    delete, describe = rights.own
    assert delete.unless is not None
    delete_any = delete.unless

    def handle(services: Services, request: Request) -> Steps:
        if may(authorizer, request, delete_any) or not services.config["delete.topic.enable"]:
            yield from inner(services, request) or ()
        else:
            targets = yield from _targets(services, request)
            names = yield from counted(name for _, _, name in targets.values())
            undescribed = yield from own_denied_in_steps(authorizer, request, describe, names)
            undeleted = yield from own_denied_in_steps(authorizer, request, delete, names)
            part = yield from _deleted(services, request, targets, undescribed, undeleted)
            yield from inner(services, part) or ()

    return handle


_Targets = dict[int, tuple[str | None, bytes, str]]
"""By its number in the request: the name and id as asked for, and the name of what is meant."""


def _targets(services: Services, request: Request) -> Generator[None, None, _Targets]:
    """What is to be judged: the handler answers for what is asked for wrongly or twice."""
    value = request.value
    asked: Iterator[tuple[str | None, bytes]]
    if request.api_version >= _FIRST_WITH_IDS:
        asked = ((topic["name"], topic["topic_id"]) for topic in value["topics"])
    else:
        asked = ((name, ZERO_UUID) for name in value["topic_names"])
    found: _Targets = {}
    for number, (name, topic_id) in enumerate(asked):
        yield None
        if (name is None) == (topic_id == ZERO_UUID):
            continue
        meant = services.registry.topic_name(topic_id) if name is None else name
        if meant is not None:
            found[number] = (name, topic_id, meant)
    times = yield from counted(meant for _, _, meant in found.values())
    single: _Targets = {}
    for number, each in found.items():
        if times[each[2]] == 1:
            single[number] = each
        yield None
    return single


def _deleted(
    services: Services,
    request: Request,
    targets: _Targets,
    undescribed: Set[str],
    undeleted: Set[str],
) -> Generator[None, None, Request]:
    entries: dict[int, dict[str, Any]] = {}
    for number, (name, topic_id, meant) in targets.items():
        yield None
        shown = name
        if name is None:
            if meant not in undeleted:
                continue
            shown = None if meant in undescribed else meant
        elif meant not in undescribed and (
            meant not in undeleted or services.registry.topic(meant) is None
        ):
            continue
        entries[number] = {
            "name": shown,
            "topic_id": topic_id,
            "error_code": TOPIC_AUTHORIZATION_FAILED,
            "error_message": "Topic authorization failed.",
        }
    if not entries:
        return request
    field = "topics" if request.api_version >= _FIRST_WITH_IDS else "topic_names"
    value = request.value
    left: list[Any] = []
    for number, each in enumerate(value[field]):
        if number not in entries:
            left.append(each)
        yield None
    return AllowedPart(
        services,
        request,
        value={**value, field: left},
        denied=DeniedElements("responses", list(entries.values()), TOPIC_AUTHORIZATION_FAILED),
    )

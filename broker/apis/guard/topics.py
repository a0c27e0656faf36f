"""CreateTopics and DeleteTopics: a right of the cluster or of each topic, and what is echoed."""

from __future__ import annotations

from collections import Counter
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
        times = Counter(topic["name"] for topic in value["topics"])
        single = {name: 1 for name, count in times.items() if count == 1}
        denied: frozenset[str] = frozenset()
        if not may(authorizer, request, create_any):
            denied = yield from own_denied_in_steps(authorizer, request, create, single)
        hidden = yield from own_denied_in_steps(authorizer, request, describe_configs, single)
        if not denied and not hidden:
            part: Request = request
        else:
            part = _created(services, request, denied, hidden)
        steps = inner(services, part)
        if steps is not None:
            yield from steps

    return handle


def _created(
    services: Services, request: Request, denied: frozenset[str], hidden: frozenset[str]
) -> AllowedPart:
    value = request.value
    entries = [
        {
            "name": topic["name"],
            "topic_id": ZERO_UUID,
            "error_code": TOPIC_AUTHORIZATION_FAILED,
            "error_message": _MESSAGE,
            "configs": [],
        }
        for topic in value["topics"]
        if topic["name"] in denied
    ]

    def echoed(entry: dict[str, Any]) -> bool:
        if entry["error_code"] == NONE and entry["name"] in hidden:
            entry |= {
                "topic_config_error_code": TOPIC_AUTHORIZATION_FAILED,
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        return True

    asked = [topic for topic in value["topics"] if topic["name"] not in denied]
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
        steps: Steps | None
        if may(authorizer, request, delete_any) or not services.config["delete.topic.enable"]:
            steps = inner(services, request)
        else:
            targets = _targets(services, request)
            names = counted(name for _, _, name in targets.values())
            undescribed = yield from own_denied_in_steps(authorizer, request, describe, names)
            undeleted = yield from own_denied_in_steps(authorizer, request, delete, names)
            steps = inner(services, _deleted(services, request, targets, undescribed, undeleted))
        if steps is not None:
            yield from steps

    return handle


_Targets = dict[int, tuple[str | None, bytes, str]]
"""By its number in the request: the name and id as asked for, and the name of what is meant."""


def _targets(services: Services, request: Request) -> _Targets:
    """What is to be judged: the handler answers for what is asked for wrongly or twice."""
    value = request.value
    if request.api_version >= _FIRST_WITH_IDS:
        asked = [(topic["name"], topic["topic_id"]) for topic in value["topics"]]
    else:
        asked = [(name, ZERO_UUID) for name in value["topic_names"]]
    found: _Targets = {}
    for number, (name, topic_id) in enumerate(asked):
        if (name is None) == (topic_id == ZERO_UUID):
            continue
        meant = services.registry.topic_name(topic_id) if name is None else name
        if meant is not None:
            found[number] = (name, topic_id, meant)
    times = Counter(meant for _, _, meant in found.values())
    return {number: each for number, each in found.items() if times[each[2]] == 1}


def _deleted(
    services: Services,
    request: Request,
    targets: _Targets,
    undescribed: frozenset[str],
    undeleted: frozenset[str],
) -> Request:
    entries: dict[int, dict[str, Any]] = {}
    for number, (name, topic_id, meant) in targets.items():
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
    left = [each for number, each in enumerate(value[field]) if number not in entries]
    return AllowedPart(
        services,
        request,
        value={**value, field: left},
        denied=DeniedElements("responses", list(entries.values()), TOPIC_AUTHORIZATION_FAILED),
    )

"""DescribeConfigs (32): settings of topics, groups and this broker.

Versions: v0 marks defaults; v1 the source and the synonyms of each setting; v3 type and
documentation; v4 flexible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, split_resources
from broker.apis.shared.error_message import shortened
from broker.config.described_configs import (
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import EachResource, Rights
from broker.topics.config_changes import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    wrong_broker,
)
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.describe_configs import API
from protocol.topic_names import BadTopicName, check_topic_name
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = EachResource(Operation.DESCRIBE_CONFIGS)
PUBLIC = frozenset({"http.listener", "http.advertised.listener", "http.security.protocol"})
"""The broker settings that every client may read: the address of the HTTP listener, which
authenticates its clients itself. Kafka has no such settings.
"""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    resources, denied = yield from split_resources(
        services, request, _DESCRIBE, value["resources"], _is_public
    )
    results = request.array("results")
    worst = NONE
    seen: set[tuple[int, str]] = set()
    for resource in resources:
        kind, name = resource["resource_type"], resource["resource_name"]
        error_code, message, entries = _describe(services, kind, name)
        if (kind, name) in seen:
            # Kafka repeats the whole answer; no client names a resource twice.
            error_code, message, entries = (
                INVALID_REQUEST,
                "The resource is named twice in this request.",
                (),
            )
        seen.add((kind, name))
        worst = worst or error_code
        keys = resource["configuration_keys"]
        wanted = None if not keys else frozenset(keys)
        configs = request.array("results", "configs")
        for entry in entries:
            if wanted is None or entry["name"] in wanted:
                configs.append(_shown(entry, value))
            yield None
        results.append(
            {
                "error_code": error_code,
                "error_message": None if message is None else shortened(message),
                "resource_type": kind,
                "resource_name": name,
                "configs": configs,
            }
        )
        yield None
    for code, refused in denied.items():
        worst = worst or code
        for resource in refused:
            results.append(
                {
                    **error_fields(code),
                    "resource_type": resource["resource_type"],
                    "resource_name": resource["resource_name"],
                }
            )
            yield None
    request.respond({"results": results}, worst)


def _is_public(resource: dict[str, Any]) -> bool:
    """Returns True if the request names only broker settings in `PUBLIC`."""
    names = resource["configuration_keys"]
    is_broker = resource["resource_type"] == BROKER_RESOURCE
    return is_broker and bool(names) and PUBLIC.issuperset(names)


def _describe(
    services: Services, kind: int, name: str
) -> tuple[int, str | None, Iterable[dict[str, Any]]]:
    if kind == TOPIC_RESOURCE:
        try:
            check_topic_name(name)
        except BadTopicName as error:
            return INVALID_TOPIC_EXCEPTION, str(error), ()
        topic = services.registry.topic(name)
        if topic is None:
            return UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} does not exist.", ()
        return NONE, None, topic_entries(services.config, topic.configs)
    if kind == BROKER_RESOURCE:
        if not name:
            return NONE, None, cluster_entries(services.config)
        problem = wrong_broker(str(services.registry.node_id), name)
        if problem:
            return INVALID_REQUEST, problem, ()
        return NONE, None, broker_entries(services.config, services.advertised.http)
    if kind == GROUP_RESOURCE:
        if not name:
            return INVALID_REQUEST, "Default group resources are not allowed.", ()
        own = services.registry.group_configs.get(name, {})
        return NONE, None, group_entries(services.config, own)
    return INVALID_REQUEST, f"Resources of type {kind} have no configs on this broker.", ()


def _shown(entry: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    shown = dict(entry)
    if not asked["include_synonyms"]:
        shown["synonyms"] = []
    if not asked["include_documentation"]:
        shown["documentation"] = None
    return shown


SERVED = ServedApi(API, 0, 4, _handle, rights=Rights(each=_DESCRIBE))

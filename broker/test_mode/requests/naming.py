"""Finds the groups and topics that a request names, anywhere in its body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from broker.test_mode.requests.error_templates import partitions_of_session
from protocol.messages.fetch import API as FETCH
from protocol.messages.find_coordinator import API as FIND_COORDINATOR

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.request import Request

_GROUPS = frozenset({"group_id", "groups", "groups_names"})
_TOPICS = frozenset({"topic", "topic_name", "topic_names"})
_NOT_TOPICS = frozenset({"protocols", "configs"})
"""The arrays whose elements have a field ``name`` that is not a topic name."""
_GROUP_KEYS = 0
_TOPIC_RESOURCE, _GROUP_RESOURCE = 2, 32


def names_group(request: Request, group_id: str) -> bool:
    """Returns True if the request names the group. Raises ProtocolError if the request can't be
    decoded."""
    return group_id in groups_of(request)


def groups_of(request: Request) -> Iterator[str]:
    """Yields the groups that the request names. Raises ProtocolError if the request can't be
    decoded."""
    value = request.value
    if request.served.api.key == FIND_COORDINATOR.key:
        if value["key_type"] == _GROUP_KEYS:
            yield from (value["key"], *value["coordinator_keys"])
        return
    for _, name, found, kind in _named(value):
        if name in _GROUPS or (name == "resource_name" and kind == _GROUP_RESOURCE):
            yield found


def names_topic(services: Services, request: Request, topic: str) -> bool:
    """Returns True if the request names the topic, by name or by id. An incremental Fetch request
    names all topics of its session. Raises ProtocolError if the request can't be decoded."""
    value = request.value
    there = services.registry.topic(topic)
    topic_id = None if there is None else there.topic_id
    if request.served.api.key == FETCH.key and any(
        wanted.topic in (topic, topic_id) for wanted in partitions_of_session(services, value)
    ):
        return True
    for above, name, found, kind in _named(value):
        if name == "topic_id" and topic_id is not None and found == topic_id:
            return True
        if found == topic and (
            name in _TOPICS
            or (name == "name" and above not in _NOT_TOPICS)
            or (name == "resource_name" and kind == _TOPIC_RESOURCE)
        ):
            return True
    return False


def _named(value: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, int]]:
    """Yields four elements for each primitive value at any depth of ``value``: the name of the
    parent field, the name of the field itself, the primitive value, and the ``resource_type`` of
    the struct (0 if it has none). The parent field contains the struct, alone or in an array; its
    name is "" for the fields of ``value`` itself."""
    todo: list[tuple[str, Mapping[str, Any]]] = [("", value)]
    for above, struct in todo:
        kind = struct.get("resource_type", 0)
        for name, found in struct.items():
            if isinstance(found, dict):
                todo.append((name, found))
            elif isinstance(found, list):
                for each in found:
                    if isinstance(each, dict):
                        todo.append((name, each))
                    else:
                        yield above, name, each, kind
            else:
                yield above, name, found, kind

"""AlterClientQuotas (49): sets or removes quotas of entities. Versions: v1 flexible.

The valid changes of a request are stored in batches; an invalid change does not stop the others.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.authorizer.quota_changes import Edit
from broker.loop.slices import Slices
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NONE,
)
from protocol.messages.alter_client_quotas import API
from security.acls.model import Operation
from security.quotas.entities import ABSENT, Entity, address_of, parse_entity, wrong_quota

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ALTER_CONFIGS = cluster(Operation.ALTER_CONFIGS)
KEPT_TOGETHER = 1000
"""The maximum number of entities whose quotas are stored in one step, which takes 2 ms."""


class Refused(Exception):
    """The entity can't be altered as requested."""


def _handle(services: Services, request: Request) -> None:
    if not is_allowed(services, request, _ALTER_CONFIGS):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return
    request.answer_later(_alter_all(services, request, request.value))


async def _alter_all(services: Services, request: Request, value: dict[str, Any]) -> None:
    slices = services.slicer.work(API.name)
    await slices.pause()
    times: dict[Entity, int] = {}
    read: list[tuple[Entity, Edit] | str] = []
    """For each entry of the request: the requested change, or an error as text. A stored exception
    would keep this frame and all its objects alive."""
    for entry in value["entries"]:
        try:
            entity = await _entity(services, slices, entry["entity"])
            read.append((entity, _edit(entity, entry["ops"])))
            times[entity] = times.get(entity, 0) + 1
        except Refused as refused:
            read.append(str(refused))
        if slices.over:
            await slices.pause()
    edits: dict[Entity, Edit] = {}
    if not value["validate_only"]:
        edits = dict(each for each in read if not isinstance(each, str) and times[each[0]] == 1)
    failed: dict[Entity, str] = {}
    rest = iter(edits.items())
    while some := dict(islice(rest, KEPT_TOGETHER)):
        failed |= await slices.beside(services.quotas.alter(some))
    answers = request.array("entries")
    worst = NONE
    for entry, wanted in zip(value["entries"], read, strict=True):
        error_code, message = _outcome(wanted, times, failed)
        worst = worst or error_code
        answers.append(
            {"error_code": error_code, "error_message": message, "entity": entry["entity"]}
        )
        if slices.over:
            await slices.pause()
    slices.end()
    if services.audit is not None:
        changed = [str(entity) for entity in edits if entity not in failed]
        services.audit.changed_all(request.connection, "client quotas changed", changed)
    request.respond({"entries": answers}, worst)


def _outcome(
    wanted: tuple[Entity, Edit] | str,
    times: Mapping[Entity, int],
    failed: Mapping[Entity, str],
) -> tuple[int, str | None]:
    """Returns the error code and message of one entry. ``wanted`` is the requested change, or an
    error as text."""
    if isinstance(wanted, str):
        return INVALID_REQUEST, wanted
    entity, _ = wanted
    if times[entity] > 1:
        return INVALID_REQUEST, f"Duplicate client quota entity: {entity}"
    if entity in failed:
        return KAFKA_STORAGE_ERROR, failed[entity]
    return NONE, None


async def _entity(services: Services, slices: Slices, parts: list[dict[str, Any]]) -> Entity:
    try:
        entity = parse_entity((part["entity_type"], part["entity_name"]) for part in parts)
    except ValueError as error:
        raise Refused(str(error)) from None
    if entity.ip in (ABSENT, None):
        return entity
    assert entity.ip is not None
    try:
        return Entity(ip=address_of(entity.ip))
    except ValueError:
        pass
    try:
        address = await slices.beside(services.time.in_thread(_resolved, entity.ip))
    except (OSError, UnicodeError):
        raise Refused(f"{entity.ip} is not a valid IP or resolvable host.") from None
    return Entity(ip=address)


def _resolved(host: str) -> str:
    address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    return address_of(str(address))


def _edit(entity: Entity, operations: list[dict[str, Any]]) -> Edit:
    edit: dict[str, float | None] = {}
    for each in operations:
        key = each["key"]
        if key in edit:
            raise Refused(f"Quota key {key} of one entity can't be altered twice in a request")
        value = None if each["remove"] else each["value"]
        # As in Kafka, a quota that is not set, or has an unknown name, may be removed.
        wrong = None if value is None else wrong_quota(entity, key, value)
        if wrong is not None:
            raise Refused(wrong)
        edit[key] = value
    return edit


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    error = error_fields(CLUSTER_AUTHORIZATION_FAILED)
    return {"entries": [{**error, "entity": entry["entity"]} for entry in value["entries"]]}


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights((_ALTER_CONFIGS,)))

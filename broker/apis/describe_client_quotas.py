"""DescribeClientQuotas (48): the quotas of the entities that match a filter.

Versions: v1 flexible.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    UNSUPPORTED_VERSION,
)
from protocol.messages.describe_client_quotas import API
from security.acls.model import Operation
from security.quotas.entities import Component, Entity, UnknownKind, matching, named_parts

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE_CONFIGS = cluster(Operation.DESCRIBE_CONFIGS)
_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""The values of the field match_type in a filter component."""
MATCHED_AT_ONCE = 1000
"""The maximum number of entities that are matched in one step, which takes less than a millisecond.
"""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    if not is_allowed(services, request, _DESCRIBE_CONFIGS):
        _refuse(request, CLUSTER_AUTHORIZATION_FAILED, TEXTS[CLUSTER_AUTHORIZATION_FAILED])
        return
    values = services.quotas.values
    try:
        components = [_component(each) for each in value["components"]]
        matching({}, components, strict=value["strict"])  # raises for invalid components
    except UnknownKind as error:
        _refuse(request, UNSUPPORTED_VERSION, str(error))
        return
    except ValueError as error:
        _refuse(request, INVALID_REQUEST, str(error))
        return
    found: list[Entity] = []
    rest = iter(list(values.items()))
    while some := dict(islice(rest, MATCHED_AT_ONCE)):
        found += matching(some, components, strict=value["strict"])
        yield None
    entries = request.array("entries")
    for entity in found:
        own = values.get(entity)
        if own is None:
            continue  # another request removed the quotas between two steps
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in named_parts(entity)]
        quotas = [{"key": key, "value": quota} for key, quota in sorted(own.items())]
        entries.append({"entity": parts, "values": quotas})
        yield None
    request.respond({"error_code": NONE, "error_message": None, "entries": entries})


def _component(given: dict[str, Any]) -> Component:
    """Converts one component of the request filter. Raises ValueError if it is invalid."""
    kind, how, name = given["entity_type"], given["match_type"], given["match"]
    if not kind:
        raise ValueError("Unexpected empty filter component entity type")
    if how == _EXACT:
        if name is None:
            raise ValueError(f"The filter for {kind} entities is exact and needs an entity name")
        return Component(kind, name=name)
    if name is not None:
        raise ValueError(f"The filter for {kind} entities is not exact but has an entity name")
    if how == _DEFAULT:
        return Component(kind)
    if how == _ANY:
        return Component(kind, is_any=True)
    raise ValueError(f"Unexpected match type {how}")


def _refuse(request: Request, error_code: int, message: str) -> None:
    request.respond({"error_code": error_code, "error_message": message, "entries": None})


SERVED = ServedApi(API, 0, 1, _handle, rights=Rights((_DESCRIBE_CONFIGS,)))

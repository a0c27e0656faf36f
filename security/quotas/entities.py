"""Quota entities: which quota applies to a client, and which clients share it.

An entity consists of a user, a client id, a user and a client id, or an IP address. Each part may
be the default, which applies to all names without a quota of their own. The most specific quota
applies, separately for each quota key. Source: KIP-13, 55, 124, 257, 546, 599, 612; Kafka 3.9
``ClientQuotaManager``, ``ClientQuotaControlManager``.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

OF_CLIENTS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
_WHOLE: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})

ABSENT: Final = ""
"""The value of ``user``, ``client_id`` or ``ip`` in an entity without such a part. No user, client
id or address in a quota has an empty name."""


class Entity(NamedTuple):
    """A quota entity: the name of each part. None means the default entity. `ABSENT` means that the
    entity does not have this part."""

    user: str | None = ABSENT
    client_id: str | None = ABSENT
    ip: str | None = ABSENT

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {'(default)' if name is None else name}" for kind, name in named_parts(self)
        )


def parse_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Returns the entity in a request. For an entity that Kafka rejects, raises ValueError with a
    message for users. Host names are not resolved."""
    given: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise ValueError(f"Unhandled client quota entity type: {kind}")
        if name == ABSENT:
            raise ValueError(f"Empty {kind} not supported")
        if kind in given:
            raise ValueError(f"the entity names {kind} twice")
        given[kind] = name
    if not given:
        raise ValueError("Invalid empty client quota entity")
    if IP in given and len(given) > 1:
        raise ValueError("an ip can't be combined with user or client id")
    return Entity(given.get(USER, ABSENT), given.get(CLIENT_ID, ABSENT), given.get(IP, ABSENT))


def named_parts(entity: Entity) -> list[tuple[str, str | None]]:
    """Returns the type and the name of each part of an entity, as in requests and files."""
    named = zip((USER, CLIENT_ID, IP), entity, strict=True)
    return [(kind, name) for kind, name in named if name != ABSENT]


def wrong_quota(entity: Entity, key: str, value: float | None) -> str | None:
    """Returns a message for users if the entity can't have this quota; None for a valid quota. The
    ``value`` None removes the quota."""
    allowed = (CONNECTION_CREATION_RATE,) if entity.ip != ABSENT else OF_CLIENTS
    if key not in allowed:
        return f"Invalid configuration key {key}; {entity} supports {', '.join(allowed)}"
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0:
        return f"Quota {key} must be greater than 0"
    if key in _WHOLE and value != int(value):
        return f"Quota {key} must be a whole number"
    return None


def address_of(text: str) -> str:
    """Returns the normal form of an IP address. Raises ValueError if the text is not an IP
    address."""
    return ipaddress.ip_address(text).compressed


Quotas = Mapping[Entity, Mapping[str, float]]
"""The configured quotas: for each entity, the value of each quota key."""


class Found(NamedTuple):
    """The quota that applies to a client."""

    entity: Entity
    """The entity for which the quota is configured."""
    value: float
    shared_by: tuple[str, str]
    """The user and the client id of the clients that share the quota. "" means all users, or all
    client ids."""


def quota_of(quotas: Quotas, key: str, user: str, client_id: str) -> Found | None:
    """Returns the most specific quota of a user's client; None if no quota applies."""
    for entity, shared_by in (
        (Entity(user, client_id), (user, client_id)),
        (Entity(user, None), (user, client_id)),
        (Entity(user), (user, "")),
        (Entity(None, client_id), (user, client_id)),
        (Entity(None, None), (user, client_id)),
        (Entity(None), (user, "")),
        (Entity(ABSENT, client_id), ("", client_id)),
        (Entity(ABSENT, None), ("", client_id)),
    ):
        value = quotas.get(entity, {}).get(key)
        if value is not None:
            return Found(entity, value, shared_by)
    return None


def quota_of_address(quotas: Quotas, address: str) -> float | None:
    """Returns the number of new connections per second that the quota of an address allows; None if
    no quota applies."""
    for entity in (Entity(ip=address), Entity(ip=None)):
        value = quotas.get(entity, {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None


class UnknownKind(ValueError):
    """The type of an entity is unknown."""


class Component(NamedTuple):
    """One component of a filter in DescribeClientQuotas."""

    kind: str
    is_any: bool = False
    """True if the component matches every name and the default entity. False if it matches only
    ``name``."""
    name: str | None = None
    """The name that the component matches; None for the default entity."""


def matching(quotas: Quotas, components: Iterable[Component], *, strict: bool) -> list[Entity]:
    """Returns the entities that have quotas and match all components. If ``strict`` is True, an
    entity must not have components of other types. Raises UnknownKind for an unknown entity type.
    Raises ValueError, with a message for the user, if Kafka rejects the filter."""
    wanted: dict[str, Component] = {}
    for component in components:
        if component.kind not in (USER, CLIENT_ID, IP):
            raise UnknownKind(f"Custom entity type '{component.kind}' not supported")
        if component.kind in wanted:
            raise ValueError(f"Duplicate filter component entity type: {component.kind}")
        wanted[component.kind] = component
    if IP in wanted and len(wanted) > 1:
        raise ValueError(
            "Invalid entity filter component combination: ip can't be combined with others"
        )
    return [
        entity
        for entity, values in quotas.items()
        if values and _matches(entity, wanted, strict=strict)
    ]


def _matches(entity: Entity, wanted: Mapping[str, Component], *, strict: bool) -> bool:
    for kind, name in zip((USER, CLIENT_ID, IP), entity, strict=True):
        component = wanted.get(kind)
        if component is None:
            if strict and wanted and name != ABSENT:
                return False
        elif name == ABSENT or not (component.is_any or component.name == name):
            return False
    return True

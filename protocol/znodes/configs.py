"""``/config/<type>/<name>``: the settings of topics, brokers, clients, users and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from protocol.znodes.fields import Fields, encode

CONFIG = "/config"
TOPICS, BROKERS, CLIENTS, USERS, IPS = "topics", "brokers", "clients", "users", "ips"
DEFAULT = "<default>"
"""The name of the entity whose settings hold for all of its type."""
_ENCODED = frozenset({CLIENTS, USERS, IPS})
"""The types whose names are percent-encoded in paths."""


def entity(kind: str, name: str) -> str:
    """An entity's path below ``/config``, as change notices have it."""
    safe = quote(name, safe="*") if kind in _ENCODED and name != DEFAULT else name
    return f"{kind}/{safe}"


def path(kind: str, name: str) -> str:
    """Where the settings of an entity are."""
    return f"{CONFIG}/{entity(kind, name)}"


def name_of(kind: str, node: str) -> str:
    """The entity's name in the last part of a path."""
    return unquote(node) if kind in _ENCODED else node


def encode_config(settings: Mapping[str, str]) -> bytes:
    """The node's data."""
    return encode({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """An entity's settings; a node without data has none. Raises BadNode."""
    if not data:
        return {}
    fields = Fields(path, data)
    if fields.number("version") != 1:
        raise fields.bad("version", "1")
    return dict(fields.texts("config"))

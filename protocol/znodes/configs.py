"""``/config/<type>/<name>``: the settings of topics, brokers, clients, users and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from protocol.znodes.fields import BadNode, Fields, encode

CONFIG = "/config"
TOPICS, BROKERS, CLIENTS, USERS, IPS = "topics", "brokers", "clients", "users", "ips"
GROUPS = "groups"
"""Consumer groups; only Muster writes their nodes, since Kafka has their settings only in KRaft."""
DEFAULT = "<default>"
"""The name of the default entity of a type, whose settings apply to all entities of the type."""
CLIENT_KINDS = (CLIENTS, USERS, IPS)
"""The types that have quotas and credentials."""
ENCODED_KINDS = (*CLIENT_KINDS, GROUPS)
"""The types whose names are percent-encoded in paths."""
_NOUNS = {CLIENTS: "client-id", USERS: "user", IPS: "ip"}


class ClientEntity(NamedTuple):
    """An entity with quotas or credentials: a client id, a user, a client id of a user, or an
    address."""

    path: str
    """The path of the entity's node below ``/config``, as in notices. Different writers may encode
    the same name differently."""
    parts: tuple[tuple[str, str | None], ...]
    """The type and name of each part of the entity; the name is None for the default entity of the
    type."""

    @property
    def words(self) -> str:
        """The entity in words, such as ``user alice, client-id <default>``."""
        return ", ".join(
            f"{_NOUNS[kind]} {DEFAULT if name is None else name}" for kind, name in self.parts
        )


def entity(kind: str, name: str) -> str:
    """An entity's path below ``/config``, as in change notices."""
    if kind in ENCODED_KINDS and name != DEFAULT:
        name = sanitized(name)
    return f"{kind}/{name}"


def sanitized(text: str) -> str:
    """Returns ``text`` encoded for a path as by Kafka's ``Sanitizer``."""
    return quote(text, safe="").replace("~", "%7E")


def path(kind: str, name: str) -> str:
    """The path of an entity's settings."""
    return f"{CONFIG}/{entity(kind, name)}"


def name_of(kind: str, node: str) -> str:
    """The name of an entity, from the last part of a path."""
    return unquote(node) if kind in ENCODED_KINDS else node


def client_entity(entity_path: str) -> ClientEntity:
    """The entity in a path below ``/config``. Raises BadNode."""
    parts: list[tuple[str, str]] = []
    match entity_path.split("/"):
        case [(("clients" | "users" | "ips") as kind), node]:
            parts = [(kind, node)]
        case ["users", user, "clients", client]:
            parts = [(USERS, user), (CLIENTS, client)]
    if not parts or not all(_is_node(node) for _, node in parts):
        raise BadNode(f"{CONFIG}/{entity_path[:100]}", "does not name a client id, user or address")
    named = ((kind, None if node == DEFAULT else name_of(kind, node)) for kind, node in parts)
    return ClientEntity(entity_path, tuple(named))


def entity_of(parts: Iterable[tuple[str, str | None]]) -> ClientEntity:
    """Returns the entity that consists of these parts. A user must precede its client id; the name
    None means the type's default entity."""
    named = tuple(parts)
    path = "/".join(
        f"{kind}/{DEFAULT if name is None else sanitized(name)}" for kind, name in named
    )
    return ClientEntity(path, named)


def _is_node(name: str) -> bool:
    return name not in ("", ".", "..") and name.isprintable()


def encode_config(settings: Mapping[str, str]) -> bytes:
    """The node's data."""
    return encode({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """An entity's settings; empty for a node without data. Raises BadNode."""
    if not data:
        return {}
    fields = Fields(path, data)
    if fields.number("version") != 1:
        raise fields.bad("version", "1")
    return dict(fields.texts("config"))
